//! Time that the hypervisor gave to others, in ns: what a running thread's own clocks do not
//! account for (METHOD §4). /proc/stat counts it in steps of 10 ms, which is most of a case's
//! window or nothing.

use metal::clock::{Clock, monotonic_raw_ns, vdso_clock_gettime};
use metal::process::rusage_thread;

/// A thread's clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    wall_ns: u64,
    cpu_ns: u64,
    /// Time for which it could have run and others did.
    delay_ns: u64,
    /// Times that it went to sleep.
    sleeps: u64,
}

impl Account {
    /// The account of the calling thread; `None` where the kernel keeps none of run delays.
    pub fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Account {
            delay_ns: text.split_whitespace().nth(1)?.parse().ok()?,
            sleeps: rusage_thread().nvcsw,
            cpu_ns: vdso_clock_gettime(Clock::THREAD_CPU),
            wall_ns: monotonic_raw_ns(),
        })
    }

    /// What was stolen since an earlier account and the time between them, in ns; `None` where the
    /// thread slept, which is not accounted for either. Of any sign: the clocks are not read at
    /// once.
    pub fn since(self, earlier: Account) -> Option<(f64, f64)> {
        let wall_ns = self.wall_ns as f64 - earlier.wall_ns as f64;
        let cpu_ns = self.cpu_ns as f64 - earlier.cpu_ns as f64;
        let delay_ns = self.delay_ns as f64 - earlier.delay_ns as f64;
        (self.sleeps == earlier.sleeps).then_some((wall_ns - cpu_ns - delay_ns, wall_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn what_no_clock_of_the_thread_has_was_stolen_unless_it_slept() {
        let at = |wall_ns, cpu_ns, delay_ns, sleeps| Account { wall_ns, cpu_ns, delay_ns, sleeps };
        let before = at(1_000, 100, 10, 3);
        let after = at(11_000, 8_100, 510, 3);
        assert_eq!(after.since(before), Some((1_500.0, 10_000.0)));
        assert_eq!(at(11_000, 8_100, 510, 4).since(before), None);
        assert_eq!(at(2_000, 1_150, 10, 3).since(before), Some((-50.0, 1_000.0)));
    }
}

//! Sleeps to a given time on a clock of the kernel, and the slack that it takes with them.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::answer::invalid;
use crate::clock::{Clock, timespec, vdso_clock_gettime};
use crate::raw::{self, call};

/// One sleep to a point of a grid, both times on the grid's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// When the sleep was to end.
    pub intended_ns: u64,
    /// The clock at the first moment after it.
    pub actual_ns: u64,
}

impl Wakeup {
    /// How late it was; negative only where the clock was set back.
    pub fn late_ns(&self) -> i64 {
        self.actual_ns.wrapping_sub(self.intended_ns) as i64
    }
}

/// Sleeps until `clock` shows `at_ns`, not at all where it already does (clock_nanosleep(2) with
/// `TIMER_ABSTIME`, by its instruction). Errors: `Interrupted` by a signal that has a handler, a
/// [`Deadline`](crate::deadline::Deadline) among them; a clock without sleeps.
#[inline]
pub fn until(clock: Clock, at_ns: u64) -> io::Result<()> {
    let at = timespec(Duration::from_nanos(at_ns));
    // SAFETY: the kernel reads one timespec, which outlives the call; what would be left of an
    // absolute sleep is not written.
    raw::done(unsafe {
        call!(SYS_clock_nanosleep, clock.id(), libc::TIMER_ABSTIME, &raw const at, 0)
    })
}

/// Sleeps to every point `first_ns + k * spacing_ns` of a grid, one for each place in `wakeups`,
/// and reads the clock after each. The grid does not wait: after a late wake-up the next point is
/// where it was, and one that has passed by then is taken at once, so that no lateness is left out.
/// Only the two calls are made in the loop, and `wakeups` is touched before it. Errors: as
/// [`until`]; how many points were reached is then unknown.
pub fn along_grid(
    clock: Clock,
    first_ns: u64,
    spacing_ns: u64,
    wakeups: &mut [Wakeup],
) -> io::Result<()> {
    let mut at_ns = first_ns;
    for wakeup in wakeups.iter_mut() {
        wakeup.intended_ns = at_ns;
        wakeup.actual_ns = 0;
        at_ns = at_ns.saturating_add(spacing_ns);
    }
    for wakeup in wakeups {
        until(clock, wakeup.intended_ns)?;
        wakeup.actual_ns = vdso_clock_gettime(clock);
    }
    Ok(())
}

/// The time by which the kernel may put off the calling thread's timers, so that it can serve
/// several by one interrupt. Threads under a real-time policy have none, whatever this says.
/// Errors: those of prctl(2): a sandbox forbids it.
pub fn timer_slack_ns() -> io::Result<u64> {
    Ok(current_timer_slack()?)
}

/// A timer slack of the calling thread's, until it is dropped (by the same thread); children and
/// threads made meanwhile inherit it.
#[derive(Debug)]
pub struct TimerSlack {
    before_ns: u64,
}

impl TimerSlack {
    /// Sets the slack; 1 ns is the least that there is. Errors: those of prctl(2); 0, which would
    /// mean the slack that the thread began with; a kernel that did not take it.
    pub fn set(slack_ns: u64) -> io::Result<TimerSlack> {
        let slack_ns = NonZeroU64::new(slack_ns).ok_or_else(|| {
            invalid("a timer slack of 0 ns means the one that the thread began with")
        })?;
        let before_ns = timer_slack_ns()?;
        set_current_timer_slack(Some(slack_ns))?;
        let slack = TimerSlack { before_ns };
        match timer_slack_ns()? {
            found if found == slack_ns.get() => Ok(slack),
            found => Err(io::Error::other(format!(
                "the timer slack was set to {slack_ns} ns and is {found} ns"
            ))),
        }
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(NonZeroU64::new(self.before_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::{TimerSlack, Wakeup, along_grid, timer_slack_ns, until};
    use crate::clock::{Clock, vdso_clock_gettime};
    use crate::deadline::Deadline;
    use std::io::ErrorKind;
    use std::time::Duration;

    #[test]
    fn no_sleep_ends_before_its_time() {
        for clock in [Clock::MONOTONIC, Clock::REALTIME, Clock::BOOTTIME] {
            let at_ns = vdso_clock_gettime(clock) + 300_000;
            until(clock, at_ns).expect("sleeps");
            assert!(vdso_clock_gettime(clock) >= at_ns, "{clock:?}");
            // A point that has passed is no sleep.
            until(clock, at_ns).expect("returns");
            until(clock, 1).expect("returns");
        }
    }

    #[test]
    fn what_cannot_be_slept_on_is_an_error() {
        // A clock without timers, and one that would stand still while its thread sleeps.
        for clock in [Clock::MONOTONIC_COARSE, Clock::THREAD_CPU] {
            let error = until(clock, 1).expect_err("is refused").raw_os_error();
            assert!(
                error == Some(libc::EINVAL) || error == Some(libc::ENOTSUP),
                "{clock:?}: {error:?}"
            );
        }
    }

    #[test]
    fn a_deadline_ends_a_sleep() {
        let _deadline = Deadline::after(Duration::from_millis(1)).expect("is armed");
        let far_ns = vdso_clock_gettime(Clock::MONOTONIC) + 60_000_000_000;
        let error = until(Clock::MONOTONIC, far_ns).expect_err("is interrupted");
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn the_grid_waits_for_nobody() {
        let spacing_ns = 200_000;
        // The first half of the points has passed when the sleeper comes.
        let now_ns = vdso_clock_gettime(Clock::MONOTONIC);
        let first_ns = now_ns - 5 * spacing_ns;
        let mut wakeups = [Wakeup::default(); 10];
        along_grid(Clock::MONOTONIC, first_ns, spacing_ns, &mut wakeups).expect("sleeps");
        let mut before_ns = now_ns;
        for (k, wakeup) in wakeups.iter().enumerate() {
            assert_eq!(wakeup.intended_ns, first_ns + k as u64 * spacing_ns);
            assert!(wakeup.actual_ns >= before_ns && wakeup.late_ns() >= 0);
            before_ns = wakeup.actual_ns;
        }
        assert!(wakeups[0].late_ns() >= 5 * spacing_ns as i64);
    }

    #[test]
    fn a_clock_that_went_back_is_a_negative_lateness() {
        let wakeup = Wakeup { intended_ns: 10, actual_ns: 7 };
        assert_eq!(wakeup.late_ns(), -3);
    }

    #[test]
    fn the_slack_is_the_threads_and_is_put_back() {
        std::thread::spawn(|| {
            let before_ns = timer_slack_ns().expect("is told");
            {
                let _slack = TimerSlack::set(1).expect("is set");
                assert_eq!(timer_slack_ns().expect("is told"), 1);
                {
                    let _other = TimerSlack::set(7_000_000).expect("is set");
                    assert_eq!(timer_slack_ns().expect("is told"), 7_000_000);
                }
                assert_eq!(timer_slack_ns().expect("is told"), 1);
            }
            assert_eq!(timer_slack_ns().expect("is told"), before_ns);
            assert_eq!(
                TimerSlack::set(0).expect_err("has another meaning").kind(),
                ErrorKind::InvalidInput
            );
        })
        .join()
        .expect("does not panic");
    }
}

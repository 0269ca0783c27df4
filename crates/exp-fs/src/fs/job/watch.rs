//! What the kernel, and the device or server below, counted while the operations of a job ran.

use super::account::{Account, Moved};
use super::server::{self, Since};
use bench::device::device_waited_ns;
use host::mountstats::MountStats;
use laws::fs::Mode;
use laws::fs::io::Work;

/// What answers below the files, and counts.
#[derive(Clone, Copy)]
pub(in crate::fs) enum Below<'round> {
    /// `major:minor` of the device; none if no device is known.
    Device(Option<&'round str>),
    /// What a server's file system is mounted on.
    Server(&'round str),
}

pub(super) struct Watch<'round> {
    work: Work,
    below: Below<'round>,
    account: Option<Account>,
    /// Of writes that are to be on the device when they have returned.
    moved: Option<Moved>,
    workers_ns: Option<u64>,
    waited_ns: Option<f64>,
    server: Option<MountStats>,
    since: Option<Since>,
}

pub(in crate::fs) struct Seen {
    pub(in crate::fs) moved: Moved,
    /// CPU time of the kernel's workers for rings, in ns; `None` if the kernel does not report it.
    pub(super) workers_ns: Option<u64>,
    /// Sum of the times that all requests waited for the device below, in ns: over the length of
    /// the run the mean of those in flight there. `None` where no device is known.
    pub(super) waited_ns: Option<f64>,
    /// What the client of a server counted; `None` where it does not.
    pub(in crate::fs) server: Option<Since>,
    /// A device of this machine is below.
    pub(super) is_by_device: bool,
}

impl<'round> Watch<'round> {
    /// Counts from now on.
    pub(super) fn begin(work: Work, below: Below<'round>) -> Watch<'round> {
        let begin = if work.is_read() { Account::begin } else { Account::begin_writes };
        let number = below.device();
        Watch {
            work,
            below,
            workers_ns: workers_ns(work),
            waited_ns: number.and_then(device_waited_ns),
            account: Some(begin(number)),
            moved: None,
            server: below.server(),
            since: None,
        }
    }

    /// All operations have returned, `asked` bytes in all, and nothing else has been synced: what
    /// is to be on the device is counted there by now.
    pub(super) fn operations_are_over(&mut self, asked: u64) {
        let workers = workers_ns(self.work).zip(self.workers_ns);
        self.workers_ns = workers.map(|(now, then)| now.saturating_sub(then));
        let waited = self.below.device().and_then(device_waited_ns);
        self.waited_ns = waited.zip(self.waited_ns).map(|(now, then)| now - then);
        let server = self.server.take().zip(self.below.server());
        self.since = server.and_then(|(before, now)| server::since(&before, &now));
        if self.work.mode != Mode::Buffered {
            self.moved = self.account.take().map(|account| account.end(asked));
        }
    }

    /// The share of what was written that no device took, where one counts.
    pub(super) fn missing_share(&self) -> Option<f64> {
        self.moved.as_ref().filter(|moved| moved.device.is_some())?.cache_share()
    }

    /// What was counted; of writes into memory, what was synced afterwards.
    pub(super) fn end(self, asked: u64) -> Seen {
        let mut moved = match (self.moved, self.account) {
            (Some(moved), _) => moved,
            (None, Some(account)) => account.end(asked),
            (None, None) => unreachable!("an account is open or has ended"),
        };
        if self.work.mode.is_in_memory() {
            // That these do not come from a device, or not at once, is what they are.
            moved.asked = 0;
        }
        let is_by_device = matches!(self.below, Below::Device(_));
        let Watch { workers_ns, waited_ns, since: server, .. } = self;
        Seen { moved, workers_ns, waited_ns, server, is_by_device }
    }
}

impl Below<'_> {
    fn device(&self) -> Option<&str> {
        match self {
            Below::Device(number) => *number,
            Below::Server(_) => None,
        }
    }

    fn server(&self) -> Option<MountStats> {
        match self {
            Below::Device(_) => None,
            Below::Server(target) => server::counters(target),
        }
    }
}

/// CPU time so far of the kernel's workers for rings of this process, in ns; 0 for cases without a
/// ring, `None` if the kernel does not report it. (Their names end in a number of the first
/// namespace of processes, which is not ours in a container; a process has one case at a time.)
fn workers_ns(work: Work) -> Option<u64> {
    if !work.is_ring() {
        return Some(0);
    }
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let dir = task.path();
        let name = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        if name.starts_with("iou-wrk-") {
            let stat = std::fs::read_to_string(dir.join("schedstat")).ok()?;
            let ns: u64 = stat.split_ascii_whitespace().next()?.parse().ok()?;
            total += ns;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::workers_ns;
    use crate::fs::io::workloads::{one, ring};
    use crate::fs::prelude::*;
    use laws::fs::Mode;
    use laws::fs::io::Op;
    use metal::clock::monotonic_ns;
    use metal::io::{Buffers, Latencies, Op as IoOp, Stop, Uring, UringSetup};

    #[test]
    fn the_kernel_s_workers_are_counted_whatever_their_numbers_are() {
        // What a file under /proc answers may sleep: a worker of the kernel's reads it.
        let engine = File::open("/proc/self/status").and_then(|file| {
            let buffers = Buffers::new(1, 64, 1)?;
            Uring::new(file, buffers, UringSetup::REGISTERED)
        });
        let Ok(mut engine) = engine else {
            return skips::test("io-uring");
        };
        let case = ring(Op::Read, Pattern::Random, 4096, 1);
        let before_ns = workers_ns(case).expect("the kernel tells");
        let stop = Stop { until_tick: 0, at_least: 50, at_most: 50 };
        let mut log = Latencies::new(0);
        let ran = engine.run(IoOp::Read, || Some(0), monotonic_ns, stop, &mut log);
        assert_eq!(ran.expect("64 bytes are there").operations, 50);
        let after_ns = workers_ns(case).expect("the kernel tells");
        assert!(after_ns > before_ns, "{before_ns} {after_ns}");
        assert_eq!(workers_ns(one(Op::Read, Pattern::Random, Mode::Direct, 4096)), Some(0));
    }
}

//! What the kernel and the device did while the operations of a case ran.

use crate::fs::file::{Account, Moved};
use anyhow::{Context, Result, ensure};
use bench::device::device_waited_ns;
use laws::fs::io::{Mode, Work};
use metal::memory::base_page_bytes;
use metal::storage::residency;
use std::fs::File;

/// A share of bytes that no device took which is not worth a word.
const SHARE_UNTOLD: f64 = 0.01;

pub(super) struct Watch {
    work: Work,
    number: Option<String>,
    account: Option<Account>,
    /// Of writes that are to be on the device when they have returned.
    moved: Option<Moved>,
    workers_ns: Option<u64>,
    waited_ns: Option<f64>,
}

pub(super) struct Seen {
    /// Where the bytes came from or went to.
    pub(super) moved: Moved,
    /// CPU time of the kernel's workers for rings, in ns; `None` if the kernel does not report it.
    pub(super) workers_ns: Option<u64>,
    /// Sum of the times that all requests waited for the device below, in ns: over the length of
    /// the run the mean of those in flight there. `None` where no device is known.
    pub(super) waited_ns: Option<f64>,
}

impl Watch {
    /// Counts from now on; `number` is that of the device below.
    pub(super) fn begin(work: Work, number: Option<&str>) -> Watch {
        Watch {
            work,
            workers_ns: workers_ns(work),
            waited_ns: number.and_then(device_waited_ns),
            account: Some(match work.is_read() {
                true => Account::begin(number),
                false => Account::begin_writes(number),
            }),
            number: number.map(str::to_owned),
            moved: None,
        }
    }

    /// All operations have returned, `asked` bytes in all, and nothing else has been synced: what
    /// is to be on the device is counted there by now.
    pub(super) fn operations_are_over(&mut self, asked: u64) {
        let workers = workers_ns(self.work).zip(self.workers_ns);
        self.workers_ns = workers.map(|(now, then)| now.saturating_sub(then));
        let waited = self.number.as_deref().and_then(device_waited_ns);
        self.waited_ns = waited.zip(self.waited_ns).map(|(now, then)| now - then);
        if self.work.mode != Mode::Buffered {
            self.moved = self.account.take().map(|account| account.end(asked));
        }
    }

    /// What was counted; of writes into memory, what was synced afterwards.
    pub(super) fn end(self, asked: u64) -> Seen {
        let moved = match (self.moved, self.account) {
            (Some(moved), _) => moved,
            (None, Some(account)) => account.end(asked),
            (None, None) => unreachable!("an account is open or has ended"),
        };
        Seen { moved, workers_ns: self.workers_ns, waited_ns: self.waited_ns }
    }
}

/// Demands of the blocks that were written last at `offsets` that they are on the device, as the
/// case says of itself: past the page cache nothing of them is in it; after a sync nothing is
/// dirty.
pub(super) fn demand_written_down(
    plain: &File,
    work: Work,
    offsets: impl Iterator<Item = u64>,
    watch: &Watch,
) -> Result<()> {
    let page = base_page_bytes() as u64;
    let (mut cached, mut unwritten) = (0, 0);
    for offset in offsets {
        let start = offset / page * page;
        let found = residency(plain, start, offset + work.block - start);
        let found = found.context("reading the page-cache state of the written blocks")?;
        cached += found.cached;
        unwritten += found.dirty + found.writeback;
    }
    ensure!(
        work.mode != Mode::Direct || cached == 0,
        "cache: O_DIRECT is faked here: {cached} pages of the last written blocks are in the page \
         cache, {unwritten} not yet on the device"
    );
    // A journal of data has it on the device before its page is clean.
    let share = watch.moved.as_ref().and_then(Moved::cache_share);
    let is_taken = watch.moved.as_ref().is_some_and(|moved| moved.device.is_some())
        && share.is_some_and(|share| share <= SHARE_UNTOLD);
    ensure!(
        unwritten == 0 || is_taken,
        "cache: the sync is faked here: {unwritten} pages of the last written and synced blocks \
         are not on the device"
    );
    Ok(())
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
    use super::super::workloads::{self, one};
    use super::{Watch, demand_written_down, workers_ns};
    use laws::fs::Pattern;
    use laws::fs::io::{Mode, Op};
    use metal::clock::monotonic_ns;
    use metal::fault::evict;
    use metal::io::{Buffers, Latencies, Op as IoOp, Stop, Uring, UringSetup};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    #[test]
    fn writes_that_are_only_in_memory_are_no_direct_or_synced_ones() {
        let file = tempfile::tempfile().expect("a file");
        let told = |mode| {
            let work = one(Op::Write, Pattern::Random, mode, 4096);
            let mut watch = Watch::begin(work, None);
            watch.operations_are_over(16384);
            let offsets = (0..4).map(|index| index * 4096);
            demand_written_down(&file, work, offsets, &watch)
        };
        file.write_all_at(&[7; 16384], 0).expect("room");
        let error = told(Mode::Direct).expect_err("they are in the page cache");
        assert!(error.to_string().starts_with("cache: O_DIRECT"), "{error}");
        let in_memory = metal::storage::file_system(&file).expect("statfs").is_in_memory();
        let counts_dirty = metal::storage::residency(&file, 0, 4096).expect("counted").dirty > 0;
        if in_memory || !counts_dirty {
            return skips::part("kernel", "cachestat of files on a disk");
        }
        for mode in [Mode::Dsync, Mode::BufferedFdatasync] {
            told(mode).expect_err("nobody synced them");
        }
        file.sync_data().expect("syncs");
        told(Mode::Dsync).expect("they are on the device");
        assert!(told(Mode::Direct).is_err(), "they are in the page cache still");
        evict(&file, 0, 0).expect("evicts");
        told(Mode::Direct).expect("as if they had gone past it");
    }

    #[test]
    fn the_kernel_s_workers_are_counted_whatever_their_numbers_are() {
        // What a file under /proc answers may sleep: a worker of the kernel's reads it.
        let ring = File::open("/proc/self/status").and_then(|file| {
            let buffers = Buffers::new(1, 64, 1)?;
            Uring::new(file, buffers, UringSetup::REGISTERED)
        });
        let Ok(mut ring) = ring else {
            return skips::test("io-uring");
        };
        let case = workloads::ring(Op::Read, Pattern::Random, 4096, 1);
        let before_ns = workers_ns(case).expect("the kernel tells");
        let stop = Stop { until_tick: 0, at_least: 50, at_most: 50 };
        let mut log = Latencies::new(0);
        let ran = ring.run(IoOp::Read, || Some(0), monotonic_ns, stop, &mut log);
        assert_eq!(ran.expect("64 bytes are there").operations, 50);
        let after_ns = workers_ns(case).expect("the kernel tells");
        assert!(after_ns > before_ns, "{before_ns} {after_ns}");
        assert_eq!(workers_ns(one(Op::Read, Pattern::Random, Mode::Direct, 4096)), Some(0));
    }
}

//! What the kernel and the device did while the operations of a case ran, and what its threads did,
//! as its figures.

use super::crew::{Did, Task};
use crate::fs::file::{Account, Moved};
use crate::fs::offered::{describe_place, in_ns};
use crate::fs::prelude::*;
use crate::fs::window;
use bench::device::device_waited_ns;
use bench::measure::Settled;
use laws::fs::io::{Mode, Work};
use metal::memory::base_page_bytes;
use metal::storage::residency;

/// Threads should have worked at the same time for this share of the longest of their stretches.
const OVERLAP: f64 = 0.8;

pub(super) fn down(
    bench: &mut Bench,
    case: &Case,
    task: &Task,
    cpus: &[usize],
    mut did: Vec<Did>,
    seen: &Seen,
    settled: Settled,
) -> Result<()> {
    let windows = did.iter_mut().filter_map(|did| did.window.take()).collect();
    let did = did.as_slice();
    let clock = task.clock;
    let (listed, all) = in_ns(clock, did.iter().map(|did| &did.log));
    let is_alone = did.len() == 1;
    let latencies = Values::counted(listed, &all);
    let latencies = if is_alone { latencies } else { latencies.apart() };
    let samples = bench.record(case, "latency", latencies)?;
    describe_place(samples, case, settled);
    describe(samples, task, seen);
    samples.notes.extend(notes(task, cpus, did));
    let operations: u64 = did.iter().map(|did| did.ran.operations).sum();
    let of_all = |value: f64| match is_alone {
        true => Values::batches(operations, vec![value]),
        false => Values::block(value).apart(),
    };
    let steady = task.is_rate.then(|| window::settled(windows)).transpose()?;
    let rate = match (did, &steady) {
        (_, Some(steady)) => steady.rate(),
        ([alone], None) => rate(clock, alone),
        (_, None) => shared_rate(clock, task.work.is_ring(), did)?,
    };
    let block = task.work.block as f64;
    let samples = bench.record(case, "iops", of_all(rate))?;
    if let Some(steady) = &steady {
        steady.describe(samples, block);
    }
    let most: u32 = did.iter().map(|did| did.ran.most_in_flight).sum();
    let at_device = at_device(clock, did, seen).filter(|_| task.work.is_direct());
    let quantities = [
        ("in_flight_mean", Some(did.iter().map(|did| did.ran.mean_in_flight).sum())),
        ("in_flight_most", Some(f64::from(most))),
        ("operations", Some(operations as f64)),
        ("device_in_flight", at_device),
    ];
    samples.set_quantities(quantities);
    let asked = task.work.depth * task.work.threads;
    samples.notes.extend(at_device.and_then(|at_device| queue_note(at_device, asked)));
    bench.record(case, "bandwidth", of_all(rate * block))?;
    let threads_ns: u64 = did.iter().map(|did| did.ran.thread_cpu_ns).sum();
    let cpu_ns = threads_ns + seen.workers_ns.unwrap_or(0);
    let each = cpu_ns as f64 / operations as f64;
    let samples = bench.record(case, "cpu", of_all(each))?;
    let of_ring = seen.workers_ns.filter(|_| task.work.is_ring());
    samples.set_quantities([("workers_ns", of_ring.map(|ns| ns as f64))]);
    let untold =
        "the kernel does not report the CPU time of io_uring workers (/proc/self/task/*/schedstat)";
    samples.notes.extend(seen.workers_ns.is_none().then(|| untold.to_owned()));
    Ok(())
}

/// Operations per second of a thread with a full queue; of all that it did where that was never so
/// long.
fn rate(clock: Clock, did: &Did) -> f64 {
    let ran = &did.ran;
    let steady = ran.steady;
    let (operations, ns) = match steady.operations {
        0 => (ran.operations, clock.between_ns(ran.first_tick, ran.last_tick)),
        operations => (operations, clock.between_ns(steady.from_tick, steady.until_tick)),
    };
    operations as f64 * 1e9 / ns
}

/// Operations per second of all threads in the time in which all worked: from the latest begin to
/// the earliest end of a full queue.
fn shared_rate(clock: Clock, is_ring: bool, did: &[Did]) -> Result<f64> {
    let steady = did.iter().map(|did| did.ran.steady);
    let from = steady.clone().map(|steady| steady.from_tick).max();
    let until = steady.map(|steady| steady.until_tick).min();
    let (from, until) = (from.unwrap_or(0), until.unwrap_or(0));
    ensure!(from < until, "the threads of the case never all worked at the same time");
    let done = |did: &Did| done_by(is_ring, did, until) - done_by(is_ring, did, from);
    let operations: f64 = did.iter().map(done).sum();
    Ok(operations * 1e9 / clock.between_ns(from, until))
}

/// Operations that a thread had done by a tick, the part of the one that it was at included. One
/// after another, each took its share of the run by its latency; of so many that not all are
/// listed, and of a ring's, each as much as any other.
fn done_by(is_ring: bool, did: &Did, tick: u64) -> f64 {
    let (ran, listed) = (&did.ran, did.log.first());
    let evenly = |from: u64, until: u64, operations: u64| {
        let share = tick.saturating_sub(from) as f64 / until.saturating_sub(from).max(1) as f64;
        operations as f64 * share.min(1.0)
    };
    if is_ring {
        let steady = ran.steady;
        return evenly(steady.from_tick, steady.until_tick, steady.operations);
    }
    let sum: u64 = listed.iter().sum();
    if listed.len() as u64 != ran.operations || sum == 0 {
        return evenly(ran.first_tick, ran.last_tick, ran.operations);
    }
    // What is between the operations counts with each as much as it took.
    let run = ran.last_tick - ran.first_tick;
    let scale = sum as f64 / run.max(1) as f64;
    let mut left = tick.saturating_sub(ran.first_tick) as f64 * scale;
    let mut done = 0.0;
    for ticks in listed.iter().map(|ticks| *ticks as f64) {
        if left < ticks {
            return done + left / ticks;
        }
        left -= ticks;
        done += 1.0;
    }
    done
}

/// Mean number of requests at the device over the run, including other processes'.
fn at_device(clock: Clock, did: &[Did], seen: &Seen) -> Option<f64> {
    let first = did.iter().map(|did| did.ran.first_tick).min()?;
    let last = did.iter().map(|did| did.ran.last_tick).max()?;
    let ns = clock.between_ns(first, last);
    (ns > 0.0).then_some(seen.waited_ns? / ns)
}

/// A note if fewer requests were at the device than the case asked for.
fn queue_note(at_device: f64, asked: u64) -> Option<String> {
    (asked > 1 && at_device < asked as f64 / 2.0).then(|| {
        format!(
            "of {asked} operations in flight {at_device:.1} were at the device on average; the \
             others waited in the kernel before submission or after completion"
        )
    })
}

fn describe(samples: &mut Samples, task: &Task, seen: &Seen) {
    let moved = &seen.moved;
    match task.work.mode {
        // That these do not come from a device, or not at once, is what they are.
        Mode::Cached | Mode::Buffered => {
            samples.set_quantities([("device_bytes", moved.by_device().map(|bytes| bytes as f64))]);
        }
        _ => moved.describe(samples),
    }
}

fn notes(task: &Task, cpus: &[usize], did: &[Did]) -> Vec<String> {
    let mut notes: Vec<String> = did.iter().flat_map(|did| did.notes.clone()).collect();
    notes.dedup();
    let own: BTreeSet<usize> = cpus.iter().copied().gather();
    if own.len() < cpus.len() {
        notes.push(format!("{} threads shared {} CPUs", cpus.len(), own.len()));
    }
    let runs = || did.iter().map(|did| &did.ran);
    let begin = runs().map(|ran| ran.first_tick).max().unwrap_or(0);
    let end = runs().map(|ran| ran.last_tick).min().unwrap_or(0);
    let longest = runs().map(|ran| ran.last_tick - ran.first_tick).max();
    let overlap = end.saturating_sub(begin) as f64 / longest.unwrap_or(1).max(1) as f64;
    if overlap < OVERLAP {
        notes.push(format!(
            "all threads worked at the same time for only {:.0} % of the slowest thread's time; \
             the rate covers that part",
            100.0 * overlap
        ));
    }
    if task.clock == Clock::Monotonic && cpus.len() > 1 {
        notes.push("timed by the kernel's clock".to_owned());
    }
    notes
}

/// Below this share, bytes that no device took are not mentioned.
const SHARE_IGNORED: f64 = 0.01;

pub(super) struct Watch<'round> {
    work: Work,
    number: Option<&'round str>,
    account: Option<Account>,
    /// Of writes that are to be on the device when they have returned.
    moved: Option<Moved>,
    workers_ns: Option<u64>,
    waited_ns: Option<f64>,
}

pub(super) struct Seen {
    pub(super) moved: Moved,
    /// CPU time of the kernel's workers for rings, in ns; `None` if the kernel does not report it.
    pub(super) workers_ns: Option<u64>,
    /// Sum of the times that all requests waited for the device below, in ns: over the length of
    /// the run the mean of those in flight there. `None` where no device is known.
    pub(super) waited_ns: Option<f64>,
}

impl<'round> Watch<'round> {
    /// Counts from now on; `number` is that of the device below.
    pub(super) fn begin(work: Work, number: Option<&'round str>) -> Watch<'round> {
        let begin = if work.is_read() { Account::begin } else { Account::begin_writes };
        Watch {
            work,
            number,
            workers_ns: workers_ns(work),
            waited_ns: number.and_then(device_waited_ns),
            account: Some(begin(number)),
            moved: None,
        }
    }

    /// All operations have returned, `asked` bytes in all, and nothing else has been synced: what
    /// is to be on the device is counted there by now.
    pub(super) fn operations_are_over(&mut self, asked: u64) {
        let workers = workers_ns(self.work).zip(self.workers_ns);
        self.workers_ns = workers.map(|(now, then)| now.saturating_sub(then));
        let waited = self.number.and_then(device_waited_ns);
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

/// Checks that the blocks written last at `offsets` are on the device, as the case promises: a direct
/// write leaves none in the page cache, a sync leaves none dirty.
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
        && share.is_some_and(|share| share <= SHARE_IGNORED);
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
    use super::super::crew::Did;
    use super::super::workloads::{self, one};
    use super::{Seen, Watch, at_device, demand_written_down, queue_note, shared_rate, workers_ns};
    use crate::fs::file::Account;
    use crate::fs::prelude::*;
    use bench::measure::Clock;
    use laws::fs::io::{Mode, Op};
    use metal::clock::monotonic_ns;
    use metal::fault::evict;
    use metal::io::{Buffers, Latencies, Op as IoOp, Ran, Steady, Stop, Uring, UringSetup};

    fn did(latencies: &[u64], begin: u64) -> Did {
        let mut log = Latencies::new(100);
        latencies.iter().for_each(|ticks| log.add(*ticks));
        let (operations, end) = (latencies.len() as u64, begin + latencies.iter().sum::<u64>());
        Did {
            ran: Ran {
                operations,
                bytes: operations,
                first_tick: begin,
                last_tick: end,
                steady: Steady { from_tick: begin, until_tick: end, operations },
                most_in_flight: 1,
                mean_in_flight: 1.0,
                thread_cpu_ns: 1,
            },
            log,
            window: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_rate_of_several_is_that_of_the_time_in_which_all_worked() {
        // One ends at 40 ns; what the other is slow with afterwards is not both's.
        let both = [did(&[10; 4], 0), did(&[10, 10, 10, 50], 0)];
        let rate = shared_rate(Clock::Monotonic, false, &both).expect("they met");
        assert!((rate - 7.2 / 40.0 * 1e9).abs() < 1.0, "{rate}");
        // Of one that began earlier only what it did from then on counts.
        let both = [did(&[10; 8], 0), did(&[20; 2], 35)];
        let rate = shared_rate(Clock::Monotonic, false, &both).expect("they met");
        assert!((rate - (4.0 + 2.0) / 40.0 * 1e9).abs() < 1.0, "{rate}");
        let apart = [did(&[10; 4], 0), did(&[10; 4], 40)];
        assert!(shared_rate(Clock::Monotonic, false, &apart).is_err());
    }

    #[test]
    fn what_was_at_the_device_is_told_where_it_is_little() {
        let seen = Seen {
            moved: Account::begin(None).end(0),
            workers_ns: Some(0),
            waited_ns: Some(4000.0),
        };
        let mean = at_device(Clock::Monotonic, &[did(&[100; 5], 0)], &seen);
        assert_eq!(mean, Some(8.0));
        assert!(queue_note(8.0, 128).is_some_and(|note| note.contains("8.0")));
        assert_eq!(queue_note(8.0, 16), None);
        assert_eq!(queue_note(0.3, 1), None, "one is there, or on its way");
    }

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

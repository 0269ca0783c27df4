use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::{Buffers, Failure, Latencies, Op, Psync, Ran, Stop, Uring, UringSetup};
use crate::clock::monotonic_ns;
use crate::fault::unlinked;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A file whose block `n` begins with `n`.
fn numbered() -> File {
    let file = unlinked(&std::env::temp_dir()).unwrap();
    let mut block = vec![0x5a; BLOCK];
    for number in 0..BLOCKS {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block, number * BLOCK as u64).unwrap();
    }
    file
}

fn buffers(count: usize) -> Buffers {
    Buffers::new(count, BLOCK, 7).unwrap()
}

/// A ring, or none where it is forbidden here.
fn uring(file: File, depth: usize, setup: UringSetup) -> Option<Uring> {
    match Uring::new(file, buffers(depth), setup) {
        Ok(ring) => Some(ring),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            skips::part("io-uring", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// `count` operations, however long they take.
fn exactly(count: u64) -> Stop {
    Stop { until_tick: 0, at_least: count, at_most: u64::MAX }
}

/// The blocks in turn, from the first.
fn in_turn() -> impl FnMut() -> Option<u64> {
    let mut next = 0;
    move || {
        let offset = next % BLOCKS * BLOCK as u64;
        next += 1;
        Some(offset)
    }
}

/// A run over the blocks in turn, by the clock.
macro_rules! run {
    ($engine:expr, $op:expr, $count:expr, $log:expr) => {
        $engine.run($op, in_turn(), monotonic_ns, exactly($count), $log)
    };
}

fn blocks(file: &File, count: u64) -> Vec<Vec<u8>> {
    let block = |number| {
        let mut block = vec![0; BLOCK];
        file.read_exact_at(&mut block, number * BLOCK as u64).unwrap();
        block
    };
    (0..count).map(block).collect()
}

fn different(mut blocks: Vec<Vec<u8>>) -> usize {
    blocks.sort();
    blocks.dedup();
    blocks.len()
}

fn number_of(block: &[u8]) -> u64 {
    u64::from_le_bytes(*block.first_chunk().unwrap())
}

fn keeps_its_books(ran: &Ran, operations: u64, log: &Latencies) {
    assert_eq!(ran.operations, operations);
    assert_eq!(ran.bytes, operations * BLOCK as u64);
    assert!(ran.first_tick <= ran.steady.from_tick);
    assert!(ran.steady.from_tick <= ran.steady.until_tick);
    assert!(ran.steady.until_tick <= ran.last_tick);
    assert!(ran.steady.operations <= operations);
    let longest = log.first().iter().max().copied().unwrap_or(0);
    assert!(longest <= ran.last_tick - ran.first_tick);
}

#[test]
fn reads_one_after_another_give_what_is_there() {
    let mut engine = Psync::new(numbered(), buffers(3));
    let mut log = Latencies::new(4);
    let ran = run!(engine, Op::Read, 10, &mut log).unwrap();
    keeps_its_books(&ran, 10, &log);
    assert_eq!((log.total(), log.first().len()), (10, 4));
    assert_eq!((ran.steady.operations, ran.most_in_flight), (10, 1));
    for index in 0..3 {
        let offset = engine.offset_of(index).unwrap();
        assert_eq!(number_of(engine.buffers().get(index)), offset / BLOCK as u64);
    }
}

#[test]
fn a_ring_reads_what_is_there_at_every_depth_and_setup() {
    for depth in [1, 2, 16, 48] {
        for (registered_file, registered_buffers) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let setup = UringSetup { registered_file, registered_buffers };
            let Some(mut engine) = uring(numbered(), depth, setup) else { return };
            let mut log = Latencies::new(1000);
            let count = 8 * depth as u64;
            let ran = run!(engine, Op::Read, count, &mut log).unwrap();
            keeps_its_books(&ran, count, &log);
            assert_eq!(ran.most_in_flight, depth as u32);
            assert!(ran.mean_in_flight <= depth as f64 && ran.mean_in_flight > 0.0);
            // Those too that completed while the queue emptied.
            assert_eq!(log.total(), count);
            assert!(depth == 1 || ran.steady.operations < count);
            for index in 0..depth {
                let offset = engine.offset_of(index).unwrap();
                assert_eq!(number_of(engine.buffers().get(index)), offset / BLOCK as u64);
            }
            // A second run on the same ring.
            let again = run!(engine, Op::Read, 5, &mut log);
            assert_eq!(again.unwrap().operations, 5);
        }
    }
}

/// The device begins on the first four while the rest is prepared.
#[test]
fn a_ring_submits_four_operations_at_a_time() {
    let Some(mut engine) = uring(numbered(), 32, UringSetup::REGISTERED) else { return };
    // The clock is read once for each submission: it counts them.
    let (submissions, seen_at) = (Cell::new(0), Cell::new(Vec::new()));
    let now = || {
        submissions.set(submissions.get() + 1);
        submissions.get()
    };
    let mut next = in_turn();
    let offsets = || {
        let mut all = seen_at.take();
        all.push(submissions.get());
        seen_at.set(all);
        next()
    };
    let stop = exactly(32);
    let ran = engine.run(Op::Read, offsets, now, stop, &mut Latencies::new(32));
    assert_eq!(ran.unwrap().most_in_flight, 32);
    let fours = seen_at.take();
    let fours = fours[..32].chunks(4);
    let mut before = 0;
    for four in fours {
        assert!(four.iter().all(|one| *one == four[0]), "{four:?}");
        assert!(four[0] > before, "{four:?} after {before}");
        before = four[0];
    }
}

#[test]
fn the_slowest_operation_is_logged_though_it_is_the_last() {
    let (read, mut write) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(read));
    let Some(mut engine) = uring(file, 4, UringSetup::REGISTERED) else { return };
    write.write_all(&[1; 3 * BLOCK]).unwrap();
    // A clock of its own, which tells the other end how often it was looked at.
    let (looked, looks) = std::sync::mpsc::channel();
    let ticks = Cell::new(0);
    let now = move || {
        ticks.set(ticks.get() + 1);
        let _ = looked.send(());
        ticks.get()
    };
    let mut log = Latencies::new(4);
    let ran = std::thread::scope(|scope| {
        scope.spawn(move || {
            // The last block comes after the first completions were seen: begin, submission, sight.
            for _ in 0..3 {
                looks.recv().unwrap();
            }
            write.write_all(&[2; BLOCK]).unwrap();
            // Until the run is over, so that no read meets the end.
            while looks.recv().is_ok() {}
        });
        engine.run(Op::Read, in_turn(), now, exactly(4), &mut log)
    });
    let ran = ran.unwrap();
    assert_eq!((ran.operations, log.total()), (4, 4));
    let (last, others) = log.first().split_last().unwrap();
    assert!(others.iter().all(|ticks| ticks < last), "{others:?} {last}");
}

#[test]
fn what_is_written_one_after_another_has_nothing_in_common() {
    // Eight blocks, and two operations in flight or one: no block comes again among eight.
    let bodies = |file: &File| {
        different(blocks(file, 8).into_iter().map(|block| block[8..].to_vec()).collect())
    };
    let mut log = Latencies::new(0);
    let mut engine = Psync::new(numbered(), buffers(8));
    let ran = run!(engine, Op::Write, 8, &mut log);
    assert_eq!(ran.unwrap().operations, 8);
    assert_eq!(bodies(engine.file()), 8);
    for depth in [1, 2, 8] {
        let ring = Uring::with_depth(numbered(), buffers(8), depth, UringSetup::REGISTERED);
        let Ok(mut engine) = ring else { return skips::test("io-uring") };
        let ran = run!(engine, Op::Write, 8, &mut log);
        assert_eq!(ran.unwrap().most_in_flight, depth as u32);
        assert_eq!(bodies(engine.file()), 8, "depth {depth}");
        // A failure names the place of the operation that met it, whichever block it had.
        let end = BLOCKS * BLOCK as u64;
        let mut offsets = [0, 4096, end].into_iter();
        let failed = engine.run(Op::Read, || offsets.next(), monotonic_ns, exactly(9), &mut log);
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Failure::Short { offset, .. } if offset == end), "{failed}");
    }
    for (count, depth) in [(8, 3), (2, 4), (8, 0)] {
        let refused = Uring::with_depth(numbered(), buffers(count), depth, UringSetup::REGISTERED);
        assert!(refused.is_err(), "{count} blocks, depth {depth}");
    }
}

#[test]
fn written_blocks_are_all_different_and_arrive() {
    let unlike = |file: &File| {
        let blocks = blocks(file, BLOCKS);
        assert!(blocks.iter().all(|block| block[8..] != [0x5a; BLOCK - 8]));
        assert_eq!(different(blocks) as u64, BLOCKS);
    };
    let mut log = Latencies::new(0);
    for op in [Op::Write, Op::WriteSynced] {
        let mut engine = Psync::new(numbered(), buffers(2));
        let ran = run!(engine, op, BLOCKS, &mut log);
        assert_eq!(ran.unwrap().bytes, BLOCKS * BLOCK as u64);
        unlike(engine.file());
    }
    if let Some(mut engine) = uring(numbered(), 8, UringSetup::REGISTERED) {
        let ran = run!(engine, Op::Write, BLOCKS, &mut log);
        assert_eq!(ran.unwrap().operations, BLOCKS);
        unlike(engine.file());
        let refused = run!(engine, Op::WriteSynced, 1, &mut log);
        assert!(matches!(refused, Err(Failure::Engine(_))));
    }
}

#[test]
fn a_run_ends_by_time_by_count_and_where_the_offsets_end() {
    let mut engine = Psync::new(numbered(), buffers(1));
    let mut log = Latencies::new(0);
    // A clock of its own: a tick for every look at it.
    let ticks = Cell::new(0);
    let now = || {
        ticks.set(ticks.get() + 1);
        ticks.get()
    };
    let stop = |until_tick, at_least, at_most| Stop { until_tick, at_least, at_most };
    // One look before, two for each operation: the fifth ends at tick 11.
    let ran = engine.run(Op::Read, in_turn(), now, stop(11, 0, 99), &mut log);
    assert_eq!(ran.unwrap().operations, 5);
    let ran = engine.run(Op::Read, in_turn(), now, stop(0, 7, 99), &mut log);
    assert_eq!(ran.unwrap().operations, 7);
    let ran = engine.run(Op::Read, in_turn(), now, stop(u64::MAX, 0, 3), &mut log);
    assert_eq!(ran.unwrap().operations, 3);
    let mut two = [0, 4096].into_iter();
    let ran = engine.run(Op::Read, || two.next(), now, stop(u64::MAX, 0, 9), &mut log);
    assert_eq!(ran.unwrap().operations, 2);
    // What the log has: each operation took one tick of this clock.
    assert_eq!(log.counts().collect::<Vec<_>>(), [(1, 17)]);
    let none = engine.run(Op::Read, || None, now, stop(u64::MAX, 9, 9), &mut log);
    assert_eq!(none.unwrap().most_in_flight, 0);
}

#[test]
fn what_is_not_there_is_a_short_read_with_its_offset() {
    let end = BLOCKS * BLOCK as u64 - 100;
    let offsets = || {
        let mut list = [0, 4096, end, 8192].into_iter();
        move || list.next()
    };
    let is_told = |failure: Failure| {
        assert_eq!(failure.raw_os_error(), None);
        let Failure::Short { offset, moved, .. } = failure else { panic!("{failure}") };
        assert_eq!((offset, moved), (end, 100));
    };
    let mut log = Latencies::new(0);
    let mut engine = Psync::new(numbered(), buffers(1));
    is_told(engine.run(Op::Read, offsets(), monotonic_ns, exactly(9), &mut log).unwrap_err());
    if let Some(mut engine) = uring(numbered(), 4, UringSetup::REGISTERED) {
        is_told(engine.run(Op::Read, offsets(), monotonic_ns, exactly(9), &mut log).unwrap_err());
        // Nothing is left in flight: the ring goes on.
        let ran = run!(engine, Op::Read, 9, &mut log);
        assert_eq!(ran.unwrap().operations, 9);
    }
}

#[test]
fn an_error_of_the_kernel_is_told_with_its_offset() {
    // The same file, opened again without the right to write.
    let read_only = || {
        let file = numbered();
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
    };
    let is_told = |failure: Failure| {
        assert_eq!(failure.raw_os_error(), Some(libc::EBADF));
        let Failure::Operation { op, offset, bytes, .. } = failure else { panic!("{failure}") };
        assert_eq!((op, offset, bytes), (Op::Write, 0, BLOCK));
    };
    let mut log = Latencies::new(0);
    let mut engine = Psync::new(read_only(), buffers(1));
    let refused = run!(engine, Op::Write, 1, &mut log);
    is_told(refused.unwrap_err());
    if let Some(mut engine) = uring(read_only(), 1, UringSetup::REGISTERED) {
        let refused = run!(engine, Op::Write, 1, &mut log);
        is_told(refused.unwrap_err());
    }
}

#[test]
fn a_full_device_is_told_as_such() {
    // /dev/full refuses every write.
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(file) = full() else { return skips::part("kernel", "/dev/full") };
    let mut log = Latencies::new(0);
    let mut engine = Psync::new(file, buffers(1));
    let refused = run!(engine, Op::Write, 1, &mut log);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    if let Some(mut engine) = uring(full().unwrap(), 2, UringSetup::REGISTERED) {
        let refused = run!(engine, Op::Write, 4, &mut log);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
}

#[test]
fn blocks_are_aligned_filled_and_refused_when_there_are_none() {
    let buffers = Buffers::new(3, 1000, 1).unwrap();
    for index in 0..3 {
        let block = buffers.get(index);
        assert_eq!((block.len(), block.as_ptr() as usize % BLOCK), (1000, 0));
        let zeros = block.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < 40, "{zeros}");
    }
    assert_ne!(buffers.get(0), buffers.get(1));
    for (count, bytes) in [(0, 1), (1, 0), (usize::MAX, 2)] {
        let refused = Buffers::new(count, bytes, 1).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_ring_that_panics_waits_for_what_it_has() {
    let Some(engine) = uring(numbered(), 4, UringSetup::REGISTERED) else { return };
    let engine = std::cell::RefCell::new(Some(engine));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut engine = engine.borrow_mut().take().unwrap();
        let mut left = 6;
        let offsets = || {
            left -= 1;
            assert!(left > 0, "on purpose");
            Some(0)
        };
        let mut log = Latencies::new(0);
        let _ = engine.run(Op::Read, offsets, monotonic_ns, exactly(9), &mut log);
    }));
    assert!(outcome.is_err());
}

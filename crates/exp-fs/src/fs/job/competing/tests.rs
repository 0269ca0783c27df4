use super::{As, Fault, Shared, explained};
use crate::fs::file::{seed_of, write};
use crate::fs::io::workloads::one;
use crate::fs::job::{BLOCK_BYTES, Below, Job, Region};
use crate::fs::prelude::*;
use bench::measure::team::all_of;
use laws::fs::Mode;
use laws::fs::io::Op;
use std::fs::OpenOptions;

const BLOCKS: u64 = 16;
const BYTES: u64 = BLOCKS * BLOCK_BYTES as u64;

fn path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("file-{index}"))
}

fn files(dir: &Path, count: usize) {
    for index in 0..count {
        let path = path(dir, index);
        write(dir, &format!("file-{index}"), BYTES, seed_of(&path), "").expect("room");
    }
}

/// Readers of files through the page cache: what they do does not depend on it.
fn shared(dir: &Path, count: usize, pattern: Pattern, mode: Mode, kind: As) -> Result<Shared> {
    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    let region = |index| Region { path: path(dir, index), start: 0, bytes: BYTES, first: None };
    let job = Job {
        work: one(Op::Read, pattern, mode, BLOCK_BYTES as u64),
        regions: (0..count).map(region).collect(),
        pass: None,
        seed: 5,
        clock: Clock::Monotonic,
        window_ns: 1_000_000,
        is_rate: false,
        least: 1,
        most: u64::MAX,
        below: Below::Device(None),
        cpus: cpus.iter().copied().cycle().take(count).collect(),
        is_free: false,
    };
    // On a thread of its own, because the first reader is pinned there.
    let work = || {
        metal::place::pin(job.cpus[0]).expect("it is allowed");
        job.competing(kind)
    };
    std::thread::scope(|scope| scope.spawn(work).join().expect("does not panic"))
}

#[test]
fn all_have_reads_in_the_window_that_they_share() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path(), 4);
    for (kind, pattern, count) in [
        (As::Processes, Pattern::Sequential, 4),
        (As::Processes, Pattern::Random, 4),
        (As::Threads, Pattern::Sequential, 4),
        (As::Processes, Pattern::Sequential, 1),
        (As::Threads, Pattern::Sequential, 1),
    ] {
        let shared = shared(dir.path(), count, pattern, Mode::Cached, kind);
        let shared = shared.unwrap_or_else(|error| panic!("{kind:?}: {error:#}"));
        assert!(shared.window_ns >= 1e6, "{}", shared.window_ns);
        assert_eq!(shared.readers.len(), count);
        for reader in &shared.readers {
            assert!(reader.reads > 0 && reader.units > 0.0 && reader.ticks > 0, "{reader:?}");
            // What is asked for is more: before and after the window.
            assert!(reader.asked as f64 >= reader.units, "{reader:?}");
            assert!(reader.cpu_ns > 0, "{reader:?}");
            // No reader reads for longer than the window in it.
            assert!(reader.cpu_ns as f64 <= 50.0 * shared.window_ns);
        }
        let measured = &shared.readers[0];
        assert_eq!(shared.latencies.first().len() as u64, measured.reads);
        assert_eq!(shared.latencies.first().iter().sum::<u64>(), measured.ticks);
    }
}

/// A file that ends early, found by whoever reads it while the others read theirs.
#[test]
fn a_read_that_fails_is_named_and_ends_all() {
    for &kind in As::ALL {
        for bad in [0, 2] {
            let dir = tempfile::tempdir().expect("a directory");
            files(dir.path(), 3);
            let short = OpenOptions::new().write(true).open(path(dir.path(), bad));
            short.expect("opens").set_len(100).expect("shortens");
            let result = shared(dir.path(), 3, Pattern::Sequential, Mode::Cold, kind);
            let error = result.expect_err("100 bytes are no block");
            let text = format!("{error:#}");
            if text.contains("cache:") {
                return skips::test("file-system");
            }
            let name = ["the measured reader", "", "competitor 2"][bad];
            assert!(text.starts_with(name), "{kind:?}: {text}");
            let cause = error.root_cause().downcast_ref::<std::io::Error>().expect("of the read");
            assert_eq!(cause.kind(), std::io::ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn a_file_that_is_gone_is_named_and_the_others_end() {
    for &kind in As::ALL {
        let dir = tempfile::tempdir().expect("a directory");
        files(dir.path(), 2);
        let result = shared(dir.path(), 3, Pattern::Sequential, Mode::Cached, kind);
        let text = format!("{:#}", result.expect_err("one is gone"));
        assert!(text.starts_with("competitor 2") && text.contains("file-2"), "{kind:?}: {text}");
    }
}

#[test]
fn what_nobody_wrote_is_a_wrong_result() {
    let dir = tempfile::tempdir().expect("a directory");
    files(dir.path(), 1);
    write(dir.path(), "file-1", BYTES, 77, "").expect("room");
    for &kind in As::ALL {
        let result = shared(dir.path(), 2, Pattern::Sequential, Mode::Cached, kind);
        let error = result.expect_err("another file's data");
        assert!(error.is::<WrongResult>(), "{error:#}");
        assert!(error.to_string().starts_with("competitor 1"), "{error:#}");
    }
}

#[test]
fn whose_fault_it_was_is_told_and_not_who_waited() {
    let told = |faults: [Option<Fault>; 3]| {
        let one = |(number, fault): (usize, Option<Fault>)| {
            fault.map_or(Ok(()), |fault| Err(explained(number, fault)))
        };
        let outcomes = faults.into_iter().enumerate().map(one);
        all_of(outcomes).map(drop).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(told([None; 3]), Ok(()));
    let (other, lost) = (Some(Fault::OtherFailed), Some(Fault::Lost));
    let failed = told([lost, other, Some(Fault::System(5))]);
    assert!(failed.is_err_and(|text| text.starts_with("competitor 2: reading")));
    let wrong = told([other, Some(Fault::Body(super::WRONG)), lost]);
    assert!(wrong.is_err_and(|text| text.starts_with("competitor 1 read a block")));
    let lost = told([lost, other, other]);
    assert!(lost.is_err_and(|text| text.starts_with("the measured reader")));
}

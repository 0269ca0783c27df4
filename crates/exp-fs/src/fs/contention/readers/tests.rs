use super::{As, EACH, End, Errand, Meeting, Reader, SHARED, read};
use crate::fs::file::{BLOCK_BYTES, write};
use crate::fs::prelude::*;
use metal::memory::SharedWords;
use std::fs::OpenOptions;

const BLOCKS: u64 = 16;

fn files(dir: &Path, count: u64) -> Vec<File> {
    let bytes = BLOCKS * BLOCK_BYTES as u64;
    let write = |seed| {
        let name = format!("file-{seed}");
        let path = write(dir, &name, bytes, seed, "").expect("room");
        File::open(path).expect("it is there")
    };
    (0..count).map(write).collect()
}

/// Readers of files through the page cache: what they do does not depend on it.
fn readers<'file>(files: &'file [File], cpus: &[usize], random: bool) -> Vec<Reader<'file>> {
    let numbered = files.iter().zip(cpus.iter().cycle()).enumerate();
    numbered
        .map(|(number, (file, cpu))| Reader {
            file,
            seed: number as u64,
            blocks: BLOCKS,
            first: number as u64 + 5,
            random,
            cpu: *cpu,
        })
        .collect()
}

fn errand(kind: As) -> Errand {
    Errand { kind, clock: Clock::Monotonic, window_ns: 1e6, is_free: false }
}

/// Runs on a thread of its own, because the first reader is pinned there.
fn on_a_thread<T: Send>(work: impl FnOnce(&[usize]) -> T + Send) -> T {
    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    std::thread::scope(|scope| scope.spawn(|| work(&cpus)).join().expect("does not panic"))
}

#[test]
fn all_have_reads_in_the_window_that_they_share() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = files(dir.path(), 4);
    for (kind, random, count) in [
        (As::Processes, false, 4),
        (As::Processes, true, 4),
        (As::Threads, false, 4),
        (As::Processes, false, 1),
        (As::Threads, false, 1),
    ] {
        let files = &files[..count];
        let shared = on_a_thread(|cpus| read(&readers(files, cpus, random), errand(kind)));
        let shared = shared.unwrap_or_else(|error| panic!("{kind:?}: {error:#}"));
        assert!(shared.window_ns >= 1e6, "{}", shared.window_ns);
        assert_eq!(shared.readers.len(), count);
        for had in &shared.readers {
            assert!(had.reads > 0 && had.units > 0.0 && had.ticks > 0, "{had:?}");
            // What is asked for is more: before and after the window.
            assert!(had.asked as f64 >= had.units * BLOCK_BYTES as f64);
            assert!(had.cpu_ns > 0 && had.cpu_reads > 0, "{had:?}");
            // No reader reads for longer than the window in it.
            assert!(had.cpu_ns as f64 <= 50.0 * shared.window_ns);
        }
        let measured = &shared.readers[0];
        assert_eq!(shared.latencies.len() as u64, measured.reads);
        assert_eq!(shared.latencies.iter().sum::<u64>(), measured.ticks);
    }
}

#[test]
fn a_read_that_fails_is_named_and_ends_all() {
    let dir = tempfile::tempdir().expect("a directory");
    for &kind in As::ALL {
        for bad in [0, 2] {
            let own = tempfile::tempdir().expect("a directory");
            let mut files = files(own.path(), 3);
            files[bad] = File::open(dir.path()).expect("a directory opens, and cannot be read");
            let result = on_a_thread(|cpus| read(&readers(&files, cpus, false), errand(kind)));
            let text = format!("{:#}", result.expect_err("one cannot be read"));
            let name = ["the measured reader", "", "competitor 2"][bad];
            assert!(text.starts_with(name), "{kind:?}: {text}");
            assert!(text.contains("directory"), "{kind:?}: {text}");
        }
    }
}

#[test]
fn a_file_that_ends_early_is_no_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = files(dir.path(), 2);
    let short = OpenOptions::new().write(true).open(dir.path().join("file-1"));
    short.expect("opens").set_len(100).expect("shortens");
    for &kind in As::ALL {
        let result = on_a_thread(|cpus| read(&readers(&files, cpus, false), errand(kind)));
        let error = result.expect_err("100 bytes are no block");
        let cause = error.root_cause().downcast_ref::<std::io::Error>().expect("of the read");
        assert_eq!(cause.kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn what_nobody_wrote_is_a_wrong_result() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = files(dir.path(), 2);
    for &kind in As::ALL {
        let result = on_a_thread(|cpus| {
            let mut readers = readers(&files, cpus, false);
            readers[1].seed = 77;
            read(&readers, errand(kind))
        });
        let error = result.expect_err("another file's data");
        assert!(error.is::<WrongResult>(), "{error:#}");
        assert!(error.to_string().starts_with("competitor 1"), "{error:#}");
    }
}

#[test]
fn whose_fault_it_was_is_told_and_not_who_waited() {
    let words = SharedWords::new(SHARED + 3 * EACH).expect("shared memory");
    let meeting = Meeting { words: &words, errand: errand(As::Processes), readers: 3, begun: 0 };
    let told = |ends: [Result<End>; 3]| {
        let judged = meeting.judge(&ends);
        judged.map_err(|error| format!("{error:#}"))
    };
    assert_eq!(told([Ok(End::Well), Ok(End::Well), Ok(End::Well)]), Ok(()));
    let killed = told([Ok(End::Lost), Ok(End::Other), Err(anyhow!("ended by signal 9"))]);
    assert!(killed.is_err_and(|text| text.ends_with("signal 9")));
    let wrong = told([Ok(End::Other), Ok(End::Wrong), Ok(End::Lost)]);
    assert!(wrong.is_err_and(|text| text.starts_with("competitor 1 read a block")));
    let lost = told([Ok(End::Lost), Ok(End::Other), Ok(End::Other)]);
    assert!(lost.is_err_and(|text| text.contains(" waited ")));
}

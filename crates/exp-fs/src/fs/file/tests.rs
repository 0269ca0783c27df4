use super::{
    BLOCK_BYTES, EVICTION_MOST, EVICTION_STILL, Mode, Patience, open, open_with, order_seed, right,
    write,
};
use laws::fs::READS;
use metal::memory::{Mapping, Pages};
use metal::storage::{Way, residency};
use record::key::CaseId;
use session::fixtures::is_plain;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 20;
const WRITE: Way = Way { write: true, direct: false, dsync: false, sync: false };

#[test]
fn each_case_and_each_round_has_an_order_of_its_own() {
    let case = |mode: &str| CaseId::new().with("pattern", "random").with("mode", mode);
    let direct = order_seed(7, &case("direct"));
    assert_eq!(direct, order_seed(7, &case("direct")));
    assert_ne!(direct, order_seed(7, &case("cold")));
    assert_ne!(direct, order_seed(8, &case("direct")));
}

#[test]
fn pages_that_arrive_are_waited_for_and_pages_that_stay_are_not() {
    let start = Instant::now();
    let mut arriving = Patience::new(start);
    let step = EVICTION_STILL / 2;
    let lasted = (1..100)
        .take_while(|turn| arriving.lasts(start + step * *turn, u64::from(1000 - *turn)))
        .count();
    assert_eq!(step * (lasted as u32 + 1), EVICTION_MOST, "to the last");
    let mut kept = Patience::new(start);
    assert!(kept.lasts(start, 5) && kept.lasts(start + step, 5));
    assert!(!kept.lasts(start + EVICTION_STILL + Duration::from_millis(1), 5));
}

#[test]
fn every_mode_gives_what_was_written_or_says_why_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), "data", BYTES, 5, "").expect("room for 1 MiB");
    let is_plain = is_plain(dir.path());
    for mode in READS {
        let opened = match open(&path, mode) {
            Ok(opened) => opened,
            Err(error) => {
                let text = format!("{error:#}");
                assert!(!is_plain && text.starts_with("cache: O_DIRECT"), "{text}");
                skips::part("file-system", text);
                continue;
            }
        };
        assert_eq!(opened.bytes, BYTES);
        if let Err(error) = opened.make_cold(0, 0) {
            assert!(!is_plain, "{error}");
            skips::part("file-system", error);
            continue;
        }
        let mut buffer = Mapping::new(BLOCK_BYTES, Pages::Base).expect("a page");
        let at = 77 * BLOCK_BYTES as u64;
        let count = opened.file.read_at(buffer.as_mut_slice(), at).expect("reads");
        assert!(count == BLOCK_BYTES && right(buffer.as_slice(), 5, at));
        let resident = residency(&opened.file, 0, BYTES).expect("told").cached;
        match mode {
            Mode::ColdNoReadahead => assert_eq!(resident, 1),
            // Read ahead as far as the device's window goes.
            Mode::Cold | Mode::Cached => assert!(resident >= 1),
            _ => assert_eq!(resident, 0),
        }
        opened.make_cold(at, BLOCK_BYTES as u64).expect("evicts");
        if !mode.is_direct() {
            opened.warm(0, 0).expect("reads");
        }
    }
}

#[test]
fn a_file_in_memory_is_never_cold_and_never_direct() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skips::test("memory-directory");
    };
    let path = write(dir.path(), "data", BYTES, 5, "").expect("room for 1 MiB");
    for mode in READS {
        match (mode, open(&path, mode)) {
            (mode, opened) if mode.is_direct() => {
                let error = opened.err().expect("faked there").to_string();
                assert!(error.contains("faked here: tmpfs"), "{error}");
            }
            (_, opened) => {
                let opened = opened.expect("opens");
                opened.warm(0, 0).expect("it is there");
                let error = opened.make_cold(0, 0).expect_err("stays");
                assert!(error.to_string().starts_with("cache: 256 of 256"), "{error}");
            }
        }
    }
}

#[test]
fn what_was_not_written_yet_is_not_cold() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = write(dir.path(), "data", BYTES, 5, "").expect("room for 1 MiB");
    let opened = open_with(&path, WRITE).expect("opens");
    if let Err(error) = opened.make_cold(0, 0) {
        assert!(!is_plain(dir.path()), "{error}");
        return skips::part("file-system", error);
    }
    opened.file.write_at(&[1; BLOCK_BYTES], 0).expect("writes");
    // Written back meanwhile, or still dirty and reported.
    if let Err(error) = opened.make_cold(0, 0) {
        assert!(error.to_string().contains("1 of 256 pages"), "{error}");
    }
    opened.file.sync_data().expect("syncs");
    opened.make_cold(0, 0).expect("now it is cold");
}

#[test]
fn only_regular_files_are_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = open(dir.path(), Mode::Cached).err().expect("a directory");
    let text = format!("{error:#}");
    assert!(text.contains("not a regular file"), "{text}");
    let link = dir.path().join("link");
    let path = write(dir.path(), "data", BYTES, 5, "").expect("room for 1 MiB");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    assert!(open(&link, Mode::Cached).is_err(), "a link leads elsewhere");
}

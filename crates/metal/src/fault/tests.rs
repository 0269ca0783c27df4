//! Touches are faults, as many as they should be.

use super::{Area, evict, free_bytes, random_readahead, resident_pages, stress_turn, unlinked};
use crate::memory::{Mapping, Pages, base_page_bytes};
use crate::process::rusage_thread;
use std::io::Write;

const PAGES: usize = 64;

/// Minor faults of the calling thread in `body`.
fn faults(body: impl FnOnce()) -> u64 {
    let before = rusage_thread().minflt;
    body();
    rusage_thread().minflt - before
}

fn private(pages: usize) -> Area {
    let mapping = Mapping::new(pages * base_page_bytes(), Pages::Base).unwrap();
    Area::private(mapping).unwrap()
}

#[test]
fn every_touch_of_fresh_memory_is_one_fault_and_the_second_is_none() {
    let page = base_page_bytes();
    for mut area in [private(PAGES), Area::shared(PAGES * page).unwrap()] {
        area.write(0, page, PAGES);
        for _ in 0..3 {
            area.renew(PAGES * page).unwrap();
            assert_eq!(faults(|| area.write(0, page, PAGES)), PAGES as u64);
            assert_eq!(faults(|| area.write(0, page, PAGES)), 0);
        }
        // What was renewed reads as zero, the rest as it was written.
        area.renew(page).unwrap();
        assert_eq!(area.read(0, page, 1), 0);
        assert_ne!(area.read(page, page, 1), 0);
    }
}

#[test]
#[should_panic(expected = "are not inside of")]
fn touches_outside_are_refused() {
    private(4).read(0, base_page_bytes(), 5);
}

#[test]
fn pieces_of_a_file_are_where_they_should_be_and_a_fault_keeps_to_its_piece() {
    let page = base_page_bytes();
    let mut file = unlinked(&std::env::temp_dir()).unwrap();
    for index in 0..8_u64 {
        let words = vec![index + 1; page / 8];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all(&bytes).unwrap();
    }
    let offsets: Vec<u64> = [0, 2, 4, 6].map(|index| index * page as u64).to_vec();
    let mut area = Area::file(&file, page, &offsets).unwrap();
    assert_eq!(area.read(0, page, 4), 1 + 3 + 5 + 7);
    area.renew(4 * page).unwrap();
    assert_eq!(faults(|| assert_eq!(area.read(0, page, 4), 16)), 4);
    // In one piece the kernel may map neighbours: at most as many faults as pages.
    let whole = Area::file(&file, 8 * page, &[0]).unwrap();
    let count = faults(|| assert_eq!(whole.read(0, page, 8), 36));
    assert!((1..=8).contains(&count), "{count}");
}

#[test]
#[should_panic(expected = "only read")]
fn a_mapped_file_is_not_written() {
    let file = unlinked(&std::env::temp_dir()).unwrap();
    file.set_len(base_page_bytes() as u64).unwrap();
    let mut area = Area::file(&file, base_page_bytes(), &[0]).unwrap();
    area.write(0, base_page_bytes(), 1);
}

#[test]
fn residency_follows_writing_and_eviction() {
    let page = base_page_bytes();
    let bytes = 32 * page;
    let mut file = unlinked(&std::env::temp_dir()).unwrap();
    file.write_all(&vec![0x5a; bytes]).unwrap();
    assert_eq!(resident_pages(&file, 0, bytes).unwrap(), 32);
    file.sync_all().unwrap();
    evict(&file, 0, 0).unwrap();
    // A file system in memory keeps all, one of a device keeps none.
    let kept = resident_pages(&file, 0, bytes).unwrap();
    assert!(kept == 0 || kept == 32, "{kept}");
    random_readahead(&file).unwrap();
    free_bytes(&file).unwrap();
    assert!(resident_pages(&file, 1, page).is_err());
}

#[test]
fn every_timed_touch_of_a_turn_is_a_fault_and_its_file_is_gone() {
    let path = std::env::temp_dir().join(format!("plumb-turn-{}", std::process::id()));
    for unlink_first in [false, true] {
        let before = rusage_thread();
        stress_turn(&path, unlink_first).unwrap();
        let after = rusage_thread();
        let faults = after.minflt + after.majflt - before.minflt - before.majflt;
        // Four that are timed, and the first read of shared memory.
        assert!((4..=12).contains(&faults), "{faults}");
        assert!(!path.exists());
    }
}

use super::{BLOCK_BYTES, CACHED_BYTES, PASS_BLOCKS, region_of};
use crate::fs::prelude::*;
use laws::fs::read::Read;
use laws::fs::{Mode, READS};

const MIB: u64 = 1 << 20;

/// Where the region of a round begins, its bytes, where its operations begin, and a pass's blocks.
fn region(mode: Mode, size: u64, round: u32) -> (u64, u64, u64, u64) {
    let read = Read { pattern: Pattern::Sequential, mode, size };
    let (region, pass) = region_of(PathBuf::new(), &read, round);
    (region.start, region.bytes, region.first.expect("it is known"), pass)
}

#[test]
fn passes_go_over_the_whole_file_that_a_device_answers() {
    for bytes in [128 << 10, 17 * MIB, 64 * MIB] {
        for round in 1..5 {
            let (start, of_region, first, pass) = region(Mode::Direct, bytes, round);
            assert_eq!((start, of_region), (0, bytes));
            assert_eq!(pass, PASS_BLOCKS.min(bytes / BLOCK_BYTES as u64));
            assert!(first < bytes && first.is_multiple_of(pass * BLOCK_BYTES as u64));
        }
    }
}

#[test]
fn rounds_begin_a_large_file_at_different_places_and_a_small_one_at_its_begin() {
    let first = |round, bytes| region(Mode::Direct, bytes, round).2;
    let places: BTreeSet<u64> = (1..7).map(|round| first(round, 256 * MIB)).collect();
    assert_eq!(places.len(), 6);
    assert!((1..7).all(|round| first(round, 16 * MIB) == 0));
}

#[test]
fn modes_of_a_round_begin_at_different_places() {
    let device = READS.into_iter().filter(|mode| *mode != Mode::Cached);
    for bytes in [64 * MIB, 256 * MIB] {
        for round in 1..7 {
            let first = |mode| region(mode, bytes, round).2;
            let places: BTreeSet<u64> = device.clone().map(first).collect();
            assert_eq!(places.len(), 4, "{bytes} in round {round}: {places:?}");
        }
    }
}

#[test]
fn of_a_large_cached_file_a_part_is_read() {
    let (start, bytes, ..) = region(Mode::Cached, MIB, 3);
    assert_eq!((start, bytes), (0, MIB));
    for round in 1..9 {
        let (start, bytes, first, _) = region(Mode::Cached, 256 * MIB, round);
        assert_eq!((bytes, first), (CACHED_BYTES, start));
        assert!(start + bytes <= 256 * MIB && start.is_multiple_of(bytes));
    }
}

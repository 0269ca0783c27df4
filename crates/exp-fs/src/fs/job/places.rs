//! Where the operations of a thread go: drawn before the window, so that nothing is drawn inside.

mod timed;

use super::Region;
use anyhow::{Result, ensure};
use laws::fs::io::Work;

/// Random places are drawn from as many pages as this; a larger part of a file is sampled.
const DRAWN: u64 = 1 << 16;
/// Smaller blocks have a page each to themselves.
const PAGE: u64 = 4096;

pub(super) struct Places {
    start: u64,
    end: u64,
    block: u64,
    /// Drawn ones; none where they follow each other.
    drawn: Vec<u64>,
    next: u64,
    left: u64,
}

impl Places {
    /// Places for blocks of `work` in a region. Those that come `once` end, because a second time
    /// they would be in memory; all others go round.
    pub(super) fn new(work: Work, region: &Region, once: bool, seed: u64) -> Result<Places> {
        let (block, start) = (work.block, region.start);
        let mut random = fastrand::Rng::with_seed(seed);
        let slot = if work.is_random() { block.max(PAGE) } else { block };
        let slots = region.bytes / slot;
        ensure!(slots > 0, "a block of {block} bytes is larger than the thread's part of the file");
        let mut places = Places {
            start,
            end: start + slots * slot,
            block,
            drawn: Vec::new(),
            next: start,
            left: u64::MAX,
        };
        match region.first {
            _ if work.is_random() => {
                places.drawn = drawn(&mut random, slots);
                for at in &mut places.drawn {
                    let inside = random.u64(..slot / block) * block;
                    *at = start + *at * slot + inside;
                }
                places.next = 0;
            }
            Some(offset) => places.next = offset,
            // Another begin in each round, or a device remembers what comes first.
            None => places.next = start + random.u64(..slots) * slot,
        }
        if once {
            places.left = places.count();
        }
        Ok(places)
    }

    pub(super) fn count(&self) -> u64 {
        match self.drawn.len() as u64 {
            0 => (self.end - self.start) / self.block,
            drawn => drawn,
        }
    }
}

/// Different numbers below `slots` in drawn order: all of them, or of very many as many as are
/// kept.
fn drawn(random: &mut fastrand::Rng, slots: u64) -> Vec<u64> {
    let mut all: Vec<u64> = match slots <= DRAWN {
        true => (0..slots).collect(),
        // One of each stretch, so that none comes twice.
        false => (0..DRAWN)
            .map(|part| {
                let from = u128::from(slots) * u128::from(part) / u128::from(DRAWN);
                let to = u128::from(slots) * u128::from(part + 1) / u128::from(DRAWN);
                random.u64(from as u64..to as u64)
            })
            .collect(),
    };
    random.shuffle(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::{Places, Region};
    use crate::fs::io::workloads::{KIB, MIB, one};
    use laws::fs::Mode;
    use laws::fs::Pattern::{self, Random, Sequential};
    use laws::fs::io::{Op, Work};
    use std::collections::BTreeSet;

    fn work(pattern: Pattern, mode: Mode, block: u64) -> Work {
        one(Op::Read, pattern, mode, block)
    }

    fn region(start: u64, bytes: u64) -> Region {
        Region { path: "".into(), start, bytes, first: None }
    }

    fn first(places: &mut Places, count: usize) -> Vec<u64> {
        std::iter::from_fn(|| places.next()).take(count).collect()
    }

    #[test]
    fn random_places_cover_the_part_once_before_they_come_again() {
        for (block, slots) in [(4 * KIB, 256), (64 * KIB, 16), (1, 256), (KIB, 256)] {
            let mut places =
                Places::new(work(Random, Mode::Direct, block), &region(MIB, MIB), false, 3)
                    .expect("room");
            let round = first(&mut places, slots);
            let pages: BTreeSet<u64> = round.iter().map(|at| at / block.max(4096)).collect();
            assert_eq!(pages.len(), slots, "{block}");
            assert!(round.iter().all(|at| at % block == 0 && (MIB..2 * MIB).contains(at)));
            assert!(!round.is_sorted());
            assert_eq!(first(&mut places, slots), round, "{block}");
        }
    }

    #[test]
    fn sequential_places_follow_each_other_and_go_round() {
        let mut places =
            Places::new(work(Sequential, Mode::Direct, MIB), &region(0, 4 * MIB), false, 5)
                .expect("room");
        let round = first(&mut places, 8);
        for pair in round.windows(2) {
            assert_eq!(pair[1], (pair[0] + MIB) % (4 * MIB));
        }
    }

    #[test]
    fn each_seed_begins_elsewhere() {
        for pattern in [Random, Sequential] {
            let begin = |seed| {
                let work = work(pattern, Mode::Direct, 4096);
                Places::new(work, &region(0, 64 * MIB), false, seed).expect("room").next()
            };
            let begun: BTreeSet<_> = [7, 8, 7 ^ (1 << 32), 8 ^ (1 << 32)].map(begin).into();
            assert_eq!(begun.len(), 4, "{pattern:?}");
        }
    }

    #[test]
    fn cold_places_come_once() {
        for pattern in [Random, Sequential] {
            let mut places = Places::new(work(pattern, Mode::Cold, 4096), &region(0, MIB), true, 1)
                .expect("room");
            let all: BTreeSet<u64> = first(&mut places, 1000).into_iter().collect();
            assert_eq!(all.len(), 256, "{pattern:?}");
            assert_eq!(places.next(), None);
        }
    }

    #[test]
    fn of_very_many_places_some_are_drawn_and_none_twice() {
        let work = work(Random, Mode::Direct, 4096);
        let mut places = Places::new(work, &region(0, 1 << 40), false, 1).expect("room");
        let all: BTreeSet<u64> = first(&mut places, 1 << 16).into_iter().collect();
        assert_eq!((all.len() as u64, places.count()), (1 << 16, 1 << 16));
        assert!(all.last().expect("some") + 4096 <= 1 << 40);
        assert!(Places::new(work, &region(0, 100), false, 1).is_err());
    }
}

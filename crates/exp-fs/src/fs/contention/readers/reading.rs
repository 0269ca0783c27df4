//! One reader's reads: where, how, and what they took of its CPU.

use super::Reader;
use crate::fs::file::BLOCK_BYTES;
use metal::clock::{Clock, vdso_clock_gettime};
use metal::process::rusage_thread;

/// What a thread had used of its CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) cpu_ns: u64,
    pub(super) forced: u64,
    pub(super) reads: u64,
}

impl Used {
    pub(super) fn now(reads: u64) -> Used {
        Used {
            cpu_ns: vdso_clock_gettime(Clock::THREAD_CPU),
            forced: rusage_thread().nivcsw,
            reads,
        }
    }

    pub(super) fn until(self, reads: u64) -> Used {
        let now = Used::now(reads);
        Used {
            cpu_ns: now.cpu_ns - self.cpu_ns,
            forced: now.forced - self.forced,
            reads: now.reads - self.reads,
        }
    }
}

pub(super) struct Places {
    blocks: u64,
    next: u64,
    random: Option<fastrand::Rng>,
}

impl Places {
    pub(super) fn for_reader(reader: &Reader<'_>) -> Places {
        Places {
            blocks: reader.blocks,
            next: reader.first % reader.blocks,
            random: reader.random.then(|| fastrand::Rng::with_seed(reader.first)),
        }
    }

    /// Its offset, in bytes.
    pub(super) fn next(&mut self) -> u64 {
        let block = match &mut self.random {
            Some(random) => random.u64(..self.blocks),
            None => {
                let block = self.next;
                self.next = (block + 1) % self.blocks;
                block
            }
        };
        block * BLOCK_BYTES as u64
    }
}

/// What of a reader's reads lies in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Those that began in it: their latencies are whole, also where they end behind it, while all
    /// others still read.
    pub(super) reads: u64,
    /// Sum of their latencies, in ticks.
    pub(super) ticks: u64,
    /// Reads, those across an edge by their part inside.
    pub(super) units: f64,
}

impl Tally {
    /// Adds a read from one tick to another; the window's end is 0 while it is not set, and lies
    /// ahead then.
    pub(super) fn add(&mut self, (start, end): (u64, u64), (begin, finish): (u64, u64)) {
        let finish = if finish == 0 { u64::MAX } else { finish };
        if start >= begin && start < finish {
            self.reads += 1;
            self.ticks += end.saturating_sub(start);
        }
        let inside = end.min(finish).saturating_sub(start.max(begin));
        if inside > 0 {
            self.units += inside as f64 / (end - start) as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Places, Tally};
    use crate::fs::contention::readers::Reader;
    use std::collections::BTreeSet;

    fn places(random: bool, first: u64) -> Places {
        let file = std::fs::File::open("/").expect("it is there");
        Places::for_reader(&Reader { file: &file, seed: 1, blocks: 16, first, random, cpu: 0 })
    }

    #[test]
    fn in_order_every_block_comes_once_a_turn_and_the_first_follows_the_last() {
        let mut places = places(false, 14);
        let blocks: Vec<u64> = (0..18).map(|_| places.next() / BLOCK_BYTES as u64).collect();
        assert_eq!(blocks[..4], [14, 15, 0, 1]);
        assert_eq!(blocks[..2], blocks[16..], "the turn begins anew");
    }

    #[test]
    fn at_random_blocks_are_of_the_file_and_differ_by_reader() {
        let drawn = |first| -> Vec<u64> {
            let mut places = places(true, first);
            (0..200).map(|_| places.next()).collect()
        };
        let one = drawn(3);
        assert!(one.iter().all(|at| at % 4096 == 0 && *at < 16 * 4096));
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), 16, "all of them");
        assert_ne!(one, drawn(4));
    }

    #[test]
    fn reads_across_an_edge_count_by_their_part() {
        let window = (100, 200);
        let mut tally = Tally::default();
        for read in [(50, 80), (80, 120), (120, 160), (160, 240), (240, 250)] {
            tally.add(read, window);
        }
        // Half of the second, all of the third, half of the fourth.
        assert_eq!(tally.units, 2.0);
        // The third and the fourth began inside.
        assert_eq!((tally.reads, tally.ticks), (2, 120));
    }

    #[test]
    fn a_read_over_the_whole_window_is_a_part_of_one() {
        let mut tally = Tally::default();
        tally.add((0, 400), (100, 200));
        assert_eq!((tally.reads, tally.units), (0, 0.25));
    }

    #[test]
    fn without_an_end_all_is_inside() {
        let mut tally = Tally::default();
        tally.add((150, 250), (100, 0));
        assert_eq!((tally.reads, tally.ticks, tally.units), (1, 100, 1.0));
        // A clock that stood still.
        tally.add((150, 150), (100, 0));
        assert_eq!((tally.reads, tally.units), (2, 1.0));
    }
}

//! Loads from main memory beside what is timed (METHOD §2a): the width probe sees the core, and not
//! the last cache and the memory that all programs of a machine share. It explains, and filters
//! nothing.

use super::levels::LEAST_MEMORY;
use bench::measure::Clock;
use metal::memory::Mapping;
use record::event::{MEMORY_PROBE, Samples};
use stats::quantile::median;
use std::hint::black_box;

/// Loads of one reading: up to 6.5 us where each walks a guest's page tables, beside a quartet of
/// 0.35 ms.
const LOADS: usize = 24;
/// Readings of a case at most.
const READINGS: usize = 1 << 12;
const WORDS_PER_LINE: usize = 8;
/// Of the row `x <- MULTIPLIER x + 1`, which has every remainder of a power of two once before any
/// twice.
const MULTIPLIER: usize = 0x5851_f42d_4c95_7f2d_u64 as usize;

/// Takes readings beside the quartets of one case.
pub(super) struct MemoryProbe {
    clock: Clock,
    /// Its remainder by the lines that there are was loaded last.
    line: usize,
    readings: Vec<f64>,
}

impl MemoryProbe {
    /// `start` says where in the memory it begins: different places for cases that come one after
    /// another.
    pub(super) fn new(clock: Clock, start: u64) -> MemoryProbe {
        MemoryProbe { clock, line: start as usize, readings: Vec::with_capacity(READINGS) }
    }

    /// Loads some lines of memory that is larger than the caches, each address known only when the
    /// load before has ended. Smaller memory is left alone.
    pub(super) fn read(&mut self, mapping: &Mapping) {
        let lines = mapping.words().len() / WORDS_PER_LINE;
        if (mapping.bytes() as u64) < LEAST_MEMORY || self.readings.len() == READINGS {
            return;
        }
        let lines = 1_usize << lines.ilog2();
        let zero = black_box(0_u64);
        let mut line = self.line;
        let start = self.clock.start();
        for _ in 0..LOADS {
            line = line.wrapping_mul(MULTIPLIER).wrapping_add(1);
            let at = (line % lines) * WORDS_PER_LINE;
            line = line.wrapping_add((mapping.words()[at] & zero) as usize);
        }
        let took_ns = self.clock.between_ns(start, self.clock.end());
        self.line = black_box(line);
        self.readings.push(took_ns / LOADS as f64);
    }

    /// Writes the median reading beside the samples; nothing where none was taken.
    pub(super) fn write(&self, samples: &mut Samples) {
        let found = median(&self.readings).map(|ns| (MEMORY_PROBE.to_owned(), ns));
        samples.quantities.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::levels::LEAST_MEMORY;
    use metal::memory::Pages;
    use std::collections::BTreeSet;

    #[test]
    fn no_line_comes_twice_before_all_have() {
        for lines in [1_usize << 10, 1 << 16] {
            let mut row = 12_345_usize;
            let seen: BTreeSet<usize> = (0..lines)
                .map(|_| {
                    row = row.wrapping_mul(MULTIPLIER).wrapping_add(1);
                    row % lines
                })
                .collect();
            assert_eq!(seen.len(), lines);
        }
    }

    #[test]
    fn memory_that_the_caches_may_hold_is_left_alone() {
        for (bytes, readings) in [(LEAST_MEMORY / 2, 0), (LEAST_MEMORY, 3)] {
            let bytes = usize::try_from(bytes).expect("a size");
            let mut mapping = Mapping::new(bytes, Pages::Base).expect("memory");
            mapping.words_mut()[0] = 1;
            let mut probe = MemoryProbe::new(Clock::Monotonic, 7);
            let first = probe.line;
            for _ in 0..3 {
                probe.read(&mapping);
            }
            assert_eq!(probe.readings.len(), readings);
            let moved = (0..readings * LOADS)
                .fold(first, |row, _| row.wrapping_mul(MULTIPLIER).wrapping_add(1));
            assert_eq!(probe.line, moved, "the loads change no address");
        }
    }
}

//! Latencies of very many operations, in ticks: the first as they were, all of them counted.

/// Values of one power of two are divided into so many: a count's value is known to 0.4 %.
const PARTS: u64 = 128;
/// The log2 of [`PARTS`].
const PART_BITS: u32 = PARTS.trailing_zeros();

/// Ticks from submission to completion of every operation of one or more runs.
#[derive(Clone, Debug)]
pub struct Latencies {
    first: Vec<u64>,
    most: usize,
    counts: Vec<u64>,
    total: u64,
}

impl Latencies {
    /// A log that keeps the first `most` as they are, and counts all.
    pub fn new(most: usize) -> Latencies {
        // Written now, so that no page of it is touched first inside a run.
        let mut first = vec![u64::MAX; most];
        first.clear();
        Latencies { first, most, counts: vec![0; slot(u64::MAX) + 1], total: 0 }
    }

    /// The first of them, in ticks, in the order of completion.
    pub fn first(&self) -> &[u64] {
        &self.first
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// All of them: ticks (the middle of a range that is 0.8 % wide) and how many, ascending.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate();
        counted.filter(|(_, count)| **count > 0).map(|(slot, count)| (middle(slot), *count))
    }

    pub fn clear(&mut self) {
        self.first.clear();
        self.counts.fill(0);
        self.total = 0;
    }

    #[inline(always)]
    pub fn add(&mut self, ticks: u64) {
        if self.first.len() < self.most {
            self.first.push(ticks);
        }
        self.counts[slot(ticks)] += 1;
        self.total += 1;
    }
}

/// The count that holds a value.
#[inline(always)]
fn slot(ticks: u64) -> usize {
    if ticks < PARTS {
        return ticks as usize;
    }
    let shift = ticks.ilog2() - PART_BITS;
    (u64::from(shift) * PARTS + (ticks >> shift)) as usize
}

/// The middle of the values that a count holds.
fn middle(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 * PARTS {
        return slot;
    }
    let shift = slot / PARTS - 1;
    ((slot - shift * PARTS) << shift) + (1 << (shift - 1))
}

#[cfg(test)]
mod tests {
    use super::{Latencies, middle, slot};

    #[test]
    fn a_counted_value_is_known_to_four_per_mille() {
        let mut last = 0;
        for bits in 0..64 {
            for low in [0_u64, 1, 77, u64::MAX] {
                let value = (1 << bits) | (low & ((1 << bits) - 1));
                let found = middle(slot(value));
                assert!(value.abs_diff(found) <= value / 256, "{value}: {found}");
            }
            assert!(slot(1 << bits) > last || bits == 0);
            last = slot(1 << bits);
        }
        assert_eq!(slot(0), 0);
    }

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let mut all = Latencies::new(3);
        for ticks in [5, 90, 5, 1_000_000, 5] {
            all.add(ticks);
        }
        assert_eq!(all.first(), [5, 90, 5]);
        assert_eq!(all.total(), 5);
        let counts: Vec<(u64, u64)> = all.counts().collect();
        assert_eq!(counts.len(), 3);
        assert_eq!(counts[..2], [(5, 3), (90, 1)]);
        assert!(counts[2].0.abs_diff(1_000_000) < 4000 && counts[2].1 == 1);
        all.clear();
        assert_eq!((all.total(), all.first().len(), all.counts().count()), (0, 0, 0));
    }
}

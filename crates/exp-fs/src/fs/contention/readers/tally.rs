//! What of a reader's reads lies in the window.

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

/// Jain's index of some shares: 1 where all are the same, one over their number where one is all.
pub(in crate::fs::contention) fn jain(shares: &[f64]) -> Option<f64> {
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count;
    // As 1 / (1 + v²), which no rounding takes above 1.
    (mean > 0.0).then(|| 1.0 / (1.0 + variance / (mean * mean)))
}

#[cfg(test)]
mod tests {
    use super::{Tally, jain};

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

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one_alone() {
        assert_eq!(jain(&[3.0; 7]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        // Jain's own example: (1 + 2 + 3)² / (3 (1 + 4 + 9)).
        assert!((jain(&[1.0, 2.0, 3.0]).expect("shares") - 36.0 / 42.0).abs() < 1e-12);
        assert!(jain(&[0.1; 3]).is_some_and(|index| index <= 1.0));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }
}

//! Distributions of single events, with bounded relative error.

use hdrhistogram::Histogram as Hdr;

/// Kept steps per unit: with values in ns the histogram counts picoseconds, so events below one
/// nanosecond and averages over fast clocks survive.
pub const STEPS_PER_UNIT: f64 = 1000.0;

/// Greatest value kept, in steps: 20 hours where the unit is ns. Greater ones are counted as
/// beyond, never folded into the last bucket.
const GREATEST_STEPS: u64 = (1 << 56) - 1;

/// A histogram of events after Gil Tene's HDR: bucket widths grow with the value, so the relative
/// error is the same everywhere, and histograms merge without loss.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Hdr<u64>,
    beyond: u64,
    invalid: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let mut buckets = Hdr::new_with_bounds(1, 2, 3)
            .expect("bounds 1..2 and three digits are within what HDR allows");
        buckets.auto(true);
        Self { buckets, beyond: 0, invalid: 0 }
    }
}

impl Histogram {
    /// Counts one event of this value, in units.
    pub fn record(&mut self, value: f64) {
        if value.is_nan() || value < 0.0 {
            self.invalid += 1;
            return;
        }
        // The conversion saturates: infinity is beyond too.
        let steps = (value * STEPS_PER_UNIT).round() as u64;
        if steps > GREATEST_STEPS {
            self.beyond += 1;
        } else {
            self.buckets
                .record(steps)
                .expect("a resizing histogram takes every value up to 2^56 steps");
        }
    }

    /// Counts events that never ended: drops and time-outs belong to the distribution.
    pub fn record_censored(&mut self, count: u64) {
        self.beyond += count;
    }

    /// Adds all events of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("a resizing histogram takes every other one");
        self.beyond += other.beyond;
        self.invalid += other.invalid;
    }

    /// How many events, those beyond included.
    pub fn count(&self) -> u64 {
        self.buckets.len() + self.beyond
    }

    /// Events above the greatest value kept, or censored: known only to be long.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Values that no event can have: negative or not a number. In no percentile.
    pub fn invalid(&self) -> u64 {
        self.invalid
    }

    /// The middle of each non-empty bucket, in steps of 1 / [`STEPS_PER_UNIT`], with its count;
    /// ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let recorded = self.buckets.iter_recorded().map(|bucket| {
            let value = bucket.value_iterated_to();
            (self.buckets.median_equivalent(value), bucket.count_at_value())
        });
        recorded.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn buckets_keep_three_digits() {
        let mut draw = Draw::new(1);
        for value in (0..20_000).map(|_| (3.0 * draw.normal()).exp() * 100.0) {
            let mut histogram = Histogram::default();
            histogram.record(value);
            let [(steps, 1)] = histogram.buckets()[..] else { panic!("{histogram:?}") };
            let error = (steps as f64 / STEPS_PER_UNIT - value).abs();
            assert!(error <= 0.0005 * value + 0.0005, "{value}: {error}");
        }
    }

    #[test]
    fn sub_nanosecond_events_survive() {
        let mut histogram = Histogram::default();
        for _ in 0..10 {
            histogram.record(0.25);
        }
        assert_eq!(histogram.buckets(), [(250, 10)]);
    }

    #[test]
    fn what_is_out_of_range_is_counted_apart() {
        let mut histogram = Histogram::default();
        let greatest = GREATEST_STEPS as f64 / STEPS_PER_UNIT;
        let beyond = [greatest * 1.001, 1e20, f64::INFINITY];
        let kept = [1.0, 2.0, 3.0, greatest * 0.999_999];
        for value in kept.into_iter().chain(beyond).chain([-1.0, f64::NAN]) {
            histogram.record(value);
        }
        histogram.record_censored(5);
        let counts = (histogram.count(), histogram.beyond(), histogram.invalid());
        assert_eq!(counts, (12, 8, 2));
        let buckets = histogram.buckets();
        assert_eq!(buckets.len(), 4);
        let last = buckets[3].0 as f64 / GREATEST_STEPS as f64;
        assert!((last - 1.0).abs() < 0.001, "{last}");
    }

    #[test]
    fn stored_and_merged_histograms_are_the_same() {
        let mut draw = Draw::new(2);
        let (mut whole, mut a, mut b) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for i in 0..5_000 {
            let value = (2.0 * draw.normal()).exp() * 50.0;
            whole.record(value);
            if i % 3 == 0 { a.record(value) } else { b.record(value) }
        }
        whole.record(1e30);
        b.record(1e30);
        a.merge(&b);
        assert_eq!(whole.buckets(), a.buckets());
        assert_eq!((whole.count(), whole.beyond()), (a.count(), a.beyond()));
    }
}

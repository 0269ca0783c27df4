//! Distributions of single events, with bounded relative error.

use hdrhistogram::Histogram as Hdr;

/// Kept steps per unit: with values in ns the histogram counts picoseconds, so events below one
/// nanosecond and averages over fast clocks survive.
pub(crate) const STEPS_PER_UNIT: f64 = 1000.0;

/// Greatest value kept, in units: 2^56 steps, 20 hours where the unit is ns. Greater ones are
/// counted as beyond, never folded into the last bucket.
pub(crate) const GREATEST: f64 = GREATEST_STEPS as f64 / STEPS_PER_UNIT;

const GREATEST_STEPS: u64 = (1 << 56) - 1;

/// Greatest relative error of a percentile: half a bucket of three significant digits, for
/// values of at least one unit; below that also half a step (0.0005 units).
pub(crate) const RELATIVE_ERROR: f64 = 0.0005;

/// A histogram of events after Gil Tene's HDR: bucket widths grow with the value, so the relative
/// error is the same everywhere, and histograms merge without loss.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    buckets: Hdr<u64>,
    counts: Sparse,
}

/// A histogram as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sparse {
    /// Non-empty buckets, ascending: (value in steps of 1 / [`STEPS_PER_UNIT`], count).
    pub(crate) buckets: Vec<(u64, u64)>,
    /// Events above [`GREATEST`], or censored: known only to be long (drops, time-outs).
    pub(crate) beyond: u64,
    /// Values that no event can have: negative or not a number. In no percentile.
    pub(crate) invalid: u64,
    /// Exact least and greatest value in the buckets, in units; `None` when they are empty.
    pub(crate) extremes: Option<(f64, f64)>,
    /// Sum of the values in the buckets, in units.
    pub(crate) sum: f64,
}

/// A percentile of a distribution that may be censored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Percentile {
    /// The value, in units.
    At(f64),
    /// Among the events beyond or censored: at least the greatest value seen, in units.
    AtLeast(f64),
}

/// Why a stored histogram cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("histogram bucket {value} with count {count} is out of range")]
pub(crate) struct BadBucket {
    value: u64,
    count: u64,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        let mut buckets = Hdr::new_with_bounds(1, 2, 3)
            .expect("bounds 1..2 and three digits are within what HDR allows");
        buckets.auto(true);
        Self {
            buckets,
            counts: Sparse {
                buckets: vec![],
                beyond: 0,
                invalid: 0,
                extremes: None,
                sum: 0.0,
            },
        }
    }

    /// Counts one event of this value, in units.
    pub(crate) fn record(&mut self, value: f64) {
        if value.is_nan() || value < 0.0 {
            self.counts.invalid += 1;
            return;
        }
        // The conversion saturates: infinity is beyond too.
        let steps = (value * STEPS_PER_UNIT).round() as u64;
        if steps > GREATEST_STEPS {
            self.counts.beyond += 1;
        } else {
            self.buckets
                .record(steps)
                .expect("a resizing histogram takes every value up to 2^56 steps");
            self.counts.sum += value;
            let (min, max) = self.counts.extremes.unwrap_or((value, value));
            self.counts.extremes = Some((min.min(value), max.max(value)));
        }
    }

    /// Counts events that never ended: drops and time-outs belong to the distribution.
    pub(crate) fn record_censored(&mut self, count: u64) {
        self.counts.beyond += count;
    }

    /// Adds all events of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.buckets
            .add(&other.buckets)
            .expect("a resizing histogram takes every other one");
        self.counts.beyond += other.counts.beyond;
        self.counts.invalid += other.counts.invalid;
        self.counts.sum += other.counts.sum;
        self.counts.extremes = match (self.counts.extremes, other.counts.extremes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, another) => one.or(another),
        };
    }

    /// How many events, those beyond included.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.len() + self.counts.beyond
    }

    /// How many events were beyond [`GREATEST`] or censored.
    pub(crate) fn beyond(&self) -> u64 {
        self.counts.beyond
    }

    /// How many values no event can have.
    pub(crate) fn invalid(&self) -> u64 {
        self.counts.invalid
    }

    /// Exact least value; `None` without one.
    pub(crate) fn min(&self) -> Option<f64> {
        self.counts.extremes.map(|(min, _)| min)
    }

    /// Exact greatest value that is not beyond; `None` without one.
    pub(crate) fn max(&self) -> Option<f64> {
        self.counts.extremes.map(|(_, max)| max)
    }

    /// Mean of the values that are not beyond; `None` without one.
    pub(crate) fn mean(&self) -> Option<f64> {
        let count = self.buckets.len();
        (count > 0).then(|| self.counts.sum / count as f64)
    }

    /// The `qs`-quantiles (each in 0..=1), in the order asked for: the value of the event of rank
    /// ceil(q n), to half a bucket. Events beyond are greater than all others. Empty without
    /// events.
    pub(crate) fn quantiles(&self, qs: &[f64]) -> Vec<Percentile> {
        let Some(last) = self.count().checked_sub(1) else {
            return vec![];
        };
        let ranks = qs.iter().map(|&q| {
            assert!((0.0..=1.0).contains(&q), "quantile {q} is not in 0..=1");
            ((q * self.count() as f64).ceil() as u64)
                .saturating_sub(1)
                .min(last)
        });
        let mut upto = 0;
        let cumulative: Vec<(u64, u64)> = self
            .sparse()
            .buckets
            .iter()
            .map(|&(value, count)| {
                upto += count;
                (upto, value)
            })
            .collect();
        ranks
            .map(|rank| {
                let at = cumulative.partition_point(|&(upto, _)| upto <= rank);
                match (cumulative.get(at), self.counts.extremes) {
                    (Some(&(_, value)), Some((min, max))) => {
                        // A bucket's middle may lie outside the values seen in it.
                        Percentile::At((value as f64 / STEPS_PER_UNIT).max(min).min(max))
                    }
                    _ => Percentile::AtLeast(self.max().unwrap_or(0.0)),
                }
            })
            .collect()
    }

    /// The stored form: the middle of each non-empty bucket with its count. Reading it back
    /// gives the same buckets.
    pub(crate) fn sparse(&self) -> Sparse {
        let buckets = self
            .buckets
            .iter_recorded()
            .map(|bucket| {
                let value = bucket.value_iterated_to();
                (
                    self.buckets.median_equivalent(value),
                    bucket.count_at_value(),
                )
            })
            .collect();
        Sparse {
            buckets,
            ..self.counts.clone()
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// A bucket above [`GREATEST`], or counts whose sum overflows.
    pub(crate) fn from_sparse(sparse: &Sparse) -> Result<Self, BadBucket> {
        let mut histogram = Self::new();
        let mut total = sparse.beyond;
        for &(value, count) in &sparse.buckets {
            let bad = BadBucket { value, count };
            total = total.checked_add(count).ok_or(bad)?;
            if value > GREATEST_STEPS || count == 0 {
                return Err(bad);
            }
            histogram.buckets.record_n(value, count).map_err(|_| bad)?;
        }
        histogram.counts = Sparse {
            buckets: vec![],
            ..sparse.clone()
        };
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draw::Draw;
    use crate::stats::quantile::sorted;

    fn at(percentile: Percentile) -> f64 {
        match percentile {
            Percentile::At(value) | Percentile::AtLeast(value) => value,
        }
    }

    #[test]
    fn percentiles_keep_the_stated_error() {
        let mut draw = Draw::new(1);
        let values: Vec<f64> = (0..20_000)
            .map(|_| (3.0 * draw.normal()).exp() * 100.0)
            .collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        let sorted = sorted(&values);
        for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.9999, 1.0] {
            let rank = ((q * 20_000.0_f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1];
            let found = at(histogram.quantiles(&[q])[0]);
            let error = (found - exact).abs();
            assert!(
                error <= RELATIVE_ERROR * exact + 0.0005,
                "{q}: {found} {exact}"
            );
        }
        assert_eq!(histogram.max(), sorted.last().copied());
    }

    #[test]
    fn sub_nanosecond_events_survive() {
        let mut histogram = Histogram::new();
        for _ in 0..10 {
            histogram.record(0.25);
        }
        assert_eq!(histogram.quantiles(&[0.5]), [Percentile::At(0.25)]);
        assert_eq!(histogram.mean(), Some(0.25));
    }

    #[test]
    fn the_greatest_value_is_kept_and_the_next_is_beyond() {
        let mut histogram = Histogram::new();
        histogram.record(GREATEST * 0.999_999);
        histogram.record(GREATEST * 1.001);
        let Percentile::At(found) = histogram.quantiles(&[0.5])[0] else {
            panic!("the first of two events is not beyond");
        };
        assert!((found / GREATEST - 1.0).abs() < 0.001, "{found}");
        assert_eq!(histogram.beyond(), 1);
        let mut read = Histogram::from_sparse(&histogram.sparse()).unwrap();
        assert_eq!(read.sparse(), histogram.sparse());
        read.merge(&histogram);
        assert_eq!(read.count(), 4);
    }

    #[test]
    fn what_is_out_of_range_is_counted_apart() {
        let mut histogram = Histogram::new();
        for value in [1.0, 2.0, 3.0, 1e20, f64::INFINITY, -1.0, f64::NAN] {
            histogram.record(value);
        }
        histogram.record_censored(5);
        assert_eq!(
            (histogram.count(), histogram.beyond(), histogram.invalid()),
            (10, 7, 2)
        );
        let found = histogram.quantiles(&[0.3, 0.31, 0.5, 1.0]);
        assert_eq!(found[0], Percentile::At(3.0));
        assert_eq!(found[1..], [Percentile::AtLeast(3.0); 3]);
    }

    #[test]
    fn stored_and_merged_histograms_are_the_same() {
        let mut draw = Draw::new(2);
        let (mut whole, mut a, mut b) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..5_000 {
            let value = (2.0 * draw.normal()).exp() * 50.0;
            whole.record(value);
            if i % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
        }
        whole.record(1e30);
        b.record(1e30);
        a.merge(&b);
        let (whole, merged) = (whole.sparse(), a.sparse());
        assert_eq!(whole.buckets, merged.buckets);
        assert_eq!(
            (whole.beyond, whole.extremes),
            (merged.beyond, merged.extremes)
        );
        assert!((whole.sum / merged.sum - 1.0).abs() < 1e-12);
        let read = Histogram::from_sparse(&whole).unwrap();
        assert_eq!(read.sparse(), whole);
    }

    #[test]
    fn damaged_buckets_are_refused() {
        let mut sparse = Histogram::new().sparse();
        for buckets in [
            vec![(u64::MAX, 1)],
            vec![(5, 0)],
            vec![(5, u64::MAX), (6, 1)],
        ] {
            sparse.buckets = buckets;
            assert!(Histogram::from_sparse(&sparse).is_err(), "{sparse:?}");
        }
        assert!(Histogram::new().quantiles(&[0.5]).is_empty());
    }
}

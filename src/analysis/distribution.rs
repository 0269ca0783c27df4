//! The samples of one round, or of all rounds used, as one distribution.

use super::index::RoundSamples;
use crate::stats::modes::modes;
use crate::stats::moments::Moments;
use crate::stats::outlier::outliers;
use crate::stats::quantile::{quantile_of_sorted, sorted};

/// Values that stand for a histogram where a test needs single values.
const MOST_VALUES: u64 = 20_000;

/// Samples listed one by one, in the order taken, and samples counted in buckets. A round whose
/// events are in a histogram is taken from it: listed values beside it are its excerpt.
#[derive(Default)]
pub(crate) struct Distribution {
    listed: Vec<f64>,
    counted: Vec<(f64, u64)>,
    /// Values that were not finite.
    pub(crate) dropped: usize,
}

/// Mean, deviation and extremes of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Arithmetic mean.
    pub(crate) mean: f64,
    /// Sample standard deviation; `None` for one sample.
    pub(crate) stddev: Option<f64>,
    /// Least.
    pub(crate) min: f64,
    /// Greatest.
    pub(crate) max: f64,
}

impl Distribution {
    /// All samples of the rounds.
    pub(crate) fn of<'a, 'run: 'a>(rounds: impl Iterator<Item = &'a RoundSamples<'run>>) -> Self {
        let mut all = Distribution::default();
        for round in rounds {
            if round.histograms.is_empty() {
                for samples in &round.samples {
                    let values = samples.raw.samples();
                    let count = values.len();
                    let before = all.listed.len();
                    all.listed
                        .extend(values.into_iter().filter(|x| x.is_finite()));
                    all.dropped += count - (all.listed.len() - before);
                }
            }
            for histogram in &round.histograms {
                let bucket =
                    |(value, count): &(u64, u64)| (*value as f64 * histogram.scale, *count);
                all.counted.extend(histogram.buckets.iter().map(bucket));
            }
        }
        all.counted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    /// Samples in all.
    pub(crate) fn count(&self) -> u64 {
        self.listed.len() as u64 + self.counted.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// The listed samples in the order taken.
    pub(crate) fn in_order(&self) -> &[f64] {
        &self.listed
    }

    /// The quantiles `qs`; empty without samples. Where buckets take part: nearest rank.
    pub(crate) fn quantiles(&self, qs: &[f64]) -> Vec<f64> {
        if self.count() == 0 {
            return Vec::new();
        }
        if self.counted.is_empty() {
            let sorted = sorted(&self.listed);
            return qs
                .iter()
                .filter_map(|q| quantile_of_sorted(&sorted, *q))
                .collect();
        }
        let merged = self.merged();
        let total = self.count();
        qs.iter()
            .filter_map(|q| at_rank(&merged, *q, total))
            .collect()
    }

    /// Mean, deviation and extremes; `None` without samples.
    pub(crate) fn summary(&self) -> Option<Summary> {
        if self.counted.is_empty() {
            let moments = Moments::of(&self.listed);
            return Some(Summary {
                mean: moments.mean()?,
                stddev: moments.stddev(),
                min: moments.min()?,
                max: moments.max()?,
            });
        }
        let merged = self.merged();
        let (first, last) = (merged.first()?, merged.last()?);
        let total = self.count() as f64;
        // Relative to the least value, so that a large offset does not cost digits.
        let offset = |value: f64| value - first.0;
        let sum: f64 = merged.iter().map(|(x, n)| offset(*x) * *n as f64).sum();
        let mean = sum / total;
        let squares: f64 = merged
            .iter()
            .map(|(x, n)| (offset(*x) - mean).powi(2) * *n as f64)
            .sum();
        Some(Summary {
            mean: first.0 + mean,
            stddev: (total > 1.0).then(|| (squares / (total - 1.0)).sqrt()),
            min: first.0,
            max: last.0,
        })
    }

    /// At most [`MOST_VALUES`] values that have the distribution's shape, for tests on it.
    pub(crate) fn representative(&self) -> Vec<f64> {
        if self.counted.is_empty() {
            return self.listed.clone();
        }
        let merged = self.merged();
        let total = self.count();
        let wanted = total.min(MOST_VALUES);
        (0..wanted)
            .filter_map(|i| at_rank(&merged, (i as f64 + 0.5) / wanted as f64, total))
            .collect()
    }

    /// Count of outliers (scaled up where a part stands for the whole) and mean of the others.
    pub(crate) fn outliers(&self) -> (u64, Option<f64>) {
        let values = self.representative();
        let found = outliers(&values);
        let scale = self.count() as f64 / values.len().max(1) as f64;
        (
            (found.count() as f64 * scale).round() as u64,
            found.mean_without,
        )
    }

    /// The modes as (centre, share).
    pub(crate) fn modes(&self, resolution: f64) -> Vec<(f64, f64)> {
        modes(&self.representative(), resolution)
            .iter()
            .map(|mode| (mode.centre, mode.share))
            .collect()
    }

    fn merged(&self) -> Vec<(f64, u64)> {
        let mut merged: Vec<(f64, u64)> = self.listed.iter().map(|value| (*value, 1)).collect();
        merged.extend(&self.counted);
        merged.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        merged
    }
}

/// The value whose cumulated count reaches rank ceil(q total), at least the first.
fn at_rank(merged: &[(f64, u64)], q: f64, total: u64) -> Option<f64> {
    let rank = ((q * total as f64).ceil() as u64).max(1);
    let mut seen = 0;
    merged
        .iter()
        .find(|(_, count)| {
            seen += count;
            seen >= rank
        })
        .map(|(value, _)| *value)
}

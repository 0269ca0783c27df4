//! The samples of one round, or of all rounds used, as one distribution.

use super::index::RoundSamples;
use record::event::Samples;
use stats::modes::modes;
use stats::moments::Moments;
use stats::outlier::outliers;
use stats::quantile::{quantile_of_counted, quantile_of_sorted, rank, sorted};

/// Values that stand for a histogram where a test needs single values.
const MOST_VALUES: u64 = 20_000;

/// Samples listed one by one, in the order taken, and samples counted in buckets. A round whose
/// events are in a histogram is taken from it: listed values beside it are its excerpt.
pub struct Distribution {
    listed: Vec<f64>,
    /// All that ended with their counts, ascending; empty where nothing is counted in buckets.
    merged: Vec<(f64, u64)>,
    /// Values that have the shape of what ended, ascending: all that are listed, or at most
    /// [`MOST_VALUES`] that stand for the merged ones.
    shape: Vec<f64>,
    /// Events that never ended (drops, time-outs): longer than all others, by an unknown amount.
    pub censored: u64,
    /// Values that were not finite.
    pub dropped: usize,
}

/// How samples lie between the least and the greatest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Density {
    pub low: f64,
    pub high: f64,
    /// Whether the steps are equal factors; equal differences otherwise.
    pub is_log: bool,
    /// Samples in each step from the least to the greatest; empty where all are equal.
    pub counts: Vec<u64>,
}

/// Steps of a density: enough for two modes and a tail.
const STEPS: usize = 24;

/// Greatest over least sample from which the steps are equal factors: a tail would leave all other
/// samples in one of equal differences.
const LONG_TAIL: f64 = 8.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub mean: f64,
    /// Sample standard deviation; `None` for one sample.
    pub stddev: Option<f64>,
    pub min: f64,
    pub max: f64,
}

impl Distribution {
    pub fn from_rounds<'a, 'run: 'a>(rounds: impl Iterator<Item = &'a RoundSamples<'run>>) -> Self {
        let (mut listed, mut counted) = (Vec::new(), Vec::new());
        let (mut censored, mut dropped) = (0, 0);
        for round in rounds {
            if round.histograms.is_empty() {
                for samples in &round.samples {
                    let values = round.condition.values(samples, Samples::values);
                    let before = listed.len();
                    listed.extend(values.iter().filter(|x| x.is_finite()));
                    dropped += values.len() - (listed.len() - before);
                }
            }
            for histogram in &round.histograms {
                let bucket =
                    |(value, count): &(u64, u64)| (*value as f64 * histogram.scale, *count);
                counted.extend(histogram.buckets.iter().map(bucket));
                censored += histogram.above;
            }
        }
        Distribution { dropped, ..Distribution::from(listed, counted, censored) }
    }

    fn from(listed: Vec<f64>, counted: Vec<(f64, u64)>, censored: u64) -> Self {
        let mut merged = counted;
        if !merged.is_empty() || censored > 0 {
            merged.extend(listed.iter().map(|value| (*value, 1)));
            merged.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        }
        let shape = if merged.is_empty() { sorted(&listed) } else { spread(&merged) };
        Distribution { listed, merged, shape, censored, dropped: 0 }
    }

    /// Samples in all, those that never ended included.
    pub fn count(&self) -> u64 {
        self.ended() + self.censored
    }

    fn ended(&self) -> u64 {
        match self.merged.is_empty() {
            true => self.listed.len() as u64,
            false => total(&self.merged),
        }
    }

    /// Whether the `q`-quantile is among the samples that never ended: what
    /// [`Distribution::quantiles`] gives for it, the greatest that did end, is less than it.
    pub fn is_censored(&self, q: f64) -> bool {
        rank(q, self.count()) > self.ended()
    }

    /// The listed samples in the order taken.
    pub fn in_order(&self) -> &[f64] {
        &self.listed
    }

    /// The quantiles `qs`; empty without samples. Where buckets take part: nearest rank. Samples
    /// that never ended count as the greatest, without a value of their own
    /// ([`Distribution::is_censored`]).
    pub fn quantiles(&self, qs: &[f64]) -> Vec<f64> {
        if self.merged.is_empty() {
            return qs.iter().filter_map(|q| quantile_of_sorted(&self.shape, *q)).collect();
        }
        let greatest = self.merged.last().map(|(value, _)| *value);
        let of = |q: &f64| quantile_of_counted(self.merged.iter().copied(), *q, self.count());
        qs.iter().filter_map(|q| of(q).or(greatest)).collect()
    }

    /// Mean, deviation and extremes of the samples that ended; `None` without any.
    pub fn summary(&self) -> Option<Summary> {
        if self.merged.is_empty() {
            let moments = Moments::from_values(&self.listed);
            return Some(Summary {
                mean: moments.mean()?,
                stddev: moments.stddev(),
                min: moments.min()?,
                max: moments.max()?,
            });
        }
        let merged = &self.merged;
        let (first, last) = (merged.first()?, merged.last()?);
        let total = self.ended() as f64;
        // Relative to the least value, so that a large offset does not cost digits.
        let offset = |value: f64| value - first.0;
        let sum: f64 = merged.iter().map(|(x, n)| offset(*x) * *n as f64).sum();
        let mean = sum / total;
        let squares: f64 =
            merged.iter().map(|(x, n)| (offset(*x) - mean).powi(2) * *n as f64).sum();
        Some(Summary {
            mean: first.0 + mean,
            stddev: (total > 1.0).then(|| (squares / (total - 1.0)).sqrt()),
            min: first.0,
            max: last.0,
        })
    }

    /// How the samples that ended lie; without steps where all are equal or there are none.
    pub fn density(&self) -> Density {
        let listed = self.merged.is_empty().then(|| self.shape.iter().map(|value| (*value, 1)));
        let ascending = self.merged.iter().copied().chain(listed.into_iter().flatten());
        let low = ascending.clone().next().map_or(f64::INFINITY, |(value, _)| value);
        let high = ascending.clone().next_back().map_or(f64::NEG_INFINITY, |(value, _)| value);
        let is_log = low > 0.0 && high > LONG_TAIL * low;
        let along = |value: f64| if is_log { value.ln() } else { value };
        let (start, span) = (along(low), along(high) - along(low));
        let mut density = Density { low, high, is_log, counts: Vec::new() };
        if !span.is_finite() || span <= 0.0 {
            return density;
        }
        let edge = |step: usize| {
            let at = start + span * step as f64 / STEPS as f64;
            let at = if is_log { at.exp() } else { at };
            // A value that is the edge lies above it, whatever the logarithm's last digit.
            at - 1e-12 * at.abs()
        };
        let edges: Vec<f64> = (1..STEPS).map(edge).collect();
        density.counts = vec![0; STEPS];
        let mut step = 0;
        for (value, count) in ascending {
            while edges.get(step).is_some_and(|edge| value >= *edge) {
                step += 1;
            }
            density.counts[step] += count;
        }
        density
    }

    /// Count of outliers (scaled up where a part stands for the whole) and mean of the others.
    pub fn outliers(&self) -> (u64, Option<f64>) {
        let values = if self.merged.is_empty() { &self.listed } else { &self.shape };
        let found = outliers(values, &self.shape);
        let scale = self.ended() as f64 / values.len().max(1) as f64;
        ((found.count() as f64 * scale).round() as u64, found.mean_without)
    }

    /// The modes as (centre, share).
    pub fn modes(&self, resolution: f64) -> Vec<(f64, f64)> {
        let modes = modes(&self.shape, resolution);
        modes.iter().map(|mode| (mode.centre, mode.share)).collect()
    }
}

fn total(counted: &[(f64, u64)]) -> u64 {
    counted.iter().map(|(_, count)| count).sum()
}

/// At most [`MOST_VALUES`] of counted values in ascending order, evenly by rank.
fn spread(counted: &[(f64, u64)]) -> Vec<f64> {
    let total = total(counted);
    let wanted = total.min(MOST_VALUES);
    let mut counted = counted.iter();
    let (mut value, mut upto) = (f64::NAN, 0);
    let mut at = |i: u64| {
        let rank = rank((i as f64 + 0.5) / wanted as f64, total);
        while upto < rank
            && let Some((next, count)) = counted.next()
        {
            (value, upto) = (*next, upto + count);
        }
        value
    };
    (0..wanted).map(&mut at).collect()
}

#[cfg(test)]
mod tests {
    use super::{Distribution, STEPS};

    #[test]
    fn a_density_counts_every_sample_and_a_tail_leaves_room() {
        let of = |listed: &[f64], counted: &[(f64, u64)]| {
            let (listed, counted) = (listed.to_vec(), counted.to_vec());
            Distribution::from(listed, counted, 0).density()
        };
        let near = of(&[10.0, 15.0, 20.0], &[(20.0, 5)]);
        assert!(!near.is_log);
        assert_eq!((near.low, near.high, near.counts.len()), (10.0, 20.0, STEPS));
        assert_eq!((near.counts[0], near.counts[STEPS - 1]), (1, 6));
        let tail = of(&[1.0, 10.0, 100.0], &[]);
        assert!(tail.is_log);
        assert_eq!((tail.counts[STEPS / 2], tail.counts.iter().sum::<u64>()), (1, 3));
        assert!(of(&[5.0, 5.0], &[]).counts.is_empty() && of(&[], &[]).counts.is_empty());
    }

    #[test]
    fn what_never_ended_counts_as_the_greatest_and_has_no_value() {
        let mut all = Distribution::from(vec![4.0, 1.0, 3.0, 2.0], vec![(5.0, 4)], 0);
        let qs = [0.5, 0.75, 0.9, 0.99];
        assert_eq!(all.quantiles(&qs), [4.0, 5.0, 5.0, 5.0]);
        assert!(!qs.iter().any(|q| all.is_censored(*q)));
        // Two of ten: the ninth is one of them, the eighth is not.
        all.censored = 2;
        assert_eq!((all.count(), all.quantiles(&qs)), (10, vec![5.0; 4]));
        assert_eq!(qs.map(|q| all.is_censored(q)), [false, false, true, true]);
        // They have no part in what is computed from values.
        let summary = all.summary().unwrap();
        assert_eq!((summary.mean, summary.max), (30.0 / 8.0, 5.0));
        assert_eq!(all.shape, [1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0]);
        all = Distribution::from(Vec::new(), Vec::new(), 2);
        assert!(all.quantiles(&qs).is_empty() && all.summary().is_none());
    }

    #[test]
    fn many_counted_values_stand_by_their_ranks() {
        let all = Distribution::from(Vec::new(), vec![(1.0, 30_000), (2.0, 9_999), (3.0, 1)], 0);
        let of = |value: f64| all.shape.iter().filter(|one| **one == value).count();
        assert_eq!((all.shape.len(), of(1.0), of(2.0) + of(3.0)), (20_000, 15_000, 5_000));
    }
}

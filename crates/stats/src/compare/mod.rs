//! Whether two runs differ: METHOD §3, "Comparing runs".
//!
//! Per figure a t test on log round values, its variance shrunk towards the family's, plus a
//! between-run variance with the degrees of freedom that stored runs give it (the default counts as
//! known); per series Simes; over all, Benjamini-Hochberg in two steps. A finding must also be
//! larger than the figure's band, and its interval must not contain 1. A figure whose interval is
//! not of rounds (within a run, of resamples) takes part with the p that its interval gives.

pub mod between;
pub mod family;
pub mod multiple;
pub mod paired;
pub mod ratio;
pub mod variance;

#[cfg(test)]
mod simulated;

use super::interval::median_order;
use super::moments::Moments;
use super::quantile::median;
use between::BetweenRuns;
use ratio::{Change, Point, change, log};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use variance::{Variance, prior, shrunk};

/// False discovery rate of the findings.
pub const RATE: f64 = 0.05;

/// One figure in two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What either run knows of it.
    pub evidence: Evidence,
    /// Index of the family whose variances steady this one's.
    pub family: usize,
    /// Between-run variance of log values.
    pub between: BetweenRuns,
    /// Least |ratio - 1| of a finding.
    pub band: f64,
}

/// What two runs know of one figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Fresh repetitions: the round values that the estimates used.
    Rounds { base: Vec<f64>, new: Vec<f64> },
    /// Values with intervals that are not of rounds: of blocks within a run, or of resamples.
    Intervals { base: Point, new: Point },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Ratio or difference of the medians with interval, between-run variance included.
    pub change: Change,
    /// Two-sided p value before any correction; `None` where no test is possible: a value that is
    /// not positive, fewer than two rounds or no interval in a run, or no variance at all.
    pub p: Option<f64>,
    /// Whether the figure changed: rejected in both steps, beyond its band, and 1 outside the
    /// interval of the ratio.
    pub finding: bool,
}

/// Compares two runs. Input and output: for each series, for each of its figures. `None` for a
/// figure without a round in either run.
pub fn compare(series: &[Vec<Pair>]) -> Vec<Vec<Option<Comparison>>> {
    let families = families(series);
    let tested: Vec<Vec<Option<f64>>> =
        series.iter().map(|s| s.iter().map(|pair| p_value(pair, &families)).collect()).collect();
    let p_values: Vec<Vec<f64>> =
        tested.iter().map(|s| s.iter().flatten().copied().collect()).collect();
    let rejected = multiple::two_step(&p_values, RATE);
    series
        .iter()
        .zip(&tested)
        .zip(rejected)
        .map(|((pairs, p_values), rejected)| {
            let mut rejected = rejected.into_iter();
            pairs
                .iter()
                .zip(p_values)
                .map(|(pair, p)| {
                    let rejected = p.is_some() && rejected.next().unwrap_or(false);
                    comparison(pair, *p, rejected)
                })
                .collect()
        })
        .collect()
}

fn comparison(pair: &Pair, p: Option<f64>, rejected: bool) -> Option<Comparison> {
    let (base, new) = points(&pair.evidence)?;
    let change = change(base, new, pair.between.reach());
    let is_clear = match change {
        Change::Ratio { value, interval: Some(interval) } => {
            (value - 1.0).abs() > pair.band && !interval.contains(1.0)
        }
        _ => false,
    };
    Some(Comparison { change, p, finding: rejected && is_clear })
}

/// Both values with their intervals; `None` where a run has no round.
fn points(evidence: &Evidence) -> Option<(Point, Point)> {
    let point = |values: &[f64]| {
        let value = median(values)?;
        Some(Point { value, interval: median_order(values) })
    };
    match evidence {
        Evidence::Rounds { base, new } => Some((point(base)?, point(new)?)),
        Evidence::Intervals { base, new } => Some((*base, *new)),
    }
}

/// For each family index the prior of its variances.
fn families(series: &[Vec<Pair>]) -> Vec<Option<variance::Prior>> {
    let pairs = || series.iter().flatten();
    let count = pairs().map(|pair| pair.family + 1).max().unwrap_or(0);
    let mut variances = vec![vec![]; count];
    for pair in pairs() {
        if let Some(logs) = Logs::from_pair(pair) {
            variances[pair.family].push(logs.variance);
        }
    }
    variances.iter().map(|family| prior(family)).collect()
}

/// The two runs of one figure in logarithms.
struct Logs {
    difference: f64,
    variance: Variance,
    /// 1 / n of both runs, summed.
    weight: f64,
}

impl Logs {
    /// `None` where a value is not positive or a run has fewer than two rounds, or none at all.
    fn from_pair(pair: &Pair) -> Option<Self> {
        let Evidence::Rounds { base, new } = &pair.evidence else { return None };
        let moments = |values: &[f64]| {
            let positive = values.iter().all(|&value| value > 0.0);
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            (positive && values.len() >= 2).then(|| Moments::from_values(&logs))
        };
        let (base, new) = (moments(base)?, moments(new)?);
        let freedom = |run: &Moments| run.count() as f64 - 1.0;
        let all = freedom(&base) + freedom(&new);
        let squares = base.variance()? * freedom(&base) + new.variance()? * freedom(&new);
        Some(Self {
            difference: new.mean()? - base.mean()?,
            variance: Variance { variance: squares / all, freedom: all },
            weight: 1.0 / base.count() as f64 + 1.0 / new.count() as f64,
        })
    }
}

/// Two-sided p of a figure.
fn p_value(pair: &Pair, families: &[Option<variance::Prior>]) -> Option<f64> {
    match &pair.evidence {
        Evidence::Rounds { .. } => p_of_rounds(pair, families),
        Evidence::Intervals { base, new } => p_of_intervals(*base, *new, &pair.between),
    }
}

/// Two-sided p of two values with intervals: the distance of their logarithms over the ends that
/// face each other, which stand for a normal error, and the between-run variance.
fn p_of_intervals(base: Point, new: Point, between: &BetweenRuns) -> Option<f64> {
    if !(base.is_positive() && new.is_positive()) {
        return None;
    }
    let (base, new) = (log(base), log(new));
    let (low, high) = if new.value < base.value { (new, base) } else { (base, new) };
    let (under, over) = (low.interval?, high.interval?);
    // A record may state any number.
    let errors = |confidence: f64| {
        (confidence > 0.0 && confidence < 1.0)
            .then(|| Normal::standard().inverse_cdf(0.5 + confidence / 2.0))
    };
    let of_intervals = ((under.high - low.value) / errors(under.confidence)?).powi(2)
        + ((high.value - over.low) / errors(over.confidence)?).powi(2);
    let own = Variance { variance: of_intervals, freedom: f64::INFINITY };
    p_of(high.value - low.value, own, between)
}

/// Two-sided p of the moderated t test.
fn p_of_rounds(pair: &Pair, families: &[Option<variance::Prior>]) -> Option<f64> {
    let logs = Logs::from_pair(pair)?;
    let within = shrunk(logs.variance, families[pair.family]);
    let of_rounds = Variance { variance: within.variance * logs.weight, freedom: within.freedom };
    p_of(logs.difference.abs(), of_rounds, &pair.between)
}

/// Two-sided p of a distance of logarithms, whose squared standard error is that of the two runs
/// themselves and the between-run variance of either: the sum has the degrees of freedom of
/// Satterthwaite (1946).
fn p_of(distance: f64, own: Variance, between: &BetweenRuns) -> Option<f64> {
    let squared_error = own.variance + 2.0 * between.variance;
    if squared_error <= 0.0 {
        return None;
    }
    let t = distance / squared_error.sqrt();
    let uncertainty = own.variance.powi(2) / own.freedom + between.uncertainty();
    let freedom = squared_error.powi(2) / uncertainty;
    // Beyond a million degrees of freedom (none at all without scatter) t is normal.
    let tail = if freedom < 1e6 {
        StudentsT::new(0.0, 1.0, freedom).ok()?.sf(t)
    } else {
        Normal::standard().sf(t)
    };
    Some((2.0 * tail).min(1.0))
}

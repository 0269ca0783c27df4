//! Whether two runs differ: METHOD §3, "Comparing runs".
//!
//! Per figure a t test on log round values, its variance shrunk towards the family's, plus a
//! between-run variance that counts as known; per series Simes; over all, Benjamini-Hochberg in
//! two steps. A finding must also be larger than the figure's band.

pub(crate) mod between;
pub(crate) mod multiple;
pub(crate) mod ratio;
pub(crate) mod variance;

#[cfg(test)]
mod simulated;

use super::interval::median_order;
use super::moments::Moments;
use super::quantile::median;
use between::BetweenRuns;
use ratio::{Change, Point, change};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use variance::{Variance, prior, shrunk};

/// False discovery rate of the findings.
pub(crate) const RATE: f64 = 0.05;

/// One figure in two runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pair {
    /// Round values of the base run that its estimate used.
    pub(crate) base: Vec<f64>,
    /// Round values of the new run that its estimate used.
    pub(crate) new: Vec<f64>,
    /// Index of the family whose variances steady this one's.
    pub(crate) family: usize,
    /// Between-run variance of log values.
    pub(crate) between: BetweenRuns,
    /// Least |ratio - 1| of a finding.
    pub(crate) band: f64,
}

/// What the comparison says of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// Ratio or difference of the medians with interval, between-run variance included.
    pub(crate) change: Change,
    /// Two-sided p value; `None` where no test is possible: a value that is not positive, fewer
    /// than two rounds in a run, or rounds without any variance.
    pub(crate) p: Option<f64>,
    /// Whether the figure changed: rejected in both steps, and beyond its band.
    pub(crate) finding: bool,
}

/// Compares two runs. Input and output: for each series, for each of its figures. `None` for a
/// figure without a round in either run.
pub(crate) fn compare(series: &[Vec<Pair>]) -> Vec<Vec<Option<Comparison>>> {
    let families = families(series);
    let tested: Vec<Vec<Option<f64>>> = series
        .iter()
        .map(|s| s.iter().map(|pair| p_value(pair, &families)).collect())
        .collect();
    let p_values: Vec<Vec<f64>> = tested
        .iter()
        .map(|s| s.iter().flatten().copied().collect())
        .collect();
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

/// Compares two figures that each have only a within-run interval: a finding where the interval
/// of the ratio excludes 1 and the ratio is beyond the band. There is no test.
pub(crate) fn compare_within_run(base: Point, new: Point, band: f64) -> Comparison {
    let change = change(base, new, 0.0);
    let finding = match change {
        Change::Ratio {
            value,
            interval: Some(interval),
        } => !interval.contains(1.0) && (value - 1.0).abs() > band,
        _ => false,
    };
    Comparison {
        change,
        p: None,
        finding,
    }
}

fn comparison(pair: &Pair, p: Option<f64>, rejected: bool) -> Option<Comparison> {
    let point = |values: &[f64]| {
        let value = median(values)?;
        Some(Point {
            value,
            interval: median_order(values),
        })
    };
    let change = change(point(&pair.base)?, point(&pair.new)?, pair.between.variance);
    let beyond = match change {
        Change::Ratio { value, .. } => (value - 1.0).abs() > pair.band,
        Change::Difference { .. } => false,
    };
    Some(Comparison {
        change,
        p,
        finding: rejected && beyond,
    })
}

/// For each family index the prior of its variances.
fn families(series: &[Vec<Pair>]) -> Vec<Option<variance::Prior>> {
    let pairs = || series.iter().flatten();
    let count = pairs().map(|pair| pair.family + 1).max().unwrap_or(0);
    let mut variances = vec![vec![]; count];
    for pair in pairs() {
        if let Some(logs) = Logs::of(pair) {
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
    /// `None` where a value is not positive or a run has fewer than two rounds.
    fn of(pair: &Pair) -> Option<Self> {
        let moments = |values: &[f64]| {
            let positive = values.iter().all(|&value| value > 0.0);
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            (positive && values.len() >= 2).then(|| Moments::of(&logs))
        };
        let (base, new) = (moments(&pair.base)?, moments(&pair.new)?);
        let freedom = |run: &Moments| run.count() as f64 - 1.0;
        let all = freedom(&base) + freedom(&new);
        let squares = base.variance()? * freedom(&base) + new.variance()? * freedom(&new);
        Some(Self {
            difference: new.mean()? - base.mean()?,
            variance: Variance {
                variance: squares / all,
                freedom: all,
            },
            weight: 1.0 / base.count() as f64 + 1.0 / new.count() as f64,
        })
    }
}

/// Two-sided p of the moderated t test. The part of the squared standard error that rests on
/// rounds has the degrees of freedom of the shrunk variance, the between-run part counts as
/// known; the sum has those of Satterthwaite (1946).
fn p_value(pair: &Pair, families: &[Option<variance::Prior>]) -> Option<f64> {
    let logs = Logs::of(pair)?;
    let within = shrunk(logs.variance, families[pair.family]);
    let from_rounds = within.variance * logs.weight;
    let squared_error = from_rounds + 2.0 * pair.between.variance;
    if squared_error <= 0.0 {
        return None;
    }
    let t = logs.difference.abs() / squared_error.sqrt();
    let freedom = within.freedom * (squared_error / from_rounds).powi(2);
    // Beyond a million degrees of freedom (none at all without scatter) t is normal.
    let tail = if freedom < 1e6 {
        StudentsT::new(0.0, 1.0, freedom).ok()?.sf(t)
    } else {
        Normal::standard().sf(t)
    };
    Some((2.0 * tail).min(1.0))
}

//! How good the predictions were: what the laws are judged by (METHOD §5).
//!
//! The interval score of a range is its width on a log scale, and [`MISSED`] times the distance by
//! which the value misses it: smaller is better, and neither wide ranges nor bold ones pay. Beside
//! it stands the score of knowing nothing of the machine: of the whole range that figures of the
//! family and unit have over all recorded machines. What is not predicted scores as knowing nothing.

use super::figure::Figure;
use super::gather::ends;
use super::verdict::Verdict;
use record::event::{Ending, PredictionKind, Range};
use record::order::Gather;
use record::unit::Unit;
use stats::quantile::median;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// 2/α of ranges that should hold nine values in ten.
const MISSED: f64 = 20.0;

/// Least and greatest figure of a family and a unit over all recorded machines; `scripts/fit` writes
/// it.
pub const NAIVE_TABLE: &str = include_str!("naive.csv");

/// The logarithm of greatest over least.
static NAIVE: LazyLock<BTreeMap<(&str, &str), f64>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut cells = line.split(',');
        let (family, unit) = (cells.next()?, cells.next()?);
        let mut number = || cells.next()?.parse::<f64>().ok();
        let (least, most) = (number()?, number()?);
        Some(((family, unit), (most / least).ln()))
    };
    NAIVE_TABLE.lines().skip(1).filter_map(row).gather()
});

/// The family that is measured and not predicted: a description does not say what else runs.
const MEASURED_ONLY: &str = "noise.";

pub fn is_measured_only(experiment: &str) -> bool {
    experiment.starts_with(MEASURED_ONLY)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored<'a> {
    pub family: &'a str,
    pub unit: Unit,
    pub value: f64,
    pub range: Option<Range>,
    /// What was to be expected beside the neighbour that used the core meanwhile.
    pub beside: Option<Range>,
    /// Whether no correct figure is like this: it is outside, whatever was predicted.
    pub is_impossible: bool,
}

impl Scored<'_> {
    pub fn predicted(&self) -> Option<Range> {
        self.range.filter(|range| range.predicts(self.unit))
    }

    fn is_inside(&self) -> bool {
        !self.is_impossible && self.range.is_some_and(|range| range.holds(self.value))
    }

    fn is_expected(&self) -> bool {
        let range = self.beside.or(self.range);
        !self.is_impossible && range.is_some_and(|range| range.holds(self.value))
    }

    /// The factor by which the value misses the range; 1 inside.
    pub fn missed_by(&self) -> f64 {
        let factor = |range: Range| (self.value / range.high).max(range.low / self.value).max(1.0);
        self.range.filter(|_| self.value > 0.0).map_or(1.0, factor)
    }

    /// Interval scores of the prediction and of knowing nothing; none of values and ranges that a
    /// log scale lacks.
    pub fn scores(&self) -> Option<(f64, f64)> {
        let nothing = *NAIVE.get(&(self.family, self.unit.text())).filter(|_| self.value > 0.0)?;
        let of = |range: Range| (range.high / range.low).ln() + MISSED * self.missed_by().ln();
        let score = self.predicted().map_or(nothing, of);
        score.is_finite().then_some((score, nothing))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    pub all: Tally,
    pub by_family: BTreeMap<String, Tally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Figures with a value and a prediction, whether that says anything or not.
    pub figures: usize,
    /// Of these, inside a range that says something.
    pub inside: usize,
    /// Of these, inside their range, however wide.
    pub in_range: usize,
    /// Of these, inside a range that says something, or inside what was to be expected of it beside
    /// a neighbour.
    pub expected: usize,
    /// Of these, without a range that says something: misses.
    pub unpredicted: usize,
    /// Median of the ranges' high over low, where both are positive.
    pub median_width: Option<f64>,
    /// Median of measured over likely.
    pub bias: Option<f64>,
    /// Mean interval score; smaller is better.
    pub score: Option<f64>,
    /// The same of knowing nothing.
    pub nothing: Option<f64>,
}

impl Tally {
    /// Share inside a range that says something; `None` where there is nothing to judge.
    pub fn inside_share(&self) -> Option<f64> {
        self.share(self.inside)
    }

    pub fn share(&self, some: usize) -> Option<f64> {
        (self.figures > 0).then(|| some as f64 / self.figures as f64)
    }

    /// How many times the score of knowing nothing is worse.
    pub fn narrower(&self) -> Option<f64> {
        Some(self.nothing? / self.score?)
    }
}

/// Scores the prior or the derived predictions. A figure beyond its bound counts as outside; a
/// figure that failed otherwise does not count.
pub fn score(figures: &[Figure], of: PredictionKind) -> Score {
    let scored: Vec<Scored> = figures.iter().filter_map(|figure| scored(figure, of)).collect();
    let mut families: BTreeMap<&str, Vec<Scored>> = BTreeMap::new();
    for one in &scored {
        families.entry(one.family).or_default().push(*one);
    }
    let of_family = |(family, own): (&str, Vec<Scored>)| (family.to_owned(), tally(&own));
    Score { all: tally(&scored), by_family: families.into_iter().map(of_family).collect() }
}

fn scored(figure: &Figure, of: PredictionKind) -> Option<Scored<'_>> {
    let judged = figure.prediction(of).filter(|_| !is_measured_only(&figure.experiment))?;
    let is_impossible = judged.verdict == Some(Verdict::Impossible);
    let counts = figure.outcome == Ending::Measured || is_impossible;
    Some(Scored {
        family: figure.family(),
        unit: figure.unit(),
        value: figure.value.filter(|_| counts)?,
        range: judged.prediction.range,
        beside: judged.beside,
        is_impossible,
    })
}

/// How far single estimates are off, which no figure can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Off {
    pub figures: usize,
    /// Median of the value over the estimate, or the estimate over the value where that is more.
    pub median_factor: f64,
    /// Least value over estimate.
    pub least: f64,
    /// Greatest value over estimate.
    pub most: f64,
}

/// How far the estimates of some figures are off; `None` without any.
pub fn off<'a>(figures: impl Iterator<Item = &'a Figure>) -> Option<Off> {
    let ratios: Vec<f64> = figures
        .filter(|figure| figure.outcome == Ending::Measured)
        .filter_map(|figure| {
            let likely = figure.prior.as_ref()?.prediction.range?.likely;
            figure.value.filter(|value| *value > 0.0 && likely > 0.0).map(|value| value / likely)
        })
        .collect();
    let factors: Vec<f64> = ratios.iter().map(|ratio| ratio.max(1.0 / ratio)).collect();
    let (least, most) = ends(ratios.iter().copied());
    Some(Off { figures: ratios.len(), median_factor: median(&factors)?, least, most })
}

/// What some predictions came to. The share inside counts printed values, so that wide intervals of
/// noisy figures cannot raise it.
pub fn tally(all: &[Scored]) -> Tally {
    let count = |is: fn(&Scored) -> bool| all.iter().filter(|one| is(one)).count();
    let ranges = all.iter().filter_map(|one| Some((one.value, one.range?)));
    let positive = ranges.clone().filter(|(_, range)| range.low > 0.0);
    let widths: Vec<f64> = positive.map(|(_, range)| range.high / range.low).collect();
    let ratios: Vec<f64> = ranges
        .filter(|(value, range)| *value > 0.0 && range.likely > 0.0)
        .map(|(value, range)| value / range.likely)
        .collect();
    let scores: Vec<(f64, f64)> = all.iter().filter_map(Scored::scores).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| {
        (!scores.is_empty()).then(|| scores.iter().map(of).sum::<f64>() / scores.len() as f64)
    };
    Tally {
        figures: all.len(),
        inside: count(|one| one.predicted().is_some() && one.is_inside()),
        in_range: count(|one| one.is_inside()),
        expected: count(|one| one.predicted().is_some() && one.is_expected()),
        unpredicted: count(|one| one.predicted().is_none()),
        median_width: median(&widths),
        bias: median(&ratios),
        score: mean(|(ours, _)| *ours),
        nothing: mean(|(_, nothing)| *nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::{Scored, score, tally};
    use crate::figure::{Figure, Judged};
    use crate::verdict::Verdict;
    use record::event::{Ending, Prediction, PredictionKind, Range};
    use record::unit::Unit;

    #[test]
    fn a_value_outside_is_a_miss_though_its_interval_overlaps() {
        let figure = |value: f64, verdict| {
            let mut figure = Figure::absent("os.x", Ending::Measured, String::new());
            (figure.value, figure.ci) = (Some(value), Some((value / 2.0, value * 2.0)));
            figure.prior = Some(Judged {
                prediction: Prediction::new(
                    Some(Range { low: 10.0, likely: 15.0, high: 20.0 }),
                    String::new(),
                ),
                beside: None,
                bound: None,
                verdict: Some(verdict),
            });
            figure
        };
        let figures = [
            figure(12.0, Verdict::Within),
            figure(21.0, Verdict::Within),
            figure(12.0, Verdict::Impossible),
        ];
        let all = score(&figures, PredictionKind::Prior).all;
        assert_eq!((all.figures, all.inside), (3, 1));
    }

    #[test]
    fn the_score_is_worse_for_wide_ranges_and_for_misses() {
        let scored = |range: Option<(f64, f64)>| {
            let range = range.map(|(low, high)| Range { low, likely: (low * high).sqrt(), high });
            let (family, unit) = ("os", Unit::Ns);
            Scored { family, unit, value: 100.0, range, beside: None, is_impossible: false }
        };
        let score = |range| scored(range).scores().expect("a value above zero").0;
        let nothing = scored(None).scores().expect("as above").1;
        assert!((score(Some((50.0, 200.0))) - 4.0_f64.ln()).abs() < 1e-9);
        assert!((score(Some((110.0, 220.0))) - 2.0_f64.ln() - 20.0 * 1.1_f64.ln()).abs() < 1e-9);
        // Too wide, a time from zero on, and without a range: nothing is said.
        for range in [Some((10.0, 101.0)), Some((0.0, 200.0)), None] {
            assert_eq!(score(range), nothing, "{range:?}");
        }
        let all = tally(&[Some((50.0, 200.0)), Some((10.0, 1e3)), None].map(scored));
        let counts = (all.figures, all.in_range, all.unpredicted, all.inside);
        assert_eq!(counts, (3, 2, 2, 1));
        assert_eq!(all.bias, Some(1.0));
        assert!(all.narrower() > Some(1.0));
    }
}

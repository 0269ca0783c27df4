//! How good the predictions were: what the laws are judged by (METHOD §5).

use super::figure::{Figure, Judged};
use super::verdict::Verdict;
use record::event::{Ending, PredictionKind};
use stats::quantile::median;
use std::collections::BTreeMap;

/// The score of one kind of prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Over all figures.
    pub all: Tally,
    /// By family.
    pub by_family: BTreeMap<String, Tally>,
}

/// The score of a group of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Figures that have a value and a predicted interval.
    pub figures: usize,
    /// Of these, inside the interval.
    pub inside: usize,
    /// Measured figures without a prediction.
    pub unpredicted: usize,
    /// Median of the intervals' high over low, where both are positive.
    pub median_width: Option<f64>,
    /// The intervals behind that median: those whose ends are both positive.
    pub with_width: usize,
}

impl Tally {
    /// Share inside; `None` where there is nothing to judge.
    pub fn inside_share(&self) -> Option<f64> {
        (self.figures > 0).then(|| self.inside as f64 / self.figures as f64)
    }
}

/// Scores the prior or the derived predictions. A figure beyond its bound counts as outside; a
/// figure that failed otherwise does not count.
pub fn score(figures: &[Figure], of: PredictionKind) -> Score {
    let judged: Vec<(&Figure, &Judged)> = figures
        .iter()
        .filter_map(|figure| {
            let judged = match of {
                PredictionKind::Prior => figure.prior.as_ref(),
                PredictionKind::Derived => figure.derived.as_ref(),
            }?;
            let impossible = judged.verdict == Some(Verdict::Impossible);
            let counts = figure.outcome == Ending::Measured || impossible;
            (counts && figure.value.is_some()).then_some((figure, judged))
        })
        .collect();
    let mut families: BTreeMap<String, Vec<(&Figure, &Judged)>> = BTreeMap::new();
    for (figure, judged) in &judged {
        let family = families.entry(figure.family().to_owned()).or_default();
        family.push((figure, judged));
    }
    Score {
        all: tally(judged.into_iter()),
        by_family: families
            .into_iter()
            .map(|(family, judged)| (family, tally(judged.into_iter())))
            .collect(),
    }
}

/// How far single estimates are off, which no figure can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Off {
    /// Figures with an estimate.
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
    Some(Off {
        figures: ratios.len(),
        median_factor: median(&factors)?,
        least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        most: ratios.iter().copied().fold(0.0, f64::max),
    })
}

/// The share inside counts printed values, so that wide intervals of noisy figures cannot raise it.
fn tally<'a>(all: impl Iterator<Item = (&'a Figure, &'a Judged)>) -> Tally {
    let mut tally = Tally::default();
    let mut widths = Vec::new();
    for (figure, judged) in all {
        let Some(range) = judged.prediction.range else {
            tally.unpredicted += 1;
            continue;
        };
        tally.figures += 1;
        let is_possible = judged.verdict != Some(Verdict::Impossible);
        let is_inside = |value: f64| range.low <= value && value <= range.high;
        tally.inside += usize::from(is_possible && figure.value.is_some_and(is_inside));
        if range.low > 0.0 && range.high > 0.0 {
            widths.push(range.high / range.low);
        }
    }
    tally.median_width = median(&widths);
    tally.with_width = widths.len();
    tally
}

#[cfg(test)]
mod tests {
    use super::score;
    use crate::figure::{Figure, Judged};
    use crate::verdict::Verdict;
    use record::event::{Ending, Prediction, PredictionKind, Range};

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
}

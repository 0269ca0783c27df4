//! How good the predictions were: what the laws are judged by (METHOD §5).

use super::figure::{Figure, Judged};
use super::verdict::Verdict;
use crate::stats::quantile::median;
use record::event::{Ending, PredictionKind};
use std::collections::BTreeMap;

/// The score of one kind of prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Over all figures.
    pub(crate) all: Tally,
    /// By family.
    pub(crate) by_family: BTreeMap<String, Tally>,
}

/// What some predictions came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Figures that have a value and a predicted interval.
    pub(crate) figures: usize,
    /// Of these, inside the interval.
    pub(crate) inside: usize,
    /// Measured figures for which nothing could be predicted.
    pub(crate) unpredicted: usize,
    /// Median of the intervals' high over low, where both are positive.
    pub(crate) median_width: Option<f64>,
}

impl Tally {
    /// Share inside; `None` where there is nothing to judge.
    pub(crate) fn inside_share(&self) -> Option<f64> {
        (self.figures > 0).then(|| self.inside as f64 / self.figures as f64)
    }
}

/// Scores the prior or the derived predictions. A figure beyond its bound counts as outside; a
/// figure that failed otherwise does not count.
pub(crate) fn score(figures: &[Figure], of: PredictionKind) -> Score {
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
    let mut families: BTreeMap<String, Vec<&Judged>> = BTreeMap::new();
    for (figure, judged) in &judged {
        families
            .entry(figure.family().to_owned())
            .or_default()
            .push(judged);
    }
    Score {
        all: tally(judged.iter().map(|(_, judged)| *judged)),
        by_family: families
            .into_iter()
            .map(|(family, judged)| (family, tally(judged.into_iter())))
            .collect(),
    }
}

fn tally<'a>(all: impl Iterator<Item = &'a Judged>) -> Tally {
    let mut tally = Tally::default();
    let mut widths = Vec::new();
    for judged in all {
        let Some(range) = judged.prediction.range else {
            tally.unpredicted += 1;
            continue;
        };
        tally.figures += 1;
        tally.inside += usize::from(judged.verdict == Some(Verdict::Within));
        if range.low > 0.0 && range.high > 0.0 {
            widths.push(range.high / range.low);
        }
    }
    tally.median_width = median(&widths);
    tally
}

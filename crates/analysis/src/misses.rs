//! Predictions that were missed, and by how much.

use super::figure::{Figure, Judged};
use super::verdict::{Verdict, judge};
use record::event::{Ending, PredictionKind, Range};
use record::metric::Better;
use record::order::InOrder;

/// A figure outside of what was predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss<'run> {
    pub figure: &'run Figure,
    pub kind: PredictionKind,
    /// On which side; never [`Verdict::Within`] or [`Verdict::Unpredicted`].
    pub verdict: Verdict,
    pub range: Range,
    pub value: f64,
    /// The value over the nearer end, or the end over the value, whichever is above one; `None`
    /// where one of them is not positive and no factor parts them.
    pub factor: Option<f64>,
    /// Whether the value's interval, where it has one, lies outside as well.
    pub is_certain: bool,
}

/// Predictions of a kind that say something and could be judged: of measured figures, and of those
/// beyond a bound.
pub fn judged(figure: &Figure, kind: PredictionKind) -> Option<&Judged> {
    let judged = figure.prediction(kind)?;
    let verdict = judged.verdict.filter(|verdict| *verdict != Verdict::Unpredicted)?;
    // A figure that failed for another reason is not judged.
    (figure.outcome == Ending::Measured || verdict == Verdict::Impossible).then_some(judged)
}

/// Those that miss by most first, and before all others those that certainly miss.
pub fn sort(misses: &mut [Miss]) {
    misses.order_by(|a, b| {
        let certain = b.is_certain.cmp(&a.is_certain);
        certain.then(b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)))
    });
}

/// The worst misses: certain ones first, then by factor; those without a factor last. A figure
/// without an interval misses by its value.
pub fn worst<'figures>(
    figures: impl IntoIterator<Item = &'figures Figure>,
    most: usize,
) -> Vec<Miss<'figures>> {
    let miss = |figure| of_figure(figure).or_else(|| by_value(figure));
    let mut all: Vec<Miss> = figures.into_iter().filter_map(miss).collect();
    sort(&mut all);
    all.truncate(most);
    all
}

pub fn worst_of(figures: &[Figure], kind: PredictionKind, most: usize) -> Vec<Miss<'_>> {
    let mut all: Vec<Miss> = figures.iter().filter_map(|figure| miss(figure, kind)).collect();
    sort(&mut all);
    all.truncate(most);
    all
}

const KINDS: [PredictionKind; 2] = [PredictionKind::Prior, PredictionKind::Derived];

/// The worse of the misses of a figure's predictions: both are one.
pub fn of_figure(figure: &Figure) -> Option<Miss<'_>> {
    let mut both: Vec<Miss> = KINDS.iter().filter_map(|kind| miss(figure, *kind)).collect();
    sort(&mut both);
    both.into_iter().next()
}

/// How the value of a figure without an interval lies outside what was predicted. It has no verdict,
/// and no count of verdicts has it.
fn by_value(figure: &Figure) -> Option<Miss<'_>> {
    let measured = figure.ci.is_none() && figure.outcome == Ending::Measured;
    let (value, metric) = figure.value.filter(|_| measured).zip(figure.metric.as_ref())?;
    let miss = |kind: &PredictionKind| {
        let range = figure.prediction(*kind)?.range()?;
        let verdict = judge((value, value), &range, metric.unit, metric.better);
        let is_miss = !matches!(verdict, Verdict::Within | Verdict::Unpredicted);
        let factor = factor(value, &range);
        let kind = *kind;
        is_miss.then_some(Miss { figure, kind, verdict, range, value, factor, is_certain: false })
    };
    let mut both: Vec<Miss> = KINDS.iter().filter_map(miss).collect();
    sort(&mut both);
    both.into_iter().next()
}

/// How many measured figures have a prediction that says something, and of how many the value lies
/// within.
pub fn within(figures: &[Figure]) -> (usize, usize) {
    let inside = |figure: &Figure| {
        let (value, metric) = figure.value.zip(figure.metric.as_ref())?;
        let ranges = KINDS.iter().filter_map(|kind| figure.prediction(*kind)?.range());
        let ranges: Vec<Range> = ranges.filter(|range| range.predicts(metric.unit)).collect();
        let is_inside = |range: &Range| range.overlaps((value, value));
        (!ranges.is_empty()).then(|| ranges.iter().all(is_inside))
    };
    let measured = figures.iter().filter(|figure| figure.outcome == Ending::Measured);
    let all: Vec<bool> = measured.filter_map(inside).collect();
    (all.len(), all.iter().filter(|is_inside| **is_inside).count())
}

/// Whether a prediction of either kind could be judged.
pub fn is_judged(figure: &Figure) -> bool {
    KINDS.iter().any(|kind| judged(figure, *kind).is_some())
}

pub fn is_worse(miss: &Miss) -> bool {
    let better = miss.figure.metric.as_ref().map(|metric| metric.better);
    match miss.verdict {
        Verdict::Slower | Verdict::Impossible => true,
        Verdict::Above => better == Some(Better::Lower),
        Verdict::Below => better == Some(Better::Higher),
        Verdict::Faster | Verdict::Within | Verdict::Unpredicted => false,
    }
}

pub fn miss(figure: &Figure, kind: PredictionKind) -> Option<Miss<'_>> {
    let judged = judged(figure, kind)?;
    let verdict = judged.verdict.filter(|verdict| *verdict != Verdict::Within)?;
    let (range, value) = (judged.range()?, figure.value?);
    let reaches_in = figure.ci.is_some_and(|ci| range.overlaps(ci));
    Some(Miss {
        figure,
        kind,
        verdict,
        range,
        value,
        factor: factor(value, &range),
        is_certain: verdict == Verdict::Impossible || !reaches_in,
    })
}

fn factor(value: f64, range: &Range) -> Option<f64> {
    let factor = match value > range.high {
        true => value / range.high,
        false => range.low / value,
    };
    let is_factor = value > 0.0 && factor.is_finite() && factor >= 1.0;
    is_factor.then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::{KINDS, factor, miss, of_figure, within, worst};
    use crate::{figures, sample};
    use record::event::{Ending, Range};
    use std::collections::HashSet;

    #[test]
    fn factors_are_over_the_nearer_end() {
        let range = |low, high| Range { low, likely: low, high };
        assert_eq!(factor(30.0, &range(10.0, 20.0)), Some(1.5));
        assert_eq!(factor(5.0, &range(10.0, 20.0)), Some(2.0));
        assert_eq!(factor(0.0, &range(10.0, 20.0)), None);
        assert_eq!(factor(3.0, &range(0.0, 0.0)), None);
        assert_eq!(factor(-3.0, &range(-2.0, 1.0)), None);
    }

    #[test]
    fn the_worst_come_first_and_both_kinds_of_a_figure_are_one() {
        let all = figures(&sample::run());
        let found = worst(&all, 10);
        assert!(!found.is_empty());
        let certain = found.iter().filter(|miss| miss.is_certain);
        let factors: Vec<f64> = certain.filter_map(|miss| miss.factor).collect();
        assert!(factors.is_sorted_by(|a, b| a >= b), "{factors:?}");
        let labels: HashSet<String> = found.iter().map(|miss| miss.figure.label()).collect();
        assert_eq!(labels.len(), found.len());
        let both = all.iter().find(|figure| {
            KINDS.iter().all(|kind| miss(figure, *kind).is_some_and(|miss| miss.is_certain))
        });
        let both = both.expect("one misses both");
        let [prior, derived] = KINDS.map(|kind| miss(both, kind).and_then(|miss| miss.factor));
        assert_eq!(
            of_figure(both).and_then(|miss| miss.factor),
            [prior, derived].into_iter().flatten().reduce(f64::max)
        );
        assert_eq!(worst(&all, 1).len(), 1);
        assert_eq!(worst(&all, 1)[0], found[0]);
    }

    #[test]
    fn a_figure_without_an_interval_misses_by_its_value() {
        let mut all = figures(&sample::run());
        let certain = worst(&all, 100);
        let measured = certain.iter().filter(|miss| miss.figure.outcome == Ending::Measured);
        let missed: HashSet<String> = measured.map(|miss| miss.figure.label()).collect();
        assert!(!missed.is_empty());
        for figure in &mut all {
            figure.ci = None;
            for judged in [&mut figure.prior, &mut figure.derived].into_iter().flatten() {
                judged.verdict = None;
            }
        }
        let found = worst(&all, 100);
        assert!(found.iter().all(|miss| !miss.is_certain));
        let found: HashSet<String> = found.iter().map(|miss| miss.figure.label()).collect();
        assert!(missed.is_subset(&found), "{missed:?}, {found:?}");
        let (predicted, inside) = within(&all);
        assert_eq!(predicted - inside, found.len());
    }

    #[test]
    fn a_miss_whose_interval_reaches_in_is_uncertain_and_comes_after_certain_ones() {
        let mut all = figures(&sample::run());
        let certain = worst(&all, 100);
        let first = certain[0].figure.label();
        assert!(certain[0].is_certain && certain.len() > 1);
        let worst_of_all = all.iter_mut().find(|figure| figure.label() == first);
        // All of what was predicted, and more.
        worst_of_all.expect("was found").ci = Some((0.0, 1e12));
        let found = worst(&all, 100);
        let of_it: Vec<usize> =
            (0..found.len()).filter(|at| found[*at].figure.label() == first).collect();
        assert!(of_it.iter().all(|at| !found[*at].is_certain));
        let others = found.len() - of_it.len();
        assert!(others > 0 && of_it.iter().all(|at| *at >= others), "{of_it:?}");
    }
}

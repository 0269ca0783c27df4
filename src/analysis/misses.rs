//! Predictions that were missed, and by how much.

use super::figure::{Figure, Judged};
use super::verdict::Verdict;
use record::event::{Ending, PredictionKind, Range};

/// A figure outside of what was predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Miss<'run> {
    /// The figure.
    pub(crate) figure: &'run Figure,
    /// Which of its predictions was missed.
    pub(crate) of: PredictionKind,
    /// On which side; never [`Verdict::Within`].
    pub(crate) verdict: Verdict,
    /// What was predicted.
    pub(crate) range: Range,
    /// What was found.
    pub(crate) value: f64,
    /// The value over the nearer end, or the end over the value, whichever is above one; `None`
    /// where one of them is not positive and no factor parts them.
    pub(crate) factor: Option<f64>,
}

/// How a figure missed the prediction that is shown first.
pub(crate) fn shown(figure: &Figure) -> Option<Miss<'_>> {
    match &figure.prior {
        Some(judged) => of(figure, judged, PredictionKind::Prior),
        None => of(figure, figure.derived.as_ref()?, PredictionKind::Derived),
    }
}

/// The worst misses of either kind of prediction, by factor; those without a factor last.
pub(crate) fn worst(figures: &[Figure], most: usize) -> Vec<Miss<'_>> {
    let mut all: Vec<Miss> = figures
        .iter()
        .flat_map(|figure| {
            let prior = figure.prior.as_ref();
            let derived = figure.derived.as_ref();
            let prior = prior.and_then(|judged| of(figure, judged, PredictionKind::Prior));
            let derived = derived.and_then(|judged| of(figure, judged, PredictionKind::Derived));
            prior.into_iter().chain(derived)
        })
        .collect();
    all.sort_by(|a, b| b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)));
    all.truncate(most);
    all
}

fn of<'run>(figure: &'run Figure, judged: &Judged, of: PredictionKind) -> Option<Miss<'run>> {
    let verdict = judged
        .verdict
        .filter(|verdict| *verdict != Verdict::Within)?;
    // A figure that failed for another reason is not judged.
    if figure.outcome != Ending::Measured && verdict != Verdict::Impossible {
        return None;
    }
    let (range, value) = (judged.prediction.range?, figure.value?);
    Some(Miss {
        figure,
        of,
        verdict,
        range,
        value,
        factor: factor(value, &range),
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
    use super::{factor, worst};
    use crate::analysis::{figures, sample};
    use record::event::{PredictionKind, Range};

    #[test]
    fn factors_are_over_the_nearer_end() {
        let range = |low, high| Range {
            low,
            likely: low,
            high,
        };
        assert_eq!(factor(30.0, &range(10.0, 20.0)), Some(1.5));
        assert_eq!(factor(5.0, &range(10.0, 20.0)), Some(2.0));
        assert_eq!(factor(0.0, &range(10.0, 20.0)), None);
        assert_eq!(factor(3.0, &range(0.0, 0.0)), None);
        assert_eq!(factor(-3.0, &range(-2.0, 1.0)), None);
    }

    #[test]
    fn the_worst_come_first_and_both_kinds_count() {
        let all = figures(&sample::run());
        let found = worst(&all, 10);
        assert!(!found.is_empty());
        let factors: Vec<f64> = found.iter().filter_map(|miss| miss.factor).collect();
        assert!(factors.is_sorted_by(|a, b| a >= b), "{factors:?}");
        assert!(found.iter().any(|miss| miss.of == PredictionKind::Prior));
        assert_eq!(worst(&all, 1).len(), 1);
        assert_eq!(worst(&all, 1)[0], found[0]);
    }
}

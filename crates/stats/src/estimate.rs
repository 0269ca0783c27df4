//! The one estimator: the median of round values with its exact interval.

use super::alone::Alone;
use super::interval::{Interval, median_order};
use super::moments::Moments;
use super::quantile::median;
use record::metric::Better;

/// Undisturbed rounds that suffice to leave the disturbed ones out.
pub const LEAST_UNDISTURBED: usize = 6;

/// What one round said about one metric of one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundValue {
    /// The round's value, finite, in the metric's unit.
    pub value: f64,
    pub disturbed: bool,
}

/// A figure: value, interval, and all that must be shown beside it. Fields are in the metric's
/// unit. All but the counts of rounds and the two named medians speak of the rounds used.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Median of the rounds used.
    pub value: f64,
    /// Exact interval of that median; `None` below five rounds.
    pub interval: Option<Interval>,
    pub rounds: usize,
    pub disturbed: usize,
    /// How many rounds the value rests on.
    pub used: usize,
    /// Whether disturbed rounds had to be used: the figure is then labelled "disturbed".
    pub used_disturbed: bool,
    pub median_all: f64,
    /// Median of the undisturbed rounds; `None` when there are none.
    pub median_undisturbed: Option<f64>,
    pub mean: f64,
    /// Sample standard deviation; `None` for a single round.
    pub stddev: Option<f64>,
    pub min: f64,
    pub max: f64,
    /// The better of `min` and `max`; `None` where neither direction is.
    pub best: Option<f64>,
}

/// The estimate from all rounds of a figure. Where at least [`LEAST_UNDISTURBED`] rounds are
/// undisturbed it rests on these, else on all. `None` without rounds. Panics: when a value is not
/// finite: a round that yields none has failed and gives no `RoundValue`.
pub fn estimate(rounds: &[RoundValue], better: Better) -> Option<Estimate> {
    assert!(
        rounds.iter().all(|round| round.value.is_finite()),
        "round values are finite: {rounds:?}"
    );
    let all: Vec<f64> = rounds.iter().map(|round| round.value).collect();
    let undisturbed: Vec<f64> =
        rounds.iter().filter(|round| !round.disturbed).map(|round| round.value).collect();
    let used = if undisturbed.len() >= LEAST_UNDISTURBED { &undisturbed } else { &all };
    let moments = Moments::from_values(used);
    let (min, max) = (moments.min()?, moments.max()?);
    Some(Estimate {
        value: median(used)?,
        interval: median_order(used),
        rounds: all.len(),
        disturbed: all.len() - undisturbed.len(),
        used: used.len(),
        used_disturbed: used.len() > undisturbed.len(),
        median_all: median(&all)?,
        median_undisturbed: median(&undisturbed),
        mean: moments.mean()?,
        stddev: moments.stddev(),
        min,
        max,
        best: match better {
            Better::Lower => Some(min),
            Better::Higher => Some(max),
            Better::None => None,
        },
    })
}

impl Estimate {
    /// The same rounds with the value and the interval over the samples of all of them, where the
    /// core was alone in too few.
    #[must_use]
    pub fn pooled(self, alone: Option<Alone>) -> Estimate {
        match alone {
            Some(Alone::Pooled(value, interval)) => Estimate { value, interval, ..self },
            Some(Alone::Rounds) | None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(undisturbed: &[f64], disturbed: &[f64]) -> Vec<RoundValue> {
        let round = |disturbed| move |&value| RoundValue { value, disturbed };
        undisturbed.iter().map(round(false)).chain(disturbed.iter().map(round(true))).collect()
    }

    #[test]
    fn six_undisturbed_rounds_suffice() {
        let rounds = rounds(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[100.0, 200.0]);
        let found = estimate(&rounds, Better::Lower).unwrap();
        assert_eq!(found.value, 3.5);
        assert!(!found.used_disturbed);
        assert_eq!((found.rounds, found.disturbed, found.used), (8, 2, 6));
        assert_eq!((found.median_all, found.median_undisturbed), (4.5, Some(3.5)));
        assert_eq!((found.best, found.max), (Some(1.0), 6.0));
        assert_eq!(found.interval.unwrap().high, 6.0);
    }

    #[test]
    fn five_do_not_and_the_figure_is_labelled() {
        let rounds = rounds(&[1.0, 2.0, 3.0, 4.0, 5.0], &[100.0, 200.0]);
        let found = estimate(&rounds, Better::Higher).unwrap();
        assert_eq!(found.value, 4.0);
        assert!(found.used_disturbed);
        assert_eq!(found.best, Some(200.0));
        assert_eq!(found.median_undisturbed, Some(3.0));
    }

    #[test]
    fn few_rounds_have_a_value_and_no_interval() {
        let quiet = estimate(&rounds(&[2.0, 4.0], &[]), Better::None).unwrap();
        assert_eq!((quiet.value, quiet.interval, quiet.best), (3.0, None, None));
        assert!(!quiet.used_disturbed);
        assert_eq!(estimate(&[], Better::None), None);
    }

    #[test]
    fn negative_differences_stay_negative() {
        let found = estimate(&rounds(&[-2.0, -1.0, 0.5], &[]), Better::Lower).unwrap();
        assert_eq!((found.value, found.min), (-1.0, -2.0));
    }
}

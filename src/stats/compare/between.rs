//! How much an unchanged machine differs from run to run.

use crate::stats::moments::Moments;

/// Fewest stored runs from which the variance is taken.
pub(crate) const LEAST_RUNS: usize = 3;

/// Weight of the card's default in degrees of freedom, against one less than the number of
/// stored runs: three runs alone say little, and by chance may seem not to differ at all.
const DEFAULT_FREEDOM: f64 = 4.0;

/// Starting standard deviation of log values between runs, for hardware figures.
pub(crate) const HARDWARE_DEVIATION: f64 = 0.015;

/// Starting standard deviation of log values between runs, for os and io figures.
pub(crate) const SYSTEM_DEVIATION: f64 = 0.04;

/// The between-run variance of log values, which counts as known, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BetweenRuns {
    /// Variance of the log values of runs of an unchanged machine.
    pub(crate) variance: f64,
    /// How many stored runs it rests on; 0 for the card's default.
    pub(crate) runs: usize,
}

impl BetweenRuns {
    /// The card's default, as a standard deviation of log values.
    pub(crate) fn default_of(deviation: f64) -> Self {
        Self {
            variance: deviation * deviation,
            runs: 0,
        }
    }
}

/// The between-run variance of one figure from stored runs of this machine identity: for each
/// run the figure's round values, or its one value where it has no rounds. From [`LEAST_RUNS`] runs
/// with positive values: the variance of the runs' mean logs less what rounds within runs explain
/// of it (one-way analysis of variance; at least 0; one value explains nothing), weighted with the
/// default. Else the default.
pub(crate) fn between_runs(runs: &[Vec<f64>], default_deviation: f64) -> BetweenRuns {
    let default = BetweenRuns::default_of(default_deviation);
    let within: Vec<Moments> = runs
        .iter()
        .filter(|run| !run.is_empty() && run.iter().all(|&value| value > 0.0))
        .map(|run| Moments::of(&run.iter().map(|value| value.ln()).collect::<Vec<_>>()))
        .collect();
    if within.len() < LEAST_RUNS {
        return default;
    }
    let means: Vec<f64> = within.iter().filter_map(Moments::mean).collect();
    let explained: f64 = within
        .iter()
        .filter_map(|run| Some(run.variance()? / run.count() as f64))
        .sum::<f64>()
        / within.len() as f64;
    let Some(observed) = Moments::of(&means).variance() else {
        return default;
    };
    let own = (observed - explained).max(0.0);
    let freedom = (within.len() - 1) as f64;
    let sum = freedom * own + DEFAULT_FREEDOM * default.variance;
    BetweenRuns {
        variance: sum / (freedom + DEFAULT_FREEDOM),
        runs: within.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draw::Draw;

    fn runs(seed: u64, count: usize, between: f64) -> Vec<Vec<f64>> {
        let mut draw = Draw::new(seed);
        (0..count)
            .map(|_| {
                let level = between * draw.normal();
                (0..9)
                    .map(|_| (level + 0.01 * draw.normal()).exp())
                    .collect()
            })
            .collect()
    }

    #[test]
    fn few_runs_give_the_default() {
        let found = between_runs(&runs(1, 2, 0.1), HARDWARE_DEVIATION);
        assert_eq!(found, BetweenRuns::default_of(HARDWARE_DEVIATION));
        let negative = vec![vec![-1.0, 2.0]; 5];
        assert_eq!(between_runs(&negative, SYSTEM_DEVIATION).runs, 0);
    }

    #[test]
    fn many_runs_replace_it() {
        let found = between_runs(&runs(2, 400, 0.05), HARDWARE_DEVIATION);
        assert_eq!(found.runs, 400);
        assert!(
            (found.variance.sqrt() / 0.05 - 1.0).abs() < 0.1,
            "{found:?}"
        );
        let quiet = between_runs(&runs(3, 400, 0.0), HARDWARE_DEVIATION);
        assert!(quiet.variance.sqrt() < 0.003, "{quiet:?}");
    }

    #[test]
    fn single_values_stand_for_their_runs() {
        let single: Vec<Vec<f64>> = runs(2, 400, 0.05)
            .into_iter()
            .map(|run| vec![run[0]])
            .collect();
        let found = between_runs(&single, HARDWARE_DEVIATION);
        assert_eq!(found.runs, 400);
        // What rounds differ by within a run is in it.
        let expected = 0.05_f64.hypot(0.01);
        assert!(
            (found.variance.sqrt() / expected - 1.0).abs() < 0.1,
            "{found:?}"
        );
    }

    #[test]
    fn three_equal_runs_do_not_make_it_zero() {
        let found = between_runs(&vec![vec![1.0, 1.0]; 3], HARDWARE_DEVIATION);
        assert!(found.variance.sqrt() > 0.01, "{found:?}");
    }
}

//! How much an unchanged machine differs from run to run.

use super::variance::{Prior, Variance, shrunk};
use crate::moments::Moments;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewest degrees of freedom for an estimate of the variance from stored runs: three runs under one
/// condition.
const LEAST_FREEDOM: f64 = 2.0;

/// Fewest figures from which it is learnt how much figures of one kind differ in it.
const LEAST_FIGURES: usize = 10;

/// Starting standard deviation of log values between runs, for hardware figures.
#[cfg(test)]
pub const HARDWARE_DEVIATION: f64 = 0.015;

/// Starting standard deviation of log values between runs, for os and io figures.
#[cfg(test)]
pub const SYSTEM_DEVIATION: f64 = 0.04;

/// The between-run variance of log values, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetweenRuns {
    /// Variance of the log values of runs of an unchanged machine, beside that of their rounds.
    pub variance: f64,
    /// Variance of the runs' own mean logs, rounds included: what was estimated.
    whole: f64,
    /// Degrees of freedom of `whole`; infinite for the default, which counts as known.
    pub freedom: f64,
    /// How many stored runs it rests on; 0 for the default.
    pub runs: usize,
}

impl BetweenRuns {
    /// The default, as a standard deviation of log values: an assumption, taken as known.
    pub fn default_of(deviation: f64) -> Self {
        Self {
            variance: deviation * deviation,
            whole: deviation * deviation,
            freedom: f64::INFINITY,
            runs: 0,
        }
    }

    /// How uncertain what it gives to the squared standard error of a log ratio is, as
    /// Satterthwaite sums it: the square of the estimate over its degrees of freedom.
    pub(super) fn uncertainty(&self) -> f64 {
        (2.0 * self.whole).powi(2) / self.freedom
    }

    /// Half the 95 % interval of the log ratio of two runs of an unchanged machine.
    pub fn reach(&self) -> f64 {
        let factor = match self.freedom < 1e6 {
            true => StudentsT::new(0.0, 1.0, self.freedom).map_or(1.96, |t| t.inverse_cdf(0.975)),
            false => 1.96,
        };
        factor * (2.0 * self.variance).sqrt()
    }
}

/// What stored runs say of one figure alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Variance of the runs' mean logs, within conditions.
    whole: Variance,
    /// What rounds within runs explain of it.
    explained: f64,
    runs: usize,
}

/// The scatter of stored runs, by condition: for each condition, for each of its runs the figure's
/// round values, or its one value where it has no rounds. Only what runs under one condition
/// differ by counts, pooled over the conditions. `None` below three runs' worth of degrees of
/// freedom; runs with a value that is not positive are left out.
pub fn scatter(conditions: &[Vec<&[f64]>]) -> Option<Scatter> {
    let (mut squares, mut freedom, mut explained, mut runs) = (0.0, 0.0, 0.0, 0);
    for condition in conditions {
        let within: Vec<Moments> = condition
            .iter()
            .filter(|run| !run.is_empty() && run.iter().all(|&value| value > 0.0))
            .map(|run| {
                Moments::from_values(&run.iter().map(|value| value.ln()).collect::<Vec<_>>())
            })
            .collect();
        let means: Vec<f64> = within.iter().filter_map(Moments::mean).collect();
        let Some(variance) = Moments::from_values(&means).variance() else { continue };
        let own = means.len() as f64 - 1.0;
        squares += variance * own;
        freedom += own;
        runs += means.len();
        // A single value explains nothing.
        let of_rounds = |run: &Moments| Some(run.variance()? / run.count() as f64);
        explained += within.iter().filter_map(of_rounds).sum::<f64>();
    }
    (freedom >= LEAST_FREEDOM).then(|| Scatter {
        whole: Variance { variance: squares / freedom, freedom },
        explained: explained / runs as f64,
        runs,
    })
}

/// What the scatters of all figures of one kind say about any one of them
/// ([`super::variance::prior`], taken one standard error to the cautious side); `None` below ten
/// figures. Runs that are equal to the last digit (a count) say nothing.
pub fn alike(scatters: &[Scatter]) -> Option<Prior> {
    let moving: Vec<Variance> =
        scatters.iter().map(|one| one.whole).filter(|whole| whole.variance > 0.0).collect();
    if moving.len() >= LEAST_FIGURES { super::variance::cautious_prior(&moving) } else { None }
}

/// The between-run variance of one figure: its own scatter, steadied by that of the figures of its
/// kind; beside too few of these by the default, with the weight of [`DEFAULT_FREEDOM`].
pub fn between_runs(own: Scatter, alike: Option<Prior>, default_deviation: f64) -> BetweenRuns {
    let prior = alike.unwrap_or(Prior {
        variance: default_deviation * default_deviation + own.explained,
        freedom: DEFAULT_FREEDOM,
    });
    let whole = shrunk(own.whole, Some(prior));
    BetweenRuns {
        variance: (whole.variance - own.explained).max(0.0),
        whole: whole.variance,
        freedom: whole.freedom,
        runs: own.runs,
    }
}

/// Weight of the default beside stored runs of fewer than ten figures of a kind.
pub(super) const DEFAULT_FREEDOM: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    fn runs(draw: &mut Draw, count: usize, between: f64) -> Vec<Vec<f64>> {
        (0..count)
            .map(|_| {
                let level = between * draw.normal();
                draw.values(9, |draw| (level + 0.01 * draw.normal()).exp())
            })
            .collect()
    }

    fn from_runs(runs: &[Vec<f64>]) -> Option<Scatter> {
        scatter(&[runs.iter().map(Vec::as_slice).collect()])
    }

    #[test]
    fn few_runs_and_values_without_logarithm_say_nothing() {
        assert_eq!(from_runs(&runs(&mut Draw::new(1), 2, 0.1)), None);
        assert_eq!(from_runs(&vec![vec![-1.0, 2.0]; 5]), None);
    }

    #[test]
    fn many_runs_replace_the_default() {
        let own = from_runs(&runs(&mut Draw::new(2), 400, 0.05)).unwrap();
        let found = between_runs(own, None, HARDWARE_DEVIATION);
        assert_eq!((found.runs, found.freedom), (400, 403.0));
        assert!((found.variance.sqrt() / 0.05 - 1.0).abs() < 0.1, "{found:?}");
        let own = from_runs(&runs(&mut Draw::new(3), 400, 0.0)).unwrap();
        let quiet = between_runs(own, None, HARDWARE_DEVIATION);
        assert!(quiet.variance.sqrt() < 0.003, "{quiet:?}");
    }

    #[test]
    fn single_values_stand_for_their_runs() {
        let single: Vec<Vec<f64>> =
            runs(&mut Draw::new(2), 400, 0.05).into_iter().map(|run| vec![run[0]]).collect();
        let found = between_runs(from_runs(&single).unwrap(), None, HARDWARE_DEVIATION);
        // What rounds differ by within a run is in it.
        let expected = 0.05_f64.hypot(0.01);
        assert!((found.variance.sqrt() / expected - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_change_of_condition_is_no_scatter() {
        let mut draw = Draw::new(4);
        let before = runs(&mut draw, 8, 0.02);
        let after: Vec<Vec<f64>> = runs(&mut draw, 8, 0.02)
            .into_iter()
            .map(|run| run.iter().map(|value| value * 1.5).collect())
            .collect();
        let [before, after] = [&before, &after].map(|runs| runs.as_slice());
        let apart = scatter(&[
            before.iter().map(Vec::as_slice).collect(),
            after.iter().map(Vec::as_slice).collect(),
        ])
        .unwrap();
        let mixed = scatter(&[before.iter().chain(after).map(Vec::as_slice).collect()]).unwrap();
        assert_eq!((apart.runs, apart.whole.freedom), (16, 14.0));
        assert!(apart.whole.variance.sqrt() < 0.04, "{apart:?}");
        assert!(mixed.whole.variance.sqrt() > 0.15, "{mixed:?}");
        // A condition with a single run says nothing.
        let [few, one] = [&before[..2], &after[..1]].map(|runs| runs.iter().map(Vec::as_slice));
        assert_eq!(scatter(&[few.collect(), one.collect()]), None);
    }

    #[test]
    fn three_equal_runs_do_not_make_it_zero() {
        let own = from_runs(&vec![vec![1.0, 1.0]; 3]).unwrap();
        let found = between_runs(own, None, HARDWARE_DEVIATION);
        assert!(found.variance.sqrt() > 0.01, "{found:?}");
    }

    #[test]
    fn few_runs_of_figures_that_differ_reach_further_than_the_normal_factor() {
        let mut draw = Draw::new(5);
        let scatters: Vec<Scatter> = (0..300)
            .map(|_| {
                let deviation = 0.02 * (0.7 * draw.normal()).exp();
                from_runs(&runs(&mut draw, 5, deviation)).unwrap()
            })
            .collect();
        let prior = alike(&scatters).unwrap();
        assert!((0.5..6.0).contains(&prior.freedom), "{prior:?}");
        let found = between_runs(scatters[0], Some(prior), HARDWARE_DEVIATION);
        assert_eq!(found.freedom, 4.0 + prior.freedom);
        assert!(found.reach() > 2.2 * (2.0 * found.variance).sqrt());
        assert!(alike(&scatters[..9]).is_none());
    }
}

//! The ratio of a family of figures between two runs.
//!
//! The figures of an experiment move together: a device, a peer or a page cache is faster in one run
//! for all of its cases. So an experiment counts once, and the interval of the family comes from what
//! its experiments differ by.

use super::between::DEFAULT_FREEDOM;
use super::variance::{Prior, Variance, shrunk};
use crate::quantile::{median, robust_deviation};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::f64::consts::FRAC_PI_2;

/// The median of the experiments and half of its 95 % interval, in logarithms. `experiments` has the
/// log ratios of each; `reach` is half of the 95 % interval of the log ratio of one figure in two runs
/// of an unchanged machine.
///
/// That much may be common to all experiments, which the two runs cannot show. Beside it, in
/// quadrature, is the standard error of a median over experiments. Their deviation is robust, since
/// one experiment may move by a factor; as there are few, it is steadied by what `reach` says.
/// `None` without figures.
pub fn centre(experiments: &[Vec<f64>], reach: f64) -> Option<(f64, f64)> {
    let centres: Vec<f64> = experiments.iter().filter_map(|logs| median(logs)).collect();
    let middle = median(&centres)?;
    let count = centres.len() as f64;
    // The median absolute deviation of few values is too small by about this.
    let deviation = (1.0 + 1.0 / count) * robust_deviation(&centres, middle);
    let found = Variance { variance: deviation * deviation, freedom: count - 1.0 };
    let prior = Prior { variance: (reach / 1.96).powi(2), freedom: DEFAULT_FREEDOM };
    let apart = shrunk(found, Some(prior));
    // A median of one or two values is their mean.
    let of_median = if centres.len() > 2 { FRAC_PI_2 } else { 1.0 };
    let error = (of_median * apart.variance / count).sqrt();
    let factor = StudentsT::new(0.0, 1.0, apart.freedom).map_or(1.96, |t| t.inverse_cdf(0.975));
    Some((middle, (factor * error).hypot(reach)))
}

#[cfg(test)]
mod tests {
    use super::centre;
    use crate::draw::{Draw, share_of, trials};

    /// Deviation of a figure between runs.
    const BETWEEN: f64 = 0.04;

    fn reach() -> f64 {
        1.96 * 2.0_f64.sqrt() * BETWEEN
    }

    /// The log ratios of an unchanged machine: all move together, each experiment moves by itself, and
    /// so does each of its 2 to 20 figures. `jumps`: one experiment, and one figure of each, moves by
    /// a factor of 3 to 9.
    fn unchanged(draw: &mut Draw, experiments: usize, apart: f64, jumps: bool) -> Vec<Vec<f64>> {
        let jump = |draw: &mut Draw| {
            let size = (3.0 + 6.0 * draw.uniform()).ln();
            if draw.chance(0.5) { size } else { -size }
        };
        let all = 2.0_f64.sqrt() * BETWEEN * draw.normal();
        let mut experiment = |nth: usize| {
            let together = all + apart * draw.normal();
            let together = if jumps && nth == 0 { together + jump(draw) } else { together };
            let count = 2 + (19.0 * (1.0 - draw.uniform())) as usize;
            let mut logs = draw.values(count, |draw| together + 0.05 * draw.normal());
            if jumps {
                logs[0] += jump(draw);
            }
            logs
        };
        (0..experiments).map(&mut experiment).collect()
    }

    /// On the recorded pairs of quick runs the experiments of a family were 0.016 to 0.05 apart.
    #[test]
    fn the_interval_of_an_unchanged_machine_holds_1() {
        for (experiments, apart, jumps) in [
            (1, 0.05, false),
            (2, 0.0, false),
            (2, 0.1, false),
            (3, 0.1, false),
            (5, 0.0, false),
            (5, 0.1, false),
            (8, 0.15, false),
            (4, 0.05, true),
            (5, 0.1, true),
            (8, 0.1, true),
        ] {
            let mut draw = Draw::new(7);
            let covered = share_of(trials(2000), || {
                let (middle, half) =
                    centre(&unchanged(&mut draw, experiments, apart, jumps), reach()).unwrap();
                middle.abs() <= half
            });
            assert!(covered >= 0.92, "{experiments} {apart} {jumps}: {covered}");
        }
    }

    #[test]
    fn a_family_that_is_faster_by_a_third_is_seen_whatever_one_experiment_does() {
        let mut draw = Draw::new(8);
        let seen = share_of(trials(1000), || {
            let mut logs = unchanged(&mut draw, 6, 0.05, true);
            logs.iter_mut().flatten().for_each(|log| *log += 1.33_f64.ln());
            let (middle, half) = centre(&logs, reach()).unwrap();
            middle - half > 0.0
        });
        assert!(seen >= 0.9, "{seen}");
        assert_eq!(centre(&[], reach()), None);
    }
}

//! What happened to one figure between two sweeps over the same nodes, from each node's own change.
//!
//! Nodes differ from each other far more than one node differs from itself, so the change of each
//! node is taken first: the logarithm of new over base. Their trimmed mean is what all nodes have
//! in common (Tukey and McLaughlin 1963; Yuen 1974): a fifth is cut at either end, so that a node that
//! was repaired or broke in between does not move it.

use crate::peers::{SMALL, errors, spread, tail};
use crate::repeats::trimmed_mean;
use serde::Serialize;
use stats::moments::Moments;
use stats::quantile::median;

/// Nodes below which the change of a figure is not tested.
pub const NODES_LEAST: usize = 3;
/// Nodes below which no single node is judged: five peers beside it.
pub const NODES_LEAST_TO_JUDGE_ONE: usize = 6;

/// A change in logarithms: of all nodes, or of one node beside the others. In files it is a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "Ratio")]
pub struct Shift {
    pub log: f64,
    error: f64,
    freedom: f64,
    /// Two-sided p of no change.
    pub p: f64,
}

/// New over base with its interval at 95 %, and p before correction.
#[derive(Serialize)]
struct Ratio {
    ratio: f64,
    ci: (f64, f64),
    p: f64,
}

impl From<Shift> for Ratio {
    fn from(shift: Shift) -> Ratio {
        Ratio { ratio: shift.ratio(), ci: shift.factors(), p: shift.p }
    }
}

impl Shift {
    /// `None` where there is no scatter at all.
    fn new(log: f64, error: f64, freedom: f64) -> Option<Shift> {
        let is_tested = (log / error).is_finite();
        let p = (2.0 * tail(log.abs(), error, freedom).1).min(1.0);
        is_tested.then_some(Shift { log, error, freedom, p })
    }

    pub fn ratio(&self) -> f64 {
        self.log.exp()
    }

    /// The ends of its interval of 95 %, as factors.
    pub fn factors(&self) -> (f64, f64) {
        let reach = self.reach(0.05);
        ((self.log - reach).exp(), (self.log + reach).exp())
    }

    /// How far from 0 a change must be to have a two-sided p of `level` here.
    pub fn reach(&self, level: f64) -> f64 {
        self.error * errors(level / 2.0, self.freedom)
    }
}

/// The common change of some nodes, from the logarithm of each node's change and the variance that
/// its own two intervals give it. `None` below [`NODES_LEAST`] nodes, or without any scatter.
pub fn common(changes: &[f64], own: &[f64]) -> Option<Shift> {
    if changes.len() < NODES_LEAST {
        return None;
    }
    let (mean, error) = trimmed_mean(changes)?;
    let error = error?;
    // Equal changes of few nodes are chance: the error is no less than the intervals make it.
    let of_intervals = Moments::from_values(own).mean().unwrap_or(0.0) / changes.len() as f64;
    Shift::new(mean, error.variance.max(of_intervals).sqrt(), error.freedom)
}

/// Each node beside the others; `None` below [`NODES_LEAST_TO_JUDGE_ONE`] nodes, or without scatter.
/// Centre and scale of the others are those by which the model judges a node within one sweep.
pub fn apart(changes: &[f64], own: &[f64]) -> Vec<Option<Shift>> {
    let typical = median(own).unwrap_or(0.0);
    let floor = typical.sqrt();
    let whole = spread(changes, floor);
    let one = |at: usize| {
        let others = || {
            let mut others = changes.to_vec();
            others.swap_remove(at);
            others
        };
        let peers = if changes.len() > SMALL { whole? } else { spread(&others(), floor)? };
        // A node less certain than the others may be further away.
        let excess = own.get(at).map_or(0.0, |own| (own - typical).max(0.0));
        let error = (peers.squared_error().max(typical) + excess).sqrt();
        Shift::new(changes[at] - peers.centre, error, peers.freedom)
    };
    let is_enough = changes.len() >= NODES_LEAST_TO_JUDGE_ONE;
    (0..changes.len()).map(|at| is_enough.then(|| one(at)).flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::{apart, common};
    use crate::compare::NODE_RATE;
    use stats::compare::multiple::benjamini_hochberg;
    use stats::draw::{Draw, trials};

    fn drawn(count: usize, deviation: f64, draw: &mut Draw) -> Vec<f64> {
        (0..count).map(|_| deviation * draw.normal()).collect()
    }

    #[test]
    fn a_common_change_by_hand() {
        // One of five is cut at either end: the mean of 0.01, 0.02 and 0.03.
        let changes = [0.02, -0.5, 0.03, 0.01, 0.9];
        let found = common(&changes, &[0.0; 5]).unwrap();
        assert!((found.log - 0.02).abs() < 1e-12);
        assert_eq!(found.freedom, 2.0);
        // Winsorized: 0.01, 0.01, 0.02, 0.03, 0.03 have a variance of 1e-4; times 4 over 3 x 2.
        assert!((found.error - (1e-4_f64 * 4.0 / 6.0).sqrt()).abs() < 1e-12);
        assert_eq!(common(&changes[..2], &[0.0; 2]), None);
        // Without any scatter there is no test, and with intervals it is theirs.
        assert_eq!(common(&[0.0; 4], &[0.0; 4]), None);
        let of_intervals = common(&[0.1; 4], &[0.04; 4]).unwrap();
        assert!((of_intervals.error - 0.1).abs() < 1e-12);
    }

    #[test]
    fn the_interval_holds_the_common_change_as_often_as_it_says() {
        let mut draw = Draw::new(11);
        for (count, odd) in [(3, 0), (6, 0), (12, 0), (24, 0), (24, 2), (100, 5)] {
            let all = trials(2000);
            let held = (0..all).filter(|_| {
                let mut changes = drawn(count, 0.02, &mut draw);
                changes.iter_mut().take(odd).for_each(|change| *change -= 0.4);
                let own = vec![0.02_f64.powi(2) / 4.0; count];
                let (low, high) = common(&changes, &own).unwrap().factors();
                (low..=high).contains(&1.0)
            });
            let share = held.count() as f64 / all as f64;
            // Odd nodes, all on one side, move it by a part of its error.
            let least = if odd > 0 { 0.90 } else { 0.935 };
            assert!(share >= least && share < 0.998, "{count} nodes, {odd} odd: {share}");
        }
    }

    #[test]
    fn healthy_nodes_are_rarely_apart_and_a_changed_one_is_found() {
        let mut draw = Draw::new(13);
        for count in [6, 8, 12, 24, 100] {
            let all = trials(100);
            let (mut accused, mut found) = (0, 0);
            for _ in 0..all {
                // Twelve figures of each node.
                let mut p = Vec::new();
                for _ in 0..12 {
                    let changes = drawn(count, 0.014, &mut draw);
                    p.extend(
                        apart(&changes, &vec![1e-4; count]).into_iter().map(|of| of.unwrap().p),
                    );
                }
                accused += usize::from(benjamini_hochberg(&p, NODE_RATE).contains(&true));
                let mut changes = drawn(count, 0.014, &mut draw);
                changes[0] -= 0.25;
                p[0] = apart(&changes, &vec![1e-4; count])[0].unwrap().p;
                found += usize::from(benjamini_hochberg(&p, NODE_RATE)[0]);
            }
            assert!(accused * 100 <= all * 3, "{count} nodes: {accused} of {all} accuse");
            if count >= 12 {
                assert!(found * 10 >= all * 9, "{count} nodes: {found} of {all} found");
            }
        }
    }
}

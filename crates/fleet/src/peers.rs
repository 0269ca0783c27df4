//! Where a value stands among those of its peers: a robust z on the log scale.
//!
//! The centre is a median and the scale a standard deviation of what is not far from it, so that
//! neither follows the nodes that are looked for. The tails are Student's, because a scale of few peers
//! is uncertain.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use stats::quantile::{median, quantile, robust_deviation};
use std::f64::consts::FRAC_PI_2;

/// Values further from the centre, in robust standard deviations, do not count for the scale.
const FAR: f64 = 3.5;
/// The share of values whose distance from the centre the scale must explain on the worse side, in
/// standard deviations of a normal distribution: some figures are now and then worse by a step.
const UPPER: (f64, f64) = (0.9, 1.2816);
/// Up to so many values a node is left out of its own peers; among more it makes no difference.
pub(crate) const SMALL: usize = 64;
/// Above so many degrees of freedom Student's distribution is the normal one.
const MANY: f64 = 1e6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peers {
    pub centre: f64,
    pub variance: f64,
    pub freedom: f64,
    pub count: usize,
}

impl Peers {
    /// Of a node as healthy as its peers, measured once: their variance, and the uncertainty of the
    /// centre (a median's).
    pub fn squared_error(&self) -> f64 {
        self.variance * (1.0 + FRAC_PI_2 / self.count as f64)
    }
}

/// The centre and scale of values, never less spread than `floor` (a standard deviation) before the
/// far ones are left out. `None` below two values.
pub(crate) fn spread(values: &[f64], floor: f64) -> Option<Peers> {
    let mut centre = median(values)?;
    let mut scale = robust_deviation(values, centre).max(floor);
    let mut found = None;
    // The second time the scale is that of what the first one kept: a third of bad nodes is left out.
    for _ in 0..2 {
        let near = |x: &&f64| (*x - centre).abs() <= FAR * scale;
        let kept: Vec<f64> = values.iter().filter(near).copied().collect();
        if kept.len() < 2 {
            break;
        }
        centre = median(&kept)?;
        let squares: f64 = kept.iter().map(|x| (x - centre).powi(2)).sum();
        let freedom = (kept.len() - 1) as f64;
        let variance = squares / freedom;
        scale = variance.sqrt().max(floor);
        found = Some(Peers { centre, variance, freedom, count: values.len() });
    }
    found
}

/// The same with a scale that explains the worse tenth of the values too.
pub(crate) fn spread_to_worse(values: &[f64]) -> Option<Peers> {
    let peers = spread(values, 0.0)?;
    let (share, deviations) = UPPER;
    let upper = (quantile(values, share)? - peers.centre) / deviations;
    Some(Peers { variance: peers.variance.max(upper * upper), ..peers })
}

/// A distance in standard errors, and how likely chance gives as much.
pub(crate) fn tail(distance: f64, error: f64, freedom: f64) -> (f64, f64) {
    match (distance > 0.0, error > 0.0) {
        (true, true) => {
            let z = distance / error;
            let student = || StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| student.sf(z));
            (z, if freedom > MANY { Normal::standard().sf(z) } else { student() })
        }
        // Without scatter any distance is infinitely far, and equal values have none.
        (true, false) => (f64::MAX, 0.0),
        (false, true) => (distance / error, 1.0),
        (false, false) => (0.0, 1.0),
    }
}

/// The standard errors that chance exceeds with this probability: the inverse of [`tail`].
pub(crate) fn errors(p: f64, freedom: f64) -> f64 {
    let normal = || -Normal::standard().inverse_cdf(p);
    let student =
        || StudentsT::new(0.0, 1.0, freedom).map_or_else(|_| normal(), |t| -t.inverse_cdf(p));
    if freedom > MANY { normal() } else { student() }
}

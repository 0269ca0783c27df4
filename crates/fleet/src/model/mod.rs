//! Which node or link is worse than its peers, in what, by how much, and how sure that is.
//!
//! Pure: the files decide alone. All comparisons are on the log scale, and signed so that more is worse,
//! for rates and for latencies. Nodes are compared within a stratum of identical hardware.
//!
//! The sweep itself ([`first`]) selects what a step of suspects repeats ([`suspects`]); it is lenient,
//! because a wrong suspect costs time alone. A node is accused ([`judge`]) if it is worse in the sweep and
//! in each step, by at least the least effect on average, and significantly among all suspects. What
//! changes for all nodes from step to step is taken off by the healthy peers that are measured with it.
//!
//! A hardware figure whose scatter hides what is sought is measured again on all nodes ([`repeated`]).

mod first;
mod judge;
mod repeated;
mod step;
mod suspects;
#[cfg(test)]
mod tests;

pub use first::{Field, First, Role, Row, Stratum, Subject, is_small};
pub use judge::{Below, Judgement, Seen, State, Verdict, Which, judge};
pub use suspects::{Again, suspects};

use record::metric::{Better, Kind};
use std::f64::consts::FRAC_PI_2;

/// Fewest peers of a node that is compared.
pub const LEAST_PEERS: usize = 5;

/// How many times worse than its peers a node is at least that is accused. Operating system and
/// devices differ more between healthy nodes (METHOD: 1.5 % and 4 % from run to run).
pub fn least_effect(kind: Kind) -> f64 {
    match kind {
        Kind::Hardware => 1.05,
        Kind::Os | Kind::Io => 1.15,
    }
}

/// Most steps of suspects: a figure is measured again so often where that shows what is sought.
pub const STEPS_MOST: usize = 16;

/// All accusations of suspects together are false at this rate, and those in figures that all nodes were
/// measured in again at the same.
const RATE: f64 = 0.005;
/// Fewest steps of suspects after which a node is accused.
pub const STEPS_LEAST: usize = 3;
/// Healthy peers beside a suspect.
pub const PEERS: usize = 3;
/// Healthy nodes differ for good by so much of the least effect at least, as a standard deviation.
const LASTING: f64 = 0.2;
/// What is found in 95 % of cases is so many standard errors beyond the threshold: 1.645, and a tenth more
/// because the errors are estimates.
const FOUND: f64 = 1.8;

/// A loss that is to be found in a hardware figure, and in a link: as logs.
pub const SOUGHT: f64 = 0.105;
pub const SOUGHT_LINK: f64 = std::f64::consts::LN_2;

/// A suspect is worse than this part of the least effect in each single step.
const EACH: f64 = 0.7;

/// The squared error of the mean of some steps: what healthy nodes differ by for good, and what a node
/// differs by from itself; both with that of its peers.
fn mean_error(once: f64, within: Option<f64>, steps: usize, least: f64) -> f64 {
    let lasting = (LASTING * least).powi(2);
    // Peers of one measurement may all have been lucky: the steps may say that nodes differ more.
    let within = within.unwrap_or(once);
    let between = (once - within).max(lasting);
    (between + within / steps.max(1) as f64) * (1.0 + FRAC_PI_2 / PEERS as f64)
}

/// The logarithm of a value, more is worse; `None` where there is no logarithm or no worse.
pub(crate) fn signed(value: f64, better: Better) -> Option<f64> {
    let log = (value > 0.0 && value.is_finite()).then(|| value.ln())?;
    match better {
        Better::Lower => Some(log),
        Better::Higher => Some(-log),
        Better::None => None,
    }
}

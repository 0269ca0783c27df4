//! Which node or link is worse than its peers, in what, by how much, and how sure that is.
//!
//! [`suspects`] says what phase 4 measures again, [`judge`] what follows from all measurements. Both are
//! pure: the record decides alone. All comparisons are on the log scale, and signed so that more is
//! worse, for rates and for latencies.
//!
//! The first measurement selects what is measured again. It is lenient: a wrong suspect costs time.
//! Healthy peers are measured beside the suspects, so that what changes for all is no slowness. A node
//! is accused if the repetitions alone are worse than those of the peers by at least [`level_effect`],
//! significantly among all nodes, figures and looks of the sweep. The least effect is half of what is
//! to be found (a node 10 % slower in a hardware figure): half way between a healthy node and that
//! one, both errors are equally unlikely. A suspect is cleared where the repetitions rule out what is
//! to be found; until one or the other it is measured more, up to the last of [`LOOKS`].

mod below;
mod confirm;
mod first;
mod fit;
mod judge;
mod looks;
pub(crate) mod peers;
mod power;
pub(crate) mod repeats;
mod select;
pub(crate) mod strata;
mod suspects;
#[cfg(test)]
mod tests;
mod verdict;

pub use judge::{judge, verdicts};
pub use looks::{Known, LOOKS};
pub use peers::LEAST_PEERS;
pub use strata::strata;
pub use suspects::suspects;
pub use verdict::{
    At, Below, Charge, Detectable, DetectableLink, Evidence, Judgement, LinkAgain, NodeAgain, Role,
    Standing, Stratum, Subject, Suspects, Verdict,
};

use crate::sweep::Estimate;
use record::metric::{Better, Kind};
use std::f64::consts::FRAC_PI_2;

/// How many times worse than its peers a node is at least that is accused. Operating system and
/// devices differ more between healthy nodes (METHOD: 1.5 % and 4 % from run to run).
pub fn level_effect(kind: Kind) -> f64 {
    match kind {
        Kind::Hardware => 1.05,
        Kind::Os | Kind::Io => 1.15,
    }
}

/// How many times more its rounds scatter at least than those of its peers.
pub const SCATTER_EFFECT: f64 = 3.0;

/// The least effect of a subject, as a log.
fn least_effect(subject: &Subject) -> f64 {
    match subject.is_scatter {
        true => SCATTER_EFFECT.ln(),
        false => level_effect(subject.kind).ln(),
    }
}

/// What is to be found, as a log.
fn sought(subject: &Subject) -> f64 {
    2.0 * least_effect(subject)
}

/// The logarithm of a value, more is worse; `None` where there is no logarithm or no worse.
fn signed(value: f64, better: Better) -> Option<f64> {
    let log = (value > 0.0 && value.is_finite()).then(|| value.ln())?;
    match better {
        Better::Lower => Some(log),
        Better::Higher => Some(-log),
        Better::None => None,
    }
}

/// The variance of the logarithm of a value by the rounds it rests on; `None` where they do not say.
fn own_variance(estimate: &Estimate) -> Option<f64> {
    let interval = estimate.ci.filter(|(low, high)| *low > 0.0 && high.is_finite());
    let by_interval = interval.map(|(low, high)| ((high / low).ln() / (2.0 * 1.96)).powi(2));
    let median = |scatter: f64| FRAC_PI_2 * scatter * scatter / f64::from(estimate.rounds.max(1));
    by_interval.or(estimate.scatter.map(median)).filter(|variance| variance.is_finite())
}

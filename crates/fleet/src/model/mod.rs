//! Which node or link is worse than its peers, in what, by how much, and how sure that is.
//!
//! Pure: the files decide alone. All comparisons are on the log scale, and signed so that more is worse,
//! for rates and for latencies. Nodes are compared within a stratum of identical hardware.
//!
//! The sweep itself ([`first`]) selects what a step of suspects repeats ([`suspects`]); it is lenient,
//! because a wrong suspect costs time alone. A node is accused ([`judge`]) if it is worse in the sweep and
//! in each step, by at least the least effect on average, and significantly among all suspects. What
//! changes for all nodes from step to step is taken off by the healthy peers that are measured with it.

mod first;
mod judge;
mod suspects;
#[cfg(test)]
mod tests;

pub(crate) use first::node_places;
pub use first::{Field, First, Role, Row, Stratum, Subject};
pub use judge::{Below, Judgement, Seen, State, Verdict, Which, judge};
pub use suspects::{Again, suspects};

use record::metric::{Better, Kind};

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

/// A loss that is to be found in a hardware figure, and in a link: as logs.
pub const SOUGHT: f64 = 0.105;
pub const SOUGHT_LINK: f64 = std::f64::consts::LN_2;

/// The logarithm of a value, more is worse; `None` where there is no logarithm or no worse.
pub(crate) fn signed(value: f64, better: Better) -> Option<f64> {
    let log = (value > 0.0 && value.is_finite()).then(|| value.ln())?;
    match better {
        Better::Lower => Some(log),
        Better::Higher => Some(-log),
        Better::None => None,
    }
}

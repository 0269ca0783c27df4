//! The figures of a sweep by what they are of, node by node.

use crate::read::Sweep;
use crate::sweep::{Estimate, Pair, Purpose};
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Serialize;
use stats::moments::Moments;
use stats::quantile::median;
use std::collections::BTreeMap;

/// From the width of an interval of 95 % to a standard error.
const WIDTH_TO_ERROR: f64 = 3.92;

/// What is compared of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The node alone.
    Alone,
    /// The node as near end of its pairs.
    Near,
    /// The node as far end of its pairs.
    Far,
}

/// What a value is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct What {
    pub(crate) key: Key,
    pub(crate) side: Side,
}

/// What all values of a figure share.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    pub(crate) kind: Kind,
}

/// One node's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) log: f64,
    /// Variance of that by the node's own rounds.
    pub(crate) variance: f64,
}

type ByNode = BTreeMap<u32, Value>;

/// All values that have a logarithm: of the phase `alone`, and of the matchings as the median over a
/// node's partners.
pub(crate) fn values(sweep: &Sweep) -> BTreeMap<What, (About, ByNode)> {
    let mut all: BTreeMap<What, (About, ByNode)> = BTreeMap::new();
    for figure in sweep.figures.iter().filter(|figure| figure.again == 0) {
        if let Some(value) = value(&figure.estimate) {
            let what = What { key: figure.key.clone(), side: Side::Alone };
            let about = About { unit: figure.unit, better: figure.better, kind: figure.kind };
            all.entry(what).or_insert((about, ByNode::new())).1.insert(figure.rank, value);
        }
    }
    for (what, (about, by_rank)) in of_pairs(&sweep.pairs) {
        let of_rank = |(rank, logs): (u32, Vec<f64>)| {
            let variance = Moments::of(&logs).variance().unwrap_or(0.0) / logs.len() as f64;
            Some((rank, Value { log: median(&logs)?, variance }))
        };
        all.insert(what, (about, by_rank.into_iter().filter_map(of_rank).collect()));
    }
    all
}

/// The logarithm of an estimate; `None` of one that is not positive.
fn value(estimate: &Estimate) -> Option<Value> {
    if !(estimate.value.is_finite() && estimate.value > 0.0) {
        return None;
    }
    let ends = estimate.ci.filter(|(low, high)| *low > 0.0 && high.is_finite());
    let error = ends.map_or(0.0, |(low, high)| (high / low).ln() / WIDTH_TO_ERROR);
    Some(Value { log: estimate.value.ln(), variance: error * error })
}

type ByRank = BTreeMap<u32, Vec<f64>>;

/// The logarithms of each node's pairs, by the end that it was.
fn of_pairs(pairs: &[Pair]) -> BTreeMap<What, (About, ByRank)> {
    let mut all: BTreeMap<What, (About, ByRank)> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair.purpose == Purpose::Matching) {
        let Some(Value { log, .. }) = value(&pair.estimate) else { continue };
        for (rank, side) in [(pair.from, Side::Near), (pair.to, Side::Far)] {
            let what = What { key: pair.key.clone(), side };
            let about = About { unit: pair.unit, better: pair.better, kind: Kind::Io };
            let (_, by_rank) = all.entry(what).or_insert((about, BTreeMap::new()));
            by_rank.entry(rank).or_default().push(log);
        }
    }
    all
}

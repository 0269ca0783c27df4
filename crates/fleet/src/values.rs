//! The figures of a sweep by what they are of, node by node.

use crate::read::Sweep;
use crate::sweep::{Estimate, Purpose};
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::Gather;
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

/// All values that have a logarithm: of the phase `alone` the last one of each node, and of the
/// matchings the median over a node's partners.
pub(crate) fn values(sweep: &Sweep) -> BTreeMap<What, (About, ByNode)> {
    let mut all: BTreeMap<What, (About, BTreeMap<u32, Vec<Value>>)> = BTreeMap::new();
    let mut add = |key: &Key, side: Side, about: About, rank: u32, estimate: &Estimate| {
        let Some(value) = value(estimate) else { return };
        let (_, by_rank) =
            all.entry(What { key: key.clone(), side }).or_insert((about, BTreeMap::new()));
        by_rank.entry(rank).or_default().push(value);
    };
    for of in sweep.figures.iter().filter(|figure| figure.again == 0) {
        let about = About { unit: of.unit, better: of.better, kind: of.kind };
        add(&of.key, Side::Alone, about, of.rank, &of.estimate);
    }
    for of in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Matching) {
        for (rank, side) in [(of.from, Side::Near), (of.to, Side::Far)] {
            let about = About { unit: of.unit, better: of.better, kind: Kind::Io };
            add(&of.key, side, about, rank, &of.estimate);
        }
    }
    let of_node = |side: Side, values: &[Value]| {
        if side == Side::Alone {
            return values.last().copied();
        }
        let logs: Vec<f64> = values.iter().map(|value| value.log).collect();
        let variance = Moments::from_values(&logs).variance().unwrap_or(0.0) / logs.len() as f64;
        Some(Value { log: median(&logs)?, variance })
    };
    let by_node = |(what, (about, by_rank)): (What, (About, BTreeMap<u32, Vec<Value>>))| {
        let values =
            by_rank.iter().filter_map(|(rank, all)| Some((*rank, of_node(what.side, all)?)));
        let values = values.gather();
        (what, (about, values))
    };
    all.into_iter().map(by_node).gather()
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

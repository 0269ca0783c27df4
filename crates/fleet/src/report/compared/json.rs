//! A comparison as one JSON object.

use super::super::json::text;
use crate::compare::{Changed, Compared, Comparison, Difference, Side};
use crate::read::Sweep;
use analysis::compare::Direction;
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Serialize;

/// Version of this shape.
const FORMAT: u32 = 1;

/// Two sweeps over the same nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: a comparison of two sweeps over the same nodes"))]
pub struct FlatComparison {
    /// Version of this shape.
    format: u32,
    /// The base sweep.
    base: FlatOne,
    /// The new one.
    new: FlatOne,
    /// Whether any figure changed on all nodes, or any node went another way.
    finding: bool,
    /// Names of the nodes in both sweeps.
    nodes: Vec<String>,
    /// Names of the nodes in the base sweep alone.
    only_base: Vec<String>,
    /// Names of the nodes in the new sweep alone.
    only_new: Vec<String>,
    /// What differs around the figures.
    around: Vec<Difference>,
    /// By kind of figure the least change of all nodes, as a share, that half of the figures show.
    least_seen: Vec<(Kind, f64)>,
    /// Every figure that both sweeps have, in each stratum of the base sweep.
    figures: Vec<FlatCompared>,
    /// Figures that the new sweep lacks.
    missing: Vec<FlatMissing>,
}

/// A sweep.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatOne {
    /// Name of the sweep.
    sweep: String,
    /// When it began, RFC 3339 in UTC.
    started: String,
    /// Version of plumb at rank 0.
    plumb: String,
    /// Number of nodes that joined.
    joined: usize,
}

/// A figure that both sweeps have, in one stratum.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatCompared {
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Of the node alone, or of its pairs.
    side: Side,
    /// Unit of all values.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// Class of the metric.
    kind: Kind,
    /// The stratum, of the base sweep.
    stratum: String,
    /// New over base, of all nodes; null where fewer than three nodes have the figure, or nothing
    /// scatters.
    ratio: Option<f64>,
    /// Interval of `ratio` at 95 %.
    ci: Option<(f64, f64)>,
    /// Two-sided p of no common change, before correction.
    p: Option<f64>,
    /// Least |ratio - 1| of a finding, beside p.
    band: f64,
    /// Least |ratio - 1| that would have been found here.
    least_seen: Option<f64>,
    /// The direction of a finding; null without one.
    finding: Option<Direction>,
    /// The nodes.
    nodes: Vec<FlatChanged>,
}

/// One node's change of a figure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatChanged {
    /// Name of the node.
    node: String,
    /// Value in the base sweep.
    base: f64,
    /// Value in the new one.
    new: f64,
    /// Its ratio over that of the others; null below five others.
    of_others: Option<f64>,
    /// Interval of `of_others` at 95 %.
    of_others_ci: Option<(f64, f64)>,
    /// Two-sided p of no difference, before correction.
    of_others_p: Option<f64>,
    /// Whether it went another way than the others.
    is_apart: bool,
}

/// A figure that the new sweep lacks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatMissing {
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: Key,
    /// Common nodes that had it in the base sweep.
    nodes: usize,
}

/// The JSON Schema of a comparison, which a test makes from its types (UPDATE_GOLDENS=1).
pub const SCHEMA: &str = include_str!("comparison.schema.json");

/// The same from the types themselves.
#[cfg(test)]
pub(in super::super) fn schema() -> serde_json::Value {
    schemars::schema_for!(FlatComparison).to_value()
}

/// The comparison as indented text, ending in a newline.
pub fn render(comparison: &Comparison) -> String {
    let missing = comparison
        .missing
        .iter()
        .map(|(key, nodes)| FlatMissing { key: key.clone(), nodes: *nodes });
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    text(&FlatComparison {
        format: FORMAT,
        base: of_sweep(comparison.base),
        new: of_sweep(comparison.new),
        finding: comparison.has_finding(),
        nodes: owned(&comparison.nodes),
        only_base: owned(&comparison.only.0),
        only_new: owned(&comparison.only.1),
        around: comparison.around.clone(),
        least_seen: comparison.least_seen(),
        figures: comparison.figures.iter().map(of_figure).collect(),
        missing: missing.collect(),
    })
}

fn of_sweep(sweep: &Sweep) -> FlatOne {
    FlatOne {
        sweep: sweep.header.id.clone(),
        started: sweep.header.started.clone(),
        plumb: sweep.header.plumb.clone(),
        joined: sweep.nodes.len(),
    }
}

pub(super) fn of_figure(one: &Compared) -> FlatCompared {
    FlatCompared {
        key: one.key.clone(),
        side: one.side,
        unit: one.unit,
        better: one.better,
        kind: one.kind,
        stratum: one.stratum.clone(),
        ratio: one.factor(),
        ci: one.interval(),
        p: one.common.map(|common| common.p),
        band: one.band,
        least_seen: one.least_seen,
        finding: one.finding,
        nodes: one.nodes.iter().map(of_node).collect(),
    }
}

pub(super) fn of_node(node: &Changed) -> FlatChanged {
    FlatChanged {
        node: node.name.clone(),
        base: node.base,
        new: node.new,
        of_others: node.apart.map(|apart| apart.log.exp()),
        of_others_ci: node.apart.map(|apart| {
            let (low, high) = apart.interval();
            (low.exp(), high.exp())
        }),
        of_others_p: node.apart.map(|apart| apart.p),
        is_apart: node.is_apart,
    }
}

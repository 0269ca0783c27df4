//! A comparison as one JSON object.

use super::super::json::text;
use crate::compare::{Compared, Comparison, Difference};
use crate::read::Sweep;
use record::key::Key;
use record::metric::Kind;
use serde::Serialize;

/// Version of this shape.
const FORMAT: u32 = 1;

/// Two sweeps over the same nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: a comparison of two sweeps over the same nodes"))]
pub struct FlatComparison<'a> {
    /// Version of this shape.
    format: u32,
    /// The base sweep.
    base: FlatOne,
    /// The new one.
    new: FlatOne,
    /// Whether any figure changed on all nodes, or any node went another way.
    finding: bool,
    /// Names of the nodes in both sweeps.
    nodes: &'a [&'a str],
    /// Names of the nodes in the base sweep alone.
    only_base: &'a [&'a str],
    /// Names of the nodes in the new sweep alone.
    only_new: &'a [&'a str],
    /// What differs around the figures.
    around: &'a [Difference],
    /// By kind of figure the least change of all nodes, as a share, that half of the figures show.
    least_seen: Vec<(Kind, f64)>,
    /// Every figure that both sweeps have, in each stratum of the base sweep.
    figures: &'a [Compared],
    /// Figures that the new sweep lacks.
    missing: Vec<FlatMissing<'a>>,
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

/// A figure that the new sweep lacks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatMissing<'a> {
    /// Experiment, case and metric.
    #[serde(flatten)]
    key: &'a Key,
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
    let missing = comparison.missing.iter().map(|(key, nodes)| FlatMissing { key, nodes: *nodes });
    text(&FlatComparison {
        format: FORMAT,
        base: of_sweep(comparison.base),
        new: of_sweep(comparison.new),
        finding: comparison.has_finding(),
        nodes: &comparison.nodes,
        only_base: &comparison.only.0,
        only_new: &comparison.only.1,
        around: &comparison.around,
        least_seen: comparison.least_seen(),
        figures: &comparison.figures,
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

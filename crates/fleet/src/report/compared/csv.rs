//! A comparison as comma-separated values: a row for each figure, stratum and node.

use super::super::csv::cells;
use crate::compare::Comparison;
use report::csv::{columns, table};
use serde_json::json;

/// Columns ([`columns`]) of a node, beside those of the figure.
const COLUMNS: &str = "base=sweeps/ new=sweeps/ node=node/ stratum experiment case metric side unit \
    better kind base_value=node/base new_value=node/new ratio=node/ of_others=node/ \
    of_others_low=node/of_others_ci/0 of_others_high=node/of_others_ci/1 of_others_p=node/ \
    is_apart=node/ common_ratio=ratio common_low=ci/0 common_high=ci/1 common_p=p least_seen \
    finding nodes";

/// The text, with a header line; absent values are empty. `common_` is of all nodes of the stratum,
/// `of_others` one node's change beside theirs.
pub fn render(comparison: &Comparison) -> String {
    let columns = columns(COLUMNS);
    let sweeps = json!({"base": comparison.base.header.id, "new": comparison.new.header.id});
    let mut rows = Vec::new();
    for one in &comparison.figures {
        let mut row = json!(one);
        row["sweeps"] = sweeps.clone();
        // In the card's order, which a JSON value does not keep.
        row["case"] = json!(one.key.case.to_string());
        row["nodes"] = json!(one.nodes.len());
        for node in &one.nodes {
            row["node"] = json!(node);
            row["node"]["ratio"] = json!(node.new / node.base);
            rows.push(cells(&columns, &row));
        }
    }
    table(columns.iter().map(|(name, _)| *name), rows)
}

//! A comparison as comma-separated values: a row for each figure, stratum and node.

use super::super::csv::{number, text};
use crate::compare::{Changed, Compared, Comparison};
use report::csv::table;

const COLUMNS: [&str; 26] = [
    "base",
    "new",
    "node",
    "stratum",
    "experiment",
    "case",
    "metric",
    "side",
    "unit",
    "better",
    "kind",
    "base_value",
    "new_value",
    "ratio",
    "of_others",
    "of_others_low",
    "of_others_high",
    "of_others_p",
    "is_apart",
    "common_ratio",
    "common_low",
    "common_high",
    "common_p",
    "least_seen",
    "finding",
    "nodes",
];

/// The text, with a header line; absent values are empty. `common_` is of all nodes of the stratum,
/// `of_others` one node's change beside theirs.
pub fn render(comparison: &Comparison) -> String {
    let of = |one: &Compared| -> Vec<Vec<String>> {
        one.nodes.iter().map(|node| row(comparison, one, node)).collect()
    };
    table(COLUMNS, comparison.figures.iter().flat_map(of))
}

fn row(comparison: &Comparison, one: &Compared, node: &Changed) -> Vec<String> {
    let ends = node.apart.map(|apart| apart.interval());
    let common = one.interval();
    vec![
        comparison.base.header.id.clone(),
        comparison.new.header.id.clone(),
        node.name.clone(),
        one.stratum.clone(),
        one.key.experiment.clone(),
        one.key.case.to_string(),
        one.key.metric.clone(),
        text(&one.side),
        text(&one.unit),
        text(&one.better),
        text(&one.kind),
        number(Some(node.base)),
        number(Some(node.new)),
        number(Some(node.new / node.base)),
        number(node.apart.map(|apart| apart.log.exp())),
        number(ends.map(|(low, _)| low.exp())),
        number(ends.map(|(_, high)| high.exp())),
        number(node.apart.map(|apart| apart.p)),
        node.is_apart.to_string(),
        number(one.factor()),
        number(common.map(|(low, _)| low)),
        number(common.map(|(_, high)| high)),
        number(one.common.map(|common| common.p)),
        number(one.least_seen),
        one.finding.map_or_else(String::new, |direction| text(&direction)),
        one.nodes.len().to_string(),
    ]
}

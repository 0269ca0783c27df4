//! The figures of a sweep as comma-separated values, one a row, with the node as a column.

use super::View;
use super::names::{node, stratum};
use crate::model::strata::index;
use crate::model::{At, Role, Standing};
use crate::sweep::{Node, Purpose};
use record::key::Key;
use record::metric::Kind;
use report::csv::{columns, table};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Columns ([`columns`]) before the parameters of cases.
const FIRST: &str = "sweep started node rank far_node stratum rack=labels/ switch=labels/ \
    zone=labels/ instance_type=labels/ labels=others phase experiment";
/// Columns behind them.
const LAST: &str = "other metric unit better kind value ci_low=ci/0 ci_high=ci/1 rounds scatter \
    predicted_low=predicted/0 predicted_high=predicted/1 repetition=again step of_peers z \
    verdict=verdict/charge factor=verdict/ factor_low=verdict/interval/0 \
    factor_high=verdict/interval/1 plumb";
/// Labels with columns of their own.
const LABELS: [&str; 4] = ["rack", "switch", "zone", "instance_type"];

/// The text, with a header line. Absent values are empty. Each of `params` is a column, empty where a
/// case has none; one that is called as another column has `case_` before it; `other` holds
/// parameters that are not among them. `of_peers` is the speed beside the median of the stratum.
/// A pair's node is the near end.
pub fn render(view: &View, params: &[&str]) -> String {
    let (first, last) = (columns(FIRST), columns(LAST));
    let heading = |param: &&str| match first.iter().chain(&last).any(|(name, _)| name == param) {
        true => format!("case_{param}"),
        false => (*param).to_owned(),
    };
    let name = |(name, _): &(&str, String)| (*name).to_owned();
    let middle = params.iter().map(heading);
    let names: Vec<String> =
        first.iter().map(name).chain(middle).chain(last.iter().map(name)).collect();
    let standings = standings(view);
    let figures = view.sweep.figures.iter().map(|figure| {
        let mut row = json!(figure);
        row["phase"] = json!("suspects");
        if figure.again == 0 {
            row["phase"] = json!("alone");
            row["verdict"] = verdict(view, At::Node(figure.rank), &figure.key);
            if let Some(standing) = standings.get(&(figure.rank, &figure.key)) {
                row["of_peers"] = json!(1.0 / standing.factor);
                row["z"] = json!(standing.z);
            }
        }
        (figure.rank, &figure.key, row)
    });
    let pairs = view.sweep.pairs.iter().map(|pair| {
        let mut row = json!(pair);
        row["rank"] = json!(pair.from);
        row["far_node"] = json!(node(view.sweep, pair.to));
        row["phase"] = json!(phase(pair.purpose));
        row["kind"] = json!(Kind::Io);
        if pair.purpose == Purpose::Matching {
            row["verdict"] = verdict(view, At::Link(pair.from, pair.to), &pair.key);
        }
        (pair.from, &pair.key, row)
    });
    let strata: HashMap<u32, String> = index(&view.judgement.strata)
        .into_iter()
        .map(|(rank, at)| (rank, stratum(&view.judgement.strata[at])))
        .collect();
    let rows = figures.chain(pairs).map(|(rank, key, mut row)| {
        row["sweep"] = json!(view.sweep.header.id);
        row["started"] = json!(view.sweep.header.started);
        row["node"] = json!(node(view.sweep, rank));
        row["stratum"] = json!(strata.get(&rank));
        if let Some(own) = view.sweep.nodes.get(&rank) {
            row["labels"] = json!(own.labels);
            row["others"] = json!(others(own));
            row["plumb"] = json!(own.plumb);
        }
        let of_case =
            |name: &&str| key.case.get(name).map_or_else(String::new, ToString::to_string);
        let other = key.case.0.iter().filter(|(name, _)| !params.contains(&name.as_str()));
        let other: Vec<String> = other.map(|(name, value)| format!("{name}={value}")).collect();
        row["other"] = json!(other.join("; "));
        let mut texts = cells(&first, &row);
        texts.extend(params.iter().map(of_case));
        texts.extend(cells(&last, &row));
        texts
    });
    table(names.iter().map(String::as_str), rows)
}

/// Where nodes stand in the figures that they have alone.
fn standings<'view>(view: &'view View) -> HashMap<(u32, &'view Key), &'view Standing> {
    let judgement = &view.judgement;
    let of = |standing: &'view Standing| {
        let subject = judgement.subjects.get(standing.subject)?;
        let is_own = subject.role == Role::Alone && !subject.is_scatter;
        is_own.then_some(((standing.rank, &subject.key), standing))
    };
    judgement.standings.iter().filter_map(of).collect()
}

pub(super) fn phase(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Matching => "pairs",
        Purpose::Isolated => "pairs isolated",
        Purpose::Suspect => "suspects",
        Purpose::Bisection => "bisection",
        Purpose::Incast => "incast",
        Purpose::Outcast => "outcast",
    }
}

/// The verdict on the level of a figure; null without one.
fn verdict(view: &View, at: At, key: &Key) -> Value {
    let mut verdicts = view.judgement.verdicts.iter();
    let is_its = |verdict: &&crate::model::Verdict| {
        verdict.at == at && verdict.subject.key == *key && !verdict.subject.is_scatter
    };
    json!(verdicts.find(is_its))
}

/// Labels without columns of their own.
fn others(node: &Node) -> String {
    let others = node.labels.iter().filter(|(name, _)| !LABELS.contains(&name.as_str()));
    others.map(|(name, text)| format!("{name}={text}")).collect::<Vec<String>>().join("; ")
}

/// The texts of some columns; empty where the row has none.
pub(super) fn cells(columns: &[(&str, String)], row: &Value) -> Vec<String> {
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Digits as they are: a whole number has no point.
        _ => match value.as_f64().filter(|_| value.is_f64()) {
            Some(number) => number.to_string(),
            None => value.to_string(),
        },
    };
    columns.iter().map(|(_, place)| row.pointer(place).map_or_else(String::new, cell)).collect()
}

/// A word as it stands in records.
pub(super) fn text(word: &impl serde::Serialize) -> String {
    json!(word).as_str().unwrap_or_default().to_owned()
}

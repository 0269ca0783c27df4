//! The figures of a sweep as comma-separated values, one a row, with the node as a column.

use super::View;
use super::names::{node, stratum};
use super::nodes::strata;
use crate::model::{At, Role, Standing};
use crate::sweep::{Estimate, Node, Purpose};
use record::key::Key;
use report::csv::table;
use serde_json::Value;
use std::collections::HashMap;

/// Columns before the parameters of cases.
const FIRST: [&str; 13] = [
    "sweep",
    "started",
    "node",
    "rank",
    "far_node",
    "stratum",
    "rack",
    "switch",
    "zone",
    "instance_type",
    "labels",
    "phase",
    "experiment",
];
/// Columns behind them.
const LAST: [&str; 21] = [
    "other",
    "metric",
    "unit",
    "better",
    "kind",
    "value",
    "ci_low",
    "ci_high",
    "rounds",
    "scatter",
    "predicted_low",
    "predicted_high",
    "repetition",
    "step",
    "of_peers",
    "z",
    "verdict",
    "factor",
    "factor_low",
    "factor_high",
    "plumb",
];
/// Labels with columns of their own.
const LABELS: [&str; 4] = ["rack", "switch", "zone", "instance_type"];

/// The text, with a header line. Absent values are empty. Each of `params` is a column, empty where a
/// case has none; one that is called as another column has `case_` before it; `other` holds
/// parameters that are not among them. `of_peers` is the speed beside the median of the stratum.
/// A pair's node is the near end.
pub fn render(view: &View, params: &[&str]) -> String {
    let heading = |param: &&str| match FIRST.iter().chain(&LAST).any(|name| name == param) {
        true => format!("case_{param}"),
        false => (*param).to_owned(),
    };
    let middle = params.iter().map(heading);
    let names: Vec<String> =
        FIRST.map(str::to_owned).into_iter().chain(middle).chain(LAST.map(str::to_owned)).collect();
    let places = Places::of(view);
    let figures = view.sweep.figures.iter().map(|figure| {
        let is_first = figure.again == 0;
        One {
            rank: figure.rank,
            far: None,
            phase: if is_first { "alone" } else { "suspects" },
            key: &figure.key,
            about: [text(&figure.unit), text(&figure.better), text(&figure.kind)],
            estimate: &figure.estimate,
            predicted: figure.predicted,
            repetition: Some(figure.again),
            step: None,
            standing: places.standing(figure.rank, &figure.key).filter(|_| is_first),
            verdict: Some(At::Node(figure.rank)).filter(|_| is_first),
        }
    });
    let pairs = view.sweep.pairs.iter().map(|pair| One {
        rank: pair.from,
        far: Some(pair.to),
        phase: purpose(pair.purpose),
        key: &pair.key,
        about: [text(&pair.unit), text(&pair.better), "io".to_owned()],
        estimate: &pair.estimate,
        predicted: pair.predicted,
        repetition: None,
        step: Some(pair.step),
        standing: None,
        verdict: Some(At::Link(pair.from, pair.to)).filter(|_| pair.purpose == Purpose::Matching),
    });
    let strata: HashMap<u32, String> = strata(view)
        .into_iter()
        .map(|(rank, at)| (rank, stratum(&view.judgement.strata[at])))
        .collect();
    let rows = figures.chain(pairs).map(|one| row(view, &one, params, &strata));
    table(names.iter().map(String::as_str), rows)
}

/// What a row is of.
struct One<'view> {
    rank: u32,
    far: Option<u32>,
    phase: &'static str,
    key: &'view Key,
    /// Unit, better direction, kind.
    about: [String; 3],
    estimate: &'view Estimate,
    predicted: Option<(f64, f64)>,
    repetition: Option<u32>,
    step: Option<u32>,
    standing: Option<&'view Standing>,
    /// Whose verdict belongs to it.
    verdict: Option<At>,
}

/// Where nodes stand in the figures that they have alone.
pub(super) struct Places<'view>(HashMap<(u32, &'view Key), &'view Standing>);

impl<'view> Places<'view> {
    pub(super) fn of(view: &'view View) -> Self {
        let judgement = &view.judgement;
        let standings = judgement.standings.iter();
        Places(
            standings
                .filter_map(|standing| {
                    let subject = judgement.subjects.get(standing.subject)?;
                    let is_own = subject.role == Role::Alone && !subject.is_scatter;
                    is_own.then_some(((standing.rank, &subject.key), standing))
                })
                .collect(),
        )
    }

    pub(super) fn standing(&self, rank: u32, key: &Key) -> Option<&'view Standing> {
        self.0.get(&(rank, key)).copied()
    }
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Matching => "pairs",
        Purpose::Isolated => "pairs isolated",
        Purpose::Suspect => "suspects",
        Purpose::Bisection => "bisection",
        Purpose::Incast => "incast",
        Purpose::Outcast => "outcast",
    }
}

fn row(view: &View, one: &One, params: &[&str], strata: &HashMap<u32, String>) -> Vec<String> {
    let header = &view.sweep.header;
    let own = view.sweep.nodes.get(&one.rank);
    let label =
        |name: &str| own.and_then(|node| node.labels.get(name).cloned()).unwrap_or_default();
    let mut cells = vec![
        header.id.clone(),
        header.started.clone(),
        node(view.sweep, one.rank),
        one.rank.to_string(),
        one.far.map_or_else(String::new, |far| node(view.sweep, far)),
        strata.get(&one.rank).cloned().unwrap_or_default(),
    ];
    cells.extend(LABELS.map(label));
    cells.push(own.map_or_else(String::new, others));
    cells.extend([one.phase.to_owned(), one.key.experiment.clone()]);
    let case = &one.key.case;
    cells.extend(
        params.iter().map(|name| case.get(name).map_or_else(String::new, ToString::to_string)),
    );
    let other = case.0.iter().filter(|(name, _)| !params.contains(&name.as_str()));
    cells.push(other.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; "));
    cells.push(one.key.metric.clone());
    cells.extend(one.about.clone());
    cells.extend(numbers(one));
    cells.extend(judged(view, one));
    cells.push(own.map_or_else(String::new, |node| node.plumb.clone()));
    cells
}

/// Labels without columns of their own.
fn others(node: &Node) -> String {
    let others = node.labels.iter().filter(|(name, _)| !LABELS.contains(&name.as_str()));
    others.map(|(name, text)| format!("{name}={text}")).collect::<Vec<String>>().join("; ")
}

fn numbers(one: &One) -> [String; 9] {
    let Estimate { value, ci, rounds, scatter } = *one.estimate;
    let end = |ends: Option<(f64, f64)>, get: fn((f64, f64)) -> f64| number(ends.map(get));
    let count = |of: Option<u32>| of.map_or_else(String::new, |of| of.to_string());
    [
        number(Some(value)),
        end(ci, |(low, _)| low),
        end(ci, |(_, high)| high),
        rounds.to_string(),
        number(scatter),
        end(one.predicted, |(low, _)| low),
        end(one.predicted, |(_, high)| high),
        count(one.repetition),
        count(one.step),
    ]
}

/// Speed beside the peers, z, verdict and its factor.
fn judged(view: &View, one: &One) -> [String; 6] {
    let verdict = view.judgement.verdicts.iter().find(|verdict| {
        Some(verdict.at) == one.verdict && verdict.key == *one.key && !verdict.is_scatter
    });
    [
        number(one.standing.map(|standing| 1.0 / standing.factor)),
        number(one.standing.and_then(|standing| standing.z)),
        verdict.map_or_else(String::new, |verdict| text(&verdict.charge)),
        number(verdict.map(|verdict| verdict.factor)),
        number(verdict.map(|verdict| verdict.interval.0)),
        number(verdict.map(|verdict| verdict.interval.1)),
    ]
}

/// Digits as they are; nothing for what is no number.
pub(super) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(String::new, |value| value.to_string())
}

/// A word as it stands in records.
pub(super) fn text(word: &impl serde::Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

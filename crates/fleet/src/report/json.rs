//! The answer as one JSON object: verdicts, what could not be seen, what is missing, and the nodes.

use super::View;
use super::answer::state;
use super::missing::{clocks, lost, unreached};
use crate::model::{Verdict, Which};
use serde_json::{Value, json};

pub const FORMAT: u32 = 2;

/// The object, in lines.
pub fn render(view: &View) -> String {
    let (fleet, judgement) = (view.fleet, &view.judgement);
    let header = fleet.header();
    let key = |figure: usize| json!(fleet.figures[figure].key);
    let verdict = |verdict: &Verdict| {
        let (node, to) = match verdict.which {
            Which::Node(node) => (fleet.host(node), None),
            Which::Link(from, to) => (fleet.host(from), Some(fleet.host(to))),
        };
        json!({
            "node": node, "to": to, "verdict": state(verdict), "state": verdict.state,
            "figure": key(verdict.subject.figure), "role": verdict.subject.role,
            "factor": verdict.factor, "ci": verdict.interval,
            "p": Some(verdict.p).filter(|p| p.is_finite()), "value": verdict.value,
            "peers": verdict.peers, "unit": fleet.figures[verdict.subject.figure].unit,
            "steps": verdict.steps,
        })
    };
    let names =
        |nodes: &[usize]| json!(nodes.iter().map(|node| fleet.host(*node)).collect::<Vec<_>>());
    let strata = judgement.first.strata.iter();
    let strata =
        strata.map(|stratum| json!({ "name": stratum.name, "nodes": names(&stratum.nodes) }));
    let below = judgement.below.iter().map(|below| {
        json!({
            "stratum": below.stratum, "figure": key(below.figure), "factor": below.factor,
            "value": below.value, "predicted": below.predicted,
        })
    });
    let seen = judgement.seen.iter().map(|seen| {
        json!({
            "figure": key(seen.subject.figure), "role": seen.subject.role, "stratum": seen.stratum,
            "is_link": seen.is_link(), "kind": seen.kind, "seen_from": seen.factor,
            "hides": seen.hides(),
        })
    });
    let lost = lost(fleet).into_iter().map(|(node, why)| json!({ "node": node, "why": why }));
    let unreached =
        unreached(fleet).into_iter().map(|(node, slots)| json!({ "node": node, "slots": slots }));
    let object = json!({
        "format": FORMAT,
        "sweep": header.sweep, "started": header.started, "size": header.size, "seed": header.seed,
        "preset": header.preset, "starter": header.starter, "plumb": header.plumb,
        "steps": fleet.steps.len(),
        "nodes": fleet.nodes.iter().map(|node| &node.header.host).collect::<Vec<_>>(),
        "strata": strata.collect::<Vec<Value>>(),
        "verdicts": judgement.verdicts.iter().map(verdict).collect::<Vec<Value>>(),
        "below": below.collect::<Vec<Value>>(),
        "seen": seen.collect::<Vec<Value>>(),
        "lost": lost.collect::<Vec<Value>>(),
        "unreached": unreached.collect::<Vec<Value>>(),
        "clocks": clocks(fleet),
        "notes": fleet.notes,
    });
    format!("{object:#}\n")
}

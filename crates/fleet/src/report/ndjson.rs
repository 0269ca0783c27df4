//! The figures of a sweep as JSON Lines, of the same shape as those of a run.

use super::View;
use super::csv::phase;
use super::names::{node, stratum};
use crate::model::strata::index;
use crate::sweep::Estimate;
use record::event::Ending;
use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use report::ndjson::{Origin, Source, text};
use serde_json::json;
use std::collections::BTreeMap;

/// The label of a node that names its rack, and the one that names its instance type.
const RACK: &str = "rack";
const INSTANCE_TYPE: &str = "instance_type";

/// The figures of nodes and pairs, one a line. A pair's node is the near end.
pub fn render(view: &View) -> String {
    let strata: BTreeMap<u32, String> = index(&view.judgement.strata)
        .into_iter()
        .map(|(rank, at)| (rank, stratum(&view.judgement.strata[at])))
        .collect();
    let origin = |rank| Origin { stratum: strata.get(&rank).cloned(), ..origin(view, rank) };
    let figures = view.sweep.figures.iter().map(|figure| {
        let phase = if figure.again == 0 { "alone" } else { "suspects" };
        let phase = Some(phase.to_owned());
        let origin = Origin { phase, step: figure.again, ..origin(figure.rank) };
        let about = (figure.unit, figure.better, figure.kind);
        line(origin, &figure.key, about, &figure.estimate, figure.predicted)
    });
    let pairs = view.sweep.pairs.iter().map(|pair| {
        let origin = Origin {
            phase: Some(phase(pair.purpose).to_owned()),
            step: pair.step,
            far_node: Some(node(view.sweep, pair.to)),
            far_rack: label(view, pair.to, RACK),
            ..origin(pair.from)
        };
        let about = (pair.unit, pair.better, Kind::Io);
        line(origin, &pair.key, about, &pair.estimate, pair.predicted)
    });
    figures.chain(pairs).collect()
}

fn label(view: &View, rank: u32, name: &str) -> Option<String> {
    view.sweep.nodes.get(&rank)?.labels.get(name).cloned()
}

fn origin(view: &View, rank: u32) -> Origin {
    let header = &view.sweep.header;
    let own = view.sweep.nodes.get(&rank);
    Origin {
        source: Source::Sweep,
        id: format!("{} {}", header.id, header.seed),
        name: header.id.clone(),
        started: header.started.clone(),
        preset: header.preset.clone(),
        plumb: own.map_or(&header.plumb, |own| &own.plumb).clone(),
        node: node(view.sweep, rank),
        kernel: own.and_then(|own| own.stratum.get("kernel").cloned()),
        instance_type: label(view, rank, INSTANCE_TYPE),
        rank: Some(rank),
        rack: label(view, rank, RACK),
        labels: own.map(|own| own.labels.clone()).unwrap_or_default(),
        ..Origin::default()
    }
}

fn line(
    origin: Origin,
    key: &Key,
    (unit, better, kind): (Unit, Better, Kind),
    estimate: &Estimate,
    predicted: Option<(f64, f64)>,
) -> String {
    let figure = json!({
        "experiment": key.experiment,
        "params": key.case.to_string(),
        "case": key.case,
        "metric": key.metric,
        "unit": unit,
        "better": better,
        "kind": kind,
        "outcome": Ending::Measured,
        "value": estimate.value,
        "ci": estimate.ci,
        "prediction": predicted.map(|(low, high)| json!({ "low": low, "high": high })),
        "stats": { "used": estimate.rounds },
        "notes": [],
    });
    text(&origin, &figure)
}

//! The figures of a sweep as JSON Lines, of the same shape as those of a run.

use super::View;
use crate::file::Purpose;
use crate::read::{NodeFile, Value};
use record::event::Ending;
use record::metric::Kind;
use report::ndjson::{Origin, Source, text};
use serde_json::json;

/// The label of a node that names its rack, and the one that names its instance type.
const RACK: &str = "rack";
const INSTANCE_TYPE: &str = "instance_type";

/// The figures of nodes and pairs, one a line. A pair's node is the near end.
pub fn render(view: &View) -> String {
    let sweep = view.fleet.nodes.iter().map(|node| (0, node));
    let steps = view.fleet.steps.iter().zip(1..);
    let steps = steps.flat_map(|(files, step)| files.iter().map(move |node| (step, node)));
    let mut out = String::new();
    let places = view.fleet.places();
    for (step, file) in sweep.chain(steps) {
        let of_file = origin(view, file, places.get(file.header.host.as_str()).copied());
        let phase = if step == 0 { "alone" } else { "suspects" };
        let origin = Origin { phase: Some(phase.to_owned()), step, ..of_file.clone() };
        for value in &file.values {
            out.push_str(&line(view, &origin, value, view.about(value.figure).kind));
        }
        for pair in &file.pairs {
            let far = places.get(pair.to.as_str()).map(|place| &view.fleet.nodes[*place]);
            let origin = Origin {
                phase: Some(phase_of_pair(pair.purpose).to_owned()),
                step: pair.slot,
                far_node: Some(pair.to.clone()),
                far_rack: far.and_then(|far| far.header.labels.get(RACK).cloned()),
                ..of_file.clone()
            };
            for value in &pair.values {
                out.push_str(&line(view, &origin, value, Kind::Io));
            }
        }
    }
    out
}

fn phase_of_pair(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Matching => "pairs",
        Purpose::Bisection => "bisection",
        Purpose::Incast => "incast",
        Purpose::Outcast => "outcast",
        Purpose::Suspect => "suspects",
    }
}

fn origin(view: &View, file: &NodeFile, place: Option<usize>) -> Origin {
    let (header, first) = (&file.header, &view.judgement.first);
    Origin {
        source: Source::Sweep,
        id: format!("{} {}", header.sweep, header.started),
        name: header.started.clone(),
        started: header.started.clone(),
        preset: header.preset.clone(),
        plumb: header.plumb.clone(),
        node: header.host.clone(),
        kernel: header.stratum.get("kernel").cloned(),
        instance_type: header.labels.get(INSTANCE_TYPE).cloned(),
        rank: Some(header.rank),
        stratum: place.map(|place| first.strata[first.places[place]].name.clone()),
        rack: header.labels.get(RACK).cloned(),
        labels: header.labels.clone(),
        ..Origin::default()
    }
}

fn line(view: &View, origin: &Origin, value: &Value, kind: Kind) -> String {
    let about = view.about(value.figure);
    let key = &about.key;
    let figure = json!({
        "experiment": key.experiment, "params": key.case.to_string(), "case": key.case,
        "metric": key.metric, "unit": about.unit, "better": about.better, "kind": kind,
        "outcome": Ending::Measured, "value": value.value, "ci": value.ci,
        "prediction": value.predicted.map(|(low, high)| json!({ "low": low, "high": high })),
        "stats": { "used": value.rounds }, "notes": [],
    });
    text(origin, &figure)
}

//! What was predicted and how samples spread, in the formats that show it.

use super::super::build::build;
use super::super::document::Shape;
use super::super::markdown;
use super::{planned, plots, section};
use analysis::sample;
use bench::experiment::ViewCard;
use record::event::Trace;
use record::key::CaseId;
use record::unit::Unit;

#[test]
fn a_trace_has_the_band_that_was_predicted_of_its_case() {
    let document = build(&sample::run());
    let plot = plots([section(&document, "clock.rate")]).next().expect("the trace is drawn");
    let bands: Vec<_> = plot.series.iter().filter(|one| one.shape == Shape::Band).collect();
    assert_eq!(bands.len(), 1);
    let trace = plot.series.iter().find(|one| one.shape == Shape::Trace).expect("a trace");
    let ends = [trace.points.first(), trace.points.last()].map(|point| point.map(|point| point.x));
    let of_band: Vec<f64> = bands[0].points.iter().map(|point| point.x).collect();
    assert_eq!(ends.map(Option::unwrap).as_slice(), of_band, "over all of its time");
    assert!(bands[0].points.iter().all(|point| point.ends == Some((2.4e9, 2.5e9))));
}

#[test]
fn stretches_have_a_lane_for_what_was_predicted_of_their_length() {
    let mut run = sample::run();
    let rate = planned(&mut run, "clock.rate");
    rate.view = ViewCard::spans("timeline", "periods").beside(&["counter", "nobody"]).view();
    rate.metrics[0].unit = Unit::Ns;
    let names = ["active"].map(str::to_owned).to_vec();
    run.traces = vec![Trace {
        series: "clock.rate".into(),
        round: 1,
        case: CaseId::new(),
        kind: "timeline".into(),
        columns: ["start_ns", "duration_ns", "state"].map(str::to_owned).to_vec(),
        rows: vec![vec![0.0, 4e6, 0.0], vec![5e6, 4e6, 0.0]],
        names: [("state".to_owned(), names)].into(),
        dropped: 0,
    }];
    let document = build(&run);
    let plot = plots([section(&document, "clock.rate")]).next().expect("lanes are drawn");
    let lanes: Vec<(&str, usize)> =
        plot.series.iter().map(|lane| (lane.name.as_str(), lane.points.len())).collect();
    assert_eq!(lanes, [("active", 2), ("counter: predicted end", 1)]);
    let predicted = &plot.series[1].points[0];
    assert_eq!((predicted.x, predicted.y), (2.4e9, 2.5e9), "from the least to the greatest");
}

#[test]
fn each_mitigation_is_listed_once() {
    let mut run = sample::run();
    run.header.host["kernel"]["mitigations"] = serde_json::json!({"meltdown": "Mitigation: PTI"});
    run.header.environment.insert("mitigation.meltdown".into(), "Mitigation: PTI".into());
    assert_eq!(markdown::render(&build(&run)).matches("Mitigation: PTI").count(), 1);
}

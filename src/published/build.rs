//! From the sheet of a report's machine to a run. Report, comparison and page take runs, whose
//! `derived` events are figures without rounds: nothing smaller would do for all three.

use super::{AS_REPORTED, Found};
use crate::sheet::{Datum, Report};
use analysis::gather::distinct;
use catalogue::FAMILIES;
use record::FORMAT;
use record::event::{
    Calibration, Derived, End, Event, Footer, Header, Options, PUBLISHED, Plan, PlannedExperiment,
    PredictionEvent, PredictionKind,
};
use record::key::Value;
use record::run::Run;
use record::unit::Unit;
use record::view::View;
use session::plan::entry;
use std::collections::BTreeMap;

/// Parameters of reported cases that no card has, with their docs and units.
const OWN: &[(&str, &str, Option<Unit>)] = &[
    ("sample", "number of the sample in the report's table", None),
    ("event", "number of the row in the report's table", None),
    ("asked", "bytes that the program was asked to send", Some(Unit::B)),
    ("file_bytes", "size of the file", Some(Unit::B)),
    (
        AS_REPORTED,
        "what the report measured or which of its readings this is, where no case of the catalogue \
         is the same",
        None,
    ),
];

/// The run of a machine. What only plots show, and pictures over time, are the whole report's.
pub(super) fn run(found: &Found<'_>) -> Run {
    let Found { sheet, figures, .. } = found;
    let report = sheet.report.as_ref().expect("a test reads every machine");
    let is_whole = figures.len() == sheet.figures.len();
    let outcomes = report.outcomes.iter().filter(|_| is_whole);
    let mut run = Run::new(header(found, report));
    let named = outcomes.clone().map(|outcome| &outcome.experiment);
    let ids = figures.iter().map(|figure| &figure.experiment).chain(named);
    run.push(Event::Plan(Box::new(plan(report, figures, &distinct(ids)))));
    for figure in figures {
        if let Some(estimate) = &figure.estimate {
            run.push(Event::Prediction(PredictionEvent {
                experiment: figure.experiment.clone(),
                case: figure.case.clone(),
                metric: figure.metric.clone(),
                of: PredictionKind::Prior,
                prediction: estimate.clone(),
                at: BTreeMap::new(),
            }));
        }
        run.push(Event::Derived(derived(report, figure)));
    }
    run.traces.extend(report.traces.iter().filter(|_| is_whole).cloned());
    outcomes.for_each(|outcome| run.push(Event::Outcome(outcome.clone())));
    run.push(Event::Footer(Footer {
        finished: report.dated.clone(),
        elapsed_s: 0.0,
        end: End::Complete,
        counter_drift: None,
        eta_after_first_pass_s: None,
        session_cpu_s: 0.0,
        session_peak_bytes: 0,
        synced: Default::default(),
        programs: Vec::new(),
    }));
    run
}

fn header(found: &Found<'_>, report: &Report) -> Header {
    let Found { machine, name, sheet, .. } = found;
    let mut environment = report.environment.clone();
    let clocks = environment.get("clocks").cloned();
    environment.insert("report".to_owned(), sheet.source.clone());
    let cpu = sheet.cpus.first().copied().unwrap_or_default();
    Header {
        format: FORMAT,
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        rustc: String::new(),
        profile: String::new(),
        target: String::new(),
        target_features: String::new(),
        build: String::new(),
        run: name.clone(),
        started: report.dated.clone(),
        seed: 0,
        options: Options { preset: PUBLISHED.to_owned(), ..Options::default() },
        cpus: sheet.cpus.clone(),
        identity: machine.clone(),
        host: sheet.host.to_json().unwrap_or_default(),
        environment,
        peers: Vec::new(),
        estimates: Vec::new(),
        calibration: Calibration {
            width: None,
            source: PUBLISHED.to_owned(),
            counter_hz: report.counter_hz,
            counter_error: 0.0,
            windows_hz: Vec::new(),
            resolution_ns: 0.0,
            pair_cost_ns: 0.0,
            vdso_falls_back: false,
            core_hz: report.core_hz,
            core_source: PUBLISHED.to_owned(),
            multiply_cycles: None,
            cpu,
            notes: clocks.into_iter().collect(),
        },
    }
}

/// Some experiments of the catalogue, in its order, with the cases that the figures have.
fn plan(report: &Report, figures: &[&Datum], ids: &[&String]) -> Plan {
    let all = FAMILIES.iter().flat_map(|family| family.experiments).map(|one| entry(*one));
    let some = all.filter(|planned| ids.contains(&&planned.id));
    let described = some.map(|mut planned| {
        let id = planned.id.clone();
        let figures: Vec<&&Datum> = figures.iter().filter(|one| one.experiment == id).collect();
        planned.derived = distinct(figures.iter().map(|figure| figure.case.clone()));
        let has = |name: &str| planned.derived.iter().any(|case| case.get(name).is_some());
        for (name, doc, unit) in OWN.iter().filter(|(name, ..)| has(name)) {
            planned.params.push(((*name).to_owned(), (*doc).to_owned()));
            planned.units.extend(unit.map(|unit| ((*name).to_owned(), unit)));
        }
        planned.metrics.iter_mut().for_each(|metric| metric.derived = true);
        planned.manual = manual(report, &id, &figures);
        planned.after.clear();
        for view in report.views.get(&id).into_iter().flatten() {
            match (view, &mut planned.view) {
                // With the report's own table of a trace.
                (View::Spans { .. }, of_card @ View::Spans { .. }) => *of_card = view.clone(),
                _ => planned.views.push(view.clone()),
            }
        }
        planned
    });
    let experiments: Vec<PlannedExperiment> = described.collect();
    Plan { experiments, stages: Vec::new(), looks: Vec::new(), eta_s: 0.0 }
}

/// How the report measured, and where its figures are: in place of the experiment's manual, which
/// describes another method.
fn manual(report: &Report, id: &str, figures: &[&&Datum]) -> String {
    let method = report.methods.get(id).map_or("It is not stated.", String::as_str);
    let sources = distinct(figures.iter().map(|figure| {
        let statistic = figure.fact("statistic").unwrap_or_default();
        format!("- `{}`: {}, {statistic}\n", figure.metric, figure.table)
    }));
    let name = &report.name;
    format!("# {id} in {name}\n\n## Method\n\n{method}\n\n## Sources\n\n{}", sources.concat())
}

/// A figure with its caveats: slips first, the nearest case last.
fn derived(report: &Report, figure: &Datum) -> Derived {
    let source = Value::from(format!("{} {}", report.name, figure.table));
    let (value, ci) = figure.estimate_printed();
    let mut at = figure.at.clone();
    at.insert("source".to_owned(), source);
    let [slip, near, differs, moves] =
        ["slip", "nearest", "nearest_differs", "nearest_moves"].map(|name| figure.fact(name));
    let nearest = near.zip(differs).zip(moves).map(|((near, differs), moves)| {
        format!(
            "not the same measurement as {near}, the nearest case: the printed figure {differs}; \
             that moves it {moves}"
        )
    });
    let notes = slip.map(str::to_owned).into_iter().chain(figure.notes.clone()).chain(nearest);
    Derived {
        experiment: figure.experiment.clone(),
        case: figure.case.clone(),
        metric: figure.metric.clone(),
        value,
        ci,
        confidence: None,
        presence: 1.0,
        at,
        notes: notes.collect(),
    }
}

//! From the tables of a report to a run.

use super::table::{Nearest, Printed, Report, Row, Table};
use super::traces;
use bench::experiment::{AnyExperiment, Card, Role, ViewCard};
use catalogue::{FAMILIES, find};
use host::{Host, Root};
use record::FORMAT;
use record::event::{
    Calibration, Derived, End, Ending, Event, Footer, Header, Options, Outcome, PUBLISHED, Plan,
    PlannedExperiment, Prediction, PredictionEvent, PredictionKind, Range,
};
use record::key::{CaseId, Key, Value};
use record::order::{Gather, InOrder};
use record::run::Run;
use record::unit::Unit;
use record::view::View;
use std::collections::BTreeMap;

/// The parameter of a case that no case of the catalogue measures, or of a second reading.
const AS_REPORTED: &str = "as_reported";

/// Parameters of such cases that no card has, with their docs and units.
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

/// The run of a report's machine.
pub(super) fn run(name: &str, report: &'static Report) -> Run {
    let mut run = Run::new(header(name, report));
    run.push(Event::Plan(Box::new(plan(report))));
    for table in &report.tables {
        for row in &table.rows {
            let case = case_of(table, row);
            if let Some(prediction) = prediction(report, table, row, &case) {
                run.push(Event::Prediction(prediction));
            }
            if let Some(figure) = figure(report, table, row, &case) {
                run.push(Event::Derived(figure));
            }
        }
    }
    run.traces.extend(traces::of(report));
    for (experiment, symbol, what) in &report.missing {
        run.push(Event::Outcome(Outcome {
            experiment: experiment.clone(),
            case: Some(CaseId::new().with(AS_REPORTED, &**symbol)),
            outcome: Ending::Skipped,
            reason: Some(format!("only available as a plot or table in the report: {what}")),
        }));
    }
    run.push(Event::Footer(Footer {
        finished: report.dated.clone(),
        elapsed_s: 0.0,
        end: End::Complete,
        counter_drift: None,
        eta_after_first_pass_s: None,
        session_cpu_s: 0.0,
        session_peak_bytes: 0,
        synced: Default::default(),
    }));
    run
}

/// The case of a row: its parameters in the card's order, then its own ones.
pub(crate) fn case_of(table: &Table, row: &Row) -> CaseId {
    let own = [(&*table.varies, &*row.at), (AS_REPORTED, &*row.reading)];
    ordered(&table.experiment, parameters(&table.case).chain(own))
}

/// The key of ours that is nearest to a figure's, without a placement; `None` where a case of ours
/// is the same measurement, or none is near.
pub(crate) fn nearest_of(
    table: &'static Table,
    row: &'static Row,
) -> Option<(Key, &'static Nearest)> {
    let of_table = table.nearest.as_ref().filter(|_| !row.reading.is_empty());
    let nearest = row.nearest.as_ref().or(of_table)?;
    let experiment = nearest.experiment.as_deref().unwrap_or(&table.experiment);
    let metric = nearest.metric.as_deref().unwrap_or(&table.metric);
    let at = if row.near.is_empty() { &row.at } else { &row.near };
    let case = match &nearest.case {
        Some(case) => ordered(experiment, parameters(&case.replace("{at}", at))),
        None => ordered(experiment, parameters(&table.case).chain([(&*table.varies, &*row.at)])),
    };
    Some((Key::new(experiment, &case, metric), nearest))
}

/// The key of the case that stands beside a figure: its own, or the nearest.
pub(crate) fn key_of(table: &'static Table, row: &'static Row) -> Key {
    match nearest_of(table, row) {
        Some((key, _)) => key,
        None => Key::new(&table.experiment, &case_of(table, row), &table.metric),
    }
}

/// Parameters that are spelled as `name=value,…`.
pub(super) fn parameters(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|part| part.split_once('='))
}

/// A case of those parameters that have a value, in the card's order, then those that no card has.
pub(super) fn ordered<'text>(
    experiment: &str,
    parts: impl Iterator<Item = (&'text str, &'text str)>,
) -> CaseId {
    let card = find(experiment).map(AnyExperiment::card);
    let params = card.iter().flat_map(|card| card.params).map(|param| param.name);
    let order: Vec<&str> = params.chain(OWN.iter().map(|(name, ..)| *name)).collect();
    let mut parts: Vec<(&str, &str)> = parts.filter(|(_, value)| !value.is_empty()).collect();
    parts.order_by_key(|(name, _)| order.iter().position(|have| have == name));
    let value = |text: &str| match text.parse::<u64>() {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(text),
    };
    let with = |id: CaseId, (name, text): &(&str, &str)| id.with(name, value(text));
    parts.iter().fold(CaseId::new(), with)
}

fn header(name: &str, report: &Report) -> Header {
    let host = Host::read(&Root::tree(&report.tree));
    let mut environment: BTreeMap<String, String> = report.environment.iter().cloned().gather();
    environment.insert("report".to_owned(), format!("{}: {}", report.report, report.work));
    environment.insert("clocks".to_owned(), report.clocks.clone());
    Header {
        format: FORMAT,
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        rustc: String::new(),
        profile: String::new(),
        target: String::new(),
        target_features: String::new(),
        build: String::new(),
        run: name.to_owned(),
        started: report.dated.clone(),
        seed: 0,
        options: Options { preset: PUBLISHED.to_owned(), ..Options::default() },
        cpus: vec![report.cpu],
        identity: name.to_owned(),
        host: patched(serde_json::to_value(&host).unwrap_or_default(), &report.parts),
        environment,
        peers: Vec::new(),
        calibration: Calibration {
            width: None,
            source: PUBLISHED.to_owned(),
            counter_hz: report.counter_hz.unwrap_or(0.0),
            counter_error: 0.0,
            windows_hz: Vec::new(),
            resolution_ns: 0.0,
            pair_cost_ns: 0.0,
            vdso_falls_back: false,
            core_hz: report.core_hz.unwrap_or(0.0),
            core_source: PUBLISHED.to_owned(),
            multiply_cycles: None,
            cpu: report.cpu,
            notes: vec![report.clocks.clone()],
        },
    }
}

/// A value with the members of a patch in place of its own; null removes one (RFC 7396).
fn patched(mut value: serde_json::Value, patch: &serde_json::Value) -> serde_json::Value {
    let serde_json::Value::Object(members) = patch else {
        return if patch.is_null() { value } else { patch.clone() };
    };
    if let Some(own) = value.as_object_mut() {
        for (name, patch) in members {
            match patch.is_null() {
                true => drop(own.remove(name)),
                false => {
                    let have = own.remove(name).unwrap_or_else(|| serde_json::json!({}));
                    own.insert(name.clone(), patched(have, patch));
                }
            }
        }
    }
    value
}

/// The experiments of the catalogue that have a figure or miss a plot, in its order.
fn plan(report: &'static Report) -> Plan {
    let cards =
        FAMILIES.iter().flat_map(|family| family.experiments).map(|experiment| experiment.card());
    let experiments = cards.filter_map(|card| {
        let tables: Vec<&'static Table> =
            report.tables.iter().filter(|table| table.experiment == card.id).collect();
        let misses = report.missing.iter().any(|(id, ..)| id == card.id);
        if tables.is_empty() && !misses {
            return None;
        }
        let mut derived: Vec<CaseId> = Vec::new();
        for (table, row) in rows(&tables) {
            let case = case_of(table, row);
            if !derived.contains(&case) {
                derived.push(case);
            }
        }
        let metrics = card.metrics.iter().cloned().map(|mut metric| {
            metric.derived = true;
            metric
        });
        let mut params: Vec<(String, String)> = card
            .params
            .iter()
            .filter(|param| param.role == Role::Case)
            .map(|param| (param.name.to_owned(), param.doc.to_owned()))
            .collect();
        let own =
            OWN.iter().filter(|(name, ..)| derived.iter().any(|case| case.get(name).is_some()));
        params.extend(own.map(|(name, doc, _)| ((*name).to_owned(), (*doc).to_owned())));
        let units = card
            .params
            .iter()
            .filter_map(|param| Some((param.name, param.domain.unit()?)))
            .chain(OWN.iter().filter_map(|(name, _, unit)| Some((*name, (*unit)?))));
        let mut views = views(card, &tables).into_iter();
        Some(PlannedExperiment {
            id: card.id.to_owned(),
            title: card.title.to_owned(),
            manual: manual(report, card.id, &tables),
            metrics: metrics.collect(),
            params,
            units: units.map(|(name, unit)| (name.to_owned(), unit)).gather(),
            view: views.next().unwrap_or(View::Table),
            views: views.collect(),
            keys: card.keys.to_vec(),
            repeat: card.repeat,
            isolation: card.isolation,
            after: Vec::new(),
            series: Vec::new(),
            derived,
            skipped: None,
        })
    });
    Plan { experiments: experiments.collect(), stages: Vec::new(), looks: Vec::new(), eta_s: 0.0 }
}

/// The greatest size over the least from which on axes are logarithmic.
const FAR_APART: f64 = 30.0;

/// How an experiment is shown: as its card says, then over what only a report varies.
fn views(card: &Card, tables: &[&'static Table]) -> Vec<View> {
    let of_card = card.views.iter().map(|view| match view.view() {
        // A report has no table of a trace but that of first runs.
        View::Spans { timeline, beside, .. } => {
            View::Spans { timeline, table: traces::FIRST_RUNS.to_owned(), beside }
        }
        view => view,
    });
    let own = tables.iter().filter_map(|table| {
        let is_own = OWN.iter().any(|(name, _, unit)| *name == table.varies && unit.is_some());
        let view = ViewCard::line(&table.varies, &table.metric);
        let sizes = table.rows.iter().filter_map(|row| row.at.parse::<f64>().ok());
        let ends = sizes.fold((f64::INFINITY, 0.0), |(low, high), size| {
            (f64::min(low, size), f64::max(high, size))
        });
        let view = if ends.1 > FAR_APART * ends.0 { view.log() } else { view };
        (is_own && table.rows.len() > 1).then(|| view.view())
    });
    let mut all: Vec<View> = of_card.collect();
    for view in own {
        if !all.contains(&view) {
            all.push(view);
        }
    }
    all
}

fn rows(tables: &[&'static Table]) -> impl Iterator<Item = (&'static Table, &'static Row)> {
    tables.iter().flat_map(|table| table.rows.iter().map(move |row| (*table, row)))
}

/// How the report measured, and where its figures stand: in place of the experiment's manual, which
/// describes another method.
fn manual(report: &Report, experiment: &str, tables: &[&Table]) -> String {
    let method = report
        .methods
        .iter()
        .find(|(id, _)| id == experiment)
        .map_or("It is not stated.", |(_, text)| text);
    let mut text =
        format!("# {experiment} in {}\n\n## Method\n\n{method}\n\n## Sources\n\n", report.report);
    for table in tables {
        let about = provenance(report, table);
        let notes = [&table.note, &table.slip].map(|note| match &**note {
            "" => String::new(),
            note => format!("; {note}"),
        });
        text.push_str(&format!("- `{}`: {about}{}.\n", table.metric, notes.concat()));
    }
    for (_, _, what) in report.missing.iter().filter(|(id, ..)| id == experiment) {
        text.push_str(&format!("- Not in the text file: {what}.\n"));
    }
    text
}

/// Source, statistic and conversion of a table's figures.
fn provenance(report: &Report, table: &Table) -> String {
    let mut text = format!("{}, {}", table.source, table.statistic);
    if let Some(n) = table.n.filter(|_| !table.statistic.contains("(ours)")) {
        text.push_str(&format!(" of {n}"));
    }
    if !table.printed.name().is_empty() {
        text.push_str(&format!(", printed in {}", table.printed.name()));
    }
    if let Some(conversion) = table.printed.conversion(report.counter_hz) {
        text.push_str(&format!(" ({conversion})"));
    }
    text
}

fn figure(
    report: &Report,
    table: &'static Table,
    row: &'static Row,
    case: &CaseId,
) -> Option<Derived> {
    let value = table.printed.base(row.figure, report.counter_hz)? / table.of;
    let mut at: BTreeMap<String, Value> = BTreeMap::new();
    let mut tell = |name: &str, text: String| {
        if !text.is_empty() {
            at.insert(name.to_owned(), Value::from(text));
        }
    };
    tell("source", format!("{} {}", report.report, table.source));
    tell("statistic", table.statistic.clone());
    let printed = format!("{} {}", row.figure, table.printed.name());
    tell("printed", printed.trim_end().to_owned());
    tell("printed_also", row.also.clone());
    tell("deviation_printed", row.deviation.clone());
    tell("estimate_printed", estimate_printed(table, row));
    let nearest = nearest_of(table, row).map(|(key, nearest)| {
        let (differs, moves) = (&nearest.differs, nearest.moves.text());
        tell("nearest", key.to_string());
        tell("nearest_differs", differs.clone());
        tell("nearest_moves", moves.to_owned());
        format!(
            "not the same measurement as {key}, the nearest case: the printed figure {differs}; \
             that moves it {moves}"
        )
    });
    tell("converted", table.printed.conversion(report.counter_hz).unwrap_or_default());
    let converted_otherwise = table.printed == Printed::Ticks && !row.also.is_empty();
    let own_times = if converted_otherwise { &*report.own_times } else { "" };
    let told = |texts: &[&str]| -> Vec<String> {
        texts.iter().filter(|text| !text.is_empty()).map(|text| (*text).to_owned()).collect()
    };
    let slips = told(&[&row.slip, &table.slip]);
    tell("slip", slips.first().cloned().unwrap_or_default());
    if let Some(n) = table.n {
        at.insert("n".to_owned(), Value::from(n));
    }
    let notes = slips.into_iter().chain(told(&[&row.note, &table.note, own_times]));
    let notes = notes.chain(nearest);
    Some(Derived {
        experiment: table.experiment.clone(),
        case: case.clone(),
        metric: table.metric.clone(),
        value,
        ci: None,
        confidence: None,
        presence: 1.0,
        at,
        notes: notes.collect(),
    })
}

/// The report's estimate as it prints it; empty where there is none, or where its ends are ours.
fn estimate_printed(table: &Table, row: &Row) -> String {
    let unit = table.printed.name();
    let text = match row.estimate {
        None => String::new(),
        Some(_) if !row.estimate_printed.is_empty() => row.estimate_printed.clone(),
        Some(_) if table.because.contains("(ours)") => String::new(),
        Some([low, _, high]) if low == high => format!("{low} {unit}"),
        Some([low, _, high]) => format!("{low} to {high} {unit}"),
    };
    text.trim_end().to_owned()
}

/// What the report itself expected.
fn prediction(report: &Report, table: &Table, row: &Row, case: &CaseId) -> Option<PredictionEvent> {
    let base = |value: f64| Some(table.printed.base(value, report.counter_hz)? / table.of);
    let [low, likely, high] = row.estimate?;
    Some(PredictionEvent {
        experiment: table.experiment.clone(),
        case: case.clone(),
        metric: table.metric.clone(),
        of: PredictionKind::Prior,
        prediction: Prediction::new(
            Some(Range { low: base(low)?, likely: base(likely)?, high: base(high)? }),
            format!("{}'s own estimate: {}", report.report, table.because),
        ),
        at: BTreeMap::new(),
    })
}

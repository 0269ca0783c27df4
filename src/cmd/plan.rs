//! `plumb plan`: what would run, predicted, skipped and why, and how long it takes.

use crate::cmd::choice::Choice;
use crate::cmd::{Failure, output};
use bench::device;
use bench::experiment::{AnyExperiment, Peer, Site};
use record::case::Case;
use record::event::{PlannedExperiment, Prediction};
use record::metric::Metric;
use record::quantity::{render, render_bytes};
use report::counted;
use serde_json::json;
use session::setup::Setup;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Shows what would run here, what is predicted, what is skipped and why, and how long it takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// Every case with its prediction and the reason for it
    #[arg(long, short)]
    verbose: bool,
    /// Print the plan as one JSON object instead, as a record has it
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let setup = args.choice.setup(None, &AtomicBool::new(false))?;
    if args.json {
        let effects = effects(&setup).into_iter();
        let effects: BTreeMap<&str, String> = effects.collect();
        let object = json!({"plan": setup.planned.plan, "effects": effects});
        return Ok(output::print(&format!("{object:#}\n"))?);
    }
    let mut text = format!("{}\n", site_text(&setup));
    for peer in &setup.site.peers {
        text.push_str(&format!("{}\n", peer_text(peer)));
    }
    for planned in &setup.planned.plan.experiments {
        text.push_str(&of_experiment(planned));
        if args.verbose {
            text.push_str(&predicted(&setup, planned));
        }
        text.push_str(&skipped(&setup, planned, args.verbose));
    }
    text.push_str("\nWhat a run does to this machine\n");
    for (name, effect) in effects(&setup) {
        text.push_str(&format!("  {name:<8} {effect}\n"));
    }
    let plan = &setup.planned.plan;
    let rounds =
        (plan.looks.first().copied().unwrap_or(1), plan.looks.last().copied().unwrap_or(1));
    text.push_str(&format!(
        "\n{} series in {}, {} to {} rounds of each; expected time {}\n",
        setup.planned.work.len(),
        counted(plan.stages.len(), "stage"),
        rounds.0,
        rounds.1,
        humantime::format_duration(Duration::from_secs(plan.eta_s.ceil() as u64)),
    ));
    Ok(output::print(&text)?)
}

/// What would be measured of an experiment, or why nothing.
fn of_experiment(planned: &PlannedExperiment) -> String {
    let cases: usize = planned.series.iter().map(|series| series.cases.len()).sum();
    let cost: f64 = planned.series.iter().map(|series| series.round_cost_s).sum();
    let what = match &planned.skipped {
        Some(skip) => {
            let needed = skip.needed.as_ref().map(|needed| format!("; it needs {needed}"));
            format!("skipped: {}{}", skip.reason, needed.unwrap_or_default())
        }
        None if cases == 0 => "nothing to measure here".to_owned(),
        None => format!(
            "{} in {} series, {} a round",
            counted(cases, "case"),
            planned.series.len(),
            render(cost * 1e9, record::unit::Unit::Ns)
        ),
    };
    format!("{}  {}\n  {what}\n", planned.id, planned.title)
}

/// The predictions of its cases.
fn predicted(setup: &Setup, planned: &PlannedExperiment) -> String {
    let mut text = String::new();
    let works = || setup.planned.work.iter().filter(|work| work.series.experiment == planned.id);
    for work in works() {
        for case in &work.series.cases {
            predictions(&mut text, work.experiment, &setup.site_for(case), case, false);
        }
    }
    if let Some(work) = works().next() {
        for case in &planned.derived {
            let case = Case::new(case.clone());
            predictions(&mut text, work.experiment, &setup.site_for(&case), &case, true);
        }
    }
    text
}

/// Skipped cases that are shown without --verbose.
const SKIPPED_SHOWN: usize = 3;

/// Its cases that are skipped.
fn skipped(setup: &Setup, planned: &PlannedExperiment, verbose: bool) -> String {
    let of = setup.planned.skipped.iter().filter(|(card, ..)| card.id == planned.id);
    let told = of.filter_map(|(_, case, skip)| {
        Some(format!("  skipped {}: {}\n", case.as_ref()?, skip.reason))
    });
    let told: Vec<String> = told.collect();
    match verbose || told.len() <= SKIPPED_SHOWN {
        true => told.concat(),
        false => {
            let more = "  … more skipped cases: --verbose shows them\n";
            told[..SKIPPED_SHOWN].concat() + more
        }
    }
}

/// What a run does to this machine: its load, what it takes and writes, and what it evicts.
fn effects(setup: &Setup) -> Vec<(&'static str, String)> {
    let planned = setup.planned.plan.experiments.iter().filter(|one| one.skipped.is_none());
    let planned: Vec<_> = planned.filter(|one| !one.series.is_empty()).collect();
    let ids = |is: &dyn Fn(&PlannedExperiment) -> bool| -> Vec<&str> {
        planned.iter().filter(|one| is(one)).map(|one| one.id.as_str()).collect()
    };
    let threads = |one: &PlannedExperiment| {
        let cases = one.series.iter().flat_map(|series| &series.cases);
        cases.filter_map(|case| case.int("threads")).max().unwrap_or(1)
    };
    let on_all = ids(&|one| threads(one) > 1);
    let mut load = "one CPU busy at a time, at the highest priority that is allowed".to_owned();
    if !on_all.is_empty() {
        load.push_str(&format!("; several CPUs in {}", on_all.join(", ")));
    }
    let writers = ids(&|one| device::allowance(&setup.site, &one.id) > 0);
    let most: u64 = writers.iter().map(|id| device::allowance(&setup.site, id)).sum();
    let written = match (&setup.site.dir, writers.is_empty()) {
        (Some(dir), false) => format!(
            "files of at most {} in all below {}, removed at the end; direct writes go to them over \
             and over ({})",
            render_bytes(most as f64),
            dir.path.display(),
            writers.join(", ")
        ),
        _ => "the record alone".to_owned(),
    };
    let memory = setup.site.memory_bytes as f64;
    let has_memory = planned.iter().any(|one| one.id.starts_with("memory."));
    let evicted = match has_memory {
        true => format!(
            "the CPU caches; of the page cache plumb's own files, and those of others as far as the \
             kernel gives their pages for up to {} of memory",
            render_bytes(memory)
        ),
        false => "the CPU caches; of the page cache plumb's own files".to_owned(),
    };
    vec![("load", load), ("writes", written), ("evicts", evicted)]
}

fn site_text(setup: &Setup) -> String {
    let host = &setup.site.host;
    format!(
        "{}, {} CPUs (measuring on CPU {}), {} of memory to use",
        host.cpu.model_name.as_deref().unwrap_or("unknown processor"),
        setup.site.cpus.len(),
        setup.site.cpus.first().copied().unwrap_or(0),
        render_bytes(setup.site.memory_bytes as f64),
    )
}

fn peer_text(peer: &Peer) -> String {
    let by = peer.interface.as_ref().map(|name| format!(" by its {name}"));
    let here = peer
        .address
        .is_loopback()
        .then_some(", which is loopback: memory copies on this host, no link");
    format!(
        "far end {}: {}, {} CPUs (its ends on CPU {}), data at {}{}{}",
        peer.name,
        peer.host.cpu.model_name.as_deref().unwrap_or("unknown processor"),
        peer.cpus.len(),
        peer.cpus.first().copied().unwrap_or(0),
        peer.address,
        by.unwrap_or_default(),
        here.unwrap_or_default()
    )
}

fn predictions(
    text: &mut String,
    experiment: &dyn AnyExperiment,
    site: &Site,
    case: &Case,
    derived: bool,
) {
    for metric in experiment.card().metrics.iter().filter(|metric| metric.derived == derived) {
        let seen = Case { id: case.id.unplaced(), at: case.at.clone() };
        let prediction = experiment.predict(site, None, &seen, metric);
        if let Some(prediction) = prediction {
            text.push_str(&format!(
                "  {} {}: {}\n",
                case.id,
                metric.name,
                told(&prediction, metric)
            ));
        }
    }
}

fn told(prediction: &Prediction, metric: &Metric) -> String {
    match prediction.range {
        Some(range) => format!(
            "{} ({} to {}), {}",
            render(range.likely, metric.unit),
            render(range.low, metric.unit),
            render(range.high, metric.unit),
            prediction.because
        ),
        None => format!("unknown, {}", prediction.because),
    }
}

//! `plumb plan`: what would run, predicted, skipped and why, and how long it takes.

use crate::cmd::choice::Choice;
use crate::cmd::doctor::UNMOUNTED;
use crate::cmd::run::{check_plausible, duration};
use crate::cmd::{Failure, output};
use bench::device;
use bench::experiment::{AnyExperiment, Peer, Preset, Site};
use host::Core;
use record::case::Case;
use record::event::{PlannedExperiment, Prediction};
use record::key::CaseId;
use record::metric::Metric;
use record::order::Gather;
use record::quantity::{render, render_bytes};
use report::counted;
use report::terminal::wrapped;
use serde_json::json;
use session::defaults;
use session::setup::{Setup, root};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Shows what `run` would measure here: cases, defaults, what is skipped and why, effects on this
/// machine, and the time it takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    choice: Choice,
    /// Show every case with its prediction and the reason for it
    #[arg(long, short)]
    verbose: bool,
    /// Print a JSON object instead: the plan as in a record, defaults and effects
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let preset = args.choice.preset().into();
    let setup = args.choice.setup(None, None, &AtomicBool::new(false))?;
    if args.json {
        let effects = effects(&setup).into_iter();
        let effects: BTreeMap<&str, String> = effects.gather();
        let planned = setup.planned.plan.experiments.iter();
        let defaults: BTreeMap<&str, BTreeMap<&str, Option<String>>> = planned
            .map(|one| (one.id.as_str(), defaults(one, &setup.site, preset).into_iter().gather()))
            .gather();
        let skipped = setup.planned.skipped.iter().map(|(card, case, skip)| {
            json!({"experiment": card.id, "case": case, "reason": skip.reason, "needed": skip.needed})
        });
        let skipped: Vec<serde_json::Value> = skipped.collect();
        let object = json!({
            "plan": setup.planned.plan,
            "skipped": skipped,
            "defaults": defaults,
            "effects": effects,
        });
        output::print(&format!("{object:#}\n"))?;
        return check_plausible(&setup, &args.choice);
    }
    let mut text = format!("{}\n", site_text(&setup));
    let unmounted = root(args.choice.host_tree.as_deref())?.unmounted();
    if !unmounted.is_empty() {
        text.push_str(&format!("not mounted: {}: {UNMOUNTED}\n", unmounted.join(", ")));
    }
    for peer in &setup.site.peers {
        text.push_str(&format!("{}\n", peer_text(peer)));
    }
    for planned in &setup.planned.plan.experiments {
        text.push_str(&of_experiment(planned));
        if planned.skipped.is_none() {
            text.push_str(&defaults_text(defaults(planned, &setup.site, preset)));
        }
        if args.verbose {
            text.push_str(&predicted(&setup, planned));
        }
        text.push_str(&skipped(&setup, planned, args.verbose));
    }
    text.push_str("\nWhat a run does to this machine\n");
    for (name, effect) in effects(&setup) {
        let lines = wrapped(&effect, output::look().width, "           ");
        text.push_str(&format!("  {name:<8} {}\n", lines.join("\n").trim_start()));
    }
    let plan = &setup.planned.plan;
    let rounds =
        (plan.looks.first().copied().unwrap_or(1), plan.looks.last().copied().unwrap_or(1));
    text.push_str(&format!(
        "\n{} series in {}, {} to {} rounds each; expected time {}\n",
        setup.planned.work.len(),
        counted(plan.stages.len(), "stage"),
        rounds.0,
        rounds.1,
        duration(Duration::from_secs_f64(plan.eta_s)),
    ));
    output::page(&text)?;
    check_plausible(&setup, &args.choice)
}

/// What would be measured of an experiment, or why nothing.
fn of_experiment(planned: &PlannedExperiment) -> String {
    let cases: usize = planned.series.iter().map(|series| series.cases.len()).sum();
    let cost: f64 = planned.series.iter().map(|series| series.round_cost_s).sum();
    let what = match &planned.skipped {
        Some(skip) => format!("skipped: {}", why(&skip.reason, skip.needed.as_ref())),
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

/// The default of each parameter in a preset; none where the preset has no case with it here.
type Defaults = Vec<(&'static str, Option<String>)>;

fn defaults(planned: &PlannedExperiment, site: &Site, preset: Preset) -> Defaults {
    let found = catalogue::find(&planned.id);
    let all = found.map(|experiment| defaults::of_preset(experiment, site, preset));
    all.into_iter().flatten().map(|(param, values)| (param.name, values)).collect()
}

/// Longest list of values that is shown whole, in characters.
const VALUES_SHOWN: usize = 48;

/// Those defaults on a line or two; nothing where nothing is measured.
fn defaults_text(defaults: Defaults) -> String {
    let texts: Vec<String> = defaults
        .into_iter()
        .filter_map(|(name, values)| Some(format!("{name}={}", short(&values?))))
        .collect();
    let text = format!("defaults: {}", texts.join("  "));
    match texts.is_empty() {
        true => String::new(),
        false => wrapped(&text, output::look().width, "  ").join("\n") + "\n",
    }
}

/// A list of values, cut after the last that fits.
fn short(values: &str) -> String {
    match values.char_indices().nth(VALUES_SHOWN) {
        None => values.to_owned(),
        Some((end, _)) => {
            let shown = values[..end].rsplit_once(',').map_or("", |(shown, _)| shown);
            format!("{shown},… ({})", values.split(',').count())
        }
    }
}

fn predicted(setup: &Setup, planned: &PlannedExperiment) -> String {
    let works = || setup.planned.work.iter().filter(|work| work.series.experiment == planned.id);
    let Some(first) = works().next() else { return String::new() };
    let derived = planned.derived.iter().cloned().map(Case::new);
    let measured = works().flat_map(|work| work.series.cases.iter().cloned());
    let all = measured.map(|case| (case, false)).chain(derived.map(|case| (case, true)));
    all.map(|(case, is_derived)| predictions(setup, first.experiment, &case, is_derived)).collect()
}

fn why(reason: &str, needed: Option<&String>) -> String {
    let needed = needed.map(|needed| format!("; it needs {needed}"));
    reason.to_owned() + &needed.unwrap_or_default()
}

/// Skipped cases that are shown without --verbose.
const SKIPPED_SHOWN: usize = 3;

fn skipped(setup: &Setup, planned: &PlannedExperiment, verbose: bool) -> String {
    let own = setup.planned.skipped.iter().filter(|(card, ..)| card.id == planned.id);
    let lines = own.filter_map(|(_, case, skip)| {
        Some(format!("  skipped {}: {}\n", case.as_ref()?, why(&skip.reason, skip.needed.as_ref())))
    });
    let lines: Vec<String> = lines.collect();
    match lines.len().checked_sub(SKIPPED_SHOWN) {
        Some(more @ 1..) if !verbose => {
            let more = format!("  … {more} more skipped (--verbose)\n");
            lines[..SKIPPED_SHOWN].concat() + &more
        }
        _ => lines.concat(),
    }
}

/// Whether a case keeps more than one CPU busy.
fn takes_several(case: &CaseId) -> bool {
    let is = |name: &str, words: &[&str]| case.text(name).is_some_and(|text| words.contains(&text));
    case.int("threads").is_some_and(|threads| threads > 1)
        || case.int("load").is_some_and(|percent| percent > 0)
        || case.text("pair").is_some_and(|pair| pair != "same")
        || is("threads", &["all", "twice"])
        || is("ends", &["other_cpu"])
        || is("load", &["others"])
        || is("cpu", &["all"])
}

/// What a run does to this machine: its load, what it takes and writes, and what it evicts.
fn effects(setup: &Setup) -> Vec<(&'static str, String)> {
    let planned = setup.planned.plan.experiments.iter().filter(|one| one.skipped.is_none());
    let planned: Vec<_> = planned.filter(|one| !one.series.is_empty()).collect();
    let ids = |is: &dyn Fn(&PlannedExperiment) -> bool| -> Vec<&str> {
        planned.iter().filter(|one| is(one)).map(|one| one.id.as_str()).collect()
    };
    let several = ids(&|one| {
        let mut cases = one.series.iter().flat_map(|series| &series.cases);
        cases.any(takes_several)
    });
    let mut load = "one busy CPU at a time, at the highest priority allowed".to_owned();
    if !several.is_empty() {
        load.push_str(&format!("; several CPUs in {}", several.join(", ")));
    }
    let writers = ids(&|one| device::allowance(&setup.site, &one.id) > 0);
    let written = match (&setup.site.dir, writers.is_empty()) {
        (Some(dir), false) => format!(
            "files of at most {} in all below {}, removed at the end; direct writes rewrite the \
             same files ({})",
            render_bytes(dir.allowance_bytes as f64),
            dir.path.display(),
            writers.join(", ")
        ),
        _ => "only the record".to_owned(),
    };
    let memory = setup.site.memory_bytes as f64;
    let has_memory = planned.iter().any(|one| one.id.starts_with("memory."));
    let evicted = match has_memory {
        true => format!(
            "the CPU caches; plumb's own files from the page cache, and other files if the kernel \
             needs their pages for up to {} of memory",
            render_bytes(memory)
        ),
        false => "the CPU caches; plumb's own files from the page cache".to_owned(),
    };
    vec![("load", load), ("writes", written), ("evicts", evicted)]
}

fn site_text(setup: &Setup) -> String {
    let host = &setup.site.host;
    let measuring = setup.site.cpus.first().copied().unwrap_or(0);
    let core = match host.cpu.core_of(measuring) {
        Core::Unknown => "an unknown core",
        core => core.name(),
    };
    let notes: String = host.doubts.iter().map(|note| format!("\n  note: {note}")).collect();
    format!(
        "{}, {} (measuring on CPU {measuring}, {core}), uses at most {} of memory{notes}",
        host.cpu.model_name.as_deref().unwrap_or("unknown processor"),
        counted(setup.site.cpus.len(), "CPU"),
        render_bytes(setup.site.memory_bytes as f64),
    )
}

fn peer_text(peer: &Peer) -> String {
    let by = peer.interface.as_ref().map(|name| format!(" over its {name}"));
    let here = peer
        .address
        .is_loopback()
        .then_some(", which is loopback: memory copies on this host, not a link");
    format!(
        "far end {}: {}, {} CPUs (its end on CPU {}), data to {}{}{}",
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
    setup: &Setup,
    experiment: &dyn AnyExperiment,
    case: &Case,
    is_derived: bool,
) -> String {
    let site = setup.site_for(case);
    let metrics = experiment.card().metrics.iter().filter(|metric| metric.derived == is_derived);
    let lines = metrics.filter_map(|metric| {
        let prediction = experiment.predict(&site, None, case, metric)?;
        Some(format!("  {} {}: {}\n", case.id, metric.name, stated(&prediction, metric)))
    });
    lines.collect()
}

fn stated(prediction: &Prediction, metric: &Metric) -> String {
    match prediction.says(metric.unit) {
        Some(range) => format!(
            "{} ({} to {}), {}",
            render(range.likely, metric.shown_unit()),
            render(range.low, metric.shown_unit()),
            render(range.high, metric.shown_unit()),
            prediction.because
        ),
        None => format!("not predictable from here, because: {}", prediction.why_not()),
    }
}

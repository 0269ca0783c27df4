//! `plumb plan`: what would run, predicted, skipped and why, and how long it takes.

use crate::cmd::choice::Choice;
use crate::cmd::{Failure, output};
use bench::experiment::{AnyExperiment, Peer, Site};
use record::case::Case;
use record::event::Prediction;
use record::metric::Metric;
use record::quantity::render;
use session::plan::Work;
use session::setup::Setup;
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
}

pub fn run(args: Args) -> Result<(), Failure> {
    let setup = args.choice.setup(None, &AtomicBool::new(false))?;
    let mut text = format!("{}\n", site_text(&setup));
    for peer in &setup.site.peers {
        text.push_str(&format!("{}\n", peer_text(peer)));
    }
    for planned in &setup.planned.plan.experiments {
        let cases: usize = planned.series.iter().map(|series| series.cases.len()).sum();
        let cost: f64 = planned.series.iter().map(|series| series.round_cost_s).sum();
        text.push_str(&format!("{}  {}\n", planned.id, planned.title));
        match &planned.skipped {
            Some(skip) => {
                let needed = skip.needed.as_ref().map(|needed| format!("; it needs {needed}"));
                text.push_str(&format!(
                    "  skipped: {}{}\n",
                    skip.reason,
                    needed.unwrap_or_default()
                ));
            }
            None if cases == 0 => text.push_str("  nothing to measure here\n"),
            None => text.push_str(&format!(
                "  {} in {} series, {} a round\n",
                counted(cases, "case"),
                planned.series.len(),
                render(cost * 1e9, record::unit::Unit::Ns)
            )),
        }
        let works: Vec<&Work> =
            setup.planned.work.iter().filter(|work| work.series.experiment == planned.id).collect();
        if args.verbose {
            for work in &works {
                for case in &work.series.cases {
                    let site = setup.site_for(case);
                    predictions(&mut text, work.experiment, &site, case, false);
                }
            }
            if let Some(work) = works.first() {
                for case in &planned.derived {
                    let case = Case::new(case.clone());
                    let site = setup.site_for(&case);
                    predictions(&mut text, work.experiment, &site, &case, true);
                }
            }
        }
        let skipped = setup
            .planned
            .skipped
            .iter()
            .filter(|(card, case, _)| card.id == planned.id && case.is_some());
        for (at, (_, case, skip)) in skipped.enumerate() {
            if args.verbose || at < 3 {
                let case = case.as_ref().map(ToString::to_string).unwrap_or_default();
                text.push_str(&format!("  skipped {case}: {}\n", skip.reason));
            } else if at == 3 {
                text.push_str("  … more skipped cases: --verbose shows them\n");
            }
        }
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

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn site_text(setup: &Setup) -> String {
    let host = &setup.site.host;
    format!(
        "{}, {} CPUs (measuring on CPU {}), {} of memory to use",
        host.cpu.model_name.as_deref().unwrap_or("unknown processor"),
        setup.site.cpus.len(),
        setup.site.cpus.first().copied().unwrap_or(0),
        record::quantity::render_bytes(setup.site.memory_bytes as f64),
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

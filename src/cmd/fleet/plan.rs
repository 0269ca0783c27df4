//! `plumb fleet plan`: what a sweep would do and cost.

use crate::cmd::choice::{Choice, PresetName};
use crate::cmd::fleet::sweep::SweepArgs;
use crate::cmd::run::duration;
use crate::cmd::{Failure, output};
use fleet::plan::{Cost, Takes, costs, is_all_pairs};
use fleet::recipe::Recipe;
use fleet::sweep::{Purpose, Stage};
use record::quantity::render_bytes;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A pair takes about this time: a run of the default selectors of the preset quick, as it took over
/// loopback beside a load of seven (7.3 s and 7.7 s, docs/notes/2026-11-27-fleet-time.md).
const PAIR_S: f64 = 7.5;
/// In a rehearsal.
const PAIR_REHEARSAL_S: f64 = 3.0;
/// What a run takes beside its rounds and the calibrations before and after them: its start and end,
/// with an optimised binary (the same note).
const START_S: f64 = 0.5;
/// Figures of a pair, about.
const PAIR_FIGURES: u32 = 16;

/// Shows the phases of a sweep and what they cost, without measuring
#[derive(clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(fleet::place::SIZE_MAX)))]
    nodes: u32,
    /// Print a JSON object instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sweep: SweepArgs,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let recipe = args.sweep.recipe(args.nodes, "options", false)?;
    let takes = takes(&args.sweep)?;
    let all = costs(&recipe, &takes);
    let text = match args.json {
        true => format!("{:#}\n", as_json(&recipe, &all)),
        false => as_text(&recipe, &all),
    };
    Ok(output::print(&text)?)
}

/// What the parts of a sweep take on a machine such as this one.
fn takes(sweep: &SweepArgs) -> Result<Takes, Failure> {
    let choice = Choice::from_selectors(sweep.selectors.clone(), sweep.preset);
    let setup = choice.setup(None, None, &AtomicBool::new(false))?;
    let planned = &setup.planned;
    let figures: usize = planned
        .plan
        .experiments
        .iter()
        .flat_map(|one| one.series.iter().map(|series| series.cases.len() * one.metrics.len()))
        .sum();
    let (windows, window) = setup.calibration;
    Ok(Takes {
        alone_s: planned.plan.eta_s + f64::from(2 * windows) * window.as_secs_f64() + START_S,
        pair_s: match sweep.preset {
            PresetName::Rehearsal => PAIR_REHEARSAL_S,
            _ => PAIR_S,
        },
        figures: u32::try_from(figures).unwrap_or(u32::MAX),
        pair_figures: PAIR_FIGURES,
    })
}

/// What a phase does, for a reader.
fn what(recipe: &Recipe, cost: &Cost) -> String {
    let header = &recipe.header;
    match cost.phase {
        Stage::Meet => match header.size {
            1 => "one node, which is rank 0, starts".to_owned(),
            size => format!("{size} nodes join rank 0"),
        },
        Stage::Alone => format!("every node measures itself, all at once: {}", header.preset),
        Stage::Pairs => {
            let steps = cost.steps;
            match cost.purpose {
                Some(Purpose::Isolated) => {
                    format!("{steps} of them again, with nothing else running")
                }
                Some(Purpose::Bisection) => format!("{steps} matchings across a cut (bisection)"),
                Some(Purpose::Incast) => {
                    format!("{steps} times {} senders to one receiver (incast)", nears(cost))
                }
                Some(Purpose::Outcast) => {
                    format!("{steps} times one sender to {} receivers (outcast)", nears(cost))
                }
                _ if is_all_pairs(recipe) => format!("{steps} steps: all pairs"),
                _ => format!("{steps} steps of random matchings"),
            }
        }
        Stage::Suspects => "what may be worse, again: 3 to 16 times, with healthy peers".to_owned(),
        Stage::Gather => "what is left reaches rank 0".to_owned(),
    }
}

/// Near ends of a gathering.
fn nears(cost: &Cost) -> u64 {
    cost.measurements / u64::from(cost.steps.max(1))
}

/// Name of a phase.
pub(super) fn name(phase: Stage) -> &'static str {
    match phase {
        Stage::Meet => "meet",
        Stage::Alone => "alone",
        Stage::Pairs => "pairs",
        Stage::Suspects => "suspects",
        Stage::Gather => "gather",
    }
}

fn seconds(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds))
}

fn as_text(recipe: &Recipe, costs: &[Cost]) -> String {
    let mut text = String::new();
    for cost in costs {
        let (least, most) = cost.expected_s;
        let expected = match least == most {
            true => seconds(least),
            false => format!("{} to {}", seconds(least), seconds(most)),
        };
        let _ = writeln!(
            text,
            "{:<9} {:<62} {:>16}  {:>9}",
            name(cost.phase),
            what(recipe, cost),
            expected,
            render_bytes(cost.bytes as f64)
        );
    }
    let sum = |of: fn(&Cost) -> f64| seconds(costs.iter().map(of).sum());
    let _ = writeln!(
        text,
        "about {} where nothing stands out, {} where as much is measured again as a sweep allows; \
         never more than {}. Times are of a machine such as this one.",
        sum(|cost| cost.expected_s.0),
        sum(|cost| cost.expected_s.1),
        sum(|cost| cost.at_most_s)
    );
    text
}

fn as_json(recipe: &Recipe, costs: &[Cost]) -> serde_json::Value {
    let phases = costs.iter().map(|cost| {
        json!({
            "phase": name(cost.phase), "purpose": cost.purpose, "what": what(recipe, cost), "steps": cost.steps,
            "measurements": cost.measurements, "expected_s": cost.expected_s.0,
            "expected_up_to_s": cost.expected_s.1, "at_most_s": cost.at_most_s, "bytes": cost.bytes,
        })
    });
    let phases: Vec<serde_json::Value> = phases.collect();
    json!({ "nodes": recipe.header.size, "steps": recipe.header.steps, "phases": phases })
}

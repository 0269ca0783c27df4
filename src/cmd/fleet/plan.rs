//! `plumb fleet plan`: what a sweep would do and how long it takes.

use super::directory::list;
use super::sweep::SweepArgs;
use crate::cmd::run::duration;
use crate::cmd::{Failure, output};
use fleet::file::Purpose;
use fleet::hosts::List;
use fleet::node::{LEAST_NODES, duration_s};
use fleet::schedule::{Recipe, Slot};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Shows what a sweep measures, its slots and its time, without measuring
#[derive(clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(short = 'N', long, value_name = "N", required_unless_present = "hosts", value_parser = clap::value_parser!(u32).range(1..=i64::from(fleet::place::SIZE_MAX)))]
    nodes: Option<u32>,
    /// List of the hosts
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    hosts: Option<PathBuf>,
    /// Print a JSON object instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sweep: SweepArgs,
}

/// The parts of a sweep in their order.
const PURPOSES: [(Purpose, &str); 5] = [
    (Purpose::Matching, "matchings: every node with one other"),
    (Purpose::Bisection, "two random halves (bisection)"),
    (Purpose::Incast, "four senders, one receiver (incast)"),
    (Purpose::Outcast, "one sender, four receivers (outcast)"),
    (Purpose::Suspect, "the pairs of the list"),
];

pub fn run(args: Args) -> Result<(), Failure> {
    let recipe = args.sweep.recipe()?;
    let list = match &args.hosts {
        Some(hosts) => list(hosts)?,
        None => List {
            hosts: (0..args.nodes.unwrap_or(1)).map(|rank| format!("n{rank}")).collect(),
            ..List::default()
        },
    };
    let slots = recipe.slots(&list);
    let text = match args.json {
        true => format!("{:#}\n", as_json(&recipe, &list, &slots)),
        false => as_text(&recipe, &list, &slots),
    };
    Ok(output::print(&text)?)
}

fn count(slots: &[Slot], purpose: Purpose) -> usize {
    slots.iter().filter(|slot| slot.purpose == purpose).count()
}

fn seconds(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds))
}

fn as_text(recipe: &Recipe, list: &List, slots: &[Slot]) -> String {
    let nodes = list.hosts.len();
    let mut text = String::new();
    let mut line = |what: &str, time: String| {
        let _ = writeln!(text, "{what:<58} {time:>16}");
    };
    line(
        &format!("{nodes} nodes measure themselves at the same time, {}", recipe.preset),
        seconds(recipe.alone_s),
    );
    for (purpose, what) in PURPOSES {
        let slots = count(slots, purpose);
        if slots > 0 {
            line(&format!("{slots} slots, {what}"), seconds(slots as f64 * recipe.slot_s));
        }
    }
    line("all, from the start", seconds(duration_s(recipe, slots.len())));
    if nodes < LEAST_NODES as usize {
        text.push_str(
            "Fewer than six nodes: none can be accused; the report shows how they differ.\n",
        );
    }
    text
}

fn as_json(recipe: &Recipe, list: &List, slots: &[Slot]) -> serde_json::Value {
    let parts = PURPOSES.iter().map(|(purpose, what)| {
        json!({ "purpose": purpose, "what": what, "slots": count(slots, *purpose) })
    });
    json!({
        "nodes": list.hosts.len(), "preset": recipe.preset, "alone_s": recipe.alone_s, "slot_s": recipe.slot_s,
        "slots": slots.len(), "pairs": slots.iter().map(|slot| slot.pairs.len()).sum::<usize>(),
        "parts": parts.collect::<Vec<_>>(), "duration_s": duration_s(recipe, slots.len()),
    })
}

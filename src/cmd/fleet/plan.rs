//! `plumb fleet plan`: what a sweep would do and how long it takes.

use super::directory::list;
use super::sweep::SweepArgs;
use crate::cmd::run::duration;
use crate::cmd::{Failure, output};
use fleet::file::Purpose;
use fleet::hosts::List;
use fleet::node::LEAST_NODES;
use serde_json::json;
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

pub fn run(args: Args) -> Result<(), Failure> {
    let recipe = args.sweep.recipe()?;
    let list = match &args.hosts {
        Some(hosts) => list(hosts)?,
        None => List::new((0..args.nodes.unwrap_or(1)).map(|rank| format!("n{rank}")).collect()),
    };
    let slots = recipe.slots(&list);
    let duration_s = recipe.duration_s(slots.len());
    let count = |purpose: Purpose| slots.iter().filter(|slot| slot.purpose == purpose).count();
    let parts = Purpose::ALL.into_iter().map(|(purpose, what)| (purpose, what, count(purpose)));
    if args.json {
        let parts = parts.map(
            |(purpose, what, slots)| json!({ "purpose": purpose, "what": what, "slots": slots }),
        );
        let plan = json!({
            "nodes": list.size(), "preset": recipe.preset, "alone_s": recipe.alone_s,
            "slot_s": recipe.slot_s, "slots": slots.len(), "parts": parts.collect::<Vec<_>>(),
            "pairs": slots.iter().map(|slot| slot.pairs.len()).sum::<usize>(),
            "duration_s": duration_s,
        });
        return Ok(output::print(&format!("{plan:#}\n"))?);
    }
    let alone =
        format!("{} nodes measure themselves at the same time, {}", list.size(), recipe.preset);
    let parts = parts.filter(|(.., slots)| *slots > 0);
    let parts = parts
        .map(|(_, what, slots)| (format!("{slots} slots, {what}"), slots as f64 * recipe.slot_s));
    let all = ("all, from the start".to_owned(), duration_s);
    let rows = std::iter::once((alone, recipe.alone_s)).chain(parts).chain([all]);
    let row = |(what, time_s): (String, f64)| {
        format!("{what:<58} {:>16}\n", duration(Duration::from_secs_f64(time_s)))
    };
    let mut text: String = rows.map(row).collect();
    if list.size() < LEAST_NODES {
        text += "Fewer than six nodes: none can be accused; the report shows how they differ.\n";
    }
    Ok(output::print(&text)?)
}

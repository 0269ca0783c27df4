//! `plumb runs`: what is stored here, and what becomes of it.

mod export;
mod import;

use crate::cmd::{Failure, output, stored, time, usage};
use crate::{imported, published};
use record::crosscheck::CROSSCHECK;
use record::event::End;
use record::quantity::render_bytes;
use report::counted;
use serde_json::{Value, json};
use session::store::Store;
use session::store::journal::left_elsewhere;
use session::store::summary::{Beside, Facts, State, Stored};
use std::time::SystemTime;

/// Lists stored runs and crosschecks (oldest first), built-in published machines, and leftovers of
/// killed runs on other machines or in containers.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "The store is the directory $PLUMB_STORE, else $XDG_DATA_HOME/plumb, else \
~/.local/share/plumb. One that belongs to another user, or that others may write, is only read."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Lists the stored runs, oldest first, and the published machines (the default)
    List(ListArgs),
    /// Removes stored runs
    Delete(DeleteArgs),
    /// Removes old runs, or all but the newest of each machine, and empty records
    Prune(PruneArgs),
    /// Copies the records of stored runs, writes sheets of their machines, or their figures for databases
    Export(export::Args),
    /// Keeps machines of others to compare with: a sheet, or instance types of a clone of a public data set
    Import(import::Args),
}

#[derive(clap::Args)]
struct ListArgs {
    /// Print a JSON array instead
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct DeleteArgs {
    /// The runs: `last`, or the start of their names
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(clap::Args)]
struct PruneArgs {
    /// Keep the N newest runs and crosschecks of each machine (and build profile of plumb), whatever
    /// --older-than says
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Remove runs that started longer ago, for example 90d
    #[arg(long, value_name = "TIME", value_parser = time)]
    older_than: Option<std::time::Duration>,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let store = Store::here();
    match args.command {
        None => list(&store, args.list.json),
        Some(Command::List(args)) => list(&store, args.json),
        Some(Command::Delete(args)) => {
            let known = imported::names(&store);
            let (machines, runs): (Vec<String>, Vec<String>) =
                args.runs.into_iter().partition(|name| known.contains(name));
            let names = names(&store, &runs)?;
            let all = [machines.clone(), names.clone()].concat();
            let question = format!("Remove {}?", all.join(", "));
            match args.yes || output::asked(&question)?.unwrap_or(true) {
                true => {
                    for name in &machines {
                        imported::remove(&store, name)?;
                        output::print(&format!("removed {name}\n"))?;
                    }
                    delete(&store, &names, false)
                }
                false => Err(Failure::usage("nothing was removed")),
            }
        }
        Some(Command::Prune(args)) => prune(&store, &args),
        Some(Command::Export(args)) => export::export(&store, &args),
        Some(Command::Import(args)) => import::import(&store, &args),
    }
}

fn all(store: &Store) -> Result<Vec<Stored>, Failure> {
    Ok(stored::list(store, |_| false)?)
}

fn list(store: &Store, json: bool) -> Result<(), Failure> {
    let stored = all(store)?;
    if json {
        let mut runs: Vec<Value> = stored.iter().map(object).collect();
        let published = published::names().into_iter();
        runs.extend(published.map(|name| json!({"run": name, "state": "published"})));
        let imported = imported::names(store).into_iter();
        runs.extend(imported.map(|name| json!({"run": name, "state": "imported"})));
        let left = left_elsewhere(store).into_iter();
        runs.extend(left.map(|left| {
            let paths = left.paths.iter().map(|path| path.to_string_lossy());
            json!({
                "state": "left elsewhere",
                "place": left.place,
                "paths": paths.collect::<Vec<_>>(),
                "entry": left.entry.to_string_lossy(),
            })
        }));
        return Ok(output::print(&format!("{:#}\n", Value::Array(runs)))?);
    }
    let mut text = String::new();
    let width = stored.iter().map(|run| run.name.chars().count()).max();
    let width = width.unwrap_or(0);
    for run in &stored {
        let size = render_bytes(run.size_bytes as f64);
        let about = match &run.state {
            State::Readable(content) => described(&content.facts),
            State::UnderWay => "under way".to_owned(),
            State::Unreadable(reason) => reason.clone(),
        };
        text.push_str(&format!("{:<width$}  {size:>10}  {about}\n", run.name));
    }
    for name in published::names() {
        text.push_str(&format!("{name}  published figures, read-only\n"));
    }
    for name in imported::names(store) {
        text.push_str(&format!("{name}  imported\n"));
    }
    for left in left_elsewhere(store) {
        let paths: Vec<_> = left.paths.iter().map(|path| path.display().to_string()).collect();
        text.push_str(&format!(
            "left by a killed run {}: {}; the next run there removes it, or you do, with {}\n",
            left.place,
            paths.join(", "),
            left.entry.display()
        ));
    }
    if stored.is_empty() {
        output::diagnose("plumb: no run is stored yet; `plumb run` makes one");
    }
    Ok(output::page(&text)?)
}

fn described(facts: &Facts) -> String {
    let is_crosscheck = facts.is_crosscheck();
    let end = match facts.end {
        Some(End::Complete) => "complete",
        Some(End::Budget) => "time budget spent",
        Some(End::Interrupted) if is_crosscheck => "interrupted",
        Some(End::Interrupted) => "interrupted; resumable",
        None if is_crosscheck => "killed",
        None => "killed; resumable",
    };
    let beside = facts.beside.as_ref().map_or_else(String::new, beside);
    if is_crosscheck {
        let host = host(facts);
        let beside = match beside.as_str() {
            "" => "nothing compared",
            beside => beside,
        };
        return format!("{}  {host:<12}  {} of {beside}; {end}", facts.started, CROSSCHECK);
    }
    let [measured, skipped, failed] = facts.figures;
    format!(
        "{}  {:<12}  {:<9} {}, {skipped} skipped, {failed} failed, {}{}; {end}",
        facts.started,
        host(facts),
        facts.preset,
        counted(measured, "figure"),
        counted(facts.rounds, "round"),
        match beside.as_str() {
            "" => String::new(),
            beside => format!(", crosscheck of {beside}"),
        }
    )
}

/// `12 figures with 3 tools, 1 missed`.
fn beside(beside: &Beside) -> String {
    let missed = match beside.missed {
        0 => String::new(),
        missed => format!(", {} missed", counted(missed, "goal")),
    };
    let figures = counted(beside.compared, "figure");
    format!("{figures} with {}{missed}", counted(beside.tools, "tool"))
}

/// Length of the time that begins a run's name.
const TIME: usize = "2026-11-22T15-36-07".len();

/// The host in a run's name, which begins with the second it began in; of a crosscheck it ends in
/// what it is.
fn host(facts: &Facts) -> &str {
    let host = facts.run.get(TIME + 1..).unwrap_or_default();
    match host.rsplit_once(CROSSCHECK) {
        Some((host, _)) if facts.is_crosscheck() => host.trim_end_matches('-'),
        _ => host,
    }
}

fn object(run: &Stored) -> Value {
    let mut object = json!({"run": run.name, "size_bytes": run.size_bytes});
    match &run.state {
        State::UnderWay => object["state"] = json!("under way"),
        State::Unreadable(reason) => {
            object["state"] = json!("unreadable");
            object["reason"] = json!(reason);
        }
        State::Readable(content) => {
            let facts = &content.facts;
            let [measured, skipped, failed] = facts.figures;
            object["state"] = facts.end.map_or(json!("killed"), |end| json!(end));
            object["started"] = json!(facts.started);
            object["host"] = json!(host(facts));
            object["identity"] = json!(facts.machine.key);
            object["preset"] = json!(facts.preset);
            object["profile"] = json!(facts.profile);
            object["plumb"] = json!(facts.environment.get("plumb"));
            object["rounds"] = json!(facts.rounds);
            object["figures"] = json!({"measured": measured, "skipped": skipped, "failed": failed});
            if let Some(Beside { tools, compared, missed }) = facts.beside {
                object["crosscheck"] =
                    json!({"tools": tools, "compared": compared, "missed": missed});
            }
        }
    }
    object
}

fn names(store: &Store, typed: &[String]) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for run in typed {
        if published::run(run).is_ok_and(|found| found.is_some()) {
            return Err(Failure::Usage(format!(
                "{run} is a published machine, which is part of plumb"
            )));
        }
        let path = store.find(run).map_err(usage)?;
        match store.name_of(&path) {
            Some(name) if names.contains(&name) => {}
            Some(name) => names.push(name),
            None => {
                return Err(Failure::Usage(format!(
                    "{run} is a file outside the store; `plumb runs` lists the stored runs"
                )));
            }
        }
    }
    Ok(names)
}

/// Removes runs and prints which; reports those that cannot be removed at the end.
fn delete(store: &Store, names: &[String], is_rehearsal: bool) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for name in names {
        let size = match is_rehearsal {
            true => store.path(name).metadata().map(|facts| facts.len()).map_err(Into::into),
            false => store.remove(name),
        };
        let word = if is_rehearsal { "would remove" } else { "removed" };
        match size {
            Ok(size) => output::print(&format!("{word} {name} ({})\n", render_bytes(size as f64)))?,
            Err(error) => refused.push(format!("{error:#}")),
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(anyhow::anyhow!("{}", refused.join("; ")))),
    }
}

fn prune(store: &Store, args: &PruneArgs) -> Result<(), Failure> {
    if args.keep.is_none() && args.older_than.is_none() {
        return Err(Failure::usage(
            "name what to keep: type for example --keep 20 or --older-than 90d",
        ));
    }
    let stored = all(store)?;
    let now = SystemTime::now();
    let is_old = |facts: &Facts| {
        let began = humantime::parse_rfc3339_weak(&facts.started).ok();
        let age = began.and_then(|began| now.duration_since(began).ok());
        args.older_than.is_none_or(|limit| age.is_some_and(|age| age > limit))
    };
    // plumb judges no run that is being written or cannot be read.
    let mut runs: Vec<(&str, &Facts)> = stored::readable(&stored).collect();
    let mut kept: Vec<(&Facts, usize)> = Vec::new();
    runs.reverse();
    runs.retain(|(_, facts)| {
        let is_like =
            |other: &Facts| other.is_alike(facts) && other.is_crosscheck() == facts.is_crosscheck();
        let known = kept.iter().position(|(other, _)| is_like(other));
        let at = known.unwrap_or(kept.len());
        if known.is_none() {
            kept.push((*facts, 0));
        }
        kept[at].1 += 1;
        kept[at].1 > args.keep.unwrap_or(0) && is_old(facts)
    });
    // A run that was killed before it wrote anything left nothing to keep.
    let empty = stored
        .iter()
        .filter(|run| run.size_bytes == 0 && matches!(run.state, State::Unreadable(_)));
    let oldest_first = runs.iter().rev().map(|(name, _)| *name);
    let names = empty.map(|run| run.name.as_str()).chain(oldest_first);
    delete(store, &names.map(str::to_owned).collect::<Vec<_>>(), args.dry_run)
}

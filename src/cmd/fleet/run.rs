//! `plumb fleet run`: one of the N copies of which a sweep consists.

use super::directory::list;
use super::sweep::SweepArgs;
use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, output, time, usage};
use anyhow::Context;
use fleet::file::Writer;
use fleet::node::{Options, Start, run as measure};
use fleet::place::{Given, place};
use fleet::secret::secret;
use record::order::Gather;
use session::store::{Store, journal};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Measures this node as one of a sweep, and writes its file
///
/// An engine starts one copy on each node, with the same options: Slurm, Kubernetes, a launcher of MPI,
/// pdsh, or a loop over ssh. Rank, size and hosts come from the engine's environment or from options.
/// All nodes measure at the same time, first alone and then in pairs, in slots that begin at times
/// known to all. No node waits for another one longer than a part of a slot, and no process collects
/// results.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  srun plumb fleet run --key-file sweep.key --start-in 30s --out out/%h.jsonl
  mpirun -np 16 plumb fleet run --hosts hosts --key-file sweep.key --out out/%h.jsonl
  pdsh -w ^hosts plumb fleet run --hosts hosts --key-file sweep.key --out out/%h.jsonl
  plumb fleet report out

`plumb agent --new-key FILE` makes the key. Other engines: docs/FLEET.md. Nodes listen at the port 7412 and \
the three after it, or at the port that the list of hosts gives.")]
pub struct Args {
    /// File to write, - for the standard output; in its name %h is the host and %r the rank
    #[arg(long, value_name = "FILE", required_unless_present = "into")]
    out: Option<String>,
    /// Directory of a sweep's files to add those of a step of suspects to
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    into: Option<PathBuf>,
    /// Mark this run as a step of `plumb fleet suspects`; --into implies it
    #[arg(long)]
    again: bool,
    /// When measuring begins: a time in UTC, for example 2026-11-30T08:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = start_at)]
    start_at: Option<f64>,
    /// The same as a time from now, where the engine starts all nodes within a quarter of a slot
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "30s", conflicts_with = "start_at")]
    start_in: Duration,
    /// List of the hosts, a line each, with labels as in `n[1-4] rack=r1` [default: from the engine]
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Rank of this node, from 0 [default: its place in the list, or from the engine]
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Number of nodes [default: from the engine]
    #[arg(long, value_name = "N")]
    size: Option<u32>,
    /// Headless Service of a Kubernetes Indexed Job
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Name of this node in the list [default: as the engine calls it, or the host name]
    #[arg(long)]
    name: Option<String>,
    /// What the site says of this node, for example rack=r1; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// File with the secret of the sweep [default: the environment variable PLUMB_FLEET_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Directory for the files that experiments write and remove [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    #[command(flatten)]
    sweep: SweepArgs,
}

fn label(text: &str) -> Result<(String, String), String> {
    fleet::hosts::label(text).map_err(|error| error.to_string())
}

fn start_at(text: &str) -> Result<f64, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(seconds.into());
    }
    let time = humantime::parse_rfc3339_weak(text);
    let since = time.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let seconds = since.map(|since| since.as_secs_f64());
    seconds.ok_or_else(|| {
        "type a time in UTC such as 2026-11-30T08:00:00Z, or seconds since 1970".to_owned()
    })
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let mut environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .gather();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    environment.insert("HOSTNAME".to_owned(), kernel.trim().to_owned());
    let given = Given {
        rank: args.rank,
        size: args.size,
        service: args.service,
        list: args.hosts.as_deref().map(list).transpose()?,
        name: args.name,
    };
    let place = place(&environment, &given).map_err(usage)?;
    let recipe = args.sweep.recipe()?;
    let key = secret(args.key_file.as_deref()).map_err(usage)?;
    let writer = match (&args.into, &args.out) {
        (Some(dir), _) => Writer::into_directory(dir, place.host()),
        (None, out) => Writer::create(out.as_deref().unwrap_or("-"), place.host(), place.rank),
    };
    let writer = writer.map_err(usage)?;
    let prefix = format!("plumb fleet run, {}", place.host());
    let say = |line: &str| output::diagnose(&format!("{prefix}: {line}"));
    journal::recover(&Store::here(), &stop).iter().for_each(|note| say(note));
    let options = Options {
        place,
        recipe,
        key,
        start: args.start_at.map_or(Start::In(args.start_in.as_secs_f64()), Start::At),
        again: args.again || args.into.is_some(),
        labels: args.labels.into_iter().gather(),
        dir: args.dir,
        cpus: args.cpu,
        plumb: std::env::current_exe().context("cannot find this binary")?,
    };
    match measure(&options, writer, &say, &stop)? {
        true => Ok(()),
        false => {
            Err(Failure::Interrupted("interrupted; the file has what was measured".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::start_at;

    #[test]
    fn a_start_is_a_time_or_seconds() {
        assert_eq!(start_at("1970-01-01T00:01:00Z"), Ok(60.0));
        assert_eq!(start_at("1700000000"), Ok(1.7e9));
        for bad in ["soon", "08:00", "-5", ""] {
            assert!(start_at(bad).is_err(), "{bad}");
        }
    }
}

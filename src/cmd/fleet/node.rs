//! `plumb fleet node`: one of the N copies of which a sweep consists.

use crate::cmd::fleet::sweep::SweepArgs;
use crate::cmd::run::stop_flag;
use crate::cmd::{Failure, output, time, usage};
use anyhow::{Context, Result, ensure};
use catalogue::FAMILIES;
use fleet::book::Book;
use fleet::drawn::Drawn;
use fleet::engine;
use fleet::place::Place;
use fleet::secret::secret;
use fleet::serve::{self, Ended, Lead, Options};
use record::order::Gather;
use session::agent::key::Key;
use session::child::STOPPING;
use session::store::{Store, journal};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Takes part in a sweep as one of its nodes
#[derive(clap::Args)]
#[command(after_help = "\
An engine starts N copies. Slurm, Kubernetes and launchers of MPI set rank, size and meeting point; options come \
first. By hand, with one key file on all hosts (`plumb agent --new-key FILE` makes it):
  plumb fleet node --rank 0 --size 3 --meet node0:7412 --key-file sweep.key --out sweep.jsonl
  plumb fleet node --rank 1 --size 3 --meet node0:7412 --key-file sweep.key
Rank 0 listens at the meeting point, decides what is measured (its options count) and writes the record of the \
sweep. Other nodes keep their own records below --records. Messages are encrypted and authenticated with the key.")]
pub struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    /// The record of the sweep, at rank 0 [default: a new file in this directory]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sweep: SweepArgs,
}

/// The place of a node, and what it measures with.
#[derive(clap::Args)]
pub struct PlaceArgs {
    /// Rank of this node, from 0 [default: from the engine's environment]
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Number of nodes [default: from the engine's environment]
    #[arg(long, value_name = "N")]
    size: Option<u32>,
    /// Where rank 0 listens [default: from the engine's environment]
    #[arg(long, value_name = "HOST:PORT")]
    meet: Option<String>,
    /// Name of this node [default: as the engine calls it, or the host name]
    #[arg(long)]
    name: Option<String>,
    /// What the site says of this node, for example rack=r1; may be repeated. Nodes with the same
    /// `host` are not paired
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// File with the secret of the sweep [default: the environment variable PLUMB_FLEET_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Address at which the other nodes reach this one [default: the one toward rank 0]
    #[arg(long, value_name = "ADDR")]
    address: Option<IpAddr>,
    /// Directory for the records of the nodes, in a directory of the sweep
    #[arg(long, value_name = "DIR", default_value = ".")]
    records: PathBuf,
    /// Directory for the files that experiments write and remove [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    cpu: Option<String>,
    /// Try to reach rank 0 for this time, also after it is gone
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "2m")]
    patience: Duration,
    /// What starts the node
    #[arg(long, value_name = "NAME", hide = true)]
    starter: Option<String>,
    /// The secret is the first line of the standard input, whose end ends the node
    #[arg(long, hide = true, conflicts_with = "key_file")]
    carried: bool,
    /// Draw figures as this file says, instead of measuring: tries the sweep itself
    #[arg(long, value_name = "FILE", hide = true)]
    figures: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    engine::label(text).map_err(|error| error.to_string())
}

pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let options = args.place.options(None)?;
    if options.place.rank != 0 {
        return branch(&options, &stop);
    }
    let simulated = options.drawn.is_some();
    let recipe = args.sweep.recipe(options.place.size, &options.place.starter, simulated)?;
    let out = args.out.unwrap_or_else(|| format!("plumb-fleet-{}.jsonl", recipe.header.id).into());
    let book = match out.as_os_str() == "-" {
        true => Book::to_output(&options.records),
        false => Book::create(&out),
    };
    lead(&options, Lead { recipe, book: book.map_err(usage)?, earlier: None }, &stop)
}

/// Leads a sweep to its end, and says how to go on with one that was interrupted.
pub fn lead(options: &Options, lead: Lead, stop: &AtomicBool) -> Result<(), Failure> {
    clean_up(options, stop);
    let record = lead.book.path().to_owned();
    match serve::lead(options, lead, &say(options), stop)? {
        Ended::Interrupted => Err(Failure::Interrupted(format!(
            "the sweep was interrupted; its record has what was measured. Go on with: {}",
            resume_command(options, &record)
        ))),
        Ended::Over | Ended::Sent(_) => Ok(()),
    }
}

/// What a user types at rank 0 to go on with a sweep; the other nodes are started as before.
fn resume_command(options: &Options, record: &Path) -> String {
    format!(
        "plumb fleet resume {} --rank 0 --size {} --meet {} (and start the other nodes as before)",
        record.display(),
        options.place.size,
        options.place.meet
    )
}

/// Undoes what a killed node left here.
fn clean_up(options: &Options, stop: &AtomicBool) {
    journal::recover(&Store::here(), stop).iter().for_each(|note| say(options)(note));
}

fn branch(options: &Options, stop: &AtomicBool) -> Result<(), Failure> {
    clean_up(options, stop);
    match serve::node(options, &say(options), stop)? {
        Ended::Over => Ok(()),
        Ended::Sent(why) => Err(anyhow::anyhow!("{why}").into()),
        Ended::Interrupted => {
            Err(Failure::Interrupted("interrupted; the sweep goes on without this node".to_owned()))
        }
    }
}

fn say(options: &Options) -> impl Fn(&str) + use<> {
    let rank = options.place.rank;
    move |line: &str| output::diagnose(&format!("plumb fleet node {rank}: {line}"))
}

impl PlaceArgs {
    /// All that a node is started with; `size` is that of a sweep that goes on.
    pub fn options(&self, size: Option<u32>) -> Result<Options, Failure> {
        let place = self.place(size).map_err(usage)?;
        let key = match self.carried {
            true => carried(),
            false => secret(self.key_file.as_deref()),
        };
        let address = OnceLock::new();
        if let Some(given) = self.address {
            let _ = address.set(given);
        }
        Ok(Options {
            place,
            key: key.map_err(usage)?,
            address,
            records: self.records.clone(),
            dir: self.dir.clone(),
            cpus: self.cpu.clone(),
            drawn: self.figures.as_deref().map(Drawn::read).transpose().map_err(usage)?,
            patience: self.patience,
            plumb: std::env::current_exe().context("cannot find this binary")?,
            catalogue: FAMILIES,
        })
    }

    /// The engine's place, with what the options say.
    fn place(&self, size: Option<u32>) -> Result<Place> {
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .gather();
        let is_whole = self.rank.is_some() && self.meet.is_some();
        let found = if is_whole { None } else { engine::place(&environment)? };
        let is_engines = found.is_some();
        let mut place = found.unwrap_or_default();
        ensure!(
            is_engines || self.rank.is_some(),
            "no engine started this node: type its --rank, --size and --meet, or start it by srun, \
             a Kubernetes Job or mpirun"
        );
        place.rank = self.rank.unwrap_or(place.rank);
        place.size = self.size.or(size).unwrap_or(place.size);
        if let Some(meet) = &self.meet {
            place.meet.clone_from(meet);
        }
        if !is_engines {
            place.starter = "options".to_owned();
        }
        if let Some(starter) = &self.starter {
            place.starter.clone_from(starter);
        }
        place.name = self.name.clone().or(place.name);
        place.labels.extend(self.labels.iter().cloned());
        place.check()?;
        Ok(place)
    }
}

/// Longest first line of the standard input, in bytes.
const LINE_BYTES_MAX: usize = 256;

/// The secret that comes over the standard input. From then on its end ends the node, as a signal
/// does. Errors: it is no secret.
fn carried() -> Result<Key> {
    let mut line = Vec::new();
    let mut input = std::io::stdin();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX && input.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line);
    let key = Key::parse(text.trim()).context("the standard input has no secret")?;
    let main = std::process::id();
    std::thread::spawn(move || {
        // The thread that waits takes the signals.
        if metal::signal::block(&STOPPING).is_err() {
            return;
        }
        let mut rest = [0; LINE_BYTES_MAX];
        // What else arrives is not for the node.
        while std::io::stdin().read(&mut rest).is_ok_and(|read| read > 0) {}
        let _ = metal::process::kill(main, signal_hook::consts::SIGTERM);
    });
    Ok(key)
}

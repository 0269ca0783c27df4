//! What `run` and `plan` share: from arguments to a plan.

use crate::cmd::Failure;
use bench::experiment::Preset;
use catalogue::FAMILIES;
use host::{Host, Outside, Root};
use record::event::{Options, PeerHeader};
use session::agent::client::Remote;
use session::agent::key::Key;
use session::agent::message::Open;
use session::agent::url::{PeerUrl, Way};
use session::params::Settings;
use session::plan::{self, Planned};
use session::select::Selection;
use session::site::{self, Files};
use session::{FarHost, Setup, plan::default_budget};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to measure, and how long.
#[derive(clap::Args, Clone)]
pub struct Choice {
    /// What to measure: family, id, id:param=v1,v2|lo..hi, glob, !negation; all by default
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<String>,
    /// How much: about 1, 6 or 60 minutes on two CPUs
    #[arg(long, value_enum, default_value_t = PresetName::Standard)]
    pub preset: PresetName,
    /// Measuring time at most, for example 90s or 10m [default: the preset's]
    #[arg(long, value_name = "DURATION", value_parser = budget)]
    pub budget: Option<Duration>,
    /// Goal for the half width of the intervals, in percent of the figure
    #[arg(long, value_name = "PCT", default_value = "2", value_parser = percent)]
    pub precision: f64,
    /// Seed of every random order [default: from the clock]
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
    /// A parameter (ID.PARAM=V1,V2 or lo..hi) or a fact as a data sheet gives it (host.FACT=VALUE)
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// CPUs to measure on, for example 1 or 2-5 [default: the quietest first]
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Directory where experiments may write files (default: the current one, of which a run then
    /// fills at most 2 GiB and 5 % of the free space)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A far end on another host for the network's experiments: ssh://[USER@]HOST[:PORT], tcp://HOST:PORT
    /// (an agent that listens, with --key-file), exec:COMMAND (which starts `plumb agent` elsewhere); several have
    /// names
    #[arg(long, value_name = "[NAME=]URL")]
    pub peer: Vec<String>,
    /// File with the key that is shared with agents that listen (`plumb agent --new-key FILE`)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Plan for a recorded machine (a directory with proc/ and sys/, or tree.txt) instead of this one
    #[arg(long, value_name = "DIR", hide = true)]
    pub host_tree: Option<PathBuf>,
}

/// A plan holds the agents for no longer.
const PLANNING: Duration = Duration::from_secs(10);

/// The presets on the command line.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetName {
    /// One round of the least: proves the way, its figures mean nothing
    #[value(hide = true)]
    Rehearsal,
    /// About a minute
    Quick,
    /// About six minutes
    Standard,
    /// About an hour: everything listed
    Thorough,
}

impl From<PresetName> for Preset {
    fn from(name: PresetName) -> Self {
        match name {
            PresetName::Rehearsal => Preset::Rehearsal,
            PresetName::Quick => Preset::Quick,
            PresetName::Standard => Preset::Standard,
            PresetName::Thorough => Preset::Thorough,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if (0.01..=100.0).contains(&value) => Ok(value),
        _ => Err("type a percentage from 0.01 to 100, for example 2".to_owned()),
    }
}

/// Longest budget: what is longer was not meant.
const BUDGET_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

fn budget(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(budget) if budget > Duration::ZERO && budget <= BUDGET_MAX => Ok(budget),
        Ok(_) => Err("type a duration above 0s and up to 30days, for example 10m".to_owned()),
        Err(error) => Err(format!("{error}: type a duration, for example 90s or 10m")),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "type a whole number from 0 to 18446744073709551615".to_owned())
}

impl Choice {
    /// As it stands in the record.
    fn options(&self) -> Options {
        let preset = Preset::from(self.preset);
        Options {
            selectors: self.selectors.clone(),
            preset: preset.name().to_owned(),
            budget_s: self.budget.unwrap_or(default_budget(preset)).as_secs_f64(),
            precision: self.precision / 100.0,
            set: self.set.clone(),
            cpus: self.cpu.clone(),
            peers: self.peer.clone(),
            key_file: self.key_file.as_deref().map(absolute),
            dir: self.dir.as_deref().map(absolute),
        }
    }

    /// The choice that a record was made with.
    pub fn of(options: &Options, seed: u64) -> Result<Self, Failure> {
        let preset =
            <PresetName as clap::ValueEnum>::from_str(&options.preset, false).map_err(|_| {
                Failure::Usage(format!(
                    "the record's preset `{}` is unknown to this plumb",
                    options.preset
                ))
            })?;
        let budget = Duration::try_from_secs_f64(options.budget_s)
            .ok()
            .filter(|budget| *budget <= BUDGET_MAX)
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "the record's budget of {} s is none; it is damaged: start a new `plumb run`",
                    options.budget_s
                ))
            })?;
        Ok(Choice {
            selectors: options.selectors.clone(),
            preset,
            budget: Some(budget),
            precision: options.precision * 100.0,
            seed: Some(seed),
            set: options.set.clone(),
            cpu: options.cpus.clone(),
            peer: options.peers.clone(),
            key_file: options.key_file.as_ref().map(PathBuf::from),
            dir: options.dir.as_ref().map(PathBuf::from),
            host_tree: None,
        })
    }

    /// Resolves the choice against the machine and the far ends, until `stop` is set. `name` is that of a
    /// run that is to be made, `then` its far ends when it began, where it goes on.
    pub fn setup(
        &self,
        name: Option<String>,
        then: &[PeerHeader],
        stop: &AtomicBool,
    ) -> Result<Setup, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let preset = Preset::from(self.preset);
        let peers = PeerUrl::parse_all(&self.peer).map_err(|e| usage(&e))?;
        let selection = Selection::parse(&self.selectors, FAMILIES).map_err(|e| usage(&e))?;
        let settings = Settings::parse(&self.set, FAMILIES).map_err(|e| usage(&e))?;
        let root = root(self.host_tree.as_deref())?;
        let mut host = Host::read(&root);
        for (fact, value) in &settings.facts {
            host.given.set(fact, value).map_err(|e| usage(&e))?;
        }
        let mut site = site::site(
            host,
            &root,
            self.cpu.as_deref(),
            match (&self.dir, &self.host_tree) {
                (Some(dir), _) => Files::Named(dir),
                (None, None) => Files::Here,
                (None, Some(_)) => Files::Nowhere,
            },
            preset,
            stop,
        )
        .map_err(|e| usage(&e))?;
        let options = self.options();
        let budget = Duration::from_secs_f64(options.budget_s);
        // Until when others are told that the agents are busy.
        let takes = name.as_ref().map_or(PLANNING, |_| budget);
        let here = &site.host.identity.hash;
        let remotes = self.connect(peers, here, takes, then, stop)?;
        site.peers = remotes.iter().map(Remote::peer).collect();
        let planned: Planned = plan::plan(FAMILIES, &selection, &settings, preset, budget, &site)
            .map_err(|e| usage(&e))?;
        Ok(Setup {
            build: super::BUILD,
            site,
            planned,
            options,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            name: name.unwrap_or_default(),
            budget,
            calibration: calibration(preset),
            remotes: remotes
                .into_iter()
                .map(|remote| (remote.name().to_owned(), Box::new(remote) as Box<dyn FarHost>))
                .collect(),
            elsewhere: Default::default(),
        })
    }

    /// Reaches the far ends from this host (`here`, its identity); those of a run that goes on must be the same machines.
    fn connect(
        &self,
        peers: Vec<PeerUrl>,
        here: &str,
        takes: Duration,
        then: &[PeerHeader],
        stop: &AtomicBool,
    ) -> Result<Vec<Remote>, Failure> {
        if !peers.is_empty() && self.host_tree.is_some() {
            return Err(Failure::Usage(
                "a recorded machine reaches no far end: leave --peer out".to_owned(),
            ));
        }
        let listens = |peer: &&PeerUrl| matches!(peer.way, Way::Tcp { .. });
        if let Some(peer) = peers.iter().find(listens).filter(|_| self.key_file.is_none()) {
            return Err(Failure::Usage(format!(
                "--peer {}: an agent that listens has a key: give its file with --key-file (`plumb agent \
                 --new-key FILE` makes one for both hosts)",
                peer.text
            )));
        }
        let key = match &self.key_file {
            Some(file) => Some(Key::read(file).map_err(|e| Failure::Usage(format!("{e:#}")))?),
            None => None,
        };
        let (windows, window) = calibration(Preset::from(self.preset));
        let mut remotes = Vec::new();
        for peer in peers {
            let then = then.iter().find(|then| then.name == peer.name);
            let open = Open {
                plumb: env!("CARGO_PKG_VERSION").to_owned(),
                format: record::FORMAT,
                host_name: host_name(),
                expected_s: takes.as_secs_f64(),
                windows,
                window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
                near_address: None,
                cpus: then.map(|then| then.cpus.clone()),
            };
            let remote = Remote::connect(peer, key.clone(), open, here, stop)?;
            let now = remote.header();
            if let Some(then) = then.filter(|then| then.identity != now.identity) {
                return Err(Failure::Usage(format!(
                    "the far end {} was another machine (identity {}, now {}); start a new `plumb run`",
                    now.name, then.identity, now.identity
                )));
            }
            remotes.push(remote);
        }
        Ok(remotes)
    }
}

/// Name of this host; empty where the kernel does not tell.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// As it stands in the record: absolute, so that a resume from another directory finds it.
fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}

/// Windows of the counter's calibration: at least ten; their length sets its error.
pub(super) fn calibration(preset: Preset) -> (u32, Duration) {
    match preset {
        Preset::Rehearsal => (10, Duration::from_millis(1)),
        Preset::Quick => (10, Duration::from_millis(20)),
        Preset::Standard | Preset::Thorough => (10, Duration::from_millis(50)),
    }
}

/// This machine, or a recorded one.
pub fn root(tree: Option<&Path>) -> Result<Root, Failure> {
    match tree {
        None => Ok(Root::live(Outside::live())),
        Some(dir) => Root::at(dir).map_err(|error| Failure::Usage(format!("{error:#}"))),
    }
}

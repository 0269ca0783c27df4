//! What sets a session up: from what was asked for, or from a record that goes on, to a [`Setup`]
//! with its far ends and directories.

use crate::agent::Reach;
use crate::agent::client::Remote;
use crate::agent::key::Key;
use crate::agent::message::Open;
use crate::agent::url::{PeerUrl, Transport};
use crate::header::Build;
use crate::machine::Machine;
use crate::params::Settings;
use crate::plan::{Planned, plan};
use crate::select::Selection;
use crate::site::{Files, site};
use crate::store::Store;
use crate::store::journal::WorkDir;
use anyhow::{Error, Result, bail, ensure};
use bench::experiment::{Catalogue, FAR, Preset, Site};
use host::{Host, Outside, Root};
use record::FORMAT;
use record::case::{Case, Series};
use record::estimate::Estimate;
use record::event::{Options, PeerHeader, REPORTS};
use record::order::Gather;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// What was asked for cannot be meant, with what to type instead.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub fn usage(error: impl Into<Error>) -> Error {
    Usage(format!("{:#}", error.into())).into()
}

/// A plan holds the agents for no longer.
const PLANNING: Duration = Duration::from_secs(10);
/// Longest budget: what is longer was not meant.
pub const BUDGET_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

pub struct Setup {
    pub build: Build,
    pub site: Site,
    pub planned: Planned,
    pub options: Options,
    /// The author's estimates of key figures.
    pub estimates: Vec<Estimate>,
    /// Seed of every random order.
    pub seed: u64,
    pub name: String,
    pub budget: Duration,
    /// Calibration windows and their length.
    pub calibration: (u32, Duration),
    /// Where workers are started at the far ends on other hosts, by the peer's name; each answers
    /// for one of the site's peers.
    pub remotes: BTreeMap<String, Remote>,
    /// Work directories beside the site's, by the directory that they are in
    /// ([`bench::experiment::AnyExperiment::files_below`]); why one could not be made.
    pub elsewhere: BTreeMap<PathBuf, Result<PathBuf, String>>,
    /// Its place among the plumbs of the machine; none for what measures nothing that counts.
    pub machine: Option<Machine>,
}

/// What a session is made from, as the record keeps it, and what it does not keep.
pub struct Wanted<'a> {
    pub build: Build,
    pub catalogue: Catalogue,
    pub options: Options,
    /// The directory for files of the options, as it was typed.
    pub dir: Option<&'a Path>,
    /// Seed of every random order; none for one from the clock.
    pub seed: Option<u64>,
    /// Name of a run that is to be made; none for a plan.
    pub name: Option<String>,
    /// The far ends of a run that goes on when it began: they must be the same machines.
    pub then: &'a [PeerHeader],
    /// A recorded machine that is planned for instead of this one.
    pub host_tree: Option<&'a Path>,
    /// The place among the plumbs of the machine, which a rehearsal gives back.
    pub machine: Option<Machine>,
}

/// This machine, or a recorded one. Errors: [`Usage`]: nothing is recorded there.
pub fn root(tree: Option<&Path>) -> Result<Root> {
    match tree {
        None => Ok(Root::live(Outside::live())),
        Some(dir) => Root::recorded(dir).map_err(usage),
    }
}

/// The site on this machine, with some of its CPUs and a directory for files, where they were
/// named. Errors: [`Usage`]: CPUs or a directory that cannot be used.
pub fn site_here(
    cpus: Option<&str>,
    dir: Option<&Path>,
    preset: Preset,
    stop: &AtomicBool,
) -> Result<Site> {
    let root = root(None)?;
    let files = dir.map_or(Files::Here, Files::Named);
    Ok(site(Host::read(&root), &root, cpus, files, preset, stop)?)
}

/// The oldest kernel that has the calls that plumb measures with.
const KERNEL_MIN: (u64, u64) = (4, 18);

impl Setup {
    /// The site of a case: with its far end, where it has one.
    pub fn site_for(&self, case: &Case) -> Cow<'_, Site> {
        let far = case.id.text(FAR).filter(|far| *far != self.site.far());
        far.map_or(Cow::Borrowed(&self.site), |far| Cow::Owned(self.site.toward(far)))
    }

    /// The site of a series, whose cases have one far end.
    pub fn site_of(&self, series: &Series) -> Cow<'_, Site> {
        match series.cases.first() {
            Some(case) => self.site_for(case),
            None => Cow::Borrowed(&self.site),
        }
    }

    /// Resolves what was asked for against the machine and the far ends, until `stop` is set.
    /// Errors: [`Usage`]; a far end that cannot be reached.
    pub fn new(wanted: Wanted<'_>, stop: &AtomicBool) -> Result<Setup> {
        let Wanted { build, catalogue, options, dir, seed, name, then, host_tree, machine } =
            wanted;
        let preset = preset_of(&options)?;
        let machine = machine.filter(|_| preset != Preset::Rehearsal);
        let peers = PeerUrl::parse_all(&options.peers)?;
        let selection = Selection::parse(&options.selectors, catalogue)?;
        let settings = Settings::parse(&options.set, catalogue)?;
        let root = root(host_tree)?;
        let mut host = Host::read(&root);
        let old = host.kernel.numbers().filter(|numbers| *numbers < KERNEL_MIN);
        ensure!(
            old.is_none(),
            Usage(format!(
                "this is Linux {}{}; plumb measures Linux 4.18 and newer",
                host.kernel.release.as_deref().unwrap_or_default(),
                host.kernel
                    .container
                    .runtime
                    .iter()
                    .map(|name| format!(" ({name})"))
                    .collect::<String>()
            ))
        );
        for (fact, value) in &settings.facts {
            host.given.set(fact, value).map_err(|error| Usage(error.to_string()))?;
        }
        let files = match (dir, host_tree) {
            (Some(dir), _) => Files::Named(dir),
            (None, None) => Files::Here,
            (None, Some(_)) => Files::Nowhere,
        };
        let cpus = options.cpus.as_deref();
        let mut site = site(host, &root, cpus, files, preset, stop)?;
        ensure!(
            !site.cpus.is_empty(),
            Usage(
                "no CPU is both online and allowed to this process: see its affinity and cpuset \
                 (`taskset -pc $$`)"
                    .to_owned()
            )
        );
        let budget = budget_of(&options)?;
        ensure!(
            peers.is_empty() || host_tree.is_none(),
            Usage("--peer does not work with a recorded machine: omit it".to_owned())
        );
        // The time until which other clients see the agents as busy.
        let takes = name.as_ref().map_or(PLANNING, |_| budget);
        let here = &site.host.identity.hash;
        let remotes =
            connect(&options, peers, preset, (here, takes, then), machine.as_ref(), stop)?;
        let apart = |remote: &Remote| remote.peer().apart(&site.host, &site.cpus);
        site.peers = remotes.iter().map(apart).collect();
        let planned = plan(catalogue, &selection, &settings, preset, budget, &site)?;
        let remotes = remotes.into_iter().map(|remote| (remote.name().to_owned(), remote));
        Ok(Setup {
            planned,
            seed: seed.unwrap_or_else(|| fastrand::u64(..)),
            budget,
            remotes: remotes.collect(),
            machine,
            ..Setup::alone(build, site, options, preset, name.unwrap_or_default())
        })
    }

    /// Of a session at a site that measures nothing itself: a crosscheck.
    pub fn alone(
        build: Build,
        site: Site,
        options: Options,
        preset: Preset,
        name: String,
    ) -> Setup {
        Setup {
            build,
            site,
            planned: Planned::nothing(preset),
            options,
            estimates: Vec::new(),
            seed: 0,
            name,
            budget: Duration::ZERO,
            calibration: calibration(preset),
            remotes: Default::default(),
            elsewhere: Default::default(),
            machine: None,
        }
    }

    /// Checks that the machine allows anything of what was selected; the reasons say what would
    /// help. Errors: it allows nothing, which is no error in what was typed.
    pub fn measures_something(&self) -> Result<()> {
        if !self.planned.work.is_empty() {
            return Ok(());
        }
        let mut reasons: Vec<String> = Vec::new();
        for (card, _, skip) in &self.planned.skipped {
            let needed = skip.needed.as_ref().map(|needed| format!("; {needed}"));
            let reason = format!("{}: {}{}", card.id, skip.reason, needed.unwrap_or_default());
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons.truncate(3);
        bail!("nothing selected can be measured here: {}", reasons.join("; "))
    }

    /// Makes the run's own directory below the one of `--dir`, and those that series have
    /// elsewhere; experiments write nowhere else. Errors: the run's own directory cannot be made.
    pub fn make_dirs(&mut self, store: &Store, stop: &AtomicBool) -> Result<Vec<WorkDir>> {
        let mut made = Vec::new();
        let works = self.planned.work.iter();
        let groups: BTreeSet<PathBuf> =
            works.filter_map(|work| work.experiment.group_below(&self.site, &work.series)).gather();
        let groups: Vec<PathBuf> = groups.into_iter().collect();
        if let Some(dir) = &mut self.site.dir {
            let work = WorkDir::make(store, &dir.path, &self.name, &groups, stop)?;
            dir.path = work.path().to_owned();
            made.push(work);
        }
        for work in &self.planned.work {
            let Some(below) = work.experiment.files_below(&work.series) else { continue };
            if self.elsewhere.contains_key(&below) {
                continue;
            }
            let name = format!("{}-{}", self.name, self.elsewhere.len() + 1);
            let dir = WorkDir::make(store, &below, &name, &[], stop).map(|work| {
                let path = work.path().to_owned();
                made.push(work);
                path
            });
            let made = dir.map_err(|error| format!("{error:#}"));
            self.elsewhere.insert(below, made);
        }
        Ok(made)
    }
}

fn preset_of(options: &Options) -> Result<Preset> {
    let all = [Preset::Rehearsal, Preset::Quick, Preset::Standard, Preset::Thorough];
    let named = all.into_iter().map(|preset| (preset.name(), preset));
    let mut named = named.chain([(REPORTS, Preset::Thorough)]);
    let found = named.find(|(name, _)| *name == options.preset).map(|(_, preset)| preset);
    found.ok_or_else(|| {
        let preset = &options.preset;
        Usage(format!("the record's preset `{preset}` is unknown to this plumb")).into()
    })
}

fn budget_of(options: &Options) -> Result<Duration> {
    let budget = Duration::try_from_secs_f64(options.budget_s).ok();
    budget.filter(|budget| *budget <= BUDGET_MAX).ok_or_else(|| {
        Usage(format!(
            "the record's budget ({} s) is invalid; the file is damaged: start a new `plumb run`",
            options.budget_s
        ))
        .into()
    })
}

/// Reaches the far ends from this host (its identity), with the expected duration; those of a run
/// that goes on must be the same machines.
fn connect(
    options: &Options,
    peers: Vec<PeerUrl>,
    preset: Preset,
    (here, takes, then): (&str, Duration, &[PeerHeader]),
    machine: Option<&Machine>,
    stop: &AtomicBool,
) -> Result<Vec<Remote>> {
    let listens = |peer: &&PeerUrl| matches!(peer.transport, Transport::Tcp { .. });
    if let Some(peer) = peers.iter().find(listens).filter(|_| options.key_file.is_none()) {
        bail!(Usage(format!(
            "--peer {}: a listening agent needs a key: set --key-file FILE (`plumb agent --new-key \
             FILE` makes a key for both hosts)",
            peer.text
        )));
    }
    let key = options.key_file.as_ref().map(|file| Key::read(Path::new(file)).map_err(usage));
    let key = key.transpose()?;
    let (windows, window) = calibration(preset);
    let mut remotes = Vec::new();
    for peer in peers {
        let then = then.iter().find(|then| then.name == peer.name);
        let open = Open {
            session: fastrand::u64(..),
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            format: FORMAT,
            host_name: host_name(),
            expected_s: takes.as_secs_f64(),
            windows,
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            near_address: None,
            cpus: then.map(|then| then.cpus.clone()),
            token: machine.map(|machine| machine.token().to_owned()),
        };
        let reach = Reach { url: peer, key: key.clone(), open, here: here.to_owned() };
        let remote = Remote::connect(reach, stop)?;
        let now = remote.header();
        if let Some(why) = then.and_then(|then| then.machine().difference(&now.machine())) {
            bail!(Usage(format!(
                "the far end {} was another machine ({why} now); start a new `plumb run`",
                now.name
            )));
        }
        remotes.push(remote);
    }
    Ok(remotes)
}

/// Time and host: names sort by time.
pub fn run_name() -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = time.trim_end_matches('Z').replace(':', "-");
    let host: String = host_name()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    format!("{time}-{}", if host.is_empty() { "host" } else { &host })
}

/// Name of this host; empty if the kernel does not report it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Windows of the counter's calibration: at least ten; their length sets its error.
fn calibration(preset: Preset) -> (u32, Duration) {
    match preset {
        Preset::Rehearsal => (10, Duration::from_millis(1)),
        Preset::Quick => (10, Duration::from_millis(20)),
        Preset::Standard | Preset::Thorough => (10, Duration::from_millis(50)),
    }
}

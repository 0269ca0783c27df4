//! `plumb watch`: this machine over time, within a share of CPU time.

mod args;
mod child;
mod state;
mod voice;

use crate::cmd::choice::PresetName;
use crate::cmd::plan::busy_cpus;
use crate::cmd::run::stop_flag;
use crate::cmd::trend::{Known, Wanted};
use crate::cmd::{BUILD, Failure, output, stored, trend, usage};
use analysis::trend::{Chance, trends_by};
use anyhow::Context as _;
pub use args::Args;
use metal::process::{rusage_children, rusage_self};
use record::machine::MachineIdentity;
use report::openmetrics::watch::{self as textfile, PartState, Reading, Watched};
use session::child::STOPPING;
use session::machine::{Machine, UNSEEN};
use session::setup::{Setup, run_name};
use session::store::summary::{Facts, State as Recorded};
use session::store::{self, Store};
use session::watch::{Ended, Part, Rotation, Turn};
use state::{Clock, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use voice::Voice;

/// Runs the watch until a signal ends it.
pub fn run(args: Args) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let mut watch = Watch::start(args, stop)?;
    loop {
        let began = Instant::now();
        watch.tick()?;
        let is_last = watch.args.once || watch.is_stopped();
        if is_last || !watch.sleeps(watch.args.every.saturating_sub(began.elapsed())) {
            return Ok(());
        }
    }
}

struct Watch {
    args: Args,
    stop: Arc<AtomicBool>,
    store: Store,
    /// Absent where the machine's lock cannot be used.
    machine: Option<Machine>,
    /// This machine.
    here: MachineIdentity,
    rotation: Rotation,
    state: State,
    clock: Clock,
    voice: Voice,
    /// What chance does to so many runs, which takes long to find out.
    chance: Chance,
    /// CPU time of this process and its children that has been charged, in seconds.
    charged_s: f64,
}

impl Watch {
    /// Plans the rotation and takes up what an earlier start left.
    fn start(args: Args, stop: Arc<AtomicBool>) -> Result<Watch, Failure> {
        if args.preset == PresetName::Reports {
            return Err(Failure::usage(
                "the published reports are not watched: type --preset quick, standard or thorough",
            ));
        }
        if let Some(file) = &args.textfile {
            store::file::check_writable(file).context("--textfile").map_err(usage)?;
        }
        let voice = Voice::new(args.quiet);
        let machine = machine(&voice)?;
        let store = Store::here().of_watch();
        store.make().map_err(usage)?;
        let clock = Clock::start();
        let state = State::load(&store, clock.now_s(), &voice)?;
        let selectors = args.selectors();
        let setup = args.choice().setup(None, None, &stop)?;
        setup.measures_something()?;
        let rotation = Rotation {
            parts: parts(&setup, &selectors),
            share: args.share,
            every_s: args.every.as_secs_f64(),
        };
        let here = setup.site.host.machine();
        let (chance, charged_s) = (Chance::default(), 0.0);
        let watch = Watch {
            args,
            stop,
            store,
            machine,
            here,
            rotation,
            state,
            clock,
            voice,
            chance,
            charged_s,
        };
        watch.introduce()?;
        Ok(watch)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits; whether no signal came.
    fn sleeps(&self, time: Duration) -> bool {
        let waited = metal::wait::any_unless(&[], Some(time), &STOPPING, || self.is_stopped());
        waited.is_ok() && !self.is_stopped()
    }

    /// CPU time of this process and its children since the last call, in seconds.
    fn spent_s(&mut self) -> f64 {
        let used =
            [rusage_self(), rusage_children()].into_iter().map(|of| of.utime_ns + of.stime_ns);
        let used_s = used.sum::<u64>() as f64 * 1e-9;
        let spent = used_s - self.charged_s;
        self.charged_s = used_s;
        spent
    }

    /// What is watched, how often, and what does not fit.
    fn introduce(&self) -> Result<(), Failure> {
        let (rotation, kept) = (&self.rotation, &self.state.kept);
        let (fitting, others): (Vec<&Part>, Vec<&Part>) =
            rotation.parts.iter().partition(|part| rotation.fits(kept, part));
        if !self.args.once || kept.parts.is_empty() {
            self.voice.says(&voice::plan(rotation, kept, fitting.len()));
        }
        for part in &others {
            self.voice.says(&voice::too_large(rotation, kept, part));
        }
        match fitting.is_empty() {
            true => Err(Failure::Usage(format!(
                "{} of one CPU suffices for none of {}; raise --share",
                voice::percent(rotation.share),
                report::counted(others.len(), "experiment")
            ))),
            false => Ok(()),
        }
    }

    /// Measures what has been saved for, searches for changes after a rotation, and writes.
    fn tick(&mut self) -> Result<(), Failure> {
        let others = self.machine.as_ref().map(Machine::others).unwrap_or_default();
        let turn = match others.is_empty() {
            true => self.measure_what_is_saved()?,
            false => {
                let others = others.join("; ");
                self.voice.says(&format!("nothing is measured beside {others}"));
                None
            }
        };
        if let Some(text) = turn.filter(|_| self.args.once) {
            self.voice.says(&text);
        }
        if self.state.kept.rotations > self.state.searched {
            self.search()?;
        }
        self.prune();
        if let Some(file) = self.args.textfile.clone() {
            let text = self.textfile()?;
            self.written(store::file::write_whole(&file, text.as_bytes()))?;
        }
        let spent = self.spent_s();
        self.state.kept.charge(spent);
        self.written(self.state.write(&self.store))
    }

    /// A file that cannot be written ends a single tick; a watch says so and tries again.
    fn written(&self, result: anyhow::Result<()>) -> Result<(), Failure> {
        match result {
            Err(error) if !self.args.once => {
                output::diagnose(&format!("plumb watch: {error:#}; the next tick tries again"));
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// Measures one part after the other; what is saved for if nothing was measured.
    fn measure_what_is_saved(&mut self) -> Result<Option<String>, Failure> {
        let (mut is_first, rotations) = (true, self.state.kept.rotations);
        let spent = self.spent_s();
        self.state.kept.charge(spent);
        // Once a tick, and after the charge: no more is saved than the next part needs.
        self.rotation.save(&mut self.state.kept, self.clock.now_s());
        loop {
            let part = match self.rotation.turn(&self.state.kept) {
                Turn::Measure(part) if self.goes_on(rotations) => part.clone(),
                Turn::Save(part, missing_s) if is_first => {
                    return Ok(Some(voice::saving(&self.rotation, part, missing_s)));
                }
                Turn::Measure(_) | Turn::Save(..) | Turn::Nothing => return Ok(None),
            };
            self.measure(&part)?;
            is_first = false;
        }
    }

    /// Whether a tick that began after so many rotations measures more: it ends with a rotation, so
    /// that every part has one new value before the next search.
    fn goes_on(&self, rotations: u64) -> bool {
        !self.is_stopped() && self.state.kept.rotations == rotations
    }

    /// One measurement of a part, as a run of its own.
    fn measure(&mut self, part: &Part) -> Result<(), Failure> {
        let name = self.name(part);
        let args = self.args.of_run(part, &self.store.path(&name));
        let (store, token) = (self.store.dir()?, self.machine.as_ref().map(Machine::token));
        let began = Instant::now();
        let saved_s = self.state.kept.saved_s;
        let (ended, said) = child::run(&args, &store, token, saved_s, &self.stop)?;
        let cpu_s = self.spent_s();
        if ended != Ended::Complete {
            // What it measured is not comparable with whole measurements.
            let _ = self.store.remove(&name);
        }
        let kept = &mut self.state.kept;
        self.rotation.measured(kept, part, ended, cpu_s, (&name, now_s()));
        let text = voice::measured(part, ended, (began.elapsed(), cpu_s), &said);
        self.voice.says(&text);
        // A watch that is killed repeats one part at most.
        self.written(self.state.write(&self.store))
    }

    /// A name that no record has: several may begin in one second.
    fn name(&self, part: &Part) -> String {
        let began = run_name();
        let numbered = (2..).map(|number: u32| format!("{began}-{number}-{}", part.id));
        let mut names = std::iter::once(format!("{began}-{}", part.id)).chain(numbered);
        names.find(|name| !self.store.path(name).exists()).unwrap_or(began)
    }

    /// Searches the history of every figure, and reports what is new.
    fn search(&mut self) -> Result<(), Failure> {
        let stored = stored::list(&self.store, |facts| self.is_alike(facts))?;
        let Known { mut runs, figures } = Known::new(stored, &Wanted::everything());
        runs.retain(|(_, facts)| self.is_alike(facts));
        let listed: Vec<&(String, Facts)> = runs.iter().collect();
        let over = figures.iter().map(|(found, points)| trend::over(found, points, &listed));
        let figures = over.filter(|over| !over.points.is_empty()).collect();
        let runs = listed.into_iter().map(trend::run_of).collect();
        let found = trends_by(runs, figures, &mut self.chance);
        for change in self.state.seen.search(&found) {
            self.voice.reports(&report::watch::change_line(&change))?;
        }
        self.state.searched = self.state.kept.rotations;
        Ok(())
    }

    /// Whether a run is of this machine and this build, and has its end.
    fn is_alike(&self, facts: &Facts) -> bool {
        facts.machine.is_same(&self.here) && facts.profile == BUILD.profile && facts.end.is_some()
    }

    /// Removes the oldest records of each experiment.
    fn prune(&self) {
        let names = self.store.names().unwrap_or_default();
        for part in &self.rotation.parts {
            let own = |name: &&String| name.ends_with(&format!("-{}", part.id));
            let own: Vec<&String> = names.iter().filter(own).collect();
            let more = own.len().saturating_sub(self.args.keep as usize);
            for name in &own[..more] {
                if let Err(error) = self.store.remove(name) {
                    output::diagnose(&format!("plumb watch: {error:#}"));
                }
            }
        }
    }

    fn textfile(&self) -> Result<String, Failure> {
        let (kept, rotation) = (&self.state.kept, &self.rotation);
        let parts = rotation.parts.iter().map(|part| {
            let known = kept.parts.get(&part.id).cloned().unwrap_or_default();
            PartState {
                experiment: part.id.clone(),
                measured_s: known.measured_s,
                cpu_s: known.cpu_s,
                failures: known.failures,
                fits: rotation.fits(kept, part),
            }
        });
        Ok(textfile::render(&Watched {
            machine: self.here.key.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_s: now_s(),
            share: rotation.share,
            used_share: kept.share(self.clock.now_s()),
            used_s: kept.used_s,
            rotation_s: rotation.length_s(kept),
            rotations: kept.rotations,
            parts: parts.collect(),
            readings: self.readings()?,
            changes: self.state.seen.changes.clone(),
        }))
    }

    /// The last figures of every part.
    fn readings(&self) -> Result<Vec<Reading>, Failure> {
        let rotation = self.rotation.parts.iter();
        let known = rotation.filter_map(|part| self.state.kept.parts.get(&part.id));
        let records: Vec<&String> = known.filter_map(|known| known.record.as_ref()).collect();
        let stored = stored::list(&self.store, |_| true)?;
        let is_last = |name: &String| records.contains(&name);
        let rows = stored.into_iter().filter(|stored| is_last(&stored.name)).map(|stored| {
            match stored.state {
                Recorded::Readable(content) => content.figures,
                Recorded::UnderWay | Recorded::Unreadable(_) => Vec::new(),
            }
        });
        let readings = rows.flatten().map(|row| Reading {
            doc: doc(&row.key.experiment, &row.key.metric),
            unit: row.about.unit,
            value: row.value,
            ci: row.ci,
            key: row.key,
        });
        Ok(readings.collect())
    }
}

/// What a metric is, by its card.
fn doc(experiment: &str, metric: &str) -> String {
    let card = catalogue::find(experiment).map(|experiment| experiment.card());
    let mut metrics = card.into_iter().flat_map(|card| card.metrics);
    let found = metrics.find(|of| of.name == metric);
    found.map_or_else(|| metric.replace('_', " "), |of| of.doc.to_string())
}

/// The place of the watch on this machine, which only one has. Errors: another one watches.
fn machine(voice: &Voice) -> Result<Option<Machine>, Failure> {
    let taken = Machine::look("plumb watch", None).and_then(|machine| {
        let is_only = machine.watch()?;
        Ok((machine, is_only))
    });
    match taken {
        Ok((machine, true)) => Ok(Some(machine)),
        Ok((_, false)) => Err(Failure::usage(
            "another plumb watch runs on this machine; stop it first (`systemctl stop \
             plumb-watch.timer plumb-watch.service`), or read its textfile",
        )),
        Err(error) => {
            voice.says(&format!("{UNSEEN}: {error:#}"));
            Ok(None)
        }
    }
}

/// The experiments of a plan, with the CPU time of their first look.
fn parts(setup: &Setup, selectors: &[String]) -> Vec<Part> {
    let planned = &setup.planned;
    let rounds = planned.plan.looks.first().copied().unwrap_or(1);
    let cpus = setup.site.cpus.len();
    let of = |id: &str| -> f64 {
        let works = planned.work.iter().filter(|work| work.series.experiment == id);
        let cpu = works.map(|work| {
            let busy: f64 = work.series.cases.iter().map(|case| busy_cpus(&case.id, cpus)).sum();
            let busy = busy / work.series.cases.len().max(1) as f64;
            work.whole(rounds).as_secs_f64() * busy
        });
        // A run ends with its budget, also if its plan states more.
        cpu.sum::<f64>().min(setup.budget.as_secs_f64() * cpus as f64)
    };
    let planned = planned.plan.experiments.iter();
    let measured = planned.filter(|one| one.skipped.is_none() && !one.series.is_empty());
    measured.map(|one| Part::new(&one.id, selectors, of(&one.id))).collect()
}

/// Seconds since 1970, by the system's clock.
fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

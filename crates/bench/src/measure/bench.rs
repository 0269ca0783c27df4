//! What an experiment measures with.

mod visits;

use super::book::{Book, to_thousandth};
use super::clock::Clock;
use super::heartbeat::Heartbeat;
use super::quartet::{Goal, Quartet, Timer, Turns, abba, samples};
use super::surroundings::Surroundings;
use super::team::{REHEARSAL_NS, TeamWindow};
use super::values::{Form, Values};
use super::warp::{self, Offset};
use super::width::{Probe, Watch, clock_step, core_mhz};
use crate::experiment::{Claim, Hazards};
use crate::link::{Done, FromWorker, RoundOrder};
use anyhow::{Context, Result, ensure};
use record::case::Case;
use record::event::{Histogram, Samples, Trace};
use record::note::{Note, Notes};
use stats::quantile::median;
use stats::trend;
use stats::width::Seen;
use std::collections::BTreeMap;
use std::io::Write;

/// Alone samples from which on they alone show where the warm-up ends.
const WARM_UP_ALONE: usize = 20;
/// What stands beside figures of other CPUs.
const APART: &str = "no core clock: it was measured on other CPUs than the round's";
/// Values among which the warm-up's change point is searched, at most.
const CHANGE_POINTS_OF: usize = 64;

/// One round of one series in a worker.
pub struct Bench {
    order: RoundOrder,
    goal: Goal,
    /// None where the clock is too coarse.
    probe: Option<Probe>,
    book: Book,
    around: Surroundings,
    offsets: BTreeMap<(usize, usize), Offset>,
    heartbeat: Option<Heartbeat>,
    hazards: Hazards,
}

/// What a round says of itself as it goes.
#[derive(Clone, Copy, Debug)]
pub enum Declared<'a> {
    /// So many switches were made on purpose: they do not disturb.
    Switches(u64),
    /// So many major faults were made on purpose: they do not disturb.
    MajorFaults(u64),
    /// Others ran on a CPU that the case fills with processes of its own: these disturb, and are
    /// not in the counters of the measuring process.
    Others {
        switches: u64,
        /// Time that they had, in ns.
        time_ns: f64,
    },
    /// These CPUs measure beside the first, for what the environment of the round says. A team says
    /// so itself.
    Cpus(&'a [usize]),
    /// The worker lives: for what takes longer than a round does, between its blocks. Sent at most
    /// once a second.
    Alive,
    /// The memory that is taken next is for these cases: where the kernel's OOM killer ends the
    /// worker, they have failed for that reason, and the series goes on without them. Before the
    /// memory is touched, by what takes much, and only where [`Hazards::memory`] cannot say it.
    Memory(&'a [&'a Case]),
    /// What this round wrote of the case is dropped, because what follows is better.
    Better(&'a Case),
}

/// What a round wrote down, and what happened around it.
pub type Written = (Vec<Samples>, Vec<Histogram>, Vec<Trace>, Done);

/// The machine computed something wrong. No later attempt makes that good, so none is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongResult(pub String);

impl Bench {
    /// Begins a round: pins the calling thread to the order's first CPU, asks for the highest
    /// priority, spins until the core is warm (at most 50 ms), takes the core clock and reads the
    /// environment. The round's window begins here. Errors: the CPU cannot be pinned to.
    pub fn new(order: RoundOrder) -> Result<Self> {
        let around = Surroundings::enter(&order)?;
        Ok(Bench {
            goal: Goal::new(&order.calibration, order.case_ns, order.rehearsal),
            probe: Probe::new(around.clock, &around.core, &order.calibration, order.level_alone()),
            book: Book::new(&order),
            around,
            offsets: BTreeMap::new(),
            heartbeat: None,
            hazards: Hazards::NONE,
            order,
        })
    }

    /// Sends signs of life, memory claims and the like to `writer`; without one they are not sent.
    #[must_use]
    pub fn speaking_to(mut self, writer: impl Write + Send + 'static) -> Self {
        self.heartbeat = Some(Heartbeat::new(writer));
        self
    }

    /// Ends the round: what it wrote down, and what happened around it. Errors: a sign of life
    /// could not be sent.
    pub fn finish(self) -> Result<Written> {
        let level = self.order.level_alone();
        let mut done = self.around.leave();
        if let Some(heartbeat) = self.heartbeat {
            heartbeat.finish().context("sending a heartbeat")?;
        }
        let book = self.book;
        if let Some(level) = level {
            let readings = book.samples.iter().flat_map(|samples| samples.width.iter().copied());
            let seen = Seen::from_readings(readings, level);
            done.environment.extend(seen.named());
        }
        done.failed = book.failed;
        Ok((book.samples, book.histograms, book.traces, done))
    }

    /// What is to be done in this round, and with what: series, seed, CPUs, clock, directory, far
    /// end.
    pub fn order(&self) -> &RoundOrder {
        &self.order
    }

    /// Times `body(n)`, which does its operation exactly `n` times: batches grow until METHOD §2 is
    /// met, then ABBA quartets of n against 2n for the case's time. The body returns nothing, or a
    /// `Result<()>`. Returns the samples (ns per operation) so that facts of the case can be added.
    /// Errors: the first error of the body; nothing of the case is written down then. A length that
    /// is not finite.
    pub fn time<R: Outcome>(
        &mut self,
        case: &Case,
        metric: &str,
        body: impl FnMut(u64) -> R,
    ) -> Result<&mut Samples> {
        self.time_beside(case, metric, || (), body)
    }

    /// Like [`Bench::time`]; `beside` is called before each quartet, outside what is timed, and is
    /// to take at most 2 % of a quartet. Errors: as [`Bench::time`].
    pub fn time_beside<R: Outcome>(
        &mut self,
        case: &Case,
        metric: &str,
        mut beside: impl FnMut(),
        mut body: impl FnMut(u64) -> R,
    ) -> Result<&mut Samples> {
        let timer = self.timer();
        let experiment = &self.order.series.experiment;
        let context = || format!("timing {metric} of {experiment}:{}", case.id);
        self.around.before_case();
        let mut body = move |n| body(n).outcome();
        let mut timed = |n| timer.timed(n, &mut body);
        let batch = timer.search(&mut timed).with_context(context)?;
        let mut turn = |watch: &mut Watch| {
            beside();
            abba(batch.operations, watch, &mut timed).map(Some)
        };
        let mut quartets = timer.repeat(&mut turn).with_context(context)?;
        let warm_up = self.cold_quartets(&quartets, batch.operations);
        quartets.skip(warm_up);
        let samples = self.record(case, metric, Values::quartets(batch.operations, quartets))?;
        let quantities = &mut samples.quantities;
        quantities.insert("warmup_quartets".to_owned(), warm_up as f64);
        samples.notes.extend(batch.note());
        Ok(samples)
    }

    /// How many leading quartets belong to the warm-up: by those of a core that is alone where they
    /// are enough, because a neighbour that leaves looks like one too.
    fn cold_quartets(&self, quartets: &Turns<Quartet>, k: u64) -> usize {
        let least = self.goal.quartets_min;
        let all = samples(&quartets.kept, k);
        let width: Vec<f64> = quartets.readings.iter().map(|reading| reading.width).collect();
        let places = self.alone(&width);
        if places.len() < WARM_UP_ALONE {
            return cold_samples(&all, least);
        }
        let alone: Vec<f64> = places.iter().map(|at| all[*at]).collect();
        match cold_samples(&alone, least) {
            0 => 0,
            cold => places[cold],
        }
    }

    /// Writes the values of a metric of a case down, in the metric's unit ([`Values`]); a
    /// `Vec<f64>` holds single events. Returns the samples, so that facts of the case can be added.
    /// Errors: a value that is not finite, or not below the limit of censored ones; batches of no
    /// operations, or no quartets.
    pub fn record<'v>(
        &mut self,
        case: &Case,
        metric: &str,
        values: impl Into<Values<'v>>,
    ) -> Result<&mut Samples> {
        let Values { form, readings, is_apart } = values.into();
        let step = clock_step(self.order.calibration.resolution_ns);
        let mut core_mhz = core_mhz(&readings, step);
        let mut notes = Notes::default();
        let form = match form {
            Form::Quartets { k, turns } => {
                ensure!(k > 0, "{metric} of {}: batches of nothing", case.id);
                notes.extend(turns.note());
                Form::Quartets { k, turns: turns.or_fail()? }
            }
            form => form,
        };
        let core_hz = match is_apart {
            true => {
                notes.push(APART.to_owned());
                None
            }
            false => {
                let around = self.around.after_case(&case.id);
                let beside = median_hz(&core_mhz);
                if beside.is_none() {
                    notes.extend(around.as_ref().err().map(Note::no_clock));
                }
                around.ok().or(beside)
            }
        };
        if is_apart || core_mhz.iter().all(|mhz| *mhz == 0) {
            core_mhz.clear();
        }
        let samples = self.book.values(case, metric, form, core_hz)?;
        samples.width.extend(readings.iter().map(|reading| to_thousandth(reading.width)));
        samples.core_mhz = core_mhz;
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// For quartets that the experiment times itself, with the goal of [`Bench::time`].
    pub fn timer(&self) -> Timer {
        Timer {
            clock: self.around.clock,
            goal: self.goal,
            probe: self.probe.filter(|_| self.around.is_on_one_cpu()),
        }
    }

    /// Records rows over time. Errors: a row that has not one value per column.
    pub fn trace(
        &mut self,
        case: &Case,
        kind: &str,
        columns: &[&str],
        rows: Vec<Vec<f64>>,
    ) -> Result<&mut Trace> {
        self.book.trace(case, kind, columns, rows)
    }

    /// A team on `cpus` (one thread for each entry) with a shared window of `window_ns`. Counters
    /// that are too far apart for such a window give way to `CLOCK_MONOTONIC`. In a rehearsal
    /// several threads have at least [`REHEARSAL_NS`]. Errors: no CPUs, or the clocks of two of
    /// them could not be compared.
    pub fn team(&mut self, cpus: &[usize], window_ns: f64) -> Result<TeamWindow> {
        let window_ns = match self.order.rehearsal && cpus.len() > 1 {
            true => window_ns.max(REHEARSAL_NS),
            false => window_ns,
        };
        let first = *cpus.first().context("a team needs a CPU")?;
        let mut clock = self.around.clock;
        for cpu in cpus.iter().filter(|cpu| **cpu != first) {
            if !self.offset(first, *cpu)?.allows(window_ns) {
                clock = Clock::Monotonic;
            }
        }
        self.around.use_cpus(cpus);
        let team = TeamWindow::new(clock, cpus.to_vec(), window_ns, self.order.rehearsal);
        Ok(team.able_to_probe(self.probe))
    }

    /// How far the clocks of two CPUs may be apart; exchanged once per round. Errors: the CPUs are
    /// the same, or one is not available.
    pub fn offset(&mut self, first: usize, second: usize) -> Result<Offset> {
        if let Some(known) = self.offsets.get(&(first, second)) {
            return Ok(*known);
        }
        let offset = warp::offset(self.around.clock, first, second, warp::EXCHANGES)
            .with_context(|| format!("comparing the clocks of CPUs {first} and {second}"))?;
        self.offsets.insert((first, second), offset);
        Ok(offset)
    }

    /// Says something of the round to the session, or to the code that judges whether it was
    /// disturbed. Outside any timed window: the session may wake up for it.
    pub fn declare(&mut self, declared: Declared<'_>) {
        match declared {
            Declared::Switches(count) => self.around.planned_switches += count,
            Declared::MajorFaults(count) => self.around.planned_major_faults += count,
            Declared::Others { switches, time_ns } => self.around.met_others(switches, time_ns),
            Declared::Cpus(cpus) => self.around.use_cpus(cpus),
            Declared::Alive => {
                let seconds = self.around.seconds();
                self.heartbeat.iter_mut().for_each(|heartbeat| heartbeat.alive(seconds));
            }
            Declared::Memory(cases) => self.say_memory_is_for(cases.iter().copied()),
            Declared::Better(case) => self.book.forget(&case.id),
        }
    }

    /// A round of an experiment with these hazards begins.
    pub(crate) fn begin(&mut self, hazards: Hazards) {
        self.hazards = hazards;
        self.around.minds_run_delay |= hazards.run_delay;
        if hazards.memory == Claim::OfRound {
            let series = self.order.series.clone();
            self.say_memory_is_for(&series);
        }
    }

    fn before_visit(&mut self, case: &Case) {
        if self.hazards.memory == Claim::OfCase {
            self.say_memory_is_for([case]);
        }
        if self.hazards.hangs {
            self.say(|| FromWorker::MayHangIn(case.id.clone()));
        }
    }

    fn say(&mut self, message: impl FnOnce() -> FromWorker) {
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.say(&message());
        }
    }

    fn say_memory_is_for<'case>(&mut self, cases: impl IntoIterator<Item = &'case Case>) {
        let ids = || cases.into_iter().map(|case| case.id.clone()).collect();
        self.say(|| FromWorker::TakesMemory(ids()));
    }

    /// Gives cases up while the round goes on: what this round wrote of them is dropped, and the
    /// reason kept. One that failed before keeps its own reason.
    pub fn give_up<'case>(
        &mut self,
        cases: impl IntoIterator<Item = &'case Case>,
        error: &anyhow::Error,
    ) {
        for case in cases {
            if self.book.failed.iter().all(|failed| failed.case != case.id) {
                self.book.fail(&case.id, host::refused::text(error));
            }
        }
    }
}

/// The median of the clocks that were taken, in Hz.
fn median_hz(core_mhz: &[u32]) -> Option<f64> {
    let taken = core_mhz.iter().filter(|mhz| **mhz > 0);
    let taken: Vec<f64> = taken.map(|mhz| f64::from(*mhz) * 1e6).collect();
    median(&taken)
}

/// How many leading samples belong to the warm-up. A series that has not settled by its half, or
/// that would keep fewer than `least`, is left whole: then it is not a warm-up that it shows.
/// Long series are looked at as medians of neighbours, because the search for change points takes
/// longer than the quartets otherwise.
fn cold_samples(samples: &[f64], least: usize) -> usize {
    let size = samples.len().div_ceil(CHANGE_POINTS_OF).max(1);
    let medians: Vec<f64> = samples.chunks(size).filter_map(median).collect();
    let warm_up = trend::warm_up(&medians);
    let cold = warm_up.discard * size;
    if warm_up.settled && cold + least <= samples.len() { cold } else { 0 }
}

/// What a timed body may return: nothing, or how it failed.
pub trait Outcome {
    /// As a result. Errors: how it failed.
    fn outcome(self) -> Result<()>;
}

impl Outcome for () {
    #[inline(always)]
    fn outcome(self) -> Result<()> {
        Ok(())
    }
}

impl Outcome for Result<()> {
    #[inline(always)]
    fn outcome(self) -> Result<()> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::cold_samples;

    /// A level with a little unevenness, after `cold` values of twice that level.
    fn series(cold: usize, count: usize) -> Vec<f64> {
        (0..count)
            .map(|at| {
                let level = if at < cold { 2.0 } else { 1.0 };
                level + 0.001 * (at * 7 % 11) as f64
            })
            .collect()
    }

    #[test]
    fn a_cold_start_is_discarded_and_nothing_else() {
        for (cold, count) in [(0, 40), (10, 60), (40, 400)] {
            let found = cold_samples(&series(cold, count), 6);
            // To one group of neighbours.
            assert!((cold..cold + 7).contains(&found) || found == cold, "{cold}: {found}");
        }
        // Most of it cold: that is a change, not a warm-up.
        assert_eq!(cold_samples(&series(300, 400), 6), 0);
        // Too few would be left.
        assert_eq!(cold_samples(&series(3, 8), 6), 0);
        assert_eq!(cold_samples(&[], 6), 0);
    }
}

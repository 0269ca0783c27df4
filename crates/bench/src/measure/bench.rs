//! What an experiment measures with.

mod visits;

use super::book::{Book, to_tenth_ns, to_thousandth};
use super::clock::Clock;
use super::crew::Crew;
use super::quartet::{Goal, Quartet, Timer, Turns, abba, samples};
use super::surroundings::{CoreOverCase, Surroundings};
use super::voice::Voice;
use super::warp::{self, Offset};
use super::width::{Probe, Stretch, Watch};
use crate::link::{Done, Endpoint, FromWorker, RoundOrder};
use anyhow::{Context, Result, ensure};
use record::case::{Case, Series};
use record::event::{Calibration, Histogram, Raw, Samples, Trace};
use stats::histogram::Histogram as Distribution;
use stats::quantile::median;
use stats::trend;
use stats::width::{LEAST_ALONE, Seen};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

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
    voice: Option<Voice>,
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
    /// environment. The round's window begins here.
    ///
    /// # Errors
    /// The CPU cannot be pinned to.
    pub fn new(order: RoundOrder) -> Result<Self> {
        let around = Surroundings::enter(&order)?;
        Ok(Bench {
            goal: Goal::new(&order.calibration, order.case_ns, order.rehearsal),
            probe: Probe::new(
                around.clock,
                &around.core,
                order.calibration.resolution_ns,
                order.calibration.width.and_then(|width| width.level),
            ),
            book: Book::new(&order),
            around,
            offsets: BTreeMap::new(),
            voice: None,
            order,
        })
    }

    /// Has [`Bench::alive`] send its signs to `writer`; without one they are not sent.
    #[must_use]
    pub fn speaking_to(mut self, writer: impl Write + Send + 'static) -> Self {
        self.voice = Some(Voice::new(writer));
        self
    }

    /// Ends the round: what it wrote down, and what happened around it.
    ///
    /// # Errors
    /// A sign of life could not be sent.
    pub fn finish(self) -> Result<Written> {
        let level = self.level_alone();
        let mut done = self.around.leave();
        if let Some(voice) = self.voice {
            voice.finish().context("sending a sign of life")?;
        }
        let book = self.book;
        if let Some(level) = level {
            let first = book.samples.iter().filter(|samples| samples.visit == 0);
            let seen = Seen::of(first.flat_map(|samples| samples.width.iter().copied()), level);
            done.environment.extend(seen.named());
        }
        done.failed = book.failed;
        Ok((book.samples, book.histograms, book.traces, done))
    }

    /// The order of this round: series, seed, CPUs, calibration.
    pub fn order(&self) -> &RoundOrder {
        &self.order
    }

    /// CPU of the measuring thread.
    pub fn cpu(&self) -> usize {
        self.order.cpus.first().copied().unwrap_or(0)
    }

    /// What was found out about the clocks.
    pub fn calibration(&self) -> &Calibration {
        &self.order.calibration
    }

    /// The clock for windows of the experiment's own: one start, one end, length in ns.
    pub fn clock(&self) -> Clock {
        self.around.clock
    }

    /// The far end.
    pub fn far(&self) -> Option<&Endpoint> {
        self.order.far.as_ref()
    }

    /// Directory for files.
    pub fn dir(&self) -> Option<&Path> {
        self.order.dir.as_deref()
    }

    /// Times `body(n)`, which does its operation exactly `n` times: batches grow until METHOD §2
    /// is met, then ABBA quartets of n against 2n for the case's time. Returns the samples (ns per
    /// operation) so that facts of the case can be added.
    ///
    /// # Errors
    /// A length that is not finite.
    pub fn time(
        &mut self,
        case: &Case,
        metric: &str,
        mut body: impl FnMut(u64),
    ) -> Result<&mut Samples> {
        self.try_time(case, metric, move |operations| {
            body(operations);
            Ok(())
        })
    }

    /// Like [`Bench::time`], for bodies that can fail.
    ///
    /// # Errors
    /// The first error of the body; nothing of the case is written down then.
    pub fn try_time(
        &mut self,
        case: &Case,
        metric: &str,
        body: impl FnMut(u64) -> Result<()>,
    ) -> Result<&mut Samples> {
        self.time_beside(case, metric, || (), body)
    }

    /// Like [`Bench::try_time`]; `beside` is called before each quartet, outside what is timed, and is to
    /// take at most 2 % of a quartet.
    ///
    /// # Errors
    /// As [`Bench::try_time`].
    pub fn time_beside(
        &mut self,
        case: &Case,
        metric: &str,
        mut beside: impl FnMut(),
        mut body: impl FnMut(u64) -> Result<()>,
    ) -> Result<&mut Samples> {
        let timer = self.timer();
        let experiment = &self.order.series.experiment;
        let context = || format!("timing {metric} of {experiment}:{}", case.id);
        self.around.before_case();
        let mut timed = |n| timer.timed(n, &mut body);
        let batch = timer.search(&mut timed).with_context(context)?;
        let mut turn = |watch: &mut Watch| {
            beside();
            abba(batch.operations, watch, &mut timed).map(Some)
        };
        let mut quartets = timer.repeat(&mut turn).with_context(context)?;
        let warm_up = self.cold_quartets(&quartets, batch.operations);
        quartets.skip(warm_up);
        let samples = self.record_quartets(case, metric, batch.operations, quartets)?;
        let quantities = &mut samples.quantities;
        quantities.insert("warmup_quartets".to_owned(), warm_up as f64);
        samples.notes.extend(batch.note());
        Ok(samples)
    }

    /// How many leading quartets belong to the warm-up: by those of a core that is alone where they are
    /// enough, because a neighbour that leaves looks like one too.
    fn cold_quartets(&self, quartets: &Turns<Quartet>, k: u64) -> usize {
        let least = self.goal.quartets_min;
        let all = samples(&quartets.kept, k);
        let places = self.alone(&quartets.width);
        if places.len() < LEAST_ALONE {
            return cold_samples(&all, least);
        }
        let alone: Vec<f64> = places.iter().map(|at| all[*at]).collect();
        match cold_samples(&alone, least) {
            0 => 0,
            cold => places[cold],
        }
    }

    /// Records single events in the metric's unit. The clock's resolution and the cost of an
    /// empty pair stand beside them, for percentiles that are near. More than 20,000 are thinned
    /// beside a histogram of all.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record(&mut self, case: &Case, metric: &str, values: Vec<f64>) -> Result<&mut Samples> {
        let mut notes = Vec::new();
        let core_hz = noted(self.around.after_case(&case.id), &mut notes);
        let samples = self.book.events(case, metric, values, core_hz)?;
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// As [`Bench::record`], with each event's reading of the width probe ([`super::Watch::end`]); none
    /// where it could not be read.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_watched(
        &mut self,
        case: &Case,
        metric: &str,
        values: Vec<f64>,
        width: &[f64],
    ) -> Result<&mut Samples> {
        let samples = self.record(case, metric, values)?;
        samples.width = width.iter().copied().map(to_thousandth).collect();
        Ok(samples)
    }

    /// As [`Bench::record`], for events too many to hold: all are counted in `all`, and `excerpt`
    /// are the first of them.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_counted(
        &mut self,
        case: &Case,
        metric: &str,
        excerpt: Vec<f64>,
        all: &Distribution,
    ) -> Result<&mut Samples> {
        let mut notes = Vec::new();
        let core_hz = noted(self.around.after_case(&case.id), &mut notes);
        let samples = self.book.counted(case, metric, excerpt, all, core_hz)?;
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// As [`Bench::record`], beside events that never ended (drops, time-outs, what was never begun):
    /// `censored` of them count in the distribution as longer than all that did. `limit` is the value
    /// that they are known to have passed; an event that ended at it or later counts as one of them, so
    /// that none of the values lies there.
    ///
    /// # Errors
    /// A value that is not finite, or not below the limit.
    pub fn record_censored(
        &mut self,
        case: &Case,
        metric: &str,
        values: Vec<f64>,
        censored: u64,
        limit: f64,
    ) -> Result<&mut Samples> {
        let mut notes = Vec::new();
        let core_hz = noted(self.around.after_case(&case.id), &mut notes);
        let samples = self.book.censored(case, metric, values, censored, limit, core_hz)?;
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// As [`Bench::record_counted`], for events of other CPUs than the round's: the core clock of the
    /// measuring thread's is not theirs, and is not taken.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_counted_apart(
        &mut self,
        case: &Case,
        metric: &str,
        excerpt: Vec<f64>,
        all: &Distribution,
    ) -> Result<&mut Samples> {
        let samples = self.book.counted(case, metric, excerpt, all, None)?;
        samples.notes.push(APART.to_owned());
        Ok(samples)
    }

    /// Records values that each cover a batch of `k` operations (0: a block of time).
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_batches(
        &mut self,
        case: &Case,
        metric: &str,
        k: u64,
        values: Vec<f64>,
    ) -> Result<&mut Samples> {
        let mut notes = Vec::new();
        let core_hz = noted(self.around.after_case(&case.id), &mut notes);
        let samples = self.book.batches(case, metric, k, values, core_hz)?;
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// As [`Bench::record_batches`], for values that other threads than the measuring one yielded,
    /// each on a CPU of its own: the core clock of the measuring thread's is not theirs, and is not
    /// taken.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_apart(
        &mut self,
        case: &Case,
        metric: &str,
        values: Vec<f64>,
    ) -> Result<&mut Samples> {
        let samples = self.book.batches(case, metric, 0, values, None)?;
        samples.notes.push(APART.to_owned());
        Ok(samples)
    }

    /// Records quartets in the order `k`, `2 k`, `2 k`, `k`: per quartet the sum of the two short batches
    /// and of the two long ones, in ns. Where the core clock around the case is unknown, that of the
    /// probes' chains stands in its place.
    ///
    /// # Errors
    /// A value that is not finite, batches of no operations, or no quartets.
    pub fn record_quartets(
        &mut self,
        case: &Case,
        metric: &str,
        k: u64,
        quartets: Turns<Quartet>,
    ) -> Result<&mut Samples> {
        ensure!(k > 0, "{metric} of {}: batches of nothing", case.id);
        let mut notes: Vec<String> = quartets.note().into_iter().collect();
        let quartets = quartets.or_fail()?;
        let around = self.around.after_case(&case.id);
        let core_hz = noted(around, &mut notes).or(quartets.core_hz);
        let (n, two_n): (Vec<f64>, Vec<f64>) = quartets.kept.into_iter().unzip();
        let tenths = |values: Vec<f64>| values.into_iter().map(to_tenth_ns).collect();
        let raw = Raw::Quartets { k, n: tenths(n), two_n: tenths(two_n), voids: quartets.refused };
        let samples = self.book.add(case, metric, raw, core_hz)?;
        samples.width = quartets.width.into_iter().map(to_thousandth).collect();
        samples.notes.extend(notes);
        Ok(samples)
    }

    /// Reads how wide a core is; none where the clock is too coarse.
    pub fn probe(&self) -> Option<Probe> {
        self.probe
    }

    /// Additions per cycle of a core that is alone; none where calibration did not learn it.
    pub fn level_alone(&self) -> Option<f64> {
        self.order.calibration.width.and_then(|width| width.level)
    }

    /// As [`Bench::record_apart`], for a thread's or a crew's work between readings of the width probe;
    /// `whole` is the value of the whole window, which stands alone where it was not cut into stretches.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn record_stretches(
        &mut self,
        case: &Case,
        metric: &str,
        stretches: &[Stretch],
        whole: f64,
    ) -> Result<&mut Samples> {
        let values = match stretches {
            [] => vec![whole],
            _ => stretches.iter().map(|stretch| stretch.rate).collect(),
        };
        let samples = self.record_batches(case, metric, 0, values)?;
        samples.width = stretches.iter().map(|stretch| to_thousandth(stretch.width)).collect();
        Ok(samples)
    }

    /// Reads the width probe between the events of a case on one CPU.
    pub fn watch(&self) -> Watch {
        Watch::new(self.timer().probe)
    }

    /// For quartets that the experiment times itself, with the goal of [`Bench::time`].
    pub fn timer(&self) -> Timer {
        Timer {
            clock: self.around.clock,
            goal: self.goal,
            probe: self.probe.filter(|_| self.around.is_on_one_cpu()),
        }
    }

    /// Records rows over time.
    ///
    /// # Errors
    /// A row that has not one value per column.
    pub fn trace(
        &mut self,
        case: &Case,
        kind: &str,
        columns: &[&str],
        rows: Vec<Vec<f64>>,
    ) -> Result<&mut Trace> {
        self.book.trace(case, kind, columns, rows)
    }

    /// A crew on `cpus` (one thread for each entry) with a shared window of `window_ns`. Counters
    /// that are too far apart for such a window give way to `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// No CPUs, or the clocks of two of them could not be compared.
    pub fn crew(&mut self, cpus: &[usize], window_ns: f64) -> Result<Crew> {
        let first = *cpus.first().context("a crew needs a CPU")?;
        let mut clock = self.around.clock;
        for cpu in cpus.iter().filter(|cpu| **cpu != first) {
            if !self.offset(first, *cpu)?.allows(window_ns) {
                clock = Clock::Monotonic;
            }
        }
        self.around.use_cpus(cpus);
        Ok(Crew::new(clock, cpus.to_vec(), window_ns, self.order.rehearsal))
    }

    /// How far the clocks of two CPUs may be apart; exchanged once per round.
    ///
    /// # Errors
    /// The CPUs are the same, or one cannot be had.
    pub fn offset(&mut self, first: usize, second: usize) -> Result<Offset> {
        if let Some(known) = self.offsets.get(&(first, second)) {
            return Ok(*known);
        }
        let offset = warp::offset(self.around.clock, first, second, warp::EXCHANGES)
            .with_context(|| format!("comparing the clocks of CPUs {first} and {second}"))?;
        self.offsets.insert((first, second), offset);
        Ok(offset)
    }

    /// Ticks of the counter to ns.
    pub fn ns(&self, ticks: u64) -> f64 {
        self.around.clock.ns(ticks)
    }

    /// A long `Once` says that it lives, at most once a second, between its blocks.
    pub fn alive(&mut self, seconds: f64) {
        if let Some(voice) = &mut self.voice {
            voice.alive(seconds);
        }
    }

    /// Says which cases the memory is for that is taken next. Where the kernel's OOM killer ends the
    /// worker, they have failed for that reason, and the series goes on without them. To be called
    /// before the memory is touched, outside any timed window, and only by what takes much: the
    /// session wakes up for it.
    pub fn takes_memory_for<'case>(&mut self, cases: impl IntoIterator<Item = &'case Case>) {
        if let Some(voice) = &mut self.voice {
            let cases = cases.into_iter().map(|case| case.id.clone()).collect();
            voice.say(&FromWorker::TakesMemory(cases));
        }
    }

    /// Says that what follows is a case whose files may hang the worker in the kernel: where it says
    /// nothing more in time, that case has failed, and the series goes on without it. To be called
    /// before each case that touches files, outside any timed window. (What an experiment that needs a
    /// directory does before that is watched as well: where it hangs there, all its cases have failed.)
    pub fn may_hang_in(&mut self, case: &Case) {
        if let Some(voice) = &mut self.voice {
            voice.say(&FromWorker::MayHangIn(case.id.clone()));
        }
    }

    /// Gives a case up while the round goes on: what this round wrote of it is dropped, and the
    /// reason kept.
    pub fn fail(&mut self, case: &Case, error: &anyhow::Error) {
        self.book.fail(&case.id, format!("{error:#}"));
    }

    /// Drops what this round wrote of a case, because what follows is better.
    pub fn forget(&mut self, case: &Case) {
        self.book.forget(&case.id);
    }

    /// As [`Bench::fail`], for every case of a series: what they share is not what it should be.
    pub fn fail_all(&mut self, series: &Series, error: &anyhow::Error) {
        for case in &series.cases {
            // One that failed before has its own reason.
            if self.book.failed.iter().all(|failed| failed.case != case.id) {
                self.fail(case, error);
            }
        }
    }

    /// Counts CPUs that measured beside the first, for what the environment of the round says; a
    /// crew does so by itself.
    pub fn use_cpus(&mut self, cpus: &[usize]) {
        self.around.use_cpus(cpus);
    }

    /// Switches the case makes on purpose (they do not disturb).
    pub fn planned_switches(&mut self, count: u64) {
        self.around.plan_switches(count);
    }

    /// Switches to others on a CPU that the case fills with processes of its own, and the time that those
    /// others had, in ns: these disturb, and are not in the counters of the measuring process.
    pub fn met_others(&mut self, switches: u64, time_ns: f64) {
        self.around.met_others(switches, time_ns);
    }

    /// The round sleeps for a device, or for a server: time that its measuring thread then waits for a
    /// CPU is not theirs, and much of it disturbs.
    pub fn minds_run_delay(&mut self) {
        self.around.mind_run_delay();
    }

    /// Major faults the case makes on purpose (they do not disturb).
    pub fn planned_major_faults(&mut self, count: u64) {
        self.around.plan_major_faults(count);
    }
}

/// The core clock, or a note why there is none.
fn noted(core: CoreOverCase, notes: &mut Vec<String>) -> Option<f64> {
    core.map_err(|reason| notes.push(reason)).ok()
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

//! Members that read at the same time without a pause, as processes or threads, and what each had
//! in the window that all shared.
//!
//! All begin together and read until the measured reader, which is the calling thread, has ended:
//! it never has the device to itself. The window is its own, from when all have had two reads on. Of
//! the others the reads across an edge count by the part inside.

use super::account::Moved;
use super::member::{Member, Opening};
use super::rates::done_by;
use super::{Job, Watch};
use crate::fs::prelude::*;
use bench::measure::team::{Fault, Seat, Team, all_of};
use metal::io::{Latencies, Ran};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

symbols! {
    /// What the competitors of the measured reader are.
    pub(in crate::fs) enum As { Processes = "processes", Threads = "threads" }
}

/// A window lasts until the measured reader has had so many reads and each other one …
pub(in crate::fs) const READS_LEAST: u64 = 8;
/// … but no longer than this, in ns.
pub(in crate::fs) const WINDOW_MOST_NS: f64 = 2e9;
/// Reads of each reader that do not count.
pub(in crate::fs) const WARM_READS: u64 = 2;

/// Words of all readers: the window's ends, of which the latter is set when the measured reader has
/// ended; how many have read often enough for it to begin, and how many have had a read in it.
const FROM: usize = 0;
const UNTIL: usize = 1;
const WARM: usize = 2;
const SERVED: usize = 3;
/// The readers begin so long after the last is ready, in ns.
const LEAD_NS: f64 = 100e3;
/// Readers wait for one another to begin and to end, so long.
const PATIENCE: Duration = Duration::from_secs(8);
/// Faults of a reader: the block that it read last is not what was written, and it did not get its
/// memory.
const WRONG: u32 = 1;
const UNMADE: u32 = 2;

#[derive(Debug)]
pub(in crate::fs) struct Shared {
    /// Length of the window, in ns.
    pub(in crate::fs) window_ns: f64,
    /// The measured reader first.
    pub(in crate::fs) readers: Vec<ReaderWindow>,
    /// The measured reader's reads.
    pub(in crate::fs) latencies: Latencies,
    /// What was found out about its file.
    pub(in crate::fs) notes: Vec<String>,
    pub(in crate::fs) moved: Moved,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fs) struct ReaderWindow {
    /// Reads that count, and the sum of their latencies, in ticks.
    pub(in crate::fs) reads: u64,
    pub(in crate::fs) ticks: u64,
    /// Reads in the window, those across an edge by their part inside.
    pub(in crate::fs) units: f64,
    pub(in crate::fs) asked: u64,
    /// CPU time, in ns, and the reads that it went to.
    pub(in crate::fs) cpu_ns: u64,
    pub(in crate::fs) cpu_reads: u64,
    /// Involuntary switches in that time.
    pub(in crate::fs) forced: u64,
    pub(in crate::fs) cpu: usize,
}

impl Job<'_> {
    /// Has the members read: the first is the calling thread, the others are made.
    pub(in crate::fs) fn competing(&self, kind: As) -> Result<Shared> {
        let places = self.cpus.iter().map(|cpu| (!self.is_free).then_some(*cpu));
        let team = Team::new(places)?.led().patient(PATIENCE);
        let (team, mut watch, own) = match kind {
            As::Processes => self.beside_processes(team)?,
            As::Threads => self.beside_threads(team)?,
        };
        let (from, until) = window(&team);
        let window_ns = self.clock.between_ns(from, until);
        let read = |number| ReaderWindow::read(&team, number);
        let readers: Vec<ReaderWindow> = (0..team.size()).map(read).collect();
        for (number, (reader, was)) in readers.iter().zip(&self.cpus).enumerate() {
            let (name, is, ms) = (name(number), reader.cpu, window_ns / 1e6);
            ensure!(reader.reads > 0, "{name} completed no read in the shared {ms:.0} ms");
            ensure!(
                self.is_free || is == *was,
                "{name} ended on CPU {is} although it was pinned to CPU {was}"
            );
        }
        let asked = readers.iter().map(|reader| reader.asked * self.work.block).sum();
        watch.operations_are_over(asked);
        Ok(Shared {
            window_ns,
            readers,
            latencies: own.log().clone(),
            notes: own.notes().to_vec(),
            moved: watch.end(asked).moved,
        })
    }

    /// The files are opened before processes are made, which count only what they read; those have
    /// been reaped, and with that the kernel has added their counts to this one's.
    fn beside_processes(&self, team: Team) -> Result<(Arc<Team>, Watch<'_>, Member)> {
        let open = |number| Opening::new(self, number).with_context(|| name(number));
        let mut files: Vec<Opening> = (0..team.size()).map(open).collect::<Result<_>>()?;
        let others: Vec<Option<Opening>> = files.drain(1..).map(Some).collect();
        let own = files.pop().map(|file| Member::with(self, 0, file)).context("no file")??;
        let watch = Watch::begin(self.work, self.below);
        let running = team.processes(others, |seat, file| {
            let member = file.take().map(|file| Member::with(self, seat.number, file));
            let mut member = member.and_then(Result::ok).ok_or(Fault::Body(UNMADE))?;
            self.compete(seat, &mut member)
        })?;
        let led = running.lead(|seat| self.measured(seat, own));
        let ended = running.end().map_err(|failed| explained(failed.number, failed.fault));
        let (own, team) = both(led, ended)?;
        Ok((team, watch, own))
    }

    fn beside_threads(&self, team: Team) -> Result<(Arc<Team>, Watch<'_>, Member)> {
        let prepare = |seat: &Seat<'_>, _: usize| {
            Member::prepare(self, seat.number).with_context(|| name(seat.number))
        };
        let work = |seat: &Seat<'_>, mut member: Member| {
            self.compete(seat, &mut member).map_err(|fault| explained(seat.number, fault))
        };
        let conduct = |team: &Team| {
            team.lead(|seat| {
                let own = Member::prepare(self, 0).with_context(|| name(0))?;
                team.gather();
                let watch = Watch::begin(self.work, self.below);
                team.open();
                Ok((watch, self.measured(seat, own)?))
            })
        };
        let (led, ended) = team.threads(1..team.size(), prepare, work, conduct)?;
        let ((watch, own), _) = both(led, all_of(ended))?;
        Ok((Arc::new(team), watch, own))
    }

    fn measured(&self, seat: &Seat<'_>, mut own: Member) -> Result<Member> {
        self.compete(seat, &mut own).map_err(|fault| explained(0, fault))?;
        Ok(own)
    }

    /// A reader from its first to its last read.
    fn compete(&self, seat: &Seat<'_>, member: &mut Member) -> Result<(), Fault> {
        let (team, clock) = (seat.team, self.clock);
        let most = seat.start(clock, LEAD_NS)? + clock.ticks(PATIENCE.as_nanos() as f64);
        let warm = self.reads(member, |done| {
            if done == WARM_READS {
                team.common(WARM).fetch_add(1, AcqRel);
            }
            let is_begun = match seat.number {
                0 => team.common(WARM).load(Acquire) == team.size() as u64,
                _ => team.common(FROM).load(Acquire) != 0,
            };
            is_begun || team.has_failed() || clock.end() >= most
        })?;
        let last = member.log().first().last().copied();
        member.log_mut().clear();
        let ran = seat.counted(|| match seat.number {
            0 => self.measured_reads(team, member),
            _ => self.others_reads(team, member),
        })?;
        if team.has_failed() {
            return Err(Fault::OtherFailed);
        }
        let listed = member.log().first();
        let (from, until) = window(team);
        // The read that was under way when the window began counts by its part inside.
        let across = warm.last_tick.saturating_sub(from) as f64 / last.unwrap_or(1).max(1) as f64;
        let units = across.min(1.0) + done_by(false, &ran, listed, until);
        let words = [
            listed.len() as u64,
            listed.iter().sum(),
            units.to_bits(),
            warm.operations + ran.operations,
            ran.thread_cpu_ns,
            ran.operations,
        ];
        for (word, value) in words.into_iter().enumerate() {
            seat.set(word, value);
        }
        member.check(self.work).map_err(|_| Fault::Body(WRONG))
    }

    /// The reads that make the window.
    fn measured_reads(&self, team: &Team, member: &mut Member) -> Result<Ran, Fault> {
        let (clock, others) = (self.clock, team.size() as u64 - 1);
        let from = clock.end();
        let ends = [self.window_ns as f64, WINDOW_MOST_NS].map(|ns| from + clock.ticks(ns));
        team.common(FROM).store(from, Release);
        let ran = self.reads(member, |done| {
            let now = clock.end();
            let are_served = || team.common(SERVED).load(Acquire) == others;
            let is_enough = now >= ends[0] && done >= READS_LEAST && are_served();
            is_enough || now >= ends[1] || team.has_failed()
        })?;
        // The look at the clock comes after the last read, by some ns.
        team.common(UNTIL).store(ran.last_tick.max(ends[0]), Release);
        Ok(ran)
    }

    /// Those of the others, until the window's end.
    fn others_reads(&self, team: &Team, member: &mut Member) -> Result<Ran, Fault> {
        self.reads(member, |done| {
            if done == 1 {
                team.common(SERVED).fetch_add(1, AcqRel);
            }
            team.has_failed() || team.common(UNTIL).load(Acquire) != 0
        })
    }

    /// A run of reads until it is over, which follows from how many are complete.
    fn reads(&self, member: &mut Member, is_over: impl Fn(u64) -> bool) -> Result<Ran, Fault> {
        let asked = Cell::new(0);
        let ran = member.run_until(self.clock, || {
            let done = asked.get();
            asked.set(done + 1);
            is_over(done)
        });
        ran.map_err(|failure| Fault::System(failure.raw_os_error().unwrap_or(0)))
    }
}

/// First and last tick of the window.
fn window(team: &Team) -> (u64, u64) {
    (team.common(FROM).load(Acquire), team.common(UNTIL).load(Acquire))
}

fn name(number: usize) -> String {
    match number {
        0 => "the measured reader".to_owned(),
        number => format!("competitor {number}"),
    }
}

/// Two outcomes, or the reason that explains the other's.
fn both<A, B>(one: Result<A>, other: Result<B>) -> Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (one, other) => match all_of([one.map(drop), other.map(drop)]) {
            Err(error) => Err(error),
            Ok(_) => bail!("one of two failed, and neither says why"),
        },
    }
}

/// Why a reader ended early, with its name.
fn explained(number: usize, fault: Fault) -> anyhow::Error {
    let name = name(number);
    match fault {
        Fault::System(0) => anyhow::Error::new(io::Error::from(io::ErrorKind::UnexpectedEof))
            .context(format!("{name}: reading its file")),
        Fault::System(code) => anyhow::Error::new(io::Error::from_raw_os_error(code))
            .context(format!("{name}: reading its file")),
        Fault::Body(WRONG) => {
            WrongResult(format!("{name} read a block that differs from what was written")).into()
        }
        Fault::Body(_) => anyhow!("{name} could not get its memory"),
        fault => anyhow::Error::new(fault).context(name),
    }
}

impl ReaderWindow {
    fn read(team: &Team, number: usize) -> ReaderWindow {
        let [reads, ticks, units, asked, cpu_ns, cpu_reads] =
            std::array::from_fn(|word| team.get(number, word));
        let report = team.report(number);
        let (units, forced, cpu) = (f64::from_bits(units), report.involuntary, report.cpu);
        ReaderWindow { reads, ticks, units, asked, cpu_ns, cpu_reads, forced, cpu }
    }
}

#[cfg(test)]
mod tests;

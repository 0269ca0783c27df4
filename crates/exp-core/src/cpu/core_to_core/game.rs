//! The game of two threads on fresh lines, and how the first of them times it.

use super::Home;
use bench::measure::{Quartet, Team, Timer, Turns, Watch, abba, samples};
use bench::prelude::*;
use metal::line::Lines;
use metal::{place, process};
use stats::quantile::median;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// A party that hears nothing of the other for this time gives up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Failed attempts after which the first party checks the time: some milliseconds.
const SPINS_FIRST: u64 = 1 << 18;
/// Failed attempts after which the second party checks whether the exchange is over: tens of
/// microseconds.
const SPINS_SECOND: u64 = 1 << 12;
/// `Table::current` when all lines have been played.
const OVER: usize = usize::MAX;
/// Transfers of a round trip.
const TRANSFERS: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Game {
    /// CPU of the party that measures, and of the one that answers.
    pub(super) cpus: [usize; 2],
    pub(super) home: Home,
    /// Fresh lines, played one after another.
    pub(super) lines: usize,
    /// Time of all of them, in ns.
    pub(super) case_ns: f64,
}

/// What the first party found.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Transfers of the short batch.
    pub(super) k: u64,
    pub(super) lines: Vec<Turns<Quartet>>,
    /// What a reader must know of the batch.
    pub(super) note: Option<String>,
    /// Involuntary switches that pinning the two threads took.
    pub(super) switches: u64,
}

impl Played {
    /// The least and the greatest of the lines' medians, in ns per transfer.
    pub(super) fn line_spread(&self) -> Option<(f64, f64)> {
        let medians: Vec<f64> =
            self.lines.iter().filter_map(|line| median(&samples(&line.kept, self.k))).collect();
        let low = medians.iter().copied().min_by(f64::total_cmp)?;
        let high = medians.iter().copied().max_by(f64::total_cmp)?;
        Some((low, high))
    }
}

/// What both parties see.
struct Table {
    lines: Lines,
    /// The line that is played, counted from 1; 0 before the first.
    current: AtomicUsize,
    /// The line at which the second party plays, counted from 1.
    joined: AtomicUsize,
    /// The second party has left.
    failed: AtomicBool,
}

/// A party's place at the table; the other one ends when it is left, whichever way.
struct Place<'table> {
    table: &'table Table,
    measures: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        match self.measures {
            true => self.table.current.store(OVER, Ordering::Release),
            false => self.table.failed.store(true, Ordering::Release),
        }
    }
}

impl Game {
    /// Plays every line. Both parties are threads of their own, pinned, so that any two CPUs can
    /// play; the calling thread sleeps. Errors: a CPU is not available; a party does not hear of
    /// the other for two seconds; the turns do not add up.
    pub(super) fn play(&self, bench: &Bench) -> Result<Played> {
        ensure!(self.cpus[0] != self.cpus[1], "CPU {} hands no line to itself", self.cpus[0]);
        let table = Table {
            lines: Lines::new(self.lines).context("fresh lines")?,
            current: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        };
        let (search, quartets) = self.timers(bench);
        // The second's reason comes first: it is why the first heard nothing.
        let places = [false, true].map(|measures| Place { table: &table, measures }).into();
        let mut found = Team::each(&[self.cpus[1], self.cpus[0]], places, |place: Place<'_>| {
            match place.measures {
                true => self.measure(place.table, search, quartets),
                false => self.answer(place.table),
            }
        })?;
        let (mut played, made) = found.pop().context("no party measured")?;
        let (answered, turns) = found.pop().context("no party answered")?;
        played.switches += answered.switches;
        for (line, (made, turns)) in made.iter().zip(&turns).enumerate() {
            let value = table.lines.value(line);
            ensure!(
                made == turns && value == made + turns,
                "line {line}: {made} turns of the one and {turns} of the other, but its value is {value}"
            );
        }
        ensure!(
            made.len() == self.lines && turns.len() == self.lines,
            "{} and {} lines of {} were played",
            made.len(),
            turns.len(),
            self.lines
        );
        Ok(played)
    }

    /// For the search, which has the time of the case, and for the quartets of one line. Batches
    /// are as short as METHOD §2 allows: there are several lines.
    fn timers(&self, bench: &Bench) -> (Timer, Timer) {
        let mut search = bench.timer();
        search.goal.case_ns = self.case_ns;
        // It would see one of the two cores.
        search.probe = None;
        search.goal = search.goal.with_batches(0.0);
        let mut line = search;
        line.goal.case_ns /= self.lines as f64;
        line.goal.quartets_min = line.goal.quartets_min.div_ceil(self.lines);
        line.goal.quartets_max = line.goal.quartets_max.div_ceil(self.lines);
        (search, line)
    }

    /// The second party: answers on each line until the next. Returns its turns on each, and the
    /// involuntary switches of its pinning.
    fn answer(&self, table: &Table) -> Result<(Played, Vec<u64>)> {
        let played = Played { switches: switches(), ..Played::default() };
        let mut turns = Vec::new();
        for line in 0..self.lines {
            let is_on = |current: usize| current > line;
            await_that("the first party", || is_on(table.current.load(Ordering::Acquire)))?;
            if table.current.load(Ordering::Acquire) == OVER {
                break;
            }
            if self.home == Home::Second {
                table.lines.home(line);
            }
            table.joined.store(line + 1, Ordering::Release);
            let mut done = 0;
            loop {
                // Asked before the last looks, so that no turn is left unanswered.
                let is_last = table.current.load(Ordering::Acquire) > line + 1;
                done += table.lines.play(line, TRANSFERS * done + 1, u64::MAX, SPINS_SECOND);
                if is_last {
                    break;
                }
            }
            turns.push(done);
        }
        check_place(self.cpus[1])?;
        Ok((played, turns))
    }

    /// The first party: times each line. Returns what it found and its turns on each line.
    fn measure(&self, table: &Table, search: Timer, quartets: Timer) -> Result<(Played, Vec<u64>)> {
        let mut played = Played { switches: switches(), ..Played::default() };
        let mut made = Vec::new();
        let mut batch = None;
        for line in 0..self.lines {
            if self.home == Home::First {
                table.lines.home(line);
            }
            table.current.store(line + 1, Ordering::Release);
            await_that("the second party", || {
                table.joined.load(Ordering::Acquire) > line || table.failed.load(Ordering::Acquire)
            })?;
            let mut seat = Seat { table, line, done: 0 };
            let turns = match batch {
                Some(turns) => turns,
                None => {
                    let mut body = |turns| seat.turns(turns);
                    let found = search.search(&mut |turns| search.timed(turns, &mut body))?;
                    played.note = found.note();
                    *batch.insert(found.operations)
                }
            };
            // One batch that is not timed: the line is fresh.
            seat.turns(turns)?;
            let mut body = |turns| seat.turns(turns);
            let mut turn = |watch: &mut Watch| {
                abba(turns, watch, &mut |turns| quartets.timed(turns, &mut body)).map(Some)
            };
            played.lines.push(quartets.repeat(&mut turn)?);
            made.push(seat.done);
        }
        played.k = TRANSFERS * batch.context("no line was played")?;
        check_place(self.cpus[0])?;
        Ok((played, made))
    }
}

/// The first party's place at a line.
struct Seat<'table> {
    table: &'table Table,
    line: usize,
    done: u64,
}

impl Seat<'_> {
    /// Makes so many turns. The answer to the last is not waited for; the next turn waits for it.
    fn turns(&mut self, turns: u64) -> Result<()> {
        let mut left = turns;
        let mut waiting: Option<(Instant, u64)> = None;
        loop {
            let expected = TRANSFERS * self.done;
            let made = self.table.lines.play(self.line, expected, left, SPINS_FIRST);
            self.done += made;
            left -= made;
            if left == 0 {
                return Ok(());
            }
            if self.table.failed.load(Ordering::Acquire) {
                bail!("the second party failed");
            }
            match waiting {
                Some((since, done)) if done == self.done => ensure!(
                    since.elapsed() < PATIENCE,
                    "the second party did not answer for {PATIENCE:?}"
                ),
                _ => waiting = Some((Instant::now(), self.done)),
            }
        }
    }
}

/// Involuntary switches of the calling thread so far: those of its pinning.
fn switches() -> u64 {
    process::rusage_thread().nivcsw
}

fn check_place(cpu: usize) -> Result<()> {
    let found = place::current_cpu();
    ensure!(found == cpu, "the party of CPU {cpu} ran on CPU {found}");
    Ok(())
}

/// Waits awake until something holds.
fn await_that(whom: &str, holds: impl Fn() -> bool) -> Result<()> {
    let begin = Instant::now();
    loop {
        for _ in 0..1000 {
            if holds() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        ensure!(begin.elapsed() < PATIENCE, "{whom} did not answer within {PATIENCE:?}");
    }
}

//! The game of two threads on fresh lines, and how the first of them times it.

use crate::host::refused;
use crate::measure::{Bench, Clock, voids};
use crate::stats::quantile::median;
use anyhow::{Context, Result, anyhow, bail, ensure};
use metal::kernel::chain_rotate;
use metal::line::Lines;
use metal::{place, process};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A party that hears nothing of the other for this time gives up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks in vain after which the first party looks at the time: some milliseconds.
const SPINS_FIRST: u64 = 1 << 18;
/// Looks in vain after which the second asks whether the game is over: tens of microseconds.
const SPINS_SECOND: u64 = 1 << 12;
/// Steps of the search for a batch, its first size and its largest.
const STEPS_MAX: u32 = 40;
const TURNS_MIN: u64 = 4;
const TURNS_MAX: u64 = 1 << 32;
/// METHOD §2: a batch is so many times the clock's cost and its resolution.
const COST_FACTOR: f64 = 1000.0;
const RESOLUTION_FACTOR: f64 = 100.0;
/// Reference chains around a quartet: ns, and steps of the clock at least.
const REFERENCE_NS: f64 = 10e3;
const REFERENCE_STEPS: f64 = 200.0;
/// Where calibration found no core clock, reference chains are sized for this one.
const CORE_HZ: f64 = 3e9;
/// Quartets of a case: as many as a round's median needs, and no fewer than METHOD asks for.
const QUARTETS_MAX: usize = 100;
const QUARTETS_MIN: usize = 6;
const QUARTETS_MIN_REHEARSAL: usize = 2;
/// Where a line has no good quartet it may take so many times its share.
const PATIENCE_FACTOR: f64 = 3.0;
/// `Table::current` when all lines have been played.
const OVER: usize = usize::MAX;
/// Transfers of a round trip.
const TRANSFERS: u64 = 2;

/// Who touches a line first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The party that measures.
    First,
    /// The party that answers.
    Second,
}

/// A game to play.
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
    /// Quartets of each line.
    lines: Vec<LineQuartets>,
    /// The batch search ended at its cap.
    pub(super) capped: bool,
    /// Involuntary switches that pinning the two threads took.
    pub(super) switches: u64,
}

/// Quartets of one line: sums of the short and of the long batches, in ns.
#[derive(Debug, Default)]
struct LineQuartets {
    good: Vec<(f64, f64)>,
    void: Vec<(f64, f64)>,
}

/// What is written down.
pub(super) struct Quartets {
    pub(super) sums: Vec<(f64, f64)>,
    pub(super) voids: u32,
    /// The sums are void ones, because there are no others.
    pub(super) void_ones: bool,
}

impl Played {
    /// The good quartets of all lines, line by line; the void ones where there are no others.
    pub(super) fn quartets(&self) -> Quartets {
        let all = |of: fn(&LineQuartets) -> &[(f64, f64)]| {
            let lines = self.lines.iter();
            lines.flat_map(of).copied().collect::<Vec<_>>()
        };
        let good = all(|line| &line.good);
        let void = all(|line| &line.void);
        Quartets {
            voids: u32::try_from(void.len()).unwrap_or(u32::MAX),
            void_ones: good.is_empty(),
            sums: if good.is_empty() { void } else { good },
        }
    }

    /// The least and the greatest of the lines' medians, in ns per transfer.
    pub(super) fn line_spread(&self) -> Option<(f64, f64)> {
        let medians: Vec<f64> = self
            .lines
            .iter()
            .filter_map(|line| {
                let transfers = |(n, two_n): &(f64, f64)| (two_n - n) / (2.0 * self.k as f64);
                median(&line.good.iter().map(transfers).collect::<Vec<_>>())
            })
            .collect();
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
    /// The second party has failed.
    failed: AtomicBool,
}

/// Ends the game when the first party leaves, whichever way.
struct Ending<'table>(&'table Table);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.current.store(OVER, Ordering::Release);
    }
}

impl Game {
    /// Plays every line. Both parties are threads of their own, pinned, so that any two CPUs can
    /// play; the calling thread sleeps.
    ///
    /// # Errors
    /// A CPU cannot be had; a party does not hear of the other for two seconds; the turns do not add
    /// up.
    pub(super) fn play(&self, bench: &Bench) -> Result<Played> {
        ensure!(
            self.cpus[0] != self.cpus[1],
            "CPU {} hands no line to itself",
            self.cpus[0]
        );
        let table = Table {
            lines: Lines::new(self.lines).context("fresh lines")?,
            current: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        };
        let timing = Timing::new(self, bench);
        let (first, second) = thread::scope(|scope| -> Result<_> {
            let table = &table;
            let second = thread::Builder::new().spawn_scoped(scope, move || {
                let outcome = self.answer(table);
                table.failed.store(outcome.is_err(), Ordering::Release);
                outcome
            });
            let second = second.map_err(refused::told)?;
            // Made here, so that the second party ends also where the first cannot be made.
            let ending = Ending(table);
            let first = thread::Builder::new().spawn_scoped(scope, move || {
                let _ending = ending;
                self.measure(table, timing)
            });
            let first = first.map_err(refused::told)?;
            let died = |_| Err(anyhow!("a party panicked"));
            Ok((
                first.join().unwrap_or_else(died),
                second
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a party panicked"))),
            ))
        })?;
        // Where both failed, the second's reason is why the first heard nothing.
        let (turns, switches) = second?;
        let (mut played, made) = first?;
        played.switches += switches;
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

    /// The second party: answers on each line until the next. Returns its turns on each, and the
    /// involuntary switches of its pinning.
    fn answer(&self, table: &Table) -> Result<(Vec<u64>, u64)> {
        let switches = pin(self.cpus[1])?;
        let mut turns = Vec::new();
        for line in 0..self.lines {
            let is_on = |current: usize| current > line;
            await_that("the first party", || {
                is_on(table.current.load(Ordering::Acquire))
            })?;
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
                done += table
                    .lines
                    .play(line, TRANSFERS * done + 1, u64::MAX, SPINS_SECOND);
                if is_last {
                    break;
                }
            }
            turns.push(done);
        }
        check_place(self.cpus[1])?;
        Ok((turns, switches))
    }

    /// The first party: times each line. Returns what it found and its turns on each line.
    fn measure(&self, table: &Table, timing: Timing) -> Result<(Played, Vec<u64>)> {
        let mut played = Played {
            switches: pin(self.cpus[0])?,
            ..Played::default()
        };
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
            let mut seat = Seat {
                table,
                line,
                done: 0,
            };
            let turns = match batch {
                Some(turns) => turns,
                None => {
                    let (turns, capped) = timing.search(&mut seat)?;
                    played.capped = capped;
                    *batch.insert(turns)
                }
            };
            let quartets = timing.quartets(&mut seat, turns)?;
            played.lines.push(quartets);
            made.push(seat.done);
        }
        played.k = TRANSFERS * batch.unwrap_or(TURNS_MIN);
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
            let made = self
                .table
                .lines
                .play(self.line, expected, left, SPINS_FIRST);
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

/// How the first party times.
#[derive(Clone, Copy, Debug)]
struct Timing {
    clock: Clock,
    batch_ns: f64,
    line_ns: f64,
    quartets_min: usize,
    quartets_max: usize,
    reference_steps: u64,
}

impl Timing {
    fn new(game: &Game, bench: &Bench) -> Timing {
        let calibration = bench.calibration();
        let rehearsal = bench.order().rehearsal;
        let batch_ns = (COST_FACTOR * calibration.pair_cost_ns)
            .max(RESOLUTION_FACTOR * calibration.resolution_ns);
        let core_hz = match calibration.core_hz > 0.0 {
            true => calibration.core_hz,
            false => CORE_HZ,
        };
        let reference_ns = REFERENCE_NS.max(REFERENCE_STEPS * calibration.resolution_ns);
        let least = match rehearsal {
            true => QUARTETS_MIN_REHEARSAL,
            false => QUARTETS_MIN,
        };
        Timing {
            clock: bench.clock(),
            batch_ns,
            line_ns: game.case_ns / game.lines as f64,
            quartets_min: least.div_ceil(game.lines),
            quartets_max: QUARTETS_MAX.div_ceil(game.lines),
            // A rotation takes a cycle.
            reference_steps: (reference_ns * core_hz / 1e9) as u64,
        }
    }

    /// Length of so many turns, in ns. Never inlined, so that n and 2n run the same code.
    #[inline(never)]
    fn window(&self, seat: &mut Seat, turns: u64) -> Result<f64> {
        let turns = black_box(turns);
        let start = self.clock.start();
        let outcome = seat.turns(turns);
        let end = self.clock.end();
        outcome?;
        Ok(self.clock.between_ns(start, end))
    }

    #[inline(never)]
    fn reference(&self) -> f64 {
        let steps = black_box(self.reference_steps);
        let start = self.clock.start();
        black_box(chain_rotate(steps));
        self.clock.between_ns(start, self.clock.end())
    }

    /// Turns of a batch that is long enough, and whether a cap ended the search before.
    fn search(&self, seat: &mut Seat) -> Result<(u64, bool)> {
        let mut turns = TURNS_MIN;
        for _ in 0..STEPS_MAX {
            // The shorter of two: one may have been interrupted.
            let ns = self.window(seat, turns)?.min(self.window(seat, turns)?);
            if ns >= self.batch_ns {
                return Ok((turns, false));
            }
            let factor = (1.1 * self.batch_ns / ns.max(1.0)).clamp(1.0, 8.0);
            turns = ((turns as f64 * factor) as u64).max(turns + 1);
            if turns > TURNS_MAX {
                break;
            }
        }
        Ok((turns.min(TURNS_MAX), true))
    }

    /// Quartets on one line for its share of the time, after one batch that is not timed.
    fn quartets(&self, seat: &mut Seat, turns: u64) -> Result<LineQuartets> {
        let mut line = LineQuartets::default();
        seat.turns(turns)?;
        self.reference();
        let begin = self.clock.start();
        let mut before_ns = self.reference();
        loop {
            let first_ns = self.window(seat, turns)?;
            let second_ns = self.window(seat, 2 * turns)?;
            let third_ns = self.window(seat, 2 * turns)?;
            let fourth_ns = self.window(seat, turns)?;
            let after_ns = self.reference();
            let kept = match voids(before_ns, after_ns) {
                true => &mut line.void,
                false => &mut line.good,
            };
            kept.push((first_ns + fourth_ns, second_ns + third_ns));
            before_ns = after_ns;
            let tries = line.good.len() + line.void.len();
            let elapsed_ns = self.clock.between_ns(begin, self.clock.end());
            let with_next_ns = elapsed_ns * (tries + 1) as f64 / tries as f64;
            let is_late = with_next_ns > self.line_ns;
            let is_too_late = with_next_ns > PATIENCE_FACTOR * self.line_ns;
            let enough = line.good.len() >= self.quartets_min;
            if tries >= self.quartets_max
                || (enough && is_late)
                || (tries >= self.quartets_min && is_too_late)
            {
                return Ok(line);
            }
        }
    }
}

/// Pins the calling thread, and says how many involuntary switches that took.
fn pin(cpu: usize) -> Result<u64> {
    let before = process::rusage_thread().nivcsw;
    place::pin(cpu).with_context(|| format!("pinning a party to CPU {cpu}"))?;
    Ok(process::rusage_thread().nivcsw - before)
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
        ensure!(
            begin.elapsed() < PATIENCE,
            "{whom} did not come for {PATIENCE:?}"
        );
    }
}

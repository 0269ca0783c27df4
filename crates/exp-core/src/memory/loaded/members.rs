//! The chaser and the loaders of a round: what they keep from window to window, and one window.

use crate::memory::arrays::{Arrays, take_quickest};
use crate::memory::levels::Sized;
use crate::memory::locked;
use bench::measure::Team;
use bench::measure::placed::{Placed, place_near, verify_node};
use bench::measure::{BestWindow, Shared, best_window};
use bench::prelude::*;
use metal::chains::Chains;
use metal::stream::Kernel;
use std::sync::Mutex;

/// From piece to piece, in ns. A look at the time waits for the loads before it, about a latency,
/// so much shorter pieces could not reach the higher steps.
const PERIOD_NS: f64 = 3e3;
/// Least bytes of a piece.
const LEAST_PIECE: usize = 2048;
/// Bytes of a piece if no loader waits.
const PIECE_UNPACED: usize = 1 << 16;
/// Length of a step, in ns: long beside a clock read, short beside a window.
const STEP_NS: f64 = 20e3;
/// Loads of the chaser in a step: about as long, at 100 ns.
const LOADS: u64 = 200;
/// Bytes beside the arrays that a mapping needs so that any kernel's fit.
const APART: u64 = 1 << 16;
/// The share of a window that the look at the highest rate takes.
const LOOK: f64 = 0.5;
const LINE: f64 = 64.0;

pub(super) struct Party {
    /// The chaser's CPU, then the loaders'.
    cpus: Vec<usize>,
    clock: Clock,
    /// The chaser's walk and the loaders' arrays, each made on its CPU; arrays are absent only
    /// while they are laid out anew.
    walk: Mutex<Walk>,
    arrays: Vec<Mutex<Option<Arrays>>>,
    /// What a reader must know of the walk.
    note: Option<String>,
    loader_bytes: usize,
    /// Program bytes per second of all loaders without pause, by kernel.
    most: BTreeMap<String, f64>,
}

/// The chaser's walk, and on which node it is.
struct Walk {
    it: Chains,
    node: usize,
    notes: Vec<String>,
}

pub(super) struct Window {
    /// Time of a load in the chaser's median step, in ns.
    pub(super) latency_ns: f64,
    /// Bytes that memory moved, per second.
    pub(super) bytes_per_s: f64,
    /// Bytes that the loaders' programs moved, per second.
    pub(super) program_bytes_per_s: f64,
    /// Time of a load over the whole window, in ns.
    window_latency_ns: f64,
    overlap: f64,
    /// Bytes per second of the loaders' programs when they do not wait, in this round.
    most_bytes_per_s: f64,
    /// What a reader must know.
    pub(super) notes: Vec<String>,
}

impl Window {
    /// What stands beside the latency.
    pub(super) fn quantities(&self) -> [(String, f64); 3] {
        [
            ("window_latency".to_owned(), self.window_latency_ns),
            ("overlap".to_owned(), self.overlap),
            ("most_bytes_per_s".to_owned(), self.most_bytes_per_s),
        ]
    }
}

/// A loader between two pieces.
struct Pace {
    clock: Clock,
    /// Ticks from piece to piece; none without waiting.
    interval: Option<f64>,
    due: f64,
}

impl Pace {
    /// Waits until the next piece is due. One that is late by more than a piece begins anew, so
    /// that nothing is made up for in a burst.
    fn wait(&mut self, share_of_piece: f64) {
        let Some(interval) = self.interval else { return };
        let now = self.clock.end() as f64;
        self.due = next_due(self.due, interval * share_of_piece, now);
        while (self.clock.end() as f64) < self.due {
            std::hint::spin_loop();
        }
    }
}

/// When the next piece is due: an interval after the one before, but not more than one ago.
fn next_due(before: f64, interval: f64, now: f64) -> f64 {
    (before + interval).max(now - interval)
}

impl Party {
    /// The party of a resolved series, with all its memory. Errors: memory that is unavailable, or
    /// is not on its node.
    pub(super) fn new(
        case: &Case,
        loaders: &[usize],
        kernel: Kernel,
        bench: &Bench,
    ) -> Result<Party> {
        ensure!(!loaders.is_empty(), "the series has no loaders");
        let told = case.int("loader_bytes");
        let bytes = usize::try_from(told.context("the case was not resolved")?)?;
        let sized = Sized::from_case(case).context("the case was not resolved")?;
        let (footprint, slot) = (usize::try_from(sized.bytes)?, usize::try_from(sized.slot)?);
        let seed = bench.order().seed;
        let walks = Team::each(&[bench.order().cpu()], vec![()], |()| {
            let placed = place_near(sized.bytes)?;
            let node = placed.node;
            let it = Chains::new(placed.mapping, footprint, slot, seed)?;
            Ok(Walk { it, node, notes: placed.notes })
        });
        let mut walks = walks.context("placing the chaser's walk")?;
        let arrays = Team::each(loaders, vec![(); loaders.len()], |()| {
            passed(kernel, place_near(bytes as u64 + APART)?, bytes)
        });
        let arrays = arrays.context("placing the loaders' arrays")?;
        let mut cpus = vec![bench.order().cpu()];
        cpus.extend(loaders);
        Ok(Party {
            arrays: arrays.into_iter().map(|one| Mutex::new(Some(one))).collect(),
            cpus,
            clock: bench.order().clock(),
            walk: Mutex::new(walks.pop().context("no walk was made")?),
            note: sized.note,
            loader_bytes: bytes,
            most: BTreeMap::new(),
        })
    }

    /// One window at a share of the most that the loaders reach with the kernel. Errors: a member
    /// could not be made, or they were never at work together.
    pub(super) fn window(
        &mut self,
        bench: &mut Bench,
        kernel: Kernel,
        share: f64,
        window_ns: f64,
    ) -> Result<Window> {
        let name = format!("{kernel:?}");
        let most = match self.most.get(&name) {
            Some(most) => *most,
            None => {
                let window = self.run(bench, kernel, Some(f64::INFINITY), LOOK * window_ns)?;
                let most = self.program_rate(&window.shared);
                ensure!(most > 0.0, "the loaders moved nothing");
                self.most.insert(name, most);
                most
            }
        };
        let rate = match share {
            0.0 => None,
            1.0.. => Some(f64::INFINITY),
            _ => Some(share * most),
        };
        let window = self.run(bench, kernel, rate, window_ns)?;
        let shared = &window.shared;
        let (Some(chaser), seconds) = (shared.members.first(), shared.window_ns / 1e9) else {
            bail!("the team has no chaser");
        };
        ensure!(chaser.units > 0.0, "the chaser loaded nothing");
        let program = self.program_rate(shared);
        let bus = kernel.bus_bytes((program * seconds) as u64) as f64 / seconds;
        let window_latency_ns = shared.window_ns / chaser.units;
        let steady_ns = chaser.steady_rate.filter(|rate| *rate > 0.0);
        Ok(Window {
            latency_ns: steady_ns.map_or(window_latency_ns, |rate| 1e9 / rate),
            bytes_per_s: bus + chaser.units * LINE / seconds,
            program_bytes_per_s: program,
            window_latency_ns,
            overlap: shared.overlap,
            most_bytes_per_s: most,
            notes: self.notes(&window)?,
        })
    }

    /// Verifies, now that all has been used, that the loaders moved what they should, and that the
    /// memory is where it was placed. Errors: some of it is elsewhere, or an array holds other
    /// values than it must ([`WrongResult`]).
    pub(super) fn verify(&self) -> Result<()> {
        // If the kernel does not report it now, it did not at first: that is noted already.
        let walk = locked(&self.walk);
        verify_node(walk.it.mapping(), walk.node, &mut Vec::new())?;
        let arrays = self.arrays.iter().collect();
        Team::each(&self.cpus[1..], arrays, |arrays: &Mutex<Option<Arrays>>| {
            locked(arrays).as_ref().context("a loader has no arrays")?.verify()
        })?;
        Ok(())
    }

    fn program_rate(&self, shared: &Shared) -> f64 {
        let moved: f64 = shared.members.iter().skip(1).map(|one| one.units).sum();
        moved * 1e9 / shared.window_ns
    }

    fn notes(&self, window: &BestWindow) -> Result<Vec<String>> {
        let mut notes: Vec<String> = self.note.iter().cloned().collect();
        let walk = locked(&self.walk);
        ensure!(
            walk.it.is_right(),
            WrongResult("the chaser is not at the expected slot".to_owned())
        );
        notes.extend(walk.notes.iter().cloned());
        for arrays in &self.arrays {
            let told = locked(arrays).as_ref().map(|kept| kept.notes.clone());
            let new = told.into_iter().flatten().filter(|note| !notes.contains(note));
            let new: Vec<String> = new.map(|note| format!("a loader's memory: {note}")).collect();
            notes.extend(new);
        }
        notes.dedup();
        notes.extend(window.note());
        notes.extend(window.shared.notes());
        Ok(notes)
    }

    /// A team for one window; `rate` in program bytes per second of all loaders, none to wait only.
    fn run(
        &self,
        bench: &mut Bench,
        kernel: Kernel,
        rate: Option<f64>,
        window_ns: f64,
    ) -> Result<BestWindow> {
        let rehearsal = bench.order().rehearsal;
        let team = bench.team(&self.cpus, window_ns)?;
        best_window(rehearsal, false, || {
            team.run(|index| {
                let step: Box<dyn FnMut() -> Result<u64> + '_> = match index.checked_sub(1) {
                    None => Box::new(self.chaser()),
                    Some(loader) => Box::new(self.loader(loader, kernel, rate)?),
                };
                Ok(step)
            })
        })
    }

    fn chaser(&self) -> impl FnMut() -> Result<u64> + '_ {
        let mut walk = locked(&self.walk);
        move || {
            walk.it.chase(LOADS);
            Ok(LOADS)
        }
    }

    fn loader(
        &self,
        loader: usize,
        kernel: Kernel,
        rate: Option<f64>,
    ) -> Result<impl FnMut() -> Result<u64> + '_> {
        let mut arrays = locked(&self.arrays[loader]);
        let kept = arrays.take().context("the loader has no arrays")?;
        *arrays = Some(if kept.stream.kernel() == kernel {
            kept
        } else {
            kept.demand_right()?;
            passed(kernel, kept.into_placed(), self.loader_bytes)?
        });
        let clock = self.clock;
        let step_ticks = clock.ticks(STEP_NS);
        let mine = rate.map(|rate| rate / self.arrays.len() as f64);
        let paced = mine.filter(|rate| rate.is_finite());
        let piece = paced
            .map_or(PIECE_UNPACED, |rate| ((rate * PERIOD_NS / 1e9) as usize).max(LEAST_PIECE));
        let mut pace = Pace {
            clock,
            interval: paced.map(|rate| clock.ticks(piece as f64 * 1e9 / rate) as f64),
            due: clock.end() as f64,
        };
        Ok(move || {
            let begin = clock.end();
            let mut moved = 0;
            while clock.end() - begin < step_ticks {
                if mine.is_none() {
                    std::hint::spin_loop();
                    continue;
                }
                let kept = arrays.as_mut().context("the loader has no arrays")?;
                let bytes = kept.stream.step(piece);
                moved += bytes;
                pace.wait(bytes as f64 / piece as f64);
            }
            Ok(moved)
        })
    }
}

/// Arrays after a first pass, by the fastest loop: their values were written past the caches, so
/// that the first pass finds less of them in a last cache than those after it do.
fn passed(kernel: Kernel, placed: Placed, footprint_bytes: usize) -> Result<Arrays> {
    let mut arrays = Arrays::new(kernel, placed, footprint_bytes)?;
    take_quickest(&mut arrays.stream);
    arrays.stream.pass();
    Ok(arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_spread_evenly_and_no_burst_makes_up_for_a_pause() {
        let mut due = 100.0;
        // In time: every ten ticks.
        for now in [101.0, 111.0, 121.0] {
            due = next_due(due, 10.0, now);
        }
        assert_eq!(due, 130.0);
        // A little late: the next comes a little sooner.
        assert_eq!(next_due(130.0, 10.0, 145.0), 140.0);
        // Away for long: one piece at once, not a hundred.
        let after = next_due(140.0, 10.0, 1140.0);
        assert_eq!(after, 1130.0);
        assert!(next_due(after, 10.0, 1141.0) >= 1131.0);
    }
}

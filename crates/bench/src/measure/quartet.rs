//! Timing by difference: n operations against 2n in ABBA quartets (METHOD §2). What a window
//! costs besides its operations is the same in all four batches and goes away in the difference;
//! what drifts linearly goes away in the order.

use super::clock::Clock;
use super::width::{Probe, Reading, Watch};
use anyhow::{Result, ensure};
use record::event::Calibration;
use std::hint::black_box;

/// A batch is at least so many times the clock's cost …
const COST_FACTOR: f64 = 1000.0;
/// … and so many times its resolution.
const RESOLUTION_FACTOR: f64 = 100.0;
/// A quartet, 6 n operations, need not be longer than this, in ns.
const QUARTET_NS: f64 = 0.3e6;
/// Batches in a quartet, in units of n.
const QUARTET_OPERATIONS: f64 = 6.0;
/// No batch has more operations.
pub const OPERATIONS_MAX: u64 = 1 << 40;
/// No search takes more steps.
const STEPS_MAX: u32 = 60;
/// A step multiplies by no more than this: a first call that was too short says little.
const GROWTH_MAX: f64 = 10.0;
/// Quartets of a case: a round's median needs no more, and a thorough run has thousands of cases.
const QUARTETS_MAX: usize = 100;
/// Quartets of a case at least.
const QUARTETS_MIN: usize = 6;
const QUARTETS_MIN_REHEARSAL: usize = 2;

/// Least length of a batch that METHOD §2 allows, in ns.
fn least_ns(calibration: &Calibration) -> f64 {
    (COST_FACTOR * calibration.pair_cost_ns).max(RESOLUTION_FACTOR * calibration.resolution_ns)
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Least length of a batch, in ns.
    pub batch_ns: f64,
    /// Least length that METHOD §2 allows, in ns.
    pub least_ns: f64,
    /// Measuring time of the case, in ns.
    pub case_ns: f64,
    pub quartets_min: usize,
    pub quartets_max: usize,
}

impl Goal {
    /// The goal for a case: quartets of 0.3 ms, within which a neighbour mostly stays or stays
    /// away, and beside which five probes take little; shorter ones where the case's time is, but
    /// no batch shorter than METHOD §2 allows.
    pub fn new(calibration: &Calibration, case_ns: u64, rehearsal: bool) -> Self {
        let least_ns = least_ns(calibration);
        let case_ns = case_ns as f64;
        let quartet_ns = (case_ns / QUARTETS_MIN as f64).min(QUARTET_NS);
        let filling_ns = quartet_ns / QUARTET_OPERATIONS;
        let quartets_min = if rehearsal { QUARTETS_MIN_REHEARSAL } else { QUARTETS_MIN };
        Goal {
            batch_ns: filling_ns.max(least_ns),
            least_ns,
            case_ns,
            quartets_min,
            quartets_max: QUARTETS_MAX,
        }
    }

    /// The same with batches of `batch_ns`, or longer where METHOD §2 asks for it.
    pub fn with_batches(self, batch_ns: f64) -> Self {
        Goal { batch_ns: batch_ns.max(self.least_ns), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    pub operations: u64,
    /// Length at the last look, in ns.
    pub batch_ns: f64,
    /// Length that METHOD §2 asks for, in ns.
    pub least_ns: f64,
    /// A cap ended the search before the batch was long enough.
    pub capped: bool,
}

impl Batch {
    /// What a reader must know of it.
    pub fn note(&self) -> Option<String> {
        self.capped.then(|| {
            format!(
                "the batch search reached its limit: {} operations take {:.0} ns, the goal is \
                 {:.0} ns",
                self.operations, self.batch_ns, self.least_ns
            )
        })
    }
}

/// Times batches and quartets towards a goal; to be copied into the thread that measures.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    pub clock: Clock,
    pub goal: Goal,
    /// Reads how wide the core is at each batch boundary; none where the probes would not see all
    /// cores that the case uses, or cannot be read here.
    pub probe: Option<Probe>,
}

/// Sums of the two short and of the two long batches of a quartet, in ns.
pub type Quartet = (f64, f64);

/// A quartet of n, 2n, 2n, n; `body` does so many operations and says how long they took, in ns.
/// Errors: the first error of the body.
#[inline]
pub fn abba(
    n: u64,
    watch: &mut Watch,
    body: &mut impl FnMut(u64) -> Result<f64>,
) -> Result<Quartet> {
    let first_ns = watch.batch(body(n)?);
    let second_ns = watch.batch(body(2 * n)?);
    let third_ns = watch.batch(body(2 * n)?);
    let fourth_ns = watch.batch(body(n)?);
    Ok((first_ns + fourth_ns, second_ns + third_ns))
}

/// ns per operation of quartets with `k` operations in the short batch.
pub fn samples(quartets: &[Quartet], k: u64) -> Vec<f64> {
    let each = |(short, long): &Quartet| (long - short) / (2.0 * k as f64);
    quartets.iter().map(each).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct Turns<T> {
    /// All but those that failed a check of their own.
    pub kept: Vec<T>,
    /// What the probes around each quartet read; empty without a probe.
    pub readings: Vec<Reading>,
    /// Turns that failed a check of their own.
    pub refused: u32,
    pub wanted: usize,
}

impl<T> Turns<T> {
    /// Itself, unless the list is empty. Errors: all failed their check.
    pub fn or_fail(self) -> Result<Self> {
        ensure!(!self.kept.is_empty(), "all {} quartets failed a check of their own", self.refused);
        Ok(self)
    }

    /// What a reader must know of them.
    pub fn note(&self) -> Option<String> {
        (self.kept.len() < self.wanted)
            .then(|| format!("only {} quartets of at least {}", self.kept.len(), self.wanted))
    }

    /// The same turns with each value replaced.
    pub fn map<U>(&self, of: impl FnMut(&T) -> U) -> Turns<U> {
        Turns {
            kept: self.kept.iter().map(of).collect(),
            readings: self.readings.clone(),
            refused: self.refused,
            wanted: self.wanted,
        }
    }

    /// The turns of several places one after another.
    pub fn joined(places: impl IntoIterator<Item = Turns<T>>) -> Turns<T> {
        let mut all = Turns { kept: Vec::new(), readings: Vec::new(), refused: 0, wanted: 0 };
        for place in places {
            all.kept.extend(place.kept);
            all.readings.extend(place.readings);
            all.refused += place.refused;
            all.wanted += place.wanted;
        }
        all
    }

    /// Leaves the first ones out.
    pub fn skip(&mut self, count: usize) {
        self.kept.drain(..count);
        self.readings.drain(..count.min(self.readings.len()));
    }
}

impl Timer {
    /// Reads the width probe between the events of a case on one CPU.
    pub fn watch(&self) -> Watch {
        Watch::new(self.probe)
    }

    /// Length of one call of `body` with so many operations, in ns. Never inlined, so that n and 2n
    /// run the same code. Errors: those of the body.
    #[inline(never)]
    pub fn timed(&self, operations: u64, body: &mut impl FnMut(u64) -> Result<()>) -> Result<f64> {
        let operations = black_box(operations);
        let start = self.clock.start();
        let outcome = body(operations);
        let end = self.clock.end();
        outcome?;
        Ok(self.clock.between_ns(start, end))
    }

    /// Grows n until a batch lasts `goal.batch_ns`; `body` says how long a batch took, in ns. Ends
    /// for every body: n, the steps and the time are capped. A length that suffices is looked at
    /// again, because the first call of a body is the cold one. Errors: the first error of the
    /// body.
    pub fn search(&self, body: &mut impl FnMut(u64) -> Result<f64>) -> Result<Batch> {
        let goal = &self.goal;
        let mut operations = 1;
        let mut spent_ns = 0.0;
        let mut batch_ns = 0.0;
        for _ in 0..STEPS_MAX {
            batch_ns = body(operations)?;
            spent_ns += batch_ns;
            if batch_ns >= goal.batch_ns {
                // One that alone takes the case's time is long enough, cold or not.
                if spent_ns + batch_ns > goal.case_ns {
                    return Ok(long_enough(goal, operations, batch_ns));
                }
                let again_ns = body(operations)?;
                spent_ns += again_ns;
                batch_ns = batch_ns.min(again_ns);
                if batch_ns >= goal.batch_ns {
                    return Ok(long_enough(goal, operations, batch_ns));
                }
            }
            if operations >= OPERATIONS_MAX || spent_ns > goal.case_ns {
                break;
            }
            operations = grown(operations, batch_ns, goal.batch_ns);
        }
        Ok(Batch {
            operations,
            batch_ns,
            least_ns: goal.least_ns,
            capped: batch_ns < goal.least_ns,
        })
    }

    /// Takes turns of a quartet each for the case's time. A turn reads the width probe after each
    /// of its batches ([`abba`]) and may be `None` where it failed a check of its own; between two
    /// turns stands a short chain for the core's cycle. Nothing is left out for how long it took,
    /// and nothing is allocated or called between the turns except the clock. Errors: the first
    /// error of a turn.
    pub fn repeat<T>(
        &self,
        turn: &mut impl FnMut(&mut Watch) -> Result<Option<T>>,
    ) -> Result<Turns<T>> {
        let goal = &self.goal;
        let mut kept = Vec::with_capacity(goal.quartets_max);
        let mut readings = Vec::with_capacity(self.probe.map_or(0, |_| goal.quartets_max));
        let mut refused = 0_u32;
        let mut watch = Watch::new(self.probe);
        let begin = self.clock.start();
        let mut attempts: usize = 0;
        loop {
            watch.begin();
            let taken = turn(&mut watch)?;
            let seen = watch.end();
            match taken {
                Some(value) => {
                    kept.push(value);
                    readings.extend(seen);
                }
                None => refused = refused.saturating_add(1),
            }
            attempts += 1;
            let elapsed_ns = self.clock.between_ns(begin, self.clock.end());
            let with_next_ns = elapsed_ns * (attempts + 1) as f64 / attempts as f64;
            if is_over(goal, attempts, kept.len(), with_next_ns) {
                break;
            }
        }
        Ok(Turns { kept, readings, refused, wanted: goal.quartets_min })
    }
}

fn long_enough(goal: &Goal, operations: u64, batch_ns: f64) -> Batch {
    Batch { least_ns: goal.least_ns, operations, batch_ns, capped: false }
}

/// The next n: what the last length suggests and a tenth more, at least one more and at most ten
/// times as many.
fn grown(operations: u64, batch_ns: f64, goal_ns: f64) -> u64 {
    let factor = (1.1 * goal_ns / batch_ns.max(1.0)).clamp(1.0, GROWTH_MAX);
    let next = (operations as f64 * factor).round() as u64;
    next.max(operations + 1).min(OPERATIONS_MAX)
}

/// Whether the case ends now: `with_next_ns` is what it would have taken with one more quartet.
fn is_over(goal: &Goal, attempts: usize, kept: usize, with_next_ns: f64) -> bool {
    kept >= goal.quartets_max || (attempts >= goal.quartets_min && with_next_ns > goal.case_ns)
}

#[cfg(test)]
mod tests;

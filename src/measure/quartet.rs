//! Timing by difference: n operations against 2n in ABBA quartets (METHOD §2). What a window
//! costs besides its operations is the same in all four batches and goes away in the difference;
//! what drifts linearly goes away in the order.

use super::clock::Clock;
use super::core_clock::CoreClock;
use anyhow::Result;
use metal::kernel::chain_rotate;
use record::event::Calibration;
use std::hint::black_box;

/// A batch is at least so many times the clock's cost …
const COST_FACTOR: f64 = 1000.0;
/// … and so many times its resolution.
const RESOLUTION_FACTOR: f64 = 100.0;
/// A quartet, 6 n operations, need not be longer than this, in ns.
const QUARTET_NS: f64 = 1e6;
/// Batches in a quartet, in units of n.
const QUARTET_OPERATIONS: f64 = 6.0;
/// No batch has more operations.
pub(crate) const OPERATIONS_MAX: u64 = 1 << 40;
/// No search takes more steps.
const STEPS_MAX: u32 = 60;
/// A step multiplies by no more than this: a first call that was too short to tell says little.
const GROWTH_MAX: f64 = 10.0;
/// Quartets of a case: a round's median needs no more, and a thorough run has thousands of cases.
pub(crate) const QUARTETS_MAX: usize = 100;
/// Quartets of a case at least.
const QUARTETS_MIN: usize = 6;
/// The same in a rehearsal.
const QUARTETS_MIN_REHEARSAL: usize = 2;
/// Where too many quartets are void the case may take so many times its time.
const PATIENCE: f64 = 3.0;
/// Reference chains around a quartet, in ns.
const REFERENCE_NS: f64 = 10e3;
/// A reference chain is at least so many of the clock's steps: half of the tolerance.
const REFERENCE_STEPS: f64 = 200.0;
/// Relative difference of the two above which the quartet is void.
const REFERENCE_TOLERANCE: f64 = 0.01;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    /// Least length of a batch, in ns.
    pub(crate) batch_ns: f64,
    /// Least length that METHOD §2 allows, in ns.
    pub(crate) least_ns: f64,
    /// Measuring time of the case, in ns.
    pub(crate) case_ns: f64,
    /// Quartets at least.
    pub(crate) quartets_min: usize,
    /// Length of a reference chain, in ns.
    pub(crate) reference_ns: f64,
    /// Void quartets are given where there are no others: in a rehearsal, whose figures mean nothing.
    pub(crate) keeps_void: bool,
}

impl Goal {
    /// The goal for a case: batches as short as METHOD §2 allows, but so long that the most
    /// quartets fill the case's time, up to a quartet of a millisecond.
    pub(crate) fn new(calibration: &Calibration, case_ns: u64, rehearsal: bool) -> Self {
        let least_ns = (COST_FACTOR * calibration.pair_cost_ns)
            .max(RESOLUTION_FACTOR * calibration.resolution_ns);
        let case_ns = case_ns as f64;
        let filling_ns = (case_ns / QUARTETS_MAX as f64).min(QUARTET_NS) / QUARTET_OPERATIONS;
        Goal {
            batch_ns: filling_ns.max(least_ns),
            least_ns,
            case_ns,
            keeps_void: rehearsal,
            reference_ns: REFERENCE_NS.max(REFERENCE_STEPS * calibration.resolution_ns),
            quartets_min: if rehearsal {
                QUARTETS_MIN_REHEARSAL
            } else {
                QUARTETS_MIN
            },
        }
    }
}

/// The batch that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Batch {
    /// Operations.
    pub(crate) operations: u64,
    /// Length at the last look, in ns.
    pub(crate) batch_ns: f64,
    /// A cap ended the search before the batch was long enough.
    pub(crate) capped: bool,
}

/// A length in ticks of one call of `body` with `operations`. Never inlined, so that n and 2n run
/// the same code.
#[inline(never)]
fn timed(clock: Clock, body: &mut impl FnMut(u64) -> Result<()>, operations: u64) -> Result<f64> {
    let operations = black_box(operations);
    let start = clock.start();
    let outcome = body(operations);
    let end = clock.end();
    outcome?;
    Ok(clock.between_ns(start, end))
}

/// Grows n until a batch lasts `goal.batch_ns`. Ends for every body: n, the steps and the time
/// are capped. A length that suffices is looked at again, because the first call of a body is the
/// cold one.
///
/// # Errors
/// The first error of the body.
pub(crate) fn search(
    clock: Clock,
    goal: &Goal,
    body: &mut impl FnMut(u64) -> Result<()>,
) -> Result<Batch> {
    let mut operations = 1;
    let mut spent_ns = 0.0;
    let mut batch_ns = 0.0;
    for _ in 0..STEPS_MAX {
        batch_ns = timed(clock, body, operations)?;
        spent_ns += batch_ns;
        if batch_ns >= goal.batch_ns {
            // One that alone takes the case's time is long enough, cold or not.
            if spent_ns + batch_ns > goal.case_ns {
                return Ok(long_enough(operations, batch_ns));
            }
            let again_ns = timed(clock, body, operations)?;
            spent_ns += again_ns;
            batch_ns = batch_ns.min(again_ns);
            if batch_ns >= goal.batch_ns {
                return Ok(long_enough(operations, batch_ns));
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
        capped: batch_ns < goal.least_ns,
    })
}

fn long_enough(operations: u64, batch_ns: f64) -> Batch {
    Batch {
        operations,
        batch_ns,
        capped: false,
    }
}

/// The next n: what the last length suggests and a tenth more, at least one more and at most ten
/// times as many.
fn grown(operations: u64, batch_ns: f64, goal_ns: f64) -> u64 {
    let factor = (1.1 * goal_ns / batch_ns.max(1.0)).clamp(1.0, GROWTH_MAX);
    let next = (operations as f64 * factor).round() as u64;
    next.max(operations + 1).min(OPERATIONS_MAX)
}

/// Quartets of a case: the sums of the two short and of the two long batches, in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quartets {
    /// Sums of the two batches of n.
    pub(crate) n: Vec<f64>,
    /// Sums of the two batches of 2 n.
    pub(crate) two_n: Vec<f64>,
    /// Quartets that their reference chains voided.
    pub(crate) voids: u32,
    /// The quartets given are void ones, because there are no others.
    pub(crate) void_ones: bool,
    /// Quartets wanted at least.
    pub(crate) wanted: usize,
}

impl Quartets {
    fn with_room(wanted: usize) -> Self {
        Quartets {
            n: Vec::with_capacity(QUARTETS_MAX),
            two_n: Vec::with_capacity(QUARTETS_MAX),
            wanted,
            ..Quartets::default()
        }
    }

    fn push(&mut self, short_ns: f64, long_ns: f64) {
        self.n.push(short_ns);
        self.two_n.push(long_ns);
    }

    /// Drops the first `count`.
    pub(crate) fn discard(&mut self, count: usize) {
        self.n.drain(..count);
        self.two_n.drain(..count);
    }

    /// The samples: ns per operation, for `k` operations in the short batch.
    pub(crate) fn samples(&self, k: u64) -> Vec<f64> {
        self.n
            .iter()
            .zip(&self.two_n)
            .map(|(short, long)| (long - short) / (2.0 * k as f64))
            .collect()
    }
}

/// Length in ns of a reference chain of so many steps. Never inlined, as [`timed`].
#[inline(never)]
pub(crate) fn reference(clock: Clock, steps: u64) -> f64 {
    let steps = black_box(steps);
    let start = clock.start();
    black_box(chain_rotate(steps));
    clock.between_ns(start, clock.end())
}

/// Whether reference chains of these lengths void the quartet between them.
pub(crate) fn voids(before_ns: f64, after_ns: f64) -> bool {
    (after_ns - before_ns).abs() > REFERENCE_TOLERANCE * before_ns.min(after_ns)
}

/// Runs quartets for the case's time. One reference chain stands between two quartets: after the
/// one and before the other. Void quartets are counted and left out; where that leaves too few
/// the case goes on to three times its time, and where it leaves none the case has no value in this round (a rehearsal takes the void ones).
/// Nothing is allocated or called between the batches except the clock.
///
/// # Errors
/// The first error of the body.
pub(crate) fn quartets(
    clock: Clock,
    goal: &Goal,
    core: &CoreClock,
    operations: u64,
    body: &mut impl FnMut(u64) -> Result<()>,
) -> Result<Quartets> {
    let steps = core.rotations(goal.reference_ns);
    let mut good = Quartets::with_room(goal.quartets_min);
    let mut void = Quartets::with_room(goal.quartets_min);
    reference(clock, steps);
    let begin = clock.start();
    let mut before_ns = reference(clock, steps);
    let mut attempts: usize = 0;
    loop {
        let first_ns = timed(clock, body, operations)?;
        let second_ns = timed(clock, body, 2 * operations)?;
        let third_ns = timed(clock, body, 2 * operations)?;
        let fourth_ns = timed(clock, body, operations)?;
        let after_ns = reference(clock, steps);
        let kept = if voids(before_ns, after_ns) {
            good.voids = good.voids.saturating_add(1);
            &mut void
        } else {
            &mut good
        };
        if kept.n.len() < QUARTETS_MAX {
            kept.push(first_ns + fourth_ns, second_ns + third_ns);
        }
        before_ns = after_ns;
        attempts += 1;
        let elapsed_ns = clock.between_ns(begin, clock.end());
        let with_next_ns = elapsed_ns * (attempts + 1) as f64 / attempts as f64;
        if is_over(goal, attempts, good.n.len(), with_next_ns) {
            break;
        }
    }
    if good.n.is_empty() && goal.keeps_void {
        void.voids = good.voids;
        void.void_ones = true;
        return Ok(void);
    }
    Ok(good)
}

/// Whether the case ends now: `with_next_ns` is what it would have taken with one more quartet.
fn is_over(goal: &Goal, attempts: usize, good: usize, with_next_ns: f64) -> bool {
    let limit_ns = if good < goal.quartets_min {
        PATIENCE * goal.case_ns
    } else {
        goal.case_ns
    };
    good >= QUARTETS_MAX || (attempts >= goal.quartets_min && with_next_ns > limit_ns)
}

#[cfg(test)]
mod tests {
    use super::{Goal, OPERATIONS_MAX, QUARTETS_MAX, Quartets, grown, is_over, search, voids};
    use crate::measure::clock::Clock;
    use crate::measure::core_clock::{CoreClock, Windows};

    const GOAL: Goal = Goal {
        batch_ns: 2e3,
        least_ns: 1e3,
        case_ns: 1e6,
        quartets_min: 6,
        reference_ns: 1e4,
        keeps_void: true,
    };

    #[test]
    fn a_search_for_a_body_without_time_ends_at_its_cap() {
        let goal = Goal {
            batch_ns: 1e18,
            least_ns: 1e18,
            case_ns: 1e18,
            ..GOAL
        };
        let mut calls = 0;
        let batch = search(Clock::Monotonic, &goal, &mut |_| {
            calls += 1;
            Ok(())
        })
        .expect("ends");
        assert!(batch.capped);
        assert_eq!(batch.operations, OPERATIONS_MAX);
        assert!(calls <= 60, "{calls}");
    }

    #[test]
    fn a_search_stops_where_the_case_has_no_more_time() {
        let goal = Goal {
            batch_ns: 1e18,
            least_ns: 1e18,
            case_ns: 0.0,
            ..GOAL
        };
        let mut calls = 0;
        let batch = search(Clock::Monotonic, &goal, &mut |_| {
            calls += 1;
            std::hint::black_box(metal::kernel::chain_multiply(10_000));
            Ok(())
        })
        .expect("ends");
        assert!(batch.capped);
        assert_eq!(calls, 1);
        assert_eq!(batch.operations, 1);
    }

    #[test]
    fn a_found_batch_was_long_enough_twice() {
        let mut asked = Vec::new();
        let mut body = |n| {
            asked.push(n);
            std::hint::black_box(metal::kernel::chain_multiply(n));
            Ok(())
        };
        let goal = Goal {
            case_ns: 1e9,
            ..GOAL
        };
        let batch = search(Clock::Monotonic, &goal, &mut body).expect("ends");
        assert!(
            !batch.capped && batch.batch_ns >= goal.batch_ns,
            "{batch:?}"
        );
        assert_eq!(asked.first(), Some(&1));
        assert_eq!(asked[asked.len() - 2..], [batch.operations; 2]);
        assert!(asked.is_sorted());
    }

    #[test]
    fn the_next_n_follows_the_length_within_its_limits() {
        for (operations, batch_ns, next) in [
            (1, 0.0, 10),
            (100, 1000.0, 220),
            (100, 1990.0, 111),
            (1, 1999.0, 2),
            (OPERATIONS_MAX / 2, 0.0, OPERATIONS_MAX),
        ] {
            assert_eq!(grown(operations, batch_ns, 2000.0), next, "{operations}");
        }
    }

    #[test]
    fn a_quartet_is_void_by_its_references_only() {
        assert!(!voids(10_000.0, 10_100.0));
        assert!(!voids(10_100.0, 10_000.0));
        assert!(voids(10_000.0, 10_101.0));
        assert!(voids(10_101.0, 10_000.0));
    }

    #[test]
    fn a_case_ends_by_time_by_count_and_by_patience() {
        for (attempts, good, with_next_ns, over) in [
            (6, 6, 0.9e6, false),
            (6, 6, 1.1e6, true),
            (5, 5, 9e9, false),
            (20, 5, 2.9e6, false),
            (20, 5, 3.1e6, true),
            (6, 0, 3.1e6, true),
            (QUARTETS_MAX, QUARTETS_MAX, 0.1e6, true),
        ] {
            assert_eq!(
                is_over(&GOAL, attempts, good, with_next_ns),
                over,
                "{attempts} {good} {with_next_ns}"
            );
        }
    }

    #[test]
    fn samples_are_half_the_difference_per_operation_of_any_sign() {
        let mut quartets = Quartets {
            n: vec![300.0, 400.0, 210.0],
            two_n: vec![500.0, 600.0, 200.0],
            ..Quartets::default()
        };
        assert_eq!(quartets.samples(10), [10.0, 10.0, -0.5]);
        quartets.discard(1);
        assert_eq!(quartets.samples(10), [10.0, -0.5]);
    }

    #[test]
    fn batches_come_as_n_2n_2n_n() {
        let core = CoreClock::new(Clock::Monotonic, Windows::REHEARSAL);
        let mut asked = Vec::new();
        let quartets = super::quartets(Clock::Monotonic, &GOAL, &core, 7, &mut |n| {
            asked.push(n);
            Ok(())
        })
        .expect("runs");
        let count = quartets.n.len().max(1);
        assert!(asked.len() >= 4 * count && asked.len().is_multiple_of(4));
        assert!(asked.chunks(4).all(|quartet| quartet == [7, 14, 14, 7]));
        let taken = if quartets.void_ones {
            quartets.voids as usize
        } else {
            count + quartets.voids as usize
        };
        assert!(taken == asked.len() / 4 || count == QUARTETS_MAX);
        assert_eq!(asked.iter().sum::<u64>(), 6 * 7 * (asked.len() / 4) as u64);
    }

    #[test]
    fn the_first_error_of_a_body_ends_everything() {
        let core = CoreClock::new(Clock::Monotonic, Windows::REHEARSAL);
        let mut calls = 0;
        let mut body = |_| {
            calls += 1;
            if calls == 3 {
                anyhow::bail!("third call");
            }
            Ok(())
        };
        super::quartets(Clock::Monotonic, &GOAL, &core, 1, &mut body).expect_err("third call");
        assert_eq!(calls, 3);
    }
}

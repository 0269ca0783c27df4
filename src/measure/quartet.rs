//! Timing by difference: n operations against 2n in ABBA quartets (METHOD §2). What a window
//! costs besides its operations is the same in all four batches and goes away in the difference;
//! what drifts linearly goes away in the order.

use super::clock::Clock;
use anyhow::{Result, ensure};
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
const QUARTETS_MAX: usize = 100;
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

/// Least length of a batch that METHOD §2 allows, in ns.
fn least_ns(calibration: &Calibration) -> f64 {
    (COST_FACTOR * calibration.pair_cost_ns).max(RESOLUTION_FACTOR * calibration.resolution_ns)
}

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
    /// Quartets at most.
    pub(crate) quartets_max: usize,
    /// Length of a reference chain, in ns.
    pub(crate) reference_ns: f64,
    /// Void quartets are given where there are no others: in a rehearsal, whose figures mean nothing.
    pub(crate) keeps_void: bool,
}

impl Goal {
    /// The goal for a case: batches as short as METHOD §2 allows, but so long that the most
    /// quartets fill the case's time, up to a quartet of a millisecond.
    pub(crate) fn new(calibration: &Calibration, case_ns: u64, rehearsal: bool) -> Self {
        let least_ns = least_ns(calibration);
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
            quartets_max: QUARTETS_MAX,
        }
    }

    /// The same with batches of `batch_ns`, or longer where METHOD §2 asks for it.
    pub(crate) fn with_batches(self, batch_ns: f64) -> Self {
        Goal {
            batch_ns: batch_ns.max(self.least_ns),
            ..self
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
    /// Length that METHOD §2 asks for, in ns.
    pub(crate) least_ns: f64,
    /// A cap ended the search before the batch was long enough.
    pub(crate) capped: bool,
}

impl Batch {
    /// What a reader must know of it.
    pub(crate) fn note(&self) -> Option<String> {
        self.capped.then(|| {
            format!(
                "the batch search ended at its cap: {} operations take {:.0} ns, {:.0} ns are asked for",
                self.operations, self.batch_ns, self.least_ns
            )
        })
    }
}

/// Times batches and quartets towards a goal; to be copied into the thread that measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    /// The clock of the windows.
    pub(crate) clock: Clock,
    /// What is aimed at.
    pub(crate) goal: Goal,
    /// Steps of a reference chain.
    pub(crate) reference_steps: u64,
}

/// Sums of the two short and of the two long batches of a quartet, in ns.
pub(crate) type Quartet = (f64, f64);

/// A quartet of n, 2n, 2n, n; `body` does so many operations and says how long they took, in ns.
///
/// # Errors
/// The first error of the body.
#[inline]
pub(crate) fn abba(n: u64, body: &mut impl FnMut(u64) -> Result<f64>) -> Result<Quartet> {
    let first_ns = body(n)?;
    let second_ns = body(2 * n)?;
    let third_ns = body(2 * n)?;
    let fourth_ns = body(n)?;
    Ok((first_ns + fourth_ns, second_ns + third_ns))
}

/// ns per operation of quartets with `k` operations in the short batch.
pub(crate) fn samples(quartets: &[Quartet], k: u64) -> Vec<f64> {
    let each = |(short, long): &Quartet| (long - short) / (2.0 * k as f64);
    quartets.iter().map(each).collect()
}

/// What a turn of [`Timer::repeat`] gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn<T> {
    /// A quartet, or what stands in its place.
    pub(crate) value: T,
    /// Something voids it beside the core clock.
    pub(crate) disturbed: bool,
}

/// The turns of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turns<T> {
    /// Those that are not void, unless `void_ones`.
    pub(crate) kept: Vec<T>,
    /// Turns that are void.
    pub(crate) voids: u32,
    /// Those of them in which something happened beside the core clock.
    pub(crate) disturbed: u32,
    /// The kept ones are void, because there are no others: in a rehearsal.
    pub(crate) void_ones: bool,
    /// Turns wanted at least.
    pub(crate) wanted: usize,
}

impl<T> Turns<T> {
    /// Itself, unless there are none.
    ///
    /// # Errors
    /// All are void; why.
    pub(crate) fn or_fail(self) -> Result<Self> {
        ensure!(!self.kept.is_empty(), "{}", self.all_void());
        Ok(self)
    }

    /// What a reader must know of them.
    pub(crate) fn note(&self) -> Option<String> {
        if self.void_ones {
            return Some(format!("{}, and stand here as they are", self.all_void()));
        }
        (self.kept.len() < self.wanted).then(|| {
            format!(
                "only {} quartets of at least {} are not void",
                self.kept.len(),
                self.wanted
            )
        })
    }

    fn all_void(&self) -> String {
        let why = match self.disturbed {
            0 => "the core clock moved around each".to_owned(),
            count => format!(
                "the core clock moved around each, or a party was switched against its will ({count})"
            ),
        };
        format!("all {} quartets are void ({why})", self.voids)
    }
}

impl<T: Clone> Turns<T> {
    /// Those of several places together. Void ones count only where all are.
    pub(crate) fn joined(places: &[Turns<T>]) -> Turns<T> {
        let void_ones = places.iter().all(|turns| turns.void_ones);
        let of = |turns: &&Turns<T>| turns.void_ones == void_ones;
        Turns {
            kept: places
                .iter()
                .filter(of)
                .flat_map(|turns| turns.kept.clone())
                .collect(),
            voids: places.iter().map(|turns| turns.voids).sum(),
            disturbed: places.iter().map(|turns| turns.disturbed).sum(),
            void_ones,
            wanted: places.iter().map(|turns| turns.wanted).sum(),
        }
    }
}

impl Timer {
    /// Length of one call of `body` with so many operations, in ns. Never inlined, so that n and 2n
    /// run the same code.
    ///
    /// # Errors
    /// Those of the body.
    #[inline(never)]
    pub(crate) fn timed(
        &self,
        operations: u64,
        body: &mut impl FnMut(u64) -> Result<()>,
    ) -> Result<f64> {
        let operations = black_box(operations);
        let start = self.clock.start();
        let outcome = body(operations);
        let end = self.clock.end();
        outcome?;
        Ok(self.clock.between_ns(start, end))
    }

    /// Grows n until a batch lasts `goal.batch_ns`; `body` says how long a batch took, in ns. Ends for
    /// every body: n, the steps and the time are capped. A length that suffices is looked at again,
    /// because the first call of a body is the cold one.
    ///
    /// # Errors
    /// The first error of the body.
    pub(crate) fn search(&self, body: &mut impl FnMut(u64) -> Result<f64>) -> Result<Batch> {
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

    /// Length of a reference chain, in ns. Never inlined, as [`Timer::timed`].
    #[inline(never)]
    fn reference(&self) -> f64 {
        let steps = black_box(self.reference_steps);
        let start = self.clock.start();
        black_box(chain_rotate(steps));
        self.clock.between_ns(start, self.clock.end())
    }

    /// Takes turns of a quartet each for the case's time. One reference chain stands between two:
    /// after the one and before the other. Void ones are counted and left out; where that leaves too
    /// few the case goes on to three times its time, and where it leaves none it has no value in this
    /// round (a rehearsal takes the void ones). Nothing is allocated or called between the turns
    /// except the clock.
    ///
    /// # Errors
    /// The first error of a turn.
    pub(crate) fn repeat<T>(&self, turn: &mut impl FnMut() -> Result<Turn<T>>) -> Result<Turns<T>> {
        let goal = &self.goal;
        let room = || Vec::with_capacity(goal.quartets_max);
        let (mut good, mut void) = (room(), room());
        let (mut voids, mut disturbed) = (0_u32, 0_u32);
        self.reference();
        let begin = self.clock.start();
        let mut before_ns = self.reference();
        let mut attempts: usize = 0;
        loop {
            let taken = turn()?;
            let after_ns = self.reference();
            if taken.disturbed || differ(before_ns, after_ns) {
                voids = voids.saturating_add(1);
                disturbed = disturbed.saturating_add(taken.disturbed.into());
                if goal.keeps_void && void.len() < goal.quartets_max {
                    void.push(taken.value);
                }
            } else {
                good.push(taken.value);
            }
            before_ns = after_ns;
            attempts += 1;
            let elapsed_ns = self.clock.between_ns(begin, self.clock.end());
            let with_next_ns = elapsed_ns * (attempts + 1) as f64 / attempts as f64;
            if is_over(goal, attempts, good.len(), with_next_ns) {
                break;
            }
        }
        let void_ones = good.is_empty() && goal.keeps_void;
        Ok(Turns {
            kept: if void_ones { void } else { good },
            voids,
            disturbed,
            void_ones,
            wanted: goal.quartets_min,
        })
    }
}

fn long_enough(goal: &Goal, operations: u64, batch_ns: f64) -> Batch {
    Batch {
        least_ns: goal.least_ns,
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

/// Whether reference chains of these lengths void the quartet between them.
fn differ(before_ns: f64, after_ns: f64) -> bool {
    (after_ns - before_ns).abs() > REFERENCE_TOLERANCE * before_ns.min(after_ns)
}

/// Whether the case ends now: `with_next_ns` is what it would have taken with one more quartet.
fn is_over(goal: &Goal, attempts: usize, good: usize, with_next_ns: f64) -> bool {
    let limit_ns = if good < goal.quartets_min {
        PATIENCE * goal.case_ns
    } else {
        goal.case_ns
    };
    good >= goal.quartets_max || (attempts >= goal.quartets_min && with_next_ns > limit_ns)
}

#[cfg(test)]
mod tests {
    use super::{
        Batch, Goal, OPERATIONS_MAX, QUARTETS_MAX, Timer, Turn, Turns, abba, differ, grown,
        is_over, samples,
    };
    use crate::measure::clock::Clock;
    use anyhow::Result;

    const GOAL: Goal = Goal {
        batch_ns: 2e3,
        least_ns: 1e3,
        case_ns: 1e6,
        quartets_min: 6,
        quartets_max: QUARTETS_MAX,
        reference_ns: 1e4,
        keeps_void: true,
    };

    fn timer(goal: Goal) -> Timer {
        Timer {
            clock: Clock::Monotonic,
            goal,
            reference_steps: 64,
        }
    }

    fn search(goal: Goal, body: &mut impl FnMut(u64) -> Result<()>) -> Result<Batch> {
        let timer = timer(goal);
        timer.search(&mut |n| timer.timed(n, body))
    }

    #[test]
    fn a_search_for_a_body_without_time_ends_at_its_cap() {
        let goal = Goal {
            batch_ns: 1e18,
            least_ns: 1e18,
            case_ns: 1e18,
            ..GOAL
        };
        let mut calls = 0;
        let batch = search(goal, &mut |_| {
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
        let batch = search(goal, &mut |_| {
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
        let batch = search(goal, &mut body).expect("ends");
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
        assert!(!differ(10_000.0, 10_100.0));
        assert!(!differ(10_100.0, 10_000.0));
        assert!(differ(10_000.0, 10_101.0));
        assert!(differ(10_101.0, 10_000.0));
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
        let quartets = [(300.0, 500.0), (400.0, 600.0), (210.0, 200.0)];
        assert_eq!(samples(&quartets, 10), [10.0, 10.0, -0.5]);
    }

    #[test]
    fn batches_come_as_n_2n_2n_n() {
        let mut asked = Vec::new();
        let mut body = |n| {
            asked.push(n);
            Ok(n as f64)
        };
        assert_eq!(abba(7, &mut body).expect("runs"), (14.0, 28.0));
        assert_eq!(asked, [7, 14, 14, 7]);
    }

    /// Turns of which the `good`-th and later are not disturbed; the goal's time is over at once.
    fn turns(good: u32, keeps_void: bool) -> Turns<u32> {
        let timer = timer(Goal {
            case_ns: 0.0,
            keeps_void,
            ..GOAL
        });
        let mut count = 0;
        let mut turn = || {
            count += 1;
            Ok(Turn {
                value: count,
                disturbed: count < good,
            })
        };
        timer.repeat(&mut turn).expect("runs")
    }

    #[test]
    fn void_ones_are_given_in_a_rehearsal_only() {
        let rehearsed = turns(100, true);
        assert!(rehearsed.void_ones && rehearsed.kept == [1, 2, 3, 4, 5, 6]);
        assert_eq!((rehearsed.voids, rehearsed.disturbed), (6, 6));
        assert!(rehearsed.note().expect("a note").contains("as they are"));
        rehearsed.or_fail().expect("has some");
        let none = turns(100, false);
        assert!(!none.void_ones && none.kept.is_empty());
        let error = none.or_fail().expect_err("has none").to_string();
        assert!(error.contains("all 6 quartets are void"), "{error}");
        assert!(error.contains("against its will (6)"), "{error}");
    }

    #[test]
    fn good_ones_of_one_place_drive_out_void_ones_of_another() {
        let place = |kept: &[u32], void_ones| Turns {
            kept: kept.to_vec(),
            voids: 1,
            disturbed: 0,
            void_ones,
            wanted: 2,
        };
        let both = Turns::joined(&[place(&[1], true), place(&[2], false), place(&[], false)]);
        assert!(!both.void_ones && both.kept == [2] && both.voids == 3);
        let note = both.note().expect("too few");
        assert!(note.contains("only 1 quartets of at least 6"), "{note}");
        let void = Turns::joined(&[place(&[1], true), place(&[2], true)]);
        assert!(void.void_ones && void.kept == [1, 2]);
        assert_eq!(void.note(), void.clone().or_fail().expect("some").note());
    }

    #[test]
    fn the_first_error_of_a_turn_ends_everything() {
        let mut calls = 0;
        let mut turn = || -> Result<Turn<()>> {
            calls += 1;
            anyhow::ensure!(calls < 3, "third call");
            Ok(Turn {
                value: (),
                disturbed: false,
            })
        };
        timer(GOAL).repeat(&mut turn).expect_err("third call");
        assert_eq!(calls, 3);
    }
}

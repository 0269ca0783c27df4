//! A series while its stage is measured.

use crate::session::plan::Work;
use crate::stats::estimate::{RoundValue, estimate};
use crate::stats::rounds::values;
use crate::stats::stop::reached;
use record::case::{Order, Series};
use record::event::{Ending, FailedCase, RoundStatus};
use record::key::CaseId;
use record::metric::Better;
use record::run::Run;
use std::collections::BTreeMap;
use std::time::Duration;

/// Void rounds in a row after which a series has failed.
const VOID_IN_ROW_MAX: u32 = 3;

/// How the reason of a case begins that the budget left without a round.
pub const OVER_BUDGET: &str = "the budget ended before its first round";

/// Why a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All that was planned is done.
    Done,
    /// The budget ended it.
    Budget,
    /// A signal ended it.
    Interrupted,
}

/// A series with what was measured of it.
pub struct Live<'run> {
    /// Its plan.
    pub work: &'run Work,
    /// With its sizes.
    pub series: Series,
    /// Rounds that count.
    pub ok: u32,
    /// Number of the last round tried.
    pub tried: u32,
    /// Why it needs no further round.
    pub finished: Option<String>,
    /// Whether `prepare` was done in this segment.
    pub prepared: bool,
    void_in_row: u32,
    last_void: Option<String>,
    /// In how many rounds that count a case failed, and why the last time.
    failures: BTreeMap<CaseId, (u32, String)>,
    spent: Duration,
    timed: u32,
}

impl<'run> Live<'run> {
    /// A series with what an earlier segment measured of it.
    pub fn new(work: &'run Work, series: Series, run: &Run) -> Self {
        let label = series.label();
        let of_series = || run.rounds.iter().filter(|round| round.series == label);
        let count = |rounds: usize| u32::try_from(rounds).unwrap_or(u32::MAX);
        let mut failures = BTreeMap::new();
        of_series().for_each(|round| count_failures(&mut failures, &round.failed));
        Live {
            work,
            ok: count(
                of_series()
                    .filter(|round| round.status == RoundStatus::Ok)
                    .count(),
            ),
            tried: of_series().map(|round| round.n).max().unwrap_or(0),
            series,
            finished: None,
            prepared: false,
            void_in_row: 0,
            last_void: None,
            failures,
            spent: Duration::ZERO,
            timed: 0,
        }
    }

    /// Whether it has failed for good.
    pub fn failed(&self) -> bool {
        self.void_in_row >= VOID_IN_ROW_MAX
    }

    /// Whether it wants rounds up to `target`.
    pub fn wants(&self, target: u32) -> bool {
        self.ok < target && self.finished.is_none() && !self.failed()
    }

    /// What a round costs: observed where it was, else as stated.
    pub fn cost(&self) -> Duration {
        if self.timed == 0 {
            self.work.cost
        } else {
            self.spent / self.timed
        }
    }

    /// Takes the end of a round.
    pub fn ended(&mut self, status: &RoundStatus, failed: &[FailedCase], took: Duration) {
        self.spent += took;
        self.timed += 1;
        match status {
            RoundStatus::Ok => {
                self.ok += 1;
                self.void_in_row = 0;
                count_failures(&mut self.failures, failed);
            }
            RoundStatus::Void(reason) => {
                self.void_in_row += 1;
                self.last_void = Some(reason.clone());
            }
        }
    }

    /// The series with its cases in the order of round `n`: ladders upwards in odd rounds and
    /// downwards in even ones, others shuffled anew.
    pub fn in_order(&self, n: u32, seed: u64) -> Series {
        let mut series = self.series.clone();
        match series.order {
            Order::Ladder if n.is_multiple_of(2) => series.cases.reverse(),
            Order::Ladder | Order::Fixed => {}
            Order::Shuffled => fastrand::Rng::with_seed(seed).shuffle(&mut series.cases),
        }
        series
    }

    /// At a look: finished if every figure's half width is within the goal.
    pub fn look(&mut self, run: &Run, goal: f64) {
        let figures = values(run, &self.series.experiment, &self.series.label());
        let precise = figures.values().all(|rounds| {
            let rounds: Vec<RoundValue> = rounds
                .iter()
                .map(|valued| RoundValue {
                    value: valued.value,
                    disturbed: valued.disturbed,
                })
                .collect();
            estimate(&rounds, Better::None, 0.0).is_some_and(|estimate| {
                let interval = estimate.interval;
                interval.is_some_and(|interval| reached(&interval, estimate.value, goal))
            })
        });
        if precise && !figures.is_empty() {
            self.finished = Some(format!(
                "precise to {:.1} % after {} rounds",
                goal * 100.0,
                self.ok
            ));
        }
    }

    /// After the last look, at `last` rounds: nothing more is planned.
    pub fn last_look(&mut self, last: u32) {
        if self.finished.is_none() && self.ok >= last {
            self.finished = Some(if self.work.once() {
                "measured one time".to_owned()
            } else {
                format!("last look after {} rounds", self.ok)
            });
        }
    }

    /// How one of its cases ended, and why: failed, if it did in every round that counts.
    pub fn ending_of(&self, case: &CaseId, stopped: Stop) -> (Ending, String) {
        let (ending, reason) = self.ending(stopped);
        match self.failures.get(case) {
            Some((rounds, why)) if *rounds >= self.ok => (Ending::Failed, why.clone()),
            Some((rounds, why)) => {
                let failed = format!(
                    "{reason}; in {rounds} of {} rounds it failed: {why}",
                    self.ok
                );
                (ending, failed)
            }
            None => (ending, reason),
        }
    }

    /// How its cases ended that did not fail by themselves, and why.
    fn ending(&self, stopped: Stop) -> (Ending, String) {
        if self.ok == 0 {
            let reason = match (&self.last_void, stopped) {
                (Some(reason), _) => reason.clone(),
                (None, Stop::Interrupted) => {
                    "the run was interrupted before its first round".to_owned()
                }
                (None, _) => format!("{OVER_BUDGET}; give more with --budget"),
            };
            let ending = if self.last_void.is_some() {
                Ending::Failed
            } else {
                Ending::Skipped
            };
            return (ending, reason);
        }
        let reason = match (&self.finished, stopped) {
            (Some(reason), _) => reason.clone(),
            (None, _) if self.failed() => format!(
                "given up after {} rounds: {}",
                self.ok,
                self.last_void.as_deref().unwrap_or("void rounds")
            ),
            (None, Stop::Interrupted) => format!("interrupted after {} rounds", self.ok),
            (None, Stop::Budget) => format!("the budget ended it after {} rounds", self.ok),
            (None, Stop::Done) => format!("ended after {} rounds", self.ok),
        };
        (Ending::Measured, reason)
    }
}

/// Counts the cases that failed in a round.
fn count_failures(failures: &mut BTreeMap<CaseId, (u32, String)>, failed: &[FailedCase]) {
    for FailedCase { case, reason } in failed {
        let rounds = failures.get(case).map_or(0, |(rounds, _)| *rounds);
        failures.insert(case.clone(), (rounds + 1, reason.clone()));
    }
}

//! Passes over the live series of a stage: order, looks, precision goal and budget.

use crate::session::live::{Live, Stop};
use crate::session::{Progress, Session, is_interrupt, round};
use anyhow::Result;
use record::event::{Event, FailedCase, Round, RoundStatus};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What one round came to.
type Measured = (Vec<Event>, RoundStatus, Ended);

/// The round as its workers saw it.
#[derive(Debug, Default)]
pub struct Ended {
    /// Length of the window, in ns.
    pub window_ns: f64,
    /// CPUs that measured.
    pub cpus: Vec<usize>,
    /// Environment deltas by name.
    pub environment: BTreeMap<String, f64>,
    /// Cases that failed while the round went on; of a void round those that it gives up for good.
    pub failed: Vec<FailedCase>,
}

impl<'run> Session<'run> {
    /// Measures a stage: `Once` and `Sweep` first, then passes, then what must be alone.
    pub(super) fn measure(&mut self, stage: usize, lives: &mut [Live<'run>]) -> Result<Stop> {
        let looks = self.setup.planned.plan.looks.clone();
        let first = looks.first().copied().unwrap_or(1);
        let mut end = Stop::Done;
        let is = |live: &Live<'_>, once: bool, alone: bool| {
            live.work.once() == once && live.work.alone() == alone
        };
        for (once, alone) in [(true, false), (false, false), (true, true), (false, true)] {
            let groups: Vec<Vec<usize>> = {
                let all: Vec<usize> = (0..lives.len())
                    .filter(|at| is(&lives[*at], once, alone))
                    .collect();
                // What must be alone is never interleaved: each is a group of its own.
                if alone {
                    all.into_iter().map(|at| vec![at]).collect()
                } else {
                    vec![all]
                }
            };
            for group in groups.into_iter().filter(|group| !group.is_empty()) {
                let looks: &[u32] = if once { &[1] } else { &looks };
                let first = if once { 1 } else { first };
                match self.passes(stage, lives, &group, looks, first)? {
                    Stop::Done => {}
                    // The time for the first looks of the groups to come was reserved.
                    Stop::Budget => end = Stop::Budget,
                    Stop::Interrupted => return Ok(Stop::Interrupted),
                }
            }
        }
        Ok(end)
    }

    fn passes(
        &mut self,
        stage: usize,
        lives: &mut [Live<'run>],
        group: &[usize],
        looks: &[u32],
        first: u32,
    ) -> Result<Stop> {
        let mut from = 0;
        for &look in looks {
            if look > first && !self.affords(stage, lives, group, look - from) {
                return Ok(Stop::Budget);
            }
            for target in from + 1..=look {
                match self.pass(lives, group, target, look, stage)? {
                    Stop::Done => {}
                    stopped => return Ok(stopped),
                }
                if target == 1 {
                    self.estimate_whole(stage, lives);
                }
            }
            for at in group {
                // A resumed series that went past this look has not ended at it.
                if !lives[*at].work.once() && lives[*at].ok == look {
                    lives[*at].look(&self.run, self.setup.options.precision);
                }
            }
            from = look;
        }
        for at in group {
            lives[*at].last_look(from);
        }
        Ok(Stop::Done)
    }

    /// One pass: every live series of the group that is behind gets rounds until it is not, in
    /// random order. A void round is tried again within the pass.
    fn pass(
        &mut self,
        lives: &mut [Live<'run>],
        group: &[usize],
        target: u32,
        look: u32,
        stage: usize,
    ) -> Result<Stop> {
        loop {
            let mut behind: Vec<usize> = group
                .iter()
                .copied()
                .filter(|at| lives[*at].wants(target))
                .collect();
            if behind.is_empty() {
                return Ok(Stop::Done);
            }
            self.rng.shuffle(&mut behind);
            for at in behind {
                if self.elapsed() >= self.setup.budget {
                    return Ok(Stop::Budget);
                }
                let left = self.left(stage, lives);
                if !self.one(&mut lives[at], look, left)? {
                    return Ok(Stop::Interrupted);
                }
            }
        }
    }

    /// One round of one series; false if a signal ended it.
    fn one(&mut self, live: &mut Live<'run>, look: u32, left: Duration) -> Result<bool> {
        live.tried += 1;
        let n = live.tried;
        self.observer.progress(&Progress {
            series: live.series.label(),
            cases: match live.series.cases.as_slice() {
                [only] if !only.id.0.is_empty() => only.id.to_string(),
                [_] => "one case".to_owned(),
                cases => format!("{} cases", cases.len()),
            },
            round: live.ok + 1,
            look,
            left,
            elapsed: self.started.elapsed(),
        });
        let began = Instant::now();
        let seed = self.rng.u64(..);
        let (events, status, ended): Measured =
            match round::measure(self.setup, &self.calibration, live, n, seed, self.stop) {
                Ok((events, ended)) => (events, RoundStatus::Ok, ended),
                Err(error) if is_interrupt(&error) => return Ok(false),
                Err(error) => (
                    Vec::new(),
                    RoundStatus::Void(format!("{error:#}")),
                    Ended {
                        failed: round::given_up(&error, &live.series),
                        ..Ended::default()
                    },
                ),
            };
        for event in events {
            self.emit(event)?;
        }
        live.ended(&status, &ended.failed, began.elapsed());
        self.emit(Event::Round(Round {
            series: live.series.label(),
            n,
            segment: self.segment,
            at_s: self.started.elapsed().as_secs_f64(),
            window_ns: ended.window_ns,
            status,
            disturbed: round::disturbances(&ended),
            cpus: ended.cpus,
            environment: ended.environment,
            failed: ended.failed,
        }))?;
        Ok(true)
    }

    fn elapsed(&self) -> Duration {
        self.spent_before.saturating_add(self.started.elapsed())
    }

    /// Whether `more` further passes of the group fit the budget, with the first looks of what
    /// comes later reserved.
    fn affords(&self, stage: usize, lives: &[Live<'run>], group: &[usize], more: u32) -> bool {
        let cost: Duration = group
            .iter()
            .map(|at| &lives[*at])
            .filter(|live| live.finished.is_none() && !live.failed())
            .map(Live::cost)
            .sum();
        let reserved = self.later(stage, false) + self.unstarted(lives);
        self.elapsed().saturating_add(cost * more + reserved) <= self.setup.budget
    }

    /// Stated cost of the stages to come, up to the first look or to the last.
    fn later(&self, stage: usize, to_last: bool) -> Duration {
        let looks = &self.setup.planned.plan.looks;
        let rounds = if to_last { looks.last() } else { looks.first() };
        let rounds = rounds.copied().unwrap_or(1);
        self.setup
            .planned
            .work
            .iter()
            .filter(|work| work.stage > stage)
            .map(|work| work.whole(rounds))
            .sum()
    }

    /// First looks of the series of this stage that have not begun: those that must be alone.
    fn unstarted(&self, lives: &[Live<'run>]) -> Duration {
        let first = self.setup.planned.plan.looks.first().copied().unwrap_or(1);
        lives
            .iter()
            .filter(|live| live.ok == 0 && !live.failed())
            .map(|live| live.work.whole(first))
            .sum()
    }

    /// Expected time until the run ends: every live series up to the last look, within the budget.
    fn left(&self, stage: usize, lives: &[Live<'run>]) -> Duration {
        let last = self.setup.planned.plan.looks.last().copied().unwrap_or(1);
        let here: Duration = lives
            .iter()
            .filter(|live| live.finished.is_none() && !live.failed())
            .map(|live| {
                let target = if live.work.once() { 1 } else { last };
                live.unprepared() + live.cost() * target.saturating_sub(live.ok)
            })
            .sum();
        let whole = here + self.later(stage, true);
        whole.min(self.setup.budget.saturating_sub(self.elapsed()))
    }

    /// The estimate after the first pass is kept, so that it can be held against the run.
    fn estimate_whole(&mut self, stage: usize, lives: &[Live<'run>]) {
        if self.eta_after_first_pass.is_none() && lives.iter().any(|live| !live.work.once()) {
            self.eta_after_first_pass = Some(self.started.elapsed() + self.left(stage, lives));
        }
    }
}

//! Passes over the series under way, as the budget gives them turns, and their rounds.

use crate::budget::{Budget, Claim, CoreState, Rules, Turn};
use crate::directory::{self, all_failed};
use crate::live::Live;
use crate::machine::Machine;
use crate::node::worker::Hung;
use crate::plan::{Planned, Work};
use crate::quiet::{self, Look};
use crate::round::Measured;
use crate::{Progress, Session, is_interrupt, round};
use anyhow::Result;
use bench::link::Done;
use bench::measure::clock_step;
use record::event::{Event, Learnt, Round, RoundStatus, Unusable, Width};
use record::order::Gather;
use stats::width;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Why a round counts as disturbed beside which another plumb measured.
pub const BESIDE: &str = "another plumb on this machine";

type Ended = (Vec<Measured>, RoundStatus, Done);

/// The width probe's readings in samples.
fn readings(event: &Event) -> Vec<f64> {
    match event {
        Event::Samples(samples) => samples.width.iter().copied().filter(|one| *one > 0.0).collect(),
        _ => Vec::new(),
    }
}

impl<'run> Session<'run> {
    /// Measures until a stage has its first looks, or where all stages have theirs, until no time
    /// is left that anything wants; false if a signal ended it.
    pub(super) fn looks(&mut self, stage: Option<usize>, lives: &mut [Live<'run>]) -> Result<bool> {
        loop {
            let core = match stage {
                Some(_) => CoreState::Unknown,
                None => self.look_at_core(None).map_or(CoreState::Unknown, |look| look.state),
            };
            let claims = self.claims(stage, lives);
            let mut turns = self.budget(&claims).next(stage, core);
            for turn in &mut turns {
                turn.target += lives[turn.claim].tally - claims[turn.claim].rounds;
            }
            if turns.is_empty() {
                return Ok(true);
            }
            if !self.pass(stage, lives, &turns, core)? {
                return Ok(false);
            }
            for turn in &turns {
                lives[turn.claim].look(&self.run);
            }
            self.estimate_whole(stage, lives);
        }
    }

    /// The state of the core before a further look. A series that has figures of a core alone waits
    /// for one. First looks never ask: they say how much of the time the core is shared.
    fn look_at_core(&self, live: Option<&Live<'run>>) -> Option<Look> {
        let (setup, calibration) = (self.setup, &self.calibration);
        match live {
            _ if setup.options.preset == "rehearsal" => None,
            Some(live) if live.is_probed => {
                quiet::wait(&setup.site, calibration, self.time_left(), self.stop)
            }
            _ => quiet::look(&setup.site, calibration),
        }
    }

    /// Rounds in random order until no series is behind its target, the time is over, or a core is
    /// not as it was when the turns were given; false if a signal ended it. A void round is tried
    /// again.
    pub(super) fn pass(
        &mut self,
        stage: Option<usize>,
        lives: &mut [Live<'run>],
        turns: &[Turn],
        core: CoreState,
    ) -> Result<bool> {
        let mut is_first = true;
        loop {
            let behind = turns.iter().filter(|turn| lives[turn.claim].wants(turn.target));
            let mut behind: Vec<usize> = behind.map(|turn| turn.claim).collect();
            if behind.is_empty() {
                return Ok(true);
            }
            self.rng.shuffle(&mut behind);
            for at in behind {
                if self.time_left().is_zero() {
                    return Ok(true);
                }
                let look = match stage {
                    Some(_) => None,
                    None => self.look_at_core(Some(&lives[at])),
                };
                if !is_first && look.is_some_and(|look| look.state != core) {
                    return Ok(true);
                }
                is_first = false;
                lives[at].look = look.filter(|_| lives[at].is_probed);
                let claims = self.claims(stage, lives);
                let left = self.budget(&claims).expected();
                if !self.one(stage, &mut lives[at], left)? {
                    return Ok(false);
                }
            }
        }
    }

    /// One round of one series; false if a signal ended it.
    fn one(&mut self, stage: Option<usize>, live: &mut Live<'run>, left: Duration) -> Result<bool> {
        live.tried += 1;
        let n = live.tried;
        let look = if live.work.once() { 1 } else { self.rules().look_after(live.rounds()) };
        (self.show)(&Progress {
            stage,
            series: live.series.label(),
            cases: match live.series.cases.as_slice() {
                [only] if !only.id.0.is_empty() => only.id.to_string(),
                [_] => "one case".to_owned(),
                cases => format!("{} cases", cases.len()),
            },
            round: live.rounds() + 1,
            look,
            left,
            elapsed: self.started.elapsed(),
        });
        let began = Instant::now();
        let mut others = self.others();
        let Some((events, status, ended)) = self.measured(live, n) else { return Ok(false) };
        others.extend(self.others());
        let mut disturbed = round::disturbances(&ended);
        if !others.is_empty() {
            disturbed.push(BESIDE.to_owned());
        }
        let readings = events.iter().flat_map(|(event, _)| readings(event)).collect();
        for (event, text) in events {
            self.keep(event, &text)?;
        }
        live.ended(&status, &ended.failed, began.elapsed());
        self.emit(Event::Round(Round {
            series: live.series.label(),
            n,
            segment: self.segment,
            at_s: self.started.elapsed().as_secs_f64(),
            window_ns: ended.window_ns,
            status,
            waited_s: live.look.map(|look| look.waited.as_secs_f64()),
            disturbed,
            others: others.into_iter().collect(),
            cpus: ended.cpus,
            environment: ended.environment,
            failed: ended.failed,
        }))?;
        self.learn_level(readings)?;
        self.sync_if_due()?;
        Ok(true)
    }

    /// The other plumbs that measure on this machine now.
    fn others(&self) -> BTreeSet<String> {
        let machine = self.setup.machine.as_ref();
        machine.into_iter().flat_map(Machine::others).gather()
    }

    /// What the width probe shows of a core alone is learnt from the samples of rounds, where it is
    /// not known or only from the core's design (the core was never alone during the calibration),
    /// or does not hold (a core that was always shared has a level too, a lower one). Later rounds and all figures use it.
    fn learn_level(&mut self, mut readings: Vec<f64>) -> Result<()> {
        let Some(known) = self.calibration.width else { return Ok(()) };
        let Some(least) = width::teaching(known) else { return Ok(()) };
        readings.retain(|read| *read > least);
        if readings.is_empty() {
            return Ok(());
        }
        self.readings.extend(readings);
        let step = clock_step(self.calibration.resolution_ns);
        let learnt = width::learn(&mut self.readings, step);
        let learnt = width::by_design(learnt, round::units(self.setup));
        let is_seen = learnt.level.is_some() && !learnt.from_design;
        let is_other = learnt.unusable == Some(Unusable::OtherThanDesign);
        if !is_seen && (!is_other || learnt.unusable == known.unusable) {
            return Ok(());
        }
        let width = Width { readings: known.readings + learnt.readings, ..learnt };
        self.readings.clear();
        self.calibration.width = Some(width);
        let segment = self.segment;
        self.emit(Event::Width(Learnt { segment, width }))
    }

    /// The round of a series, or why it is void; `None` if a signal ended it.
    fn measured(&mut self, live: &mut Live<'run>, n: u32) -> Option<Ended> {
        let void = |reason: String, failed| {
            let ended = Done { failed, ..Done::default() };
            Some((Vec::new(), RoundStatus::Void(reason), ended))
        };
        if let Some(reason) = self.hanging.ends(self.setup, live) {
            return void(reason.to_owned(), all_failed(&live.series, reason));
        }
        let seed = self.rng.u64(..);
        let (setup, hanging) = (self.setup, &self.hanging);
        let error =
            match round::measure(setup, &self.calibration, live, hanging, n, seed, self.stop) {
                Ok((events, ended)) => return Some((events, RoundStatus::Ok, ended)),
                Err(error) if is_interrupt(&error) => return None,
                Err(error) => error,
            };
        let mut failed = round::given_up(&error, &live.series);
        if let Some(hung) = error.downcast_ref::<Hung>()
            && let Ok(Some(dir)) = directory::of_series(setup, live)
            && self.hanging.take(&dir, hung)
            && self.hanging.ends(setup, live).is_some()
        {
            failed = all_failed(&live.series, &hung.reason);
        }
        void(host::refused::text(&error), failed)
    }

    fn time_left(&self) -> Duration {
        let elapsed = self.spent_before.saturating_add(self.started.elapsed());
        self.setup.budget.saturating_sub(elapsed)
    }

    /// When looks come. A goal that every interval meets asks for one interval and no more.
    pub(super) fn rules(&self) -> Rules<'run> {
        let Planned { plan, preset, .. } = &self.setup.planned;
        let (looks, goal) = (&plan.looks, self.setup.options.precision);
        let first = looks.first().copied().filter(|_| goal >= 1.0);
        Rules {
            looks,
            asked_from: first.unwrap_or(preset.asked_from()),
            ahead_until: first.unwrap_or(preset.ahead_until()),
            goal,
        }
    }

    /// What the series under way ask of the budget, and those of the stages after this one.
    fn claims(&self, stage: Option<usize>, lives: &[Live<'run>]) -> Vec<Claim<'run>> {
        let later = |work: &&Work| stage.is_some_and(|stage| work.stage > stage);
        let later = self.setup.planned.work.iter().filter(later);
        let under_way = lives.iter().map(Live::claim);
        under_way.chain(later.map(Work::claim)).collect()
    }

    fn budget<'a>(&self, claims: &'a [Claim<'a>]) -> Budget<'a>
    where
        'run: 'a,
    {
        Budget::new(claims, self.rules(), self.time_left())
    }

    /// The estimate after the first pass is kept, so that it can be held against the run.
    fn estimate_whole(&mut self, stage: Option<usize>, lives: &[Live<'run>]) {
        if self.eta_after_first_pass.is_none() && lives.iter().any(|live| !live.work.once()) {
            let claims = self.claims(stage, lives);
            let left = self.budget(&claims).expected();
            self.eta_after_first_pass = Some(self.started.elapsed() + left);
        }
    }
}

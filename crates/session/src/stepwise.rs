//! Runs whose rounds a caller orders, so that those of two runs can alternate.

use crate::budget::{CoreState, Turn};
use crate::live::{Live, Stop};
use crate::setup::Setup;
use crate::{Finished, Progress, Session, Sink};
use anyhow::Result;
use record::run::Run;
use std::sync::atomic::AtomicBool;

/// A run whose rounds the caller orders. It never waits for a core, and no precision ends it.
pub struct Stepwise<'run> {
    session: Session<'run>,
    lives: Vec<Live<'run>>,
    opened: usize,
}

impl<'run> Stepwise<'run> {
    /// Begins a run: calibration, plan and predictions. Errors: the clocks cannot be calibrated, or an event cannot be
    /// stored.
    pub fn begin(
        setup: &'run Setup,
        sink: &'run mut dyn Sink,
        show: &'run mut dyn FnMut(&Progress),
        stop: &'run AtomicBool,
    ) -> Result<Stepwise<'run>> {
        let mut session = Session::begin(setup, sink, show, stop, None)?;
        session.announce()?;
        Ok(Stepwise { session, lives: Vec::new(), opened: 0 })
    }

    /// One round of each series that has not failed; false if a signal ended it. Errors: an event cannot be stored.
    pub fn step(&mut self) -> Result<bool> {
        let stages = self.session.setup.planned.work.iter().map(|work| work.stage + 1).max();
        for stage in 0..stages.unwrap_or(0) {
            if stage == self.opened {
                self.session.open_stage(stage, &mut self.lives)?;
                self.opened += 1;
            }
            // What is measured one time in a run has its round in the first step.
            let wants = |live: &Live<'_>| live.tally == 0 || !live.work.once();
            let of_stage = self.lives.iter().enumerate();
            let of_stage = of_stage.filter(|(_, live)| live.work.stage == stage && wants(live));
            let turns: Vec<Turn> =
                of_stage.map(|(claim, live)| Turn { claim, target: live.tally + 1 }).collect();
            if !self.session.pass(Some(stage), &mut self.lives, &turns, CoreState::Unknown)? {
                return Ok(false);
            }
        }
        self.session.sync()?;
        Ok(true)
    }

    pub fn so_far(&self) -> &Run {
        &self.session.run
    }

    /// Ends the run. Errors: an event cannot be stored.
    pub fn end(mut self, is_interrupted: bool) -> Result<Finished> {
        let stop = if is_interrupted { Stop::Interrupted } else { Stop::Done };
        let end = self.session.conclude(&mut self.lives, stop)?;
        self.session.footer(end)?;
        let Session { run, hanging, unreached, .. } = self.session;
        Ok(Finished { run, hanging: hanging.given_up(), unreached })
    }
}

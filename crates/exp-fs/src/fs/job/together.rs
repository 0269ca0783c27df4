//! The members of a job as threads that begin together, each with a window of its own.

use super::member::Member;
use super::{Job, JobRun, Watch};
use crate::fs::prelude::*;
use bench::measure::team::{Seat, Team, all_of};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Members begin so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 100e3;

impl Job<'_> {
    /// Runs the job by a thread for each of its CPUs. Each ends with its own window, and sleeps
    /// until the others have: a thread that spun would take the CPU from what the kernel does for
    /// them.
    pub(in crate::fs) fn together(&self) -> Result<JobRun> {
        let team = Team::new(self.cpus.iter().map(|cpu| (!self.is_free).then_some(*cpu)))?;
        let (watch, moved) = (Mutex::new(None), AtomicU64::new(0));
        let conduct = |team: &Team| {
            team.gather();
            *locked(&watch) = Some(Watch::begin(self.work, self.below));
            team.open();
        };
        let work = |seat: &Seat<'_>, mut member: Member| {
            let start = seat.start(self.clock, LEAD_NS)?;
            let runs = member.run(self, start)?;
            moved.fetch_add(member.asked(self), Ordering::AcqRel);
            // What comes now would be in the way of those that still work; and the kernel's workers
            // go with the thread that they work for.
            seat.meet_then(|| {
                let moved = moved.load(Ordering::Acquire);
                locked(&watch).iter_mut().for_each(|watch| watch.operations_are_over(moved));
            })?;
            if let Some(watch) = &*locked(&watch) {
                member.demand_written_down(self, watch)?;
            }
            // Only then is anything synced, or read back into memory.
            seat.meet()?;
            member.finish(self)?;
            Ok(member.did(self, runs))
        };
        let prepare = |seat: &Seat<'_>, _| Member::prepare(self, seat.number);
        let ((), outcomes) = team.threads(0..team.size(), prepare, work, conduct)?;
        let members = all_of(outcomes)?;
        let watch = watch.into_inner().unwrap_or_else(PoisonError::into_inner);
        let seen = watch.context("nothing was watched")?.end(moved.into_inner());
        Ok(JobRun { members, seen })
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

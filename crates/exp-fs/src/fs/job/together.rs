//! The members of a job as threads that begin together.

use super::member::Member;
use super::{Did, Done, Job, Watch};
use crate::fs::prelude::*;
use metal::place;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Members begin so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 100e3;

/// Where the threads of a case meet. It is no `bench::measure::Crew`, whose members spin at their
/// gates and all work until the last is past the end: here each ends with its own window, and a
/// thread that spun meanwhile would take the CPU from what the kernel does for the others.
struct Meeting<'round> {
    ready: Barrier,
    start: AtomicU64,
    failed: AtomicBool,
    /// Bytes that all have moved.
    moved: AtomicU64,
    watch: Mutex<Option<Watch<'round>>>,
}

impl<'round> Job<'round> {
    /// Runs the job by a thread for each of its CPUs.
    pub(in crate::fs) fn together(&self) -> Result<Done> {
        let meeting = Meeting {
            ready: Barrier::new(self.cpus.len()),
            start: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            watch: Mutex::new(None),
        };
        let outcomes: Vec<Result<Did>> = thread::scope(|scope| {
            let meeting = &meeting;
            let threads: Vec<_> = self
                .cpus
                .iter()
                .enumerate()
                .map(|(index, cpu)| scope.spawn(move || self.member(index, *cpu, meeting)))
                .collect();
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Did>>| {
                let joined = thread.join();
                joined.unwrap_or_else(|_| Err(anyhow!("a thread of the case panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let (did, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        // The reason of the one that failed, and not that the others did not begin.
        let failed = failed.into_iter().filter_map(Result::err);
        if let Some(error) = failed.min_by_key(|error| error.is::<NotBegun>()) {
            return Err(error);
        }
        let watch = meeting.watch.into_inner();
        let watch = watch.unwrap_or_else(PoisonError::into_inner);
        let watch = watch.context("no thread reached the start")?;
        let seen = watch.end(meeting.moved.into_inner());
        Ok(Done { members: did.into_iter().flatten().collect(), seen })
    }

    fn member(&self, index: usize, cpu: usize, meeting: &Meeting<'round>) -> Result<Did> {
        let placed = match self.is_free {
            true => Ok(()),
            false => place::pin(cpu).map(drop).with_context(|| format!("pinning to CPU {cpu}")),
        };
        let enlisted = placed.and_then(|()| Member::prepare(self, index));
        if enlisted.is_err() {
            meeting.failed.store(true, Ordering::Release);
        }
        // All come here, whatever they met; the last sets the start.
        if meeting.ready.wait().is_leader() {
            *meeting.watch() = Some(Watch::begin(self.work, self.below));
            let start = self.clock.start() + self.clock.ticks(LEAD_NS);
            meeting.start.store(start, Ordering::Release);
        }
        meeting.ready.wait();
        let mut member = enlisted?;
        if meeting.failed.load(Ordering::Acquire) {
            return Err(NotBegun.into());
        }
        let start = meeting.start.load(Ordering::Acquire);
        while self.clock.end() < start {
            std::hint::spin_loop();
        }
        let runs = member.run(self, start);
        meeting.moved.fetch_add(member.asked(self), Ordering::AcqRel);
        // What comes now would be in the way of those that still work; and the kernel's workers go
        // with the thread that they work for.
        if meeting.ready.wait().is_leader()
            && let Some(watch) = meeting.watch().as_mut()
        {
            watch.operations_are_over(meeting.moved.load(Ordering::Acquire));
        }
        meeting.ready.wait();
        let written = match meeting.watch().as_ref() {
            Some(watch) => member.demand_written_down(self, watch),
            None => Ok(()),
        };
        // Only then is anything synced, or read back into memory.
        meeting.ready.wait();
        let runs = runs?;
        written?;
        member.finish(self)?;
        Ok(member.did(self, runs))
    }
}

impl<'round> Meeting<'round> {
    fn watch(&self) -> MutexGuard<'_, Option<Watch<'round>>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another member failed before the start.
#[derive(Debug, thiserror::Error)]
#[error("another thread of the case did not reach the start")]
struct NotBegun;

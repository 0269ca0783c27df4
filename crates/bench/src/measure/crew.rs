//! Pinned threads that work at the same time: they are made, warmed up and started together, and
//! what they did counts only while all of them were at it.

mod attempts;
mod log;

use super::clock::Clock;
use super::core_clock::{CoreClock, Windows};
use super::together::{Finally, Gate, beside};
use super::width::{Probe, Stretch, Stretches};
use anyhow::{Context, Result, bail};
pub use attempts::{CrewWindow, REHEARSAL_NS, best_window};
use log::Log;
use metal::place;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// The common start lies so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 50e3;
/// Warm-up as a share of the window.
const WARM_UP_SHARE: f64 = 0.1;
/// A way of several is tried for this share of the window.
const TRIAL_SHARE: f64 = 0.125;
/// Points of a progress log: 8 KiB, a small part of any first-level cache.
const POINTS: usize = 512;
/// Spins between yields while waiting for the others.
const SPINS: u32 = 1000;

/// Threads to come, one per entry of `cpus`; a CPU may stand there twice.
#[derive(Clone, Debug)]
pub struct Crew {
    clock: Clock,
    cpus: Vec<usize>,
    window_ns: f64,
    windows: Windows,
    probe: Option<Probe>,
    /// The probe of the round, whether it is read or not.
    able: Option<Probe>,
}

/// What a crew did in its shared window.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Length of the window in which every member worked, in ns.
    pub window_ns: f64,
    /// The window's length as a share of the one asked for; below 1 where a member started late.
    pub overlap: f64,
    /// The clock was `CLOCK_MONOTONIC`, because the counters are too far apart.
    pub kernel_clock: bool,
    /// The way of working, of several that were tried ([`Crew::run_ways`]).
    pub way: usize,
    /// The members, in the order of the CPUs.
    pub members: Vec<Member>,
}

impl Shared {
    /// What all members did in the shared window, in units of their steps.
    pub fn units(&self) -> f64 {
        self.members.iter().map(|member| member.units).sum()
    }

    /// Units per second of all members together.
    pub fn rate(&self) -> f64 {
        self.units() * 1e9 / self.window_ns
    }
}

/// What one member did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// CPU, read back after the window.
    pub cpu: usize,
    /// Units in the shared window; a step that lies across its edge counts in proportion.
    pub units: f64,
    /// Units per second in the median of its steps that lie in the window; none if none does. What
    /// interrupts and other work took of fewer than half of the steps is not in it.
    pub steady_rate: Option<f64>,
    /// Its work between readings of the width probe; empty where that was not read.
    pub stretches: Vec<Stretch>,
    /// Core clock just before the start, in Hz.
    pub core_hz_before: Option<f64>,
    /// Core clock just after the end, in Hz, while the others still run.
    pub core_hz_after: Option<f64>,
    /// How late it began, in ns.
    pub late_ns: f64,
}

/// Where the threads meet.
struct Meeting {
    clock: Clock,
    window_ticks: u64,
    size: usize,
    enlisted: AtomicUsize,
    ready: AtomicUsize,
    /// Tick of the common start, 0 until all are ready.
    start: AtomicU64,
    past_end: AtomicUsize,
    gone: AtomicUsize,
    failed: AtomicBool,
    /// The ways of working that are tried before the window, if there are several.
    ways: Vec<Trial>,
}

/// How fast all members together were one way.
#[derive(Default)]
struct Trial {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Units per 2^20 ticks, added up.
    rate: AtomicU64,
}

/// A member's own account of the window: what of it is shared is known when all have theirs.
struct Account {
    log: Log,
    start: u64,
    way: usize,
    member: Member,
}

impl Crew {
    /// A crew on `cpus` that works for `window_ns`. `clock` must be comparable between them.
    pub fn new(clock: Clock, cpus: Vec<usize>, window_ns: f64, rehearsal: bool) -> Self {
        Crew {
            clock,
            cpus,
            window_ns,
            windows: if rehearsal { Windows::REHEARSAL } else { Windows::FULL },
            probe: None,
            able: None,
        }
    }

    pub(super) fn able_to_probe(self, able: Option<Probe>) -> Self {
        Crew { able, ..self }
    }

    /// The same with the width probe read between steps, about every 0.1 ms, where the clock allows
    /// it. The probe takes 2 % of the window, which the stretches between its readings do not
    /// contain.
    #[must_use]
    pub fn watched(self, is_watched: bool) -> Self {
        Crew { probe: self.able.filter(|_| is_watched), ..self }
    }

    /// Runs the crew. `enlist(i)` is called on member i's thread, pinned to its CPU: it makes the
    /// apparatus there (so that pages are first touched where they are used) and returns the step.
    /// A step does a piece of work, of 10 µs or more, and returns its units (bytes, operations).
    /// All members keep stepping until every one is past the end. Errors: the first error of any
    /// member, or members that were never at work together ([`NeverTogether`]).
    pub fn run<S: FnMut() -> Result<u64>>(
        &self,
        enlist: impl Fn(usize) -> Result<S> + Sync,
    ) -> Result<Shared> {
        self.run_probed(|index| Ok((enlist(index)?, |core: &mut CoreClock| core.estimate().hz)))
    }

    /// As [`Crew::run`], with each member's own way to take the core clock (in Hz) just before and
    /// just after the window: for work under which the core runs at another clock than under the
    /// chains of [`CoreClock`]. Errors: as [`Crew::run`].
    pub fn run_probed<S, P>(
        &self,
        enlist: impl Fn(usize) -> Result<(S, P)> + Sync,
    ) -> Result<Shared>
    where
        S: FnMut() -> Result<u64>,
        P: FnMut(&mut CoreClock) -> Option<f64>,
    {
        self.run_ways(1, |index| {
            let (mut step, probe) = enlist(index)?;
            Ok((move |_| step(), probe))
        })
    }

    /// As [`Crew::run_probed`], for steps that can be done in several ways that do the same: a step
    /// gets its index. After the warm-up all members try each for an eighth of the window at the
    /// same time, and the window is worked in the one that all together were fastest at
    /// ([`Shared::way`]). Errors: as [`Crew::run`].
    pub fn run_ways<S, P>(
        &self,
        ways: usize,
        enlist: impl Fn(usize) -> Result<(S, P)> + Sync,
    ) -> Result<Shared>
    where
        S: FnMut(usize) -> Result<u64>,
        P: FnMut(&mut CoreClock) -> Option<f64>,
    {
        if self.cpus.is_empty() {
            bail!("a crew needs a CPU");
        }
        let meeting =
            Meeting::new(self.clock, self.clock.ticks(self.window_ns), self.cpus.len(), ways);
        let work = |index: usize| {
            // The others end where one fails, or panics.
            let failing = Finally(|| meeting.failed.store(true, Ordering::Release));
            let account = self.member(index, self.cpus[index], &meeting, &enlist)?;
            std::mem::forget(failing);
            Ok(account)
        };
        let members = (0..self.cpus.len()).map(|index| (None, index)).collect();
        let ((), accounts) = beside(members, Ok, work, Gate::open)?;
        self.settle(accounts)
    }

    /// One member from its first to its last instruction.
    fn member<S, P>(
        &self,
        index: usize,
        cpu: usize,
        meeting: &Meeting,
        enlist: impl Fn(usize) -> Result<(S, P)>,
    ) -> Result<Account>
    where
        S: FnMut(usize) -> Result<u64>,
        P: FnMut(&mut CoreClock) -> Option<f64>,
    {
        place::pin(cpu).with_context(|| format!("pinning member {index} to CPU {cpu}"))?;
        // Best effort, as for the measuring thread.
        let _ = place::nice(-20);
        let mut core = CoreClock::new(self.clock, self.windows);
        let mut log = Log::with_room(POINTS);
        let mut stretches = self.probe.map(Stretches::new);
        let (mut step, mut probe) =
            enlist(index).with_context(|| format!("making member {index}"))?;
        meeting.gather(&meeting.enlisted)?;
        let warm_until = self.clock.end() + self.clock.ticks(WARM_UP_SHARE * self.window_ns);
        while self.clock.end() < warm_until {
            step(0)?;
        }
        let trial_ticks = self.clock.ticks(TRIAL_SHARE * self.window_ns);
        let way = meeting.fastest(trial_ticks, &mut step)?;
        let mut step = || step(way);
        let core_hz_before = probe(&mut core);
        let start = meeting.start()?;
        let end = start + meeting.window_ticks;
        while self.clock.end() < start {
            std::hint::spin_loop();
        }
        meeting.work((&mut log, stretches.as_mut()), end, &mut step)?;
        let core_hz_after = probe(&mut core);
        meeting.gone.fetch_add(1, Ordering::AcqRel);
        // The rest of the load stays until the last has taken its core clock.
        while !meeting.is_over(&meeting.gone) {
            step()?;
        }
        let member = Member {
            cpu: place::current_cpu(),
            core_hz_before,
            core_hz_after,
            stretches: stretches.map_or_else(Vec::new, Stretches::done),
            ..Member::default()
        };
        Ok(Account { log, start, way, member })
    }

    /// The shared window: from the last member's start to the common end.
    fn settle(&self, accounts: Vec<Result<Account>>) -> Result<Shared> {
        let mut first_error = None;
        let mut members = Vec::with_capacity(accounts.len());
        for account in accounts {
            match account {
                Ok(account) => members.push(account),
                // The others end because one did; that one's reason is the reason.
                Err(error) if error.is::<OtherFailed>() => {
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        let start = members.first().map_or(0, |member| member.start);
        let end = start + self.clock.ticks(self.window_ns);
        let from = members.iter().map(|member| member.log.first_tick()).max().unwrap_or(end);
        if from >= end {
            return Err(NeverTogether { cpus: self.cpus.clone() }.into());
        }
        let window_ns = self.clock.ns(end - from);
        let per_second = |per_tick: f64| per_tick * 1e9 / self.clock.ns(1);
        let shared = |Account { log, member, .. }: Account| Member {
            units: log.between(from, end),
            steady_rate: log.steady(from, end).map(per_second),
            late_ns: self.clock.between_ns(start, log.first_tick()),
            ..member
        };
        Ok(Shared {
            window_ns,
            overlap: window_ns / self.window_ns,
            kernel_clock: self.clock == Clock::Monotonic,
            way: members.first().map_or(0, |member| member.way),
            members: members.into_iter().map(shared).collect(),
        })
    }
}

/// A member began after the others' end: the machine was busy, and another attempt may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the threads on CPUs {cpus:?} never ran at the same time: one began after the end of \
         another"
)]
pub struct NeverTogether {
    /// One entry for each member.
    pub cpus: Vec<usize>,
}

/// Another member failed, so this one ended.
#[derive(Debug, thiserror::Error)]
#[error("another thread of the group failed")]
struct OtherFailed;

impl Meeting {
    fn new(clock: Clock, window_ticks: u64, size: usize, ways: usize) -> Self {
        Meeting {
            clock,
            window_ticks,
            size,
            enlisted: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            start: AtomicU64::new(0),
            past_end: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            ways: match ways {
                ..=1 => Vec::new(),
                _ => (0..ways).map(|_| Trial::default()).collect(),
            },
        }
    }

    /// Tries each way with all others for `trial_ticks`; the one that all together were fastest at,
    /// the first of equals.
    fn fastest(
        &self,
        trial_ticks: u64,
        step: &mut impl FnMut(usize) -> Result<u64>,
    ) -> Result<usize> {
        for (way, trial) in self.ways.iter().enumerate() {
            self.gather(&trial.begun)?;
            let begin = self.clock.start();
            let (mut units, mut now) = (0, begin);
            while now < begin + trial_ticks {
                units += step(way)?;
                now = self.clock.end();
            }
            let rate = (u128::from(units) << 20) / u128::from((now - begin).max(1));
            trial.rate.fetch_add(rate as u64, Ordering::AcqRel);
            self.gather(&trial.ended)?;
        }
        let rates = self.ways.iter().map(|trial| trial.rate.load(Ordering::Acquire));
        Ok(rates.enumerate().rev().max_by_key(|(_, rate)| *rate).map_or(0, |(way, _)| way))
    }

    /// Whether all have passed a gate, or one failed.
    fn is_over(&self, gate: &AtomicUsize) -> bool {
        gate.load(Ordering::Acquire) >= self.size || self.failed.load(Ordering::Acquire)
    }

    /// Waits awake until all have come to a gate.
    fn gather(&self, gate: &AtomicUsize) -> Result<()> {
        gate.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0;
        while !self.is_over(gate) {
            spins += 1;
            if spins % SPINS == 0 {
                // Members that share a CPU wait for each other.
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(OtherFailed.into());
        }
        Ok(())
    }

    /// Waits until all are ready, and returns the common start tick; the first to see it sets it.
    fn start(&self) -> Result<u64> {
        self.gather(&self.ready)?;
        let ahead = self.clock.end() + self.clock.ticks(LEAD_NS);
        let set = self.start.compare_exchange(0, ahead, Ordering::AcqRel, Ordering::Acquire);
        Ok(set.map_or_else(|others| others, |_| ahead))
    }

    /// Steps until every member is past the end; the log ends with the first step past it.
    fn work(
        &self,
        (log, mut stretches): (&mut Log, Option<&mut Stretches>),
        end: u64,
        step: &mut impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        let mut units = 0;
        let mut is_past = false;
        if let Some(stretches) = &mut stretches {
            stretches.begin();
        }
        log.push(self.clock.start(), units);
        loop {
            units += step()?;
            if !is_past {
                let now = self.clock.end();
                if now >= end {
                    log.push_last(now, units);
                    is_past = true;
                    self.past_end.fetch_add(1, Ordering::AcqRel);
                } else {
                    log.push(now, units);
                    if let Some(stretches) = &mut stretches {
                        stretches.progress(now, units);
                    }
                }
            }
            if self.failed.load(Ordering::Acquire) {
                return Err(OtherFailed.into());
            }
            if is_past && self.is_over(&self.past_end) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;

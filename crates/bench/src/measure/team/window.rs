//! Pinned threads that work in steps over one window: they are made, warmed up and started
//! together, and what they did counts only while all of them were at it.

use super::log::Log;
use super::{Fault, Seat, Team, all_of};
use crate::measure::clock::Clock;
use crate::measure::core_clock::{CoreClock, Windows};
use crate::measure::width::{Probe, Stretch, Stretches};
use anyhow::{Context, Result, bail};
use metal::place;
use std::sync::atomic::{AtomicU64, Ordering};

/// The common start lies so far ahead of the moment at which all are ready, in ns.
const LEAD_NS: f64 = 50e3;
const WARM_UP_SHARE: f64 = 0.1;
/// A way of several is tried for this share of the window.
const TRIAL_SHARE: f64 = 0.125;
/// Points of a progress log: 8 KiB, a small part of any first-level cache.
pub(super) const POINTS: usize = 512;

/// The window of a team of threads, one per entry of `cpus`; a CPU may stand there twice.
#[derive(Clone, Debug)]
pub struct TeamWindow {
    clock: Clock,
    cpus: Vec<usize>,
    window_ns: f64,
    windows: Windows,
    probe: Option<Probe>,
    /// The probe of the round, whether it is read or not.
    able: Option<Probe>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Length of the window in which every member worked, in ns.
    pub window_ns: f64,
    /// The window's length as a share of the one asked for; below 1 where a member started late.
    pub overlap: f64,
    /// The clock was `CLOCK_MONOTONIC`, because the counters are too far apart.
    pub kernel_clock: bool,
    /// The way of working, of several that were tried ([`TeamWindow::run_ways`]).
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

/// A member's own account of the window: what of it is shared is known when all have theirs.
struct Account {
    log: Log,
    start: u64,
    way: usize,
    member: Member,
}

impl TeamWindow {
    /// A team on `cpus` that works for `window_ns`. `clock` must be comparable between them.
    pub fn new(clock: Clock, cpus: Vec<usize>, window_ns: f64, rehearsal: bool) -> Self {
        TeamWindow {
            clock,
            cpus,
            window_ns,
            windows: if rehearsal { Windows::REHEARSAL } else { Windows::FULL },
            probe: None,
            able: None,
        }
    }

    pub(in crate::measure) fn able_to_probe(self, able: Option<Probe>) -> Self {
        TeamWindow { able, ..self }
    }

    /// The same with the width probe read between steps, about every 0.1 ms, where the clock allows
    /// it. The probe takes 2 % of the window, which the stretches between its readings do not
    /// contain.
    #[must_use]
    pub fn watched(self, is_watched: bool) -> Self {
        TeamWindow { probe: self.able.filter(|_| is_watched), ..self }
    }

    /// Runs the team. `enlist(i)` is called on member i's thread, pinned to its CPU: it makes the
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

    /// As [`TeamWindow::run`], with each member's own way to take the core clock (in Hz) just before and
    /// just after the window: for work under which the core runs at another clock than under the
    /// chains of [`CoreClock`]. Errors: as [`TeamWindow::run`].
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

    /// As [`TeamWindow::run_probed`], for steps that can be done in several ways that do the same: a step
    /// gets its index. After the warm-up all members try each for an eighth of the window at the
    /// same time, and the window is worked in the one that all together were fastest at
    /// ([`Shared::way`]). Errors: as [`TeamWindow::run`].
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
            bail!("a team needs a CPU");
        }
        let plan = Plan {
            clock: self.clock,
            window_ticks: self.clock.ticks(self.window_ns),
            rates: (0..ways).filter(|_| ways > 1).map(|_| AtomicU64::new(0)).collect(),
        };
        let team = Team::new(self.cpus.iter().map(|cpu| Some(*cpu)))?.awake();
        let work = |seat: &Seat<'_>, ()| self.member(seat, &plan, &enlist);
        let members = self.cpus.iter().map(|_| ());
        let ((), accounts) = team.threads(members, |_, ()| Ok(()), work, Team::open)?;
        self.settle(accounts)
    }

    /// One member from its first to its last instruction.
    fn member<S, P>(
        &self,
        seat: &Seat<'_>,
        plan: &Plan,
        enlist: impl Fn(usize) -> Result<(S, P)>,
    ) -> Result<Account>
    where
        S: FnMut(usize) -> Result<u64>,
        P: FnMut(&mut CoreClock) -> Option<f64>,
    {
        // Best effort, as for the measuring thread.
        let _ = place::nice(-20);
        let mut core = CoreClock::new(self.clock, self.windows);
        let mut log = Log::with_room(POINTS);
        let mut stretches = self.probe.map(Stretches::new);
        let number = seat.number;
        let made = enlist(number).with_context(|| format!("making member {number}"));
        let (mut step, mut probe) = made?;
        seat.meet()?;
        let warm_until = self.clock.end() + self.clock.ticks(WARM_UP_SHARE * self.window_ns);
        while self.clock.end() < warm_until {
            step(0)?;
        }
        let trial_ticks = self.clock.ticks(TRIAL_SHARE * self.window_ns);
        let way = plan.fastest(seat, trial_ticks, &mut step)?;
        let mut step = || step(way);
        let core_hz_before = probe(&mut core);
        let start = seat.start(self.clock, LEAD_NS)?;
        let end = start + plan.window_ticks;
        plan.work(seat, (&mut log, stretches.as_mut()), end, &mut step)?;
        let core_hz_after = probe(&mut core);
        let gone = seat.arrive();
        // The rest of the load stays until the last has taken its core clock.
        while !seat.is_over(gone) {
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
        // The others end because one did; that one's reason is the reason.
        let members = all_of(accounts)?;
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

struct Plan {
    clock: Clock,
    window_ticks: u64,
    /// How fast all together were in each way of working that is tried, in units per 2^20 ticks.
    rates: Vec<AtomicU64>,
}

impl Plan {
    /// Tries each way with all others for a share of the window; the one that all together were
    /// fastest at, the first of equals.
    fn fastest(
        &self,
        seat: &Seat<'_>,
        trial_ticks: u64,
        step: &mut impl FnMut(usize) -> Result<u64>,
    ) -> Result<usize> {
        for (way, rates) in self.rates.iter().enumerate() {
            seat.meet()?;
            let begin = self.clock.start();
            let (mut units, mut now) = (0, begin);
            while now < begin + trial_ticks {
                units += step(way)?;
                now = self.clock.end();
            }
            let rate = (u128::from(units) << 20) / u128::from((now - begin).max(1));
            rates.fetch_add(rate as u64, Ordering::AcqRel);
            seat.meet()?;
        }
        let rates = self.rates.iter().map(|rate| rate.load(Ordering::Acquire));
        Ok(rates.enumerate().rev().max_by_key(|(_, rate)| *rate).map_or(0, |(way, _)| way))
    }

    /// Steps until every member is past the end; the log ends with the first step past it.
    fn work(
        &self,
        seat: &Seat<'_>,
        (log, mut stretches): (&mut Log, Option<&mut Stretches>),
        end: u64,
        step: &mut impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        let mut units = 0;
        let mut past = None;
        if let Some(stretches) = &mut stretches {
            stretches.begin();
        }
        log.push(self.clock.start(), units);
        loop {
            units += step()?;
            if past.is_none() {
                let now = self.clock.end();
                if now >= end {
                    log.push_last(now, units);
                    past = Some(seat.arrive());
                } else {
                    log.push(now, units);
                    if let Some(stretches) = &mut stretches {
                        stretches.progress(now, units);
                    }
                }
            }
            if seat.team.has_failed() {
                return Err(Fault::OtherFailed.into());
            }
            if past.is_some_and(|past| seat.is_over(past)) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;

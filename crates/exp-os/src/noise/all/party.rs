//! Threads that trace at the same time, one per CPU: they are pinned, find their thresholds and
//! touch their rooms, begin together, and none leaves before all have ended.
//!
//! The round's own thread leads them, so that no thread of the worker is left that could want a CPU in
//! the window. It reads the counters around the window while the others sleep.

use crate::noise::activity::seen::{Look, Seen};
use crate::noise::attribution::{Evidence, Level, Watch, thread_number};
use crate::noise::trace::{self, GAPS_MAX, ROOM, Threshold};
use bench::measure::team::{Seat, Team};
use bench::prelude::*;
use metal::clock::{Clock as KernelClock, getres_ns, monotonic_ns, ticks_fenced};
use metal::gaps::Tracer;
use metal::place;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After the last thread has come, what woke them dies away for so long, in ns.
const SETTLE_NS: u64 = 200_000;
/// Readings of counter and clock together.
const ANCHORS: usize = 5;
/// Turns of the loop between two looks whether all have ended.
const TURNS_PER_LOOK: u64 = 256;
/// A member's word: the number of its thread, 0 unless it traces.
const THREAD: usize = 0;
/// A word of all: when the windows begin, by CLOCK_MONOTONIC. Counters of CPUs may differ.
const BEGIN_NS: usize = 0;

/// What one CPU's thread saw.
pub(super) struct Traced {
    pub(super) threshold: Threshold,
    pub(super) seen: Seen,
}

pub(super) struct Party {
    /// The result of each CPU's thread, in the order asked for, or why the thread is missing.
    pub(super) members: Vec<(usize, Result<Traced>)>,
    pub(super) evidence: Arc<Evidence>,
}

/// Traces on all `cpus` for `window_ns`. The calling thread takes the first.
pub(super) fn trace_all(
    cpus: &[usize],
    clock: Clock,
    window_ns: f64,
    rehearsal: bool,
) -> Result<Party> {
    let first = *cpus.first().context("no CPU to trace on")?;
    let window = Window { clock, window_ns, rehearsal };
    // Each pins itself: where one cannot, the others trace.
    let team = Team::new(cpus.iter().map(|_| None))?.led();
    let lead = |team: &Team| {
        team.lead(|seat| {
            let ready = window.prepare(seat, first);
            team.gather();
            let watch = Watch::begin(Level::Counters, &tracing(team, cpus), clock);
            team.open();
            let seen = window.trace(seat, ready);
            let evidence = watch.end();
            seat.meet()?;
            Ok((seen, evidence))
        })
    };
    let attend = |seat: &Seat<'_>, ready| {
        let seen = window.trace(seat, ready);
        // Asleep while the counters are read, and there until they were.
        seat.meet()?;
        // One that cannot trace has not failed the others.
        Ok(seen)
    };
    let others = cpus[1..].iter().copied();
    let (led, seen) =
        team.threads(others, |seat, cpu| Ok(window.prepare(seat, cpu)), attend, lead)?;
    let (first, evidence) = led?;
    let evidence = Arc::new(evidence);
    let coarse_ns = getres_ns(KernelClock::MONOTONIC_COARSE) as f64;
    let others = seen.into_iter().map(|seen| seen.and_then(|seen| seen));
    let traced = cpus.iter().zip(std::iter::once(first).chain(others)).map(|(&cpu, found)| {
        let look = Look { clock, cpu, duration_ns: window_ns, coarse_ns };
        let found = found.map(|(threshold, traced)| Traced {
            threshold,
            seen: Seen::new(traced, Arc::clone(&evidence), look),
        });
        (cpu, found)
    });
    Ok(Party { members: traced.collect(), evidence })
}

/// CPU and number of the threads that trace, once all are prepared.
fn tracing(team: &Team, cpus: &[usize]) -> Vec<(usize, u32)> {
    let number = |(cpu, member): (&usize, usize)| match team.get(member, THREAD) {
        0 => None,
        number => Some((*cpu, number as u32)),
    };
    cpus.iter().zip(0..).filter_map(number).collect()
}

struct Ready {
    tracer: Tracer,
    threshold: Threshold,
}

struct Window {
    clock: Clock,
    window_ns: f64,
    rehearsal: bool,
}

impl Window {
    /// Pins, finds the threshold, and touches the room: on the CPU itself.
    fn prepare(&self, seat: &Seat<'_>, cpu: usize) -> Result<Ready> {
        place::pin(cpu).with_context(|| format!("pinning a thread to CPU {cpu}"))?;
        if !self.rehearsal {
            place::first();
        }
        let threshold = trace::threshold(self.clock, self.rehearsal)?;
        let mut tracer = Tracer::with_room(ROOM).context("taking memory for gaps")?;
        tracer.begin();
        let number = thread_number().context("reading the thread's number")?;
        seat.set(THREAD, number.into());
        Ok(Ready { tracer, threshold })
    }

    /// The window, with two gates: all run, and all have ended theirs.
    fn trace(&self, seat: &Seat<'_>, ready: Result<Ready>) -> Result<(Threshold, trace::Traced)> {
        let (team, begin_ns) = (seat.team, seat.team.common(BEGIN_NS));
        // The last to come may be one that cannot trace.
        let begin = || begin_ns.store(monotonic_ns() + SETTLE_NS, Ordering::Release);
        let Ready { mut tracer, threshold } = match ready {
            Ok(ready) => ready,
            Err(error) => {
                seat.arrive_then(begin);
                seat.meet()?;
                return Err(error);
            }
        };
        let expected = (0..team.size()).filter(|member| team.get(*member, THREAD) != 0).count();
        tracer.begin();
        let all_run = seat.arrive_then(begin);
        // From here on it is traced: a thread that is off its CPU when the window begins has lost
        // that time.
        while !seat.is_over(all_run) {
            if !tracer.run(threshold.ticks, TURNS_PER_LOOK) {
                tracer.begin();
            }
        }
        ensure!(!team.has_failed(), "another thread failed");
        let start = self.tick_of(begin_ns.load(Ordering::Acquire));
        let end = start + self.clock.ticks(self.window_ns);
        // The memory for them is bounded for all CPUs together.
        let gaps = GAPS_MAX / expected.max(1);
        let traced = trace::window_between(&mut tracer, &threshold, self.clock, (start, end), gaps);
        let ended = seat.arrive();
        // A CPU that falls idle changes the others: its clock, its sibling's, the work that is
        // left.
        while !seat.is_over(ended) {
            tracer.begin();
            tracer.run(u64::MAX, TURNS_PER_LOOK);
        }
        Ok((threshold, traced))
    }

    /// The counter at a near moment of CLOCK_MONOTONIC, by the best of a few readings of both.
    fn tick_of(&self, moment_ns: u64) -> u64 {
        let anchor = || {
            let before = ticks_fenced();
            let ns = monotonic_ns();
            (ticks_fenced() - before, before, ns)
        };
        let anchors = (0..ANCHORS).map(|_| anchor()).min();
        let (apart, before, ns) = anchors.expect("there is at least one");
        let tick = before + apart / 2;
        match moment_ns >= ns {
            true => tick + self.clock.ticks((moment_ns - ns) as f64),
            false => tick - self.clock.ticks((ns - moment_ns) as f64),
        }
    }
}

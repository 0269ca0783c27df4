//! Threads that trace at the same time, one per CPU: they are pinned, find their thresholds and
//! touch their rooms, begin together, and none leaves before all have ended.
//!
//! The round's own thread is one of them, so that no thread of the worker is left that could want a
//! CPU in the window. It reads the counters around the window while the others sleep.

use crate::noise::attribution::{Evidence, Level, Watch};
use crate::noise::trace::{self, GAPS_MAX, ROOM, Threshold, Traced};
use anyhow::{Context, Result, anyhow};
use bench::measure::Clock;
use host::refused;
use metal::clock::{monotonic_ns, ticks_fenced};
use metal::gaps::Tracer;
use metal::place;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// After the last thread has come, what woke them dies away for so long, in ns.
const SETTLE_NS: u64 = 200_000;
/// Readings of counter and clock together.
const ANCHORS: usize = 5;
/// Turns of the loop between two looks whether all have ended.
const TURNS_PER_LOOK: u64 = 256;

/// What one CPU's thread saw.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// From which length on it saw gaps.
    pub(super) threshold: Threshold,
    /// The window.
    pub(super) traced: Traced,
}

/// What the party saw.
#[derive(Debug)]
pub(super) struct Party {
    /// By CPU, in the order asked for: what its thread saw, or why there was none.
    pub(super) members: Vec<(usize, Result<Seen>)>,
    /// The counters around the window.
    pub(super) evidence: Evidence,
}

/// Traces on all `cpus` for `window_ns`. The calling thread takes the first.
///
/// # Errors
/// No CPUs.
pub(super) fn trace_all(
    cpus: &[usize],
    clock: Clock,
    window_ns: f64,
    rehearsal: bool,
) -> Result<Party> {
    let (first, others) = cpus.split_first().context("no CPU to trace on")?;
    let meeting = Meeting {
        clock,
        window_ns,
        rehearsal,
        hall: Mutex::default(),
        moved: Condvar::new(),
        expected: AtomicUsize::new(0),
        ready: AtomicUsize::new(0),
        begin_ns: AtomicU64::new(0),
        ended: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter()
            .map(|cpu| {
                let member = || meeting.attend(*cpu);
                let made = thread::Builder::new()
                    .name(format!("plumb-gaps-{cpu}"))
                    .spawn_scoped(scope, member);
                (*cpu, made.map_err(refused::told))
            })
            .collect();
        let made = threads.iter().filter(|(_, thread)| thread.is_ok()).count();
        let own = meeting.prepared(*first);
        let mut tracing = meeting.wait_for_all(made);
        tracing.extend(own.as_ref().ok().map(|own| (*first, own.tid)));
        let watched: Vec<usize> = tracing.iter().map(|(cpu, _)| *cpu).collect();
        let watch = Watch::begin_threads(Level::Counters, &watched, &tracing, clock);
        meeting.open(tracing.len());
        let own = own.map(|own| meeting.trace(own));
        meeting.outwait(tracing.len());
        let evidence = watch.end();
        meeting.close();
        let mut members = vec![(*first, own)];
        members.extend(threads.into_iter().map(|(cpu, thread)| {
            let seen = thread.with_context(|| format!("making the thread for CPU {cpu}")).and_then(
                |thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(anyhow!("the thread for CPU {cpu} panicked")))
                },
            );
            (cpu, seen)
        }));
        Ok(Party { members, evidence })
    })
}

/// A thread that may begin.
struct Ready {
    tracer: Tracer,
    threshold: Threshold,
    tid: u32,
}

/// Where the threads meet.
struct Meeting {
    clock: Clock,
    window_ns: f64,
    rehearsal: bool,
    hall: Mutex<Hall>,
    moved: Condvar,
    /// How many will trace.
    expected: AtomicUsize,
    /// How many run and wait for the others to run.
    ready: AtomicUsize,
    /// When the windows begin, by CLOCK_MONOTONIC; 0 until all run. Counters of CPUs may differ.
    begin_ns: AtomicU64,
    /// How many have ended their window.
    ended: AtomicUsize,
}

/// Who is there, while nothing is timed.
#[derive(Default)]
struct Hall {
    /// Threads that have prepared, or failed to.
    arrived: usize,
    /// CPU and number of those that are ready.
    ready: Vec<(usize, u32)>,
    is_open: bool,
    is_over: bool,
}

/// Counts an ended window, also where it ended in a panic: the others wait for it.
struct Ended<'meeting>(&'meeting AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Meeting {
    /// One thread of its own from its first to its last instruction.
    fn attend(&self, cpu: usize) -> Result<Seen> {
        let prepared = self.prepared(cpu);
        {
            let mut hall = self.hall();
            hall.arrived += 1;
            let ready = prepared.as_ref().ok().map(|ready| (cpu, ready.tid));
            hall.ready.extend(ready);
        }
        self.moved.notify_all();
        drop(self.wait_until(|hall| hall.is_open));
        let seen = prepared.map(|ready| self.trace(ready));
        // Asleep while the counters are read, and there until they were.
        drop(self.wait_until(|hall| hall.is_over));
        seen
    }

    /// A panic must not leave the others waiting.
    fn prepared(&self, cpu: usize) -> Result<Ready> {
        catch_unwind(AssertUnwindSafe(|| self.prepare(cpu)))
            .unwrap_or_else(|_| Err(anyhow!("preparing CPU {cpu} panicked")))
    }

    /// Pins, finds the threshold, and touches the room: on the CPU itself.
    fn prepare(&self, cpu: usize) -> Result<Ready> {
        place::pin(cpu).with_context(|| format!("pinning a thread to CPU {cpu}"))?;
        if !self.rehearsal {
            place::first();
        }
        let threshold = trace::threshold(self.clock, self.rehearsal)?;
        let mut tracer = Tracer::with_room(ROOM).context("taking memory for gaps")?;
        tracer.begin();
        Ok(Ready {
            tracer,
            threshold,
            tid: thread_number().context("reading the thread's number")?,
        })
    }

    /// Traces its window among the others'.
    fn trace(&self, mut ready: Ready) -> Seen {
        let ended = Ended(&self.ended);
        let expected = self.expected.load(Ordering::Acquire);
        let (threshold, tracer) = (ready.threshold, &mut ready.tracer);
        tracer.begin();
        if self.ready.fetch_add(1, Ordering::AcqRel) + 1 == expected {
            let begin_ns = monotonic_ns() + SETTLE_NS;
            self.begin_ns.store(begin_ns, Ordering::Release);
        }
        // From here on it is traced: who is kept from its CPU when the window begins has lost that.
        while self.begin_ns.load(Ordering::Acquire) == 0 {
            if !tracer.run(threshold.ticks, TURNS_PER_LOOK) {
                tracer.begin();
            }
        }
        let start = self.tick_of(self.begin_ns.load(Ordering::Acquire));
        let end = start + self.clock.ticks(self.window_ns);
        // The memory for them is bounded for all CPUs together.
        let gaps = GAPS_MAX / expected.max(1);
        let traced = trace::window_between(tracer, &threshold, self.clock, (start, end), gaps);
        drop(ended);
        // A CPU that falls idle changes the others: its clock, its sibling's, the work that is
        // left.
        while self.ended.load(Ordering::Acquire) < expected {
            tracer.begin();
            tracer.run(u64::MAX, TURNS_PER_LOOK);
        }
        Seen { threshold, traced }
    }

    /// The counter of this CPU at a moment of CLOCK_MONOTONIC that is near: of a few readings of
    /// both the one with least between.
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

    /// Waits until all windows have ended, where the calling thread has none of its own.
    fn outwait(&self, expected: usize) {
        while self.ended.load(Ordering::Acquire) < expected {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until so many have arrived; returns those that are ready.
    fn wait_for_all(&self, count: usize) -> Vec<(usize, u32)> {
        self.wait_until(|hall| hall.arrived == count).ready.clone()
    }

    /// Lets those that are ready, and the caller if it is, begin.
    fn open(&self, expected: usize) {
        self.expected.store(expected, Ordering::Release);
        self.hall().is_open = true;
        self.moved.notify_all();
    }

    /// Lets all leave.
    fn close(&self) {
        self.hall().is_over = true;
        self.moved.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&Hall) -> bool) -> MutexGuard<'_, Hall> {
        let mut hall = self.hall();
        while !is_so(&hall) {
            hall = self.moved.wait(hall).unwrap_or_else(PoisonError::into_inner);
        }
        hall
    }

    fn hall(&self) -> MutexGuard<'_, Hall> {
        // Nothing panics while it is held.
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calling thread's number.
fn thread_number() -> Option<u32> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

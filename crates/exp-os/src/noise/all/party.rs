//! Threads that trace at the same time, one per CPU: they are pinned, find their thresholds and
//! touch their rooms, begin together, and none leaves before all have ended.
//!
//! The round's own thread is one of them, so that no thread of the worker is left that could want a
//! CPU in the window. It reads the counters around the window while the others sleep. A
//! [`bench::measure::Crew`] cannot do that: its members wait awake, and trace nothing before they
//! begin.

use crate::noise::attribution::{Evidence, Level, Watch, thread_number};
use crate::noise::trace::{self, GAPS_MAX, ROOM, Threshold, Traced};
use bench::measure::{Finally, Gate, beside};
use bench::prelude::*;
use metal::clock::{monotonic_ns, ticks_fenced};
use metal::gaps::Tracer;
use metal::place;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;

/// After the last thread has come, what woke them dies away for so long, in ns.
const SETTLE_NS: u64 = 200_000;
/// Readings of counter and clock together.
const ANCHORS: usize = 5;
/// Turns of the loop between two looks whether all have ended.
const TURNS_PER_LOOK: u64 = 256;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) threshold: Threshold,
    pub(super) traced: Traced,
}

#[derive(Debug)]
pub(super) struct Party {
    /// The result of each CPU's thread, in the order asked for, or why the thread is missing.
    pub(super) members: Vec<(usize, Result<Seen>)>,
    pub(super) evidence: Evidence,
}

/// Traces on all `cpus` for `window_ns`. The calling thread takes the first.
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
        exit: RwLock::new(()),
        arrived: Mutex::default(),
        expected: AtomicUsize::new(0),
        ready: AtomicUsize::new(0),
        begin_ns: AtomicU64::new(0),
        ended: AtomicUsize::new(0),
    };
    // Shut until the counters were read after the window.
    let exit = meeting.exit.write().unwrap_or_else(PoisonError::into_inner);
    let conduct = |gate: &Gate| {
        // It opens whichever way this ends.
        let exit = exit;
        let own = meeting.prepare(*first);
        gate.gather();
        let tracing = meeting.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let watch = Watch::begin(Level::Counters, &tracing, clock);
        meeting.expected.store(tracing.len(), Ordering::Release);
        gate.open();
        let own = own.map(|own| meeting.trace(own));
        // Where the calling thread has no window of its own.
        while meeting.ended.load(Ordering::Acquire) < tracing.len() {
            thread::sleep(Duration::from_millis(1));
        }
        let evidence = watch.end();
        drop(exit);
        (own, evidence)
    };
    let attend = |ready| {
        let seen = meeting.trace(ready);
        // Asleep while the counters are read, and there until they were.
        drop(meeting.exit.read());
        Ok(seen)
    };
    let threads = others.iter().map(|cpu| (None, *cpu)).collect();
    let ((own, evidence), seen) = beside(threads, |cpu| meeting.prepare(cpu), attend, conduct)?;
    let others = others.iter().copied().zip(seen);
    Ok(Party { members: std::iter::once((*first, own)).chain(others).collect(), evidence })
}

struct Ready {
    tracer: Tracer,
    threshold: Threshold,
}

struct Meeting {
    clock: Clock,
    window_ns: f64,
    rehearsal: bool,
    exit: RwLock<()>,
    /// CPU and number of those that are prepared.
    arrived: Mutex<Vec<(usize, u32)>>,
    /// How many will trace.
    expected: AtomicUsize,
    /// How many run and wait for the others to run.
    ready: AtomicUsize,
    /// When the windows begin, by CLOCK_MONOTONIC; 0 until all run. Counters of CPUs may differ.
    begin_ns: AtomicU64,
    /// How many have ended their window.
    ended: AtomicUsize,
}

impl Meeting {
    /// Pins, finds the threshold, and touches the room: on the CPU itself.
    fn prepare(&self, cpu: usize) -> Result<Ready> {
        place::pin(cpu).with_context(|| format!("pinning a thread to CPU {cpu}"))?;
        if !self.rehearsal {
            place::first();
        }
        let threshold = trace::threshold(self.clock, self.rehearsal)?;
        let mut tracer = Tracer::with_room(ROOM).context("taking memory for gaps")?;
        tracer.begin();
        let tid = thread_number().context("reading the thread's number")?;
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((cpu, tid));
        Ok(Ready { tracer, threshold })
    }

    fn trace(&self, mut ready: Ready) -> Seen {
        // Also where it ends in a panic: the others wait for it.
        let ended = Finally(|| _ = self.ended.fetch_add(1, Ordering::AcqRel));
        let expected = self.expected.load(Ordering::Acquire);
        let (threshold, tracer) = (ready.threshold, &mut ready.tracer);
        tracer.begin();
        if self.ready.fetch_add(1, Ordering::AcqRel) + 1 == expected {
            let begin_ns = monotonic_ns() + SETTLE_NS;
            self.begin_ns.store(begin_ns, Ordering::Release);
        }
        // From here on it is traced: a thread that is off its CPU when the window begins has lost
        // that time.
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

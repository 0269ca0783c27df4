//! Evidence is gathered around a window.

use bench::prelude::*;

use super::counters::Reading;
use super::tracing::{Events, KEPT_MOST, Tie, tie};
use super::{Evidence, Level, own};
use host::kernel::virtualisation;
use host::{Outside, Root};

/// One step of the ladder, and whether it is available here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    pub level: Level,
    /// `None` if it is available, otherwise why not and what would help.
    pub why_not: Option<String>,
}

/// Every step of the ladder, tried here and now on the calling thread and its CPU.
pub fn ladder() -> Vec<Rung> {
    let root = Root::live(Outside::default());
    let cpu = metal::place::current_cpu();
    let threads = [(cpu, thread_number().unwrap_or(0))];
    let tried = |&level: &Level| {
        let why_not = if level == Level::Counters {
            let counters = Reading::take(&root, &threads);
            let unreadable = counters.since(&counters).0[&cpu].unreadable();
            (!unreadable.is_empty()).then(|| format!("not readable: {}", unreadable.join(", ")))
        } else {
            Events::open(level, &root, &threads).err().map(|error| format!("{error:#}"))
        };
        Rung { level, why_not }
    };
    Level::ALL.iter().map(tried).collect()
}

/// What a watch takes beside the window, from before its beginning to after its end, as far as
/// `level` is reached. A step that may not be reached costs less.
pub fn cost(level: Level) -> Duration {
    match level {
        Level::Counters => FILES,
        Level::Switches => FILES + OPEN,
        Level::Tracepoints => FILES + OPEN + GIVE_UP * KEPT_MOST,
    }
}

/// Reading the counters' files, before and after.
const FILES: Duration = Duration::from_millis(8);
/// Opening and mapping the ring.
const OPEN: Duration = Duration::from_millis(10);
/// Until the kernel has given up one tracepoint: two grace periods of RCU, 35 to 52 ms at HZ=250.
const GIVE_UP: Duration = Duration::from_millis(40);

/// The calling thread's number, as /proc has it.
pub fn thread_number() -> Option<u32> {
    Root::live(Outside::default()).link_name("proc/thread-self")?.parse().ok()
}

/// Watches some CPUs and the thread that traces on each.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    threads: Vec<(usize, u32)>,
    clock: Clock,
    names: own::Names,
    runs: own::Runs,
    before: Reading,
    /// When they were read.
    before_tick: u64,
    events: Option<Events>,
    why_not_higher: Option<String>,
    begin: Tie,
}

impl Watch {
    /// Watches the CPUs and numbers of the `threads` that trace. The level is at most `at_most`,
    /// and as high as permissions allow; above [`Level::Counters`] only the first is watched.
    /// Call it pinned, outside the window: it reads files and opens events, which takes
    /// milliseconds.
    ///
    /// Events are kept in memory of a fixed size until [`Watch::end`]: at 100 bytes each, 40,000.
    /// The evidence says from when on they were lost.
    pub fn begin(at_most: Level, threads: &[(usize, u32)], clock: Clock) -> Watch {
        let root = Root::live(Outside::default());
        let (events, why_not_higher) = climb(at_most, &root, threads);
        let names = own::names(&root);
        let mut watch = Watch {
            runs: own::runs(&root, &names),
            before_tick: clock.start(),
            before: Reading::take(&root, threads),
            threads: threads.to_vec(),
            clock,
            names,
            root,
            events,
            why_not_higher,
            begin: (0, 0),
        };
        if let Some(Err(error)) = watch.events.as_ref().map(Events::start) {
            watch.events = None;
            watch.why_not_higher = Some(format!("{error:#}"));
        }
        watch.begin = tie(clock);
        watch
    }

    /// What was seen since the beginning.
    pub fn end(self) -> Evidence {
        let ties = (self.begin, tie(self.clock));
        if let Some(events) = &self.events {
            events.stop();
        }
        let counted_ns = self.clock.between_ns(self.before_tick, self.clock.start());
        let (mut cpus, throttling) = Reading::take(&self.root, &self.threads).since(&self.before);
        let runs = own::runs(&self.root, &self.names);
        let traced: Vec<u32> = self.threads.iter().map(|(_, tid)| *tid).collect();
        let level = self.events.as_ref().map_or(Level::Counters, Events::level);
        if let Some((events, (cpu, me))) = self.events.zip(self.threads.first()) {
            cpus.entry(*cpu).or_default().timeline = Some(events.timeline(*me, &self.names, ties));
        }
        let is_traced = level == Level::Tracepoints;
        Evidence {
            level,
            why_not_higher: self.why_not_higher,
            tick_ns: self.clock.ns(1),
            begin: self.begin.0,
            counted_ns,
            is_guest: is_traced.then(|| virtualisation(&self.root).is_guest).flatten(),
            throttling,
            cpus,
            plumb: own::plumb(&self.names, &self.runs, &runs, &traced),
        }
    }
}

/// The events of the highest available step, and why not a higher one.
fn climb(
    at_most: Level,
    root: &Root,
    threads: &[(usize, u32)],
) -> (Option<Events>, Option<String>) {
    let mut why_not = Vec::new();
    let mut found = None;
    for level in [Level::Tracepoints, Level::Switches] {
        if level > at_most {
            why_not = vec![format!("{} were not requested", level.text())];
            continue;
        }
        match Events::open(level, root, threads) {
            Ok(events) => {
                found = Some(events);
                break;
            }
            Err(error) => why_not.insert(0, format!("{error:#}")),
        }
    }
    (found, (!why_not.is_empty()).then(|| why_not.join("; ")))
}

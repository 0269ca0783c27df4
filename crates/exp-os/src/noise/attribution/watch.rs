//! Evidence is gathered around a window.

use bench::prelude::*;
use std::collections::BTreeSet;

use super::counters::Reading;
use super::spans::Threads;
use super::tracing::{KEPT_MOST, Switches, Tie, Tracing, tie};
use super::{Evidence, Level, OfCpu, own};
use host::kernel::virtualisation;
use host::{Outside, Root};

/// One step of the ladder, and whether it is available here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The step.
    pub level: Level,
    /// `None` if it is available, otherwise why not and what would help.
    pub why_not: Option<String>,
}

/// Every step of the ladder, tried here and now on the calling thread and its CPU.
pub fn ladder() -> Vec<Rung> {
    let root = Root::live(Outside::default());
    let cpu = metal::place::current_cpu();
    let threads: Vec<(usize, u32)> =
        calling_thread(&root).map(|tid| (cpu, tid)).into_iter().collect();
    let counters = Reading::take(&root, &[cpu], &threads);
    let unreadable = counters.since(&counters, cpu, &threads).unreadable();
    let why_not = match unreadable.is_empty() {
        true => None,
        false => Some(format!("not readable: {}", unreadable.join(", "))),
    };
    let tried = |level: Level, why_not: Option<String>| Rung { level, why_not };
    vec![
        tried(Level::Counters, why_not),
        tried(Level::Switches, refusal(Switches::open(&threads))),
        tried(Level::Tracepoints, refusal(Tracing::open(&root, &[cpu]))),
    ]
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

fn refusal<T>(result: Result<T>) -> Option<String> {
    result.err().map(|error| format!("{error:#}"))
}

fn calling_thread(root: &Root) -> Option<u32> {
    root.link_name("proc/thread-self")?.parse().ok()
}

/// Reading the counters' files, before and after.
const FILES: Duration = Duration::from_millis(8);
/// Opening and mapping the rings.
const OPEN: Duration = Duration::from_millis(10);
/// Until the kernel has given up one tracepoint: two grace periods of RCU, 35 to 52 ms at HZ=250.
const GIVE_UP: Duration = Duration::from_millis(40);

/// Watches some CPUs and the threads that trace on them.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    cpus: Vec<usize>,
    threads: Vec<(usize, u32)>,
    clock: Clock,
    names: own::Names,
    runs: BTreeMap<u32, own::Runs>,
    before: Reading,
    /// When they were read.
    before_tick: u64,
    events: Events,
    why_not_higher: Option<String>,
    begin: Tie,
}

/// Events that are being kept.
#[derive(Debug)]
enum Events {
    None,
    Switches(Switches),
    Tracing(Tracing),
}

impl Watch {
    /// Watches `cpus`; the calling thread traces on the first. The level is at most `at_most`, and
    /// as high as permissions allow. Call it pinned, outside the window: it reads files and opens
    /// events, which takes milliseconds.
    ///
    /// Events are kept in memory of a fixed size until [`Watch::end`]: at 100 bytes each, 40,000 of
    /// a CPU where few are watched, and 600 at worst where a thousand are. The evidence says from
    /// when on they were lost.
    pub fn begin(at_most: Level, cpus: &[usize], clock: Clock) -> Watch {
        let me = calling_thread(&Root::live(Outside::default()));
        let threads: Vec<(usize, u32)> = cpus.first().copied().zip(me).into_iter().collect();
        Watch::begin_threads(at_most, cpus, &threads, clock)
    }

    /// Watches `cpus` and the `threads` (CPU, number) that trace on them, which may be of other
    /// processes that this one started.
    pub fn begin_threads(
        at_most: Level,
        cpus: &[usize],
        threads: &[(usize, u32)],
        clock: Clock,
    ) -> Watch {
        let root = Root::live(Outside::default());
        let (events, why_not_higher) = climb(at_most, &root, cpus, threads);
        let names = own::names(&root);
        let mut watch = Watch {
            runs: own::runs(&root, &names),
            before_tick: clock.start(),
            before: Reading::take(&root, cpus, threads),
            cpus: cpus.to_vec(),
            threads: threads.to_vec(),
            clock,
            names,
            root,
            events,
            why_not_higher,
            begin: (0, 0),
        };
        let started = match &watch.events {
            Events::None => Ok(()),
            Events::Switches(switches) => switches.start(),
            Events::Tracing(tracing) => tracing.start(),
        };
        if let Err(error) = started {
            watch.events = Events::None;
            watch.why_not_higher = Some(format!("{error:#}"));
        }
        watch.begin = tie(clock);
        watch
    }

    /// What was seen since the beginning.
    pub fn end(self) -> Evidence {
        let ties = (self.begin, tie(self.clock));
        if let Events::Tracing(tracing) = &self.events {
            tracing.stop();
        }
        let counted_ns = self.clock.between_ns(self.before_tick, self.clock.start());
        let after = Reading::take(&self.root, &self.cpus, &self.threads);
        let runs = own::runs(&self.root, &self.names);
        let traced: Vec<u32> = self.threads.iter().map(|(_, tid)| *tid).collect();
        let (level, mut timelines) = match self.events {
            Events::None => (Level::Counters, BTreeMap::new()),
            Events::Switches(switches) => (Level::Switches, switches.timelines(ties)),
            Events::Tracing(tracing) => {
                let threads = |cpu| who_is_who(cpu, &self.threads, &self.names);
                (Level::Tracepoints, tracing.timelines(threads, ties))
            }
        };
        let mut of_cpu = |&cpu: &usize| {
            let mut of_cpu = after.since(&self.before, cpu, &self.threads);
            of_cpu.timeline = timelines.remove(&cpu);
            (cpu, of_cpu)
        };
        let cpus: BTreeMap<usize, OfCpu> = self.cpus.iter().map(&mut of_cpu).collect();
        let is_guest = match level {
            Level::Tracepoints => virtualisation(&self.root).is_guest,
            Level::Counters | Level::Switches => None,
        };
        Evidence {
            level,
            why_not_higher: self.why_not_higher,
            tick_ns: self.clock.ns(1),
            begin: self.begin.0,
            counted_ns,
            is_guest,
            throttling: after.throttling_since(&self.before),
            cpus,
            plumb: own::plumb(&self.names, &self.runs, &runs, &traced),
        }
    }
}

/// The highest available step, and why not a higher one.
fn climb(
    at_most: Level,
    root: &Root,
    cpus: &[usize],
    threads: &[(usize, u32)],
) -> (Events, Option<String>) {
    let unasked = |level: Level| {
        let next = *Level::ALL.iter().find(|higher| **higher > level)?;
        (at_most < next).then(|| format!("{} were not requested", next.text()))
    };
    let mut why_not = unasked(Level::Switches);
    if at_most >= Level::Tracepoints {
        match Tracing::open(root, cpus) {
            Ok(tracing) => return (Events::Tracing(tracing), None),
            Err(error) => why_not = Some(format!("{error:#}")),
        }
    }
    if at_most >= Level::Switches {
        match Switches::open(threads) {
            Ok(switches) => return (Events::Switches(switches), why_not),
            Err(error) => {
                let more = why_not.map(|why| format!("; {why}")).unwrap_or_default();
                return (Events::None, Some(format!("{error:#}{more}")));
            }
        }
    }
    (Events::None, unasked(Level::Counters))
}

fn who_is_who(cpu: usize, threads: &[(usize, u32)], names: &own::Names) -> Threads {
    let traced = threads.iter().filter(|(on, _)| *on == cpu);
    let traced: BTreeSet<u32> = traced.map(|(_, tid)| *tid).collect();
    let plumb = names.iter().filter(|(tid, _)| !traced.contains(tid));
    Threads {
        plumb: plumb.map(|(tid, named)| (*tid, named.name.as_str().into())).collect(),
        traced,
    }
}

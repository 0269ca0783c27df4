//! Evidence is gathered around a window.

use super::counters::Reading;
use super::{Evidence, Level, own};
use crate::host::{Outside, Root};
use crate::measure::Clock;

/// One step of the ladder, and whether it can be had here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    /// The step.
    pub level: Level,
    /// `None` where it can be had, else why not and what would help.
    pub why_not: Option<String>,
}

/// Every step of the ladder, tried here and now.
pub(crate) fn ladder() -> Vec<Rung> {
    let rung = |level| Rung {
        level,
        why_not: None,
    };
    vec![rung(Level::Counters)]
}

/// Watches some CPUs and the threads that trace on them.
#[derive(Debug)]
pub(crate) struct Watch {
    root: Root,
    cpus: Vec<usize>,
    threads: Vec<(usize, u32)>,
    clock: Clock,
    before: Reading,
    names: own::Names,
    runs: std::collections::BTreeMap<u32, own::Runs>,
    why_not_higher: Option<String>,
}

impl Watch {
    /// Watches `cpus`, of which the calling thread traces on the first, no further up the ladder
    /// than `at_most` and as far as permissions go. Call it pinned, outside the window.
    pub(crate) fn begin(at_most: Level, cpus: &[usize], clock: Clock) -> Watch {
        let root = Root::live(Outside::default());
        let me = root
            .link_name("proc/thread-self")
            .and_then(|tid| tid.parse().ok());
        let threads: Vec<(usize, u32)> = cpus.first().copied().zip(me).into_iter().collect();
        Watch::begin_threads(at_most, cpus, &threads, clock)
    }

    /// Watches `cpus` and the `threads` (CPU, number) that trace on them, which may be of other
    /// processes that this one started.
    pub(crate) fn begin_threads(
        at_most: Level,
        cpus: &[usize],
        threads: &[(usize, u32)],
        clock: Clock,
    ) -> Watch {
        let root = Root::live(Outside::default());
        let names = own::names(&root);
        let why_not_higher = (at_most == Level::Counters).then(|| "not asked for".to_owned());
        Watch {
            runs: own::runs(&root, &names),
            before: Reading::take(&root, cpus, threads),
            cpus: cpus.to_vec(),
            threads: threads.to_vec(),
            clock,
            names,
            root,
            why_not_higher,
        }
    }

    /// What was seen since the beginning.
    pub(crate) fn end(self) -> Evidence {
        let after = Reading::take(&self.root, &self.cpus, &self.threads);
        let runs = own::runs(&self.root, &self.names);
        let traced: Vec<u32> = self.threads.iter().map(|(_, tid)| *tid).collect();
        let cpus = self.cpus.iter().map(|&cpu| {
            let of_cpu = after.since(&self.before, cpu, &self.threads);
            (cpu, of_cpu)
        });
        Evidence {
            level: Level::Counters,
            why_not_higher: self.why_not_higher,
            tick_ns: self.clock.ns(1),
            cpus: cpus.collect(),
            throttling: after.throttling_since(&self.before),
            plumb: own::plumb(&self.names, &self.runs, &runs, &traced),
        }
    }
}

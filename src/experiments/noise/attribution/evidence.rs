//! What was seen around a traced window, as plain data.

use std::collections::BTreeMap;

use metal::gaps::Gap;

use super::own::PlumbThread;
use super::{Attributed, Level, counts};

/// What was seen between [`super::Watch::begin`] and its end. Plain data: it can be made by hand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evidence {
    /// How far it goes.
    pub level: Level,
    /// Why not further; `None` at the top of the ladder.
    pub why_not_higher: Option<String>,
    /// Length of a tick of the gaps' clock, in ns.
    pub tick_ns: f64,
    /// By CPU.
    pub cpus: BTreeMap<usize, OfCpu>,
    /// Throttling of the control groups of this process; `None` where none tells.
    pub throttling: Option<Throttling>,
    /// Threads of plumb beside the traced ones, and what they ran.
    pub plumb: Vec<PlumbThread>,
}

/// Deltas of one CPU over the window; `None` where a counter cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfCpu {
    /// Lines of `/proc/interrupts`; those that did not move are left out.
    pub interrupts: Option<Vec<RowCount>>,
    /// Lines of `/proc/softirqs` that moved.
    pub softirqs: Option<Vec<RowCount>>,
    /// Time that the hypervisor ran something else, in ns, to 10 ms.
    pub steal_ns: Option<u64>,
    /// The traced threads of this CPU.
    pub threads: Vec<OfThread>,
}

/// How often a line moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowCount {
    /// Name for people ([`crate::host::interrupts::Row::title`]).
    pub name: String,
    /// It is the timer's.
    pub is_timer: bool,
    /// How often.
    pub count: u64,
}

/// Deltas of one traced thread over the window; `None` where a counter cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfThread {
    /// Number of the thread.
    pub tid: u32,
    /// Times it was switched out though it could run.
    pub involuntary: Option<u64>,
    /// Time it waited for the CPU though it could run, in ns.
    pub run_delay_ns: Option<u64>,
}

/// Throttling of the control groups over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttling {
    /// Periods in which a group was out of quota.
    pub periods: u64,
    /// Time that it was throttled, in ns, of all its CPUs together.
    pub time_ns: u64,
}

impl Evidence {
    /// The cause of each of `gaps` of `cpu`, which lie in the watched window; `on_tick[n]` says that
    /// gap n lies on the tick's grid. One answer per gap, in their order.
    pub(crate) fn attribute(&self, cpu: usize, gaps: &[Gap], on_tick: &[bool]) -> Vec<Attributed> {
        assert_eq!(gaps.len(), on_tick.len(), "one mark per gap");
        let Some(of_cpu) = self.cpus.get(&cpu) else {
            let why = format!("CPU {cpu} was not watched");
            return vec![Attributed::nobody(why); gaps.len()];
        };
        let lengths_ns: Vec<f64> = gaps
            .iter()
            .map(|gap| gap.end.saturating_sub(gap.start) as f64 * self.tick_ns)
            .collect();
        let mut found = vec![None; gaps.len()];
        counts::complete(&mut found, &lengths_ns, on_tick, of_cpu, self.throttling);
        let why = of_cpu.why_nobody();
        found
            .into_iter()
            .map(|cause| cause.unwrap_or_else(|| Attributed::nobody(why.clone())))
            .collect()
    }

    /// Threads of plumb beside the traced ones, by what they ran in the window, most first: the
    /// harness's own wake-ups.
    pub(crate) fn plumb(&self) -> &[PlumbThread] {
        &self.plumb
    }

    /// How far the evidence goes, for a note: `level 1 (switches): …why not further`.
    pub(crate) fn reached(&self) -> String {
        let level = format!("level {} ({})", self.level.number(), self.level.name());
        match &self.why_not_higher {
            Some(why) => format!("{level}; not further: {why}"),
            None => level,
        }
    }
}

impl OfCpu {
    /// The counters that could not be read, by name.
    pub(crate) fn unreadable(&self) -> Vec<&'static str> {
        let no_thread = self
            .threads
            .iter()
            .all(|thread| thread.involuntary.is_none());
        let missing = [
            (self.interrupts.is_none(), "interrupts"),
            (self.softirqs.is_none(), "soft interrupts"),
            (self.steal_ns.is_none(), "steal"),
            (no_thread, "involuntary switches"),
        ];
        let missing = missing.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, name)| name).collect()
    }

    fn why_nobody(&self) -> String {
        let unreadable = self.unreadable();
        match unreadable.is_empty() {
            true => "no counter moved that is not used up".to_owned(),
            false => format!("counters not readable: {}", unreadable.join(", ")),
        }
    }
}

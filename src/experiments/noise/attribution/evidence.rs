//! What was seen around a traced window, as plain data.

use std::collections::BTreeMap;

use metal::gaps::Gap;

use super::own::PlumbThread;
use super::spans::Timeline;
use super::{Attributed, By, Cause, Level, counts};

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
    /// Who had it when, above [`Level::Counters`].
    pub timeline: Option<Timeline>,
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
        let mut counts = counts::Matching::new(&lengths_ns, on_tick, of_cpu);
        let owner = |gap: &Gap| of_cpu.timeline.as_ref()?.owner(*gap, self.tick_ns);
        match (self.level, &of_cpu.timeline) {
            (Level::Tracepoints, Some(_)) => {
                counts.found = gaps.iter().map(owner).collect();
                counts.steal();
            }
            (Level::Switches, Some(timeline)) => {
                let is_off: Vec<bool> = gaps.iter().map(|gap| owner(gap).is_some()).collect();
                counts.throttled(self.throttling, |gap| is_off[gap]);
                for (gap, found) in counts.found.iter_mut().enumerate() {
                    if is_off[gap] && found.is_none() {
                        *found = Some(Attributed::new(Cause::Thread, "another thread", By::Time));
                    }
                }
                counts.threads(|gap| timeline.has_hole_in(gaps[gap]));
                counts.timer();
                counts.steal();
                counts.interrupts();
            }
            _ => {
                counts.throttled(self.throttling, |_| true);
                counts.threads(|_| true);
                counts.timer();
                counts.steal();
                counts.interrupts();
            }
        }
        let found = counts.found.into_iter().zip(gaps);
        let nobody = |gap: &Gap| Attributed::nobody(self.why_nobody(of_cpu, *gap));
        found
            .map(|(cause, gap)| cause.unwrap_or_else(|| nobody(gap)))
            .collect()
    }

    fn why_nobody(&self, of_cpu: &OfCpu, gap: Gap) -> String {
        if let (Level::Tracepoints, Some(timeline)) = (self.level, &of_cpu.timeline) {
            return match timeline.has_hole_in(gap) {
                true => "events were lost: more than the ring holds".to_owned(),
                false => "no event of the kernel touches it".to_owned(),
            };
        }
        let unreadable = of_cpu.unreadable();
        match unreadable.is_empty() {
            true => "more gaps than the counters counted".to_owned(),
            false => format!("counters not readable: {}", unreadable.join(", ")),
        }
    }

    /// Threads of plumb beside the traced ones, by what they ran in the window, most first: the
    /// harness's own wake-ups.
    pub(crate) fn plumb(&self) -> &[PlumbThread] {
        &self.plumb
    }

    /// How far the evidence goes, for a note: `level 1 (switches): …why not further`.
    pub(crate) fn reached(&self) -> String {
        let level = format!("level {} ({})", self.level.number(), self.level.name());
        let lost: u64 = self
            .cpus
            .values()
            .filter_map(|of_cpu| of_cpu.timeline.as_ref()?.lost)
            .sum();
        let lost = match lost {
            0 => String::new(),
            _ => format!("; {lost} events were lost"),
        };
        match &self.why_not_higher {
            Some(why) => format!("{level}{lost}; not further: {why}"),
            None => format!("{level}{lost}"),
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
}

//! What was seen around a traced window, as plain data.

use record::order::InOrder;
use std::collections::BTreeMap;

use metal::gaps::Gap;

use super::counts::Matching;
use super::own::PlumbThread;
use super::spans::{self, Timeline};
use super::{Attributed, By, Cause, Held, Level, unattributed};
use host::kernel::Virtualisation;

/// What was seen between [`super::Watch::begin`] and its end. Plain data: it can be made by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// How far it goes.
    pub level: Level,
    /// Why not further; `None` at the top of the ladder.
    pub why_not_higher: Option<String>,
    /// Length of a tick of the gaps' clock, in ns.
    pub tick_ns: f64,
    /// When it begins, in ticks of that clock.
    pub begin: u64,
    /// Time between the two readings of the counters, in ns: somewhat longer than the window.
    pub counted_ns: f64,
    /// Whether this is a virtual machine, if known.
    pub is_guest: Option<bool>,
    pub cpus: BTreeMap<usize, OfCpu>,
    /// Throttling of the control groups of this process; `None` if none reports it.
    pub throttling: Option<Throttling>,
    /// Threads of plumb beside the traced ones, and what they ran.
    pub plumb: Vec<PlumbThread>,
}

/// Deltas of one CPU over the window; `None` where a counter cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfCpu {
    /// Lines of `/proc/interrupts`; those that did not move are left out.
    pub interrupts: Option<Vec<RowCount>>,
    /// Lines of `/proc/softirqs` that moved.
    pub softirqs: Option<Vec<RowCount>>,
    /// Time that the hypervisor ran something else, in ns, to 10 ms.
    pub steal_ns: Option<u64>,
    /// How often the tracing thread was switched out though it could run.
    pub involuntary: Option<u64>,
    /// Time that it waited for the CPU though it could run, in ns.
    pub run_delay_ns: Option<u64>,
    /// The times of each owner, above [`Level::Counters`].
    pub timeline: Option<Timeline>,
}

/// How often a line moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCount {
    /// Name for people ([`host::interrupts::Row::title`]).
    pub name: String,
    pub is_timer: bool,
    pub count: u64,
}

/// Throttling of the control groups over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which a group was out of quota.
    pub periods: u64,
    /// Time that it was throttled, in ns, of all its CPUs together.
    pub time_ns: u64,
}

/// The share of each cause in the time of the gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// The shares by cause: together 1, or empty where there is no gap.
    pub by_cause: BTreeMap<Cause, f64>,
    /// What of it lies in no event though its gap's cause is known by events: of causes by time,
    /// the share that is only likely theirs.
    pub beside: f64,
    /// The part of the unattributed share that the kernel could have reported: gaps that no event
    /// touches or most of which lies beside them, or more of them than all counters counted. The
    /// rest has no cause because evidence is missing, or was the loop's own.
    pub outside: f64,
    /// Gaps that it is taken from: those whose events are whole.
    pub gaps: usize,
}

impl Shares {
    /// What the unattributed share is called: the hypervisor is named only where it is what is
    /// left.
    pub fn nobody(&self, machine: &Virtualisation) -> String {
        let share = self.by_cause.get(&Cause::Unattributed);
        if share.is_some_and(|share| *share > 0.0) && self.outside <= 0.0 {
            "unattributed (the evidence is not whole)".to_owned()
        } else {
            unattributed(machine)
        }
    }
}

#[cfg(test)]
impl Evidence {
    /// What counters said of one CPU in a window of ticks of a ns.
    pub fn counted(cpu: usize, of_cpu: OfCpu) -> Evidence {
        Evidence {
            level: Level::Counters,
            why_not_higher: None,
            tick_ns: 1.0,
            begin: 0,
            counted_ns: 1e9,
            is_guest: None,
            cpus: [(cpu, of_cpu)].into(),
            throttling: None,
            plumb: Vec::new(),
        }
    }
}

impl Evidence {
    /// Whether so many gaps of a CPU can each have been an interrupt of one kind: some line of
    /// `/proc/interrupts` moved at least half as often, or they are not reported.
    pub fn could_be_interrupts(&self, cpu: usize, gaps: usize) -> bool {
        let rows = self.cpus.get(&cpu).and_then(|cpu| cpu.interrupts.as_ref());
        rows.is_none_or(|rows| rows.iter().any(|row| 2 * row.count >= gaps as u64))
    }

    /// The cause of each of `gaps` of `cpu`, which lie in the watched window; `on_tick[n]` says
    /// that gap n lies on the tick's grid, `held` which part of the window they are. One answer per
    /// gap, in their order.
    pub fn attribute(
        &self,
        cpu: usize,
        gaps: &[Gap],
        on_tick: &[bool],
        mut held: Held,
    ) -> Vec<Attributed> {
        assert_eq!(gaps.len(), on_tick.len(), "one mark per gap");
        let Some(of_cpu) = self.cpus.get(&cpu) else {
            let why = format!("CPU {cpu} was not watched");
            return vec![Attributed::nobody(why); gaps.len()];
        };
        let length_ns = |gap: &Gap| gap.end.saturating_sub(gap.start) as f64 * self.tick_ns;
        let lengths_ns: Vec<f64> = gaps.iter().map(length_ns).collect();
        let slack_ns = spans::slack_ns(self.is_guest);
        let by_events = of_cpu.timeline.as_ref().filter(|_| self.level > Level::Counters);
        let owner = |gap: &Gap| by_events?.owner(*gap, self.tick_ns, slack_ns);
        let mut owners: Vec<Option<Attributed>> = gaps.iter().map(owner).collect();
        let is_torn = |gap: &Gap| of_cpu.whole_until().is_some_and(|from| from <= gap.end);
        // A group counts the throttled time of all its CPUs together: what one may have had.
        let cpus = self.cpus.len() as u64;
        let throttling =
            self.throttling.map(|of_all| Throttling { time_ns: of_all.time_ns / cpus, ..of_all });
        let mut counts = Matching {
            found: vec![None; gaps.len()],
            lengths_ns: &lengths_ns,
            on_tick,
            of_cpu,
            held,
        };
        if self.level == Level::Tracepoints {
            // Gaps with lost events have no cause, and neither do the counts of their time.
            let torn = gaps.iter().zip(&mut owners).filter(|(gap, _)| is_torn(gap));
            let torn =
                torn.map(|(_, owner)| *owner = Some(Attributed::nobody(self.why_lost(of_cpu))));
            held.gaps *= 1.0 - torn.count() as f64 / gaps.len().max(1) as f64;
            (counts.found, counts.held) = (owners, held);
            // Others may have the CPU while a quota keeps the thread off it, and the switch to them
            // looks like any other: of another thread's gaps the quota takes its part.
            counts.throttled(throttling, |_, cause| cause == Some(Cause::Thread));
            counts.steal();
        } else {
            counts.throttled(throttling, |gap, cause| {
                cause.is_none() && (by_events.is_none() || owners[gap].is_some())
            });
            for (found, owner) in counts.found.iter_mut().zip(owners) {
                let thread = || Attributed::new(Cause::Thread, "another thread", By::Time);
                *found = found.take().or(owner.map(|_| thread()));
            }
            counts.threads(|gap| by_events.is_none() || is_torn(&gaps[gap]));
            counts.timer();
            counts.steal();
            counts.interrupts();
        }
        let nobody = self.nobody(of_cpu);
        let found = counts.found.into_iter();
        found.map(|cause| cause.unwrap_or_else(|| nobody.clone())).collect()
    }

    /// The share of each cause in the time of `gaps` of `cpu`, as [`Evidence::attribute`] named
    /// them. Each gap's time is split by its events. Where events were lost, the gaps before that
    /// stand for all; without one before it, all are unattributed.
    pub fn shares(&self, cpu: usize, gaps: &[Gap], attributed: &[Attributed]) -> Shares {
        assert_eq!(gaps.len(), attributed.len(), "one answer per gap");
        let until = self.whole_until(cpu).unwrap_or(u64::MAX);
        let mut chosen: Vec<(&Gap, &Attributed)> = gaps.iter().zip(attributed).collect();
        // Where no gap is whole, all stand for themselves.
        if gaps.iter().any(|gap| gap.end < until) {
            chosen.retain(|(gap, _)| gap.end < until);
        }
        let mut shares = Shares { gaps: chosen.len(), ..Shares::default() };
        let all_ns: f64 = chosen.iter().map(|(gap, _)| gap.ticks() as f64 * self.tick_ns).sum();
        for (gap, found) in chosen {
            let mut rest_ns = gap.ticks() as f64 * self.tick_ns;
            for (cause, ns) in &found.others {
                *shares.by_cause.entry(*cause).or_default() += ns / all_ns;
                rest_ns -= ns;
            }
            *shares.by_cause.entry(found.cause).or_default() += rest_ns / all_ns;
            match found.cause {
                Cause::Unattributed if found.by == By::Outside => {
                    shares.outside += rest_ns / all_ns;
                }
                Cause::Unattributed => {}
                _ => shares.beside += found.beside_ns.unwrap_or(0.0) / all_ns,
            }
        }
        shares
    }

    /// Until when the events of `cpu` are whole, in ticks; `None` if no event was lost, or if the
    /// level has no events ([`Level::Counters`]) or uses them only as a help ([`Level::Switches`]).
    pub fn whole_until(&self, cpu: usize) -> Option<u64> {
        (self.level == Level::Tracepoints).then_some(())?;
        self.cpus.get(&cpu)?.whole_until()
    }

    /// Whether it could see this cause of a gap of `cpu`. A cause that it cannot see is unknown,
    /// not 0.
    pub fn tells(&self, cpu: usize, cause: Cause) -> bool {
        let Some(of_cpu) = self.cpus.get(&cpu) else {
            return cause == Cause::Unattributed;
        };
        let by_events = self.level == Level::Tracepoints;
        match cause {
            Cause::Unattributed => true,
            Cause::Softirq | Cause::Plumb => by_events,
            Cause::Timer | Cause::Interrupt => by_events || of_cpu.interrupts.is_some(),
            Cause::Thread => self.level > Level::Counters || of_cpu.involuntary.is_some(),
            // If no group reports a quota, there is none.
            Cause::Throttled => true,
            Cause::Steal => of_cpu.steal_ns.is_some(),
        }
    }

    /// The lines that moved, by CPU and kind (`interrupt` or `softirq`), those that moved most
    /// first.
    pub fn moved(&self) -> Vec<(usize, &'static str, &RowCount)> {
        let mut moved = Vec::new();
        for (&cpu, of_cpu) in &self.cpus {
            for (kind, rows) in [("interrupt", &of_cpu.interrupts), ("softirq", &of_cpu.softirqs)] {
                moved.extend(rows.iter().flatten().map(|row| (cpu, kind, row)));
            }
        }
        moved.order_by_key(|(cpu, kind, row)| (*cpu, *kind, std::cmp::Reverse(row.count)));
        moved
    }

    fn seconds_until(&self, tick: u64) -> f64 {
        tick.saturating_sub(self.begin) as f64 * self.tick_ns * 1e-9
    }

    fn why_lost(&self, of_cpu: &OfCpu) -> String {
        let after_s = self.seconds_until(of_cpu.whole_until().unwrap_or(self.begin));
        format!("events were lost from {after_s:.2} s on: more than the ring holds")
    }

    fn nobody(&self, of_cpu: &OfCpu) -> Attributed {
        if self.level == Level::Tracepoints && of_cpu.timeline.is_some() {
            return Attributed::outside("no kernel event overlaps it");
        }
        let unreadable = of_cpu.unreadable();
        if unreadable.is_empty() {
            Attributed::outside("more gaps than the counters counted")
        } else {
            Attributed::nobody(format!("counters not readable: {}", unreadable.join(", ")))
        }
    }

    /// How often the scheduler took the CPU from the traced threads.
    pub fn involuntary(&self) -> u64 {
        self.cpus.values().filter_map(|cpu| cpu.involuntary).sum()
    }

    /// How far the evidence goes and why no further, without what differs between rounds.
    pub fn reached_without_figures(&self) -> String {
        self.reached_with("")
    }

    /// How far the evidence goes, what was lost of it, and why it goes no further.
    pub fn reached(&self) -> String {
        let timelines = || self.cpus.values().filter_map(|of_cpu| of_cpu.timeline.as_ref());
        let lost: u64 = timelines().filter_map(|timeline| timeline.lost).sum();
        let first = timelines().filter_map(|timeline| timeline.whole_until).min();
        let since = first
            .map_or(String::new(), |from| format!(" from {:.2} s on", self.seconds_until(from)));
        self.reached_with(&match lost {
            0 if first.is_none() => String::new(),
            0 => format!("; events may have been lost{since}"),
            _ => format!("; {lost} events were lost{since}"),
        })
    }

    fn reached_with(&self, lost: &str) -> String {
        let why = self.why_not_higher.as_ref();
        let why = why.map(|why| format!("; not further: {why}")).unwrap_or_default();
        format!("{}{lost}{why}", self.level.title())
    }
}

impl OfCpu {
    fn whole_until(&self) -> Option<u64> {
        self.timeline.as_ref()?.whole_until
    }

    /// The counters that could not be read, by name.
    pub fn unreadable(&self) -> Vec<&'static str> {
        let missing = [
            (self.interrupts.is_none(), "interrupts"),
            (self.softirqs.is_none(), "soft interrupts"),
            (self.steal_ns.is_none(), "steal"),
            (self.involuntary.is_none(), "involuntary switches"),
        ];
        let missing = missing.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, name)| name).collect()
    }
}

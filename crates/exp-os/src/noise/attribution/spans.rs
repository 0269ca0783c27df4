//! Events become spans of time, each of one cause, none inside another; gaps become what took most
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metal::gaps::Gap;

use super::{Attributed, By, Cause};

/// If more than this of a gap, in ns, is outside all spans, and more than any cause took, the spans
/// do not explain it. Entering and leaving the kernel takes a microsecond on a machine of its own,
/// some on a slow one; in a virtual machine the hypervisor takes its part before it delivers an
/// interrupt (13 to 19 µs under KVM where this was written), which belongs to the interrupt. Twice
/// that does not.
pub(super) fn slack_ns(is_guest: Option<bool>) -> f64 {
    match is_guest {
        Some(false) => 5e3,
        Some(true) | None => 40e3,
    }
}
/// How near a gap and a span come, in ns: the error of tying the two clocks.
pub(super) const EDGE_NS: f64 = 1e3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The handler of a vector of the processor.
    Vector,
    /// The handler of a numbered interrupt.
    Handler,
    Softirq,
    NonMaskable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An interrupt or a soft interrupt begins.
    Enter(Kind, Cause, Arc<str>),
    Leave(Kind),
    /// Another thread gets the CPU.
    Switch {
        /// The thread that had it.
        from: u32,
        /// It could have gone on.
        is_runnable: bool,
        /// The thread that gets it; 0 is the idle thread.
        to: u32,
        /// Its name.
        name: Arc<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, in ticks of the gaps' clock.
    pub at: u64,
    /// What.
    pub what: What,
}

/// A stretch of time of one cause, in ticks of the gaps' clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Its cause.
    pub cause: Cause,
    /// The handler, vector, soft interrupt or thread.
    pub who: Arc<str>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    /// The traced ones.
    pub traced: BTreeSet<u32>,
    /// Those of plumb, and what they are called.
    pub plumb: BTreeMap<u32, Arc<str>>,
}

/// The spans of a CPU's `events`, which are in the order of time, up to `until`; events from then
/// on are left out.
///
/// While another thread has the CPU, all is its; an idle CPU while a traced thread could run is a
/// quota's doing. Otherwise the innermost of the interrupts that have begun and not ended has the
/// time. A switch ends all of them: none is left open across one.
fn spans(events: &[Event], threads: &Threads, until: u64) -> Vec<Span> {
    let mut line = Line {
        spans: Vec::new(),
        open: Vec::new(),
        thread: None,
        could_run: true,
        since: events.first().map_or(until, |event| event.at),
    };
    let mut has_switched = false;
    for event in events.iter().take_while(|event| event.at < until) {
        if let What::Switch { from, .. } = event.what
            && !has_switched
            && !threads.traced.contains(&from)
        {
            // Only the first switch shows which thread had the CPU before.
            line.thread = Some((Cause::Thread, "another thread".into()));
        }
        has_switched |= matches!(event.what, What::Switch { .. });
        line.pass(event.at);
        match &event.what {
            What::Enter(kind, cause, who) => line.open.push((*kind, (*cause, who.clone()))),
            What::Leave(kind) => {
                if let Some(at) = line.open.iter().rposition(|(open, _)| open == kind) {
                    line.open.truncate(at);
                }
            }
            What::Switch { .. } => {
                line.open.clear();
                line.switch(&event.what, threads);
            }
        }
    }
    line.pass(until);
    line.spans
}

type Owner = (Cause, Arc<str>);

struct Line {
    spans: Vec<Span>,
    open: Vec<(Kind, Owner)>,
    thread: Option<Owner>,
    /// The traced thread could have gone on when it was last taken off.
    could_run: bool,
    since: u64,
}

impl Line {
    fn pass(&mut self, at: u64) {
        let innermost = self.open.last().map(|(_, owner)| owner);
        let owner = self.thread.as_ref().or(innermost);
        if let Some((cause, who)) = owner.filter(|_| at > self.since) {
            let start = self.since;
            match self.spans.last_mut() {
                Some(last) if last.end == start && last.cause == *cause && last.who == *who => {
                    last.end = at;
                }
                _ => self.spans.push(Span { start, end: at, cause: *cause, who: who.clone() }),
            }
        }
        self.since = self.since.max(at);
    }

    /// The thread that has the CPU from a switch on; no other if it is the traced thread. An idle
    /// CPU means that the traced thread could not run, or was not let: which of them, it was when
    /// it was taken off, whoever ran since.
    fn switch(&mut self, what: &What, threads: &Threads) {
        let What::Switch { from, is_runnable, to, name } = what else {
            return;
        };
        if threads.traced.contains(from) {
            self.could_run = *is_runnable;
        }
        self.thread = if threads.traced.contains(to) {
            None
        } else if let Some(name) = threads.plumb.get(to) {
            Some((Cause::Plumb, name.clone()))
        } else if *to != 0 {
            Some((Cause::Thread, name.clone()))
        } else if self.could_run {
            Some((Cause::Throttled, "idle while the loop could run".into()))
        } else {
            Some((Cause::Unattributed, "the loop's own thread slept".into()))
        };
    }
}

/// A CPU's spans, and when its events are not complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// In the order of time, none inside another.
    pub spans: Vec<Span>,
    /// Stretches (start, end in ticks) in which events may be missing.
    pub holes: Vec<(u64, u64)>,
    /// Events that were lost; `None` if the kernel does not report it.
    pub lost: Option<u64>,
}

impl Timeline {
    /// Of `events`, which are in the order of time, up to `end`, as far as they are whole: of what
    /// followed the beginning of a hole smaller records may still have found room, without their
    /// pairs, and the owner of the CPU is then unknown.
    pub(super) fn of(
        events: &[Event],
        threads: &Threads,
        end: u64,
        holes: Vec<(u64, u64)>,
        lost: Option<u64>,
    ) -> Timeline {
        let until = holes.iter().map(|(from, _)| *from).min().unwrap_or(end);
        Timeline { spans: spans(events, threads, until.min(end)), holes, lost }
    }

    /// Whose a gap is, `slack_ns` of it beside spans; `None` where no span touches it.
    pub(super) fn owner(&self, gap: Gap, tick_ns: f64, slack_ns: f64) -> Option<Attributed> {
        let edge = (EDGE_NS / tick_ns).round() as u64;
        let (from, to) = (gap.start.saturating_sub(edge), gap.end.saturating_add(edge));
        let first = self.spans.partition_point(|span| span.end < from);
        let touching = self.spans[first..].iter().take_while(|span| span.start <= to);
        let mut taken: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
        // Without what the edges allow: a gap's parts are not more than the gap.
        let mut parts: BTreeMap<Cause, u64> = BTreeMap::new();
        for span in touching {
            let between =
                |from: u64, to: u64| span.end.min(to).saturating_sub(span.start.max(from));
            *taken.entry((span.cause, &span.who)).or_default() += between(from, to);
            *parts.entry(span.cause).or_default() += between(gap.start, gap.end);
        }
        let seen: u64 = taken.values().sum();
        let (&(cause, who), &most) = taken.iter().max_by_key(|(_, ticks)| **ticks)?;
        let residue_ns = gap.ticks().saturating_sub(seen) as f64 * tick_ns;
        let is_beside = residue_ns > slack_ns && residue_ns > most as f64 * tick_ns;
        let mut found = match cause {
            _ if is_beside => {
                Attributed::outside(format!("most of the gap outside {}", cause.text()))
            }
            Cause::Unattributed => Attributed::nobody(who),
            _ => Attributed::new(cause, who, By::Time),
        };
        found.beside_ns = Some(residue_ns);
        let others = parts.into_iter().filter(|(of, _)| *of != found.cause);
        found.others = others.map(|(of, ticks)| (of, ticks as f64 * tick_ns)).collect();
        Some(found)
    }

    /// Whether events may be missing somewhere in a gap.
    pub(super) fn has_hole_in(&self, gap: Gap) -> bool {
        let meets = |&(from, to): &(u64, u64)| from <= gap.end && gap.start <= to;
        self.holes.iter().any(meets)
    }
}

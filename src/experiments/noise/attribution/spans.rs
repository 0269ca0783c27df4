//! Events become spans of time, each of one cause, none inside another; gaps become what took most
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metal::gaps::Gap;

use super::{Attributed, By, Cause};

/// A gap of which more than this, in ns, lies outside of all that was seen, and more than any cause
/// took, is not explained by what was seen. Entering and leaving the kernel takes a microsecond on a
/// machine of its own; in a virtual machine the hypervisor takes its part before it delivers an
/// interrupt (13 to 19 µs under KVM where this was written), which belongs to the interrupt. Twice
/// that does not.
pub(super) const RESIDUE_NS: f64 = 40e3;
/// A gap and a span belong together when they come this near, in ns: the error of tying the
/// kernel's clock to the counter.
pub(super) const EDGE_NS: f64 = 1e3;

/// What begins and ends in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The handler of a vector of the processor.
    Vector,
    /// The handler of a numbered interrupt.
    Handler,
    /// A soft interrupt.
    Softirq,
    /// A non-maskable interrupt.
    NonMaskable,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An interrupt or a soft interrupt begins.
    Enter(Kind, Cause, Arc<str>),
    /// The innermost of its kind ends.
    Leave(Kind),
    /// An exception, of which only the beginning is seen.
    Point(Cause, Arc<str>),
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

/// Something that happened on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, in ticks of the gaps' clock.
    pub at: u64,
    /// What.
    pub what: What,
}

/// A stretch of time of one cause, in ticks of the gaps' clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its beginning.
    pub start: u64,
    /// Its end; the beginning where only that is seen.
    pub end: u64,
    /// Its cause.
    pub cause: Cause,
    /// The handler, vector, soft interrupt or thread.
    pub who: Arc<str>,
}

/// Who is who among the threads of a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads {
    /// The traced ones.
    pub traced: BTreeSet<u32>,
    /// Those of plumb, and what they are called.
    pub plumb: BTreeMap<u32, Arc<str>>,
}

/// The spans of a CPU's `events`, which are in the order of time, up to `until`.
///
/// While another thread has the CPU, all is its; an idle CPU while a traced thread could run is a
/// quota's doing. Otherwise the innermost of the interrupts that have begun and not ended has the
/// time. A switch ends all of them: none is left open across one.
pub(super) fn spans(events: &[Event], threads: &Threads, until: u64) -> Vec<Span> {
    let mut line = Line {
        spans: Vec::new(),
        open: Vec::new(),
        thread: None,
        since: events.first().map_or(until, |event| event.at),
    };
    let mut has_switched = false;
    for event in events {
        if let What::Switch { from, .. } = event.what
            && !has_switched
            && !threads.traced.contains(&from)
        {
            // Who had the CPU before the first switch is only told by it.
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
            // What another thread runs into is that thread's.
            What::Point(..) if line.thread.is_some() => {}
            What::Point(cause, who) => line.spans.push(Span {
                start: event.at,
                end: event.at,
                cause: *cause,
                who: who.clone(),
            }),
            What::Switch { .. } => {
                line.open.clear();
                line.thread = switched(&event.what, threads, line.thread.take());
            }
        }
    }
    line.pass(until);
    line.spans
}

/// Who has the CPU.
type Owner = (Cause, Arc<str>);

/// Spans under construction.
struct Line {
    spans: Vec<Span>,
    open: Vec<(Kind, Owner)>,
    thread: Option<Owner>,
    since: u64,
}

impl Line {
    /// The time up to `at` goes to whoever has it.
    fn pass(&mut self, at: u64) {
        let innermost = self.open.last().map(|(_, owner)| owner);
        let owner = self.thread.as_ref().or(innermost);
        if let Some((cause, who)) = owner.filter(|_| at > self.since) {
            let start = self.since;
            match self.spans.last_mut() {
                Some(last) if last.end == start && last.cause == *cause && last.who == *who => {
                    last.end = at;
                }
                _ => self.spans.push(Span {
                    start,
                    end: at,
                    cause: *cause,
                    who: who.clone(),
                }),
            }
        }
        self.since = self.since.max(at);
    }
}

/// Who has the CPU after a switch; `None` for a traced thread.
fn switched(what: &What, threads: &Threads, before: Option<Owner>) -> Option<Owner> {
    let What::Switch {
        from,
        is_runnable,
        to,
        name,
    } = what
    else {
        return before;
    };
    if threads.traced.contains(to) {
        return None;
    }
    if let Some(name) = threads.plumb.get(to) {
        return Some((Cause::Plumb, name.clone()));
    }
    if *to != 0 {
        return Some((Cause::Thread, name.clone()));
    }
    // The idle thread. Whether the traced one could run is known when it was just taken off; from
    // another thread on, idling means that it could not, or was not let.
    let was_traced = threads.traced.contains(from);
    match (was_traced, *is_runnable, before) {
        (true, true, _) => Some((Cause::Throttled, "idle while the loop could run".into())),
        (true, false, _) => Some((Cause::Unattributed, "the loop's own thread slept".into())),
        (false, _, Some((Cause::Unattributed, who))) => Some((Cause::Unattributed, who)),
        (false, _, _) => Some((Cause::Throttled, "idle while the loop could run".into())),
    }
}

/// A CPU's spans, and when its events are not complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    /// In the order of time, none inside another.
    pub spans: Vec<Span>,
    /// Stretches (start, end in ticks) in which events may be missing.
    pub holes: Vec<(u64, u64)>,
    /// Events that were lost; `None` where the kernel does not tell.
    pub lost: Option<u64>,
}

impl Timeline {
    /// Whose a gap is; `None` where no span touches it.
    pub(super) fn owner(&self, gap: Gap, tick_ns: f64) -> Option<Attributed> {
        let edge = (EDGE_NS / tick_ns).round() as u64;
        let (from, to) = (gap.start.saturating_sub(edge), gap.end.saturating_add(edge));
        let first = self.spans.partition_point(|span| span.end < from);
        let touching = self.spans[first..]
            .iter()
            .take_while(|span| span.start <= to);
        let mut taken: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
        for span in touching {
            let inside = span.end.min(to).saturating_sub(span.start.max(from));
            *taken.entry((span.cause, &span.who)).or_default() += inside;
        }
        let seen: u64 = taken.values().sum();
        let (&(cause, who), &most) = taken.iter().max_by_key(|(_, ticks)| **ticks)?;
        let residue_ns = gap.ticks().saturating_sub(seen) as f64 * tick_ns;
        if residue_ns > RESIDUE_NS && residue_ns > most as f64 * tick_ns {
            let residue_us = residue_ns / 1e3;
            let why = format!("{residue_us:.0} us beside {}: {who}", cause.name());
            let mut found = Attributed::nobody(why);
            found.beside_ns = Some(residue_ns);
            return Some(found);
        }
        let mut found = match cause {
            Cause::Unattributed => Attributed::nobody(who),
            _ => Attributed::new(cause, who, By::Time),
        };
        found.beside_ns = Some(residue_ns);
        Some(found)
    }

    /// Whether events may be missing somewhere in a gap.
    pub(super) fn has_hole_in(&self, gap: Gap) -> bool {
        let meets = |&(from, to): &(u64, u64)| from <= gap.end && gap.start <= to;
        self.holes.iter().any(meets)
    }
}

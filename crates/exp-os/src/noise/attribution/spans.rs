//! Events become spans of time, each of one cause, none inside another; gaps become what took most
//! of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use metal::gaps::Gap;

use super::own::Names;
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
        from: u32,
        /// The thread that had the CPU could have gone on.
        is_runnable: bool,
        /// The thread that gets it; 0 is the idle thread.
        to: u32,
        name: Arc<str>,
    },
}

/// When, in ticks of the gaps' clock, and what.
pub(super) type Event = (u64, What);

/// A stretch of time of one cause, in ticks of the gaps' clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
    pub cause: Cause,
    /// The handler, vector, soft interrupt or thread.
    pub who: Arc<str>,
}

/// The spans of a CPU's `events`, which are in the order of time, up to `until`; events from then
/// on are left out. The thread `me` traces.
///
/// While another thread has the CPU, all is its; an idle CPU while the traced thread could run is a
/// quota's doing. Otherwise the innermost of the interrupts that have begun and not ended has the
/// time. A switch ends all of them: none is left open across one.
pub(super) fn spans(events: &[Event], me: u32, names: &Names, until: u64) -> Vec<Span> {
    // Only the first switch shows which thread had the CPU before.
    let mut switches = events.iter().filter_map(|(_, what)| match what {
        What::Switch { from, .. } => Some(*from),
        _ => None,
    });
    let is_away = switches.next().is_some_and(|from| from != me);
    let mut thread = is_away.then(|| (Cause::Thread, "another thread".into()));
    let mut open: Vec<(Kind, (Cause, Arc<str>))> = Vec::new();
    let mut could_run = true;
    let mut spans = Vec::new();
    let ends = events.iter().map(|(at, _)| *at).skip(1).chain([until]);
    for ((start, what), end) in events.iter().zip(ends) {
        match what {
            What::Enter(kind, cause, who) => open.push((*kind, (*cause, who.clone()))),
            What::Leave(kind) => {
                if let Some(at) = open.iter().rposition(|(open, _)| open == kind) {
                    open.truncate(at);
                }
            }
            What::Switch { from, is_runnable, to, name } => {
                open.clear();
                if *from == me {
                    could_run = *is_runnable;
                }
                // An idle CPU means that the traced thread could not run, or was not let: which of
                // them, it was when it was taken off, whoever ran since.
                thread = match names.get(to) {
                    _ if *to == me => None,
                    Some(plumb) => Some((Cause::Plumb, plumb.name.as_str().into())),
                    None if *to != 0 => Some((Cause::Thread, name.clone())),
                    None if could_run => {
                        Some((Cause::Throttled, "idle while the loop could run".into()))
                    }
                    None => Some((Cause::Unattributed, "the loop's own thread slept".into())),
                };
            }
        }
        let owner = thread.as_ref().or(open.last().map(|(_, owner)| owner));
        let (start, end) = (*start, end.min(until));
        if let Some((cause, who)) = owner.filter(|_| start < end) {
            spans.push(Span { start, end, cause: *cause, who: who.clone() });
        }
    }
    spans
}

/// A CPU's spans, and when its events are not complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The spans in the order of time, none inside another.
    pub spans: Vec<Span>,
    /// From when on events may be missing, in ticks, because the ring was full.
    pub whole_until: Option<u64>,
    /// Events that were lost; `None` if the kernel does not report it.
    pub lost: Option<u64>,
}

impl Timeline {
    /// Whose a gap is, `slack_ns` of it beside spans; `None` where no span touches it.
    pub(super) fn owner(&self, gap: Gap, tick_ns: f64, slack_ns: f64) -> Option<Attributed> {
        let edge = (EDGE_NS / tick_ns).round() as u64;
        let (from, to) = (gap.start.saturating_sub(edge), gap.end.saturating_add(edge));
        let first = self.spans.partition_point(|span| span.end < from);
        let mut taken: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
        // Without what the edges allow: a gap's parts are not more than the gap.
        let mut parts: BTreeMap<Cause, u64> = BTreeMap::new();
        for span in self.spans[first..].iter().take_while(|span| span.start <= to) {
            let between =
                |from: u64, to: u64| span.end.min(to).saturating_sub(span.start.max(from));
            *taken.entry((span.cause, &span.who)).or_default() += between(from, to);
            *parts.entry(span.cause).or_default() += between(gap.start, gap.end);
        }
        let seen: u64 = taken.values().sum();
        let (&(cause, who), &most) = taken.iter().max_by_key(|(_, ticks)| **ticks)?;
        let residue_ns = gap.ticks().saturating_sub(seen) as f64 * tick_ns;
        let is_beside = residue_ns > slack_ns && residue_ns > most as f64 * tick_ns;
        let found = match cause {
            _ if is_beside => {
                Attributed::outside(format!("most of the gap outside {}", cause.text()))
            }
            Cause::Unattributed => Attributed::nobody(who),
            _ => Attributed::new(cause, who, By::Time),
        };
        let others = parts.into_iter().filter(|(of, _)| *of != found.cause);
        let others = others.map(|(of, ticks)| (of, ticks as f64 * tick_ns)).collect();
        Some(Attributed { beside_ns: Some(residue_ns), others, ..found })
    }
}

//! The kernel's tracepoints and the threads' own switches, kept while the window runs and read as
//! events after it.

use bench::prelude::*;
use record::order::{Gather, InOrder};
use std::path::Path;
use std::sync::Arc;

use metal::clock::monotonic_raw_ns;
use metal::mount::Detached;
use metal::perf::{Record, Ring};

use super::Cause;
use super::spans::{Event, Kind, Span, Threads, Timeline, What};
use host::Root;
use host::interrupts::{is_timer, rows};
use host::tracepoints::{Tracepoint, mounted, of_system};

/// All rings of a watch together, in bytes.
const ROOM_BYTES: usize = 64 << 20;
/// One ring of a CPU, in bytes: at 100 bytes an event, 40,000 events.
const RING_BYTES: (usize, usize) = (64 << 10, 4 << 20);
/// The ring of a thread's own switches: 24 bytes each; users may lock 516 KiB unasked.
const SWITCHES_BYTES: usize = 64 << 10;
/// Tries of tying the clocks; the one that took least time counts.
const TIES: usize = 64;
/// Tracepoints that are kept at most, on x86: the kernel takes tens of milliseconds to give up
/// each, one after the other, when its last user leaves. So those that come often are kept. A
/// rescheduling interrupt leads to a switch, which names the new thread; `irq_work` and what is
/// sent to all CPUs at once are rare, and the loop has no page to fault on.
pub(super) const KEPT_MOST: u32 = 10;
/// Number of the error when a process has too many files open.
const EMFILE: i32 = 24;

#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Enter(Cause, Arc<str>),
    Leave(Kind),
    /// Beginning of a device's handler: field `name`.
    Handler,
    /// Beginning of a soft interrupt: field `vec`.
    Softirq,
    /// End of a non-maskable interrupt that took `delta_ns`.
    NonMaskable,
    Switch,
}

#[derive(Debug, Default)]
pub(super) struct Catalogue(BTreeMap<u64, (Tracepoint, Meaning)>);

impl Catalogue {
    /// Those of the tracefs at `tracefs` that show which thread has the CPU.
    fn read(root: &Root, tracefs: &str) -> Result<Catalogue> {
        let systems = ["irq_vectors", "irq", "ipi", "nmi", "sched"];
        let has_nmi = has_non_maskable(root);
        let names = systems.iter().flat_map(|system| of_system(root, tracefs, system));
        let known = names.filter_map(|name| {
            let meaning = meaning(&name).filter(|of| *of != Meaning::NonMaskable || has_nmi)?;
            let point = Tracepoint::read(root, tracefs, &name)?;
            Some((point.id, (point, meaning)))
        });
        let found = Catalogue(known.collect());
        let has = |name: &str| found.0.values().any(|(point, _)| point.name == name);
        if !has("sched/sched_switch") || !has("irq/irq_handler_entry") {
            bail!("this kernel has no tracepoints of switches and interrupts");
        }
        Ok(found)
    }

    fn ids(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }
}

/// Whether a non-maskable interrupt has ever come: without a watchdog and a profiler none does.
fn has_non_maskable(root: &Root) -> bool {
    let (_, rows) = rows(&root.read("proc/interrupts").unwrap_or_default());
    let mut rows = rows.iter().filter(|row| row.name == "NMI");
    rows.any(|row| row.counts.iter().any(|(_, count)| *count > 0))
}

fn meaning(name: &str) -> Option<Meaning> {
    let enter = |cause, who: &str| Meaning::Enter(cause, who.into());
    Some(match name {
        "irq_vectors/local_timer_entry" => enter(Cause::Timer, "local_timer"),
        "irq_vectors/call_function_single_entry" => enter(Cause::Interrupt, "call_function_single"),
        "irq_vectors/local_timer_exit" | "irq_vectors/call_function_single_exit" => {
            Meaning::Leave(Kind::Vector)
        }
        "irq/irq_handler_entry" => Meaning::Handler,
        "irq/irq_handler_exit" => Meaning::Leave(Kind::Handler),
        "irq/softirq_entry" => Meaning::Softirq,
        "irq/softirq_exit" => Meaning::Leave(Kind::Softirq),
        "ipi/ipi_entry" => enter(Cause::Interrupt, "interrupt from another CPU"),
        "ipi/ipi_exit" => Meaning::Leave(Kind::Vector),
        "nmi/nmi_handler" => Meaning::NonMaskable,
        "sched/sched_switch" => Meaning::Switch,
        _ => return None,
    })
}

/// A tracefs that can be read: where, and the mount that must live as long.
#[derive(Debug)]
struct Tracefs {
    at: String,
    _mount: Option<Detached>,
}

impl Tracefs {
    fn find(root: &Root) -> Result<Tracefs> {
        if let Some(at) = mounted(root) {
            return Ok(Tracefs { at, _mount: None });
        }
        let mount = Detached::new(c"tracefs").context(
            "no readable tracefs is mounted, and this process may not mount a private one; run as \
             root, or mount it readable",
        )?;
        let path = mount.path();
        let at = path.strip_prefix(Path::new("/")).unwrap_or(&path);
        let at = at.to_str().context("a descriptor's path is text")?;
        Ok(Tracefs { at: at.to_owned(), _mount: Some(mount) })
    }
}

/// A moment on both clocks: ticks of the gaps' clock and ns of the events'.
pub(super) type Tie = (u64, u64);

pub(super) fn tie(clock: Clock) -> Tie {
    let one = || {
        let (before, ns, after) = (clock.start(), monotonic_raw_ns(), clock.start());
        (after.saturating_sub(before), (before + (after - before) / 2, ns))
    };
    let tries = (0..TIES).map(|_| one());
    let best = tries.min_by_key(|(took, _)| *took);
    best.map(|(_, tie)| tie).expect("there are tries")
}

/// Ticks at a time of the events' clock, on the line through two moments.
pub(super) fn ticks_at(ns: u64, (begin, end): (Tie, Tie)) -> u64 {
    let ticks_per_ns =
        if end.1 > begin.1 { (end.0 - begin.0) as f64 / (end.1 - begin.1) as f64 } else { 0.0 };
    let since_ns = ns as f64 - begin.1 as f64;
    begin.0.saturating_add_signed((since_ns * ticks_per_ns).round() as i64)
}

#[derive(Debug)]
pub(super) struct Tracing {
    catalogue: Catalogue,
    rings: BTreeMap<usize, Ring>,
}

impl Tracing {
    /// Opens the rings; they do not run yet.
    pub(super) fn open(root: &Root, cpus: &[usize]) -> Result<Tracing> {
        let tracefs = Tracefs::find(root)?;
        let catalogue = Catalogue::read(root, &tracefs.at)?;
        let (least, most) = RING_BYTES;
        let bytes = (ROOM_BYTES / cpus.len().max(1)).clamp(least, most);
        let ring = |&cpu: &usize| {
            let ring = Ring::of_cpu(cpu, &catalogue.ids(), bytes).map_err(|error| {
                let files = error.raw_os_error() == Some(EMFILE);
                let context = if files {
                    format!(
                        "{} tracepoints on {} CPUs need as many files: raise `ulimit -n`",
                        catalogue.0.len(),
                        cpus.len()
                    )
                } else {
                    "the kernel refuses its tracepoints (needs root or CAP_PERFMON)".to_owned()
                };
                anyhow::Error::from(error).context(context)
            })?;
            Ok((cpu, ring))
        };
        let rings = cpus.iter().map(ring).collect::<Result<_>>()?;
        Ok(Tracing { catalogue, rings })
    }

    pub(super) fn start(&self) -> Result<()> {
        for ring in self.rings.values() {
            ring.start().context("tracepoints cannot be started")?;
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        for ring in self.rings.values() {
            // What cannot be stopped ends with its file; its later events lie after the window.
            let _ = ring.stop();
        }
    }

    pub(super) fn timelines(
        mut self,
        threads: impl Fn(usize) -> Threads,
        ties: (Tie, Tie),
    ) -> BTreeMap<usize, Timeline> {
        let mut timelines = BTreeMap::new();
        for (&cpu, ring) in &mut self.rings {
            let mut raw = Vec::new();
            ring.drain(|record| {
                if let Record::Sample { time_ns, tid, raw: bytes } = record {
                    raw.push((ticks_at(time_ns, ties), tid, bytes.to_vec()));
                }
            });
            let events = self.catalogue.events(&raw, ties);
            let hole = |&(from, to): &(u64, u64)| (ticks_at(from, ties), ticks_at(to, ties));
            let holes: Vec<(u64, u64)> = ring.holes().iter().map(hole).collect();
            let timeline = Timeline::of(&events, &threads(cpu), ties.1.0, holes, ring.lost());
            timelines.insert(cpu, timeline);
        }
        timelines
    }
}

impl Catalogue {
    /// Events of records (time in ticks, thread as this process knows it), by time.
    fn events(&self, records: &[(u64, u32, Vec<u8>)], ties: (Tie, Tie)) -> Vec<Event> {
        let known = self.own_numbers(records);
        let mut events = Vec::with_capacity(records.len());
        for (at, _, bytes) in records {
            let found = Tracepoint::id_of(bytes).and_then(|id| self.0.get(&id));
            let Some((point, meaning)) = found else {
                continue;
            };
            let at = *at;
            let what = match meaning {
                Meaning::Enter(cause, who) => What::Enter(Kind::Vector, *cause, who.clone()),
                Meaning::Leave(kind) => What::Leave(*kind),
                Meaning::Handler => handler(point, bytes),
                Meaning::Softirq => softirq(point, bytes),
                Meaning::NonMaskable => {
                    let ns = point.number(bytes, "delta_ns").unwrap_or_default();
                    let took = ticks_at(ties.0.1 + ns.max(0).unsigned_abs(), ties) - ties.0.0;
                    let who = "non-maskable interrupt".into();
                    events.push(Event {
                        at: at.saturating_sub(took),
                        what: What::Enter(Kind::NonMaskable, Cause::Interrupt, who),
                    });
                    What::Leave(Kind::NonMaskable)
                }
                Meaning::Switch => match switch(point, bytes, &known) {
                    Some(what) => what,
                    None => continue,
                },
            };
            events.push(Event { at, what });
        }
        events.order_by_key(|event| event.at);
        events
    }

    /// The kernel writes the numbers of its outermost namespace; a sample's own number is that of
    /// this process's. Every switch names the thread that is left both ways.
    fn own_numbers(&self, records: &[(u64, u32, Vec<u8>)]) -> BTreeMap<u32, u32> {
        let pairs = records.iter().filter_map(|(_, tid, bytes)| {
            let (point, meaning) = self.0.get(&Tracepoint::id_of(bytes)?)?;
            let is_known = *meaning == Meaning::Switch && i32::try_from(*tid).is_ok_and(|t| t > 0);
            is_known.then_some(())?;
            let outer = point.number(bytes, "prev_pid")?;
            Some((u32::try_from(outer).ok()?, *tid))
        });
        pairs.gather()
    }
}

/// Arm's timer is a numbered interrupt like a device's (`arch_timer`), and Xen's (`timer0`).
fn handler(point: &Tracepoint, bytes: &[u8]) -> What {
    let name = point.text(bytes, "name").unwrap_or_default();
    let number = point.number(bytes, "irq").unwrap_or_default();
    let cause = if is_timer(&name) { Cause::Timer } else { Cause::Interrupt };
    let who = format!("{name} (interrupt {number})");
    What::Enter(Kind::Handler, cause, who.into())
}

fn softirq(point: &Tracepoint, bytes: &[u8]) -> What {
    let number = point.number(bytes, "vec").unwrap_or(-1);
    let name = point.symbol(number).map(str::to_owned);
    let name = name.unwrap_or_else(|| number.to_string());
    What::Enter(Kind::Softirq, Cause::Softirq, name.into())
}

fn switch(point: &Tracepoint, bytes: &[u8], known: &BTreeMap<u32, u32>) -> Option<What> {
    // Where the namespaces number differently, a number that was never seen both ways belongs to no
    // thread here: none of ours has this bit.
    const FOREIGN: u32 = 1 << 31;
    let is_same = known.iter().all(|(outer, own)| outer == own);
    let thread = |field: &str| {
        let outer = u32::try_from(point.number(bytes, field)?).ok()?;
        let own = known.get(&outer).copied();
        let same = own.or((is_same || outer == 0).then_some(outer));
        Some(same.unwrap_or(outer | FOREIGN))
    };
    // The lowest eight bits say why it cannot run; what is above says that it was preempted.
    let state = point.number(bytes, "prev_state")?;
    Some(What::Switch {
        from: thread("prev_pid")?,
        is_runnable: state & 0xff == 0,
        to: thread("next_pid")?,
        name: point.text(bytes, "next_comm").unwrap_or_default().into(),
    })
}

/// The traced threads' own switches being kept, one ring a thread.
#[derive(Debug)]
pub(super) struct Switches {
    rings: Vec<(usize, Ring)>,
}

impl Switches {
    /// Opens the rings of the threads (CPU, number); they do not run yet.
    pub(super) fn open(threads: &[(usize, u32)]) -> Result<Switches> {
        let ring = |&(cpu, tid): &(usize, u32)| {
            let ring = Ring::of_thread(tid, SWITCHES_BYTES).context(
                "the kernel refuses perf events of own threads (perf_event_paranoid above 2, or a \
                 sandbox)",
            )?;
            Ok((cpu, ring))
        };
        if threads.is_empty() {
            bail!("no thread is named that traces");
        }
        let rings = threads.iter().map(ring).collect::<Result<_>>()?;
        Ok(Switches { rings })
    }

    pub(super) fn start(&self) -> Result<()> {
        for (_, ring) in &self.rings {
            ring.start().context("perf events cannot be started")?;
        }
        Ok(())
    }

    /// When a traced thread of each CPU was off it, between two moments.
    pub(super) fn timelines(mut self, ties: (Tie, Tie)) -> BTreeMap<usize, Timeline> {
        let mut timelines: BTreeMap<usize, Timeline> = BTreeMap::new();
        for (cpu, ring) in &mut self.rings {
            let timeline = timelines.entry(*cpu).or_default();
            let mut off = None;
            ring.drain(|record| {
                if let Record::Switch { time_ns, is_out, .. } = record {
                    let at = ticks_at(time_ns, ties);
                    match (is_out, off.take()) {
                        (true, _) => off = Some(at),
                        (false, Some(start)) => timeline.spans.push(away(start, at)),
                        (false, None) => {}
                    }
                }
            });
            let hole = |&(from, to): &(u64, u64)| (ticks_at(from, ties), ticks_at(to, ties));
            timeline.holes.extend(ring.holes().iter().map(hole));
            timeline.lost = timeline.lost.or(Some(0)).zip(ring.lost()).map(|(a, b)| a + b);
        }
        for timeline in timelines.values_mut() {
            timeline.spans.order_by_key(|span| span.start);
        }
        timelines
    }
}

fn away(start: u64, end: u64) -> Span {
    Span { start, end, cause: Cause::Thread, who: "another thread".into() }
}

#[cfg(test)]
mod tests;

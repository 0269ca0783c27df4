//! The kernel's tracepoints or the traced thread's own switches, kept while the window runs and
//! read as events after it.

use bench::prelude::*;
use record::order::{Gather, InOrder};
use std::path::Path;

use metal::clock::monotonic_raw_ns;
use metal::mount::Detached;
use metal::perf::{Record, Ring};

use super::spans::{Event, Kind, Span, Timeline, What, spans};
use super::{Cause, Level, own};
use host::Root;
use host::interrupts::{is_timer, rows};
use host::tracepoints::{Tracepoint, mounted};

/// The ring of a CPU, in bytes: at 100 bytes an event, 40,000 events.
const RING_BYTES: usize = 4 << 20;
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

const SWITCH: &str = "sched/sched_switch";
const HANDLER: &str = "irq/irq_handler_entry";
const NON_MASKABLE: &str = "nmi/nmi_handler";

/// The numbers of threads in this process's namespace, by those of the outermost.
type Numbers = BTreeMap<u32, u32>;
type Meaning = fn(&Tracepoint, &[u8], &Numbers) -> Option<What>;

/// The tracepoints that show which thread has the CPU, and what their records mean.
const POINTS: [(&str, Meaning); 12] = [
    ("irq_vectors/local_timer_entry", |_, _, _| vector(Cause::Timer, "local_timer")),
    ("irq_vectors/local_timer_exit", |_, _, _| Some(What::Leave(Kind::Vector))),
    ("irq_vectors/call_function_single_entry", |_, _, _| {
        vector(Cause::Interrupt, "call_function_single")
    }),
    ("irq_vectors/call_function_single_exit", |_, _, _| Some(What::Leave(Kind::Vector))),
    (HANDLER, |point, bytes, _| Some(handler(point, bytes))),
    ("irq/irq_handler_exit", |_, _, _| Some(What::Leave(Kind::Handler))),
    ("irq/softirq_entry", |point, bytes, _| Some(softirq(point, bytes))),
    ("irq/softirq_exit", |_, _, _| Some(What::Leave(Kind::Softirq))),
    ("ipi/ipi_entry", |_, _, _| vector(Cause::Interrupt, "interrupt from another CPU")),
    ("ipi/ipi_exit", |_, _, _| Some(What::Leave(Kind::Vector))),
    // It comes at the end, and says how long it took.
    (NON_MASKABLE, |_, _, _| Some(What::Leave(Kind::NonMaskable))),
    (SWITCH, switch),
];

fn vector(cause: Cause, who: &str) -> Option<What> {
    Some(What::Enter(Kind::Vector, cause, who.into()))
}

#[derive(Debug, Default)]
pub(super) struct Catalogue(BTreeMap<u64, (Tracepoint, Meaning)>);

impl Catalogue {
    /// The tracepoints of the tracefs at `tracefs`.
    fn read(root: &Root, tracefs: &str) -> Result<Catalogue> {
        let has_nmi = has_non_maskable(root);
        let points = POINTS.iter().filter(|(name, _)| *name != NON_MASKABLE || has_nmi);
        let known = points.filter_map(|(name, meaning)| {
            let point = Tracepoint::read(root, tracefs, name)?;
            Some((point.id, (point, *meaning)))
        });
        let found = Catalogue(known.collect());
        let has = |name: &str| found.0.values().any(|(point, _)| point.name == name);
        if !has(SWITCH) || !has(HANDLER) {
            bail!("this kernel has no tracepoints of switches and interrupts");
        }
        Ok(found)
    }

    fn point_of(&self, record: &[u8]) -> Option<&(Tracepoint, Meaning)> {
        self.0.get(&Tracepoint::id_of(record)?)
    }

    /// Events of records (time in ticks, thread as this process knows it), by time.
    fn events(&self, records: &[(u64, u32, Vec<u8>)], ties: (Tie, Tie)) -> Vec<Event> {
        // The kernel writes the numbers of its outermost namespace; a sample's own number is that
        // of this process's. Every switch names the thread that is left both ways.
        let pairs = records.iter().filter_map(|(_, tid, bytes)| {
            let (point, _) = self.point_of(bytes).filter(|(point, _)| point.name == SWITCH)?;
            let outer = point.number(bytes, "prev_pid")?;
            i32::try_from(*tid).is_ok_and(|tid| tid > 0).then_some(())?;
            Some((u32::try_from(outer).ok()?, *tid))
        });
        let numbers: Numbers = pairs.gather();
        let mut events = Vec::with_capacity(records.len());
        for (at, _, bytes) in records {
            let Some((point, meaning)) = self.point_of(bytes) else {
                continue;
            };
            if point.name == NON_MASKABLE {
                let ns = point.number(bytes, "delta_ns").unwrap_or_default();
                let took = ticks_at(ties.0.1 + ns.max(0).unsigned_abs(), ties) - ties.0.0;
                let who = "non-maskable interrupt".into();
                let enter = What::Enter(Kind::NonMaskable, Cause::Interrupt, who);
                events.push((at.saturating_sub(took), enter));
            }
            events.extend(meaning(point, bytes, &numbers).map(|what| (*at, what)));
        }
        events.order_by_key(|(at, _)| *at);
        events
    }
}

/// Whether a non-maskable interrupt has ever come: without a watchdog and a profiler none does.
fn has_non_maskable(root: &Root) -> bool {
    let (_, rows) = rows(&root.read("proc/interrupts").unwrap_or_default());
    let mut rows = rows.iter().filter(|row| row.name == "NMI");
    rows.any(|row| row.counts.iter().any(|(_, count)| *count > 0))
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

fn switch(point: &Tracepoint, bytes: &[u8], numbers: &Numbers) -> Option<What> {
    // Where the namespaces number differently, a number that was never seen both ways belongs to no
    // thread here: none of ours has this bit.
    const FOREIGN: u32 = 1 << 31;
    let is_same = numbers.iter().all(|(outer, own)| outer == own);
    let thread = |field: &str| {
        let outer = u32::try_from(point.number(bytes, field)?).ok()?;
        let foreign = if is_same || outer == 0 { outer } else { outer | FOREIGN };
        Some(numbers.get(&outer).copied().unwrap_or(foreign))
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

/// A tracefs that can be read: where, and the mount that must live as long.
#[derive(Debug)]
struct Tracefs {
    path: String,
    _mount: Option<Detached>,
}

impl Tracefs {
    fn find(root: &Root) -> Result<Tracefs> {
        if let Some(at) = mounted(root) {
            return Ok(Tracefs { path: at, _mount: None });
        }
        let mount = Detached::new(c"tracefs").context(
            "no readable tracefs is mounted, and this process may not mount a private one; run as \
             root, or mount it readable",
        )?;
        let path = mount.path();
        let at = path.strip_prefix(Path::new("/")).unwrap_or(&path);
        let at = at.to_str().context("a descriptor's path is text")?;
        Ok(Tracefs { path: at.to_owned(), _mount: Some(mount) })
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

/// Events that are being kept: a CPU's tracepoints, or a thread's own switches.
#[derive(Debug)]
pub(super) struct Events {
    ring: Ring,
    catalogue: Option<Catalogue>,
}

impl Events {
    /// Opens the ring of the first of the threads (CPU, number) that trace; it does not run yet.
    pub(super) fn open(level: Level, root: &Root, threads: &[(usize, u32)]) -> Result<Events> {
        let &(cpu, tid) = threads.first().context("no thread is named that traces")?;
        if level < Level::Tracepoints {
            let ring = Ring::of_thread(tid, SWITCHES_BYTES).context(
                "the kernel refuses perf events of own threads (perf_event_paranoid above 2, or a \
                 sandbox)",
            )?;
            return Ok(Events { ring, catalogue: None });
        }
        let tracefs = Tracefs::find(root)?;
        let catalogue = Catalogue::read(root, &tracefs.path)?;
        let ids: Vec<u64> = catalogue.0.keys().copied().collect();
        let ring = Ring::of_cpu(cpu, &ids, RING_BYTES).map_err(|error| {
            let context = if error.raw_os_error() == Some(EMFILE) {
                let count = ids.len();
                format!("{count} tracepoints on 1 CPUs need as many files: raise `ulimit -n`")
            } else {
                "the kernel refuses its tracepoints (needs root or CAP_PERFMON)".to_owned()
            };
            anyhow::Error::from(error).context(context)
        })?;
        Ok(Events { ring, catalogue: Some(catalogue) })
    }

    pub(super) fn level(&self) -> Level {
        if self.catalogue.is_some() { Level::Tracepoints } else { Level::Switches }
    }

    pub(super) fn start(&self) -> Result<()> {
        let what = if self.catalogue.is_some() { "tracepoints" } else { "perf events" };
        self.ring.start().with_context(|| format!("{what} cannot be started"))
    }

    pub(super) fn stop(&self) {
        // What cannot be stopped ends with its file; its later events lie after the window.
        let _ = self.ring.stop();
    }

    /// Who had the CPU of the thread `me` between two moments; of its own switches only when it was
    /// off it.
    pub(super) fn timeline(mut self, me: u32, names: &own::Names, ties: (Tie, Tie)) -> Timeline {
        let (mut records, mut away, mut off) = (Vec::new(), Vec::new(), None);
        self.ring.drain(|record| match record {
            Record::Sample { time_ns, tid, raw } => {
                records.push((ticks_at(time_ns, ties), tid, raw.to_vec()));
            }
            Record::Switch { time_ns, is_out, .. } => {
                let at = ticks_at(time_ns, ties);
                let before = std::mem::replace(&mut off, is_out.then_some(at));
                if let Some(start) = before.filter(|_| !is_out) {
                    let (cause, who) = (Cause::Thread, "another thread".into());
                    away.push(Span { start, end: at, cause, who });
                }
            }
            Record::Lost { .. } => {}
        });
        let whole_until = self.ring.holes().first().map(|(from, _)| ticks_at(*from, ties));
        // Of what followed a hole's beginning smaller records may still have found room, without
        // their pairs, and the owner of the CPU is then unknown.
        let end = ties.1.0.min(whole_until.unwrap_or(u64::MAX));
        let spans = match &self.catalogue {
            Some(catalogue) => spans(&catalogue.events(&records, ties), me, names, end),
            None => away,
        };
        Timeline { spans, whole_until, lost: self.ring.lost() }
    }
}

#[cfg(test)]
mod tests;

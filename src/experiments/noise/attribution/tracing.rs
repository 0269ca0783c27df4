//! The kernel's tracepoints and the threads' own switches, kept while the window runs and read as
//! events after it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use metal::clock::monotonic_raw_ns;
use metal::mount::Detached;
use metal::perf::{self, Record, Ring};

use super::Cause;
use super::spans::{Event, Kind, Span, Threads, Timeline, What, spans};
use crate::host::Root;
use crate::host::tracepoints::{Tracepoint, mounted, of_system};
use crate::measure::Clock;

/// All rings of a watch together, in bytes.
const ROOM_BYTES: usize = 64 << 20;
/// One ring of a CPU, in bytes: at 100 bytes an event, 40,000 events.
const RING_BYTES: (usize, usize) = (64 << 10, 4 << 20);
/// The ring of a thread's own switches: 24 bytes each, 2,700 of them. All users together may lock
/// 516 KiB unasked.
const SWITCHES_BYTES: usize = 64 << 10;
/// Tries of tying the clocks; the one that took least time counts.
const TIES: usize = 64;
/// Vectors whose handlers are watched.
const WATCHED_VECTORS: [&str; 3] = ["local_timer", "reschedule", "call_function"];
/// Number of the error when a process has too many files open.
const EMFILE: i32 = 24;

/// What each tracepoint means.
#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    /// Beginning of a vector's handler.
    Enter(Cause, Arc<str>),
    /// End of a handler.
    Leave(Kind),
    /// Beginning of a device's handler: field `name`.
    Handler,
    /// Beginning of a soft interrupt: field `vec`.
    Softirq,
    /// End of a non-maskable interrupt that took `delta_ns`.
    NonMaskable,
    /// An exception.
    Point(Cause, Arc<str>),
    /// Another thread gets the CPU.
    Switch,
}

/// Tracepoints by number, with what they mean.
#[derive(Debug, Default)]
pub(super) struct Catalogue(BTreeMap<u64, (Tracepoint, Meaning)>);

impl Catalogue {
    /// Those of the tracefs at `tracefs` that say who has the CPU.
    ///
    /// # Errors
    /// A kernel without `sched_switch` or without interrupts among its tracepoints.
    fn read(root: &Root, tracefs: &str) -> Result<Catalogue> {
        let systems = ["irq_vectors", "irq", "ipi", "exceptions", "nmi", "sched"];
        let names = systems
            .iter()
            .flat_map(|system| of_system(root, tracefs, system));
        let known = names.filter_map(|name| {
            let meaning = meaning(&name)?;
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

    /// What to keep: of exceptions only the `traced` threads' own, whose numbers are those of the
    /// outermost namespace. Those of others would only fill the ring.
    fn kept(&self, traced: &[u32]) -> Vec<perf::Tracepoint> {
        let own: Vec<String> = traced
            .iter()
            .map(|tid| format!("common_pid == {tid}"))
            .collect();
        let own = CString::new(own.join(" || ")).expect("there is no zero in it");
        let keep = |(id, (_, meaning)): (&u64, &(Tracepoint, Meaning))| {
            let filter = match meaning {
                Meaning::Point(Cause::Exception, _) if traced.is_empty() => return None,
                Meaning::Point(Cause::Exception, _) => Some(own.clone()),
                _ => None,
            };
            Some(perf::Tracepoint { id: *id, filter })
        };
        self.0.iter().filter_map(keep).collect()
    }
}

fn meaning(name: &str) -> Option<Meaning> {
    if let Some(vector) = name.strip_prefix("irq_vectors/") {
        // The ring itself may need this interrupt: the kernel lets nobody keep its end.
        match vector {
            "irq_work_entry" => return Some(Meaning::Point(Cause::Interrupt, "irq_work".into())),
            "irq_work_exit" => return None,
            // Rare, and each tracepoint takes the kernel tens of milliseconds to give up.
            _ if !WATCHED_VECTORS
                .iter()
                .any(|watched| vector.starts_with(watched)) =>
            {
                return None;
            }
            _ => {}
        }
        let cause = |vector: &str| match vector {
            "local_timer" => Cause::Timer,
            _ => Cause::Interrupt,
        };
        let entry = vector
            .strip_suffix("_entry")
            .map(|vector| Meaning::Enter(cause(vector), vector.into()));
        let exit = vector.strip_suffix("_exit");
        return entry.or(exit.map(|_| Meaning::Leave(Kind::Vector)));
    }
    Some(match name {
        "irq/irq_handler_entry" => Meaning::Handler,
        "irq/irq_handler_exit" => Meaning::Leave(Kind::Handler),
        "irq/softirq_entry" => Meaning::Softirq,
        "irq/softirq_exit" => Meaning::Leave(Kind::Softirq),
        "ipi/ipi_entry" => Meaning::Enter(Cause::Interrupt, "interrupt from another CPU".into()),
        "ipi/ipi_exit" => Meaning::Leave(Kind::Vector),
        "nmi/nmi_handler" => Meaning::NonMaskable,
        "exceptions/page_fault_user" => Meaning::Point(Cause::Exception, "page fault".into()),
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
            "no tracefs is mounted that can be read, and it may not be mounted for this process \
             alone; run as root, or mount it readable",
        )?;
        let path = mount.path();
        let at = path.strip_prefix(Path::new("/")).unwrap_or(&path);
        let at = at.to_str().context("a descriptor's path is text")?;
        Ok(Tracefs {
            at: at.to_owned(),
            _mount: Some(mount),
        })
    }
}

/// A moment on both clocks: ticks of the gaps' clock and ns of the events'.
pub(super) type Tie = (u64, u64);

/// Reads both clocks as near to one moment as can be.
pub(super) fn tie(clock: Clock) -> Tie {
    let one = || {
        let (before, ns, after) = (clock.start(), monotonic_raw_ns(), clock.start());
        (
            after.saturating_sub(before),
            (before + (after - before) / 2, ns),
        )
    };
    let tries = (0..TIES).map(|_| one());
    let best = tries.min_by_key(|(took, _)| *took);
    best.map(|(_, tie)| tie).expect("there are tries")
}

/// Ticks at a time of the events' clock, on the line through two moments.
pub(super) fn ticks_at(ns: u64, (begin, end): (Tie, Tie)) -> u64 {
    let ticks_per_ns = match end.1 > begin.1 {
        true => (end.0 - begin.0) as f64 / (end.1 - begin.1) as f64,
        false => 0.0,
    };
    let since_ns = ns as f64 - begin.1 as f64;
    begin
        .0
        .saturating_add_signed((since_ns * ticks_per_ns).round() as i64)
}

/// Tracepoints being kept, one ring a CPU.
#[derive(Debug)]
pub(super) struct Tracing {
    catalogue: Catalogue,
    rings: BTreeMap<usize, Ring>,
}

impl Tracing {
    /// Opens the rings; they do not run yet.
    ///
    /// # Errors
    /// What is missing, and what would help.
    pub(super) fn open(root: &Root, cpus: &[usize], threads: &[(usize, u32)]) -> Result<Tracing> {
        let tracefs = Tracefs::find(root)?;
        let catalogue = Catalogue::read(root, &tracefs.at)?;
        let (least, most) = RING_BYTES;
        let bytes = (ROOM_BYTES / cpus.len().max(1)).clamp(least, most);
        let ring = |&cpu: &usize| {
            let traced = threads.iter().filter(|(on, _)| *on == cpu);
            let traced: Vec<u32> = traced.map(|(_, tid)| *tid).collect();
            let ring = Ring::of_cpu(cpu, &catalogue.kept(&traced), bytes).map_err(|error| {
                let files = error.raw_os_error() == Some(EMFILE);
                let context = match files {
                    true => format!(
                        "{} tracepoints on {} CPUs need as many files: raise `ulimit -n`",
                        catalogue.0.len(),
                        cpus.len()
                    ),
                    false => {
                        "the kernel refuses its tracepoints (needs root or CAP_PERFMON)".to_owned()
                    }
                };
                anyhow::Error::from(error).context(context)
            })?;
            Ok((cpu, ring))
        };
        let rings = cpus.iter().map(ring).collect::<Result<_>>()?;
        Ok(Tracing { catalogue, rings })
    }

    /// The events begin.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn start(&self) -> Result<()> {
        for ring in self.rings.values() {
            ring.start().context("tracepoints cannot be started")?;
        }
        Ok(())
    }

    /// The events end.
    pub(super) fn stop(&self) {
        for ring in self.rings.values() {
            // What cannot be stopped ends with its file; its later events lie after the window.
            let _ = ring.stop();
        }
    }

    /// The spans of each CPU between two moments.
    pub(super) fn timelines(
        mut self,
        threads: impl Fn(usize) -> Threads,
        ties: (Tie, Tie),
    ) -> BTreeMap<usize, Timeline> {
        let mut timelines = BTreeMap::new();
        for (&cpu, ring) in &mut self.rings {
            let mut raw = Vec::new();
            ring.drain(|record| {
                if let Record::Sample {
                    time_ns,
                    tid,
                    raw: bytes,
                } = record
                {
                    raw.push((ticks_at(time_ns, ties), tid, bytes.to_vec()));
                }
            });
            let events = self.catalogue.events(&raw, ties);
            let hole = |&(from, to): &(u64, u64)| (ticks_at(from, ties), ticks_at(to, ties));
            timelines.insert(
                cpu,
                Timeline {
                    spans: spans(&events, &threads(cpu), ties.1.0),
                    holes: ring.holes().iter().map(hole).collect(),
                    lost: ring.lost(),
                },
            );
        }
        timelines
    }
}

impl Catalogue {
    /// Events of records (time in ticks, thread as this process knows it, bytes) in the order of
    /// time.
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
                Meaning::Point(cause, who) => What::Point(*cause, who.clone()),
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
        events.sort_by_key(|event| event.at);
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
        pairs.collect()
    }
}

/// Arm's timer is a numbered interrupt like a device's (`arch_timer`, `kvm guest vtimer`).
fn handler(point: &Tracepoint, bytes: &[u8]) -> What {
    let name = point.text(bytes, "name").unwrap_or_default();
    let number = point.number(bytes, "irq").unwrap_or_default();
    let cause = match name.ends_with("timer") {
        true => Cause::Timer,
        false => Cause::Interrupt,
    };
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
    // Where the namespaces number differently, a number that was never seen both ways is nobody's
    // here: none of ours has this bit.
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
    ///
    /// # Errors
    /// What is missing, and what would help.
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

    /// The events begin.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn start(&self) -> Result<()> {
        for (_, ring) in &self.rings {
            ring.start().context("perf events cannot be started")?;
        }
        Ok(())
    }

    /// The stretches of each CPU in which one of its traced threads was off it, between two moments.
    pub(super) fn timelines(mut self, ties: (Tie, Tie)) -> BTreeMap<usize, Timeline> {
        let mut timelines: BTreeMap<usize, Timeline> = BTreeMap::new();
        for (cpu, ring) in &mut self.rings {
            let timeline = timelines.entry(*cpu).or_default();
            let mut off = None;
            ring.drain(|record| {
                if let Record::Switch {
                    time_ns, is_out, ..
                } = record
                {
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
            timeline.lost = timeline
                .lost
                .or(Some(0))
                .zip(ring.lost())
                .map(|(a, b)| a + b);
        }
        for timeline in timelines.values_mut() {
            timeline.spans.sort_by_key(|span| span.start);
        }
        timelines
    }
}

fn away(start: u64, end: u64) -> Span {
    Span {
        start,
        end,
        cause: Cause::Thread,
        who: "another thread".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, Tie, ticks_at};
    use crate::experiments::noise::attribution::Cause;
    use crate::experiments::noise::attribution::spans::{Kind, What};
    use crate::host::Root;

    const FIELD: &str = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn tree() -> Root {
        let event = |name: &str, id: u64, fields: &str| {
            format!(
                "== t/events/{name}/id\n{id}\n== t/events/{name}/format\nID: {id}\n{FIELD}{fields}"
            )
        };
        let handler = "\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n";
        let switch = "\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\
            \tfield:char next_comm[16];\toffset:24;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t next_pid;\toffset:40;\tsize:4;\tsigned:1;\n";
        let nmi = "\tfield:s64 delta_ns;\toffset:8;\tsize:8;\tsigned:1;\n";
        Root::tree(
            &[
                event("irq/irq_handler_entry", 5, handler),
                event("irq/irq_handler_exit", 6, ""),
                event("irq/softirq_raise", 7, ""),
                event("irq_vectors/local_timer_entry", 8, ""),
                event("irq_vectors/local_timer_exit", 9, ""),
                event("irq_vectors/irq_work_exit", 10, ""),
                event("nmi/nmi_handler", 11, nmi),
                event("sched/sched_switch", 12, switch),
            ]
            .concat(),
        )
    }

    fn record(id: u16, words: &[i64]) -> Vec<u8> {
        let mut bytes = id.to_ne_bytes().to_vec();
        bytes.resize(8, 0);
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    fn handler(name: &[u8]) -> Vec<u8> {
        let mut bytes = record(5, &[0]);
        bytes[8..12].copy_from_slice(&27i32.to_ne_bytes());
        let place = u32::try_from(name.len()).expect("short") << 16 | 16;
        bytes[12..16].copy_from_slice(&place.to_ne_bytes());
        bytes.extend(name);
        bytes
    }

    fn switch(from: i64, state: i64, to: i64) -> Vec<u8> {
        let name = i64::from_ne_bytes(*b"other\0\0\0");
        record(12, &[from, state, name, 0, to])
    }

    /// Two ticks a ns, from tick 1000 at 100 ns.
    const TIES: (Tie, Tie) = ((1_000, 100), (3_000, 1_100));

    fn whats(records: &[(u64, u32, Vec<u8>)]) -> Vec<(u64, What)> {
        let catalogue = Catalogue::read(&tree(), "t").expect("it has what is needed");
        let events = catalogue.events(records, TIES).into_iter();
        events.map(|event| (event.at, event.what)).collect()
    }

    #[test]
    fn times_lie_on_the_line_through_two_moments() {
        let ticks = [100, 600, 1_100, 50].map(|ns| ticks_at(ns, TIES));
        assert_eq!(ticks, [1_000, 2_000, 3_000, 900]);
    }

    #[test]
    fn records_become_events() {
        let found = whats(&[
            (2_000, 9, record(8, &[])),
            (2_010, 9, record(9, &[])),
            (2_020, 9, handler(b"arch_timer\0")),
            (2_030, 9, record(6, &[])),
            (2_040, 9, handler(b"eth0\0")),
            (2_050, 9, record(99, &[])),
            (2_100, 9, record(11, &[20])),
        ]);
        let enter = |kind, cause, who: &str| What::Enter(kind, cause, who.into());
        let expected = [
            (2_000, enter(Kind::Vector, Cause::Timer, "local_timer")),
            (2_010, What::Leave(Kind::Vector)),
            (
                2_020,
                enter(Kind::Handler, Cause::Timer, "arch_timer (interrupt 27)"),
            ),
            (2_030, What::Leave(Kind::Handler)),
            (
                2_040,
                enter(Kind::Handler, Cause::Interrupt, "eth0 (interrupt 27)"),
            ),
            (
                2_060,
                enter(
                    Kind::NonMaskable,
                    Cause::Interrupt,
                    "non-maskable interrupt",
                ),
            ),
            (2_100, What::Leave(Kind::NonMaskable)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_namespace_of_its_own_has_its_own_numbers() {
        // Preempted while it could run (bit 8), then asleep. Here 4711 is thread 3; 4712 is nobody's.
        let found = whats(&[
            (2_000, 3, switch(4_711, 0x100, 4_712)),
            (2_100, 0, switch(4_712, 1, 4_711)),
            (2_200, 3, switch(4_711, 0, 0)),
        ]);
        let told: Vec<(u32, bool, u32)> = found
            .iter()
            .filter_map(|(_, what)| match what {
                What::Switch {
                    from,
                    is_runnable,
                    to,
                    ..
                } => Some((*from, *is_runnable, *to)),
                _ => None,
            })
            .collect();
        let nobody = 1 << 31 | 4_712;
        assert_eq!(told, [(3, true, nobody), (nobody, false, 3), (3, true, 0)]);
    }

    #[test]
    fn a_kernel_without_switches_is_refused() {
        let tree = Root::tree("== t/events/irq/irq_handler_entry/id\n5\n");
        assert!(Catalogue::read(&tree, "t").is_err());
    }
}

//! Laws of threads: a clone, a stack, switches and an exit, each a system call with a service.
//!
//! What clone and exit do in the kernel is counted in core cycles, written from memory of usual
//! figures for Linux 5 and 6 and adjusted on one virtual machine; the intervals are meant to cover
//! other kernels, allocators that are cold, and control groups that charge for kernel memory.

use super::{Service, entry, measured_call, service_ns, system_call};
use crate::cpu;
use crate::{Law, around, product, range, sum};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use bench::symbols;
use record::event::Range;
use record::key::CaseId;

/// A thread whose life is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Distance class of its maker's CPU and its own.
    pub pair: Class,
    /// What it runs on.
    pub stack: Stack,
    /// Who lives beside it.
    pub company: Company,
}

symbols! {
    /// What a thread runs on.
    pub enum Stack {
        /// The library's, kept from an ended thread.
        Cached = "cached",
        /// Mapped for it and unmapped after it.
        Fresh = "fresh",
        /// One that stays, without the library.
        Bare = "bare",
    }
}

/// Who lives beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Company {
    /// Nobody, and each life is timed.
    Alone,
    /// Nobody, and a whole sequence is timed.
    Sequence,
    /// So many, all made before the first may end.
    Crowd(u64),
    /// The same, of threads that each do what those of `stress-ng --pthread` do.
    Stress(u64),
}

/// A moment of a thread's life, after the call that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The call has returned.
    Return,
    /// The thread has begun.
    First,
    /// The thread is joined.
    Joined,
}

/// Copying a task and waking it, in cycles.
const CLONE: Range = range(7_000.0, 15_000.0, 36_000.0);
/// Its exit, beyond the wake-up of who joins it, and its release.
const EXIT: Range = range(4_000.0, 10_000.0, 26_000.0);
/// A switch to a thread of the same process on the same CPU.
const SWITCH: Range = range(1_000.0, 2_800.0, 8_000.0);
/// The library around the calls: attributes, descriptor, thread-local storage.
const LIBRARY: Range = range(300.0, 900.0, 3_000.0);
/// A page fault on fresh memory, with its page cleared.
const FAULT: Range = range(700.0, 2_200.0, 6_000.0);
/// A task moved to another CPU before it runs.
const MOVE: Range = range(1_200.0, 4_000.0, 14_000.0);

/// A task whose descriptor and kernel stack come from no cache, because many live together: made,
/// first touched and given back.
const COLD_TASK: Range = range(8_000.0, 35_000.0, 140_000.0);
/// What ended threads leave to be freed later, which a mean holds and a median of lives does not.
const DEFERRED: Range = range(400.0, 3_500.0, 14_000.0);

/// The calls of a thread of `stress-ng --pthread`, and their services: three files of /proc opened,
/// signals asked about, 2048 entries of a robust list followed.
const STRESS_CALLS: f64 = 45.0;
const STRESS: Range = range(60_000.0, 220_000.0, 800_000.0);
/// Stacks of 8 MiB that glibc keeps: 40 MiB.
const KEPT: u64 = 5;

/// Whether os.syscall has measured what these laws take from it.
pub fn has_inputs(known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
}

/// A hand-over between two threads by pipe that os.switch measured, in ns: on one CPU the switch
/// alone, on two with the pipe's calls, which are a small part there.
fn switch(known: &Known, pair: Class) -> Option<f64> {
    let id = CaseId::new().with("via", "pipe").with("parties", "threads").with("pair", pair.text());
    let metric = match pair {
        Class::Same => "switch",
        _ => "handover",
    };
    known.get("os.switch", &id, metric).filter(|ns| *ns > 0.0)
}

/// What a thread's parts cost here, in ns.
struct Prices<'site> {
    site: &'site Site,
    known: Option<&'site Known>,
    /// A system call without a service.
    way: Range,
    /// A wake-up of nobody, call included.
    wake: Range,
    /// A mapping made and removed, calls included.
    map: Range,
    /// Where they come from.
    from: String,
}

impl<'site> Prices<'site> {
    fn of(site: &'site Site, known: Option<&'site Known>) -> Self {
        let measured = |name: &str| known.and_then(|known| measured_call(known, name));
        let service = |name: &str, service: Service| {
            measured(name)
                .map_or_else(|| system_call(site, known, service).range, |ns| around(ns, 0.1))
        };
        let (way, from) = match measured("getpid") {
            Some(ns) => {
                (around(ns, 0.05), format!("a system call of {ns:.0} ns (os.syscall measured it)"))
            }
            None => {
                let entry = entry(site, known);
                (entry.range, entry.because())
            }
        };
        let told = match from.starts_with("base hardware") {
            true => from,
            false => format!("base hardware: {from}"),
        };
        Prices {
            site,
            known,
            way,
            wake: service("futex_wake", Service::FUTEX_WAKE),
            map: service("mmap_munmap", Service::MAP),
            from: told,
        }
    }

    /// So many calls without a service.
    fn ways(&self, count: f64) -> Range {
        range(count * self.way.low, count * self.way.likely, count * self.way.high)
    }

    /// Cycles of kernel code.
    fn kernel(&self, cycles: Range) -> Range {
        service_ns(self.site, self.known, cycles)
    }

    /// Until the call that makes the thread returns.
    fn creation(&self, thread: Thread) -> Range {
        let clone = self.kernel(CLONE);
        let mut total = match thread.stack {
            Stack::Bare => sum(self.ways(1.0), clone),
            // The signal mask is changed before the clone and after it.
            _ => sum(sum(self.ways(3.0), clone), self.kernel(LIBRARY)),
        };
        if is_mapped(thread) {
            // Mapping and the change that opens it to use; the first pages.
            let mapped = product(self.map, range(0.5, 1.0, 2.0));
            let faults = product(self.kernel(FAULT), range(1.0, 2.0, 4.0));
            total = sum(total, sum(mapped, faults));
        }
        if thread.pair != Class::Same {
            let moved = sum(self.ways(1.0), self.kernel(MOVE));
            total = sum(total, sum(moved, self.interrupt(thread.pair)));
        }
        total
    }

    /// Calling another CPU awake, on this one.
    fn interrupt(&self, pair: Class) -> Range {
        let measured = self.known.and_then(|known| switch(known, pair));
        match (measured, cpu::is_guest(self.site)) {
            // A part of every switch to that CPU, and at most as long.
            (Some(ns), _) => range(0.1 * ns, 0.4 * ns, ns),
            // A virtual machine leaves to its hypervisor, unless interrupts are posted.
            (None, true) => range(300.0, 6_000.0, 40_000.0),
            (None, false) => range(150.0, 700.0, 4_000.0),
        }
    }

    /// From the maker, which waits, to the thread, or from the thread, which ends, to the maker.
    fn hand_over(&self, pair: Class) -> Range {
        let measured = self.known.and_then(|known| switch(known, pair));
        match (measured, pair) {
            (Some(ns), _) => around(ns, 0.5),
            (None, Class::Same) => self.kernel(SWITCH),
            // The other CPU sleeps, and how deeply nobody tells; a virtual machine's sleeps outside.
            (None, _) => match cpu::is_guest(self.site) {
                true => range(1_000.0, 6_000.0, 90_000.0),
                false => range(500.0, 2_500.0, 60_000.0),
            },
        }
    }

    /// From the end of its creation to its first instruction: the maker waits in the join, and the
    /// library tells the kernel about the thread (robust list, restartable sequences).
    fn beginning(&self, thread: Thread) -> Range {
        let calls = match thread.stack {
            Stack::Bare => 1.0,
            _ => 3.0,
        };
        sum(self.ways(calls), self.hand_over(thread.pair))
    }

    /// From its first instruction until it is joined.
    fn ending(&self, thread: Thread) -> Range {
        // The stack's pages given back and the signal mask, by the library; then the exit itself.
        let calls = match thread.stack {
            Stack::Bare => 1.0,
            Stack::Fresh => 2.0,
            Stack::Cached => 3.0,
        };
        let exit = sum(self.kernel(EXIT), self.wake);
        let mut total = sum(sum(self.ways(calls), exit), self.hand_over(thread.pair));
        if is_mapped(thread) {
            total = sum(total, product(self.map, range(0.4, 1.0, 3.0)));
        }
        if crowd(thread).is_some() {
            // It waits at the gate: one more wait, wake-up and switch.
            let gate = sum(self.ways(1.0), self.wake);
            total = sum(total, sum(gate, self.hand_over(thread.pair)));
        }
        if is_cold(thread) {
            total = sum(total, self.kernel(COLD_TASK));
        }
        match thread.company {
            Company::Alone => total,
            Company::Sequence | Company::Crowd(_) => sum(total, self.kernel(DEFERRED)),
            Company::Stress(_) => {
                let calls = sum(self.ways(STRESS_CALLS), self.kernel(STRESS));
                sum(sum(total, self.kernel(DEFERRED)), calls)
            }
        }
    }
}

/// From the call that makes a thread to a moment of its life, in ns; in company per thread.
pub fn time(site: &Site, known: Option<&Known>, thread: Thread, moment: Moment) -> Law {
    let prices = Prices::of(site, known);
    let creation = prices.creation(thread);
    let until = match moment {
        Moment::Return => creation,
        Moment::First => sum(creation, prices.beginning(thread)),
        Moment::Joined => sum(sum(creation, prices.beginning(thread)), prices.ending(thread)),
    };
    let mut because = format!("{}; software: {}", prices.from, parts(thread, moment));
    if let Some(ns) = known.and_then(|known| switch(known, thread.pair)) {
        because.push_str(&format!("; a switch there of {ns:.0} ns (os.switch measured it)"));
    }
    let estimate = Law::of(until, because);
    match (moment, thread.pair) {
        // A new thread may run before its maker goes on.
        (Moment::Return, Class::Same) => {
            estimate.widened(1.0, 1.8, "the thread may preempt its maker before the call returns")
        }
        (_, Class::Same) => estimate,
        _ => estimate.widened(1.4, 1.0, "the other CPU does its part while the maker goes on"),
    }
}

/// Whether its stack is mapped for it: in a crowd for all but the few that are kept.
fn is_mapped(thread: Thread) -> bool {
    thread.stack == Stack::Fresh || is_cold(thread)
}

/// How many live together.
fn crowd(thread: Thread) -> Option<u64> {
    match thread.company {
        Company::Crowd(alive) | Company::Stress(alive) => Some(alive),
        Company::Alone | Company::Sequence => None,
    }
}

/// Whether more live together than caches of tasks and stacks hold.
fn is_cold(thread: Thread) -> bool {
    crowd(thread).is_some_and(|alive| alive > KEPT)
}

/// What is done until a moment.
fn parts(thread: Thread, moment: Moment) -> String {
    let mut parts = vec![format!("clone of {:.0} to {:.0} cycles", CLONE.low, CLONE.high)];
    if thread.stack != Stack::Bare {
        parts.push("two changes of the signal mask".to_owned());
    }
    let crowd = crowd(thread);
    if thread.stack == Stack::Fresh || crowd.is_some_and(|alive| alive > KEPT) {
        parts.push("a stack mapped, guarded and first touched".to_owned());
    }
    if thread.pair != Class::Same {
        parts.push("the move to its CPU and the interrupt that wakes it".to_owned());
    }
    if moment != Moment::Return {
        parts.push("the switch to it".to_owned());
    }
    if moment == Moment::Joined {
        parts.push(format!(
            "its exit of {:.0} to {:.0} cycles and the switch back",
            EXIT.low, EXIT.high
        ));
    }
    if let Some(alive) = crowd {
        parts.push(format!("a wait until all {alive} are made"));
    }
    if crowd.is_some_and(|alive| alive > KEPT) {
        parts.push("descriptors and kernel stacks from no cache".to_owned());
    }
    if matches!(thread.company, Company::Stress(_)) {
        parts.push(format!("{STRESS_CALLS} more calls"));
    }
    if thread.company != Company::Alone {
        parts.push("what is freed later".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;

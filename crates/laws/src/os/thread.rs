//! Laws of threads: a clone, a stack, switches and an exit, each a system call with a service.
//!
//! What clone and exit do in the kernel is counted in core cycles, written from memory of usual
//! figures for Linux 5 and 6 and adjusted on one virtual machine; the intervals are meant to cover
//! other kernels, allocators that are cold, and control groups that charge for kernel memory.

use super::learnt::corrected_by_faults;
use super::switch::{self, Parties, Via};
use super::work::guest_wake;
use super::{Service, Work, call, measured_call, system_call, took};
use crate::{Facts, Law, cpu, range};
use bench::experiment::{Domain, Known};
use bench::pair::Class;
use bench::{case, symbols};
use record::event::Range;
use record::unit::Unit;

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

symbols! {
    /// What threads do beside waiting.
    pub enum Beside { Stress = "stress" }
}
case! {
    /// A thread by itself, one of a sequence (`count`), or one of a crowd (`alive`).
    pub struct Made {
        /// where creator and thread run: on the same CPU, SMT siblings, under one last-level cache,
        /// in one socket, in different sockets (remote), or on CPUs of unknown distance (other)
        pair: Class,
        /// the thread's stack: cached by the library, mapped for this thread, or bare (no library;
        /// same CPU only)
        stack: Option<Stack>,
        /// threads in one sequence, timed as a whole
        count: Option<u64> = Domain::Either(&["none"], 1, 10_000_000, Unit::Count),
        /// threads alive at the same time: all are created, then all are joined
        alive: Option<u64> = Domain::Either(&["none"], 1, 1_000_000, Unit::Count),
        /// work of threads alive at the same time: none, or the system calls of a thread of
        /// `stress-ng --pthread` (0.15.06), before the gate and after it
        work: Option<Beside> = Domain::Symbols(&["none", "stress"]),
    }
}

impl Made {
    /// One thread by itself.
    pub fn alone(pair: Class, stack: Stack) -> Made {
        Made { pair, stack: Some(stack), count: None, alive: None, work: None }
    }

    /// One of a sequence.
    pub fn sequence(count: u64) -> Made {
        Made { count: Some(count), ..Made::alone(Class::Same, Stack::Cached) }
    }

    /// One of a crowd.
    pub fn crowd(alive: u64, work: Option<Beside>) -> Made {
        Made { stack: None, alive: Some(alive), work, ..Made::alone(Class::Same, Stack::Cached) }
    }

    /// Other threads that live at the same time.
    pub fn company(&self) -> Company {
        match (self.count, self.alive) {
            (Some(_), _) => Company::Sequence,
            (_, Some(alive)) if self.work.is_some() => Company::Stress(alive),
            (_, Some(alive)) => Company::Crowd(alive),
            _ => Company::Alone,
        }
    }

    /// What it runs on.
    pub fn stack(&self) -> Stack {
        self.stack.unwrap_or(Stack::Cached)
    }
}

/// Other threads that live at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Company {
    /// None, and each life is timed.
    Alone,
    /// None, and a whole sequence is timed.
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
/// Its exit, beyond the wake-up of the joining thread, and its release.
const EXIT: Range = range(4_000.0, 10_000.0, 26_000.0);
/// A switch to a thread of the same process on the same CPU.
const SWITCH: Range = range(1_000.0, 2_800.0, 8_000.0);
/// The library around the calls: attributes, descriptor, thread-local storage.
const LIBRARY: Range = range(300.0, 900.0, 3_000.0);
/// A page fault on fresh memory, with its page cleared.
const FAULT: Range = range(700.0, 2_200.0, 6_000.0);
/// A task moved to another CPU before it runs.
const MOVE: Range = range(1_200.0, 4_000.0, 14_000.0);

/// A task from no cache, because many live together: made, touched, given back.
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
fn measured_switch(known: &Known, pair: Class) -> Option<f64> {
    let metric = if pair == Class::Same { "switch" } else { "handover" };
    let ns = switch::measured(known, (Via::Pipe, Parties::Threads), Some(pair), metric);
    ns.filter(|ns| *ns > 0.0)
}

/// What a thread's parts cost here, in ns.
struct Prices<'run> {
    facts: Facts<'run>,
    thread: &'run Made,
}

impl Prices<'_> {
    fn ways(&self, count: f64) -> Law {
        call(self.facts, 0.05).times(count)
    }

    fn kernel(&self, cycles: Range, what: &str) -> Law {
        let work = Work::on_pages(cycles).law(self.facts.site, what);
        corrected_by_faults(self.facts, cpu::usual_in_kernel(self.facts, work))
    }

    /// A call with its service, as os.syscall measured it under that name where it did.
    fn service(&self, name: &str, service: Service) -> Law {
        match measured_call(self.facts.known, name) {
            Some(ns) => Law::measured(ns, 0.1, took(name, ns)),
            None => system_call(self.facts, service),
        }
    }

    fn wake(&self) -> Law {
        self.service("futex_wake", Service::FUTEX_WAKE)
    }

    fn map(&self) -> Law {
        self.service("mmap_munmap", Service::MAP)
    }

    fn creation(&self) -> Law {
        let clone = self.kernel(CLONE, "a clone");
        let mut total = match self.thread.stack() {
            Stack::Bare => self.ways(1.0) + clone,
            // The signal mask is changed before the clone and after it.
            _ => {
                let library = self.kernel(LIBRARY, "the C library's part");
                self.ways(3.0).and("two signal mask changes") + clone + library
            }
        };
        if is_mapped(self.thread) {
            // Mapping and the change that opens it to use; the first pages.
            let faults = self.kernel(FAULT, "first touch of a stack page");
            total = total
                + (self.map().by(range(0.5, 1.0, 2.0)).and("a stack mapped, with a guard page")
                    + faults.by(range(1.0, 2.0, 4.0)));
        }
        if self.thread.pair != Class::Same {
            let moved = self.kernel(MOVE, "migration to its CPU");
            total = total + (self.ways(1.0) + moved + self.interrupt());
        }
        total
    }

    /// A hand-over there as os.switch measured it, in ns.
    fn measured_switch(&self) -> Option<(f64, String)> {
        let ns = measured_switch(self.facts.known?, self.thread.pair)?;
        Some((ns, format!("a context switch there took {ns:.0} ns (measured by os.switch)")))
    }

    fn interrupt(&self) -> Law {
        let what = "the interrupt that wakes its CPU";
        match (self.measured_switch(), cpu::is_guest(self.facts.site)) {
            // A part of every switch to that CPU, and at most as long.
            (Some((ns, from)), _) => Law::new(0.1 * ns, 0.4 * ns, ns, from),
            // A virtual machine leaves to its hypervisor, unless interrupts are posted.
            (None, true) => guest_wake(self.facts.site, Law::new(300.0, 6_000.0, 40_000.0, what)),
            (None, false) => Law::new(150.0, 700.0, 4_000.0, what),
        }
    }

    /// From the maker, which waits, to the thread, or from the thread, which ends, to the maker.
    fn hand_over(&self) -> Law {
        let what = "the switch to an idle CPU";
        match (self.measured_switch(), self.thread.pair) {
            (Some((ns, from)), _) => Law::measured(ns, 0.5, from),
            (None, Class::Same) => self.kernel(SWITCH, "a context switch"),
            // The other CPU sleeps at an unknown depth; a virtual machine's sleeps outside.
            (None, _) if cpu::is_guest(self.facts.site) => {
                guest_wake(self.facts.site, Law::new(1_000.0, 6_000.0, 90_000.0, what))
            }
            (None, _) => Law::new(500.0, 2_500.0, 60_000.0, what),
        }
    }

    /// From the end of its creation to its first instruction: the creator waits in the join, and
    /// the library registers the thread with the kernel (robust list, restartable sequences).
    fn beginning(&self) -> Law {
        let calls = match self.thread.stack() {
            Stack::Bare => 1.0,
            _ => 3.0,
        };
        self.ways(calls) + self.hand_over()
    }

    fn ending(&self) -> Law {
        // The stack's pages given back and the signal mask, by the library; then the exit itself.
        let calls = match self.thread.stack() {
            Stack::Bare => 1.0,
            Stack::Fresh => 2.0,
            Stack::Cached => 3.0,
        };
        let exit = self.kernel(EXIT, "its exit") + self.wake();
        let mut total = self.ways(calls) + exit + self.hand_over();
        if is_mapped(self.thread) {
            total = total + self.map().by(range(0.4, 1.0, 3.0)).and("its stack unmapped");
        }
        if let Some(alive) = crowd(self.thread) {
            let gate = self.ways(1.0) + self.wake() + self.hand_over();
            total = total + gate.and(format!("a wait until all {alive} threads exist"));
        }
        if is_cold(self.thread) {
            let what = "a task and a kernel stack that are in no cache";
            total = total + self.kernel(COLD_TASK, what);
        }
        if self.thread.company() != Company::Alone {
            total = total + self.kernel(DEFERRED, "deferred freeing");
        }
        if let Company::Stress(_) = self.thread.company() {
            let calls = self.ways(STRESS_CALLS).and(format!("{STRESS_CALLS} more calls"));
            total = total + (calls + self.kernel(STRESS, "their services"));
        }
        total
    }
}

/// From the call that makes a thread to a moment of its life, in ns; in company per thread.
pub fn time(facts: Facts, thread: &Made, moment: Moment) -> Law {
    let prices = Prices { facts, thread };
    let mut law = prices.creation();
    if moment != Moment::Return {
        law = law + prices.beginning();
    }
    if moment == Moment::Joined {
        law = law + prices.ending();
    }
    match (moment, thread.pair) {
        // A new thread may run before its maker goes on.
        (Moment::Return, Class::Same) => {
            law.widened(1.0, 1.8, "the thread may preempt its creator before the call returns")
        }
        (_, Class::Same) => law,
        _ => law.widened(1.4, 1.0, "the other CPU works in parallel with the creator"),
    }
}

/// Whether its stack is mapped for it: in a crowd for all but the few that are kept.
fn is_mapped(thread: &Made) -> bool {
    thread.stack() == Stack::Fresh || is_cold(thread)
}

fn crowd(thread: &Made) -> Option<u64> {
    match thread.company() {
        Company::Crowd(alive) | Company::Stress(alive) => Some(alive),
        Company::Alone | Company::Sequence => None,
    }
}

/// Whether more live together than caches of tasks and stacks hold.
fn is_cold(thread: &Made) -> bool {
    crowd(thread).is_some_and(|alive| alive > KEPT)
}

//! Laws of threads: a clone, a stack, switches and an exit, each a system call with a service.

use super::switch::{self, Parties, Via};
use super::work::guest_wake;
use super::{call, measured_or_stated};
use crate::rows::Section;
use crate::{Facts, Law, cpu};
use bench::experiment::Domain;
use bench::pair::Class;
use bench::{case, symbols};
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
    pub fn alone(pair: Class, stack: Stack) -> Made {
        Made { pair, stack: Some(stack), count: None, alive: None, work: None }
    }

    pub fn sequence(count: u64) -> Made {
        Made { count: Some(count), ..Made::alone(Class::Same, Stack::Cached) }
    }

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

symbols! {
    /// A moment of a thread's life, after the call that makes it.
    pub enum Moment {
        /// The call has returned.
        Return = "return",
        /// The thread has begun.
        First = "first_instruction",
        /// The thread is joined.
        Joined = "create_join",
    }
}

/// Stacks of 8 MiB that glibc keeps: 40 MiB. A crowd maps all but these.
const KEPT: u64 = 5;

/// A hand-over between two threads by pipe that os.switch measured, in ns: on one CPU the switch
/// alone, on two with the pipe's calls, which are a small part there.
fn measured_switch(facts: Facts, pair: Class) -> Option<(f64, String)> {
    let metric = if pair == Class::Same { "switch" } else { "handover" };
    let ns = switch::measured(facts.known?, (Via::Pipe, Parties::Threads), Some(pair), metric);
    let ns = ns.filter(|ns| *ns > 0.0)?;
    Some((ns, format!("a context switch there took {ns:.0} ns (measured by os.switch)")))
}

/// The interrupt that wakes a thread's CPU, in ns.
fn interrupt(facts: Facts, pair: Class) -> Law {
    let what = "the interrupt that wakes its CPU";
    match (measured_switch(facts, pair), cpu::is_guest(facts.site)) {
        // A part of every switch to that CPU, and at most as long.
        (Some((ns, from)), _) => Law::new(0.1 * ns, 0.4 * ns, ns, from),
        // A virtual machine leaves to its hypervisor, unless interrupts are posted.
        (None, true) => guest_wake(facts.site, Law::new(300.0, 6_000.0, 40_000.0, what)),
        (None, false) => Law::new(150.0, 700.0, 4_000.0, what),
    }
}

/// From the maker, which waits, to the thread, or from the thread, which ends, to the maker, in ns.
fn hand_over(facts: Facts, pair: Class) -> Law {
    let what = "the switch to an idle CPU";
    match (measured_switch(facts, pair), pair) {
        (Some((ns, from)), _) => Law::measured(ns, 0.5, from),
        (None, Class::Same) => sum(facts, pair, &["switch"]),
        // The other CPU sleeps at an unknown depth; a virtual machine's sleeps outside.
        (None, _) if cpu::is_guest(facts.site) => {
            guest_wake(facts.site, Law::new(1_000.0, 6_000.0, 90_000.0, what))
        }
        (None, _) => Law::new(500.0, 2_500.0, 60_000.0, what),
    }
}

fn sum(facts: Facts, pair: Class, sums: &[&str]) -> Law {
    let time = |name: &str| match name {
        "wake" => measured_or_stated(facts, "futex_wake", 0.1),
        "map" => measured_or_stated(facts, "mmap_munmap", 0.1),
        "hand_over" => hand_over(facts, pair),
        "interrupt" => interrupt(facts, pair),
        _ => call(facts, 0.05),
    };
    Section { facts, name: "os.thread", count: &|_| 0.0, time: &time }.law(sums)
}

/// From the call that makes a thread to a moment of its life, in ns; in company per thread.
pub fn time(facts: Facts, thread: &Made, moment: Moment) -> Law {
    let (stack, company) = (thread.stack(), thread.company());
    let [made, begun, ended] = match stack {
        Stack::Bare => ["bare.return", "bare.first", "bare.joined"],
        Stack::Cached => ["cached.return", "cached.first", "cached.joined"],
        Stack::Fresh => ["fresh.return", "fresh.first", "fresh.joined"],
    };
    let is_mapped = stack != Stack::Fresh && is_cold(thread);
    let (is_begun, is_joined) = (moment != Moment::Return, moment == Moment::Joined);
    let sums = [
        (made, true),
        ("mapped", is_mapped),
        ("elsewhere", thread.pair != Class::Same),
        (begun, is_begun),
        (ended, is_joined),
        ("unmapped", is_joined && (stack == Stack::Fresh || is_mapped)),
        ("gate", is_joined && crowd(thread).is_some()),
        ("cold", is_joined && is_cold(thread)),
        ("deferred", is_joined && company != Company::Alone),
        ("stress", is_joined && matches!(company, Company::Stress(_))),
    ];
    let sums: Vec<&str> = sums.iter().filter(|(_, is_in)| *is_in).map(|(name, _)| *name).collect();
    let law = sum(facts, thread.pair, &sums);
    match (moment, thread.pair) {
        // A new thread may run before its maker goes on.
        (Moment::Return, Class::Same) => {
            law.widened(1.0, 1.8, "the thread may preempt its creator before the call returns")
        }
        (_, Class::Same) => law,
        _ => law.widened(1.4, 1.0, "the other CPU works in parallel with the creator"),
    }
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

//! Laws of hand-overs, after R1's model: the system calls, and between them a wake-up, the
//! scheduler, the state of a thread saved and restored, and for a process another address space.
//!
//! Cycles are starting values for Linux 6.x from memory of usual figures (`perf bench sched pipe`,
//! lmbench lat_ctx: 0.6 to 1.5 µs for a switch on server cores of 3 GHz), adjusted to no machine.

use super::work::guest_wake;
use super::{Service, Words, Work, call, kernel_work, measured_call, system_call, took};
use crate::cpu::{clocked, in_kernel, is_guest};
use crate::{Facts, Law, product, range, scaled, sum};
use bench::experiment::{Domain, Fields as _, Known, Site};
use bench::pair::Class;
use bench::{case, symbols};
use host::Arch;
use host::cpu::IdleState;
use record::event::Range;

symbols! {
    /// By what the token goes.
    pub enum Via {
        /// 4 bytes written and read.
        Pipe = "pipe",
        Futex = "futex",
        /// 8 bytes written and read.
        Eventfd = "eventfd",
        Yield = "yield",
        Ring = "ring",
        FirstRun = "first_run",
    }
}

symbols! {
    /// What the parties are.
    pub enum Parties { Processes = "processes", Threads = "threads" }
}
case! {
    /// A hand-over.
    pub struct Handover {
        /// mechanism that hands over the token; `ring`: pipes through several processes, as in
        /// lat_ctx; `first_run`: no token, the parent waits for a newly forked child
        via: Via,
        /// kind of the two parties; rings and first runs always use processes
        parties: Option<Parties>,
        /// where the two run: on the same CPU, SMT siblings, under one last-level cache, in one
        /// socket, in different sockets (remote), or on CPUs of unknown distance (other); yields,
        /// rings and first runs use one CPU
        pair: Option<Class>,
        /// processes in a ring
        size: Option<u64> = Domain::count(2, 1024),
        /// bytes that each process of a ring sums, in whole 64-byte lines
        working_set: Option<u64> = Domain::bytes(0, 64 << 20),
    }
}

impl Handover {
    /// One that has no parameter beside.
    pub fn plain(via: Via) -> Handover {
        Handover { via, parties: None, pair: None, size: None, working_set: None }
    }

    pub fn size(&self) -> u64 {
        self.size.unwrap_or(2)
    }

    pub fn parties(&self) -> Parties {
        self.parties.unwrap_or(Parties::Processes)
    }

    pub fn pair(&self) -> Class {
        self.pair.unwrap_or(Class::Same)
    }

    /// Bytes that each sums.
    pub fn working_set(&self) -> u64 {
        self.working_set.unwrap_or(0)
    }

    fn has_processes(&self) -> bool {
        self.parties() == Parties::Processes
    }
}

/// What os.switch measured of two parties, in ns.
pub fn measured(
    known: &Known,
    (via, parties): (Via, Parties),
    pair: Option<Class>,
    metric: &str,
) -> Option<f64> {
    let of = Handover { parties: Some(parties), pair, ..Handover::plain(via) };
    known.get("os.switch", &of.id(), metric)
}

/// Whether earlier figures add anything: the null system call is known.
pub fn tells(known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
}

/// One party's calls, and the sum of its array in the nearest cache, in ns.
pub fn one_party(facts: Facts, of: &Handover) -> Law {
    let calls = match (of.via, measured_call(facts.known, "sched_yield")) {
        (Via::Yield, Some(ns)) => Law::measured(ns, 0.15, took("sched_yield", ns)),
        (Via::Yield, None) => system_call(facts, Service::YIELD),
        (via, _) => {
            let (cycles, what) = services(via);
            call(facts, 0.1).times(2.0).and("two calls") + kernel_work(facts, cycles, what)
        }
    };
    let lines = of.working_set().div_ceil(64);
    if lines == 0 {
        return calls;
    }
    let (per_line, from) = hot_line(facts.site, of.working_set());
    let summed =
        format!("sum {lines} lines from {from}, {} to {} cycles each", per_line.low, per_line.high);
    calls + clocked(facts, Law::hardware(scaled(per_line, lines as f64), summed))
}

/// Cycles of the two services of a hand-over beyond entry and exit.
fn services(via: Via) -> (Range, &'static str) {
    match via {
        Via::Pipe | Via::Ring | Via::FirstRun => {
            (range(280.0, 640.0, 1500.0), "two pipe locks, a few bytes")
        }
        Via::Eventfd => (range(160.0, 400.0, 1000.0), "lock and change a counter twice"),
        Via::Futex | Via::Yield => (range(90.0, 260.0, 700.0), "two bucket lookups, a word read"),
    }
}

/// Cycles of a line of 64 bytes in an array that is summed again and again, and where it lies.
fn hot_line(site: &Site, bytes: u64) -> (Range, &'static str) {
    let [first, second, _] = cache_sizes(site);
    match (first, second) {
        (Some(first), _) if bytes <= first => (range(2.2, 4.0, 9.0), "the first-level cache"),
        (_, Some(second)) if bytes <= second => (range(2.5, 5.5, 14.0), "the second-level cache"),
        (None, None) => (range(2.2, 6.0, 60.0), "caches of unknown size"),
        _ => (range(3.0, 14.0, 80.0), "beyond the second-level cache"),
    }
}

/// Bytes of the first-level, the second-level and the last cache of the CPU that measures.
fn cache_sizes(site: &Site) -> [Option<u64>; 3] {
    let cpu = site.cpus.first().copied().unwrap_or(0);
    let cache = &site.host.cache;
    [cache.data(1, cpu), cache.data(2, cpu), cache.last(cpu)]
        .map(|level| level.map(|cache| cache.size_bytes))
}

/// What a hand-over takes beyond the calls of one party, in ns.
pub fn switch(facts: Facts, of: &Handover) -> Law {
    match of.pair() {
        Class::Same => refilled(facts, of, on_one_cpu(facts, of)),
        distance => across(facts, of, distance),
    }
}

/// One hand-over whole, in ns.
pub fn handover(facts: Facts, of: &Handover) -> Law {
    one_party(facts, of) + switch(facts, of)
}

fn on_one_cpu(facts: Facts, of: &Handover) -> Law {
    let site = facts.site;
    let (own, what) = match of.via {
        Via::Yield => (range(450.0, 1100.0, 2900.0), "the scheduler, the thread's state"),
        _ => (range(1050.0, 2100.0, 4400.0), "a wake-up, the scheduler, the thread's state"),
    };
    let mut cycles = Work::from(own).law(site, what);
    if of.has_processes() {
        let space = range(80.0, 350.0, 1300.0);
        cycles = cycles + Law::hardware(space, "the other address space and its TLB misses");
    }
    if let Some(why) = emptied_tlb(site, of) {
        let emptied = range(250.0, 1700.0, 6000.0);
        cycles = cycles + Law::hardware(emptied, format!("a TLB flush ({why})"));
    }
    if Words(&site.host).says("spectre_v2", "IBPB: always-on") && of.has_processes() {
        let barrier = range(1000.0, 3000.0, 9000.0);
        cycles = cycles + Law::software(barrier, "IBPB on every process switch");
    }
    let kernel = &site.host.kernel;
    let is_gvisor = kernel.container.runtime.as_deref() == Some("gvisor");
    let may_flush = "a kernel of unknown version may flush the TLB";
    in_kernel(facts, cycles)
        .when(of.has_processes() && kernel.release.is_none(), |law| {
            law.widened(1.0, 1.6, may_flush)
        })
        .when(is_gvisor, |law| law.widened(1.0, 40.0, "gVisor has its own scheduler"))
}

/// Address spaces in one CPU's TLB: x86's TLB_NR_DYN_ASIDS (asm/tlbflush.h).
const ADDRESS_SPACES: u64 = 6;

/// First kernel that uses PCID.
const PCID_SINCE: (u64, u64) = (4, 14);

/// Why the TLB holds nothing of a process when it comes back.
fn emptied_tlb(site: &Site, of: &Handover) -> Option<&'static str> {
    let flags = &site.host.cpu.flags;
    if !of.has_processes() || site.host.cpu.arch != Arch::X86_64 {
        return None;
    }
    if of.size() > ADDRESS_SPACES {
        return Some("Linux keeps six address spaces in the TLB");
    }
    if !flags.is_empty() && flags.iter().all(|flag| flag != "pcid") {
        return Some("no PCID");
    }
    (site.host.kernel.numbers()? < PCID_SINCE).then_some("kernels before 4.14 do not use PCID")
}

/// Lines that the kernel and the process itself touch in a turn, stack and tables among them.
const OWN_LINES: Range = range(20.0, 60.0, 200.0);

fn refilled(facts: Facts, of: &Handover, switch: Law) -> Law {
    if of.size() <= 2 && of.working_set() == 0 {
        return switch;
    }
    let lines = of.working_set().div_ceil(64);
    let own_bytes = 64 * OWN_LINES.likely as u64;
    let all = of.size().saturating_mul(of.working_set() + own_bytes);
    // Cycles of a line beyond those of the hot array.
    let [first, second, last] = cache_sizes(facts.site);
    let (per_line, from) = match (first, second, last) {
        // The kernel's own lines take part of a small cache.
        (Some(first), ..) if 2 * all <= first => (range(0.05, 0.6, 6.0), "the first-level cache"),
        (_, Some(second), _) if 2 * all <= second => (range(0.2, 2.5, 14.0), "second-level cache"),
        (_, _, Some(last)) if 2 * all <= last => (range(0.5, 7.0, 60.0), "the last-level cache"),
        (None, None, None) => (range(0.05, 5.0, 150.0), "caches of unknown size"),
        _ => (range(1.0, 20.0, 200.0), "memory in part"),
    };
    let fetched = sum(scaled(per_line, lines as f64), product(per_line, OWN_LINES));
    let what = format!(
        "refill {lines} array lines and about {} others from {from}, which holds those of {} \
         processes; {} to {} cycles each beyond a hot line",
        OWN_LINES.likely,
        of.size(),
        per_line.low,
        per_line.high
    );
    switch + clocked(facts, Law::hardware(fetched, what))
}

fn across(facts: Facts, of: &Handover, distance: Class) -> Law {
    // The waker's own way to sleep overlaps with the other's awakening.
    let what = format!("a wake-up on another CPU ({})", distance.text());
    let scheduler = kernel_work(facts, range(500.0, 1800.0, 5000.0), what);
    let lines = match distance {
        Class::Smt => range(10.0, 80.0, 400.0),
        Class::Llc => range(50.0, 250.0, 900.0),
        _ => range(100.0, 700.0, 3500.0),
    };
    let woken =
        scheduler + Law::hardware(lines, "its cache lines transferred") + idle_exit(facts.site);
    // Calls that overlap or do not.
    woken.by(range(0.75, 1.0, 1.2)).when(of.via == Via::Yield, |law| {
        law.widened(2.0, 2.0, "sched_yield does not switch to another CPU")
    })
}

/// From the interrupt that wakes an idle CPU to its first instruction, in ns.
fn idle_exit(site: &Site) -> Law {
    if is_guest(site) {
        let halt =
            Law::from_range(range(700.0, 6_000.0, 50_000.0), "a halt exits to the hypervisor");
        return guest_wake(site, halt);
    }
    let states = &site.host.cpu.idle_states;
    let halts =
        |state: &&IdleState| state.latency_us > 0 && !state.disabled && state.name != "POLL";
    let law = match states.iter().find(halts) {
        Some(IdleState { name, latency_us, .. }) => {
            let ns = *latency_us as f64 * 1e3;
            let of = range(150.0 + 0.15 * ns, 400.0 + 0.7 * ns, 2_000.0 + 4.0 * ns);
            Law::hardware(of, format!("exit from idle state {name} of {latency_us} µs"))
        }
        None => {
            let why = "exit from an idle state that the kernel does not describe";
            Law::hardware(range(200.0, 1_700.0, 12_000.0), why)
        }
    };
    let is_known = site.host.kernel.virtualisation.is_guest.is_some();
    law.when(!is_known, |law| law.widened(1.0, 4.0, "perhaps a virtual machine"))
}

/// From the parent's wait to the first instruction of a child just forked, in ns.
pub fn first_run(facts: Facts) -> Law {
    let of = Handover::plain(Via::Yield);
    let what = "the child returns from fork and faults on its first code page";
    call(facts, 0.1)
        + on_one_cpu(facts, &of)
        + kernel_work(facts, range(900.0, 5_000.0, 40_000.0), what)
}

/// The switch between processes over the one between threads.
pub fn process_to_thread(site: &Site) -> Law {
    let why = "the same context switch, plus the address space and its TLB misses";
    let flushes = "the CPU reports no PCID, so the kernel may flush the TLB";
    let has_pcid = site.host.cpu.flags.iter().any(|flag| flag == "pcid");
    Law::hardware(range(0.95, 1.25, 2.3), why).when(!has_pcid, |law| law.widened(1.0, 1.4, flushes))
}

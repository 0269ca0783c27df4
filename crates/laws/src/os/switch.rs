//! Laws of hand-overs, after R1's model: the system calls, and between them a wake-up, the
//! scheduler, the state of a thread saved and restored, and for a process another address space.
//!
//! Cycles are starting values for Linux 6.x from memory of usual figures (`perf bench sched pipe`,
//! lmbench lat_ctx: 0.6 to 1.5 µs for a switch on server cores of 3 GHz), adjusted to no machine.

use super::{Service, Words, entry, measured_call, service_ns, system_call};
use crate::{Law, around, cpu, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use host::Arch;
use record::event::{Condition, Range};

/// By what the token goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// 4 bytes written and read.
    Pipe,
    /// A word set, a wake and a wait.
    Futex,
    /// 8 bytes written and read.
    Eventfd,
    /// A word set and a yield.
    Yield,
}

/// A hand-over.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    /// By what.
    pub via: Via,
    /// Between processes, else threads.
    pub processes: bool,
    /// Distance class of the two CPUs, as cases name them.
    pub pair: Class,
    /// Parties.
    pub size: u64,
    /// Bytes that each sums.
    pub working_set: u64,
}

/// Whether earlier figures add anything: the null system call is known.
pub fn tells(known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
}

/// Entry and exit `times` times, in ns: by the measured `getpid`, else by the mitigations.
fn ways(site: &Site, known: Option<&Known>, times: f64) -> Law {
    let one = match known.and_then(|known| measured_call(known, "getpid")) {
        Some(ns) => {
            Law::of(around(ns, 0.1), format!("getpid took {ns:.0} ns (measured by os.syscall)"))
        }
        None => entry(site, known),
    };
    Law::of(scaled(one.range, times), format!("{times:.0} x entry and exit ({})", one.because()))
}

/// The calls of one hand-over by one party alone, with the sum of its array in the nearest cache
/// that holds it, in ns.
pub fn one_party(site: &Site, known: Option<&Known>, of: &Mechanism) -> Law {
    let calls = match of.via {
        Via::Yield => match known.and_then(|known| measured_call(known, "sched_yield")) {
            Some(ns) => Law::of(
                around(ns, 0.15),
                format!("sched_yield took {ns:.0} ns (measured by os.syscall)"),
            ),
            None => system_call(site, known, Service::YIELD),
        },
        via => {
            let (cycles, what) = services(via);
            let ways = ways(site, known, 2.0);
            Law::of(
                sum(ways.range, service_ns(site, known, cycles)),
                format!(
                    "{}; software: {what}, {:.0} to {:.0} cycles",
                    ways.because(),
                    cycles.low,
                    cycles.high
                ),
            )
        }
    };
    let lines = of.working_set.div_ceil(64);
    if lines == 0 {
        return calls;
    }
    let (per_line, from) = hot_line(site, of.working_set);
    let hot = cpu::time_of(crate::Facts { site, known }, scaled(per_line, lines as f64), "");
    Law::of(
        sum(calls.range, hot.range),
        format!(
            "{}; {lines} lines summed from {from}, {:.0} to {:.0} cycles each",
            calls.because(),
            per_line.low,
            per_line.high
        ),
    )
}

/// Cycles of the two services of a hand-over beyond entry and exit.
fn services(via: Via) -> (Range, &'static str) {
    match via {
        Via::Pipe => (
            range(280.0, 640.0, 1500.0),
            "a pipe locked twice, a few bytes copied in and out, pollers looked for",
        ),
        Via::Eventfd => (range(160.0, 400.0, 1000.0), "a counter locked and moved twice"),
        Via::Futex | Via::Yield => {
            (range(90.0, 260.0, 700.0), "a hash bucket looked up twice, a word read")
        }
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
pub fn switch(site: &Site, known: Option<&Known>, of: &Mechanism) -> Law {
    match of.pair {
        Class::Same => refilled(site, known, of, on_one_cpu(site, known, of)),
        distance => across(site, known, of, distance),
    }
}

/// One hand-over whole, in ns.
pub fn handover(site: &Site, known: Option<&Known>, of: &Mechanism) -> Law {
    let (calls, switch) = (one_party(site, known, of), switch(site, known, of));
    Law::of(
        sum(calls.range, switch.range),
        format!("{}; then {}", calls.because(), switch.because()),
    )
}

/// The switch on one CPU, caches apart.
fn on_one_cpu(site: &Site, known: Option<&Known>, of: &Mechanism) -> Law {
    let (mut cycles, mut because) = match of.via {
        Via::Yield => (
            range(450.0, 1100.0, 2900.0),
            "software: the scheduler's choice, base hardware: the state of a thread".to_owned(),
        ),
        _ => (
            range(1050.0, 2100.0, 4400.0),
            "software: a wake-up and the scheduler's choice, base hardware: the state of a thread"
                .to_owned(),
        ),
    };
    if of.processes {
        cycles = sum(cycles, range(80.0, 350.0, 1300.0));
        because += ", another address space and its misses in the TLB";
    }
    if let Some(why) = emptied_tlb(site, of) {
        cycles = sum(cycles, range(250.0, 1700.0, 6000.0));
        because += &format!(", which is emptied ({why})");
    }
    if Words(&site.host).says("spectre_v2", "IBPB: always-on") && of.processes {
        cycles = sum(cycles, range(1000.0, 3000.0, 9000.0));
        because += ", IBPB at each change of process";
    }
    let estimate = Law::of(
        service_ns(site, known, cycles),
        format!("{because}, {:.0} to {:.0} cycles", cycles.low, cycles.high),
    );
    let kernel = &site.host.kernel;
    let estimate = match of.processes && kernel.release.is_none() {
        true => estimate.widened(1.0, 1.6, "a kernel of unknown age may empty the TLB"),
        false => estimate,
    };
    match kernel.container.runtime.as_deref() == Some("gvisor") {
        true => estimate.widened(1.0, 40.0, "gVisor schedules by itself"),
        false => estimate,
    }
}

/// Address spaces that x86 kernels keep apart in one CPU's TLB: TLB_NR_DYN_ASIDS of
/// arch/x86/include/asm/tlbflush.h.
const ADDRESS_SPACES: u64 = 6;

/// First kernel that uses PCID.
const PCID_SINCE: (u64, u64) = (4, 14);

/// Why the TLB holds nothing of a process when it comes back.
fn emptied_tlb(site: &Site, of: &Mechanism) -> Option<&'static str> {
    let flags = &site.host.cpu.flags;
    if !of.processes || site.host.cpu.arch != Arch::X86_64 {
        return None;
    }
    if of.size > ADDRESS_SPACES {
        return Some("Linux keeps six address spaces apart");
    }
    if !flags.is_empty() && flags.iter().all(|flag| flag != "pcid") {
        return Some("without PCID");
    }
    (site.host.kernel.numbers()? < PCID_SINCE)
        .then_some("by a kernel before 4.14, which has no use for PCID")
}

/// Lines that the kernel and the process itself touch in a turn, stack and tables among them.
const OWN_LINES: Range = range(20.0, 60.0, 200.0);

/// Adds what it takes to get a ring's arrays back.
fn refilled(site: &Site, known: Option<&Known>, of: &Mechanism, switch: Law) -> Law {
    if of.size <= 2 && of.working_set == 0 {
        return switch;
    }
    let lines = of.working_set.div_ceil(64);
    let own_bytes = 64 * OWN_LINES.likely as u64;
    let all = of.size.saturating_mul(of.working_set + own_bytes);
    // Cycles of a line beyond those of the hot array.
    let [first, second, last] = cache_sizes(site);
    let (per_line, from) = match (first, second, last) {
        // The kernel's own lines take part of a small cache.
        (Some(first), ..) if 2 * all <= first => (range(0.05, 0.6, 6.0), "the first-level cache"),
        (_, Some(second), _) if 2 * all <= second => {
            (range(0.2, 2.5, 14.0), "the second-level cache")
        }
        (_, _, Some(last)) if 2 * all <= last => (range(0.5, 7.0, 60.0), "the last-level cache"),
        (None, None, None) => (range(0.05, 5.0, 150.0), "caches of unknown size"),
        _ => (range(1.0, 20.0, 200.0), "memory in part"),
    };
    let fetched = sum(scaled(per_line, lines as f64), product(per_line, OWN_LINES));
    let refill = cpu::time_of(crate::Facts { site, known }, fetched, "");
    Law::of(
        sum(switch.range, refill.range),
        format!(
            "{}; {lines} lines of the array and about {:.0} others fetched again from {from}, where \
             those of {} processes are, {:.1} to {:.0} cycles each beyond the hot ones",
            switch.because(),
            OWN_LINES.likely,
            of.size,
            per_line.low,
            per_line.high
        ),
    )
}

/// A wake-up on another CPU, which was idle.
fn across(site: &Site, known: Option<&Known>, of: &Mechanism, distance: Class) -> Law {
    // The waker's own way to sleep overlaps with the other's awakening.
    let scheduler = service_ns(site, known, range(500.0, 1800.0, 5000.0));
    let lines = match distance {
        Class::Smt => range(10.0, 80.0, 400.0),
        Class::Llc => range(50.0, 250.0, 900.0),
        _ => range(100.0, 700.0, 3500.0),
    };
    let idle = idle_exit(site);
    let estimate = Law::of(
        product(
            sum(sum(scheduler, lines), idle.range),
            // Calls that overlap or do not.
            range(0.75, 1.0, 1.2),
        ),
        format!(
            "software: a wake-up on another CPU ({}), base hardware: its lines fetched, {}",
            distance.text(),
            idle.because()
        ),
    );
    match of.via {
        Via::Yield => estimate.widened(2.0, 2.0, "no yield hands over to another CPU"),
        _ => estimate,
    }
}

/// From the interrupt that wakes an idle CPU to its first instruction, in ns.
fn idle_exit(site: &Site) -> Law {
    if cpu::is_guest(site) {
        return Law::new(
            700.0,
            6_000.0,
            50_000.0,
            "a halt that leaves to the hypervisor, which may poll or not: 0.7 to 50 µs",
        )
        .counting(Condition::Hypervisor);
    }
    let states = &site.host.cpu.idle_states;
    let halted =
        states.iter().find(|state| state.latency_us > 0 && !state.disabled && state.name != "POLL");
    let estimate = match halted {
        Some(state) => {
            let latency_ns = state.latency_us as f64 * 1e3;
            Law::new(
                150.0 + 0.15 * latency_ns,
                400.0 + 0.7 * latency_ns,
                2_000.0 + 4.0 * latency_ns,
                format!("an exit from {} ({} µs stated)", state.name, state.latency_us),
            )
        }
        None => Law::new(
            200.0,
            1_700.0,
            12_000.0,
            "an exit from an idle state that the kernel does not tell",
        ),
    };
    match site.host.kernel.virtualisation.is_guest {
        None => estimate.widened(1.0, 4.0, "perhaps a virtual machine"),
        Some(_) => estimate,
    }
}

/// From the parent's wait to the first instruction of a child just forked, in ns.
pub fn first_run(site: &Site, known: Option<&Known>) -> Law {
    let ways = ways(site, known, 1.0);
    let of =
        Mechanism { via: Via::Yield, processes: true, pair: Class::Same, size: 2, working_set: 0 };
    let switch = on_one_cpu(site, known, &of);
    let cycles = range(900.0, 5_000.0, 40_000.0);
    Law::of(
        sum(sum(ways.range, switch.range), service_ns(site, known, cycles)),
        format!(
            "{}; {}; software: the child's way out of fork and the fault on its first page of code, \
             which fork does not copy, {:.0} to {:.0} cycles",
            ways.because(),
            switch.because(),
            cycles.low,
            cycles.high
        ),
    )
}

/// The switch between processes over the one between threads.
pub fn process_to_thread(site: &Site) -> Law {
    let estimate = Law::new(
        0.95,
        1.25,
        2.3,
        "base hardware: the address space and its misses in the TLB come on top of the same switch",
    );
    match site.host.cpu.flags.iter().any(|flag| flag == "pcid") {
        true => estimate,
        false => estimate.widened(1.0, 1.4, "no PCID is told, so a TLB may be emptied"),
    }
}

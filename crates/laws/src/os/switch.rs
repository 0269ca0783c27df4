//! Laws of hand-overs, after R1's model: the system calls, and between them a wake-up, the
//! scheduler, the state of a thread saved and restored, and for a process another address space.

use super::work::guest_wake;
use super::{Words, call, is_gvisor, measured_or_stated};
use crate::cpu::is_guest;
use crate::rows::Section;
use crate::{Facts, Law, range};
use bench::experiment::{Domain, Fields as _, Known, Site};
use bench::pair::Class;
use bench::{case, symbols};
use host::Arch;
use host::cpu::IdleState;

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

/// One party's calls, and the sum of its array in the nearest cache, in ns.
pub fn one_party(facts: Facts, of: &Handover) -> Law {
    let calls = match of.via {
        Via::Yield => measured_or_stated(facts, "sched_yield", 0.15),
        via => sum(facts, of, &[&format!("calls.{}", via.text())]),
    };
    calls + (of.working_set() > 0).then(|| sum(facts, of, &[hot_lines(facts.site, of)]))
}

/// Sums of `os.rows` for a hand-over.
fn sum(facts: Facts, of: &Handover, sums: &[&str]) -> Law {
    let count = |name: &str| match name {
        "lines" => of.working_set().div_ceil(64) as f64,
        "processes" => f64::from(of.has_processes()),
        "emptied" => f64::from(is_tlb_emptied(facts.site, of)),
        _ => f64::from(of.has_processes() && has_barriers(facts.site)),
    };
    let time = |name: &str| match name {
        "idle" => idle_exit(facts.site),
        _ => call(facts, 0.1),
    };
    Section { facts, name: "os.switch", count: &count, time: &time }.law(sums)
}

fn has_barriers(site: &Site) -> bool {
    Words(&site.host).says("spectre_v2", "IBPB: always-on")
}

/// Where an array lies that is summed again and again.
fn hot_lines(site: &Site, of: &Handover) -> &'static str {
    let [first, second, _] = cache_sizes(site);
    match (first, second) {
        (Some(first), _) if of.working_set() <= first => "hot.first",
        (_, Some(second)) if of.working_set() <= second => "hot.second",
        (None, None) => "hot.unknown",
        _ => "hot.beyond",
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
    let distance = match of.pair() {
        Class::Same => {
            let is_refilled = of.size() > 2 || of.working_set() > 0;
            let refill = || sum(facts, of, &[cold_lines(facts.site, of)]);
            return on_one_cpu(facts, of) + is_refilled.then(refill);
        }
        Class::Smt => "across.smt",
        Class::Llc => "across.llc",
        _ => "across.far",
    };
    // The waker's own way to sleep overlaps with the other's awakening: calls overlap or do not.
    let woken = sum(facts, of, &[distance]).by(range(0.75, 1.0, 1.2));
    woken.when(of.via == Via::Yield, |law| {
        law.widened(2.0, 2.0, "sched_yield does not switch to another CPU")
    })
}

/// One hand-over whole, in ns.
pub fn handover(facts: Facts, of: &Handover) -> Law {
    one_party(facts, of) + switch(facts, of)
}

fn on_one_cpu(facts: Facts, of: &Handover) -> Law {
    let name = if of.via == Via::Yield { "to_next" } else { "to_woken" };
    let kernel = &facts.site.host.kernel;
    let may_flush = "a kernel of unknown version may flush the TLB";
    sum(facts, of, &[name])
        .when(of.has_processes() && kernel.release.is_none(), |law| {
            law.widened(1.0, 1.6, may_flush)
        })
        .when(is_gvisor(facts.site), |law| law.widened(1.0, 40.0, "gVisor has its own scheduler"))
}

/// Address spaces in one CPU's TLB: x86's TLB_NR_DYN_ASIDS (asm/tlbflush.h).
const ADDRESS_SPACES: u64 = 6;

/// First kernel that uses PCID.
const PCID_SINCE: (u64, u64) = (4, 14);

/// Whether the TLB holds nothing of a process when it comes back.
fn is_tlb_emptied(site: &Site, of: &Handover) -> bool {
    let lacks_pcid = !site.host.cpu.flags.is_empty() && !site.host.cpu.has("pcid");
    let is_old = site.host.kernel.numbers().is_some_and(|numbers| numbers < PCID_SINCE);
    let is_emptied = of.size() > ADDRESS_SPACES || lacks_pcid || is_old;
    of.has_processes() && site.host.cpu.arch == Arch::X86_64 && is_emptied
}

/// Bytes that the kernel and the process itself touch in a turn, stack and tables among them.
const OWN_BYTES: u64 = 60 * 64;

/// From where the lines of a process come back. The kernel's own take part of a small cache.
fn cold_lines(site: &Site, of: &Handover) -> &'static str {
    let all = 2 * of.size().saturating_mul(of.working_set() + OWN_BYTES);
    let [first, second, last] = cache_sizes(site).map(|size| size.is_some_and(|size| all <= size));
    match cache_sizes(site) {
        _ if first => "cold.first",
        _ if second => "cold.second",
        _ if last => "cold.last",
        [None, None, None] => "cold.unknown",
        _ => "cold.memory",
    }
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
    sum(facts, &of, &["first_run"]) + on_one_cpu(facts, &of)
}

/// The switch between processes over the one between threads.
pub fn process_to_thread(site: &Site) -> Law {
    let why = "the same context switch, plus the address space and its TLB misses";
    let flushes = "the CPU reports no PCID, so the kernel may flush the TLB";
    let is_flushed = !site.host.cpu.has("pcid");
    Law::hardware(range(0.95, 1.25, 2.3), why)
        .when(is_flushed, |law| law.widened(1.0, 1.4, flushes))
}

//! Laws of the kernel's services: a system call is its way in and out, which the mitigations
//! decide, and the service itself.
//!
//! Services are kernel work ([`Work`]), stated in cycles of a reference core without mitigations.
//! They are starting values for Linux 6.x, written from memory of usual figures (`perf bench
//! syscall`, lmbench), not measured kernel by kernel; the intervals are meant to cover older
//! kernels and common configurations. What they take elsewhere follows from the core and its
//! mitigations, by coefficients that are fitted to recorded machines (`bench::fitted`).

pub mod ipc;
pub mod learnt;
pub mod process;
pub mod schedule;
pub mod signal;
pub mod switch;
pub mod thread;
pub mod work;

use super::{Facts, Law, range, scaled, sum};
use crate::cpu::{self, clocked, in_kernel};
use bench::experiment::{Known, Site};
use host::{Arch, Host};
use record::event::{Condition, Range};
use record::key::CaseId;
use std::fmt::Display;
pub use work::Work;
use work::{ALIASED_SAFE_RETURNS, SAFE_RETURNS};

/// Entry, dispatch and exit without any mitigation, in cycles, and the returns on that way.
const BARE_ENTRY: Range = range(120.0, 190.0, 280.0);
const ENTRY_RETURNS: f64 = 4.0;

/// What `clock_gettime` takes in the kernel beyond entry and exit, in cycles of the reference core.
/// It makes some five more returns than `getpid` (docs/notes/2026-11-23-calls.md).
const KERNEL_CLOCK: Range = range(70.0, 140.0, 260.0);

/// A service that system calls ask for.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Ways into the kernel and back.
    ways: f64,
    cycles: Range,
    what: &'static str,
}

impl Service {
    pub const NULL: Service = Service::new(1.0, range(0.0, 0.0, 0.0), "no service");
    /// The system call `getppid`.
    pub const GETPPID: Service =
        Service::new(1.0, range(0.0, 8.0, 40.0), "a pointer followed under RCU");
    /// The system call `time`.
    pub const TIME: Service = Service::new(1.0, range(0.0, 10.0, 60.0), "a word read");
    /// `open` of a device.
    pub const OPEN: Service = Service::new(
        1.0,
        range(800.0, 1450.0, 2700.0),
        "a path of two components walked, a file made, a descriptor taken",
    );
    /// `close` of that file.
    pub const CLOSE: Service = Service::new(
        1.0,
        range(140.0, 310.0, 620.0),
        "a descriptor given back and the file put off to the exit",
    );
    /// A `stat` by path.
    pub const STAT: Service = Service::new(
        1.0,
        range(350.0, 650.0, 1200.0),
        "a path of two components walked, attributes copied out",
    );
    /// A byte of `/dev/zero`.
    pub const READ_ZERO: Service = Service::new(1.0, range(50.0, 115.0, 300.0), "a byte cleared");
    /// A byte to `/dev/null`.
    pub const WRITE_NULL: Service =
        Service::new(1.0, range(25.0, 70.0, 190.0), "a write dispatched");
    /// `epoll_wait` with nothing ready.
    pub const EPOLL_WAIT: Service =
        Service::new(1.0, range(5.0, 40.0, 160.0), "an empty list looked at");
    /// `ioctl` FIONREAD of a pipe.
    pub const IOCTL: Service =
        Service::new(1.0, range(50.0, 125.0, 300.0), "a pipe locked, a number copied");
    /// An `fcntl` of F_GETFL.
    pub const FCNTL: Service =
        Service::new(1.0, range(10.0, 45.0, 160.0), "a descriptor and a command looked up");
    /// A page from the page cache.
    pub const READ_PAGE: Service =
        Service::new(1.0, range(230.0, 440.0, 850.0), "page-cache lookup and copy");
    /// `sched_yield` without another runnable thread.
    pub const YIELD: Service =
        Service::new(1.0, range(120.0, 320.0, 900.0), "lock the run queue, run the scheduler");
    /// `mmap` and `munmap` of one untouched page: two calls.
    pub const MAP: Service = Service::new(
        2.0,
        range(1500.0, 2900.0, 5000.0),
        "create and remove an area, free page tables",
    );
    /// `futex` wake without a waiter.
    pub const FUTEX_WAKE: Service =
        Service::new(1.0, range(25.0, 80.0, 250.0), "hash bucket lookup");

    /// A service of so many calls that takes cycles beyond them.
    pub const fn new(ways: f64, cycles: Range, what: &'static str) -> Service {
        Service { ways, cycles, what }
    }
}

/// The way in and out of the kernel, in ns: measured where `os.syscall` or `clock.read` is known,
/// else from the mitigations.
pub fn entry(facts: Facts) -> Law {
    call(facts, 0.03)
}

/// A system call without a service, in ns: `getpid`, which is nothing but the way in and out,
/// within `share` where it is measured; else the way by the mitigations, or by what `clock_gettime`
/// took.
pub fn call(facts: Facts, share: f64) -> Law {
    match measured_call(facts.known, "getpid") {
        Some(ns) => Law::measured(ns, share, took("getpid", ns)),
        None => entry_by_clock(facts).unwrap_or_else(|| stated_entry(facts)),
    }
}

/// From `clock_gettime` as a system call, less what it does in the kernel.
fn entry_by_clock(facts: Facts) -> Option<Law> {
    let call = measured_read(facts.known?, "clock_gettime_syscall")?;
    let service = Work::from(KERNEL_CLOCK).law(facts.site, "less the clock read itself");
    let measured = Law::from_range(
        range(0.97 * call, call, 1.03 * call),
        format!("clock_gettime as a system call took {call:.0} ns (measured by clock.read)"),
    );
    let entry = measured - clocked(facts, service);
    // A kernel whose clock is slow (a trapped device) leaves nothing to learn about the entry.
    (entry.range.low > 0.25 * call && !falls_back(facts.site)).then_some(entry)
}

/// What `os.syscall` measured of a call, in ns.
pub fn measured_call<'run>(known: impl Into<Option<&'run Known>>, call: &str) -> Option<f64> {
    let case = CaseId::new().with("call", call);
    known.into()?.get("os.syscall", &case, "latency").filter(|ns| *ns > 0.0)
}

fn took(call: &str, ns: f64) -> String {
    format!("{call} took {ns:.0} ns (measured by os.syscall)")
}

/// A cost that `clock.read` measured, in ns.
pub fn measured_read(known: &Known, clock: &str) -> Option<f64> {
    known.get("clock.read", &CaseId::new().with("clock", clock), "cost").filter(|ns| *ns > 0.0)
}

fn stated_entry(facts: Facts) -> Law {
    let site = facts.site;
    let words = Words(&site.host);
    let kernel = &site.host.kernel;
    let bare = scaled(BARE_ENTRY, work::way_in(site));
    let what = format!("{:.0} to {:.0} cycles of entry and exit", bare.low, bare.high);
    let mut cycles = Law::hardware(bare, what).unsourced();
    for Mitigation { name, entry, at_return, .. } in mitigations(&words) {
        let returns = scaled(*at_return, ENTRY_RETURNS * site.fitted.coefficient(name));
        let part = sum(*entry, returns);
        cycles = cycles + Law::software(part, format!("{name}, {:.0} cycles", part.likely));
    }
    let mut law = clocked(facts, cycles.times(site.fitted.coefficient(work::ENTRY)))
        .counting_if(words.isolates_tables(), Condition::PageTableIsolation);
    if kernel.mitigations.is_empty() {
        law = law.widened(1.1, 3.0, "the kernel does not report its mitigations");
    }
    if kernel.container.runtime.as_deref() == Some("gvisor") {
        law.widened(1.0, 40.0, "gVisor handles the calls itself").counting(Condition::Seccomp)
    } else if kernel.seccomp == Some(2) {
        law.widened(1.0, 1.5, "a seccomp filter runs on every call").counting(Condition::Seccomp)
    } else {
        law
    }
}

struct Words<'host>(&'host Host);

impl Words<'_> {
    /// Whether the text about a vulnerability has this word anywhere.
    fn says(&self, vulnerability: &str, word: &str) -> bool {
        let text = self.0.kernel.mitigations.get(vulnerability);
        text.is_some_and(|text| text.contains(word))
    }

    /// Whether its first clause has. That is the mode; later clauses name other things by the same
    /// words (`Mitigation: Retpolines; …; PBRSB-eIBRS: Not affected; BHI: Retpoline`). Kernels
    /// before 6.9 part the clauses by commas (`Mitigation: Retpolines, …, IBRS_FW, …`).
    fn mode(&self, vulnerability: &str, word: &str) -> bool {
        let text = self.0.kernel.mitigations.get(vulnerability);
        let clause = text.and_then(|text| text.split([';', ',']).next());
        clause.is_some_and(|clause| clause.contains(word))
    }

    /// IBRS written at each entry and exit, where it is not the enhanced or automatic kind.
    fn writes_ibrs(&self, vulnerability: &str) -> bool {
        self.mode(vulnerability, "IBRS")
            && !self.mode(vulnerability, "eIBRS")
            && !self.mode(vulnerability, "Enhanced")
            && !self.mode(vulnerability, "Automatic")
    }

    fn isolates_tables(&self) -> bool {
        self.mode("meltdown", "PTI")
    }

    fn has_pcid(&self) -> bool {
        self.0.cpu.flags.iter().any(|flag| flag == "pcid")
    }

    fn barrier_at_entry(&self) -> bool {
        self.mode("retbleed", "IBPB")
            || self.mode("spec_rstack_overflow", "IBPB")
                && !self.mode("spec_rstack_overflow", "VMEXIT")
    }

    /// Safe returns, which mispredict each return within the kernel.
    fn guards_returns(&self) -> bool {
        self.mode("spec_rstack_overflow", "Safe RET")
            || self.mode("spec_rstack_overflow", "safe RET")
    }

    fn has_aliased_thunks(&self) -> bool {
        self.0.cpu.vendor.as_deref() == Some("AuthenticAMD") && self.0.cpu.family == Some(0x19)
    }

    fn clears_buffers(&self) -> bool {
        const NAMES: [&str; 5] =
            ["mds", "tsx_async_abort", "mmio_stale_data", "reg_file_data_sampling", "tsa"];
        NAMES.iter().any(|name| self.mode(name, "Clear CPU buffers"))
    }
}

/// A mitigation. Its name is that of its coefficient too.
struct Mitigation {
    is_in_force: fn(&Words) -> bool,
    name: &'static str,
    /// Cycles that it adds to a way into the kernel and back, without those of its returns.
    entry: Range,
    /// Cycles that it adds to each return within the kernel.
    at_return: Range,
    /// The same of each indirect call.
    at_indirect_call: Range,
}

/// One that costs at the entry alone.
const fn at_entry(
    is_in_force: fn(&Words) -> bool,
    name: &'static str,
    low: f64,
    likely: f64,
    high: f64,
) -> Mitigation {
    let entry = range(low, likely, high);
    Mitigation { is_in_force, name, entry, at_return: FREE, at_indirect_call: FREE }
}

const FREE: Range = range(0.0, 0.0, 0.0);

fn mitigations<'a>(words: &'a Words<'a>) -> impl Iterator<Item = &'static Mitigation> + 'a {
    MITIGATIONS.iter().filter(|of| (of.is_in_force)(words))
}

/// Which words mean what is the kernel's documentation (admin-guide/hw-vuln). The cycles are
/// written from memory of usual values, of K. Garloff's table (SpecExLeak: 150 cycles of `getppid`
/// become 600 with page-table isolation and PCID, twice that without) and of the kernel's commit
/// messages, not looked up one by one; the intervals are meant to cover that.
static MITIGATIONS: &[Mitigation] = &[
    at_entry(
        |words| words.isolates_tables() && words.has_pcid(),
        "page-table isolation with PCID",
        180.0,
        400.0,
        650.0,
    ),
    at_entry(
        |words| words.isolates_tables() && !words.has_pcid(),
        "page-table isolation without PCID",
        350.0,
        850.0,
        1600.0,
    ),
    at_entry(
        |words| words.writes_ibrs("spectre_v2") || words.writes_ibrs("retbleed"),
        "IBRS written at entry and exit",
        120.0,
        420.0,
        1500.0,
    ),
    Mitigation {
        is_in_force: |words| words.mode("spectre_v2", "etpoline"),
        name: "retpolines",
        entry: range(8.0, 30.0, 70.0),
        at_return: FREE,
        at_indirect_call: range(8.0, 25.0, 50.0),
    },
    Mitigation {
        is_in_force: |words| words.mode("retbleed", "untrained return thunk"),
        name: "untrained returns",
        entry: range(50.0, 140.0, 320.0),
        at_return: range(0.5, 3.0, 15.0),
        at_indirect_call: FREE,
    },
    // Each return is mispredicted: what a wrong branch costs. Family 19h (Zen 3 and 4) has thunks of
    // its own, at aliasing addresses (arch/x86/lib/retpoline.S): 48 cycles a return on a Zen 4 guest
    // (docs/notes/2026-11-23-calls.md: 240 of five).
    Mitigation {
        is_in_force: |words| words.guards_returns() && !words.has_aliased_thunks(),
        name: SAFE_RETURNS,
        entry: range(10.0, 40.0, 110.0),
        at_return: range(12.0, 25.0, 45.0),
        at_indirect_call: FREE,
    },
    Mitigation {
        is_in_force: |words| words.guards_returns() && words.has_aliased_thunks(),
        name: ALIASED_SAFE_RETURNS,
        entry: range(10.0, 40.0, 110.0),
        at_return: range(25.0, 48.0, 75.0),
        at_indirect_call: FREE,
    },
    Mitigation {
        is_in_force: |words| words.mode("retbleed", "Stuffing"),
        name: "call depth tracking",
        entry: range(5.0, 30.0, 90.0),
        at_return: range(1.0, 5.0, 14.0),
        at_indirect_call: FREE,
    },
    at_entry(|words| words.barrier_at_entry(), "IBPB at entry", 1000.0, 3000.0, 9000.0),
    at_entry(|words| words.clears_buffers(), "buffers cleared at exit", 40.0, 180.0, 520.0),
    at_entry(
        |words| words.says("spectre_v2", "BHI: SW loop"),
        "branch history cleared",
        40.0,
        120.0,
        260.0,
    ),
    Mitigation {
        is_in_force: |words| words.mode("indirect_target_selection", "thunks"),
        name: "aligned thunks",
        entry: range(2.0, 8.0, 30.0),
        at_return: range(0.2, 1.0, 4.0),
        at_indirect_call: range(0.5, 2.0, 10.0),
    },
];

/// System calls with their service, in ns for all of them.
pub fn system_call(facts: Facts, service: Service) -> Law {
    let Service { ways, cycles, what } = service;
    let mut entries = entry(facts).times(ways);
    if ways > 1.0 {
        entries = entries.and(format!("{ways} calls"));
    }
    match cycles.high > 0.0 {
        true => entries + kernel_work(facts, cycles, what),
        false => entries + Law::software(cycles, what),
    }
}

/// Kernel work as ns, with what that does.
pub fn kernel_work(facts: Facts, work: impl Into<Work>, what: impl Display) -> Law {
    let mut work = work.into();
    let Range { low, likely, high } = work.instructions;
    work.instructions = range(low.max(1.0), likely.max(1.0), high.max(1.0));
    let law = in_kernel(facts, work.law(facts.site, what));
    match facts.site.host.kernel.release {
        Some(_) => law,
        None => law.widened(VERSIONS, VERSIONS, "the kernel's version is unknown"),
    }
}

/// What the kernel's version changes: from 3.0 to 4.20 core operations took 0.8 to 2.5 times what they
/// took in 4.0 [ren].
const VERSIONS: f64 = 1.5;

/// Whether the clock source makes the vDSO fall back to the system call.
pub fn falls_back(site: &Site) -> bool {
    slow_source(site).is_some()
}

/// The clock source, where it is a device that the vDSO cannot read.
fn slow_source(site: &Site) -> Option<&str> {
    site.host
        .kernel
        .clock_source
        .current
        .as_deref()
        .filter(|source| ["hpet", "acpi_pm", "jiffies", "xen", "refined-jiffies"].contains(source))
}

/// `clock_gettime` through the C library, in ns.
pub fn clock_by_library(facts: Facts) -> Law {
    let site = facts.site;
    if falls_back(site) {
        return clock_by_call(facts).and("the vDSO falls back to the system call");
    }
    let law = cpu::vdso_read(facts);
    match site.host.kernel.clock_source.current.as_deref() {
        Some("tsc" | "arch_sys_counter") => law,
        Some(source) => law
            .widened(1.0, 1.6, format!("clock source {source} also reads a page of the hypervisor"))
            .counting(Condition::ClockSource)
            .counting(Condition::Hypervisor),
        None => law.widened(1.0, 12.0, "the clock source is unknown, so the vDSO may fall back"),
    }
}

/// `clock_gettime` as a system call, in ns.
pub fn clock_by_call(facts: Facts) -> Law {
    let what = "compute the time and copy it out";
    let call = system_call(facts, Service::new(1.0, KERNEL_CLOCK, what));
    let Some(source) = slow_source(facts.site) else {
        return call;
    };
    let device = match (source, cpu::is_guest(facts.site)) {
        ("jiffies" | "refined-jiffies" | "xen", _) => range(5.0, 20.0, 80.0),
        (_, false) => range(300.0, 800.0, 1_600.0),
        (_, true) => range(1_000.0, 4_000.0, 40_000.0),
    };
    let read = format!("a read of clock source {source}, {} to {} ns", device.low, device.high);
    call.counting(Condition::ClockSource) + Law::hardware(device, read)
}

/// `time()` through the C library, in ns: a word of the vDSO's page.
pub fn seconds_by_library(facts: Facts) -> Law {
    let cycles = match facts.site.host.cpu.arch {
        // Arm has no `time` in its vDSO: the library calls clock_gettime of the coarse clock.
        Arch::Aarch64 => range(8.0, 20.0, 45.0),
        Arch::X86_64 => range(2.0, 4.5, 9.0),
    };
    let what = format!(
        "a call and a load of the seconds from the vDSO page, {} to {} cycles",
        cycles.low, cycles.high
    );
    clocked(facts, Law::hardware(cycles, what).unsourced())
}

/// One empty operation of io_uring in a batch of `depth` to a call, in ns.
pub fn ring_nop(facts: Facts, depth: u64) -> Law {
    let shared =
        entry(facts).times(1.0 / depth as f64).and(format!("shared by {depth} operations"));
    let what = "a request submitted, run and completed";
    shared + kernel_work(facts, range(85.0, 160.0, 280.0), what)
}

/// The first system call of a child just made, in ns, with the two clock reads around it.
pub fn first_call_of_child(facts: Facts) -> Law {
    let what = "cold caches and branch predictors in the child";
    entry(facts)
        + kernel_work(facts, range(20.0, 110.0, 700.0), what)
        + cpu::counter_read(facts.site, cpu::CounterRead::Window)
}

#[cfg(test)]
mod tests;

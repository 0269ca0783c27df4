//! Laws of the kernel's services: a system call is its way in and out, which the mitigations
//! decide, and the service itself.
//!
//! Services are terms of `os.rows`, in cycles of a reference core without mitigations. What they take
//! elsewhere ([`Work`]) follows from the core and its mitigations, by coefficients that are fitted to
//! recorded machines (`bench::fitted`).

pub mod ipc;
pub mod learnt;
pub mod process;
pub mod schedule;
pub mod signal;
pub mod switch;
pub mod thread;
pub mod timer;
pub mod work;

use super::{Facts, Law, range, scaled};
use crate::cpu::{self, clocked};
use crate::rows::{self, Section};
use bench::experiment::{Known, Site};
use host::{Arch, Host};
use record::event::{Condition, Range};
use record::key::CaseId;
pub use work::Work;
use work::{ALIASED_SAFE_RETURNS, SAFE_RETURNS};

/// Entry, dispatch and exit without any mitigation, in cycles, and the returns on that way.
const BARE_ENTRY: Range = range(120.0, 190.0, 280.0);
const ENTRY_RETURNS: f64 = 4.0;

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
    let measured = Law::from_range(
        range(0.97 * call, call, 1.03 * call),
        format!("clock_gettime as a system call took {call:.0} ns (measured by clock.read)"),
    );
    let clock = Work::from(rows::range_of("os.syscall.other", "clock", |_| 1.0));
    let clock = clock.law(facts.site, "less the clock read itself");
    let entry = measured - clocked(facts, clock);
    // A kernel whose clock is slow (a trapped device) leaves nothing to learn about the entry.
    (entry.range.low > 0.25 * call && !falls_back(facts.site)).then_some(entry)
}

/// What `os.syscall` measured of a call, in ns.
pub fn measured_call<'run>(known: impl Into<Option<&'run Known>>, call: &str) -> Option<f64> {
    let case = CaseId::new().with("call", call);
    known.into()?.get("os.syscall", &case, "latency").filter(|ns| *ns > 0.0)
}

/// Whether facts say anything of the kernel's work: earlier figures without the null system call add
/// next to nothing.
pub fn says_more(facts: Facts) -> bool {
    facts.known.is_none_or(|known| measured_call(known, "getpid").is_some())
}

fn took(call: &str, ns: f64) -> String {
    format!("{call} took {ns:.0} ns (measured by os.syscall)")
}

/// A cost that `clock.read` measured, in ns.
pub fn measured_read(known: &Known, clock: &str) -> Option<f64> {
    known.get("clock.read", &CaseId::new().with("clock", clock), "cost").filter(|ns| *ns > 0.0)
}

pub(crate) fn stated_entry(facts: Facts) -> Law {
    let site = facts.site;
    let words = Words(&site.host);
    let kernel = &site.host.kernel;
    let bare = scaled(BARE_ENTRY, work::way_in(site));
    let mut cycles = Law::hardware(bare, "entry and exit of the kernel").unsourced();
    for name in mitigations(&words) {
        let returns = ENTRY_RETURNS * site.fitted.coefficient(name);
        cycles = cycles + Law::software(guarded(name, [1.0, returns, 0.0]), name);
    }
    let mut law = clocked(facts, cycles.times(site.fitted.coefficient(work::ENTRY)))
        .counting_if(words.isolates_tables(), Condition::PageTableIsolation);
    if kernel.mitigations.is_empty() {
        law = law.widened(1.1, 3.0, "the kernel does not report its mitigations");
    }
    if is_gvisor(site) {
        law.widened(1.0, 40.0, "gVisor handles the calls itself").counting(Condition::Seccomp)
    } else if kernel.seccomp == Some(2) {
        law.widened(1.0, 1.5, "a seccomp filter runs on every call").counting(Condition::Seccomp)
    } else {
        law
    }
}

/// Whether another kernel in a program, gVisor, answers the calls.
pub(crate) fn is_gvisor(site: &Site) -> bool {
    site.host.kernel.container.runtime.as_deref() == Some("gvisor")
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

type InForce = fn(&Words) -> bool;

/// Mitigations by name, which is that of their rows and of their coefficients too, and which words
/// mean that one is in force.
static MITIGATIONS: [(&str, InForce); 12] = [
    ("page-table isolation with PCID", |words| words.isolates_tables() && words.0.cpu.has("pcid")),
    ("page-table isolation without PCID", |words| {
        words.isolates_tables() && !words.0.cpu.has("pcid")
    }),
    ("IBRS written at entry and exit", |words| {
        words.writes_ibrs("spectre_v2") || words.writes_ibrs("retbleed")
    }),
    ("retpolines", |words| words.mode("spectre_v2", "etpoline")),
    ("untrained returns", |words| words.mode("retbleed", "untrained return thunk")),
    (SAFE_RETURNS, |words| words.guards_returns() && !words.has_aliased_thunks()),
    (ALIASED_SAFE_RETURNS, |words| words.guards_returns() && words.has_aliased_thunks()),
    ("call depth tracking", |words| words.mode("retbleed", "Stuffing")),
    ("IBPB at entry", |words| words.barrier_at_entry()),
    ("buffers cleared at exit", |words| words.clears_buffers()),
    ("branch history cleared", |words| words.says("spectre_v2", "BHI: SW loop")),
    ("aligned thunks", |words| words.mode("indirect_target_selection", "thunks")),
];

fn mitigations(words: &Words) -> impl Iterator<Item = &'static str> {
    MITIGATIONS.iter().filter(|(_, is_in_force)| is_in_force(words)).map(|(name, _)| *name)
}

/// Cycles of a mitigation at so many entries, returns and indirect calls.
fn guarded(mitigation: &str, [entries, returns, calls]: [f64; 3]) -> Range {
    rows::range_of("mitigations", mitigation, |count| match count {
        "entries" => entries,
        "returns" => returns,
        _ => calls,
    })
}

/// A system call of `os.rows`, in ns.
pub fn system_call(facts: Facts, call: &str) -> Law {
    let time = |_: &str| entry(facts);
    Section { facts, name: "os.syscall", count: &|_| 0.0, time: &time }.law(&[call])
}

/// The same within `share` where os.syscall measured it.
pub fn measured_or_stated(facts: Facts, call: &str, share: f64) -> Law {
    match measured_call(facts.known, call) {
        Some(ns) => Law::measured(ns, share, took(call, ns)),
        None => system_call(facts, call),
    }
}

/// A call that says little of the kernel's other work, in ns: with `depth` operations to a call per
/// operation, and the first of a child with the two clock reads around it.
pub fn rare_call(facts: Facts, call: &str, depth: u64) -> Law {
    let time = |name: &str| match name {
        "window" => cpu::counter_read(facts.site, cpu::CounterRead::Window),
        _ => entry(facts),
    };
    let count = |_: &str| 1.0 / depth as f64;
    Section { facts, name: "os.syscall.other", count: &count, time: &time }.law(&[call])
}

/// What the kernel's version changes: from 3.0 to 4.20 core operations took 0.8 to 2.5 times what they
/// took in 4.0 [ren].
pub(crate) const VERSIONS: f64 = 1.5;

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
    let call = rare_call(facts, "clock_call", 1);
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

#[cfg(test)]
mod tests;

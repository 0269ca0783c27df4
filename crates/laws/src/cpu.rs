//! Laws of the processor: its clocks, and what instructions, loops, calls and clock reads take.
//!
//! A law counts core cycles from a table per core design and turns them into ns by the core
//! clock: [`core_clock`], which is the measured one once `clock.rate` is known.

mod boost;
mod call;
pub mod coherence;
mod cores;
pub mod instruction;
mod linpack;
pub mod peak;
mod published;

use super::{Facts, Law, at_most, inverse, range, scaled, sum};
use bench::experiment::{Known, Site};
pub use call::{CallWork, call, call_line, line};
use cores::{CoreCosts, core_costs};
use host::cpu::{CpuClass, Frequency};
use host::plausible::{SOLD_HZ, is_plausible};
use host::{Arch, Core, LogicalCpu};
pub use linpack::{Solve, solve_bound, solve_operations, solve_rate};
use published::Published;
use record::event::{Bound, Condition, Range, Side};
use record::key::CaseId;

/// Taken branches per cycle that no core reaches. The fastest known designs take two; a figure
/// beyond four means that the body did not run.
const TAKEN_PER_CYCLE_MAX: f64 = 4.0;

/// What the measuring CPU is: its design and its own scaling.
fn measuring_cpu(site: &Site) -> Option<&LogicalCpu> {
    site.host.cpu.cpu(*site.cpus.first()?)
}

pub fn core(site: &Site) -> Core {
    class(site).map_or(site.host.cpu.microarchitecture.core, |class| class.core)
}

fn class(site: &Site) -> Option<&CpuClass> {
    let id = site.cpus.first()?;
    site.host.cpu.classes.iter().find(|class| class.cpus.contains(id))
}

/// Whether this is a virtual machine; unknown counts as one that says nothing.
pub fn is_guest(site: &Site) -> bool {
    site.host.kernel.virtualisation.is_guest == Some(true)
}

/// How far the core clock may be from a stated frequency: factors of that, and words around it.
struct Bearing(Range, &'static str, &'static str);

const FIXED: Bearing = Bearing(range(0.9, 1.0, 1.1), "", "");
/// It goes up to that, and one busy core reaches it.
const AT_MOST: Bearing = Bearing(range(0.7, 0.99, 1.05), "at most ", "");
/// It boosts beyond, nothing says how far: by AMD's data sheets 1.1 to 1.6 times, half of the parts
/// 1.35 or more.
const BEYOND: Bearing =
    Bearing(range(0.95, 1.35, 1.7), "", " to 1.7 times that: the boost is unknown");
/// The rate of a virtual machine's counter, where nothing is published about the boost of such a
/// core.
const GUEST: Bearing =
    Bearing(range(1.0, 1.25, 1.6), "", " to 1.6 times that: a virtual machine hides the boost");

/// The core clock in Hz before anything is measured.
pub fn core_clock(site: &Site) -> Law {
    let law = match (published_core_clock(site), stated_core_clock(site), is_guest(site)) {
        (Some((clock, from)), ..) => Law::hardware(clock, format!("core clock of {from}")),
        (None, Some((hz, Bearing(factors, before, after), from)), _) => Law::hardware(
            at_most(scaled(factors, hz), hz.max(SOLD_HZ)),
            format!("core clock {before}{} ({from}){after}", ghz(hz)),
        ),
        (None, None, true) => {
            let why = "core clock unknown: the virtual machine reports no frequency";
            Law::hardware(range(1.4e9, 2.9e9, 5.2e9), why)
        }
        (None, None, false) => {
            let why = "core clock unknown: neither cpufreq nor CPUID reports one";
            Law::hardware(range(1.2e9, 2.8e9, 5.5e9), why)
        }
    };
    law.counting(Condition::CoreClock)
}

/// What is published about the core clock of a processor, in Hz, where only a base clock is stated:
/// in a virtual machine, unless the user gave the clock, and where nothing else is known.
fn published_core_clock(site: &Site) -> Option<(Range, String)> {
    let is_given = site.host.given.value("cpu.max_hz").is_some();
    let is_vague = || stated_core_clock(site).is_none_or(|(.., source)| source == WITHOUT_MAXIMUM);
    let is_asked = !is_given && (is_guest(site) || is_vague());
    is_asked.then(|| boost::published(site, base_hz(site).map(|(hz, _)| hz))).flatten()
}

/// The base clock in Hz, as a virtual machine's counter states it. Arm's counter has a crystal's
/// rate, which says nothing of the core.
fn base_hz(site: &Site) -> Option<(f64, &'static str)> {
    counter_hz(site).filter(|_| site.host.cpu.arch == Arch::X86_64)
}

/// A frequency in Hz, how the core clock follows from it, and where it is stated.
fn stated_core_clock(site: &Site) -> Option<(f64, Bearing, &'static str)> {
    let cpu = &site.host.cpu;
    if let Some(hz) = site.host.given.value("cpu.max_hz") {
        return Some((hz, AT_MOST, "given"));
    }
    if is_guest(site) {
        return base_hz(site).map(|(hz, from)| (hz, GUEST, from));
    }
    let by_cpufreq = measuring_cpu(site).and_then(|measuring| cpufreq_clock(site, measuring));
    if by_cpufreq.is_some() {
        return by_cpufreq;
    }
    if let Some(hz) = class(site).and_then(|class| class.max_hz) {
        return Some((hz as f64, AT_MOST, "the class of core"));
    }
    if let Some(hz) = cpu.cpuid_frequency.max_hz.or(cpu.cpuid_frequency.base_hz) {
        return Some((hz as f64, AT_MOST, "CPUID leaf 16h"));
    }
    if let Some(stated) = clock_without_maximum(site) {
        return Some(stated);
    }
    let nominal = 1.25 * nominal_hz(site)?;
    Some((nominal, AT_MOST, "1.25 times the nominal clock in the model name"))
}

fn cpufreq_clock(site: &Site, measuring: &LogicalCpu) -> Option<(f64, Bearing, &'static str)> {
    let (frequency, boost) = (&measuring.frequency, site.host.cpu.turbo.enabled);
    let is_hardware_driven = frequency.driver.as_deref().is_some_and(|driver| {
        driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate")
    });
    if frequency.governor.as_deref() == Some("powersave")
        && !is_hardware_driven
        && let Some(hz) = frequency.min_hz
    {
        return Some((hz as f64, FIXED, "cpufreq, governor powersave"));
    }
    if boost == Some(false)
        && let Some(hz) = frequency.base_hz
    {
        let hz = frequency.ceiling_hz.map_or(hz, |ceiling| hz.min(ceiling));
        return Some((hz as f64, FIXED, "cpufreq's base, boost off"));
    }
    let hz = frequency.max_hz?;
    let boosts = |state_hz| names_boost(frequency, boost, state_hz);
    let (hz, bearing) = match frequency.ceiling_hz.filter(|ceiling| !boosts(*ceiling)) {
        Some(ceiling) => (hz.min(ceiling), AT_MOST),
        None => (hz, if boosts(hz) { BEYOND } else { AT_MOST }),
    };
    Some((hz as f64, bearing, "cpufreq"))
}

/// The core clock where cpufreq states no maximum that can be believed. Cores of AMD boost far beyond
/// the base clock.
fn clock_without_maximum(site: &Site) -> Option<(f64, Bearing, &'static str)> {
    let frequency = &measuring_cpu(site)?.frequency;
    let can_boost = site.host.cpu.turbo.enabled != Some(false);
    let is_amd = site.host.cpu.vendor.as_deref() == Some("AuthenticAMD");
    let bearing = if is_amd && can_boost { BEYOND } else { AT_MOST };
    let lowest = [frequency.base_hz, frequency.ceiling_hz].into_iter().flatten().min()?;
    Some((lowest as f64, bearing, WITHOUT_MAXIMUM))
}

/// Where a clock is stated without a maximum: what is published of the family says more.
const WITHOUT_MAXIMUM: &str = "cpufreq, without a maximum";

/// Whether a frequency is acpi-cpufreq's name for all that the core can do: the fastest state of
/// its table is the base clock, and with boost on the core goes beyond it by itself. If no base
/// clock is reported, the boost is not either, and the maximum is that state: ACPI's _PSS has whole
/// MHz; a maximum in between is one that the kernel computed with the boost (Linux 5.11,
/// acpi-cpufreq.c).
fn names_boost(frequency: &Frequency, boost: Option<bool>, state_hz: u64) -> bool {
    let fastest = frequency.base_hz.or(frequency.max_hz);
    let is_state = frequency.base_hz.is_some() || state_hz.is_multiple_of(1_000_000);
    let at_base = fastest.is_some_and(|base| state_hz.abs_diff(base) <= base / 100);
    let has_table = match frequency.driver.as_deref() {
        Some(driver) => driver == "acpi-cpufreq",
        // The slowest of AMD's few states is above half of its fastest; other drivers go far lower.
        None => frequency.min_hz.zip(fastest).is_some_and(|(min, base)| 2 * min > base),
    };
    at_base && is_state && boost == Some(true) && has_table
}

/// The clock that the model's name ends with (`… @ 3.50GHz`).
fn nominal_hz(site: &Site) -> Option<f64> {
    let name = site.host.cpu.model_name.as_deref()?;
    let (number, unit) = name.rsplit_once('@')?.1.trim().split_once("GHz")?;
    let hz = unit.is_empty().then(|| number.trim().parse::<f64>().ok()).flatten()? * 1e9;
    is_plausible("cpu.base_hz", hz).then_some(hz)
}

/// The counter's frequency in Hz, as far as anything states it.
fn counter_hz(site: &Site) -> Option<(f64, &'static str)> {
    let cpu = &site.host.cpu;
    let stated = &cpu.cpuid_frequency;
    let current = measuring_cpu(site).or(cpu.cpus.first()).and_then(|cpu| cpu.frequency.current_hz);
    if cpu.arch == Arch::Aarch64 {
        return cpu.counter_hz.map(|hz| (hz as f64, "CNTFRQ_EL0"));
    }
    let of = |hz: Option<u64>| hz.map(|hz| hz as f64);
    [
        (of(stated.hypervisor_tsc_hz), "CPUID leaf 40000010h"),
        (of(stated.tsc_hz), "CPUID leaf 15h"),
        // A guest's kernel prints its counter's rate as the current clock.
        (of(current.filter(|_| is_guest(site))), "/proc/cpuinfo of a virtual machine"),
        (of(stated.base_hz), "CPUID leaf 16h"),
        (nominal_hz(site), "the model name"),
        (of(measuring_cpu(site).and_then(|cpu| cpu.frequency.base_hz)), "cpufreq's base frequency"),
    ]
    .into_iter()
    .find_map(|(hz, from)| Some((hz?, from)))
}

/// The counter's frequency in Hz; `None` with the reason where nothing states it.
pub fn counter_clock(site: &Site) -> Result<Law, String> {
    let is_arm = site.host.cpu.arch == Arch::Aarch64;
    let untold = match is_arm {
        true => "the firmware sets the rate of Arm's counter, and CNTFRQ_EL0 was not read",
        false => "neither CPUID, the model name nor cpufreq reports a nominal rate",
    };
    let (hz, from) = counter_hz(site).ok_or_else(|| format!("unknown: {untold}"))?;
    let why = format!("the counter runs at the nominal rate, {} ({from})", ghz(hz));
    Ok(Law::hardware(scaled(range(0.98, 1.0, 1.02), hz), why))
}

/// The core clock in Hz: measured by `clock.rate` where known, else [`core_clock`].
pub fn best_core_clock(facts: Facts) -> Law {
    match facts.known.and_then(measured_core_hz) {
        Some(hz) => {
            let because = format!("core clock {} (measured by clock.rate)", ghz(hz));
            Law::hardware(super::around(hz, 0.03), because).counting(Condition::CoreClock)
        }
        None => core_clock(facts.site),
    }
}

/// The core clock that `clock.rate` measured, in Hz.
pub fn measured_core_hz(known: &Known) -> Option<f64> {
    known.get("clock.rate", &CaseId::new(), "core_frequency").filter(|hz| *hz > 0.0)
}

/// Whether facts say anything of what runs at the core's clock: earlier figures do with the
/// measured clock alone.
pub fn knows_clock(facts: Facts) -> bool {
    facts.known.is_none_or(|known| measured_core_hz(known).is_some())
}

/// A value that is stored and loaded again, in ns.
pub fn through_memory(facts: Facts) -> Law {
    let forward = core_costs(facts.site).forward;
    clocked(facts, forward.law("a value is stored and loaded again"))
}

/// A law in core cycles as one in ns, by the best core clock known. Its shares stay.
pub fn clocked(facts: Facts, cycles: Law) -> Law {
    let clock = best_core_clock(facts);
    cycles.by(inverse(1e9, clock.range)).with(&clock)
}

/// Cycles of kernel code as ns, which are written from memory; a virtual machine's nested page tables
/// stretch them.
pub(crate) fn usual_in_kernel(facts: Facts, cycles: Law) -> Law {
    clocked(facts, cycles).unsourced().when(is_guest(facts.site), |time| {
        time.widened(1.0, 1.3, "").counting(Condition::Hypervisor)
    })
}

/// The time of instructions that need a share of the core's width, in ns, while others use the
/// core. Independent instructions get between all of the width and an equal part. Chains, and
/// instructions that need less than the others leave, get what they need.
fn crowded(facts: Facts, law: Law, share: f64) -> Law {
    let Some((ratio, because)) = crowding(facts) else { return law };
    law.ends(1.0, (ratio * share).max(1.0).sqrt(), ratio)
        .and(format!("others used the core: {because}"))
}

/// By how much others may slow the whole width of the core, as a factor, and the source of that.
/// Before measuring it is the given number of tenants. Afterwards it is the measured empty loop of
/// `clock.loop` over that of the design, if it is clearly above: others used the core then, and may
/// use it again. In figures of the core alone the loop takes what the design says.
fn crowding(facts: Facts) -> Option<(f64, String)> {
    const CLEARLY: f64 = 1.2;
    let Some(known) = facts.known else {
        let tenants = facts.site.host.given.value("cpu.tenants")?;
        return Some((tenants, format!("{tenants} programs or guests (given)")));
    };
    let ns = facts.figure("clock.loop", &CaseId::new().with("loop", "empty"), "iteration")?;
    let turn = core_costs(facts.site).turn;
    let ratio = 1e-9 * ns * measured_core_hz(known)? / turn.cycles.likely;
    (turn.is_own && ratio > CLEARLY).then(|| {
        (ratio, format!("an empty loop took {ratio:.1} times its cycles (measured by clock.loop)"))
    })
}

/// What the hardware takes in cycles, by a source.
fn cycles_of(cycles: Range, what: impl std::fmt::Display, source: &str) -> Law {
    Law::hardware(cycles, format!("{what}, {} cycles ({source})", cycles_text(cycles)))
}

impl Published {
    /// What the hardware takes for something, in cycles.
    fn law(&self, what: impl std::fmt::Display) -> Law {
        cycles_of(self.cycles, what, &self.source)
    }
}

/// Core clock over counter frequency. Errors: nothing states the counter's frequency.
pub fn core_ratio(site: &Site) -> Result<Law, String> {
    let (hz, _) = counter_hz(site)
        .ok_or("unknown: the counter's frequency is not reported, so there is no ratio")?;
    Ok(core_clock(site).times(1.0 / hz).and(format!("over the counter's {}", ghz(hz))))
}

/// A loop whose turns only count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopBody {
    /// The counter is a register.
    Register,
    /// The counter is a word of memory.
    Memory,
    /// The counter is a register, that many bodies to a turn.
    Unrolled(u64),
}

/// One iteration of a loop, in ns.
pub fn loop_iteration(site: &Site, body: LoopBody) -> Law {
    let CoreCosts { mut turn, forward, .. } = core_costs(site);
    let cycles = match body {
        LoopBody::Register => turn.law("one taken branch"),
        LoopBody::Memory => forward.law("store-to-load forwarding to the next, and an addition"),
        LoopBody::Unrolled(bodies) => {
            turn.cycles = scaled(turn.cycles, 1.0 / bodies as f64);
            turn.law(format!("one taken branch per {bodies} loop bodies"))
        }
    };
    let facts = Facts::prior(site);
    clocked(facts, cycles).when(body != LoopBody::Memory, |law| crowded(facts, law, 1.0))
}

/// The least time of an iteration, in ns: it has `taken` taken branches.
pub fn taken_branches_bound(taken: f64, body: &str) -> Bound {
    let rule = format!("{body}: {taken} taken branches, at most {TAKEN_PER_CYCLE_MAX} per cycle");
    least_cycles(taken / TAKEN_PER_CYCLE_MAX, rule)
}

/// The bound of what takes so many cycles of the round's core clock at least, in ns.
pub(crate) fn least_cycles(cycles: f64, rule: String) -> Bound {
    Bound {
        side: Side::AtLeast,
        constant: cycles * 1e9,
        inputs: vec![("core_hz".to_owned(), -1)],
        uncertainty: 0.05,
        rule: rule + ", at the round's core clock",
        warns_only: false,
    }
}

/// An instruction that reads a clock, or a pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterRead {
    /// Not ordered with others.
    Plain,
    /// A fence, then unordered.
    Fenced,
    Ordered,
    /// Start and end of a timed window: both reads with all their fences.
    Pair,
    /// What a window of nothing shows: from the start's read to the end's.
    Window,
    /// Start and end, each with `cpuid`.
    CpuidPair,
}

/// A read of the counter, in ns.
pub fn counter_read(site: &Site, read: CounterRead) -> Law {
    let CoreCosts { counter, ordered, fence, .. } = core_costs(site);
    let arm = site.host.cpu.arch == Arch::Aarch64;
    let plus = |mut of: Published, cycles| {
        of.cycles = sum(of.cycles, cycles);
        of
    };
    let pair = sum(counter.cycles, ordered.cycles);
    let cpuid = read == CounterRead::CpuidPair;
    let read = match read {
        CounterRead::Plain => counter,
        CounterRead::Ordered => ordered,
        CounterRead::Fenced => plus(fence, counter.cycles),
        CounterRead::Pair if arm => Published { cycles: scaled(ordered.cycles, 2.4), ..ordered },
        CounterRead::Pair => plus(Published { cycles: scaled(fence.cycles, 3.0), ..fence }, pair),
        CounterRead::Window if arm => ordered,
        CounterRead::Window => plus(fence, ordered.cycles),
        CounterRead::CpuidPair if is_guest(site) => return trapped_pair(),
        CounterRead::CpuidPair => plus(ordered, sum(counter.cycles, range(180.0, 320.0, 620.0))),
    };
    let law = read.law("a read of the counter").unsourced_if(cpuid);
    clocked(Facts::prior(site), law).when(is_guest(site), |law| {
        law.and("if the hypervisor does not trap counter reads").counting(Condition::Hypervisor)
    })
}

/// Two `cpuid` that trap: about 1.2 µs each on bare KVM, up to 70 µs where the hypervisor itself
/// runs under one.
fn trapped_pair() -> Law {
    let because = "two trapped cpuid instructions: each exit to the hypervisor takes 1 to 3 µs, or \
                   tens of µs under nested virtualisation";
    Law::new(1_800.0, 8_000.0, 60_000.0, because).counting(Condition::Hypervisor)
}

/// A read of the clock through the vDSO, in ns, where it does not fall back: an ordered read of
/// the counter, and the kernel's arithmetic.
pub fn vdso_read(facts: Facts) -> Law {
    let CoreCosts { counter, mut ordered, fence, .. } = core_costs(facts.site);
    let fenced = sum(counter.cycles, fence.cycles);
    let Range { low, likely, high } = ordered.cycles;
    ordered.cycles = range(fenced.low.min(low), likely, fenced.high.max(high));
    let read = ordered.law("an ordered read of the counter");
    let scaling = Law::software(range(10.0, 22.0, 45.0), "the vDSO scales the value").unsourced();
    clocked(facts, read + scaling)
}

fn cycles_text(cycles: Range) -> String {
    let digits = record::quantity::digits;
    match cycles.low == cycles.high {
        true => digits(cycles.likely),
        false => format!("{} to {}", digits(cycles.low), digits(cycles.high)),
    }
}

fn ghz(hz: f64) -> String {
    format!("{:.2} GHz", hz / 1e9)
}

#[cfg(test)]
mod tests;

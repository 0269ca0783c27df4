//! Laws of arithmetic at full rate: units x lanes x operations x core clock x cores.
//!
//! What a core starts per cycle is the table in `units`. A row that is `firm` gives a bound; others
//! only an interval, and a bound that warns.

mod units;

use super::instruction::published_latency;
use super::{best_core_clock, is_guest};
use crate::{Law, product, range};
use bench::experiment::{Known, Site};
use host::{Arch, Core};
use record::event::{Bound, Range, Side};
use record::key::{CaseId, Value};
use units::starts;

/// Symbols of the operations.
pub const OPS: &[&str] = &["add", "mul", "fma"];
/// Symbols of the types.
pub const TYPES: &[&str] = &["f64", "f32", "i64", "i32"];
/// Symbols of the widths, narrow to wide.
pub const WIDTHS: &[&str] = &["scalar", "sse2", "neon", "avx2", "avx512"];
/// Name of the quantity that bounds rest on: the core clocks at the kernel's width, summed over the
/// cores that work, in Hz.
pub const CORES_HZ: &str = "cores_hz";

/// One instruction, by the symbols of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// One of [`OPS`].
    pub op: &'static str,
    /// One of [`TYPES`].
    pub element: &'static str,
    /// One of [`WIDTHS`].
    pub width: &'static str,
}

impl Arithmetic {
    /// What a case of `cpu.peak` does.
    pub fn of(case: &CaseId) -> Option<Arithmetic> {
        let symbol = |name: &str, of: &'static [&'static str]| {
            let text = case.text(name)?;
            of.iter().find(|symbol| **symbol == text).copied()
        };
        Some(Arithmetic {
            op: symbol("op", OPS)?,
            element: symbol("type", TYPES)?,
            width: symbol("width", WIDTHS)?,
        })
    }

    /// Its case of `cpu.peak`.
    pub fn case(self, threads: &Value) -> CaseId {
        CaseId::new()
            .with("op", self.op)
            .with("type", self.element)
            .with("width", self.width)
            .with("threads", threads.clone())
    }

    /// Whether its rate is one of floating-point operations.
    pub fn is_floating(self) -> bool {
        self.element.starts_with('f')
    }

    /// Name of the metric of `cpu.peak` and `cpu.sustained` that tells its rate.
    pub fn metric(self) -> &'static str {
        if self.is_floating() { "flop_rate" } else { "rate" }
    }

    /// Elements of an instruction.
    pub fn lanes(self) -> f64 {
        let size = if self.element.ends_with("32") { 4.0 } else { 8.0 };
        match self.width {
            "sse2" | "neon" => 16.0 / size,
            "avx2" => 32.0 / size,
            "avx512" => 64.0 / size,
            _ => 1.0,
        }
    }

    /// Operations of an instruction: a fused one does two in each lane.
    pub fn operations(self) -> f64 {
        self.lanes() * if self.op == "fma" { 2.0 } else { 1.0 }
    }

    /// Whether the site's processor has it.
    pub fn is_at(self, site: &Site) -> bool {
        let cpu = &site.host.cpu;
        let integer = !self.is_floating();
        if integer && self.op == "fma" {
            return false;
        }
        let x86 = cpu.arch == Arch::X86_64;
        let fused = self.op != "fma" || !x86 || cpu.has("fma");
        let long = integer && self.op == "mul" && self.element == "i64";
        fused
            && match self.width {
                "scalar" => true,
                "sse2" if self.op == "fma" || long => false,
                "sse2" => x86 && (self.op != "mul" || !integer || cpu.has("sse4_1")),
                "avx2" => x86 && !long && cpu.has("avx2"),
                "avx512" => x86 && cpu.has("avx512f") && (!long || cpu.has("avx512dq")),
                "neon" => !x86 && !long,
                _ => false,
            }
    }

    /// The instruction in a chain of which the clock at this width is told: a fused operation, or an
    /// addition for the light ones of integers. None for scalars.
    pub fn chain(self) -> Option<Arithmetic> {
        let light = self.op == "add" && !self.is_floating();
        let (op, element) = match (light, self.width) {
            (_, "scalar") => return None,
            (true, _) => ("add", "i64"),
            (false, "sse2") => ("mul", "f64"),
            (false, _) => ("fma", "f64"),
        };
        let width = self.width;
        Some(Arithmetic { op, element, width })
    }

    /// The instruction of an operation and type at the greatest width that the site's processor has.
    pub fn widest(site: &Site, op: &'static str, element: &'static str) -> Option<Self> {
        WIDTHS
            .iter()
            .rev()
            .map(|width| Arithmetic { op, element, width })
            .find(|arithmetic| arithmetic.is_at(site))
    }

    /// The fused operation on f64 at the greatest width, or the multiplication where there is none:
    /// what dense linear algebra is made of.
    pub fn chief(site: &Site) -> Option<Self> {
        Arithmetic::widest(site, "fma", "f64").or_else(|| Arithmetic::widest(site, "mul", "f64"))
    }
}

/// The design of a CPU's core.
fn core_of(site: &Site, cpu: usize) -> Core {
    site.host.cpu.core_of(cpu)
}

/// The least CPU of a CPU's core.
fn core_key(site: &Site, cpu: usize) -> usize {
    let siblings = site.host.cpu.cpu(cpu).map(|cpu| &cpu.smt_siblings);
    siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(cpu)
}

/// How many threads `threads` of a case stands for: a number, `all` (one per CPU) or `twice`.
pub fn thread_count(site: &Site, threads: &Value) -> usize {
    let all = site.cpus.len().max(1);
    match threads.text() {
        Some("twice") => 2 * all,
        Some(_) => all,
        None => threads.int().map_or(1, |count| count.max(1) as usize),
    }
}

/// The CPUs of so many threads, one entry each while there are CPUs: one of each core first, in the
/// site's order, then siblings. Fewer than `threads` where threads must share CPUs.
pub fn thread_cpus(site: &Site, threads: usize) -> Vec<usize> {
    let mut seen = std::collections::BTreeSet::new();
    let (mut firsts, siblings): (Vec<usize>, Vec<usize>) =
        site.cpus.iter().partition(|cpu| seen.insert(core_key(site, **cpu)));
    firsts.extend(siblings);
    firsts.truncate(threads);
    firsts
}

/// Cores under some CPUs.
pub fn distinct_cores(site: &Site, cpus: &[usize]) -> usize {
    let keys: std::collections::BTreeSet<usize> =
        cpus.iter().map(|cpu| core_key(site, *cpu)).collect();
    keys.len()
}

/// The design of all these CPUs' cores, where it is one.
pub fn design_of(site: &Site, cpus: &[usize]) -> Option<Core> {
    let core = core_of(site, *cpus.first()?);
    let is_same = |cpu: &usize| core_of(site, *cpu) == core;
    cpus.iter().all(is_same).then_some(core)
}

/// Operations per cycle of one core where the table knows the design of all these CPUs' cores and it
/// is one; and whether that is a bound.
pub fn per_cycle(site: &Site, arithmetic: Arithmetic, cpus: &[usize]) -> Option<(f64, bool)> {
    let (range, firm) = starts(design_of(site, cpus)?, arithmetic)?;
    Some((range.high * arithmetic.operations(), firm))
}

/// Published latency, in cycles, of the instruction in an arithmetic's chain ([`Arithmetic::chain`]),
/// where the cores of these CPUs are of one design and it is known.
pub fn chain_latency(site: &Site, arithmetic: Arithmetic, cpus: &[usize]) -> Option<u64> {
    let chain = arithmetic.chain()?;
    let core = design_of(site, cpus)?;
    // Tables have vector additions of i32, which take what those of i64 do.
    let (element, lanes) = match chain.element {
        "i64" => ("i32", 2.0 * chain.lanes()),
        element => (element, chain.lanes()),
    };
    let name = format!("{}_{element}x{lanes}", chain.op);
    published_latency(site.host.cpu.arch, core, &name)
}

/// The bound of a rate: operations per cycle x the core clocks of the same round.
pub fn peak_bound(site: &Site, arithmetic: Arithmetic, threads: usize) -> Option<Bound> {
    let (constant, firm) = per_cycle(site, arithmetic, &thread_cpus(site, threads))?;
    Some(Bound {
        side: Side::AtMost,
        constant,
        inputs: vec![(CORES_HZ.to_owned(), 1)],
        uncertainty: 0.02,
        rule: format!(
            "{constant:.4} operations per cycle ({:.4} instructions of {} lanes) x the round's core \
             clock at this width x cores",
            constant / arithmetic.operations(),
            arithmetic.lanes(),
        ),
        warns_only: !firm,
    })
}

/// The share of [`per_cycle`] x core clock x cores that is reached.
pub fn peak_efficiency(site: &Site, arithmetic: Arithmetic, threads: usize) -> Law {
    let halved =
        starts(super::core(site), arithmetic).is_some_and(|(range, _)| range.low < range.high);
    // Several micro-operations of one instruction do not always find their units free.
    let composed =
        !arithmetic.is_floating() && arithmetic.op == "mul" && arithmetic.width != "scalar";
    let low = match (halved, composed) {
        (true, _) => 0.47,
        (_, true) => 0.87,
        _ => 0.95,
    };
    let likely = if composed { 0.95 } else { 0.993 };
    let estimate = Law::new(
        low,
        likely,
        1.015,
        "base hardware: independent chains keep every unit busy but for the loop's branch; software: \
         none while the threads have the cores to themselves",
    );
    if threads > 1 && is_guest(site) {
        return estimate.widened(
            2.1,
            1.0,
            "a virtual machine does not tell whether its CPUs are threads of one core",
        );
    }
    estimate
}

/// Arithmetic operations per second of all threads together (METHOD: a fused one counts two).
/// `known` gives the core clock that `clock.rate` measured.
pub fn peak_rate(
    site: &Site,
    known: Option<&Known>,
    arithmetic: Arithmetic,
    threads: usize,
) -> Law {
    let cpus = thread_cpus(site, threads);
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    let designs: Vec<Option<Range>> = cpus
        .iter()
        .map(|cpu| starts(core_of(site, *cpu), arithmetic).map(|(range, _)| range))
        .collect();
    let (units, source) = mean_units(&designs, arithmetic);
    let (clock, from) = best_core_clock(site, known);
    let (clock, licence) = clock_at_width(clock, arithmetic);
    let one = product(units, clock);
    let operations = arithmetic.operations();
    let (share, shared) = share_of_cores(site, cores, threads);
    let total = product(one, share);
    let scaled = |value: f64| value * operations;
    Law::new(
        scaled(total.low),
        scaled(total.likely),
        scaled(total.high),
        format!(
            "base hardware: {} instructions per cycle {source} x {operations} operations x {from}{licence} \
             x {shared}; software: none",
            super::told(units)
        ),
    )
}

/// Instructions per cycle of the CPUs' cores, on average.
fn mean_units(designs: &[Option<Range>], arithmetic: Arithmetic) -> (Range, &'static str) {
    let known: Vec<Range> = designs.iter().copied().flatten().collect();
    if known.is_empty() || known.len() < designs.len() {
        let any = match (arithmetic.width, arithmetic.is_floating(), arithmetic.op) {
            ("scalar", false, "add") => range(1.8, 3.5, 6.2),
            ("scalar", false, _) => range(0.45, 1.0, 3.1),
            (_, true, _) => range(0.45, 1.8, 4.1),
            (_, false, "add") => range(0.9, 2.4, 4.2),
            _ => range(0.2, 0.9, 2.2),
        };
        return (any, "(an unknown core design, so any)");
    }
    let mean = |of: fn(&Range) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
    let (low, likely, high) =
        (mean(|range| range.low), mean(|range| range.likely), mean(|range| range.high));
    (range(0.94 * low, 0.99 * likely, 1.005 * high), "(plumb's table of units)")
}

/// The core clock while the kernel runs: wide instructions lower it on some processors.
fn clock_at_width(clock: Range, arithmetic: Arithmetic) -> (Range, &'static str) {
    let light = !arithmetic.is_floating() && arithmetic.op == "add";
    match arithmetic.width {
        "avx512" if !light => (
            range(0.78 * clock.low, 0.94 * clock.likely, clock.high),
            ", lowered by up to 22 % under 64-byte arithmetic,",
        ),
        "avx512" | "avx2" => (
            range(0.85 * clock.low, 0.99 * clock.likely, clock.high),
            ", lowered by up to 15 % under wide arithmetic,",
        ),
        _ => (clock, ""),
    }
}

/// How many cores' worth the threads get, and in words.
fn share_of_cores(site: &Site, cores: f64, threads: usize) -> (Range, String) {
    if threads <= 1 {
        return (range(1.0, 1.0, 1.0), "one core".to_owned());
    }
    let quota = site.host.limits.cpu_quota.map(|quota| quota.cpus());
    let likely = quota.map_or(cores, |quota| quota.min(cores));
    let mut words = format!("{likely} cores");
    if let Some(quota) = quota.filter(|quota| *quota < cores) {
        words.push_str(&format!(" (a quota of {quota} CPUs)"));
    }
    // Boost falls with the number of busy cores.
    let mut low = 0.65 * likely;
    if is_guest(site) {
        low = 0.45 * likely;
        words.push_str(
            ", which in a virtual machine may be threads of half as many, and all cores' boost",
        );
    } else {
        words.push_str(" at the boost of that many");
    }
    (range(low, 0.97 * likely, 1.01 * likely), words)
}

/// The rate that `cpu.peak` measured with one thread, `all` or so many, in operations per second.
pub fn measured_peak(known: &Known, arithmetic: Arithmetic, threads: &Value) -> Option<f64> {
    known.get("cpu.peak", &arithmetic.case(threads), arithmetic.metric()).filter(|rate| *rate > 0.0)
}

/// Operations per second over minutes: the peak without what a hypervisor takes and what heat and
/// power take. Measured peaks (`known`) stand in for the law.
pub fn sustained_rate(
    site: &Site,
    known: Option<&Known>,
    arithmetic: Arithmetic,
    threads: &Value,
) -> Law {
    let count = thread_count(site, threads);
    let measured = known.and_then(|known| measured_peak(known, arithmetic, threads));
    let kept = match is_guest(site) {
        true => range(0.8, 0.985, 1.03),
        false => range(0.72, 0.97, 1.03),
    };
    let why = "a second is the peak less what a hypervisor takes (steal) and what heat and power \
               limits take over time";
    let peak = match measured {
        Some(rate) => Law::new(
            rate,
            rate,
            rate,
            "base hardware: the peak that cpu.peak measured; software: none",
        ),
        None => peak_rate(site, known, arithmetic, count),
    };
    let range = match measured {
        Some(rate) => range(kept.low * rate, kept.likely * rate, kept.high * rate),
        None => product(peak.range, kept),
    };
    Law::of(range, peak.because()).and(why)
}

#[cfg(test)]
mod tests;

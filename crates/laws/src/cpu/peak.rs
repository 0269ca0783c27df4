//! Laws of arithmetic at full rate: units x lanes x operations x core clock x cores.
//!
//! What a core starts per cycle is the table in `units`. A row that is `firm` gives a bound; others
//! only an interval, and a bound that warns.

mod units;

use super::instruction::published_latency;
use super::{best_core_clock, cycles_text, is_guest};
use crate::{Facts, Law, ceiling, range};
use bench::experiment::{Field, Fields, Site};
use bench::{case, rows, symbols};
use host::{Arch, Core};
use metal::peak;
use record::event::{Bound, Condition, Range};
use record::key::Value;
use units::starts;

/// Name of the quantity that bounds rest on: the core clocks at the kernel's width, summed over the
/// cores that work, in Hz.
pub const CORES_HZ: &str = "cores_hz";

rows! {
    /// What an instruction does in each lane.
    pub enum Op: peak::Op {
        Add = "add" => peak::Op::Add, Mul = "mul" => peak::Op::Mul, Fma = "fma" => peak::Op::Fma,
        Mix = "mix" => peak::Op::Mix
    }
}
rows! {
    /// Type of the lanes.
    pub enum Element: peak::Type {
        F64 = "f64" => peak::Type::F64, F32 = "f32" => peak::Type::F32,
        I64 = "i64" => peak::Type::I64, I32 = "i32" => peak::Type::I32
    }
}
rows! {
    /// Width of the registers, narrow to wide.
    pub enum Width: peak::Width {
        Scalar = "scalar" => peak::Width::Scalar,
        Sse2 = "sse2" => peak::Width::Sse2,
        Neon = "neon" => peak::Width::Neon,
        Avx2 = "avx2" => peak::Width::Avx2,
        Avx512 = "avx512" => peak::Width::Avx512,
    }
}
symbols! {
    /// How many threads.
    pub enum Threads { All = "all", Twice = "twice"; Number(1, 8192, Count) }
}
case! {
    /// A case of `cpu.peak`.
    pub struct Peak {
        /// operation; a fused multiply-add is floating-point and counts as two; mix: scalar
        /// additions and multiplications of i64 or f64 in one loop
        op: Op,
        /// type of the operands
        element as "type": Element,
        /// register width of the instruction; default: the widest (quick), also scalar (standard),
        /// all widths (thorough)
        width: Width,
        /// number of threads, all (one per CPU) or twice (two per CPU); default: 1, and more for
        /// the widest kernels and the mix
        threads: Threads,
    }
}

impl Peak {
    pub fn arithmetic(&self) -> Arithmetic {
        let Peak { op, element, width, .. } = *self;
        Arithmetic { op, element, width }
    }
}

impl Threads {
    /// How many that is: `all` is one per CPU.
    pub fn count(self, site: &Site) -> usize {
        let all = site.cpus.len().max(1);
        match self {
            Threads::All => all,
            Threads::Twice => 2 * all,
            Threads::Number(count) => count.max(1) as usize,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    pub op: Op,
    pub element: Element,
    pub width: Width,
}

impl Arithmetic {
    /// Every combination, by width, operation and type.
    pub fn all() -> impl Iterator<Item = Arithmetic> {
        let ops = |width| Op::ALL.iter().map(move |&op| (width, op));
        let every = Width::ALL.iter().flat_map(move |&width| ops(width));
        every.flat_map(|(width, op)| {
            Element::ALL.iter().map(move |&element| Arithmetic { op, element, width })
        })
    }

    /// Its case of `cpu.peak`.
    pub fn by(self, threads: Threads) -> Peak {
        let Arithmetic { op, element, width } = self;
        Peak { op, element, width, threads }
    }

    pub fn kernel(self) -> peak::Kernel {
        let (op, element, width) = (*self.op.row(), *self.element.row(), *self.width.row());
        peak::Kernel { op, element, width }
    }

    /// Whether its rate is one of floating-point operations.
    pub fn is_floating(self) -> bool {
        matches!(self.element, Element::F64 | Element::F32)
    }

    /// Name of the metric of `cpu.peak` and `cpu.sustained` that holds its rate.
    pub fn metric(self) -> &'static str {
        if self.is_floating() { "flop_rate" } else { "rate" }
    }

    /// Elements of an instruction.
    pub fn lanes(self) -> f64 {
        let size = match self.element {
            Element::F32 | Element::I32 => 4.0,
            Element::F64 | Element::I64 => 8.0,
        };
        match self.width {
            Width::Scalar => 1.0,
            Width::Sse2 | Width::Neon => 16.0 / size,
            Width::Avx2 => 32.0 / size,
            Width::Avx512 => 64.0 / size,
        }
    }

    /// Operations of an instruction: a fused one does two in each lane.
    pub fn operations(self) -> f64 {
        self.lanes() * if self.op == Op::Fma { 2.0 } else { 1.0 }
    }

    /// Whether there is such an instruction on some processor: no integers are multiplied and added
    /// in one. A mix is one of scalars of 8 bytes.
    pub fn exists(self) -> bool {
        match self.op {
            Op::Fma => self.is_floating(),
            Op::Mix => {
                self.width == Width::Scalar && matches!(self.element, Element::F64 | Element::I64)
            }
            Op::Add | Op::Mul => true,
        }
    }

    pub fn is_at(self, site: &Site) -> bool {
        let cpu = &site.host.cpu;
        let x86 = cpu.arch == Arch::X86_64;
        let fused = self.op != Op::Fma || !x86 || cpu.has("fma");
        let integer_mul = self.op == Op::Mul && !self.is_floating();
        let long = integer_mul && self.element == Element::I64;
        self.exists()
            && fused
            && match self.width {
                Width::Scalar => true,
                Width::Sse2 if self.op == Op::Fma || long => false,
                Width::Sse2 => x86 && (!integer_mul || cpu.has("sse4_1")),
                Width::Avx2 => x86 && !long && cpu.has("avx2"),
                Width::Avx512 => x86 && cpu.has("avx512f") && (!long || cpu.has("avx512dq")),
                Width::Neon => !x86 && !long,
            }
    }

    /// Whether it is an addition of integers, which loads the core no more than a move.
    fn is_light(self) -> bool {
        self.op == Op::Add && !self.is_floating()
    }

    /// The instruction in a chain from which the clock at this width follows: a fused operation, or
    /// an addition for the light ones of integers. None for scalars.
    pub fn chain(self) -> Option<Arithmetic> {
        let (op, element) = match (self.is_light(), self.width) {
            (_, Width::Scalar) => return None,
            (true, _) => (Op::Add, Element::I64),
            (false, Width::Sse2) => (Op::Mul, Element::F64),
            (false, _) => (Op::Fma, Element::F64),
        };
        Some(Arithmetic { op, element, width: self.width })
    }

    /// The instruction of an operation and type at the greatest width that the site's processor
    /// has.
    pub fn widest(site: &Site, op: Op, element: Element) -> Option<Self> {
        let widths = Width::ALL.iter().rev();
        let mut all = widths.map(|width| Arithmetic { op, element, width: *width });
        all.find(|arithmetic| arithmetic.is_at(site))
    }

    /// The fused operation on f64 at the greatest width, or the multiplication where there is none:
    /// what dense linear algebra is made of.
    pub fn chief(site: &Site) -> Option<Self> {
        Arithmetic::widest(site, Op::Fma, Element::F64)
            .or_else(|| Arithmetic::widest(site, Op::Mul, Element::F64))
    }
}

fn core_key(site: &Site, cpu: usize) -> usize {
    let siblings = site.host.cpu.cpu(cpu).map(|cpu| &cpu.smt_siblings);
    siblings.and_then(|siblings| siblings.first().copied()).unwrap_or(cpu)
}

/// How many threads the parameter `threads` of a case stands for.
pub fn thread_count(site: &Site, threads: &Value) -> usize {
    Threads::from_value(Some(threads)).unwrap_or(Threads::All).count(site)
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

pub fn distinct_cores(site: &Site, cpus: &[usize]) -> usize {
    let keys: std::collections::BTreeSet<usize> =
        cpus.iter().map(|cpu| core_key(site, *cpu)).collect();
    keys.len()
}

pub fn design_of(site: &Site, cpus: &[usize]) -> Option<Core> {
    let core = site.host.cpu.core_of(*cpus.first()?);
    let is_same = |cpu: &usize| site.host.cpu.core_of(*cpu) == core;
    cpus.iter().all(is_same).then_some(core)
}

/// Operations per cycle of one core where the table knows the design of all these CPUs' cores and
/// it is one; and whether that is a bound.
pub fn per_cycle(site: &Site, arithmetic: Arithmetic, cpus: &[usize]) -> Option<(f64, bool)> {
    let (range, firm) = starts(design_of(site, cpus)?, arithmetic)?;
    Some((range.high * arithmetic.operations(), firm))
}

/// Published latency, in cycles, of the instruction in an arithmetic's chain
/// ([`Arithmetic::chain`]), where the cores of these CPUs are of one design and it is known.
pub fn chain_latency(site: &Site, arithmetic: Arithmetic, cpus: &[usize]) -> Option<u64> {
    let chain = arithmetic.chain()?;
    let core = design_of(site, cpus)?;
    // Tables have vector additions of i32, which take what those of i64 do.
    let (element, lanes) = match chain.element {
        Element::I64 => (Element::I32, 2.0 * chain.lanes()),
        element => (element, chain.lanes()),
    };
    let name = format!("{}_{}x{lanes}", chain.op.text(), element.text());
    published_latency(site.host.cpu.arch, core, &name)
}

/// The bound of a rate: operations per cycle x the core clocks of the same round.
pub fn peak_bound(site: &Site, arithmetic: Arithmetic, threads: usize) -> Option<Bound> {
    let (constant, firm) = per_cycle(site, arithmetic, &thread_cpus(site, threads))?;
    let rule = format!(
        "{constant:.4} operations per cycle ({:.4} instructions of {} lanes) x the round's core \
         clock at this width x cores",
        constant / arithmetic.operations(),
        arithmetic.lanes(),
    );
    let inputs = vec![(CORES_HZ.to_owned(), 1)];
    Some(Bound { inputs, warns_only: !firm, ..ceiling(constant, 0.02, rule) })
}

/// The share of [`per_cycle`] x core clock x cores that is reached.
pub fn peak_efficiency(site: &Site, arithmetic: Arithmetic, threads: usize) -> Law {
    let known = starts(super::core(site), arithmetic).map(|(range, _)| range);
    let halved = known.is_some_and(|range| range.low < range.high);
    // Several micro-operations of one instruction do not always find their units free.
    let composed =
        !arithmetic.is_floating() && arithmetic.op == Op::Mul && arithmetic.width != Width::Scalar;
    let low = match (halved, composed) {
        (true, true) => 0.41,
        (true, false) => 0.47,
        (_, true) => 0.87,
        _ => 0.95,
    };
    let of_units = known.map_or(1.0, |range| range.likely / range.high);
    let likely = if composed { 0.95 } else { 0.993 } * of_units;
    let (share, why) = match known.filter(|_| arithmetic.op == Op::Mix) {
        Some(Range { low, likely, high }) => (
            range(0.93 * low / high, 0.97 * likely / high, 1.015),
            "units that both kinds of operation share, or the step of a chain, limit the turn",
        ),
        None => (range(low, likely, 1.015), "independent chains keep every unit busy"),
    };
    Law::hardware(share, why).when(threads > 1 && is_guest(site), |law| {
        law.widened(2.1, 1.0, HIDDEN_CORES).counting(Condition::Hypervisor)
    })
}

const HIDDEN_CORES: &str = "the CPUs of a virtual machine may be threads of half as many cores";

/// Arithmetic operations per second of all threads together (METHOD: a fused one counts two).
pub fn peak_rate(facts: Facts, arithmetic: Arithmetic, threads: usize) -> Law {
    let site = facts.site;
    let cpus = thread_cpus(site, threads);
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    let designs: Vec<Option<Range>> = cpus
        .iter()
        .map(|cpu| starts(site.host.cpu.core_of(*cpu), arithmetic).map(|(range, _)| range))
        .collect();
    let clock = clock_at_width(best_core_clock(facts), super::core(site), arithmetic);
    let one = mean_units(&designs, arithmetic).by(clock.range).with(&clock);
    share_of_cores(site, one, cores, threads).times(arithmetic.operations())
}

/// Instructions per cycle of the CPUs' cores, on average.
fn mean_units(designs: &[Option<Range>], arithmetic: Arithmetic) -> Law {
    let known: Vec<Range> = designs.iter().copied().flatten().collect();
    let operations = arithmetic.operations();
    let law = |range, source| {
        let because = format!(
            "{} instructions per cycle ({source}) x {operations} operations",
            cycles_text(range)
        );
        Law::hardware(range, because)
    };
    if known.is_empty() || known.len() < designs.len() {
        let any = match (arithmetic.width, arithmetic.is_floating(), arithmetic.op) {
            (Width::Scalar, false, Op::Add) => range(1.8, 3.5, 6.2),
            (_, false, Op::Mix) => range(0.9, 2.2, 3.7),
            (Width::Scalar, false, _) => range(0.45, 1.0, 3.1),
            (_, true, _) => range(0.45, 1.8, 4.1),
            (_, false, Op::Add) => range(0.9, 2.4, 4.2),
            _ => range(0.2, 0.9, 2.2),
        };
        return law(any, "unknown core design").unsourced();
    }
    let mean = |of: fn(&Range) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
    let low = 0.94 * mean(|range| range.low);
    let (likely, high) = (0.99 * mean(|range| range.likely), 1.005 * mean(|range| range.high));
    law(range(low, likely, high), "published throughputs of the design")
}

/// Whether a design has no lower limit of its clock for 64-byte arithmetic: AMD's, and Intel's for
/// clients (T. Downs, *Ice Lake AVX-512 Downclocking*, 2020; published runs of Cannon Lake).
fn holds_its_clock(core: Core) -> bool {
    use Core::*;
    matches!(core, Zen4 | Zen4c | Zen5 | Zen5c | PalmCove | WillowCove | CypressCove)
}

/// The core clock while the kernel runs: wide instructions lower it on some processors.
fn clock_at_width(clock: Law, core: Core, arithmetic: Arithmetic) -> Law {
    match arithmetic.width {
        Width::Avx512 if !arithmetic.is_light() && !holds_its_clock(core) => {
            clock.ends(0.78, 0.94, 1.0).and("up to 22 % lower under 64-byte arithmetic")
        }
        Width::Avx512 | Width::Avx2 => {
            clock.ends(0.85, 0.99, 1.0).and("up to 15 % lower under wide arithmetic")
        }
        _ => clock,
    }
}

/// The rate of one core times the cores' worth that the threads get.
fn share_of_cores(site: &Site, one: Law, cores: f64, threads: usize) -> Law {
    if threads <= 1 {
        return one;
    }
    let quota = site.host.limits.cpu_quota.map(|quota| quota.cpus());
    let likely = quota.map_or(cores, |quota| quota.min(cores));
    let limited = if likely < cores { " (the control group's CPU quota)" } else { "" };
    // Boost falls with the number of busy cores.
    let (low, why) = match is_guest(site) {
        true => (0.45, HIDDEN_CORES),
        false => (0.65, "the boost for that many cores"),
    };
    one.by(range(low * likely, 0.97 * likely, 1.01 * likely))
        .and(format!("{likely} cores{limited}"))
        .and(why)
        .counting_if(is_guest(site), Condition::Hypervisor)
}

/// The rate that `cpu.peak` measured, in operations per second; of threads beyond the CPUs, that of
/// one on each.
pub fn measured_peak(facts: Facts, arithmetic: Arithmetic, threads: Threads) -> Option<f64> {
    let of = |threads| facts.figure("cpu.peak", &arithmetic.by(threads).id(), arithmetic.metric());
    let cpus = facts.site.cpus.len();
    let is_crowded = threads.count(facts.site) > cpus;
    let all = if cpus > 1 { Threads::All } else { Threads::Number(1) };
    of(threads).or_else(|| of(all).filter(|_| is_crowded))
}

/// Operations per second over minutes: the peak, measured if it is known, without what a hypervisor
/// takes and what heat and power take.
pub fn sustained_rate(facts: Facts, arithmetic: Arithmetic, threads: Threads) -> Law {
    let site = facts.site;
    let peak = match measured_peak(facts, arithmetic, threads) {
        Some(rate) => Law::hardware(range(rate, rate, rate), "peak measured by cpu.peak"),
        None => peak_rate(facts, arithmetic, threads.count(site)),
    };
    let kept = if is_guest(site) { range(0.8, 0.985, 1.03) } else { range(0.72, 0.97, 1.03) };
    peak.by(kept)
        .and("over minutes, less steal, thermal and power limits")
        .counting_if(is_guest(site), Condition::Hypervisor)
}

#[cfg(test)]
mod tests;

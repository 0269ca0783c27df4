//! Laws of bandwidth: what one thread and many move between the core and each level of the hierarchy.
//!
//! The first cache gives what memory instructions per cycle x their bytes x the core clock allow. The
//! second gives a stream some bytes per cycle. What lies beyond answers a core no faster than its lines
//! in flight x 64 B / latency, and main memory gives all of them no more than its channels do. A line
//! that is stored regularly is read before (write-allocate), so that stores cost the bus twice.

mod channels;
mod designs;

use super::measured::level_ns;
use super::{LINE, MEMORY, level_latency};
use crate::cpu::peak::{self, Arithmetic, CORES_HZ, distinct_cores, thread_count, thread_cpus};
use crate::cpu::{best_core_clock, core, is_guest};
use crate::{Law, around, inverse, product, range, scaled};
use bench::experiment::{Known, Site};
pub use channels::{memory_peak, stated_peak};
use designs::{Design, design};
use host::{Arch, Core};
use record::event::{Bound, Range, Side};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;

/// Symbols of the operations.
pub const OPS: &[&str] = &["read", "write", "modify", "copy", "scale", "add", "triad"];
/// Symbols of how results are stored.
pub const STORES: &[&str] = &["regular", "nontemporal"];
/// Symbols of which words are touched.
pub const ACCESSES: &[&str] = &["every", "first", "strided"];
/// Symbols of the widths; `vector` is the widest that there is (in main memory the fastest).
pub const WIDTHS: &[&str] = &["vector", "4", "8", "sse2", "avx2", "avx512", "neon"];
/// The case of the reports: four times the last cache.
pub const FOUR_TIMES: &str = "4xLLC";

/// A kernel, by the symbols of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// One of [`OPS`].
    pub op: &'static str,
    /// One of [`STORES`].
    pub stores: &'static str,
    /// One of [`ACCESSES`].
    pub access: &'static str,
    /// One of [`WIDTHS`].
    pub width: &'static str,
}

impl Transfer {
    /// A kernel that touches every byte in the widest vectors.
    pub fn widest(op: &'static str, stores: &'static str) -> Transfer {
        Transfer { op, stores, access: "every", width: "vector" }
    }

    /// What a case does.
    pub fn of(case: &CaseId) -> Option<Transfer> {
        let symbol = |name: &str, of: &'static [&'static str]| {
            let text = case.get(name)?.to_string();
            of.iter().find(|symbol| **symbol == text).copied()
        };
        Some(Transfer {
            op: symbol("op", OPS)?,
            stores: symbol("stores", STORES)?,
            access: symbol("access", ACCESSES)?,
            width: symbol("width", WIDTHS)?,
        })
    }

    /// Its case at a level of `memory.bandwidth`.
    pub fn case(self, level: &str, threads: &Value) -> CaseId {
        let width = match self.width.parse::<u64>() {
            Ok(bytes) => Value::Int(bytes),
            Err(_) => Value::from(self.width),
        };
        CaseId::new()
            .with("op", self.op)
            .with("stores", self.stores)
            .with("access", self.access)
            .with("width", width)
            .with("level", level)
            .with("threads", threads.clone())
    }

    /// Lines that the program names for one line of an array: what it loads and what it stores.
    fn moves(self) -> f64 {
        self.loads() + self.writes()
    }

    fn loads(self) -> f64 {
        match self.op {
            "write" => 0.0,
            "add" | "triad" => 2.0,
            _ => 1.0,
        }
    }

    fn writes(self) -> f64 {
        if self.op == "read" { 0.0 } else { 1.0 }
    }

    fn is_nontemporal(self) -> bool {
        self.stores == "nontemporal"
    }

    /// Bytes on the bus for each of the program: a line that is stored regularly is read before,
    /// unless the program loads it anyway.
    pub fn bus_ratio(self) -> f64 {
        let is_loaded = matches!(self.op, "read" | "modify");
        let allocated = if is_loaded || self.is_nontemporal() { 0.0 } else { 1.0 };
        (self.moves() + allocated) / self.moves()
    }

    /// Bytes of a memory instruction at the site.
    pub fn bytes(self, site: &Site) -> f64 {
        match self.width {
            "4" => 4.0,
            "8" => 8.0,
            "sse2" | "neon" => 16.0,
            "avx2" => 32.0,
            "avx512" => 64.0,
            _ => widest_bytes(site),
        }
    }
}

impl Transfer {
    /// The arithmetic under which the core's clock is that of this kernel by instructions of so many
    /// bytes; none where they are too narrow to lower it.
    pub fn at_width(self, instruction_bytes: u64) -> Option<Arithmetic> {
        let width = match instruction_bytes {
            32 => peak::Width::Avx2,
            64 => peak::Width::Avx512,
            _ => return None,
        };
        let (op, element) = match self.op {
            "scale" => (peak::Op::Mul, peak::Element::F64),
            "add" => (peak::Op::Add, peak::Element::F64),
            "triad" => (peak::Op::Fma, peak::Element::F64),
            // Loads and stores of so many bytes are as light as additions of integers.
            _ => (peak::Op::Add, peak::Element::I64),
        };
        Some(Arithmetic { op, element, width })
    }
}

/// Bytes of the widest vector that the site's processor has.
fn widest_bytes(site: &Site) -> f64 {
    let cpu = &site.host.cpu;
    match cpu.arch {
        Arch::Aarch64 => 16.0,
        Arch::X86_64 if cpu.has("avx512f") => 64.0,
        Arch::X86_64 if cpu.has("avx2") && cpu.has("fma") => 32.0,
        Arch::X86_64 => 16.0,
    }
}

/// The CPUs of a case's threads, one entry for each: a number, `all`, or `smt` (all threads of the
/// first core that has several here). Fewer than asked for where there are no more; none where no
/// core shows several threads.
pub fn cpus_of(site: &Site, threads: &Value) -> Vec<usize> {
    if threads.int() == Some(1) {
        return site.cpus.first().copied().into_iter().collect();
    }
    if threads.text() != Some("smt") {
        return thread_cpus(site, thread_count(site, threads));
    }
    let siblings = |cpu: &usize| -> Vec<usize> {
        let of = site.host.cpu.cpu(*cpu).map(|cpu| &cpu.smt_siblings);
        let here = of.into_iter().flatten().filter(|cpu| site.cpus.contains(cpu));
        here.copied().collect()
    };
    let mut cores = site.cpus.iter().map(siblings);
    cores.find(|cpus| cpus.len() > 1).unwrap_or_default()
}

/// The design of the cores under some CPUs where they are of one and it is known, and whether its
/// instructions per cycle are sure.
fn design_of(site: &Site, cpus: &[usize]) -> Option<(Design, Core)> {
    let classes = &site.host.cpu.classes;
    let of = |cpu: &usize| {
        let class = classes.iter().find(|class| class.cpus.contains(cpu));
        class.map_or(site.host.cpu.microarchitecture.core, |class| class.core)
    };
    let first = of(cpus.first()?);
    let (row, is_known) = design(first);
    (is_known && cpus.iter().all(|cpu| of(cpu) == first)).then_some((row, first))
}

/// Program bytes per cycle that memory instructions of this kernel allow a core.
fn per_cycle(site: &Site, row: &Design, transfer: Transfer) -> f64 {
    let bytes = transfer.bytes(site);
    let at = match bytes {
        ..=16.0 => 0,
        ..=32.0 => 1,
        _ => 2,
    };
    let (loads, stores) = (transfer.loads(), transfer.writes());
    let moves = transfer.moves();
    let cycles = (loads / row.loads[at]).max(stores / row.stores[at]).max(moves / row.both[at]);
    // One word stands for its line.
    let named = if transfer.access == "every" { bytes } else { LINE };
    named * moves / cycles
}

/// Program bytes per cycle of a core that memory instructions allow, where the CPUs' cores are of one
/// known design.
pub fn bytes_per_cycle(site: &Site, transfer: Transfer, cpus: &[usize]) -> Option<f64> {
    let (row, _) = design_of(site, cpus)?;
    Some(per_cycle(site, &row, transfer))
}

/// No thread moves more than its core's memory instructions do at the core clock of the round, which
/// the samples carry summed over the cores.
pub fn instructions_bound(site: &Site, transfer: Transfer, threads: &Value) -> Option<Bound> {
    let (row, core) = design_of(site, &cpus_of(site, threads))?;
    let bytes = per_cycle(site, &row, transfer);
    Some(Bound {
        side: Side::AtMost,
        constant: bytes,
        inputs: vec![(CORES_HZ.to_owned(), 1)],
        uncertainty: 0.03,
        rule: format!(
            "{bytes:.0} B of the program per cycle by memory instructions of {} x the round's core \
             clock x cores",
            core.name()
        ),
        warns_only: !row.firm,
    })
}

/// The nominal rate only warns: it is what modules are set to, not what was measured.
pub fn nominal_bound(site: &Site) -> Option<Bound> {
    let (peak, from) = stated_peak(site)?;
    Some(Bound {
        side: Side::AtMost,
        constant: peak,
        inputs: Vec::new(),
        uncertainty: 0.02,
        rule: format!("{} by {from}", render(peak, Unit::BPerS)),
        warns_only: true,
    })
}

/// Latency of a level in ns: as memory.latency found it, else by law.
fn latency(
    site: &Site,
    known: Option<&Known>,
    level: &str,
) -> Result<(Range, &'static str), String> {
    let measured = known.and_then(|known| level_ns(known, level));
    if let Some(ns) = measured {
        return Ok((around(ns, 0.1), "measured by memory.latency"));
    }
    let estimate = level_latency(site, known, level)?;
    Ok((estimate.range, "by its law"))
}

/// What one core takes from a level by loads, in B/s.
fn one_core_reads(
    site: &Site,
    known: Option<&Known>,
    level: &str,
    (clock, clock_from): (Range, &str),
) -> Result<Law, String> {
    let (row, is_known) = design(core(site));
    let design = match is_known {
        true => core(site).name(),
        false => "any core design",
    };
    let second = product(row.second, clock);
    if level == "L2" {
        return Ok(Law::of(
            second,
            format!(
                "{:.0} to {:.0} B per cycle from the second cache ({design} by plumb's table) at \
                 {clock_from}",
                row.second.low, row.second.high
            ),
        ));
    }
    let (latency_ns, latency_from) = latency(site, known, level)?;
    let lines = product(row.lines, inverse(LINE * 1e9, latency_ns));
    let because = format!(
        "{:.0} to {:.0} lines in flight ({design} by plumb's table) x 64 B / latency of {level} \
         ({latency_from})",
        row.lines.low, row.lines.high
    );
    Ok(Law::of(meet(lines, second), because))
}

/// Two limits of one stream: at best the lesser; the nearer they are the more they add up.
fn meet(a: Range, b: Range) -> Range {
    let together =
        |a: f64, b: f64, power: f64| (a.powf(-power) + b.powf(-power)).powf(-1.0 / power);
    range(together(a.low, b.low, 2.0), together(a.likely, b.likely, 4.0), a.high.min(b.high))
}

/// Program bytes of a kernel over those of a read by one thread that lines in flight hold back: a
/// stored line takes the place of a loaded one on its way in, and leaves beside others.
fn over_reading(transfer: Transfer) -> Range {
    let kind = match (transfer.op, transfer.is_nontemporal()) {
        ("read", _) => range(1.0, 1.0, 1.0),
        ("write", false) => range(0.35, 0.62, 1.1),
        ("write", true) => range(0.3, 0.85, 1.8),
        ("modify", _) => range(1.0, 1.6, 2.15),
        ("copy" | "scale", false) => range(0.6, 0.87, 1.33),
        ("copy" | "scale", true) => range(0.45, 1.0, 1.7),
        (_, false) => range(0.65, 0.92, 1.33),
        (_, true) => range(0.5, 1.0, 1.5),
    };
    // Streams that touch a word of each line are prefetched as well; those that leave lines out less.
    match transfer.access {
        // The low end was 0.4 until one virtual machine read 3.4 GB/s where that said 3.5 at least.
        "strided" => product(kind, range(0.3, 0.75, 1.1)),
        _ => kind,
    }
}

/// Program bytes over bus bytes where the memory is saturated: stores that announce whole lines may
/// save the read before them on newer processors.
fn over_bus(transfer: Transfer) -> Range {
    let ratio = 1.0 / transfer.bus_ratio();
    match (transfer.op, transfer.is_nontemporal()) {
        ("read", _) => range(1.0, 1.0, 1.0),
        (_, true) => range(0.6, 0.9, 1.05),
        ("modify", _) => range(0.75, 0.95, 1.05),
        _ => range(0.8 * ratio, 0.97 * ratio, 1.0),
    }
}

/// Program bytes per second of a kernel whose arrays lie in a level, by the threads of a case.
///
/// # Errors
/// Why nothing can be said.
pub fn bandwidth(
    site: &Site,
    known: Option<&Known>,
    transfer: Transfer,
    level: &str,
    threads: &Value,
) -> Result<Law, String> {
    let clock = best_core_clock(crate::Facts { site, known });
    rate(site, known, transfer, level, threads, (clock.range, clock.because()))
}

/// [`bandwidth`] at a core clock, and where that is from.
fn rate(
    site: &Site,
    known: Option<&Known>,
    transfer: Transfer,
    level: &str,
    threads: &Value,
    (clock, clock_from): (Range, String),
) -> Result<Law, String> {
    let cpus = cpus_of(site, threads);
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    let (row, is_known) = design(core(site));
    let instructions = scaled(clock, per_cycle(site, &row, transfer));
    let instructions = product(instructions, row.reached);
    let many = several(site, level, cores, cpus.len());
    if level == "L1" {
        let (bytes, design) = (per_cycle(site, &row, transfer), told_core(site, is_known));
        let because = format!(
            "base hardware: {bytes:.0} B per cycle by memory instructions ({design}) at {clock_from}\
             {}; software: none",
            told_cores(cores)
        );
        return Ok(Law::of(product(instructions, many), because));
    }
    let is_memory = level == MEMORY || level == FOUR_TIMES;
    let from = if is_memory { MEMORY } else { level };
    let read = one_core_reads(site, known, from, (clock, &clock_from))?;
    let one = meet(instructions, product(read.range, over_reading(transfer)));
    let mut all = product(one, many);
    let mut because = format!("base hardware: {}{}", read.because(), told_cores(cores));
    if is_memory {
        let peak = memory_peak(site, &cpus);
        all = meet(all, product(peak.range, over_bus(transfer)));
        because.push_str(&format!("; at most {}", peak.because()));
    }
    if transfer.op != "read" {
        because.push_str(match transfer.is_nontemporal() {
            true => "; stores past the caches",
            false => "; a stored line is read before",
        });
    }
    let estimate = Law::of(all, format!("{because}; software: none"));
    Ok(match is_guest(site) && level != "L2" {
        true => estimate.widened(1.3, 1.15, "a virtual machine shares it with others"),
        false => estimate,
    })
}

fn told_core(site: &Site, is_known: bool) -> String {
    match is_known {
        true => format!("{} by plumb's table", core(site).name()),
        false => "an unknown core design, so any".to_owned(),
    }
}

fn told_cores(cores: f64) -> String {
    match cores {
        1.0 => String::new(),
        _ => format!(", {cores} cores"),
    }
}

/// What threads on so many cores move over what one thread does.
fn several(site: &Site, level: &str, cores: f64, threads: usize) -> Range {
    if threads <= 1 {
        return range(1.0, 1.0, 1.0);
    }
    // A second thread of a core keeps more lines in flight, and shares all else.
    let beside = if threads as f64 > cores { 1.35 } else { 1.02 };
    let is_private = level == "L1" || level == "L2";
    let low = match (is_guest(site), is_private) {
        (true, _) => 0.4,
        (false, true) => 0.6,
        (false, false) => 0.35,
    };
    let likely = if is_private { 0.95 } else { 0.85 };
    range(low * cores, likely * cores, beside * cores)
}

/// The share of what memory instructions allow (caches), or of the memory's peak on the bus, that a
/// kernel reaches.
///
/// # Errors
/// Why nothing can be said: no known design, or nothing states the peak.
pub fn efficiency(
    site: &Site,
    transfer: Transfer,
    level: &str,
    threads: &Value,
) -> Result<Law, String> {
    let cpus = cpus_of(site, threads);
    if level == MEMORY || level == FOUR_TIMES {
        let (peak, _) = stated_peak(site).ok_or(
            "unknown: neither DMI nor --set host.memory.… tells the channels and the rate of the \
             memory",
        )?;
        let rate = bandwidth(site, None, transfer, level, threads)?;
        let share = scaled(rate.range, transfer.bus_ratio() / peak);
        return Ok(Law::of(
            range(share.low, share.likely.min(0.98), share.high.min(1.02)),
            rate.because(),
        ));
    }
    let (row, _) = design_of(site, &cpus).ok_or(
        "unknown: the table does not know what these cores move per cycle, or they are of several \
         designs",
    )?;
    // The clock is on both sides.
    let clock = best_core_clock(crate::Facts::prior(site));
    let (clock, clock_from) = (clock.range, clock.because());
    let exact = range(clock.likely, clock.likely, clock.likely);
    let rate = rate(site, None, transfer, level, threads, (exact, clock_from))?;
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    let allowed = clock.likely * per_cycle(site, &row, transfer) * cores;
    Ok(Law::of(scaled(rate.range, 1.0 / allowed), rate.because()))
}

/// The mean of copy, scale, add and triad, as R4 took it.
///
/// # Errors
/// As [`bandwidth`].
pub fn stream_mean(
    site: &Site,
    known: Option<&Known>,
    stores: &'static str,
    level: &str,
    threads: &Value,
) -> Result<Law, String> {
    let mut mean = range(0.0, 0.0, 0.0);
    let mut because = String::new();
    for op in &OPS[3..] {
        let of = bandwidth(site, known, Transfer::widest(op, stores), level, threads)?;
        mean.low += of.range.low / 4.0;
        mean.likely += of.range.likely / 4.0;
        mean.high += of.range.high / 4.0;
        because = of.because();
    }
    Ok(Law::of(mean, because))
}

/// A copy's loads over a read's, by instructions, above which one of them is wrong.
pub const LOADS_MOST: f64 = 1.1;

/// Bus bytes of a copy over those of a read: both keep the same lines in flight, and what a copy
/// writes back leaves beside them.
pub fn copy_over_read(level: &str) -> Law {
    let range = match level {
        // One thread's; where the channels are the limit, about 1. The high end was 1.75 until one
        // virtual machine gave 1.65, too near for a check that fails cases.
        MEMORY | FOUR_TIMES => range(0.65, 1.25, 2.0),
        _ => range(0.5, 1.2, 2.0),
    };
    Law::of(
        range,
        "base hardware: a copy's loads and the reads before its stores share the lines in \
                  flight with a read's, and what it writes back comes on top; software: none"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;

//! Laws of bandwidth: what one thread and many move between the core and each level of the
//! hierarchy.
//!
//! The first cache gives what memory instructions per cycle x their bytes x the core clock allow.
//! The second gives a stream some bytes per cycle. What lies beyond answers a core no faster than
//! its lines in flight x 64 B / latency, and main memory gives all of them no more than its
//! channels do. A line that is stored regularly is read before (write-allocate), so that stores
//! cost the bus twice, but for cores that stream their stores.

use super::channels::{memory_peak, stated_peak};
use super::designs::{Design, design, design_of, streams_stores};
use super::measured::level_ns;
use super::transfer::{Access, Op, STREAM, Stores, Threads, Transfer, cpus_of};
use super::{LINE, Level, level_latency};
use crate::cpu::coherence::is_large_of_complexes;
use crate::cpu::peak::{CORES_HZ, distinct_cores};
use crate::cpu::{best_core_clock, core, is_guest, knows_clock};
use crate::{Facts, Law, around, ceiling, inverse, product, range, scaled};
use bench::experiment::Site;
use host::Core;
use record::event::{Bound, Range};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeSet;

/// Program bytes per cycle that memory instructions of this kernel allow a core.
fn per_cycle(site: &Site, row: &Design, of: &Transfer) -> f64 {
    let bytes = of.bytes(site);
    let at = match bytes {
        ..=16.0 => 0,
        ..=32.0 => 1,
        _ => 2,
    };
    let (loads, stores) = of.moves();
    let moves = loads + stores;
    let cycles = (loads / row.loads[at]).max(stores / row.stores[at]).max(moves / row.both[at]);
    // One word stands for its line.
    let named = if of.access == Access::Every { bytes } else { LINE };
    named * moves / cycles
}

/// Program bytes per cycle of a core that memory instructions allow, where the CPUs' cores are of
/// one known design.
pub fn bytes_per_cycle(site: &Site, of: &Transfer, cpus: &[usize]) -> Option<f64> {
    let (row, _) = design_of(site, cpus)?;
    Some(per_cycle(site, &row, of))
}

/// No thread moves more than its core's memory instructions do at the core clock of the round,
/// which the samples carry summed over the cores.
pub fn instructions_bound(site: &Site, of: &Transfer) -> Option<Bound> {
    let (row, core) = design_of(site, &cpus_of(site, of.threads))?;
    let bytes = per_cycle(site, &row, of);
    let rule = format!(
        "{bytes:.0} B per cycle by memory instructions of {} x the round's core clock x cores",
        core.name()
    );
    let inputs = vec![(CORES_HZ.to_owned(), 1)];
    Some(Bound { inputs, warns_only: !row.reached.0, ..ceiling(bytes, 0.03, rule) })
}

/// The nominal rate only warns: it is what modules are set to, not what was measured.
pub fn nominal_bound(site: &Site) -> Option<Bound> {
    let (peak, from) = stated_peak(site)?;
    Some(ceiling(peak, 0.02, format!("{} by {from}", render(peak, Unit::BPerS))))
}

/// Two limits of one stream: at best the lesser; the nearer they are the more they add up.
fn meet(a: Range, b: Range) -> Range {
    let together =
        |a: f64, b: f64, power: f64| (a.powf(-power) + b.powf(-power)).powf(-1.0 / power);
    range(together(a.low, b.low, 2.0), together(a.likely, b.likely, 4.0), a.high.min(b.high))
}

/// Whether the cores store a kernel's lines without reading them first.
fn streams(site: &Site, of: &Transfer) -> bool {
    let is_whole = of.access == Access::Every && of.op != Op::Modify;
    is_whole && streams_stores(site, core(site))
}

/// Program bytes of a kernel over those of a read by one thread that lines in flight hold back: a
/// stored line takes the place of a loaded one on its way in, and leaves beside others. Lines that
/// are stored without a read before (`streams`, non-temporal stores) wait for nothing.
fn over_reading(of: &Transfer, streams: bool) -> Range {
    let is_alone = matches!(of.threads, Threads::Number(1));
    let kind = match (of.op, of.stores) {
        (Op::Read, _) => range(1.0, 1.0, 1.0),
        (Op::Modify, _) => range(1.0, 1.6, 2.15),
        (Op::Write, _) if streams => range(0.4, 1.9, 4.0),
        (Op::Copy | Op::Scale, _) if streams => range(0.6, 1.35, 2.1),
        (_, _) if streams => range(0.65, 1.2, 1.8),
        (Op::Write, Stores::Regular) => range(0.35, 0.65, 1.3),
        (Op::Write, Stores::NonTemporal) if is_alone => range(0.3, 1.2, 2.4),
        // Several threads meet the way out of their chip: Zen's is half as wide as the way in.
        (Op::Write, Stores::NonTemporal) => range(0.3, 0.9, 2.0),
        (Op::Copy | Op::Scale, Stores::Regular) => range(0.6, 0.87, 1.33),
        (Op::Copy | Op::Scale, Stores::NonTemporal) => range(0.45, 1.25, 2.1),
        (_, Stores::Regular) => range(0.65, 0.92, 1.33),
        (_, Stores::NonTemporal) => range(0.5, 1.2, 2.0),
    };
    // Streams that touch a word of each line are prefetched as well; those that leave lines out
    // less.
    match of.access {
        // The low end was 0.4 until one virtual machine read 3.4 GB/s where that said 3.5 at least.
        Access::Strided => product(kind, range(0.3, 0.75, 1.1)),
        _ => kind,
    }
}

/// Program bytes over bus bytes where the memory is saturated: stores that announce whole lines may
/// save the read before them on newer processors.
fn over_bus(of: &Transfer, streams: bool) -> Range {
    let ratio = 1.0 / of.bus_ratio();
    match (of.op, of.stores) {
        (Op::Read, _) => range(1.0, 1.0, 1.0),
        // Pure writes reach less, as said at `over_reading`.
        (Op::Write, Stores::NonTemporal) if !streams => range(0.45, 0.78, 1.05),
        (_, Stores::NonTemporal) => range(0.6, 0.9, 1.05),
        (Op::Modify, _) => range(0.75, 0.95, 1.05),
        _ if streams => range(0.8 * ratio, 0.95, 1.05),
        _ => range(0.8 * ratio, 0.97 * ratio, 1.0),
    }
}

/// Whether facts say anything: earlier figures do of caches, and nothing of main memory.
pub fn says_something(facts: Facts, level: Level) -> bool {
    knows_clock(facts) && (facts.known.is_none() || !level.is_memory())
}

/// Program bytes per second of a kernel. Errors: why nothing can be said.
pub fn bandwidth(facts: Facts, of: &Transfer) -> Result<Law, String> {
    rate(facts, of, best_core_clock(facts))
}

/// Bytes per second on the bus. Errors: as [`bandwidth`], and it moves what the program names.
pub fn bus_bandwidth(facts: Facts, of: &Transfer) -> Result<Law, String> {
    let ratio = of.own_bus_ratio().ok_or("unknown: the bus moves exactly the program's bytes")?;
    Ok(bandwidth(facts, of)?.times(ratio))
}

/// The lines of AMD's servers over those of desktops with the same cores, whose memory is nearer:
/// prefetchers hide the difference. (Two published servers and three guests.)
const SERVER_LINES: f64 = 1.35;

/// What one core takes from a level behind the first cache by loads, in B/s.
fn one_core_reads(facts: Facts, level: Level, row: &Design, clock: Law) -> Result<Law, String> {
    let second = product(row.second, clock.range);
    if level == Level::L2 {
        return Ok(clock
            .with_range(second)
            .and("bytes per cycle from the second-level cache")
            .unsourced());
    }
    let latency = match facts.known.and_then(|known| level_ns(known, level)) {
        Some(ns) => Law::hardware(around(ns, 0.1), "latency measured by memory.latency"),
        None => level_latency(facts, level)?,
    };
    let in_flight = match level.is_memory() && is_large_of_complexes(facts.site) {
        true => scaled(row.lines, SERVER_LINES),
        false => row.lines,
    };
    let lines = product(in_flight, inverse(LINE * 1e9, latency.range));
    let path = if level.is_memory() { second } else { product(row.third, clock.range) };
    let why = format!("{:.0} to {:.0} lines in flight", in_flight.low, in_flight.high);
    Ok(latency.with_range(meet(lines, path)).and(why).unsourced())
}

/// [`bandwidth`] at a core clock.
fn rate(facts: Facts, of: &Transfer, clock: Law) -> Result<Law, String> {
    let site = facts.site;
    let cpus = cpus_of(site, of.threads);
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    let (row, is_known) = design(site, core(site));
    let streams = streams(site, of);
    let design = if is_known { core(site).name() } else { "any core design" };
    let many = several(site, of.level, cores, cpus.len());
    let bytes = per_cycle(site, &row, of);
    let instructions = clock.clone().times(bytes).by(row.reached.1);
    if of.level == Level::L1 {
        let why = format!("{bytes:.0} B per cycle and core by memory instructions of {design}");
        return Ok(instructions.by(many).and(why).unsourced());
    }
    let read = one_core_reads(facts, of.level, &row, clock)?
        .and(format_args!("{design} in plumb's table"));
    let one = meet(instructions.range, product(read.range, over_reading(of, streams)));
    let mut all = read.with_range(product(one, many)).and(format_args!("on {cores} cores"));
    if of.level.is_memory() {
        let peak = memory_peak(site, &cpus);
        let most = product(peak.range, over_bus(of, streams));
        all = all.reshaped(|all| meet(all, most)).and("at most").with(&peak);
        if let Some(link) = links(site, &cpus, of, streams) {
            all = all.reshaped(|all| meet(all, link)).and("and what the links of its dies give");
        }
    }
    all = match (of.op, of.stores) {
        (Op::Read, _) => all,
        (_, Stores::NonTemporal) => all.and("non-temporal stores"),
        _ if streams => all.and("whole lines are stored without a read before"),
        (_, Stores::Regular) => all.and("each stored line is read first"),
    };
    let is_shared = is_guest(site) && of.level != Level::L2;
    Ok(all.when(is_shared, |all| all.widened(1.3, 1.15, "other guests share it")))
}

/// What the link between a die of AMD's core complexes and the memory gives reads, in B/s: 32 bytes
/// a cycle of the fabric, which runs at 1.3 to 2 GHz (AMD's overviews of EPYC 7002, 7003 and 9004).
/// Instances of Zen 3 and Zen 4 (sc-inspector-data by Spare Cores) read 37 to 50 GB/s through one.
const LINK: Range = range(30e9, 41e9, 64e9);

/// Bytes that the link takes on the way out, over those that it gives on the way in: 16 a cycle.
const LINK_OUT: f64 = 0.5;

/// Program bytes per second that the links of the CPUs' dies let through; `None` where a core has
/// no such link or nothing tells the complexes apart.
fn links(site: &Site, cpus: &[usize], of: &Transfer, streams: bool) -> Option<Range> {
    let complexes_of_die = match core(site) {
        Core::Zen2 => 2,
        Core::Zen3 | Core::Zen4 | Core::Zen4c | Core::Zen5 | Core::Zen5c => 1,
        _ => return None,
    };
    let own = site.host.cpu.cpus.iter().filter(|cpu| cpus.contains(&cpu.id));
    let complexes: BTreeSet<usize> = own.filter_map(|cpu| cpu.llc_group).collect();
    // A guest that shows a complex for each CPU does not say where they are.
    let is_untold = is_guest(site) && complexes.len() == cpus.len();
    if !is_large_of_complexes(site) || cpus.len() < 2 || complexes.is_empty() || is_untold {
        return None;
    }
    let dies = complexes.len().div_ceil(complexes_of_die) as f64;
    let (loads, stores) = of.moves();
    let out = stores / (loads + stores);
    let read = if streams { 1.0 } else { of.bus_ratio() } - out;
    let way = |bytes: f64, share: f64| {
        let most = if share > 0.0 { dies * bytes / share } else { f64::INFINITY };
        scaled(LINK, most)
    };
    Some(meet(way(1.0, read), way(LINK_OUT, out)))
}

/// What threads on so many cores move over what one thread does.
fn several(site: &Site, level: Level, cores: f64, threads: usize) -> Range {
    if threads <= 1 {
        return range(1.0, 1.0, 1.0);
    }
    // A second thread of a core keeps more lines in flight, and shares all else.
    let beside = if threads as f64 > cores { 1.35 } else { 1.02 };
    let is_private = matches!(level, Level::L1 | Level::L2);
    let low = match (is_guest(site), is_private) {
        (true, _) => 0.4,
        (false, true) => 0.6,
        (false, false) => 0.35,
    };
    let likely = if is_private { 0.95 } else { 0.85 };
    range(low * cores, likely * cores, beside * cores)
}

/// The share of what memory instructions allow (caches), or of the memory's peak on the bus, that a
/// kernel reaches. Errors: why nothing can be said: no known design, or nothing states the peak.
pub fn efficiency(site: &Site, of: &Transfer) -> Result<Law, String> {
    let facts = Facts::prior(site);
    if of.level.is_memory() {
        let (peak, _) = stated_peak(site).ok_or(
            "unknown: neither DMI nor --set host.memory.… gives the memory's channels and rate",
        )?;
        let share = bandwidth(facts, of)?.times(of.bus_ratio() / peak);
        let Range { low, likely, high } = share.range;
        // The figure counts a read before each store, also where the core leaves it out.
        let whole = if streams(site, of) { of.bus_ratio() } else { 1.0 };
        return Ok(share.with_range(range(low, likely.min(0.98 * whole), high.min(1.02 * whole))));
    }
    let cpus = cpus_of(site, of.threads);
    let (row, _) = design_of(site, &cpus).ok_or(
        "unknown: plumb's table has no bytes per cycle for these cores, or their designs differ",
    )?;
    // The clock is on both sides.
    let clock = best_core_clock(facts);
    let hz = clock.range.likely;
    let rate = rate(facts, of, clock.with_range(range(hz, hz, hz)))?;
    let cores = distinct_cores(site, &cpus).max(1) as f64;
    Ok(rate.times(1.0 / (hz * per_cycle(site, &row, of) * cores)))
}

/// The mean of copy, scale, add and triad, as R4 took it, of kernels that else are like this one.
/// Errors: as [`bandwidth`].
pub fn stream_mean(facts: Facts, of: &Transfer) -> Result<Law, String> {
    let laws = STREAM.map(|op| bandwidth(facts, &of.with_op(op)));
    let laws: Vec<Law> = laws.into_iter().collect::<Result<_, _>>()?;
    let mean = |end: fn(&Range) -> f64| laws.iter().map(|law| end(&law.range) / 4.0).sum();
    let mean = range(mean(|of| of.low), mean(|of| of.likely), mean(|of| of.high));
    Ok(laws[3].clone().with_range(mean))
}

/// A copy's loads over a read's, by instructions, above which one of them is wrong.
pub const LOADS_MOST: f64 = 1.1;

/// Bus bytes of a copy over those of a read: both keep the same lines in flight, and what a copy
/// writes back leaves beside them.
pub fn copy_over_read(level: Level) -> Law {
    // One thread's; where the channels are the limit, about 1. The high end was 1.75 until one
    // virtual machine gave 1.65, too near for a check that fails cases.
    let (low, likely) = if level.is_memory() { (0.65, 1.25) } else { (0.5, 1.2) };
    let because = "a copy's loads and the reads before its stores share the lines in flight, and \
                   the written lines come on top";
    Law::hardware(range(low, likely, 2.0), because)
}

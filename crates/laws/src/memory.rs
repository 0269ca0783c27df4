//! Laws of the memory hierarchy: what a load costs that the next load waits for.
//!
//! Load-to-use cycles per core design ([`cores`]) over the core clock, sizes from sysfs or CPUID,
//! main memory by its generation. Between two levels the shares of hits blend them.

pub mod bandwidth;
pub mod channels;
mod cores;
mod designs;
pub mod fault;
pub mod loaded;
pub mod measured;
pub mod mlp;
pub mod numa;
mod prefetch;
pub mod transfer;
mod translation;

use super::cpu::coherence::is_large_of_complexes;
use super::cpu::{best_core_clock, core, is_guest, least_cycles, through_memory};
use super::{Facts, Law, inverse, product, range, scaled, sum};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use cores::{BEHIND_IO_DIE, LoadCosts, costs, is_of_modules, memory_ns, usual_sizes};
use host::cache::CacheKind;
use host::{Arch, Core};
use prefetch::exposed;
use record::event::{Bound, Condition, Range};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeSet;
pub use translation::{described_reaches, huge_gain, tlb_miss, tlb_reach};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const LINE: f64 = 64.0;

symbols! {
    /// A level of the hierarchy, from the core outwards.
    pub enum Level {
        L1 = "L1",
        L2 = "L2",
        L3 = "L3",
        L4 = "L4",
        Memory = "DRAM",
        /// Main memory, by arrays of exactly four times the last cache: the reports' choice.
        FourTimes = "4xLLC",
    }
}

impl Level {
    pub const CACHES: [Level; 4] = [Level::L1, Level::L2, Level::L3, Level::L4];

    pub fn is_memory(self) -> bool {
        matches!(self, Level::Memory | Level::FourTimes)
    }

    /// Number of caches before this level; `None` for main memory.
    pub fn before(self) -> Option<usize> {
        Level::CACHES.iter().position(|level| *level == self)
    }
}

/// A last cache larger than this, or shared by more CPUs, is distributed over a mesh: the largest
/// ring-connected ones have 36 MiB and serve 32 threads of 24 cores.
const MESH_BYTES: f64 = 40.0 * MIB;
const MESH_SHARERS: usize = 32;
/// Slice of a last cache that comes with a core: 1.4 to 4 MiB since 2011.
const SLICE_BYTES: f64 = 4.0 * MIB;

symbols! {
    /// The order of a walk.
    pub enum Pattern {
        Random = "random",
        PageRandom = "page-random",
        Forward = "forward",
        Backward = "backward",
        FourQuarter = "four-quarter",
    }
}
symbols! {
    /// What a load takes the next address from.
    pub enum Load { Pointer = "pointer", Index = "index", Stored = "stored" }
}
symbols! {
    /// Pages of the memory.
    pub enum On { Huge = "huge", Base = "base" }
}
case! {
    /// A walk over a footprint.
    pub struct Point {
        /// order of the walk
        pattern: Pattern,
        /// distance between loads for page-random, forward and backward
        stride: Option<u64> = Domain::bytes(16, 1 << 20),
        /// follows pointers, array indices, or indices that are stored and loaded again between two
        /// steps, as in unoptimised code
        load: Load,
        /// huge or base pages; if there are no huge pages, base pages are the reference
        pages: On,
        /// footprint of the walk in whole 64-byte lines; see the manual; at most the memory that
        /// plumb may touch
        footprint: u64 = Domain::bytes(128, 1 << 42),
    }
}

impl Point {
    /// A random walk by pointer.
    pub(crate) fn random(pages: On, footprint: f64) -> Point {
        let (pattern, load) = (Pattern::Random, Load::Pointer);
        Point { pattern, stride: None, load, pages, footprint: footprint as u64 }
    }

    /// Distance of its slots; a line if the order has none.
    fn stride_bytes(&self) -> f64 {
        self.stride.map_or(LINE, |stride| stride as f64)
    }
}

/// What a level of the hierarchy costs. The last one, main memory, has no size.
struct Costs {
    level: Level,
    /// Least, likely and most bytes that a lone walk finds in it.
    bytes: Range,
    /// As described; 0 if the machine does not describe it.
    described: f64,
    ns: Range,
    cycles: Option<Range>,
    /// Hits fall with this power of capacity over footprint: near 1 for random replacement and
    /// hashed sets, higher where the oldest line goes first.
    sharpness: f64,
}

struct Hierarchy {
    levels: Vec<Costs>,
    clock: Law,
    because: String,
}

/// Sizes in bytes of the data caches that the machine describes for the measuring CPU.
pub fn described_levels(site: &Site) -> Vec<(Level, u64)> {
    let cpu = site.cpus.first().copied().unwrap_or(0);
    (1..)
        .zip(Level::CACHES)
        .filter_map(|(number, level)| {
            let cache = site.host.cache.data(number, cpu)?;
            (cache.size_bytes > 0).then_some((level, cache.size_bytes))
        })
        .collect()
}

/// Bytes of a line of the first data cache; 64 if the machine does not report it.
pub fn line_bytes(site: &Site) -> (u64, &'static str) {
    let cpu = site.cpus.first().copied().unwrap_or(0);
    let told = site.host.cache.data(1, cpu).and_then(|l1| l1.line_bytes);
    match told.filter(|line| line.is_power_of_two() && *line >= 16) {
        Some(line) => {
            (u64::from(line), "line size that the machine reports for the first-level cache")
        }
        None => (64, "no cache is described; almost every core has 64-byte lines"),
    }
}

/// A walk comes back to a line after all others. Least recently used lines are the next to be needed,
/// so a first-level cache that drops these keeps nothing of a footprint a little beyond its size …
const CYCLIC: f64 = 24.0;
/// … and one that drops lines at random keeps h = exp(-(1 - h) footprint / size) of it: 0.68 at 1.2
/// times its size, 0.20 at 2.
const RANDOM_REPLACEMENT: f64 = 2.3;
/// The sharpness of each level, from the first; levels beyond have the last.
const SHARPNESS: [f64; 3] = [CYCLIC, 3.0, 1.5];

impl Hierarchy {
    fn for_machine(facts: Facts) -> Hierarchy {
        let site = facts.site;
        let (costs, sure) = costs(core(site));
        let clock = best_core_clock(facts);
        let cycle = inverse(1.0e9, clock.range);
        let guest = is_guest(site);
        let described = described_levels(site);
        let unseen = |(level, bytes)| (level, bytes, 0.0);
        let sizes: Vec<_> = match described.is_empty() {
            true => {
                let sizes = usual_sizes(core(site)).map(|of| scaled(of, KIB));
                [Level::L1, Level::L2, Level::L3].into_iter().zip(sizes).map(unseen).collect()
            }
            false => {
                let sizes = described.iter().enumerate();
                sizes
                    .map(|(at, (level, bytes))| {
                        let inner = at.checked_sub(1).map_or(0.0, |at| described[at].1 as f64);
                        let is_last = at + 1 == described.len() && at >= 2;
                        let shared = guest && is_last;
                        let nodes = if is_last { nodes_of_last(site) } else { 1.0 };
                        let bytes = *bytes as f64 / nodes;
                        (*level, capacity(site, at, bytes, inner, shared), bytes)
                    })
                    .collect()
            }
        };
        let mesh = behind_mesh(site);
        let mut levels: Vec<Costs> = sizes
            .into_iter()
            .enumerate()
            .map(|(at, (level, bytes, described))| {
                let cycles = match at {
                    0 => costs.l1,
                    1 => costs.l2,
                    2 if mesh => costs.mesh,
                    2 => costs.near,
                    _ => range(90.0, 140.0, 220.0),
                };
                let ns = product(cycles, cycle);
                Costs {
                    level,
                    bytes,
                    described,
                    // Other tenants may queue there; on the guests of `data/sheets` they hardly do.
                    ns: if guest && at >= 2 { range(ns.low, ns.likely, 1.4 * ns.high) } else { ns },
                    cycles: Some(cycles),
                    sharpness: SHARPNESS[at.min(2)],
                }
            })
            .collect();
        let (memory, kind) = main_memory(site, &costs);
        let last = levels.last().map_or(range(0.0, 0.0, 0.0), |level| level.ns);
        let memory = sum(last, memory);
        levels.push(Costs {
            level: Level::Memory,
            bytes: range(f64::INFINITY, f64::INFINITY, f64::INFINITY),
            described: 0.0,
            ns: if guest { shared_by_others(memory, 1.2) } else { memory },
            cycles: None,
            sharpness: 1.0,
        });
        Hierarchy { levels, because: because(site, sure, &kind, !described.is_empty()), clock }
    }

    /// Errors: the machine does not describe such a level.
    fn level(&self, level: Level) -> Result<&Costs, String> {
        let level = if level.is_memory() { Level::Memory } else { level };
        self.levels.iter().find(|costs| costs.level == level).ok_or_else(|| undescribed(level))
    }

    /// What follows from it, whose cycles are written from memory.
    fn law(&self, range: Range) -> Law {
        Law::hardware(range, &self.because).with(&self.clock).unsourced()
    }

    fn l1(&self) -> Range {
        self.levels[0].ns
    }

    /// Random loads over a footprint, address translation apart.
    fn random(&self, footprint: f64) -> Range {
        let blend = |bytes: fn(&Range) -> f64, ns: fn(&Range) -> f64, sharper: f64, even: bool| {
            let (mut covered, mut total) = (0.0, 0.0);
            for level in &self.levels {
                let power = match level.level {
                    Level::L1 | Level::L2 if even => RANDOM_REPLACEMENT,
                    _ if even => 1.0,
                    _ => sharper * level.sharpness,
                };
                let share = (bytes(&level.bytes) / footprint).min(1.0).powf(power);
                let share = share.max(covered);
                total += (share - covered) * ns(&level.ns);
                covered = share;
            }
            total
        };
        let low = blend(|bytes| bytes.high, |ns| ns.low, 1.0, true);
        let likely = blend(|bytes| bytes.likely, |ns| ns.likely, 1.0, false);
        let high = blend(|bytes| bytes.low, |ns| ns.high, 3.0, false);
        range(low.min(likely), likely, high.max(likely))
    }

    fn private_bytes(&self) -> f64 {
        self.levels[self.levels.len().min(3) - 2].bytes.likely
    }

    fn place(&self, footprint: f64) -> Level {
        let holds = |costs: &&Costs| footprint <= costs.bytes.likely;
        self.levels.iter().find(holds).map_or(Level::Memory, |costs| costs.level)
    }
}

/// Bytes of a cache that a lone walk finds in it: a tenth to a third is lost to other data, to
/// uneven sets and to replacement that is not perfect; a guest has an unknown part of a last cache.
fn capacity(site: &Site, at: usize, bytes: f64, inner: f64, shared: bool) -> Range {
    if at == 0 {
        return range(0.93 * bytes, bytes, 1.02 * bytes);
    }
    if shared {
        let share = SLICE_BYTES * site.host.cpu.cpus.len().max(1) as f64;
        let likely = share.max(2.0 * inner).min(bytes);
        let least = (bytes / 64.0).max(2.0 * inner).min(0.6 * likely);
        return range(least, likely, 1.1 * bytes);
    }
    range(0.65 * bytes, USABLE * bytes, 1.1 * bytes)
}

/// The part of a cache that a walk on base pages usually finds in it.
const USABLE: f64 = 0.9;

/// Memory nodes that share the last cache's described size: where a package is split into nodes (SNC,
/// Cluster on Die), the part beside a node holds its memory.
fn nodes_of_last(site: &Site) -> f64 {
    let host = &site.host;
    let cpu = site.cpus.first().copied().unwrap_or(0);
    let groups = host.cache.last(cpu).into_iter().flat_map(|last| &last.shared_by);
    let served = groups.filter(|group| group.contains(&cpu)).flatten();
    let nodes = served.filter_map(|other| host.cpu.cpu(*other)?.node);
    nodes.collect::<BTreeSet<_>>().len().max(1) as f64
}

fn behind_mesh(site: &Site) -> bool {
    let cpu = site.cpus.first().copied().unwrap_or(0);
    site.host
        .cache
        .last(cpu)
        .is_some_and(|last| last.size_bytes as f64 > MESH_BYTES || last.sharers > MESH_SHARERS)
        || core(site) == Core::SkylakeServer
}

/// Other tenants queue at what is shared.
fn shared_by_others(ns: Range, factor: f64) -> Range {
    range(ns.low, ns.likely * factor.sqrt(), ns.high * factor)
}

/// What main memory adds: of a core design whose controllers are known (or that is unknown) its own
/// figure, else that of the modules if they are reported, else the kind usual for the core.
fn main_memory(site: &Site, costs: &LoadCosts) -> (Range, String) {
    let LoadCosts { memory_ns: by_core, memory: kind_by_core, .. } = *costs;
    if is_large_of_complexes(site) {
        return (BEHIND_IO_DIE, format!("{kind_by_core} of a server"));
    }
    let told = site.host.memory.dimms.iter().find_map(|dimm| {
        let kind = dimm.kind.as_deref()?;
        Some((memory_ns(kind)?, format!("{kind} (memory module table)")))
    });
    told.filter(|_| is_of_modules(by_core))
        .unwrap_or((by_core, format!("{kind_by_core}, usual for this core")))
}

fn because(site: &Site, sure: bool, kind: &str, described: bool) -> String {
    let design = if sure { core(site).name() } else { "an unknown core design (full range)" };
    let sizes = match (described, &site.host.cache.source) {
        (false, _) => "nothing",
        (true, source) => source.as_deref().unwrap_or("the machine"),
    };
    let guest = match is_guest(site) {
        true => {
            "; a virtual machine: part of the last-level cache, memory shared with other tenants"
        }
        false => "",
    };
    format!(
        "load-to-use cycles of {design} from plumb's table; cache sizes from {sizes}; {kind}{guest}"
    )
}

/// Time of one load of a walk, in ns.
pub fn load_latency(facts: Facts, of: &Point) -> Law {
    let footprint = of.footprint as f64;
    let hierarchy = Hierarchy::for_machine(facts);
    // Huge pages on bare metal fill the sets of a cache evenly: a walk finds the whole cache.
    let is_even = of.pages == On::Huge && !is_guest(facts.site);
    let in_l1 = footprint <= 2.0 * hierarchy.levels[0].bytes.likely;
    let random = hierarchy.random(if is_even && !in_l1 { USABLE * footprint } else { footprint });
    let l1 = hierarchy.l1();
    let in_private = footprint <= hierarchy.private_bytes();
    let line = line_bytes(facts.site).0 as f64;
    let exposed = exposed(core(facts.site), of.pattern, of.stride_bytes(), in_private, line);
    let part = |l1: f64, random: f64, share: f64| l1 + share * (random - l1).max(0.0);
    let ns = match of.pattern {
        Pattern::Random => random,
        _ => range(
            part(l1.low, random.low, exposed.low),
            part(l1.likely, random.likely, exposed.likely),
            part(l1.high, random.high, exposed.high),
        ),
    };
    let walks = translation::added(facts.site, &hierarchy, of);
    let mut ns = range(ns.low + walks.low, ns.likely + walks.likely, ns.high + walks.high);
    if of.load != Load::Pointer {
        ns = sum(ns, product(range(0.02, 0.5, 2.0), inverse(1e9, hierarchy.clock.range)));
    }
    let place = hierarchy.place(footprint).text();
    let size = render(footprint, Unit::B);
    let is_nested = is_guest(facts.site);
    let mut law = hierarchy.law(ns).and(format_args!("{size} in {place}"));
    if of.load == Load::Stored {
        law = law + through_memory(facts);
    }
    law.counting_if(is_nested, Condition::NestedPaging)
}

/// Latency of a level, in ns. Errors: why nothing can be said: the machine does not describe such a
/// level.
pub fn level_latency(facts: Facts, level: Level) -> Result<Law, String> {
    let hierarchy = Hierarchy::for_machine(facts);
    Ok(hierarchy.law(hierarchy.level(level)?.ns))
}

/// Latency of a level, in core cycles. Errors: as [`level_latency`].
pub fn level_cycles(facts: Facts, level: Level) -> Result<Law, String> {
    let hierarchy = Hierarchy::for_machine(facts);
    let costs = hierarchy.level(level)?;
    let by_clock = product(costs.ns, scaled(hierarchy.clock.range, 1e-9));
    Ok(hierarchy.law(match costs.cycles {
        Some(cycles) if matches!(level, Level::L1 | Level::L2) => cycles,
        Some(cycles) => range(cycles.low, cycles.likely, by_clock.high.max(cycles.high)),
        None => by_clock,
    }))
}

/// Size of a cache, as a ladder finds it, in bytes. Errors: as [`level_latency`]; main memory has
/// no size to find.
pub fn level_size(site: &Site, level: Level) -> Result<Law, String> {
    let hierarchy = Hierarchy::for_machine(Facts::prior(site));
    let costs = hierarchy.level(level)?;
    if costs.described == 0.0 {
        return Err(undescribed(level));
    }
    let (bytes, described) = (costs.bytes, costs.described);
    let range = match bytes.likely < 0.9 * described {
        true => range(bytes.low, bytes.likely, 1.2 * described),
        false => range(0.65 * described, 0.95 * described, 1.25 * described),
    };
    let size = render(described, Unit::B);
    let source = site.host.cache.source.as_deref().unwrap_or("the machine");
    Ok(Law::hardware(range, format!("{size} from {source}; a tenth of the loads miss at the edge")))
}

fn undescribed(level: Level) -> String {
    format!("unknown: the machine reports no {}", level.text())
}

/// Size of a cache line in bytes.
pub fn line_size(site: &Site) -> Law {
    let (line, from) = line_bytes(site);
    let line = line as f64;
    let mut caches = site.host.cache.levels.iter();
    let is_told =
        caches.any(|cache| cache.kind != CacheKind::Instruction && cache.line_bytes.is_some());
    // The sweep's distances double: its knee lies within one of them, and prefetched pairs of lines
    // or a wrong description within the same. Lines that the machine does not describe may be four
    // times as long.
    let above = if is_told { 2.0 } else { 4.0 };
    let range = range(line / 2.0, line, line * above);
    Law::hardware(range, from).and("the distances double, so the resolution is a factor of two")
}

/// Random over forward at one line a step, over a footprint beyond the private caches.
pub fn prefetch_gain(site: &Site, footprint: f64) -> Law {
    let hierarchy = Hierarchy::for_machine(Facts::prior(site));
    let random = hierarchy.random(footprint).likely;
    let l1 = hierarchy.l1().likely;
    let shares = exposed(core(site), Pattern::Forward, LINE, false, LINE);
    let gain = |share: f64| random / (l1 + share * (random - l1));
    let range = range(gain(shares.high) * 0.8, gain(shares.likely), gain(shares.low) * 1.2);
    Law::hardware(range, "the part of a random load's latency that prefetchers do not hide")
}

/// The least time of a load whose address is the load before, in ns. x86-64: no core answers in
/// under 3 cycles. Arm: two in the smallest cores, and designs that predict loaded values break the
/// chain, so that passing the bound there only warns.
pub fn least_load(site: &Site) -> Bound {
    let arm = site.host.cpu.arch == Arch::Aarch64;
    let cycles = if arm { 2.0 } else { 3.0 };
    let rule = format!("a load that depends on the previous load takes at least {cycles} cycles");
    Bound { uncertainty: 0.03, warns_only: arm, ..least_cycles(cycles, rule) }
}

#[cfg(test)]
mod tests;

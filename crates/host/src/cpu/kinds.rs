//! Which CPUs are alike: the design of each core, and kinds of core on a hybrid machine.

use record::order::{Gather, InOrder};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::cache::Caches;
use super::{Arch, Core, CoreKind, Cpu, CpuClass, LogicalCpu, Outside, Root, arm, table};

/// Cores of one design whose capacities or clocks are closer than this are alike: firmware rates
/// each core of a chip, and the best is a few percent above the worst.
const ALIKE: f64 = 1.1;

struct Group {
    core: Core,
    cpus: Vec<usize>,
    kind: CoreKind,
}

/// Fills in the kinds and classes: the design decides first, capacity only within one design.
pub(super) fn fill(root: &Root, outside: &Outside, cpu: &mut Cpu, caches: &Caches) {
    let groups = match cpu.arch {
        Arch::X86_64 => x86_groups(root, outside, cpu, caches),
        Arch::Aarch64 => arm_groups(cpu, caches),
    };
    for one in &mut cpu.cpus {
        let group = groups.iter().find(|group| group.cpus.contains(&one.id));
        one.kind = group.map_or(CoreKind::Uniform, |group| group.kind);
    }
    let class = |Group { core, cpus, kind }: Group| {
        let fastest = cpus.iter().filter_map(|id| cpu.cpu(*id)?.frequency.max_hz).max();
        CpuClass { kind, core, cpus, max_hz: fastest }
    };
    cpu.classes = groups.into_iter().map(class).collect();
}

fn online(cpu: &Cpu) -> impl Iterator<Item = &LogicalCpu> {
    cpu.cpus.iter().filter(|one| one.online)
}

/// Bytes of a CPU's cache of one level that holds data.
fn cache_bytes(caches: &Caches, level: u32, id: usize) -> Option<u64> {
    caches.data(level, id).filter(|cache| !cache.shared_by.is_empty()).map(|cache| cache.size_bytes)
}

/// Designs, strongest first, each in groups of one capacity.
fn arm_groups(cpu: &Cpu, caches: &Caches) -> Vec<Group> {
    let mut designs: BTreeMap<Option<u64>, Vec<&LogicalCpu>> = BTreeMap::new();
    for one in online(cpu) {
        designs.entry(one.midr.map(arm::design)).or_default().push(one);
    }
    let mut designs: Vec<Vec<&LogicalCpu>> = designs.into_values().collect();
    let row = |cpus: &[&LogicalCpu]| cpus[0].midr.and_then(arm::row);
    let ranked = designs.iter().all(|cpus| row(cpus).is_some());
    designs.order_by_key(|cpus| {
        let most = |value: &dyn Fn(&LogicalCpu) -> Option<u64>| {
            Reverse(cpus.iter().filter_map(|one| value(one)).max())
        };
        (
            Reverse(row(cpus).filter(|_| ranked).map(|row| row.rank)),
            most(&|one| one.capacity.map(u64::from)),
            most(&|one| one.frequency.max_hz),
            most(&|one| cache_bytes(caches, 2, one.id)),
            Reverse(row(cpus).map(|row| row.core)),
        )
    });
    let mut groups = Vec::new();
    for mut cpus in designs {
        let core = row(&cpus).map(|row| row.core).unwrap_or_default();
        // Frequencies alone do not tell cores of one design apart: servers have favoured ones.
        let capacity = |one: &LogicalCpu| one.capacity.map(u64::from);
        let cuts = cuts(&cpus, &capacity).into_iter().map(|(_, least)| least);
        for least in cuts.chain([0]) {
            let held = |one: &&LogicalCpu| least == 0 || capacity(one) >= Some(least);
            let (group, weaker): (Vec<_>, Vec<_>) = cpus.into_iter().partition(held);
            let ids = group.iter().map(|one| one.id).collect();
            groups.push(Group { core, cpus: ids, kind: CoreKind::Middle });
            cpus = weaker;
        }
    }
    if let [only] = groups.as_mut_slice() {
        only.kind = CoreKind::Uniform;
    } else if let [first, .., last] = groups.as_mut_slice() {
        (first.kind, last.kind) = (CoreKind::Performance, CoreKind::Efficiency);
    }
    groups
}

/// Where values of CPUs fall by more than [`ALIKE`], highest first: the factor, and the least value
/// above. None where a CPU has no value.
fn cuts(cpus: &[&LogicalCpu], value: &dyn Fn(&LogicalCpu) -> Option<u64>) -> Vec<(f64, u64)> {
    let values: Option<BTreeSet<u64>> = cpus.iter().map(|one| value(one)).collect();
    let values: Vec<u64> = values.unwrap_or_default().into_iter().rev().collect();
    let steps = values.windows(2).map(|pair| (pair[0] as f64 / pair[1] as f64, pair[0]));
    steps.filter(|(factor, _)| *factor > ALIKE).collect()
}

/// Big cores, small ones, and the low-power ones, which have no last-level cache, where these are of
/// another design.
fn x86_groups(root: &Root, outside: &Outside, cpu: &Cpu, caches: &Caches) -> Vec<Group> {
    let designs = table::model_of(cpu).map(|model| model.small).unwrap_or_default();
    let all: Vec<&LogicalCpu> = online(cpu).collect();
    let (by_kernel, low_power) = by_kernel(root);
    let guessed = by_caches_and_clocks(cpu, caches, &all, !designs.is_empty());
    let is_small = |one: &LogicalCpu| match &by_kernel {
        Some(small) => small.contains(&one.id),
        None => by_cpuid(outside, one.id).unwrap_or_else(|| guessed.contains(&one.id)),
    };
    let has_third = all.iter().any(|one| cache_bytes(caches, 3, one.id).is_some());
    let is_low = |one: &LogicalCpu| {
        low_power.contains(&one.id) || has_third && cache_bytes(caches, 3, one.id).is_none()
    };
    let mut groups: Vec<Group> = Vec::new();
    for one in &all {
        let design = if is_low(one) { designs.last() } else { designs.first() };
        let (core, kind) = match is_small(one) {
            false => (cpu.microarchitecture.core, CoreKind::Performance),
            true => (design.copied().unwrap_or_default(), CoreKind::Efficiency),
        };
        // A low-power core has a lower clock, also where its design is that of the other small ones.
        let is_like = |group: &&mut Group| {
            let first = all.iter().find(|other| other.id == group.cpus[0]);
            (group.core, group.kind) == (core, kind)
                && first.map(|one| is_low(one)) == Some(is_low(one))
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.cpus.push(one.id),
            None => groups.push(Group { core, cpus: vec![one.id], kind }),
        }
    }
    groups.order_by_key(|group| (group.kind, designs.iter().position(|one| *one == group.core)));
    if let [only] = groups.as_mut_slice() {
        only.kind = CoreKind::Uniform;
    }
    groups
}

/// Small CPUs, where the kernel has a PMU or a type for each kind, and of them the low-power ones.
fn by_kernel(root: &Root) -> (Option<BTreeSet<usize>>, BTreeSet<usize>) {
    let list = |paths: &[&str]| -> BTreeSet<usize> {
        paths.iter().flat_map(|path| root.cpus(path).unwrap_or_default()).gather()
    };
    let big =
        list(&["sys/devices/cpu_core/cpus", "sys/devices/system/cpu/types/intel_core_0/cpulist"]);
    let mut small =
        list(&["sys/devices/cpu_atom/cpus", "sys/devices/system/cpu/types/intel_atom_0/cpulist"]);
    let low_power = list(&["sys/devices/cpu_lowpower/cpus"]);
    small.extend(&low_power);
    ((!big.is_empty() && !small.is_empty()).then_some(small), low_power)
}

/// Whether a CPU is small by what it answers itself: leaf 1Ah has Intel's core type in EAX bits
/// 31:24 (20h is Atom), leaf 80000026h AMD's in EBX bits 31:28 (1 is efficiency) where EAX bit 30
/// says that types differ (Intel SDM 2A, CPUID; AMD APM 3, E.4.24).
fn by_cpuid(outside: &Outside, id: usize) -> Option<bool> {
    const ATOM: u32 = 0x20;
    let intel = outside.leaf_of(id, 0x1a).map(|leaf| leaf.eax >> 24).filter(|&kind| kind != 0);
    let amd = outside.leaf_of(id, 0x8000_0026).filter(|leaf| leaf.eax >> 30 & 1 == 1);
    intel.map(|kind| kind == ATOM).or_else(|| amd.map(|leaf| leaf.ebx >> 28 == 1))
}

/// Small CPUs by what the kernel shows of each: the size of the first data cache, which is one in
/// all cores of a design; on a chip that has small cores by its model, the largest fall of the
/// highest clock; last the size of the last-level cache.
fn by_caches_and_clocks(
    cpu: &Cpu,
    caches: &Caches,
    cpus: &[&LogicalCpu],
    has_small: bool,
) -> BTreeSet<usize> {
    let below = |value: &dyn Fn(&LogicalCpu) -> Option<u64>| {
        let falls = cuts(cpus, value).into_iter();
        let (_, least) = falls.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let small = cpus.iter().filter(|one| value(one) < Some(least));
        Some(small.map(|one| one.id).gather())
    };
    let first = |one: &LogicalCpu| cache_bytes(caches, 1, one.id);
    let by_first = below(&first);
    // Intel's small cores have another first cache than its big ones.
    let is_intel = cpu.vendor.as_deref() == Some("GenuineIntel");
    if by_first.is_some() || !has_small || is_intel && cpus.iter().all(|one| first(one).is_some()) {
        return by_first.unwrap_or_default();
    }
    let last = |one: &LogicalCpu| caches.last(one.id).map(|cache| cache.size_bytes);
    below(&|one| one.frequency.max_hz).or_else(|| below(&last)).unwrap_or_default()
}

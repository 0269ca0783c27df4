//! Which CPUs there are and how they hang together.

use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

use super::super::cache::{CacheKind, Caches};
use super::model::CpuInfo;
use super::{Arch, CoreKind, Cpu, CpuClass, Frequency, LogicalCpu, Outside, Root, arm};

const DIR: &str = "sys/devices/system/cpu";

/// Every present CPU, ascending.
pub(super) fn cpus(root: &Root, outside: &Outside, info: &CpuInfo) -> Vec<LogicalCpu> {
    let listed = |name: &str| root.cpus(&format!("{DIR}/{name}")).filter(|list| !list.is_empty());
    let online = listed("online").unwrap_or_else(|| info.ids());
    let online = if online.is_empty() { outside.allowed.clone() } else { online };
    let mut present = listed("present").unwrap_or_else(|| root.numbered(DIR, "cpu"));
    present.extend(&online);
    present.sort_unstable();
    present.dedup();
    let nodes = nodes(root);
    let is_in = |list: &[usize], id: usize| list.binary_search(&id).is_ok();
    present
        .into_iter()
        .map(|id| LogicalCpu {
            online: is_in(&online, id),
            // An unknown affinity mask forbids nothing.
            allowed: outside.allowed.is_empty() || is_in(&outside.allowed, id),
            node: nodes.get(&id).copied(),
            ..one(root, info, id)
        })
        .collect()
}

fn one(root: &Root, info: &CpuInfo, id: usize) -> LogicalCpu {
    let topology = |name: &str| {
        let number = root.number::<i64>(&format!("{DIR}/cpu{id}/topology/{name}"));
        // -1 (or its unsigned form) is the kernel's "not known".
        number.filter(|&value| value >= 0 && value != i64::from(u16::MAX))
    };
    let from_info = |name: &str| info.of(id, name)?.parse().ok();
    let siblings = |name: &str| root.cpus(&format!("{DIR}/cpu{id}/topology/{name}"));
    LogicalCpu {
        id,
        online: false,
        allowed: false,
        core: topology("core_id").or_else(|| from_info("core id")),
        package: topology("physical_package_id").or_else(|| from_info("physical id")),
        die: topology("die_id"),
        cluster: topology("cluster_id"),
        node: None,
        smt_siblings: siblings("core_cpus_list")
            .or_else(|| siblings("thread_siblings_list"))
            .unwrap_or_default(),
        llc_group: None,
        kind: CoreKind::Uniform,
        capacity: root.number(&format!("{DIR}/cpu{id}/cpu_capacity")),
        midr: None,
        frequency: Frequency::default(),
    }
}

/// CPU -> memory node.
fn nodes(root: &Root) -> BTreeMap<usize, usize> {
    const NODES: &str = "sys/devices/system/node";
    let mut map = BTreeMap::new();
    for node in root.numbered(NODES, "node") {
        for cpu in root.cpus(&format!("{NODES}/node{node}/cpulist")).unwrap_or_default() {
            map.insert(cpu, node);
        }
    }
    map
}

/// The kernel's own word, else whether some core has two online CPUs.
pub(super) fn smt_active(root: &Root, cpus: &[LogicalCpu]) -> Option<bool> {
    let stated = root.flag(&format!("{DIR}/smt/active"));
    let described = cpus.iter().any(|cpu| !cpu.smt_siblings.is_empty());
    stated.or_else(|| described.then(|| cpus.iter().any(|cpu| cpu.smt_siblings.len() > 1)))
}

/// Groups CPUs by their last-level cache: of the caches that hold data and contain the CPU, the one
/// of the highest level.
pub(super) fn fill_llc(cpus: &mut [LogicalCpu], caches: &Caches) {
    let mut best: BTreeMap<usize, (u32, usize)> = BTreeMap::new();
    for cache in caches.levels.iter().filter(|cache| cache.kind != CacheKind::Instruction) {
        for group in &cache.shared_by {
            let Some(&lowest) = group.first() else { continue };
            for &cpu in group {
                let entry = best.entry(cpu).or_insert((cache.level, lowest));
                if cache.level >= entry.0 {
                    *entry = (cache.level, lowest);
                }
            }
        }
    }
    for cpu in cpus {
        cpu.llc_group = best.get(&cpu.id).map(|&(_, lowest)| lowest);
    }
}

/// Kinds of the CPUs of a hybrid machine; empty when all are alike. x86: the kernel has one PMU per
/// kind (`/sys/devices/cpu_core`, `cpu_atom`). Arm: design and capacity.
pub(super) fn kinds(root: &Root, cpu: &Cpu) -> BTreeMap<usize, CoreKind> {
    match cpu.arch {
        Arch::X86_64 => intel_kinds(root),
        Arch::Aarch64 => arm_kinds(&cpu.cpus),
    }
}

fn intel_kinds(root: &Root) -> BTreeMap<usize, CoreKind> {
    let list = |paths: [&str; 2]| paths.iter().find_map(|path| root.cpus(path)).unwrap_or_default();
    let big =
        list(["sys/devices/cpu_core/cpus", "sys/devices/system/cpu/types/intel_core_0/cpulist"]);
    let mut small =
        list(["sys/devices/cpu_atom/cpus", "sys/devices/system/cpu/types/intel_atom_0/cpulist"]);
    small.extend(root.cpus("sys/devices/cpu_lowpower/cpus").unwrap_or_default());
    if big.is_empty() || small.is_empty() {
        return BTreeMap::new();
    }
    let big = big.into_iter().map(|id| (id, CoreKind::Performance));
    big.chain(small.into_iter().map(|id| (id, CoreKind::Efficiency))).gather()
}

/// Groups by capacity, which the kernel scales to 1024; without capacities by maximum frequency.
fn arm_kinds(cpus: &[LogicalCpu]) -> BTreeMap<usize, CoreKind> {
    // Frequencies alone do not make a machine hybrid: servers have favoured cores.
    let designs: BTreeSet<u64> = cpus.iter().filter_map(|cpu| cpu.midr).gather();
    let strength = |cpu: &LogicalCpu| match cpu.capacity {
        Some(capacity) => Some(u64::from(capacity)),
        None => cpu.frequency.max_hz.filter(|_| designs.len() > 1),
    };
    let known: Vec<(usize, u64)> =
        cpus.iter().filter_map(|cpu| Some((cpu.id, strength(cpu)?))).collect();
    let (least, most) = (known.iter().map(|k| k.1).min(), known.iter().map(|k| k.1).max());
    if least == most {
        return BTreeMap::new();
    }
    let kind = |value: u64| match value {
        value if Some(value) == most => CoreKind::Performance,
        value if Some(value) == least => CoreKind::Efficiency,
        _ => CoreKind::Middle,
    };
    known.into_iter().map(|(id, value)| (id, kind(value))).gather()
}

/// Online CPUs that are alike, performance cores first.
pub(super) fn classes(cpu: &Cpu) -> Vec<CpuClass> {
    let online: Vec<&LogicalCpu> = cpu.cpus.iter().filter(|one| one.online).collect();
    let mut classes: Vec<CpuClass> = Vec::new();
    for kind in [CoreKind::Performance, CoreKind::Uniform, CoreKind::Middle, CoreKind::Efficiency] {
        let members: Vec<&LogicalCpu> =
            online.iter().copied().filter(|one| one.kind == kind).collect();
        if members.is_empty() {
            continue;
        }
        let midr = members.iter().find_map(|one| one.midr);
        let core = match (midr, kind) {
            (Some(midr), _) => arm::part(midr),
            (None, CoreKind::Efficiency) => cpu.microarchitecture.core.small_partner(),
            (None, _) => cpu.microarchitecture.core,
        };
        classes.push(CpuClass {
            kind,
            core,
            cpus: members.iter().map(|one| one.id).collect(),
            max_hz: members.iter().filter_map(|one| one.frequency.max_hz).max(),
        });
    }
    classes
}

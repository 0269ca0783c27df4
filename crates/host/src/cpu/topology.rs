//! Which CPUs there are and how they hang together.

use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

use super::super::cache::{CacheKind, Caches};
use super::super::plausible::Doubts;
use super::model::CpuInfo;
use super::{Arch, Cpu, LogicalCpu, Outside, Root};

const DIR: &str = "sys/devices/system/cpu";

/// Every present CPU, ascending.
pub(super) fn cpus(root: &Root, outside: &Outside, info: &mut CpuInfo) -> Vec<LogicalCpu> {
    let online = online(root, outside, info);
    let mut present = listed(root, "present").unwrap_or_else(|| root.numbered(DIR, "cpu"));
    present.extend(&online);
    present.sort_unstable();
    present.dedup();
    let nodes = nodes(root);
    // An unknown affinity mask forbids nothing.
    let allowed = |id: usize| outside.allowed.is_empty() || is_in(&outside.allowed, id);
    info.renumber(online.iter().copied().filter(|id| allowed(*id)).collect());
    present
        .into_iter()
        // The kernel forgets where a CPU is that it takes off line; what a file still has is no
        // socket or core of this machine.
        .map(|id| match is_in(&online, id) {
            true => LogicalCpu { allowed: allowed(id), ..one(root, info, &nodes, id) },
            false => LogicalCpu { id, allowed: allowed(id), ..LogicalCpu::default() },
        })
        .collect()
}

fn is_in(list: &[usize], id: usize) -> bool {
    list.binary_search(&id).is_ok()
}

fn listed(root: &Root, name: &str) -> Option<Vec<usize>> {
    root.cpus(&format!("{DIR}/{name}")).filter(|list| !list.is_empty())
}

/// CPUs that run, ascending. The affinity mask is the kernel's answer and beats the list in a file:
/// LXCFS binds its own over `online`, with other numbers, so a list without an allowed CPU counts
/// for nothing. A mask of all possible CPUs restricts nothing, and `Cpus_allowed_list` then names
/// CPUs that do not run: beyond the list, only those count that say themselves that they run. A
/// mask of more CPUs than are possible is the width of the kernel's set.
fn online(root: &Root, outside: &Outside, info: &CpuInfo) -> Vec<usize> {
    let online = listed(root, "online").unwrap_or_else(|| info.ids());
    let possible = listed(root, "possible").or_else(|| listed(root, "present"));
    let possible = possible.unwrap_or_default();
    let mut mask = outside.allowed.clone();
    if mask.len() > possible.len() && mask.iter().any(|&id| is_in(&possible, id)) {
        mask.retain(|&id| is_in(&possible, id));
    }
    if !possible.is_empty() && possible.iter().all(|&id| is_in(&mask, id)) {
        let says_so = |id: usize| root.flag(&format!("{DIR}/cpu{id}/online")) == Some(true);
        mask.retain(|&id| is_in(&online, id) || online.is_empty() || says_so(id));
    }
    if mask.iter().all(|&id| is_in(&online, id)) { online } else { mask }
}

fn one(root: &Root, info: &CpuInfo, nodes: &BTreeMap<usize, usize>, id: usize) -> LogicalCpu {
    let topology = |name: &str| {
        let number = root.number::<i64>(&format!("{DIR}/cpu{id}/topology/{name}"));
        // -1 (or its unsigned form) is the kernel's "not known".
        number.filter(|&value| value >= 0 && value != i64::from(u16::MAX))
    };
    let from_info = |name: &str| info.field(id, name)?.parse().ok();
    let siblings = |name: &str| root.cpus(&format!("{DIR}/cpu{id}/topology/{name}"));
    LogicalCpu {
        id,
        online: true,
        core: topology("core_id").or_else(|| from_info("core id")),
        package: topology("physical_package_id").or_else(|| from_info("physical id")),
        die: topology("die_id"),
        cluster: topology("cluster_id"),
        node: nodes.get(&id).copied(),
        smt_siblings: siblings("core_cpus_list")
            .or_else(|| siblings("thread_siblings_list"))
            .unwrap_or_default(),
        capacity: root.number(&format!("{DIR}/cpu{id}/cpu_capacity")).filter(|&value| value > 0),
        ..LogicalCpu::default()
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

/// CPUs of the largest cluster of Arm cores: a DynamIQ Shared Unit has 14.
const CLUSTER_CPUS_MAX: usize = 14;

/// Joins packages that are no sockets, and says so. Three kinds are known. No cache serves two
/// sockets. Kernels of Arm boards without ACPI's table (PPTT) number clusters as packages; sockets
/// have memory nodes of their own. A hypervisor may show each CPU as a socket, with the memory of
/// one; the last-level caches that it shows for them are no better.
pub(super) fn join_packages(
    cpu: &mut Cpu,
    caches: &mut Caches,
    is_guest: bool,
    doubts: &mut Doubts,
) {
    let mut members: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    let mut nodes: BTreeMap<Option<usize>, BTreeSet<i64>> = BTreeMap::new();
    for one in cpu.cpus.iter() {
        let Some(package) = one.package else { continue };
        members.entry(package).or_default().push(one.id);
        nodes.entry(one.node).or_default().insert(package);
    }
    let are_small = |packages: &BTreeSet<i64>| {
        packages.iter().all(|package| members[package].len() <= CLUSTER_CPUS_MAX)
    };
    let are_clusters = |packages: &BTreeSet<i64>| cpu.arch == Arch::Aarch64 && are_small(packages);
    let mut joined: Vec<BTreeSet<i64>> =
        nodes.into_values().filter(|packages| is_guest || are_clusters(packages)).collect();
    let groups = caches.levels.iter().flat_map(|cache| &cache.shared_by);
    joined.extend(groups.map(|group| {
        group.iter().filter_map(|id| cpu.cpu(*id)?.package).gather::<BTreeSet<i64>>()
    }));
    let mut first: BTreeMap<i64, i64> = members.keys().map(|&key| (key, key)).gather();
    for packages in &joined {
        let Some(lowest) = packages.iter().map(|package| first[package]).min() else { continue };
        let old: BTreeSet<i64> = packages.iter().map(|package| first[package]).gather();
        first.values_mut().filter(|value| old.contains(value)).for_each(|value| *value = lowest);
    }
    let sockets: BTreeSet<i64> = first.values().copied().gather();
    if sockets.len() == members.len() {
        return;
    }
    if is_guest {
        join_caches(caches, &members, &first);
    }
    for one in &mut cpu.cpus {
        let Some(package) = one.package else { continue };
        one.cluster = one.cluster.or(Some(package).filter(|_| !is_guest));
        one.package = Some(first[&package]);
    }
    let (shown, whom) = (members.len(), if is_guest { "hypervisor" } else { "kernel" });
    doubts.0.push(format!(
        "sockets of the {whom}: it shows {shown}; caches and memory nodes show {}, which distances \
         and bandwidths follow",
        sockets.len()
    ));
}

/// Last-level caches of joined packages, one for each: one for all of them.
fn join_caches(
    caches: &mut Caches,
    members: &BTreeMap<i64, Vec<usize>>,
    first: &BTreeMap<i64, i64>,
) {
    for cache in caches.levels.iter_mut().filter(|cache| cache.level >= 3) {
        for group in &mut cache.shared_by {
            let Some((package, _)) = members.iter().find(|(_, ids)| *ids == group) else {
                continue;
            };
            let joined = members.iter().filter(|(other, _)| first[other] == first[package]);
            *group = joined.flat_map(|(_, ids)| ids.iter().copied()).collect();
            group.sort_unstable();
        }
        cache.shared_by.sort_unstable();
        cache.shared_by.dedup();
        cache.sharers = cache.shared_by.iter().map(Vec::len).max().unwrap_or(1);
    }
}

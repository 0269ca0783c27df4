//! Which CPUs there are and how they hang together.

use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

use super::super::cache::{CacheKind, Caches};
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
    let usable: Vec<usize> = online.iter().copied().filter(|id| allowed(*id)).collect();
    info.check_numbers(&usable);
    present
        .into_iter()
        .map(|id| match is_in(&online, id) {
            true => LogicalCpu { allowed: allowed(id), ..one(root, info, &nodes, id) },
            // The kernel forgets where a CPU is that it takes off line; what a file still has is
            // no socket or core of this machine.
            false => LogicalCpu { allowed: allowed(id), ..LogicalCpu::offline(id) },
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
/// LXCFS binds its own over `online`, with fewer CPUs or with other numbers. A mask of all possible
/// CPUs restricts nothing, and `Cpus_allowed_list` then names CPUs that do not run: beyond the
/// list, only those count that say themselves that they run. A mask of more CPUs than are possible
/// is the width of the kernel's set.
fn online(root: &Root, outside: &Outside, info: &CpuInfo) -> Vec<usize> {
    let listed_online = listed(root, "online").unwrap_or_else(|| info.ids());
    let possible = listed(root, "possible").or_else(|| listed(root, "present"));
    let possible = possible.unwrap_or_default();
    let mut mask = outside.allowed.clone();
    if mask.len() > possible.len() && mask.iter().any(|&id| is_in(&possible, id)) {
        mask.retain(|&id| is_in(&possible, id));
    }
    let says_nothing = !possible.is_empty() && possible.iter().all(|&id| is_in(&mask, id));
    let is_doubted = says_nothing && !listed_online.is_empty();
    let says_so = |id: usize| root.flag(&format!("{DIR}/cpu{id}/online")) == Some(true);
    mask.retain(|&id| !is_in(&listed_online, id) && (!is_doubted || says_so(id)));
    mask.extend(listed_online);
    mask.sort_unstable();
    mask
}

fn one(root: &Root, info: &CpuInfo, nodes: &BTreeMap<usize, usize>, id: usize) -> LogicalCpu {
    let topology = |name: &str| {
        let number = root.number::<i64>(&format!("{DIR}/cpu{id}/topology/{name}"));
        // -1 (or its unsigned form) is the kernel's "not known".
        number.filter(|&value| value >= 0 && value != i64::from(u16::MAX))
    };
    let from_info = |name: &str| info.own_field(id, name)?.parse().ok();
    let siblings = |name: &str| root.cpus(&format!("{DIR}/cpu{id}/topology/{name}"));
    LogicalCpu {
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
        ..LogicalCpu::offline(id)
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
pub(super) fn join_packages(cpu: &mut Cpu, caches: &mut Caches, is_guest: bool) {
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
    let are_clusters =
        |packages: &BTreeSet<i64>| cpu.arch == Arch::Aarch64 && are_small(packages);
    let mut joined: Vec<BTreeSet<i64>> =
        nodes.into_values().filter(|packages| is_guest || are_clusters(packages)).collect();
    for group in caches.levels.iter().flat_map(|cache| &cache.shared_by) {
        let holds = |ids: &Vec<usize>| ids.iter().any(|id| is_in(group, *id));
        let served = members.iter().filter(|(_, ids)| holds(ids)).map(|(package, _)| *package);
        joined.push(served.gather());
    }
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
    cpu.notes.push(format!(
        "the {whom} shows {shown} sockets; caches and memory nodes show {}, which distances and \
         bandwidths follow",
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
        let is_whole = |group: &Vec<usize>| members.values().any(|ids| ids == group);
        let (whole, mut others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut cache.shared_by).into_iter().partition(is_whole);
        let mut of_socket: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (package, ids) in members.iter().filter(|(_, ids)| whole.contains(ids)) {
            of_socket.entry(first[package]).or_default().extend(ids);
        }
        others.extend(of_socket.into_values());
        others.iter_mut().for_each(|group| group.sort_unstable());
        others.sort_unstable();
        cache.sharers = others.iter().map(Vec::len).max().unwrap_or(1);
        cache.shared_by = others;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Host, Root, format_cpus};

    const CPU: &str = "sys/devices/system/cpu";

    /// CPUs that this process may use, by the lists of /sys and the affinity mask.
    fn usable(online: &str, possible: &str, allowed: &str, more: &str) -> String {
        let host = Host::read(&Root::tree(&format!(
            "== {CPU}/online\n{online}\n== {CPU}/present\n{possible}\n== {CPU}/possible\n{possible}\n\
             == facts.txt\nallowed={allowed}\n{more}"
        )));
        format_cpus(&host.cpu.usable())
    }

    #[test]
    fn the_affinity_mask_beats_the_list_of_online_cpus() {
        for (online, possible, allowed, expected) in [
            // LXCFS: one CPU shown as 0, four renumbered, none in common.
            ("0", "0-31", "24", "24"),
            ("0-3", "0-31", "2-5", "2-5"),
            ("0-1", "0-63", "8-11,40-43", "8-11,40-43"),
            ("0-3", "0-3", "2-5", "2-5"),
            // A mask of all CPUs: half are off, or none is there yet.
            ("0-3", "0-7", "0-7", "0-3"),
            ("0-3", "0-127", "0-127", "0-3"),
            // The width of the kernel's set.
            ("0-7", "0-7", "0-8191", "0-7"),
            ("0-7", "0-7", "4-8191", "4-7"),
            ("0-7", "0-7", "2-3", "2-3"),
        ] {
            assert_eq!(usable(online, possible, allowed, ""), expected, "{online} and {allowed}");
        }
        // LXCFS shows fewer CPUs than the mask by a quota; each says itself that it runs.
        let run = format!("== {CPU}/cpu{{1-5}}/online\n1\n== {CPU}/cpu{{6-7}}/online\n0\n");
        assert_eq!(usable("0", "0-7", "0-7", &run), "0-5");
    }

    #[test]
    fn renumbered_processors_say_nothing_of_places() {
        let host = Host::read(&Root::tree(&format!(
            "== {CPU}/online\n0-1\n== {CPU}/present\n0-7\n== facts.txt\nallowed=4-5\n\
             == proc/cpuinfo\nprocessor : 0\ncpu MHz : 2000.000\nphysical id : 1\n\n\
             processor : 1\ncpu MHz : 2000.000\nphysical id : 1\n"
        )));
        let cpu = host.cpu.cpu(5).expect("the mask has it");
        assert_eq!((cpu.package, cpu.frequency.current_hz), (None, Some(2_000_000_000)));
    }

    #[test]
    fn a_cpu_that_is_off_is_in_no_socket() {
        let tree = format!(
            "== {CPU}/online\n0-1\n== {CPU}/present\n0-3\n== facts.txt\nallowed=0-1\n\
             =* {CPU}/cpu{{0-3}}/topology/physical_package_id\n0\n0\n1\n1\n"
        );
        let cpu = Host::read(&Root::tree(&tree)).cpu;
        assert_eq!((cpu.cpus.len(), cpu.packages(), cpu.cpus[3].package), (4, Some(1), None));
    }

    /// CPUs with the ids of their packages, in memory nodes of `per_node` CPUs, with a last-level
    /// cache of each list.
    fn packages(ids: &[usize], per_node: usize, llc: &[&str], more: &str) -> Host {
        let mut tree = format!("== {CPU}/online\n0-{}\n{more}", ids.len() - 1);
        for (cpu, id) in ids.iter().enumerate() {
            tree += &format!("== {CPU}/cpu{cpu}/topology/physical_package_id\n{id}\n");
            let node = format!("sys/devices/system/node/node{}", cpu / per_node);
            let (first, last) = (cpu / per_node * per_node, (cpu / per_node + 1) * per_node - 1);
            tree += &format!("== {node}/cpulist\n{first}-{last}\n");
        }
        for group in llc {
            let dir = format!("{CPU}/cpu{{{group}}}/cache/index3");
            tree += &format!("== {dir}/level\n3\n== {dir}/type\nUnified\n== {dir}/size\n16384K\n");
            tree += &format!("== {dir}/shared_cpu_list\n{group}\n");
        }
        Host::read(&Root::tree(&tree))
    }

    #[test]
    fn clusters_of_arm_cores_are_no_sockets() {
        let arm = "== facts.txt\narch=aarch64\n";
        let clusters = [0, 0, 0, 0, 1, 1, 2, 2];
        for llc in [&["0-7"][..], &[]] {
            let cpu = packages(&clusters, 8, llc, arm).cpu;
            assert_eq!((cpu.packages(), cpu.cpus[5].cluster, cpu.notes.len()), (Some(1), Some(1), 1));
        }
        // Two sockets with memory of their own, and two large ones on a board without.
        assert_eq!(packages(&clusters[..6], 4, &[], arm).cpu.packages(), Some(2));
        let large: Vec<usize> = (0..64).map(|cpu| cpu / 32).collect();
        assert_eq!(packages(&large, 64, &[], arm).cpu.packages(), Some(2));
        // On other machines packages are sockets, unless one cache serves them.
        let x86 = "== facts.txt\narch=x86_64\n";
        assert_eq!(packages(&clusters, 8, &[], x86).cpu.packages(), Some(3));
        assert_eq!(packages(&clusters, 8, &["0-7"], x86).cpu.packages(), Some(1));
    }

    #[test]
    fn sockets_of_a_guest_without_memory_of_their_own_are_one() {
        let guest = "== facts.txt\narch=x86_64\n== proc/cpuinfo\nprocessor : 0\nflags : hypervisor\n\
            == cpuid.txt\n1 0 606a6 0 fffa3203 1f8bfbff\n40000000 0 40000001 4b4d564b 564b4d56 4d\n";
        let each = packages(&[0, 1, 2, 3], 4, &["0", "1", "2", "3"], guest);
        let one = packages(&[0, 0, 0, 0], 4, &["0-3"], guest);
        assert_eq!((each.cpu.packages(), one.cpu.packages()), (Some(1), Some(1)));
        assert_eq!((each.cpu.notes.len(), one.cpu.notes.len()), (1, 0));
        assert_eq!(each.cache, one.cache);
        assert_eq!(each.cpu.distance(0, 3), one.cpu.distance(0, 3));
        let pairs = packages(&[0, 0, 1, 1], 4, &["0-1", "2-3"], guest);
        assert_eq!((pairs.cpu.packages(), pairs.cache), (Some(1), one.cache));
        let honest = packages(&[0, 0, 1, 1], 2, &["0-1", "2-3"], guest).cpu;
        assert_eq!((honest.packages(), honest.notes.len()), (Some(2), 0));
    }
}

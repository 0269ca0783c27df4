//! Memory nodes.

use serde::{Deserialize, Serialize};

use super::{Cpu, Root, parse_cpus};

/// Memory nodes and their distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Numa {
    /// Online nodes, ascending by number. Empty when the kernel has no NUMA support.
    pub nodes: Vec<Node>,
    /// Nodes whose memory this process may use (cpuset); `None` where the kernel does not tell.
    #[serde(default)]
    pub allowed: Option<Vec<usize>>,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// The kernel's number.
    pub id: usize,
    /// Its CPUs (online ones, as the kernel lists them).
    pub cpus: Vec<usize>,
    /// Memory. With deferred initialisation it may be below the machine's total.
    pub total_bytes: Option<u64>,
    /// Free memory at the time of reading.
    pub free_bytes: Option<u64>,
    /// Pages of files that were not used lately: the kernel drops them for who needs memory.
    #[serde(default)]
    pub idle_file_bytes: Option<u64>,
    /// Firmware's relative distances (10 = local), in the order of [`Numa::nodes`].
    pub distances: Vec<u32>,
    /// No CPU of its own (CXL or persistent memory, GPU memory).
    pub memory_only: bool,
}

pub(super) fn read(root: &Root, cpu: &Cpu) -> Numa {
    const DIR: &str = "sys/devices/system/node";
    let online = root
        .cpus(&format!("{DIR}/online"))
        .filter(|nodes| !nodes.is_empty());
    let ids = online.unwrap_or_else(|| root.numbered(DIR, "node"));
    let nodes = ids
        .into_iter()
        .map(|id| node(root, cpu, &format!("{DIR}/node{id}"), id))
        .collect();
    let status = root.read("proc/self/status").unwrap_or_default();
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Mems_allowed_list:"))
        .map(parse_cpus)
        .filter(|nodes| !nodes.is_empty());
    Numa { nodes, allowed }
}

fn node(root: &Root, cpu: &Cpu, dir: &str, id: usize) -> Node {
    let listed = root.cpus(&format!("{dir}/cpulist"));
    let cpus = listed.unwrap_or_else(|| {
        cpu.cpus
            .iter()
            .filter(|one| one.node == Some(id) && one.online)
            .map(|one| one.id)
            .collect()
    });
    let meminfo = root.read(&format!("{dir}/meminfo")).unwrap_or_default();
    let distances = root.line(&format!("{dir}/distance")).unwrap_or_default();
    Node {
        id,
        total_bytes: node_bytes(&meminfo, "MemTotal:"),
        free_bytes: node_bytes(&meminfo, "MemFree:"),
        idle_file_bytes: node_bytes(&meminfo, "Inactive(file):"),
        distances: distances
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect(),
        memory_only: cpus.is_empty(),
        cpus,
    }
}

/// `Node 0 MemTotal:       24684084 kB`
fn node_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| Some(line.split_once(name)?.1))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

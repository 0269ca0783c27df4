//! Memory nodes.

use serde::{Deserialize, Serialize};

use super::{Cpu, Root, parse_cpus, text};

/// Memory nodes and their distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numa {
    /// Online nodes, ascending by number. Empty when the kernel has no NUMA support.
    pub nodes: Vec<Node>,
    /// Nodes whose memory this process may use (cpuset); `None` if the kernel does not report it.
    pub allowed: Option<Vec<usize>>,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: usize,
    /// Its CPUs (online ones, as the kernel lists them).
    pub cpus: Vec<usize>,
    /// Memory. With deferred initialisation it may be below the machine's total.
    pub total_bytes: Option<u64>,
    /// Free memory at the time of reading.
    pub free_bytes: Option<u64>,
    /// Pages of files that were not used lately: the kernel drops them if memory is needed.
    pub idle_file_bytes: Option<u64>,
    /// Firmware's relative distances (10 = local), in the order of [`Numa::nodes`].
    pub distances: Vec<u32>,
    /// No CPU of its own (CXL or persistent memory, GPU memory).
    pub memory_only: bool,
}

/// Bytes that memory bound to this machine's node `id` can have at most, now: free ones, and pages
/// of files, which the kernel drops for it. `None` if the kernel does not report it.
pub fn room_now(id: usize) -> Option<u64> {
    let meminfo = format!("/sys/devices/system/node/node{id}/meminfo");
    room_of(&std::fs::read_to_string(meminfo).ok()?)
}

fn room_of(meminfo: &str) -> Option<u64> {
    let files = ["Active(file):", "Inactive(file):"];
    let files = files.map(|name| text::bytes(meminfo, name).unwrap_or(0));
    let free = text::bytes(meminfo, "MemFree:")?;
    Some(files.into_iter().fold(free, u64::saturating_add))
}

pub(super) fn read(root: &Root, cpu: &Cpu) -> Numa {
    const DIR: &str = "sys/devices/system/node";
    let online = root.cpus(&format!("{DIR}/online")).filter(|nodes| !nodes.is_empty());
    let ids = online.unwrap_or_else(|| root.numbered(DIR, "node"));
    let nodes = ids.into_iter().map(|id| node(root, cpu, &format!("{DIR}/node{id}"), id)).collect();
    let status = root.read("proc/self/status").unwrap_or_default();
    let allowed = text::after(&status, "Mems_allowed_list:").map(parse_cpus);
    let allowed = allowed.filter(|nodes| !nodes.is_empty());
    Numa { nodes, allowed }
}

fn node(root: &Root, cpu: &Cpu, dir: &str, id: usize) -> Node {
    let listed = root.cpus(&format!("{dir}/cpulist"));
    let cpus = listed.unwrap_or_else(|| {
        cpu.cpus.iter().filter(|one| one.node == Some(id) && one.online).map(|one| one.id).collect()
    });
    let meminfo = root.read(&format!("{dir}/meminfo")).unwrap_or_default();
    let distances = root.line(&format!("{dir}/distance")).unwrap_or_default();
    Node {
        id,
        total_bytes: text::bytes(&meminfo, "MemTotal:"),
        free_bytes: text::bytes(&meminfo, "MemFree:"),
        idle_file_bytes: text::bytes(&meminfo, "Inactive(file):"),
        distances: text::numbers(&distances).collect(),
        memory_only: cpus.is_empty(),
        cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::room_of;

    #[test]
    fn room_is_what_is_free_and_what_the_kernel_can_drop() {
        let told = "Node 1 MemTotal: 9000 kB\nNode 1 MemFree: 100 kB\nNode 1 Active: 70 kB\n\
                    Node 1 Active(file): 20 kB\nNode 1 Inactive(file): 3 kB\n";
        assert_eq!(room_of(told), Some(123 << 10));
        assert_eq!(room_of("Node 1 MemFree: 5 kB\n"), Some(5 << 10));
        assert_eq!(room_of("Node 1 MemTotal: 9000 kB\n"), None);
    }
}

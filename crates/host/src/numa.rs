//! Memory nodes.

use serde::{Deserialize, Serialize};

use super::{LogicalCpu, Outside, Root, parse_cpus, text};

/// Memory nodes and their distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numa {
    /// Online nodes, ascending by number. Empty when the kernel has no NUMA support.
    pub nodes: Vec<Node>,
    /// Nodes whose memory this process may use (cpuset); `None` if the kernel does not report it.
    pub allowed: Option<Vec<usize>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
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

/// Nodes with less have no memory to speak of: firmware leaves such rests.
const LEAST_BYTES: u64 = 64 << 20;

/// The node of this machine that memory for a CPU of node `of` comes from.
pub fn memory_node(of: usize) -> usize {
    read(&Root::live(Outside::default()), &[]).memory_node(of)
}

impl Numa {
    /// The node that memory for a CPU of node `of` comes from: that node, or where it has no memory
    /// or this process may not use it, the nearest that has some.
    pub fn memory_node(&self, of: usize) -> usize {
        let is_allowed = |id| self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&id));
        let has = |node: &&Node| {
            is_allowed(node.id) && node.total_bytes.is_none_or(|bytes| bytes >= LEAST_BYTES)
        };
        let at = |id| self.nodes.iter().position(|node| node.id == id);
        let distance =
            |from: usize, to: usize| self.nodes[at(from)?].distances.get(at(to)?).copied();
        let far = |node: &Node| distance(of, node.id).or(distance(node.id, of)).unwrap_or(u32::MAX);
        let nearest = self.nodes.iter().filter(has).min_by_key(|node| (node.id != of, far(node)));
        nearest.map_or(of, |node| node.id)
    }
}

pub(super) fn read(root: &Root, cpus: &[LogicalCpu]) -> Numa {
    const DIR: &str = "sys/devices/system/node";
    let online = root.cpus(&format!("{DIR}/online")).filter(|nodes| !nodes.is_empty());
    let ids = online.unwrap_or_else(|| root.numbered(DIR, "node"));
    let is_described = |id: &usize| {
        root.exists(&format!("{DIR}/node{id}")) || cpus.iter().any(|cpu| cpu.node == Some(*id))
    };
    let nodes = ids.into_iter().filter(is_described);
    let nodes = nodes.map(|id| node(root, cpus, &format!("{DIR}/node{id}"), id)).collect();
    let status = root.read("proc/self/status").unwrap_or_default();
    let allowed = text::after(&status, "Mems_allowed_list:").map(parse_cpus);
    let allowed = allowed.filter(|nodes| !nodes.is_empty());
    Numa { nodes, allowed }
}

fn node(root: &Root, cpus: &[LogicalCpu], dir: &str, id: usize) -> Node {
    let listed = root.cpus(&format!("{dir}/cpulist"));
    let cpus = listed.unwrap_or_else(|| {
        cpus.iter().filter(|one| one.node == Some(id) && one.online).map(|one| one.id).collect()
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
    use super::{LogicalCpu, read, room_of};
    use crate::Root;

    #[test]
    fn memory_comes_from_the_nearest_node_that_has_some() {
        let check = |kib: [u64; 4], distances: &str, allowed: &str, expected: [usize; 4]| {
            let nodes = (0..4).map(|id| {
                let (dir, row) = ("== sys/devices/system/node/node", distances.lines().nth(id));
                let row = row.unwrap_or_default();
                format!(
                    "{dir}{id}/meminfo\nNode {id} MemTotal: {} kB\n{dir}{id}/distance\n{row}\n",
                    kib[id]
                )
            });
            let tree = nodes.collect::<String>() + "== proc/self/status\n" + allowed + "\n";
            let numa = read(&Root::tree(&tree), &[]);
            assert_eq!([0, 1, 2, 3].map(|of| numa.memory_node(of)), expected, "{tree}");
        };
        let rows = "10 21 17 40\n21 10 28 40\n17 28 10 40\n40 40 40 10\n";
        const G: u64 = 1 << 20;
        check([G; 4], rows, "", [0, 1, 2, 3]);
        check([0, G, G, G], rows, "", [2, 1, 2, 3]);
        // A few MB only; the nearest forbidden; no distances; none at all.
        check([0, G, G, 8192], rows, "", [2, 1, 2, 1]);
        check([0, G, G, G], rows, "Mems_allowed_list:\t1,3", [1, 1, 1, 3]);
        check([0, G, G, G], "", "", [1, 1, 2, 3]);
        check([0; 4], rows, "", [0, 1, 2, 3]);
        assert_eq!(read(&Root::tree(""), &[]).memory_node(7), 7);
    }

    #[test]
    fn a_node_in_the_list_without_a_description_is_none() {
        let tree = "== sys/devices/system/node/online\n0-2047\n\
                    == sys/devices/system/node/node1/meminfo\nNode 1 MemTotal: 9000 kB\n";
        let nodes = |cpus: &[_]| -> Vec<_> {
            read(&Root::tree(tree), cpus).nodes.iter().map(|node| node.id).collect()
        };
        assert_eq!(nodes(&[]), [1]);
        let cpu = LogicalCpu { node: Some(7), ..LogicalCpu::default() };
        assert_eq!(nodes(&[cpu]), [1, 7]);
    }

    #[test]
    fn room_is_what_is_free_and_what_the_kernel_can_drop() {
        let told = "Node 1 MemTotal: 9000 kB\nNode 1 MemFree: 100 kB\nNode 1 Active: 70 kB\n\
                    Node 1 Active(file): 20 kB\nNode 1 Inactive(file): 3 kB\n";
        assert_eq!(room_of(told), Some(123 << 10));
        assert_eq!(room_of("Node 1 MemFree: 5 kB\n"), Some(5 << 10));
        assert_eq!(room_of("Node 1 MemTotal: 9000 kB\n"), None);
    }
}

//! Memory nodes.

use serde::{Deserialize, Serialize};

use super::{Cpu, Root};

/// Memory nodes and their distances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numa {
    /// Online nodes, ascending by number. Empty when the kernel has no NUMA support.
    pub nodes: Vec<Node>,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: usize,
    /// Its CPUs (online ones, as the kernel lists them).
    pub cpus: Vec<usize>,
    /// Memory.
    pub total_bytes: Option<u64>,
    /// Free memory at the time of reading.
    pub free_bytes: Option<u64>,
    /// Firmware's relative distances (10 = local), in the order of [`Numa::nodes`].
    pub distances: Vec<u32>,
    /// No CPU of its own (CXL or persistent memory, GPU memory).
    pub memory_only: bool,
}

pub(super) fn read(_: &Root, _: &Cpu) -> Numa { Numa::default() }

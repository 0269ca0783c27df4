//! The machine as one read-only value.
//!
//! [`Host::read`] looks at the machine once, through a [`Root`]: the live `/proc` and `/sys`, or a
//! recorded tree. Facts outside files come in one small struct, [`Outside`], which a recorded tree
//! replaces too, so the same code reads this machine and a recorded one.
//!
//! Every fact is an `Option` if a machine may not report it: containers hide files, hypervisors
//! mask CPUID, old kernels lack directories. Reading never fails and never panics; absence is an
//! answer.
//!
//! METHOD is docs/METHOD.md.
#![forbid(unsafe_code)]

mod around;
pub mod block;
pub mod cache;
pub mod cgroup;
mod choose;
pub mod counters;
pub mod cpu;
mod cpulist;
pub mod dmi;
pub mod environment;
pub mod given;
mod identity;
pub mod interrupts;
pub mod kernel;
mod kernel_answers;
pub mod limits;
pub mod memory;
pub mod mountinfo;
pub mod mountstats;
pub mod net;
pub mod numa;
pub mod oom;
mod outside;
pub mod place;
pub mod plausible;
pub mod ports;
pub mod programs;
pub mod refused;
mod root;
pub mod scheduler;
#[cfg(test)]
mod tests;
pub mod text;
pub mod tlb;
pub mod tracepoints;

use serde::{Deserialize, Serialize};

pub use block::Block;
pub use cache::Caches;
pub use choose::choose_cpu;
pub use cpu::{Arch, Core, CoreKind, Cpu, Distance, LogicalCpu};
pub use cpulist::{format_cpus, parse_cpus};
pub use given::Given;
pub use identity::Identity;
pub use kernel::Kernel;
pub use limits::Limits;
pub use memory::Memory;
pub use net::Net;
pub use numa::Numa;
pub use outside::{CpuidLeaf, Outside};
pub use record::machine::fnv1a;
pub use root::Root;

/// One machine, as its kernel, its firmware and its user describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Processor: model, features, topology, clock.
    pub cpu: Cpu,
    pub cache: Caches,
    /// Memory nodes and their distances.
    pub numa: Numa,
    /// Main memory and how the kernel manages it.
    pub memory: Memory,
    /// Network interfaces and socket settings.
    pub net: Net,
    /// Disks and mounted file systems.
    pub block: Block,
    /// Kernel, distribution, hypervisor, container, settings that disturb or protect.
    pub kernel: Kernel,
    /// What this process may use: control groups, resource limits.
    pub limits: Limits,
    /// Facts given by the user with `--set host.<path>=value`.
    pub given: Given,
    /// What does not change from boot to boot.
    pub identity: Identity,
    /// Stated values that no machine has and that are absent here ([`plausible`]), a sentence for
    /// each source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

impl Host {
    /// A machine as a record's header has it. Errors: what is missing or of another kind.
    pub fn recorded(host: &serde_json::Value) -> serde_json::Result<Host> {
        Host::from_json(&serde_json::to_vec(host)?)
    }

    /// A machine as JSON has it. This and [`Host::to_json`] are the only readers and writers of one,
    /// because each of them is 50 to 300 KB of code. Errors: what is missing or of another kind, with
    /// its line.
    pub fn from_json(json: &[u8]) -> serde_json::Result<Host> {
        serde_json::from_slice(json)
    }

    /// The machine as JSON. Errors: it has what JSON has not.
    pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    /// Reads the machine under `root`. Facts missing from `root` are `None` or empty.
    pub fn read(root: &Root) -> Host {
        let outside = root.outside();
        let mut doubts = plausible::Doubts::default();
        let mut cpu = cpu::read(root, &outside, &mut doubts);
        let mut cache = cache::read(root, &outside, &cpu, &mut doubts);
        let mut kernel = kernel::read(root, &outside);
        let is_guest = kernel.virtualisation.is_guest == Some(true);
        cpu.settle(root, &outside, &mut cache, is_guest, &mut doubts);
        let mut memory = memory::read(root, &outside, &mut doubts);
        kernel_answers::settle(root, &mut memory, &mut kernel);
        let identity = identity::identity(root, &cpu, &kernel);
        Host {
            numa: numa::read(root, &cpu.cpus),
            net: net::read(root, &outside),
            block: block::read(root),
            limits: limits::read(root, &outside, &cpu),
            given: Given::default(),
            cpu,
            cache,
            memory,
            kernel,
            identity,
            doubts: doubts.0,
        }
    }

    /// Bytes that plumb may take at most: the smaller of `MemAvailable` and what is left under the
    /// tightest control group limit. `None` if the machine reports neither.
    pub fn memory_ceiling_bytes(&self) -> Option<u64> {
        let available = self.memory.available_bytes;
        match (available, self.limits.memory_left_bytes) {
            (Some(machine), Some(group)) => Some(machine.min(group)),
            (machine, group) => machine.or(group),
        }
    }
}

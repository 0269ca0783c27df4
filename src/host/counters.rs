//! Counters of what disturbs a measurement, read before and after every round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Root;

/// Counters at one moment. All counts since boot (or since the group or thread began).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Per CPU; only the CPUs that were asked for.
    pub cpus: BTreeMap<usize, CpuCounters>,
    /// Time this process's control group was throttled.
    pub throttled_ns: Option<u64>,
    /// Periods in which it was throttled.
    pub throttled_periods: Option<u64>,
    /// Time the calling thread waited for a CPU while runnable.
    pub run_delay_ns: Option<u64>,
    /// Migrations of the calling thread between CPUs.
    pub migrations: Option<u64>,
    /// Time some task waited for a CPU.
    pub cpu_pressure_us: Option<u64>,
    /// Time some task waited for memory.
    pub memory_pressure_us: Option<u64>,
    /// Time some task waited for I/O.
    pub io_pressure_us: Option<u64>,
    /// One-minute load. In a delta: the later one.
    pub load: Option<f64>,
}

/// Counters of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCounters {
    /// Time the hypervisor ran something else.
    pub steal_ns: Option<u64>,
    /// Device interrupts (numbered lines of `/proc/interrupts`).
    pub device_interrupts: Option<u64>,
    /// Local timer interrupts.
    pub timer_interrupts: Option<u64>,
    /// All other interrupts (rescheduling, function calls, TLB shootdowns, …).
    pub other_interrupts: Option<u64>,
}

impl Snapshot {
    /// Reads the counters of `cpus` and of the calling thread.
    pub fn read(_root: &Root, _cpus: &[usize]) -> Snapshot { Snapshot::default() }
    /// What happened since `earlier`.
    pub fn delta(&self, _earlier: &Snapshot) -> Snapshot { Snapshot::default() }
}

//! What this process may use.

use serde::{Deserialize, Serialize};

use super::cgroup;
use super::{Cpu, Outside, Root};

/// Limits of this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Control group versions in use: `v1`, `v2` or `hybrid`.
    pub cgroup: Option<String>,
    /// Tightest memory limit over the hierarchy; `None` when there is none.
    pub memory_bytes: Option<u64>,
    /// Memory in use by the group that has the tightest limit.
    pub memory_used_bytes: Option<u64>,
    /// The least room (limit − usage) over the hierarchy.
    pub memory_left_bytes: Option<u64>,
    /// Tightest CPU quota over the hierarchy; `None` when there is none.
    pub cpu_quota: Option<CpuQuota>,
    /// CPUs of the cpuset, as the kernel lists them.
    pub cpuset: Option<Vec<usize>>,
    /// Files that count throttling, innermost group first (paths under the root).
    pub throttling_files: Vec<String>,
    /// Memory that may be locked.
    pub locked_memory: Option<Rlimit>,
    /// Files that may be open.
    pub open_files: Option<Rlimit>,
    /// CPUs this process can keep busy: min(allowed online CPUs, quota).
    pub effective_cpus: Option<f64>,
}

/// A CPU quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// CPU time per period.
    pub quota_us: u64,
    /// Period.
    pub period_us: u64,
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Enforced now.
    pub soft: Option<u64>,
    /// Ceiling for `soft`.
    pub hard: Option<u64>,
}

pub(super) fn read(_: &Root, _: &Outside, _: &Cpu) -> Limits { Limits::default() }

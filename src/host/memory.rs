//! Main memory and how the kernel manages it.

use serde::{Deserialize, Serialize};

use super::dmi::{self, Dimm};
use super::{Outside, Root};

/// Main memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// `MemTotal`.
    pub total_bytes: Option<u64>,
    /// `MemAvailable`.
    pub available_bytes: Option<u64>,
    /// `MemFree`.
    pub free_bytes: Option<u64>,
    /// `Dirty`.
    pub dirty_bytes: Option<u64>,
    /// `SwapTotal`.
    pub swap_total_bytes: Option<u64>,
    /// `SwapTotal − SwapFree`.
    pub swap_used_bytes: Option<u64>,
    /// Base page.
    pub page_bytes: Option<u64>,
    /// Transparent huge pages.
    pub thp: TransparentHugePages,
    /// `hugetlb` pools, ascending by page size.
    pub huge_pages: Vec<HugePagePool>,
    /// Same-page merging.
    pub ksm: Ksm,
    /// `vm.overcommit_memory` (0 heuristic, 1 always, 2 never).
    pub overcommit: Option<u32>,
    /// `vm.swappiness`.
    pub swappiness: Option<u32>,
    /// `vm.dirty_ratio`, percent of available memory.
    pub dirty_ratio_percent: Option<u32>,
    /// `vm.dirty_background_ratio`, percent of available memory.
    pub dirty_background_ratio_percent: Option<u32>,
    /// `zswap` compresses pages before swap.
    pub zswap: Option<bool>,
    /// Automatic NUMA balancing is on (non-zero `kernel.numa_balancing`).
    pub numa_balancing: Option<bool>,
    /// Memory modules (DMI type 17), when the table is readable.
    pub dimms: Vec<Dimm>,
}

/// Transparent huge pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransparentHugePages {
    /// `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// When a fault compacts memory for a huge page.
    pub defrag: Option<String>,
    /// Same for shared memory.
    pub shmem_enabled: Option<String>,
    /// khugepaged defragments.
    pub khugepaged_defrag: Option<bool>,
    /// Pause between khugepaged's scans.
    pub khugepaged_sleep_ms: Option<u64>,
    /// Size of one huge page.
    pub page_bytes: Option<u64>,
}

/// One `hugetlb` pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePagePool {
    /// Page size.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages that nobody uses.
    pub free: u64,
}

/// Same-page merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ksm {
    /// Runs now.
    pub running: Option<bool>,
    /// Pages merged away.
    pub sharing_pages: Option<u64>,
}

pub(super) fn read(_: &Root, _: &Outside) -> Memory { Memory::default() }

//! Main memory and how the kernel manages it.

use record::order::InOrder;
use serde::{Deserialize, Serialize};

use super::dmi::{self, Dimm};
use super::plausible::{Doubts, is_plausible};
use super::{Outside, Root, text};

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
    /// Whether this process may have them (`prctl(PR_SET_THP_DISABLE)`), since Linux 5.0.
    pub for_process: Option<bool>,
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
    /// Unused pages.
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

pub(super) fn read(root: &Root, outside: &Outside, doubts: &mut Doubts) -> Memory {
    let meminfo = root.read("proc/meminfo").unwrap_or_default();
    let swap_total = text::bytes(&meminfo, "SwapTotal:");
    let swap_free = text::bytes(&meminfo, "SwapFree:");
    let mut stated = |name: &str, quantity: &str| {
        let kib = text::beside(&meminfo, name)?.trim_end_matches("kB");
        doubts.number(quantity, (name, "/proc/meminfo"), kib, 1024.0)
    };
    Memory {
        total_bytes: stated("MemTotal", "memory.total"),
        available_bytes: stated("MemAvailable", "memory.available"),
        free_bytes: text::bytes(&meminfo, "MemFree:"),
        dirty_bytes: text::bytes(&meminfo, "Dirty:"),
        swap_total_bytes: swap_total,
        swap_used_bytes: swap_total.zip(swap_free).map(|(total, free)| total.saturating_sub(free)),
        page_bytes: outside.page_bytes,
        thp: transparent(root),
        huge_pages: pools(root),
        ksm: Ksm {
            running: root.number::<u32>("sys/kernel/mm/ksm/run").map(|mode| mode == 1),
            sharing_pages: root.number("sys/kernel/mm/ksm/pages_sharing"),
        },
        overcommit: root.number("proc/sys/vm/overcommit_memory"),
        swappiness: root.number("proc/sys/vm/swappiness"),
        dirty_ratio_percent: root.number("proc/sys/vm/dirty_ratio"),
        dirty_background_ratio_percent: root.number("proc/sys/vm/dirty_background_ratio"),
        zswap: root.line("sys/module/zswap/parameters/enabled").map(|text| text == "Y"),
        numa_balancing: root.flag("proc/sys/kernel/numa_balancing"),
        dimms: dmi::dimms(root),
    }
}

fn transparent(root: &Root) -> TransparentHugePages {
    const DIR: &str = "sys/kernel/mm/transparent_hugepage";
    let status = root.read("proc/self/status").unwrap_or_default();
    TransparentHugePages {
        enabled: root.selected(&format!("{DIR}/enabled")),
        for_process: text::after(&status, "THP_enabled:").map(|on| on == "1"),
        defrag: root.selected(&format!("{DIR}/defrag")),
        shmem_enabled: root.selected(&format!("{DIR}/shmem_enabled")),
        khugepaged_defrag: root.flag(&format!("{DIR}/khugepaged/defrag")),
        khugepaged_sleep_ms: root.number(&format!("{DIR}/khugepaged/scan_sleep_millisecs")),
        page_bytes: root
            .number(&format!("{DIR}/hpage_pmd_size"))
            .filter(|bytes: &u64| is_plausible("huge_page_bytes", *bytes as f64)),
    }
}

fn pools(root: &Root) -> Vec<HugePagePool> {
    const DIR: &str = "sys/kernel/mm/hugepages";
    let pool = |name: &String| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some(HugePagePool {
            page_bytes: kib
                .checked_mul(1024)
                .filter(|bytes| is_plausible("huge_page_bytes", *bytes as f64))?,
            total: root.number(&format!("{DIR}/{name}/nr_hugepages"))?,
            free: root.number(&format!("{DIR}/{name}/free_hugepages"))?,
        })
    };
    let mut pools: Vec<HugePagePool> = root.list(DIR).iter().filter_map(pool).collect();
    pools.order_by_key(|pool| pool.page_bytes);
    pools
}

//! Main memory and how the kernel manages it.

use record::order::InOrder;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::dmi::{self, Dimm};
use super::plausible::{Doubts, is_plausible};
use super::{Outside, Root, text};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The kernel's field `MemTotal`.
    pub total_bytes: Option<u64>,
    /// The kernel's field `MemAvailable`.
    pub available_bytes: Option<u64>,
    /// The kernel's field `MemFree`.
    pub free_bytes: Option<u64>,
    /// The kernel's field `Dirty`.
    pub dirty_bytes: Option<u64>,
    /// The kernel's field `SwapTotal`.
    pub swap_total_bytes: Option<u64>,
    /// The kernel's field `SwapTotal − SwapFree`.
    pub swap_used_bytes: Option<u64>,
    pub page_bytes: Option<u64>,
    pub thp: TransparentHugePages,
    /// `hugetlb` pools, ascending by page size.
    pub huge_pages: Vec<HugePagePool>,
    pub ksm: Ksm,
    /// `vm.overcommit_memory` (0 heuristic, 1 always, 2 never).
    pub overcommit: Option<u32>,
    /// `vm.dirty_ratio`, percent of available memory.
    pub dirty_ratio_percent: Option<u32>,
    /// `vm.dirty_background_ratio`, percent of available memory.
    pub dirty_background_ratio_percent: Option<u32>,
    /// Automatic NUMA balancing is on (non-zero `kernel.numa_balancing`).
    pub numa_balancing: Option<bool>,
    /// Memory modules (DMI type 17), when the table is readable.
    pub dimms: Vec<Dimm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Those that hold a module.
    pub count: usize,
    /// `EDAC` (the memory controllers' drivers) or `DMI` (the names of filled slots).
    pub source: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransparentHugePages {
    /// `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// Whether this process may have them (`prctl(PR_SET_THP_DISABLE)`), since Linux 5.0.
    pub for_process: Option<bool>,
    /// When a fault compacts memory for a huge page.
    pub defrag: Option<String>,
    pub page_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePagePool {
    pub page_bytes: u64,
    pub total: u64,
    pub free: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ksm {
    pub running: Option<bool>,
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
    let dimms = dmi::dimms(root);
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
        dirty_ratio_percent: root.number("proc/sys/vm/dirty_ratio"),
        dirty_background_ratio_percent: root.number("proc/sys/vm/dirty_background_ratio"),
        numa_balancing: root.flag("proc/sys/kernel/numa_balancing"),
        channels: channels(root, &dimms),
        dimms,
    }
}

fn transparent(root: &Root) -> TransparentHugePages {
    const DIR: &str = "sys/kernel/mm/transparent_hugepage";
    let status = root.read("proc/self/status").unwrap_or_default();
    TransparentHugePages {
        enabled: root.selected(&format!("{DIR}/enabled")),
        for_process: text::after(&status, "THP_enabled:").map(|on| on == "1"),
        defrag: root.selected(&format!("{DIR}/defrag")),
        page_bytes: root
            .number(&format!("{DIR}/hpage_pmd_size"))
            .filter(|bytes: &u64| is_plausible("huge_page_bytes", *bytes as f64)),
    }
}

fn channels(root: &Root, dimms: &[Dimm]) -> Option<Channels> {
    let found = [("EDAC", edac_channels(root)), ("DMI", named_channels(dimms))];
    let (source, count) = found.into_iter().find(|(_, count)| *count > 0)?;
    Some(Channels { count, source: source.to_owned() })
}

/// Channels in which the memory controllers' drivers see modules: `channel 0 slot 1`
/// (Documentation/driver-api/edac.rst).
fn edac_channels(root: &Root) -> usize {
    const DIR: &str = "sys/devices/system/edac/mc";
    let mut found = BTreeSet::new();
    for controller in root.numbered(DIR, "mc") {
        let dir = format!("{DIR}/mc{controller}");
        for module in root.numbered(&dir, "dimm") {
            let words = root.words(&format!("{dir}/dimm{module}/dimm_location"));
            let mut words = words.iter().skip_while(|word| *word != "channel");
            if let Some(channel) = words.nth(1) {
                found.insert((controller, channel.clone()));
            }
        }
    }
    found.len()
}

/// Channels by the names of filled slots: `P0 CHANNEL A`, `ChannelB-DIMM0`.
fn named_channels(dimms: &[Dimm]) -> usize {
    let filled = dimms.iter().filter(|dimm| dimm.size_bytes > 0);
    let names: BTreeSet<String> = filled
        .filter_map(|dimm| {
            let texts = [dimm.bank.as_deref(), dimm.locator.as_deref()];
            texts.into_iter().flatten().find_map(|text| {
                let text = text.to_ascii_uppercase();
                let end = text.find("CHANNEL")? + "CHANNEL".len();
                let rest = text[end..].trim_start_matches([' ', '_']);
                let name = rest.chars().next().filter(char::is_ascii_alphanumeric)?;
                Some(format!("{}{name}", &text[..end]))
            })
        })
        .collect();
    names.len()
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

#[cfg(test)]
mod tests {
    use super::{Channels, channels};
    use crate::Root;
    use crate::dmi::Dimm;

    #[test]
    fn channels_are_those_of_the_drivers_else_those_that_slots_are_named_after() {
        let dimm = |bank: &str, size_bytes: u64| Dimm {
            locator: Some("DIMM 0".to_owned()),
            bank: Some(bank.to_owned()),
            size_bytes,
            kind: None,
            rated_mts: None,
            configured_mts: None,
            data_bits: None,
            ranks: None,
        };
        let dimms = [("P0 CHANNEL A", 1), ("P0 CHANNEL A", 1), ("P0 CHANNEL B", 1)];
        let mut dimms = dimms.map(|(bank, size)| dimm(bank, size)).to_vec();
        dimms.push(dimm("P0 CHANNEL C", 0));
        let named = Channels { count: 2, source: "DMI".to_owned() };
        assert_eq!(channels(&Root::tree(""), &dimms), Some(named));
        let drivers = Root::tree(
            "== sys/devices/system/edac/mc/mc{0-1}/dimm0/dimm_location\nchannel 0 slot 0 \n\
             == sys/devices/system/edac/mc/mc0/dimm1/dimm_location\nchannel 1 slot 0 \n\
             == sys/devices/system/edac/mc/mc0/dimm2/dimm_location\nchannel 1 slot 1 \n",
        );
        let seen = Channels { count: 3, source: "EDAC".to_owned() };
        assert_eq!(channels(&drivers, &dimms), Some(seen));
        assert_eq!(channels(&Root::tree(""), &[]), None);
    }
}

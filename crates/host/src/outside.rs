//! What the reader obtains from elsewhere than files below `/proc` and `/sys`.

use record::order::Gather;
use std::collections::BTreeMap;

use super::cpulist::{CPUS_MAX, parse_list};
use super::net::{self, Echoes, LoopbackFault, loopback};
use super::plausible::is_plausible;
use super::{Root, text};
/// One CPUID leaf as the processor answered it.
pub use metal::cpuid::Leaf as CpuidLeaf;
use metal::ethtool::Link;

/// Facts that are in no file, or only in files about this process. A recorded tree replaces all of
/// them (`cpuid.txt` and `facts.txt`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outside {
    /// Architecture, as Rust spells it (`x86_64`, `aarch64`).
    pub arch: Option<String>,
    /// CPUID leaves of the first CPU; empty on Arm and if not requested.
    pub cpuid: Vec<CpuidLeaf>,
    /// Leaves whose answers differ between the CPUs of a hybrid processor, by CPU; empty on others.
    pub cpuid_by_cpu: BTreeMap<usize, Vec<CpuidLeaf>>,
    /// CPUs this process may run on, ascending; empty when unknown.
    pub allowed: Vec<usize>,
    pub euid: Option<u32>,
    pub page_bytes: Option<u64>,
    /// Resolution of `CLOCK_MONOTONIC_COARSE`: one tick.
    pub coarse_clock_ns: Option<u64>,
    /// Slice that the scheduler reports for this thread, in whole ticks, rounded down.
    pub told_slice_ns: Option<u64>,
    /// Rate that Arm's counter states of itself (CNTFRQ_EL0); on x86-64 from CPUID.
    pub counter_hz: Option<u64>,
    /// A hardware counter can be opened with perf_event_open.
    pub has_perf: Option<bool>,
    /// io_uring makes a ring: the kernel has it, and no setting and no sandbox forbids it.
    pub has_rings: Option<bool>,
    /// What of ICMP the kernel granted when it was asked. A capability alone does not decide: it may
    /// belong to another user namespace than the network does.
    pub echoes: Option<Echoes>,
    /// Groups of a recorded process, the effective one first.
    pub groups: Vec<u64>,
    /// A recorded process has CAP_NET_RAW.
    pub has_net_raw: Option<bool>,
    /// What a connection from 127.0.0.1 to itself lacks.
    pub loopback: Option<Result<(), LoopbackFault>>,
    /// Programs reach each other at `::1`.
    pub has_loopback_v6: Option<bool>,
    /// The facts from the drivers of this process's network interfaces, by name.
    pub links: BTreeMap<String, Link>,
}

impl Outside {
    pub fn live() -> Outside {
        use metal::clock::{Clock, getres_ns};
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = metal::place::allowed().unwrap_or_else(|_| allowed_cpus(&status));
        Outside {
            arch: Some(std::env::consts::ARCH.to_string()),
            cpuid: metal::cpuid::leaves(),
            cpuid_by_cpu: metal::cpuid::by_cpu(&allowed).into_iter().gather(),
            allowed,
            euid: Some(metal::process::geteuid()),
            page_bytes: u64::try_from(metal::memory::base_page_bytes()).ok(),
            coarse_clock_ns: Some(getres_ns(Clock::MONOTONIC_COARSE)),
            // Others that want the CPU just now make it shorter.
            told_slice_ns: (0..5).filter_map(|_| metal::place::told_slice_ns().ok()).max(),
            counter_hz: metal::clock::counter_hz_hint().filter(|_| cfg!(target_arch = "aarch64")),
            has_perf: Some(metal::counter::CycleCounter::open().is_some()),
            has_rings: Some(metal::raw::UringNop::new(1).is_ok()),
            echoes: Echoes::live(),
            groups: Vec::new(),
            has_net_raw: None,
            loopback: Some(loopback::live()),
            has_loopback_v6: Some(loopback::has_v6()),
            links: net::live_links(),
        }
    }

    /// A recorded machine: `ethtool.txt` ([`net::recorded_links`]), `cpuid.txt` (one leaf a line,
    /// six hexadecimal numbers: leaf, subleaf, EAX, EBX, ECX, EDX; `#` starts a comment), `cpuid/N`
    /// (the same of CPU N, where the CPUs differ) and `facts.txt` (`key=value` lines:
    /// `arch`, `allowed`, `euid`, `page_bytes`, `coarse_clock_ns`, `told_slice_ns`,
    /// `counter_hz`, `has_perf`, `has_rings`, `groups` (numbers), `net_raw`, `loopback` (`works`
    /// or a [`LoopbackFault`])). What does not parse is left out.
    pub fn recorded(root: &Root) -> Outside {
        let facts = root.read("facts.txt").unwrap_or_default();
        let pairs = facts.lines().filter_map(|line| line.split_once('='));
        let fact = |key: &str| {
            let mut pairs = pairs.clone();
            pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_string())
        };
        let number = |key: &str| fact(key)?.parse::<u64>().ok();
        let leaves = |path: &str| -> Vec<CpuidLeaf> {
            root.read(path).unwrap_or_default().lines().filter_map(parse_leaf).collect()
        };
        let ids = root.numbered("cpuid", "").into_iter();
        Outside {
            arch: fact("arch"),
            cpuid: leaves("cpuid.txt"),
            cpuid_by_cpu: ids.map(|id| (id, leaves(&format!("cpuid/{id}")))).gather(),
            allowed: fact("allowed").map(|list| parse_list(&list, CPUS_MAX)).unwrap_or_default(),
            euid: number("euid").and_then(|id| u32::try_from(id).ok()),
            page_bytes: number("page_bytes")
                .filter(|bytes| is_plausible("page_bytes", *bytes as f64)),
            coarse_clock_ns: number("coarse_clock_ns"),
            told_slice_ns: number("told_slice_ns"),
            counter_hz: number("counter_hz"),
            has_perf: fact("has_perf").and_then(|text| text.parse().ok()),
            has_rings: fact("has_rings").and_then(|text| text.parse().ok()),
            groups: text::numbers(&fact("groups").unwrap_or_default()).collect(),
            has_net_raw: fact("net_raw").and_then(|text| text.parse().ok()),
            loopback: loopback::recorded(root, fact("loopback").as_deref()),
            has_loopback_v6: None,
            echoes: None,
            links: net::recorded_links(&root.read("ethtool.txt").unwrap_or_default()),
        }
    }

    /// The answer to one CPUID question; `None` when it was not asked.
    pub fn leaf(&self, leaf: u32, subleaf: u32) -> Option<CpuidLeaf> {
        self.cpuid.iter().copied().find(|answer| answer.leaf == leaf && answer.subleaf == subleaf)
    }

    /// What one CPU of a hybrid processor answered to a leaf, subleaf 0; `None` when it was not
    /// asked.
    pub fn leaf_of(&self, cpu: usize, leaf: u32) -> Option<CpuidLeaf> {
        let answers = self.cpuid_by_cpu.get(&cpu)?;
        answers.iter().copied().find(|answer| (answer.leaf, answer.subleaf) == (leaf, 0))
    }
}

fn parse_leaf(line: &str) -> Option<CpuidLeaf> {
    let line = line.split('#').next()?;
    let word = |word| u32::from_str_radix(word, 16).ok();
    let numbers: Option<Vec<u32>> = line.split_whitespace().map(word).collect();
    let [leaf, subleaf, eax, ebx, ecx, edx] = numbers?[..] else { return None };
    Some(CpuidLeaf { leaf, subleaf, eax, ebx, ecx, edx })
}

fn allowed_cpus(status: &str) -> Vec<usize> {
    let list = text::after(status, "Cpus_allowed_list:");
    list.map(|list| parse_list(list, CPUS_MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nCpus_allowed_list:\t0-2,1030\n";
        assert_eq!(allowed_cpus(status), [0, 1, 2, 1030]);
    }

    #[test]
    fn a_recorded_tree_replaces_everything() {
        let root = Root::tree(
            "== cpuid.txt\n4 1 1 2 3 ffffffff # L1I\nbroken\n== facts.txt\narch=aarch64\nallowed=1,3\n\
             euid=7\npage_bytes=65536\ncoarse_clock_ns=4000000\ncounter_hz=25000000\nhas_perf=false\n\
             has_rings=true\n",
        );
        let outside = Outside::recorded(&root);
        assert_eq!(outside.cpuid.len(), 1);
        assert_eq!(outside.leaf(4, 1).map(|leaf| leaf.edx), Some(u32::MAX));
        assert_eq!(outside.leaf(4, 0), None);
        assert_eq!(outside.allowed, [1, 3]);
        assert_eq!(outside.euid, Some(7));
        assert_eq!(outside.coarse_clock_ns, Some(4_000_000));
        assert_eq!(outside.counter_hz, Some(25_000_000));
        assert_eq!((outside.has_perf, outside.has_rings), (Some(false), Some(true)));
    }

    #[test]
    fn this_machine_says_where_it_may_run() {
        let outside = Outside::live();
        assert!(!outside.allowed.is_empty());
        assert!(outside.euid.is_some());
    }
}

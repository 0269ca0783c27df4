//! Caches, from sysfs and CPUID.

use record::order::InOrder;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::plausible::{Doubts, is_plausible};
use super::tlb::{self, Tlb};
use super::{Cpu, Outside, Root};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caches {
    /// One element per distinct cache (level, kind, geometry), by level, then data before
    /// instruction. A hybrid machine has two elements of L1 data.
    pub levels: Vec<Cache>,
    /// Translation look-aside buffers, as far as CPUID describes them.
    pub tlbs: Vec<Tlb>,
    /// `sysfs`, `cpuid`, or `None` when the machine describes no cache.
    pub source: Option<String>,
}

/// Caches of one level, kind and geometry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// Data, instruction or unified.
    pub kind: CacheKind,
    pub size_bytes: u64,
    /// Associativity; `None` when unknown; equal to the line count when fully associative.
    pub ways: Option<u32>,
    pub line_bytes: Option<u32>,
    pub sets: Option<u32>,
    /// CPUs of each instance, in order of their lowest CPU. From CPUID alone: empty.
    pub shared_by: Vec<Vec<usize>>,
    /// CPUs that share one instance (the largest instance).
    pub sharers: usize,
    /// Write policy, where the machine states it.
    pub write_policy: Option<WritePolicy>,
    /// Whether it contains all lower levels (CPUID 4 EDX bit 1).
    pub inclusive: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

/// When a write goes to the next level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    WriteBack,
    WriteThrough,
}

impl Caches {
    pub fn data(&self, level: u32, cpu: usize) -> Option<&Cache> {
        self.levels.iter().find(|cache| {
            cache.level == level && cache.kind != CacheKind::Instruction && cache.serves(cpu)
        })
    }

    /// The last-level cache of one CPU: of those that hold data, the one of the highest level.
    pub fn last(&self, cpu: usize) -> Option<&Cache> {
        let data = self.levels.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        data.filter(|cache| cache.serves(cpu)).max_by_key(|cache| cache.level)
    }

    /// Bytes of all instances of the highest level together.
    pub fn last_level_total_bytes(&self) -> Option<u64> {
        let level = self.levels.iter().map(|cache| cache.level).max()?;
        let last = self.levels.iter().filter(|cache| cache.level == level);
        let bytes =
            |cache: &Cache| cache.size_bytes.saturating_mul(cache.instances().unwrap_or(1) as u64);
        Some(last.map(bytes).fold(0, u64::saturating_add))
    }
}

impl Cache {
    /// Instances in the machine; `None` when only CPUID described the cache.
    pub fn instances(&self) -> Option<usize> {
        (!self.shared_by.is_empty()).then_some(self.shared_by.len())
    }

    /// Whether an instance belongs to the CPU. A cache that only CPUID described belongs to all.
    pub fn serves(&self, cpu: usize) -> bool {
        self.shared_by.is_empty() || self.shared_by.iter().any(|group| group.contains(&cpu))
    }
}

pub(super) fn read(root: &Root, outside: &Outside, cpu: &Cpu, doubts: &mut Doubts) -> Caches {
    let described = from_cpuid(outside);
    let mut levels = from_sysfs(root, cpu, doubts);
    let source = match (levels.is_empty(), described.is_empty()) {
        (false, _) => Some("sysfs"),
        (true, false) => Some("cpuid"),
        (true, true) => None,
    };
    if levels.is_empty() {
        levels = described;
    } else {
        for cache in &mut levels {
            let twin = described.iter().find(|twin| same_geometry(cache, twin));
            cache.inclusive = twin.and_then(|twin| twin.inclusive);
        }
    }
    levels.order_by_key(|cache| (cache.level, cache.kind, cache.shared_by.first().cloned()));
    Caches { levels, tlbs: tlb::read(outside), source: source.map(str::to_string) }
}

fn same_geometry(a: &Cache, b: &Cache) -> bool {
    (a.level, a.kind, a.size_bytes) == (b.level, b.kind, b.size_bytes)
}

/// `/sys/devices/system/cpu/cpu*/cache/index*`. An instance is read once, at its lowest CPU.
fn from_sysfs(root: &Root, cpu: &Cpu, doubts: &mut Doubts) -> Vec<Cache> {
    let mut levels: Vec<Cache> = Vec::new();
    let mut seen: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for one in cpu.cpus.iter().filter(|one| one.online) {
        let dir = format!("sys/devices/system/cpu/cpu{}/cache", one.id);
        for index in root.numbered(&dir, "index") {
            // On hybrid machines the same index may be another level; an instance belongs to one
            // kind of core, or is the same index everywhere (the shared last level).
            if seen.entry(index).or_default().contains(&one.id) {
                continue;
            }
            let found = instance(root, &format!("{dir}/index{index}"), one.id, doubts);
            let Some(found) = found else { continue };
            seen.entry(index).or_default().extend(&found.shared_by[0]);
            add(&mut levels, found);
        }
    }
    for cache in &mut levels {
        cache.sharers = cache.shared_by.iter().map(Vec::len).max().unwrap_or(1);
    }
    levels
}

/// Joins instances that are alike.
fn add(levels: &mut Vec<Cache>, mut found: Cache) {
    let twin = levels.iter_mut().find(|cache| {
        same_geometry(cache, &found)
            && cache.ways == found.ways
            && cache.line_bytes == found.line_bytes
    });
    match twin {
        Some(cache) => {
            // An instance without a shared list is one CPU's own and may repeat on odd machines.
            found.shared_by.retain(|group| !cache.shared_by.contains(group));
            cache.shared_by.append(&mut found.shared_by);
        }
        None => levels.push(found),
    }
}

fn instance(root: &Root, dir: &str, cpu: usize, doubts: &mut Doubts) -> Option<Cache> {
    let number = |name: &str| root.number::<u32>(&format!("{dir}/{name}")).filter(|&n| n > 0);
    let kind = match root.line(&format!("{dir}/type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let shared = root.cpus(&format!("{dir}/shared_cpu_list")).filter(|cpus| !cpus.is_empty());
    let line_bytes = number("coherency_line_size");
    let (ways, sets) = (number("ways_of_associativity"), number("number_of_sets"));
    let lines = || Some(u64::from(ways?) * u64::from(sets?));
    let product = || Some(lines()?.saturating_mul(u64::from(line_bytes?)));
    let level = number("level").filter(|&level| is_plausible("cache.level", f64::from(level)))?;
    let quantity = size_of_level(level);
    let size = root.line(&format!("{dir}/size")).and_then(|text| {
        let kib = text.strip_suffix('K').unwrap_or("no number of KiB");
        doubts.number(quantity, ("cache size", format_args!("L{level} of CPU {cpu}")), kib, 1024.0)
    });
    let is_possible = |bytes: &u64| is_plausible(quantity, *bytes as f64);
    Some(Cache {
        level,
        kind,
        size_bytes: size.or_else(|| product().filter(is_possible))?,
        ways,
        line_bytes,
        sets,
        shared_by: vec![shared.unwrap_or_else(|| vec![cpu])],
        sharers: 1,
        write_policy: match root.line(&format!("{dir}/write_policy")).as_deref() {
            Some("WriteBack") => Some(WritePolicy::WriteBack),
            Some("WriteThrough") => Some(WritePolicy::WriteThrough),
            _ => None,
        },
        inclusive: None,
    })
}

/// The quantity that bounds the size of a cache.
fn size_of_level(level: u32) -> &'static str {
    match level {
        1 => "cache.l1d",
        2 => "cache.l2",
        _ => "cache.l3",
    }
}

/// Leaf 4 (Intel SDM 2A) or 8000001Dh (AMD APM 3), which have the same layout.
fn from_cpuid(outside: &Outside) -> Vec<Cache> {
    let leaf = if outside.leaf(0x8000_001d, 0).is_some_and(|leaf| leaf.eax & 0x1f != 0) {
        0x8000_001d
    } else {
        4
    };
    let all = (0..16).map_while(|subleaf| cache_of(outside.leaf(leaf, subleaf)?));
    all.filter(|cache| is_plausible(size_of_level(cache.level), cache.size_bytes as f64)).collect()
}

fn cache_of(leaf: super::CpuidLeaf) -> Option<Cache> {
    let kind = match leaf.eax & 0x1f {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let line = (leaf.ebx & 0xfff) + 1;
    let partitions = (leaf.ebx >> 12 & 0x3ff) + 1;
    let ways = (leaf.ebx >> 22) + 1;
    let sets = leaf.ecx.checked_add(1)?;
    Some(Cache {
        level: leaf.eax >> 5 & 7,
        kind,
        size_bytes: u64::from(line) * u64::from(partitions) * u64::from(ways) * u64::from(sets),
        ways: Some(ways),
        line_bytes: Some(line),
        sets: Some(sets),
        shared_by: Vec::new(),
        // The largest number of CPUs that could share it; the real number may be smaller.
        sharers: (leaf.eax >> 14 & 0xfff) as usize + 1,
        write_policy: None,
        inclusive: Some(leaf.edx & 2 != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_four_without_sysfs() {
        let root = Root::tree(
            "== cpuid.txt\n4 0 04000121 02c0003f 3f 0\n4 1 04000122 03c0003f 3f 0\n\
             4 2 04000143 03c0003f 7ff 2\n4 3 04004163 03c0003f 77fff 0\n4 4 0 0 0 0\n",
        );
        let caches = from_cpuid(&Outside::recorded(&root));
        let sizes: Vec<u64> = caches.iter().map(|cache| cache.size_bytes / 1024).collect();
        assert_eq!(sizes, [48, 64, 2048, 491_520]);
        assert_eq!(caches[0].ways, Some(12));
        assert_eq!(caches[2].inclusive, Some(true));
        assert_eq!((caches[3].level, caches[3].sharers, caches[3].instances()), (3, 2, None));
    }
}

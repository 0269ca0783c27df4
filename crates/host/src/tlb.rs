//! Translation look-aside buffers, from CPUID.

use record::order::InOrder;
use serde::{Deserialize, Serialize};

use super::{CpuidLeaf, Outside};

/// One translation structure for one page size. A structure shared by two page sizes appears once
/// per size, with the same `entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tlb {
    /// It is 1 or 2.
    pub level: u32,
    pub kind: TlbKind,
    /// Page size it holds.
    pub page_bytes: u64,
    pub entries: u32,
    /// Associativity; equal to `entries` when fully associative; `None` when unknown.
    pub ways: Option<u32>,
    /// CPUID leaf of the source, as `18h`, `2h`, `80000005h`.
    pub source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlbKind {
    Data,
    Load,
    Store,
    Instruction,
    Unified,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// TLBs that CPUID describes: leaf 18h, else leaf 2, or AMD's 80000005h, 80000006h, 80000019h.
pub(super) fn read(outside: &Outside) -> Vec<Tlb> {
    let mut found = from_leaf_18(outside);
    if found.is_empty() {
        found = from_leaf_2(outside);
    }
    found.extend(from_amd(outside));
    found.order_by_key(|tlb| (tlb.level, tlb.kind, tlb.page_bytes));
    found
}

/// Deterministic address translation parameters (Intel SDM 2A, CPUID 18h).
fn from_leaf_18(outside: &Outside) -> Vec<Tlb> {
    let Some(first) = outside.leaf(0x18, 0) else { return Vec::new() };
    let leaves = (0..=first.eax.min(64)).filter_map(|subleaf| outside.leaf(0x18, subleaf));
    leaves.flat_map(structure).collect()
}

fn structure(leaf: CpuidLeaf) -> Vec<Tlb> {
    let kind = match leaf.edx & 0x1f {
        1 => TlbKind::Data,
        2 => TlbKind::Instruction,
        3 => TlbKind::Unified,
        4 => TlbKind::Load,
        5 => TlbKind::Store,
        _ => return Vec::new(),
    };
    let ways = leaf.ebx >> 16;
    let entries = ways.saturating_mul(leaf.ecx);
    let pages = [(1, 4 * KIB), (2, 2 * MIB), (4, 4 * MIB), (8, GIB)];
    let sizes = pages.iter().filter(|(bit, _)| leaf.ebx & bit != 0);
    sizes
        .map(|&(_, page_bytes)| Tlb {
            level: leaf.edx >> 5 & 7,
            kind,
            page_bytes,
            entries,
            ways: Some(if leaf.edx >> 8 & 1 == 1 { entries } else { ways }),
            source: "18h".to_string(),
        })
        .filter(|tlb| tlb.entries > 0)
        .collect()
}

/// A descriptor byte of leaf 2 that stands for a TLB: level, kind, pages, entries, ways; 0 means
/// fully associative.
type Descriptor = (u8, u32, TlbKind, &'static [u64], u32, u32);

/// Intel SDM 2A, table 3-12.
const DESCRIPTORS: &[Descriptor] = &[
    (0x01, 1, TlbKind::Instruction, &[4 * KIB], 32, 4),
    (0x03, 1, TlbKind::Data, &[4 * KIB], 64, 4),
    (0x4f, 1, TlbKind::Instruction, &[4 * KIB], 32, 0),
    (0x55, 1, TlbKind::Instruction, &[2 * MIB, 4 * MIB], 7, 0),
    (0x57, 1, TlbKind::Data, &[4 * KIB], 16, 4),
    (0x59, 1, TlbKind::Data, &[4 * KIB], 16, 0),
    (0x5a, 1, TlbKind::Data, &[2 * MIB, 4 * MIB], 32, 4),
    (0x61, 1, TlbKind::Instruction, &[4 * KIB], 48, 0),
    (0x63, 1, TlbKind::Data, &[2 * MIB, 4 * MIB], 32, 4),
    (0x63, 1, TlbKind::Data, &[GIB], 4, 4),
    (0x64, 1, TlbKind::Data, &[4 * KIB], 512, 4),
    (0x6a, 1, TlbKind::Data, &[4 * KIB], 64, 8),
    (0x6b, 1, TlbKind::Data, &[4 * KIB], 256, 8),
    (0x6c, 1, TlbKind::Data, &[2 * MIB, 4 * MIB], 128, 8),
    (0x6d, 1, TlbKind::Data, &[GIB], 16, 0),
    (0x76, 1, TlbKind::Instruction, &[2 * MIB, 4 * MIB], 8, 0),
    (0xa0, 1, TlbKind::Data, &[4 * KIB], 32, 0),
    (0xb0, 1, TlbKind::Instruction, &[4 * KIB], 128, 4),
    (0xb2, 1, TlbKind::Instruction, &[4 * KIB], 64, 4),
    (0xb3, 1, TlbKind::Data, &[4 * KIB], 128, 4),
    (0xb4, 1, TlbKind::Data, &[4 * KIB], 256, 4),
    (0xb5, 1, TlbKind::Instruction, &[4 * KIB], 64, 8),
    (0xb6, 1, TlbKind::Instruction, &[4 * KIB], 128, 8),
    (0xba, 1, TlbKind::Data, &[4 * KIB], 64, 4),
    (0xc0, 1, TlbKind::Data, &[4 * KIB, 4 * MIB], 8, 4),
    (0xc1, 2, TlbKind::Unified, &[4 * KIB, 2 * MIB], 1024, 8),
    (0xc2, 1, TlbKind::Data, &[4 * KIB, 2 * MIB], 16, 4),
    (0xc3, 2, TlbKind::Unified, &[4 * KIB, 2 * MIB], 1536, 6),
    (0xc3, 2, TlbKind::Unified, &[GIB], 16, 4),
    (0xc4, 1, TlbKind::Data, &[2 * MIB, 4 * MIB], 32, 4),
    (0xca, 2, TlbKind::Unified, &[4 * KIB], 512, 4),
];

fn from_leaf_2(outside: &Outside) -> Vec<Tlb> {
    let Some(leaf) = outside.leaf(2, 0) else { return Vec::new() };
    // The low byte of EAX is the count of calls (always 1); a register with bit 31 set says
    // nothing.
    let words = [leaf.eax & !0xff, leaf.ebx, leaf.ecx, leaf.edx];
    let valid = words.iter().filter(|&&word| word >> 31 == 0);
    let mut found = Vec::new();
    for byte in valid.flat_map(|word| word.to_le_bytes()).filter(|&byte| byte != 0) {
        let rows = DESCRIPTORS.iter().filter(|row| row.0 == byte);
        for &(_, level, kind, pages, entries, ways) in rows {
            let ways = if ways == 0 { entries } else { ways };
            found.extend(pages.iter().map(|&page_bytes| Tlb {
                level,
                kind,
                page_bytes,
                entries,
                ways: Some(ways),
                source: "2h".to_string(),
            }));
        }
    }
    found
}

/// AMD APM 3, E.4.4, E.4.5 and E.4.15.
fn from_amd(outside: &Outside) -> Vec<Tlb> {
    let is_amd =
        outside.leaf(0, 0).is_some_and(|leaf| leaf.ebx == 0x6874_7541 || leaf.ebx == 0x6f67_7948);
    if !is_amd {
        // Intel reserves the first two leaves; answers there are not TLBs.
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut add = |level, kind, page_bytes, entries: u32, ways: Option<u32>, source: &str| {
        if entries > 0 && ways != Some(0) {
            let ways = ways.map(|ways| if ways == u32::MAX { entries } else { ways });
            found.push(Tlb { level, kind, page_bytes, entries, ways, source: source.to_string() });
        }
    };
    if let Some(leaf) = outside.leaf(0x8000_0005, 0) {
        // Bytes: entries and ways of the instruction side, then of the data side; FFh = fully.
        for (word, page) in [(leaf.eax, 2 * MIB), (leaf.ebx, 4 * KIB)] {
            let [ie, iw, de, dw] = word.to_le_bytes().map(u32::from);
            let ways = |byte: u32| Some(if byte == 0xff { u32::MAX } else { byte });
            add(1, TlbKind::Instruction, page, ie, ways(iw), "80000005h");
            add(1, TlbKind::Data, page, de, ways(dw), "80000005h");
        }
    }
    let mut pair = |level, word: u32, page, source: &str| {
        // Half-words: instruction side low, data side high; 12 bits of entries, 4 of coded ways.
        for (half, kind) in [(word & 0xffff, TlbKind::Instruction), (word >> 16, TlbKind::Data)] {
            add(level, kind, page, half & 0xfff, coded_ways(half >> 12), source);
        }
    };
    if let Some(leaf) = outside.leaf(0x8000_0006, 0) {
        pair(2, leaf.eax, 2 * MIB, "80000006h");
        pair(2, leaf.ebx, 4 * KIB, "80000006h");
    }
    if let Some(leaf) = outside.leaf(0x8000_0019, 0) {
        pair(1, leaf.eax, GIB, "80000019h");
        pair(2, leaf.ebx, GIB, "80000019h");
    }
    found
}

/// Associativity code of 80000006h: 0 is disabled, `None` is "see another leaf".
fn coded_ways(code: u32) -> Option<u32> {
    const WAYS: [u32; 16] = [0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128, u32::MAX];
    let ways = *WAYS.get(code as usize)?;
    (ways > 0 || code == 0).then_some(ways)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    fn tlbs(leaves: &str) -> Vec<Tlb> {
        read(&Outside::recorded(&Root::tree(&format!("== cpuid.txt\n{leaves}"))))
    }

    #[test]
    fn leaf_18_lists_structures_by_page_size() {
        // 2048-entry 16-way second level for 4 KiB and 2 MiB; a full 32-entry level 1.
        let found = tlbs("18 0 2 0 0 0\n18 1 0 00100003 80 43\n18 2 0 00200001 1 121\n");
        let brief: Vec<_> =
            found.iter().map(|t| (t.level, t.page_bytes, t.entries, t.ways)).collect();
        let expected = [
            (1, 4 * KIB, 32, Some(32)),
            (2, 4 * KIB, 2048, Some(16)),
            (2, 2 * MIB, 2048, Some(16)),
        ];
        assert_eq!(brief, expected);
    }

    #[test]
    fn leaf_2_descriptors() {
        // Haswell: 76036301 00f0b5ff 0 00c10000.
        let found = tlbs("2 0 76036301 00f0b5ff 00000000 00c10000\n");
        let level2: Vec<_> = found.iter().filter(|t| t.level == 2).map(|t| t.entries).collect();
        assert_eq!(level2, [1024, 1024]);
        assert!(
            found.iter().any(|t| t.kind == TlbKind::Data && t.page_bytes == GIB && t.entries == 4)
        );
        // FFh and FEh name no TLB; a register with bit 31 set is not read.
        assert!(tlbs("2 0 00feff01 800000c1 0 0\n").is_empty());
    }

    #[test]
    fn intel_answers_in_amd_leaves_are_not_read() {
        let intel = "0 0 24 756e6547 6c65746e 49656e69\n80000005 0 ff48ff40 ff48ff40 0 0\n";
        assert!(tlbs(intel).is_empty());
    }
}

//! Translation look-aside buffers, from CPUID.

use serde::{Deserialize, Serialize};

use super::CpuidLeaf;

/// One translation structure for one page size. A structure shared by two page sizes appears once
/// per size, with the same `entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tlb {
    /// 1 or 2.
    pub level: u32,
    /// What it translates.
    pub kind: TlbKind,
    /// Page size it holds.
    pub page_bytes: u64,
    /// Entries.
    pub entries: u32,
    /// Associativity; equal to `entries` when fully associative; `None` when unknown.
    pub ways: Option<u32>,
    /// CPUID leaf that told, as `18h`, `2h`, `80000005h`.
    pub source: String,
}

/// What a TLB translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlbKind {
    /// Data accesses.
    Data,
    /// Loads only.
    Load,
    /// Stores only.
    Store,
    /// Instruction fetches.
    Instruction,
    /// Both.
    Unified,
}

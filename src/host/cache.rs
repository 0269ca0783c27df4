//! Caches, from sysfs and CPUID.

use serde::{Deserialize, Serialize};

use super::tlb::{self, Tlb};
use super::{Cpu, Outside, Root};

/// Caches and TLBs of the machine.
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
    /// Bytes of one instance.
    pub size_bytes: u64,
    /// Associativity; `None` when unknown; equal to the line count when fully associative.
    pub ways: Option<u32>,
    /// Line.
    pub line_bytes: Option<u32>,
    /// Sets of one instance.
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

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// When a write goes to the next level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// On eviction.
    WriteBack,
    /// At once.
    WriteThrough,
}

pub(super) fn read(_: &Root, _: &Outside, _: &Cpu) -> Caches { Caches::default() }

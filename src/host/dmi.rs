//! Memory modules, from the DMI table (SMBIOS structure type 17). Readable by root only.

use serde::{Deserialize, Serialize};

use super::Root;

/// One memory slot, filled or empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimm {
    /// Slot name (`DIMM_A1`).
    pub locator: Option<String>,
    /// Bank name (`P0 CHANNEL A`).
    pub bank: Option<String>,
    /// Capacity; 0 for an empty slot.
    pub size_bytes: u64,
    /// `DDR4`, `DDR5`, …
    pub kind: Option<String>,
    /// Rated transfers per second, in millions.
    pub rated_mts: Option<u32>,
    /// Configured transfers per second, in millions.
    pub configured_mts: Option<u32>,
    /// Data width.
    pub data_bits: Option<u32>,
    /// Ranks.
    pub ranks: Option<u32>,
}

//! Memory modules, their array and the caches, from the DMI table (SMBIOS structure types 17, 16
//! and 7). Readable by root only.

use record::order::Gather;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Root;
use super::plausible::is_plausible;

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

/// Where the table is.
pub(super) const TABLE: &str = "sys/firmware/dmi/tables/DMI";

/// All slots for main memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Array {
    /// Slots, filled or empty.
    pub(super) slots: u32,
    /// Memory that they take at most, where the firmware states it.
    pub(super) maximum_bytes: Option<u64>,
}

/// Memory slots of the machine; empty when the DMI table is not readable.
pub(super) fn dimms(root: &Root) -> Vec<Dimm> {
    let table = root.read_bytes(TABLE).unwrap_or_default();
    structures(&table).into_iter().filter_map(parse).collect()
}

/// The arrays of main memory together; `None` if the table lists none.
pub(super) fn array(root: &Root) -> Option<Array> {
    let table = root.read_bytes(TABLE)?;
    let arrays: Vec<Array> = structures(&table).into_iter().filter_map(one_array).collect();
    let bytes = arrays.iter().map(|array| array.maximum_bytes);
    (!arrays.is_empty()).then(|| Array {
        slots: arrays.iter().map(|array| array.slots).sum(),
        maximum_bytes: { bytes }.try_fold(0_u64, |all, bytes| Some(all.saturating_add(bytes?))),
    })
}

/// Write policy by cache level, where all caches of a level have the same.
pub(super) fn write_policies(root: &Root) -> BTreeMap<u32, String> {
    let table = root.read_bytes(TABLE).unwrap_or_default();
    let mut found: BTreeMap<u32, Vec<Option<&str>>> = BTreeMap::new();
    for (level, policy) in structures(&table).into_iter().filter_map(cache_policy) {
        found.entry(level).or_default().push(policy);
    }
    found
        .into_iter()
        .filter_map(|(level, policies)| {
            let first = (*policies.first()?)?;
            let is_same = policies.iter().all(|policy| *policy == Some(first));
            is_same.then(|| (level, first.to_owned()))
        })
        .gather()
}

/// An array of system memory (DSP0134, section 7.17).
fn one_array(raw: &[u8]) -> Option<Array> {
    const SYSTEM_MEMORY: u64 = 3;
    const SEE_EXTENDED: u64 = 0x8000_0000;
    let fixed = formatted(raw, 16)?;
    (number(fixed, 0x05, 1) == Some(SYSTEM_MEMORY)).then_some(())?;
    let maximum_bytes = match number(fixed, 0x07, 4)? {
        SEE_EXTENDED => number(fixed, 0x0f, 8),
        kib => Some(kib << 10),
    };
    Some(Array {
        slots: number(fixed, 0x0d, 2)? as u32,
        maximum_bytes: maximum_bytes.filter(|bytes| *bytes > 0),
    })
}

/// The formatted part of a structure, if it is of that type.
fn formatted(raw: &[u8], kind: u8) -> Option<&[u8]> {
    let fixed = raw.get(..usize::from(*raw.get(1)?))?;
    (fixed.first() == Some(&kind)).then_some(fixed)
}

/// A number of so many bytes, the lowest first.
fn number(fixed: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = fixed.get(at..at + bytes)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Level and policy of a cache that is enabled (DSP0134, section 7.8): bits 2:0 of the
/// configuration are the level less one, bit 7 whether it is enabled, bits 9:8 the mode.
fn cache_policy(raw: &[u8]) -> Option<(u32, Option<&'static str>)> {
    let configuration = number(formatted(raw, 7)?, 0x05, 2)?;
    let policy = match configuration >> 8 & 3 {
        0 => Some("write-through"),
        1 => Some("write-back"),
        2 => Some("varies with the address"),
        _ => None,
    };
    let is_enabled = configuration >> 7 & 1 == 1;
    is_enabled.then(|| ((configuration & 7) as u32 + 1, policy))
}

/// Cuts the table into structures: a formatted part of `[1]` bytes, then strings up to two zeros.
fn structures(table: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = table;
    while let [_, length, ..] = rest {
        let fixed = usize::from(*length);
        if fixed < 4 || rest.len() < fixed {
            break;
        }
        let strings = rest[fixed..].windows(2).position(|pair| pair == [0, 0]);
        let end = strings.map_or(rest.len(), |at| fixed + at + 2);
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

/// One structure: a formatted part of `raw[1]` bytes, then its strings, each ended by a zero.
/// Offsets as in the System Management BIOS specification (DSP0134), section 7.18.
fn parse(raw: &[u8]) -> Option<Dimm> {
    let fixed = formatted(raw, 17)?;
    let number = |at: usize, bytes: usize| Some(number(fixed, at, bytes)? as u32);
    // 0 is unknown; FFFFh sends the reader to the extended field.
    let speed = |at: usize, extended: usize| {
        let mts = number(at, 2)?;
        let mts = if mts == 0xffff { number(extended, 4)? } else { mts };
        is_plausible("memory.mts", f64::from(mts)).then_some(mts)
    };
    let text = |at: usize| string(&raw[fixed.len()..], *fixed.get(at)?);
    Some(Dimm {
        locator: text(0x10),
        bank: text(0x11),
        size_bytes: size_bytes(number(0x0c, 2)?, number(0x1c, 4)),
        kind: number(0x12, 1).and_then(kind_name).map(str::to_string),
        rated_mts: speed(0x15, 0x54),
        configured_mts: speed(0x20, 0x58),
        data_bits: number(0x0a, 2).filter(|&bits| bits != 0 && bits != 0xffff),
        ranks: number(0x1b, 1).map(|ranks| ranks & 0xf).filter(|&ranks| ranks != 0),
    })
}

/// Bit 15 says KiB instead of MiB; 7FFFh sends the reader to the extended size in MiB.
fn size_bytes(size: u32, extended_mib: Option<u32>) -> u64 {
    match size {
        0 | 0xffff => 0,
        0x7fff => u64::from(extended_mib.unwrap_or(0) & 0x7fff_ffff) << 20,
        kib if kib & 0x8000 != 0 => u64::from(kib & 0x7fff) << 10,
        mib => u64::from(mib) << 20,
    }
}

/// String number `index` (from 1) of a structure's string area.
fn string(area: &[u8], index: u8) -> Option<String> {
    let place = usize::from(index).checked_sub(1)?;
    let bytes = area.split(|&b| b == 0).nth(place)?;
    let text = String::from_utf8_lossy(bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

fn kind_name(kind: u32) -> Option<&'static str> {
    let name = match kind {
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure with numbers at some places of its formatted part, the lowest byte first.
    fn raw(kind: u8, length: u8, numbers: &[(usize, &[u8])], strings: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; usize::from(length)];
        raw[..2].copy_from_slice(&[kind, length]);
        for (at, bytes) in numbers {
            raw[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        [&raw, strings].concat()
    }

    fn structure() -> Vec<u8> {
        let numbers: [(usize, &[u8]); 10] = [
            (0x0a, &[64]),
            (0x0c, &0x7fff_u16.to_le_bytes()),
            (0x10, &[1]),
            (0x11, &[2]),
            (0x12, &[0x22]),
            (0x15, &6400_u16.to_le_bytes()),
            (0x1b, &[2]),
            (0x1c, &65536_u32.to_le_bytes()),
            (0x20, &0xffff_u16.to_le_bytes()),
            (0x58, &5600_u32.to_le_bytes()),
        ];
        raw(17, 0x5c, &numbers, b"DIMM_A1\0CHANNEL A\0\0")
    }

    #[test]
    fn a_module_is_read() {
        let dimm = parse(&structure()).expect("the structure is whole");
        let expected = Dimm {
            locator: Some("DIMM_A1".into()),
            bank: Some("CHANNEL A".into()),
            size_bytes: 64 << 30,
            kind: Some("DDR5".into()),
            rated_mts: Some(6400),
            configured_mts: Some(5600),
            data_bits: Some(64),
            ranks: Some(2),
        };
        assert_eq!(dimm, expected);
    }

    #[test]
    fn a_table_is_cut_into_structures() {
        let mut table = vec![1, 4, 0, 0, b'x', 0, 0, 127, 4, 0, 0, 0, 0];
        table.extend(structure());
        table.extend([9, 200, 1]);
        let found = structures(&table);
        assert_eq!(found.iter().map(|one| one[0]).collect::<Vec<_>>(), [1, 127, 17]);
        assert_eq!(found[2], structure());
    }

    #[test]
    fn arrays_and_caches_are_read() {
        let array = |capacity: u32, slots: u16, extended: u64, of: u8| {
            let (capacity, slots) = (capacity.to_le_bytes(), slots.to_le_bytes());
            let extended = extended.to_le_bytes();
            let numbers = [(0x05, &[of][..]), (0x07, &capacity), (0x0d, &slots), (0x0f, &extended)];
            raw(16, 0x17, &numbers, &[0, 0])
        };
        let cache =
            |configuration: u16| raw(7, 0x13, &[(0x05, &configuration.to_le_bytes())], &[0, 0]);
        let table = [
            array(0x8000_0000, 16, 4 << 40, 3),
            array(64 << 20, 4, 0, 3),
            array(8 << 10, 1, 0, 4),
            // Two first levels that write back, a second of each kind, a third switched off.
            cache(0x0180),
            cache(0x0180),
            cache(0x0181),
            cache(0x0081),
            cache(0x0102),
            cache(0x0383),
        ]
        .concat();
        let hex: Vec<String> = table.iter().map(|byte| format!("{byte:02x}")).collect();
        let root = Root::tree(&format!("=x {TABLE}\n{}\n", hex.join(" ")));
        let expected = Array { slots: 20, maximum_bytes: Some((4 << 40) + (64 << 30)) };
        assert_eq!(super::array(&root), Some(expected));
        let expected = BTreeMap::from([(1, "write-back".to_owned())]);
        assert_eq!(write_policies(&root), expected);
        for length in 0..table.len() {
            // Must not panic.
            structures(&table[..length]).into_iter().for_each(|raw| {
                let _ = (one_array(raw), cache_policy(raw));
            });
        }
    }

    #[test]
    fn sizes_and_short_structures() {
        assert_eq!(size_bytes(16384, None), 16 << 30);
        assert_eq!(size_bytes(0x8000 | 512, None), 512 << 10);
        assert_eq!(size_bytes(0, None), 0);
        for length in 0..structure().len() {
            // Must not panic; a structure cut within its formatted part is nothing.
            let cut = parse(&structure()[..length]);
            assert_eq!(cut.is_some(), length >= 0x5c, "{length}");
        }
    }
}

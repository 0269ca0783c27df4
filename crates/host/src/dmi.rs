//! Memory modules from the DMI table (SMBIOS structure type 17). Readable by root only.

use serde::{Deserialize, Serialize};

use super::Root;
use super::plausible::is_plausible;

/// One memory slot, filled or empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimm {
    /// The slot's name (`DIMM_A1`).
    pub locator: Option<String>,
    /// Bank name (`P0 CHANNEL A`).
    pub bank: Option<String>,
    /// Capacity; 0 for an empty slot.
    pub size_bytes: u64,
    /// Written like this: `DDR4`, `DDR5`, …
    pub kind: Option<String>,
    /// Rated transfers per second, in millions.
    pub rated_mts: Option<u32>,
    /// Configured transfers per second, in millions.
    pub configured_mts: Option<u32>,
    pub data_bits: Option<u32>,
    pub ranks: Option<u32>,
}

const TABLE: &str = "sys/firmware/dmi/tables/DMI";

/// Memory slots of the machine; empty when the DMI table is not readable.
pub(super) fn dimms(root: &Root) -> Vec<Dimm> {
    let table = root.read_bytes(TABLE).unwrap_or_default();
    structures(&table).into_iter().filter_map(parse).collect()
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

//! Arm cores by their main ID register.
//!
//! Part numbers from the Linux kernel's `arch/arm64/include/asm/cputype.h` and each core's
//! technical reference manual.

use super::model::CpuInfo;
use super::{Core, LogicalCpu, Root};
use crate::text::hexadecimal;

/// Rows of implementer and its parts.
macro_rules! parts {
    ($($implementer:literal: $($part:literal $core:ident),*;)*) => {
        &[$($(($implementer, $part, Core::$core),)*)*]
    };
}

/// Microsoft's Cobalt 100 reports its own implementer (6Dh) around a Neoverse-N2. Variants of a design
/// (AE with lock-step, C for laptops, Apple's Pro and Max) count as that design.
const PARTS: &[(u64, u64, Core)] = parts! {
    0x41: 0xd03 CortexA53, 0xd05 CortexA55, 0xd07 CortexA57, 0xd08 CortexA72, 0xd09 CortexA73,
        0xd0a CortexA75, 0xd0b CortexA76, 0xd0c NeoverseN1, 0xd0d CortexA77, 0xd0e CortexA76,
        0xd40 NeoverseV1, 0xd41 CortexA78, 0xd42 CortexA78, 0xd44 CortexX1, 0xd46 CortexA510,
        0xd47 CortexA710, 0xd48 CortexX2, 0xd49 NeoverseN2, 0xd4b CortexA78, 0xd4c CortexX1,
        0xd4d CortexA715, 0xd4e CortexX3, 0xd4f NeoverseV2, 0xd83 NeoverseV3, 0xd84 NeoverseV3,
        0xd8e NeoverseN3;
    0x43: 0x0af ThunderX2;
    0x46: 0x001 A64fx;
    0x48: 0xd01 Tsv110;
    0x61: 0x022 AppleIcestorm, 0x023 AppleFirestorm, 0x024 AppleIcestorm, 0x025 AppleFirestorm,
        0x028 AppleIcestorm, 0x029 AppleFirestorm, 0x032 AppleBlizzard, 0x033 AppleAvalanche,
        0x034 AppleBlizzard, 0x035 AppleAvalanche, 0x038 AppleBlizzard, 0x039 AppleAvalanche;
    0x6d: 0xd49 NeoverseN2;
    0xc0: 0xac3 AmpereOne, 0xac4 AmpereOne;
};

/// Bits 31:24 of the register.
fn implementer(midr: u64) -> u64 {
    midr >> 24 & 0xff
}

/// The core that a register value names.
pub(super) fn part(midr: u64) -> Core {
    let number = midr >> 4 & 0xfff;
    let row = PARTS.iter().find(|row| row.0 == implementer(midr) && row.1 == number);
    row.map_or(Core::Unknown, |row| row.2)
}

/// The implementer's name.
pub(super) fn vendor(midr: u64) -> &'static str {
    match implementer(midr) {
        0x41 => "Arm",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x51 => "Qualcomm",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        _ => "unknown",
    }
}

/// Fills in the register of every CPU: sysfs, else the fields of `/proc/cpuinfo`.
pub(super) fn fill_midr(root: &Root, info: &CpuInfo, cpus: &mut [LogicalCpu]) {
    for cpu in cpus {
        let id = cpu.id;
        let path = format!("sys/devices/system/cpu/cpu{id}/regs/identification/midr_el1");
        let stated = root.line(&path).and_then(|text| hexadecimal(&text));
        cpu.midr = stated.or_else(|| from_cpuinfo(info, id));
    }
}

/// Packs implementer, variant, architecture (0xf), part and revision.
fn from_cpuinfo(info: &CpuInfo, id: usize) -> Option<u64> {
    let hex = |name: &str| hexadecimal(info.of(id, name)?);
    let revision: u64 = info.of(id, "CPU revision")?.parse().ok()?;
    let variant = hex("CPU variant").unwrap_or(0);
    Some(
        (hex("CPU implementer")? & 0xff) << 24
            | (variant & 0xf) << 20
            | 0xf << 16
            | (hex("CPU part")? & 0xfff) << 4
            | revision & 0xf,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_and_sysfs_agree() {
        let text = "processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\nCPU variant : 0x1\n\
                    CPU part : 0xd40\nCPU revision : 1\n";
        let midr = from_cpuinfo(&super::super::model::parse(text), 0);
        assert_eq!(midr, hexadecimal("0x00000000411fd401"));
        assert_eq!(midr.map(part), Some(Core::NeoverseV1));
        assert_eq!(midr.map(vendor), Some("Arm"));
        assert_eq!(part(0), Core::Unknown);
    }
}

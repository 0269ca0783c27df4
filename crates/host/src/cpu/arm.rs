//! Arm cores by their main ID register.
//!
//! Part numbers from the Linux kernel's `arch/arm64/include/asm/cputype.h` and each core's
//! technical reference manual.

use super::model::CpuInfo;
use super::{Core, LogicalCpu, Root};

/// A core of the part table.
pub(super) struct Part {
    pub(super) core: Core,
    pub(super) name: &'static str,
}

const PARTS: &[(u64, u64, Core)] = &[
    (0x41, 0xd03, Core::CortexA53),
    (0x41, 0xd05, Core::CortexA55),
    (0x41, 0xd07, Core::CortexA57),
    (0x41, 0xd08, Core::CortexA72),
    (0x41, 0xd09, Core::CortexA73),
    (0x41, 0xd0a, Core::CortexA75),
    (0x41, 0xd0b, Core::CortexA76),
    (0x41, 0xd0c, Core::NeoverseN1),
    (0x41, 0xd0d, Core::CortexA77),
    (0x41, 0xd40, Core::NeoverseV1),
    (0x41, 0xd41, Core::CortexA78),
    (0x41, 0xd44, Core::CortexX1),
    (0x41, 0xd46, Core::CortexA510),
    (0x41, 0xd47, Core::CortexA710),
    (0x41, 0xd48, Core::CortexX2),
    (0x41, 0xd49, Core::NeoverseN2),
    (0x41, 0xd4d, Core::CortexA715),
    (0x41, 0xd4e, Core::CortexX3),
    (0x41, 0xd4f, Core::NeoverseV2),
    (0x41, 0xd83, Core::NeoverseV3),
    (0x41, 0xd84, Core::NeoverseV3),
    (0x41, 0xd8e, Core::NeoverseN3),
    (0x43, 0x0af, Core::ThunderX2),
    (0x46, 0x001, Core::A64fx),
    (0x48, 0xd01, Core::Tsv110),
    (0x61, 0x022, Core::AppleIcestorm),
    (0x61, 0x023, Core::AppleFirestorm),
    (0x61, 0x032, Core::AppleBlizzard),
    (0x61, 0x033, Core::AppleAvalanche),
    // Microsoft's Cobalt 100 reports its own implementer around a Neoverse-N2.
    (0x6d, 0xd49, Core::NeoverseN2),
    (0xc0, 0xac3, Core::AmpereOne),
];

/// Bits 31:24 of the register.
fn implementer(midr: u64) -> u64 {
    midr >> 24 & 0xff
}

/// The core that a register value names.
pub(super) fn part(midr: u64) -> Part {
    let number = midr >> 4 & 0xfff;
    let row = PARTS.iter().find(|row| row.0 == implementer(midr) && row.1 == number);
    let core = row.map_or(Core::Unknown, |row| row.2);
    Part { core, name: core.name() }
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

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
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
        assert_eq!(midr.map(|midr| part(midr).core), Some(Core::NeoverseV1));
        assert_eq!(midr.map(vendor), Some("Arm"));
        assert_eq!(part(0).core, Core::Unknown);
    }
}

//! Arm cores by their main ID register.

use super::model::CpuInfo;
use super::{Core, LogicalCpu, Root, table};
use crate::text::hexadecimal;

/// Bits 31:24 of the register.
fn implementer(midr: u64) -> u64 {
    midr >> 24 & 0xff
}

/// The row of the core that a register value names.
pub(super) fn row(midr: u64) -> Option<table::Part> {
    table::part(implementer(midr), midr >> 4 & 0xfff)
}

/// The core that a register value names.
pub(super) fn part(midr: u64) -> Core {
    row(midr).map(|row| row.core).unwrap_or_default()
}

/// What makes two cores one design: implementer and part, without variant and revision.
pub(super) fn design(midr: u64) -> u64 {
    implementer(midr) << 12 | midr >> 4 & 0xfff
}

pub(super) fn vendor(midr: u64) -> &'static str {
    table::implementer(implementer(midr)).unwrap_or("unknown")
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
    let hex = |name: &str| hexadecimal(info.field(id, name)?);
    let revision: u64 = info.field(id, "CPU revision")?.parse().ok()?;
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

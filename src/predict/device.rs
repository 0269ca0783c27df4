//! Devices for files by their kind: data sheets state 50 to 120 µs for a read of 4 KiB from flash over
//! NVMe, 100 to 250 over SATA, 10 from the fastest media, and 8.3 ms for a turn at 7200 rpm with as much
//! for a seek. A virtual disk may be anything, and its host's memory besides.

use crate::experiment::Site;
use crate::host::block::Disk;
use crate::predict::cpu::is_guest;
use crate::predict::range;
use record::event::Range;

/// What a device is, for a read.
pub(crate) struct Device {
    /// What it is called in a sentence.
    pub(crate) name: &'static str,
    /// A read of a page at a random place, and at one a little further on, in ns.
    pub(crate) random_ns: Range,
    pub(crate) next_ns: Range,
    /// Bytes per ns in a row.
    pub(crate) rate: Range,
    /// Whether the class is certain.
    pub(crate) sure: bool,
}

pub(crate) static SPINNING: Device = Device {
    name: "a disk that spins",
    random_ns: range(2e6, 9e6, 3e7),
    next_ns: range(8e4, 3e6, 2.5e7),
    rate: range(0.05, 0.16, 0.3),
    sure: true,
};
pub(crate) static FLASH_NVME: Device = Device {
    name: "flash over NVMe",
    random_ns: range(1.1e4, 7.5e4, 3e5),
    next_ns: range(1e4, 6e4, 3e5),
    rate: range(0.4, 2.2, 8.0),
    sure: true,
};
pub(crate) static FLASH: Device = Device {
    name: "flash",
    random_ns: range(4e4, 1.4e5, 6e5),
    next_ns: range(4e4, 1.2e5, 6e5),
    rate: range(0.1, 0.42, 0.6),
    sure: true,
};
/// From the host's memory behind a hypervisor to a disk that spins and has others to serve.
pub(crate) static UNKNOWN: Device = Device {
    name: "a device of unknown kind",
    random_ns: range(1.2e4, 1.6e5, 2.5e7),
    next_ns: range(1.2e4, 1.4e5, 2e7),
    rate: range(0.04, 0.8, 10.0),
    sure: false,
};

/// Whether a disk is a hypervisor's: it says of itself what was typed in, and its host caches.
pub(crate) fn is_virtual(disk: &Disk, site: &Site) -> bool {
    let driver = disk.driver.as_deref().unwrap_or_default();
    is_guest(site)
        || disk.is_virtual
        || ["virtio", "xen", "vmw", "hv_"]
            .iter()
            .any(|kind| driver.starts_with(kind))
}

/// The class of a disk, and the sentence that says so.
pub(crate) fn device(disk: Option<&Disk>, site: &Site) -> (&'static Device, String) {
    let Some(disk) = disk else {
        return (&UNKNOWN, "nobody told of the device".to_owned());
    };
    let is_virtual = is_virtual(disk, site);
    let kind = match (disk.name.starts_with("nvme"), disk.rotational) {
        _ if is_virtual => &UNKNOWN,
        (true, _) => &FLASH_NVME,
        (_, Some(true)) => &SPINNING,
        (_, Some(false)) => &FLASH,
        _ => &UNKNOWN,
    };
    let why = match is_virtual {
        true => format!(
            "{} is a virtual disk, behind which may be the host's memory (12 µs and more), flash ({:.0} to \
             {:.0} µs) or a disk that spins ({:.0} to {:.0} ms)",
            disk.name,
            FLASH_NVME.random_ns.low / 1e3,
            FLASH.random_ns.high / 1e3,
            SPINNING.random_ns.low / 1e6,
            SPINNING.random_ns.high / 1e6
        ),
        false => format!("{} is {}", disk.name, kind.name),
    };
    (kind, why)
}

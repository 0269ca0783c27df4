//! Devices for files by their kind: data sheets state 50 to 120 µs for a read of 4 KiB from flash over
//! NVMe, 100 to 250 over SATA, 10 from the fastest media, and 8.3 ms for a turn at 7200 rpm with as much
//! for a seek. A virtual disk may be anything, and its host's memory besides.

use crate::experiment::Site;
use crate::host::block::Disk;
use crate::predict::cpu::is_guest;
use crate::predict::{around, range};
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

/// What one block of 4 KiB takes from a device, from its class and what the user knows of it.
pub(crate) struct Reading {
    /// Anywhere in a file of the size that was asked for, and the next one in order, in ns.
    pub(crate) random_ns: Range,
    pub(crate) next_ns: Range,
    /// Bytes per ns in a row.
    pub(crate) rate: Range,
    /// Whether the class is certain.
    pub(crate) sure: bool,
    /// From what.
    pub(crate) because: String,
}

/// Bytes of a block.
const BLOCK_BYTES: f64 = 4096.0;
/// Turns a minute of a disk that spins, where nobody told: from old notebooks to servers.
const RPM: Range = range(4200.0, 7200.0, 15_000.0);
/// A seek within a file of some MiB, in ns: next to nothing to that over a third of the disk.
const SHORT_SEEK_NS: Range = range(2e5, 1.5e6, 9e6);
/// A drive's buffer, where nobody told.
const DRIVE_CACHE_BYTES: f64 = 256.0 * 1048576.0;
/// A block that lies in it: command, transfer, interrupt.
const FROM_DRIVE_CACHE_NS: f64 = 4e4;
/// What encoding and packets leave of a PCIe link.
const LINK_SHARE: f64 = 0.92;

/// Reads of a file of `span` bytes, one block at a time.
pub(crate) fn reading(site: &Site, disk: Option<&Disk>, span: f64) -> Reading {
    let (class, mut because) = device(disk, site);
    let given = |name: &str| site.host.given.value(name);
    let mut reading = Reading {
        random_ns: class.random_ns,
        next_ns: class.next_ns,
        rate: class.rate,
        sure: class.sure,
        because: String::new(),
    };
    let rpm = given("disk.rpm").filter(|rpm| *rpm > 0.0);
    if rpm.is_some() || class.name == SPINNING.name {
        let (random, next, how) = spinning(rpm, given("disk.cache"), span);
        (reading.random_ns, reading.next_ns) = (random, next);
        reading.rate = SPINNING.rate;
        reading.sure = true;
        because = format!("{because}; {how}");
    }
    if let Some(bytes_per_ns) = link_rate(disk).filter(|_| class.name == FLASH_NVME.name) {
        reading.rate.high = reading.rate.high.min(bytes_per_ns).max(reading.rate.likely);
        because = format!("{because}, its link gives {bytes_per_ns:.1} GB/s at most");
    }
    if let Some(ns) = given("disk.read_latency") {
        reading.random_ns = around(ns, 0.5);
        // The next block may lie in a buffer, or take as long.
        reading.next_ns = range(0.15 * ns, 0.8 * ns, 1.5 * ns);
        reading.sure = true;
        because = format!("{because}; a random read takes {:.0} µs (given)", ns / 1e3);
    }
    if let Some(rate) = given("disk.read") {
        reading.rate = around(rate / 1e9, 0.4);
        because = format!("{because}; {:.2} GB/s in a row (given)", rate / 1e9);
    }
    reading.because = because;
    reading
}

/// R1's sum for a disk that spins: a seek, half a turn, the transfer. In order a block lies in the
/// drive's buffer, or its turn was just missed.
fn spinning(rpm: Option<f64>, cache: Option<f64>, span: f64) -> (Range, Range, String) {
    let rpm_range = rpm.map_or(RPM, |rpm| range(rpm, rpm, rpm));
    let turn = crate::predict::inverse(60e9, rpm_range);
    let transfer = BLOCK_BYTES / SPINNING.rate.likely;
    let likely = SHORT_SEEK_NS.likely + turn.likely / 2.0 + transfer;
    let fits = span <= cache.unwrap_or(DRIVE_CACHE_BYTES);
    let low = match fits {
        true => FROM_DRIVE_CACHE_NS,
        false => SHORT_SEEK_NS.low + 0.2 * turn.low,
    };
    let random = range(low, likely, 2.0 * (SHORT_SEEK_NS.high + turn.high));
    let next = range(FROM_DRIVE_CACHE_NS, 1.5e5, 1.5 * turn.high);
    let how = format!(
        "a short seek of {:.1} ms, half a turn at {:.0} rpm ({}){}",
        SHORT_SEEK_NS.likely / 1e6,
        rpm_range.likely,
        if rpm.is_some() {
            "given"
        } else {
            "nobody told"
        },
        if fits {
            ", or the drive's own buffer"
        } else {
            ""
        }
    );
    (random, next, how)
}

/// Bytes per ns that the PCIe link of a disk carries.
fn link_rate(disk: Option<&Disk>) -> Option<f64> {
    let link = disk?.pcie?;
    // 8b/10b up to 5 GT/s, 128b/130b above.
    let coded = if link.gts > 5.0 { 128.0 / 130.0 } else { 0.8 };
    Some(link.gts * f64::from(link.width) / 8.0 * coded * LINK_SHARE)
}

#[cfg(test)]
mod tests {
    use super::{UNKNOWN, reading};
    use crate::host::block::{Disk, PcieLink};
    use crate::predict::tests::bare_site;

    fn disk(name: &str, rotational: bool) -> Disk {
        Disk {
            name: name.to_owned(),
            model: None,
            rotational: Some(rotational),
            size_bytes: 1 << 40,
            scheduler: None,
            write_cache: None,
            fua: None,
            read_ahead_bytes: None,
            logical_block_bytes: None,
            physical_block_bytes: None,
            queue_requests: None,
            driver: None,
            is_virtual: false,
            number: None,
            partitions: Vec::new(),
            node: None,
            pcie: None,
        }
    }

    #[test]
    fn a_disk_that_spins_takes_a_seek_and_half_a_turn() {
        let mut site = bare_site();
        let disk = disk("sda", true);
        let small = reading(&site, Some(&disk), 1e6);
        let large = reading(&site, Some(&disk), 1e12);
        // 1.5 ms, half of 8.33 ms, and 26 µs.
        assert!((large.random_ns.likely - 5.69e6).abs() < 1e4);
        assert!(small.random_ns.low < 1e5 && large.random_ns.low > 5e5);
        site.host.given.set("disk.rpm", "15000").expect("a fact");
        let fast = reading(&site, Some(&disk), 1e12);
        assert!((fast.random_ns.likely - 3.526e6).abs() < 1e4);
        assert!(
            fast.because.contains("15000 rpm (given)"),
            "{}",
            fast.because
        );
    }

    #[test]
    fn a_link_bounds_and_what_the_user_knows_counts() {
        let mut site = bare_site();
        let mut nvme = disk("nvme0n1", false);
        nvme.pcie = Some(PcieLink {
            gts: 8.0,
            width: 4,
            max_gts: None,
            max_width: None,
        });
        let found = reading(&site, Some(&nvme), 1e9);
        assert!((found.rate.high - 3.62).abs() < 0.02, "{}", found.rate.high);
        site.host
            .given
            .set("disk.read_latency", "80us")
            .expect("a fact");
        site.host.given.set("disk.read", "3GB/s").expect("a fact");
        let found = reading(&site, None, 1e9);
        assert!(found.random_ns.likely == 8e4 && found.rate.likely == 3.0 && found.sure);
        assert!(found.because.contains("given"));
        let nothing = reading(&bare_site(), None, 1e9);
        assert!(nothing.random_ns == UNKNOWN.random_ns && !nothing.sure);
    }
}

//! Devices for files by their kind: data sheets state 50 to 120 µs for a read of 4 KiB from flash
//! over NVMe, 100 to 250 over SATA, 10 from the fastest media, and 8.3 ms for a turn at 7200 rpm
//! with as much for a seek. A virtual disk may be anything, and its host's memory besides: what it
//! has done since it is there (`device/counted.rs`) says more.

mod counted;

pub use counted::{Flushes, LONG_TAIL};

use crate::fs::Pattern;
use crate::{Law, around, range, scaled};
use bench::device::{NETWORKED, begins, is_nvme, is_virtual};
use bench::experiment::Site;
use host::block::Disk;
use record::event::{Condition, Range};

/// What a device is, for a read.
pub struct Device {
    /// What it is called in a sentence.
    pub name: &'static str,
    /// A read of a page at a random place, in ns.
    pub random_ns: Range,
    /// One a little further on.
    pub next_ns: Range,
    /// Bytes per ns in a row.
    pub rate: Range,
    /// Whether the class is certain.
    pub sure: bool,
}

impl Device {
    /// The coefficient of its times, which was fitted to recorded machines with such devices.
    pub fn fitted(&self, site: &Site) -> f64 {
        site.fitted.coefficient(self.name)
    }
}

/// A disk that spins.
pub static SPINNING: Device = Device {
    name: "a hard disk",
    random_ns: range(2e6, 9e6, 3e7),
    next_ns: range(8e4, 3e6, 2.5e7),
    rate: range(0.05, 0.16, 0.3),
    sure: true,
};
pub static FLASH_NVME: Device = Device {
    name: "flash over NVMe",
    // A cell of one bit, as fresh data has it on many, gives a page in 25 to 40 µs; of four bits in
    // 150.
    random_ns: range(3.5e4, 7.5e4, 1.8e5),
    // A page of flash holds four blocks, which the controller may still have.
    next_ns: range(1e4, 6e4, 1.8e5),
    rate: range(0.4, 2.2, 8.0),
    sure: true,
};
/// Optane and Z-NAND: their makers state 7 to 20 µs.
pub static FASTEST_NVME: Device = Device {
    name: FLASH_NVME.name,
    random_ns: range(6e3, 1.2e4, 4e4),
    next_ns: range(6e3, 1.2e4, 4e4),
    rate: range(0.8, 2.4, 8.0),
    sure: true,
};
/// Flash over another bus.
pub static FLASH: Device = Device {
    name: "flash",
    random_ns: range(7e4, 1.4e5, 3e5),
    // In order the controller reads ahead, so that a block is a command and a transfer: 13 µs in
    // R1, 48 in R2.
    next_ns: range(1.2e4, 5e4, 3e5),
    rate: range(0.1, 0.42, 0.6),
    sure: true,
};
/// Flash behind a provider's network, and spinning disks that pose as the same: the provider states
/// milliseconds of one digit for most kinds, less than one for the dearest, and 12 MB/s to 4 GB/s
/// by kind and size (Amazon EBS volume types, Google Persistent Disk, Azure managed disks).
pub static NETWORK: Device = Device {
    name: "a cloud provider's network disk",
    random_ns: range(1.5e5, 6e5, 1e7),
    next_ns: range(1.5e5, 6e5, 1e7),
    rate: range(0.012, 0.15, 4.0),
    sure: false,
};
/// Parts of the models of the fastest media.
const FASTEST: [&str; 6] = ["OPTANE", "SSDPE21D", "SSDPED1", "SSDPEL1", "SSDPF21Q", "Z-SSD"];
/// From the host's memory behind a hypervisor to a disk that spins and has others to serve.
pub static UNKNOWN: Device = Device {
    name: "a device of unknown kind",
    random_ns: range(1.2e4, 1.6e5, 2.5e7),
    next_ns: range(1.2e4, 1.4e5, 2e7),
    rate: range(0.04, 0.8, 10.0),
    sure: false,
};

/// A write of a page into the cache of a device of unknown kind, in ns: from the memory of a host to
/// a disk that spins.
pub const UNKNOWN_WRITE_NS: Range = range(1.2e4, 9e4, 1.5e7);
/// A flush of that cache, in ns.
pub const UNKNOWN_FLUSH_NS: Range = range(1e4, 2.5e5, 4e7);

fn model(disk: &Disk) -> String {
    disk.model.as_deref().unwrap_or_default().to_uppercase()
}

/// The class of a disk, and the sentence that says so.
pub fn device(disk: Option<&Disk>, site: &Site) -> (&'static Device, String) {
    let Some(disk) = disk else {
        return (&UNKNOWN, "the device is unknown".to_owned());
    };
    if begins(disk, &NETWORKED) {
        let model = disk.model.as_deref().unwrap_or_default();
        let why = format!("{} is {} ({model})", disk.name, NETWORK.name);
        return (&NETWORK, why);
    }
    let is_virtual = is_virtual(disk, site);
    let is_fastest = FASTEST.iter().any(|part| model(disk).contains(part));
    let kind = match (is_nvme(disk), disk.rotational) {
        _ if is_virtual => &UNKNOWN,
        (true, _) if is_fastest => &FASTEST_NVME,
        (true, _) => &FLASH_NVME,
        (_, Some(true)) => &SPINNING,
        (_, Some(false)) => &FLASH,
        _ => &UNKNOWN,
    };
    let why = match is_virtual {
        true => format!(
            "{} is a virtual disk: the host may answer from memory (12 µs), flash (up to 300 µs) \
             or a hard disk (up to 30 ms)",
            disk.name
        ),
        false => format!("{} is {}", disk.name, kind.name),
    };
    (kind, why)
}

/// An interval of a disk's class, with the sentence that says what it is.
pub fn term(site: &Site, disk: Option<&Disk>, of: Range) -> Law {
    let is_guests = disk.is_some_and(|disk| is_virtual(disk, site) && !begins(disk, &NETWORKED));
    Law::hardware(of, device(disk, site).1).counting_if(is_guests, Condition::VirtualDisk)
}

/// Time of one 4 KiB block on a device, from its class and the user's settings.
pub struct Reading {
    pub class: &'static Device,
    /// Anywhere in a file of the size that was asked for, in ns.
    pub random: Law,
    /// The next one in order, in ns.
    pub next: Law,
    /// Bytes per ns in a row.
    pub rate: Law,
    /// Whether the class is certain.
    pub sure: bool,
}

impl Reading {
    /// A block in a pattern, in ns.
    pub fn block(&self, pattern: Pattern) -> &Law {
        match pattern {
            Pattern::Random => &self.random,
            Pattern::Sequential => &self.next,
        }
    }
}

const BLOCK_BYTES: f64 = 4096.0;
/// Default rotations per minute of a hard disk: from old notebooks to servers.
const RPM: Range = range(5400.0, 7200.0, 15_000.0);
/// A seek to the next tracks, in ns, and what one over a third of the disk takes beyond: data
/// sheets state 0.2 to 2 ms, and 3.5 to 12 ms.
const SHORT_SEEK_NS: Range = range(2e5, 1.2e6, 3e6);
const THIRD_SEEK_NS: Range = range(3e6, 7.5e6, 1e7);
/// Default size of a drive's buffer; most have 64 to 256 MiB for everybody's reads and writes.
const DRIVE_CACHE_BYTES: f64 = 8.0 * 1048576.0;
/// A block that lies in it: command, transfer, interrupt.
const FROM_DRIVE_CACHE_NS: f64 = 4e4;
/// What encoding and packets leave of a PCIe link.
const LINK_SHARE: f64 = 0.92;

/// Reads of a file of `span` bytes, one block at a time.
pub fn reading(site: &Site, disk: Option<&Disk>, span: f64) -> Reading {
    let (class, _) = device(disk, site);
    let given = |name: &str| site.host.given.value(name);
    let fitted = class.fitted(site);
    let mut reading = Reading {
        class,
        random: term(site, disk, scaled(class.random_ns, fitted)),
        next: term(site, disk, scaled(class.next_ns, fitted)),
        rate: term(site, disk, scaled(class.rate, 1.0 / fitted)),
        sure: class.sure,
    };
    let rpm = given("disk.rpm").filter(|rpm| *rpm > 0.0);
    if rpm.is_some() || class.name == SPINNING.name {
        let share = disk.map_or(1.0 / 3.0, |disk| span / disk.size_bytes.max(1) as f64);
        let (random, next, how) = spinning(rpm, given("disk.cache"), span, share);
        reading.random = reading.random.with_range(random).and(&how);
        reading.next = reading.next.with_range(next).and(&how);
        reading.rate = reading.rate.with_range(SPINNING.rate);
        reading.sure = true;
    }
    if let Some(since) = disk.and_then(|disk| disk.counted).filter(|_| !class.sure) {
        reading = counted::narrowed(reading, since);
    }
    if let Some(bytes_per_ns) = link_rate(disk).filter(|_| class.name == FLASH_NVME.name) {
        let most = |of: Range| Range { high: of.high.min(bytes_per_ns).max(of.likely), ..of };
        let told = format!("its link carries at most {bytes_per_ns:.1} GB/s");
        reading.rate = reading.rate.reshaped(most).and(told);
    }
    if let Some(ns) = given("disk.read_latency") {
        let told = format!("a random read takes {:.0} µs (--set host.disk.read_latency)", ns / 1e3);
        reading.random = reading.random.with_range(around(ns, 0.5)).and(&told);
        // The next block may lie in a buffer, or take as long.
        reading.next = reading.next.with_range(range(0.15 * ns, 0.8 * ns, 1.5 * ns)).and(&told);
        reading.sure = true;
    }
    if let Some(rate) = given("disk.read").map(|rate| rate / 1e9) {
        let told = format!("{rate:.2} GB/s sequential (--set host.disk.read)");
        reading.rate = reading.rate.with_range(around(rate, 0.4)).and(told);
    }
    reading
}

/// R1's sum for a disk that spins: a seek, half a turn, the transfer. In order a block lies in the
/// drive's buffer, or its turn was just missed.
fn spinning(rpm: Option<f64>, cache: Option<f64>, span: f64, share: f64) -> (Range, Range, String) {
    let rpm_range = rpm.map_or(RPM, |rpm| range(rpm, rpm, rpm));
    let turn = crate::inverse(60e9, rpm_range);
    let transfer = BLOCK_BYTES / SPINNING.rate.likely;
    // An arm that accelerates for half of its way takes time proportional to the square root of the
    // distance.
    let way = (3.0 * share).min(1.0).sqrt();
    let seek = crate::sum(SHORT_SEEK_NS, scaled(THIRD_SEEK_NS, way));
    let likely = seek.likely + turn.likely / 2.0 + transfer;
    let fits = span <= cache.unwrap_or(DRIVE_CACHE_BYTES);
    let low = if fits { FROM_DRIVE_CACHE_NS } else { SHORT_SEEK_NS.low + 0.4 * turn.low };
    // Pieces of the file may lie further apart than its length.
    let random = range(low, likely, 1.5 * (seek.high + turn.high));
    let next = range(FROM_DRIVE_CACHE_NS, 1.5e5, 1.5 * turn.high);
    let how = format!(
        "a seek of {:.1} ms within the file and half a rotation at {:.0} rpm ({}){}",
        seek.likely / 1e6,
        rpm_range.likely,
        if rpm.is_some() { "given" } else { "assumed" },
        if fits { ", or a hit in the drive's buffer" } else { "" }
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
    use super::{FLASH_NVME, NETWORK, Reading, UNKNOWN, device, reading, scaled};
    use bench::experiment::fixtures::{bare_site, recorded};
    use host::block::{Counted, Disk, PcieLink};
    use record::event::Condition;

    /// A disk about which nothing else is known.
    fn disk(name: &str, rotational: bool) -> Disk {
        let disk = recorded("vm-granite-rapids").host.block.disks.swap_remove(0);
        Disk {
            name: name.to_owned(),
            rotational: Some(rotational),
            size_bytes: 1 << 40,
            model: None,
            driver: None,
            write_cache: None,
            is_virtual: false,
            pcie: None,
            counted: None,
            ..disk
        }
    }

    #[test]
    fn a_disk_that_spins_takes_a_seek_and_half_a_turn() {
        let mut site = bare_site();
        let disk = disk("sda", true);
        let small = reading(&site, Some(&disk), 1e6);
        let usual = reading(&site, Some(&disk), 268.4e6);
        let large = reading(&site, Some(&disk), 1e12);
        // 1.2 and 7.5 ms, half of 8.33 ms, and 26 µs.
        assert!((large.random.range.likely - 12.89e6).abs() < 1e4);
        // A file of 256 MiB on 1 TiB: the root of 0.00073 of that.
        assert!((usual.random.range.likely - 5.60e6).abs() < 2e4);
        assert!(small.random.range.low < 1e5, "the drive's buffer");
        assert!(
            usual.random.range.low > 1.5e6
                && usual.random.range.high / usual.random.range.low < 15.0
        );
        site.host.given.set("disk.cache", "512MiB").expect("a fact");
        assert!(reading(&site, Some(&disk), 268.4e6).random.range.low < 1e5);
        site.host.given.set("disk.rpm", "15000").expect("a fact");
        let fast = reading(&site, Some(&disk), 1e12);
        assert!((fast.random.range.likely - 10.726e6).abs() < 1e4);
    }

    #[test]
    fn a_model_tells_a_disk_of_the_guest_from_one_of_its_host() {
        let mut site = bare_site();
        site.host.kernel.virtualisation.is_guest = Some(true);
        let of = |name: &str, model: &str| {
            let mut disk = disk(name, false);
            disk.model = Some(model.to_owned());
            device(Some(&disk), &site).0.name
        };
        for model in [
            "SAMSUNG MZQL21T9HCJR-00A07",
            "Samsung SSD 980 PRO 1TB",
            "Amazon EC2 NVMe Instance Storage",
        ] {
            assert_eq!(of("nvme0n1", model), FLASH_NVME.name, "{model}");
        }
        for model in ["QEMU NVMe Ctrl", "VMware Virtual NVMe Disk", ""] {
            assert_eq!(of("nvme0n1", model), UNKNOWN.name, "{model}");
        }
        assert_eq!(of("sda", "SAMSUNG HD103UJ"), UNKNOWN.name, "no NVMe");
        for model in ["Amazon Elastic Block Store", "nvme_card-pd"] {
            assert_eq!(of("nvme0n1", model), NETWORK.name, "{model}");
        }
        let bare = bare_site();
        let mut fastest = disk("nvme0n1", false);
        fastest.model = Some("INTEL SSDPED1D480GA".to_owned());
        let found = reading(&bare, Some(&fastest), 1e9).random.range;
        let usual = reading(&bare, Some(&disk("nvme0n1", false)), 1e9).random.range;
        assert!(found.low < 1e4 && usual.low > 2e4, "{found:?}, {usual:?}");
        assert!(usual.high / usual.low < 6.0);
    }

    #[test]
    fn what_a_disk_has_done_narrows_a_virtual_one_alone() {
        let mut site = bare_site();
        let mut known = disk("nvme0n1", false);
        known.counted = Some(Counted {
            reads: 1_000_000,
            read_bytes: 40_000_000_000,
            read_ms: 500_000,
            writes: 0,
            written_bytes: 0,
            write_ms: 0,
            busy_ms: 40_000,
            flushes: None,
        });
        let bare = reading(&site, Some(&known), 1e9);
        assert_eq!(bare.random.range, FLASH_NVME.random_ns);
        site.host.kernel.virtualisation.is_guest = Some(true);
        let guest = reading(&site, Some(&known), 1e9);
        assert!(guest.random.range.high < UNKNOWN.random_ns.high);
        let told = |reading: &Reading| reading.random.clone().prediction().conditions;
        assert_eq!((told(&bare), told(&guest)), (vec![], vec![Condition::VirtualDisk]));
        site.host.given.set("disk.read_latency", "20ms").expect("a fact");
        let given = reading(&site, Some(&known), 1e9);
        assert_eq!(given.random.range.likely, 2e7, "the user knows better");
    }

    #[test]
    fn a_recorded_guest_s_disk_is_bound_by_what_it_did_and_without_that_it_is_not() {
        let mut site = recorded("vm-granite-rapids");
        let disks = site.host.block.disks.iter();
        let disk = disks.clone().find(|disk| disk.name == "vda").cloned();
        let mut disk = disk.expect("it has one");
        assert!(disk.counted.is_some_and(|counted| counted.flushes.is_some()));
        let narrow = reading(&site, Some(&disk), 1e8);
        // 1.2 ms in the mean with some twenty in the queue; 0.85 GB/s.
        assert!(
            narrow.random.range.high < 5e6
                && narrow.random.range.low == 12e3 * UNKNOWN.fitted(&site)
        );
        assert!(narrow.rate.range.low > 0.15 && !narrow.sure);
        disk.counted = None;
        site.host.block.disks.clear();
        let wide = reading(&site, Some(&disk), 1e8);
        let fitted = UNKNOWN.fitted(&site);
        let usual = (scaled(UNKNOWN.random_ns, fitted), scaled(UNKNOWN.rate, 1.0 / fitted));
        assert_eq!((wide.random.range, wide.rate.range), usual);
    }

    #[test]
    fn a_link_bounds_and_what_the_user_knows_counts() {
        let mut site = bare_site();
        let mut nvme = disk("nvme0n1", false);
        nvme.pcie = Some(PcieLink { gts: 8.0, width: 4, max_gts: None, max_width: None });
        let found = reading(&site, Some(&nvme), 1e9);
        assert!((found.rate.range.high - 3.62).abs() < 0.02, "{:?}", found.rate);
        site.host.given.set("disk.read_latency", "80us").expect("a fact");
        site.host.given.set("disk.read", "3GB/s").expect("a fact");
        let found = reading(&site, None, 1e9);
        assert!(found.random.range.likely == 8e4 && found.rate.range.likely == 3.0 && found.sure);
        let nothing = reading(&bare_site(), None, 1e9);
        let usual = scaled(UNKNOWN.random_ns, UNKNOWN.fitted(&bare_site()));
        assert!(nothing.random.range == usual && !nothing.sure);
    }
}

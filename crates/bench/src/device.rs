//! The block device below a directory: which it is, and what it says that it gave.

use crate::experiment::{Site, Skip};
use host::block::{Disk, Mount, line_of};
use record::quantity::render;
use record::unit::Unit;
use std::path::Path;
use std::time::Duration;

/// Bytes of a sector in /proc/diskstats, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// What lies below the directory for files.
pub struct Below<'site> {
    pub disk: &'site Disk,
    /// What counts there: `major:minor` of the partition if that is known; of several disks,
    /// separated by spaces.
    pub number: String,
    pub mount: &'site Mount,
}

const WAY_OUT: &str = "--dir DIR on a file system of a block device (ext4, xfs, btrfs)";

/// The share of each experiment in what a run may write in all of its rounds together, files that
/// are made before them included. The selected experiments divide all of it; what one does not need
/// goes to those that lack room.
const SHARES: [(&str, u64); 7] = [
    ("memory.fault", 5),
    ("fs.cache_size", 6),
    ("fs.read", 6),
    ("fs.io", 7),
    ("fs.contention", 6),
    ("fs.sync", 1),
    ("fs.metadata", 1),
];

/// Models of disks in a provider's network.
pub const NETWORKED: [&str; 4] =
    ["Amazon Elastic Block Store", "nvme_card-pd", "PersistentDisk", "MSFT NVMe Accelerator"];
/// How makers of flash begin their models: behind such a name, and the host's local ones, a guest's
/// NVMe disk is the thing itself. A hypervisor's own is called after it.
const MAKERS: [&str; 13] = [
    "SAMSUNG", "INTEL", "MICRON", "KIOXIA", "TOSHIBA", "WDC", "WDS", "WUS", "SOLIDIGM", "HGST",
    "SKHYNIX", "HFS", "SEAGATE",
];
const LOCAL: [&str; 2] = ["AMAZON EC2 NVME INSTANCE STORAGE", "MICROSOFT NVME DIRECT DISK"];
/// Whether a disk is a hypervisor's: it says of itself what was typed in, and its host caches. A
/// guest may have a device of its own.
pub fn is_virtual(disk: &Disk, site: &Site) -> bool {
    if begins(disk, &NETWORKED) {
        return true;
    }
    if is_nvme(disk) && (begins(disk, &MAKERS) || begins(disk, &LOCAL)) {
        return false;
    }
    let driver = disk.driver.as_deref().unwrap_or_default();
    site.host.kernel.virtualisation.is_guest == Some(true)
        || disk.is_virtual
        || ["virtio", "xen", "vmw", "hv_"].iter().any(|kind| driver.starts_with(kind))
}

pub fn is_nvme(disk: &Disk) -> bool {
    disk.name.starts_with("nvme")
}

/// Whether a disk's model begins with one of these names, whatever their case.
pub fn begins(disk: &Disk, names: &[&str]) -> bool {
    let model = disk.model.as_deref().unwrap_or_default().to_uppercase();
    names.iter().any(|name| model.starts_with(&name.to_uppercase()))
}

/// The shares of all experiments together.
const ALL_SHARES: u64 = 32;

/// The share of an experiment; 0 of one that writes nothing.
pub fn share(experiment: &str) -> u64 {
    SHARES.iter().find(|(id, _)| *id == experiment).map_or(0, |(_, share)| *share)
}

/// What an experiment may write in the directory for files, in bytes; nothing without one.
pub fn allowance(site: &Site, experiment: &str) -> u64 {
    let Some(dir) = &site.dir else { return 0 };
    let portion = dir.portions.iter().find(|(id, _)| *id == experiment);
    portion.map_or(dir.allowance_bytes / ALL_SHARES * share(experiment), |(_, bytes)| *bytes)
}

/// An amount that follows from what may be written, in steps: the largest power of two within it.
/// Free space changes from one minute to the next, by the run's own record if by nothing else, and
/// a run that is continued must come to the settings that it began with.
pub fn coarse(amount: u64) -> u64 {
    amount.checked_ilog2().map_or(0, |power| 1 << power)
}

/// What a plan states for writing `bytes` in the directory for files and syncing them: at a rate
/// that most devices of the kind exceed, in bytes per ns.
pub fn write_cost(site: &Site, bytes: u64) -> Duration {
    const SPINNING: f64 = 0.08;
    const OTHERS: f64 = 0.25;
    let disk = below(site).ok().map(|below| below.disk);
    let rate = match disk {
        Some(disk) if disk.rotational == Some(true) && !is_virtual(disk, site) => SPINNING,
        _ => OTHERS,
    };
    Duration::from_nanos((bytes as f64 / rate) as u64)
}

/// Demands that an experiment may write `bytes`; `setting` is what makes them fewer. Errors: it may
/// not.
pub fn affords(site: &Site, experiment: &str, bytes: u64, setting: &str) -> Result<(), Skip> {
    let allowed = allowance(site, experiment);
    if bytes <= allowed {
        return Ok(());
    }
    Err(Skip::because(format!(
        "it would write {}, and may write {} here",
        render(bytes as f64, Unit::B),
        render(allowed as f64, Unit::B)
    ))
    .needs(format!("--dir DIR with more free space, or --set {experiment}.{setting}")))
}

/// The device below the directory for files. Errors: there is no directory, or its files lie in
/// memory or behind something that keeps a cache.
pub fn below(site: &Site) -> Result<Below<'_>, Skip> {
    let dir = site.dir.as_ref().ok_or_else(|| {
        Skip::because("no directory for files: the current one is not writable, or is in memory")
            .needs(WAY_OUT)
    })?;
    let shown = dir.path.display();
    let mount = mount_of(site, &dir.path)
        .ok_or_else(|| Skip::because(format!("cannot find the mount of {shown}")).needs(WAY_OUT))?;
    let (disk, number) = disk_of(site, mount).ok_or_else(|| {
        let on = site.host.block.path_of(mount).unwrap_or_else(|why| why);
        Skip::because(format!(
            "{shown} is on {on}: without a block device with read counters a first touch may be \
             served from memory or by another machine"
        ))
        .needs(WAY_OUT)
    })?;
    if !counts_itself(disk) {
        return Err(Skip::because(format!(
            "{shown} is on {}, which keeps its data in memory or in a file with its own cache",
            disk.name
        ))
        .needs(WAY_OUT));
    }
    Ok(Below { disk, number, mount })
}

/// The mounted file system that holds a path.
pub fn mount_of<'site>(site: &'site Site, path: &Path) -> Option<&'site Mount> {
    site.host.block.mount_of(&path.to_string_lossy())
}

/// The disk that stands for all below a mounted file system, and what counts for them.
pub fn disk_of<'site>(site: &'site Site, mount: &Mount) -> Option<(&'site Disk, String)> {
    site.host.block.disk_of(mount).zip(site.host.block.numbers_of(mount))
}

/// Whether a disk is no file and no memory that poses as one.
pub fn counts_itself(disk: &Disk) -> bool {
    let poses = ["loop", "zram", "ram"];
    !poses.iter().any(|kind| disk.name.starts_with(kind))
}

/// Bytes that devices have read, as their lines of /proc/diskstats say; `None` without such a line,
/// and if the kernel is configured not to count.
pub fn device_read_bytes(number: &str) -> Option<u64> {
    Some(counted(number, READ_SECTORS)? * SECTOR_BYTES)
}

/// Bytes that a device was given to write; `None` likewise.
pub fn device_written_bytes(number: &str) -> Option<u64> {
    Some(counted(number, WRITTEN_SECTORS)? * SECTOR_BYTES)
}

/// Sum of the times that requests of everybody waited for a device, from submission to answer, in
/// ns (counted when they are answered); `None` likewise. Its growth over a time is the mean number
/// in flight.
pub fn device_waited_ns(number: &str) -> Option<f64> {
    Some(counted(number, WAITED_MS)? as f64 * 1e6)
}

/// Requests that a device has not answered yet, of everybody; `None` without such a line.
pub fn device_in_flight(number: &str) -> Option<u64> {
    field_of(&diskstats()?, number, IN_FLIGHT)
}

/// What the kernel counts of a device, if it does: `iostats` of its queue, of a partition that of
/// its disk.
fn counted(number: &str, field: usize) -> Option<u64> {
    let told = |device: &str| {
        let read = |queue| {
            std::fs::read_to_string(format!("/sys/dev/block/{device}/{queue}/iostats")).ok()
        };
        read("queue").or_else(|| read("../queue"))
    };
    let counts = !number.split(' ').filter_map(told).any(|told| told.trim() == "0");
    field_of(&diskstats().filter(|_| counts)?, number, field)
}

/// What a device was given to write so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Requests; a flush is one of them.
    pub requests: u64,
    pub bytes: u64,
    /// Flushes of its cache; `None` before Linux 5.5.
    pub flushes: Option<u64>,
}

/// What a device was given to write; `None` without a line of its number. Partitions count no
/// flushes: those are the whole disk's (`disk`).
pub fn device_written(number: &str, disk: Option<&str>) -> Option<Written> {
    written_of(&diskstats()?, number, disk)
}

fn written_of(diskstats: &str, number: &str, disk: Option<&str>) -> Option<Written> {
    Some(Written {
        requests: field_of(diskstats, number, WRITES)?,
        bytes: field_of(diskstats, number, WRITTEN_SECTORS)? * SECTOR_BYTES,
        flushes: disk.and_then(|disk| field_of(diskstats, disk, FLUSHES)),
    })
}

fn diskstats() -> Option<String> {
    std::fs::read_to_string("/proc/diskstats").ok()
}

// Of `major minor name reads merged sectors ms writes merged sectors ms in-flight …`
// (Documentation/admin-guide/iostats.rst).
const READ_SECTORS: usize = 5;
const WRITES: usize = 7;
const WRITTEN_SECTORS: usize = 9;
const IN_FLIGHT: usize = 11;
const WAITED_MS: usize = 13;
const FLUSHES: usize = 18;

/// The sum over devices, by number or name and separated by spaces; `None` unless all are counted.
fn field_of(diskstats: &str, devices: &str, index: usize) -> Option<u64> {
    let one = |device| line_of(diskstats, device)?.get(index)?.parse::<u64>().ok();
    devices.split(' ').map(one).sum()
}

/// Bytes that the calling thread had a device read; `None` where the kernel does not count them.
pub fn own_read_bytes() -> Option<u64> {
    number_in("/proc/thread-self/io", "read_bytes:")
}

/// Bytes that all threads of the process had devices read, the kernel's threads of an io_uring
/// included; `None` where the kernel does not count them.
pub fn process_read_bytes() -> Option<u64> {
    number_in("/proc/self/io", "read_bytes:")
}

/// As [`process_read_bytes`], bytes written: for what goes through the page cache counted when a
/// page becomes dirty.
pub fn process_written_bytes() -> Option<u64> {
    number_in("/proc/self/io", "write_bytes:")
}

fn number_in(file: &str, name: &str) -> Option<u64> {
    host::text::number(&std::fs::read_to_string(file).ok()?, name)
}

#[cfg(test)]
mod tests {
    use super::{
        ALL_SHARES, IN_FLIGHT, READ_SECTORS, SHARES, WAITED_MS, allowance, below, coarse, field_of,
        written_of,
    };
    use crate::experiment::Site;
    use crate::experiment::fixtures::{bare_site, with_dir};
    use host::{Host, Root};

    const TREE: &str = "== sys/block/sdb/size\n100\n== sys/block/sdb/dev\n8:16\n\
        == sys/block/sdb/device/model\nX\n== sys/block/loop0/size\n10\n== sys/block/loop0/dev\n7:0\n";
    const MOUNTS: &str = "22 1 0:40 / / rw - overlay overlay rw\n\
        23 22 0:41 / /fast rw - btrfs /dev/sdb2 rw\n\
        24 22 8:16 / /disk rw - ext4 /dev/sdb rw\n\
        25 22 0:42 / /tmp rw - tmpfs tmpfs rw\n\
        26 22 7:0 / /image rw - ext4 /dev/loop0 rw\n";

    fn site(dir: &str) -> Site {
        let root = Root::tree(TREE).with("proc/self/mountinfo", MOUNTS);
        with_dir(Site { host: Host::read(&root), ..bare_site() }, dir, 1 << 34)
    }

    #[test]
    fn only_a_device_that_counts_is_a_device() {
        for (dir, number) in [("/disk/x", "8:16"), ("/fast", "8:16")] {
            let site = site(dir);
            let below = below(&site).unwrap_or_else(|skip| panic!("{dir}: {}", skip.reason));
            assert_eq!((below.disk.name.as_str(), &*below.number), ("sdb", number));
        }
        for (dir, word) in [("/tmp", "tmpfs"), ("/root", "overlay"), ("/image/x", "loop0")] {
            let site = site(dir);
            let skip = below(&site).err().expect("no device");
            assert!(skip.reason.contains(word), "{}", skip.reason);
            assert!(skip.needed.is_some_and(|needed| needed.contains("--dir")));
        }
        let bare = bare_site();
        assert!(below(&bare).is_err_and(|skip| skip.reason.contains("no directory")));
    }

    #[test]
    fn what_a_run_may_write_is_divided_among_the_selected() {
        assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), ALL_SHARES);
        let with = |portions, id: &str| {
            let mut site = site("/disk/x");
            site.dir.as_mut().expect("has one").portions = portions;
            allowance(&site, id) >> 20
        };
        let portions = vec![("fs.io", 5 << 30), ("fs.sync", 1 << 20)];
        for (portions, id, mib) in [
            (Vec::new(), "fs.io", 7 * 512),
            (Vec::new(), "os.pipe", 0),
            (portions.clone(), "fs.io", 5 << 10),
            (portions.clone(), "fs.sync", 1),
            // One that is asked although it is not selected.
            (portions, "fs.read", 6 * 512),
        ] {
            assert_eq!(with(portions, id), mib, "{id}");
        }
        assert_eq!(allowance(&bare_site(), "fs.io"), 0);
    }

    #[test]
    fn an_amount_is_cut_to_a_power_of_two_and_never_grows() {
        assert_eq!([0, 1, 2, 3, 1023, 1024].map(coarse), [0, 1, 2, 2, 512, 1024]);
        assert_eq!(coarse(u64::MAX), 1 << 63);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let text =
            "   8       0 sda 5 0 99 1 0 0 0 0 0 0 0\n 8 16 sdb 403 16 321 74 2 3 4 5 6 4 9\n";
        assert_eq!(field_of(text, "8:16", READ_SECTORS), Some(321));
        assert_eq!(field_of(text, "8:16", IN_FLIGHT), Some(6));
        let short = "8 16 sdb 403 16 321 74 2 3 4 5 6 4\n";
        assert_eq!(field_of(short, "8:16", WAITED_MS), None, "not told");
        let new = "8 16 sdb 403 16 321 74 2 3 4 5 6 4 9 0 0\n";
        assert_eq!(field_of(new, "8:16", WAITED_MS), Some(9));
        assert_eq!(field_of(text, "8:1", READ_SECTORS), None);
        assert_eq!(field_of("", "8:1", READ_SECTORS), None);
        assert_eq!(field_of(text, "8:0 8:16", READ_SECTORS), Some(420), "all of a pool");
        assert_eq!((field_of(text, "8:0 9:1", 5), field_of(text, "sdb", 5)), (None, Some(321)));
        let written = |disk| written_of(text, "8:16", disk).map(|written| written.flushes);
        assert_eq!(written(Some("8:16")), Some(None), "an old kernel");
        let new = "8 0 sda 1 0 8 0 3 4 24 6 0 8 9 1 2 3 4 77 5\n8 1 sda1 1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 0 0\n";
        let found = written_of(new, "8:1", Some("8:0")).expect("both lines");
        assert_eq!((found.requests, found.bytes), (2, 16 * 512));
        assert_eq!(found.flushes, Some(77));
    }
}

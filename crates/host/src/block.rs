//! Disks and mounted file systems.

mod below;

pub use below::Below;

use serde::{Deserialize, Serialize};

use super::Root;
use super::mountinfo::{Mounted, mounts};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Disks that have a size, by name. Partitions are not disks; loop and zram devices are.
    pub disks: Vec<Disk>,
    /// Mounted file systems, in mount order; `proc`, `sysfs` and their kind are left out.
    pub mounts: Vec<Mount>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Written like this: `nvme0n1`.
    pub name: String,
    /// Model, as the device names itself.
    pub model: Option<String>,
    /// Spins, as the driver states it; virtual disks (`virtio_blk`) claim it without spinning.
    pub rotational: Option<bool>,
    /// Revolutions per minute; 1 where the device says that it does not turn (SCSI block device
    /// characteristics).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_rpm: Option<u32>,
    pub size_bytes: u64,
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Forced unit access works.
    pub fua: Option<bool>,
    pub read_ahead_bytes: Option<u64>,
    /// Smallest unit the device addresses.
    pub logical_block_bytes: Option<u64>,
    /// Driver of the device (`nvme`, `virtio_blk`, `sd`).
    pub driver: Option<String>,
    /// No device behind it (loop, zram, device mapper).
    pub is_virtual: bool,
    /// Written like this: `major:minor`.
    pub number: Option<String>,
    /// `major:minor` of its partitions.
    pub partitions: Vec<String>,
    /// Memory node of the device.
    pub node: Option<usize>,
    /// PCIe link of the device.
    pub pcie: Option<PcieLink>,
    /// What it has done for everybody since it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// What a disk has done since it is there, as its line of /proc/diskstats counts it
/// (Documentation/admin-guide/iostats.rst). Times of requests are sums over all of them, the time
/// in the queue included; the busy time is that in which at least one was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Completed reads; neighbouring ones count as one.
    pub reads: u64,
    /// What they brought, in bytes.
    pub read_bytes: u64,
    /// What they took, in ms.
    pub read_ms: u64,
    pub writes: u64,
    /// The unit is bytes.
    pub written_bytes: u64,
    pub write_ms: u64,
    /// Time in which something was under way, in ms.
    pub busy_ms: u64,
    /// Flushes of its cache, and what they took in ms; since Linux 5.5.
    pub flushes: Option<(u64, u64)>,
}

/// Link of a PCIe device, now and at best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Transfers per second per lane, in billions, now.
    pub gts: f64,
    pub width: u32,
    /// Transfers per second per lane, in billions, at best.
    pub max_gts: Option<f64>,
    pub max_width: Option<u32>,
}

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// Device or remote name.
    pub source: String,
    pub target: String,
    /// Written like this: `ext4`, `nfs4`, …
    pub fs: String,
    /// Options of mount and super block, comma separated.
    pub options: String,
    /// Written like this: `major:minor`.
    pub number: String,
    #[serde(default)]
    pub below: Below,
}

impl Disk {
    /// Whether a `major:minor` is the disk's or one of its partitions'.
    fn has(&self, number: &str) -> bool {
        self.number.as_deref() == Some(number) || self.partitions.iter().any(|own| own == number)
    }
}

impl Block {
    /// The mount that holds `path` (absolute): the longest mount point that is a prefix of it; of
    /// several mounts on one point the last.
    pub fn mount_of(&self, path: &str) -> Option<&Mount> {
        let holds = |target: &str| {
            target == "/"
                || path.strip_prefix(target).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        // max_by_key returns the last of equal elements, as a later mount hides an earlier one.
        self.mounts.iter().filter(|m| holds(&m.target)).max_by_key(|m| m.target.len())
    }

    /// The disks below a mount; none for network file systems, tmpfs, and what does not name them.
    pub fn disks_of(&self, mount: &Mount) -> Vec<&Disk> {
        let is_below = |disk: &&Disk| match mount.below.disks.is_empty() {
            true => disk.has(&mount.number),
            false => mount.below.disks.contains(&disk.name),
        };
        self.disks.iter().filter(is_below).collect()
    }

    /// The device whose class is that of the disks below a mount: one of them if they are alike, else
    /// the device that joins them, or one that spins.
    pub fn disk_of(&self, mount: &Mount) -> Option<&Disk> {
        let disks = self.disks_of(mount);
        let kind = |disk: &Disk| (disk.rotational, disk.name.starts_with("nvme"));
        let joined = self.disks.iter().find(|disk| disk.has(&mount.number));
        match disks.iter().all(|disk| kind(disk) == kind(disks[0])) {
            true => disks.first().copied(),
            false => joined.or_else(|| disks.into_iter().max_by_key(|disk| disk.rotational)),
        }
    }

    /// What counts for the disks below a mount, separated by spaces.
    pub fn numbers_of(&self, mount: &Mount) -> Option<String> {
        match mount.below.numbers.is_empty() {
            true => self.disk_of(mount).map(|_| mount.number.clone()),
            false => Some(mount.below.numbers.join(" ")),
        }
    }

    /// The disks below a mount and what is in between: `sda and sdb through md0 (raid1)`; or why they
    /// are unknown.
    pub fn path_of(&self, mount: &Mount) -> Result<String, String> {
        let names: Vec<&str> = self.disks_of(mount).iter().map(|disk| &*disk.name).collect();
        let (names, through) = (names.join(" and "), mount.below.through.join(", "));
        let Mount { fs, source, number, below, .. } = mount;
        match mount.upper().filter(|_| below.upper.is_none()) {
            _ if !names.is_empty() && through.is_empty() => Ok(names),
            _ if !names.is_empty() => Ok(format!("{names} through {through}")),
            Some(upper) => {
                Err(format!("{fs}, whose directory {upper} is not in this mount namespace"))
            }
            _ if fs == "tmpfs" || fs == "ramfs" => {
                Err(format!("{fs}, which keeps its files in memory"))
            }
            _ if source.starts_with("/dev/") => {
                Err(format!("{fs} on {source} ({number}), which /sys/block does not list"))
            }
            _ => Err(format!("{fs}, which names no block device")),
        }
    }
}

pub(super) fn read(root: &Root) -> Block {
    const DIR: &str = "sys/block";
    let names = root.list(DIR).into_iter().filter(|name| !is_path(name));
    let mountinfo = root.read("proc/self/mountinfo").unwrap_or_default();
    let diskstats = root.read("proc/diskstats").unwrap_or_default();
    let mut block = Block {
        disks: names
            .filter_map(|name| disk(root, &format!("{DIR}/{name}"), name))
            // /sys has `!` where names have `/` (cciss/c0d0).
            .map(|disk| Disk { counted: counted(&diskstats, &disk.name.replace('!', "/")), ..disk })
            .collect(),
        mounts: mounts(&mountinfo).filter_map(mount).collect(),
    };
    below::connect(root, &mut block);
    block
}

/// Whether disks of such a name have hardware behind them, also where nothing shows it.
fn is_hardware(name: &str) -> bool {
    ["nvme", "sd", "mmcblk", "cciss"].iter().any(|kind| name.starts_with(kind))
}

/// Whether a name is that of a path to a multipath NVMe disk, `nvme0c1n1` of `nvme0n1`
/// (drivers/nvme/host/multipath.c): nothing opens it.
fn is_path(name: &str) -> bool {
    name.strip_prefix("nvme").is_some_and(|rest| rest.contains('c'))
}

fn paths(root: &Root, disk: &str) -> Vec<String> {
    let Some((subsystem, namespace)) = disk.rsplit_once('n').filter(|_| disk.starts_with("nvme"))
    else {
        return Vec::new();
    };
    let (start, end) = (format!("{subsystem}c"), format!("n{namespace}"));
    let names = root.list("sys/block").into_iter();
    names.filter(|name| name.starts_with(&start) && name.ends_with(&end)).collect()
}

fn disk(root: &Root, dir: &str, name: String) -> Option<Disk> {
    // Always in units of 512 bytes, whatever the logical block (include/linux/blk_types.h).
    let sectors = root.number::<u64>(&format!("{dir}/size")).filter(|&sectors| sectors > 0)?;
    let queue = |field: &str| root.number::<u64>(&format!("{dir}/queue/{field}"));
    let parts = root.list(dir).into_iter().filter(|part| part.starts_with(&name));
    let model = root.line(&format!("{dir}/device/model"));
    let below = parents(root, dir);
    Some(Disk {
        model,
        rotational: root.flag(&format!("{dir}/queue/rotational")),
        rotation_rpm: root
            .read_bytes(&format!("{dir}/device/vpd_pgb1"))
            .and_then(|page| rpm(&page)),
        size_bytes: sectors.checked_mul(512)?,
        scheduler: root.selected(&format!("{dir}/queue/scheduler")),
        write_cache: root.line(&format!("{dir}/queue/write_cache")),
        fua: root.flag(&format!("{dir}/queue/fua")),
        read_ahead_bytes: queue("read_ahead_kb").and_then(|kib| kib.checked_mul(1024)),
        logical_block_bytes: queue("logical_block_size"),
        driver: below.iter().find_map(|at| root.link_name(&format!("{at}/driver"))),
        is_virtual: !root.exists(&format!("{dir}/device")) && !is_hardware(&name),
        number: root.line(&format!("{dir}/dev")),
        partitions: parts.filter_map(|part| root.line(&format!("{dir}/{part}/dev"))).collect(),
        node: below.iter().find_map(|at| root.number(&format!("{at}/numa_node"))),
        pcie: below.iter().find_map(|at| pcie_link(root, at)),
        counted: None,
        name,
    })
}

/// Bytes 4 and 5 of the page of block device characteristics (SBC-4): the medium's rotation rate;
/// 0 and FFFFh are no rate.
fn rpm(page: &[u8]) -> Option<u32> {
    let rate = u16::from_be_bytes([*page.get(4)?, *page.get(5)?]);
    (page[1] == 0xb1 && rate != 0 && rate != u16::MAX).then_some(u32::from(rate))
}

/// The words of a device's line of /proc/diskstats, by its `major:minor` or its name.
pub fn line_of<'text>(diskstats: &'text str, device: &str) -> Option<Vec<&'text str>> {
    let mut lines = diskstats.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.find(|words| match words[..] {
        [major, minor, name, ..] => {
            name == device || device.split_once(':') == Some((major, minor))
        }
        _ => false,
    })
}

/// A disk's line of /proc/diskstats: `major minor name reads merged sectors ms writes merged
/// sectors ms in-flight busy-ms weighted-ms [discards merged sectors ms [flushes ms]]`.
fn counted(diskstats: &str, name: &str) -> Option<Counted> {
    /// Of the counters, whatever the disk's sectors are.
    const SECTOR_BYTES: u64 = 512;
    let line = line_of(diskstats, name)?;
    let field = |index: usize| line.get(index)?.parse::<u64>().ok();
    Some(Counted {
        reads: field(3)?,
        read_bytes: field(5)?.checked_mul(SECTOR_BYTES)?,
        read_ms: field(6)?,
        writes: field(7)?,
        written_bytes: field(9)?.checked_mul(SECTOR_BYTES)?,
        write_ms: field(10)?,
        busy_ms: field(12)?,
        flushes: field(18).zip(field(19)),
    })
}

/// Devices below a disk, nearest first. An NVMe disk's device is its controller, or with native
/// multipath a subsystem that lists controllers; the controller's device is the PCIe function.
fn parents(root: &Root, dir: &str) -> Vec<String> {
    let device = format!("{dir}/device");
    let mut found = vec![device.clone(), format!("{device}/device")];
    if let Some(controller) = root.numbered(&device, "nvme").first() {
        found.push(format!("{device}/nvme{controller}/device"));
    }
    found
}

/// Link of the PCIe function at `device`; `None` if it does not exist.
pub(super) fn pcie_link(root: &Root, device: &str) -> Option<PcieLink> {
    // `16.0 GT/s PCIe`; `Unknown` where the function has no link of its own.
    let speed = |field: &str| root.words(&format!("{device}/{field}")).first()?.parse::<f64>().ok();
    let width = |field: &str| root.number::<u32>(&format!("{device}/{field}")).filter(|&w| w > 0);
    Some(PcieLink {
        gts: speed("current_link_speed")?,
        width: width("current_link_width")?,
        max_gts: speed("max_link_speed"),
        max_width: width("max_link_width"),
    })
}

/// A mount, unless it is of the kernel's own file systems.
fn mount(of: Mounted) -> Option<Mount> {
    const PSEUDO: &str = "proc sysfs devpts cgroup cgroup2 securityfs debugfs tracefs pstore bpf \
        configfs fusectl mqueue hugetlbfs autofs binfmt_misc efivarfs nsfs rpc_pipefs selinuxfs \
        devtmpfs";
    if PSEUDO.split(' ').any(|pseudo| pseudo == of.fs) {
        return None;
    }
    let mut options: Vec<&str> = of.options.split(',').collect();
    for option in of.super_options.split(',').filter(|option| !option.is_empty()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        source: of.source,
        target: of.target,
        fs: of.fs.to_string(),
        options: options.join(","),
        number: of.number.to_string(),
        below: Below::default(),
    })
}

/// Whether something is mounted at `target` now, as /proc/self/mountinfo says. Looking at the place
/// itself could wait for a server that is gone.
pub fn is_mounted(mountinfo: &str, target: &str) -> bool {
    mounts(mountinfo).filter_map(mount).any(|mount| mount.target == target)
}

/// The mount of a number (`mnt_id` of /proc/self/fdinfo), as /proc/self/mountinfo says.
pub fn mount_with_id(mountinfo: &str, id: u64) -> Option<Mount> {
    mounts(mountinfo).find(|mount| mount.id.parse() == Ok(id)).and_then(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 253:0 / / rw,relatime - ext4 /dev/vda1 rw,errors=remount-ro\n\
        23 22 0:20 / /proc rw - proc proc rw\n\
        24 22 0:33 / /data\\040one rw,noatime shared:5 master:2 - xfs /dev/sdb1 rw,noatime\n\
        25 22 8:17 / /data\\040one/x rw - ext4 /dev/sdb2 rw\n\
        26 22 8:18 / /data\\040one/x rw - ext4 /dev/sdb3 rw\n";

    #[test]
    fn the_longest_and_latest_mount_wins() {
        let block = Block { disks: vec![], mounts: mounts(MOUNTS).filter_map(mount).collect() };
        let source = |path: &str| block.mount_of(path).map(|mount| mount.source.as_str());
        assert_eq!(source("/data one/file"), Some("/dev/sdb1"));
        assert_eq!(source("/data one/x/y"), Some("/dev/sdb3"));
        assert_eq!(source("/data onerous"), Some("/dev/vda1"));
        assert_eq!(block.mounts.len(), 4);
        assert_eq!(block.mounts[1].options, "rw,noatime");
    }

    #[test]
    fn only_what_is_mounted_is_mounted() {
        assert!(is_mounted(MOUNTS, "/data one/x") && is_mounted(MOUNTS, "/"));
        assert!(!is_mounted(MOUNTS, "/data one/y") && !is_mounted("", "/"));
    }

    #[test]
    fn a_disk_s_counters_are_its_own_and_not_its_partitions() {
        let text = "   8  0 sda 500 0 8000 250 7 3 16 9 0 300 259\n   8  1 sda1 1 0 8 1 0 0 0 0 0 1 1\n\
            254 0 vda 10 1 64 5 20 2 128 6 3 11 40 1 0 8 2 4 77\n";
        let old = counted(text, "sda").expect("a line");
        assert_eq!((old.reads, old.read_bytes, old.read_ms), (500, 8000 * 512, 250));
        assert_eq!((old.writes, old.written_bytes, old.write_ms), (7, 16 * 512, 9));
        assert_eq!((old.busy_ms, old.flushes), (300, None));
        let new = counted(text, "vda").expect("a line");
        assert_eq!((new.busy_ms, new.flushes), (11, Some((4, 77))));
        assert_eq!(counted(text, "sd"), None);
        let root = Root::tree("== sys/block/sda/size\n8\n").with("proc/diskstats", text);
        assert_eq!(read(&root).disks[0].counted, Some(old));
    }

    #[test]
    fn a_multipath_disk_shows_its_link() {
        let root = Root::tree(
            "== sys/block/nvme1n1/size\n8\n== sys/block/nvme1n1/device/nvme1/device/current_link_speed\n\
             8.0 GT/s PCIe\n== sys/block/nvme1n1/device/nvme1/device/current_link_width\n4\n",
        );
        let link = read(&root).disks[0].pcie.expect("it has one");
        assert_eq!((link.gts, link.width, link.max_width), (8.0, 4, None));
    }
}

//! What file systems do for a change of a name or of a size, by their kinds: which of them write it
//! twice, and which nowhere at all.

use super::{Mode, Pattern, figures, middle, read_figures};
use crate::device::{
    Device, FLASH, FLASH_NVME, Flushes, SPINNING, UNKNOWN_FLUSH_NS, UNKNOWN_WRITE_NS, device, term,
};
use crate::{Facts, Law, around, product, range, scaled};
use bench::experiment::Site;
use bench::symbols;
use host::block::Disk;
use record::event::Range;
use record::key::CaseId;

symbols! {
    /// How a file system keeps its names and sizes through a loss of power.
    pub enum Keeper {
        /// A journal of blocks, committed as a whole: ext3, ext4, jfs.
        Journal = "journal",
        /// A log of changes: xfs, and f2fs as a whole.
        Log = "log",
        /// Trees written anew: btrfs, zfs, bcachefs.
        Tree = "tree",
        /// Nothing: blocks in place, in no order.
        Plain = "plain",
        /// Memory: what is lost with the power anyway.
        Memory = "memory",
        /// Another file system below.
        Stacked = "stacked",
        /// A process of the user's.
        Daemon = "daemon",
        /// Another machine.
        Server = "server",
        /// Unknown.
        Unknown = "unknown",
    }
}

symbols! {
    /// What a device stores data on, where that takes a least time.
    pub enum Medium { Spinning = "spinning", Flash = "flash" }
}

/// The kind of a file system by its name in the mounts.
pub fn keeper(file_system: &str) -> Keeper {
    match file_system {
        "ext3" | "ext4" | "jfs" | "ocfs2" => Keeper::Journal,
        "xfs" | "f2fs" => Keeper::Log,
        "btrfs" | "zfs" | "bcachefs" | "nilfs2" => Keeper::Tree,
        "ext2" | "vfat" | "exfat" | "ntfs3" | "msdos" => Keeper::Plain,
        "tmpfs" | "ramfs" => Keeper::Memory,
        "overlay" | "ecryptfs" | "aufs" => Keeper::Stacked,
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "virtiofs" | "lustre" | "glusterfs" => {
            Keeper::Server
        }
        name if name.starts_with("fuse") => Keeper::Daemon,
        _ => Keeper::Unknown,
    }
}

impl Keeper {
    /// What is to be said of a file system that keeps no hard promise of its own.
    pub fn caveat(self) -> Option<&'static str> {
        Some(match self {
            Keeper::Memory => "the file system is in memory: no data survives a power loss",
            Keeper::Stacked => "a stacked file system passes syncs on (overlayfs `volatile` not)",
            Keeper::Daemon => "a process serves the file system (FUSE) and decides about syncs",
            Keeper::Server => "a remote server serves the file system and decides about syncs",
            _ => return None,
        })
    }
}

impl Medium {
    pub fn why(self) -> &'static str {
        match self {
            Medium::Spinning => "a hard disk: the sector cannot reach the head sooner",
            Medium::Flash => "flash cannot be programmed faster",
        }
    }
}

/// What a device takes to have something for good, in ns.
pub struct Durable {
    pub class: &'static Device,
    /// A write of one block, answered from the device's cache where it has one.
    pub write: Law,
    /// A flush of that cache; `None` where the kernel sends none.
    pub flush: Option<Law>,
}

/// Turns per minute of disks that spin: 5400 to 15,000.
const TURN_NS: Range = range(4e6, 8.33e6, 1.12e7);
/// How far apart what was measured by another experiment may be.
const MEASURED_SHARE: f64 = 0.6;

/// The device below the directory, with the user's settings and the figures of fs.read and fs.io.
pub fn durable(facts: Facts, disk: Option<&Disk>) -> Durable {
    let site = facts.site;
    let (class, _) = device(disk, site);
    let (write_ns, flush_ns) = of_class(class, turn_ns(site));
    let [write_ns, flush_ns] = [write_ns, flush_ns].map(|ns| scaled(ns, class.fitted(site)));
    let (mut write, mut flush) = (term(site, disk, write_ns), term(site, disk, flush_ns));
    if let Some(counted) = Flushes::on_disk(disk).filter(|_| !class.sure) {
        write = write.with_range(counted.write(write_ns)).and(&counted.because);
        flush = flush.with_range(counted.flush(flush_ns)).and(&counted.because);
    }
    if let Some(ns) = measured_read(facts).filter(|_| !class.sure) {
        // Behind a hypervisor the way to the device is most of a read, and so of all the rest.
        let us = ns / 1e3;
        let told = format!("a direct read of a block took {us:.0} µs (measured by fs.read)");
        let of = |low, likely, high| product(range(ns, ns, ns), range(low, likely, high));
        (write, flush) = (
            write.with_range(of(0.2, 0.9, 4.0)).and(&told),
            flush.with_range(of(0.15, 0.8, 30.0)).and(told),
        );
    }
    let given = &site.host.given;
    if let Some(ns) = given.value("disk.write_latency") {
        write =
            write.with_range(around(ns, 0.5)).and("write latency as set (host.disk.write_latency)");
    }
    if let Some(ns) = measured_write(facts, "direct") {
        let told = format!("a direct write took {:.0} µs (measured by fs.io)", ns / 1e3);
        write = write.with_range(around(ns, MEASURED_SHARE)).and(told);
    }
    if let Some(ns) = given.value("disk.flush_latency") {
        flush =
            flush.with_range(around(ns, 0.5)).and("flush latency as set (host.disk.flush_latency)");
    }
    let none = no_flush(site, disk);
    if let Some(why) = none {
        write = write.and(format!("the kernel sends no flush ({why})"));
        // Without a cache a write is on the medium when it is answered.
        if class.name == SPINNING.name {
            write = write.with_range(scaled(turn_ns(site), 1.3));
        }
    }
    Durable { class, write, flush: none.is_none().then_some(flush) }
}

/// A write into the device's cache, and its flush. Data sheets and published tests of syncs
/// (Percona's and Intel's of PLP drives: 10 to 60 µs; consumer NVMe 0.5 to 5 ms; SATA 1 to 10 ms);
/// a disk that spins waits for its sector: a turn, and a seek to the journal.
fn of_class(class: &Device, turn: Range) -> (Range, Range) {
    match class.name {
        name if name == SPINNING.name => {
            (range(3e4, 1.5e5, 1.2e7), range(0.7 * turn.low, 1.4 * turn.likely, 5.0 * turn.high))
        }
        name if name == FLASH_NVME.name => (range(6e3, 2e4, 2e5), range(3e3, 4e5, 8e6)),
        name if name == FLASH.name => (range(3e4, 7e4, 6e5), range(2e4, 1.2e6, 2e7)),
        _ => (UNKNOWN_WRITE_NS, UNKNOWN_FLUSH_NS),
    }
}

/// A turn of a disk that spins, in ns.
fn turn_ns(site: &Site) -> Range {
    match site.host.given.value("disk.rpm") {
        Some(rpm) => around(60e9 / rpm, 0.02),
        None => TURN_NS,
    }
}

/// Why the kernel sends no flush, where it does not.
pub fn no_flush(site: &Site, disk: Option<&Disk>) -> Option<&'static str> {
    let cache = disk.and_then(|disk| disk.write_cache.as_deref());
    if cache == Some("write through") {
        return Some("the device reports no volatile cache (write through)");
    }
    let dir = site.dir.as_ref()?;
    let mount = site.host.block.mount_of(&dir.path.to_string_lossy())?;
    let mut options = mount.options.split(',');
    options
        .any(|option| ["nobarrier", "barrier=0"].contains(&option))
        .then_some("mounted without barriers")
}

/// The medium of such a device, and the least in which it can have a block for good, in ns: what
/// answers sooner has a cache that outlives the power, or does not keep its word.
pub fn medium_least(site: &Site, class: &Device) -> Option<(f64, Medium)> {
    match class.name {
        // A quarter of a turn: half a turn is the mean wait, and few waits in a row are that short.
        name if name == SPINNING.name => Some((0.25 * turn_ns(site).low, Medium::Spinning)),
        // A page of single-level cells takes 75 µs and more to be programmed, of several levels 200
        // to 700 (Micron's and Kioxia's data sheets; storage-class media are quicker).
        name if name == FLASH_NVME.name || name == FLASH.name => Some((6e4, Medium::Flash)),
        _ => None,
    }
}

/// A direct read of a block at a random place, as fs.read measured it: the median of its cases.
fn measured_read(facts: Facts) -> Option<f64> {
    let of = read_figures(facts, Some(Pattern::Random), Mode::Direct.text(), "latency");
    middle(of.map(|(_, ns)| ns))
}

/// A write of one block of 4 KiB by one thread, as fs.io measured it: the median of its cases.
pub fn measured_write(facts: Facts, mode: &str) -> Option<f64> {
    let is_it = |case: &CaseId| {
        let one = |name| case.int(name).is_none_or(|value| value == 1);
        case.text("op") == Some("write")
            && case.text("mode") == Some(mode)
            && case.int("block") == Some(4096)
            && one("depth")
            && one("threads")
    };
    let of = figures(facts, "fs.io", "latency").filter(|(case, _)| is_it(case));
    middle(of.map(|(_, ns)| ns))
}

/// Whether earlier figures say anything of the device.
pub fn is_measured(facts: Facts) -> bool {
    measured_read(facts).is_some() || measured_write(facts, "direct").is_some()
}

/// For estimates of what a daemon or a server does: a round trip to it, and its work.
pub fn round_trip(keeper: Keeper, site: &Site) -> Option<Law> {
    match (keeper, site.host.given.value("net.rtt")) {
        (Keeper::Daemon, _) => {
            let why = "a request to the process that serves the file system, and its work";
            Some(Law::software(range(8e3, 5e4, 2e6), why))
        }
        (Keeper::Server, Some(ns)) => {
            let why = "the round trip as set (host.net.rtt), and the server's work";
            Some(Law::new(0.8 * ns, 2.0 * ns, 20.0 * ns + 5e6, why))
        }
        (Keeper::Server, None) => Some(Law::new(3e4, 5e5, 3e7, "a round trip and the work there")),
        _ => None,
    }
}

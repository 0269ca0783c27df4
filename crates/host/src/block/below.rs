//! What carries a mounted file system: from the names in the mount table down to disks.
//!
//! Mapped devices, arrays and caches list what is below them in `slaves`, the device mapper has its
//! names in `dm/name` (Linux Documentation/ABI/testing/sysfs-block-dm), btrfs lists its members in
//! /sys/fs/btrfs (fs/btrfs/sysfs.c), an overlay states its upper directory among its options.

use super::{Block, Disk, Mount, paths};
use crate::Root;
use serde::{Deserialize, Serialize};

/// What is below a file system; empty where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Below {
    pub disks: Vec<String>,
    /// What counts there: `major:minor` of disks or partitions, or the name of an NVMe path.
    pub numbers: Vec<String>,
    /// Devices in between, the file system's first: `dm-1 (vg-root)`, `md0 (raid1)`.
    pub through: Vec<String>,
    /// The file system that holds the upper directory of an overlay.
    pub upper: Option<String>,
    /// Whether it is an ext4 without a journal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unjournaled: bool,
}

pub(super) fn connect(root: &Root, block: &mut Block) {
    let devices = Devices { root, disks: &block.disks };
    let found: Vec<Below> = block.mounts.iter().map(|mount| devices.below(mount)).collect();
    block.mounts.iter_mut().zip(found).for_each(|(mount, below)| mount.below = below);
    for at in 0..block.mounts.len() {
        let (mount, upper) = (&block.mounts[at], block.mounts[at].upper());
        // In a container the path is the host's, and leads back to the overlay itself.
        let holder = upper.and_then(|dir| block.mount_of(dir)).filter(|on| on.fs != mount.fs);
        if let Some(holder) = holder {
            let below = Below { upper: Some(holder.fs.clone()), ..holder.below.clone() };
            block.mounts[at].below = below;
        }
    }
}

impl Mount {
    /// The directory in which a stacked file system keeps what is written.
    pub fn upper(&self) -> Option<&str> {
        let mut options = self.options.split(',');
        match self.fs.as_str() {
            "overlay" => options.find_map(|option| option.strip_prefix("upperdir=")),
            "ecryptfs" => Some(self.source.as_str()),
            _ => None,
        }
    }
}

struct Devices<'a> {
    root: &'a Root,
    disks: &'a [Disk],
}

impl<'a> Devices<'a> {
    fn below(&self, mount: &Mount) -> Below {
        let mut below = Below { is_unjournaled: self.is_unjournaled(mount), ..Below::default() };
        match self.disks.iter().find(|disk| disk.has(&mount.number)) {
            Some(disk) => self.descend(disk, mount.number.clone(), &mut below),
            // A file system of several devices has a number of its own.
            None => self.members(mount).iter().for_each(|name| self.enter(name, &mut below)),
        }
        below
    }

    /// Whether a mount is of an ext4 that says so (journal_task, Linux fs/ext4/sysfs.c).
    fn is_unjournaled(&self, mount: &Mount) -> bool {
        let name = self.root.link_name(&format!("sys/dev/block/{}", mount.number));
        let task =
            name.and_then(|name| self.root.line(&format!("sys/fs/ext4/{name}/journal_task")));
        mount.fs == "ext4" && task.as_deref() == Some("<none>")
    }

    fn enter(&self, name: &str, below: &mut Below) {
        if let Some((disk, number)) = self.named(name) {
            self.descend(disk, number, below);
        }
    }

    fn descend(&self, disk: &Disk, number: String, below: &mut Below) {
        let dir = format!("sys/block/{}", disk.name);
        let slaves = self.root.list(&format!("{dir}/slaves"));
        if slaves.iter().any(|name| self.named(name).is_some()) {
            let what = ["dm/name", "md/level"];
            let what = what.iter().find_map(|file| self.root.line(&format!("{dir}/{file}")));
            let what = what.map_or(String::new(), |what| format!(" ({what})"));
            if add(&mut below.through, format!("{}{what}", disk.name)) {
                slaves.iter().for_each(|name| self.enter(name, below));
            }
            return;
        }
        add(&mut below.disks, disk.name.clone());
        // Before Linux 6.4 only the paths of a multipath disk count.
        let is_idle = disk.counted.is_some_and(|counted| counted.reads == 0 && counted.writes == 0);
        let paths = if is_idle { paths(self.root, &disk.name) } else { Vec::new() };
        for counting in if paths.is_empty() { vec![number] } else { paths } {
            add(&mut below.numbers, counting);
        }
    }

    /// The disk of a name in /sys, and the number of the disk or partition.
    fn named(&self, name: &str) -> Option<(&'a Disk, String)> {
        let of = |disk: &Disk| disk.number.clone().unwrap_or_else(|| disk.name.clone());
        if let Some(disk) = self.disks.iter().find(|disk| disk.name == name) {
            return Some((disk, of(disk)));
        }
        let disk = self.disks.iter().find(|disk| is_partition(name, &disk.name))?;
        let number = self.root.line(&format!("sys/block/{}/{name}/dev", disk.name));
        Some((disk, number.unwrap_or_else(|| of(disk))))
    }

    /// Names of the devices of a file system that has a number of its own.
    fn members(&self, mount: &Mount) -> Vec<String> {
        let source = match mount.source.as_str() {
            "/dev/root" => self.root_device().unwrap_or_default(),
            source => source.to_owned(),
        };
        if mount.fs == "bcachefs" {
            return source.split(':').filter_map(|source| self.name_of(source)).collect();
        }
        let named = self.name_of(&source);
        let pools = self.root.list("sys/fs/btrfs").into_iter().filter(|_| mount.fs == "btrfs");
        let pools = pools.map(|id| {
            let members = self.root.list(&format!("sys/fs/btrfs/{id}/devices"));
            (id, members)
        });
        let mut pools: Vec<_> = pools.filter(|(_, members)| !members.is_empty()).collect();
        // The only one is it, whatever its device is called here.
        let is_only = pools.len() == 1;
        pools.retain(|(id, members)| {
            is_only || source.ends_with(id) || named.as_ref().is_some_and(|of| members.contains(of))
        });
        pools.pop().map_or(named.into_iter().collect(), |(_, members)| members)
    }

    /// The name in /sys of a device by its path: a link, a name of the device mapper, or the name
    /// itself, in which /sys has `!` for `/`.
    fn name_of(&self, path: &str) -> Option<String> {
        let name = path.strip_prefix("/dev/")?;
        let link = self.root.link(&format!("dev/{name}")).unwrap_or_default();
        let link = link.trim_start_matches("../").trim_start_matches("/dev/").replace('/', "!");
        if self.named(&link).is_some() {
            return Some(link);
        }
        let mapped = match name.split_once('/') {
            Some(("mapper", mapped)) => mapped.to_owned(),
            // A volume of LVM: hyphens in its parts are doubled (lvm(8)).
            Some((group, volume)) => [group, volume].map(|part| part.replace('-', "--")).join("-"),
            None => String::new(),
        };
        let mapper = |disk: &Disk| self.root.line(&format!("sys/block/{}/dm/name", disk.name));
        let disk = self.disks.iter().find(|disk| mapper(disk).is_some_and(|name| name == mapped));
        Some(disk.map_or_else(|| name.replace('/', "!"), |disk| disk.name.clone()))
    }

    /// The path of the device that the kernel's command line names as the root (`root=`).
    fn root_device(&self) -> Option<String> {
        let words = self.root.words("proc/cmdline");
        let device = words.iter().rev().find_map(|word| word.strip_prefix("root="))?;
        Some(match device.split_once('=') {
            Some((kind, id)) => format!("/dev/disk/by-{}/{id}", kind.to_lowercase()),
            None => device.to_owned(),
        })
    }
}

/// Adds what is not there yet; whether it did.
fn add(all: &mut Vec<String>, one: String) -> bool {
    let is_new = !all.contains(&one);
    all.extend(Some(one).filter(|_| is_new));
    is_new
}

/// Whether a name is that of a partition: behind a digit stands a `p` (block/partitions/core.c).
fn is_partition(name: &str, disk: &str) -> bool {
    let p = if disk.ends_with(char::is_numeric) { "p" } else { "" };
    let number = name.strip_prefix(disk).and_then(|rest| rest.strip_prefix(p));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests;

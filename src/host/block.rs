//! Disks and mounted file systems.

use serde::{Deserialize, Serialize};

use super::Root;

/// Storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Disks that have a size, by name. Partitions are not disks; loop and zram devices are.
    pub disks: Vec<Disk>,
    /// Mounted file systems, in mount order; `proc`, `sysfs` and their kind are left out.
    pub mounts: Vec<Mount>,
}

/// One block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// `nvme0n1`.
    pub name: String,
    /// Model, as the device names itself.
    pub model: Option<String>,
    /// Spins.
    pub rotational: Option<bool>,
    /// Capacity.
    pub size_bytes: u64,
    /// Selected queue scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Forced unit access works.
    pub fua: Option<bool>,
    /// Readahead window.
    pub read_ahead_bytes: Option<u64>,
    /// Smallest unit the device addresses.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit the device writes without reading.
    pub physical_block_bytes: Option<u64>,
    /// Requests the queue holds.
    pub queue_requests: Option<u64>,
    /// Driver of the device (`nvme`, `virtio_blk`, `sd`).
    pub driver: Option<String>,
    /// No device behind it (loop, zram, device mapper).
    pub is_virtual: bool,
    /// `major:minor`.
    pub number: Option<String>,
    /// `major:minor` of its partitions.
    pub partitions: Vec<String>,
    /// Memory node of the device.
    pub node: Option<usize>,
    /// PCIe link of the device.
    pub pcie: Option<PcieLink>,
}

/// Link of a PCIe device, now and at best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PcieLink {
    /// Transfers per second per lane, in billions, now.
    pub gts: f64,
    /// Lanes, now.
    pub width: u32,
    /// Transfers per second per lane, in billions, at best.
    pub max_gts: Option<f64>,
    /// Lanes, at best.
    pub max_width: Option<u32>,
}

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// Device or remote name.
    pub source: String,
    /// Where it is mounted.
    pub target: String,
    /// `ext4`, `nfs4`, …
    pub fs: String,
    /// Options of mount and super block, comma separated.
    pub options: String,
    /// `major:minor`.
    pub number: String,
}

pub(super) fn read(_: &Root) -> Block { Block::default() }
pub(super) fn pcie_link(_: &Root, _: &str) -> Option<PcieLink> { None }

//! What the machine is built of, as a report describes it: devices on its bus, disks and cards in
//! detail, memory slots; and of what stays unknown, why.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::block::{PcieLink, pcie_link};
use super::dmi;
use super::text::hexadecimal;
use super::{Block, Caches, Memory, Net, Outside, Root};

/// Parts of the machine that no law needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Devices {
    /// Functions of the PCI bus that do something for a program; bridges and the like are left out.
    pub pci: Vec<PciFunction>,
    /// More of the disks, by name.
    pub disks: BTreeMap<String, DiskParts>,
    /// More of the network cards, by name.
    pub cards: BTreeMap<String, CardParts>,
    /// Slots and channels.
    pub memory: MemoryParts,
    /// Write policy of the caches of a level, as the firmware states it (`write-back`).
    pub write_policies: BTreeMap<u32, String>,
    /// What is not readable here, and why.
    pub unread: BTreeMap<String, String>,
}

/// A function of the PCI bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PciFunction {
    /// `0000:41:00.0`.
    pub place: String,
    /// What it does: `Ethernet`, `NVMe`, `display`.
    pub class: String,
    /// Vendor and device, `15b3:1017`.
    pub id: Option<String>,
    /// Driver.
    pub driver: Option<String>,
    /// Memory node.
    pub node: Option<usize>,
    /// Its link; none of a part of the chip set or of a virtual device.
    pub link: Option<PcieLink>,
}

/// More of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskParts {
    /// Maker, where the device names one.
    pub vendor: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// How it is attached: `SATA 6.0 Gbps`, `PCIe`, `USB 5000 Mbit/s`, `virtio`.
    pub link: Option<String>,
    /// Revolutions per minute; 1 where the device says that it does not turn (SCSI block device
    /// characteristics).
    pub rotation_rpm: Option<u32>,
    /// Driver and place of its controller on the bus.
    pub controller: Option<String>,
    /// What it is made of: `raid1 of sda1, sdb1`; or that its controller is one for RAID.
    pub raid: Option<String>,
}

/// More of a network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardParts {
    /// Firmware, as its driver reports.
    pub firmware: Option<String>,
}

/// Memory slots and channels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryParts {
    /// Slots, filled or empty.
    pub slots: Option<u32>,
    /// What the board takes at most.
    pub maximum_bytes: Option<u64>,
    /// Channels that hold memory.
    pub channels: Option<usize>,
    /// The source of the channels: `EDAC`, `DMI`.
    pub channels_from: Option<String>,
}

/// What the other rooms have read, for a look at what they lack.
pub(super) struct Parts<'a> {
    pub(super) cache: &'a Caches,
    pub(super) memory: &'a Memory,
    pub(super) net: &'a Net,
    pub(super) block: &'a Block,
}

pub(super) fn read(root: &Root, outside: &Outside, parts: &Parts) -> Devices {
    let names = root.list(PCI).into_iter();
    let disks = parts.block.disks.iter();
    let links = outside.links.iter();
    let mut devices = Devices {
        pci: names.filter_map(|place| function(root, place)).collect(),
        disks: disks.map(|disk| (disk.name.clone(), disk_parts(root, &disk.name))).collect(),
        cards: links
            .filter_map(|(name, told)| {
                Some((name.clone(), CardParts { firmware: Some(told.link.firmware.clone()?) }))
            })
            .collect(),
        memory: memory(root, parts.memory),
        write_policies: dmi::write_policies(root),
        unread: BTreeMap::new(),
    };
    devices.unread = unread(root, outside, parts, &devices);
    devices
}

const PCI: &str = "sys/bus/pci/devices";

fn function(root: &Root, place: String) -> Option<PciFunction> {
    let dir = format!("{PCI}/{place}");
    let code = hexadecimal(&root.line(&format!("{dir}/class"))?)?;
    let word = |field: &str| hexadecimal(&root.line(&format!("{dir}/{field}"))?);
    let id = word("vendor").zip(word("device"));
    Some(PciFunction {
        class: class_name(code)?.to_owned(),
        id: id.map(|(vendor, device)| format!("{vendor:04x}:{device:04x}")),
        driver: root.link_name(&format!("{dir}/driver")),
        node: root.number(&format!("{dir}/numa_node")),
        link: pcie_link(root, &dir),
        place,
    })
}

/// What a function does, by base class and subclass (PCI Code and ID Assignment); `None` for what
/// holds the machine together: bridges, system peripherals, signal processing of the chip set.
fn class_name(code: u64) -> Option<&'static str> {
    Some(match code >> 8 {
        0x0101 => "IDE",
        0x0104 => "RAID",
        0x0106 => "SATA",
        0x0107 => "SAS",
        0x0108 => "NVMe",
        0x0100..=0x0103 | 0x0105 | 0x0109..=0x01ff => "storage",
        0x0200 => "Ethernet",
        0x0207 => "InfiniBand",
        0x0201..=0x0206 | 0x0208..=0x02ff => "network",
        0x0300..=0x03ff => "display",
        0x0502 => "CXL memory",
        0x0c03 => "USB",
        0x0d00..=0x0dff => "wireless",
        0x1000..=0x10ff => "encryption",
        0x1200..=0x12ff => "accelerator",
        _ => return None,
    })
}

fn disk_parts(root: &Root, name: &str) -> DiskParts {
    let dir = format!("sys/block/{name}");
    let line = |field: &str| root.line(&format!("{dir}/{field}"));
    // `../devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda`
    let path = root.link(&dir).unwrap_or_default();
    let path = path.trim_start_matches("../").to_owned();
    let place = path.split('/').rfind(|part| is_pci_place(part));
    let driver = place.and_then(|place| root.link_name(&format!("{PCI}/{place}/driver")));
    let class = place.and_then(|place| root.line(&format!("{PCI}/{place}/class")));
    let is_raid = class.and_then(|text| hexadecimal(&text)).is_some_and(|code| code >> 8 == 0x0104);
    let made_of = made_of(root, &dir);
    let page = root.read_bytes(&format!("{dir}/device/vpd_pgb1"));
    DiskParts {
        // `ATA` is what the SCSI layer calls every disk of the other kind.
        vendor: line("device/vendor").filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x")),
        firmware: line("device/firmware_rev").or_else(|| line("device/rev")),
        link: link(root, name, &path),
        rotation_rpm: page.and_then(|page| rotation(&page)),
        controller: driver.zip(place).map(|(driver, place)| format!("{driver} at {place}")),
        raid: made_of.or_else(|| is_raid.then(|| "by its controller".to_owned())),
    }
}

/// `0000:41:00.0`
fn is_pci_place(part: &str) -> bool {
    let lengths: Vec<usize> = part.split([':', '.']).map(str::len).collect();
    lengths == [4, 2, 2, 1] && part.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c))
}

/// How a disk is attached, by its path below `sys/devices`.
fn link(root: &Root, name: &str, path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    if name.starts_with("nvme") {
        let is_remote = parts.iter().any(|part| part.starts_with("nvme-fabrics"));
        return Some(if is_remote { "fabric" } else { "PCIe" }.to_owned());
    }
    let ata = |part: &&str| part.strip_prefix("ata")?.parse::<u32>().ok();
    let port = parts.iter().find_map(ata);
    if let Some(port) = port {
        let speed = root.line(&format!("sys/class/ata_link/link{port}/sata_spd"));
        let speed = speed.filter(|speed| speed.ends_with("Gbps"));
        return Some(match speed {
            Some(speed) => format!("SATA {speed}"),
            None => "SATA".to_owned(),
        });
    }
    if parts.iter().any(|part| part.starts_with("usb")) {
        let ends = (1..=parts.len()).rev();
        let mut speeds = ends
            .filter_map(|end| root.number::<u32>(&format!("sys/{}/speed", parts[..end].join("/"))));
        return Some(match speeds.next() {
            Some(mbit) => format!("USB {mbit} Mbit/s"),
            None => "USB".to_owned(),
        });
    }
    let kinds = [("end_device-", "SAS"), ("mmc", "MMC"), ("virtio", "virtio"), ("vbd-", "Xen")];
    let kind = kinds.iter().find(|(mark, _)| parts.iter().any(|part| part.starts_with(mark)))?;
    Some(kind.1.to_owned())
}

/// Bytes 4 and 5 of the page of block device characteristics (SBC-4): the medium's rotation rate.
fn rotation(page: &[u8]) -> Option<u32> {
    if page.get(1) != Some(&0xb1) {
        return None;
    }
    let rate = u16::from_be_bytes([*page.get(4)?, *page.get(5)?]);
    // FFFFh is reserved.
    (rate != 0 && rate != u16::MAX).then_some(u32::from(rate))
}

/// Members of a disk that the kernel makes of others.
fn made_of(root: &Root, dir: &str) -> Option<String> {
    let members = root.list(&format!("{dir}/slaves"));
    let mapped = || {
        let uuid = root.line(&format!("{dir}/dm/uuid"))?;
        uuid.split('-').next().map(str::to_owned)
    };
    let kind = root.line(&format!("{dir}/md/level")).or_else(mapped)?;
    Some(if members.is_empty() { kind } else { format!("{kind} of {}", members.join(", ")) })
}

fn memory(root: &Root, memory: &Memory) -> MemoryParts {
    let array = dmi::array(root);
    let told = [("EDAC", edac_channels(root)), ("DMI", named_channels(memory))];
    let channels = told.into_iter().find(|(_, count)| *count > 0);
    MemoryParts {
        slots: array.map(|array| array.slots),
        maximum_bytes: array.and_then(|array| array.maximum_bytes),
        channels: channels.map(|(_, count)| count),
        channels_from: channels.map(|(from, _)| from.to_owned()),
    }
}

/// Channels in which the memory controllers' drivers see modules: `channel 0 slot 1`
/// (Documentation/driver-api/edac.rst).
fn edac_channels(root: &Root) -> usize {
    const DIR: &str = "sys/devices/system/edac/mc";
    let mut found = BTreeSet::new();
    for controller in root.numbered(DIR, "mc") {
        let dir = format!("{DIR}/mc{controller}");
        for module in root.numbered(&dir, "dimm") {
            let words = root.words(&format!("{dir}/dimm{module}/dimm_location"));
            let mut words = words.iter().skip_while(|word| *word != "channel");
            if let Some(channel) = words.nth(1) {
                found.insert((controller, channel.clone()));
            }
        }
    }
    found.len()
}

/// Channels from the names of filled slots: `P0 CHANNEL A`, `ChannelB-DIMM0`.
fn named_channels(memory: &Memory) -> usize {
    let filled = memory.dimms.iter().filter(|dimm| dimm.size_bytes > 0);
    let names: BTreeSet<String> = filled
        .filter_map(|dimm| {
            let texts = [dimm.bank.as_deref(), dimm.locator.as_deref()];
            texts.into_iter().flatten().find_map(|text| {
                let text = text.to_ascii_uppercase();
                let end = text.find("CHANNEL")? + "CHANNEL".len();
                let rest = text[end..].trim_start_matches([' ', '_']);
                let name = rest.chars().next().filter(char::is_ascii_alphanumeric)?;
                Some(format!("{}{name}", &text[..end]))
            })
        })
        .collect();
    names.len()
}

/// What a reader of the description will miss, and why it is not there.
fn unread(
    root: &Root,
    outside: &Outside,
    parts: &Parts,
    devices: &Devices,
) -> BTreeMap<String, String> {
    let firmware = firmware_is_silent(root, outside);
    let mut unread = BTreeMap::new();
    let mut tell = |what: &str, why: String| drop(unread.insert(what.to_owned(), why));
    let has_policy = parts.cache.levels.iter().any(|cache| cache.write_policy.is_some());
    if !has_policy && devices.write_policies.is_empty() && !parts.cache.levels.is_empty() {
        tell("write policy of the caches", format!("the kernel does not state it, and {firmware}"));
    }
    let channels = format!("no EDAC driver sees the memory controller, and {firmware}");
    for (lacks, what, why) in [
        (parts.memory.dimms.is_empty(), "memory modules and their rate", &firmware),
        (devices.memory.maximum_bytes.is_none(), "maximum memory", &firmware),
        (devices.memory.channels.is_none(), "memory channels", &channels),
    ] {
        if lacks {
            tell(what, why.clone());
        }
    }
    if devices.pci.is_empty() {
        let why = match root.exists(PCI) {
            true => "the bus has no devices that programs use",
            false => "this machine shows no PCI bus",
        };
        tell("devices on the I/O bus", why.to_owned());
    }
    let real = parts.block.disks.iter().filter(|disk| !disk.is_virtual);
    for disk in real.clone().filter(|disk| disk.rotational == Some(true)) {
        if devices.disks.get(&disk.name).is_none_or(|parts| parts.rotation_rpm.is_none()) {
            let why = "its driver shows no page of block device characteristics";
            tell(&format!("rotation of {}", disk.name), why.to_owned());
        }
    }
    if real.clone().next().is_some() {
        let why = "the kernel does not report it; `smartctl -x` may read it from the drive";
        tell("cache of the disks", why.to_owned());
    }
    for card in parts.net.interfaces.iter().filter(|card| !card.is_virtual) {
        if card.wireless {
            let why = "only the wireless subsystem reports it (`iw dev`)";
            tell(&format!("Wi-Fi standard of {}", card.name), why.to_owned());
        } else if card.speed_bits_per_second.is_none() {
            let why = match card.operstate.as_deref() {
                Some("down") => "the link is down",
                _ => "the driver does not report it (a virtual link has none)",
            };
            tell(&format!("speed and duplex of {}", card.name), why.to_owned());
        }
        if !devices.cards.contains_key(&card.name) {
            tell(&format!("firmware of {}", card.name), "the driver does not report it".to_owned());
        }
    }
    unread
}

/// Why the firmware's table is not readable.
fn firmware_is_silent(root: &Root, outside: &Outside) -> String {
    let is_there = root.exists(dmi::TABLE) || root.exists("sys/class/dmi/id");
    let why = match (is_there, outside.euid) {
        (true, Some(0)) if root.read_bytes(dmi::TABLE).is_some() => {
            "the firmware's table (DMI) does not state it"
        }
        (true, Some(0)) => "the kernel does not show the firmware's table (DMI)",
        (true, _) => "the firmware's table (DMI) needs root",
        (false, _) => "this machine has no firmware table (DMI)",
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    #[test]
    fn a_server_s_parts_are_read() {
        let root = Root::tree(
            "== sys/block/sda -> ../devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda\n\
             == sys/bus/pci/devices/0000:00:17.0/class\n0x010601\n\
             == sys/bus/pci/devices/0000:00:17.0/vendor\n0x8086\n\
             == sys/bus/pci/devices/0000:00:17.0/device\n0xa282\n\
             == sys/bus/pci/devices/0000:00:17.0/driver -> ../../../bus/pci/drivers/ahci\n\
             == sys/bus/pci/devices/0000:00:1f.0/class\n0x060100\n\
             == sys/class/ata_link/link3/sata_spd\n6.0 Gbps\n\
             == sys/devices/system/edac/mc/mc{0-1}/dimm0/dimm_location\nchannel 0 slot 0 \n\
             == sys/devices/system/edac/mc/mc0/dimm1/dimm_location\nchannel 1 slot 0 \n\
             == sys/devices/system/edac/mc/mc0/dimm2/dimm_location\nchannel 1 slot 1 \n",
        );
        let function = function(&root, "0000:00:17.0".to_owned()).expect("it does something");
        assert_eq!((function.class.as_str(), function.id.as_deref()), ("SATA", Some("8086:a282")));
        assert_eq!(super::function(&root, "0000:00:1f.0".to_owned()), None);
        let disk = disk_parts(&root, "sda");
        assert_eq!(disk.link.as_deref(), Some("SATA 6.0 Gbps"));
        assert_eq!(disk.controller.as_deref(), Some("ahci at 0000:00:17.0"));
        assert_eq!(disk.raid, None);
        assert_eq!(edac_channels(&root), 3);
    }

    #[test]
    fn other_ways_to_attach_a_disk() {
        let root = Root::tree(
            "== sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/speed\n5000\n\
             == sys/devices/pci0000:00/0000:00:14.0/usb2/speed\n10000\n\
             == sys/block/md0/md/level\nraid1\n== sys/block/md0/slaves/sda1/dev\n8:1\n\
             == sys/block/md0/slaves/sdb1/dev\n8:17\n== sys/block/dm-0/dm/uuid\nLVM-abc\n\
             == sys/block/sdb -> ../devices/pci0000:00/0000:02:00.0/host0/block/sdb\n\
             == sys/bus/pci/devices/0000:02:00.0/class\n0x010400\n\
             =x sys/block/sdb/device/vpd_pgb1\n00 b1 00 3c 1c 20\n",
        );
        let of = |name, path| link(&root, name, path);
        let usb = "devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/block/sdc";
        assert_eq!(of("sdc", usb).as_deref(), Some("USB 5000 Mbit/s"));
        assert_eq!(of("nvme0n1", "devices/pci0000:00/x").as_deref(), Some("PCIe"));
        let virtio = "devices/pci0000:00/0000:00:02.0/virtio1/block/vda";
        assert_eq!(of("vda", virtio).as_deref(), Some("virtio"));
        assert_eq!(of("loop0", "devices/virtual/block/loop0"), None);
        let raid = disk_parts(&root, "md0").raid.expect("of two parts");
        assert!(["raid1", "sda1", "sdb1"].iter().all(|part| raid.contains(part)), "{raid}");
        assert_eq!(disk_parts(&root, "dm-0").raid.as_deref(), Some("LVM"));
        let behind = disk_parts(&root, "sdb");
        assert_eq!(behind.raid.as_deref(), Some("by its controller"));
        assert_eq!(behind.rotation_rpm, Some(7200));
        assert_eq!(rotation(&[0, 0xb1, 0, 0x3c, 0xff, 0xff]), None);
        assert_eq!(rotation(&[0, 0xb1, 0]), None);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let why = |tree: &str, what: &str| {
            let host = Host::read(&Root::tree(tree));
            host.devices.unread.get(what).cloned().unwrap_or_default()
        };
        let modules = "memory modules and their rate";
        let as_user = "== facts.txt\neuid=1000\n== sys/class/dmi/id/sys_vendor\nx\n";
        assert!(why(as_user, modules).contains("needs root"));
        assert!(why("== facts.txt\neuid=0\n", modules).contains("no firmware table"));
        let silent = "== facts.txt\neuid=0\n=x sys/firmware/dmi/tables/DMI\n7f 04 00 00 00 00\n";
        assert!(!why(silent, modules).is_empty());
        let wireless = "== sys/class/net/wlan0/mtu\n1500\n== sys/class/net/wlan0/wireless/x\n0\n\
                        == sys/class/net/wlan0/device/vendor\n0x1\n";
        let standard = "Wi-Fi standard of wlan0";
        assert!(why(wireless, standard).contains("iw dev"));
    }
}

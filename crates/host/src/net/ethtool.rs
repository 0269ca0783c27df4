//! The drivers' facts about interfaces, from the drivers or from a recorded machine's
//! `ethtool.txt`.

use record::order::Gather;
use std::collections::BTreeMap;

use metal::ethtool::Link;

use super::shaping::{self, Shaper};
use super::{Coalescing, Interface, Offloads};

/// A driver's facts about its interface, and the kernel's about its queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToldLink {
    /// The driver's.
    pub link: Link,
    /// The kernel's number of it.
    pub index: Option<u32>,
    /// What shapes its traffic.
    pub shaping: Vec<Shaper>,
}

impl ToldLink {
    /// All interfaces of this process's network namespace; empty where they are not listed.
    pub fn live() -> BTreeMap<String, ToldLink> {
        let names = metal::ethtool::names().unwrap_or_default();
        let shaping = shaping::live();
        names
            .into_iter()
            .filter_map(|name| {
                let link = metal::ethtool::link(&name).ok()?;
                let index = metal::netlink::index(&name);
                Some((name, ToldLink { link, index, shaping: shaping_of(index, &shaping) }))
            })
            .gather()
    }

    /// A recorded machine's: a line for each interface, its name and then `key=value` words:
    /// `index`, `driver`, `firmware`, `place`, `mtu`, `speed` (Mbit/s), `duplex` (full, half),
    /// `rx_usecs`, `rx_frames`, `tx_usecs`, `tx_frames`, `adaptive_rx`, `adaptive_tx`, `tso`,
    /// `gso`, `gro`, `lro` (on, off). Words that do not parse are left out. `disciplines` and
    /// `classes` are the bytes of the kernel's lists.
    pub fn recorded(text: &str, disciplines: &[u8], classes: &[u8]) -> BTreeMap<String, ToldLink> {
        let shaping = shaping::of(disciplines, classes);
        let lines = text.lines().map(|line| line.split_whitespace());
        lines
            .filter_map(|mut words| {
                let name = words.next()?;
                let facts: BTreeMap<&str, &str> =
                    words.filter_map(|word| word.split_once('=')).gather();
                let index = facts.get("index").and_then(|value| value.parse().ok());
                let shaping = shaping_of(index, &shaping);
                Some((name.to_owned(), ToldLink { link: link_of(&facts), index, shaping }))
            })
            .gather()
    }

    /// Adds to the facts from files about an interface, or replaces them.
    pub(super) fn tell(&self, interface: &mut Interface) {
        let duplex = |full: bool| if full { "full" } else { "half" }.to_owned();
        let link = &self.link;
        let duplex = link.is_full_duplex.map(duplex);
        let speed = link.speed_mbit.map(|mbit| u64::from(mbit) * 1_000_000);
        interface.mtu_bytes = link.mtu_bytes.map(u64::from).or(interface.mtu_bytes);
        interface.speed_bits_per_second = speed.or(interface.speed_bits_per_second);
        interface.duplex = duplex.or(interface.duplex.take());
        // The bus's name of the driver is the module's; one without a bus has only its own.
        interface.driver = interface.driver.take().or_else(|| link.driver.clone());
        interface.is_virtual = interface.is_virtual && link.place.is_none();
        let is_on_usb = link.place.as_deref().is_some_and(|place| place.starts_with("usb"));
        if interface.bus.is_none() && is_on_usb {
            interface.bus = Some("usb".to_owned());
        }
        interface.loopback = interface.loopback || interface.name == "lo";
        interface.coalescing = link.coalescing.map(Coalescing::from);
        interface.offloads = offloads([link.tso, link.gso, link.gro, link.lro]);
        interface.shaping.clone_from(&self.shaping);
    }
}

/// The driver's facts that a recorded machine's line states.
fn link_of(facts: &BTreeMap<&str, &str>) -> Link {
    let text = |key: &str| facts.get(key).map(|value| (*value).to_owned());
    let number = |key: &str| facts.get(key)?.parse::<u32>().ok();
    let is_on = |key: &str| facts.get(key).map(|value| *value == "on");
    let coalescing = number("rx_usecs").map(|receive_us| metal::ethtool::Coalescing {
        receive_us,
        receive_frames: number("rx_frames").unwrap_or(0),
        send_us: number("tx_usecs").unwrap_or(0),
        send_frames: number("tx_frames").unwrap_or(0),
        adaptive_receive: is_on("adaptive_rx").unwrap_or(false),
        adaptive_send: is_on("adaptive_tx").unwrap_or(false),
    });
    Link {
        driver: text("driver"),
        firmware: text("firmware"),
        place: text("place"),
        mtu_bytes: number("mtu"),
        speed_mbit: number("speed"),
        is_full_duplex: facts.get("duplex").map(|value| *value == "full"),
        coalescing,
        tso: is_on("tso"),
        gso: is_on("gso"),
        gro: is_on("gro"),
        lro: is_on("lro"),
    }
}

impl From<metal::ethtool::Coalescing> for Coalescing {
    fn from(told: metal::ethtool::Coalescing) -> Coalescing {
        Coalescing {
            receive_us: told.receive_us,
            receive_frames: told.receive_frames,
            send_us: told.send_us,
            send_frames: told.send_frames,
            adaptive_receive: told.adaptive_receive,
            adaptive_send: told.adaptive_send,
        }
    }
}

fn shaping_of(index: Option<u32>, all: &BTreeMap<u32, Vec<Shaper>>) -> Vec<Shaper> {
    index.and_then(|index| all.get(&index).cloned()).unwrap_or_default()
}

fn offloads(told: [Option<bool>; 4]) -> Option<Offloads> {
    let [tso, gso, gro, lro] = told.map(|on| on == Some(true));
    told.iter().any(Option::is_some).then_some(Offloads { tso, gso, gro, lro })
}

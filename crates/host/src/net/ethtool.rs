//! The drivers' facts about interfaces, from the drivers or from a recorded machine's
//! `ethtool.txt`.

use record::order::Gather;
use std::collections::BTreeMap;

use metal::ethtool::Link;

use super::{Coalescing, Interface, Offloads};

/// All interfaces of this process's network namespace; empty where they are not listed.
pub(crate) fn live_links() -> BTreeMap<String, Link> {
    let names = metal::ethtool::names().unwrap_or_default().into_iter();
    names.filter_map(|name| Some((name.clone(), metal::ethtool::link(&name).ok()?))).gather()
}

/// A recorded machine's: a line for each interface, its name and then `key=value` words: `driver`,
/// `place`, `mtu`, `speed` (Mbit/s), `duplex` (full, half), `rx_usecs`, `rx_frames`,
/// `adaptive_rx`, `tso`, `gso`, `gro`, `lro` (on, off). Other words are left out.
pub(crate) fn recorded_links(text: &str) -> BTreeMap<String, Link> {
    let lines = text.lines().map(|line| line.split_whitespace());
    lines
        .filter_map(|mut words| {
            let name = words.next()?;
            let facts: BTreeMap<&str, &str> =
                words.filter_map(|word| word.split_once('=')).gather();
            Some((name.to_owned(), link_of(&facts)))
        })
        .gather()
}

impl Interface {
    /// Adds the driver's facts to those from files, or replaces them.
    pub(super) fn add_link(&mut self, link: &Link) {
        let duplex = |full: bool| if full { "full" } else { "half" }.to_owned();
        let duplex = link.is_full_duplex.map(duplex);
        let speed = link.speed_mbit.map(|mbit| u64::from(mbit) * 1_000_000);
        self.mtu_bytes = link.mtu_bytes.map(u64::from).or(self.mtu_bytes);
        self.speed_bits_per_second = speed.or(self.speed_bits_per_second);
        self.duplex = duplex.or(self.duplex.take());
        // The bus's name of the driver is the module's; one without a bus has only its own.
        self.driver = self.driver.take().or_else(|| link.driver.clone());
        self.is_virtual = self.is_virtual && link.place.is_none();
        let is_on_usb = link.place.as_deref().is_some_and(|place| place.starts_with("usb"));
        if self.bus.is_none() && is_on_usb {
            self.bus = Some("usb".to_owned());
        }
        self.loopback = self.loopback || self.name == "lo";
        self.coalescing = link.coalescing.map(Coalescing::from);
        self.offloads = offloads([link.tso, link.gso, link.gro, link.lro]);
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
        adaptive_receive: is_on("adaptive_rx").unwrap_or(false),
    });
    Link {
        driver: text("driver"),
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
            adaptive_receive: told.adaptive_receive,
        }
    }
}

fn offloads(told: [Option<bool>; 4]) -> Option<Offloads> {
    let [tso, gso, gro, lro] = told.map(|on| on == Some(true));
    told.iter().any(Option::is_some).then_some(Offloads { tso, gso, gro, lro })
}

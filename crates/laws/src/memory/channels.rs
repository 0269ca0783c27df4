//! What main memory can give: channels x transfers x 8 B if they are known, else the usual
//! bandwidth of sockets of the core's generation.

use super::behind_mesh;
use super::designs::design;
use crate::cpu::peak::distinct_cores;
use crate::cpu::{core, is_guest};
use crate::{Law, product, range, scaled};
use bench::experiment::Site;
use host::Arch;
use host::dmi::Dimm;
use std::collections::BTreeSet;

const LARGE_SOCKET: f64 = 24.0;

/// Data lines of a client's memory: two channels.
const CLIENT_BITS: f64 = 128.0;

/// Modules that are not empty slots.
fn filled(site: &Site) -> impl Iterator<Item = &Dimm> {
    site.host.memory.dimms.iter().filter(|dimm| dimm.size_bytes > 0)
}

/// Millions of transfers per second: given, or those of the slowest module.
fn transfers(site: &Site) -> Option<f64> {
    let rates = filled(site).filter_map(|dimm| dimm.configured_mts.or(dimm.rated_mts));
    site.host.given.value("memory.mts").or(rates.min().map(f64::from))
}

/// Peak rate of the machine's memory in B/s where anything states it: given, or the DMI table's
/// channels x transfers per second x 8 B.
pub fn stated_peak(site: &Site) -> Option<(f64, String)> {
    let given = &site.host.given;
    if let Some(rate) = given.value("memory.bandwidth") {
        return Some((rate, "the bandwidth that --set gives".to_owned()));
    }
    let mts = transfers(site)?;
    let names = filled(site).filter_map(|one| channel(one.bank.as_deref(), one.locator.as_deref()));
    let named: BTreeSet<String> = names.collect();
    let named = (!named.is_empty()).then_some(named.len() as f64);
    let channels = given.value("memory.channels").or(named)?;
    let from = format!("{channels} channels x {mts} MT/s x 8 B of the memory modules");
    Some((channels * mts * 1e6 * 8.0, from))
}

/// Peak rate of a socket's memory by its modules where their slots name no channels: each most
/// likely has a channel of its own, up to the channels of a socket of that kind. A hypervisor
/// invents the modules of a virtual machine.
fn counted_peak(site: &Site, packages: f64, most: impl Fn(f64) -> f64) -> Option<(f64, String)> {
    let modules = filled(site).count();
    let mts = transfers(site).filter(|_| modules > 0 && !is_guest(site))?;
    let bits: u32 = filled(site).map(|dimm| dimm.data_bits.unwrap_or(64)).sum();
    // Tables of soldered parts often state less than there is: at least a DIMM's width.
    let bits = bits.max(64);
    let rate = mts * 1e6 / 8.0;
    let peak = (rate * f64::from(bits) / packages).min(most(rate));
    Some((peak, format!("{modules} modules x {mts} MT/s, as if each had its channel")))
}

/// The channel of a module by the names of its slot: `P0 CHANNEL A`, `ChannelA-DIMM0`,
/// `CPU0 CH3 D1`, `DIMM_A1`. A slot that names none has none; a letter and a number alone (`A1`)
/// name a processor and a slot on some boards, a channel and a slot on others.
fn channel(bank: Option<&str>, locator: Option<&str>) -> Option<String> {
    let lettered = |text: &str| {
        let upper = text.to_uppercase();
        let (socket, after) = upper.split_once("CHANNEL")?;
        let mut after = after.trim_start_matches([' ', '_', '-']).chars();
        let letter = after.next().filter(char::is_ascii_alphanumeric)?;
        Some(format!("{} {letter}", socket.trim()))
    };
    let slotted = |text: &str| {
        let upper = text.to_uppercase();
        let name = upper.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let is_letter = name.ends_with(|letter: char| letter.is_ascii_uppercase());
        let (before, letter) = name.split_at_checked(name.len().checked_sub(1)?)?;
        let ends_word = before.ends_with(['_', ' ', '-']);
        (is_letter && ends_word && name.len() < upper.len()).then(|| format!("{before}{letter}"))
    };
    let shortened = |text: &str| {
        let upper = text.to_uppercase();
        let (socket, after) = upper.split_once(" CH")?;
        let number = after.split(' ').next()?;
        let is_number = !number.is_empty() && number.bytes().all(|letter| letter.is_ascii_digit());
        is_number.then(|| format!("{socket} {number}"))
    };
    let texts = || [bank, locator].into_iter().flatten();
    texts()
        .find_map(|text| lettered(text).or_else(|| shortened(text)))
        .or_else(|| locator.and_then(slotted))
}

/// What main memory gives all cores of the memory nodes under `cpus` on the bus, in B/s.
pub fn memory_peak(site: &Site, cpus: &[usize]) -> Law {
    let share = range(0.6, 0.8, 0.95);
    let packages = site.host.cpu.packages().unwrap_or(1).max(1) as f64;
    let part = part(site, cpus, packages);
    if let Some((peak, from)) = stated_peak(site) {
        return Law::hardware(scaled(share, peak * part), format!("60 to 95 % of {from}"));
    }
    let (row, _) = design(site, core(site));
    let all: Vec<usize> = site.host.cpu.cpus.iter().map(|cpu| cpu.id).collect();
    // Clients of other makers have more threads than those with Arm cores.
    let client = if site.host.cpu.arch == Arch::Aarch64 { 24.0 } else { 36.0 };
    let is_server = behind_mesh(site) || packages > 1.0 || all.len() as f64 / packages > client;
    let most = |rate: f64| if is_server { row.server.high } else { CLIENT_BITS * rate };
    if let Some((peak, from)) = counted_peak(site, packages, most) {
        // Modules may share channels, or state the width of a part of one.
        let share = range(0.35, share.likely, 1.3);
        return Law::hardware(scaled(share, peak * packages * part), from).unsourced();
    }
    let is_large = distinct_cores(site, &all) as f64 / packages >= LARGE_SOCKET;
    let (socket, what) = match (is_guest(site), is_server) {
        (true, _) => (range(row.client.low, row.server.likely, row.server.high), "any machine"),
        // A socket with many cores usually has at least half of its channels populated.
        (_, true) if is_large => {
            let least = row.server.low.max(row.server.likely / 2.0);
            (range(least, row.server.likely, row.server.high), "servers")
        }
        (_, true) => (row.server, "servers"),
        (_, false) => (row.client, "client machines"),
    };
    let why = format!("unknown channels and rate: as usual for {what} of this core's generation");
    Law::hardware(scaled(product(socket, share), packages * part), why).unsourced()
}

/// The part of the machine's channels that some CPUs' own memory nodes have: threads fill the
/// memory of the node that they run on. Without nodes within the sockets, the sockets' part.
fn part(site: &Site, cpus: &[usize], packages: f64) -> f64 {
    let nodes = || site.host.numa.nodes.iter().filter(|node| !node.cpus.is_empty());
    if nodes().count() as f64 > packages {
        let under = nodes().filter(|node| node.cpus.iter().any(|cpu| cpus.contains(cpu)));
        return under.count().max(1) as f64 / nodes().count() as f64;
    }
    let of = |cpu: &usize| site.host.cpu.cpu(*cpu).and_then(|cpu| cpu.package);
    let named: BTreeSet<i64> = cpus.iter().filter_map(of).collect();
    named.len().max(1) as f64 / packages
}

#[cfg(test)]
mod tests {
    use super::{channel, memory_peak, stated_peak};
    use bench::experiment::Site;
    use bench::experiment::fixtures::bare_site;
    use host::Core;
    use host::dmi::Dimm;
    use host::numa::Node;

    #[test]
    fn channels_are_counted_by_the_names_of_the_slots() {
        for (bank, locator, name) in [
            (Some("P0 CHANNEL A"), Some("DIMM 0"), Some("P0 A")),
            (Some("P1 CHANNEL A"), Some("DIMM 0"), Some("P1 A")),
            (None, Some("ChannelA-DIMM1"), Some(" A")),
            (Some("BANK 2"), Some("Channel-B-DIMM0"), Some(" B")),
            (None, Some("CPU1_DIMM_C2"), Some("CPU1_DIMM_C")),
            (Some("NODE 0"), Some("CPU0 CH3 D1"), Some("CPU0 3")),
            (None, Some("A1"), None),
            (None, Some("DIMM 0"), None),
            (None, None, None),
        ] {
            assert_eq!(channel(bank, locator).as_deref(), name, "{bank:?} {locator:?}");
        }
    }

    fn module(locator: String, mts: u32) -> Dimm {
        Dimm {
            locator: Some(locator),
            bank: None,
            size_bytes: 8 << 30,
            kind: Some("DDR4".to_owned()),
            rated_mts: Some(3200),
            configured_mts: Some(mts),
            data_bits: Some(64),
            ranks: None,
        }
    }

    #[test]
    fn modules_whose_slots_name_no_channel_are_counted() {
        let mut site = bare_site();
        site.host.kernel.virtualisation.is_guest = Some(false);
        site.host.cpu.microarchitecture.core = Core::SkylakeClient;
        site.host.memory.dimms = vec![module("A1".to_owned(), 2400)];
        assert!(stated_peak(&site).is_none());
        let likely = |site: &Site| memory_peak(site, &[0]).range.likely;
        assert_eq!(likely(&site), 0.8 * 19.2e9);
        // A client has two channels.
        site.host.memory.dimms = (1..=4).map(|at| module(format!("A{at}"), 2400)).collect();
        assert_eq!(likely(&site), 0.8 * 38.4e9);
    }

    #[test]
    fn threads_share_the_channels_of_their_nodes() {
        let mut site = bare_site();
        site.host.given.set("memory.bandwidth", "100GB/s").expect("a fact");
        let node = |id: usize| Node {
            id,
            cpus: vec![2 * id, 2 * id + 1],
            total_bytes: None,
            free_bytes: None,
            idle_file_bytes: None,
            distances: Vec::new(),
            memory_only: false,
        };
        site.host.numa.nodes = (0..4).map(node).collect();
        let likely = |cpus: &[usize]| memory_peak(&site, cpus).range.likely;
        assert_eq!(likely(&[0, 1]), 20e9);
        assert_eq!(likely(&[0, 2, 4, 6]), 80e9);
    }

    #[test]
    fn told_modules_narrow_what_the_generation_leaves_open() {
        let mut site = bare_site();
        site.host.kernel.virtualisation.is_guest = Some(false);
        site.host.cpu.microarchitecture.core = Core::SkylakeClient;
        let width = |site: &Site| {
            let range = memory_peak(site, &[0]).range;
            range.high / range.low
        };
        let untold = width(&site);
        assert!(stated_peak(&site).is_none());
        let module = |at: usize| module(format!("DIMM_{}{}", ["A", "B"][at % 2], 1 + at / 2), 2666);
        site.host.memory.dimms = (0..4).map(module).collect();
        assert_eq!(stated_peak(&site).expect("the table tells").0, 2.0 * 2666e6 * 8.0);
        assert!(width(&site) < untold);
        site.host.memory.dimms.clear();
        site.host.given.set("memory.mts", "3200").expect("a fact");
        assert!(stated_peak(&site).is_none(), "a rate without channels");
        site.host.given.set("memory.channels", "2").expect("a fact");
        assert_eq!(stated_peak(&site).expect("both").0, 51.2e9);
    }
}

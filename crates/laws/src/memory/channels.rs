//! What main memory can give: channels x transfers x 8 B if they are known, else the usual
//! bandwidth of sockets of the core's generation.

use super::behind_mesh;
use super::designs::design;
use crate::cpu::peak::distinct_cores;
use crate::cpu::{core, is_guest};
use crate::{Law, product, range, scaled};
use bench::experiment::Site;
use std::collections::BTreeSet;

/// Cores of a socket from which on it is a large one.
const LARGE_SOCKET: f64 = 24.0;

/// Peak rate of the machine's memory in B/s where anything states it: given, or the DMI table's
/// channels x transfers per second x 8 B.
pub fn stated_peak(site: &Site) -> Option<(f64, String)> {
    let given = &site.host.given;
    if let Some(rate) = given.value("memory.bandwidth") {
        return Some((rate, "the bandwidth that --set gives".to_owned()));
    }
    let filled = || site.host.memory.dimms.iter().filter(|dimm| dimm.size_bytes > 0);
    let slowest = filled().filter_map(|dimm| dimm.configured_mts.or(dimm.rated_mts)).min();
    let mts = given.value("memory.mts").or(slowest.map(f64::from))?;
    let named: BTreeSet<String> =
        filled().filter_map(|one| channel(one.bank.as_deref(), one.locator.as_deref())).collect();
    let named = (!named.is_empty()).then_some(named.len() as f64);
    let channels = given.value("memory.channels").or(named)?;
    let from = format!("{channels} channels x {mts} MT/s x 8 B of the memory modules");
    Some((channels * mts * 1e6 * 8.0, from))
}

/// The channel of a module by the names of its slot: `P0 CHANNEL A`, `ChannelA-DIMM0`, `DIMM_A1`. A
/// slot that names none has none.
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
    let texts = || [bank, locator].into_iter().flatten();
    texts().find_map(lettered).or_else(|| locator.and_then(slotted))
}

/// What main memory gives all cores of the sockets under `cpus` on the bus, in B/s.
pub fn memory_peak(site: &Site, cpus: &[usize]) -> Law {
    let share = range(0.6, 0.8, 0.95);
    let packages = site.host.cpu.packages().unwrap_or(1).max(1) as f64;
    if let Some((peak, from)) = stated_peak(site) {
        let part = sockets(site, cpus) / packages;
        return Law::hardware(scaled(share, peak * part), format!("60 to 95 % of {from}"));
    }
    let (row, _) = design(core(site));
    let all: Vec<usize> = site.host.cpu.cpus.iter().map(|cpu| cpu.id).collect();
    let is_server = behind_mesh(site) || packages > 1.0 || all.len() as f64 / packages > 36.0;
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
    Law::hardware(
        scaled(product(socket, share), sockets(site, cpus)),
        format_args!(
            "memory usual for {what} of this core's generation, because its channels and rate are \
             unknown"
        ),
    )
    .unsourced()
}

/// Sockets under some CPUs.
fn sockets(site: &Site, cpus: &[usize]) -> f64 {
    let of = |cpu: &usize| site.host.cpu.cpu(*cpu).and_then(|cpu| cpu.package);
    let named: BTreeSet<i64> = cpus.iter().filter_map(of).collect();
    named.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{channel, memory_peak, stated_peak};
    use bench::experiment::Site;
    use bench::experiment::fixtures::bare_site;
    use host::Core;
    use host::dmi::Dimm;

    #[test]
    fn channels_are_counted_by_the_names_of_the_slots() {
        for (bank, locator, name) in [
            (Some("P0 CHANNEL A"), Some("DIMM 0"), Some("P0 A")),
            (Some("P1 CHANNEL A"), Some("DIMM 0"), Some("P1 A")),
            (None, Some("ChannelA-DIMM1"), Some(" A")),
            (Some("BANK 2"), Some("Channel-B-DIMM0"), Some(" B")),
            (None, Some("CPU1_DIMM_C2"), Some("CPU1_DIMM_C")),
            (None, Some("DIMM 0"), None),
            (None, None, None),
        ] {
            assert_eq!(channel(bank, locator).as_deref(), name, "{bank:?} {locator:?}");
        }
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
        let module = |at: usize| Dimm {
            locator: Some(format!("DIMM_{}{}", ["A", "B"][at % 2], 1 + at / 2)),
            bank: None,
            size_bytes: 8 << 30,
            kind: Some("DDR4".to_owned()),
            rated_mts: Some(3200),
            configured_mts: Some(2666),
            data_bits: Some(64),
            ranks: None,
        };
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

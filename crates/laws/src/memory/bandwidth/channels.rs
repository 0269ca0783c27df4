//! What main memory can give: channels x transfers x 8 B where anything tells them, else what
//! sockets of the core's time have.

use super::designs::design;
use crate::cpu::peak::distinct_cores;
use crate::cpu::{core, is_guest};
use crate::memory::behind_mesh;
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
        return Some((rate, "the bandwidth that was given".to_owned()));
    }
    let filled = site.host.memory.dimms.iter();
    let filled: Vec<_> = filled.filter(|dimm| dimm.size_bytes > 0).collect();
    let slowest = filled
        .iter()
        .filter_map(|dimm| dimm.configured_mts.or(dimm.rated_mts))
        .min()
        .map(f64::from);
    let mts = given.value("memory.mts").or(slowest)?;
    let named: BTreeSet<String> = filled
        .iter()
        .filter_map(|dimm| channel(dimm.bank.as_deref(), dimm.locator.as_deref()))
        .collect();
    let channels = given
        .value("memory.channels")
        .or_else(|| (!named.is_empty()).then_some(named.len() as f64))?;
    Some((
        channels * mts * 1e6 * 8.0,
        format!("{channels} channels x {mts} MT/s x 8 B of the memory modules"),
    ))
}

/// The channel of a module by the names of its slot: `P0 CHANNEL A`, `ChannelA-DIMM0`, `DIMM_A1`. A
/// slot that names none has none.
pub(super) fn channel(bank: Option<&str>, locator: Option<&str>) -> Option<String> {
    let lettered = |text: &str| {
        let upper = text.to_uppercase();
        let after = upper.split_once("CHANNEL")?.1.trim_start_matches([' ', '_', '-']);
        let letter = after.chars().next().filter(char::is_ascii_alphanumeric)?;
        let socket = upper.split_once("CHANNEL")?.0.trim().to_owned();
        Some(format!("{socket} {letter}"))
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
    if let Some((peak, from)) = stated_peak(site) {
        let all = site.host.cpu.packages().unwrap_or(1).max(1) as f64;
        let part = sockets(site, cpus) / all;
        return Law::hardware(scaled(share, peak * part), format!("60 to 95 % of {from}"));
    }
    let (row, _) = design(core(site));
    let cores = site.host.cpu.cpus.len() as f64 / site.host.cpu.packages().unwrap_or(1) as f64;
    let is_server = behind_mesh(site) || site.host.cpu.packages().unwrap_or(1) > 1 || cores > 36.0;
    let socket = match (is_guest(site), is_server) {
        (true, _) => range(row.client.low, row.server.likely, row.server.high),
        (_, true) => row.server,
        (_, false) => row.client,
    };
    // Who buys a socket of many cores fills at least half of its channels.
    let physical = distinct_cores(site, &all_cpus(site)) as f64;
    let is_large = physical / site.host.cpu.packages().unwrap_or(1).max(1) as f64 >= LARGE_SOCKET;
    let socket = match !is_guest(site) && is_server && is_large {
        true => range(socket.low.max(socket.likely / 2.0), socket.likely, socket.high),
        false => socket,
    };
    let what = match (is_guest(site), is_server) {
        (true, _) => "any machine",
        (_, true) => "servers",
        (_, false) => "client machines",
    };
    let range = scaled(product(socket, share), sockets(site, cpus));
    let because =
        format!("memory of {what} of that time, since nothing tells its channels and rate");
    Law::hardware(range, because)
}

/// All CPUs of the machine, measured on or not.
fn all_cpus(site: &Site) -> Vec<usize> {
    let cpus = site.host.cpu.cpus.iter();
    cpus.map(|cpu| cpu.id).collect()
}

/// Sockets under some CPUs.
fn sockets(site: &Site, cpus: &[usize]) -> f64 {
    let of = |cpu: &usize| site.host.cpu.cpu(*cpu).and_then(|cpu| cpu.package);
    let named: BTreeSet<i64> = cpus.iter().filter_map(of).collect();
    named.len().max(1) as f64
}

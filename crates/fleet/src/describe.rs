//! What a node says of itself: its hardware, by which nodes are compared, and its machine.

use host::Host;
use record::order::Gather;
use std::collections::{BTreeMap, BTreeSet};

/// What makes hardware identical, by name: nodes that agree in all parts are compared with each
/// other. What the kernel does not show (memory modules without root) is left out.
pub fn stratum(host: &Host) -> BTreeMap<String, String> {
    let cpu = &host.cpu;
    let named = [
        ("cpu", cpu.model_name.clone()),
        ("cpus", Some(cpu.cpus.len().to_string())),
        ("microcode", cpu.microcode.clone()),
        ("memory", Some(memory(host)).filter(|text| !text.is_empty())),
        (
            "nic",
            list(host.net.interfaces.iter().filter(|of| !of.is_virtual && !of.loopback).map(nic)),
        ),
        ("disk", list(host.block.disks.iter().filter_map(|disk| disk.model.clone()))),
        ("kernel", host.kernel.release.clone()),
        ("product", host.kernel.virtualisation.product.clone()),
    ];
    let present = named.into_iter().filter_map(|(name, value)| {
        let value = value?.trim().to_owned();
        (!value.is_empty()).then(|| (name.to_owned(), value))
    });
    present.gather()
}

/// Memory modules, or how much memory there is: the next size to be had, a power of two of GiB or
/// three quarters of one, because the kernel's share changes with its version and command line.
fn memory(host: &Host) -> String {
    let module = |dimm: &host::dmi::Dimm| {
        let gib = dimm.size_bytes >> 30;
        let kind = dimm.kind.as_deref().unwrap_or("memory");
        match dimm.configured_mts.or(dimm.rated_mts) {
            Some(rate) => format!("{gib} GiB {kind} at {rate} MT/s"),
            None => format!("{gib} GiB {kind}"),
        }
    };
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for dimm in &host.memory.dimms {
        *counted.entry(module(dimm)).or_default() += 1;
    }
    if counted.is_empty() {
        let installed = |bytes: u64| {
            let gib = bytes.div_ceil(1 << 30);
            let power = gib.next_power_of_two();
            format!("{} GiB", if gib <= power / 4 * 3 { power / 4 * 3 } else { power })
        };
        return host.memory.total_bytes.map(installed).unwrap_or_default();
    }
    let parts = counted.into_iter().map(|(module, count)| format!("{count} x {module}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn nic(interface: &host::net::Interface) -> String {
    let driver = interface.driver.as_deref().unwrap_or("unknown driver");
    match interface.speed_bits_per_second {
        Some(bits) => format!("{driver} {} Mbit/s", bits / 1_000_000),
        None => driver.to_owned(),
    }
}

fn list(all: impl Iterator<Item = String>) -> Option<String> {
    let all: BTreeSet<String> = all.gather();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

//! Parts of a machine: memory modules, disks, network cards; and what is not readable.

use super::{Facts, joined};
use crate::document::{Cell, Column, Row, Table};
use record::quantity::{digits, render_bytes};
use serde_json::Value;
use std::collections::BTreeMap;

/// Facts of a lab report's description that the machine does not show, with the usual reason.
pub(super) fn unread(facts: &Facts) -> Vec<(String, String)> {
    const MODULES: &str = "the firmware's table (DMI) is absent, or needs root";
    const CHANNELS: &str = "no EDAC driver sees the memory controller, and no slot names a channel";
    const ROTATION: &str = "its driver shows no page of block device characteristics";
    const CACHE: &str = "the kernel does not report it; `smartctl -x` may read it from the drive";
    const WIRELESS: &str = "only the wireless subsystem reports it (`iw dev`)";
    const DOWN: &str = "the link is down";
    const SPEED: &str = "the driver does not report it (a virtual link has none)";
    let disks = || shown_disks(facts);
    let is_silent = |disk: &Value| disk["rotational"] == true && disk["rotation_rpm"].is_null();
    let named = |what: &str, of: &Value| text(&of["name"]).map(|name| format!("{what} of {name}"));
    let mut unread = Vec::new();
    unread.extend(
        facts
            .list("/memory/dimms")
            .is_empty()
            .then(|| (Some("memory modules and their rate".to_owned()), MODULES)),
    );
    unread.extend(
        facts
            .text("/memory/channels/count")
            .is_none()
            .then(|| (Some("memory channels".to_owned()), CHANNELS)),
    );
    unread.extend(
        disks().filter(|disk| is_silent(disk)).map(|disk| (named("rotation", disk), ROTATION)),
    );
    unread.extend(disks().next().map(|_| (Some("cache of the disks".to_owned()), CACHE)));
    unread.extend(shown_cards(facts).filter_map(|card| match speed(card) {
        _ if card["wireless"] == true => Some((named("Wi-Fi standard", card), WIRELESS)),
        Some(_) => None,
        None if card["operstate"] == "down" => Some((named("speed and duplex", card), DOWN)),
        None => Some((named("speed and duplex", card), SPEED)),
    }));
    unread.into_iter().filter_map(|(what, why)| Some((what?, why.to_owned()))).collect()
}

/// Number, size and rate of the modules, and channels.
pub(super) fn modules(facts: &Facts) -> Option<String> {
    let filled = facts.list("/memory/dimms").iter();
    let filled: Vec<&Value> =
        filled.filter(|dimm| dimm["size_bytes"].as_u64().is_some_and(|bytes| bytes > 0)).collect();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for dimm in &filled {
        let rate = dimm["configured_mts"].as_u64().or(dimm["rated_mts"].as_u64());
        let parts = [
            dimm["size_bytes"].as_f64().map(render_bytes),
            text(&dimm["kind"]),
            rate.map(|rate| format!("at {rate} MT/s")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        *kinds.entry(parts.join(" ")).or_default() += 1;
    }
    let kinds = kinds.iter().map(|(kind, count)| format!("{count} x {kind}"));
    let kinds: Vec<String> = kinds.collect();
    let channels = facts.text("/memory/channels/count").map(|count| {
        let source = facts.text("/memory/channels/source");
        format!("{count} channels (by {})", source.unwrap_or_default())
    });
    joined(&[(!kinds.is_empty()).then(|| kinds.join(", ")), channels])
}

/// The fastest link of a disk or network card.
pub(super) fn bus(facts: &Facts) -> Option<String> {
    let rate =
        |link: &Value| link["gts"].as_f64().unwrap_or(0.0) * link["width"].as_f64().unwrap_or(0.0);
    let devices = [facts.list("/block/disks"), facts.list("/net/interfaces")].concat();
    let best = devices.iter().map(|device| &device["pcie"]);
    let best = best.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    Some(format!("{}, the fastest of disks and network cards", of_link(best)?))
}

/// The card that traffic can only have taken: the one that is up, where just one is.
pub(super) fn only_card(facts: &Facts) -> Option<String> {
    let mut up = shown_cards(facts).filter(|card| card["operstate"] == "up");
    let card = up.next().filter(|_| up.next().is_none())?;
    let name = text(&card["name"])?;
    Some(match speed(card) {
        Some(speed) => format!("{name} ({speed})"),
        None => name,
    })
}

/// Memory modules, with the firmware's facts about each.
pub(super) fn dimms(facts: &Facts) -> Option<Table> {
    let dimms = facts.list("/memory/dimms");
    let names: Vec<&String> = dimms.first()?.as_object()?.keys().collect();
    let rows = dimms.iter().map(|dimm| {
        let cells = names.iter().map(|name| match name.as_str() {
            "size_bytes" => match dimm[name.as_str()].as_f64() {
                Some(bytes) if bytes > 0.0 => render_bytes(bytes),
                _ => "empty".to_owned(),
            },
            name => or_dash(text(&dimm[name])),
        });
        Row::always_shown(cells.map(Cell::plain).collect())
    });
    let heading = |name: &String| match name.as_str() {
        "configured_mts" => "configured (MT/s)".to_owned(),
        "rated_mts" => "rated (MT/s)".to_owned(),
        "data_bits" => "width (bits)".to_owned(),
        "size_bytes" => "size".to_owned(),
        name => name.replace('_', " "),
    };
    Some(Table {
        caption: "Memory modules, as the firmware states them".to_owned(),
        columns: names.iter().map(|name| Column::text(&heading(name))).collect(),
        rows: rows.collect(),
    })
}

pub(super) fn disks(facts: &Facts) -> Option<Table> {
    let rows = shown_disks(facts).map(|disk| {
        let fua = match disk["fua"].as_bool() {
            Some(true) => ", forced unit access",
            _ => "",
        };
        let cells = [
            text(&disk["name"]),
            text(&disk["model"]),
            disk["size_bytes"].as_f64().map(render_bytes),
            of_link(&disk["pcie"]),
            rotation(disk),
            text(&disk["write_cache"]).map(|cache| format!("{cache}{fua}")),
            text(&disk["driver"]),
            text(&disk["scheduler"]),
        ];
        Row::always_shown(cells.map(|cell| Cell::plain(or_dash(cell))).into())
    });
    Some(Table::new(
        "Disks",
        &["disk", "model", "#size", "link", "rotation", "write cache", "driver", "scheduler"],
        rows,
    ))
}

pub(super) fn cards(facts: &Facts) -> Option<Table> {
    let rows = shown_cards(facts).map(|card| {
        let is_wireless = card["wireless"] == true;
        let kind = if is_wireless { "Wi-Fi" } else { "wired" };
        let cells = [
            text(&card["name"]),
            Some(kind.to_owned()),
            text(&card["driver"]),
            speed(card),
            text(&card["duplex"]),
            card["mtu_bytes"].as_f64().map(|bytes| format!("{bytes} B")),
            of_link(&card["pcie"]).or_else(|| text(&card["bus"])),
            text(&card["operstate"]),
        ];
        Row::always_shown(cells.map(|cell| Cell::plain(or_dash(cell))).into())
    });
    Some(Table::new(
        "Network cards",
        &["card", "kind", "driver", "#speed", "duplex", "#MTU", "bus", "state"],
        rows,
    ))
}

fn shown_disks<'a>(facts: &'a Facts) -> impl Iterator<Item = &'a Value> {
    facts.list("/block/disks").iter().filter(|disk| disk["is_virtual"] != true)
}

fn shown_cards<'a>(facts: &'a Facts) -> impl Iterator<Item = &'a Value> {
    let cards = facts.list("/net/interfaces").iter();
    cards.filter(|card| card["is_virtual"] != true && card["loopback"] != true)
}

fn rotation(disk: &Value) -> Option<String> {
    match (disk["rotation_rpm"].as_u64(), disk["rotational"].as_bool()) {
        (Some(1), _) | (None, Some(false)) => Some("none".to_owned()),
        (Some(rate), _) => Some(format!("{rate} RPM")),
        // Drivers of virtual disks say so without knowing.
        (None, Some(true)) => Some("stated, no rate".to_owned()),
        (None, None) => None,
    }
}

fn speed(card: &Value) -> Option<String> {
    let bits = card["speed_bits_per_second"].as_f64()?;
    Some(match bits >= 1e9 {
        true => format!("{} Gbit/s", digits(bits / 1e9)),
        false => format!("{} Mbit/s", digits(bits / 1e6)),
    })
}

fn of_link(link: &Value) -> Option<String> {
    Some(link_text((link["gts"].as_f64()?, link["width"].as_f64()?)))
}

fn link_text((gts, width): (f64, f64)) -> String {
    format!("PCIe {} GT/s x{width}", digits(gts))
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

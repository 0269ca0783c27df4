//! Parts of a machine: memory modules, devices on the bus, disks, network cards; and what is not
//! readable.

use super::{Facts, joined};
use crate::document::{Cell, Column, Row, Table};
use record::quantity::{digits, render_bytes};
use serde_json::Value;
use std::collections::BTreeMap;

/// Facts that are not readable on the machine, with the reason.
pub(super) fn unread(facts: &Facts) -> Vec<(String, String)> {
    let Some(Value::Object(unread)) = facts.0.pointer("/devices/unread") else {
        return Vec::new();
    };
    unread.iter().filter_map(|(what, why)| Some((what.clone(), why.as_str()?.to_owned()))).collect()
}

/// Number, size and rate of the modules, channels, slots, and what the board takes.
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
    let channels = facts.text("/devices/memory/channels").map(|count| {
        let from = facts.text("/devices/memory/channels_from");
        format!("{count} channels (by {})", from.unwrap_or_default())
    });
    let maximum = facts.number("/devices/memory/maximum_bytes");
    joined(&[
        (!kinds.is_empty()).then(|| kinds.join(", ")),
        channels,
        facts.text("/devices/memory/slots").map(|slots| format!("{slots} slots")),
        maximum.map(|bytes| format!("at most {}", render_bytes(bytes))),
    ])
}

/// How many devices stand on the bus, and the best link among them.
pub(super) fn bus(facts: &Facts) -> Option<String> {
    let functions = facts.list("/devices/pci");
    let rate = |link: &Value| Some(link["gts"].as_f64()? * link["width"].as_f64()?);
    let links = functions.iter().map(|function| &function["link"]);
    let best = links
        .filter(|link| rate(link).is_some())
        .max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
    let count = match functions.len() {
        0 => None,
        1 => Some("PCI with one device".to_owned()),
        count => Some(format!("PCI with {count} devices")),
    };
    let best = match best.and_then(of_link) {
        Some(link) => Some(format!("fastest link {link}")),
        None => count.as_ref().map(|_| "no device reports a link".to_owned()),
    };
    count.as_ref()?;
    joined(&[count, best])
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
        Row::of(cells.map(Cell::plain).collect())
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

/// Devices on the bus with their links; those alike in a row.
pub(super) fn functions(facts: &Facts) -> Option<Table> {
    let mut alike: BTreeMap<Vec<String>, (usize, Vec<String>)> = BTreeMap::new();
    for function in facts.list("/devices/pci") {
        let best = |field: &str| function["link"][field].as_f64();
        let key = vec![
            or_dash(text(&function["class"])),
            or_dash(text(&function["id"])),
            or_dash(text(&function["driver"])),
            or_dash(of_link(&function["link"])),
            or_dash(best("max_gts").zip(best("max_width")).map(link_text)),
        ];
        let (count, nodes) = alike.entry(key).or_default();
        *count += 1;
        let node = text(&function["node"]).filter(|node| !node.starts_with('-'));
        nodes.extend(node.filter(|node| !nodes.contains(node)));
    }
    let rows = alike.into_iter().map(|(key, (count, nodes))| {
        let nodes = (!nodes.is_empty()).then(|| nodes.join(", "));
        let cells = key.into_iter().chain([or_dash(nodes), count.to_string()]);
        Row::of(cells.map(Cell::plain).collect())
    });
    Some(Table::new(
        "Devices on the I/O bus",
        &["device", "vendor:device", "driver", "link", "link at best", "NUMA node", "#number"],
        rows,
    ))
}

/// Disks, and what the kernel makes of several.
pub(super) fn disks(facts: &Facts) -> Option<Table> {
    let rows = shown_disks(facts).map(|(disk, more)| {
        let fua = match disk["fua"].as_bool() {
            Some(true) => ", forced unit access",
            _ => "",
        };
        let model = [text(&more["vendor"]), text(&disk["model"]), text(&more["firmware"])];
        let model: Vec<String> = model.into_iter().flatten().collect();
        let controller = text(&more["controller"]).or_else(|| text(&disk["driver"]));
        let cells = [
            text(&disk["name"]),
            Some(model.join(" ")).filter(|model| !model.is_empty()),
            disk["size_bytes"].as_f64().map(render_bytes),
            link_of_disk(disk, more),
            rotation(disk, more),
            text(&disk["write_cache"]).map(|cache| format!("{cache}{fua}")),
            text(&more["raid"]),
            controller,
            text(&disk["scheduler"]),
        ];
        Row::of(cells.map(|cell| Cell::plain(or_dash(cell))).into())
    });
    Some(Table::new(
        "Disks",
        &[
            "disk",
            "model and firmware",
            "#size",
            "link",
            "rotation",
            "write cache",
            "RAID",
            "controller or driver",
            "scheduler",
        ],
        rows,
    ))
}

/// Network cards.
pub(super) fn cards(facts: &Facts) -> Option<Table> {
    let rows = shown_cards(facts).map(|card| {
        let name = text(&card["name"]);
        let firmware = name
            .as_ref()
            .and_then(|name| facts.0.pointer("/devices/cards")?.get(name)?.get("firmware"));
        let is_wireless = card["wireless"] == true;
        let kind = if is_wireless { "Wi-Fi" } else { "wired" };
        let cells = [
            name,
            Some(kind.to_owned()),
            text(&card["driver"]),
            firmware.and_then(text),
            speed(card),
            text(&card["duplex"]),
            card["mtu_bytes"].as_f64().map(|bytes| format!("{bytes} B")),
            of_link(&card["pcie"]).or_else(|| text(&card["bus"])),
            text(&card["operstate"]),
        ];
        Row::of(cells.map(|cell| Cell::plain(or_dash(cell))).into())
    });
    Some(Table::new(
        "Network cards",
        &["card", "kind", "driver", "firmware", "#speed", "duplex", "#MTU", "bus", "state"],
        rows,
    ))
}

/// Disks that are devices or made of several, each with its further parts.
fn shown_disks<'a>(facts: &'a Facts) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let disks = facts.list("/block/disks").iter();
    disks.filter_map(|disk| {
        let more = facts.0.pointer("/devices/disks");
        let more = more.and_then(|more| more.get(disk["name"].as_str()?));
        let more = more.unwrap_or(&Value::Null);
        (disk["is_virtual"] != true || more["raid"].is_string()).then_some((disk, more))
    })
}

fn shown_cards<'a>(facts: &'a Facts) -> impl Iterator<Item = &'a Value> {
    let cards = facts.list("/net/interfaces").iter();
    cards.filter(|card| card["is_virtual"] != true && card["loopback"] != true)
}

fn link_of_disk(disk: &Value, more: &Value) -> Option<String> {
    of_link(&disk["pcie"]).or_else(|| text(&more["link"]))
}

fn rotation(disk: &Value, more: &Value) -> Option<String> {
    match (more["rotation_rpm"].as_u64(), disk["rotational"].as_bool()) {
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

//! What is missing, and why: hosts without a file or an end, slots without a partner, files that do not
//! belong here.

use super::{View, left_out};
use crate::names::{counted, duration, listed};
use crate::read::Fleet;
use record::order::{Gather, InOrder};
use report::document::{Block, Cell, Row, Section, Table};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the table of missing figures.
const ROWS: usize = 200;
/// Fewest slots that failed of a host that is called unreached.
const UNREACHED_LEAST: usize = 2;
/// Hosts that are named for one reason.
const HOSTS: usize = 4;

/// Hosts without a file, or without an end, with the known reason.
pub(super) fn lost(fleet: &Fleet) -> Vec<(String, String)> {
    let present: BTreeSet<&str> = fleet.nodes.iter().map(|node| node.header.host.as_str()).gather();
    let listed = fleet.hosts.iter().flatten();
    let without = listed.filter(|host| !present.contains(host.as_str())).map(|host| {
        (host.clone(), "no file: it was not started, or could not write one".to_owned())
    });
    let unended = fleet.nodes.iter().filter_map(|node| {
        let host = node.header.host.clone();
        match &node.end {
            Some(end) if end.interrupted => {
                Some((host, format!("a signal ended it after {}", duration(end.wall_s))))
            }
            Some(_) => None,
            None => {
                let last =
                    node.absents.last().map(|absent| format!("; it last said: {}", absent.why));
                let slots = node.pairs.len();
                Some((
                    host,
                    format!(
                        "its file has no end, after {}{}",
                        counted(slots, "pair"),
                        last.unwrap_or_default()
                    ),
                ))
            }
        }
    });
    let unknown = match (&fleet.hosts, fleet.header().size as usize) {
        (None, size) if size > present.len() => Some((
            counted(size - present.len(), "host"),
            "no file, and no file lists the hosts: give --hosts FILE".to_owned(),
        )),
        _ => None,
    };
    without.chain(unended).chain(unknown).collect()
}

/// Hosts that are not lost and could not be reached, with how many slots failed: what two hosts lack is
/// the fault of the one that lacks more.
pub(super) fn unreached(fleet: &Fleet) -> Vec<(String, usize)> {
    let mut blamed: BTreeSet<String> = lost(fleet).into_iter().map(|(host, _)| host).gather();
    let mut failed: BTreeMap<&str, BTreeSet<(u32, &str)>> = BTreeMap::new();
    for node in &fleet.nodes {
        for absent in &node.absents {
            let Some((slot, partners)) = absent.slot.zip(absent.partner.as_deref()) else {
                continue;
            };
            for partner in partners.split(", ") {
                let host = node.header.host.as_str();
                failed.entry(host).or_default().insert((slot, partner));
                failed.entry(partner).or_default().insert((slot, host));
            }
        }
    }
    let mut found = Vec::new();
    loop {
        let open = |(host, slots): (&&str, &BTreeSet<(u32, &str)>)| {
            let open = slots.iter().filter(|(_, partner)| !blamed.contains(*partner)).count();
            (open, (*host).to_owned())
        };
        let all = failed.iter().filter(|(host, _)| !blamed.contains(**host)).map(open);
        let Some((count, host)) = all.max().filter(|(count, _)| *count >= UNREACHED_LEAST) else {
            return found;
        };
        blamed.insert(host.clone());
        found.push((host, count));
    }
}

/// Hosts whose clock is off by more than a quarter of a slot.
pub(super) fn clocks(fleet: &Fleet) -> Vec<String> {
    let off = fleet.nodes.iter().filter_map(|node| {
        let clock = node.clock.as_ref().filter(|clock| clock.is_corrected)?;
        // The offset is that of the peers.
        let (ahead, s) = if clock.offset_s < 0.0 {
            ("ahead of", -clock.offset_s)
        } else {
            ("behind", clock.offset_s)
        };
        Some(format!(
            "{} is {} {ahead} {}; it measured by their clock",
            node.header.host,
            duration(s),
            counted(clock.peers.len(), "peer"),
        ))
    });
    off.collect()
}

/// Why something is missing, with the hosts that say so.
pub(super) fn section(view: &View) -> Option<Section> {
    let mut reasons: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for node in &view.fleet.nodes {
        for absent in &node.absents {
            let what = match (&absent.slot, &absent.partner, &absent.experiment) {
                (Some(slot), Some(partner), _) => format!("slot {slot} with {partner}"),
                (.., Some(experiment)) => experiment.clone(),
                _ => "the node".to_owned(),
            };
            let host = node.header.host.clone();
            reasons.entry((what, absent.why.clone())).or_default().insert(host);
        }
    }
    let mut rows: Vec<((String, String), BTreeSet<String>)> = reasons.into_iter().collect();
    rows.order_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    let all = rows.len();
    let row = |((what, why), hosts): ((String, String), BTreeSet<String>)| {
        let hosts: Vec<String> = hosts.into_iter().collect();
        let named = if hosts.len() > HOSTS { counted(hosts.len(), "node") } else { listed(&hosts) };
        Row::always_shown(vec![Cell::plain(named), Cell::plain(what), Cell::plain(why)])
    };
    let mut blocks: Vec<_> =
        view.fleet.notes.iter().map(|note| Block::text(note.clone()).for_all()).collect();
    if all > 0 {
        let table = Table::new("", &["node", "what", "why"], rows.into_iter().take(ROWS).map(row));
        blocks.push(Block::Table(table).for_all());
        blocks.extend(left_out(all, ROWS, " reasons"));
    }
    (!blocks.is_empty()).then(|| Section::new("missing", "What is missing", blocks))
}

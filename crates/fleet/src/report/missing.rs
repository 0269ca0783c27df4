//! What is missing, and why: hosts without a file or an end, slots without a partner, files that do not
//! belong here.

use super::{View, left_out};
use crate::names::{counted, duration, listed};
use crate::read::{Fleet, NodeFile};
use crate::schedule::MEETING;
use analysis::gather::gathered;
use record::order::{Gather, InOrder};
use report::document::{Block, Cell, Row, Section, Table};
use stats::quantile::median;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Rows of the table of missing figures.
const ROWS: usize = 200;
/// Fewest slots that failed of a host that is called unreached.
const UNREACHED_LEAST: usize = 2;

/// Hosts without a file, or without an end, with the known reason.
pub(super) fn lost(fleet: &Fleet) -> Vec<(String, String)> {
    let present: HashSet<&str> = fleet.nodes.iter().map(|node| node.header.host.as_str()).gather();
    let listed = fleet.hosts.iter().flatten();
    let without = listed.filter(|host| !present.contains(host.as_str())).map(|host| {
        (host.clone(), "no file: it was not started, or could not write one".to_owned())
    });
    let unended = |node: &NodeFile| {
        let why = match &node.end {
            Some(end) if end.interrupted => {
                format!("a signal ended it after {}", duration(end.wall_s))
            }
            Some(_) => return None,
            None => {
                let last = node.absents.last().map(|last| format!("; it last said: {}", last.why));
                let pairs = counted(node.pairs.len(), "pair");
                format!("its file has no end, after {pairs}{}", last.unwrap_or_default())
            }
        };
        Some((node.header.host.clone(), why))
    };
    let unknown = (fleet.header().size as usize).saturating_sub(present.len());
    let unknown = (fleet.hosts.is_none() && unknown > 0).then(|| {
        let why = "no file, and no file lists the hosts: give --hosts FILE";
        (counted(unknown, "host"), why.to_owned())
    });
    without.chain(fleet.nodes.iter().filter_map(unended)).chain(unknown).collect()
}

/// Hosts that are not lost and could not be reached, with how many slots failed: what two hosts lack is
/// the fault of the one that lacks more.
pub(super) fn unreached(fleet: &Fleet) -> Vec<(String, usize)> {
    let mut blamed: BTreeSet<String> = lost(fleet).into_iter().map(|(host, _)| host).gather();
    let mut failed: BTreeMap<&str, BTreeSet<(u32, &str)>> = BTreeMap::new();
    for node in &fleet.nodes {
        let host = node.header.host.as_str();
        for absent in &node.absents {
            let slots = absent.slot.zip(absent.partner.as_deref()).into_iter();
            for (slot, partner) in
                slots.flat_map(|(slot, all)| all.split(", ").map(move |partner| (slot, partner)))
            {
                failed.entry(host).or_default().insert((slot, partner));
                failed.entry(partner).or_default().insert((slot, host));
            }
        }
    }
    let mut failed: Vec<(&str, BTreeSet<(u32, &str)>)> = failed.into_iter().collect();
    failed.order_by_key(|(_, slots)| Reverse(slots.len()));
    let mut found = Vec::new();
    for (host, slots) in failed {
        let open = slots.iter().filter(|(_, partner)| !blamed.contains(*partner)).count();
        if !blamed.contains(host) && open >= UNREACHED_LEAST {
            blamed.insert(host.to_owned());
            found.push((host.to_owned(), open));
        }
    }
    found
}

/// Hosts whose clock is off by more than a quarter of a slot: before the sweep, or by most of the partners
/// that they met.
pub(super) fn clocks(fleet: &Fleet) -> Vec<String> {
    let mut met: HashMap<&str, Vec<f64>> = HashMap::new();
    for node in &fleet.nodes {
        for pair in &node.pairs {
            met.entry(&node.header.host).or_default().push(pair.offset_s);
            met.entry(&pair.to).or_default().push(-pair.offset_s);
        }
    }
    let off = fleet.nodes.iter().filter_map(|node| {
        let host = node.header.host.as_str();
        let partners = met.get(host).map_or(&[][..], Vec::as_slice);
        // The offset is that of the others.
        let (offset_s, others) = match node.clock.as_ref().filter(|clock| clock.is_corrected) {
            Some(clock) => {
                let peers = counted(clock.peers.len(), "peer");
                (clock.offset_s, format!("{peers}; it measured by their clock"))
            }
            None => (median(partners)?, format!("{} that it met", counted(partners.len(), "end"))),
        };
        let side = if offset_s < 0.0 { "ahead of" } else { "behind" };
        let is_off = offset_s.abs() > MEETING * node.header.slot_s;
        is_off.then(|| format!("{host} is {} {side} {others}", duration(offset_s.abs())))
    });
    off.collect()
}

/// Why something is missing, with the hosts that say so.
pub(super) fn section(view: &View) -> Option<Section> {
    let reasons = view.fleet.nodes.iter().flat_map(|node| {
        node.absents.iter().map(|absent| {
            let what = match (absent.slot, &absent.partner, &absent.experiment) {
                (Some(slot), Some(partner), _) => format!("slot {slot} with {partner}"),
                (.., Some(experiment)) => experiment.clone(),
                _ => "the node".to_owned(),
            };
            ((what, absent.why.clone()), node.header.host.as_str())
        })
    });
    let mut rows = gathered(reasons);
    rows.order_by_key(|(_, hosts)| Reverse(hosts.len()));
    let notes = view.fleet.notes.iter().map(|note| Block::text(note.clone()).for_all());
    let mut blocks: Vec<_> = notes.collect();
    let row = |((what, why), hosts): &((String, String), Vec<&str>)| {
        Row::always_shown([&listed(hosts), what, why].into_iter().map(Cell::plain).collect())
    };
    if !rows.is_empty() {
        let table = Table::new("", &["node", "what", "why"], rows.iter().take(ROWS).map(row));
        blocks.push(Block::Table(table).for_all());
        blocks.extend(left_out(rows.len(), ROWS, " reasons"));
    }
    (!blocks.is_empty()).then(|| Section::new("missing", "What is missing", blocks))
}

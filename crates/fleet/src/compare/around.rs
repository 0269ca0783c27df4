//! What differs around two sweeps: how they were asked for, and what their nodes are.

use crate::read::Sweep;
use crate::sweep::{Header, Node};
use record::order::Gather;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// What differs.
    pub name: String,
    /// In the base sweep.
    pub base: String,
    /// In the new one.
    pub new: String,
    /// Nodes that differ in this respect; null if it concerns the whole sweep.
    pub nodes: Option<usize>,
}

/// What differs between two sweeps, first of the sweeps, then of the nodes that both have.
pub(super) fn around(base: &Sweep, new: &Sweep, names: &[&str]) -> Vec<Difference> {
    let asked = |sweep: &Sweep| {
        let Header { preset, starter, plumb, .. } = &sweep.header;
        let own = [("starter", starter), ("plumb", plumb)].map(|(name, of)| (name, of.clone()));
        std::iter::once(("preset", preset.clone())).chain(sweep.header.asked()).chain(own)
    };
    let asked = asked(base).zip(asked(new));
    let of_sweeps = asked.filter(|(one, other)| one != other).map(|((name, base), (_, new))| {
        Difference { name: name.to_owned(), base, new, nodes: None }
    });
    let mut counts: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let (of_base, of_new) = (by_name(base), by_name(new));
    for (one, other) in names.iter().filter_map(|name| of_base.get(name).zip(of_new.get(name))) {
        for difference in of_node(one, other) {
            *counts.entry(difference).or_default() += 1;
        }
    }
    let of_nodes = counts.into_iter().map(|((name, base, new), count)| Difference {
        name,
        base,
        new,
        nodes: Some(count),
    });
    of_sweeps.chain(of_nodes).collect()
}

fn by_name(sweep: &Sweep) -> BTreeMap<&str, &Node> {
    sweep.nodes.values().map(|node| (node.name.as_str(), node)).gather()
}

fn of_node(base: &Node, new: &Node) -> Vec<(String, String, String)> {
    let facts = |node: &Node| {
        let mut facts = node.stratum.clone();
        facts.insert("plumb of the node".to_owned(), node.plumb.clone());
        facts
    };
    let (base, new) = (facts(base), facts(new));
    let names: BTreeSet<&String> = base.keys().chain(new.keys()).gather();
    let text = |facts: &BTreeMap<String, String>, name: &String| {
        facts.get(name).cloned().unwrap_or_else(|| "unknown".to_owned())
    };
    let both = names.into_iter().map(|name| (name.clone(), text(&base, name), text(&new, name)));
    both.filter(|(_, base, new)| base != new).collect()
}

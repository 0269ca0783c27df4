//! Nodes of identical hardware.

use super::Stratum;
use crate::read::Sweep;
use record::order::{Gather, InOrder};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The strata of the nodes that joined: one for each set of facts, the largest first, equal ones by
/// their first rank.
pub fn strata(sweep: &Sweep) -> Vec<Stratum> {
    let mut ranks: BTreeMap<&BTreeMap<String, String>, Vec<u32>> = BTreeMap::new();
    for node in sweep.nodes.values() {
        ranks.entry(&node.stratum).or_default().push(node.rank);
    }
    let names: BTreeSet<&String> = ranks.keys().flat_map(|facts| facts.keys()).gather();
    let is_one = |name: &&&String| {
        let mut values = ranks.keys().map(|facts| facts.get(**name));
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let differs: Vec<String> =
        names.iter().filter(|name| !is_one(name)).map(|name| (*name).clone()).collect();
    let stratum = |(facts, ranks): (&BTreeMap<String, String>, Vec<u32>)| Stratum {
        facts: facts.clone(),
        differs: differs.clone(),
        ranks,
    };
    let mut strata: Vec<Stratum> = ranks.into_iter().map(stratum).collect();
    strata.order_by_key(|stratum| (std::cmp::Reverse(stratum.ranks.len()), stratum.ranks[0]));
    strata
}

/// The index of each node's stratum.
pub(crate) fn index(strata: &[Stratum]) -> HashMap<u32, usize> {
    let places = strata.iter().enumerate();
    places.flat_map(|(at, stratum)| stratum.ranks.iter().map(move |rank| (*rank, at))).collect()
}

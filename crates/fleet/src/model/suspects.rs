//! What phase 4 measures again, beside which peers and with which partners.

use super::first::{First, LinkTest};
use super::looks::{Found, Inquiry, Known, LOOKS, Outcome, missing};
use super::{LinkAgain, NodeAgain, Role, Suspects};
use crate::matchings::{Edge, turns};
use crate::read::Sweep;
use crate::sweep::{Purpose, Stage};
use analysis::gather::{distinct, gathered};
use record::key::Key;
use record::order::{Gather, InOrder};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The measurements of the next look: those of each suspect that `known` neither shows nor clears.
/// Later measurements change nothing, so a resumed sweep continues with the missing ones.
pub fn suspects(sweep: &Sweep, known: Known) -> Suspects {
    let Some(next) = LOOKS.get(known.looks as usize) else { return Suspects::default() };
    let first = First::new(sweep);
    let inquiry = Inquiry::new(sweep, &first, known);
    let again = (known.repetitions() + 1, *next);
    Suspects { again, nodes: nodes(sweep, &first, &inquiry), pairs: pairs(sweep, &first, &inquiry) }
}

/// Whether more repetitions of a suspect are wanted.
fn is_open(found: &Found) -> bool {
    found.outcome == Outcome::Open && missing(found.again.count) > 0
}

/// Suspects, worst first, then the peers that are measured beside them.
fn nodes(sweep: &Sweep, first: &First, inquiry: &Inquiry) -> Vec<NodeAgain> {
    let mut again: Vec<(u32, &Key)> = Vec::new();
    let mut experiments: BTreeMap<(usize, &str), BTreeSet<&Key>> = BTreeMap::new();
    for (at, _) in first.chosen.iter().zip(&inquiry.nodes).filter(|(_, found)| is_open(found)) {
        let test = &first.tests[*at];
        let subject = first.subject(test.field);
        if subject.is_alone() {
            again.push((first.rank(test), &subject.key));
            let stratum = first.fields[test.field].stratum;
            let keys = experiments.entry((stratum, &subject.key.experiment)).or_default();
            keys.insert(&subject.key);
        }
    }
    let (lost, ordinary) = (lost(sweep), ordinary(first));
    for (of, keys) in experiments {
        // The most ordinary nodes of the stratum.
        let mut peers: Vec<_> = ordinary.get(&of).into_iter().flatten().collect();
        peers.retain(|(rank, _)| !lost.contains(rank));
        peers.order_by(|a, b| a.1.0.cmp(&b.1.0).then(a.1.1.total_cmp(&b.1.1)).then(a.0.cmp(b.0)));
        for (rank, _) in peers.into_iter().take(Suspects::PEERS) {
            again.extend(keys.iter().map(|key| (*rank, *key)));
        }
    }
    let node = |(rank, keys): (u32, Vec<&Key>)| NodeAgain {
        rank,
        keys: distinct(keys).into_iter().cloned().collect(),
    };
    gathered(again).into_iter().map(node).collect()
}

/// Nodes that take no part in phase 4.
fn lost(sweep: &Sweep) -> BTreeSet<u32> {
    let before = |absent: &&crate::sweep::Absent| absent.lost && absent.phase < Stage::Suspects;
    sweep.absents.iter().filter(before).map(|absent| absent.rank).gather()
}

/// By stratum and experiment how ordinary the nodes are: in how many figures they are suspects, and the
/// sum of their distances from the centre.
type Ordinary<'a> = HashMap<(usize, &'a str), BTreeMap<u32, (usize, f64)>>;

fn ordinary(first: &First) -> Ordinary<'_> {
    let mut nodes = Ordinary::new();
    let chosen: BTreeSet<usize> = first.chosen.iter().copied().gather();
    for (at, test) in first.tests.iter().enumerate() {
        let subject = first.subject(test.field);
        if subject.is_alone() && !subject.is_scatter {
            let stratum = first.fields[test.field].stratum;
            let ranks = nodes.entry((stratum, subject.key.experiment.as_str())).or_default();
            let standing = ranks.entry(first.rank(test)).or_default();
            standing.0 += usize::from(chosen.contains(&at));
            standing.1 += test.z.abs().min(f64::MAX.sqrt());
        }
    }
    nodes
}

/// The pairs, worst suspect first, each once, with all its figures.
fn pairs(sweep: &Sweep, first: &First, inquiry: &Inquiry) -> Vec<LinkAgain> {
    let partners = Partners::new(sweep, first);
    let mut asked: Vec<Asked> = Vec::new();
    let suspects = || first.chosen.iter().zip(&inquiry.nodes);
    let end = |at: &usize| {
        let subject = first.subject(first.tests[*at].field);
        (first.rank(&first.tests[*at]), subject.role, &subject.key.experiment, &subject.key.case)
    };
    // One metric of a case has shown the end: its other metrics need no further pairs.
    let is_shown = |found: &Found| found.outcome == Outcome::Shown;
    let shown: HashSet<_> = suspects().filter(|of| is_shown(of.1)).map(|of| end(of.0)).collect();
    for (at, found) in suspects().filter(|(_, of)| is_open(of)) {
        let test = &first.tests[*at];
        let subject = first.subject(test.field);
        let rank = first.rank(test);
        if !subject.is_alone() && !shown.contains(&end(at)) {
            let partners = partners.best(rank, &subject.key, None);
            let times = missing(found.again.count).div_ceil(partners.len().max(1) as u32);
            asked.extend(ends(rank, &partners, subject.role, (&subject.key, times)));
        }
    }
    for (at, found) in first.chosen_links.iter().zip(&inquiry.links).filter(|(_, of)| is_open(of)) {
        let LinkTest { fit, from, to, .. } = first.links[*at];
        let key = &first.fits[fit].key;
        // Both of its ends are also measured with others: what these show is not the link's.
        asked.push(((from, to), (key, missing(found.again.count))));
        for (rank, other, role) in [(from, to, Role::Send), (to, from, Role::Receive)] {
            asked.extend(ends(rank, &partners.best(rank, key, Some(other)), role, (key, 1)));
        }
    }
    in_turns(gathered(asked), sweep.header.size)
}

/// A pair, the figure that asks for it, and how often.
type Asked<'a> = (Edge, (&'a Key, u32));

/// A node with its partners. An effect that both ends share is measured at both in turn: the node may
/// be bad at one alone.
fn ends<'a>(rank: u32, partners: &[u32], role: Role, why: (&'a Key, u32)) -> Vec<Asked<'a>> {
    let pair = |(at, partner): (usize, &u32)| match role {
        Role::Receive => ((*partner, rank), why),
        Role::Both if at % 2 == 1 => ((*partner, rank), why),
        _ => ((rank, *partner), why),
    };
    partners.iter().enumerate().map(pair).collect()
}

/// The worst suspects, as many as there is time for in a sweep of so many nodes; each pair as often as
/// the most demanding figure asks.
fn in_turns(pairs: Vec<(Edge, Vec<(&Key, u32)>)>, size: u32) -> Vec<LinkAgain> {
    let most = |why: &[(&Key, u32)]| why.iter().map(|(_, times)| *times).max().unwrap_or(0);
    let asked: Vec<(Edge, u32)> = pairs.iter().map(|(edge, why)| (*edge, most(why))).collect();
    let turns = turns(&asked, Suspects::beside(size) as usize, Suspects::TURNS_MOST);
    let pairs = pairs.into_iter().zip(turns).filter(|(_, turns)| !turns.is_empty());
    let pairs = pairs.map(|(((from, to), why), turns)| {
        let keys = distinct(why.into_iter().map(|(key, _)| key));
        LinkAgain { from, to, keys: keys.into_iter().cloned().collect(), turns }
    });
    pairs.collect()
}

/// Which nodes each one may be measured with: those it has met.
struct Partners<'a> {
    first: &'a First,
    met: BTreeMap<u32, BTreeSet<u32>>,
}

impl<'a> Partners<'a> {
    fn new(sweep: &Sweep, first: &'a First) -> Partners<'a> {
        let mut met: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for pair in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Matching) {
            met.entry(pair.from).or_default().insert(pair.to);
            met.entry(pair.to).or_default().insert(pair.from);
        }
        let lost = lost(sweep);
        met.retain(|rank, _| !lost.contains(rank));
        for partners in met.values_mut() {
            partners.retain(|partner| !lost.contains(partner));
        }
        Partners { first, met }
    }

    /// The best ones of a node by their fitted effects as both ends, no suspects themselves.
    fn best(&self, rank: u32, key: &Key, but: Option<u32>) -> Vec<u32> {
        let Some(fit) = self.first.fits.iter().find(|fit| fit.key == *key) else {
            return Vec::new();
        };
        let is_good =
            |partner: &&u32| !self.first.suspects.contains(partner) && Some(**partner) != but;
        let met = self.met.get(&rank).into_iter().flatten().filter(is_good);
        let both = |partner: u32| fit.end(partner, true) + fit.end(partner, false);
        let mut met: Vec<u32> = met.copied().collect();
        met.order_by(|a, b| both(*a).total_cmp(&both(*b)).then(a.cmp(b)));
        met.truncate(Suspects::PARTNERS);
        met
    }
}

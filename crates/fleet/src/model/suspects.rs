//! What phase 4 measures again, beside which peers and with which partners.

use super::first::{First, LinkTest};
use super::looks::{Found, Inquiry, Known, LOOKS, Outcome, missing};
use super::{LinkAgain, NodeAgain, Role, Suspects};
use crate::matchings::{Edge, turns};
use crate::read::Sweep;
use crate::sweep::{Purpose, Stage};
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
    let mut again = Again::default();
    let mut experiments: BTreeMap<(usize, &str), BTreeSet<&Key>> = BTreeMap::new();
    for (at, _) in first.chosen.iter().zip(&inquiry.nodes).filter(|(_, found)| is_open(found)) {
        let test = &first.tests[*at];
        let subject = first.subject(test.field);
        if subject.role == Role::Alone {
            again.add(first.rank(test), &subject.key);
            let stratum = first.fields[test.field].stratum;
            let keys = experiments.entry((stratum, &subject.key.experiment)).or_default();
            keys.insert(&subject.key);
        }
    }
    let lost = lost(sweep);
    let standings = Standings::new(first);
    for ((stratum, experiment), keys) in experiments {
        for rank in standings.best(stratum, experiment, &lost) {
            keys.iter().for_each(|key| again.add(rank, key));
        }
    }
    again.nodes
}

/// Nodes that take no part in phase 4.
fn lost(sweep: &Sweep) -> BTreeSet<u32> {
    let before = |absent: &&crate::sweep::Absent| absent.lost && absent.phase < Stage::Suspects;
    sweep.absents.iter().filter(before).map(|absent| absent.rank).gather()
}

#[derive(Default)]
struct Again {
    nodes: Vec<NodeAgain>,
    places: HashMap<u32, usize>,
}

impl Again {
    fn add(&mut self, rank: u32, key: &Key) {
        let next = self.nodes.len();
        let at = *self.places.entry(rank).or_insert(next);
        if at == next {
            self.nodes.push(NodeAgain { rank, keys: Vec::new() });
        }
        let keys = &mut self.nodes[at].keys;
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
}

/// By stratum and experiment, the nodes with the number of their suspect figures and the sum of their
/// distances.
type Ordinary<'a> = HashMap<(usize, &'a str), BTreeMap<u32, (usize, f64)>>;

/// How ordinary the nodes are in an experiment: how often they are suspects, and how far they are from
/// the centre.
struct Standings<'a> {
    nodes: Ordinary<'a>,
}

impl<'a> Standings<'a> {
    fn new(first: &'a First) -> Standings<'a> {
        let mut nodes = Ordinary::new();
        let chosen: BTreeSet<usize> = first.chosen.iter().copied().gather();
        for (at, test) in first.tests.iter().enumerate() {
            let subject = first.subject(test.field);
            if subject.role == Role::Alone && !subject.is_scatter {
                let stratum = first.fields[test.field].stratum;
                let ranks = nodes.entry((stratum, &subject.key.experiment)).or_default();
                let standing = ranks.entry(first.rank(test)).or_default();
                standing.0 += usize::from(chosen.contains(&at));
                standing.1 += test.z.abs().min(f64::MAX.sqrt());
            }
        }
        Standings { nodes }
    }

    /// The most ordinary nodes of a stratum.
    fn best(&self, stratum: usize, experiment: &str, lost: &BTreeSet<u32>) -> Vec<u32> {
        let Some(nodes) = self.nodes.get(&(stratum, experiment)) else { return Vec::new() };
        let mut nodes: Vec<_> = nodes.iter().filter(|(rank, _)| !lost.contains(rank)).collect();
        nodes.order_by(|a, b| a.1.0.cmp(&b.1.0).then(a.1.1.total_cmp(&b.1.1)).then(a.0.cmp(b.0)));
        nodes.into_iter().take(Suspects::PEERS).map(|(rank, _)| *rank).collect()
    }
}

/// The pairs, worst suspect first, each once, with all its figures.
fn pairs(sweep: &Sweep, first: &First, inquiry: &Inquiry) -> Vec<LinkAgain> {
    let partners = Partners::new(sweep, first);
    let mut plan = Plan::default();
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
        if subject.role != Role::Alone && !shown.contains(&end(at)) {
            let partners = partners.best(rank, &subject.key, None);
            let times = missing(found.again.count).div_ceil(partners.len().max(1) as u32);
            plan.ends(rank, &partners, subject.role, &subject.key, times);
        }
    }
    for (at, found) in first.chosen_links.iter().zip(&inquiry.links).filter(|(_, of)| is_open(of)) {
        plan.link(first, &partners, &first.links[*at], missing(found.again.count));
    }
    plan.in_turns(sweep.header.size)
}

#[derive(Default)]
struct Plan {
    /// With how often each is measured.
    pairs: Vec<(LinkAgain, u32)>,
    places: HashMap<(u32, u32), usize>,
}

impl Plan {
    fn add(&mut self, from: u32, to: u32, key: &Key, times: u32) {
        let next = self.pairs.len();
        let at = *self.places.entry((from, to)).or_insert(next);
        if at == next {
            let pair = LinkAgain { from, to, keys: Vec::new(), turns: Vec::new() };
            self.pairs.push((pair, times));
        }
        let (pair, most) = &mut self.pairs[at];
        *most = times.max(*most);
        if !pair.keys.contains(key) {
            pair.keys.push(key.clone());
        }
    }

    /// A link, and both of its ends with others: only what those do not show is of the link.
    fn link(&mut self, first: &First, partners: &Partners, link: &LinkTest, times: u32) {
        let key = &first.fits[link.fit].key;
        self.add(link.from, link.to, key, times);
        self.ends(link.from, &partners.best(link.from, key, Some(link.to)), Role::Send, key, 1);
        self.ends(link.to, &partners.best(link.to, key, Some(link.from)), Role::Receive, key, 1);
    }

    /// A node with its partners. An effect that both ends share is measured at both in turn: the node may
    /// be bad at one alone.
    fn ends(&mut self, rank: u32, partners: &[u32], role: Role, key: &Key, times: u32) {
        for (at, partner) in partners.iter().enumerate() {
            let is_near = match role {
                Role::Receive => false,
                Role::Both => at % 2 == 0,
                Role::Send | Role::Alone => true,
            };
            let (from, to) = if is_near { (rank, *partner) } else { (*partner, rank) };
            self.add(from, to, key, times);
        }
    }

    /// The worst suspects, as many as there is time for in a sweep of so many nodes.
    fn in_turns(self, size: u32) -> Vec<LinkAgain> {
        let asked: Vec<(Edge, u32)> =
            self.pairs.iter().map(|(pair, times)| ((pair.from, pair.to), *times)).collect();
        let turns = turns(&asked, Suspects::beside(size) as usize, Suspects::TURNS_MOST);
        let pairs = self.pairs.into_iter().zip(turns);
        let pairs = pairs.map(|((pair, _), turns)| LinkAgain { turns, ..pair });
        pairs.filter(|pair| !pair.turns.is_empty()).collect()
    }
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

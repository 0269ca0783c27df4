//! What phase 4 measures again, and with which partners.

use super::first::First;
use super::{LinkAgain, NodeAgain, Role, Suspects};
use crate::read::Sweep;
use crate::sweep::{Purpose, Stage};
use record::key::Key;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How often a suspect link is measured again.
const LINK_TIMES: u32 = 3;

/// The suspects of the phases `alone` and `pairs`. What phase 4 itself added changes nothing: the
/// answer is the same before, in and after it, so that a resumed sweep goes on with what is missing.
pub fn suspects(sweep: &Sweep) -> Suspects {
    let first = First::new(sweep);
    let mut nodes: Vec<NodeAgain> = Vec::new();
    for test in first.chosen.iter().map(|at| &first.tests[*at]) {
        let subject = &first.topic(test.field).subject;
        if subject.role != Role::Alone {
            continue;
        }
        let rank = first.rank(test);
        let at = nodes.iter().position(|node| node.rank == rank).unwrap_or_else(|| {
            nodes.push(NodeAgain { rank, keys: Vec::new() });
            nodes.len() - 1
        });
        if !nodes[at].keys.contains(&subject.key) {
            nodes[at].keys.push(subject.key.clone());
        }
    }
    Suspects { nodes, pairs: pairs(sweep, &first) }
}

/// The pairs, worst suspect first, each once, with all its figures.
fn pairs(sweep: &Sweep, first: &First) -> Vec<LinkAgain> {
    let partners = Partners::new(sweep, first);
    let mut plan = Plan::default();
    for test in first.chosen.iter().map(|at| &first.tests[*at]) {
        let subject = &first.topic(test.field).subject;
        let rank = first.rank(test);
        if subject.role != Role::Alone {
            let partners = partners.best(rank, &subject.key, None);
            plan.ends(rank, &partners, subject.role != Role::Receive, &subject.key, 1);
        }
    }
    for flaky in &first.flaky {
        for link in flaky.links.iter().take(Suspects::PARTNERS).map(|at| &first.links[*at]) {
            plan.add(link.from, link.to, &first.fits[link.fit].key, LINK_TIMES);
        }
    }
    for link in first.chosen_links.iter().map(|at| &first.links[*at]) {
        let key = &first.fits[link.fit].key;
        plan.add(link.from, link.to, key, LINK_TIMES);
        // Both ends with others: only what those do not show is of the link.
        plan.ends(link.from, &partners.best(link.from, key, Some(link.to)), true, key, 1);
        plan.ends(link.to, &partners.best(link.to, key, Some(link.from)), false, key, 1);
    }
    plan.pairs
}

#[derive(Default)]
struct Plan {
    pairs: Vec<LinkAgain>,
    places: HashMap<(u32, u32), usize>,
}

impl Plan {
    fn add(&mut self, from: u32, to: u32, key: &Key, times: u32) {
        let next = self.pairs.len();
        let at = *self.places.entry((from, to)).or_insert(next);
        if at == next {
            self.pairs.push(LinkAgain { from, to, keys: Vec::new(), times });
        }
        let pair = &mut self.pairs[at];
        pair.times = pair.times.max(times);
        if !pair.keys.contains(key) {
            pair.keys.push(key.clone());
        }
    }

    fn ends(&mut self, rank: u32, partners: &[u32], is_near: bool, key: &Key, times: u32) {
        for partner in partners {
            let (from, to) = if is_near { (rank, *partner) } else { (*partner, rank) };
            self.add(from, to, key, times);
        }
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
        for lost in
            sweep.absents.iter().filter(|absent| absent.lost && absent.phase < Stage::Suspects)
        {
            met.remove(&lost.rank);
            for partners in met.values_mut() {
                partners.remove(&lost.rank);
            }
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
        met.sort_by(|a, b| both(*a).total_cmp(&both(*b)).then(a.cmp(b)));
        met.truncate(Suspects::PARTNERS);
        met
    }
}

//! What a step of suspects measures: all that stands out and is not cleared, with healthy peers.

use super::PEERS;
use super::first::{Field, First, Role};
use super::judge::{Judgement, State, Verdict, Which};
use crate::read::Fleet;
use record::key::Key;
use record::order::InOrder;
use std::collections::{BTreeMap, BTreeSet};

/// Links of one node that a step measures.
const LINKS_MOST: usize = 3;

/// The hosts and pairs of a step.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Again {
    pub suspects: Vec<String>,
    pub peers: Vec<String>,
    /// Pairs that are measured, near end first.
    pub pairs: Vec<(String, String)>,
    /// What each host measures by itself; all that the sweep did, where this is empty.
    pub figures: Vec<Key>,
}

impl Again {
    pub fn hosts(&self) -> Vec<String> {
        self.suspects.iter().chain(&self.peers).cloned().collect()
    }

    /// The list of hosts for `plumb fleet run --hosts`: a line a host, then a line a pair, then one for
    /// each figure, which `selector` selects.
    pub fn list(&self, selector: impl Fn(&Key) -> String) -> String {
        let hosts = self.hosts().into_iter();
        let pairs = self.pairs.iter().map(|(near, far)| format!("{near} > {far}"));
        let figures = self.figures.iter().map(|key| format!("* {}", selector(key)));
        hosts.chain(pairs).chain(figures).map(|line| line + "\n").collect()
    }
}

/// What the next step measures; nothing where all is accused or cleared.
pub fn suspects(fleet: &Fleet, judgement: &Judgement) -> Again {
    let first = &judgement.first;
    let is_measurable = |verdict: &&Verdict| verdict.which.ends().all(|node| is_alive(fleet, node));
    let suspects: Vec<&Verdict> =
        judgement.in_state(State::Suspect).filter(is_measurable).collect();
    let repeated: Vec<&Field> = first.fields.iter().filter(|field| field.needs_steps()).collect();
    if suspects.is_empty() && repeated.is_empty() {
        return Again::default();
    }
    let accused = judgement.in_state(State::Accused).filter(is_measurable);
    let open = fewer_links(suspects.into_iter().chain(accused));
    let bad: BTreeSet<usize> = open.iter().flat_map(|verdict| verdict.which.ends()).collect();
    let mut healthy = Healthy::new(fleet, first, &bad);
    let mut peers: BTreeSet<usize> = BTreeSet::new();
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut figures: BTreeSet<&Key> = BTreeSet::new();
    let mut measures = |figure: usize| figures.insert(&fleet.figures[figure].key);
    for field in &repeated {
        measures(field.subject.figure);
        let nodes = first.strata[field.stratum].nodes.iter().copied();
        peers.extend(nodes.filter(|node| is_alive(fleet, *node)));
    }
    for verdict in &open {
        if verdict.subject.role == Role::Alone {
            measures(verdict.subject.figure);
        }
        // The ends whose pairs are measured, and whether each is the near one.
        let ends = match (verdict.which, verdict.subject.role) {
            (Which::Link(from, to), _) => {
                pairs.insert((from, to));
                vec![(from, true), (to, false)]
            }
            (Which::Node(node), Role::Alone) => {
                peers.extend(healthy.beside(node));
                vec![]
            }
            (Which::Node(node), role) => vec![(node, role != Role::Receive)],
        };
        for (node, is_near) in ends {
            let partners = healthy.beside(node);
            pairs.extend(
                partners.iter().map(|peer| if is_near { (node, *peer) } else { (*peer, node) }),
            );
            // Pairs without suspects say what changes for all.
            pairs.extend(partners.windows(2).map(|pair| (pair[0], pair[1])));
            peers.extend(partners);
        }
    }
    peers.retain(|node| !bad.contains(node));
    let name = |node: &usize| fleet.host(*node).to_owned();
    Again {
        suspects: bad.iter().map(name).collect(),
        peers: peers.iter().map(name).collect(),
        pairs: pairs.iter().map(|(near, far)| (name(near), name(far))).collect(),
        figures: figures.into_iter().cloned().collect(),
    }
}

/// The verdicts without the links beyond [`LINKS_MOST`] of one node: each takes slots of its own.
fn fewer_links<'all>(verdicts: impl Iterator<Item = &'all Verdict>) -> Vec<&'all Verdict> {
    let mut links: BTreeMap<usize, BTreeSet<Which>> = BTreeMap::new();
    let mut is_kept = |verdict: &&Verdict| {
        let which = verdict.which;
        let is_free =
            |end| links.get(&end).is_none_or(|all| all.len() < LINKS_MOST || all.contains(&which));
        let is_kept = matches!(which, Which::Node(_)) || which.ends().all(is_free);
        if is_kept && matches!(which, Which::Link(..)) {
            which.ends().for_each(|end| _ = links.entry(end).or_default().insert(which));
        }
        is_kept
    };
    verdicts.filter(|verdict| is_kept(verdict)).collect()
}

/// Whether a node went to the end of the sweep: a lost one cannot be measured again.
fn is_alive(fleet: &Fleet, node: usize) -> bool {
    fleet.nodes[node].end.as_ref().is_some_and(|end| !end.interrupted)
}

/// Healthy nodes of each stratum, the best ones first, dealt out in turn.
struct Healthy<'first> {
    first: &'first First,
    by_stratum: Vec<Vec<usize>>,
    next: Vec<usize>,
}

impl<'first> Healthy<'first> {
    fn new(fleet: &Fleet, first: &'first First, bad: &BTreeSet<usize>) -> Self {
        let mut worst = vec![f64::NEG_INFINITY; first.places.len()];
        for field in &first.fields {
            for (place, row) in field.rows.iter().enumerate() {
                if let Some(standing) = field.standing(place) {
                    worst[row.node] = worst[row.node].max(standing.z);
                }
            }
        }
        let of_stratum = |nodes: &Vec<usize>| {
            let is_well = |node: &&usize| !bad.contains(node) && is_alive(fleet, **node);
            let mut nodes: Vec<usize> = nodes.iter().filter(is_well).copied().collect();
            nodes.order_by(|a, b| worst[*a].total_cmp(&worst[*b]).then(a.cmp(b)));
            nodes
        };
        let by_stratum: Vec<Vec<usize>> =
            first.strata.iter().map(|stratum| of_stratum(&stratum.nodes)).collect();
        let next = vec![0; by_stratum.len()];
        Healthy { first, by_stratum, next }
    }

    /// The next healthy peers of a node's stratum.
    fn beside(&mut self, node: usize) -> Vec<usize> {
        let stratum = self.first.places[node];
        let all = &self.by_stratum[stratum];
        let count = PEERS.min(all.len());
        let from = self.next[stratum];
        self.next[stratum] += count;
        (from..from + count).map(|place| all[place % all.len()]).collect()
    }
}

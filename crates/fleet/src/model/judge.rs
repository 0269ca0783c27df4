//! What follows from the sweep and its steps of suspects.

use super::first::{Field, First, Role, Subject};
use super::repeated::within;
use super::step::Step;
use super::{
    EACH, LEAST_PEERS, PEERS, RATE, SOUGHT, SOUGHT_LINK, STEPS_LEAST, least_effect, mean_error,
    signed,
};
use crate::fit::{Between, Fit};
use crate::peers::{SMALL, errors, tail};
use crate::read::Fleet;
use record::metric::{Better, Kind};
use record::order::InOrder;
use stats::interval::median_order;
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::f64::consts::FRAC_PI_2;

/// Fewest degrees of freedom from which the steps say how much a node differs from itself.
const FREEDOM_LEAST: f64 = 6.0;
/// So many bad links of one node are the node's.
const LINKS_OF_NODE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    Node(usize),
    /// From the near to the far end.
    Link(usize, usize),
}

impl Which {
    /// The node, or both ends of the link.
    pub fn ends(self) -> impl Iterator<Item = usize> {
        match self {
            Which::Node(node) => [Some(node), None],
            Which::Link(from, to) => [Some(from), Some(to)],
        }
        .into_iter()
        .flatten()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Worse in the sweep and in each step.
    Accused,
    /// It stood out; too few steps say whether it lasts.
    Suspect,
    /// It stood out once and not again.
    Cleared,
}

/// A node or link that stood out.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub which: Which,
    pub subject: Subject,
    pub state: State,
    /// How many times worse than its peers, over all measurements, with the 95 % interval.
    pub factor: f64,
    pub interval: (f64, f64),
    pub p: f64,
    /// In the figure's unit, and what its peers have.
    pub value: f64,
    pub peers: f64,
    pub steps: usize,
}

/// A figure of a whole stratum that is worse than predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Below {
    pub stratum: usize,
    pub figure: usize,
    /// How many times worse than the end of the predicted range.
    pub factor: f64,
    pub value: f64,
    pub predicted: (f64, f64),
}

/// What a field of a stratum, or a figure of the links, would have shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub subject: Subject,
    pub stratum: Option<usize>,
    pub kind: Kind,
    /// Least loss that 95 % of such sweeps show, as a factor.
    pub factor: f64,
}

impl Seen {
    pub fn is_link(&self) -> bool {
        self.stratum.is_none()
    }

    /// Whether a loss is sought in it: in hardware figures and in links.
    pub fn is_sought(&self) -> bool {
        self.is_link() || self.kind == Kind::Hardware
    }

    /// Whether it hides a loss of a tenth in a hardware figure, or of half in a link.
    pub fn hides(&self) -> bool {
        let sought = if self.is_link() { SOUGHT_LINK } else { SOUGHT };
        self.is_sought() && self.factor.ln() > sought
    }
}

pub struct Judgement {
    pub first: First,
    /// Accused ones first, then by how unlikely they are.
    pub verdicts: Vec<Verdict>,
    pub below: Vec<Below>,
    pub seen: Vec<Seen>,
}

impl Judgement {
    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(move |verdict| verdict.state == state)
    }
}

/// Something that stood out: how far it is from its peers, in the sweep or over its steps.
struct Test {
    which: Which,
    subject: Subject,
    least: f64,
    distance: f64,
    error: f64,
    freedom: f64,
    /// Steps that measured it, and its distance in each where it has to be worse in each.
    steps: usize,
    each: Vec<f64>,
    /// It is no surer than this.
    chance: f64,
    /// So many comparisons may be false; those of suspects are counted together.
    tests: Option<usize>,
    value: f64,
    peers: f64,
}

pub fn judge(fleet: &Fleet) -> Judgement {
    let steps = Step::all(fleet);
    let first = First::with_steps(fleet, &steps);
    let mut tests: Vec<Test> =
        first.fields.iter().flat_map(|field| node_tests(field, &first, &steps)).collect();
    tests.extend(link_tests(&first, &steps));
    let tested = tests.iter().filter(|test| !test.each.is_empty()).count().max(1);
    let verdicts = tests.into_iter().map(|test| test.verdict(tested)).collect();
    let mut verdicts = links_of_nodes(verdicts);
    verdicts.order_by(|a, b| {
        a.state.cmp(&b.state).then(a.p.total_cmp(&b.p)).then(b.factor.total_cmp(&a.factor))
    });
    let (below, seen) = (below(&first), seen(&first));
    Judgement { first, verdicts, below, seen }
}

impl Test {
    /// Takes the distances of steps, with the squared error of their mean.
    fn again(&mut self, each: Vec<f64>, squared_error: f64) {
        if !each.is_empty() {
            self.distance = each.iter().sum::<f64>() / each.len() as f64;
            self.error = squared_error.sqrt();
            self.freedom += (each.len() * PEERS) as f64;
            (self.steps, self.each) = (each.len(), each);
        }
    }

    fn verdict(self, tested: usize) -> Verdict {
        let Test { distance, error, freedom, .. } = self;
        let p = tail(distance, error, freedom).1.max(self.chance);
        let is_worse_each_time = self.each.iter().all(|step| *step >= EACH * self.least);
        let rate = RATE / self.tests.unwrap_or(tested) as f64;
        let state = match (is_worse_each_time, self.steps >= STEPS_LEAST) {
            (false, _) => State::Cleared,
            (true, false) => State::Suspect,
            (true, true) if distance >= self.least && p <= rate => State::Accused,
            (true, true) => State::Cleared,
        };
        let reach = errors(0.025, freedom) * error;
        Verdict {
            which: self.which,
            subject: self.subject,
            state,
            factor: distance.exp(),
            interval: ((distance - reach).exp(), (distance + reach).exp()),
            p,
            value: self.value,
            peers: self.peers,
            steps: self.steps,
        }
    }
}

/// The nodes that stand out in a field: by the steps that measured them again, or by those of all nodes.
fn node_tests(field: &Field, first: &First, steps: &[Step]) -> Vec<Test> {
    let (out, subject) = (field.out(), field.subject);
    if out.is_empty() {
        return Vec::new();
    }
    let suspects: BTreeSet<usize> = out.iter().map(|row| field.rows[*row].node).collect();
    let fit = first.fits.iter().find(|fit| fit.figure == subject.figure);
    let value = |step: &Step, node: usize| step.alone.get(&(subject.figure, node)).copied();
    // In each step the median of the healthy peers, or of many pairs without suspects.
    let centre = |step: &Step| match subject.role {
        Role::Alone => {
            let peers = field.rows.iter().filter(|row| !suspects.contains(&row.node));
            median(&peers.filter_map(|row| value(step, row.node)).collect::<Vec<f64>>())
        }
        _ => {
            let pairs =
                Some(step.pairs(subject.figure)).filter(|pairs| pairs.len() > SMALL)?.iter();
            let well = pairs.filter(|pair| pair.ends().iter().all(|end| !suspects.contains(end)));
            median(&well.filter_map(|pair| fit?.beyond(pair)).collect::<Vec<f64>>())
        }
    };
    let centres: Vec<Option<f64>> = steps.iter().map(centre).collect();
    let ends: Vec<HashMap<usize, Vec<&Between>>> =
        steps.iter().map(|step| by_end(step.pairs(subject.figure), subject.role)).collect();
    let distances = |node: usize| -> Vec<f64> {
        let one = |((step, centre), ends): ((&Step, &Option<f64>), &HashMap<_, Vec<_>>)| {
            if subject.role == Role::Alone {
                return Some(value(step, node)? - (*centre)?);
            }
            let pairs = (step.pairs(subject.figure), &ends.get(&node)?[..]);
            end_distance(fit?, (node, subject.role), pairs, (&suspects, *centre))
        };
        steps.iter().zip(&centres).zip(&ends).filter_map(one).collect()
    };
    let all = field.rows.iter().map(|row| distances(row.node));
    let within = match field.repeated {
        Some(_) => None,
        None => within(&all.collect::<Vec<_>>()).filter(|within| within.freedom >= FREEDOM_LEAST),
    };
    let test = |place: usize| {
        let standing = field.standing(place)?;
        let row = &field.rows[place];
        let mut test = Test {
            which: Which::Node(row.node),
            subject,
            least: field.least,
            distance: standing.distance,
            error: standing.error,
            freedom: field.whole.map_or(1.0, |whole| whole.freedom),
            steps: 0,
            each: Vec::new(),
            chance: 0.0,
            tests: None,
            value: row.value,
            peers: match row.better {
                Better::Higher => row.value * standing.distance.exp(),
                _ => row.value / standing.distance.exp(),
            },
        };
        if let Some(repeated) = &field.repeated {
            test.steps = repeated.steps;
            (test.chance, test.tests) = (field.chance(place), Some(field.tests));
        } else {
            let each = distances(row.node);
            let within = within.map(|within| within.variance);
            let error = mean_error(standing.error.powi(2), within, each.len(), field.least);
            test.again(each, error);
        }
        Some(test)
    };
    out.into_iter().filter_map(test).collect()
}

fn by_end(pairs: &[Between], role: Role) -> HashMap<usize, Vec<&Between>> {
    let mut found: HashMap<usize, Vec<&Between>> = HashMap::new();
    for pair in pairs {
        let is_end = |(at, _): &(usize, usize)| match role {
            Role::Send => *at == 0,
            Role::Receive => *at == 1,
            Role::Alone | Role::Both => true,
        };
        for (_, end) in pair.ends().into_iter().enumerate().filter(is_end) {
            found.entry(end).or_default().push(pair);
        }
    }
    found
}

/// A node's distance by its own pairs of a step, less that of pairs without suspects, where that is not
/// known yet.
fn end_distance(
    fit: &Fit,
    (node, role): (usize, Role),
    (all, own): (&[Between], &[&Between]),
    (suspects, centre): (&BTreeSet<usize>, Option<f64>),
) -> Option<f64> {
    let is_healthy =
        |pair: &&Between| pair.ends().iter().all(|end| *end == node || !suspects.contains(end));
    let beyond = |pairs: &mut dyn Iterator<Item = &Between>| {
        median(&pairs.filter(is_healthy).filter_map(|pair| fit.beyond(pair)).collect::<Vec<f64>>())
    };
    let distance = beyond(&mut own.iter().copied())? + fit.end(node, role)?;
    let others = || beyond(&mut all.iter().filter(|pair| !own.contains(pair)));
    Some(distance - centre.or_else(others).unwrap_or(0.0))
}

fn link_tests(first: &First, steps: &[Step]) -> Vec<Test> {
    let test = |(fit, link, distance, error): (usize, usize, f64, f64)| {
        let fit = &first.fits[fit];
        let link = &fit.links[link];
        let (from, to) = (fit.nodes[link.from], fit.nodes[link.to]);
        let each: Vec<f64> =
            steps.iter().filter_map(|step| link_distance(fit, step, from, to)).collect();
        let mut test = Test {
            which: Which::Link(from, to),
            subject: Subject { figure: fit.figure, role: fit.roles()[0] },
            least: least_effect(Kind::Io).ln(),
            distance,
            error,
            freedom: fit.freedom,
            steps: 0,
            each: Vec::new(),
            chance: 0.0,
            tests: None,
            value: link.value,
            peers: fit.expected(link),
        };
        let error = link_error(fit, each.len());
        test.again(each, error);
        test
    };
    first.links_out().into_iter().map(test).collect()
}

/// How much worse a link is in a step than the other pairs of its ends.
fn link_distance(fit: &Fit, step: &Step, from: usize, to: usize) -> Option<f64> {
    let pairs = step.pairs(fit.figure);
    let own = pairs.iter().find(|pair| (pair.from, pair.to) == (from, to))?;
    let others = |is_other: &dyn Fn(&Between) -> bool| {
        let others = pairs.iter().filter(|pair| is_other(pair));
        median(&others.filter_map(|pair| fit.beyond(pair)).collect::<Vec<f64>>())
    };
    let has = |pair: &Between, end: usize| pair.ends().contains(&end);
    let drift = others(&|pair| !has(pair, from) && !has(pair, to)).unwrap_or(0.0);
    let is_near = |pair: &Between| pair.from == from || fit.is_shared && pair.to == from;
    let is_far = |pair: &Between| pair.to == to || fit.is_shared && pair.from == to;
    let near = others(&|pair| is_near(pair) && !has(pair, to)).unwrap_or(drift);
    let far = others(&|pair| is_far(pair) && !has(pair, from)).unwrap_or(drift);
    // What either end has changed since, or the fit missed of it, is the end's; a drift counts once.
    Some(fit.beyond(own)? - (near + far - drift))
}

/// The squared error of a link's mean distance: medians of three pairs of either end and of others in each
/// step, and what the fit missed of the ends of those, which stays the same.
fn link_error(fit: &Fit, steps: usize) -> f64 {
    let peers = PEERS as f64;
    let links_of_end = fit.links.len() as f64 / fit.nodes.len().max(1) as f64;
    let once = 1.0 + 3.0 * FRAC_PI_2 / peers;
    fit.variance * (once / steps.max(1) as f64 + 2.0 / (peers * links_of_end.max(1.0)))
}

/// Several bad links of one node are the node's, and what stands out between an accused node and
/// another is the accused one's.
fn links_of_nodes(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let mut links: BTreeMap<usize, BTreeSet<(usize, usize)>> = BTreeMap::new();
    let mut nodes: BTreeSet<usize> = BTreeSet::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.state == State::Accused) {
        match verdict.which {
            Which::Link(from, to) => {
                for end in verdict.which.ends() {
                    links.entry(end).or_default().insert((from.min(to), from.max(to)));
                }
            }
            Which::Node(node) if verdict.subject.role != Role::Alone => {
                nodes.insert(node);
            }
            Which::Node(_) => {}
        }
    }
    let mut several: Vec<(usize, usize)> =
        links.iter().map(|(node, links)| (*node, links.len())).collect();
    several.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (node, count) in several {
        // The other ends of its links have one bad link each.
        let others = links[&node].iter().filter(|(a, b)| !nodes.contains(a) && !nodes.contains(b));
        if count >= LINKS_OF_NODE && others.count() >= LINKS_OF_NODE {
            nodes.insert(node);
        }
    }
    let of_node = |verdict: Verdict| match verdict.which.ends().find(|end| nodes.contains(end)) {
        Some(node) if matches!(verdict.which, Which::Link(..)) => {
            let which = Which::Node(node);
            (verdict.state == State::Accused).then_some(Verdict { which, ..verdict })
        }
        _ => Some(verdict),
    };
    verdicts.into_iter().filter_map(of_node).collect()
}

/// Figures in which the median of a stratum is worse than predicted, the largest factor first.
fn below(first: &First) -> Vec<Below> {
    let one = |field: &Field| {
        let better = field.rows.first()?.better;
        let values: Vec<f64> = field.rows.iter().map(|row| row.value).collect();
        let end = |pick: fn((f64, f64)) -> f64| {
            let ends = field.rows.iter().filter_map(|row| row.predicted.map(pick));
            median(&ends.collect::<Vec<f64>>())
        };
        let predicted = (end(|range| range.0)?, end(|range| range.1)?);
        let interval = median_order(&values)?;
        let (best, end) = match better {
            Better::Higher => (interval.high, predicted.0),
            _ => (interval.low, predicted.1),
        };
        let log = |value: f64| Some(signed(value, better)? - signed(end, better)?);
        let value = median(&values)?;
        let (is_certain, factor) = (log(best)? > 0.0, log(value)?.exp());
        let (stratum, figure) = (field.stratum, field.subject.figure);
        is_certain.then_some(Below { stratum, figure, factor, value, predicted })
    };
    let is_counted =
        |field: &&Field| field.subject.role == Role::Alone && field.rows.len() > LEAST_PEERS;
    let mut found: Vec<Below> = first.fields.iter().filter(is_counted).filter_map(one).collect();
    found.order_by(|a, b| b.factor.total_cmp(&a.factor));
    found
}

/// What each field and the links would have shown, after the steps that there are or would be.
fn seen(first: &First) -> Vec<Seen> {
    let fields = first.fields.iter().filter_map(|field| {
        let factor = field.least_seen()?.exp();
        let (subject, stratum) = (field.subject, Some(field.stratum));
        Some(Seen { subject, stratum, kind: field.kind, factor })
    });
    let links = first.fits.iter().filter(|fit| fit.freedom >= 1.0).map(|fit| {
        let error = (fit.variance * (1.0 + 2.0 / 3.0)).sqrt();
        let least = least_effect(Kind::Io).ln();
        let subject = Subject { figure: fit.figure, role: Role::Send };
        let shown = (least + 2.6 * error).max((3.0 + 2.6) * error);
        Seen { subject, stratum: None, kind: Kind::Io, factor: shown.exp() }
    });
    fields.chain(links).collect()
}

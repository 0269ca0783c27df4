//! What follows from the sweep and its steps of suspects.

use super::first::{Field, First, Role, Stratum, Subject};
use super::step::Step;
use super::{EACH, LEAST_PEERS, PEERS, RATE, SOUGHT, SOUGHT_LINK, STEPS_LEAST, mean_error, signed};
use crate::fit::{Between, Fit};
use crate::peers::{errors, tail};
use crate::read::Fleet;
use record::metric::{Better, Kind};
use record::order::InOrder;
use stats::interval::median_order;
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::FRAC_PI_2;

/// Fewest degrees of freedom from which the steps say how much a node differs from itself.
const FREEDOM_LEAST: usize = 6;
/// So many bad links of one node are the node's.
const LINKS_OF_NODE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    Node(usize),
    /// From the near to the far end.
    Link(usize, usize),
}

/// How sure a verdict is.
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
    /// Steps that measured it.
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
    /// Whether it hides a loss of a tenth in a hardware figure, or of half in a link.
    pub fn hides(&self) -> bool {
        let sought = if self.stratum.is_some() { SOUGHT } else { SOUGHT_LINK };
        let is_sought = self.kind == Kind::Hardware || self.stratum.is_none();
        is_sought && self.factor.ln() > sought
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
    /// The verdicts of a state.
    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(move |verdict| verdict.state == state)
    }

    pub fn strata(&self) -> &[Stratum] {
        &self.first.strata
    }
}

/// Something that stood out, with its distances in the steps.
struct Test {
    which: Which,
    subject: Subject,
    /// Of the sweep itself: distance, squared error of it, degrees of freedom.
    first: (f64, f64, f64),
    steps: Vec<f64>,
    least: f64,
    /// Squared error of the mean over the steps.
    error: f64,
    value: f64,
    peers: f64,
}

pub fn judge(fleet: &Fleet) -> Judgement {
    let steps = Step::all(fleet);
    let first = First::with_steps(fleet, &steps);
    let mut tests = node_tests(fleet, &first, &steps);
    tests.extend(link_tests(fleet, &first, &steps));
    let repeated = || first.fields.iter().filter(|field| field.repeated.is_some());
    let tested = tests.iter().filter(|test| !test.steps.is_empty()).count().max(1);
    let mut verdicts: Vec<Verdict> = tests.iter().map(|test| verdict(test, tested)).collect();
    verdicts.extend(repeated().flat_map(of_repeated));
    let mut verdicts = links_of_nodes(verdicts);
    verdicts.order_by(|a, b| {
        a.state.cmp(&b.state).then(a.p.total_cmp(&b.p)).then(b.factor.total_cmp(&a.factor))
    });
    let (below, seen) = (below(fleet, &first), seen(&first));
    Judgement { first, verdicts, below, seen }
}

fn node_tests(fleet: &Fleet, first: &First, steps: &[Step]) -> Vec<Test> {
    let mut tests = Vec::new();
    for field in first.fields.iter().filter(|field| field.repeated.is_none()) {
        let out = field.out();
        if out.is_empty() {
            continue;
        }
        let suspects: BTreeSet<usize> = out.iter().map(|row| field.rows[*row].node).collect();
        let fit = first.fits.iter().find(|fit| fit.figure == field.subject.figure);
        let distances = |node: usize| -> Vec<f64> {
            let one = |step: &Step| match field.subject.role {
                Role::Alone => alone_distance(field, step, node, &suspects),
                role => end_distance(fit?, step, node, role, &suspects),
            };
            steps.iter().filter_map(one).collect()
        };
        let within =
            within_variance(&field.rows.iter().map(|row| distances(row.node)).collect::<Vec<_>>());
        let better = fleet.figures[field.subject.figure].better;
        for row in out {
            let Some(standing) = field.standing(row) else { continue };
            let one = &field.rows[row];
            let variance = standing.error.powi(2);
            let freedom = field.whole.map_or(1.0, |whole| whole.freedom);
            let measured = distances(one.node);
            let error = mean_error(variance, within, measured.len(), field.least);
            tests.push(Test {
                which: Which::Node(one.node),
                subject: field.subject,
                first: (standing.distance, variance, freedom),
                steps: measured,
                least: field.least,
                error,
                value: one.value,
                peers: shown_value(one.value, standing.distance, better),
            });
        }
    }
    tests
}

/// The value that is so much better than another one.
fn shown_value(value: f64, distance: f64, better: Better) -> f64 {
    if better == Better::Higher { value * distance.exp() } else { value / distance.exp() }
}

/// A node's distance from its stratum in a step, less that of its healthy peers.
fn alone_distance(
    field: &Field,
    step: &Step,
    node: usize,
    suspects: &BTreeSet<usize>,
) -> Option<f64> {
    let value = |node: usize| step.alone.get(&(field.subject.figure, node)).copied();
    let peers = field.rows.iter().filter(|row| !suspects.contains(&row.node));
    let peers: Vec<f64> = peers.filter_map(|row| value(row.node)).collect();
    Some(value(node)? - median(&peers)?)
}

/// A node's distance as an end of its pairs in a step, less that of pairs without suspects.
fn end_distance(
    fit: &Fit,
    step: &Step,
    node: usize,
    role: Role,
    suspects: &BTreeSet<usize>,
) -> Option<f64> {
    let pairs = step.between.get(&fit.figure)?;
    let is_own = |pair: &Between| match role {
        Role::Send => pair.from == node,
        Role::Receive => pair.to == node,
        Role::Alone | Role::Both => pair.from == node || pair.to == node,
    };
    let (own, others): (Vec<&Between>, Vec<&Between>) = pairs.iter().partition(|pair| is_own(pair));
    let beyond = |pairs: Vec<&Between>| -> Vec<f64> {
        let healthy = |pair: &&&Between| {
            [pair.from, pair.to].iter().all(|end| *end == node || !suspects.contains(end))
        };
        pairs.iter().filter(healthy).filter_map(|pair| fit.beyond(pair)).collect()
    };
    let effect = fit.end(node, role != Role::Receive)?;
    let drift = median(&beyond(others)).unwrap_or(0.0);
    Some(median(&beyond(own))? + effect - drift)
}

fn link_tests(fleet: &Fleet, first: &First, steps: &[Step]) -> Vec<Test> {
    let least = super::least_effect(Kind::Io).ln();
    let mut tests = Vec::new();
    for (fit, link, residual, error) in first.links_out() {
        let fit = &first.fits[fit];
        let link = &fit.links[link];
        let (from, to) = (fit.nodes[link.from], fit.nodes[link.to]);
        let measured: Vec<f64> =
            steps.iter().filter_map(|step| link_distance(fit, step, from, to)).collect();
        let role = if fit.is_shared { Role::Both } else { Role::Send };
        tests.push(Test {
            which: Which::Link(from, to),
            subject: Subject { figure: fit.figure, role },
            first: (residual, error * error, fit.freedom),
            error: link_error(fit, measured.len()),
            steps: measured,
            least,
            value: link.value,
            peers: fit.expected(link, fleet.figures[fit.figure].better),
        });
    }
    tests
}

/// How much worse a link is in a step than the other pairs of its ends.
fn link_distance(fit: &Fit, step: &Step, from: usize, to: usize) -> Option<f64> {
    let pairs = step.between.get(&fit.figure)?;
    let own = pairs.iter().find(|pair| (pair.from, pair.to) == (from, to))?;
    let others = |is_other: &dyn Fn(&Between) -> bool| {
        let others = pairs.iter().filter(|pair| is_other(pair));
        median(&others.filter_map(|pair| fit.beyond(pair)).collect::<Vec<f64>>())
    };
    let has = |pair: &Between, end: usize| [pair.from, pair.to].contains(&end);
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

/// The variance of a node's distances about its own mean, over nodes with several; `None` where too few
/// say it.
fn within_variance(all: &[Vec<f64>]) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    for distances in all.iter().filter(|distances| distances.len() > 1) {
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        squares += distances.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        freedom += distances.len() - 1;
    }
    (freedom >= FREEDOM_LEAST).then(|| squares / freedom as f64)
}

fn verdict(test: &Test, tested: usize) -> Verdict {
    let (distance, variance, freedom) = test.first;
    let count = test.steps.len();
    let freedom = freedom + (count * PEERS) as f64;
    let (mean, error) = match count {
        0 => (distance, variance.sqrt()),
        _ => (test.steps.iter().sum::<f64>() / count as f64, test.error.sqrt()),
    };
    let p = tail(mean, error, freedom).1;
    let is_worse_each_time = test.steps.iter().all(|step| *step >= EACH * test.least);
    let is_accused = mean >= test.least && p <= RATE / tested as f64;
    let state = match (is_worse_each_time, count >= STEPS_LEAST) {
        (false, _) => State::Cleared,
        (true, false) => State::Suspect,
        (true, true) if is_accused => State::Accused,
        (true, true) => State::Cleared,
    };
    let reach = errors(0.025, freedom) * error;
    Verdict {
        which: test.which,
        subject: test.subject,
        state,
        factor: mean.exp(),
        interval: ((mean - reach).exp(), (mean + reach).exp()),
        p,
        value: test.value,
        peers: test.peers,
        steps: count,
    }
}

/// Nodes that stand out in a figure that all nodes were measured in again: accused or cleared after
/// enough steps.
fn of_repeated(field: &Field) -> Vec<Verdict> {
    let steps = field.repeated.map_or(0, |repeated| repeated.steps);
    let freedom = field.whole.map_or(1.0, |whole| whole.freedom);
    let one = |row: usize| {
        let standing = field.standing(row)?;
        let one = &field.rows[row];
        let reach = errors(0.025, freedom) * standing.error;
        let p = standing.p.max(field.chance(row));
        let state = match (steps >= STEPS_LEAST, p <= RATE / field.tests as f64) {
            (true, true) => State::Accused,
            (true, false) => State::Cleared,
            (false, _) => State::Suspect,
        };
        Some(Verdict {
            which: Which::Node(one.node),
            subject: field.subject,
            state,
            factor: standing.distance.exp(),
            interval: ((standing.distance - reach).exp(), (standing.distance + reach).exp()),
            p,
            value: one.value,
            peers: shown_value(one.value, standing.distance, one.better),
            steps,
        })
    };
    field.out().into_iter().filter_map(one).collect()
}

/// Several bad links of one node are the node's, and what stands out between an accused node and
/// another is the accused one's.
fn links_of_nodes(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let mut links: BTreeMap<usize, BTreeSet<(usize, usize)>> = BTreeMap::new();
    let mut nodes: BTreeSet<usize> = BTreeSet::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.state == State::Accused) {
        match verdict.which {
            Which::Link(from, to) => {
                for end in [from, to] {
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
    let own = |verdict: Verdict| {
        let Which::Link(from, to) = verdict.which else { return Some(verdict) };
        let Some(node) = [from, to].into_iter().find(|end| nodes.contains(end)) else {
            return Some(verdict);
        };
        (verdict.state == State::Accused).then_some(Verdict { which: Which::Node(node), ..verdict })
    };
    verdicts.into_iter().filter_map(own).collect()
}

/// Figures in which the median of a stratum is worse than predicted, the largest factor first.
fn below(fleet: &Fleet, first: &First) -> Vec<Below> {
    let mut found = Vec::new();
    let compared = first
        .fields
        .iter()
        .filter(|field| field.subject.role == Role::Alone && field.rows.len() > LEAST_PEERS);
    for field in compared {
        let better = fleet.figures[field.subject.figure].better;
        let values: Vec<f64> = field.rows.iter().map(|row| row.value).collect();
        let end = |pick: fn(&(f64, f64)) -> f64| {
            let ends: Vec<f64> =
                field.rows.iter().filter_map(|row| row.predicted.as_ref().map(pick)).collect();
            median(&ends)
        };
        let (Some(low), Some(high)) = (end(|range| range.0), end(|range| range.1)) else {
            continue;
        };
        let Some(interval) = median_order(&values) else { continue };
        let (best, end) = match better {
            Better::Higher => (interval.high, low),
            _ => (interval.low, high),
        };
        let log = |value: f64| Some(signed(value, better)? - signed(end, better)?);
        let value = median(&values).unwrap_or(0.0);
        if let (Some(certain), Some(log)) = (log(best), log(value))
            && certain > 0.0
        {
            let (stratum, figure) = (field.stratum, field.subject.figure);
            found.push(Below { stratum, figure, factor: log.exp(), value, predicted: (low, high) });
        }
    }
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
        let least = super::least_effect(Kind::Io).ln();
        let subject = Subject { figure: fit.figure, role: Role::Send };
        let shown = (least + 2.6 * error).max((3.0 + 2.6) * error);
        Seen { subject, stratum: None, kind: Kind::Io, factor: shown.exp() }
    });
    fields.chain(links).collect()
}

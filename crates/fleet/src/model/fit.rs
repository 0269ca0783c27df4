//! Pairs: log value = class + near end + far end + residual, by a robust fit, so that one slow node
//! does not accuse its partners.
//!
//! Medians in turn (Tukey's median polish) find a start that a few bad pairs do not move; weighted
//! means with Tukey's biweight then use the good pairs fully. Pairs of one class cross the same kind
//! of path: strata of both ends, and whether they share rack, switch and zone.

use super::peers::{Row, deviation};
use super::{Role, Subject, signed};
use crate::read::Sweep;
use crate::sweep::{Pair, Purpose};
use record::key::Key;
use record::metric::{Better, Kind};
use record::order::Gather;
use record::unit::Unit;
use stats::quantile::{median, sorted};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::f64::consts::FRAC_PI_2;

/// Labels of a site that say which path a pair takes.
const PATH_LABELS: [&str; 3] = ["rack", "switch", "zone"];
/// Rounds of medians, and of weighted means after them: both settle within a few.
const POLISHES: usize = 8;
const REFINEMENTS: usize = 6;
/// Tukey's constant for 95 % efficiency on normal residuals.
const BIWEIGHT: f64 = 4.685;
/// Fewest pairs of a class in which a link is compared with the others.
const LEAST_CLASS: usize = 6;
/// Fewest pairs of an end: with fewer, a slow end looks like a slow link.
const LEAST_ENDS: usize = 3;
/// Fewest pairs measured alone that say how much the others slow a pair down.
const LEAST_ISOLATED: usize = 3;

/// A pair of a matching.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// Indices of the ends in [`Fit::ranks`].
    pub from: usize,
    pub to: usize,
    class: usize,
    /// The logarithm, more is worse.
    pub x: f64,
    own: f64,
    pub value: f64,
    pub predicted: Option<(f64, f64)>,
}

/// What the pairs of a figure say of their ends and links.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub key: Key,
    unit: Unit,
    better: Better,
    /// The nodes in ascending order.
    pub ranks: Vec<u32>,
    pub links: Vec<Link>,
    /// Whether an end has one effect, near or far: for round trips, and where there are too few
    /// pairs to tell both apart.
    pub is_shared: bool,
    classes: HashMap<Class, usize>,
    sizes: Vec<usize>,
    centres: Vec<f64>,
    /// Effects of the near and the far ends; the second is unused where one effect is shared.
    ends: [Ends; 2],
    /// Variance of the residuals of good pairs, and its degrees of freedom.
    pub variance: f64,
    pub freedom: f64,
    /// All residuals, ascending.
    residuals: Vec<f64>,
    /// Typical variance of a pair's value by its own rounds.
    own: f64,
    /// What a pair gains with nothing else running, as a log, and the variance of that.
    pub alone: (f64, f64),
}

/// Effects of one kind of end, by node.
#[derive(Clone, Debug, PartialEq)]
struct Ends {
    effects: Vec<f64>,
    links: Vec<Vec<usize>>,
}

/// Strata of both ends, and which labels they share.
type Class = (usize, usize, Vec<bool>);

/// The fits of all figures of pairs, in the order of their keys.
pub(super) fn fits(sweep: &Sweep, strata: &HashMap<u32, usize>) -> Vec<Fit> {
    let mut keys: BTreeMap<&Key, BTreeMap<(u32, u32), &Pair>> = BTreeMap::new();
    let is_first = |pair: &&Pair| pair.purpose == Purpose::Matching && usable(pair).is_some();
    for pair in sweep.pairs.iter().filter(is_first) {
        keys.entry(&pair.key).or_default().insert((pair.from, pair.to), pair);
    }
    keys.into_values().filter_map(|pairs| Fit::new(sweep, strata, &pairs)).collect()
}

/// The logarithm of a pair's value, more is worse.
pub(super) fn usable(pair: &Pair) -> Option<f64> {
    signed(pair.estimate.value, pair.better)
}

impl Fit {
    fn new(
        sweep: &Sweep,
        strata: &HashMap<u32, usize>,
        pairs: &BTreeMap<(u32, u32), &Pair>,
    ) -> Option<Fit> {
        let first = pairs.values().next()?;
        let is_known =
            |(from, to): &(u32, u32)| strata.contains_key(from) && strata.contains_key(to);
        let pairs: Vec<_> = pairs.iter().filter(|(ends, _)| is_known(ends)).collect();
        let ranks: BTreeSet<u32> = pairs.iter().flat_map(|((from, to), _)| [*from, *to]).gather();
        let ranks: Vec<u32> = ranks.into_iter().collect();
        let nodes = ranks.len();
        let ends = Ends { effects: vec![0.0; nodes], links: vec![Vec::new(); nodes] };
        let is_round_trip = first.better == Better::Lower;
        let mut fit = Fit {
            key: first.key.clone(),
            unit: first.unit,
            better: first.better,
            is_shared: is_round_trip || pairs.len() < 4 * nodes,
            ranks,
            links: Vec::with_capacity(pairs.len()),
            classes: HashMap::new(),
            sizes: Vec::new(),
            centres: Vec::new(),
            ends: [ends.clone(), ends],
            variance: 0.0,
            freedom: 0.0,
            residuals: Vec::new(),
            own: 0.0,
            alone: (0.0, 0.0),
        };
        for (ends, pair) in pairs {
            fit.add(sweep, strata, *ends, pair);
        }
        fit.settle(strata);
        fit.alone = fit.gain(sweep);
        Some(fit)
    }

    fn add(&mut self, sweep: &Sweep, strata: &HashMap<u32, usize>, ends: (u32, u32), pair: &Pair) {
        let class = self.class(sweep, strata, ends);
        let next = self.classes.len();
        let class = *self.classes.entry(class).or_insert(next);
        self.sizes.resize(self.classes.len(), 0);
        self.sizes[class] += 1;
        let (Some(from), Some(to), Some(x)) = (self.at(ends.0), self.at(ends.1), usable(pair))
        else {
            return;
        };
        for (side, at) in [(0, from), (self.side(false), to)] {
            self.ends[side].links[at].push(self.links.len());
        }
        let own = super::own_variance(&pair.estimate).unwrap_or(0.0);
        let (value, predicted) = (pair.estimate.value, pair.predicted);
        self.links.push(Link { from, to, class, x, own, value, predicted });
    }

    fn class(&self, sweep: &Sweep, strata: &HashMap<u32, usize>, (from, to): (u32, u32)) -> Class {
        let label =
            |rank: u32, name: &str| sweep.nodes.get(&rank).and_then(|node| node.labels.get(name));
        let shared = PATH_LABELS.iter().map(|name| label(from, name) == label(to, name)).collect();
        let (one, other) = (strata[&from], strata[&to]);
        match self.is_shared {
            true => (one.min(other), one.max(other), shared),
            false => (one, other, shared),
        }
    }

    /// What is compared of a kind of end.
    pub fn subject(&self, role: Role) -> Subject {
        let (key, is_scatter, kind) = (self.key.clone(), false, Kind::Io);
        Subject { key, role, is_scatter, unit: self.unit, better: self.better, kind }
    }

    /// Which of `ends` has the effects of an end.
    fn side(&self, is_near: bool) -> usize {
        usize::from(!is_near && !self.is_shared)
    }

    /// The index of a node.
    pub fn at(&self, rank: u32) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    fn settle(&mut self, strata: &HashMap<u32, usize>) {
        let owns: Vec<f64> = self.links.iter().map(|link| link.own).collect();
        self.own = median(&owns).unwrap_or(0.0);
        self.centres = vec![0.0; self.sizes.len()];
        let strata: Vec<usize> = self.ranks.iter().map(|rank| strata[rank]).collect();
        for _ in 0..POLISHES {
            self.pass(&strata, None);
        }
        self.measure(None);
        for _ in 0..REFINEMENTS {
            self.pass(&strata, Some(BIWEIGHT * self.variance.sqrt()));
        }
        self.measure(Some(BIWEIGHT * self.variance.sqrt()));
        self.residuals = sorted(&self.all_residuals());
    }

    /// One turn over classes, near ends and far ends: medians, or means that give no weight to
    /// residuals beyond `limit`.
    fn pass(&mut self, strata: &[usize], limit: Option<f64>) {
        let mut classes: Vec<Vec<f64>> = vec![Vec::new(); self.sizes.len()];
        for link in &self.links {
            classes[link.class].push(self.residual(link));
        }
        for (centre, residuals) in self.centres.iter_mut().zip(&classes) {
            *centre += middle(residuals, limit);
        }
        for side in 0..2 {
            for at in 0..self.ranks.len() {
                let links = self.ends[side].links[at].iter();
                let residuals: Vec<f64> =
                    links.map(|link| self.residual(&self.links[*link])).collect();
                self.ends[side].effects[at] += middle(&residuals, limit);
            }
            self.ends[side].centre(strata);
        }
    }

    fn all_residuals(&self) -> Vec<f64> {
        self.links.iter().map(|link| self.residual(link)).collect()
    }

    /// The scale of the residuals, with the degrees of freedom that the fit has left.
    fn measure(&mut self, limit: Option<f64>) {
        let used = self.ends.iter().flat_map(|ends| &ends.links).filter(|links| !links.is_empty());
        let spent = (used.count() + self.sizes.len()).saturating_sub(1) as f64;
        let mut kept = self.all_residuals();
        kept.retain(|x| limit.is_none_or(|limit| x.abs() <= limit));
        self.freedom = kept.len() as f64 - spent;
        if self.freedom < 1.0 {
            (self.variance, self.freedom) = (0.0, 0.0);
            return;
        }
        self.variance = match limit {
            Some(_) => kept.iter().map(|x| x * x).sum::<f64>() / self.freedom,
            None => {
                let scale = deviation(&kept, 0.0);
                scale * scale * kept.len() as f64 / self.freedom
            }
        };
    }

    fn effect(&self, at: usize, is_near: bool) -> f64 {
        self.ends[self.side(is_near)].effects[at]
    }

    fn residual(&self, link: &Link) -> f64 {
        let ends = self.effect(link.from, true) + self.effect(link.to, false);
        link.x - self.centres[link.class] - ends
    }

    /// The share of links at least `far` above what their ends explain: one is added to both counts, and
    /// the links that all of `ends` have are left out.
    pub fn share_beyond(&self, far: f64, ends: &[u32]) -> f64 {
        let of_node = |at: usize| self.ends.iter().flat_map(move |ends| &ends.links[at]);
        let ats: Vec<usize> = ends.iter().filter_map(|rank| self.at(*rank)).collect();
        let is_own = |link: &&Link| ats.iter().all(|at| [link.from, link.to].contains(at));
        let links = ats.first().into_iter().flat_map(|at| of_node(*at));
        let own = links.map(|link| &self.links[*link]).filter(is_own);
        let (own_count, own_seen) = own.fold((0, 0), |(count, seen), link| {
            (count + 1, seen + usize::from(self.residual(link) >= far))
        });
        let count = self.residuals.len();
        let seen = count - self.residuals.partition_point(|residual| *residual < far);
        (seen - own_seen + 1) as f64 / (count - own_count + 1) as f64
    }

    /// What a pair of the class lets expect whose ends are as good as their peers.
    pub fn class_centre(
        &self,
        sweep: &Sweep,
        strata: &HashMap<u32, usize>,
        ends: (u32, u32),
    ) -> Option<f64> {
        let class = self.class(sweep, strata, ends);
        self.classes.get(&class).map(|class| self.centres[*class])
    }

    /// A node's effect as the near or the far end; 0 for a node without pairs.
    pub fn end(&self, rank: u32, is_near: bool) -> f64 {
        self.at(rank).map_or(0.0, |at| self.effect(at, is_near))
    }

    /// What its ends let expect of a link, as a value.
    pub fn expected(&self, link: &Link) -> f64 {
        let x = link.x - self.residual(link);
        if self.better == Better::Higher { (-x).exp() } else { x.exp() }
    }

    /// The roles of ends, with the nodes in them as rows to be compared.
    pub fn roles(&self) -> Vec<(Role, Vec<Row>)> {
        let rows =
            |ends: &Ends| (0..self.ranks.len()).filter_map(|at| self.row(ends, at)).collect();
        match self.is_shared {
            true => vec![(Role::Both, rows(&self.ends[0]))],
            false => {
                vec![(Role::Send, rows(&self.ends[0])), (Role::Receive, rows(&self.ends[1]))]
            }
        }
    }

    fn row(&self, ends: &Ends, at: usize) -> Option<Row> {
        let links = &ends.links[at];
        if links.len() < LEAST_ENDS {
            return None;
        }
        let values: Vec<f64> = links.iter().map(|link| self.links[*link].value).collect();
        let own = Some(self.variance / links.len() as f64);
        Some(Row {
            rank: self.ranks[at],
            x: ends.effects[at],
            own,
            value: median(&values)?,
            predicted: None,
        })
    }

    /// Links of both ends of a link.
    fn ends(&self, at: usize) -> [usize; 2] {
        let link = &self.links[at];
        [(true, link.from), (false, link.to)]
            .map(|(is_near, end)| self.ends[self.side(is_near)].links[end].len())
    }

    /// Variance of the effects of the ends of a link, in variances of pairs. A bad link has no weight
    /// in them: they rest on the others.
    pub fn of_ends(&self, at: usize) -> f64 {
        self.ends(at).iter().map(|count| 1.0 / count.saturating_sub(1).max(1) as f64).sum()
    }

    /// The residual of a link and its standard error; `None` where there is nothing to compare with.
    pub fn standing(&self, at: usize) -> Option<(f64, f64)> {
        let link = &self.links[at];
        let is_few = self.ends(at).iter().any(|count| *count < LEAST_ENDS);
        if self.sizes[link.class] < LEAST_CLASS || is_few {
            return None;
        }
        let excess = (link.own - self.own).max(0.0);
        let error = (self.variance * (1.0 + self.of_ends(at)) + excess).sqrt();
        (self.freedom >= 1.0).then(|| (self.residual(link), error))
    }

    /// How much better pairs are with nothing else running: over the pairs that were measured both
    /// ways, the median of the difference, and its variance.
    fn gain(&self, sweep: &Sweep) -> (f64, f64) {
        let of = |link: &Link| ((self.ranks[link.from], self.ranks[link.to]), link.x);
        let links: HashMap<(u32, u32), f64> = self.links.iter().map(of).collect();
        let is_isolated = |pair: &&Pair| pair.purpose == Purpose::Isolated && pair.key == self.key;
        let isolated = sweep.pairs.iter().filter(is_isolated);
        let gain = |pair: &Pair| Some(usable(pair)? - links.get(&(pair.from, pair.to))?);
        let gains: Vec<f64> = isolated.filter_map(gain).collect();
        let Some(centre) = median(&gains).filter(|_| gains.len() >= LEAST_ISOLATED) else {
            return (0.0, 0.0);
        };
        let scale = deviation(&gains, centre);
        (centre, FRAC_PI_2 * scale * scale / gains.len() as f64)
    }
}

impl Ends {
    /// Moves the effects of every stratum so that their median is 0: the classes hold the level.
    fn centre(&mut self, strata: &[usize]) {
        let mut groups: HashMap<usize, Vec<f64>> = HashMap::new();
        for ((effect, links), of) in self.effects.iter().zip(&self.links).zip(strata) {
            if !links.is_empty() {
                groups.entry(*of).or_default().push(*effect);
            }
        }
        let centre = |(of, effects): (usize, Vec<f64>)| Some((of, median(&effects)?));
        let centres: HashMap<usize, f64> = groups.into_iter().filter_map(centre).collect();
        for (effect, of) in self.effects.iter_mut().zip(strata) {
            *effect -= centres.get(of).unwrap_or(&0.0);
        }
    }
}

/// The median, or the mean with biweights where those leave anything.
fn middle(residuals: &[f64], limit: Option<f64>) -> f64 {
    let Some(limit) = limit.filter(|limit| *limit > 0.0) else {
        return median(residuals).unwrap_or(0.0);
    };
    let weight = |x: f64| (1.0 - (x / limit).powi(2)).max(0.0).powi(2);
    let weights: f64 = residuals.iter().map(|x| weight(*x)).sum();
    match weights > 0.0 {
        true => residuals.iter().map(|x| weight(*x) * x).sum::<f64>() / weights,
        false => 0.0,
    }
}

//! Pairs: log value = class + near end + far end + residual, by a robust fit, so that one slow node does
//! not accuse its partners.
//!
//! Medians in turn (Tukey's median polish) find a start that a few bad pairs do not move; weighted
//! means with Tukey's biweight then use the good pairs fully. Pairs of one class have ends of the same
//! strata.

use crate::model::{Role, Row};
use record::metric::Better;
use record::order::Gather;
use stats::quantile::{median, robust_deviation};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rounds of medians, and of weighted means after them: both settle within a few.
const POLISHES: usize = 8;
const REFINEMENTS: usize = 6;
/// Tukey's constant for 95 % efficiency on normal residuals.
const BIWEIGHT: f64 = 4.685;
/// Fewest pairs of a class in which a link is compared with the others.
const LEAST_CLASS: usize = 6;
/// Fewest pairs of an end: with fewer, a slow end looks like a slow link.
const LEAST_ENDS: usize = 3;

/// A pair of a matching; its ends by their place in [`Fit::nodes`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub from: usize,
    pub to: usize,
    class: usize,
    /// The logarithm, more is worse.
    pub x: f64,
    scatter: f64,
    pub value: f64,
}

/// A value between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Between {
    pub from: usize,
    pub to: usize,
    pub x: f64,
    pub scatter: f64,
    pub value: f64,
}

impl Between {
    pub fn ends(&self) -> [usize; 2] {
        [self.from, self.to]
    }
}

/// What the pairs of a figure say of their ends and links.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    pub figure: usize,
    pub nodes: Vec<usize>,
    pub links: Vec<Link>,
    /// Whether an end has one effect, near or far: for round trips, and where there are too few pairs
    /// to tell both apart.
    pub is_shared: bool,
    better: Better,
    strata: Vec<usize>,
    classes: HashMap<(usize, usize), usize>,
    sizes: Vec<usize>,
    centres: Vec<f64>,
    /// Effects of the near and the far ends; the second is unused where one effect is shared.
    ends: [Ends; 2],
    /// Variance of the residuals of good pairs, and its degrees of freedom.
    pub variance: f64,
    pub freedom: f64,
    /// Typical variance of a pair's value by its own rounds.
    scatter: f64,
}

/// Effects of one kind of end, by node.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ends {
    effects: Vec<f64>,
    links: Vec<Vec<usize>>,
}

impl Fit {
    /// The fit of a figure over its pairs, which have one value each; `strata` by node.
    pub fn new(figure: usize, better: Better, pairs: &[Between], strata: &[usize]) -> Fit {
        let nodes: BTreeSet<usize> = pairs.iter().flat_map(|pair| [pair.from, pair.to]).gather();
        let nodes: Vec<usize> = nodes.into_iter().collect();
        let count = nodes.len();
        let ends = Ends { effects: vec![0.0; count], links: vec![Vec::new(); count] };
        let mut fit = Fit {
            figure,
            is_shared: better == Better::Lower || pairs.len() < 4 * count,
            better,
            strata: nodes.iter().map(|node| strata[*node]).collect(),
            nodes,
            links: Vec::with_capacity(pairs.len()),
            classes: HashMap::new(),
            sizes: Vec::new(),
            centres: Vec::new(),
            ends: [ends.clone(), ends],
            variance: 0.0,
            freedom: 0.0,
            scatter: 0.0,
        };
        pairs.iter().for_each(|pair| fit.add(pair));
        fit.settle();
        fit
    }

    fn add(&mut self, pair: &Between) {
        let (Some(from), Some(to)) = (self.place(pair.from), self.place(pair.to)) else { return };
        let next = self.classes.len();
        let class = *self.classes.entry(self.class(from, to)).or_insert(next);
        self.sizes.resize(self.classes.len(), 0);
        self.sizes[class] += 1;
        for (side, end) in [(0, from), (self.side(false), to)] {
            self.ends[side].links[end].push(self.links.len());
        }
        let Between { x, scatter, value, .. } = *pair;
        self.links.push(Link { from, to, class, x, scatter, value });
    }

    fn class(&self, from: usize, to: usize) -> (usize, usize) {
        let (one, other) = (self.strata[from], self.strata[to]);
        if self.is_shared { (one.min(other), one.max(other)) } else { (one, other) }
    }

    /// Which of `ends` has the effects of an end.
    fn side(&self, is_near: bool) -> usize {
        usize::from(!is_near && !self.is_shared)
    }

    fn place(&self, node: usize) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    fn settle(&mut self) {
        let owns: Vec<f64> = self.links.iter().map(|link| link.scatter).collect();
        self.scatter = median(&owns).unwrap_or(0.0);
        self.centres = vec![0.0; self.sizes.len()];
        for _ in 0..POLISHES {
            self.pass(None);
        }
        self.measure(None);
        for _ in 0..REFINEMENTS {
            self.pass(Some(BIWEIGHT * self.variance.sqrt()));
        }
        self.measure(Some(BIWEIGHT * self.variance.sqrt()));
    }

    /// One turn over classes, near ends and far ends: medians, or means that give no weight to
    /// residuals beyond `limit`.
    fn pass(&mut self, limit: Option<f64>) {
        let mut classes: Vec<Vec<f64>> = vec![Vec::new(); self.sizes.len()];
        for link in &self.links {
            classes[link.class].push(self.residual(link));
        }
        for (centre, residuals) in self.centres.iter_mut().zip(&classes) {
            *centre += middle(residuals, limit);
        }
        for side in 0..2 {
            for end in 0..self.nodes.len() {
                let links = self.ends[side].links[end].iter();
                let residuals: Vec<f64> =
                    links.map(|link| self.residual(&self.links[*link])).collect();
                self.ends[side].effects[end] += middle(&residuals, limit);
            }
            self.ends[side].centre(&self.strata);
        }
    }

    /// The scale of the residuals, with the degrees of freedom that the fit has left.
    fn measure(&mut self, limit: Option<f64>) {
        let used = self.ends.iter().flat_map(|ends| &ends.links).filter(|links| !links.is_empty());
        let spent = (used.count() + self.sizes.len()).saturating_sub(1) as f64;
        let mut kept: Vec<f64> = self.links.iter().map(|link| self.residual(link)).collect();
        kept.retain(|x| limit.is_none_or(|limit| x.abs() <= limit));
        self.freedom = kept.len() as f64 - spent;
        if self.freedom < 1.0 {
            (self.variance, self.freedom) = (0.0, 0.0);
            return;
        }
        self.variance = match limit {
            Some(_) => kept.iter().map(|x| x * x).sum::<f64>() / self.freedom,
            None => robust_deviation(&kept, 0.0).powi(2) * kept.len() as f64 / self.freedom,
        };
    }

    fn effect(&self, end: usize, is_near: bool) -> f64 {
        self.ends[self.side(is_near)].effects[end]
    }

    fn residual(&self, link: &Link) -> f64 {
        let ends = self.effect(link.from, true) + self.effect(link.to, false);
        link.x - self.centres[link.class] - ends
    }

    /// How much worse a later value between two nodes is than the fit lets expect; `None` for nodes
    /// that the fit has not.
    pub fn beyond(&self, pair: &Between) -> Option<f64> {
        let (from, to) = (self.place(pair.from)?, self.place(pair.to)?);
        let class = self.classes.get(&self.class(from, to))?;
        Some(pair.x - self.centres[*class] - self.effect(from, true) - self.effect(to, false))
    }

    /// The kinds of ends that have effects.
    pub fn roles(&self) -> &'static [Role] {
        if self.is_shared { &[Role::Both] } else { &[Role::Send, Role::Receive] }
    }

    pub fn end(&self, node: usize, role: Role) -> Option<f64> {
        self.place(node).map(|end| self.effect(end, role != Role::Receive))
    }

    /// The effects of the ends that have enough pairs, each with its variance by the pairs and the median
    /// of its values.
    pub fn rows(&self, role: Role) -> Vec<Row> {
        let ends = &self.ends[self.side(role != Role::Receive)];
        let one = |end: usize| {
            let links = ends.links.get(end).filter(|links| links.len() >= LEAST_ENDS)?;
            let values: Vec<f64> = links.iter().map(|link| self.links[*link].value).collect();
            Some(Row {
                node: self.nodes[end],
                x: ends.effects[end],
                scatter: self.variance / links.len() as f64,
                value: median(&values)?,
                predicted: None,
                better: self.better,
            })
        };
        (0..self.nodes.len()).filter_map(one).collect()
    }

    /// The residual of a link and its standard error; `None` where there is nothing to compare with.
    pub fn standing(&self, link: &Link) -> Option<(f64, f64)> {
        let ends = [(true, link.from), (false, link.to)]
            .map(|(is_near, end)| self.ends[self.side(is_near)].links[end].len());
        if self.sizes[link.class] < LEAST_CLASS || ends.iter().any(|count| *count < LEAST_ENDS) {
            return None;
        }
        // A bad link has no weight in the effects of its ends: they rest on the others.
        let of_ends: f64 = ends.iter().map(|count| 1.0 / (count - 1) as f64).sum();
        let excess = (link.scatter - self.scatter).max(0.0);
        let error = (self.variance * (1.0 + of_ends) + excess).sqrt();
        (self.freedom >= 1.0).then(|| (self.residual(link), error))
    }

    /// What its ends let expect of a link, as a value.
    pub fn expected(&self, link: &Link) -> f64 {
        let x = link.x - self.residual(link);
        if self.better == Better::Higher { (-x).exp() } else { x.exp() }
    }
}

impl Ends {
    /// Moves the effects of every stratum so that their median is 0: the classes hold the level.
    fn centre(&mut self, strata: &[usize]) {
        let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for ((effect, links), stratum) in self.effects.iter().zip(&self.links).zip(strata) {
            if !links.is_empty() {
                groups.entry(*stratum).or_default().push(*effect);
            }
        }
        let centres: BTreeMap<usize, f64> = groups
            .into_iter()
            .filter_map(|(stratum, effects)| Some((stratum, median(&effects)?)))
            .gather();
        for (effect, stratum) in self.effects.iter_mut().zip(strata) {
            *effect -= centres.get(stratum).unwrap_or(&0.0);
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

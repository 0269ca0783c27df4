//! The second measurement: what phase 4 says of each suspect.

use super::first::{First, Flaky, LEAST_LINK, LinkTest, Test};
use super::fit::{Fit, usable};
use super::looks::{ACCUSED_RATE, Known, LAST, Outcome, weight};
use super::peers::{LEAST_PEERS, reach, tail};
use super::repeats::{Repeats, pooled, sum};
use super::{Role, least_effect, signed, sought};
use crate::read::Sweep;
use crate::sweep::{Figure, Purpose};
use record::key::Key;
use record::metric::Kind;
use stats::compare::variance::Variance;
use stats::quantile::median;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::f64::consts::FRAC_PI_2;

/// Fewest degrees of freedom that say how much repetitions scatter: with fewer each is as uncertain
/// as a first measurement.
const LEAST_FREEDOM: f64 = 8.0;
/// A variance that is so many of its own standard errors above another one is larger.
const LARGER: f64 = 2.0;
/// Repetitions of anything that is concluded from.
const LEAST_AGAIN: usize = 2;

/// What the second measurement of a suspect says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Again {
    /// How often it was measured.
    pub count: usize,
    /// Its distance from the peers, as a log: all repetitions together.
    pub distance: f64,
    /// z, and p over the share of the look.
    pub z: f64,
    pub p: f64,
    /// Half the 95 % interval of the distance.
    pub half: f64,
    /// The other ends.
    pub partners: Vec<u32>,
    /// The least distance that counts, and the one that is to be found.
    least: f64,
    sought: f64,
    /// Whether this can confirm anything.
    is_evidence: bool,
}

impl Again {
    fn new(distances: &[f64], error: Variance, (least, sought): (f64, f64)) -> Again {
        let count = distances.len();
        let distance = Repeats::of(distances).map_or(0.0, |repeats| repeats.mean);
        let (z, p) = match count {
            0 => (0.0, 1.0),
            _ => tail(distance, error.variance.sqrt(), error.freedom),
        };
        let p = (p / weight(count)).min(1.0);
        let half = reach(error.freedom) * error.variance.sqrt();
        let (partners, is_evidence) = (Vec::new(), count >= LEAST_AGAIN);
        Again { count, distance, z, p, half, partners, least, sought, is_evidence }
    }

    fn nothing(effects: (f64, f64)) -> Again {
        Again::new(&[], Variance { variance: 0.0, freedom: 1.0 }, effects)
    }

    /// What follows, found at a rate of `q`.
    pub fn outcome(&self, q: f64) -> Outcome {
        let is_last = self.count >= LAST as usize;
        if self.count < LEAST_AGAIN {
            Outcome::Open
        } else if self.distance + self.half < self.sought || is_last && self.distance < self.least {
            Outcome::Cleared
        } else if q <= ACCUSED_RATE && self.distance >= self.least && self.is_evidence {
            Outcome::Shown
        } else {
            Outcome::Open
        }
    }
}

/// The repetitions of a figure in a stratum.
#[derive(Debug, Default)]
struct Repeated {
    /// Distances from the peers of the same repetition, by node.
    distances: HashMap<u32, Vec<f64>>,
    all: Vec<Repeats>,
    /// How many peers were measured beside the suspects, in the median repetition; 0 where the first
    /// measurement stands for them.
    peers: usize,
}

/// Logarithms of pairs of one figure by near and far end, in the order of their steps.
type Paths = HashMap<(u32, u32), Vec<f64>>;

/// All that was measured again.
pub(super) struct Second<'a> {
    sweep: &'a Sweep,
    first: &'a First,
    fields: HashMap<usize, Repeated>,
    pairs: HashMap<&'a Key, Paths>,
}

impl<'a> Second<'a> {
    pub fn new(sweep: &'a Sweep, first: &'a First, known: Known) -> Second<'a> {
        let mut figures: HashMap<&Key, Vec<&Figure>> = HashMap::new();
        let is_known = |of: &&Figure| of.again > 0 && of.again <= known.repetitions();
        for figure in sweep.figures.iter().filter(is_known) {
            figures.entry(&figure.key).or_default().push(figure);
        }
        let mut pairs: HashMap<&Key, Paths> = HashMap::new();
        for pair in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Suspect) {
            if let Some(x) = usable(pair).filter(|_| pair.step < known.steps) {
                let ends = pairs.entry(&pair.key).or_default();
                ends.entry((pair.from, pair.to)).or_default().push(x);
            }
        }
        let mut chosen: HashMap<usize, HashSet<u32>> = HashMap::new();
        for test in first.chosen.iter().map(|at| &first.tests[*at]) {
            if first.topic(test.field).subject.role == Role::Alone {
                chosen.entry(test.field).or_default().insert(first.rank(test));
            }
        }
        let repeated = |(field, suspects): (usize, HashSet<u32>)| {
            let figures = figures.get(&first.topic(field).subject.key)?;
            Some((field, Repeated::new(first, field, figures, &suspects)))
        };
        let fields = chosen.into_iter().filter_map(repeated).collect();
        Second { sweep, first, fields, pairs }
    }

    /// A node's figure.
    pub fn node(&self, test: &Test) -> Again {
        match self.first.topic(test.field).subject.role {
            Role::Alone => self.alone(test),
            role => self.end(test, role),
        }
    }

    fn alone(&self, test: &Test) -> Again {
        let (topic, field) = (self.first.topic(test.field), &self.first.fields[test.field]);
        let effects = (least_effect(topic), sought(topic));
        let repeated = self.fields.get(&test.field);
        let distances = repeated.and_then(|of| of.distances.get(&self.first.rank(test)));
        let (Some(repeated), Some(distances)) = (repeated, distances) else {
            return Again::nothing(effects);
        };
        let (Some(once), Some(whole)) = (field.error(test.row), field.variance()) else {
            return Again::nothing(effects);
        };
        let error = repeated.error(distances.len(), whole, field.lasting);
        let again = Again::new(distances, error.unwrap_or(once), effects);
        // Six rounds of a device or of the system scatter as others let them, for as long as these
        // stay: that confirms nothing about the node (docs/notes, the fleet's model).
        let is_evidence = match (topic.subject.is_scatter, topic.kind) {
            (true, Kind::Os | Kind::Io) => false,
            (true, Kind::Hardware) => distances.iter().all(|distance| *distance >= effects.0),
            (false, _) => true,
        };
        Again { is_evidence: again.is_evidence && is_evidence, ..again }
    }

    /// The pairs of one end that were measured again: what each leaves of the other end, and which
    /// that is.
    fn with_partners(
        &self,
        fit: &Fit,
        rank: u32,
        is_near: bool,
        but: Option<u32>,
    ) -> Vec<(u32, f64)> {
        let ends = self.pairs.get(&fit.key).into_iter().flatten();
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (&(from, to), logs) in ends {
            let is_its = if is_near { from == rank } else { to == rank };
            let is_its = is_its || fit.is_shared && [from, to].contains(&rank);
            let partner = if from == rank { to } else { from };
            if !is_its || Some(partner) == but || self.first.suspects.contains(&partner) {
                continue;
            }
            if let Some(level) = self.level(fit, (from, to)) {
                let other = fit.end(partner, partner == from);
                found.extend(logs.iter().map(|x| (partner, x - level - other)));
            }
        }
        found.sort_by_key(|(partner, _)| *partner);
        found
    }

    /// What a pair lets expect whose ends are as good as their peers, with nothing else running.
    fn level(&self, fit: &Fit, ends: (u32, u32)) -> Option<f64> {
        let known = ends.0 != ends.1 && fit.at(ends.0).is_some() && fit.at(ends.1).is_some();
        let centre = known.then(|| fit.class_centre(self.sweep, &self.first.place, ends))??;
        Some(centre + fit.alone.0)
    }

    fn end(&self, test: &Test, role: Role) -> Again {
        let (topic, field) = (self.first.topic(test.field), &self.first.fields[test.field]);
        let effects = (least_effect(topic), sought(topic));
        let fit = self.first.fits.iter().find(|fit| fit.key == topic.subject.key);
        let (Some(fit), Some(peers)) = (fit, field.peers(test.row)) else {
            return Again::nothing(effects);
        };
        let rank = self.first.rank(test);
        let found = self.with_partners(fit, rank, role != Role::Receive, None);
        let distances: Vec<f64> = found.iter().map(|(_, effect)| effect - peers.centre).collect();
        let pairs = fit.variance / distances.len().max(1) as f64;
        let variance = peers.squared_error() + pairs + fit.alone.1;
        let again = Again::new(&distances, Variance { variance, freedom: peers.freedom }, effects);
        Again { partners: partners(&found), ..again }
    }

    /// A link: what it is worse than both of its ends with others. An end that is as bad with others
    /// leaves nothing to the link.
    pub fn link(&self, link: &LinkTest) -> Again {
        let fit = &self.first.fits[link.fit];
        let near = self.with_partners(fit, link.from, true, Some(link.to));
        let far = self.with_partners(fit, link.to, false, Some(link.from));
        let end = |found: &[(u32, f64)], fitted: f64| {
            let effects: Vec<f64> =
                found.iter().map(|(_, effect)| *effect).chain([fitted]).collect();
            median(&effects).unwrap_or(fitted)
        };
        let ends = end(&near, fit.end(link.from, true)) + end(&far, fit.end(link.to, false));
        let others = [&near, &far].map(|found| FRAC_PI_2 / (found.len() + 1) as f64).iter().sum();
        let all: Vec<(u32, f64)> = near.into_iter().chain(far).collect();
        let distances = self.path(fit, (link.from, link.to), ends);
        Again { partners: partners(&all), ..self.again(fit, &distances, distances.len(), others) }
    }

    /// The distances of one path from the level of its class and what its ends add.
    fn path(&self, fit: &Fit, path: (u32, u32), ends: f64) -> Vec<f64> {
        let logs = self.pairs.get(&fit.key).and_then(|pairs| pairs.get(&path));
        let level = self.level(fit, path);
        let of = |level: f64| logs.into_iter().flatten().map(move |x| x - level - ends).collect();
        level.map(of).unwrap_or_default()
    }

    /// Distances of paths that were measured `times` each; `others` is the variance of the ends, in
    /// variances of pairs.
    fn again(&self, fit: &Fit, distances: &[f64], times: usize, others: f64) -> Again {
        let variance = fit.variance * (1.0 / times.max(1) as f64 + others) + fit.alone.1;
        let error = Variance { variance, freedom: fit.freedom.max(1.0) };
        Again::new(distances, error, (LEAST_LINK.ln(), 2.0 * LEAST_LINK.ln()))
    }

    /// A node with several bad links: each of those that were measured again, by its median.
    pub fn flaky(&self, flaky: &Flaky) -> Again {
        let fit = &self.first.fits[flaky.fit];
        let (mut partners, mut distances) = (Vec::new(), Vec::new());
        let mut least = usize::MAX;
        for link in flaky.links.iter().map(|at| &self.first.links[*at]) {
            let ends = fit.end(link.from, true) + fit.end(link.to, false);
            let path = self.path(fit, (link.from, link.to), ends);
            if let Some(distance) = median(&path) {
                partners.push(if link.from == flaky.rank { link.to } else { link.from });
                distances.push(distance);
                least = least.min(path.len());
            }
        }
        let again = self.again(fit, &distances, if distances.is_empty() { 0 } else { least }, 0.0);
        let is_evidence = distances.len() >= LEAST_AGAIN
            && distances.iter().all(|distance| *distance >= LEAST_LINK.ln() / 2.0);
        let count = if distances.is_empty() { 0 } else { least };
        Again { partners, count, is_evidence, ..again }
    }
}

fn partners(found: &[(u32, f64)]) -> Vec<u32> {
    let mut partners: Vec<u32> = found.iter().map(|(partner, _)| *partner).collect();
    partners.dedup();
    partners
}

impl Repeated {
    fn new(first: &First, field: usize, figures: &[&Figure], suspects: &HashSet<u32>) -> Repeated {
        let (topic, of) = (first.topic(field), &first.fields[field]);
        let x = |figure: &Figure| match topic.subject.is_scatter {
            true => figure.estimate.scatter.filter(|scatter| *scatter > 0.0).map(f64::ln),
            false => signed(figure.estimate.value, figure.better),
        };
        let mut by_time: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
        for figure in figures {
            let is_peer = first.place.get(&figure.rank) == Some(&of.stratum);
            if let Some(x) = x(figure).filter(|_| is_peer) {
                by_time.entry(figure.again).or_default().insert(figure.rank, x);
            }
        }
        let mut repeated = Repeated::default();
        let mut peers = Vec::new();
        for logs in by_time.values() {
            let beside: Vec<f64> = logs
                .iter()
                .filter(|(rank, _)| !suspects.contains(rank))
                .map(|(_, x)| *x)
                .collect();
            let enough = beside.len() >= LEAST_PEERS;
            let centre = median(&beside).filter(|_| enough).unwrap_or_else(|| of.centre());
            peers.push(if enough { beside.len() as f64 } else { 0.0 });
            for (rank, x) in logs {
                repeated.distances.entry(*rank).or_default().push(x - centre);
            }
        }
        repeated.peers = median(&peers).unwrap_or(0.0) as usize;
        let all = repeated.distances.values().filter_map(|distances| Repeats::of(distances));
        repeated.all = all.collect();
        repeated
    }

    /// The squared error of `count` repetitions of a healthy node: what lasts, and what they scatter.
    /// Of what the nodes differed by the first time, `whole`, the repetitions explain their own part;
    /// the rest lasts where it is plainly more than what quiet figures say. `None` where too few
    /// repetitions say how much they scatter.
    fn error(&self, count: usize, whole: Variance, lasting: Variance) -> Option<Variance> {
        let scatter = pooled(&self.all, count).filter(|of| of.freedom >= LEAST_FREEDOM)?;
        let rest = whole.variance - count as f64 * scatter.variance;
        let alike = lasting.variance + count as f64 * scatter.variance;
        let is_more = whole.variance > alike * (1.0 + LARGER * (2.0 / whole.freedom).sqrt());
        let lasts = match is_more {
            true => Variance { variance: rest, freedom: whole.freedom },
            false => Variance { variance: lasting.variance.min(whole.variance), ..lasting },
        };
        let peers = if self.peers == 0 { 0.0 } else { FRAC_PI_2 / self.peers as f64 };
        let widened = |of: Variance| Variance { variance: of.variance * (1.0 + peers), ..of };
        Some(sum(&[widened(lasts), widened(scatter)]))
    }
}

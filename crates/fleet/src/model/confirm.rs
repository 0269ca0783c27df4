//! The second measurement: what phase 4 says of each suspect.

use super::first::{First, Flaky, LEAST_LINK, LinkTest, Test};
use super::fit::{Fit, usable};
use super::peers::{reach, tail};
use super::{Role, least_effect, signed};
use crate::read::Sweep;
use crate::sweep::{Figure, Purpose};
use record::key::Key;
use record::metric::Kind;
use stats::quantile::median;
use std::collections::HashMap;
use std::f64::consts::FRAC_PI_2;

/// Fewest repetitions (or partners) that confirm anything.
const LEAST_AGAIN: usize = 2;

/// What the second measurement of a suspect says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Again {
    /// Distances from the peers, as logs: of each repetition, or with each partner. Empty where it
    /// was not measured again.
    pub distances: Vec<f64>,
    /// z and p: of the median of all measurements for a node, of the repetitions for a link.
    pub z: f64,
    pub p: f64,
    /// Half the 95 % interval of the distance.
    pub half: f64,
    /// The other ends.
    pub partners: Vec<u32>,
    /// The least distance that counts.
    pub least: f64,
    /// The least distance of each repetition.
    pub each: f64,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The median of the repetitions shows it, and each of them its least.
    Shown,
    /// It was measured again and is well.
    Cleared,
    /// Neither.
    Open,
}

impl Again {
    /// From distances, the standard error of their median, and its degrees of freedom. The first
    /// measurement counts as one more of them where it is given.
    fn new(distances: Vec<f64>, error: f64, freedom: f64, least: f64, first: Option<f64>) -> Again {
        let all: Vec<f64> = distances.iter().copied().chain(first).collect();
        let tested = if distances.is_empty() { None } else { median(&all) };
        let (z, p) = match tested {
            Some(distance) => tail(distance, error, freedom),
            None => (0.0, 1.0),
        };
        let half = reach(freedom) * error;
        Again { distances, z, p, half, partners: Vec::new(), least, each: least / 2.0 }
    }

    pub fn outcome(&self) -> Outcome {
        let is_seen = self.distances.iter().all(|distance| *distance >= self.each);
        match median(&self.distances) {
            Some(_) if self.distances.len() < LEAST_AGAIN => Outcome::Open,
            Some(distance) if distance < self.least => Outcome::Cleared,
            Some(_) if is_seen => Outcome::Shown,
            _ => Outcome::Open,
        }
    }
}

/// All that was measured again.
pub(super) struct Second<'a> {
    sweep: &'a Sweep,
    first: &'a First,
    figures: HashMap<(u32, &'a Key), Vec<&'a Figure>>,
    /// Logarithms by figure and by near and far end.
    pairs: HashMap<&'a Key, HashMap<(u32, u32), Vec<f64>>>,
}

impl<'a> Second<'a> {
    pub fn new(sweep: &'a Sweep, first: &'a First) -> Second<'a> {
        let mut figures: HashMap<(u32, &Key), Vec<&Figure>> = HashMap::new();
        for figure in sweep.figures.iter().filter(|figure| figure.again > 0) {
            figures.entry((figure.rank, &figure.key)).or_default().push(figure);
        }
        let mut pairs: HashMap<&Key, HashMap<(u32, u32), Vec<f64>>> = HashMap::new();
        for pair in sweep.pairs.iter().filter(|pair| pair.purpose == Purpose::Suspect) {
            if let Some(x) = usable(pair) {
                let ends = pairs.entry(&pair.key).or_default();
                ends.entry((pair.from, pair.to)).or_default().push(x);
            }
        }
        Second { sweep, first, figures, pairs }
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
        let rank = self.first.rank(test);
        let repetitions = self.figures.get(&(rank, &topic.subject.key));
        let x = |figure: &&Figure| match topic.subject.is_scatter {
            true => figure.estimate.scatter.filter(|scatter| *scatter > 0.0).map(f64::ln),
            false => signed(figure.estimate.value, figure.better),
        };
        let least = least_effect(topic);
        let Some(peers) = field.peers(test.row) else {
            return Again::new(Vec::new(), 0.0, 1.0, least, None);
        };
        let logs = repetitions.into_iter().flatten().filter_map(x);
        let distances: Vec<f64> = logs.map(|x| x - peers.centre).collect();
        // As uncertain as one measurement: what makes a healthy node differ from its peers stays.
        let error = (peers.squared_error() + field.excess(field.rows[test.row].own)).sqrt();
        let once = Some(self.first.distance(test));
        let again = Again::new(distances, error, peers.freedom, least, once);
        // Six rounds of a device or of the system scatter as others let them, for as long as these
        // stay: that confirms nothing about the node (docs/notes, the fleet's model).
        let each = match (topic.subject.is_scatter, topic.kind) {
            (true, Kind::Os | Kind::Io) => f64::INFINITY,
            (true, Kind::Hardware) => least,
            (false, _) => again.each,
        };
        Again { each, ..again }
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
        let mut found: Vec<(u32, f64)> = ends
            .filter_map(|(&(from, to), logs)| {
                let is_its = if is_near { from == rank } else { to == rank };
                let is_its = is_its || fit.is_shared && [from, to].contains(&rank);
                let partner = if from == rank { to } else { from };
                if !is_its || Some(partner) == but || self.first.suspects.contains(&partner) {
                    return None;
                }
                let other = fit.end(partner, partner == from);
                Some((partner, median(logs)? - self.level(fit, (from, to))? - other))
            })
            .collect();
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
        let least = least_effect(topic);
        let fit = self.first.fits.iter().find(|fit| fit.key == topic.subject.key);
        let (Some(fit), Some(peers)) = (fit, field.peers(test.row)) else {
            return Again::new(Vec::new(), 0.0, 1.0, least, None);
        };
        let rank = self.first.rank(test);
        let found = self.with_partners(fit, rank, role != Role::Receive, None);
        let (partners, effects): (Vec<u32>, Vec<f64>) = found.into_iter().unzip();
        let distances: Vec<f64> = effects.iter().map(|effect| effect - peers.centre).collect();
        let pairs = FRAC_PI_2 * fit.variance / distances.len().max(1) as f64;
        let error = (peers.squared_error() + pairs + fit.alone.1).sqrt();
        let once = Some(self.first.distance(test));
        let again = Again::new(distances, error, peers.freedom, least, once);
        Again { partners, ..again }
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
        let others = [&near, &far].map(|found| 1.0 / (found.len() + 1) as f64).iter().sum();
        let partners = near.iter().chain(&far).map(|(partner, _)| *partner).collect();
        Again { partners, ..self.again(fit, (link.from, link.to), ends, others) }
    }

    /// One path, against the level of its class and what its ends add; `others` is the variance of
    /// the ends, in variances of pairs.
    fn again(&self, fit: &Fit, path: (u32, u32), ends: f64, others: f64) -> Again {
        let logs = self.pairs.get(&fit.key).and_then(|pairs| pairs.get(&path));
        let level = self.level(fit, path);
        let distances: Vec<f64> = match level {
            Some(level) => logs.into_iter().flatten().map(|x| x - level - ends).collect(),
            None => Vec::new(),
        };
        let count = distances.len().max(1) as f64;
        let variance = FRAC_PI_2 * fit.variance * (1.0 / count + others) + fit.alone.1;
        Again::new(distances, variance.sqrt(), fit.freedom.max(1.0), LEAST_LINK.ln(), None)
    }

    /// A node with several bad links: each of those that were measured again, by its median.
    pub fn flaky(&self, flaky: &Flaky) -> Again {
        let fit = &self.first.fits[flaky.fit];
        let mut partners = Vec::new();
        let mut distances = Vec::new();
        let mut error = 0.0_f64;
        for link in flaky.links.iter().map(|at| &self.first.links[*at]) {
            let ends = fit.end(link.from, true) + fit.end(link.to, false);
            let again = self.again(fit, (link.from, link.to), ends, 0.0);
            if let Some(distance) = median(&again.distances) {
                partners.push(if link.from == flaky.rank { link.to } else { link.from });
                distances.push(distance);
                error = error.max(again.half / reach(fit.freedom.max(1.0)));
            }
        }
        let freedom = fit.freedom.max(1.0);
        Again { partners, ..Again::new(distances, error, freedom, LEAST_LINK.ln(), None) }
    }
}

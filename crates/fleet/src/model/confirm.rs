//! The second measurement: what phase 4 says of each suspect.

use super::first::{First, Flaky, LEAST_LINK, LinkTest, Test};
use super::fit::{Fit, usable};
use super::peers::{reach, tail};
use super::{Role, least_effect, signed};
use crate::read::Sweep;
use crate::sweep::{Figure, Purpose};
use record::key::Key;
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
    /// z and p of their median.
    pub z: f64,
    pub p: f64,
    /// Half the 95 % interval of the distance.
    pub half: f64,
    /// The other ends.
    pub partners: Vec<u32>,
    /// The least distance that counts.
    pub least: f64,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every repetition shows it.
    Shown,
    /// It was measured again and is well.
    Cleared,
    /// Neither.
    Open,
}

impl Again {
    /// From distances, the standard error of their median, and its degrees of freedom.
    fn new(distances: Vec<f64>, error: f64, freedom: f64, least: f64, partners: Vec<u32>) -> Again {
        let (z, p) = match median(&distances) {
            Some(distance) => tail(distance, error, freedom),
            None => (0.0, 1.0),
        };
        let half = reach(freedom) * error;
        Again { distances, z, p, half, partners, least }
    }

    pub fn outcome(&self) -> Outcome {
        let is_shown = self.distances.iter().all(|distance| *distance >= self.least);
        match median(&self.distances) {
            Some(_) if self.distances.len() < LEAST_AGAIN => Outcome::Open,
            Some(_) if is_shown => Outcome::Shown,
            Some(distance) if distance < self.least => Outcome::Cleared,
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
            return Again::new(Vec::new(), 0.0, 1.0, least, Vec::new());
        };
        let logs = repetitions.into_iter().flatten().filter_map(x);
        let distances: Vec<f64> = logs.map(|x| x - peers.centre).collect();
        // As uncertain as one measurement: what makes a healthy node differ from its peers stays.
        Again::new(distances, peers.squared_error().sqrt(), peers.freedom, least, Vec::new())
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
            return Again::new(Vec::new(), 0.0, 1.0, least, Vec::new());
        };
        let rank = self.first.rank(test);
        let found = self.with_partners(fit, rank, role != Role::Receive, None);
        let (partners, effects): (Vec<u32>, Vec<f64>) = found.into_iter().unzip();
        let distances: Vec<f64> = effects.iter().map(|effect| effect - peers.centre).collect();
        let pairs = FRAC_PI_2 * fit.variance / distances.len().max(1) as f64;
        let error = (peers.squared_error() + pairs + fit.alone.1).sqrt();
        Again::new(distances, error, peers.freedom, least, partners)
    }

    /// A link: what it is worse than both of its ends with others. An end that is as bad with others
    /// leaves nothing to the link.
    pub fn link(&self, link: &LinkTest) -> Again {
        let fit = &self.first.fits[link.fit];
        let near = self.with_partners(fit, link.from, true, Some(link.to));
        let far = self.with_partners(fit, link.to, false, Some(link.from));
        let fitted = [fit.end(link.from, true), fit.end(link.to, false)];
        let ends: f64 = [&near, &far]
            .into_iter()
            .zip(fitted)
            .map(|(found, fitted)| {
                let effects: Vec<f64> = found.iter().map(|(_, effect)| *effect).collect();
                median(&effects).map_or(fitted, |again| again.max(fitted))
            })
            .sum();
        let partners = near.iter().chain(&far);
        let count = |found: &[(u32, f64)]| found.len().max(1) as f64;
        let others = 1.0 / count(&near) + 1.0 / count(&far);
        let mut again = self.again(fit, (link.from, link.to), ends, others);
        again.partners = partners.map(|(partner, _)| *partner).collect();
        again
    }

    /// One path, against the level of its class and what its ends add.
    fn again(&self, fit: &Fit, path: (u32, u32), ends: f64, others: f64) -> Again {
        let logs = self.pairs.get(&fit.key).and_then(|pairs| pairs.get(&path));
        let level = self.level(fit, path);
        let distances: Vec<f64> = match level {
            Some(level) => logs.into_iter().flatten().map(|x| x - level - ends).collect(),
            None => Vec::new(),
        };
        let variance = fit.variance * (1.0 + FRAC_PI_2 * others) + fit.alone.1;
        Again::new(distances, variance.sqrt(), fit.freedom.max(1.0), LEAST_LINK.ln(), Vec::new())
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
        Again::new(distances, error, fit.freedom.max(1.0), LEAST_LINK.ln(), partners)
    }
}

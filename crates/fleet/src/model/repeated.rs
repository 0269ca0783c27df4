//! Hardware figures whose scatter hides what is sought: all nodes of a stratum are measured in them
//! again, and a node's value is a trimmed mean over the steps.
//!
//! How much a node differs from itself is known from all nodes and steps together, and how much healthy
//! nodes differ for good from all figures: the few nodes of one figure say neither well.

use super::first::{Field, Role};
use super::step::Step;
use super::{FOUND, LASTING, RATE, SOUGHT, STEPS_LEAST, STEPS_MOST};
use crate::peers::{Peers, errors, spread};
use crate::repeats::trimmed_mean;
use record::metric::Kind;
use stats::compare::variance::Variance;
use stats::quantile::median;
use std::f64::consts::FRAC_PI_2;

/// What the steps of a field say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeated {
    /// Steps in which nearly all nodes of the stratum were measured.
    pub steps: usize,
    /// Variance of a node's value from step to step, and of healthy nodes' true values.
    within: f64,
    lasting: f64,
    freedom: f64,
    /// Centre and scale of the nodes' means.
    found: Peers,
}

impl Repeated {
    /// `distances` of each node from the median of its step; `None` below two nodes.
    fn new(steps: usize, distances: &[Vec<f64>], xs: &[f64]) -> Option<Repeated> {
        let found = spread(xs, 0.0)?;
        // One step says nothing of what changes from step to step.
        let once = Variance { variance: found.variance, freedom: 1.0 };
        let Variance { variance: within, freedom } = within(distances).unwrap_or(once);
        Some(Repeated { steps, within, lasting: 0.0, freedom, found })
    }

    /// Takes the variance by which healthy nodes differ for good in all figures.
    fn settle(&mut self, lasting: f64) {
        self.lasting = lasting;
        let expected = self.variance(self.steps);
        // The variance of few nodes is uncertain: it counts where chance alone seldom gives as much.
        let chance = 1.0 + 2.0 * (2.0 / self.found.freedom).sqrt();
        if self.found.variance > chance * expected {
            self.lasting += self.found.variance - expected;
            self.freedom = self.found.freedom;
        }
    }

    fn variance(&self, steps: usize) -> f64 {
        self.lasting + self.within / steps as f64
    }

    /// The least loss that 95 % of such sweeps find after so many steps, as a log.
    fn seen_from(&self, steps: usize, field: &Field) -> f64 {
        let error = self.variance(steps) * (1.0 + FRAC_PI_2 / self.found.count as f64);
        let more = (steps - 1) as f64 / (self.steps - 1).max(1) as f64;
        let is_found = self.freedom == self.found.freedom;
        let freedom = if is_found { self.freedom } else { self.freedom * more };
        let threshold = errors(RATE / field.tests as f64, freedom.max(1.0)) * error.sqrt();
        threshold.max(field.least) + FOUND * error.sqrt()
    }
}

/// The variance of a node's distances about its own mean, over nodes with several.
pub(super) fn within(all: &[Vec<f64>]) -> Option<Variance> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for distances in all.iter().filter(|distances| distances.len() > 1) {
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        squares += distances.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        freedom += (distances.len() - 1) as f64;
    }
    (freedom > 0.0).then(|| Variance { variance: squares / freedom, freedom })
}

/// Has the `hiding` fields of a stratum take the values of the steps; its other fields say as well how
/// much healthy nodes differ for good. `tests` nodes are measured again in all strata together.
pub(super) fn repeat(
    hiding: &mut [&mut Field],
    clear: &[&mut Field],
    tests: usize,
    steps: &[Step],
) {
    hiding.iter_mut().for_each(|field| field.repeat(steps));
    let repeated = hiding.iter().filter_map(|field| field.repeated);
    let repeated = repeated.map(|one| (one.found.variance, one.within / one.steps as f64));
    let clear = clear.iter().filter(|field| is_hardware(field));
    let clear = clear.filter_map(|field| Some((field.whole?.variance, field.scatter)));
    let least = (LASTING * super::least_effect(Kind::Hardware).ln()).powi(2);
    // A figure counts by how well it says what lasts.
    let (mut sum, mut weights) = (0.0, 0.0);
    for (all, noise) in repeated.chain(clear) {
        let weight = (least + noise).powi(-2);
        sum += weight * (all - noise);
        weights += weight;
    }
    let lasting = if weights > 0.0 { least.max(sum / weights) } else { least };
    for field in hiding.iter_mut().filter(|field| field.repeated.is_some()) {
        field.settle(lasting, tests);
    }
}

fn is_hardware(field: &Field) -> bool {
    field.kind == Kind::Hardware && field.subject.role == Role::Alone && field.is_compared()
}

impl Field {
    pub(super) fn hides(&self) -> bool {
        is_hardware(self) && self.least_seen().is_some_and(|least| least > SOUGHT)
    }

    /// Whether more steps of all nodes would show it.
    pub(super) fn needs_steps(&self) -> bool {
        let Some(repeated) = &self.repeated else { return self.hides() };
        let can_show = repeated.seen_from(STEPS_MOST, self) <= SOUGHT;
        repeated.steps < STEPS_LEAST || repeated.steps < STEPS_MOST && self.hides() && can_show
    }

    /// The least loss that 95 % of such sweeps find, as a log.
    pub(super) fn least_seen(&self) -> Option<f64> {
        match &self.repeated {
            Some(repeated) => Some(repeated.seen_from(repeated.steps, self)),
            None => self.seen_from(),
        }
    }

    /// Takes the values of the steps that measured nearly all of its nodes.
    fn repeat(&mut self, steps: &[Step]) {
        let mut distances: Vec<Vec<f64>> = vec![Vec::new(); self.rows.len()];
        let mut count = 0;
        for step in steps {
            let value = |node| step.alone.get(&(self.subject.figure, node)).copied();
            let values: Vec<Option<f64>> = self.rows.iter().map(|row| value(row.node)).collect();
            let measured: Vec<f64> = values.iter().copied().flatten().collect();
            let is_full = 4 * measured.len() >= 3 * values.len();
            let Some(centre) = median(&measured).filter(|_| is_full) else { continue };
            count += 1;
            for (value, distances) in values.into_iter().zip(&mut distances) {
                distances.extend(value.map(|x| x - centre));
            }
        }
        if count == 0 {
            return;
        }
        let centre = self.centre();
        let mut means = distances.iter().map(|distances| trimmed_mean(distances));
        self.rows.retain_mut(|row| {
            let mean = means.next().flatten();
            mean.iter().for_each(|(mean, _)| row.moves_to(centre + mean));
            mean.is_some()
        });
        let xs: Vec<f64> = self.rows.iter().map(|row| row.x).collect();
        distances.retain(|distances| !distances.is_empty());
        self.repeated = Repeated::new(count, &distances, &xs);
        self.distances = distances;
    }

    /// How likely all steps of a node are as bad as the best of them, by how often other nodes' steps are:
    /// a few steps that are far out make no bad node, whatever distribution they have.
    pub(super) fn chance(&self, row: usize) -> f64 {
        let own = &self.distances[row];
        let best = own.iter().copied().fold(f64::INFINITY, f64::min);
        let others = self.distances.iter().enumerate().filter(|(other, _)| *other != row);
        let others: Vec<f64> = others.flat_map(|(_, distances)| distances).copied().collect();
        let worse = others.iter().filter(|distance| **distance >= best).count();
        let share = (worse as f64 + 0.5) / others.len() as f64;
        share.min(1.0).powf(own.len() as f64)
    }

    fn settle(&mut self, lasting: f64, tests: usize) {
        let Some(repeated) = &mut self.repeated else { return };
        repeated.settle(lasting);
        let (variance, freedom) = (repeated.variance(repeated.steps), repeated.freedom);
        self.whole = Some(Peers { variance, freedom, ..repeated.found });
        self.tests = tests;
    }
}

//! What a sweep can find: how large a difference its repetitions will show, and where one measurement
//! leaves open whether a node has it.

use super::confirm::OF_TRIMMED;
use super::first::{First, Test};
use super::looks::{ACCUSED_RATE, LAST, WEIGHTS};
use super::peers::{errors, tail};
use super::repeats::sum;
use super::select::SUSPECT_RATE;
use super::{Detectable, Role, Suspects, least_effect, sought};
use record::metric::Kind;
use stats::compare::variance::Variance;

/// A hardware figure is not measured again where chance alone puts more nodes as far from their
/// peers.
const SCREENED: f64 = 0.25;
/// Standard errors of a miss: the first measurement may miss one slow node in forty, and the
/// repetitions one more.
const MISSED: f64 = 1.96;

/// Healthy nodes differ for good by so much less than the least effect, as standard deviations:
/// assumed before the repetitions say it.
const LASTING: f64 = 0.2;
/// The same with what the repetitions leave uncertain: what the report says that it sees.
const LASTS: f64 = 0.3;

/// The rate at which the last look accuses falsely.
const LAST_SHARE: f64 = WEIGHTS[WEIGHTS.len() - 1] * ACCUSED_RATE;

impl First {
    /// Whether a node is measured again in a hardware figure, though it does not stand out: for all
    /// that one measurement says it may be as slow as is to be found, and the repetitions will tell.
    pub fn may_be_slower(&self, test: &Test) -> bool {
        if !self.is_hardware(test.field) {
            return false;
        }
        let Some(others) = self.fields[test.field].others(test.row) else { return false };
        let (error, distance) = (others.squared_error().sqrt(), self.distance(test));
        let sought = sought(self.topic(test.field));
        distance + MISSED * error >= sought
            && tail(distance, error, others.freedom).1 <= SCREENED
            && self.shown_from(test.field, others.variance) <= sought
    }

    fn is_hardware(&self, field: usize) -> bool {
        let topic = self.topic(field);
        let is_alone = topic.subject.role == Role::Alone && !topic.subject.is_scatter;
        is_alone && topic.kind == Kind::Hardware
    }

    /// The standard error of all repetitions together, if they scatter as the nodes do the first time.
    fn repeated_error(&self, field: usize, once: f64) -> f64 {
        let lasting = LASTING * least_effect(self.topic(field));
        (lasting * lasting + once / f64::from(LAST)).sqrt()
    }

    /// The distance at which all repetitions together show a node, as a log.
    fn shown_from(&self, field: usize, once: f64) -> f64 {
        let significant = self.asked(LAST_SHARE, f64::INFINITY) * self.repeated_error(field, once);
        significant.max(least_effect(self.topic(field)))
    }

    /// The squared error that the repetitions of a node will have, as its figure scatters from node
    /// to node: what the second measurement takes as the error of a suspect ([`super::confirm`]).
    fn expected_error(&self, field: usize, once: Variance) -> Variance {
        let lasting = LASTS * least_effect(self.topic(field));
        let of_peers = 1.0 + OF_TRIMMED / Suspects::PEERS as f64;
        let scatter = OF_TRIMMED * of_peers * once.variance / f64::from(LAST);
        sum(&[
            Variance { variance: lasting * lasting * of_peers, freedom: f64::INFINITY },
            Variance { variance: scatter, freedom: once.freedom * f64::from(LAST) },
        ])
    }

    /// The standard errors, known with so many degrees of freedom, that chance exceeds at a rate
    /// over all tests.
    fn asked(&self, rate: f64, freedom: f64) -> f64 {
        errors(rate / self.tests.len().max(1) as f64, freedom)
    }

    /// The least slowdowns that are found in 95 % of sweeps, figure by figure.
    pub fn detectable(&self) -> Vec<Detectable> {
        let of = |(at, field): (usize, &super::peers::Field)| {
            let topic = self.topic(at);
            let is_level = topic.subject.role == Role::Alone && !topic.subject.is_scatter;
            let first = field.variance().filter(|_| is_level)?;
            let once = first.variance;
            let is_screened = self.is_hardware(at) && self.shown_from(at, once) <= sought(topic);
            let Variance { variance, freedom } = self.expected_error(at, first);
            let error = variance.sqrt();
            let shown = self.asked(LAST_SHARE, freedom) * error;
            let found = shown.max(least_effect(topic)) + MISSED * error;
            let peers = field.peers(0)?;
            let standard_errors = self.asked(SUSPECT_RATE, peers.freedom) + MISSED;
            let stands_out = standard_errors * peers.squared_error().sqrt();
            let log = if is_screened { found } else { found.max(stands_out) };
            let (stratum, subject) = (field.stratum, field.subject);
            Some(Detectable { stratum, subject, kind: topic.kind, factor: log.exp() })
        };
        self.fields.iter().enumerate().filter_map(of).collect()
    }
}

//! What a sweep can find: how large a difference its repetitions will show, and where one measurement
//! leaves open whether a node has it.

use super::first::{First, Test};
use super::looks::{ACCUSED_RATE, LAST, WEIGHTS};
use super::peers::tail;
use super::select::SUSPECT_RATE;
use super::{Detectable, Role, least_effect, sought};
use record::metric::Kind;
use statrs::distribution::{ContinuousCDF, Normal};

/// A hardware figure is not measured again where chance alone puts more nodes as far from their
/// peers.
const SCREENED: f64 = 0.25;
/// Of what is to be found one in forty may be missed by the first measurement, one by the others: so
/// many standard errors.
const MISSED: f64 = 1.96;

/// Healthy nodes differ for good by so much less than the least effect, as standard deviations:
/// assumed before the repetitions say it.
const LASTING: f64 = 0.2;

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
        let last = WEIGHTS[WEIGHTS.len() - 1] * ACCUSED_RATE;
        let significant = self.asked(last) * self.repeated_error(field, once);
        significant.max(least_effect(self.topic(field)))
    }

    /// The standard errors that chance exceeds at a rate over all tests.
    fn asked(&self, rate: f64) -> f64 {
        -Normal::standard().inverse_cdf(rate / self.tests.len().max(1) as f64)
    }

    /// The least slowdowns that are found in 95 % of sweeps, figure by figure.
    pub fn detectable(&self) -> Vec<Detectable> {
        let of = |(at, field): (usize, &super::peers::Field)| {
            let topic = self.topic(at);
            let is_level = topic.subject.role == Role::Alone && !topic.subject.is_scatter;
            let once = field.variance().filter(|_| is_level)?.variance;
            let shown = self.shown_from(at, once);
            let is_screened = self.is_hardware(at) && shown <= sought(topic);
            let found = shown + MISSED * self.repeated_error(at, once);
            let stands_out = (self.asked(SUSPECT_RATE) + MISSED) * once.sqrt();
            let log = if is_screened { found } else { found.max(stands_out) };
            let (stratum, subject) = (field.stratum, field.subject);
            Some(Detectable { stratum, subject, kind: topic.kind, factor: log.exp() })
        };
        self.fields.iter().enumerate().filter_map(of).collect()
    }
}

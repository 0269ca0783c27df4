//! What a sweep can find: how large a difference its repetitions will show, and where one measurement
//! leaves open whether a node has it.

use super::first::{First, Test};
use super::looks::{ACCUSED_RATE, LAST, WEIGHTS};
use super::select::SUSPECT_RATE;
use super::{Detectable, Role, least_effect, sought};
use record::metric::Kind;
use statrs::distribution::{ContinuousCDF, Normal};
use stats::compare::variance::Variance;
use stats::quantile::quantile;

/// A hardware figure is not measured again where chance alone puts more nodes as far from their
/// peers.
const SCREENED: f64 = 0.25;
/// Of what is to be found one in forty may be missed by the first measurement, one by the others: so
/// many standard errors.
const MISSED: f64 = 1.96;

/// What healthy nodes differ by for good, at most: the lower quartile of the variances of the figures
/// of a kind. It holds the noise of the quiet figures as well; of a noisy one what lasts cannot be
/// told from noise.
pub(super) fn lasting(variances: &[Variance]) -> Variance {
    let all: Vec<f64> = variances.iter().map(|v| v.variance).collect();
    let freedom = variances.iter().map(|v| v.freedom).sum::<f64>() / 4.0;
    Variance { variance: quantile(&all, 0.25).unwrap_or(0.0), freedom: freedom.max(1.0) }
}

impl First {
    /// Whether a node is measured again in a hardware figure, though it does not stand out: for all
    /// that one measurement says it may be as slow as is to be found, and the repetitions will tell.
    pub fn may_be_slower(&self, test: &Test) -> bool {
        if test.p > SCREENED || !self.is_hardware(test.field) {
            return false;
        }
        let Some(error) = self.fields[test.field].error(test.row) else { return false };
        let sought = sought(self.topic(test.field));
        self.distance(test) + MISSED * error.variance.sqrt() >= sought
            && self.shown_from(test.field) <= sought
    }

    fn is_hardware(&self, field: usize) -> bool {
        let topic = self.topic(field);
        let is_alone = topic.subject.role == Role::Alone && !topic.subject.is_scatter;
        is_alone && topic.kind == Kind::Hardware
    }

    /// The standard error of all repetitions together, if they scatter as the nodes do.
    fn repeated_error(&self, field: usize) -> f64 {
        let of = &self.fields[field];
        let once = of.variance().map_or(0.0, |of| of.variance);
        (of.lasting.variance.min(once) + once / f64::from(LAST)).sqrt()
    }

    /// The distance at which all repetitions together show a node, as a log.
    fn shown_from(&self, field: usize) -> f64 {
        let last = WEIGHTS[WEIGHTS.len() - 1] * ACCUSED_RATE;
        let significant = self.asked(last) * self.repeated_error(field);
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
            let once = field.variance().filter(|_| is_level)?.variance.sqrt();
            let shown = self.shown_from(at) + MISSED * self.repeated_error(at);
            let is_screened = self.is_hardware(at) && self.shown_from(at) <= sought(topic);
            let stands_out = (self.asked(SUSPECT_RATE) + MISSED) * once;
            let log = if is_screened { shown } else { shown.max(stands_out) };
            let (stratum, subject) = (field.stratum, field.subject);
            Some(Detectable { stratum, subject, kind: topic.kind, factor: log.exp() })
        };
        self.fields.iter().enumerate().filter_map(of).collect()
    }
}

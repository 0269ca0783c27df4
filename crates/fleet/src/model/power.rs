//! What a sweep can find: how large a difference its repetitions will show, and where one measurement
//! leaves open whether a node has it.

use super::confirm::{OF_TRIMMED, lasting, like};
use super::first::{First, LEAST_LINK, LinkTest, Test};
use super::fit::Fit;
use super::looks::{ACCUSED_RATE, LAST, LOOKS, WEIGHTS};
use super::peers::{errors, tail};
use super::repeats::sum;
use super::select::SUSPECT_RATE;
use super::{Detectable, DetectableLink, Subject, Suspects, least_effect, sought};
use record::metric::Kind;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use stats::compare::variance::Variance;
use stats::quantile::median;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// A hardware figure is not measured again where chance alone puts more nodes as far from their
/// peers.
const SCREENED: f64 = 0.25;
/// The same for a link, of which each costs the pairs of both its ends.
const SCREENED_LINK: f64 = 0.1;
/// Standard errors of a miss: the first measurement may miss one slow node in forty, and the
/// repetitions one more.
const MISSED: f64 = 1.96;
/// The same of a link: one in two hundred each.
const MISSED_LINK: f64 = 2.58;
/// Variance of a link's repetitions and of those of the worse of its ends, in variances of pairs.
const AGAIN_OF_PAIRS: f64 =
    (1.0 + FRAC_PI_2 / (Suspects::PARTNERS * LOOKS.len()) as f64 * LAST as f64) / LAST as f64;

/// Healthy nodes differ for good by so much less than the least effect, as standard deviations:
/// assumed before the repetitions say it.
const LASTING: f64 = 0.2;
/// The same with what the repetitions leave uncertain: what the report says that it sees.
const LASTS: f64 = 0.3;

/// A variance from few nodes is uncertain. The report assumes one that only this share of figures
/// exceeds.
const UNLIKELY: f64 = 0.1;

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
        let sought = sought(self.subject(test.field));
        distance + MISSED * error >= sought
            && tail(distance, error, others.freedom).1 <= SCREENED
            && self.shown_from(test.field, others.variance / narrower(others.freedom)) <= sought
    }

    /// Whether a link is measured again, though it does not stand out: where pairs scatter much, one
    /// that carries half is hidden.
    pub fn may_be_half(&self, link: &LinkTest) -> bool {
        let error = link.residual / link.z;
        link.residual + MISSED * error >= LN_2 && link.p <= SCREENED_LINK
    }

    fn is_hardware(&self, field: usize) -> bool {
        let subject = self.subject(field);
        let is_alone = subject.is_alone() && !subject.is_scatter;
        is_alone && subject.kind == Kind::Hardware
    }

    /// The standard error of all repetitions together, if they scatter as the nodes do the first time.
    fn repeated_error(&self, field: usize, once: f64) -> f64 {
        let lasting = LASTING * least_effect(self.subject(field));
        (lasting * lasting + once / f64::from(LAST)).sqrt()
    }

    /// The distance at which all repetitions together show a node, as a log.
    fn shown_from(&self, field: usize, once: f64) -> f64 {
        let significant = self.asked(LAST_SHARE, f64::INFINITY) * self.repeated_error(field, once);
        significant.max(least_effect(self.subject(field)))
    }

    /// The squared error that the repetitions of a node will have, as its figure scatters from node
    /// to node: what the second measurement takes as the error of a suspect ([`super::confirm`]).
    /// `lasts` is what the nodes differ by in figures of the kind, `wider` how many times the scatter may
    /// be what it seems.
    fn expected_error(
        &self,
        field: usize,
        once: Variance,
        lasts: Variance,
        wider: f64,
    ) -> Variance {
        let assumed = (LASTS * least_effect(self.subject(field))).powi(2);
        let assumed = Variance { variance: assumed, freedom: f64::INFINITY };
        let lasting = if lasts.variance > assumed.variance { lasts } else { assumed };
        let of_peers = 1.0 + OF_TRIMMED / Suspects::PEERS as f64;
        let own = self.fields[field].own;
        let scatter = (wider * (once.variance - lasting.variance)).max(own);
        let repeated = OF_TRIMMED * of_peers * scatter / f64::from(LAST);
        sum(&[
            Variance { variance: lasting.variance * of_peers, ..lasting },
            Variance { variance: repeated, freedom: once.freedom * f64::from(LAST) },
        ])
    }

    /// The standard errors, known with so many degrees of freedom, that chance exceeds at a rate
    /// over all tests.
    fn asked(&self, rate: f64, freedom: f64) -> f64 {
        errors(rate / self.tests.len().max(1) as f64, freedom)
    }

    /// The least slowdowns that are found in 95 % of sweeps, figure by figure.
    pub fn detectable(&self) -> Vec<Detectable> {
        // Without repetitions all of the difference counts as lasting.
        let lasting = lasting(self, |_| 0.0);
        let of = |(at, field): (usize, &super::peers::Field)| {
            let subject = self.subject(at);
            let is_level = subject.is_alone() && !subject.is_scatter;
            let first = field.variance().filter(|_| is_level)?;
            let once = first.variance;
            let is_screened = self.is_hardware(at) && self.shown_from(at, once) <= sought(subject);
            let lasts = *lasting.get(&like(self, at))?;
            let wider = wider(first.freedom)?;
            let Variance { variance, freedom } = self.expected_error(at, first, lasts, wider);
            let error = variance.sqrt();
            let shown = self.asked(LAST_SHARE, freedom) * error;
            let found = shown.max(least_effect(subject)) + MISSED * error;
            let peers = field.peers(0)?;
            let standard_errors = self.asked(SUSPECT_RATE, peers.freedom) + MISSED;
            let stands_out = standard_errors * (wider * peers.squared_error()).sqrt();
            let log = if is_screened { found } else { found.max(stands_out) };
            let (at, kind) = (field.subject, subject.kind);
            Some(Detectable { subject: at, kind, factor: log.exp() })
        };
        self.fields.iter().enumerate().filter_map(of).collect()
    }

    /// The least losses of a link that are found in 99 % of sweeps, by figure of pairs.
    pub fn detectable_links(&self) -> Vec<DetectableLink> {
        let of = |fit: &Fit| {
            let is_its = |subject: &Subject| subject.key == fit.key && !subject.is_alone();
            let subject = self.subjects.iter().position(is_its)?;
            let ends: Vec<f64> = (0..fit.links.len()).map(|link| fit.of_ends(link)).collect();
            let (ends, wider) = (median(&ends)?, wider(fit.freedom)?);
            let error = |of_pairs: f64| (wider * fit.variance * (ends + of_pairs)).sqrt();
            let (once, again) = (error(1.0), error(AGAIN_OF_PAIRS));
            let stands_out = (errors(SCREENED_LINK, fit.freedom) + MISSED_LINK) * once;
            let rate = LAST_SHARE / self.links.len().max(1) as f64;
            let shown = (errors(rate, fit.freedom) * again).max(LEAST_LINK.ln());
            let log = (shown + MISSED_LINK * again).max(stands_out);
            // A link that is not far out moves the effects of its own ends, by up to its share of them.
            Some(DetectableLink { subject, factor: (log / (1.0 - ends / 2.0).max(0.1)).exp() })
        };
        self.fits.iter().filter_map(of).collect()
    }
}

/// By how much a variance with so many degrees of freedom may exceed its estimate, as a factor.
fn wider(freedom: f64) -> Option<f64> {
    Some(freedom / ChiSquared::new(freedom).ok()?.inverse_cdf(UNLIKELY))
}

/// By how much it may fall short, as a factor.
fn narrower(freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(1.0, |of| of.inverse_cdf(1.0 - UNLIKELY) / freedom)
}

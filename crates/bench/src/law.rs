//! What a figure should be, and from what: an interval that should hold nine figures in ten, with
//! its parts.
//!
//! Terms are taken as independent, so their deviations add in quadrature: the sum of two intervals
//! is narrower than the sum of their ends. A law knows no machine by its name; an unknown input
//! widens the interval and is named. Which conditions of the machine a law counted in is data
//! ([`Condition`]), never a sentence.

use crate::experiment::{Known, Site};
pub use crate::ranges::{
    around, at_most, difference, end_by_end, inverse, product, range, scaled, sum,
};
use crate::widths::of_kernel;
use record::event::{Arithmetic, Bound, Condition, Prediction, Range, Shares, Term};
use record::key::CaseId;
use record::quantity::digits;
use std::fmt::Display;
use std::ops::{Add, Sub};

/// What a law may use: the site, and beside it the figures of earlier stages. Without those it is
/// the prior.
#[derive(Clone, Copy)]
pub struct Facts<'run> {
    pub site: &'run Site,
    /// Figures of earlier stages; none for the prior.
    pub known: Option<&'run Known>,
}

impl<'run> Facts<'run> {
    pub fn prior(site: &'run Site) -> Self {
        Facts { site, known: None }
    }

    /// The same without the earlier figures.
    #[must_use]
    pub fn as_prior(self) -> Self {
        Facts::prior(self.site)
    }

    /// A positive figure of an earlier stage, in its metric's unit.
    pub fn figure(self, experiment: &str, case: &CaseId, metric: &str) -> Option<f64> {
        self.known?.get(experiment, case, metric).filter(|value| *value > 0.0)
    }

    /// The fitted coefficient of a figure. A ratio of two measured times has none of its own: its
    /// law takes over those of the two.
    pub fn coefficient(self, experiment: &str, case: &CaseId, metric: &str) -> f64 {
        self.fitted(experiment, case, metric).map_or(1.0, |(_, coefficient)| coefficient)
    }

    /// The same with the name of the group that it is of.
    pub fn fitted(self, experiment: &str, case: &CaseId, metric: &str) -> Option<(String, f64)> {
        let group = of_kernel(self.site, experiment);
        self.site.fitted.group(&group, case, metric, self.known.is_none())
    }
}

/// An interval on its way to a prediction, and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// The interval, in the unit that its maker names.
    pub range: Range,
    shares: Shares,
    arithmetic: Arithmetic,
    conditions: Vec<Condition>,
    bound: Option<Bound>,
    unsourced: bool,
    /// The part of the likely value that no fitted coefficient scales.
    fixed: f64,
    /// The reason of what is widest in it.
    doubt: String,
}

const NOTHING: Range = range(0.0, 0.0, 0.0);

impl Law {
    /// What base hardware takes.
    pub fn hardware(range: Range, because: impl Display) -> Law {
        let shares = Shares { hardware: range, software: NOTHING };
        Law { shares, ..Law::from_range(range, because) }
    }

    /// What kernel and libraries take.
    pub fn software(range: Range, because: impl Display) -> Law {
        let shares = Shares { hardware: NOTHING, software: range };
        Law { shares, ..Law::from_range(range, because) }
    }

    /// A term with unknown shares, by its ends and its best guess.
    pub fn new(low: f64, likely: f64, high: f64, because: impl Display) -> Law {
        Law::from_range(range(low, likely, high), because)
    }

    /// A term with unknown shares.
    pub fn from_range(range: Range, because: impl Display) -> Law {
        let doubt = because.to_string();
        let terms = vec![Term { what: doubt.clone(), adds: Some(range) }];
        Law {
            range,
            shares: Shares { hardware: NOTHING, software: NOTHING },
            arithmetic: Arithmetic { terms, ..Arithmetic::default() },
            conditions: Vec::new(),
            bound: None,
            unsourced: false,
            fixed: 0.0,
            doubt,
        }
    }

    /// A measured figure within `share` (a ratio) to both sides.
    pub fn measured(value: f64, share: f64, because: impl Display) -> Law {
        Law::from_range(around(value, share), because)
    }

    #[must_use]
    pub fn and(mut self, because: impl Display) -> Law {
        self.arithmetic.terms.push(Term { what: because.to_string(), adds: None });
        self
    }

    /// So many of it, which its terms say.
    #[must_use]
    pub fn counted(mut self, count: f64) -> Law {
        let terms = self.arithmetic.terms.iter_mut();
        for term in terms.filter(|term| term.adds.is_some() && count != 1.0) {
            term.what = format!("{} × {}", digits(count), term.what);
        }
        self.times(count)
    }

    /// Takes another law's reasons and conditions, behind its own; a reason that both have stands
    /// once.
    #[must_use]
    pub fn with(mut self, other: &Law) -> Law {
        self.take(other, |own, _| own);
        self.beside(other)
    }

    /// Takes another law's terms, which change what own ones of the same name add.
    fn take(&mut self, other: &Law, change: fn(Range, Range) -> Range) {
        let terms = &mut self.arithmetic.terms;
        for Term { what, adds } in &other.arithmetic.terms {
            let changed = |own| adds.map(|adds| change(own, adds)).filter(|of| *of != NOTHING);
            match terms.iter_mut().find(|own| own.what == *what) {
                Some(own) => own.adds = changed(own.adds.unwrap_or(NOTHING)).or(own.adds),
                None => terms.push(Term { what: what.clone(), adds: changed(NOTHING) }),
            }
        }
    }

    fn beside(mut self, other: &Law) -> Law {
        self.count_in(&other.conditions);
        self.unsourced |= other.unsourced;
        if self.doubt.is_empty() {
            self.doubt.clone_from(&other.doubt);
        }
        self
    }

    /// The reason of the wider of two terms, for their sum.
    fn doubting(mut self, other: &Law) -> Law {
        let span = |range: Range| range.high - range.low;
        if span(other.range) > span(self.range) && !other.doubt.is_empty() {
            self.doubt.clone_from(&other.doubt);
        }
        self
    }

    /// The same reasons and conditions with another interval.
    #[must_use]
    pub fn with_range(mut self, range: Range) -> Law {
        let factor = if self.range.likely == 0.0 { 0.0 } else { range.likely / self.range.likely };
        self.shares.hardware = scaled(self.shares.hardware, factor);
        self.shares.software = scaled(self.shares.software, factor);
        self.fixed *= factor;
        self.range = range;
        let is_rate = self.arithmetic.rate_of.is_some();
        let factor = if is_rate { 1.0 / factor } else { factor };
        let mut added: Vec<&mut Range> = self.added().collect();
        match &mut *added {
            [only] if !is_rate => **only = range,
            all => all.iter_mut().for_each(|adds| **adds = scaled(**adds, factor)),
        }
        self
    }

    fn added(&mut self) -> impl Iterator<Item = &mut Range> {
        self.arithmetic.terms.iter_mut().filter_map(|term| term.adds.as_mut())
    }

    /// Says that a share of it is what a wire's nominal rate allows, which no coefficient scales.
    #[must_use]
    pub fn fixed(mut self, share: f64) -> Law {
        self.fixed = share * self.range.likely;
        self
    }

    /// The same reasons and conditions with an interval made from this one.
    #[must_use]
    pub fn reshaped(self, shape: impl FnOnce(Range) -> Range) -> Law {
        let range = shape(self.range);
        self.with_range(range)
    }

    /// Each end times a factor of its own.
    #[must_use]
    pub fn ends(self, low: f64, likely: f64, high: f64) -> Law {
        self.reshaped(|of| range(low * of.low, likely * of.likely, high * of.high))
    }

    /// The same with a high end of at least this.
    #[must_use]
    pub fn reaching(self, high: f64) -> Law {
        self.reshaped(|of| Range { high: of.high.max(high), ..of })
    }

    /// Applies a change if a condition holds.
    #[must_use]
    pub fn when(self, holds: bool, change: impl FnOnce(Law) -> Law) -> Law {
        if holds { change(self) } else { self }
    }

    /// Stretches both ends by factors of at least 1, and says why.
    #[must_use]
    pub fn widened(mut self, below: f64, above: f64, because: impl Display) -> Law {
        let because = because.to_string();
        if below * above * self.range.low > self.range.high && !because.is_empty() {
            self.doubt.clone_from(&because);
        }
        self.range.low /= below;
        self.range.high *= above;
        self.and(because)
    }

    /// Says that a number in it was written from memory: no source was looked up for it, and reports
    /// mark what rests on it.
    #[must_use]
    pub fn unsourced(self) -> Law {
        self.unsourced_if(true)
    }

    #[must_use]
    pub fn unsourced_if(mut self, holds: bool) -> Law {
        self.unsourced |= holds;
        self
    }

    /// Counts a condition in, so that it is no cause of a miss.
    #[must_use]
    pub fn counting(mut self, condition: Condition) -> Law {
        self.count_in(&[condition]);
        self
    }

    #[must_use]
    pub fn counting_if(self, holds: bool, condition: Condition) -> Law {
        if holds { self.counting(condition) } else { self }
    }

    fn count_in(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            if !self.conditions.contains(condition) {
                self.conditions.push(*condition);
            }
        }
    }

    #[must_use]
    pub fn times(self, count: f64) -> Law {
        let range = scaled(self.range, count);
        self.with_range(range)
    }

    /// Times an independent positive factor.
    #[must_use]
    pub fn by(mut self, factor: Range) -> Law {
        self.range = product(self.range, factor);
        self.fixed *= factor.likely;
        let certain = |of: Range| scaled(of, factor.likely);
        self.added().for_each(|adds| {
            *adds = if adds.low > 0.0 { product(*adds, factor) } else { certain(*adds) };
        });
        self.sharing(factor.likely, |share| product(share, factor))
    }

    /// `scale` over it; the shares keep their proportion.
    #[must_use]
    pub fn inverse(mut self, scale: f64) -> Law {
        let factor = scale / self.range.likely.powi(2);
        self.range = inverse(scale, self.range);
        self.arithmetic.rate_of = Some(scale);
        self.fixed *= factor;
        self.sharing(factor, |share| inverse(factor * share.likely.powi(2), share))
    }

    /// Changes the shares: one that may be zero by a factor, others with their ends.
    fn sharing(mut self, factor: f64, change: impl Fn(Range) -> Range) -> Law {
        let of = |share: Range| if share.low > 0.0 { change(share) } else { scaled(share, factor) };
        self.shares =
            Shares { hardware: of(self.shares.hardware), software: of(self.shares.software) };
        self
    }

    /// Attaches a limit that no correct figure passes.
    #[must_use]
    pub fn bounded(mut self, bound: impl Into<Option<Bound>>) -> Law {
        self.bound = bound.into();
        self
    }

    /// The sentence: one reason after another.
    pub fn because(&self) -> String {
        let named = self.arithmetic.terms.iter().map(|term| &*term.what);
        named.filter(|what| !what.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The law as a prediction in the metric's unit.
    pub fn prediction(self) -> Prediction {
        let because = self.because();
        let told = self.shares.hardware.likely + self.shares.software.likely;
        let is_whole = (told - self.range.likely).abs() <= 0.01 * self.range.likely.abs();
        Prediction {
            range: Some(self.range),
            because,
            bound: self.bound,
            conditions: self.conditions,
            shares: is_whole.then_some(self.shares),
            unsourced: self.unsourced,
            doubt: Some(self.doubt).filter(|doubt| !doubt.is_empty()),
            otherwise: None,
            fixed: if self.range.likely > 0.0 { self.fixed / self.range.likely } else { 0.0 },
            most: None,
            arithmetic: self.arithmetic,
        }
    }
}

impl From<Law> for Prediction {
    fn from(law: Law) -> Prediction {
        law.prediction()
    }
}

impl Add for Law {
    type Output = Law;

    fn add(self, other: Law) -> Law {
        let mut this = self.doubting(&other);
        this.range = sum(this.range, other.range);
        this.fixed += other.fixed;
        this.shares.hardware = sum(this.shares.hardware, other.shares.hardware);
        this.shares.software = sum(this.shares.software, other.shares.software);
        this.take(&other, sum);
        this.beside(&other)
    }
}

impl Add<Option<Law>> for Law {
    type Output = Law;

    fn add(self, other: Option<Law>) -> Law {
        match other {
            Some(other) => self + other,
            None => self,
        }
    }
}

impl Sub for Law {
    type Output = Law;

    fn sub(self, other: Law) -> Law {
        let mut this = self.doubting(&other);
        this.range = difference(this.range, other.range);
        this.shares.hardware = difference(this.shares.hardware, other.shares.hardware);
        this.shares.software = difference(this.shares.software, other.shares.software);
        this.take(&other, difference);
        this.beside(&other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Law, around, difference, inverse, product, range, sum};
    use record::event::Condition;

    #[test]
    fn terms_add_with_their_shares_reasons_and_conditions() {
        let entry =
            Law::hardware(range(7.0, 10.0, 14.0), "10 ns of entry").counting(Condition::Seccomp);
        let work = Law::software(range(6.0, 10.0, 13.0), "a pipe locked").and("a page taken");
        let prediction = (entry + work).times(2.0).prediction();
        let range = prediction.range.unwrap();
        assert_eq!((range.low, range.likely, range.high), (30.0, 40.0, 50.0));
        let reasons: Vec<&str> = prediction.because.split("; ").collect();
        assert_eq!(reasons.len(), 3);
        assert!(reasons[0].ends_with("10 ns of entry") && reasons[2] == "a page taken");
        assert_eq!(prediction.conditions, [Condition::Seccomp]);
        let shares = prediction.shares.unwrap();
        assert_eq!((shares.hardware.likely, shares.software.likely), (20.0, 20.0));
    }

    #[test]
    fn one_number_from_memory_marks_all_that_rests_on_it() {
        let looked_up = || Law::hardware(range(1.0, 2.0, 3.0), "a bus");
        let usual = || Law::software(range(1.0, 2.0, 3.0), "work").unsourced();
        assert!(!looked_up().prediction().unsourced);
        for law in [looked_up() + usual(), usual() - looked_up(), looked_up().with(&usual())] {
            assert!(law.times(2.0).prediction().unsourced);
        }
    }

    #[test]
    fn a_law_with_a_term_of_unknown_share_has_no_shares() {
        let law =
            Law::measured(100.0, 0.1, "measured") + Law::software(range(1.0, 20.0, 30.0), "work");
        assert_eq!(law.clone().prediction().shares, None);
        assert_eq!(Law::from_range(law.range, "").because(), "");
    }

    #[test]
    fn rates_and_products_keep_the_proportion_of_shares() {
        let time = Law::hardware(range(5.0, 10.0, 20.0), "entry")
            + Law::software(range(20.0, 30.0, 60.0), "work");
        let shares = |law: Law| law.prediction().shares.map(|of| (of.hardware, of.software));
        let (quarter, rest) = shares(time.clone().inverse(8e3)).unwrap();
        assert_eq!(quarter, range(25.0, 50.0, 100.0));
        assert_eq!(rest, range(75.0, 150.0, 225.0));
        let (own, kernels) = shares(time.by(range(2.0, 2.0, 2.0))).unwrap();
        assert_eq!((own.likely, kernels.likely), (20.0, 60.0));
        let whole = Law::hardware(range(1.0, 2.0, 4.0), "a bus").by(range(1.0, 3.0, 9.0));
        let alone = shares(whole.clone()).unwrap();
        assert_eq!(alone, (whole.range, range(0.0, 0.0, 0.0)));
    }

    #[test]
    fn independent_parts_add_in_quadrature() {
        let total = sum(range(7.0, 10.0, 14.0), range(6.0, 10.0, 13.0));
        assert_eq!((total.low, total.likely, total.high), (15.0, 20.0, 25.0));
        let left = difference(range(97.0, 100.0, 104.0), range(7.0, 10.0, 14.0));
        assert_eq!((left.low, left.likely, left.high), (85.0, 90.0, 95.0));
    }

    #[test]
    fn products_keep_their_order_and_certain_factors_add_nothing() {
        let exact = product(range(2.0, 4.0, 8.0), range(3.0, 3.0, 3.0));
        assert!((exact.low - 6.0).abs() < 1e-9 && (exact.high - 24.0).abs() < 1e-9);
        let both = product(range(1.0, 2.0, 4.0), range(1.0, 2.0, 4.0));
        assert!(both.low > 1.0 && both.low < 2.0 && both.high < 16.0 && both.high > 8.0);
        let time = inverse(1e9, range(1e9, 2e9, 4e9));
        assert_eq!((time.low, time.likely, time.high), (0.25, 0.5, 1.0));
        assert_eq!(around(100.0, 0.25), range(80.0, 100.0, 125.0));
    }
}

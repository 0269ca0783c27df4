//! Physics of machines: laws by resource over a site's description and earlier figures.
//!
//! A law returns an [`Estimate`]: an interval that should hold nine figures in ten, with the
//! sentence that says from what. Parts are taken as independent, so their deviations add in
//! quadrature: the sum of two intervals is narrower than the sum of their ends. No law knows a
//! machine by its name, and an input that nobody told widens the interval and is named.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod device;
pub mod fs;
pub mod memory;
pub mod net;
pub mod noise;
pub mod os;

use bench::experiment::predicted;
use record::event::{Prediction, Range};

/// An interval on its way to a prediction, and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The interval, in the unit that the law names.
    pub range: Range,
    /// Inputs and their sources, without a full stop.
    pub because: String,
}

impl Estimate {
    /// An estimate from its ends and its best guess.
    pub fn new(low: f64, likely: f64, high: f64, because: impl Into<String>) -> Self {
        Estimate {
            range: Range { low, likely, high },
            because: because.into(),
        }
    }

    /// Adds to the sentence.
    #[must_use]
    pub fn and(mut self, because: &str) -> Self {
        self.because.push_str("; ");
        self.because.push_str(because);
        self
    }

    /// Stretches both ends by factors of at least 1, and says why.
    #[must_use]
    pub fn widened(mut self, below: f64, above: f64, because: &str) -> Self {
        self.range.low /= below;
        self.range.high *= above;
        self.and(because)
    }

    /// As a prediction in the metric's unit.
    pub fn prediction(self) -> Prediction {
        let Range { low, likely, high } = self.range;
        predicted(low, likely, high, self.because)
    }
}

/// The interval of `a + b`, independent of each other.
pub fn sum(a: Range, b: Range) -> Range {
    let likely = a.likely + b.likely;
    Range {
        low: likely - (a.likely - a.low).hypot(b.likely - b.low),
        likely,
        high: likely + (a.high - a.likely).hypot(b.high - b.likely),
    }
}

/// The interval of `a - b`, independent of each other; it may reach below zero.
pub fn difference(a: Range, b: Range) -> Range {
    let negative = Range {
        low: -b.high,
        likely: -b.likely,
        high: -b.low,
    };
    sum(a, negative)
}

/// The interval of `a x b`, positive and independent of each other.
pub fn product(a: Range, b: Range) -> Range {
    let likely = a.likely * b.likely;
    let below = (a.likely / a.low).ln().hypot((b.likely / b.low).ln());
    let above = (a.high / a.likely).ln().hypot((b.high / b.likely).ln());
    Range {
        low: likely * (-below).exp(),
        likely,
        high: likely * above.exp(),
    }
}

/// The interval of `scale / a`, for positive `a`.
pub fn inverse(scale: f64, a: Range) -> Range {
    Range {
        low: scale / a.high,
        likely: scale / a.likely,
        high: scale / a.low,
    }
}

/// An interval from its ends and its best guess.
pub const fn range(low: f64, likely: f64, high: f64) -> Range {
    Range { low, likely, high }
}

/// An interval times an exact number.
pub fn scaled(of: Range, factor: f64) -> Range {
    range(of.low * factor, of.likely * factor, of.high * factor)
}

/// A figure as an interval of `share` (a ratio) to both sides.
pub fn around(value: f64, share: f64) -> Range {
    range(value / (1.0 + share), value, value * (1.0 + share))
}

#[cfg(test)]
mod tests {
    use super::{around, difference, inverse, product, range, sum};

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

//! Arithmetic of intervals, independent of each other.

use record::event::Range;

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
    let negative = Range { low: -b.high, likely: -b.likely, high: -b.low };
    sum(a, negative)
}

/// The interval whose ends follow from the same ends of two: the lesser, the greater, or the sum of
/// what is slow and quick together.
pub fn end_by_end(a: Range, b: Range, of: fn(f64, f64) -> f64) -> Range {
    range(of(a.low, b.low), of(a.likely, b.likely), of(a.high, b.high))
}

/// The interval of `a x b`, positive and independent of each other.
pub fn product(a: Range, b: Range) -> Range {
    let likely = a.likely * b.likely;
    let below = (a.likely / a.low).ln().hypot((b.likely / b.low).ln());
    let above = (a.high / a.likely).ln().hypot((b.high / b.likely).ln());
    Range { low: likely * (-below).exp(), likely, high: likely * above.exp() }
}

/// The interval of `scale / a`, for positive `a`.
pub fn inverse(scale: f64, a: Range) -> Range {
    Range { low: scale / a.high, likely: scale / a.likely, high: scale / a.low }
}

/// An interval from its ends and its best guess.
pub const fn range(low: f64, likely: f64, high: f64) -> Range {
    Range { low, likely, high }
}

/// A range cut off at an upper limit.
pub fn at_most(range: Range, limit: f64) -> Range {
    Range {
        low: range.low.min(limit),
        likely: range.likely.min(limit),
        high: range.high.min(limit),
    }
}

/// An interval times an exact number.
pub fn scaled(of: Range, factor: f64) -> Range {
    range(of.low * factor, of.likely * factor, of.high * factor)
}

/// A figure as an interval of `share` (a ratio) to both sides.
pub fn around(value: f64, share: f64) -> Range {
    range(value / (1.0 + share), value, value * (1.0 + share))
}

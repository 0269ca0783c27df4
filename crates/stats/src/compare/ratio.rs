//! The change of one figure between two runs, with its interval.

use crate::interval::Interval;

/// A changed figure: new over base, or new minus base where a ratio has no meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// New over base, all values positive.
    Ratio {
        value: f64,
        /// Its interval; `None` where either value has none.
        interval: Option<Interval>,
    },
    /// New minus base, in the figure's unit.
    Difference {
        value: f64,
        /// Its interval; `None` where either value has none.
        interval: Option<Interval>,
    },
}

impl Change {
    /// New over base; `None` where there is only a difference.
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Change::Ratio { value, .. } => Some(*value),
            Change::Difference { .. } => None,
        }
    }

    /// New minus base, in the figure's unit; `None` where there is a ratio.
    pub fn difference(&self) -> Option<f64> {
        match self {
            Change::Ratio { .. } => None,
            Change::Difference { value, .. } => Some(*value),
        }
    }

    pub fn interval(&self) -> Option<Interval> {
        let (Change::Ratio { interval, .. } | Change::Difference { interval, .. }) = self;
        *interval
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub value: f64,
    pub interval: Option<Interval>,
}

impl Point {
    /// Whether it is, with its interval, above zero, so that it has a logarithm.
    pub fn is_positive(&self) -> bool {
        self.value > 0.0 && self.interval.is_none_or(|i| i.low > 0.0)
    }
}

/// The change from `base` to `new`. A ratio where both, with their intervals, are positive. The
/// interval combines the two by the method of variance estimates recovery (Zou and Donner 2008),
/// on logarithms for a ratio: each side's distance to the value stands for its variance. For a
/// ratio `between` is added likewise: how far the logarithm of the ratio reaches in two runs of an
/// unchanged machine.
pub fn change(base: Point, new: Point, between: f64) -> Change {
    if base.is_positive() && new.is_positive() {
        let interval = recovered(log(base), log(new), between);
        Change::Ratio {
            value: new.value / base.value,
            interval: interval.map(|ends| ends.map(f64::exp)),
        }
    } else {
        Change::Difference { value: new.value - base.value, interval: recovered(base, new, 0.0) }
    }
}

/// A positive point in logarithms.
pub(super) fn log(point: Point) -> Point {
    Point { value: point.value.ln(), interval: point.interval.map(|ends| ends.map(f64::ln)) }
}

fn recovered(base: Point, new: Point, between: f64) -> Option<Interval> {
    let (b, n) = (base.interval?, new.interval?);
    let reach = |a: f64, b: f64| (a * a + b * b + between * between).sqrt();
    let difference = new.value - base.value;
    Some(Interval {
        low: difference - reach(new.value - n.low, b.high - base.value),
        high: difference + reach(n.high - new.value, base.value - b.low),
        confidence: b.confidence.min(n.confidence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::between::BetweenRuns;

    fn point(low: f64, value: f64, high: f64) -> Point {
        let interval = Some(Interval { low, high, confidence: 0.96 });
        Point { value, interval }
    }

    #[test]
    fn equal_points_give_one_with_root_two_of_the_width() {
        let p = point(99.0, 100.0, 101.0);
        let Change::Ratio { value, interval } = change(p, p, 0.0) else {
            panic!("positive points have a ratio")
        };
        let half = interval.unwrap().half_width();
        assert_eq!(value, 1.0);
        assert!((half - 2.0_f64.sqrt() * 0.01).abs() < 1e-4, "{half}");
    }

    #[test]
    fn what_runs_differ_by_widens() {
        let p = point(100.0, 100.0, 100.0);
        let Change::Ratio { interval, .. } = change(p, p, BetweenRuns::default_of(0.015).reach())
        else {
            panic!("positive points have a ratio")
        };
        let expected = 1.96 * 2.0_f64.sqrt() * 0.015;
        assert!((interval.unwrap().high.ln() - expected).abs() < 1e-9);
    }

    #[test]
    fn what_may_be_zero_has_a_difference() {
        let found = change(point(-0.1, 0.2, 0.5), point(0.1, 0.4, 0.7), 0.1);
        let Change::Difference { value, interval } = found else { panic!("{found:?}") };
        assert!((value - 0.2).abs() < 1e-12);
        assert!((interval.unwrap().half_width() - 0.3 * 2.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn without_intervals_the_ratio_stands_alone() {
        let bare = Point { value: 2.0, interval: None };
        assert_eq!(change(bare, bare, 0.1), Change::Ratio { value: 1.0, interval: None });
    }
}

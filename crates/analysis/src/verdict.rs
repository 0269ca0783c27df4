//! What became of a prediction.

use record::event::Range;
use record::metric::Better;
use record::unit::Unit;

/// How a value lies to what was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The value's interval overlaps the range, ends included.
    Within,
    /// Outside on the good side, for times and rates.
    Faster,
    /// Outside on the bad side, for times and rates.
    Slower,
    /// Above the interval, where speed is no word for it (sizes, counts, shares).
    Above,
    /// Below the interval, likewise.
    Below,
    /// Beyond a bound that no correct figure passes.
    Impossible,
    /// The range is so wide that it says nothing, or there is none: a miss in every score.
    Unpredicted,
}

/// Every verdict with its spelling in files and reports.
pub const VERDICTS: &[(Verdict, &str)] = &[
    (Verdict::Within, "within"),
    (Verdict::Faster, "faster than predicted"),
    (Verdict::Slower, "slower than predicted"),
    (Verdict::Above, "above prediction"),
    (Verdict::Below, "below prediction"),
    (Verdict::Impossible, "impossible"),
    (Verdict::Unpredicted, "not predictable from here"),
];

/// What people read for [`Verdict::Within`] where the printed value lies outside the range, and only
/// its interval overlaps it.
pub const OVERLAPS: &str = "overlaps";

impl Verdict {
    /// The spelling in files and reports.
    pub fn text(self) -> &'static str {
        VERDICTS.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, text)| text)
    }
}

/// The verdict of an interval: one that overlaps the range is within it, ends included. A range that
/// says nothing ([`Range::predicts`]) has a verdict of its own.
pub fn judge(ci: (f64, f64), range: &Range, unit: Unit, better: Better) -> Verdict {
    if !range.predicts(unit) {
        return Verdict::Unpredicted;
    }
    if range.overlaps(ci) {
        return Verdict::Within;
    }
    let above = ci.0 > range.high;
    match (is_speed(unit), better) {
        (true, Better::Lower) if above => Verdict::Slower,
        (true, Better::Lower) => Verdict::Faster,
        (true, Better::Higher) if above => Verdict::Faster,
        (true, Better::Higher) => Verdict::Slower,
        _ if above => Verdict::Above,
        _ => Verdict::Below,
    }
}

/// Whether values of a unit are times or rates, so that `faster` and `slower` are words for them.
pub fn is_speed(unit: Unit) -> bool {
    unit.is_time()
        || matches!(
            unit,
            Unit::Cycle | Unit::BPerS | Unit::OpPerS | Unit::FlopPerS | Unit::Hz | Unit::NsPerB
        )
}

#[cfg(test)]
mod tests {
    use super::{Verdict, judge};
    use record::event::Range;
    use record::metric::Better;
    use record::unit::Unit;

    #[test]
    fn words_respect_the_better_direction() {
        let range = Range { low: 10.0, likely: 15.0, high: 20.0 };
        for (value, unit, better, expected) in [
            ((9.0, 10.0), Unit::Ns, Better::Lower, Verdict::Within),
            ((20.0, 30.0), Unit::Ns, Better::Lower, Verdict::Within),
            ((5.0, 50.0), Unit::Ns, Better::Lower, Verdict::Within),
            ((9.0, 9.9), Unit::Ns, Better::Lower, Verdict::Faster),
            ((20.1, 21.0), Unit::Ns, Better::Lower, Verdict::Slower),
            ((20.1, 21.0), Unit::BPerS, Better::Higher, Verdict::Faster),
            ((9.0, 9.9), Unit::BPerS, Better::Higher, Verdict::Slower),
            ((9.0, 9.9), Unit::Hz, Better::None, Verdict::Below),
            ((21.0, 22.0), Unit::B, Better::None, Verdict::Above),
            ((21.0, 22.0), Unit::Ratio, Better::Lower, Verdict::Above),
        ] {
            assert_eq!(judge(value, &range, unit, better), expected, "{value:?} {unit}");
        }
        let wide = Range { low: 10.0, likely: 15.0, high: 101.0 };
        for value in [(12.0, 13.0), (500.0, 501.0)] {
            assert_eq!(judge(value, &wide, Unit::Ns, Better::Lower), Verdict::Unpredicted);
        }
    }
}

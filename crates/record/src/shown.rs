//! Values with their intervals as people read them: scaled, with as many digits as the interval
//! supports.

use crate::event::Range;
use crate::quantity::{render, scale};
use crate::unit::Unit;

/// Digits shown of a value that is known better than any reader needs.
const MOST_DIGITS: i32 = 7;

/// Decimal places that are ever shown.
const MOST_PLACES: usize = 9;

/// Ends of a range that are further apart than this factor have each its own scale.
const FAR_APART: f64 = 50.0;

/// A value and its interval in one scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// `91.2 ns`.
    pub value: String,
    /// `[90.1, 92.0]`, in the value's scale; empty without an interval.
    pub interval: String,
    /// `± 1.1`: the greater distance to an end, in the value's scale; empty without an interval.
    pub plus_minus: String,
}

/// A value with its interval; digits end where the interval's half width has two (one from 3 up).
pub fn shown(value: f64, ends: Option<(f64, f64)>, unit: Unit) -> Shown {
    let finite =
        value.is_finite() && ends.is_none_or(|(low, high)| low.is_finite() && high.is_finite());
    let Some((low, high)) = ends.filter(|_| finite) else {
        return Shown {
            value: render(value, unit),
            interval: String::new(),
            plus_minus: String::new(),
        };
    };
    let (factor, name) = scale(value, unit);
    let (value, low, high) = (value / factor, low / factor, high / factor);
    let distance = (high - value).max(value - low);
    let places = places(value, distance);
    Shown {
        value: format!("{value:.places$} {name}").trim_end().to_owned(),
        interval: format!("[{low:.places$}, {high:.places$}]"),
        plus_minus: format!("± {distance:.places$}"),
    }
}

/// Decimal places at which a half width shows one or two digits, both in one scale.
pub fn places(value: f64, half_width: f64) -> usize {
    let magnitude = |x: f64| x.abs().log10().floor() as i32;
    let most = if value == 0.0 {
        MOST_DIGITS
    } else {
        MOST_DIGITS - 1 - magnitude(value)
    };
    let wanted = if half_width > 0.0 {
        let first = half_width / 10_f64.powi(magnitude(half_width));
        -magnitude(half_width) + i32::from(first < 3.0)
    } else if value.fract() == 0.0 {
        0
    } else {
        // Every round gave the same: four digits.
        3 - magnitude(value)
    };
    usize::try_from(wanted.min(most).clamp(0, 9)).unwrap_or(0)
}

/// A predicted interval, `60 – 120 ns`: both ends in the scale of the upper one and to the same
/// place.
pub fn range(range: &Range, unit: Unit) -> String {
    // A published machine's estimate may be one number.
    if range.low == range.high {
        return render(range.likely, unit);
    }
    if range.low > 0.0 && range.high / range.low > FAR_APART {
        return format!("{} – {}", render(range.low, unit), render(range.high, unit));
    }
    let (factor, name) = scale(range.high, unit);
    let (low, high) = (range.low / factor, range.high / factor);
    let is_whole = low.fract() == 0.0 && high.fract() == 0.0;
    let size = low.abs().max(high.abs() / 10.0);
    let magnitude = if size > 0.0 {
        size.log10().floor() as i32
    } else {
        0
    };
    let digits = if size < 1.0 { 1 } else { 2 };
    let fewest = if is_whole {
        0
    } else {
        usize::try_from(digits - magnitude).unwrap_or(0)
    };
    let text = |places: usize| (format!("{low:.places$}"), format!("{high:.places$}"));
    // A narrow range gets the digits that tell its ends apart.
    let (low, high) = (fewest..=MOST_PLACES)
        .map(text)
        .find(|(low, high)| low != high)
        .unwrap_or_else(|| text(fewest));
    format!("{low} – {high} {name}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{range, shown};
    use crate::event::Range;
    use crate::unit::Unit;

    #[test]
    fn digits_match_the_interval() {
        for (value, ends, unit, text, interval, distance) in [
            (
                91.234,
                (90.12, 92.04),
                Unit::Ns,
                "91.2 ns",
                "[90.1, 92.0]",
                "± 1.1",
            ),
            (91.234, (87.12, 92.04), Unit::Ns, "91 ns", "[87, 92]", "± 4"),
            (
                1235.0,
                (1230.0, 1240.0),
                Unit::Ns,
                "1.235 µs",
                "[1.230, 1.240]",
                "± 0.005",
            ),
            (
                2.445e9,
                (2.444_999e9, 2.445_001e9),
                Unit::Hz,
                "2.445000 GHz",
                "[2.444999, 2.445001]",
                "± 0.000001",
            ),
            (
                -0.4,
                (-1.2, 0.3),
                Unit::Ns,
                "-0.4 ns",
                "[-1.2, 0.3]",
                "± 0.8",
            ),
            (
                0.25,
                (0.25, 0.25),
                Unit::Ratio,
                "0.2500",
                "[0.2500, 0.2500]",
                "± 0.0000",
            ),
            (0.0, (0.0, 0.0), Unit::Count, "0", "[0, 0]", "± 0"),
        ] {
            let found = shown(value, Some(ends), unit);
            assert_eq!(
                (
                    found.value.as_str(),
                    found.interval.as_str(),
                    found.plus_minus.as_str()
                ),
                (text, interval, distance)
            );
        }
        assert_eq!(shown(91.234, None, Unit::Ns).value, "91.2 ns");
        assert_eq!(shown(f64::NAN, None, Unit::Ns).value, "-");
    }

    #[test]
    fn ranges_share_a_scale() {
        let of = |low, high| Range {
            low,
            likely: low,
            high,
        };
        assert_eq!(range(&of(600.0, 1200.0), Unit::Ns), "0.60 – 1.20 µs");
        assert_eq!(range(&of(0.8, 0.95), Unit::Ratio), "0.80 – 0.95");
        assert_eq!(
            range(&of(0.999_995, 1.000_005), Unit::Ratio),
            "0.99999 – 1.00001"
        );
        assert_eq!(range(&of(0.007_98, 0.02), Unit::Ns), "0.0080 – 0.0200 ns");
    }
}

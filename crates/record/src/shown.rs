//! Values with their intervals as people read them: scaled, with as many digits as the interval
//! supports.

use crate::event::Range;
use crate::quantity::{digits, render, scale};
use crate::unit::Unit;

/// Digits shown of a value that is known better than any reader needs.
const MOST_DIGITS: i32 = 7;

/// Decimal places that are ever shown.
const MOST_PLACES: i32 = 9;

/// Ends of a range that are further apart than this factor have each its own scale.
const FAR_APART: f64 = 50.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Written like this: `91.2 ns`.
    pub value: String,
    /// `[90.1, 92.0]`, in the value's scale; `[12.0 ns, 3.99 ms]` where the ends are far apart;
    /// empty without an interval.
    pub interval: String,
}

/// A value with its interval; digits end where the interval's half width has two (one from 3 up),
/// but not before the value and both ends have two.
pub fn shown(value: f64, ends: Option<(f64, f64)>, unit: Unit) -> Shown {
    let (factor, name) = scale(value, unit);
    let is_finite = (value / factor).is_finite();
    let Some((low, high)) = finite(value, ends).filter(|_| is_finite) else {
        let value = match is_finite {
            true => format!("{} {name}", digits(value / factor)).trim_end().to_owned(),
            false => "-".to_owned(),
        };
        return Shown { value, interval: String::new() };
    };
    let is_far = is_far(value, low, high);
    let places = places(value, (!is_far).then_some((low, high)), unit);
    let text = |value: f64| match is_far {
        true => render(value, unit),
        false => decimal(value / factor, places),
    };
    Shown {
        value: format!("{} {name}", decimal(value / factor, places)).trim_end().to_owned(),
        interval: format!("[{}, {}]", text(low), text(high)),
    }
}

/// Significant digits that [`shown`] gives a value; what is computed from it has no more.
pub fn significant(value: f64, ends: Option<(f64, f64)>, unit: Unit) -> usize {
    let ends = finite(value, ends).filter(|(low, high)| !is_far(value, *low, *high));
    let scaled = value / scale(value, unit).0;
    if scaled == 0.0 || !scaled.is_finite() {
        return 0;
    }
    let before = magnitude(scaled) + 1;
    let places = i32::try_from(places(value, ends, unit)).unwrap_or(0);
    usize::try_from(before + places).unwrap_or(0)
}

fn finite(value: f64, ends: Option<(f64, f64)>) -> Option<(f64, f64)> {
    let (low, high) = ends?;
    [value, low, high].iter().all(|one| one.is_finite()).then_some((low, high))
}

/// Whether positive ends, or a value above zero and its upper end, have no common scale.
fn is_far(value: f64, low: f64, high: f64) -> bool {
    let least = if low == 0.0 { value } else { low };
    least > 0.0 && high / least > FAR_APART
}

/// The place of a number's first digit: 0 from 1 to below 10.
fn magnitude(number: f64) -> i32 {
    // A number beyond the greatest of its unit is infinite in the unit's scale.
    number.abs().log10().floor().clamp(-400.0, 400.0) as i32
}

/// Digits, with neither digits nor sign of what is nothing at its places.
fn decimal(number: f64, places: usize) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{number:.places$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// Decimal places of a value and its ends, in the value's scale: the half width shows one or two
/// digits; the value and the ends at least two, unless zero lies between the ends, where no digit
/// of the value is certain. Without ends, those for two digits of the value. Never more than
/// [`MOST_DIGITS`].
fn places(value: f64, ends: Option<(f64, f64)>, unit: Unit) -> usize {
    let (factor, _) = scale(value, unit);
    let value = value / factor;
    let two = |number: f64| if number == 0.0 { 0 } else { 1 - magnitude(number) };
    let most = MOST_DIGITS - if value == 0.0 { 0 } else { 1 + magnitude(value) };
    let wanted = match ends.map(|(low, high)| (low / factor, high / factor)) {
        None => two(value),
        Some((low, high)) => {
            let half_width = (high - value).max(value - low);
            let wanted = if half_width > 0.0 {
                let first = half_width / 10_f64.powi(magnitude(half_width));
                -magnitude(half_width) + i32::from(first < 3.0)
            } else if value.fract() == 0.0 && (unit != Unit::Ratio || value == 0.0) {
                0
            } else {
                // Every round gave the same: four digits.
                3 - magnitude(value)
            };
            match low < 0.0 && high > 0.0 {
                true => wanted,
                false => [value, low, high]
                    .into_iter()
                    .filter(|_| half_width > 0.0)
                    .map(two)
                    .fold(wanted, i32::max),
            }
        }
    };
    usize::try_from(wanted.min(most).clamp(0, MOST_PLACES)).unwrap_or(0)
}

/// A predicted interval, `60 – 120 ns`: both ends in the scale of the upper one and to the same
/// place, the lower one to two digits.
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
    let magnitude = if size > 0.0 { size.log10().floor() as i32 } else { 0 };
    let fewest = if is_whole { 0 } else { usize::try_from(1 - magnitude).unwrap_or(0) };
    let text = |places: usize| (format!("{low:.places$}"), format!("{high:.places$}"));
    // A narrow range gets enough digits to distinguish its ends.
    let most = usize::try_from(MOST_PLACES).unwrap_or(0);
    let (low, high) =
        (fewest..=most).map(text).find(|(low, high)| low != high).unwrap_or_else(|| text(fewest));
    format!("{low} – {high} {name}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{range, shown, significant};
    use crate::event::Range;
    use crate::unit::Unit;

    #[test]
    fn digits_match_the_interval() {
        for (value, ends, unit, text, interval) in [
            (91.234, (90.12, 92.04), Unit::Ns, "91.2 ns", "[90.1, 92.0]"),
            (91.234, (87.12, 92.04), Unit::Ns, "91 ns", "[87, 92]"),
            (1235.0, (1230.0, 1240.0), Unit::Ns, "1.235 µs", "[1.230, 1.240]"),
            (2.445e9, (2.444_999e9, 2.445_001e9), Unit::Hz, "2.445000 GHz", "[2.444999, 2.445001]"),
            (-0.4, (-1.2, 0.3), Unit::Ns, "-0.4 ns", "[-1.2, 0.3]"),
            (0.25, (0.25, 0.25), Unit::Ratio, "0.2500", "[0.2500, 0.2500]"),
            (0.0, (0.0, 0.0), Unit::Count, "0", "[0, 0]"),
            (1.0, (1.0, 1.0), Unit::Ratio, "1.000", "[1.000, 1.000]"),
            // Two digits of the value and of each end, wherever the half width ends.
            (3.8e6, (0.125e6, 3.99e6), Unit::Ns, "3.80 ms", "[0.12, 3.99]"),
            (6.1e9, (5.2e9, 9.6e9), Unit::BPerS, "6.1 GB/s", "[5.2, 9.6]"),
            (0.0003, (0.0, 0.012), Unit::Ratio, "0.00030", "[0, 0.01200]"),
            (3.8e6, (12_500.0, 8.4e6), Unit::Ns, "3.8 ms", "[12.5 µs, 8.40 ms]"),
            // No sign of what is nothing.
            (-0.03, (-1.2, 0.3), Unit::Ns, "0.0 ns", "[-1.2, 0.3]"),
        ] {
            let found = shown(value, Some(ends), unit);
            assert_eq!((found.value.as_str(), found.interval.as_str()), (text, interval));
        }
        assert_eq!(shown(91.234, None, Unit::Ns).value, "91.2 ns");
        assert_eq!(shown(f64::NAN, None, Unit::Ns).value, "-");
        let greatest = f64::MAX;
        assert_eq!(shown(greatest, Some((1.0, greatest)), Unit::Percent).value, "-");
        assert_eq!(shown(1.0, Some((0.5, greatest)), Unit::Percent).value, "100 %");
        for (value, ends, digits) in [
            (3.8e6, Some((12_500.0, 8.4e6)), 2),
            (645e3, Some((224e3, 1299e3)), 3),
            (91.234, Some((90.12, 92.04)), 3),
            (0.0, Some((0.0, 0.0)), 0),
        ] {
            assert_eq!(significant(value, ends, Unit::Ns), digits, "{value}");
        }
    }

    #[test]
    fn ranges_share_a_scale() {
        let of = |low, high| Range { low, likely: low, high };
        assert_eq!(range(&of(600.0, 1200.0), Unit::Ns), "0.60 – 1.20 µs");
        assert_eq!(range(&of(96.64, 159.3), Unit::Ns), "97 – 159 ns");
        assert_eq!(range(&of(8.862, 17.19), Unit::Ns), "8.9 – 17.2 ns");
        assert_eq!(range(&of(0.8, 0.95), Unit::Ratio), "0.80 – 0.95");
        assert_eq!(range(&of(0.999_995, 1.000_005), Unit::Ratio), "0.99999 – 1.00001");
        assert_eq!(range(&of(0.007_98, 0.02), Unit::Ns), "0.0080 – 0.0200 ns");
    }
}

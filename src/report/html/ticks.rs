//! Tick labels in people's units.

use record::quantity::{render, scale};
use record::unit::Unit;

/// Tick labels that an axis has at most.
const MOST_TICKS: usize = 12;
/// Names that an axis has at most: more would lie over each other.
const MOST_NAMES: usize = 40;

/// Where ticks stand between two values, and their labels; none where rounding would label two
/// alike, or no unit or range is known.
pub(crate) fn ticks(
    unit: Option<Unit>,
    is_log: bool,
    extent: Option<(f64, f64)>,
) -> Vec<(f64, String)> {
    let ticks = match (unit, extent) {
        (Some(unit), Some((low, high))) if is_log && low > 0.0 => log_ticks(low, high, unit),
        (Some(unit), Some((low, high))) if !is_log && high > low => linear_ticks(low, high, unit),
        _ => Vec::new(),
    };
    match ticks.windows(2).all(|pair| pair[0].1 != pair[1].1) {
        true => ticks,
        false => Vec::new(),
    }
}

/// Names at 0, 1, 2 …, thinned to what fits.
pub(crate) fn names(names: &[String]) -> Vec<(f64, String)> {
    let step = names.len().div_ceil(MOST_NAMES).max(1);
    let at = names.iter().enumerate().step_by(step);
    at.map(|(at, name)| (at as f64, name.clone())).collect()
}

/// Powers of two for bytes, 1-2-5 steps for the rest; thinned to what fits.
fn log_ticks(low: f64, high: f64, unit: Unit) -> Vec<(f64, String)> {
    let ticks: Vec<f64> = if unit == Unit::B {
        let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
        (first..=last)
            .map(|power| f64::from(power).exp2())
            .collect()
    } else {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        // Over many decades, each has one tick.
        let digits: &[f64] = match last - first > MOST_TICKS as i32 / 3 {
            true => &[1.0],
            false => &[1.0, 2.0, 5.0],
        };
        (first..=last)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
            .filter(|at| *at >= low / 2.0 && *at <= high * 2.0)
            .collect()
    };
    let step = ticks.len().div_ceil(MOST_TICKS).max(1);
    let is_bare = scale(1.0, unit).1.is_empty();
    let label = |at: f64| match is_bare && (1e-6..1e7).contains(&at) {
        true => (at, at.to_string()),
        false => (at, render(at, unit)),
    };
    ticks.into_iter().step_by(step).map(label).collect()
}

/// About six round values, with the digits that tell them apart.
fn linear_ticks(low: f64, high: f64, unit: Unit) -> Vec<(f64, String)> {
    let raw = (high - low) / 6.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= raw)
        .unwrap_or(raw);
    let (factor, name) = scale(high.abs().max(low.abs()), unit);
    let places = usize::try_from(-(step / factor).log10().floor() as i64).unwrap_or(0);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    let label = |at: f64| {
        format!("{:.places$} {name}", at / factor)
            .trim_end()
            .to_owned()
    };
    (first..=last)
        .map(|count| count as f64 * step)
        .map(|at| (at, label(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{linear_ticks, log_ticks, names, ticks};
    use record::unit::Unit;

    #[test]
    fn ticks_are_round_and_few() {
        let labels =
            |ticks: Vec<(f64, String)>| ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(
            labels(log_ticks(1024.0, 8192.0, Unit::B)),
            ["1 KiB", "2 KiB", "4 KiB", "8 KiB"]
        );
        assert_eq!(
            labels(log_ticks(1.2, 95.0, Unit::Ns)),
            ["1 ns", "2 ns", "5 ns", "10 ns", "20 ns", "50 ns", "100 ns"]
        );
        assert_eq!(
            labels(log_ticks(1.0, 1e6, Unit::Ns)),
            ["1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(
            labels(log_ticks(0.001, 0.3, Unit::Ratio))[..3],
            ["0.001", "0.002", "0.005"]
        );
        assert!(log_ticks(1024.0, 2_f64.powi(40), Unit::B).len() <= 12);
        assert_eq!(
            labels(linear_ticks(0.0, 9.0, Unit::Ns)),
            ["0 ns", "2 ns", "4 ns", "6 ns", "8 ns", "10 ns"]
        );
        let near = labels(linear_ticks(2.444_998e9, 2.445_001e9, Unit::Hz));
        assert_eq!(near[..2], ["2.4449980 GHz", "2.4449985 GHz"]);
    }

    #[test]
    fn what_cannot_be_told_apart_has_no_ticks() {
        assert!(ticks(Some(Unit::Ns), false, Some((5.0, 5.0))).is_empty());
        assert!(ticks(Some(Unit::Ns), true, Some((0.0, 5.0))).is_empty());
        assert!(ticks(None, false, Some((0.0, 5.0))).is_empty());
    }

    #[test]
    fn names_of_a_crowd_are_thinned() {
        let crowd: Vec<String> = (0..200).map(|cpu: usize| cpu.to_string()).collect();
        let thin = names(&crowd);
        assert_eq!(thin.len(), 40);
        assert_eq!(thin[1], (5.0, "5".to_owned()));
        assert_eq!(names(&crowd[..3]).len(), 3);
        assert!(names(&[]).is_empty());
    }
}

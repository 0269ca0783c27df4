//! Tick labels in people's units.

use record::quantity::{render, scale};
use record::unit::Unit;

/// Tick labels that an axis has at most.
const MOST_TICKS: usize = 12;
/// Ticks below which the steps of a logarithmic axis leave it without a scale.
const FEWEST_TICKS: usize = 2;
/// Names that an axis has at most: more would lie over each other.
const MOST_NAMES: usize = 40;

#[derive(Clone, Copy)]
pub struct Scale {
    pub unit: Option<Unit>,
    pub is_log: bool,
    /// Whether steps of a logarithmic axis are powers of two, as they are for bytes.
    pub is_binary: bool,
}

/// Where ticks stand between two values, and their labels; none where no unit or range is known.
pub fn ticks(scale: Scale, extent: Option<(f64, f64)>) -> Vec<(f64, String)> {
    let (Some(unit), Some((low, high))) = (scale.unit, extent) else {
        return Vec::new();
    };
    if !(high - low).is_finite() || (scale.is_log && low <= 0.0) {
        return Vec::new();
    }
    if high <= low {
        return vec![(low, render(low, unit))];
    }
    let is_shown = |(at, _): &&(f64, String)| (low..=high).contains(at);
    let steps = match scale.is_log {
        true => log_ticks(low, high, unit, scale.is_binary || unit == Unit::B),
        false => Vec::new(),
    };
    if steps.iter().filter(is_shown).count() >= FEWEST_TICKS {
        return steps;
    }
    let mut ticks = linear_ticks(low, high, unit);
    ticks.retain(|(at, _)| !scale.is_log || *at > 0.0);
    ticks
}

/// Names at 0, 1, 2 … where they are not empty, thinned to what fits.
pub fn names(names: &[String]) -> Vec<(f64, String)> {
    let all = names.iter().enumerate();
    let told: Vec<_> = all.filter(|(_, name)| !name.is_empty()).collect();
    let step = told.len().div_ceil(MOST_NAMES).max(1);
    let at = told.into_iter().step_by(step);
    at.map(|(at, name)| (at as f64, name.clone())).collect()
}

/// Powers of two or 1-2-5 steps; decades where these are too many, thinned to what fits.
fn log_ticks(low: f64, high: f64, unit: Unit, is_binary: bool) -> Vec<(f64, String)> {
    let ticks: Vec<f64> = if is_binary {
        let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
        (first..=last).map(|power| f64::from(power).exp2()).collect()
    } else {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let of = |digits: &[f64]| -> Vec<f64> {
            (first..=last)
                .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
                .filter(|at| *at >= low / 2.0 && *at <= high * 2.0)
                .collect()
        };
        let fine = of(&[1.0, 2.0, 5.0]);
        match fine.len() > MOST_TICKS {
            true => of(&[1.0]),
            false => fine,
        }
    };
    let step = ticks.len().div_ceil(MOST_TICKS).max(1);
    let is_bare = scale(1.0, unit).1.is_empty();
    let label = |at: f64| match is_bare && (1e-6..1e7).contains(&at) {
        true => (at, at.to_string()),
        false => (at, render(at, unit)),
    };
    ticks.into_iter().step_by(step).map(label).collect()
}

/// About six values that are round in their display unit, with enough digits to distinguish them.
/// What is counted comes whole.
fn linear_ticks(low: f64, high: f64, unit: Unit) -> Vec<(f64, String)> {
    let (factor, name) = scale(high.abs().max(low.abs()), unit);
    let (low, high) = (low / factor, high / factor);
    let raw = (high - low) / 6.0;
    let power = 10_f64.powf(raw.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= raw)
        .unwrap_or(raw);
    let step = match unit == Unit::Count && high - low >= 1.0 {
        true => round.max(1.0),
        false => round,
    };
    let places = usize::try_from(-step.log10().floor() as i64).unwrap_or(0);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last)
        .map(|count| count as f64 * step)
        .map(|at| {
            let label = format!("{at:.places$} {name}");
            (at * factor, label.trim_end().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Scale, linear_ticks, log_ticks, names, ticks};
    use record::unit::Unit;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            labels(log_ticks(1024.0, 8192.0, Unit::B, true)),
            ["1 KiB", "2 KiB", "4 KiB", "8 KiB"]
        );
        assert_eq!(
            labels(log_ticks(1.2, 95.0, Unit::Ns, false)),
            ["1 ns", "2 ns", "5 ns", "10 ns", "20 ns", "50 ns", "100 ns"]
        );
        assert_eq!(
            labels(log_ticks(1.0, 1e6, Unit::Ns, false)),
            ["1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(
            labels(log_ticks(0.001, 0.3, Unit::Ratio, false))[..3],
            ["0.001", "0.002", "0.005"]
        );
        assert!(log_ticks(1024.0, 2_f64.powi(40), Unit::B, true).len() <= 12);
        assert_eq!(
            labels(linear_ticks(0.0, 9.0, Unit::Ns)),
            ["0 ns", "2 ns", "4 ns", "6 ns", "8 ns", "10 ns"]
        );
        let near = labels(linear_ticks(2.444_998e9, 2.445_001e9, Unit::Hz));
        assert_eq!(near[..2], ["2.4449980 GHz", "2.4449985 GHz"]);
    }

    fn labels(ticks: Vec<(f64, String)>) -> Vec<String> {
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn bytes_are_round_in_the_unit_that_they_are_told_in() {
        const MI: f64 = 1024.0 * 1024.0;
        let ticks = linear_ticks(25.0 * MI, 125.0 * MI, Unit::B);
        for (at, label) in &ticks {
            assert_eq!(*label, format!("{} MiB", at / MI));
        }
        assert_eq!(labels(ticks)[..3], ["20 MiB", "40 MiB", "60 MiB"]);
    }

    #[test]
    fn what_is_counted_comes_whole() {
        let count = |low, high| labels(linear_ticks(low, high, Unit::Count));
        assert_eq!(count(1.0, 2.0), ["1", "2"]);
        assert_eq!(count(1.0, 4.0), ["1", "2", "3", "4"]);
        // The mean of counts may be less than one apart.
        assert!(count(0.2, 0.4).len() > 3);
        assert!(labels(linear_ticks(1.0, 2.0, Unit::Ratio)).len() > 3);
    }

    #[test]
    fn a_logarithmic_axis_has_a_scale_however_short() {
        let axis = |unit, is_binary| Scale { unit: Some(unit), is_log: true, is_binary };
        let seen = |scale, low, high| {
            let mut ticks = ticks(scale, Some((low, high)));
            ticks.retain(|(at, _)| (low..=high).contains(at));
            labels(ticks)
        };
        assert_eq!(seen(axis(Unit::Ns, false), 3.0, 4.4), ["3.0 ns", "3.5 ns", "4.0 ns"]);
        assert_eq!(
            seen(axis(Unit::B, false), 40960.0, 61440.0),
            ["40 KiB", "45 KiB", "50 KiB", "55 KiB", "60 KiB"]
        );
        assert_eq!(seen(axis(Unit::Count, true), 1.0, 8.0), ["1", "2", "4", "8"]);
        assert_eq!(seen(axis(Unit::Count, false), 1.0, 8.0), ["1", "2", "5"]);
        // Too many steps become decades, not every other step.
        assert_eq!(
            seen(axis(Unit::OpPerS, false), 100.0, 1e6),
            ["100 op/s", "1 kop/s", "10 kop/s", "100 kop/s", "1 Mop/s"]
        );
    }

    #[test]
    fn one_value_has_its_own_tick() {
        let axis = |unit, is_log| Scale { unit, is_log, is_binary: false };
        let one = ticks(axis(Some(Unit::Ns), false), Some((5.0, 5.0)));
        assert_eq!(one, [(5.0, record::quantity::render(5.0, Unit::Ns))]);
        assert!(ticks(axis(Some(Unit::Ns), true), Some((0.0, 5.0))).is_empty());
        assert!(ticks(axis(None, false), Some((0.0, 5.0))).is_empty());
        for is_log in [false, true] {
            assert!(ticks(axis(Some(Unit::Ns), is_log), Some((1.0, f64::INFINITY))).is_empty());
        }
    }

    #[test]
    fn names_of_a_crowd_are_thinned() {
        let crowd: Vec<String> = (0..200).map(|cpu: usize| cpu.to_string()).collect();
        let thin = names(&crowd);
        assert_eq!(thin.len(), 40);
        assert_eq!(thin[1], (5.0, "5".to_owned()));
        assert_eq!(names(&crowd[..3]).len(), 3);
        assert!(names(&[]).is_empty());
        let sparse = ["", "cpu", "", "os"].map(String::from);
        assert_eq!(names(&sparse), [(1.0, "cpu".to_owned()), (3.0, "os".to_owned())]);
    }
}

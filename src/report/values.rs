//! Values as people read them: scaled, with as many digits as their interval supports.

use crate::analysis::figure::Figure;
use record::key::Value;
use record::quantity::{digits, render};
use record::unit::Unit;

use record::shown::places;
pub(crate) use record::shown::{Shown, range, shown};

/// A figure's value with its interval.
pub(crate) fn of_figure(figure: &Figure) -> Option<Shown> {
    let metric = figure.metric.as_ref()?;
    Some(shown(figure.value?, figure.ci, metric.unit))
}

/// A frequency to the megahertz, as clocks are told.
pub(crate) fn clock(hz: f64) -> String {
    format!("{:.3} GHz", hz / 1e9)
}

/// A figure's cycles, with as many digits as its value's interval supports.
pub(crate) fn of_cycles(figure: &Figure) -> Option<String> {
    let found = figure.cycles?;
    let ends = figure.ci.zip(figure.value.filter(|value| *value > 0.0));
    Some(match ends {
        Some(((low, high), value)) => {
            let each = found / value;
            let distance = (high - value).max(value - low) * each;
            let places = places(found, distance).min(2);
            format!("{found:.places$}")
        }
        None => cycles(found),
    })
}

/// Estimated cycles with as many digits as make sense: tenths below a thousand, hundredths below one.
pub(crate) fn cycles(cycles: f64) -> String {
    if cycles.abs() < 1.0 {
        format!("{cycles:.2}")
    } else if cycles.abs() < 1000.0 {
        format!("{cycles:.1}")
    } else {
        format!("{cycles:.0}")
    }
}

/// A count with its noun: `1 run`, `2 runs`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// The name of a figure's metric as a reader sees it, which may be broken at its words.
pub(crate) fn metric(figure: &Figure) -> String {
    let name = figure
        .metric
        .as_ref()
        .map(|metric| metric.name.replace('_', " "));
    name.unwrap_or_else(|| "-".to_owned())
}

/// A parameter's value; integers in its unit.
pub(crate) fn parameter(value: &Value, unit: Option<Unit>) -> String {
    match (value, unit) {
        (Value::Int(number), Some(unit)) => render(*number as f64, unit),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::cycles;

    #[test]
    fn estimated_cycles_have_tenths() {
        assert_eq!(cycles(4.04), "4.0");
        assert_eq!(cycles(0.123), "0.12");
        assert_eq!(cycles(2051.7), "2052");
    }
}

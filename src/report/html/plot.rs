//! A plot as data for the page's script, with tick labels in people's units.

use crate::report::document::{Axis, Grid, Plot, Point, Series, Shape};
use maud::{Markup, PreEscaped, html};
use record::quantity::{render, scale};
use record::unit::Unit;
use serde_json::{Value, json};

/// Tick labels that an axis has at most.
const MOST_TICKS: usize = 12;
/// Room above the greatest measured value, as a factor, where a band goes on above it …
const HEADROOM: f64 = 1.3;
/// … by more than this factor.
const BEYOND: f64 = 2.0;

/// The element that the script fills, with its data beside it.
pub(crate) fn figure(plot: &Plot) -> Markup {
    let data = data(plot).to_string().replace("</", "<\\/");
    html! {
        figure.plot {
            figcaption { (plot.title) }
            div.canvas { noscript { "The plot needs JavaScript; its figures are in the table below." } }
            script.data type="application/json" { (PreEscaped(data)) }
        }
    }
}

/// The element of a matrix.
pub(crate) fn grid(grid: &Grid) -> Markup {
    html! { figure.plot { figcaption { (grid.title) } } }
}

fn data(plot: &Plot) -> Value {
    let bars = plot.series.iter().any(|series| series.shape == Shape::Bars);
    let spans = is_spans(plot);
    // Bars lie: their lengths run along the horizontal axis.
    let x = extent(plot, plot.x.is_log, |point| {
        if bars {
            vec![0.0, point.y]
        } else if spans {
            vec![point.x, point.y]
        } else {
            vec![point.x]
        }
    });
    let of_point = |point: &Point| {
        if spans {
            return Vec::new();
        }
        let (low, high) = point.ends.unwrap_or((point.y, point.y));
        vec![point.y, low, high]
    };
    let y = extent(plot, plot.y.is_log, of_point);
    // A wide prediction must not flatten what was measured: its band goes on beyond the picture.
    let measured = Plot {
        series: lines(plot),
        ..plot.clone()
    };
    let shown = extent(&measured, plot.y.is_log, of_point)
        .map(|(low, high)| (low.min(0.0), high * HEADROOM))
        .filter(|shown| !plot.y.is_log && y.is_some_and(|all| all.1 > BEYOND * shown.1));
    json!({
        "x": axis(&plot.x, x),
        "y": axis(&plot.y, shown.or(y)),
        "shown": shown.map(|(low, high)| [low, high]),
        "series": plot.series.iter().map(series).collect::<Vec<_>>(),
        "markers": plot.markers.iter().map(|marker| json!({
            "at": marker.at, "label": marker.label, "measured": marker.is_measured,
        })).collect::<Vec<_>>(),
    })
}

/// What was measured, without the bands of what was predicted.
fn lines(plot: &Plot) -> Vec<Series> {
    let lines = plot.series.iter();
    let lines = lines.filter(|series| !matches!(series.shape, Shape::Band | Shape::Ranges));
    lines.cloned().collect()
}

fn is_spans(plot: &Plot) -> bool {
    plot.series
        .iter()
        .any(|series| series.shape == Shape::Spans)
}

fn series(series: &Series) -> Value {
    let of =
        |get: &dyn Fn(&Point) -> Value| -> Vec<Value> { series.points.iter().map(get).collect() };
    let shape = match series.shape {
        Shape::Line => "line",
        Shape::Dots => "dots",
        Shape::Bars => "bars",
        Shape::Band => "band",
        Shape::Ranges => "ranges",
        Shape::Spans => "spans",
    };
    if series.shape == Shape::Spans {
        // There are thousands: ends to the nanosecond, and the script words what they say.
        return json!({
            "name": series.name,
            "shape": shape,
            "x": of(&|point| json!(point.x.round() as i64)),
            "y": of(&|point| json!(point.y.round() as i64)),
        });
    }
    json!({
        "name": series.name,
        "shape": shape,
        "x": of(&|point| json!(point.x)),
        "y": of(&|point| json!(point.y)),
        "low": of(&|point| json!(point.ends.map(|(low, _)| low))),
        "high": of(&|point| json!(point.ends.map(|(_, high)| high))),
        "hover": of(&|point| json!(point.hover)),
    })
}

fn extent(plot: &Plot, is_log: bool, get: impl Fn(&Point) -> Vec<f64>) -> Option<(f64, f64)> {
    plot.series
        .iter()
        .flat_map(|series| &series.points)
        .flat_map(get)
        .filter(|value| value.is_finite() && (!is_log || *value > 0.0))
        .fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
        })
}

fn axis(axis: &Axis, extent: Option<(f64, f64)>) -> Value {
    let ticks = match (axis.unit, extent) {
        (Some(unit), Some((low, high))) if axis.is_log && low > 0.0 => log_ticks(low, high, unit),
        (Some(unit), Some((low, high))) if !axis.is_log && high > low => {
            linear_ticks(low, high, unit)
        }
        _ => Vec::new(),
    };
    // Rounding must not label two ticks alike.
    let is_clear = ticks.windows(2).all(|pair| pair[0].1 != pair[1].1);
    let ticks = if is_clear { ticks } else { Vec::new() };
    json!({
        "label": axis.label,
        "log": axis.is_log,
        "at": ticks.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        "text": ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
    })
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
        (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .filter(|at| *at >= low / 2.0 && *at <= high * 2.0)
            .collect()
    };
    let step = ticks.len().div_ceil(MOST_TICKS);
    let label = |at: f64| (at, render(at, unit));
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
    use super::{data, linear_ticks, log_ticks};
    use crate::report::document::{Axis, Plot, Point, Series, Shape};
    use record::unit::Unit;

    #[test]
    fn a_wide_prediction_does_not_flatten_what_was_measured() {
        let axis = |is_log| Axis {
            label: String::new(),
            unit: Some(Unit::Ns),
            is_log,
            names: Vec::new(),
        };
        let series = |shape, high: f64| Series {
            name: String::new(),
            shape,
            points: vec![Point {
                x: 1.0,
                y: 90.0,
                ends: Some((80.0, high)),
                hover: String::new(),
            }],
        };
        let plot = |band, is_log| {
            let plot = Plot {
                title: String::new(),
                x: axis(false),
                y: axis(is_log),
                series: vec![series(Shape::Band, band), series(Shape::Line, 100.0)],
                markers: Vec::new(),
            };
            data(&plot)["shown"].clone()
        };
        assert_eq!(plot(1e6, false), serde_json::json!([0.0, 130.0]));
        assert!(plot(1e6, true).is_null(), "a logarithmic axis has room");
        assert!(plot(200.0, false).is_null(), "all of it fits");
    }

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
        assert!(log_ticks(1024.0, 2_f64.powi(40), Unit::B).len() <= 12);
        assert_eq!(
            labels(linear_ticks(0.0, 9.0, Unit::Ns)),
            ["0 ns", "2 ns", "4 ns", "6 ns", "8 ns", "10 ns"]
        );
        let near = labels(linear_ticks(2.444_998e9, 2.445_001e9, Unit::Hz));
        assert_eq!(near[..2], ["2.4449980 GHz", "2.4449985 GHz"]);
    }
}

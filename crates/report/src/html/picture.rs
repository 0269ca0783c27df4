//! Plots and matrices as data for the page's script, and the elements that it draws them in.

use super::ticks::{self, Scale};
use crate::document::{Axis, Grid, Plot, Point, Series, Shades, Shape};
use analysis::gather::ends;
use analysis::names::around;
use maud::{Markup, html};
use record::quantity::{self, digits, render};
use record::unit::Unit;
use serde_json::{Map, Value, json};

/// Room above the greatest measured value, as a factor, where a band goes on above it …
const HEADROOM: f64 = 1.3;
/// … by more than this factor.
const BEYOND: f64 = 2.0;
/// Positions are drawn to this share of their axis: finer than a screen, coarser than a sample.
const STEPS: f64 = 1e5;
/// Ratio of a matrix' greatest cell to its least from which colours follow the logarithm.
const LOG_COLOURS: f64 = 20.0;
/// Where the figures of most pictures stand as text.
const IN_TABLES: &str = "Its figures are in the tables of this section.";
/// Significant digits of a matrix' cells.
const CELL_DIGITS: usize = 4;

/// Greatest ratio that a matrix of ratios has a colour of its own for, and the least one for which the
/// colours are as deep as they get: scatter of a few per cent stays pale.
const RATIOS_MOST: f64 = 2.0;
/// See [`RATIOS_MOST`].
const RATIOS_LEAST: f64 = 1.15;
/// Ratios that the scale of their colours may show.
const RATIO_TICKS: [f64; 11] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.7, 2.0];

/// The scale of a matrix' colours.
const RATIOS: Scale = Scale { unit: Some(Unit::Ratio), is_log: true, is_binary: false };

/// What the page's script draws, in the order of the figures that they belong to.
#[derive(Default)]
pub struct Pictures(Vec<Value>);

impl Pictures {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, as JSON.
    pub fn json(&self) -> String {
        json!(self.0).to_string()
    }

    /// The element of a plot.
    pub fn plot(&mut self, plot: &Plot) -> Markup {
        let lines = match plot.series.len() {
            1 => "one series".to_owned(),
            many => format!("{many} series"),
        };
        let of = Texts {
            title: &plot.title,
            what: format!("{}{}, {lines}", around("", &plot.y.label, " over "), plot.x.label),
            also: also(plot),
            aside: cut_at(plot).map(|high| format!("The prediction extends to {high}.")),
        };
        self.add(data(plot), &of)
    }

    /// The element of a matrix.
    pub fn grid(&mut self, grid: &Grid) -> Markup {
        let (rows, columns) = (&grid.rows, &grid.columns);
        let size = format!("{} by {}", rows.1.len(), columns.1.len());
        let axes = format!("{} by {} and {}", grid.label, rows.0, columns.0);
        let of = Texts {
            title: &grid.title,
            what: format!("{axes}, {size} cells"),
            also: IN_TABLES,
            aside: None,
        };
        self.add(cells(grid), &of)
    }

    fn add(&mut self, data: Value, of: &Texts<'_>) -> Markup {
        self.0.push(data);
        html! {
            figure.plot {
                figcaption { span.title { (of.title) } }
                div.canvas role="img" aria-label=(format!("{}: {}. {}", of.title, of.what, of.also)) {
                    noscript { "The plot needs JavaScript. " (of.also) }
                }
                @if let Some(aside) = &of.aside { p.aside { (aside) } }
            }
        }
    }
}

/// The texts of a plot, visible and for screen readers.
struct Texts<'plot> {
    title: &'plot str,
    /// What it is a picture of.
    what: String,
    /// Where its figures stand as text.
    also: &'static str,
    /// What the picture does not show.
    aside: Option<String>,
}

/// Where the figures of a plot stand as text.
fn also(plot: &Plot) -> &'static str {
    if has(plot, Shape::Spans) || has(plot, Shape::Trace) {
        "The tables of this section summarise it; the run's record has every reading."
    } else if has(plot, Shape::Ranges) && !has(plot, Shape::Bars) {
        "The summary of all figures lists each figure with its prediction."
    } else {
        IN_TABLES
    }
}

fn data(plot: &Plot) -> Value {
    let bars = has(plot, Shape::Bars);
    let spans = has(plot, Shape::Spans);
    let places = extent(plot, plot.x.is_log, |point| match spans {
        true => vec![point.x, point.y],
        false => vec![point.x],
    });
    let (all, shown) = lengths(plot);
    let values = shown.or(all);
    // Bars lie: their lengths run along the horizontal axis.
    let (x, y) = if bars { (values, None) } else { (places, values) };
    let of_values = if bars { &plot.x } else { &plot.y };
    json!({
        "x": axis(&plot.x, x, is_binary(plot)),
        "y": axis(&plot.y, y, false),
        "bars": if bars { plot.y.names.as_slice() } else { &[] },
        "shown": shown.map(|(low, high)| [low, high]),
        "ratio": of_values.unit == Some(Unit::Ratio),
        "series": plot.series.iter().map(|one| series(one, plot, x, y)).collect::<Vec<_>>(),
        "markers": plot.markers.iter().map(|marker| json!({
            "at": marker.x, "label": marker.label, "measured": marker.is_measured,
        })).collect::<Vec<_>>(),
    })
}

/// The extent of all values, and the part that is shown where a wide prediction would flatten what
/// was measured: its band goes on beyond the picture.
fn lengths(plot: &Plot) -> (Extent, Extent) {
    let bars = has(plot, Shape::Bars);
    let is_log = if bars { plot.x.is_log } else { plot.y.is_log };
    let of_point = |point: &Point| {
        let (low, high) = point.ends.unwrap_or((point.y, point.y));
        let origin = if bars { 0.0 } else { point.y };
        vec![origin, point.y, low, high]
    };
    // The vertical axis is one of names.
    if has(plot, Shape::Spans) {
        return (None, None);
    }
    let all = extent(plot, is_log, of_point);
    let measured = Plot { series: lines(plot), ..plot.clone() };
    let shown = extent(&measured, is_log, of_point)
        .map(|(low, high)| (low.min(0.0), high * HEADROOM))
        .filter(|shown| !is_log && all.is_some_and(|all| all.1 > BEYOND * shown.1));
    (all, shown)
}

/// Up to what the band goes on where it is cut.
fn cut_at(plot: &Plot) -> Option<String> {
    let (all, shown) = lengths(plot);
    let axis = if has(plot, Shape::Bars) { &plot.x } else { &plot.y };
    shown.and(all).map(|(_, high)| match axis.unit {
        Some(unit) => render(high, unit),
        None => digits(high),
    })
}

/// Whether every place along a plot is a power of two.
fn is_binary(plot: &Plot) -> bool {
    let mut points = plot.series.iter().flat_map(|series| &series.points);
    points.all(|point| point.x > 0.0 && point.x.log2().fract() == 0.0)
}

/// What was measured, without the bands of what was predicted.
fn lines(plot: &Plot) -> Vec<Series> {
    let lines = plot.series.iter();
    let lines = lines.filter(|series| !matches!(series.shape, Shape::Band | Shape::Ranges));
    lines.cloned().collect()
}

fn has(plot: &Plot, shape: Shape) -> bool {
    plot.series.iter().any(|series| series.shape == shape)
}

type Extent = Option<(f64, f64)>;

fn series(series: &Series, plot: &Plot, x: Extent, y: Extent) -> Value {
    let shape = match series.shape {
        Shape::Line | Shape::Trace => "line",
        Shape::Dots => "dots",
        Shape::Bars => "bars",
        Shape::Band => "band",
        Shape::Ranges => "ranges",
        Shape::Spans => "spans",
    };
    let of = |get: &dyn Fn(&Point) -> Value| series.points.iter().map(get).collect::<Value>();
    let mut data = Map::new();
    data.insert("name".to_owned(), json!(series.name));
    data.insert("shape".to_owned(), json!(shape));
    if series.shape == Shape::Spans {
        // There are thousands: ends to the nanosecond, and the script words what they say.
        data.insert("x".to_owned(), of(&|point| json!(point.x.round() as i64)));
        data.insert("y".to_owned(), of(&|point| json!(point.y.round() as i64)));
        return Value::Object(data);
    }
    // A bar's length runs along the horizontal axis, and that of a range beside bars.
    let (place, length) = match has(plot, Shape::Bars) {
        true => (Digits(6), Digits::for_axis(plot.x.is_log, x)),
        false => (Digits::for_axis(plot.x.is_log, x), Digits::for_axis(plot.y.is_log, y)),
    };
    // A predicted end needs no more than a picture shows.
    let length = match series.shape {
        Shape::Band | Shape::Ranges => Digits(length.0.saturating_sub(1).max(1)),
        _ => length,
    };
    data.insert("x".to_owned(), of(&|point| place.json(point.x)));
    data.insert("y".to_owned(), of(&|point| length.json(point.y)));
    if series.points.iter().any(|point| point.ends.is_some()) {
        let end = |get: fn((f64, f64)) -> f64| {
            of(&|point| point.ends.map_or(Value::Null, |ends| length.json(get(ends))))
        };
        data.insert("low".to_owned(), end(|(low, _)| low));
        data.insert("high".to_owned(), end(|(_, high)| high));
    }
    if series.points.iter().any(|point| !point.hover.is_empty()) {
        data.insert("hover".to_owned(), of(&|point| json!(point.hover)));
    }
    Value::Object(data)
}

fn extent(plot: &Plot, is_log: bool, get: impl Fn(&Point) -> Vec<f64>) -> Extent {
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

fn axis(axis: &Axis, extent: Extent, is_binary: bool) -> Value {
    let scale = Scale { unit: axis.unit, is_log: axis.is_log, is_binary };
    let ticks = match axis.names.is_empty() {
        true => ticks::ticks(scale, extent),
        false => ticks::names(&axis.names),
    };
    // The library's own ticks are bare numbers.
    let unit = axis.unit.map_or("", |unit| quantity::scale(0.0, unit).1);
    let label = match ticks.is_empty() && !unit.is_empty() {
        true => format!("{} ({unit})", axis.label),
        false => axis.label.clone(),
    };
    json!({
        "label": label,
        "log": axis.is_log,
        "names": axis.names.len(),
        "at": ticks.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        "text": ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
    })
}

fn cells(grid: &Grid) -> Value {
    let values = || grid.cells.iter().flatten().flatten().copied();
    let (low, high) = ends(values());
    let (factor, unit) =
        quantity::scale(values().fold(0.0, |high, value| f64::max(high, value.abs())), grid.unit);
    let is_log = low > 0.0
        && match grid.shades {
            Shades::Values => high / low > LOG_COLOURS,
            Shades::Ratios => true,
        };
    let reach = (is_log && grid.shades == Shades::Ratios)
        .then(|| high.max(1.0 / low).clamp(RATIOS_LEAST, RATIOS_MOST));
    let digits = Digits(CELL_DIGITS);
    let scaled =
        |value: &Option<f64>| value.map_or(Value::Null, |value| digits.json(value / factor));
    let rows = grid.cells.iter();
    let rows = rows.map(|row| row.iter().map(scaled).collect::<Vec<_>>());
    let axis = |(label, names): &(String, Vec<String>)| json!({ "label": label, "names": names });
    json!({
        "rows": axis(&grid.rows),
        "columns": axis(&grid.columns),
        "label": grid.label,
        "unit": unit,
        "log": is_log,
        "reach": reach,
        "ticks": match (is_log, reach) {
            (true, Some(reach)) => RATIO_TICKS.into_iter()
                .filter(|at| (1.0 / reach..=reach).contains(at)).collect(),
            (true, None) => ticks::ticks(RATIOS, Some((low / factor, high / factor)))
                .into_iter().map(|(at, _)| at).collect::<Vec<_>>(),
            (false, _) => Vec::new(),
        },
        "cells": rows.collect::<Vec<_>>(),
    })
}

/// Significant digits that positions along an axis need.
struct Digits(usize);

impl Digits {
    /// Enough to distinguish values one step of the axis apart.
    fn for_axis(is_log: bool, extent: Extent) -> Self {
        let steps = match extent {
            Some((low, high)) if !is_log && high > low => {
                STEPS * f64::max(low.abs(), high.abs()) / (high - low)
            }
            _ => STEPS,
        };
        // A double has no more than 17.
        Digits((steps.log10().ceil() as usize).clamp(1, 17))
    }

    fn json(&self, value: f64) -> Value {
        let rounded = format!("{value:.*e}", self.0 - 1).parse::<f64>();
        match rounded.unwrap_or(value) {
            whole if whole.fract() == 0.0 && whole.abs() < 1e15 => json!(whole as i64),
            other => json!(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Digits, Pictures, cells, data};
    use crate::document::{Axis, Grid, Plot, Point, Series, Shades, Shape};
    use record::quantity::render;
    use record::unit::Unit;
    use serde_json::json;

    fn axis(is_log: bool) -> Axis {
        Axis { label: "latency".to_owned(), unit: Some(Unit::Ns), is_log, names: Vec::new() }
    }

    /// A measured point of 90 to 100 ns, and one of a shape whose interval ends at `high`.
    fn plot(shape: Shape, high: f64, is_log: bool) -> Plot {
        let series = |shape, high: f64| {
            let point = Point { ends: Some((80.0, high)), ..Point::plain(1.0, 90.0) };
            Series::new("", shape, vec![point])
        };
        let series = vec![series(shape, high), series(Shape::Line, 100.0)];
        Plot::new("Costs", axis(false), axis(is_log), series)
    }

    #[test]
    fn a_wide_prediction_does_not_flatten_what_was_measured() {
        let shown = |high, is_log| data(&plot(Shape::Band, high, is_log))["shown"].clone();
        assert_eq!(shown(1e6, false), json!([0.0, 130.0]));
        assert!(shown(1e6, true).is_null(), "a logarithmic axis has room");
        assert!(shown(200.0, false).is_null(), "all of it fits");
    }

    #[test]
    fn a_band_that_is_cut_says_how_far_it_goes() {
        let page = |high| {
            let mut pictures = Pictures::default();
            let plot = plot(Shape::Band, high, false);
            pictures.plot(&plot).into_string()
        };
        let said = format!("extends to {}.", render(1e6, Unit::Ns));
        assert!(page(1e6).contains(&said), "{}", page(1e6));
        assert!(!page(200.0).contains("extends to"));
    }

    #[test]
    fn every_picture_says_where_its_figures_are() {
        let said = |shape| {
            let mut pictures = Pictures::default();
            pictures.plot(&plot(shape, 100.0, false)).into_string()
        };
        for (shape, place) in [
            (Shape::Dots, "in the tables of this section"),
            (Shape::Spans, "the run's record has every reading"),
            (Shape::Trace, "the run's record has every reading"),
            (Shape::Ranges, "summary of all figures"),
        ] {
            let page = said(shape);
            // For screen readers, and for browsers without JavaScript.
            assert_eq!(page.matches(place).count(), 2, "{shape:?}: {page}");
        }
    }

    #[test]
    fn an_axis_without_ticks_has_its_unit() {
        let mut empty = plot(Shape::Band, 100.0, false);
        assert_eq!(data(&empty)["y"]["label"], "latency");
        empty.series.clear();
        assert_eq!(data(&empty)["y"]["label"], "latency (ns)");
    }

    #[test]
    fn positions_keep_the_digits_that_their_axis_shows() {
        let near = Digits::for_axis(false, Some((2.444_998e9, 2.445_001e9)));
        assert_eq!(near.json(2_444_999_512.417), json!(2_444_999_512.4));
        let wide = Digits::for_axis(false, Some((0.0, 9.0)));
        assert_eq!(wide.json(1.041_785_312_392_974_1), json!(1.0418));
        assert_eq!(Digits::for_axis(true, Some((1.0, 1e9))).json(4096.0), json!(4096));
        assert!(wide.json(f64::INFINITY).is_null(), "JSON has no infinity");
    }

    #[test]
    fn a_matrix_is_scaled_once_and_keeps_what_is_missing() {
        let grid = |cells: Vec<Vec<Option<f64>>>| Grid {
            title: String::new(),
            rows: ("from".to_owned(), vec!["0".to_owned(), "1".to_owned()]),
            columns: ("to".to_owned(), vec!["0".to_owned(), "1".to_owned()]),
            label: "latency".to_owned(),
            unit: Unit::Ns,
            shades: Shades::Values,
            cells,
        };
        let near = cells(&grid(vec![vec![None, Some(61.234_56)], vec![Some(64.0), None]]));
        assert_eq!(near["cells"], json!([[null, 61.23], [64, null]]));
        assert_eq!((&near["unit"], &near["log"]), (&json!("ns"), &json!(false)));
        let far = cells(&grid(vec![vec![Some(50.0)], vec![Some(5000.0)]]));
        assert_eq!(far["cells"], json!([[0.05], [5]]));
        assert_eq!((&far["unit"], &far["log"]), (&json!("µs"), &json!(true)));
        assert_eq!(cells(&grid(Vec::new()))["cells"], json!([]));
    }

    #[test]
    fn the_colours_of_ratios_lie_about_one() {
        let of = |values: [f64; 2]| {
            cells(&Grid {
                title: String::new(),
                rows: ("figure".to_owned(), vec!["0".to_owned()]),
                columns: ("node".to_owned(), vec!["0".to_owned(), "1".to_owned()]),
                label: "ratio".to_owned(),
                unit: Unit::Ratio,
                shades: Shades::Ratios,
                cells: vec![values.map(Some).to_vec()],
            })
        };
        // Scatter stays pale; a link at a tenth of its rate leaves the others their colours.
        assert_eq!(of([0.99, 1.02])["reach"], json!(1.15));
        assert_eq!(of([0.1, 1.0])["reach"], json!(2.0));
        let near = of([0.8, 1.0]);
        assert_eq!((&near["reach"], &near["log"]), (&json!(1.25), &json!(true)));
        assert_eq!(near["ticks"], json!([0.8, 0.9, 1.0, 1.1, 1.25]));
        // A figure may be zero: it has no logarithm.
        assert_eq!(
            (&of([0.0, 1.0])["log"], &of([0.0, 1.0])["reach"]),
            (&json!(false), &json!(null))
        );
    }
}

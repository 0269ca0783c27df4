//! A plot with its axes, marked places and legend.

use super::axis::{self, Along, TICK_SIZE, Way};
use super::marks::{self, Area};
use super::{Picture, Target, short, text_width};
use crate::document::{Plot, Point, Series, Shape};
use maud::{Markup, html};
use record::quantity::{digits, render};
use record::unit::Unit;

/// Points above which a line is no more than a line.
pub const MANY: usize = 400;
/// Room above the greatest measured value, as a factor, where a band goes on above it …
const HEADROOM: f64 = 1.3;
/// … by more than this factor.
const BEYOND: f64 = 2.0;
/// Height of an area of quantities, of a lane of bars and of one of stretches, in pixels.
const HEIGHT: f64 = 170.0;
const PANEL_HEIGHT: f64 = 120.0;
const LANE: f64 = 18.0;
const SPAN_LANE: f64 = 30.0;
/// Height of a line of text.
const TEXT: f64 = 13.0;
/// Letters of a lane's name in a line.
const LANE_LETTERS: usize = 30;
/// Size of texts beside ticks.
const LABEL_SIZE: f64 = 12.0;

pub fn has(plot: &Plot, shape: Shape) -> bool {
    plot.series.iter().any(|series| series.shape == shape)
}

type Extent = Option<(f64, f64)>;

/// The values at the ends of both axes.
pub struct Ends {
    x: Extent,
    y: Extent,
}

impl Ends {
    /// Those of all points, or of what was measured where a wide prediction would flatten it.
    pub fn from_plot(plot: &Plot) -> Ends {
        let spans = has(plot, Shape::Spans);
        let places = extent(plot, plot.x.is_log, |point| match spans {
            true => vec![point.x, point.y],
            false => vec![point.x],
        });
        let places = match plot.x.unit {
            Some(Unit::B) => places.map(|(low, high)| marked(plot, low, high)),
            _ => places,
        };
        let (all, shown) = lengths(plot);
        let values = shown.or(all);
        match has(plot, Shape::Bars) {
            true => Ends { x: values, y: None },
            false => Ends { x: places, y: values },
        }
    }
}

/// An extent with the marked places near it.
fn marked(plot: &Plot, low: f64, high: f64) -> (f64, f64) {
    let near = plot.markers.iter().map(|marker| marker.x);
    near.filter(|at| (low / 4.0..=high * 4.0).contains(at))
        .fold((low, high), |(low, high), at| (low.min(at), high.max(at)))
}

/// The extent of all values, and the part that is shown where a wide prediction would flatten what
/// was measured: its band goes on beyond the picture.
fn lengths(plot: &Plot) -> (Extent, Extent) {
    let bars = has(plot, Shape::Bars);
    let is_log = if bars { plot.x.is_log } else { plot.y.is_log };
    // The vertical axis is one of names.
    if has(plot, Shape::Spans) {
        return (None, None);
    }
    let of_point = |point: &Point| {
        let (low, high) = point.ends.unwrap_or((point.y, point.y));
        let origin = if bars { 0.0 } else { point.y };
        vec![origin, point.y, low, high]
    };
    let all = extent(plot, is_log, of_point);
    let series = plot.series.iter().filter(|series| !marks::is_predicted(series));
    let measured = Plot { series: series.cloned().collect(), ..plot.clone() };
    let shown = extent(&measured, is_log, of_point)
        .map(|(low, high)| (low.min(0.0), high * HEADROOM))
        .filter(|shown| !is_log && all.is_some_and(|all| all.1 > BEYOND * shown.1));
    // To begin at zero costs little where the least is half the greatest.
    let from_zero = |(low, high): (f64, f64)| match !is_log && low > 0.0 && low < high / 2.0 {
        true => (0.0, high),
        false => (low, high),
    };
    (all.map(from_zero), shown)
}

/// Up to what a band goes on where it is cut.
pub fn cut_at(plot: &Plot) -> Option<String> {
    let (all, shown) = lengths(plot);
    let axis = if has(plot, Shape::Bars) { &plot.x } else { &plot.y };
    shown.and(all).map(|(_, high)| match axis.unit {
        Some(unit) => render(high, unit),
        None => digits(high),
    })
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

/// Whether every place along a plot is a power of two.
fn is_binary(plot: &Plot) -> bool {
    let mut points = plot.series.iter().flat_map(|series| &series.points);
    points.all(|point| point.x > 0.0 && point.x.log2().fract() == 0.0)
}

pub fn draw(plot: &Plot, width: f64, target: Target) -> Picture {
    picture(plot, width, &Ends::from_plot(plot), None, target)
}

/// A panel among others with the same axes: its title is inside.
pub fn draw_within(plot: &Plot, width: f64, ends: &Ends, target: Target) -> Picture {
    picture(plot, width, ends, Some(plot.title.as_str()), target)
}

fn picture(plot: &Plot, width: f64, ends: &Ends, name: Option<&str>, target: Target) -> Picture {
    let lanes = lanes(plot);
    let lines = lanes.iter().map(Vec::len).max().unwrap_or(1);
    let lane = if has(plot, Shape::Spans) { SPAN_LANE } else { LANE };
    let height = match (lanes.len(), name) {
        (0, None) => HEIGHT,
        (0, Some(_)) => PANEL_HEIGHT,
        (count, _) => (lane + TEXT * (lines - 1) as f64) * count as f64,
    };
    let vertical = match lanes.len() {
        0 => Along::new(&plot.y, ends.y, height, Way::Up),
        count => Along::lanes(&plot.y, count, height),
    };
    let beside: Vec<(f64, Vec<String>)> = match lanes.is_empty() {
        true => vertical.ticks(false).into_iter().map(|(at, text)| (at, vec![text])).collect(),
        false => {
            let places = (0..).map(|at| vertical.place(f64::from(at)));
            places.zip(lanes).collect()
        }
    };
    let texts = beside.iter().flat_map(|(_, lines)| lines);
    let widest = texts.map(|text| text_width(text, TICK_SIZE)).fold(0.0, f64::max);
    let is_labelled = name.is_none() && !plot.y.label.is_empty();
    let left = widest + 10.0 + if is_labelled { TEXT + 4.0 } else { 0.0 };
    let inner = (width - left - 16.0).max(40.0);
    let horizontal = Along::new(&plot.x, ends.x, inner, Way::Right);
    let (marked, rows) = markers(plot, &horizontal, height);
    let top = 8.0 + TEXT * (rows + usize::from(name.is_some())) as f64;
    let below = axis::below(&horizontal.ticks(is_binary(plot)), height, true);
    let (legend, legend_rows) = legend(plot, width, name.is_some());
    let area = Area { x: horizontal, y: vertical, target };
    let (data_x, data_y) = match target {
        Target::Page => (Some(area.x.data()), Some(area.y.data())),
        Target::File => (None, None),
    };
    let under = top + height + 30.0;
    let inside = html! {
        @if let Some(name) = name { text.name x=(short(width / 2.0)) y="13" { (name) } }
        g transform=(shift(left, top)) {
            (below)
            (axis::beside(&beside, inner, !has(plot, Shape::Bars)))
            svg.area width=(short(inner)) height=(short(height)) data-x=[data_x] data-y=[data_y] {
                g.marks {
                    @for series in in_order(plot) { (area.marks(plot, series)) }
                    (unity(plot, &area))
                }
            }
            path.edge d={ "M0 0V" (short(height)) "H" (short(inner)) } {}
            (marked)
            text.label x=(short(inner / 2.0)) y=(short(height + 29.0)) { (plot.x.label) }
            @if is_labelled {
                text.label transform={ (shift(LABEL_SIZE - left, height / 2.0)) " rotate(-90)" } { (plot.y.label) }
            }
        }
        g transform=(shift(left.min(60.0), under + 16.0)) { (legend) }
    };
    Picture { width, height: under + TEXT * 1.4 * legend_rows as f64 + 8.0, inside }
}

fn shift(x: f64, y: f64) -> String {
    format!("translate({} {})", short(x), short(y))
}

/// The names of the lanes of bars and stretches, in lines; none of an axis of quantities.
fn lanes(plot: &Plot) -> Vec<Vec<String>> {
    let names: Vec<&str> = if has(plot, Shape::Bars) {
        plot.y.names.iter().map(String::as_str).collect()
    } else if has(plot, Shape::Spans) {
        plot.series.iter().map(|series| series.name.as_str()).collect()
    } else {
        Vec::new()
    };
    names.into_iter().map(wrapped).collect()
}

/// A long name in lines, broken after commas.
fn wrapped(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in name.split_inclusive(", ") {
        let last = lines.len() - 1;
        let length = lines[last].chars().count() + part.trim_end().chars().count();
        match !lines[last].is_empty() && length > LANE_LETTERS {
            true => lines.push(part.to_owned()),
            false => lines[last].push_str(part),
        }
    }
    lines
}

/// Bands below lines, and ranges above bars, which would hide them.
fn in_order(plot: &Plot) -> impl Iterator<Item = &Series> {
    let bars = has(plot, Shape::Bars);
    let first = plot.series.iter().filter(move |series| marks::is_predicted(series) != bars);
    first.chain(plot.series.iter().filter(move |series| marks::is_predicted(series) == bars))
}

/// Ratios with what was predicted of them have a line at 1.
fn unity(plot: &Plot, area: &Area<'_>) -> Markup {
    let bars = has(plot, Shape::Bars);
    let unit = if bars { plot.x.unit } else { plot.y.unit };
    let is_wanted = unit == Some(Unit::Ratio) && has(plot, Shape::Ranges);
    html! {
        @if is_wanted && bars { path.one d={ "M" (short(area.x.place(1.0))) " 0V" (short(area.y.length)) } {} }
        @else if is_wanted { path.one d={ "M0 " (short(area.y.place(1.0))) "H" (short(area.x.length)) } {} }
    }
}

/// Marked places, each with its label in the lowest row where it lies over no other, and how many
/// rows there are.
fn markers(plot: &Plot, along: &Along<'_>, height: f64) -> (Markup, usize) {
    let mut marks: Vec<(f64, String, &str)> = plot
        .markers
        .iter()
        .map(|marker| {
            let source = if marker.is_measured { "detected" } else { "stated" };
            (along.place(marker.x), format!("{} {source}", marker.label), source)
        })
        .filter(|(at, ..)| (0.0..=along.length).contains(at))
        .collect();
    marks.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut ends: Vec<f64> = Vec::new();
    let mut placed = Vec::new();
    for (at, text, source) in marks {
        let half = text_width(&text, TICK_SIZE) / 2.0 + 3.0;
        // A label at an edge stays in the picture.
        let middle = at.min(along.length - half + 12.0);
        let free = ends.iter().position(|end| *end < middle - half);
        let row = free.unwrap_or(ends.len());
        ends.resize(ends.len().max(row + 1), 0.0);
        ends[row] = middle + half;
        placed.push((at, middle, row, text, source));
    }
    let markup = html! {
        @for (at, middle, row, text, source) in placed {
            path class=(source) d={ "M" (short(at)) " " (short(-2.0 - TEXT * row as f64)) "V" (short(height)) } {}
            text class=(source) x=(short(middle)) y=(short(-4.0 - TEXT * row as f64)) { (text) }
        }
    };
    (markup, ends.len())
}

/// The legend in rows below the axis, and how many rows it has. One entry stands for all bands.
fn legend(plot: &Plot, width: f64, is_panel: bool) -> (Markup, usize) {
    if is_panel || has(plot, Shape::Spans) {
        return (html! {}, 0);
    }
    let lines = plot.series.iter().filter(|series| !marks::is_predicted(series));
    let mut entries: Vec<(Option<&Series>, &str)> =
        lines.map(|series| (Some(series), series.name.as_str())).collect();
    if has(plot, Shape::Band) {
        entries.push((None, "band: predicted"));
    }
    let ranges = plot.series.iter().filter(|series| series.shape == Shape::Ranges);
    entries.extend(ranges.map(|series| (Some(series), series.name.as_str())));
    if entries.len() < 2 {
        return (html! {}, 0);
    }
    let (mut x, mut row) = (0.0, 0);
    let mut placed = Vec::new();
    for (series, name) in entries {
        let length = 30.0 + text_width(name, LABEL_SIZE) + 12.0;
        if x > 0.0 && x + length > width - 60.0 {
            (x, row) = (0.0, row + 1);
        }
        placed.push((x, row, series, name));
        x += length;
    }
    let markup = html! {
        @for (x, row, series, name) in placed {
            g transform=(shift(x, TEXT * 1.4 * row as f64)) {
                (swatch(plot, series))
                text x="30" { (name) }
            }
        }
    };
    (markup, row + 1)
}

fn swatch(plot: &Plot, series: Option<&Series>) -> Markup {
    let Some(series) = series else {
        return html! { g.s0 { path.band d="M0 -9h24v10h-24z" {} } };
    };
    let look = marks::look(plot, series);
    html! {
        g class=(format!("s{}", look.colour)) {
            @match series.shape {
                Shape::Ranges => path.range d="M0 -4h24" {},
                Shape::Bars if !plot.x.is_log => path.bars stroke-width="9" d="M4 -4h16" {},
                shape => {
                    @if shape != Shape::Dots && shape != Shape::Bars {
                        path class=(format!("line k{}", look.dash)) d="M0 -4h24" {}
                    }
                    @if shape != Shape::Trace { (marks::symbol(look, "M12 -4z")) }
                }
            }
        }
    }
}

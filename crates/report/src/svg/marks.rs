//! What stands in a picture's area: lines, dots, bars, bands and stretches.

use super::axis::Along;
use super::panel::{MANY, has};
use super::{Target, short};
use crate::document::{Plot, Point, Series, Shape};
use maud::{Markup, html};
use record::quantity::scale;
use record::unit::Unit;

const COLOURS: usize = 8;
const SYMBOLS: usize = 4;
/// Dots above which they are small.
const CROWD: usize = 60;
/// Share of its lane that bars take.
const BAR: f64 = 0.66;

pub struct Area<'plot> {
    pub x: Along<'plot>,
    pub y: Along<'plot>,
    pub target: Target,
}

/// How a series looks: by its place among those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// 0 for what belongs to no single line.
    pub colour: usize,
    symbol: usize,
    pub dash: usize,
}

pub fn is_predicted(series: &Series) -> bool {
    matches!(series.shape, Shape::Band | Shape::Ranges)
}

/// The look of a series; what was predicted has that of what it was predicted for.
pub fn look(plot: &Plot, series: &Series) -> Look {
    let mut drawn = plot.series.iter().filter(|other| !is_predicted(other));
    let place = match is_predicted(series) {
        true => drawn.position(|other| series.name == format!("predicted, {}", other.name)),
        false => drawn.position(|other| std::ptr::eq(other, series)),
    };
    // A trace's band is named after its case, and not after a round.
    let of_case = || plot.series.iter().any(|one| one.shape == Shape::Trace).then_some(0);
    match place.or_else(of_case) {
        None => Look { colour: 0, symbol: 0, dash: 0 },
        Some(at) => Look {
            colour: at % COLOURS + 1,
            symbol: (at + at / COLOURS) % SYMBOLS,
            dash: at / COLOURS % 4,
        },
    }
}

impl Area<'_> {
    pub fn marks(&self, plot: &Plot, series: &Series) -> Markup {
        let look = look(plot, series);
        let inside = match series.shape {
            Shape::Band => self.band(series),
            Shape::Ranges => self.ranges(plot, series),
            Shape::Bars if plot.x.is_log => self.dots(series, look, true),
            Shape::Bars => self.bars(plot, series),
            Shape::Spans => self.spans(plot, series),
            Shape::Dots => self.dots(series, look, false),
            Shape::Line | Shape::Trace => self.line(series, look),
        };
        html! { g class=(format!("s{}", look.colour)) { (inside) } }
    }

    fn place(&self, point: &Point) -> String {
        format!("{} {}", short(self.x.place(point.x)), short(self.y.place(point.y)))
    }

    fn say(&self, series: &Series) -> Option<String> {
        let texts: Vec<&str> = series.points.iter().map(|point| point.hover.as_str()).collect();
        (self.target == Target::Page && texts.iter().any(|text| !text.is_empty()))
            .then(|| texts.join("\n"))
    }

    fn line(&self, series: &Series, look: Look) -> Markup {
        let is_long = series.points.len() > MANY;
        let path: Vec<String> = series.points.iter().map(|point| self.place(point)).collect();
        let path = format!("M{}", path.join("L"));
        let kind = if is_long { "trace" } else { "line" };
        let class = format!("{kind} k{}", look.dash);
        html! {
            path class=(class) d=(path) data-say=[self.say(series).filter(|_| is_long)] {}
            @if !is_long { (self.dots(series, look, false)) }
        }
    }

    /// Points with their intervals. Those beside names lie along the horizontal axis.
    fn dots(&self, series: &Series, look: Look, is_along: bool) -> Markup {
        let turned = |point: &Point| match is_along {
            true => Point { x: point.y, y: point.x, ..point.clone() },
            false => point.clone(),
        };
        let points: String =
            series.points.iter().map(|point| format!("M{}z", self.place(&turned(point)))).collect();
        let intervals = series.points.iter().filter_map(|point| {
            let (low, high) = point.ends?;
            Some(self.stretch(point.x, (low, high), is_along))
        });
        let intervals: String = intervals.collect();
        let said = self.say(series);
        html! {
            @if !intervals.is_empty() { path.interval d=(intervals) {} }
            @if series.shape == Shape::Dots && series.points.len() > CROWD { path.small d=(points) data-say=[said] {} }
            @else {
                g data-say=[said] { (symbol(look, &points)) }
            }
        }
    }

    /// A stroke from the least to the greatest at a place.
    fn stretch(&self, at: f64, (low, high): (f64, f64), is_along: bool) -> String {
        match is_along {
            true => format!(
                "M{} {}H{}",
                short(self.x.place(low)),
                short(self.y.place(at)),
                short(self.x.place(high))
            ),
            false => format!(
                "M{} {}V{}",
                short(self.x.place(at)),
                short(self.y.place(low)),
                short(self.y.place(high))
            ),
        }
    }

    fn band(&self, series: &Series) -> Markup {
        let ends = |get: fn((f64, f64)) -> f64| {
            let own = series.points.iter().filter_map(move |point| {
                let y = get(point.ends?);
                Some(self.place(&Point::plain(point.x, y)))
            });
            own.collect::<Vec<String>>()
        };
        let (mut edge, upper) = (ends(|(low, _)| low), ends(|(_, high)| high));
        edge.extend(upper.into_iter().rev());
        html! { path.band d={ "M" (edge.join("L")) "z" } {} }
    }

    fn ranges(&self, plot: &Plot, series: &Series) -> Markup {
        let is_along = has(plot, Shape::Bars);
        let stroke = |point: &Point| {
            let (low, high) = point.ends?;
            // A single number has no length: a short stroke across marks it.
            if low < high {
                return Some(self.stretch(point.x, (low, high), is_along));
            }
            let (x, y) = match is_along {
                true => (self.x.place(low), self.y.place(point.x)),
                false => (self.x.place(point.x), self.y.place(low)),
            };
            Some(match is_along {
                true => format!("M{} {}V{}", short(x), short(y - 6.0), short(y + 6.0)),
                false => format!("M{} {}H{}", short(x - 6.0), short(y), short(x + 6.0)),
            })
        };
        let strokes: String = series.points.iter().filter_map(stroke).collect();
        html! { path.range d=(strokes) {} }
    }

    /// Bars from zero, those of several runs below each other in each lane.
    fn bars(&self, plot: &Plot, series: &Series) -> Markup {
        let runs: Vec<&Series> =
            plot.series.iter().filter(|one| one.shape == Shape::Bars).collect();
        let place = runs.iter().position(|one| std::ptr::eq(*one, series)).unwrap_or(0);
        let lane = (self.y.place(1.0) - self.y.place(0.0)).abs();
        let thickness = lane * BAR / runs.len() as f64;
        let shift = (place as f64 - (runs.len() - 1) as f64 / 2.0) * thickness;
        let y = |point: &Point| short(self.y.place(point.x) + shift);
        let start = short(self.x.place(0.0));
        let bar = |point: &Point| format!("M{start} {}H{}", y(point), short(self.x.place(point.y)));
        let bars: String = series.points.iter().map(bar).collect();
        let intervals: String = series
            .points
            .iter()
            .filter_map(|point| {
                let (low, high) = point.ends?;
                let (low, high) = (short(self.x.place(low)), short(self.x.place(high)));
                Some(format!("M{low} {}H{high}", y(point)))
            })
            .collect();
        html! {
            path.bars stroke-width=(short(thickness)) d=(bars) data-say=[self.say(series)] {}
            @if !intervals.is_empty() { path.interval d=(intervals) {} }
        }
    }

    /// Stretches in their lane, each with a stroke at its start so that short ones show.
    fn spans(&self, plot: &Plot, series: &Series) -> Markup {
        let lane = plot.series.iter().position(|one| std::ptr::eq(one, series)).unwrap_or(0);
        let y = self.y.place(lane as f64);
        let start = |point: &Point| short(self.x.place(point.x));
        let stretch = |point: &Point| {
            format!("M{} {}H{}", start(point), short(y), short(self.x.place(point.y)))
        };
        let stretches: String = series.points.iter().map(stretch).collect();
        let edges = series.points.iter();
        let edges: String = edges
            .map(|point| format!("M{} {}V{}", start(point), short(y - 8.0), short(y + 8.0)))
            .collect();
        let words = |point: &Point| {
            format!("{}: {} from {}", series.name, time(point.y - point.x), time(point.x))
        };
        let said = (self.target == Target::Page)
            .then(|| series.points.iter().map(words).collect::<Vec<String>>().join("\n"));
        html! {
            path.span d=(stretches) data-say=[said] {}
            path.start d=(edges) {}
        }
    }
}

/// Points in the form that tells a line from others.
pub fn symbol(look: Look, points: &str) -> Markup {
    let class = if look.symbol.is_multiple_of(2) { "dot" } else { "square" };
    html! {
        path class=(class) d=(points) {}
        @if look.symbol > 1 { path class={ (class) " hole" } d=(points) {} }
    }
}

/// A time with the digits that distinguish stretches.
fn time(ns: f64) -> String {
    let (factor, name) = scale(ns, Unit::Ns);
    format!("{} {name}", (ns / factor * 1e4).round() / 1e4)
}

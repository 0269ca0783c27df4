//! Plots and matrices as SVG: the one renderer of the page, of paper and of the files beside
//! Markdown. A picture has classes; `plot.css` gives them their looks, with the page's colours.
//!
//! On the page each mark also has its text (`data-say`) and each axis its values (`data-x`,
//! `data-y`): `plots.js` shows the one and scales the other.

mod axis;
mod grid;
mod marks;
mod panel;
#[cfg(test)]
mod tests;
mod ticks;

use crate::document::{Grid, Plot, Series, Shape};
use maud::{Markup, PreEscaped, html};

pub use panel::cut_at;

/// The looks of the classes.
pub const STYLE: &str = include_str!("plot.css");
/// The page's style, which declares the colours.
const PAGE_STYLE: &str = include_str!("../html/style.css");

/// Width of a picture that stands beside another one, in CSS pixels.
const NARROW: f64 = 440.0;
/// Width of a picture that has a row of its own.
const WIDE: f64 = 900.0;
/// Traces from which on each case has a panel of its own.
const TRACES_TOGETHER: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The page, whose script speaks for marks and zooms.
    Page,
    File,
}

#[derive(Clone, Debug)]
pub struct Picture {
    /// Width in CSS pixels.
    pub width: f64,
    /// Height in CSS pixels.
    pub height: f64,
    /// What is inside its `svg` element.
    inside: Markup,
}

impl Picture {
    pub fn of_plot(plot: &Plot, target: Target) -> Picture {
        let panels = panels(plot);
        if panels.len() > 1 {
            return multiples(plot, &panels, target);
        }
        let is_wide = plot.series.iter().any(|series| series.shape == Shape::Spans)
            || plot.series.iter().map(|series| series.points.len()).sum::<usize>() > panel::MANY;
        panel::draw(plot, if is_wide { WIDE } else { NARROW }, target)
    }

    pub fn of_grid(grid: &Grid, target: Target) -> Picture {
        let is_wide = grid.columns.1.len() > grid::MANY;
        grid::draw(grid, if is_wide { WIDE } else { NARROW }, target)
    }

    pub fn is_wide(&self) -> bool {
        self.width > NARROW
    }

    pub fn element(self) -> String {
        let size = format!("0 0 {} {}", short(self.width), short(self.height));
        html! { svg.picture viewBox=(size) aria-hidden="true" { (self.inside) } }.into_string()
    }

    /// A file that any program draws, in the light colours of the page.
    pub fn file(self, title: &str) -> String {
        let size = format!("0 0 {} {}", short(self.width), short(self.height));
        let svg = html! {
            svg.picture xmlns="http://www.w3.org/2000/svg" viewBox=(size) width=(short(self.width))
                height=(short(self.height)) {
                title { (title) }
                style { (PreEscaped(in_light_colours(STYLE))) }
                rect width="100%" height="100%" fill="#ffffff" {}
                (self.inside)
            }
        };
        svg.into_string()
    }
}

/// A style with the light colour in place of each `var(--NAME)`: many programs know no variables.
fn in_light_colours(style: &str) -> String {
    let mut parts = style.split("var(--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(')').unwrap_or((part, ""));
        let declared = PAGE_STYLE.split_once(&format!("--{name}: light-dark("));
        let light = declared.and_then(|(_, after)| after.split_once(','));
        text.push_str(light.map_or("currentColor", |(light, _)| light));
        text.push_str(rest);
    }
    text
}

/// The cases of many traces, each with its rounds and what was predicted of it, under its name.
fn panels(plot: &Plot) -> Vec<(&str, Vec<&Series>)> {
    let case = |series: &'_ Series| -> String {
        let name = series.name.split(", round ").next().unwrap_or_default();
        name.trim_start_matches("predicted, ").trim_start_matches("estimated, ").to_owned()
    };
    let traces = plot.series.iter().filter(|series| series.shape == Shape::Trace);
    let cases = analysis::gather::distinct(traces.clone().map(case));
    if cases.len() <= TRACES_TOGETHER {
        return Vec::new();
    }
    let of_case = |name: String| {
        let own: Vec<&Series> = plot.series.iter().filter(|series| case(series) == name).collect();
        let first = own.iter().find(|series| series.shape == Shape::Trace)?;
        Some((first.name.split(", round ").next()?, own))
    };
    cases.into_iter().filter_map(of_case).collect()
}

/// Small multiples: a panel for each case, all with the same axes.
fn multiples(plot: &Plot, panels: &[(&str, Vec<&Series>)], target: Target) -> Picture {
    let columns = if panels.len() > 4 { 3 } else { 2 };
    let width = WIDE / columns as f64;
    let ends = panel::Ends::from_plot(plot);
    let drawn: Vec<Picture> = panels
        .iter()
        .map(|(name, own)| {
            let own = Plot {
                title: (*name).to_owned(),
                series: own.iter().copied().cloned().collect(),
                ..plot.clone()
            };
            panel::draw_within(&own, width, &ends, target)
        })
        .collect();
    let height = drawn.iter().map(|one| one.height).fold(0.0, f64::max);
    let rows = panels.len().div_ceil(columns);
    let inside = html! {
        @for (at, one) in drawn.into_iter().enumerate() {
            svg x=(short((at % columns) as f64 * width)) y=(short((at / columns) as f64 * height))
                width=(short(width)) height=(short(height)) { (one.inside) }
        }
    };
    Picture { width: WIDE, height: rows as f64 * height, inside }
}

/// A place or length in a picture, to a hundredth of a pixel.
fn short(value: f64) -> String {
    // What lies far outside is cut off anyway.
    let rounded = (value.clamp(-1e5, 1e5) * 100.0).round() / 100.0;
    if rounded.is_finite() { (rounded + 0.0).to_string() } else { "0".to_owned() }
}

/// About how wide a text is, by its letters and the size of its font.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.55
}

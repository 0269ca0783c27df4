//! An axis of a picture: where its values lie, and its ticks.

use super::ticks::{self, Scale};
use super::{short, text_width};
use crate::document::Axis;
use maud::{Markup, html};
use record::quantity;
use record::unit::Unit;
use serde_json::json;

/// Share of its length that an axis goes on beyond its values.
const MARGIN: f64 = 0.04;
/// Size of tick labels, in pixels.
pub const TICK_SIZE: f64 = 11.0;

/// An axis with the values at its ends and its length in pixels.
pub struct Along<'plot> {
    pub axis: &'plot Axis,
    low: f64,
    high: f64,
    pub length: f64,
    is_vertical: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Right,
    Up,
}

impl<'plot> Along<'plot> {
    pub fn new(axis: &'plot Axis, ends: Option<(f64, f64)>, length: f64, way: Way) -> Self {
        let (low, high) = ends.unwrap_or((1.0, 2.0));
        let (low, high) = match axis.is_log {
            true => {
                let room = if high > low { (high / low).powf(MARGIN) } else { 1.5 };
                (low / room, high * room)
            }
            false => {
                let room =
                    if high > low { (high - low) * MARGIN } else { high.abs().max(1.0) / 2.0 };
                // A quantity that begins at zero stays there.
                let stays = low == 0.0 && axis.names.is_empty();
                (if stays { 0.0 } else { low - room }, high + room)
            }
        };
        // A damaged record has values at the end of what a number holds.
        let (low, high) = (low.max(f64::MIN), high.min(f64::MAX));
        Along { axis, low, high, length, is_vertical: way == Way::Up }
    }

    /// Where lanes with numbers from 0 on lie, from above.
    pub fn lanes(axis: &'plot Axis, count: usize, length: f64) -> Self {
        let (low, high) = (count as f64 - 0.5, -0.5);
        Along { axis, low, high, length, is_vertical: true }
    }

    /// The place of a value, in pixels from the left or from above.
    pub fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| match self.axis.is_log {
            true => value.max(f64::MIN_POSITIVE).ln(),
            false => value,
        };
        let share = (scaled(value) - scaled(self.low)) / (scaled(self.high) - scaled(self.low));
        self.length * if self.is_vertical { 1.0 - share } else { share }
    }

    /// Its ticks: their places and labels, no more than fit.
    pub fn ticks(&self, is_binary: bool) -> Vec<(f64, String)> {
        let ticks = match self.axis.names.is_empty() {
            false => ticks::names(&self.axis.names),
            true => {
                // A bare number has no unit.
                let unit = Some(self.axis.unit.unwrap_or(Unit::Ratio));
                let scale = Scale { unit, is_log: self.axis.is_log, is_binary };
                ticks::ticks(scale, Some((self.low, self.high)))
            }
        };
        let (least, most) = (self.low.min(self.high), self.low.max(self.high));
        let seen: Vec<(f64, String)> =
            ticks.into_iter().filter(|(at, _)| (least..=most).contains(at)).collect();
        let room = match self.is_vertical {
            true => TICK_SIZE * 1.4,
            false => {
                let widths = seen.iter().map(|(_, text)| text_width(text, TICK_SIZE));
                widths.fold(0.0, f64::max) + 10.0
            }
        };
        let step = (seen.len() as f64 * room / self.length).ceil().max(1.0) as usize;
        let placed = seen.into_iter().step_by(step);
        placed.map(|(at, text)| (self.place(at), text)).collect()
    }

    /// What the page's script needs to place new ticks and to read values off.
    pub fn data(&self) -> String {
        let steps = match (self.axis.names.is_empty(), self.axis.unit) {
            (false, _) => None,
            (true, unit) => Some(quantity::steps(unit.unwrap_or(Unit::Ratio))),
        };
        json!({ "low": self.low, "high": self.high, "log": self.axis.is_log, "steps": steps })
            .to_string()
    }
}

/// Ticks of the horizontal axis of an area of a height: lines and labels.
pub fn below(ticks: &[(f64, String)], height: f64, has_lines: bool) -> Markup {
    html! {
        g.ticks.x {
            @for (at, text) in ticks {
                @if has_lines { path d={ "M" (short(*at)) " 0V" (short(height)) } {} }
                text x=(short(*at)) y=(short(height + 14.0)) { (text) }
            }
        }
    }
}

/// Ticks of the vertical axis of an area of a width. A label has as many lines as it has texts.
pub fn beside(ticks: &[(f64, Vec<String>)], width: f64, has_lines: bool) -> Markup {
    html! {
        g.ticks.y {
            @for (at, lines) in ticks {
                @if has_lines { path d={ "M0 " (short(*at)) "H" (short(width)) } {} }
                @for (line, text) in lines.iter().enumerate() {
                    @let shift = (line as f64 - (lines.len() - 1) as f64 / 2.0) * 13.0 + 4.0;
                    text x="-6" y=(short(at + shift)) { (text) }
                }
            }
        }
    }
}

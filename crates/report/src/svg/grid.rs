//! A matrix as coloured cells, with a scale of its colours.

use super::axis::{TICK_SIZE, below, beside};
use super::ticks::{self, Scale};
use super::{Picture, Target, short, text_width};
use crate::document::{Grid, Shades};
use analysis::gather::ends;
use maud::{Markup, html};
use record::quantity::{digits, render, scale};
use record::unit::Unit;

/// Columns from which on a matrix has a row of its own.
pub const MANY: usize = 24;
/// Columns up to which cells carry their values.
const WITH_TEXT: usize = 12;
/// Ratio of the greatest cell to the least from which colours follow the logarithm.
const LOG_COLOURS: f64 = 20.0;
const SHADES: f64 = 20.0;
/// Greatest ratio that a matrix of ratios has a colour of its own for, and the least one for which the
/// colours are as deep as they get: scatter of a few per cent stays pale.
const RATIOS_MOST: f64 = 2.0;
/// See [`RATIOS_MOST`] for details.
const RATIOS_LEAST: f64 = 1.15;
/// Ratios that the scale of their colours may show.
const RATIO_TICKS: [f64; 11] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.7, 2.0];

pub struct Colours {
    low: f64,
    high: f64,
    is_log: bool,
    /// Both sides of 1 have colours.
    is_ratio: bool,
}

impl Colours {
    pub fn from_grid(grid: &Grid) -> Colours {
        let (low, high) = ends(grid.cells.iter().flatten().flatten().copied());
        let is_positive = low > 0.0;
        if grid.shades == Shades::Ratios && is_positive {
            let reach = high.max(1.0 / low).clamp(RATIOS_LEAST, RATIOS_MOST);
            return Colours { low: 1.0 / reach, high: reach, is_log: true, is_ratio: true };
        }
        Colours { low, high, is_log: is_positive && high / low > LOG_COLOURS, is_ratio: false }
    }

    /// Where a value lies between the least and the greatest, from 0 to 1; of ratios from -1 to 1.
    pub fn depth(&self, value: f64) -> f64 {
        let scaled =
            |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (scaled(value) - scaled(self.low)) / (scaled(self.high) - scaled(self.low));
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        if self.is_ratio { 2.0 * share - 1.0 } else { share }
    }

    /// Values that the scale shows.
    fn ticks(&self, unit: Unit) -> Vec<(f64, String)> {
        let within = |at: &f64| (self.low..=self.high).contains(at);
        if self.is_ratio {
            return RATIO_TICKS.into_iter().filter(within).map(|at| (at, at.to_string())).collect();
        }
        let scale = Scale { unit: Some(unit), is_log: self.is_log, is_binary: false };
        let mut ticks = ticks::ticks(scale, Some((self.low, self.high)));
        ticks.retain(|(at, _)| within(at));
        ticks
    }
}

pub fn draw(grid: &Grid, width: f64, target: Target) -> Picture {
    let (rows, columns) = (grid.rows.1.len(), grid.columns.1.len());
    let colours = Colours::from_grid(grid);
    let ticks = colours.ticks(grid.unit);
    let widest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| text_width(text, TICK_SIZE)).fold(0.0, f64::max)
    };
    let scale_width = widest(&mut ticks.iter().map(|(_, text)| text)) + 34.0;
    let left = widest(&mut grid.rows.1.iter()) + 26.0;
    let room = (width - left - scale_width - 14.0).max(60.0);
    let cell_width = (room / columns.max(1) as f64).min(56.0);
    let cell_height = (cell_width * 0.75).clamp(if rows <= 40 { 16.0 } else { 2.0 }, 26.0);
    let (inner, height) = (cell_width * columns as f64, cell_height * rows as f64);
    let cells = Cells { grid, colours: &colours, width: cell_width, height: cell_height };
    let across = thinned(&grid.columns.1, cell_width, widest(&mut grid.columns.1.iter()) + 8.0);
    let down = thinned(&grid.rows.1, cell_height, TICK_SIZE * 1.3).into_iter();
    let down: Vec<(f64, Vec<String>)> = down.map(|(at, text)| (at, vec![text])).collect();
    let inside = html! {
        g transform={ "translate(" (short(left)) " 8)" } {
            g.cells {
                (cells.base(target))
                (cells.shades())
            }
            @if columns <= WITH_TEXT { (cells.texts()) }
            (below(&across, height, false))
            (beside(&down, 0.0, false))
            text.label x=(short(inner / 2.0)) y=(short(height + 30.0)) { (grid.columns.0) }
            text.label transform={ "translate(" (short(12.0 - left)) " " (short(height / 2.0)) ") rotate(-90)" } {
                (grid.rows.0)
            }
            (key(&colours, &ticks, inner + 14.0, height.clamp(60.0, 200.0)))
        }
    };
    Picture { width, height: height.max(60.0) + 46.0, inside }
}

/// Names in the middle of their rows or columns, as many as fit.
fn thinned(names: &[String], length: f64, room: f64) -> Vec<(f64, String)> {
    let step = (room / length).ceil().max(1.0) as usize;
    let all = names.iter().enumerate().step_by(step);
    all.map(|(at, name)| ((at as f64 + 0.5) * length, name.clone())).collect()
}

/// The cells of a matrix, in pixels.
struct Cells<'grid> {
    grid: &'grid Grid,
    colours: &'grid Colours,
    width: f64,
    height: f64,
}

impl Cells<'_> {
    /// Row, column and value of each.
    fn all(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let rows = self.grid.cells.iter().enumerate();
        rows.flat_map(|(row, cells)| {
            let own = cells.iter().enumerate();
            own.filter_map(move |(column, value)| Some((row, column, (*value)?)))
        })
    }

    fn stroke(&self, row: usize, column: usize) -> String {
        let gap = if self.width < 8.0 { 0.0 } else { 1.0 };
        let (x, y) = (self.width * column as f64, self.height * (row as f64 + 0.5));
        format!("M{} {}H{}", short(x), short(y), short(x + self.width - gap))
    }

    /// All cells in the palest colour, with what each says.
    fn base(&self, target: Target) -> Markup {
        let (rows, columns) = (&self.grid.rows, &self.grid.columns);
        let say = |(row, column, value): (usize, usize, f64)| {
            format!(
                "{} {}, {} {}: {}",
                rows.0,
                rows.1[row],
                columns.0,
                columns.1[column],
                render(value, self.grid.unit)
            )
        };
        let strokes: String = self.all().map(|(row, column, _)| self.stroke(row, column)).collect();
        let said = (target == Target::Page)
            .then(|| self.all().map(say).collect::<Vec<String>>().join("\n"));
        let class = if self.colours.is_ratio { "ratio2" } else { "heat1" };
        html! { path class=(class) d=(strokes) stroke-width=(short(self.thickness())) data-say=[said] {} }
    }

    fn thickness(&self) -> f64 {
        if self.width < 8.0 { self.height } else { self.height - 1.0 }
    }

    /// The cells of each shade, over the palest one.
    fn shades(&self) -> Markup {
        let shade = |value: f64| (self.colours.depth(value) * SHADES).round() as i32;
        let cells = self.all().map(|(row, column, value)| (shade(value), self.stroke(row, column)));
        let shades = analysis::gather::gathered(cells);
        html! {
            @for (shade, strokes) in shades.into_iter().filter(|(shade, _)| *shade != 0) {
                path class=(self.class(shade)) d=(strokes.concat()) stroke-width=(short(self.thickness()))
                    stroke-opacity=(short(f64::from(shade.abs()) / SHADES)) {}
            }
        }
    }

    fn class(&self, shade: i32) -> &'static str {
        match (self.colours.is_ratio, shade < 0) {
            (false, _) => "heat3",
            (true, true) => "ratio1",
            (true, false) => "ratio3",
        }
    }

    /// Their values, in the unit of the scale.
    fn texts(&self) -> Markup {
        let greatest = self.all().fold(0.0, |most, (.., value)| f64::max(most, value.abs()));
        let (factor, _) = scale(greatest, self.grid.unit);
        html! {
            @for (row, column, value) in self.all() {
                text.cell.over[self.colours.depth(value).abs() > 0.5]
                    x=(short(self.width * (column as f64 + 0.5)))
                    y=(short(self.height * (row as f64 + 0.5) + 4.0)) { (digits(value / factor)) }
            }
        }
    }
}

/// The scale of the colours, the greatest value on top.
fn key(colours: &Colours, ticks: &[(f64, String)], left: f64, height: f64) -> Markup {
    let steps = if colours.is_ratio { -(SHADES as i32)..=SHADES as i32 } else { 0..=SHADES as i32 };
    let count = steps.clone().count() as f64;
    let place = |depth: f64| match colours.is_ratio {
        true => height * (1.0 - depth) / 2.0,
        false => height * (1.0 - depth),
    };
    let ground = if colours.is_ratio { "ratio2" } else { "heat1" };
    html! {
        g.cells transform={ "translate(" (short(left)) " 0)" } {
            path class=(ground) d={ "M5 0V" (short(height)) } stroke-width="10" {}
            @for step in steps {
                @let y = place(f64::from(step) / SHADES);
                @let class = match (colours.is_ratio, step < 0) { (false, _) => "heat3", (true, true) => "ratio1", (true, false) => "ratio3" };
                path class=(class) d={ "M0 " (short(y.clamp(height / count / 2.0, height - height / count / 2.0))) "h10" }
                    stroke-width=(short(height / count)) stroke-opacity=(short(f64::from(step.abs()) / SHADES)) {}
            }
            @for (at, text) in ticks {
                text.key x="14" y=(short(place(colours.depth(*at)) + 4.0)) { (text) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Colours;
    use crate::document::{Grid, Shades};
    use crate::svg::{Picture, Target};
    use record::unit::Unit;

    fn grid(shades: Shades, cells: Vec<Vec<Option<f64>>>) -> Grid {
        let names = |count: usize| (0..count).map(|at| at.to_string()).collect();
        let columns = cells.first().map_or(0, Vec::len);
        Grid {
            title: String::new(),
            rows: ("from".to_owned(), names(cells.len())),
            columns: ("to".to_owned(), names(columns)),
            label: "latency".to_owned(),
            unit: Unit::Ns,
            shades,
            cells,
        }
    }

    #[test]
    fn a_matrix_says_what_its_cells_are_and_leaves_out_what_is_missing() {
        let cells = vec![vec![None, Some(61.234)], vec![Some(64.0), None]];
        let markup = Picture::of_grid(&grid(Shades::Values, cells), Target::Page).element();
        let said = "data-say=\"from 0, to 1: 61.2 ns\nfrom 1, to 0: 64 ns\"";
        assert!(markup.contains(said), "{markup}");
        let empty = Picture::of_grid(&grid(Shades::Values, Vec::new()), Target::File);
        assert!(!empty.file("").contains("NaN"));
    }

    #[test]
    fn the_colours_of_ratios_lie_about_one() {
        let depths = |values: [f64; 2]| {
            let grid = grid(Shades::Ratios, vec![values.map(Some).to_vec()]);
            let colours = Colours::from_grid(&grid);
            values.map(|value| (colours.depth(value) * 100.0).round())
        };
        // Scatter stays pale; a link at a tenth of its rate leaves the others their colours.
        assert_eq!(depths([0.99, 1.02]), [-7.0, 14.0]);
        assert_eq!(depths([0.1, 1.0]), [-100.0, 0.0]);
        assert_eq!(depths([0.8, 1.0]), [-100.0, 0.0]);
        // A figure may be zero: it has no logarithm.
        assert_eq!(depths([0.0, 1.0]), [0.0, 100.0]);
    }
}

//! Plots in text: braille cells of two by four dots.

use super::document::{Axis, Plot, Shape};
use analysis::gather::ends;
use record::quantity::{digits, render, scale};

/// Rows of cells of a plot.
const HEIGHT: usize = 8;

/// Dots of a braille cell by (column, row), as bits of U+2800's block.
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// Lines of text, at most `width` columns wide, or nothing for a plot that text cannot show.
pub fn draw(plot: &Plot, width: usize) -> Option<Vec<String>> {
    let lines: Vec<Vec<(f64, f64)>> = plot
        .series
        .iter()
        .filter(|series| matches!(series.shape, Shape::Line | Shape::Trace))
        .map(|series| {
            let points = series
                .points
                .iter()
                .map(|point| (place(point.x, &plot.x), place(point.y, &plot.y)));
            points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
        })
        .filter(|points: &Vec<(f64, f64)>| points.len() > 2)
        .collect();
    let xs = extent(lines.iter().flatten().map(|(x, _)| *x))?;
    let ys = extent(lines.iter().flatten().map(|(_, y)| *y))?;
    let label = |value: f64, axis: &Axis| {
        if let Some(name) = axis.names.get(value.round().max(0.0) as usize) {
            return name.clone();
        }
        let value = if axis.is_log { value.exp2() } else { value };
        axis.unit.map_or_else(|| digits(value), |unit| render(value, unit))
    };
    let (mut top, mut bottom) = (label(ys.1, &plot.y), label(ys.0, &plot.y));
    if top == bottom {
        // Closer than rendering shows: with enough digits to distinguish them.
        let of = |value: f64| if plot.y.is_log { value.exp2() } else { value };
        let (high, low) = (of(ys.1), of(ys.0));
        let (factor, unit) = plot.y.unit.map_or((1.0, ""), |unit| scale(high, unit));
        let places = (1.0 - ((high - low) / factor).log10().floor()).clamp(0.0, 9.0) as usize;
        let told = |value: f64| format!("{:.places$} {unit}", value / factor);
        (top, bottom) = (told(high), told(low));
    }
    let margin = top.chars().count().max(bottom.chars().count());
    let columns = width.checked_sub(margin + 2).filter(|columns| *columns >= 20)?;
    let mut cells = vec![vec![0_u32; columns]; HEIGHT];
    for points in &lines {
        trace(&mut cells, points, xs, ys);
    }
    let mut text: Vec<String> = cells
        .iter()
        .enumerate()
        .map(|(row, cells)| {
            let label = match row {
                0 => &top,
                row if row == HEIGHT - 1 => &bottom,
                _ => "",
            };
            let dots: String =
                cells.iter().filter_map(|bits| char::from_u32(0x2800 + bits)).collect();
            format!("{label:>margin$} ┤{}", dots.trim_end_matches('\u{2800}'))
        })
        .collect();
    let (left, right) = (label(xs.0, &plot.x), label(xs.1, &plot.x));
    let middle = plot.x.label.as_str();
    text.push(axis_line(margin, columns, [&left, middle, &right]));
    Some(text)
}

/// The line below a picture: what stands at its left, in its middle and at its right.
pub(super) fn axis_line(margin: usize, columns: usize, parts: [&str; 3]) -> String {
    let [left, middle, right] = parts;
    let taken: usize = parts.iter().map(|part| part.chars().count()).sum();
    let gap = columns.saturating_sub(taken);
    let [indent, before, behind] = [margin + 2, gap / 2, gap - gap / 2].map(|of| " ".repeat(of));
    format!("{indent}{left}{before}{middle}{behind}{right}")
}

fn place(value: f64, axis: &Axis) -> f64 {
    if axis.is_log { value.log2() } else { value }
}

/// Least and greatest; a flat line gets room around it.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = ends(values);
    let room = match high > low {
        true => 0.0,
        false => (low.abs() * 0.01).max(f64::MIN_POSITIVE),
    };
    (low <= high).then_some((low - room, high + room))
}

/// Joins the points by straight lines of dots.
fn trace(cells: &mut [Vec<u32>], points: &[(f64, f64)], xs: (f64, f64), ys: (f64, f64)) {
    let (width, height) = (cells[0].len() * 2 - 1, HEIGHT * 4 - 1);
    let to_dots = |(x, y): (f64, f64)| {
        let across = (x - xs.0) / (xs.1 - xs.0) * width as f64;
        let down = (ys.1 - y) / (ys.1 - ys.0) * height as f64;
        (across, down)
    };
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (to_dots(pair[0]), to_dots(pair[1]));
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let share = step as f64 / steps as f64;
            let column = (x0 + share * (x1 - x0)).round() as usize;
            let row = (y0 + share * (y1 - y0)).round() as usize;
            let (column, row) = (column.min(width), row.min(height));
            cells[row / 4][column / 2] |= DOTS[column % 2][row % 4];
        }
    }
}

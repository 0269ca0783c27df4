//! Stretches of time in text: a lane for each series, a letter for each slice of time.

use super::braille::axis_line;
use super::document::{Plot, Shape};
use analysis::gather::ends;
use record::quantity::{digits, render};

/// A slice that is covered up to this share is drawn so.
const SHADES: &[(f64, char)] = &[(0.01, '·'), (0.25, '░'), (0.5, '▒'), (0.75, '▓')];

/// Lines of text, at most `width` columns wide, or nothing for a plot of something else.
pub fn draw(plot: &Plot, width: usize) -> Option<Vec<String>> {
    let lanes: Vec<_> = plot.series.iter().filter(|series| series.shape == Shape::Spans).collect();
    let points = lanes.iter().flat_map(|series| &series.points);
    let (first, last) = ends(points.flat_map(|point| [point.x, point.y]));
    let margin = lanes.iter().map(|lane| lane.name.chars().count()).max()?;
    let columns = width.checked_sub(margin + 2).filter(|columns| *columns >= 20 && last > first)?;
    let slice = (last - first) / columns as f64;
    let mut text: Vec<String> = lanes
        .iter()
        .map(|lane| {
            let mut covered = vec![0.0; columns];
            for point in &lane.points {
                cover(&mut covered, (point.x - first) / slice, (point.y - first) / slice);
            }
            let drawn: String = covered.into_iter().map(shade).collect();
            format!("{:>margin$} ┤{}", lane.name, drawn.trim_end())
        })
        .collect();
    let label = |value: f64| {
        let unit = plot.x.unit;
        unit.map_or_else(|| digits(value), |unit| render(value, unit))
    };
    text.push(axis_line(margin, columns, [&label(first), "", &label(last)]));
    Some(text)
}

/// Adds a stretch, in slices, to the share that each slice is covered.
fn cover(covered: &mut [f64], start: f64, end: f64) {
    let last = covered.len() - 1;
    let first = (start as usize).min(last);
    // One that ends where a slice begins is not in it.
    let end_at = (end.ceil() as usize).saturating_sub(1).clamp(first, last);
    for (at, covered) in covered.iter_mut().enumerate().take(end_at + 1).skip(first) {
        let share = end.min((at + 1) as f64) - start.max(at as f64);
        // Of no length that shows, but there.
        *covered += share.max(f64::MIN_POSITIVE);
    }
}

fn shade(covered: f64) -> char {
    if covered == 0.0 {
        return ' ';
    }
    let found = SHADES.iter().find(|(up_to, _)| covered <= *up_to);
    found.map_or('█', |(_, letter)| *letter)
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::build::plots::axis;
    use crate::document::{Plot, Point, Series, Shape};
    use record::unit::Unit;

    fn lane(name: &str, spans: &[(f64, f64)]) -> Series {
        let point = |(x, y): &(f64, f64)| Point::at(*x, *y);
        Series::new(name, Shape::Spans, spans.iter().map(point).collect())
    }

    #[test]
    fn lanes_show_who_had_which_slice_and_short_stretches_too() {
        let lanes = vec![lane("one", &[(0.0, 5e6), (9.999e6, 1e7)]), lane("two", &[(5e6, 9.8e6)])];
        let axes = [Some(Unit::Ns), None].map(|unit| axis("time", unit, false));
        let [x, y] = axes;
        let plot = Plot::new("", x, y, lanes);
        let text = draw(&plot, 25).expect("wide enough");
        assert_eq!(
            text,
            ["one ┤██████████         ·", "two ┤          █████████▓", "     0 ns           10 ms"]
        );
        assert_eq!(draw(&plot, 10), None);
    }
}

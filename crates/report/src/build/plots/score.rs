//! Measured over predicted, for every predicted figure.

use super::axis;
use crate::document::{Plot, Point, Series, Shape};
use analysis::figure::Figure;
use analysis::verdict::Verdict;
use record::event::Ending;
use record::quantity::digits;
use record::unit::Unit;
use std::collections::BTreeMap;

/// Measured over predicted for every predicted figure, with the predicted interval around one.
pub fn score(figures: &[Figure]) -> Option<Plot> {
    let mut families: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    let (mut ranges, mut of_family) = (Vec::new(), Vec::new());
    let judged = figures.iter().filter_map(|figure| {
        let judged = figure.prior.as_ref()?;
        let range = judged.prediction.says(figure.unit()).filter(|range| range.likely > 0.0)?;
        let value = figure.value.filter(|value| *value > 0.0)?;
        let counts =
            figure.outcome == Ending::Measured || judged.verdict == Some(Verdict::Impossible);
        counts.then_some((figure, range, value))
    });
    for (at, (figure, range, value)) in judged.enumerate() {
        let x = at as f64;
        let ends = Some((range.low / range.likely, range.high / range.likely));
        ranges.push(Point { ends, ..Point::plain(x, 1.0) });
        of_family.push(figure.family());
        let point = Point {
            hover: said(figure, value / range.likely),
            ..Point::plain(x, value / range.likely)
        };
        families.entry(figure.family()).or_default().push(point);
    }
    if ranges.is_empty() {
        return None;
    }
    let mut series = vec![Series::new("predicted interval", Shape::Ranges, ranges)];
    let families = families.into_iter();
    series.extend(families.map(|(family, points)| Series::new(family, Shape::Dots, points)));
    let mut x = axis("predicted figures, by family", None, false);
    x.names = amid(&of_family);
    let y = axis("measured / likely", Some(Unit::Ratio), true);
    Some(Plot::new("Measured over predicted", x, y, series))
}

fn said(figure: &Figure, ratio: f64) -> String {
    format!("{}: {} × the best guess", figure.label(), digits(ratio))
}

/// Each family's name in the middle of the places that it has one after another.
fn amid(families: &[&str]) -> Vec<String> {
    let mut names = vec![String::new(); families.len()];
    let mut start = 0;
    for stretch in families.chunk_by(|one, next| one == next) {
        names[start + stretch.len() / 2] = stretch[0].to_owned();
        start += stretch.len();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::amid;

    #[test]
    fn a_family_is_named_once_where_it_is() {
        assert_eq!(amid(&["cpu", "cpu", "cpu", "os", "cpu"]), ["", "cpu", "", "os", "cpu"]);
        assert!(amid(&[]).is_empty());
    }
}

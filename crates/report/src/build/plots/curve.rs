//! A metric over another of the same case, a line per rest of the case.

use super::line::{expected, predicted};
use super::{Shown, Spot, axis, hover, names, pictures, spots, title};
use crate::document::{Plot, Point, Series, Shape};
use crate::values;
use analysis::gather::gathered;
use record::key::{CaseId, Value};
use record::order::InOrder;
use record::quantity::render;
use record::view::View;

/// A line's case, its run, and its points by their steps, each with what was predicted there.
type Line = ((CaseId, usize), Vec<(Option<u64>, (Point, Option<Point>))>);

/// A picture for each of the chosen values in which both metrics have values.
pub(super) fn plots(shown: &[Shown<'_>], view: &View) -> Vec<Plot> {
    let View::Curve { along, x, y, log_x, log_y, cases } = view else {
        return Vec::new();
    };
    let across = spots(shown, x, cases);
    let mut plots = Vec::new();
    for (of, spots) in pictures(spots(shown, y, cases), &cases.each) {
        let mut points = Vec::new();
        let mut units = None;
        for spot in spots {
            let same = across.iter().find(|other| {
                other.run_index == spot.run_index && other.figure.case == spot.figure.case
            });
            let (Some(over), Some(step)) = (same, spot.figure.case.get(along)) else {
                continue;
            };
            units = Some((over.metric.shown_unit(), spot.metric.shown_unit()));
            let own = spot.figure.case.0.iter();
            let rest = own.filter(|(name, _)| name != along && of.get(name).is_none());
            let line = (CaseId(rest.cloned().collect()), spot.run_index);
            let range = predicted(spot.figure, over.value).filter(|_| spot.run_index == 0);
            points.push((line, (step.int(), (point(&spot, over, along, step), range))));
        }
        let lines: Vec<Line> = gathered(points);
        let Some((unit_x, unit_y)) = units else {
            continue;
        };
        let keys: Vec<(&CaseId, usize)> = lines.iter().map(|((case, of), _)| (case, *of)).collect();
        let names = names(shown, &keys, y);
        let series = names.into_iter().zip(lines).flat_map(|(name, (_, mut points))| {
            // Symbols after numbers, in the order of the plan.
            points.order_by_key(|(step, _)| step.map_or((1, 0), |step| (0, step)));
            let (points, ranges): (Vec<Point>, Vec<Option<Point>>) =
                points.into_iter().map(|(_, both)| both).unzip();
            let mut ranges: Vec<Point> = ranges.into_iter().flatten().collect();
            ranges.order_by(|a, b| a.x.total_cmp(&b.x));
            let band = expected(&name, ranges);
            band.into_iter().chain([Series::new(name, Shape::Line, points)])
        });
        plots.push(Plot::new(
            title(shown, &format!("{y} over {x}").replace('_', " "), &of),
            axis(x, Some(unit_x), *log_x),
            axis(y, Some(unit_y), *log_y),
            series.collect(),
        ));
    }
    plots
}

fn point(spot: &Spot<'_>, over: &Spot<'_>, along: &str, step: &Value) -> Point {
    let at = format!(
        "{along} {}, {}",
        values::parameter(step, None),
        render(over.value, over.metric.shown_unit())
    );
    Point { x: over.value, y: spot.value, ends: spot.figure.ci, hover: hover(spot.figure, &at) }
}

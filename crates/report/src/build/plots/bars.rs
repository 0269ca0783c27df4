//! A bar per case, beside each other where there are several runs.

use super::line::predicted;
use super::{Shown, Spot, axis, hover, names, pictures, spots, title};
use crate::document::{Plot, Point, Series, Shape};
use analysis::gather::{distinct, ends};
use record::key::CaseId;
use record::view::Cases;

/// The greatest value over the least from which on they are no lengths but places.
const APART: f64 = 30.0;

pub(super) fn plots(shown: &[Shown<'_>], metric: &str, cases: &Cases) -> Vec<Plot> {
    let pictures = pictures(spots(shown, metric, cases), &cases.each);
    let plot = |(of, spots): (CaseId, Vec<Spot<'_>>)| {
        let bare = |spot: &Spot<'_>| {
            let own = spot.figure.case.0.iter();
            CaseId(own.filter(|(name, _)| of.get(name).is_none()).cloned().collect())
        };
        let categories = distinct(spots.iter().map(bare));
        if categories.len() < 2 {
            return None;
        }
        let unit = spots.first()?.metric.shown_unit();
        // Named as if all were of one run: the series identifies the run.
        let alone = shown.first().map(|first| Shown { name: "", ..*first });
        let keys: Vec<(&CaseId, usize)> = categories.iter().map(|case| (case, 0)).collect();
        let labels = names(alone.as_slice(), &keys, metric);
        let of_run = |(at, one): (usize, &Shown<'_>)| {
            let own = spots.iter().filter(|spot| spot.run_index == at);
            let point = |spot: &Spot<'_>| {
                let case = bare(spot);
                let at = categories.iter().position(|category| *category == case)?;
                Some(Point {
                    x: at as f64,
                    y: spot.value,
                    ends: spot.figure.ci,
                    hover: hover(spot.figure, &labels[at]),
                })
            };
            let points: Vec<Point> = own.filter_map(point).collect();
            let name = match one.name {
                "" => metric.replace('_', " "),
                run => run.to_owned(),
            };
            (!points.is_empty()).then(|| Series::new(name, Shape::Bars, points))
        };
        let mut y = axis("", None, false);
        y.names.clone_from(&labels);
        // Lengths dominated by a single one say nothing: then places along a logarithmic axis.
        let (low, high) = ends(spots.iter().map(|spot| spot.value));
        let is_log = low > 0.0 && high > APART * low;
        let bars = shown.iter().enumerate().filter_map(of_run);
        // The first run's: that is what the others are held against.
        let ranges = spots.iter().filter(|spot| spot.run_index == 0).filter_map(|spot| {
            let case = bare(spot);
            let at = categories.iter().position(|category| *category == case)?;
            predicted(spot.figure, at as f64)
        });
        let ranges = Series::new("predicted", Shape::Ranges, ranges.collect());
        let series = Some(ranges).filter(|ranges| !ranges.points.is_empty());
        let series = series.into_iter().chain(bars).collect();
        let title = title(shown, &metric.replace('_', " "), &of);
        Some(Plot::new(title, axis(metric, Some(unit), is_log), y, series))
    };
    pictures.into_iter().filter_map(plot).collect()
}

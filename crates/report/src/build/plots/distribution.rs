//! How single events spread: round trips, wake-ups, reads, through their percentiles.

use super::axis;
use crate::document::{Plot, Point, Series, Shape};
use crate::values;
use analysis::figure::{Figure, LADDER, Stats};
use analysis::gather::{ends, gathered};
use analysis::names::Names;
use record::event::PlannedExperiment;
use record::order::InOrder;
use record::view::View;

/// What the places along the axis are called.
const NAMES: [&str; 8] = ["p10", "p25", "p50", "p75", "p90", "p99", "p99.9", "max"];
const MEDIAN: f64 = 2.0;
const LEAST_SAMPLES: u64 = 20;
/// Metrics that have a picture; the others' percentiles are in the tables.
const MOST_PICTURES: usize = 1;
const MOST_LINES: usize = 6;
/// Greatest over least drawn value from which the axis is logarithmic.
const APART: f64 = 8.0;

/// A picture for each of the first metrics whose samples are times of single events, those that the
/// experiment's views are about before others.
pub fn distribution(planned: &PlannedExperiment, names: &Names, figures: &[&Figure]) -> Vec<Plot> {
    let events = figures.iter().filter_map(|figure| {
        let stats = figure.stats.as_ref().filter(|stats| stats.is_of_events())?;
        let is_enough =
            stats.samples >= LEAST_SAMPLES && !stats.ladder.is_empty() && figure.unit().is_time();
        is_enough.then_some((figure.metric_name(), (*figure, stats)))
    });
    let views: Vec<&str> = planned.all_views().flat_map(View::metrics).collect();
    let mut pictures = gathered(events);
    pictures.order_by_key(|(metric, _)| !views.contains(metric));
    let pictures = pictures.into_iter().take(MOST_PICTURES);
    pictures.filter_map(|(metric, own)| picture(planned, names, metric, own)).collect()
}

fn picture(
    planned: &PlannedExperiment,
    names: &Names,
    metric: &str,
    mut own: Vec<(&Figure, &Stats)>,
) -> Option<Plot> {
    let all = own.len();
    let widest = |(_, stats): &(&Figure, &Stats)| stats.p99 / stats.p50;
    // Those with the longest tails, in the order of the plan.
    let mut tails: Vec<f64> = own.iter().map(widest).collect();
    tails.order_by(|a, b| b.total_cmp(a));
    if let Some(least) = tails.get(MOST_LINES - 1) {
        own.retain(|one| widest(one).total_cmp(least).is_ge());
        own.truncate(MOST_LINES);
    }
    let unit = own.first()?.0.unit();
    let mut series: Vec<Series> = predicted(&own).into_iter().collect();
    series.extend(own.iter().map(|(figure, stats)| {
        // An experiment of one case needs no name for it, but a legend does.
        let name = Some(names.case(figure)).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| metric.replace('_', " "));
        Series::new(name, Shape::Line, points(figure, stats))
    }));
    let lines = || series.iter().filter(|one| one.shape == Shape::Line);
    let (low, high) = ends(lines().flat_map(|one| &one.points).map(|point| point.y));
    let mut x = axis("percentile of the events", None, false);
    x.names = NAMES.map(str::to_owned).to_vec();
    let left = match all > own.len() {
        true => format!(" (the {} of {all} cases with the longest tails)", own.len()),
        false => String::new(),
    };
    let words = metric.replace('_', " ");
    Some(Plot::new(
        format!("{}: distribution of {words}{left}", planned.id),
        x,
        axis(metric, Some(unit), low > 0.0 && high > APART * low),
        series,
    ))
}

/// What was predicted of the medians of all lines, from the least to the greatest.
fn predicted(own: &[(&Figure, &Stats)]) -> Option<Series> {
    let ranges = own.iter().filter_map(|(figure, _)| figure.shown_range());
    let ends = ranges.map(|range| (range.low, range.high));
    let ends = ends.reduce(|(low, high), (a, b)| (f64::min(low, a), f64::max(high, b)))?;
    let point = Point { ends: Some(ends), ..Point::plain(MEDIAN, ends.0) };
    Some(Series::new("predicted median", Shape::Ranges, vec![point]))
}

fn points(figure: &Figure, stats: &Stats) -> Vec<Point> {
    let ladder = stats.ladder.iter().copied().zip(0_u8..);
    let place_of_max = LADDER.len() as u8;
    let max = (!stats.at_least.contains(&"max")).then_some((stats.max, place_of_max));
    let point = |(value, at): (f64, u8)| Point {
        hover: format!("{} {}", NAMES[usize::from(at)], values::plain(value, figure.unit())),
        ..Point::plain(f64::from(at), value)
    };
    ladder.chain(max).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINES, NAMES, distribution};
    use crate::document::Shape;
    use analysis::figure::{Figure, LADDER};
    use analysis::names::Names;
    use analysis::{figures, sample};
    use record::key::CaseId;

    #[test]
    fn events_are_lines_through_their_percentiles_and_batches_have_none() {
        let run = sample::run();
        let plan = run.plan.as_ref().expect("the sample has a plan");
        let planned = plan.experiments.iter().find(|one| one.id == "os.syscall");
        let planned = planned.expect("is in the sample");
        let all = figures(&run);
        let one = all.iter().find(|one| one.experiment == planned.id && one.stats.is_some());
        let mut one = one.expect("was measured").clone();
        let stats = one.stats.as_mut().expect("was measured");
        (stats.sample_kind, stats.samples, stats.max) = ("event".to_owned(), 500, 900.0);
        stats.ladder = vec![1.0, 2.0, 3.0, 4.0, 5.0, 60.0];
        let drawn = |cases: &[Figure]| {
            let cases: Vec<&Figure> = cases.iter().collect();
            distribution(planned, &Names::from_plan(planned, &cases), &cases)
        };
        let of_case = |at: u64| Figure { case: CaseId::new().with("size", at), ..one.clone() };
        let cases: Vec<Figure> = (0..12).map(of_case).collect();
        let plots = drawn(&cases);
        assert_eq!(plots.len(), 1);
        assert!(plots[0].y.is_log);
        let lines = plots[0].series.iter().filter(|one| one.shape == Shape::Line);
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), MOST_LINES);
        let last = lines[0].points.last().expect("has points");
        assert_eq!((last.x, last.y), (7.0, 900.0));
        assert_eq!(lines[0].points.len(), 7, "too few samples for the last percentile");
        assert_eq!(NAMES.len(), LADDER.len() + 1);
        one.stats.as_mut().expect("was measured").sample_kind = "batch(4)".to_owned();
        assert!(drawn(&[one]).is_empty());
    }
}

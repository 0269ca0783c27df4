//! A metric over a parameter, a line per rest of the case.

use super::{Shown, Spot, axis, hover, names, pictures, shared_values, spots, title, unit_of};
use crate::document::{Axis, Marker, Plot, Point, Series, Shape};
use crate::values;
use analysis::facts::stated_levels;
use analysis::figure::Figure;
use analysis::gather::{distinct, ends, gathered};
use record::event::Derived;
use record::key::{CaseId, Value};
use record::order::InOrder;
use record::quantity::render;
use record::unit::Unit;
use record::view::{Cases, Placed, View};

/// A picture for each metric and each of the chosen values that has two places on its axis.
pub(super) fn plots(shown: &[Shown<'_>], view: &View) -> Vec<Plot> {
    let View::Line { over, metric, log_x, log_y, beside, marks, at, cases } = view else {
        return Vec::new();
    };
    let picture = Picture { shown, over, placed: at.as_ref(), log: (*log_x, *log_y), marks };
    let metrics = std::iter::once(metric).chain(beside);
    metrics
        .flat_map(|metric| pictures(spots(shown, metric, cases), &cases.each))
        .filter_map(|(of, spots)| picture.plot(&of, cases, spots))
        .collect()
}

struct Picture<'view, 'run> {
    shown: &'view [Shown<'run>],
    over: &'view str,
    placed: Option<&'view Placed>,
    log: (bool, bool),
    marks: &'view [String],
}

struct Line<'run> {
    name: String,
    case: CaseId,
    run_index: usize,
    spots: Vec<(f64, Spot<'run>)>,
}

impl Picture<'_, '_> {
    fn plot(&self, of: &CaseId, cases: &Cases, mut spots: Vec<Spot<'_>>) -> Option<Plot> {
        spots.retain(|spot| spot.figure.case.get(self.over).is_some());
        let metric = spots.first()?.metric;
        let (x, places) = self.places(&spots);
        let (least, greatest) = ends(places.iter().copied());
        if least >= greatest {
            return None;
        }
        let mut lines = self.lines(&spots, &places, of);
        // Named beside those that are left out, so that a line that stays says which it is.
        let keys: Vec<(&CaseId, usize)> =
            lines.iter().map(|line| (&line.case, line.run_index)).collect();
        let names = names(self.shown, &keys, &metric.name);
        for (line, name) in lines.iter_mut().zip(names) {
            line.name = name;
        }
        let left_out = leave_out_single_points(&mut lines);
        let shape = match is_ordered(&x.names) {
            true => Shape::Line,
            false => Shape::Dots,
        };
        let mut series = Vec::new();
        for line in &lines {
            let name = line.name.clone();
            let band: Vec<Point> =
                line.spots.iter().filter_map(|(x, spot)| predicted(spot.figure, *x)).collect();
            // Of several runs the first one's: that is what the others are held against.
            if line.run_index == 0 {
                series.extend(expected(&name, band));
            }
            let points = line.spots.iter().map(|spot| self.point(spot)).collect();
            series.push(Series::new(name, shape, points));
        }
        let what = format!("{} over {}", metric.name, x.label).replace('_', " ");
        let mut title = title(self.shown, &what, &shared_values(of, cases, &spots));
        if left_out > 0 {
            title.push_str(&format!(" ({left_out} more with one value each are in the table)"));
        }
        Some(Plot {
            title,
            markers: self.markers(x.unit),
            // A share may be zero.
            y: axis(
                &metric.name,
                Some(metric.shown_unit()),
                self.log.1 && metric.unit != Unit::Ratio,
            ),
            x,
            series,
        })
    }

    /// The horizontal axis, and each figure's place on it.
    fn places(&self, spots: &[Spot<'_>]) -> (Axis, Vec<f64>) {
        let own = |spot: &Spot<'_>| spot.figure.case.int(self.over).map(|at| at as f64);
        let all_at = |placed: &Placed| -> Option<Vec<f64>> {
            spots.iter().map(|spot| self.resolved(placed, spot)).collect()
        };
        let (label, unit, numbers) = match self.placed.and_then(|at| Some((at, all_at(at)?))) {
            Some((placed, at)) => (placed.name.as_str(), Some(placed.unit), Some(at)),
            None => (self.over, unit_of(self.shown, self.over), spots.iter().map(own).collect()),
        };
        if let Some(numbers) = numbers {
            let is_log = self.log.0 && numbers.iter().all(|at| *at > 0.0);
            return (axis(label, unit, is_log), numbers);
        }
        let values = spots.iter().filter_map(|spot| spot.figure.case.get(self.over));
        let mut values = distinct(values);
        // Numbers ascending, then symbols in the order of the plan.
        values.order_by_key(|value| value.int().map_or((1, 0), |number| (0, number)));
        let of_value = |value: &Value| values::parameter(value, unit_of(self.shown, self.over));
        let place = |spot: &Spot<'_>| {
            let own = spot.figure.case.get(self.over);
            let at = values.iter().position(|value| own == Some(*value));
            at.unwrap_or(values.len()) as f64
        };
        let mut named = axis(self.over, None, false);
        named.names = values.iter().copied().map(of_value).collect();
        (named, spots.iter().map(place).collect())
    }

    /// What a case's symbols resolved to, else what a metric of the case says.
    fn resolved(&self, placed: &Placed, spot: &Spot<'_>) -> Option<f64> {
        let of_metric = || {
            let mut figures = self.shown.get(spot.run_index)?.figures.iter();
            let same = figures.find(|figure| {
                figure.case == spot.figure.case && figure.metric_name() == placed.name
            });
            same?.value
        };
        let at = spot.figure.at.get(&placed.name);
        at.and_then(number).or_else(of_metric)
    }

    /// Lines in the order of the plan, those of a case side by side. A case that lacks a parameter
    /// of others (whose files, of one thread) belongs to each line that it agrees with.
    fn lines<'run>(&self, spots: &[Spot<'run>], places: &[f64], of: &CaseId) -> Vec<Line<'run>> {
        let placed = spots.iter().zip(places).map(|(spot, x)| {
            let own = spot.figure.case.0.iter();
            let rest = own.filter(|(name, _)| name != self.over && of.get(name).is_none());
            ((CaseId(rest.cloned().collect()), spot.run_index), (*x, *spot))
        });
        let lines: Vec<Line<'run>> = gathered(placed)
            .into_iter()
            .map(|((case, of), spots)| Line { name: String::new(), case, run_index: of, spots })
            .collect();
        let (short, mut lines): (Vec<Line>, Vec<Line>) = {
            let keys: Vec<(CaseId, usize)> =
                lines.iter().map(|line| (line.case.clone(), line.run_index)).collect();
            let belongs = |line: &Line<'_>| {
                keys.iter().any(|(case, of)| *of == line.run_index && is_part(&line.case, case))
            };
            lines.into_iter().partition(belongs)
        };
        for part in short {
            let whole = lines.iter_mut();
            for line in whole
                .filter(|line| line.run_index == part.run_index && is_part(&part.case, &line.case))
            {
                for (x, spot) in &part.spots {
                    if line.spots.iter().all(|(have, _)| have != x) {
                        line.spots.push((*x, *spot));
                    }
                }
            }
        }
        let order = distinct(lines.iter().map(|line| line.case.clone()));
        for line in &mut lines {
            line.spots.order_by(|(a, _), (b, _)| a.total_cmp(b));
        }
        lines.order_by_key(|line| {
            (order.iter().position(|case| *case == line.case), line.run_index)
        });
        lines
    }

    fn point(&self, (x, spot): &(f64, Spot<'_>)) -> Point {
        let unit = unit_of(self.shown, self.over);
        let own = spot.figure.case.get(self.over);
        let mut at = own.map_or_else(String::new, |value| values::parameter(value, unit));
        if let Some(placed) = self.placed
            && let Some(resolved) = self.resolved(placed, spot)
        {
            let text = render(resolved, placed.unit);
            if text != at {
                at = format!("{at} ({text})");
            }
        }
        Point { x: *x, y: spot.value, ends: spot.figure.ci, hover: hover(spot.figure, &at) }
    }

    /// Sizes along the axis: what the first run found, and for memory what its machine states.
    fn markers(&self, unit: Option<Unit>) -> Vec<Marker> {
        let (Some(first), Some(Unit::B)) = (self.shown.first(), unit) else {
            return Vec::new();
        };
        let planned = first.planned;
        let is_size = |derived: &&Derived| {
            let is_size = planned.metrics.iter().any(|metric| {
                metric.name == derived.metric && metric.derived && metric.unit == Unit::B
            });
            // Before views named their marks, levels were the only ones.
            let is_named = match self.marks.is_empty() {
                true => derived.case.text("level").is_some(),
                false => self.marks.contains(&derived.metric),
            };
            derived.experiment == planned.id && is_size && is_named
        };
        let found = first.run.derived.iter().filter(is_size).map(|derived| {
            let name = match derived.case.text("level") {
                Some(level) => level.to_owned(),
                None => derived.metric.replace('_', " "),
            };
            Marker {
                x: derived.value,
                label: format!("{name} {}", render(derived.value, Unit::B)),
                is_measured: true,
            }
        });
        let mut markers: Vec<Marker> = found.collect();
        if planned.id.starts_with("memory.") {
            let stated = stated_levels(first.run).into_iter();
            markers.extend(stated.map(|(name, size)| Marker {
                x: size,
                label: format!("{name} {}", render(size, Unit::B)),
                is_measured: false,
            }));
        }
        markers
    }
}

/// Whether a line may join what stands at these names: numbers, with at most a word for the most of
/// all at their end. An axis of quantities has none.
fn is_ordered(names: &[String]) -> bool {
    let is_number = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    let numbers = names.iter().take_while(|name| is_number(name)).count();
    numbers + 1 >= names.len()
}

/// Leaves what is one point to the table where there are lines; how many cases were left out,
/// whichever run has them.
fn leave_out_single_points(lines: &mut Vec<Line<'_>>) -> usize {
    let is_line = |line: &Line<'_>| line.spots.len() > 1;
    let cases = |lines: &[Line<'_>]| distinct(lines.iter().map(|line| &line.case)).len();
    let before = cases(lines);
    let long: Vec<CaseId> =
        lines.iter().filter(|line| is_line(line)).map(|line| line.case.clone()).collect();
    if !long.is_empty() {
        lines.retain(|line| long.contains(&line.case));
    }
    before - cases(lines)
}

/// Whether all parameters of a case are among those of another that has more.
fn is_part(part: &CaseId, whole: &CaseId) -> bool {
    let among = |(name, value): &(String, Value)| whole.get(name) == Some(value);
    part.0.len() < whole.0.len() && part.0.iter().all(among)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Text(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// What was predicted of a line: a band, or a line where each is a single number, as a report
/// estimates; `None` for a single point.
pub(super) fn expected(name: &str, mut points: Vec<Point>) -> Option<Series> {
    if points.len() < 2 {
        return None;
    }
    let is_number = |point: &Point| point.ends.is_some_and(|(low, high)| low >= high);
    if !points.iter().all(is_number) {
        return Some(Series::new(format!("predicted, {name}"), Shape::Band, points));
    }
    for point in &mut points {
        point.ends = None;
    }
    Some(Series::new(format!("estimated, {name}"), Shape::Line, points))
}

pub(super) fn predicted(figure: &Figure, x: f64) -> Option<Point> {
    let range = figure.shown_range()?;
    Some(Point { ends: Some((range.low, range.high)), ..Point::plain(x, range.likely) })
}

#[cfg(test)]
mod tests {
    use super::is_ordered;

    #[test]
    fn a_line_joins_what_has_an_order() {
        let is_ordered = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            is_ordered(&names)
        };
        assert!(is_ordered(&[]), "an axis of quantities");
        assert!(is_ordered(&["1", "2", "all"]));
        assert!(is_ordered(&["4 KiB", "1 MiB"]));
        assert!(!is_ordered(&["25", "125", "bisect1", "bisect2"]));
        assert!(!is_ordered(&["pipe", "futex", "yield"]));
    }
}

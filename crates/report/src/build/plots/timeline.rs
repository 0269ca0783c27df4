//! Traces over time.

use super::line::{expected, predicted};
use super::{Shown, axis, parameter, title};
use crate::document::{Axis, Plot, Point, Series, Shape};
use analysis::gather::distinct;
use record::event::Trace;
use record::key::CaseId;
use record::order::InOrder;
use record::quantity::{digits, render};
use record::unit::Unit;

const TRACE_POINTS: usize = 4_000;

/// The units at the end of a column's name.
const UNITS: &[(&str, Unit)] = &[
    ("_ns", Unit::Ns),
    ("_hz", Unit::Hz),
    ("_bytes", Unit::B),
    ("_bytes_per_s", Unit::BPerS),
    ("_flop_per_s", Unit::FlopPerS),
    ("_op_per_s", Unit::OpPerS),
];

/// A picture of the second column over the first, then one for each column of `beside`; traces
/// whose columns differ have pictures of their own.
pub(super) fn plots(shown: &[Shown<'_>], kind: &str, beside: &[String]) -> Vec<Plot> {
    let traces: Vec<(&Shown<'_>, &Trace)> = shown
        .iter()
        .flat_map(|one| {
            let own = one.run.traces.iter().filter(|trace| {
                trace.series.split('/').next() == Some(one.planned.id.as_str())
                    && trace.kind == kind
            });
            own.map(move |trace| (one, trace))
        })
        .collect();
    let columns = traces.iter().flat_map(|(_, trace)| {
        let own = trace.columns.iter().skip(1);
        let wanted = own.enumerate().filter(|(at, name)| *at == 0 || beside.contains(name));
        wanted.filter_map(|(_, column)| Some((trace.columns.first()?, column)))
    });
    let mut columns = distinct(columns);
    // First what the traces are about, then what stands beside.
    columns.order_by_key(|(_, column)| beside.contains(column));
    let plot = |(x, y): (&String, &String)| {
        let of_trace = |(one, trace): &(&Shown<'_>, &Trace)| {
            let at = trace.columns.iter().position(|column| column == y)?;
            let points = thinned(&trace.rows, (0, at), (&column_axis(x), &column_axis(y)));
            let has_x = trace.columns.first() == Some(x);
            (has_x && !points.is_empty())
                .then(|| Series::new(name(one, trace), Shape::Trace, points))
        };
        let lines = traces.iter().filter_map(of_trace);
        let series = bands(&traces, x, y).into_iter().chain(lines).collect();
        let words = |axis: &Axis| axis.label.trim_end_matches(" (s)").to_owned();
        let (x, y) = (column_axis(x), column_axis(y));
        let what = format!("{} over {}", words(&y), words(&x));
        Plot::new(title(shown, &what, &CaseId::new()), x, y, series)
    };
    let plots = columns.into_iter().map(plot);
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

/// What was predicted of the traces of the first run: of the figure of the same case in the
/// column's unit, over the trace's time; once for each case.
fn bands(traces: &[(&Shown<'_>, &Trace)], x: &str, y: &str) -> Vec<Series> {
    let unit = column_axis(y).unit;
    let own =
        traces.iter().filter(|(one, _)| Some(one.name) == traces.first().map(|(of, _)| of.name));
    let (mut cases, mut bands) = (Vec::new(), Vec::new());
    for (one, trace) in own {
        let is_it = trace.columns.first().map(String::as_str) == Some(x)
            && trace.columns.get(1).map(String::as_str) == Some(y);
        let mut figures = one.figures.iter();
        let figure =
            figures.find(|figure| figure.case == trace.case && Some(figure.unit()) == unit);
        let (Some(figure), true) = (figure, is_it && !cases.contains(&&trace.case)) else {
            continue;
        };
        let ends = [trace.rows.first(), trace.rows.last()];
        let points = ends.into_iter().flatten();
        let points = points.filter_map(|row| predicted(figure, *row.first()?)).collect();
        bands.extend(expected(&case_of(one, trace).join(", "), points));
        cases.push(&trace.case);
    }
    bands
}

fn case_of(one: &Shown<'_>, trace: &Trace) -> Vec<String> {
    let own = trace.case.0.iter();
    own.map(|(name, value)| parameter(one.planned, name, value)).collect()
}

fn name(one: &Shown<'_>, trace: &Trace) -> String {
    let mut parts = case_of(one, trace);
    parts.push(format!("round {}", trace.round));
    match one.name {
        "" => parts.join(", "),
        run => format!("{} · {run}", parts.join(", ")),
    }
}

/// The axis of a trace's column, whose name ends in its unit; seconds stay seconds.
fn column_axis(name: &str) -> Axis {
    let found = UNITS.iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, *unit)));
    if name.ends_with("_share") || name.ends_with("_ratio") {
        return axis(name, Some(Unit::Ratio), false);
    }
    match (found, name.strip_suffix("_s")) {
        (Some((label, unit)), _) => axis(&of_unit(label, unit), Some(unit), false),
        (None, Some(label)) => axis(&format!("{label} (s)"), None, false),
        (None, None) => axis(name, None, false),
    }
}

/// A column's name if its unit says more than its name: a core's hertz, rates of two kinds.
fn of_unit(label: &str, unit: Unit) -> String {
    match unit {
        Unit::Hz => format!("{label} frequency"),
        Unit::FlopPerS => format!("flop {label}"),
        Unit::OpPerS => format!("operation {label}"),
        _ => label.to_owned(),
    }
}

/// Rows as points; of too many, each stretch's least and greatest, so that spikes stay.
fn thinned(rows: &[Vec<f64>], columns: (usize, usize), axes: (&Axis, &Axis)) -> Vec<Point> {
    let say = |value: f64, axis: &Axis| match axis.unit {
        Some(unit) => format!("{} {}", axis.label, render(value, unit)),
        None => format!("{} {}", axis.label, digits(value)),
    };
    let point = |row: &Vec<f64>| {
        let (x, y) = (*row.get(columns.0)?, *row.get(columns.1)?);
        // A clock that stands was not read.
        let is_told = axes.1.unit != Some(Unit::Hz) || y > 0.0;
        is_told.then(|| Point {
            hover: format!("{}: {}", say(x, axes.0), say(y, axes.1)),
            ..Point::plain(x, y)
        })
    };
    if rows.len() <= TRACE_POINTS {
        return rows.iter().filter_map(point).collect();
    }
    let stretch = rows.len().div_ceil(TRACE_POINTS / 2);
    let mut points = Vec::new();
    for chunk in rows.chunks(stretch) {
        let mut all: Vec<Point> = chunk.iter().filter_map(point).collect();
        all.order_by(|a, b| a.y.total_cmp(&b.y));
        if let (Some(least), Some(greatest)) = (all.first().cloned(), all.last().cloned()) {
            let ordered = if least.x <= greatest.x { [least, greatest] } else { [greatest, least] };
            points.extend(ordered);
        }
    }
    points
}

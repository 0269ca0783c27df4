//! Traces of what came one after another: a picture with a lane for each state, and a table.

use super::experiment::MANY_ROWS;
use super::plots::{self, axis};
use crate::document::{Cell, Column, Plot, Point, Row, Series, Shape, Table};
use analysis::gather::distinct;
use analysis::names::around;
use record::event::{PlannedExperiment, Trace};
use record::key::CaseId;
use record::quantity::{digits, scale};
use record::run::Run;
use record::unit::Unit;

/// Stretches that a picture holds; the first of them are drawn.
const MOST_SPANS: usize = 4_000;

/// Rows of a long table that are shown where room is short.
const FEW_ROWS: usize = 10;

/// Each case's trace of a kind, of the first round that counts: rounds repeat, a picture does not.
/// A published machine has derived cases alone.
fn first_of_each<'run>(
    run: &'run Run,
    planned: &'run PlannedExperiment,
    kind: &'run str,
) -> impl Iterator<Item = &'run Trace> {
    let measured = planned.series.iter().flat_map(|series| &series.cases);
    let cases = distinct(measured.chain(&planned.derived));
    let of_case = move |case: &'run CaseId| {
        let mut traces = run.traces.iter();
        traces.find(|trace| {
            trace.series.split('/').next() == Some(planned.id.as_str())
                && trace.kind == kind
                && trace.case == *case
        })
    };
    cases.into_iter().filter_map(of_case)
}

/// What a picture or table of a trace is called.
fn title(planned: &PlannedExperiment, trace: &Trace) -> String {
    let own = trace.case.0.iter();
    let case: String =
        own.map(|(name, value)| format!("{}, ", plots::parameter(planned, name, value))).collect();
    let what = trace.kind.replace('_', " ");
    match trace.round {
        // What a report drew, or listed.
        0 => format!("{}: {what}, {}", planned.id, case.trim_end_matches(", ")),
        round => format!("{}: {what}, {case}round {round}", planned.id),
    }
}

/// A picture for each case, with a lane for what was predicted of each of some metrics of its
/// stretches' length.
pub(super) fn plots(shown: &plots::Shown<'_>, kind: &str, lengths: &[String]) -> Vec<Plot> {
    let run_name = around(", ", shown.name, "");
    first_of_each(shown.run, shown.planned, kind)
        .filter_map(|trace| {
            let (state, names) = trace.names.iter().next()?;
            let state = trace.columns.iter().position(|column| column == state)?;
            let rows = &trace.rows[..trace.rows.len().min(MOST_SPANS)];
            let lane = |(at, name): (usize, &String)| {
                let points = rows.iter().filter(|row| row[state] == at as f64);
                let points: Vec<Point> = points.filter_map(|row| span(row)).collect();
                (!points.is_empty()).then(|| Series::new(name, Shape::Spans, points))
            };
            let part = match trace.rows.len() > rows.len() {
                true => format!(", the first {MOST_SPANS} of {}", trace.rows.len()),
                false => String::new(),
            };
            let lanes = names.iter().enumerate().filter_map(lane);
            let predicted = lengths.iter().filter_map(|metric| predicted(shown, trace, metric));
            Some(Plot::new(
                title(shown.planned, trace) + &run_name + &part,
                axis("time", Some(Unit::Ns), false),
                axis("", None, false),
                lanes.chain(predicted).collect(),
            ))
        })
        .collect()
}

/// Where a stretch that begins at zero was predicted to end: a lane that is filled from the least
/// to the greatest length.
fn predicted(shown: &plots::Shown<'_>, trace: &Trace, metric: &str) -> Option<Series> {
    let mut own = shown.figures.iter();
    let figure = own.find(|figure| figure.case == trace.case && figure.metric_name() == metric)?;
    let range = figure.shown_range().filter(|_| figure.unit().is_time())?;
    let name = format!("{}: predicted end", metric.replace('_', " "));
    Some(Series::new(name, Shape::Spans, vec![Point::plain(range.low, range.high)]))
}

/// A stretch, whose first columns are its start and its duration; none of a trace without them. The
/// tooltip follows from its ends.
fn span(row: &[f64]) -> Option<Point> {
    let [start, duration, ..] = *row else { return None };
    Some(Point::plain(start, start + duration))
}

pub(super) fn tables(run: &Run, planned: &PlannedExperiment, kind: &str) -> Vec<Table> {
    first_of_each(run, planned, kind)
        .map(|trace| {
            let columns: Vec<Shown> = trace
                .columns
                .iter()
                .enumerate()
                .map(|(at, name)| Shown::from_trace(trace, at, name))
                .collect();
            let rows = trace.rows.iter().enumerate().map(|(at, row)| Row {
                cells: columns
                    .iter()
                    .zip(row)
                    .map(|(column, value)| Cell::plain(column.cell(*value)))
                    .collect(),
                is_spare: trace.rows.len() > MANY_ROWS && at >= FEW_ROWS,
            });
            Table {
                caption: title(planned, trace),
                rows: rows.collect(),
                columns: columns.into_iter().map(|column| column.heading).collect(),
            }
        })
        .collect()
}

struct Shown<'trace> {
    heading: Column,
    values: Values<'trace>,
}

enum Values<'trace> {
    Named(&'trace [String]),
    /// Over a common factor, with so many decimal places.
    Scaled(f64, usize),
    Plain,
}

impl<'trace> Shown<'trace> {
    /// Times share a scale within their column and end at the nanosecond, so that rows compare.
    fn from_trace(trace: &'trace Trace, at: usize, name: &str) -> Self {
        let words = |name: &str| name.replace('_', " ");
        if let Some(names) = trace.names.get(name) {
            return Shown { heading: Column::text(&words(name)), values: Values::Named(names) };
        }
        let (label, unit, values) = match name.rsplit_once('_') {
            Some((label, "ns")) => {
                let largest = trace.rows.iter().map(|row| row[at].abs());
                let (factor, unit) = scale(largest.fold(0.0, f64::max), Unit::Ns);
                let places = factor.log10().round().max(1.0) as usize;
                (label, unit, Values::Scaled(factor, places))
            }
            Some((label, "cycle")) => (label, "cycles", Values::Scaled(1.0, 0)),
            Some((label, "ratio")) => (label, "%", Values::Scaled(0.01, 3)),
            _ => (name, "", Values::Plain),
        };
        let heading = match unit {
            "" => words(label),
            _ => format!("{} ({unit})", words(label)),
        };
        Shown { heading: Column::number(&heading), values }
    }

    fn cell(&self, value: f64) -> String {
        match &self.values {
            Values::Named(names) => (value >= 0.0)
                .then(|| names.get(value as usize).cloned())
                .flatten()
                .unwrap_or_else(|| "-".to_owned()),
            Values::Scaled(factor, places) => format!("{:.places$}", value / factor),
            Values::Plain => digits(value),
        }
    }
}

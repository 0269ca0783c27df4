//! Long line tables where room is short: a table for each long ladder, one row for each short line.

use super::experiment::{MANY_ROWS, table};
use crate::analysis::figure::Figure;
use crate::analysis::verdict::Verdict;
use crate::report::document::{Cell, Column, Row, Table, Tone};
use crate::report::values;
use record::event::{Ending, PlannedExperiment, Range};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::unit::Unit;
use record::view::View;

/// Metrics that have a column: more do not fit where room is short.
const MOST_METRICS: usize = 3;

/// The figures of one line: a metric of cases that differ only in the parameter along it.
struct Group<'figures> {
    rest: CaseId,
    metric: String,
    figures: Vec<&'figures Figure>,
}

/// Short forms of an experiment's table of measured figures; nothing where the table is short, or
/// is not about lines.
pub(crate) fn tables(planned: &PlannedExperiment, figures: &[&Figure]) -> Option<Vec<Table>> {
    let View::Line {
        over,
        metric,
        beside,
        ..
    } = &planned.view
    else {
        return None;
    };
    let groups = groups(figures, over);
    if figures.len() <= MANY_ROWS || groups.len() < 2 {
        return None;
    }
    let (long, short): (Vec<_>, Vec<_>) = groups
        .into_iter()
        .partition(|group| group.figures.len() > MANY_ROWS);
    let mut tables: Vec<Table> = long
        .iter()
        .map(|group| table(planned, &group.figures, "Measured"))
        .collect();
    if !short.is_empty() {
        let what = if tables.is_empty() {
            "Measured"
        } else {
            "Others"
        };
        let first: Vec<&str> = std::iter::once(metric)
            .chain(beside)
            .map(String::as_str)
            .collect();
        tables.push(summary(planned, &short, over, &first, what));
    }
    Some(tables)
}

fn groups<'figures>(figures: &[&'figures Figure], over: &str) -> Vec<Group<'figures>> {
    let mut groups: Vec<Group> = Vec::new();
    for figure in figures {
        let Some(metric) = &figure.metric else {
            continue;
        };
        let rest = figure.case.0.iter().filter(|(name, _)| name != over);
        let rest = CaseId(rest.cloned().collect());
        let same = |group: &&mut Group| group.rest == rest && group.metric == metric.name;
        match groups.iter_mut().find(same) {
            Some(group) => group.figures.push(figure),
            None => groups.push(Group {
                rest,
                metric: metric.name.to_string(),
                figures: vec![figure],
            }),
        }
    }
    groups
}

/// A row for each line, with a column for each of its metrics: least and greatest along it.
fn summary(
    planned: &PlannedExperiment,
    groups: &[Group],
    over: &str,
    first: &[&str],
    what: &str,
) -> Table {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.rest.0) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut lines: Vec<&CaseId> = Vec::new();
    for group in groups {
        if !lines.contains(&&group.rest) {
            lines.push(&group.rest);
        }
    }
    let others = planned.metrics.iter().map(|metric| metric.name.as_ref());
    let mut metrics: Vec<&str> = first.to_vec();
    metrics.extend(others.filter(|other| !first.contains(other)));
    metrics.retain(|metric| groups.iter().any(|group| group.metric == *metric));
    let unshown = metrics.split_off(metrics.len().min(MOST_METRICS));
    let mut columns: Vec<Column> = names.iter().map(|name| Column::text(name)).collect();
    columns.push(Column::number(over));
    let headings = metrics.iter().map(|metric| metric.replace('_', " "));
    columns.extend(headings.map(|heading| Column::number(&heading)));
    columns.push(Column::number("within"));
    let unit = |name: &str| planned.units.get(name).copied();
    let rows = lines.iter().map(|line| {
        let of_line = || groups.iter().filter(|group| group.rest == **line);
        let mut cells: Vec<Cell> = names
            .iter()
            .map(|name| match line.get(name) {
                Some(value) => Cell::plain(values::parameter(value, unit(name))),
                None => Cell::toned("-", Tone::Muted),
            })
            .collect();
        let all: Vec<&Figure> = of_line()
            .flat_map(|group| &group.figures)
            .copied()
            .collect();
        cells.push(stretch(&all, over, unit(over)));
        cells.extend(metrics.iter().map(|metric| {
            let mut group = of_line().filter(|group| group.metric == *metric);
            extremes(group.next())
        }));
        cells.push(within(&all));
        Row::of(cells)
    });
    let more = match unshown.is_empty() {
        true => String::new(),
        false => format!(
            "; {} in the full report",
            unshown.join(", ").replace('_', " ")
        ),
    };
    Table {
        caption: format!("{what}: least and most along {over}{more}"),
        rows: rows.collect(),
        columns,
    }
}

/// The stretch of the parameter that some figures cover.
fn stretch(figures: &[&Figure], over: &str, unit: Option<Unit>) -> Cell {
    let at = || figures.iter().filter_map(|figure| figure.case.int(over));
    let shown = |at| values::parameter(&Value::Int(at), unit);
    match (at().min(), at().max()) {
        (Some(low), Some(high)) if low < high => {
            Cell::plain(format!("{} – {}", shown(low), shown(high)))
        }
        (Some(only), _) => Cell::plain(shown(only)),
        _ => Cell::toned("-", Tone::Muted),
    }
}

/// The least and the greatest value of a metric along a line.
fn extremes(group: Option<&Group>) -> Cell {
    let measured = |group: &Group| -> Option<(f64, f64, Unit)> {
        let unit = group
            .figures
            .iter()
            .find_map(|figure| figure.metric.as_ref())?
            .unit;
        let values = || group.figures.iter().filter_map(|figure| figure.value);
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?, unit))
    };
    match group.and_then(measured) {
        None => Cell::toned("-", Tone::Muted),
        Some((low, high, unit)) if low < high => Cell::plain(values::range(
            &Range {
                low,
                likely: low,
                high,
            },
            unit,
        )),
        Some((only, _, unit)) => Cell::plain(render(only, unit)),
    }
}

/// How many figures are as predicted.
fn within(figures: &[&Figure]) -> Cell {
    let as_predicted = figures.iter().filter(|figure| {
        figure.outcome == Ending::Measured
            && figure.shown_prediction().is_none_or(|judged| {
                judged
                    .verdict
                    .is_none_or(|verdict| verdict == Verdict::Within)
            })
    });
    let (within, all) = (as_predicted.count(), figures.len());
    let tone = if within == all {
        Tone::Good
    } else {
        Tone::Warn
    };
    Cell::toned(format!("{within} of {all}"), tone)
}

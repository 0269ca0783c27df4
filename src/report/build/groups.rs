//! Long line tables where room is short: a table for each long ladder, one row for each short one.

use super::experiment::{MANY_ROWS, table};
use crate::analysis::figure::Figure;
use crate::analysis::verdict::Verdict;
use crate::report::document::{Cell, Column, Row, Table, Tone};
use crate::report::values;
use record::event::{Ending, PlannedExperiment};
use record::key::{CaseId, Value};
use record::quantity::render;
use record::view::View;

/// The figures of one line: a metric of cases that differ only in the parameter along it.
struct Group<'figures> {
    rest: CaseId,
    metric: String,
    figures: Vec<&'figures Figure>,
}

/// Short forms of an experiment's table of measured figures; nothing where the table is short, or
/// is not about lines.
pub(crate) fn tables(planned: &PlannedExperiment, figures: &[&Figure]) -> Option<Vec<Table>> {
    let View::Line { over, .. } = &planned.view else {
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
        let caption = format!("{what}: least and most along {over}");
        tables.push(summary(planned, &short, over, caption));
    }
    Some(tables)
}

fn groups<'figures>(figures: &[&'figures Figure], over: &str) -> Vec<Group<'figures>> {
    let mut groups: Vec<Group> = Vec::new();
    for figure in figures {
        let rest = figure.case.0.iter().filter(|(name, _)| name != over);
        let rest = CaseId(rest.cloned().collect());
        let metric = values::metric(figure);
        let same = |group: &&mut Group| group.rest == rest && group.metric == metric;
        match groups.iter_mut().find(same) {
            Some(group) => group.figures.push(figure),
            None => groups.push(Group {
                rest,
                metric,
                figures: vec![figure],
            }),
        }
    }
    groups
}

fn summary(planned: &PlannedExperiment, groups: &[Group], over: &str, caption: String) -> Table {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in groups.iter().flat_map(|group| &group.rest.0) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut columns: Vec<Column> = names.iter().map(|name| Column::text(name)).collect();
    columns.extend([
        Column::text("metric"),
        Column::number(over),
        Column::number("least"),
        Column::number("most"),
        Column::number("within"),
    ]);
    let unit = |name: &str| planned.units.get(name).copied();
    let rows = groups.iter().map(|group| {
        let mut cells: Vec<Cell> = names
            .iter()
            .map(|name| match group.rest.get(name) {
                Some(value) => Cell::plain(values::parameter(value, unit(name))),
                None => Cell::toned("-", Tone::Muted),
            })
            .collect();
        cells.push(Cell::plain(group.metric.clone()));
        cells.extend(extremes(group, over, unit(over)));
        Row::of(cells)
    });
    Table {
        caption,
        rows: rows.collect(),
        columns,
    }
}

/// The stretch of the parameter, the least and the greatest value, and how many are as predicted.
fn extremes(group: &Group, over: &str, unit: Option<record::unit::Unit>) -> Vec<Cell> {
    let at = group
        .figures
        .iter()
        .filter_map(|figure| figure.case.int(over));
    let end = |at: Option<u64>| {
        at.map_or_else(
            || "-".to_owned(),
            |at| values::parameter(&Value::Int(at), unit),
        )
    };
    let measured: Vec<(f64, record::unit::Unit)> = group
        .figures
        .iter()
        .filter_map(|figure| Some((figure.value?, figure.metric.as_ref()?.unit)))
        .collect();
    let shown = |value: Option<&(f64, record::unit::Unit)>| {
        value.map_or_else(
            || Cell::toned("-", Tone::Muted),
            |(value, unit)| Cell::plain(render(*value, *unit)),
        )
    };
    let order =
        |a: &&(f64, record::unit::Unit), b: &&(f64, record::unit::Unit)| a.0.total_cmp(&b.0);
    let within = group.figures.iter().filter(|figure| {
        figure.outcome == Ending::Measured
            && figure.shown_prediction().is_none_or(|judged| {
                judged
                    .verdict
                    .is_none_or(|verdict| verdict == Verdict::Within)
            })
    });
    let (within, all) = (within.count(), group.figures.len());
    let tone = if within == all {
        Tone::Good
    } else {
        Tone::Warn
    };
    vec![
        Cell::plain(if at.clone().min() == at.clone().max() {
            end(at.clone().min())
        } else {
            format!("{} – {}", end(at.clone().min()), end(at.max()))
        }),
        shown(measured.iter().min_by(order)),
        shown(measured.iter().max_by(order)),
        Cell::toned(format!("{within} of {all}"), tone),
    ]
}

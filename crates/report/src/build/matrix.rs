//! A metric by two parameters: rows by one, columns by the other.

use super::plots::{self, Spot, pictures, spots, title};
use crate::columns::judged;
use crate::document::{Block, Cell, Column, Grid, Row, Shades, Table, Tone};
use crate::values;
use analysis::figure::Figure;
use analysis::gather;
use analysis::names::around;
use record::event::{PlannedExperiment, Range};
use record::key::{CaseId, Value};
use record::order::InOrder;
use record::view::Cases;
use std::collections::HashMap;

/// Cells of a matrix that is drawn however few of them have figures: of the pairs of 256 CPUs a run
/// measures some.
const CELLS_FREE: usize = 256 * 256;
/// Cells of a larger one for each of its figures, at most: a record of a diagonal would be small, and
/// its matrix large.
const CELLS_PER_FIGURE: usize = 8;

fn is_sparse(rows: usize, columns: usize, figures: usize) -> bool {
    rows.saturating_mul(columns) > CELLS_FREE.max(figures.saturating_mul(CELLS_PER_FIGURE))
}

/// A grid for each run and each of the chosen values in which a row or a column differs; a sentence
/// where most cells would be empty.
pub(super) fn grids(
    shown: &[plots::Shown<'_>],
    (rows, columns): (&str, &str),
    metric: &str,
    cases: &Cases,
) -> Vec<Block> {
    let all = pictures(spots(shown, metric, cases), &cases.each);
    let of_picture = |(of, spots): (CaseId, Vec<Spot<'_>>)| {
        let of_run = |(at, one): (usize, &plots::Shown<'_>)| {
            let own: Vec<&Figure> =
                spots.iter().filter(|spot| spot.run_index == at).map(|spot| spot.figure).collect();
            let (row_values, column_values) = (distinct(&own, rows), distinct(&own, columns));
            if row_values.len().max(column_values.len()) < 2 {
                return None;
            }
            if is_sparse(row_values.len(), column_values.len(), own.len()) {
                return Some(Block::text(format!(
                    "The matrix of {} is left out: {} figures would stand in {} rows and {} columns; \
                     the tables have them.",
                    metric.replace('_', " "),
                    own.len(),
                    row_values.len(),
                    column_values.len()
                )));
            }
            // Cases that differ in further parameters share a cell: the first one shows.
            let by_place: HashMap<(&Value, &Value), f64> = own
                .iter()
                .rev()
                .copied()
                .filter_map(|figure| {
                    let at = (figure.case.get(rows)?, figure.case.get(columns)?);
                    Some((at, figure.value?))
                })
                .collect();
            let cells = row_values
                .iter()
                .map(|row| {
                    let value = |column: &&Value| by_place.get(&(*row, *column)).copied();
                    column_values.iter().map(value).collect()
                })
                .collect();
            let names = |name: &str, values: &[&Value]| {
                let unit = one.planned.units.get(name).copied();
                let text = values.iter().map(|value| values::parameter(value, unit));
                (name.replace('_', " "), text.collect())
            };
            let run_name = around(", ", one.name, "");
            let unit = spots.first()?.metric.shown_unit();
            let predicted = predicted(&own).map_or_else(String::new, |range| {
                format!(" (predicted {})", values::range(&range, unit))
            });
            Some(Block::Grid(Grid {
                title: title(shown, &metric.replace('_', " "), &of) + &run_name + &predicted,
                rows: names(rows, &row_values),
                columns: names(columns, &column_values),
                label: metric.replace('_', " "),
                unit,
                shades: Shades::Values,
                cells,
            }))
        };
        shown.iter().enumerate().filter_map(of_run).collect::<Vec<Block>>()
    };
    all.into_iter().flat_map(of_picture).collect()
}

/// What was predicted of all cells: colours have no band.
fn predicted(figures: &[&Figure]) -> Option<Range> {
    let ranges = figures.iter().filter_map(|figure| figure.shown_range());
    ranges.reduce(|all, one| Range {
        low: all.low.min(one.low),
        high: all.high.max(one.high),
        ..all
    })
}

/// The table; `None` where no figure has both parameters, or most cells would be empty. Cases that
/// differ in further parameters share a cell, one value after the other.
pub fn table(
    planned: &PlannedExperiment,
    figures: &[&Figure],
    rows: &str,
    columns: &str,
    metric: &str,
) -> Option<Table> {
    let of_metric: Vec<&Figure> =
        figures.iter().filter(|figure| figure.metric_name() == metric).copied().collect();
    let row_values = distinct(&of_metric, rows);
    let column_values = distinct(&of_metric, columns);
    let (height, width) = (row_values.len(), column_values.len());
    if height.min(width) == 0 || is_sparse(height, width, of_metric.len()) {
        return None;
    }
    let label =
        |name: &str, value: &Value| values::parameter(value, planned.units.get(name).copied());
    let mut heads = vec![Column::text(&format!("{rows} \\ {columns}"))];
    heads.extend(column_values.iter().map(|value| Column::number(&label(columns, value))));
    let mut by_place: HashMap<(&Value, &Value), Vec<&Figure>> = HashMap::new();
    for figure in &of_metric {
        if let (Some(row), Some(column)) = (figure.case.get(rows), figure.case.get(columns)) {
            by_place.entry((row, column)).or_default().push(figure);
        }
    }
    let rows = row_values.iter().map(|row| {
        let mut cells = vec![Cell::plain(label(rows, row))];
        cells.extend(column_values.iter().map(|column| {
            let here = by_place.get(&(*row, *column));
            cell(here.into_iter().flatten().copied())
        }));
        Row::always_shown(cells)
    });
    let mut caption = metric.replace('_', " ");
    if of_metric.iter().any(|figure| distance(figure).is_some()) {
        caption.push_str(" (and the firmware's distance)");
    }
    Some(Table { caption, columns: heads, rows: rows.collect() })
}

/// Numbers ascending, symbols in the order of the cases.
fn distinct<'a>(figures: &[&'a Figure], name: &str) -> Vec<&'a Value> {
    let mut values = gather::distinct(figures.iter().filter_map(|figure| figure.case.get(name)));
    if values.iter().all(|value| value.int().is_some()) {
        values.order_by_key(|value| value.int());
    }
    values
}

/// What the firmware calls the distance that a ratio is about.
fn distance(figure: &Figure) -> Option<&Value> {
    let is_ratio = figure.metric.as_ref().is_some_and(|of| of.derived);
    is_ratio.then(|| figure.at.get("distance")).flatten()
}

fn cell<'a>(figures: impl Iterator<Item = &'a Figure>) -> Cell {
    let (mut texts, mut tone) = (Vec::new(), Tone::Plain);
    for figure in figures {
        let mut text =
            values::of_figure(figure).map_or_else(|| "-".to_owned(), |shown| shown.value);
        if let Some(distance) = distance(figure) {
            text.push_str(&format!(" ({distance})"));
        }
        texts.push(text);
        let own = judged(figure).tone;
        if own == Tone::Bad || (own == Tone::Warn && tone != Tone::Bad) {
            tone = own;
        }
    }
    match texts.is_empty() {
        true => Cell::absent(),
        false => Cell::toned(texts.join(" / "), tone),
    }
}

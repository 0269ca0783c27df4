//! One experiment's section: question, plots, tables, the worst misses, remarks.

use super::overview::worst_misses;
use super::remarks::{self, Described};
use super::{matrix, plots, reasons, spans};
use crate::columns::{self, Layout};
use crate::document::{Audience, Block, Cell, Column, Row, Section, Table};
use crate::values;
use analysis::figure::Figure;
use analysis::findings::Severity;
use analysis::gather::{distinct, gathered};
use analysis::names::{Names, around, is_derived};
use analysis::verdict::Verdict;
use record::event::{Ending, PlannedExperiment};
use record::key::Value;
use record::run::Run;
use record::view::View;

/// Rows above which a ladder's table is thinned where room is short.
pub(super) const MANY_ROWS: usize = 24;

/// Misses of an experiment that are listed.
const WORST: usize = 3;

pub fn section(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Section {
    let question = question(&planned.manual).map(|text| Block::Paragraph(text).on_page());
    let manual = (!planned.manual.is_empty()).then(|| Block::Manual(planned.manual.clone()));
    let manual = manual.map(Block::on_screen);
    let mut blocks: Vec<_> = question.into_iter().chain(manual).collect();
    match &planned.skipped {
        Some(absence) => {
            let needed = around(" (needs ", absence.needed.as_deref().unwrap_or_default(), ")");
            blocks.push(Block::text(format!("Skipped: {}{needed}.", absence.reason)).for_all());
        }
        None => blocks.extend(results(run, planned, figures)),
    }
    Section::new(&planned.id, format!("{}: {}", planned.id, planned.title), blocks)
}

/// Prediction, plots, tables, the worst misses, remarks.
fn results(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<(Audience, Block)> {
    let names = Names::from_plan(planned, figures);
    let told = Described { planned, names: &names, figures };
    let mut blocks = Vec::new();
    blocks.extend(reasons::block(planned, &names, figures).map(Block::on_screen));
    let shown = plots::Shown { name: "", run, planned, figures };
    blocks.extend(plots::of_experiment(&[shown]).into_iter().map(Block::for_all));
    let spreads = plots::distribution(planned, &names, figures).into_iter();
    blocks.extend(spreads.map(|plot| Block::Plot(plot).for_all()));
    for view in planned.all_views() {
        if let View::Spans { table, .. } = view {
            let tables = spans::tables(run, planned, table).into_iter();
            // Of what happened one after another, the first table shows how; the page has all.
            blocks.extend(tables.enumerate().map(|(at, table)| {
                let audience = if at == 0 { Audience::Everyone } else { Audience::Page };
                (audience, Block::Table(table))
            }));
        }
    }
    let tables = tables(planned, figures).into_iter();
    let missed = worst_misses(run, figures.iter().copied(), WORST);
    blocks.extend(tables.chain(missed).map(|table| Block::Table(table).for_all()));
    blocks.extend(Block::notes(remarks::absent(told)).map(Block::for_all));
    let (plain, urgent): (Vec<_>, Vec<_>) =
        remarks::of_figures(told).into_iter().partition(|remark| remark.severity == Severity::Note);
    blocks.extend(Block::notes(urgent).map(Block::for_all));
    blocks.extend(Block::notes(plain).map(|notes| (Audience::Verbose, notes)));
    blocks
}

/// The first paragraph of the manual's question.
fn question(manual: &str) -> Option<String> {
    let mut lines = manual.lines().skip_while(|line| {
        !(line.starts_with('#') && line.trim_start_matches('#').trim() == "Question")
    });
    lines.next()?;
    let text: Vec<&str> = lines
        .map(str::trim)
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty() && !line.starts_with(['#', '-', '*']))
        .collect();
    // A paragraph has no markup.
    (!text.is_empty()).then(|| text.join(" ").replace('`', "").replace("**", ""))
}

/// A table per metric class: measured cases first, derived figures in their own table. What was
/// skipped stands below them, with its reason.
fn tables(planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<Table> {
    let (derived, measured): (Vec<&Figure>, Vec<&Figure>) = figures
        .iter()
        .filter(|figure| figure.outcome != Ending::Skipped)
        .partition(|figure| is_derived(figure));
    let mut tables = Vec::new();
    if let View::Matrix { rows, columns, metric, .. } = &planned.view {
        // The view's metric first, then what else has both parameters.
        let others = planned.metrics.iter().map(|metric| metric.name.as_ref());
        let others = others.filter(|other| other != metric);
        let metrics = std::iter::once(metric.as_str()).chain(others);
        tables.extend(
            metrics.filter_map(|metric| matrix::table(planned, figures, rows, columns, metric)),
        );
    }
    // Only of a published machine.
    let is_printed = planned.metrics.iter().all(|metric| metric.derived);
    let (of_derived, columns) = match is_printed {
        true => ("As printed in the report", columns::PRINTED),
        false => ("Derived from several cases", columns::TABLE),
    };
    for (figures, what) in [(measured, "Measured"), (derived, of_derived)] {
        let alike = by_parameters(&figures).into_iter();
        tables.extend(alike.map(|alike| table(planned, &alike, what, columns)));
    }
    tables
}

/// Figures in groups whose cases have the same parameters, so that no table has empty columns.
fn by_parameters<'figures>(figures: &[&'figures Figure]) -> Vec<Vec<&'figures Figure>> {
    let names =
        |figure: &Figure| figure.case.0.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let groups = gathered(figures.iter().map(|figure| (names(figure), *figure)));
    groups.into_iter().map(|(_, group)| group).collect()
}

fn table(planned: &PlannedExperiment, figures: &[&Figure], what: &str, names: &str) -> Table {
    let (fixed, varying) = parameters(figures);
    let metrics = figures.iter().filter_map(|figure| figure.metric.as_ref());
    let several_metrics = distinct(metrics.map(|metric| &metric.name)).len() > 1;
    let unit = |name: &str| planned.units.get(name).copied();
    let mut columns: Vec<Column> = varying
        .iter()
        .map(|name| {
            let is_number =
                figures.iter().any(|figure| matches!(figure.case.get(name), Some(Value::Int(_))));
            Column { is_number, ..Column::text(name) }
        })
        .collect();
    if several_metrics {
        columns.push(Column::text("metric"));
    }
    let layout = Layout::new(names, figures);
    columns.extend(layout.heads());
    let rows = figures.iter().map(|figure| {
        let mut cells: Vec<Cell> = varying
            .iter()
            .map(|name| {
                let value = figure.case.get(name);
                Cell::optional(value.map(|value| values::parameter(value, unit(name))))
            })
            .collect();
        if several_metrics {
            let name = values::metric(figure);
            cells.push(Cell::plain(name));
        }
        cells.extend(layout.cells(figure));
        Row { cells, is_spare: is_spare(planned, figures.len(), figure) }
    });
    let fixed: Vec<String> = fixed
        .iter()
        .map(|(name, value)| format!("{name} {}", values::parameter(value, unit(name))))
        .collect();
    let caption = match (several_metrics, figures.iter().find_map(|figure| figure.metric.as_ref()))
    {
        (false, Some(metric)) => format!("{what}: {}", metric.name.replace('_', " ")),
        _ => what.to_owned(),
    };
    let fixed = around("; ", &fixed.join(", "), "");
    Table {
        caption: format!(
            "{caption}{fixed}{}{}",
            values::told_of_marks(figures),
            values::told_of_core(figures)
        ),
        columns,
        rows: rows.collect(),
    }
}

/// Parameters that all figures share, with their value, and the names of those that vary.
fn parameters(figures: &[&Figure]) -> (Vec<(String, Value)>, Vec<String>) {
    let names = distinct(figures.iter().flat_map(|figure| &figure.case.0).map(|(name, _)| name));
    let (mut fixed, mut varying) = (Vec::new(), Vec::new());
    for name in names {
        let mut seen = figures.iter().map(|figure| figure.case.get(name));
        let first = seen.next().flatten();
        match first {
            Some(value) if figures.len() > 1 && seen.all(|other| other == Some(value)) => {
                fixed.push((name.clone(), value.clone()));
            }
            _ => varying.push(name.clone()),
        }
    }
    (fixed, varying)
}

/// Rungs between octaves of a long ladder, unless something is wrong with them.
fn is_spare(planned: &PlannedExperiment, rows: usize, figure: &Figure) -> bool {
    let View::Line { over, .. } = &planned.view else {
        return false;
    };
    let is_odd = figure.case.int(over).is_some_and(|at| !at.is_power_of_two());
    let is_fine = figure.outcome == Ending::Measured
        && figure.shown_prediction().is_none_or(|judged| {
            matches!(judged.verdict, Some(Verdict::Within | Verdict::Unpredicted))
        });
    rows > MANY_ROWS && is_odd && is_fine
}

//! One experiment's section: question, table, plot, discussion.

use super::columns::{self, Quantity};
use super::remarks::{self, Told};
use super::{groups, matrix, plots, reasons, spans};
use crate::document::{Audience, Block, Cell, Column, Row, Section, Shape, Table};
use crate::values;
use analysis::discussion;
use analysis::figure::Figure;
use analysis::gather::{distinct, gathered};
use analysis::names::{Names, around};
use analysis::verdict::Verdict;
use record::event::{Ending, PlannedExperiment};
use record::key::Value;
use record::run::Run;
use record::view::View;

/// Rows above which a ladder's table is thinned where room is short.
pub(super) const MANY_ROWS: usize = 24;

/// Lines of a plot that are distinguishable without a legend.
const MOST_LINES: usize = 4;

/// Notes of an experiment where room is short.
const MOST_NOTES: usize = 4;

/// The first words of the paragraph with an experiment's method in brief.
pub const METHOD: &str = "Method in brief: ";

/// Letters that a method in brief has at most, if its first sentence has no more.
const BRIEF: usize = 320;

/// The section of an experiment and its figures.
pub fn section(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Section {
    let question = under(&planned.manual, "Question").map(Block::Paragraph);
    let method = under(&planned.manual, "Method");
    let method = method.map(|method| Block::text(format!("{METHOD}{}", first_sentences(&method))));
    let manual = (!planned.manual.is_empty()).then(|| Block::Manual(planned.manual.clone()));
    let head = [question, method, manual].into_iter().flatten();
    let mut blocks: Vec<_> = head.map(Block::on_page).collect();
    match &planned.skipped {
        Some(absence) => {
            let needed = around(" (needs ", absence.needed.as_deref().unwrap_or_default(), ")");
            blocks.push(Block::text(format!("Skipped: {}{needed}.", absence.reason)).for_all());
        }
        None => blocks.extend(results(run, planned, figures)),
    }
    Section::new(&planned.id, format!("{}: {}", planned.id, planned.title), blocks)
}

/// Prediction, plots, tables, discussion. Where room is short the discussion comes first.
fn results(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<(Audience, Block)> {
    let names = Names::of(planned, figures);
    let told = Told { planned, names: &names, figures };
    let sentences = discussion::sentences(run, planned, figures);
    let discussion = (!sentences.is_empty()).then(|| Block::Paragraph(sentences.join(" ")));
    let mut blocks = Vec::new();
    blocks.extend(discussion.clone().map(Block::in_short));
    blocks.extend(reasons::block(planned, &names, figures).map(Block::on_page));
    let shown = plots::Shown { name: "", run, planned, figures };
    for (at, block) in plots::of_experiment(&[shown]).into_iter().enumerate() {
        blocks.push((plot_for(at, &block), block));
    }
    let spreads = plots::distribution(planned, &names, figures).into_iter();
    blocks.extend(spreads.map(|plot| Block::Plot(plot).on_page()));
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
    blocks.extend(
        tables(planned, &names, figures)
            .into_iter()
            .map(|(audience, table)| (audience, Block::Table(table))),
    );
    blocks.extend(Block::notes(remarks::absent(told)).map(Block::for_all));
    blocks.extend(Block::notes(remarks::modes(told)).map(Block::in_short));
    if let Some(discussion) = discussion {
        let heading = Block::Subheading("Discussion".to_owned());
        blocks.extend([heading, discussion].map(Block::on_page));
    }
    blocks.extend(Block::notes(remarks::of_figures(told)).map(Block::on_page));
    // Spans with their causes are the result of an experiment with this view.
    if matches!(planned.view, View::Spans { .. }) {
        let mut noted = remarks::of_experiment(told);
        noted.truncate(MOST_NOTES);
        blocks.extend(Block::notes(noted).map(Block::in_short));
    }
    blocks
}

/// The audience of a plot: a terminal, without a legend, has room for one of a few lines.
fn plot_for(at: usize, block: &Block) -> Audience {
    let Block::Plot(plot) = block else {
        return Audience::Everyone;
    };
    let lines = plot
        .series
        .iter()
        .filter(|series| matches!(series.shape, Shape::Line | Shape::Trace | Shape::Dots));
    match at == 0 && lines.count() <= MOST_LINES {
        true => Audience::Everyone,
        false => Audience::Page,
    }
}

/// The first paragraph under a heading of the manual.
fn under(manual: &str, heading: &str) -> Option<String> {
    let mut lines = manual.lines().skip_while(|line| {
        !(line.starts_with('#') && line.trim_start_matches('#').trim() == heading)
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

/// As many of the first sentences as are short, at least one.
fn first_sentences(text: &str) -> String {
    let mut end = text.len();
    for (at, _) in text.match_indices(". ") {
        if at < BRIEF || end == text.len() {
            end = at + 1;
        }
    }
    let brief = text[..end].trim_end_matches([':', ';']);
    match brief.ends_with('.') {
        true => brief.to_owned(),
        false => format!("{brief}."),
    }
}

/// A table per metric class: measured cases first, derived figures in their own table; short ones
/// for the terminal. What was skipped stands below them, with its reason.
fn tables(
    planned: &PlannedExperiment,
    names: &Names,
    figures: &[&Figure],
) -> Vec<(Audience, Table)> {
    let is_derived = |figure: &Figure| figure.metric.as_ref().is_some_and(|metric| metric.derived);
    let (derived, measured): (Vec<&Figure>, Vec<&Figure>) = figures
        .iter()
        .filter(|figure| figure.outcome != Ending::Skipped)
        .partition(|figure| is_derived(figure));
    let mut tables = Vec::new();
    if let View::Matrix { rows, columns, metric, .. } = &planned.view {
        // The view's metric first, then what else has both parameters.
        let others = planned.metrics.iter().map(|metric| metric.name.as_ref());
        let others = others.filter(|other| other != metric);
        for metric in std::iter::once(metric.as_str()).chain(others) {
            let matrix = matrix::table(planned, figures, rows, columns, metric);
            tables.extend(matrix.into_iter().map(|table| (Audience::Everyone, table)));
        }
    }
    // Only of a published machine.
    if planned.metrics.iter().all(|metric| metric.derived) {
        let whole = by_parameters(&derived).into_iter();
        let printed = |alike: Vec<&Figure>| {
            table(planned, &alike, "As printed in the report", columns::PRINTED)
        };
        tables.extend(whole.map(|alike| (Audience::Everyone, printed(alike))));
        return tables;
    }
    for (figures, what) in [(measured, "Measured"), (derived, "Derived from several cases")] {
        let whole = by_parameters(&figures)
            .into_iter()
            .map(|alike| (Audience::Page, table(planned, &alike, what, columns::WHOLE)));
        tables.extend(whole);
        let short = groups::tables(planned, names, &figures, what).into_iter();
        tables.extend(short.map(|table| (Audience::Terminal, table)));
        let spreads = spreads(planned, names, &figures).into_iter();
        tables.extend(spreads.map(|table| (Audience::Console, table)));
    }
    tables
}

/// How the samples of each figure spread, a table for each metric: whole tables have it beside the
/// values.
fn spreads(planned: &PlannedExperiment, names: &Names, figures: &[&Figure]) -> Vec<Table> {
    let sampled = figures.iter().filter(|figure| figure.stats.is_some());
    let by_metric = gathered(sampled.map(|figure| (values::metric(figure), *figure)));
    let of_metric = |(metric, own): (String, Vec<&Figure>)| {
        let shown = columns::shown(columns::SPREAD, &own);
        // An experiment of one case needs no name for it.
        let is_named = own.iter().any(|figure| !names.case(figure).is_empty());
        let mut columns: Vec<Column> = is_named.then(|| Column::text("case")).into_iter().collect();
        columns.extend(columns::heads(&shown));
        let row = |figure: &&Figure| {
            let name = is_named.then(|| Cell::plain(names.case(figure)));
            let quantities = shown.iter().map(|one| (one.cell)(figure));
            Row {
                cells: name.into_iter().chain(quantities).collect(),
                is_spare: is_spare(planned, own.len(), figure),
            }
        };
        let rows = own.iter().map(row).collect();
        Table { caption: format!("Spread of the samples: {metric}"), columns, rows }
    };
    by_metric.into_iter().map(of_metric).collect()
}

/// Figures in groups whose cases have the same parameters, so that no table has empty columns.
pub(super) fn by_parameters<'figures>(figures: &[&'figures Figure]) -> Vec<Vec<&'figures Figure>> {
    let names =
        |figure: &Figure| figure.case.0.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let groups = gathered(figures.iter().map(|figure| (names(figure), *figure)));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A table of figures with some of the columns that a figure has.
pub(super) fn table(
    planned: &PlannedExperiment,
    figures: &[&Figure],
    what: &str,
    quantities: &[Quantity],
) -> Table {
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
    let shown = columns::shown(quantities, figures);
    columns.extend(columns::heads(&shown));
    let rows = figures.iter().map(|figure| {
        let mut cells: Vec<Cell> = varying
            .iter()
            .map(|name| {
                let value = figure.case.get(name);
                Cell::of(value.map(|value| values::parameter(value, unit(name))))
            })
            .collect();
        if several_metrics {
            let name = values::metric(figure);
            cells.push(Cell::plain(name));
        }
        cells.extend(shown.iter().map(|one| (one.cell)(figure)));
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

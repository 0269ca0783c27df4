//! Sections over all experiments: every figure, findings, score.

use super::experiment::verdict;
use super::plots;
use crate::analysis::figure::Figure;
use crate::analysis::findings::Finding;
use crate::analysis::score::{Score, Tally, score};
use crate::report::document::{Audience, Block, Cell, Column, Row, Section, Table, Tone};
use crate::report::values::{self, percent};
use record::event::PredictionKind;
use record::quantity::{digits, render};

/// Operation, estimate and measurement of every figure that has a metric.
pub(crate) fn all_figures(figures: &[Figure]) -> Section {
    let rows: Vec<Row> = figures
        .iter()
        .filter(|figure| figure.metric.is_some())
        .map(|figure| Row::of(cells(figure)))
        .collect();
    let table = Table {
        caption: "Every figure of the run, as estimated before and as measured".to_owned(),
        columns: vec![
            Column::text("operation"),
            Column::number("estimated cycles"),
            Column::number("estimated"),
            Column::number("measured cycles"),
            Column::number("measured"),
            Column::number("interval"),
            Column::text("verdict"),
        ],
        rows,
    };
    Section {
        id: "figures".to_owned(),
        heading: "Summary of all figures".to_owned(),
        blocks: vec![(Audience::Page, Block::Table(table))],
    }
}

fn cells(figure: &Figure) -> Vec<Cell> {
    let absent = || Cell::toned("-", Tone::Muted);
    let likely = figure
        .shown_prediction()
        .and_then(|judged| judged.prediction.range)
        .map(|range| range.likely);
    // The clock at which the figure was measured turns the estimate into cycles too.
    let cycles_per_unit = figure
        .cycles
        .zip(figure.value)
        .map(|(cycles, value)| cycles / value);
    let estimated_cycles = likely
        .zip(cycles_per_unit)
        .map(|(likely, per_unit)| likely * per_unit);
    let unit = figure.metric.as_ref().map(|metric| metric.unit);
    let shown = values::of_figure(figure);
    let text = |text: Option<String>| text.map_or_else(absent, Cell::plain);
    vec![
        Cell::plain(figure.label()),
        text(
            estimated_cycles
                .filter(|cycles| cycles.is_finite())
                .map(values::cycles),
        ),
        text(likely.zip(unit).map(|(likely, unit)| render(likely, unit))),
        text(values::of_cycles(figure)),
        text(shown.as_ref().map(|shown| shown.value.clone())),
        text(
            shown
                .map(|shown| shown.interval)
                .filter(|interval| !interval.is_empty()),
        ),
        verdict(figure),
    ]
}

/// What to look at.
pub(crate) fn findings(findings: &[Finding]) -> Section {
    let block = match findings.is_empty() {
        true => Block::Paragraph("Nothing to report.".to_owned()),
        false => Block::Notes(
            findings
                .iter()
                .map(|finding| {
                    (
                        finding.severity,
                        format!("{}: {}.", finding.about, finding.text),
                    )
                })
                .collect(),
        ),
    };
    Section {
        id: "findings".to_owned(),
        heading: "Findings".to_owned(),
        blocks: vec![(Audience::Everyone, block)],
    }
}

/// How good the predictions were, by source and family.
fn score_table(figures: &[Figure]) -> Table {
    let kinds = [
        (
            "hardware description",
            score(figures, PredictionKind::Prior),
        ),
        ("earlier figures", score(figures, PredictionKind::Derived)),
    ];
    let row = |from: &str, family: &str, tally: &Tally| {
        Row::of(vec![
            Cell::plain(from),
            Cell::plain(family),
            Cell::plain(tally.figures.to_string()),
            Cell::plain(tally.inside_share().map_or_else(|| "-".to_owned(), percent)),
            Cell::plain(tally.median_width.map_or_else(|| "-".to_owned(), digits)),
            Cell::plain(tally.unpredicted.to_string()),
        ])
    };
    let mut rows = Vec::new();
    for (from, Score { all, by_family }) in &kinds {
        if all.figures + all.unpredicted > 0 {
            rows.push(row(from, "all", all));
            rows.extend(
                by_family
                    .iter()
                    .map(|(family, tally)| row(from, family, tally)),
            );
        }
    }
    Table {
        caption: "Predictions that hold, and how wide they are (median of high over low)"
            .to_owned(),
        columns: vec![
            Column::text("predicted from"),
            Column::text("family"),
            Column::number("predicted"),
            Column::number("inside"),
            Column::number("high / low"),
            Column::number("unpredicted"),
        ],
        rows,
    }
}

/// Score with its plot.
pub(crate) fn score_section(figures: &[Figure]) -> Section {
    let mut blocks = Vec::new();
    if let Some(plot) = plots::score(figures) {
        blocks.push((Audience::Page, Block::Plot(plot)));
    }
    blocks.push((Audience::Everyone, Block::Table(score_table(figures))));
    Section {
        id: "score".to_owned(),
        heading: "Prediction score".to_owned(),
        blocks,
    }
}

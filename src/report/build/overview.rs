//! Sections over all experiments: every figure, findings, score.

use super::experiment::verdict;
use super::plots;
use crate::analysis::causes;
use crate::analysis::figure::Figure;
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::misses;
use crate::analysis::score::{Score, Tally, score};
use crate::report::document::{Audience, Block, Cell, Column, Row, Section, Table, Tone};
use crate::report::values::{self, percent};
use record::event::PredictionKind;
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;

/// Misses that are listed.
const WORST: usize = 10;

/// What a prediction was made from.
const HARDWARE: &str = "hardware description";
const EARLIER: &str = "earlier figures";

/// Operation, estimate and measurement of every figure that has a metric.
pub(crate) fn all_figures(run: &Run, figures: &[Figure]) -> Section {
    let figures: Vec<&Figure> = figures
        .iter()
        .filter(|figure| figure.metric.is_some())
        .collect();
    let core_hz = run.header.calibration.core_hz;
    let caption = format!(
        "Every figure of the run, as estimated before and as measured; an estimated time in cycles is at \
         the clock measured beside the case, else (~) at the calibrated one{}",
        values::told_of_marks(&figures)
    );
    let table = Table {
        caption,
        columns: vec![
            Column::text("operation"),
            Column::number("estimate in cycles"),
            Column::number("estimated"),
            Column::number("measured cycles"),
            Column::number("measured"),
            Column::number("interval"),
            Column::number("measured / estimated"),
            Column::text("verdict"),
        ],
        rows: figures
            .iter()
            .map(|figure| Row::of(cells(figure, core_hz)))
            .collect(),
    };
    Section {
        id: "figures".to_owned(),
        heading: "Summary of all figures".to_owned(),
        blocks: vec![(Audience::Page, Block::Table(table))],
    }
}

fn cells(figure: &Figure, core_hz: f64) -> Vec<Cell> {
    let absent = || Cell::toned("-", Tone::Muted);
    let likely = figure
        .shown_prediction()
        .and_then(|judged| judged.prediction.range)
        .map(|range| range.likely);
    let ratio = likely
        .zip(figure.value)
        .map(|(likely, value)| value / likely);
    let unit = figure.metric.as_ref().map(|metric| metric.unit);
    let shown = values::of_figure(figure);
    let text = |text: Option<String>| text.map_or_else(absent, Cell::plain);
    vec![
        Cell::plain(figure.label()),
        text(likely.and_then(|likely| estimated_cycles(figure, likely, core_hz))),
        text(likely.zip(unit).map(|(likely, unit)| render(likely, unit))),
        text(values::of_cycles(figure)),
        text(shown.map(|shown| shown.value)),
        text(values::interval(figure)),
        text(ratio.filter(|ratio| ratio.is_finite()).map(digits)),
        verdict(figure),
    ]
}

/// A likely time in cycles: at the clock at which the figure was measured, else, marked, at the
/// calibrated one. Reports of others state neither.
fn estimated_cycles(figure: &Figure, likely: f64, core_hz: f64) -> Option<String> {
    let measured = figure.cycles.zip(figure.value);
    let per_unit = measured.map(|(cycles, value)| cycles / value);
    if let Some(per_unit) = per_unit.filter(|per_unit| per_unit.is_finite()) {
        return Some(values::cycles(likely * per_unit));
    }
    let is_time = figure.metric.as_ref()?.unit.is_time();
    let is_calibrated = core_hz.is_finite() && core_hz > 0.0;
    (is_time && is_calibrated).then(|| format!("~{}", values::cycles(likely * core_hz * 1e-9)))
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
        (HARDWARE, score(figures, PredictionKind::Prior)),
        (EARLIER, score(figures, PredictionKind::Derived)),
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

/// The predictions that were missed by most, with what was recorded that may explain it.
fn worst_misses(run: &Run, figures: &[Figure]) -> Block {
    let worst = misses::worst(figures, WORST);
    if worst.is_empty() {
        let text = "No figure lies outside of what was predicted of it.";
        return Block::Paragraph(text.to_owned());
    }
    let rows = worst.iter().map(|miss| {
        let unit = miss
            .figure
            .metric
            .as_ref()
            .map_or(Unit::Count, |metric| metric.unit);
        let from = match miss.of {
            PredictionKind::Prior => HARDWARE,
            PredictionKind::Derived => EARLIER,
        };
        let causes = causes::of(run, std::slice::from_ref(miss));
        let causes = match causes.is_empty() {
            true => Cell::toned("no recorded condition explains it", Tone::Muted),
            false => Cell::plain(causes.join("; ")),
        };
        Row::of(vec![
            Cell::plain(miss.figure.label()),
            Cell::plain(from),
            Cell::plain(values::range(&miss.range, unit)),
            Cell::plain(
                values::of_figure(miss.figure).map_or_else(String::new, |shown| shown.value),
            ),
            Cell::plain(miss.factor.map_or_else(|| "-".to_owned(), digits)),
            Cell::toned(miss.verdict.text(), Tone::Warn),
            causes,
        ])
    });
    Block::Table(Table {
        caption: format!(
            "The {} worst misses: factor of the measured value over the nearer predicted end, or of the \
             end over the value",
            worst.len()
        ),
        columns: vec![
            Column::text("figure"),
            Column::text("predicted from"),
            Column::number("predicted"),
            Column::number("measured"),
            Column::number("factor"),
            Column::text("verdict"),
            Column::text("candidate causes"),
        ],
        rows: rows.collect(),
    })
}

/// The same as lines of text.
fn misses_in_short(run: &Run, figures: &[Figure]) -> Block {
    let notes = misses::worst(figures, WORST).into_iter().map(|miss| {
        let unit = miss
            .figure
            .metric
            .as_ref()
            .map_or(Unit::Count, |metric| metric.unit);
        let shown = values::of_figure(miss.figure).map_or_else(String::new, |shown| shown.value);
        let factor = miss.factor.map_or_else(String::new, |factor| {
            format!(" by a factor of {}", digits(factor))
        });
        let from = match miss.of {
            PredictionKind::Prior => "",
            PredictionKind::Derived => " from earlier figures",
        };
        let causes = causes::of(run, &[miss]);
        let causes = match causes.first() {
            None => "no recorded condition explains it".to_owned(),
            Some(first) => format!("candidate: {first}"),
        };
        let text = format!(
            "{} {shown}: {}{factor} (predicted{from} {}); {causes}.",
            miss.figure.label(),
            miss.verdict.text(),
            values::range(&miss.range, unit)
        );
        (Severity::Note, text)
    });
    let notes: Vec<(Severity, String)> = notes.collect();
    match notes.is_empty() {
        true => worst_misses(run, figures),
        false => Block::Notes(notes),
    }
}

/// Score with its plot, and the worst misses.
pub(crate) fn score_section(run: &Run, figures: &[Figure]) -> Section {
    let mut blocks = Vec::new();
    if let Some(plot) = plots::score(figures) {
        blocks.push((Audience::Page, Block::Plot(plot)));
    }
    let table = score_table(figures);
    let block = match table.rows.is_empty() {
        true => Block::Paragraph("Nothing was both predicted and measured.".to_owned()),
        false => Block::Table(table),
    };
    blocks.push((Audience::Everyone, block));
    if figures
        .iter()
        .any(|figure| figure.shown_prediction().is_some())
    {
        blocks.push((Audience::Page, worst_misses(run, figures)));
        blocks.push((Audience::Terminal, misses_in_short(run, figures)));
    }
    Section {
        id: "score".to_owned(),
        heading: "Prediction score".to_owned(),
        blocks,
    }
}

//! The document of an A/B comparison, and its rows as data.

use crate::csv::{columns, fields, table};
use crate::document::{Block, Cell, Document, Row, Section, Table, Tone};
use crate::values::{counted, percent, ratio, ratios};
use analysis::paired::{JUDGED_FROM, Paired, RATE};
use record::metric::Better;
use record::order::InOrder;
use record::quantity::render;
use serde::Serialize;

pub struct Comparison<'a> {
    pub commands: [&'a str; 2],
    pub runs: [&'a str; 2],
    pub figures: &'a [Paired],
}

/// A figure of the comparison in base units (docs/FORMAT.md).
#[derive(Serialize)]
struct Flat<'a> {
    experiment: &'a str,
    case: String,
    metric: &'a str,
    unit: String,
    a: f64,
    b: f64,
    ratio: f64,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    confidence: Option<f64>,
    pairs: usize,
    changed: bool,
}

impl<'a> From<&'a Paired> for Flat<'a> {
    fn from(one: &'a Paired) -> Self {
        Flat {
            experiment: &one.key.experiment,
            case: one.key.case.to_string(),
            metric: &one.key.metric,
            unit: one.unit.to_string(),
            a: one.values[0],
            b: one.values[1],
            ratio: one.ratio,
            ratio_low: one.interval.map(|interval| interval.low),
            ratio_high: one.interval.map(|interval| interval.high),
            confidence: one.interval.map(|interval| interval.confidence),
            pairs: one.ratios.len(),
            changed: one.changed,
        }
    }
}

pub fn json(comparison: &Comparison<'_>) -> String {
    let figures: Vec<Flat<'_>> = comparison.figures.iter().map(Flat::from).collect();
    let all = serde_json::json!({
        "format": 1,
        "a": comparison.commands[0],
        "b": comparison.commands[1],
        "run_a": comparison.runs[0],
        "run_b": comparison.runs[1],
        "figures": figures,
    });
    format!("{all:#}\n")
}

/// Columns ([`columns`]) of a figure.
const COLUMNS: &str = "experiment case metric unit a b ratio ratio_low ratio_high confidence pairs \
    changed";

pub fn csv(comparison: &Comparison<'_>) -> String {
    let columns = columns(COLUMNS);
    let figures = comparison.figures.iter();
    let rows = figures.map(|one| fields(&columns, &serde_json::json!(Flat::from(one))));
    table(columns.iter().map(|(name, _)| *name), rows)
}

/// What people read: how many changed, then every figure, those first that changed most.
pub fn build(comparison: &Comparison<'_>) -> Document {
    let figures = comparison.figures;
    let changed = figures.iter().filter(|one| one.changed).count();
    let pairs = figures.iter().map(|one| one.ratios.len()).max().unwrap_or(0);
    let summary = format!(
        "{changed} of {} changed, by {} of rounds.",
        counted(figures.len(), "figure"),
        counted(pairs, "pair"),
    );
    let [a, b] = comparison.commands;
    let states = [("A", a, comparison.runs[0]), ("B", b, comparison.runs[1])];
    let states =
        states.map(|(name, command, run)| (name.to_owned(), format!("{command} (record {run})")));
    let effect = |one: &&Paired| if one.changed { one.ratio.ln().abs() } else { 0.0 };
    let mut ordered: Vec<&Paired> = figures.iter().collect();
    ordered.order_by(|one, other| effect(other).total_cmp(&effect(one)));
    let headings = ["figure", "#A", "#B", "#B / A", "#interval", "#pairs", "verdict"];
    let table = Table::new("A and B", &headings, ordered.into_iter().map(row));
    let method = format!(
        "Rounds of A and B alternated (A B, B A, …). B / A is the median of the pairs' ratios. A figure changed where a \
         signed-rank test over its pairs says so, corrected for the number of figures: of {:.0} comparisons of a state \
         with itself one finds something. It needs {JUDGED_FROM} pairs.",
        1.0 / RATE
    );
    let blocks = [Block::KeyValues(states.to_vec()), Block::Table(table), Block::Paragraph(method)];
    let blocks = blocks.into_iter().map(Block::for_all).collect();
    Document::new("A/B", summary, vec![Section::new("figures", "Figures", blocks)])
}

fn row(one: &Paired) -> Row {
    let interval = one.interval.map(|interval| ratios((interval.low, interval.high)));
    let cells = [
        one.key.to_string(),
        render(one.values[0], one.unit),
        render(one.values[1], one.unit),
        ratio(one.ratio),
        interval.unwrap_or_else(|| "no interval".to_owned()),
        one.ratios.len().to_string(),
    ];
    let cells = cells.into_iter().map(Cell::plain).chain([verdict(one)]);
    Row::always_shown(cells.collect())
}

fn verdict(one: &Paired) -> Cell {
    if !one.changed {
        let text = match one.ratios.len() < JUDGED_FROM {
            true => "too few pairs".to_owned(),
            false => format!("no change seen (±{})", percent(one.precision())),
        };
        return Cell::toned(text, Tone::Muted);
    }
    let size = percent((one.ratio - 1.0).abs());
    let is_more = one.ratio > 1.0;
    let (word, tone) = match (one.better, is_more) {
        (Better::Lower, true) | (Better::Higher, false) => ("worse", Tone::Bad),
        (Better::Lower, false) | (Better::Higher, true) => ("better", Tone::Good),
        (Better::None, true) => ("more", Tone::Plain),
        (Better::None, false) => ("less", Tone::Plain),
    };
    Cell::toned(format!("B is {size} {word}"), tone)
}

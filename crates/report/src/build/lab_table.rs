//! The summary of all figures: the lab report's columns, and how each figure spreads.

use super::columns::{self, Quantity};
use crate::document::{Block, Cell, Column, Row, Section, Spread, Table};
use crate::values;
use analysis::figure::Figure;
use analysis::names::around;
use record::quantity::render;

const CAPTION: &str = "The figures of the run. Base hardware and software overhead are the shares of \
    the estimate, which stands with its range; ratio is measured over estimate; sd is the standard \
    deviation of the samples; trials are rounds / samples, core alone is what a value rests on: \
    rounds / samples / stretches of consecutive ones";

/// Every figure that has a metric.
pub fn section(figures: &[Figure]) -> Section {
    let figures: Vec<&Figure> = figures.iter().filter(|figure| figure.metric.is_some()).collect();
    let shown = columns::shown(columns::SUMMARY, &figures);
    let mut heads = vec![Column::text("operation")];
    heads.extend(columns::heads(&shown));
    let row = |figure: &&Figure| {
        let quantities = shown.iter().map(|one: &Quantity| (one.cell)(figure));
        Row::always_shown(std::iter::once(Cell::plain(figure.label())).chain(quantities).collect())
    };
    let caption = format!("{CAPTION}{}", values::told_of_marks(&figures));
    let rows = figures.iter().map(row).collect();
    let spreads = figures.iter().map(|figure| spread(figure)).collect();
    let block = Block::Figures(Table { caption, columns: heads, rows }, spreads);
    Section::new("figures", "Summary of all figures", vec![block.on_page()])
}

/// How a measured figure's rounds and samples lie.
fn spread(figure: &Figure) -> Option<Spread> {
    let (value, stats) = (figure.value?, figure.stats.as_ref()?);
    let unit = figure.unit();
    let range = figure.shown_range();
    let mode = |mode: &analysis::figure::ModeShare| {
        let centre = values::plain(mode.centre, unit);
        (mode.centre, format!("{centre}, {} of the samples", values::percent(mode.share)))
    };
    let is_split = stats.modes.len() > 1;
    Some(Spread {
        rounds: figure.rounds.iter().map(|round| (round.value, round.disturbed)).collect(),
        density: stats.density.clone(),
        modes: stats.modes.iter().filter(|_| is_split).map(mode).collect(),
        predicted: range.map(|range| (range.low, range.high)),
        value,
        interval: figure.ci,
        unit: Some(unit),
        text: text(figure),
    })
}

/// The samples' mean; of events the percentiles; and the best guess.
fn text(figure: &Figure) -> String {
    let unit = figure.unit();
    let mut parts = Vec::new();
    if let Some(stats) = &figure.stats {
        parts.push(format!("Mean {}", values::plain(stats.mean, unit)));
        let percentiles = [("p50", stats.p50), ("p90", stats.p90), ("p99", stats.p99)];
        let percentiles = percentiles.into_iter().chain([("max", stats.max)]);
        parts.extend(percentiles.filter(|_| stats.is_of_events()).map(|(name, value)| {
            let least = if stats.at_least.contains(&name) { "at least " } else { "" };
            format!("{name} {least}{}", values::plain(value, unit))
        }));
    }
    let range = figure.shown_range();
    parts.extend(range.map(|range| format!("best guess {}", render(range.likely, unit))));
    around("", &parts.join(", "), ".")
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::document::Block;
    use analysis::{figures, sample};

    #[test]
    fn every_figure_has_a_row_and_what_was_measured_a_spread() {
        let run = sample::run();
        let all = figures(&run);
        let section = section(&all);
        let Some((_, Block::Figures(table, spreads))) = section.blocks.first() else {
            panic!("the summary is a block of figures");
        };
        let with_metric = all.iter().filter(|figure| figure.metric.is_some());
        assert_eq!(table.rows.len(), with_metric.clone().count());
        assert_eq!(table.rows.len(), spreads.len());
        let headings: Vec<&str> = table.columns.iter().map(|one| one.heading.as_str()).collect();
        for heading in ["operation", "estimate", "interval", "ratio", "mean ± sd", "trials"] {
            assert!(headings.contains(&heading), "{headings:?}");
        }
        for (figure, spread) in with_metric.zip(spreads) {
            let is_sampled = figure.value.is_some() && figure.stats.is_some();
            assert_eq!(spread.is_some(), is_sampled, "{}", figure.label());
            let Some(spread) = spread else {
                continue;
            };
            assert_eq!(spread.rounds.len(), figure.rounds.len());
            assert!(spread.text.ends_with('.'), "{}", spread.text);
        }
    }
}

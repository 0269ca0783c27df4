//! The lab summary of the key figures, and that of all figures, with how each spreads.

use crate::columns::{Layout, SUMMARY};
use crate::document::{Block, Cell, Column, Row, Section, Spread, Table};
use crate::values;
use analysis::figure::Figure;
use analysis::keys::KeyFigure;
use analysis::names::around;

/// How the columns of a summary are read.
const COLUMNS: &str = "Base hardware and software overhead are the best guesses of the shares of the \
    estimate, of a rate in percent of the time; predicted is its range; ratio is measured over estimate; sd is the standard deviation of \
    the samples; trials are rounds / samples";

/// The lab summary: a row for each key figure. A group is named once.
pub fn of_keys(keys: &[KeyFigure]) -> Table {
    let figures: Vec<&Figure> = keys.iter().map(|key| key.figure).collect();
    let layout = Layout::new(SUMMARY, &figures);
    let mut columns = Column::list(&["", "operation"]);
    columns.extend(layout.heads());
    let mut group = "";
    let row = |key: &KeyFigure| {
        let title = if key.group == group { "" } else { key.group };
        group = key.group;
        let heads = [title, key.title].map(Cell::plain).into_iter();
        Row::always_shown(heads.chain(layout.cells(key.figure)).collect())
    };
    let rows = keys.iter().map(row).collect();
    let caption =
        format!("{COLUMNS}{}{}", values::told_of_marks(&figures), values::told_of_core(&figures));
    Table { caption, columns, rows }
}

pub fn section(figures: &[Figure]) -> Section {
    let figures: Vec<&Figure> = figures.iter().filter(|figure| figure.metric.is_some()).collect();
    let layout = Layout::new(SUMMARY, &figures);
    let mut heads = vec![Column::text("operation")];
    heads.extend(layout.heads());
    let row = |figure: &&Figure| {
        let label = std::iter::once(Cell::plain(figure.label()));
        Row::always_shown(label.chain(layout.sortable(figure)).collect())
    };
    let caption = format!("The figures of the run. {COLUMNS}{}", values::told_of_marks(&figures));
    let rows = figures.iter().map(row).collect();
    let spreads = figures.iter().map(|figure| spread(figure)).collect();
    let block = Block::Figures(Table { caption, columns: heads, rows }, spreads);
    Section::new("figures", "Summary of all figures", vec![block.on_page()])
}

/// How a measured figure's rounds and samples lie.
fn spread(figure: &Figure) -> Option<Spread> {
    let (value, stats) = (figure.value?, figure.stats.as_ref()?);
    let unit = figure.shown_unit();
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

/// The samples' mean, and of events the percentiles.
fn text(figure: &Figure) -> String {
    let layout = Layout::new("mean p50 p90 p99 max", &[figure]);
    let parts = layout.heads().zip(layout.cells(figure));
    let parts: Vec<String> =
        parts.map(|(column, cell)| format!("{} {}", column.heading, cell.text)).collect();
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
        for heading in ["operation", "estimate", "predicted", "interval", "ratio", "sd", "trials"] {
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

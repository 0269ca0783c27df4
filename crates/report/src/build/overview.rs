//! Sections over all experiments: findings, score.

use super::plots;
use crate::columns::by_factor;
use crate::document::{Block, Cell, Remark, Row, Section, Table, Tone};
use crate::values::{self, counted, percent};
use analysis::causes;
use analysis::figure::Figure;
use analysis::findings::Finding;
use analysis::misses::{self, Miss};
use analysis::score::{Off, Score, Tally, off, score};
use record::event::{Ending, PredictionKind};
use record::quantity::digits;
use record::run::Run;

/// Misses that are listed.
const WORST: usize = 10;

const UNEXPLAINED: &str = "no recorded condition explains it";
const REACHES_IN: &str = "its interval overlaps the prediction";
const NO_INTERVAL: &str = "no interval";

/// What a prediction was made from: the machine's description and its state (counters of the
/// running system) before the run, or figures of the run.
const BEFORE: &str = "machine and its state";
const EARLIER: &str = "earlier figures";

pub fn findings(findings: &[Finding]) -> Section {
    let remark = |finding: &Finding| {
        let about = if finding.is_of_run() { "" } else { &finding.about };
        Remark::new(finding.severity, about, finding.text_with_advice())
    };
    let block = Block::notes(findings.iter().map(remark).collect())
        .unwrap_or_else(|| Block::text("Nothing to report."));
    Section::new("findings", "Findings", vec![block.for_all()])
}

fn score_table(figures: &[Figure]) -> Table {
    let kinds = [
        (BEFORE, score(figures, PredictionKind::Prior)),
        (EARLIER, score(figures, PredictionKind::Derived)),
    ];
    let row = |from: &str, family: &str, tally: &Tally| {
        Row::always_shown(vec![
            Cell::plain(from),
            Cell::plain(family),
            Cell::plain(tally.figures.to_string()),
            Cell::optional(tally.inside_share().map(percent)),
            Cell::optional(tally.share(tally.expected).map(percent)),
            Cell::optional(tally.share(tally.unpredicted).map(percent)),
            Cell::optional(tally.narrower().map(digits)),
            Cell::optional(tally.bias.map(digits)),
            Cell::optional(tally.median_width.map(digits)),
        ])
    };
    let mut rows = Vec::new();
    for (from, Score { all, by_family }) in &kinds {
        if all.figures > 0 {
            rows.push(row(from, "all", all));
            rows.extend(by_family.iter().map(|(family, tally)| row(from, family, tally)));
        }
    }
    Table::new(
        "How good the predictions were. No range: figures that are not predictable from here, which \
         are misses. Expected: inside by what was to be expected beside a neighbour on the core, too. \
         Narrower: how many times the interval score (width and misses) is better than \
         that of the whole range of recorded machines in the family. Bias: measured over best guess, \
         median. High / low: width of the ranges, median",
        &[
            "predicted from",
            "family",
            "#figures",
            "#inside",
            "#expected",
            "#no range",
            "#narrower",
            "#bias",
            "#high / low",
        ],
        rows,
    )
}

/// How far a report's own estimates are off, by family: single numbers, which no figure can hold.
fn estimates(figures: &[Figure]) -> Table {
    let mut families: Vec<&str> = figures.iter().map(Figure::family).collect();
    families.dedup();
    let row = |family: &str, off: Off| {
        let cells =
            [off.median_factor, off.least, off.most].map(|number| Cell::plain(digits(number)));
        let begin = [family.to_owned(), off.figures.to_string()].map(Cell::plain);
        Row::always_shown(begin.into_iter().chain(cells).collect())
    };
    let all = off(figures.iter()).map(|off| row("all", off));
    let each = families.into_iter().filter_map(|family| {
        let own = figures.iter().filter(|figure| figure.family() == family);
        Some(row(family, off(own)?))
    });
    let headings = [
        "family",
        "#estimates",
        "#factor, median",
        "#least value / estimate",
        "#most value / estimate",
    ];
    let caption = "The report's own estimates and their error: the value over the estimate, or the \
        estimate over the value";
    Table::new(caption, &headings, all.into_iter().chain(each))
}

/// The predictions that were missed by most, with what was recorded that may explain it; nothing
/// where none was missed.
pub(super) fn worst_misses<'figures>(
    run: &Run,
    figures: impl IntoIterator<Item = &'figures Figure>,
    most: usize,
) -> Option<Table> {
    let worst = misses::worst(figures, most);
    if worst.is_empty() {
        return None;
    }
    // Nothing was recorded with what others published.
    let is_published = run.header.is_published();
    let mut headings = vec![
        "figure",
        "predicted from",
        "#predicted",
        "#measured",
        "#interval",
        "verdict",
        "candidate causes",
    ];
    if is_published {
        headings.pop();
    }
    let rows = worst.iter().map(|miss| {
        let from = match miss.kind {
            PredictionKind::Prior if is_published => "the report's own estimate",
            PredictionKind::Prior => BEFORE,
            PredictionKind::Derived => EARLIER,
        };
        let shown = values::of_figure(miss.figure);
        let interval = shown
            .as_ref()
            .map(|shown| shown.interval.clone())
            .filter(|interval| !interval.is_empty());
        let mut cells = vec![
            Cell::plain(values::label(miss.figure)),
            Cell::plain(from),
            Cell::plain(values::range(&miss.range, miss.figure.shown_unit())),
            Cell::plain(shown.map_or_else(String::new, |shown| shown.value)),
            Cell::optional(interval),
            Cell::toned(by_factor(miss), Tone::Warn),
            match causes::cause_texts(run, std::slice::from_ref(miss)).as_slice() {
                _ if !miss.is_certain => Cell::toned(doubt(miss), Tone::Muted),
                [] => Cell::toned(UNEXPLAINED, Tone::Muted),
                causes => Cell::plain(causes.join("; ")),
            },
        ];
        cells.truncate(headings.len());
        Row::always_shown(cells)
    });
    let certain = match worst.iter().all(|miss| miss.is_certain) {
        true => "",
        false => {
            "; figures without an interval, or whose interval overlaps the prediction, come last"
        }
    };
    let which = match worst.len() {
        1 => "The only miss".to_owned(),
        several => format!("The {several} largest misses"),
    };
    let caption = format!(
        "{which}; the factor lies between the value and the nearer end of the range{certain}"
    );
    let table = Table::new(caption, &headings, rows);
    Some(table.hiding(&["predicted from", "interval", "predicted"]))
}

/// Why a miss is not certain.
fn doubt(miss: &Miss) -> &'static str {
    if miss.figure.ci.is_none() { NO_INTERVAL } else { REACHES_IN }
}

fn no_miss(figures: &[Figure]) -> String {
    let (predicted, inside) = misses::within(figures);
    let lacking = figures.iter().filter(|figure| figure.outcome != Ending::Measured).count();
    let lacking = match lacking {
        0 => String::new(),
        lacking => format!(" Skipped or failed: {}.", counted(lacking, "figure")),
    };
    match predicted - inside {
        0 if predicted == 0 => format!("No predicted figure was measured.{lacking}"),
        0 => {
            format!("The values of all {predicted} predicted figures are in their range.{lacking}")
        }
        _ => format!(
            "{inside} of {predicted} values are in their predicted range; the intervals of the \
             others overlap it.{lacking}"
        ),
    }
}

/// Score with its plot, and the worst misses.
pub fn score_section(run: &Run, figures: &[Figure]) -> Section {
    let plot = plots::score(figures).map(|plot| Block::Plot(plot).on_page());
    let mut blocks: Vec<_> = plot.into_iter().collect();
    let table = match run.header.is_published() {
        true => estimates(figures),
        false => score_table(figures),
    };
    let block = match table.rows.is_empty() {
        true => Block::Paragraph("No prediction could be scored.".to_owned()),
        false => Block::Table(table),
    };
    blocks.push(block.for_all());
    if figures.iter().any(|figure| figure.shown_prediction().is_some()) {
        let none = || Block::Paragraph(no_miss(figures));
        blocks.push(worst_misses(run, figures, WORST).map_or_else(none, Block::Table).for_all());
    }
    Section::new("score", "Prediction score", blocks)
}

#[cfg(test)]
mod tests {
    use super::{estimates, no_miss, score_section};
    use crate::document::{Block, Table};
    use analysis::figure::Figure;
    use analysis::{figures, misses, sample};
    use record::event::{Ending, PUBLISHED};
    use record::run::Run;

    fn worst_misses(run: &Run, all: &[Figure]) -> Table {
        super::worst_misses(run, all, super::WORST).expect("some figures miss")
    }

    #[test]
    fn a_miss_is_told_with_its_interval_and_where_that_reaches_in_without_a_cause() {
        let run = sample::run();
        let mut all = figures(&run);
        let cells = |all: &[Figure]| -> Vec<String> {
            let table = worst_misses(&run, all);
            assert_eq!(table.columns[4].heading, "interval");
            let row = table.rows.iter().find(|row| row.cells[0].text.contains("call=read"));
            let cells = &row.expect("was missed").cells;
            cells.iter().map(|cell| cell.text.clone()).collect()
        };
        let certain = cells(&all);
        assert!(certain[4].starts_with("[1"), "{certain:?}");
        assert!(certain[6].contains("retpolines"), "{certain:?}");
        for figure in &mut all {
            figure.ci = figure.ci.map(|(low, high)| (low / 10.0, high));
        }
        let uncertain = cells(&all);
        assert_eq!(uncertain[6], super::REACHES_IN);
    }

    /// A rehearsal and a published machine have no intervals; an interrupted run lacks figures.
    #[test]
    fn that_all_figures_are_in_their_range_is_said_only_where_they_are() {
        let run = sample::run();
        let mut all = figures(&run);
        all.retain(|figure| figure.value.is_some());
        let bare = |figure: &mut Figure| {
            figure.ci = None;
            for judged in [&mut figure.prior, &mut figure.derived].into_iter().flatten() {
                judged.verdict = None;
            }
        };
        all.iter_mut().for_each(bare);
        let missed = worst_misses(&run, &all).rows.len();
        assert!(missed > 0, "their values lie outside");
        all.retain(|figure| misses::worst(std::slice::from_ref(figure), 1).is_empty());
        let (predicted, inside) = misses::within(&all);
        assert!(predicted > 0 && predicted == inside);
        assert!(no_miss(&all).contains(&format!("all {predicted}")), "{}", no_miss(&all));
        let first =
            all.iter_mut().find(|figure| misses::within(std::slice::from_ref(figure)).0 > 0);
        let first = first.expect("one is predicted");
        let value = first.value.expect("it is measured");
        (first.value, first.ci) = (Some(value * 1e6), Some((value, value * 1e6)));
        assert!(!no_miss(&all).contains("all "), "{}", no_miss(&all));
        all.retain(|figure| figure.outcome == Ending::Measured);
        assert!(!no_miss(&all).contains("Skipped"), "{}", no_miss(&all));
        all.push(Figure::absent("os.pipe", Ending::Skipped, "interrupted".to_owned()));
        assert!(no_miss(&all).contains("Skipped or failed: 1"), "{}", no_miss(&all));
    }

    #[test]
    fn estimates_of_a_published_machine_are_scored_by_how_far_they_are_off() {
        let mut run = sample::run();
        let mut all = figures(&run);
        for figure in &mut all {
            if let Some(range) = figure.prior.as_mut().and_then(|one| one.prediction.range.as_mut())
            {
                range.likely = figure.value.unwrap_or(1.0) * 2.0;
            }
        }
        let table = estimates(&all);
        let cells: Vec<&str> = table.rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!((cells[0], &cells[2..]), ("all", &["2", "0.50", "0.50"][..]));
        run.header.options.preset = PUBLISHED.to_owned();
        let section = score_section(&run, &all);
        assert!(section.blocks.iter().any(|(_, block)| *block == Block::Table(table.clone())));
        let misses = worst_misses(&run, &all);
        assert!(misses.columns.iter().all(|column| column.heading != "candidate causes"));
    }
}

//! What tables say of a figure, a column each.

use super::summary::UNPREDICTED;
use crate::document::{Cell, Column, Tone};
use crate::values;
use analysis::figure::{Figure, Stats};
use analysis::verdict::Verdict;
use record::event::{Ending, Range, Shares};
use record::key::Value;

/// A column of a table of figures.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its heading.
    pub heading: &'static str,
    /// A figure's cell.
    pub cell: fn(&Figure) -> Cell,
    /// Whether it is left out where no figure of the table has it.
    is_optional: bool,
    /// See [`Column::is_in_summary`].
    is_in_summary: bool,
}

/// Where room is short.
pub const SHORT: &[Quantity] = &[
    always("#predicted", predicted),
    always("#measured", |figure| Cell::of(values::value(figure))),
    always("#interval", |figure| Cell::of(values::interval(figure))),
    always("#cycles", |figure| Cell::of(values::of_cycles(figure))),
    always("verdict", verdict),
    AS_FOUND,
    SHARED,
];

/// In an experiment's whole table: the lab report's columns, and the percentiles of events.
pub const WHOLE: &[Quantity] = &[
    always("#predicted", predicted),
    Quantity { is_in_summary: true, ..HARDWARE },
    Quantity { is_in_summary: true, ..SOFTWARE },
    always("#measured", |figure| Cell::of(values::value(figure))),
    always("#interval", |figure| Cell::of(values::interval(figure))),
    Quantity { is_in_summary: true, ..MEAN },
    Quantity { is_in_summary: true, ..TRIALS },
    Quantity { is_in_summary: true, ..BASIS },
    P50,
    P90,
    P99,
    MAX,
    sometimes("#cycles", |figure| Cell::of(values::of_cycles(figure))),
    always("verdict", verdict),
    AS_FOUND,
    SHARED,
];

/// In the summary of all figures: the lab report's columns.
pub const SUMMARY: &[Quantity] = &[
    HARDWARE,
    SOFTWARE,
    always("#predicted", predicted),
    always("#measured", |figure| Cell::of(values::value(figure))),
    always("#interval", |figure| Cell::of(values::interval(figure))),
    MEAN,
    TRIALS,
    BASIS,
    sometimes("#cycles", |figure| Cell::of(values::of_cycles(figure))),
    always("verdict", verdict),
];

/// How the samples of a figure spread.
pub const SPREAD: &[Quantity] = &[CYCLES, BASIS, MEAN, TRIALS, P50, P90, P99, MAX];

/// What a report prints, in its own units, beside the value in ours.
pub const PRINTED: &[Quantity] = &[
    sometimes("table", |figure| printed(figure, "source")),
    sometimes("#printed", |figure| printed(figure, "printed")),
    sometimes("#also printed", |figure| printed(figure, "printed_also")),
    sometimes("#deviation", |figure| printed(figure, "deviation_printed")),
    sometimes("#trials", |figure| Cell::of(figure.at.get("n").map(Value::to_string))),
    sometimes("#estimate", |figure| printed(figure, "estimate_printed")),
    always("#value", |figure| Cell::of(values::value(figure))),
];

const AS_FOUND: Quantity = sometimes("#as found", |figure| Cell::of(values::as_found(figure)));
const SHARED: Quantity = sometimes("#shared", |figure| Cell::of(values::shared(figure)));
const HARDWARE: Quantity = sometimes("#base hardware", |figure| share(figure, |of| of.hardware));
const SOFTWARE: Quantity =
    sometimes("#software overhead", |figure| share(figure, |of| of.software));

const MEAN: Quantity = sometimes("#mean ± sd", |figure| Cell::of(values::mean(figure)));
const TRIALS: Quantity = sometimes("#trials", |figure| Cell::of(values::trials(figure)));
const BASIS: Quantity = sometimes("#core alone", |figure| Cell::of(values::basis(figure)));
const CYCLES: Quantity =
    sometimes("#cycles", |figure| Cell::of(figure.core_cycles().and(values::of_cycles(figure))));
const P50: Quantity = sometimes("#p50", |figure| percentile(figure, "p50", |stats| stats.p50));
const P90: Quantity = sometimes("#p90", |figure| percentile(figure, "p90", |stats| stats.p90));
const P99: Quantity = sometimes("#p99", |figure| percentile(figure, "p99", |stats| stats.p99));
const MAX: Quantity = sometimes("#max", |figure| percentile(figure, "max", |stats| stats.max));

const fn always(heading: &'static str, cell: fn(&Figure) -> Cell) -> Quantity {
    Quantity { heading, cell, is_optional: false, is_in_summary: false }
}

const fn sometimes(heading: &'static str, cell: fn(&Figure) -> Cell) -> Quantity {
    Quantity { is_optional: true, ..always(heading, cell) }
}

/// Those of the columns that some figure has, or that no table is without.
pub fn shown(all: &[Quantity], figures: &[&Figure]) -> Vec<Quantity> {
    let is_shown = |one: &&Quantity| {
        let has = |figure: &&Figure| (one.cell)(figure) != Cell::absent();
        !one.is_optional || figures.iter().any(has)
    };
    all.iter().filter(is_shown).copied().collect()
}

/// The columns' heads.
pub fn heads(shown: &[Quantity]) -> Vec<Column> {
    let head = |one: &Quantity| {
        let column = Column::list(&[one.heading]).remove(0);
        Column { is_in_summary: one.is_in_summary, ..column }
    };
    shown.iter().map(head).collect()
}

fn predicted(figure: &Figure) -> Cell {
    match (figure.shown_prediction(), &figure.metric) {
        (Some(_), Some(_)) => match values::predicted(figure) {
            Some(range) => Cell::plain(range),
            None => Cell::toned(UNPREDICTED, Tone::Muted),
        },
        _ => Cell::absent(),
    }
}

/// One of the texts that stand with a figure of a published report.
fn printed(figure: &Figure, name: &str) -> Cell {
    Cell::of(figure.at.get(name).and_then(Value::text).map(str::to_owned))
}

/// One of the two shares of what was predicted.
fn share(figure: &Figure, of: fn(&Shares) -> Range) -> Cell {
    let shares = figure.shown_prediction().and_then(|judged| judged.prediction.shares);
    let range = shares.as_ref().map(of);
    Cell::of(range.map(|range| match range.high == 0.0 {
        true => "0".to_owned(),
        false => values::range(&range, figure.unit()),
    }))
}

/// A percentile of single events, marked where events that never ended are among it.
fn percentile(figure: &Figure, name: &str, of: fn(&Stats) -> f64) -> Cell {
    let stats = figure.stats.as_ref().filter(|stats| stats.is_of_events());
    Cell::of(stats.map(|stats| {
        let value = values::plain(of(stats), figure.unit());
        match stats.at_least.contains(&name) {
            true => format!("≥ {value}"),
            false => value,
        }
    }))
}

/// The verdict, else the outcome.
pub fn verdict(figure: &Figure) -> Cell {
    let shown = figure.shown_prediction();
    let told = shown.and_then(|judged| judged.shown_verdict(figure.value)).unwrap_or_default();
    let judged = shown.and_then(|judged| judged.verdict);
    let disturbed = figure.stats.as_ref().is_some_and(|stats| stats.used_disturbed);
    let (text, tone) = match (figure.outcome, judged) {
        (_, Some(Verdict::Impossible)) => (Verdict::Impossible.text(), Tone::Bad),
        (Ending::Failed, _) => ("failed", Tone::Bad),
        (Ending::Skipped, _) => ("skipped", Tone::Muted),
        (Ending::Measured, Some(Verdict::Within)) => (told, Tone::Good),
        (Ending::Measured, Some(Verdict::Unpredicted)) => (UNPREDICTED, Tone::Muted),
        (Ending::Measured, Some(_)) => (told, Tone::Warn),
        (Ending::Measured, None) if figure.shown_range().is_some() => ("no interval", Tone::Muted),
        (Ending::Measured, None) => ("unpredicted", Tone::Muted),
    };
    match disturbed {
        true => Cell::toned(format!("{text} (disturbed)"), tone),
        false => Cell::toned(text, tone),
    }
}

#[cfg(test)]
mod tests {
    use super::{SHORT, SUMMARY, WHOLE, heads, percentile, share, shown};
    use crate::document::Cell;
    use analysis::figure::Figure;
    use analysis::{figures, sample};
    use record::event::{Range, Shares};

    #[test]
    fn a_column_that_no_figure_has_is_left_out() {
        let all = figures(&sample::run());
        let has = |figures: &[&Figure], heading: &str| {
            heads(&shown(WHOLE, figures)).iter().any(|column| column.heading == heading)
        };
        let everything: Vec<&Figure> = all.iter().collect();
        assert!(has(&everything, "mean ± sd") && has(&everything, "trials"));
        let batches: Vec<&Figure> = all
            .iter()
            .filter(|figure| figure.stats.as_ref().is_some_and(|stats| stats.of != "event"))
            .collect();
        assert!(!batches.is_empty() && !has(&batches, "p99"));
        assert!(!has(&[], "mean ± sd") && has(&[], "verdict"));
        for columns in [SHORT, SUMMARY, WHOLE] {
            assert!(columns.iter().any(|one| one.heading == "verdict"));
        }
    }

    #[test]
    fn shares_are_ranges_and_percentiles_are_of_events_alone() {
        let mut all = figures(&sample::run());
        let figure = all.iter_mut().find(|one| one.prior.is_some() && one.stats.is_some());
        let figure = figure.expect("something was predicted");
        assert_eq!(share(figure, |of| of.hardware), Cell::absent());
        let range = |low: f64, high: f64| Range { low, likely: (low + high) / 2.0, high };
        let shares = Shares { hardware: range(1.0, 3.0), software: range(0.0, 0.0) };
        let judged = figure.prior.as_mut().expect("was predicted");
        judged.prediction.shares = Some(shares);
        assert!(share(figure, |of| of.hardware).text.contains('3'));
        assert_eq!(share(figure, |of| of.software).text, "0");
        let stats = figure.stats.as_mut().expect("was measured");
        (stats.of, stats.samples, stats.p99) = ("event".to_owned(), 100, 5.0);
        stats.at_least = vec!["max"];
        assert!(!percentile(figure, "p99", |of| of.p99).text.starts_with('≥'));
        assert!(percentile(figure, "max", |of| of.max).text.starts_with('≥'));
        figure.stats.as_mut().expect("was measured").of = "batch(4)".to_owned();
        assert_eq!(percentile(figure, "p99", |of| of.p99), Cell::absent());
    }
}

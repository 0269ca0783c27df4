//! What tables say of a figure, a column each.

use crate::document::{Cell, Column, Tone};
use crate::values;
use analysis::figure::{Figure, Stats};
use analysis::misses::{self, Miss};
use analysis::verdict::Verdict;
use record::event::{Ending, PredictionKind, Range, Shares};
use record::key::Value;
use record::quantity::{digits, render};

/// The verdict where a range says nothing.
const UNPREDICTED: &str = "not predictable";

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
    /// See [`Column::hidden_from`].
    hidden_from: u8,
}

/// In an experiment's table: the lab report's columns, and the percentiles of events.
pub const WHOLE: &[Quantity] = &[
    ESTIMATE,
    PREDICTED,
    Quantity { is_in_summary: true, ..HARDWARE },
    Quantity { is_in_summary: true, ..SOFTWARE },
    MEASURED,
    INTERVAL,
    RATIO,
    Quantity { is_in_summary: true, ..MEAN },
    Quantity { is_in_summary: true, ..TRIALS },
    Quantity { is_in_summary: true, ..BASIS },
    P50,
    P90,
    P99,
    MAX,
    CYCLES,
    VERDICT,
    sometimes(9, "#as found", |figure| Cell::optional(values::as_found(figure))),
    sometimes(9, "#shared", |figure| Cell::optional(values::shared(figure))),
];

/// In the summary of all figures, which a page searches and sorts: the lab report's columns, an
/// estimate with its range in one, and verdicts that are one of a few.
pub const SUMMARY: &[Quantity] = &[
    HARDWARE,
    SOFTWARE,
    always("#estimate", |figure| match figure.shown_range() {
        Some(range) => {
            let likely = render(range.likely, figure.unit());
            Cell::plain(format!("{likely} ({})", predicted(figure).text))
        }
        None => predicted(figure),
    }),
    MEASURED,
    INTERVAL,
    RATIO,
    MEAN,
    TRIALS,
    BASIS,
    CYCLES,
    always("verdict", |figure| with_rounds(figure, judged_in_a_word(figure))),
];

/// What a report prints, in its own units, beside the value in ours.
pub const PRINTED: &[Quantity] = &[
    sometimes(0, "table", |figure| printed(figure, "source")),
    sometimes(0, "#printed", |figure| printed(figure, "printed")),
    sometimes(2, "#also printed", |figure| printed(figure, "printed_also")),
    sometimes(1, "#deviation", |figure| printed(figure, "deviation_printed")),
    sometimes(1, "#trials", |figure| Cell::optional(figure.at.get("n").map(Value::to_string))),
    sometimes(0, "#estimate", |figure| printed(figure, "estimate_printed")),
    Quantity { heading: "#value", ..MEASURED },
];

const ESTIMATE: Quantity = sometimes(4, "#estimate", |figure| {
    Cell::optional(figure.shown_range().map(|range| render(range.likely, figure.unit())))
});
const RATIO: Quantity = sometimes(3, "#ratio", |figure| Cell::optional(figure.ratio().map(digits)));
const PREDICTED: Quantity = always("#predicted", predicted);
const MEASURED: Quantity = always("#measured", |figure| Cell::optional(values::value(figure)));
const INTERVAL: Quantity = Quantity {
    hidden_from: 1,
    ..always("#interval", |figure| Cell::optional(values::interval(figure)))
};
const VERDICT: Quantity = always("verdict", |figure| with_rounds(figure, judged(figure)));
const HARDWARE: Quantity = sometimes(6, "#base hardware", |figure| share(figure, |of| of.hardware));
const SOFTWARE: Quantity =
    sometimes(6, "#software overhead", |figure| share(figure, |of| of.software));
const CYCLES: Quantity =
    sometimes(2, "#cycles", |figure| Cell::optional(values::of_cycles(figure)));
const MEAN: Quantity = sometimes(4, "#mean ± sd", |figure| Cell::optional(values::mean(figure)));
const TRIALS: Quantity = sometimes(5, "#trials", |figure| Cell::optional(values::trials(figure)));
const BASIS: Quantity = sometimes(8, "#core alone", |figure| Cell::optional(values::basis(figure)));
const P50: Quantity = sometimes(7, "#p50", |figure| percentile(figure, "p50", |stats| stats.p50));
const P90: Quantity = sometimes(7, "#p90", |figure| percentile(figure, "p90", |stats| stats.p90));
const P99: Quantity = sometimes(3, "#p99", |figure| percentile(figure, "p99", |stats| stats.p99));
const MAX: Quantity = sometimes(6, "#max", |figure| percentile(figure, "max", |stats| stats.max));

const fn always(heading: &'static str, cell: fn(&Figure) -> Cell) -> Quantity {
    Quantity { heading, cell, is_optional: false, is_in_summary: false, hidden_from: 0 }
}

const fn sometimes(hidden_from: u8, heading: &'static str, cell: fn(&Figure) -> Cell) -> Quantity {
    Quantity { is_optional: true, hidden_from, ..always(heading, cell) }
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
        Column { is_in_summary: one.is_in_summary, hidden_from: one.hidden_from, ..column }
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
    Cell::optional(figure.at.get(name).and_then(Value::text).map(str::to_owned))
}

/// One of the two shares of what was predicted.
fn share(figure: &Figure, of: fn(&Shares) -> Range) -> Cell {
    let shares = figure.shown_prediction().and_then(|judged| judged.prediction.shares);
    let range = shares.as_ref().map(of);
    Cell::optional(range.map(|range| match range.high == 0.0 {
        true => "0".to_owned(),
        false => values::range(&range, figure.unit()),
    }))
}

/// A percentile of single events, marked where events that never ended are among it.
fn percentile(figure: &Figure, name: &str, of: fn(&Stats) -> f64) -> Cell {
    let stats = figure.stats.as_ref().filter(|stats| stats.is_of_events());
    Cell::optional(stats.map(|stats| {
        let value = values::plain(of(stats), figure.unit());
        match stats.at_least.contains(&name) {
            true => format!("≥ {value}"),
            false => value,
        }
    }))
}

/// The cell of a verdict, with how the rounds were where they were disturbed.
fn with_rounds(figure: &Figure, verdict: Cell) -> Cell {
    match figure.stats.as_ref().is_some_and(|stats| stats.used_disturbed) {
        true => Cell::toned(format!("{} (disturbed)", verdict.text), verdict.tone),
        false => verdict,
    }
}

/// The verdict by the shown prediction with the factor of a miss, else the outcome.
pub fn judged(figure: &Figure) -> Cell {
    let kind = match figure.prior {
        Some(_) => PredictionKind::Prior,
        None => PredictionKind::Derived,
    };
    let word = judged_in_a_word(figure);
    let missed = misses::miss(figure, kind).filter(|_| word.tone == Tone::Warn);
    match missed {
        Some(miss) => Cell::toned(by_factor(&miss), Tone::Warn),
        None => word,
    }
}

/// The same without a factor.
fn judged_in_a_word(figure: &Figure) -> Cell {
    let shown = figure.shown_prediction();
    match (figure.outcome, shown.and_then(|judged| judged.verdict)) {
        (_, Some(Verdict::Impossible)) => Cell::toned(word(Verdict::Impossible), Tone::Bad),
        (Ending::Failed, _) => Cell::toned("failed", Tone::Bad),
        (Ending::Skipped, _) => Cell::toned("skipped", Tone::Muted),
        (Ending::Measured, Some(Verdict::Within)) => {
            let told = shown.and_then(|judged| judged.shown_verdict(figure.value));
            Cell::toned(told.unwrap_or_default(), Tone::Good)
        }
        (Ending::Measured, Some(Verdict::Unpredicted)) => Cell::toned(UNPREDICTED, Tone::Muted),
        (Ending::Measured, Some(verdict)) => Cell::toned(word(verdict), Tone::Warn),
        (Ending::Measured, None) if figure.shown_range().is_some() => {
            Cell::toned(without_interval(figure), Tone::Muted)
        }
        (Ending::Measured, None) => Cell::toned("unpredicted", Tone::Muted),
    }
}

/// `1.7× the prediction, 3 rounds, no interval`: a value without an interval has no verdict.
fn without_interval(figure: &Figure) -> String {
    let ratio = figure.ratio().map(|ratio| format!("{} the prediction", times(ratio)));
    let count = figure.rounds.len();
    let rounds = (count > 0).then(|| values::counted(count, "round"));
    let parts = [ratio, rounds, Some("no interval".to_owned())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Within => "within",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Above => "above",
        Verdict::Below => "below",
        Verdict::Impossible => "impossible",
        Verdict::Unpredicted => UNPREDICTED,
    }
}

/// `1.4× slower`: the factor lies between the value and the nearer end of the range.
pub fn by_factor(miss: &Miss) -> String {
    let word = word(miss.verdict);
    match miss.factor.filter(|_| miss.verdict != Verdict::Impossible) {
        None => word.to_owned(),
        Some(factor) => format!("{} {word}", times(factor)),
    }
}

fn times(factor: f64) -> String {
    match factor {
        ..0.995 => format!("{}×", digits(factor)),
        ..1.095 => format!("{factor:.2}×"),
        ..9.95 => format!("{factor:.1}×"),
        _ => format!("{factor:.0}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::{SUMMARY, WHOLE, heads, judged, percentile, share, shown};
    use crate::document::Cell;
    use analysis::figure::Figure;
    use analysis::misses::{is_judged, of_figure};
    use analysis::{figures, sample};
    use record::event::{Range, Shares};

    #[test]
    fn a_value_without_an_interval_has_a_remark_and_enters_no_count() {
        let mut all = figures(&sample::run());
        let is_judged = |figure: &Figure| {
            figure.shown_range().is_some() && is_judged(figure) && figure.rounds.len() > 3
        };
        let figure = all.iter_mut().find(|figure| is_judged(figure)).expect("one is judged");
        (figure.ci, figure.value) = (None, figure.shown_range().map(|range| 1.7 * range.likely));
        figure.rounds.truncate(3);
        for judged in [&mut figure.prior, &mut figure.derived].into_iter().flatten() {
            judged.verdict = None;
        }
        assert_eq!(judged(figure).text, "1.7× the prediction, 3 rounds, no interval");
        assert!(!super::misses::is_judged(figure) && of_figure(figure).is_none());
        figure.rounds.clear();
        assert_eq!(judged(figure).text, "1.7× the prediction, no interval");
    }

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
            .filter(|figure| {
                figure.stats.as_ref().is_some_and(|stats| stats.sample_kind != "event")
            })
            .collect();
        assert!(!batches.is_empty() && !has(&batches, "p99"));
        assert!(!has(&[], "mean ± sd") && has(&[], "verdict"));
        for columns in [SUMMARY, WHOLE] {
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
        (stats.sample_kind, stats.samples, stats.p99) = ("event".to_owned(), 100, 5.0);
        stats.at_least = vec!["max"];
        assert!(!percentile(figure, "p99", |of| of.p99).text.starts_with('≥'));
        assert!(percentile(figure, "max", |of| of.max).text.starts_with('≥'));
        figure.stats.as_mut().expect("was measured").sample_kind = "batch(4)".to_owned();
        assert_eq!(percentile(figure, "p99", |of| of.p99), Cell::absent());
    }
}

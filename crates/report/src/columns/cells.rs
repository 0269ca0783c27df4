//! What a reader sees of a figure in a column.

use crate::document::{Cell, Tone};
use crate::values;
use analysis::figure::{Figure, Stats};
use analysis::misses::{self, Miss};
use analysis::verdict::Verdict;
use record::event::{Ending, Range, Shares};
use record::key::Value;
use record::quantity::{digits, render};

/// The verdict where there is no range, or one that says nothing. [`crate::build`] has the reason
/// below the table.
const UNPREDICTED: &str = "no prediction";
/// In place of the verdict of a value without an interval.
const NO_INTERVAL: &str = "no interval";

pub(super) fn likely(figure: &Figure) -> Option<String> {
    Some(render(figure.shown_range()?.likely, figure.shown_unit()))
}

pub(super) fn predicted(figure: &Figure) -> Cell {
    Cell::optional(values::predicted(figure))
}

pub(super) fn printed(figure: &Figure, name: &str) -> Option<String> {
    figure.at.get(name).and_then(Value::text).map(str::to_owned)
}

/// The best guess of one of the two shares of what was predicted; of a rate, in percent of the time.
pub(super) fn share(figure: &Figure, of: fn(&Shares) -> Range) -> Option<String> {
    let shares = figure.shown_prediction()?.prediction.shares?;
    let (part, unit) = (of(&shares).likely, figure.shown_unit());
    let whole = shares.hardware.likely + shares.software.likely;
    Some(match unit.is_rate() && whole > 0.0 {
        true => values::percent(part / whole),
        false => render(part, unit),
    })
}

/// A percentile of single events, marked where events that never ended are among it.
pub(super) fn percentile(figure: &Figure, name: &str, of: fn(&Stats) -> f64) -> Option<String> {
    let stats = figure.stats.as_ref().filter(|stats| stats.is_of_events())?;
    let least = if stats.at_least.contains(&name) { "≥ " } else { "" };
    Some(format!("{least}{}", values::plain(of(stats), figure.shown_unit())))
}

/// The verdict by the shown prediction with the factor of a miss, else the outcome.
pub fn judged(figure: &Figure) -> Cell {
    let word = judged_in_a_word(figure);
    let missed = misses::miss(figure, figure.shown_kind()).filter(|_| word.tone == Tone::Warn);
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
            Cell::toned(NO_INTERVAL, Tone::Muted)
        }
        (Ending::Measured, None) => Cell::toned(UNPREDICTED, Tone::Muted),
    }
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
    use super::{judged, percentile, predicted, share};
    use analysis::figure::Figure;
    use analysis::misses::{is_judged, of_figure};
    use analysis::verdict::judge;
    use analysis::{figures, sample};
    use record::event::{Range, Shares};
    use record::unit::Unit;

    #[test]
    fn a_value_without_an_interval_has_no_verdict_and_enters_no_count() {
        let mut all = figures(&sample::run());
        let fits = |figure: &Figure| figure.shown_range().is_some() && is_judged(figure);
        let figure = all.iter_mut().find(|figure| fits(figure)).expect("one is judged");
        figure.ci = None;
        for judged in [&mut figure.prior, &mut figure.derived].into_iter().flatten() {
            judged.verdict = None;
        }
        assert_eq!(judged(figure).text, "no interval");
        assert!(!is_judged(figure) && of_figure(figure).is_none());
        assert_ne!(predicted(figure).text, "-", "it keeps its prediction");
    }

    #[test]
    fn shares_are_best_guesses_and_percentiles_are_of_events_alone() {
        let mut all = figures(&sample::run());
        let is_time = |one: &Figure| one.shown_unit().is_time();
        let known = |one: &&mut Figure| one.prior.is_some() && one.stats.is_some() && is_time(one);
        let figure = all.iter_mut().find(known).expect("a time was predicted");
        assert_eq!(share(figure, |of| of.hardware), None);
        let range = |low: f64, high: f64| Range { low, likely: (low + high) / 2.0, high };
        let shares = Shares { hardware: range(1.0, 3.0), software: range(0.0, 0.0) };
        let judged = figure.prior.as_mut().expect("was predicted");
        judged.prediction.shares = Some(shares);
        assert!(share(figure, |of| of.hardware).is_some_and(|text| text.starts_with('2')));
        assert!(share(figure, |of| of.software).is_some_and(|text| text.starts_with('0')));
        let metric = figure.metric.as_mut().expect("has one");
        let time = std::mem::replace(&mut metric.unit, Unit::BPerS);
        assert_eq!(share(figure, |of| of.hardware).as_deref(), Some("100 %"));
        figure.metric.as_mut().expect("has one").unit = time;
        let stats = figure.stats.as_mut().expect("was measured");
        (stats.sample_kind, stats.samples, stats.p99) = ("event".to_owned(), 100, 5.0);
        stats.at_least = vec!["max"];
        let is_bound = |text: Option<String>| text.is_some_and(|text| text.starts_with('≥'));
        assert!(!is_bound(percentile(figure, "p99", |of| of.p99)));
        assert!(is_bound(percentile(figure, "max", |of| of.max)));
        figure.stats.as_mut().expect("was measured").sample_kind = "batch(4)".to_owned();
        assert_eq!(percentile(figure, "p99", |of| of.p99), None);
    }

    #[test]
    fn a_value_outside_its_range_is_never_within() {
        let mut all = figures(&sample::run()).into_iter();
        let figure = all.find(|one| one.experiment == "memory.latency" && one.value.is_some());
        let mut figure = figure.expect("was measured");
        let metric = figure.metric.clone().expect("measured");
        let range = figure.shown_range().expect("a range");
        for (times, expected) in [(0.999, "within"), (1.0, "within"), (1.001, "overlaps")] {
            let value = range.high * times;
            let ci = (value * 0.99, value * 1.01);
            (figure.value, figure.ci) = (Some(value), Some(ci));
            let prior = figure.prior.as_mut().expect("predicted");
            prior.verdict = Some(judge(ci, &range, metric.unit, metric.better));
            assert_eq!(judged(&figure).text, expected, "{times}");
        }
    }
}

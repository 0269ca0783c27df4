//! What was predicted and found of the experiment's first metric.

use super::{bracketed, finished, listed};
use crate::figure::Figure;
use crate::gather::gathered;
use crate::misses::is_estimate;
use crate::names::{Names, around, words};
use crate::verdict::Verdict;
use record::event::{PlannedExperiment, Prediction, Range, Shares};
use record::key::CaseId;
use record::order::InOrder;
use record::quantity::digits;
use record::shown::{range, shown};
use record::view::View;

/// From this length on, a case is named by its difference from the other one.
const LONG_NAME: usize = 45;

/// Values closer than this factor are reported as about the same.
const ALIKE: f64 = 1.02;

/// One case: what was predicted, and measured. Several: the two ends of a line, or the least and
/// the greatest with the one furthest from its likely value.
pub(super) fn sentence(
    planned: &PlannedExperiment,
    names: &Names,
    measured: &[&Figure],
) -> Option<String> {
    let metric = metric(planned, measured)?;
    let of_metric: Vec<&Figure> =
        measured.iter().filter(|figure| figure.metric_name() == metric).copied().collect();
    let text = match of_metric.as_slice() {
        [] => return None,
        [only] => one(metric, names, only),
        several => match long_line(planned, several) {
            Some((line_of, along)) => {
                let ends = (*line_of.first()?, *line_of.last()?);
                line(metric, names, ends, along)
            }
            None => extremes(metric, names, several)?,
        },
    };
    Some(finished(&text))
}

/// The metric that the view shows, else the first that was measured.
pub(super) fn metric<'run>(
    planned: &'run PlannedExperiment,
    measured: &[&Figure],
) -> Option<&'run str> {
    let of_view = match &planned.view {
        View::Line { metric, .. } | View::Matrix { metric, .. } | View::Bars { metric, .. } => {
            Some(metric.as_str())
        }
        View::Curve { y, .. } => Some(y.as_str()),
        View::Table | View::Timeline { .. } | View::Spans { .. } => None,
    };
    let has_figures = |metric: &&str| measured.iter().any(|one| one.metric_name() == *metric);
    let metrics = planned.metrics.iter().map(|metric| metric.name.as_ref());
    of_view.filter(has_figures).or_else(|| {
        let mut metrics = metrics.filter(has_figures);
        metrics.next()
    })
}

/// The longest line of a view that has lines, and the parameter along it.
fn long_line<'run, 'figures>(
    planned: &'run PlannedExperiment,
    figures: &[&'figures Figure],
) -> Option<(Vec<&'figures Figure>, &'run str)> {
    let over = match &planned.view {
        View::Line { over, .. } => over,
        View::Curve { along, .. } => along,
        _ => return None,
    };
    Some((longest_line(figures, over)?, over))
}

/// The figures that differ only in one number, in its order: the longest such line of at least
/// three, the first of equals.
fn longest_line<'figures>(
    figures: &[&'figures Figure],
    over: &str,
) -> Option<Vec<&'figures Figure>> {
    let placed = figures.iter().filter_map(|figure| {
        let at = figure.case.int(over)?;
        let rest = figure.case.0.iter().filter(|(name, _)| name != over);
        Some((CaseId(rest.cloned().collect()), (at, *figure)))
    });
    let lines = gathered(placed).into_iter().map(|(_, line)| line);
    // Of several that are the longest, the first.
    let mut line = lines.rev().max_by_key(Vec::len).filter(|line| line.len() > 2)?;
    line.order_by_key(|(at, _)| *at);
    Some(line.into_iter().map(|(_, figure)| figure).collect())
}

/// `predicted 2.55 to 2.65 GHz (base hardware alone); measured 2.600 GHz [2.600, 2.600], within`.
fn one(metric: &str, names: &Names, figure: &Figure) -> String {
    let place = bracketed(&names.case(figure));
    let words = words(metric);
    let found = found(figure);
    let Some(predicted) = predicted(figure) else {
        return match why_not(&[figure]) {
            Some(why) => format!("{words}{place}: {why}; measured {found}"),
            None => format!("no prediction for {words}{place}; measured {found}"),
        };
    };
    let shares = shares(figure).map_or_else(String::new, |shares| bracketed(&shares));
    let verdict = figure.shown_prediction().and_then(|judged| judged.shown_verdict(figure.value));
    let verdict = verdict.filter(|_| !is_estimate(figure));
    let verdict = verdict.map_or_else(String::new, |verdict| format!(", {verdict}"));
    let factor = over_likely(figure).map_or_else(String::new, |factor| {
        format!(", {} times the {}", times(factor), likely_of(figure))
    });
    format!("{words}{place}: predicted {predicted}{shares}; measured {found}{verdict}{factor}")
}

/// Both ends of a line: `latency (random): predicted 1.0 to 2.0 ns at 4 KiB and 60 to 210 ns at
/// 256 MiB; measured 1.39 ns [1.38, 1.40] and 120 ns [119, 122], 86 times as much`.
fn line(metric: &str, names: &Names, (first, last): (&Figure, &Figure), along: &str) -> String {
    let place = |figure: &Figure| {
        let value = figure.case.get(along);
        value.map_or_else(String::new, |value| names.value(along, value))
    };
    let predicted = both([first, last].map(|figure| (predicted(figure), place(figure))), "at");
    let factor = match first.value.zip(last.value) {
        Some((a, b)) if a > 0.0 && b > 0.0 && is_alike(a, b) => ", about the same".to_owned(),
        Some((a, b)) if a > 0.0 && b > a => format!(", {} times as much", times(b / a)),
        Some((a, b)) if a > 0.0 && b > 0.0 => format!(", less by a factor of {}", times(a / b)),
        _ => String::new(),
    };
    format!(
        "{}{}: {predicted}; measured {} and {}{factor}",
        words(metric),
        bracketed(&names.case_without(first, along)),
        found(first),
        found(last)
    )
}

/// The least and the most of all cases. Cases with the same prediction are alike, and a factor
/// between them means something; of others, the one furthest from its likely value is reported.
fn extremes(metric: &str, names: &Names, figures: &[&Figure]) -> Option<String> {
    let (least, most) = least_and_most(figures)?;
    let (words, count) = (words(metric), figures.len());
    let is_one = value(least) == value(most);
    let measured = match is_one {
        true => format!("measured {} in all {count} cases", found(least)),
        false => {
            let [a, b] = places(names, least, most).map(|place| bracketed(&place));
            format!("measured {}{a} to {}{b}", found(least), found(most))
        }
    };
    let ranges: Vec<Option<String>> = figures.iter().map(|figure| predicted(figure)).collect();
    let first = ranges.first()?;
    if ranges.iter().any(|range| range != first) {
        let cases = if is_one { String::new() } else { format!(" of {count} cases") };
        return Some(format!("{words}{cases}: {measured}{}", furthest(names, figures)));
    }
    let Some(range) = first else {
        return Some(match why_not(figures) {
            Some(why) => format!("{words} ({count} cases): {why}; {measured}"),
            None => format!("no prediction for {words} ({count} cases); {measured}"),
        });
    };
    let factor = match value(least) > 0.0 && !is_one {
        true if is_alike(value(least), value(most)) => ", about the same".to_owned(),
        true => format!(", a factor of {} apart", times(value(most) / value(least))),
        false => String::new(),
    };
    let all = if count == 2 { "both".to_owned() } else { format!("all {count}") };
    Some(format!("{words}: predicted {range} for {all} cases; {measured}{factor}"))
}

/// The figures of the least and of the greatest value, of several the first.
pub(super) fn least_and_most<'a>(figures: &[&'a Figure]) -> Option<(&'a Figure, &'a Figure)> {
    let least = figures.iter().min_by(|a, b| value(a).total_cmp(&value(b)))?;
    let most = figures.iter().rev().max_by(|a, b| value(a).total_cmp(&value(b)))?;
    Some((least, most))
}

pub(super) fn value(figure: &Figure) -> f64 {
    figure.value.unwrap_or(f64::NAN)
}

/// `; furthest from its likely value is sched_yield: predicted …, measured …, 1.17 times the likely
/// value`, and for how many nothing was predicted.
fn furthest(names: &Names, figures: &[&Figure]) -> String {
    let distance = |figure: &Figure| over_likely(figure).map(|ratio| ratio.ln().abs());
    let furthest = figures
        .iter()
        .filter_map(|figure| Some((distance(figure)?, figure)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .and_then(|(_, figure)| Some((figure, predicted(figure)?, over_likely(figure)?)));
    let furthest = furthest.map(|(figure, range, ratio)| {
        let likely = likely_of(figure);
        let case = names.case(figure);
        let case = if case.is_empty() { "the plain case" } else { &case };
        format!(
            "furthest from its {likely} is {case}: predicted {range}, measured {}, {} times the {likely}",
            found(figure),
            times(ratio)
        )
    });
    let lacking = figures.iter().filter(|figure| predicted(figure).is_none()).count();
    let lacking = (lacking > 0).then(|| match why_not(figures) {
        Some(why) => format!("{lacking} of them: {why}"),
        None => format!("no prediction for {lacking} of them"),
    });
    let parts: Vec<String> = furthest.into_iter().chain(lacking).collect();
    around("; ", &parts.join("; "), "")
}

/// What two cases are called; of long names only what differs between the two.
fn places(names: &Names, a: &Figure, b: &Figure) -> [String; 2] {
    let whole = [names.case(a), names.case(b)];
    let beside = [names.case_beside(a, b), names.case_beside(b, a)];
    let is_long = whole.iter().any(|name| name.chars().count() > LONG_NAME);
    match is_long && beside.iter().all(|name| !name.is_empty()) {
        true => beside,
        false => whole,
    }
}

fn is_alike(a: f64, b: f64) -> bool {
    a.max(b) < a.min(b) * ALIKE
}

/// A factor, to hundredths where it is small.
pub(super) fn times(factor: f64) -> String {
    match (0.01..10.0).contains(&factor) {
        true => format!("{factor:.2}"),
        false => digits(factor),
    }
}

/// `predicted A at X and B at Y`; the places are also given if one has no prediction.
fn both([first, last]: [(Option<String>, String); 2], at: &str) -> String {
    if first.0.is_none() && last.0.is_none() {
        let places: Vec<String> = [first.1, last.1]
            .into_iter()
            .filter(|place| !place.is_empty())
            .map(|place| format!("{at} {place}"))
            .collect();
        return format!("nothing was predicted{}", around(" ", &listed(&places), ""));
    }
    let part = |(range, place): &(Option<String>, String)| {
        let range = range.clone().unwrap_or_else(|| "nothing".to_owned());
        format!("{range}{}", around(&format!(" {at} "), place, ""))
    };
    format!("predicted {} and {}", part(&first), part(&last))
}

/// `91 ns [90, 92]`.
pub(super) fn found(figure: &Figure) -> String {
    let Some(value) = figure.value else {
        return "nothing".to_owned();
    };
    let shown = shown(value, figure.ci, figure.unit());
    format!("{}{}", shown.value, around(" ", &shown.interval, ""))
}

/// `60 to 120 ns`.
pub(super) fn predicted(figure: &Figure) -> Option<String> {
    let range = figure.shown_range()?;
    Some(predicted_by(figure, &range))
}

/// Why the first figure without a prediction has none: `not predictable from here, because: …`.
pub(super) fn why_not(figures: &[&Figure]) -> Option<String> {
    let mut lacking = figures.iter().filter(|figure| figure.shown_range().is_none());
    let prediction = lacking.find_map(|figure| Some(&figure.shown_prediction()?.prediction));
    let why = prediction.map(Prediction::why_not).filter(|why| !why.is_empty())?;
    Some(format!("{}, because: {why}", Verdict::Unpredicted.text()))
}

/// The same of one of the figure's predictions.
pub(super) fn predicted_by(figure: &Figure, of: &Range) -> String {
    range(of, figure.unit()).replace(" – ", " to ")
}

/// What the middle of a prediction is called.
fn likely_of(figure: &Figure) -> &'static str {
    match is_estimate(figure) {
        true => "estimate",
        false => "likely value",
    }
}

/// The value over the likely one.
pub(super) fn over_likely(figure: &Figure) -> Option<f64> {
    let likely = figure.shown_range()?.likely;
    let value = figure.value?;
    (value > 0.0 && likely > 0.0).then(|| value / likely)
}

/// The shares of a prediction: `base hardware 13 to 26 ns, software 40 to 91 ns`.
fn shares(figure: &Figure) -> Option<String> {
    let Shares { hardware, software } = figure.shown_prediction()?.prediction.shares?;
    let part = |name: &str, share: &Range| format!("{name} {}", predicted_by(figure, share));
    Some(match (hardware.likely > 0.0, software.likely > 0.0) {
        (true, true) => listed(&[part("base hardware", &hardware), part("software", &software)]),
        (true, false) => "base hardware alone".to_owned(),
        (false, true) => "software alone".to_owned(),
        (false, false) => return None,
    })
}

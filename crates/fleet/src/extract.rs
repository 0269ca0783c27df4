//! From the record of a run to the figures that a node's file keeps: few enough for some 20 kB.

use crate::file::{Absent, Figure};
use analysis::figure::Figure as Analysed;
use analysis::gather::gathered;
use record::event::Ending;
use record::metric::{Better, Kind, Metric};
use record::order::InOrder;
use record::run::Run;
use stats::quantile::median;
use std::iter;

/// Most figures of a node by itself, of one window of a pair, and most rounds of a figure.
const ALONE_MAX: usize = 48;
const PAIR_MAX: usize = 6;
const ROUNDS_MAX: usize = 12;
/// Digits of a number: its steps are far below what can be measured.
const DIGITS: usize = 6;

/// The figures of a node by itself that can be better or worse: those of the summary and then those of
/// hardware, or else all.
pub fn alone(run: &Run) -> Vec<Figure> {
    or_all(run, ALONE_MAX, |metric| metric.kind == Kind::Hardware)
}

/// The figures of several passes: of each the median, with the values of the passes as its rounds.
pub fn merged(mut passes: Vec<Vec<Figure>>) -> Vec<Figure> {
    let mut first = passes.remove(0);
    for figure in first.iter_mut().filter(|_| !passes.is_empty()) {
        let key = figure.key();
        let others = passes.iter().flatten().filter(|other| other.key() == key);
        let values: Vec<f64> =
            iter::once(figure.value).chain(others.map(|one| one.value)).collect();
        figure.value = median(&values).unwrap_or(figure.value);
        (figure.ci, figure.rounds) = (None, values);
    }
    first
}

/// The figures of a pair, measured by its near end: those of the summary, or else all.
pub fn pair(run: &Run) -> Vec<Figure> {
    or_all(run, PAIR_MAX, |_| false)
}

fn or_all(run: &Run, most: usize, is_kept: impl Fn(&Metric) -> bool) -> Vec<Figure> {
    let kept = figures(run, most, is_kept);
    if kept.is_empty() { figures(run, most, |_| true) } else { kept }
}

fn figures(run: &Run, most: usize, is_kept: impl Fn(&Metric) -> bool) -> Vec<Figure> {
    let figures = analysis::figures(run);
    let kept = figures.iter().filter_map(|figure| {
        let metric = figure.metric.as_ref()?;
        let is_key = is_key(run, figure, metric);
        if metric.better == Better::None || !(is_key || is_kept(metric)) {
            return None;
        }
        Some((is_key, kept(figure, metric)?))
    });
    let mut kept: Vec<(bool, Figure)> = kept.collect();
    kept.order_by_key(|(is_key, _)| !is_key);
    kept.into_iter().take(most).map(|(_, figure)| figure).collect()
}

fn kept(figure: &Analysed, metric: &Metric) -> Option<Figure> {
    let value = figure.value.filter(|value| value.is_finite() && *value > 0.0);
    let value = value.filter(|_| figure.outcome == Ending::Measured)?;
    let key = figure.key()?;
    let pair = |(low, high): (f64, f64)| (rounded(low), rounded(high));
    Some(Figure {
        experiment: key.experiment,
        case: key.case,
        metric: key.metric,
        unit: metric.unit,
        better: metric.better,
        kind: metric.kind,
        value: rounded(value),
        ci: figure.ci.map(pair),
        rounds: rounds(figure),
        predicted: figure.shown_range().map(|range| pair((range.low, range.high))),
    })
}

/// Values of the undisturbed rounds, or of all where fewer than two are.
fn rounds(figure: &Analysed) -> Vec<f64> {
    let values = |with_disturbed: bool| -> Vec<f64> {
        let rounds = figure.rounds.iter().filter(|round| with_disturbed || !round.disturbed);
        rounds.map(|round| rounded(round.value)).filter(|value| *value > 0.0).collect()
    };
    let quiet = values(false);
    let mut values = if quiet.len() > 1 { quiet } else { values(true) };
    values.truncate(ROUNDS_MAX);
    values
}

/// A number with few digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Experiments without any figure, and why.
pub fn absent(run: &Run) -> Vec<Absent> {
    let figures = analysis::figures(run);
    let has_value = |all: &Vec<&Analysed>| all.iter().any(|figure| figure.value.is_some());
    let absent = |(experiment, all): (String, Vec<&Analysed>)| {
        let why = all[0].reason.clone().unwrap_or_else(|| "it was not measured".to_owned());
        Absent { experiment: Some(experiment), why, ..Absent::default() }
    };
    let by_experiment = gathered(figures.iter().map(|figure| (figure.experiment.clone(), figure)));
    by_experiment.into_iter().filter(|(_, all)| !has_value(all)).map(absent).collect()
}

fn is_key(run: &Run, figure: &Analysed, metric: &Metric) -> bool {
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let keys = planned.filter(|one| one.id == figure.experiment).flat_map(|one| &one.keys);
    keys.into_iter().any(|key| key.metric == metric.name && key.is_of(&figure.case))
}

#[cfg(test)]
mod tests {
    use super::{ALONE_MAX, ROUNDS_MAX, absent, alone, merged, pair, rounded};
    use record::metric::{Better, Kind};

    #[test]
    fn figures_with_a_direction_are_kept_with_their_rounds() {
        let run = analysis::sample::run();
        let figures = alone(&run);
        assert!(!figures.is_empty() && figures.len() <= ALONE_MAX);
        assert!(figures.iter().all(|figure| figure.better != Better::None && figure.value > 0.0));
        assert!(figures.iter().any(|figure| figure.kind == Kind::Hardware));
        assert!(figures.iter().any(|figure| (2..=ROUNDS_MAX).contains(&figure.rounds.len())));
        assert!(!pair(&run).is_empty());
        assert!(absent(&run).iter().all(|one| one.experiment.is_some() && !one.why.is_empty()));
        let pass = |factor: f64| {
            let mut figures = alone(&run);
            figures.iter_mut().for_each(|figure| figure.value *= factor);
            figures
        };
        let all = merged(vec![pass(1.0), pass(4.0), pass(2.0)]);
        assert!(all.iter().zip(&figures).all(|(all, one)| all.value == 2.0 * one.value));
        assert!(all.iter().all(|figure| figure.rounds.len() == 3 && figure.ci.is_none()));
        assert_eq!(merged(vec![pass(1.0)]), figures);
        assert_eq!([rounded(1.234_567_89e9), rounded(0.25)], [1.234_57e9, 0.25]);
    }
}

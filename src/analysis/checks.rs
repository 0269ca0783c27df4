//! Self-disproving checks over finished figures (METHOD §6): what cannot be true of any machine.

use super::figure::Figure;
use record::event::Ending;
use record::key::{CaseId, Value};
use record::quantity::render;
use std::collections::BTreeMap;

/// A metric that must not fall along a parameter.
struct Ladder {
    experiment: &'static str,
    metric: &'static str,
    /// Parameter values that select the cases.
    only: &'static [(&'static str, &'static str)],
    /// The integer parameter along which it must not fall.
    along: &'static str,
    /// Why.
    why: &'static str,
}

/// Ladders that must not fall.
const LADDERS: &[Ladder] = &[Ladder {
    experiment: "memory.latency",
    metric: "latency",
    only: &[("pattern", "random")],
    along: "footprint",
    why: "a random walk over more memory cannot be faster",
}];

/// What a ladder may fall beyond both half widths, as a ratio.
const FALL: f64 = 0.03;

/// Texts of failed checks, each with the experiment that it is about.
pub(crate) fn failed(figures: &[Figure]) -> Vec<(String, String)> {
    LADDERS
        .iter()
        .flat_map(|ladder| falls(ladder, figures))
        .collect()
}

/// The rungs of each ladder: cases that differ only in the parameter, ascending.
fn falls(ladder: &Ladder, figures: &[Figure]) -> Vec<(String, String)> {
    let mut rails: BTreeMap<String, Vec<(u64, &Figure)>> = BTreeMap::new();
    for figure in figures.iter().filter(|figure| is_rung(ladder, figure)) {
        if let Some(at) = figure.case.int(ladder.along) {
            rails
                .entry(rest(&figure.case, ladder.along))
                .or_default()
                .push((at, figure));
        }
    }
    let mut texts = Vec::new();
    for (rest, mut rungs) in rails {
        rungs.sort_by_key(|(at, _)| *at);
        for pair in rungs.windows(2) {
            if let [(from, low), (to, high)] = pair
                && let Some(fall) = fall(low, high)
            {
                texts.push((
                    ladder.experiment.to_owned(),
                    format!(
                        "the ladder ({rest}) falls by {:.1} % from {}={from} to {to} ({} to {}), \
                         more than both half widths and 3 %: {}",
                        fall * 100.0,
                        ladder.along,
                        rendered(low),
                        rendered(high),
                        ladder.why
                    ),
                ));
            }
        }
    }
    texts
}

fn is_rung(ladder: &Ladder, figure: &Figure) -> bool {
    figure.experiment == ladder.experiment
        && figure.outcome == Ending::Measured
        && figure
            .metric
            .as_ref()
            .is_some_and(|metric| metric.name == ladder.metric)
        && ladder
            .only
            .iter()
            .all(|(name, value)| figure.case.get(name) == Some(&Value::from(*value)))
}

/// The case without one parameter.
fn rest(case: &CaseId, without: &str) -> String {
    let rest = case.0.iter().filter(|(name, _)| name != without);
    CaseId(rest.cloned().collect()).to_string()
}

/// The relative fall from one rung to the next, if it is more than noise explains.
fn fall(low: &Figure, high: &Figure) -> Option<f64> {
    let (before, after) = (low.value?, high.value?);
    let slack = low.half_width().unwrap_or(0.0) + high.half_width().unwrap_or(0.0);
    (before - after > slack + FALL * before).then(|| (before - after) / before)
}

fn rendered(figure: &Figure) -> String {
    match (&figure.metric, figure.value) {
        (Some(metric), Some(value)) => render(value, metric.unit),
        _ => "-".to_owned(),
    }
}

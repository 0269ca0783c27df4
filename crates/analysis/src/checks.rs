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

/// Fails the figures that a check disproves, with the reason. Rounds are not repeated for it: a
/// fall shows only once the estimates of two cases are there.
pub fn apply(figures: &mut [Figure]) {
    let disproved: Vec<(usize, String)> =
        LADDERS.iter().flat_map(|ladder| falls(ladder, figures)).collect();
    for (at, reason) in disproved {
        figures[at].outcome = Ending::Failed;
        figures[at].reason = Some(reason);
    }
}

/// The rungs that lie too far below the highest one before them, by index; a ladder is the cases
/// that differ only in the parameter, ascending.
fn falls(ladder: &Ladder, figures: &[Figure]) -> Vec<(usize, String)> {
    let mut rails: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, figure) in figures.iter().enumerate() {
        if let Some(along) = figure.case.int(ladder.along).filter(|_| is_rung(ladder, figure)) {
            rails.entry(rest(&figure.case, ladder.along)).or_default().push((along, at));
        }
    }
    let mut found = Vec::new();
    for rungs in rails.values_mut() {
        rungs.sort_unstable();
        let mut highest: Option<usize> = None;
        for (_, at) in rungs {
            let rung = &figures[*at];
            if let Some(before) = highest.map(|highest| &figures[highest])
                && let Some(fall) = fall(before, rung)
            {
                let text = format!(
                    "it is {:.1} % below {}={} ({} after {}), more than both half widths and 3 %: \
                     {}",
                    fall * 100.0,
                    ladder.along,
                    before.case.int(ladder.along).unwrap_or(0),
                    rendered(rung),
                    rendered(before),
                    ladder.why
                );
                found.push((*at, text));
            }
            if highest.is_none_or(|highest| figures[highest].value < rung.value) {
                highest = Some(*at);
            }
        }
    }
    found
}

fn is_rung(ladder: &Ladder, figure: &Figure) -> bool {
    figure.experiment == ladder.experiment
        && figure.outcome == Ending::Measured
        && figure.metric_name() == ladder.metric
        && ladder
            .only
            .iter()
            .all(|(name, value)| figure.case.get(name) == Some(&Value::from(*value)))
}

fn rest(case: &CaseId, without: &str) -> String {
    let rest = case.0.iter().filter(|(name, _)| name != without);
    CaseId(rest.cloned().collect()).to_string()
}

/// The relative fall from one rung to a later one, if it is more than noise explains; nothing where
/// either has no interval, because then the noise is unknown.
fn fall(low: &Figure, high: &Figure) -> Option<f64> {
    let (before, after) = (low.value?, high.value?);
    let slack = low.half_width()? + high.half_width()?;
    (before - after > slack + FALL * before).then(|| (before - after) / before)
}

fn rendered(figure: &Figure) -> String {
    match (&figure.metric, figure.value) {
        (Some(metric), Some(value)) => render(value, metric.shown_unit()),
        _ => "-".to_owned(),
    }
}

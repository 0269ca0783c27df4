//! What a reader must doubt: failures, and figures that rest on disturbed rounds.

use super::{counted, finished, listed};
use crate::figure::Figure;
use crate::gather::{distinct, gathered};
use crate::health::kind;
use crate::index::experiment_of;
use crate::names::around;
use crate::verdict::Verdict;
use record::event::{Ending, PlannedExperiment, RoundStatus};
use record::order::InOrder;
use record::run::Run;

/// Reported reasons of disturbance.
const REASONS: usize = 2;

/// Nothing where there is nothing to doubt.
pub(super) fn sentence(
    run: &Run,
    planned: &PlannedExperiment,
    figures: &[&Figure],
) -> Option<String> {
    let of = |ending| figures.iter().filter(move |figure| figure.outcome == ending);
    let mut parts = Vec::new();
    // A figure beyond its bound failed too, and is reported with the verdicts.
    let is_beyond = |figure: &Figure| {
        let judged = figure.shown_prediction();
        judged.is_some_and(|judged| judged.verdict == Some(Verdict::Impossible))
    };
    let failed = of(Ending::Failed).filter(|figure| !is_beyond(figure)).count();
    if failed > 0 {
        parts.push(format!("{} failed", counted(failed, "figure", "figures")));
    }
    let skipped = of(Ending::Skipped).count();
    // What a report's text lacks was printed there: it was not skipped.
    if skipped > 0 && !run.header.is_published() {
        let were = if skipped == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} skipped", counted(skipped, "figure", "figures")));
    }
    let stats = || of(Ending::Measured).filter_map(|figure| figure.stats.as_ref());
    let measured = of(Ending::Measured).count();
    let disturbed = stats().filter(|stats| stats.used_disturbed).count();
    if disturbed > 0 {
        let rest = if disturbed == 1 { "rests" } else { "rest" };
        parts.push(format!(
            "{disturbed} of {measured} figures {rest} on disturbed rounds{}",
            reasons(run, &planned.id)
        ));
    }
    let censored = stats().filter(|stats| stats.censored > 0).count();
    let modes = stats().filter(|stats| stats.modes.len() > 1).count();
    for (count, what) in [(censored, "events that never ended"), (modes, "two modes")] {
        if count > 0 {
            let have = if count == 1 { "has" } else { "have" };
            parts.push(format!("{} {have} {what}", counted(count, "figure", "figures")));
        }
    }
    (!parts.is_empty()).then(|| finished(&parts.join("; ")))
}

/// `(steal in 3 of 12 rounds)`, over the experiment's rounds that count.
fn reasons(run: &Run, experiment: &str) -> String {
    let rounds: Vec<_> = run
        .rounds
        .iter()
        .filter(|round| round.status == RoundStatus::Ok)
        .filter(|round| experiment_of(&round.series) == experiment)
        .collect();
    let kinds = rounds.iter().flat_map(|round| {
        let kinds = round.disturbed.iter().map(|reason| kind(reason));
        distinct(kinds).into_iter().map(|kind| (kind, ()))
    });
    let mut counts = gathered(kinds);
    counts.order_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
    let told: Vec<String> = counts
        .into_iter()
        .take(REASONS)
        .map(|(reason, rounds)| format!("{reason} in {}", rounds.len()))
        .collect();
    around(" (", &listed(&told), &format!(" of {} rounds)", rounds.len()))
}

//! How many predictions hold, which do not, by how much, and what may explain it.

use super::headline::{found, over_likely, predicted, times};
use super::{counted, finished, listed};
use crate::analysis::causes;
use crate::analysis::figure::Figure;
use crate::analysis::misses::{self, Miss};
use crate::analysis::names::Names;
use crate::analysis::verdict::Verdict;
use crate::stats::quantile::median;
use record::event::Ending;
use record::run::Run;
use std::collections::BTreeMap;

/// Candidate causes that are told.
const CAUSES: usize = 3;

/// Nothing where at most one figure was judged and it lies within: the first sentence says so.
pub(super) fn sentence(run: &Run, names: &Names, figures: &[&Figure]) -> Option<String> {
    let judged = figures.iter().filter(|figure| {
        let verdict = figure.shown_prediction().and_then(|judged| judged.verdict);
        // What failed for another reason than its bound is not judged.
        verdict == Some(Verdict::Impossible)
            || (verdict.is_some() && figure.outcome == Ending::Measured)
    });
    let judged: Vec<&Figure> = judged.copied().collect();
    let mut missed: BTreeMap<Verdict, Vec<Miss>> = BTreeMap::new();
    for miss in judged.iter().filter_map(|figure| misses::shown(figure)) {
        missed.entry(miss.verdict).or_default().push(miss);
    }
    let outside: usize = missed.values().map(Vec::len).sum();
    if missed.is_empty() {
        return (judged.len() > 1).then(|| finished(&all_within(&judged)));
    }
    let parts: Vec<String> = missed
        .into_iter()
        .map(|(verdict, missed)| side(run, names, verdict, missed))
        .collect();
    let within = judged.len() - outside;
    let within = match (within, judged.len()) {
        (_, 1) => String::new(),
        (0, _) => "none of the predictions holds: ".to_owned(),
        (within, all) => format!("{within} of {all} predictions hold; "),
    };
    Some(finished(&format!("{within}{}", parts.join("; "))))
}

fn all_within(judged: &[&Figure]) -> String {
    let factors: Vec<f64> = judged.iter().filter_map(|one| over_likely(one)).collect();
    let factors = match median(&factors) {
        Some(middle) if factors.len() > 2 => {
            let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
            let most = factors.iter().copied().fold(0.0, f64::max);
            format!(
                ", at {} times the likely value in the median ({} to {})",
                times(middle),
                times(least),
                times(most)
            )
        }
        _ => String::new(),
    };
    match judged.len() {
        2 => format!("both predictions hold{factors}"),
        count => format!("all {count} predictions hold{factors}"),
    }
}

/// `2 figures are slower than predicted, at most by a factor of 1.3 (latency (64 MiB): 156 ns
/// [150, 160] against 60 to 120 ns); candidate cause: …`.
fn side(run: &Run, names: &Names, verdict: Verdict, mut missed: Vec<Miss>) -> String {
    missed.sort_by(|a, b| b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)));
    let Some(worst) = missed.first().copied() else {
        return String::new();
    };
    let count = counted(missed.len(), "figure", "figures");
    let is = if missed.len() == 1 { "is" } else { "are" };
    let what = match verdict {
        Verdict::Above => "above what was predicted",
        Verdict::Below => "below what was predicted",
        Verdict::Impossible => "beyond a bound that no correct figure passes",
        other => other.text(),
    };
    let most = if missed.len() == 1 { "" } else { "at most " };
    let factor = match (verdict, worst.factor) {
        (Verdict::Impossible, _) | (_, None) => String::new(),
        (_, Some(factor)) => format!(", {most}by a factor of {}", times(factor)),
    };
    let figure = worst.figure;
    let against = predicted(figure).map_or_else(String::new, |range| format!(" against {range}"));
    let text = format!(
        "{count} {is} {what}{factor}: {} with {}{against}",
        names.figure(figure),
        found(figure)
    );
    if verdict == Verdict::Impossible {
        return text;
    }
    let causes: Vec<String> = causes::of(run, &missed)
        .into_iter()
        .take(CAUSES)
        .map(str::to_owned)
        .collect();
    match causes.as_slice() {
        [] => format!("{text}; no recorded condition explains it"),
        [only] => format!("{text}; candidate cause: {only}"),
        several => format!("{text}; candidate causes: {}", listed(several)),
    }
}

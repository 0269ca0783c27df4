//! Findings about figures that are missing or may mislead, each for all that have it.

use super::{Finding, LISTED, Named, Severity, about, counted, spread, with_more};
use crate::figure::Figure;
use crate::health::health;
use record::event::Ending;
use record::note::NoteKind;
use record::order::InOrder;
use record::run::Run;

pub(super) fn findings(run: &Run, figures: &[Figure], named: &Named) -> Vec<Finding> {
    let all = [
        failed(figures, named),
        suspicious(figures, named),
        unended(figures, named),
        disturbed(run, figures, named),
        cached(figures, named),
    ];
    all.into_iter().flatten().collect()
}

fn having(figures: &[Figure], is: impl Fn(&Figure) -> bool) -> Vec<&Figure> {
    figures.iter().filter(|figure| is(figure)).collect()
}

fn failed(figures: &[Figure], named: &Named) -> Option<Finding> {
    let failed = having(figures, |figure| figure.outcome == Ending::Failed);
    if failed.is_empty() {
        return None;
    }
    let about = about(&failed);
    let first = failed.iter().take(LISTED).map(|figure| {
        let reason = figure.reason.as_deref().unwrap_or("no reason was given");
        format!("{}: {reason}", named.name(figure, about))
    });
    let first: Vec<String> = first.collect();
    let count = counted(failed.len(), "failed", "failed");
    let text = format!("{count}: {}", with_more(&first, failed.len()));
    Some(Finding::new(Severity::Error, "failed", text).about(about))
}

fn suspicious(figures: &[Figure], named: &Named) -> Option<Finding> {
    let noted = having(figures, |figure| figure.notes.has(NoteKind::Suspicious));
    let first = *noted.first()?;
    let about = about(&noted);
    let note = first.notes.first_of_kind(NoteKind::Suspicious).map_or("", |note| &note.text);
    let count = counted(noted.len(), "passes", "pass");
    let text =
        format!("{count} a bound that no correct one should: {} ({note})", named.listed(&noted));
    Some(Finding::new(Severity::Warning, "suspicious", text).about(about))
}

/// Events that have no value, the largest share first.
fn unended(figures: &[Figure], named: &Named) -> Option<Finding> {
    let share = |figure: &Figure| {
        let stats = figure.stats.as_ref().filter(|stats| stats.censored > 0)?;
        Some((stats.censored, stats.samples))
    };
    let mut having = having(figures, |figure| share(figure).is_some());
    having.order_by(|a, b| {
        let of = |figure: &Figure| share(figure).map_or(0.0, |(few, all)| few as f64 / all as f64);
        of(b).total_cmp(&of(a))
    });
    if having.is_empty() {
        return None;
    }
    let about = about(&having);
    let first = having.iter().take(LISTED).filter_map(|figure| {
        let (censored, samples) = share(figure)?;
        Some(format!("{} ({censored} of {samples})", named.name(figure, about)))
    });
    let first: Vec<String> = first.collect();
    let text = format!(
        "{} events that never ended (lost, timed out or never started), counted as longer than all \
         others: {}",
        counted(having.len(), "has", "have"),
        with_more(&first, having.len())
    );
    Some(Finding::new(Severity::Warning, "unended", text).about(about))
}

fn disturbed(run: &Run, figures: &[Figure], named: &Named) -> Option<Finding> {
    let resting = having(figures, |figure| figure.notes.has(NoteKind::Disturbed));
    if resting.is_empty() {
        return None;
    }
    let about = about(&resting);
    let whose = match about {
        "run" => spread(&resting),
        _ => named.listed(&resting),
    };
    let health = health(run);
    let reasons: Vec<String> = health
        .reasons
        .iter()
        .take(LISTED)
        .map(|(reason, count)| format!("{reason} in {count}"))
        .collect();
    let text = format!(
        "{} on disturbed rounds ({whose}); {} of {} rounds were disturbed: {}",
        counted(resting.len(), "rests", "rest"),
        health.disturbed,
        health.rounds,
        with_more(&reasons, health.reasons.len())
    );
    let finding = Finding::new(Severity::Warning, "disturbed", text).about(about);
    Some(finding.so(
        "stop other programs and fix the core's frequency if you can, then measure again, or raise \
         --budget",
    ))
}

fn cached(figures: &[Figure], named: &Named) -> Option<Finding> {
    let cached = having(figures, |figure| figure.notes.has(NoteKind::Cache));
    if cached.is_empty() {
        return None;
    }
    let text = format!(
        "{} partly or fully from a cache instead of the device: {}",
        counted(cached.len(), "comes", "come"),
        named.listed(&cached)
    );
    let finding = Finding::new(Severity::Warning, "cache", text).about(about(&cached));
    Some(finding.so("use files larger than that cache, or another directory (--dir)"))
}

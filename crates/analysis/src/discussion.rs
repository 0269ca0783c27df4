//! What a run says of an experiment, in one to four sentences: what was predicted and found and by
//! what factor, what the cases give together, what was missed and why, and what to doubt.
//!
//! Every number is a figure, a predicted end, a ratio of them, a count of figures or rounds, or a
//! case's parameter; a cause is named only where its condition was recorded with the figures
//! concerned, and then as a candidate.

mod doubts;
mod headline;
mod structure;
mod verdicts;

use super::figure::Figure;
use super::names::{Names, around};
use record::event::{Ending, PlannedExperiment};
use record::run::Run;

/// The sentences, each whole and carried by the data of this run; none of a skipped experiment,
/// whose reason stands by itself.
pub fn sentences(run: &Run, planned: &PlannedExperiment, figures: &[&Figure]) -> Vec<String> {
    if planned.skipped.is_some() {
        return Vec::new();
    }
    let names = Names::of(planned, figures);
    let measured: Vec<&Figure> = figures
        .iter()
        .filter(|figure| figure.outcome == Ending::Measured && figure.value.is_some())
        .copied()
        .collect();
    let told = [
        headline::sentence(planned, &names, &measured),
        structure::sentence(run, &names, &measured, planned),
        verdicts::sentence(run, &names, figures),
        doubts::sentence(run, planned, figures),
    ];
    told.into_iter().flatten().collect()
}

/// A sentence of clauses: the first letter large, a full stop at the end.
fn finished(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 figure`, `7 figures`.
fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

/// Text in brackets after a space; nothing for no text.
fn bracketed(text: &str) -> String {
    around(" (", text, ")")
}

#[cfg(test)]
mod tests;

//! Caveats of single figures, once for all figures that share them.

use super::alike::gathered;
use crate::values;
use analysis::figure::Figure;
use analysis::findings::Severity;
use analysis::names::{Names, around};
use record::event::{Ending, PlannedExperiment};
use record::note::NoteKind;

/// An experiment with its figures and what they are called.
#[derive(Clone, Copy)]
pub(super) struct Described<'run> {
    pub(super) planned: &'run PlannedExperiment,
    pub(super) names: &'run Names<'run>,
    pub(super) figures: &'run [&'run Figure],
}

/// A remark on a figure.
type Remark<'run> = (Severity, &'run Figure, String);

/// What has no figure, and why.
pub(super) fn absent(told: Described) -> Vec<(Severity, String)> {
    let absent = told.figures.iter().filter_map(|figure| {
        let (word, severity) = match figure.outcome {
            Ending::Measured => return None,
            Ending::Skipped => ("skipped", Severity::Note),
            Ending::Failed => ("failed", Severity::Error),
        };
        let reason = figure.reason.as_deref().unwrap_or("no reason was given");
        let needed = around("; it needs ", figure.needed.as_deref().unwrap_or_default(), "");
        Some((severity, *figure, format!("{word}: {reason}{needed}")))
    });
    merged(told, absent.collect())
}

/// Notes of figures, and how near they come to their bounds.
pub(super) fn of_figures(told: Described) -> Vec<(Severity, String)> {
    let mut remarks: Vec<Remark> = Vec::new();
    for figure in told.figures {
        for note in &figure.notes {
            let severity = match note.kind {
                NoteKind::Disturbed | NoteKind::Suspicious => Severity::Warning,
                _ => Severity::Note,
            };
            remarks.push((severity, figure, note.text.clone()));
        }
        remarks.extend(efficiency(figure).map(|text| (Severity::Note, *figure, text)));
    }
    merged(told, remarks)
}

/// How much of its bound a figure reached, with the interval.
fn efficiency(figure: &Figure) -> Option<String> {
    let check = figure.bound.as_ref()?;
    let share = |value: f64| check.efficiency(value).map(values::percent);
    let ends = figure.ci.and_then(|(low, high)| share(low).zip(share(high)));
    let ends = ends.map_or_else(|| "no interval".to_owned(), |(a, b)| format!("{a} to {b}"));
    let of = share(figure.value?)?;
    Some(format!("{of} of the bound ({ends}; {})", check.rule.rule))
}

/// Texts that differ only in their figures and numbers are reported once.
fn merged(told: Described, remarks: Vec<Remark>) -> Vec<(Severity, String)> {
    let of = |severity: Severity| {
        let texts = remarks.iter().filter(move |(of, ..)| *of == severity);
        gathered(texts.map(|(_, figure, text)| (*figure, text.clone())))
    };
    let severities = [Severity::Error, Severity::Warning, Severity::Note];
    let merged = severities.into_iter().flat_map(|severity| {
        of(severity).into_iter().map(move |alike| {
            let whose = alike.whose(told.planned, told.names, told.figures);
            let text = alike.text();
            match whose.is_empty() {
                true => (severity, format!("{text}.")),
                false => (severity, format!("{whose}: {text}.")),
            }
        })
    });
    merged.collect()
}

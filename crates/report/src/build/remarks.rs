//! Caveats of single figures, once for all figures that share them.

use super::alike::gathered;
use crate::document::Remark;
use crate::values;
use analysis::figure::Figure;
use analysis::findings::Severity;
use analysis::names::{Names, around};
use record::event::{Ending, PlannedExperiment};
use record::note::{Note, NoteKind, Number};

/// An experiment with its figures and what they are called.
#[derive(Clone, Copy)]
pub(super) struct Described<'run> {
    pub(super) planned: &'run PlannedExperiment,
    pub(super) names: &'run Names<'run>,
    pub(super) figures: &'run [&'run Figure],
}

type Noted<'run> = (Severity, &'run Figure, Note);

/// What has no figure, and why.
pub(super) fn absent(told: Described) -> Vec<Remark> {
    let absent = told.figures.iter().filter_map(|figure| {
        let (word, severity) = match figure.outcome {
            Ending::Measured => return None,
            Ending::Skipped => ("skipped", Severity::Note),
            Ending::Failed => ("failed", Severity::Error),
        };
        let reason = figure.reason.as_deref().unwrap_or("no reason was given");
        let needed = around("; it needs ", figure.needed.as_deref().unwrap_or_default(), "");
        Some((severity, *figure, format!("{word}: {reason}{needed}").into()))
    });
    merged(told, absent.collect())
}

/// Notes of figures, and how near they come to their bounds.
pub(super) fn of_figures(told: Described) -> Vec<Remark> {
    let mut remarks: Vec<Noted> = Vec::new();
    for figure in told.figures {
        for note in &figure.notes {
            let severity = match note.kind {
                NoteKind::Disturbed | NoteKind::Suspicious => Severity::Warning,
                _ => Severity::Note,
            };
            remarks.push((severity, figure, note.clone()));
        }
        remarks.extend(efficiency(figure).map(|note| (Severity::Note, *figure, note)));
        let no_prediction = no_prediction(figure).map(Note::from);
        remarks.extend(no_prediction.map(|note| (Severity::Note, *figure, note)));
    }
    merged(told, remarks)
}

/// Why a measured figure has no prediction: `no prediction: its range is wider than a factor of ten,
/// because of a tick, including exits to the hypervisor`.
pub(super) fn no_prediction(figure: &Figure) -> Option<String> {
    if figure.outcome != Ending::Measured || figure.shown_range().is_some() {
        return None;
    }
    let prediction = figure.shown_prediction().map(|judged| &judged.prediction);
    let why = prediction.map(|prediction| (prediction.why_not(), prediction.range));
    Some(match why.filter(|(why, _)| !why.is_empty()) {
        None => "no prediction: no law states a range".to_owned(),
        Some((why, None)) => format!("no prediction: {why}"),
        Some((why, Some(_))) => {
            format!("no prediction: its range is wider than a factor of ten, because of {why}")
        }
    })
}

/// Why a measured figure has no interval and so no verdict, and what to do.
pub(super) fn no_interval(figure: &Figure) -> Option<&str> {
    const BEGIN: &str = "no interval: ";
    let verdict = figure.shown_prediction().and_then(|judged| judged.verdict);
    let lacks = figure.outcome == Ending::Measured && figure.ci.is_none() && verdict.is_none();
    let mut notes = figure.notes.iter().filter(|_| lacks);
    notes.find_map(|note| Some(&note.text[note.text.find(BEGIN)?..]))
}

/// How much of its bound a figure reached, with the interval.
fn efficiency(figure: &Figure) -> Option<Note> {
    let check = figure.bound.as_ref()?;
    let share = |value: f64| {
        let share = check.efficiency(value)?;
        Some(Number::new(share, values::percent(share)))
    };
    let ends = figure.ci.and_then(|(low, high)| Some([share(low)?, share(high)?]));
    let told = if ends.is_some() { "{} to {}" } else { "no interval" };
    let form = format!("{{}} of the bound ({told}; {})", check.rule.rule);
    let numbers = std::iter::once(share(figure.value?)?).chain(ends.into_iter().flatten());
    Some(Note::formed(form, numbers.collect::<Vec<Number>>()))
}

/// Texts that differ only in their figures and numbers are reported once.
fn merged(told: Described, remarks: Vec<Noted>) -> Vec<Remark> {
    let of = |severity: Severity| {
        let texts = remarks.iter().filter(move |(of, ..)| *of == severity);
        gathered(texts.map(|(_, figure, note)| (*figure, note.clone())))
    };
    let merged = [Severity::Error, Severity::Warning, Severity::Note].map(|severity| {
        of(severity).into_iter().map(move |alike| {
            let whose = alike.whose(told.planned, told.names, told.figures);
            Remark::new(severity, whose, format!("{}.", alike.text()))
        })
    });
    merged.into_iter().flatten().collect()
}

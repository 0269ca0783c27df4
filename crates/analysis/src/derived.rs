//! Figures that several cases give together: the session wrote them, here they are judged.

use super::figure::{Figure, Interval};
use super::index::experiment_of;
use super::measured::{blank, settle_predictions};
use record::event::{Derived, Ending, PlannedExperiment, PredictionKind};
use record::key::{CaseId, Key};
use record::metric::Metric;
use record::note::{Note, NoteKind, Number};
use record::run::Run;
use stats::quantile::median;

/// Share of the resamples under which a derived value is uncertain.
const CERTAIN: f64 = 0.8;

pub fn of_experiment(run: &Run, experiment: &PlannedExperiment) -> Vec<Figure> {
    let mut figures = Vec::new();
    let has_samples =
        run.samples.iter().any(|samples| experiment_of(&samples.series) == experiment.id);
    for case in &experiment.derived {
        for metric in experiment.metrics.iter().filter(|metric| metric.derived) {
            match run.derived(&experiment.id, case, &metric.name) {
                Some(derived) => figures.push(of_value(run, experiment, metric, derived)),
                None => figures.extend(not_found(run, experiment, case, metric, has_samples)),
            }
        }
    }
    figures
}

fn of_value(
    run: &Run,
    experiment: &PlannedExperiment,
    metric: &Metric,
    derived: &Derived,
) -> Figure {
    let mut figure = blank(run, experiment, &derived.case, metric);
    // A derived case need not have an outcome of its own: its event says that it was found.
    figure.notes.clear();
    figure.outcome = Ending::Measured;
    // A position's grid cell alone has no confidence: it is of a sweep, which is measured one time.
    figure.interval = match (derived.ci, derived.confidence) {
        (Some(_), None) => Interval::WithinRun,
        _ => Interval::Resamples,
    };
    figure.value = Some(derived.value).filter(|value| value.is_finite());
    figure.ci = derived.ci;
    figure.confidence = derived.confidence;
    figure.at.clone_from(&derived.at);
    figure.notes.extend(derived.notes.iter().cloned());
    if derived.presence < CERTAIN {
        let share = derived.presence;
        let share = Number::new(share, format!("{:.0} %", share * 100.0));
        let note = Note::formed("uncertain: found in {} of the resamples", [share]);
        figure.notes.push(note.of_kind(NoteKind::Uncertain));
    }
    if metric.unit.is_time() {
        let clocks: Vec<f64> = run
            .samples
            .iter()
            .filter(|samples| experiment_of(&samples.series) == experiment.id)
            .filter_map(|samples| samples.core_hz)
            .collect();
        figure.cycles =
            median(&clocks).zip(figure.value).map(|(core_hz, value)| value * core_hz / 1e9);
        if clocks.is_empty() && !run.header.is_published() {
            figure.no_cycles =
                Some("the core clock is unknown in every round of the experiment".to_owned());
        }
    }
    settle_predictions(run, &mut figure, metric, &[]);
    figure
}

/// A value that was predicted and not found is reported; a combination without a prediction does
/// not exist.
fn not_found(
    run: &Run,
    experiment: &PlannedExperiment,
    case: &CaseId,
    metric: &Metric,
    has_samples: bool,
) -> Option<Figure> {
    let key = Key::new(&experiment.id, case, &metric.name);
    let predicted = run.prediction(&key, PredictionKind::Prior)?;
    predicted.prediction.range?;
    // The reason of a case that was measured itself is why it needed no more rounds.
    let reason = run
        .outcome(&experiment.id, case)
        .filter(|outcome| outcome.outcome != Ending::Measured)
        .and_then(|outcome| outcome.reason.clone())
        .unwrap_or_else(|| match has_samples {
            true => "not found".to_owned(),
            false => "no figures to derive it from".to_owned(),
        });
    let mut figure = Figure::absent(&experiment.id, Ending::Skipped, reason);
    figure.case = case.clone();
    figure.metric = Some(metric.clone());
    settle_predictions(run, &mut figure, metric, &[]);
    Some(figure)
}

//! From the record of a run to the figures that a sweep keeps.

use crate::sweep::{Estimate, Figure};
use analysis::figure::Figure as Analysed;
use record::event::Ending;
use record::metric::{Better, Kind, Metric};
use record::order::Gather;
use record::run::Run;
use stats::moments::Moments;
use std::collections::{BTreeMap, BTreeSet};

/// The figures of a node by itself: those of the summary, and all of hardware that can be better or
/// worse.
pub fn alone(run: &Run, rank: u32, again: u32) -> Vec<Figure> {
    let is_kept = |figure: &Analysed, metric: &Metric| {
        metric.kind == Kind::Hardware || is_key(run, figure, metric)
    };
    figures(run, rank, again, is_kept)
}

/// The figures of a pair, measured by its near end: all that can be better or worse.
pub fn pair(run: &Run, rank: u32) -> Vec<Figure> {
    figures(run, rank, 0, |_, _| true)
}

fn figures(
    run: &Run,
    rank: u32,
    again: u32,
    is_kept: impl Fn(&Analysed, &Metric) -> bool,
) -> Vec<Figure> {
    let figures = analysis::figures(run);
    let kept = figures.iter().filter_map(|figure| {
        let metric = figure.metric.as_ref()?;
        if metric.better == Better::None || !is_kept(figure, metric) {
            return None;
        }
        Some(Figure {
            rank,
            key: figure.key()?,
            unit: metric.unit,
            better: metric.better,
            kind: metric.kind,
            estimate: estimate(figure)?,
            predicted: predicted(figure),
            again,
        })
    });
    kept.collect()
}

/// Experiments without any figure, and why.
pub fn absent(run: &Run) -> Vec<(String, String)> {
    let figures = analysis::figures(run);
    let measured: BTreeSet<&str> = figures
        .iter()
        .filter(|figure| figure.value.is_some())
        .map(|figure| figure.experiment.as_str())
        .gather();
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for figure in figures.iter().filter(|of| !measured.contains(of.experiment.as_str())) {
        let why = figure.reason.clone().unwrap_or_else(|| "it was not measured".to_owned());
        reasons.entry(figure.experiment.clone()).or_insert(why);
    }
    reasons.into_iter().collect()
}

fn is_key(run: &Run, figure: &Analysed, metric: &Metric) -> bool {
    let planned = run.plan.iter().flat_map(|plan| &plan.experiments);
    let keys = planned.filter(|of| of.id == figure.experiment).flat_map(|of| &of.keys);
    keys.into_iter().any(|key| key.metric == metric.name && key.is_of(&figure.case))
}

fn estimate(figure: &Analysed) -> Option<Estimate> {
    if figure.outcome != Ending::Measured {
        return None;
    }
    let value = figure.value.filter(|value| value.is_finite())?;
    let rounds = u32::try_from(figure.used()).unwrap_or(u32::MAX);
    Some(Estimate { value, ci: figure.ci, rounds, scatter: scatter(figure) })
}

/// Standard deviation of the logarithms of the round values; of the undisturbed rounds where there
/// are two.
fn scatter(figure: &Analysed) -> Option<f64> {
    let logs = |with_disturbed: bool| -> Vec<f64> {
        let rounds = figure.rounds.iter();
        let counted = rounds.filter(|round| with_disturbed || !round.disturbed);
        counted.map(|round| round.value).filter(|value| *value > 0.0).map(f64::ln).collect()
    };
    let quiet = logs(false);
    let logs = if quiet.len() > 1 { quiet } else { logs(true) };
    Moments::from_values(&logs).stddev()
}

fn predicted(figure: &Analysed) -> Option<(f64, f64)> {
    figure.shown_range().map(|range| (range.low, range.high))
}

#[cfg(test)]
mod tests {
    use super::{absent, alone, pair};
    use record::metric::{Better, Kind};

    #[test]
    fn figures_with_a_direction_are_kept_with_their_scatter() {
        let run = analysis::sample::run();
        let figures = alone(&run, 3, 1);
        assert!(!figures.is_empty());
        assert!(figures.iter().all(|figure| figure.better != Better::None));
        assert!(figures.iter().any(|figure| figure.kind == Kind::Hardware));
        assert!(figures.iter().all(|figure| (figure.rank, figure.again) == (3, 1)));
        assert!(figures.iter().any(|figure| figure.estimate.scatter.is_some()));
        assert!(pair(&run, 3).len() >= figures.len());
        assert!(
            absent(&run).iter().all(|(experiment, why)| !experiment.is_empty() && !why.is_empty())
        );
    }
}

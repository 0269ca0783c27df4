//! Figures of measured cases: from rounds to an estimate with all that stands beside it.

mod alone;

use super::bound::{self, BoundCheck};
use super::distribution::Distribution;
use super::figure::{Condition, Figure, Interval, Judged, LADDER, ModeShare, RoundPoint, Stats};
use super::index::{Index, RoundSamples, series_label};
use super::neighbour::expectation;
use super::notes;
use super::verdict::{Verdict, judge};
use alone::{alone_rounds, beside_found, set_cycles};
use record::event::{
    Ending, PlannedExperiment, PlannedSeries, Prediction, PredictionKind, Raw, Repeat,
};
use record::key::{CaseId, Key, Value};
use record::metric::{Kind, Metric, Over};
use record::note::{Note, Number};
use record::order::Gather;
use record::run::Run;
use stats::alone::Alone;
use stats::blocks::{LEAST_BLOCKS, MOST_BLOCKS, within_run};
use stats::estimate::{Estimate, RoundValue, estimate};
use stats::interval::{CONFIDENCE, Interval as Ends, LEAST_VALUES, median_order};
use stats::quantile::median;
use std::collections::BTreeMap;

const REASON_MAX: usize = 2000;

/// The figures of one planned case: one per metric that has samples; one without a metric, with
/// the reason, where there are none at all.
pub fn of_case(
    run: &Run,
    index: &Index,
    experiment: &PlannedExperiment,
    series: &PlannedSeries,
    case: &CaseId,
) -> Vec<Figure> {
    let label = series_label(&experiment.id, series);
    let figures: Vec<Figure> = experiment
        .metrics
        .iter()
        .filter(|metric| !metric.derived)
        .filter_map(|metric| {
            let rounds = index.rounds(&label, case, &metric.name);
            of_metric(run, experiment, case, metric, rounds)
        })
        .collect();
    if figures.is_empty() { vec![without_samples(run, &experiment.id, case)] } else { figures }
}

fn without_samples(run: &Run, experiment: &str, case: &CaseId) -> Figure {
    let (outcome, reason) = match run.outcome(experiment, case) {
        Some(outcome) if outcome.outcome != Ending::Measured => {
            let reason = outcome.reason.as_deref().unwrap_or("no reason was given");
            // An experiment's reason is that of each of its cases.
            (outcome.outcome, reason.chars().take(REASON_MAX).collect())
        }
        Some(_) => (
            Ending::Failed,
            "the case counts as measured, but no valid round has a sample".to_owned(),
        ),
        None => (Ending::Skipped, "the run ended before its first round".to_owned()),
    };
    let mut figure = Figure::absent(experiment, outcome, reason);
    figure.case = case.clone();
    figure
}

struct Rounds<'run> {
    samples: Vec<(RoundSamples<'run>, f64)>,
    without_value: usize,
    /// The way to the value of the core alone; `None` as found.
    alone: Option<Alone>,
}

impl<'run> Rounds<'run> {
    fn estimate(&self, metric: &Metric) -> Option<Estimate> {
        let minds = metric.over == Over::Undisturbed;
        let value = |(round, value): &(RoundSamples, f64)| RoundValue {
            value: *value,
            disturbed: minds && round.disturbed(),
        };
        let values: Vec<RoundValue> = self.samples.iter().map(value).collect();
        let mut estimate = estimate(&values, metric.better)?.pooled(self.alone);
        estimate.disturbed = self.samples.iter().filter(|of| of.0.disturbed()).count();
        if metric.over == Over::Greatest {
            // The greatest of further rounds is unknown.
            estimate.value = estimate.max;
            estimate.interval = None;
        }
        Some(estimate)
    }

    fn used(&self, with_disturbed: bool) -> impl Iterator<Item = &RoundSamples<'run>> {
        let rounds = self.samples.iter().map(|(round, _)| round);
        rounds.filter(move |round| with_disturbed || !round.disturbed())
    }
}

fn of_metric(
    run: &Run,
    experiment: &PlannedExperiment,
    case: &CaseId,
    metric: &Metric,
    rounds: Vec<RoundSamples>,
) -> Option<Figure> {
    let alone = alone_rounds(run, metric, &rounds);
    let mut all = rounds.iter().flat_map(|round| &round.samples);
    let is_probed = all.any(|samples| !samples.width.is_empty());
    // Rounds that waited for a core are not as found.
    let is_found = |round: &RoundSamples| round.round.waited_s.is_none() || !is_probed;
    let rounds: Vec<RoundSamples> = rounds.into_iter().filter(is_found).collect();
    let probed = probed(run, &rounds);
    let found = with_values(rounds, None);
    let is_event = is_event(&found.samples);
    let resolution = match metric.unit.is_time() && is_event {
        true => run.header.calibration.resolution_ns,
        false => 0.0,
    };
    // Tails are never filtered: the distribution is that of all rounds.
    let pooled = Distribution::from_rounds(found.used(true));
    let stats = stats(&found.estimate(metric)?, &pooled, &found, resolution);
    let under = |printed: &Rounds, condition: Condition| {
        let estimate = printed.estimate(metric)?;
        let mut figure = blank(run, experiment, case, metric);
        figure.at.extend(resolved(&found.samples));
        figure.condition = probed.map(|_| condition);
        figure.shared = probed;
        // While a device works the core sleeps, at no clock of its own.
        let has_cycles = metric.unit.is_time() && metric.kind != Kind::Io;
        figure.rounds = points(&printed.samples, has_cycles);
        figure.stats = stats.as_ref().map(|stats| beside(stats, &estimate));
        set_estimate(&mut figure, experiment.repeat, &estimate, &pooled, &found);
        if has_cycles {
            set_cycles(&mut figure, printed, estimate.used_disturbed);
        }
        settle_predictions(run, &mut figure, metric, &printed.samples);
        Some(figure)
    };
    let as_found = under(&found, Condition::AsFound)?;
    let mut figure = match &alone {
        Some(alone) => {
            let figure = under(alone, Condition::Alone)?;
            let with_disturbed = figure.stats.as_ref().is_some_and(|stats| stats.used_disturbed);
            beside_found(figure, as_found, alone.basis(with_disturbed))
        }
        None => as_found,
    };
    let mut extra = notes::notes(run, &figure, &found.samples, is_event);
    if found.without_value > 0 {
        extra.push(Note::formed(
            "{} rounds without a value (not finite, or most events never ended) do not count",
            [Number::count(found.without_value)],
        ));
    }
    figure.notes.extend(extra);
    figure.notes.extend(notes::notes_of_rounds(&found.samples));
    Some(figure)
}

/// Share of the classified samples in which others used the core; `None` without any.
fn probed(run: &Run, rounds: &[RoundSamples]) -> Option<f64> {
    let (mut all, mut quiet) = (0, 0);
    for round in rounds {
        if let Some(level) = run.width_level(round.round.segment) {
            let (classified, alone) = round.probed(level);
            all += classified;
            quiet += alone;
        }
    }
    (all > 0).then(|| (all - quiet) as f64 / all as f64)
}

/// A figure with its key and outcome and nothing measured.
pub fn blank(run: &Run, experiment: &PlannedExperiment, case: &CaseId, metric: &Metric) -> Figure {
    let outcome = run.outcome(&experiment.id, case);
    let mut figure = Figure::absent(&experiment.id, Ending::Measured, String::new());
    figure.reason = outcome.and_then(|outcome| outcome.reason.clone());
    figure.outcome = match outcome.map(|outcome| outcome.outcome) {
        Some(Ending::Failed) => Ending::Failed,
        // A case that was skipped after some rounds has what these rounds say.
        Some(Ending::Skipped | Ending::Measured) | None => Ending::Measured,
    };
    if outcome.is_none() {
        figure.notes.push("the run ended before this case was finished".to_owned());
    }
    figure.case = case.clone();
    figure.metric = Some(metric.clone());
    figure
}

fn with_values(rounds: Vec<RoundSamples>, alone: Option<Alone>) -> Rounds {
    let count = rounds.len();
    let samples: Vec<(RoundSamples, f64)> = rounds
        .into_iter()
        .filter_map(|round| {
            let value = round.value()?;
            Some((round, value))
        })
        .collect();
    Rounds { without_value: count - samples.len(), samples, alone }
}

fn is_event(rounds: &[(RoundSamples, f64)]) -> bool {
    rounds.iter().all(|(round, _)| {
        !round.histograms.is_empty() || round.samples.iter().all(|samples| samples.raw.is_event())
    })
}

/// What the symbols resolved to; where rounds differ, all values in order of appearance.
fn resolved(rounds: &[(RoundSamples, f64)]) -> BTreeMap<String, Value> {
    let mut seen: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for samples in rounds.iter().flat_map(|(round, _)| &round.samples) {
        for (name, value) in &samples.at {
            let values = seen.entry(name.clone()).or_default();
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
    }
    let joined = |mut values: Vec<Value>| match values.len() {
        1 => values.remove(0),
        _ => Value::Text(values.iter().map(Value::to_string).collect::<Vec<_>>().join("; ")),
    };
    seen.into_iter().map(|(name, values)| (name, joined(values))).gather()
}

fn points(rounds: &[(RoundSamples, f64)], is_time: bool) -> Vec<RoundPoint> {
    rounds
        .iter()
        .map(|(round, value)| RoundPoint {
            n: round.round.n,
            segment: round.round.segment,
            value: *value,
            disturbed: round.disturbed(),
            cycles: round.cycles().filter(|_| is_time),
            core_hz: round.core_hz(),
        })
        .collect()
}

/// What the rounds and the samples in them say together.
fn stats(
    estimate: &Estimate,
    pooled: &Distribution,
    rounds: &Rounds,
    resolution: f64,
) -> Option<Stats> {
    let summary = pooled.summary()?;
    let quantiles = pooled.quantiles(&[0.5, 0.9, 0.99]);
    let &[p50, p90, p99] = quantiles.as_slice() else {
        return None;
    };
    let (outliers, mean_without_outliers) = pooled.outliers();
    let of = sample_label(rounds.used(true));
    let modes = apart(pooled.modes(resolution), &of);
    Some(Stats {
        sample_kind: of,
        rounds: estimate.rounds,
        disturbed: estimate.disturbed,
        used: estimate.used,
        used_disturbed: estimate.used_disturbed,
        samples: pooled.count(),
        censored: pooled.censored,
        at_least: at_least(pooled),
        mean: summary.mean,
        stddev: summary.stddev,
        min: summary.min,
        p50,
        p90,
        p99,
        max: summary.max,
        ladder: ladder(pooled),
        density: pooled.density(),
        outliers,
        mean_without_outliers,
        modes: modes.into_iter().map(|(centre, share)| ModeShare { centre, share }).collect(),
        best_round: estimate.best,
        median_all: estimate.median_all,
        median_undisturbed: estimate.median_undisturbed,
    })
}

/// The quantiles of [`LADDER`] beyond which at least one sample lies, and that are no lower limits.
fn ladder(pooled: &Distribution) -> Vec<f64> {
    let is_known = |q: &f64| (1.0 - q) * pooled.count() as f64 >= 1.0 && !pooled.is_censored(*q);
    let known: Vec<f64> = LADDER.into_iter().filter(is_known).collect();
    pooled.quantiles(&known)
}

/// The same samples beside another estimate from their rounds.
fn beside(stats: &Stats, estimate: &Estimate) -> Stats {
    Stats {
        rounds: estimate.rounds,
        disturbed: estimate.disturbed,
        used: estimate.used,
        used_disturbed: estimate.used_disturbed,
        best_round: estimate.best,
        median_all: estimate.median_all,
        median_undisturbed: estimate.median_undisturbed,
        ..stats.clone()
    }
}

/// The percentiles of [`Stats`] that lie among events which never ended.
fn at_least(pooled: &Distribution) -> Vec<&'static str> {
    let of = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
    let among = of.into_iter().filter(|(_, q)| pooled.is_censored(*q));
    among.map(|(name, _)| name).collect()
}

/// Least distance of two modes, relative to the upper one, for them to be reported: with many
/// samples the test also sees steps of a per mille, which change no reader's mind.
const MODES_APART: f64 = 0.05;

/// Least share of a mode of batches: a rarer one is what interrupts do to some of them, and says
/// nothing of the operation. Events keep the least share of the test.
const BATCH_MODE_SHARE: f64 = 0.25;

/// The modes, merged if they are too close or if one is too rare.
fn apart(modes: Vec<(f64, f64)>, of: &str) -> Vec<(f64, f64)> {
    let least = if of == "event" { 0.0 } else { BATCH_MODE_SHARE };
    let rare = modes.iter().any(|(_, share)| *share < least);
    match modes.as_slice() {
        [(low, _), .., (high, _)] if rare || high - low < MODES_APART * high.abs() => {
            let centre = modes.iter().map(|(centre, share)| centre * share).sum();
            vec![(centre, 1.0)]
        }
        _ => modes,
    }
}

/// `event`, `batch(k)`, or `batch(a..b)` where rounds chose different batches.
fn sample_label<'a, 'run: 'a>(rounds: impl Iterator<Item = &'a RoundSamples<'run>>) -> String {
    let rounds: Vec<&RoundSamples> = rounds.collect();
    if rounds.iter().all(|round| round.samples.is_empty() || !round.histograms.is_empty()) {
        return "event".to_owned();
    }
    let raws = || rounds.iter().flat_map(|round| &round.samples).map(|samples| &samples.raw);
    let sizes: Vec<u64> = raws()
        .filter_map(|raw| match raw {
            Raw::Event { .. } => None,
            Raw::Quartets { k, .. } | Raw::Batch { k, .. } => Some(*k),
        })
        .collect();
    match (sizes.iter().min(), sizes.iter().max()) {
        (Some(low), Some(high)) if low != high => format!("batch({low}..{high})"),
        _ => raws().next().map_or_else(String::new, Raw::label),
    }
}

fn set_estimate(
    figure: &mut Figure,
    repeat: Repeat,
    estimate: &Estimate,
    pooled: &Distribution,
    rounds: &Rounds,
) {
    figure.value = Some(estimate.value);
    let ends: Option<Ends> = match repeat {
        Repeat::Rounds => {
            match estimate.interval {
                None if figure.condition != Some(Condition::Alone) => {
                    figure.notes.push(no_interval(figure, estimate.used));
                }
                Some(ends) if ends.confidence < CONFIDENCE => {
                    let confidence = 100.0 * ends.confidence;
                    figure.notes.push(format!(
                        "the interval of {LEAST_VALUES} values has {confidence:.2} % confidence"
                    ));
                }
                _ => {}
            }
            estimate.interval
        }
        Repeat::Once { .. } | Repeat::Sweep => {
            figure.interval = Interval::WithinRun;
            let (value, ends, note) = of_blocks(pooled, rounds);
            figure.value = value.or(figure.value);
            figure.notes.extend(note);
            ends
        }
    };
    figure.ci = ends.map(|ends| (ends.low, ends.high));
    figure.confidence = ends.map(|ends| ends.confidence);
}

/// Why a figure of repeated rounds has no interval, and what to do.
fn no_interval(figure: &Figure, rounds: usize) -> Note {
    match figure.metric.as_ref().map(|metric| metric.over) {
        Some(Over::Greatest) => "no interval: it is the greatest of all rounds".into(),
        _ => {
            let form = format!(
                "no interval: {{}} of {LEAST_VALUES} rounds fitted into the time; raise --budget"
            );
            Note::formed(form, [Number::count(rounds)])
        }
    }
}

/// Value and interval of a figure that runs once, from its blocks. Samples that are blocks of
/// time already (`batch(0)`) and too few to show their memory are taken as they are.
fn of_blocks(pooled: &Distribution, rounds: &Rounds) -> (Option<f64>, Option<Ends>, Option<Note>) {
    let samples = pooled.in_order();
    if let Some(found) = within_run(samples, median) {
        let form = "interval from {} blocks of one repetition";
        let note = Note::formed(form, [Number::count(found.blocks)]);
        return (Some(found.value), Some(found.interval), Some(note));
    }
    let are_blocks = rounds
        .used(true)
        .flat_map(|round| &round.samples)
        .all(|samples| matches!(samples.raw, Raw::Batch { k: 0, .. }));
    if are_blocks && samples.len() >= LEAST_BLOCKS {
        // Neighbours are joined: fewer, longer blocks depend less on each other.
        let joined: Vec<f64> =
            samples.chunks(samples.len().div_ceil(MOST_BLOCKS)).filter_map(median).collect();
        let form = "interval from {} blocks of time, assumed independent (too few to test for \
                    correlation)";
        let note = Note::formed(form, [Number::count(joined.len())]);
        return (median(&joined), median_order(&joined), Some(note));
    }
    let note = "no interval: too few samples, or too much drift, for six independent blocks; raise \
                --budget or repeat the run";
    (None, None, Some(note.into()))
}

/// Attaches predictions, verdicts and the bound; a figure beyond its bound is failed.
pub fn settle_predictions(
    run: &Run,
    figure: &mut Figure,
    metric: &Metric,
    rounds: &[(RoundSamples, f64)],
) {
    let key = Key::new(&figure.experiment, &figure.case, &metric.name);
    let events =
        [PredictionKind::Prior, PredictionKind::Derived].map(|of| run.prediction(&key, of));
    for event in events.into_iter().flatten() {
        for (name, value) in &event.at {
            figure.at.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    let [prior, derived] = events.map(|event| event.map(|event| event.prediction.clone()));
    let bound = [&prior, &derived]
        .into_iter()
        .flatten()
        .find_map(|prediction| prediction.bound.as_ref())
        .map(|rule| bound::check(rule, rounds));
    let impossible = bound.as_ref().is_some_and(BoundCheck::is_impossible);
    let (value, ci) = (figure.value, figure.ci);
    let shared = figure.shared.filter(|_| figure.condition == Some(Condition::AsFound));
    let judged = |prediction: Prediction| {
        let range = prediction.range.filter(|range| range.predicts(metric.unit));
        let beside = range.and_then(|range| expectation(range, metric, shared?));
        let verdict = match (value, ci, range) {
            (Some(_), ..) if impossible => Some(Verdict::Impossible),
            (Some(_), _, None) => Some(Verdict::Unpredicted),
            (Some(_), Some(ci), Some(range)) => {
                Some(judge(ci, &beside.unwrap_or(range), metric.unit, metric.better))
            }
            _ => None,
        };
        let bound = prediction.bound.as_ref().and(bound.as_ref()).and_then(|check| check.value);
        Judged { prediction, beside, bound, verdict }
    };
    figure.prior = prior.map(judged);
    figure.derived = derived.map(judged);
    figure.ratio = figure.over_estimate();
    if let Some(check) = bound.as_ref().filter(|check| check.is_impossible()) {
        figure.outcome = Ending::Failed;
        figure.reason = Some(notes::beyond(check, metric.unit).text);
    }
    figure.bound = bound;
}

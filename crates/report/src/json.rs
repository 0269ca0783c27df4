//! The flat result: every figure with its key, value, interval and prediction (docs/FORMAT.md).
//! Values stay in base units.

mod crosscheck;

use analysis::causes;
use analysis::figure::{Basis, Condition as Sampled, Figure, Interval, Judged, Stats};
use analysis::figures;
use analysis::findings::{Finding, findings};
use analysis::keys;
use analysis::misses::{self, Miss};
use analysis::score::{Score as Scored, Tally as Tallied, score};
use crosscheck::FlatRival;
use record::event::{
    Bound, Calibration, Condition, Ending, PeerHeader, PredictionKind, Shares, Trace,
};
use record::key::{CaseId, Key, Value};
use record::metric::{Better, Kind};
use record::order::Gather;
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// Misses that are listed of each kind of prediction.
const MISSES: usize = 10;

/// Version of this shape: since 2 a value may be of a core alone (`condition`).
const RESULT: u32 = 3;

/// The flat result of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: the flat result of a run"))]
pub struct FlatResult {
    /// Version of this shape.
    format: u32,
    /// Version of plumb that measured.
    plumb: String,
    /// Name of the run.
    run: String,
    /// The machine.
    host: serde_json::Value,
    /// The environment by name.
    environment: BTreeMap<String, String>,
    /// The clocks.
    calibration: Calibration,
    /// Far ends on other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    peers: Vec<PeerHeader>,
    /// Every figure, and every absent experiment or case with its reason.
    pub figures: Vec<FlatFigure>,
    /// Rows over time.
    traces: Vec<Trace>,
    /// Comparisons with other tools; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(default))]
    crosscheck: Vec<FlatRival>,
    /// What to look at, errors first.
    pub findings: Vec<Finding>,
    /// The score of the predictions.
    score: FlatScore,
}

/// One figure; all quantities in `unit`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlatFigure {
    /// Experiment id.
    experiment: String,
    /// Symbolic parameters.
    pub case: CaseId,
    /// What they resolved to.
    at: BTreeMap<String, Value>,
    /// Its name in the summary, if it is a key figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// How it ended. A value beyond its bound is `failed`, with the value still given.
    outcome: Ending,
    /// Why it was skipped or failed; why no further rounds were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What would help a skipped one.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<String>,
    /// All that a metric has; absent where a whole case or experiment is.
    #[serde(flatten)]
    measured: Option<FlatMetric>,
    /// Caveats.
    notes: Vec<String>,
}

/// What is said of a metric.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatMetric {
    /// Metric name.
    metric: String,
    /// Unit of all quantities of this figure.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// Class.
    kind: Kind,
    /// From the hardware description.
    prediction: Option<FlatPrediction>,
    /// Its verdict: `within`, `faster than predicted`, `slower than predicted`, `above prediction`,
    /// `below prediction`, `impossible`, `not predictable from here` (the range is wider than a factor
    /// of 10, or there is none: a miss); null without a value.
    verdict: Option<String>,
    /// From earlier figures of the run.
    derived_prediction: Option<FlatPrediction>,
    /// Its verdict.
    derived_verdict: Option<String>,
    /// The estimate.
    value: Option<f64>,
    /// Its interval.
    ci: Option<(f64, f64)>,
    /// Actual confidence of the interval.
    confidence: Option<f64>,
    /// The scope of the interval: `rounds`, `within-run` or `resamples`.
    interval: Interval,
    /// The samples behind `value`, if they were probed: `alone`, with an exclusive core, or
    /// `as_found`, all samples.
    condition: Option<Sampled>,
    /// The same from all samples, if `value` is for an exclusive core.
    as_found: Option<FlatEstimate>,
    /// Share of the classified samples in which others used the core.
    shared: Option<f64>,
    /// The samples that `value` uses, where `condition` is `alone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone: Option<FlatBasis>,
    /// The value in core cycles; null for figures that are not times or have no known core clock.
    cycles: Option<f64>,
    /// The distribution; null for derived figures.
    stats: Option<Stats>,
}

/// Samples of a core alone.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatBasis {
    /// Rounds that have some.
    rounds: usize,
    /// Their number.
    samples: usize,
    /// Stretches: consecutive ones of one visit.
    stretches: usize,
}

/// An estimate of the same figure from other samples.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatEstimate {
    /// The value.
    value: f64,
    /// Its interval.
    ci: Option<(f64, f64)>,
    /// Actual confidence of the interval.
    confidence: Option<f64>,
    /// Rounds that the value uses.
    used: usize,
}

/// A prediction; without `low`, `likely`, `high` if it has no range.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatPrediction {
    /// Lower end.
    low: Option<f64>,
    /// Best single guess.
    likely: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// What was to be expected beside the neighbour that used the core meanwhile: the verdict is by
    /// this range. Null for a figure of a core alone.
    beside: Option<record::event::Range>,
    /// The reason, with its inputs.
    because: String,
    /// The shares of base hardware and software; null if they cannot be separated.
    shares: Option<Shares>,
    /// Properties of the machine that it accounts for.
    conditions: Vec<Condition>,
    /// Whether a number in it is from a table for which no source was looked up.
    unsourced: bool,
    /// The bound as evaluated: median over the rounds.
    bound: Option<f64>,
    /// The bound's rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_rule: Option<Bound>,
}

/// Both scores.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatScore {
    /// Of predictions from the hardware description.
    prior: FlatKindScore,
    /// Of predictions from earlier figures.
    derived: FlatKindScore,
}

/// The score of one kind of prediction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatKindScore {
    /// Over all figures.
    #[serde(flatten)]
    all: FlatTally,
    /// By family.
    by_family: BTreeMap<String, FlatTally>,
    /// The largest misses, each with what may explain it.
    #[cfg_attr(test, schemars(default))]
    misses: Vec<FlatMiss>,
}

/// A figure that missed its prediction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatMiss {
    /// Experiment id.
    experiment: String,
    /// Symbolic parameters.
    case: CaseId,
    /// Metric name.
    metric: String,
    /// Its verdict.
    verdict: String,
    /// The factor between the value and the nearer end of the range; null without one.
    factor: Option<f64>,
    /// Names of the recorded conditions that may explain it: mitigations, steal, throttling …
    causes: Vec<String>,
    /// Those of them that the prediction counted in, with less than they cost here.
    counted_in: Vec<Condition>,
}

/// The score of a group of predictions.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlatTally {
    /// Figures with a value and a prediction.
    figures: usize,
    /// Share of them inside a predicted interval; unpredicted ones are misses.
    inside: Option<f64>,
    /// The same by what was to be expected beside a neighbour on the core, for figures as found.
    expected: Option<f64>,
    /// Median of high over low.
    median_width: Option<f64>,
    /// Figures without a predicted interval, or with one that is wider than a factor of 10.
    unpredicted: usize,
    /// Median of measured over likely.
    bias: Option<f64>,
    /// Mean interval score: the logarithm of high over low, and 20 times that of the factor by which
    /// the value misses. Smaller is better.
    interval_score: Option<f64>,
    /// The same of the whole range that the family spans on recorded machines.
    naive_score: Option<f64>,
    /// The second over the first.
    times_narrower: Option<f64>,
}

/// The flat result as JSON.
pub fn flat(run: &Run) -> FlatResult {
    let figures = figures(run);
    FlatResult {
        format: RESULT,
        plumb: run.header.plumb.clone(),
        run: run.header.run.clone(),
        host: run.header.host.clone(),
        environment: run.header.environment.clone(),
        calibration: run.header.calibration.clone(),
        peers: run.header.peers.clone(),
        findings: findings(run, &figures),
        score: FlatScore {
            prior: of_score(run, &figures, PredictionKind::Prior),
            derived: of_score(run, &figures, PredictionKind::Derived),
        },
        figures: keyed(run, figures),
        traces: run.traces.clone(),
        crosscheck: crosscheck::flat(run),
    }
}

/// The flat result as indented text, ending in a newline.
pub fn render(run: &Run) -> String {
    indented(&flat(run))
}

/// A flat shape as indented text, ending in a newline.
pub(super) fn indented(flat: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(flat)
        .expect("its keys are strings and it holds no foreign serialisers");
    record::plain::json(&format!("{text}\n"))
}

/// The JSON Schema of the flat result, which a test makes from its types (UPDATE_GOLDENS=1).
pub fn schema_text() -> String {
    crate::unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/result.schema.gz")))
}

/// The same from the types themselves.
#[cfg(test)]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(FlatResult).to_value()
}

/// The figures, those of the summary with their names there.
fn keyed(run: &Run, figures: Vec<Figure>) -> Vec<FlatFigure> {
    let lines = keys::lines(run, &figures);
    let shown = lines.iter().flat_map(|line| {
        line.figures.iter().map(|(name, figure)| (figure.key(), line.title_of(name)))
    });
    let names: BTreeMap<Option<Key>, String> = shown.gather();
    figures
        .into_iter()
        .map(|figure| {
            let key = figure.metric.as_ref().and_then(|_| names.get(&figure.key()).cloned());
            FlatFigure { key, ..of_figure(figure) }
        })
        .collect()
}

fn of_figure(figure: Figure) -> FlatFigure {
    let bound = figure.bound.as_ref().and_then(|check| check.value);
    let verdict = |judged: &Option<Judged>| {
        let verdict = judged.as_ref()?.verdict?;
        Some(verdict.text().to_owned())
    };
    let (prior_verdict, derived_verdict) = (verdict(&figure.prior), verdict(&figure.derived));
    let measured = figure.metric.map(|metric| FlatMetric {
        metric: metric.name.into_owned(),
        unit: metric.unit,
        better: metric.better,
        kind: metric.kind,
        prediction: figure.prior.map(|judged| of_prediction(judged, bound)),
        verdict: prior_verdict,
        derived_prediction: figure.derived.map(|judged| of_prediction(judged, bound)),
        derived_verdict,
        value: figure.value,
        ci: figure.ci,
        confidence: figure.confidence,
        interval: figure.interval,
        condition: figure.condition,
        as_found: figure.as_found.and_then(|found| {
            Some(FlatEstimate {
                value: found.value?,
                ci: found.ci,
                confidence: found.confidence,
                used: found.used(),
            })
        }),
        shared: figure.shared,
        alone: figure.alone.map(|Basis { rounds, samples, stretches }| FlatBasis {
            rounds,
            samples,
            stretches,
        }),
        cycles: figure.cycles,
        stats: figure.stats,
    });
    FlatFigure {
        experiment: figure.experiment,
        case: figure.case,
        at: figure.at,
        key: None,
        outcome: figure.outcome,
        reason: figure.reason,
        needed: figure.needed,
        measured,
        notes: figure.notes.texts(),
    }
}

fn of_prediction(judged: Judged, bound: Option<f64>) -> FlatPrediction {
    let range = judged.prediction.range;
    FlatPrediction {
        low: range.map(|range| range.low),
        likely: range.map(|range| range.likely),
        high: range.map(|range| range.high),
        beside: judged.beside,
        because: judged.prediction.because,
        shares: judged.prediction.shares,
        conditions: judged.prediction.conditions,
        unsourced: judged.prediction.unsourced,
        bound: bound.filter(|_| judged.prediction.bound.is_some()),
        bound_rule: judged.prediction.bound,
    }
}

fn of_score(run: &Run, figures: &[Figure], of: PredictionKind) -> FlatKindScore {
    let Scored { all, by_family } = score(figures, of);
    let families = by_family.into_iter();
    FlatKindScore {
        all: of_tally(all),
        by_family: families.map(|(family, tally)| (family, of_tally(tally))).collect(),
        misses: misses::worst_of(figures, of, MISSES)
            .iter()
            .map(|miss| of_miss(run, miss))
            .collect(),
    }
}

fn of_miss(run: &Run, miss: &Miss) -> FlatMiss {
    let conditions = miss.figure.prior.iter().flat_map(|judged| &judged.prediction.conditions);
    let is_published = run.header.is_published() || !miss.is_certain;
    let causes = if is_published { Vec::new() } else { causes::candidates(run, &[miss]) };
    FlatMiss {
        experiment: miss.figure.experiment.clone(),
        case: miss.figure.case.clone(),
        metric: miss.figure.metric_name().to_owned(),
        verdict: miss.verdict.text().to_owned(),
        factor: miss.factor,
        causes: causes.iter().map(|cause| cause.name.to_owned()).collect(),
        counted_in: conditions
            .filter(|of| causes.iter().any(|cause| cause.counted_as == Some(**of)))
            .copied()
            .collect(),
    }
}

fn of_tally(tally: Tallied) -> FlatTally {
    FlatTally {
        figures: tally.figures,
        inside: tally.inside_share(),
        expected: tally.share(tally.expected),
        median_width: tally.median_width,
        unpredicted: tally.unpredicted,
        bias: tally.bias,
        interval_score: tally.score,
        naive_score: tally.nothing,
        times_narrower: tally.narrower(),
    }
}

//! The flat result: every figure with its key, value, interval and prediction (docs/FORMAT.md).
//! Values stay in base units.

mod crosscheck;

use analysis::causes;
use analysis::figure::Figure;
use analysis::figures;
use analysis::findings::{Finding, findings};
use analysis::misses::{self, Miss};
use analysis::score::{Score as Scored, Tally as Tallied, score};
use crosscheck::FlatRival;
use record::event::{Calibration, Condition, PeerHeader, PredictionKind, Trace};
use record::key::CaseId;
use record::run::Run;
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
    pub figures: Vec<Figure>,
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
        figures,
        traces: run.traces.clone(),
        crosscheck: crosscheck::flat(run),
    }
}

pub fn render(run: &Run) -> String {
    indented(&flat(run))
}

pub(super) fn indented(flat: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(flat)
        .expect("its keys are strings and it holds no foreign serialisers");
    record::plain::json(&format!("{text}\n"))
}

/// The JSON Schema of the flat result, which a test makes from its types (UPDATE_GOLDENS=1).
pub fn schema_text() -> String {
    crate::unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/result.schema.gz")))
}

#[cfg(test)]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(FlatResult).to_value()
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

//! A comparison as JSON (docs/FORMAT.md). Values stay in base units.

use analysis::compare::answer::{Doubt, Effect, Level};
use analysis::compare::conditions::{About, Condition, about};
use analysis::compare::{Against, Compared, Comparison, Direction, Incomparable, Near, Outcome};
use analysis::figure::{Figure, Interval};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// A comparison of runs with the first of them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "plumb: a comparison of runs"))]
pub struct FlatComparison {
    /// Version of this shape.
    format: u32,
    /// The base run.
    pub(super) base: About,
    /// Whether any figure of any run is a finding.
    finding: bool,
    /// The other runs, in the given order.
    pub(super) against: Vec<FlatAgainst>,
}

/// One run compared with the base.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatAgainst {
    /// The run.
    pub(super) new: About,
    /// Whether both runs are of the same machine.
    same_machine: bool,
    /// Number of tested figures, used in the correction.
    tested: usize,
    /// Figures that differ.
    findings: usize,
    /// The findings as effects, the greatest first: those of one experiment in one direction are one.
    effects: Vec<FlatEffect>,
    /// How far to trust them.
    confidence: Level,
    /// Reasons for a lower confidence.
    doubts: Vec<String>,
    /// Least |ratio - 1| that half of the tested figures show, by kind.
    least_seen: Vec<(Kind, f64)>,
    /// Differences in the conditions.
    conditions: Vec<Condition>,
    /// Figures that both runs have.
    pub(super) figures: Vec<FlatCompared>,
    /// Figures of a published machine beside the nearest ones of the other run, which are not the
    /// same measurement.
    pub(super) nearest: Vec<FlatNear>,
    /// Figures of only one run, or figures that are not comparable.
    pub(super) incomparable: Vec<FlatIncomparable>,
}

/// Findings of one experiment in one direction.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatEffect {
    /// Experiment id.
    experiment: String,
    /// Its direction.
    direction: Direction,
    /// How many findings.
    figures: usize,
    /// Least and greatest factor, both at least 1.
    factors: (f64, f64),
    /// Widest interval of new over base.
    ci: Option<(f64, f64)>,
}

/// One figure in both runs; values in `unit`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatCompared {
    /// Experiment id.
    experiment: String,
    /// Symbolic parameters.
    pub(super) case: CaseId,
    /// Metric name.
    metric: String,
    /// Unit of base, new and difference.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// Class.
    kind: Kind,
    /// In the base run.
    pub(super) base: FlatSide,
    /// In the new run.
    pub(super) new: FlatSide,
    /// New over base; null if a value or an end of its interval is not positive.
    ratio: Option<f64>,
    /// New less base if there is no ratio.
    difference: Option<f64>,
    /// Interval of the ratio, the between-run variance included, or of the difference.
    ci: Option<(f64, f64)>,
    /// Two-sided p before any correction; null without a test.
    p: Option<f64>,
    /// Whether `ratio` is of cycles: a figure of the core whose clocks differ.
    in_cycles: bool,
    /// The difference between two runs of an unchanged machine.
    band: FlatBand,
    /// `finding`, `quiet` or `untested`.
    outcome: String,
    /// Of a finding: `worse`, `better`, `up` or `down`.
    direction: Option<Direction>,
    /// Why it was not tested.
    why: Option<String>,
    /// The recorded differences around a finding.
    beside: Vec<String>,
}

/// A figure in one run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatSide {
    /// The estimate.
    value: Option<f64>,
    /// Its interval.
    ci: Option<(f64, f64)>,
    /// The scope of the interval: `rounds`, `within-run` or `resamples`.
    interval: Interval,
    /// Rounds that the value uses; null for derived figures.
    rounds: Option<usize>,
    /// Disturbed rounds, by counters; null for derived figures.
    disturbed: Option<usize>,
    /// The value in core cycles.
    cycles: Option<f64>,
    /// What the case's symbols resolved to.
    at: BTreeMap<String, Value>,
}

/// The smallest change that is a finding.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatBand {
    /// Least |ratio - 1|.
    share: f64,
    /// Where it is from.
    source: String,
    /// Number of stored runs behind it; 0 for a default.
    stored_runs: usize,
    /// Standard deviation of log values between runs, which also widens interval and test.
    between_deviation: f64,
}

/// A figure of a published machine and the nearest one of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatNear {
    /// Experiment id of the published figure.
    experiment: String,
    /// Its symbolic parameters.
    pub(super) case: CaseId,
    /// Its metric's name.
    metric: String,
    /// Its key: the three together.
    published: String,
    /// Its value as printed.
    printed: String,
    /// The same in the figure's unit.
    published_value: Option<f64>,
    /// Key of the nearest figure.
    nearest: String,
    /// Its value.
    value: Option<f64>,
    /// Unit of both values.
    unit: Unit,
    /// How the report's method differs, as a clause about the printed figure.
    differs: String,
    /// Where that moves the printed figure: `up`, `down` or `either way`.
    moves: String,
}

/// A figure that cannot be compared.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FlatIncomparable {
    /// Experiment id.
    experiment: String,
    /// Symbolic parameters.
    pub(super) case: CaseId,
    /// Metric name.
    metric: String,
    /// Why.
    why: String,
}

/// Version of this shape: since 2 figures are compared in the condition that both runs have.
const COMPARISON: u32 = 2;

pub fn flat(comparison: &Comparison) -> FlatComparison {
    FlatComparison {
        format: COMPARISON,
        base: about(comparison.base.run),
        finding: comparison.has_finding(),
        against: comparison.against.iter().map(|one| of_against(comparison, one)).collect(),
    }
}

pub fn render(comparison: &Comparison) -> String {
    super::json::indented(&flat(comparison))
}

/// The JSON Schema of a comparison, which a test makes from its types (UPDATE_GOLDENS=1).
pub fn schema_text() -> String {
    crate::unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/comparison.schema.gz")))
}

#[cfg(test)]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(FlatComparison).to_value()
}

fn of_against(comparison: &Comparison, against: &Against) -> FlatAgainst {
    let effect = |effect: Effect| FlatEffect {
        experiment: effect.greatest().base.experiment.clone(),
        direction: effect.direction,
        figures: effect.figures.len(),
        factors: effect.factors(),
        ci: effect.interval(),
    };
    let confidence = against.confidence(comparison.base.run);
    FlatAgainst {
        new: about(against.new.run),
        same_machine: against.same_machine,
        tested: against.tested(),
        findings: against.findings().len(),
        effects: against.effects().into_iter().map(effect).collect(),
        confidence: confidence.level,
        doubts: confidence.doubts.iter().map(Doubt::text).collect(),
        least_seen: against.least_seen(),
        conditions: against.conditions.clone(),
        figures: against.figures.iter().map(of_figure).collect(),
        nearest: against.nearest.iter().map(of_near).collect(),
        incomparable: against.incomparable.iter().map(of_incomparable).collect(),
    }
}

fn of_figure(one: &Compared) -> FlatCompared {
    let (outcome, direction, why) = match one.outcome {
        Outcome::Finding(direction) => ("finding", Some(direction), None),
        Outcome::Quiet => ("quiet", None, None),
        Outcome::Untested(why) => ("untested", None, Some(why.text().to_owned())),
    };
    FlatCompared {
        experiment: one.base.experiment.clone(),
        case: one.base.case.clone(),
        metric: one.metric.name.to_string(),
        unit: one.metric.unit,
        better: one.metric.better,
        kind: one.metric.kind,
        base: of_side(one.base),
        new: of_side(one.new),
        ratio: one.ratio(),
        difference: one.difference(),
        ci: one.interval(),
        p: one.p,
        in_cycles: one.in_cycles,
        band: FlatBand {
            share: one.band.share,
            source: one.band.source.text(),
            stored_runs: one.band.between.runs,
            between_deviation: one.band.between.variance.sqrt(),
        },
        outcome: outcome.to_owned(),
        direction,
        why,
        beside: one.reasons.clone(),
    }
}

fn of_side(figure: &Figure) -> FlatSide {
    let stats = figure.stats.as_ref();
    FlatSide {
        value: figure.value,
        ci: figure.ci,
        interval: figure.interval,
        rounds: stats.map(|stats| stats.used),
        disturbed: stats.map(|stats| stats.disturbed),
        cycles: figure.cycles,
        at: figure.at.clone(),
    }
}

fn of_near(one: &Near) -> FlatNear {
    FlatNear {
        experiment: one.published.experiment.clone(),
        case: one.published.case.clone(),
        metric: one.published.metric_name().to_owned(),
        published: one.published.label(),
        printed: one.printed().to_owned(),
        published_value: one.published.value,
        nearest: one.figure.label(),
        value: one.figure.value,
        unit: one.figure.unit(),
        differs: one.differs().to_owned(),
        moves: one.moves().to_owned(),
    }
}

fn of_incomparable(one: &Incomparable) -> FlatIncomparable {
    let figure = one.figure;
    FlatIncomparable {
        experiment: figure.experiment.clone(),
        case: figure.case.clone(),
        metric: figure.metric_name().to_owned(),
        why: one.why.text(),
    }
}

//! Members of a serialised figure that differ from its fields.

use super::{Figure, Judged};
use record::event::{Bound, Condition, Prediction, Shares};
use record::metric::{Better, Kind, Metric};
use record::note::Notes;
use record::unit::Unit;
use serde::{Serialize, Serializer};

/// What is known of the metric.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct OfMetric<'figure> {
    /// Metric name.
    metric: &'figure str,
    /// Unit of all quantities of this figure.
    unit: Unit,
    /// Direction of improvement.
    better: Better,
    /// Class.
    kind: Kind,
}

pub(super) fn as_metric<S: Serializer>(of: &Option<Metric>, to: S) -> Result<S::Ok, S::Error> {
    let metric = of.as_ref().map(|of| OfMetric {
        metric: &of.name,
        unit: of.unit,
        better: of.better,
        kind: of.kind,
    });
    metric.serialize(to)
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Prior<'figure> {
    /// From the hardware description.
    prediction: &'figure Option<Judged>,
    /// Its verdict: `within`, `faster than predicted`, `slower than predicted`, `above prediction`,
    /// `below prediction`, `impossible`, `not predictable from here` (the range is wider than a factor
    /// of 10, or the range is missing: a miss); null without a value.
    verdict: Option<&'static str>,
}

pub(super) fn prior<S: Serializer>(of: &Option<Judged>, to: S) -> Result<S::Ok, S::Error> {
    Prior { prediction: of, verdict: verdict(of) }.serialize(to)
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Derived<'figure> {
    /// From earlier figures of the run.
    derived_prediction: &'figure Option<Judged>,
    /// Its verdict.
    derived_verdict: Option<&'static str>,
}

pub(super) fn derived<S: Serializer>(of: &Option<Judged>, to: S) -> Result<S::Ok, S::Error> {
    Derived { derived_prediction: of, derived_verdict: verdict(of) }.serialize(to)
}

fn verdict(of: &Option<Judged>) -> Option<&'static str> {
    of.as_ref()?.verdict.map(|verdict| verdict.text())
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Predicted<'figure> {
    /// Lower end.
    low: Option<f64>,
    /// Best single guess.
    likely: Option<f64>,
    /// Upper end.
    high: Option<f64>,
    /// The reason, with its inputs.
    because: &'figure str,
    /// The shares of base hardware and software; null if they cannot be separated.
    shares: &'figure Option<Shares>,
    /// Properties of the machine that it accounts for.
    conditions: &'figure [Condition],
    /// Whether a number in it is from a table for which no source was looked up.
    unsourced: bool,
    /// The bound's rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_rule: &'figure Option<Bound>,
}

pub(super) fn prediction<S: Serializer>(of: &Prediction, to: S) -> Result<S::Ok, S::Error> {
    Predicted {
        low: of.range.map(|range| range.low),
        likely: of.range.map(|range| range.likely),
        high: of.range.map(|range| range.high),
        because: &of.because,
        shares: &of.shares,
        conditions: &of.conditions,
        unsourced: of.unsourced,
        bound_rule: &of.bound,
    }
    .serialize(to)
}

/// An estimate of the same figure from other samples.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Estimate {
    /// The value.
    value: f64,
    /// Its interval.
    ci: Option<(f64, f64)>,
    /// Actual confidence of the interval.
    confidence: Option<f64>,
    /// Rounds that the value uses.
    used: usize,
}

pub(super) fn estimate<S: Serializer>(of: &Option<Box<Figure>>, to: S) -> Result<S::Ok, S::Error> {
    let value = of.as_ref().and_then(|of| Some((of, of.value?)));
    let estimate = value.map(|(of, value)| Estimate {
        value,
        ci: of.ci,
        confidence: of.confidence,
        used: of.used(),
    });
    estimate.serialize(to)
}

pub(super) fn texts<S: Serializer>(of: &Notes, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(of.iter().map(|note| &note.text))
}

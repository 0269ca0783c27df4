//! A figure: a metric's value of one case with everything that must be shown beside it. Serialised
//! it is a figure of the flat result (docs/FORMAT.md).

mod members;

use super::bound::BoundCheck;
use super::distribution::Density;
use super::verdict::{OVERLAPS, Verdict};
use members::{as_metric, derived, estimate, prior};
use record::event::{Ending, Prediction, PredictionKind, Range};
use record::key::{CaseId, Key, Value};
use record::metric::Metric;
use record::note::Notes;
use record::unit::Unit;
use serde::Serialize;
pub use stats::alone::Basis;
use std::collections::BTreeMap;

/// One case's metric, or a case or experiment that has no figure and why. All quantities are in
/// the metric's unit unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FlatFigure"))]
pub struct Figure {
    /// Experiment id.
    pub experiment: String,
    /// Symbolic parameters; empty for an absent experiment and for an experiment's only case.
    pub case: CaseId,
    /// What they resolved to.
    pub at: BTreeMap<String, Value>,
    /// Its name in the summary, if it is a key figure.
    #[serde(rename = "key", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How it ended. A value beyond its bound is `failed`, with the value still given.
    pub outcome: Ending,
    /// Why it was skipped or failed; why no further rounds were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What would help a skipped one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<String>,
    /// The metric; `None` where a whole case or experiment is absent.
    #[serde(flatten, serialize_with = "as_metric")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<members::OfMetric>"))]
    pub metric: Option<Metric>,
    /// Prediction from the hardware description.
    #[serde(flatten, serialize_with = "prior")]
    #[cfg_attr(feature = "schema", schemars(with = "members::Prior"))]
    pub prior: Option<Judged>,
    /// Prediction from earlier figures of the run.
    #[serde(flatten, serialize_with = "derived")]
    #[cfg_attr(feature = "schema", schemars(with = "members::Derived"))]
    pub derived: Option<Judged>,
    /// The bound of either prediction, evaluated per round.
    #[serde(skip)]
    pub bound: Option<BoundCheck>,
    /// The estimate.
    pub value: Option<f64>,
    /// Its interval.
    pub ci: Option<(f64, f64)>,
    /// Actual confidence of the interval, 0..1.
    pub confidence: Option<f64>,
    /// The scope of the interval: `rounds`, `within-run` or `resamples`.
    pub interval: Interval,
    /// `value` over the best guess of the prediction before the run, else of that from earlier
    /// figures; null where either is not positive.
    pub ratio: Option<f64>,
    /// The samples behind `value`, if they were probed: `alone`, with an exclusive core, or
    /// `as_found`, all samples.
    pub condition: Option<Condition>,
    /// The same from all samples, if `value` is for an exclusive core.
    #[serde(serialize_with = "estimate")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<members::Estimate>"))]
    pub as_found: Option<Box<Figure>>,
    /// Share of the classified samples in which others used the core.
    pub shared: Option<f64>,
    /// The samples that `value` uses, where `condition` is `alone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<Basis>,
    /// The value in core cycles; null for figures that are not times or have no known core clock.
    pub cycles: Option<f64>,
    /// Why a time has no value in cycles.
    #[serde(skip)]
    pub no_cycles: Option<String>,
    /// The distribution; null for derived figures.
    pub stats: Option<Stats>,
    /// Round by round; empty for derived figures.
    #[serde(skip)]
    pub rounds: Vec<RoundPoint>,
    /// Caveats.
    #[serde(serialize_with = "members::texts")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub notes: Notes,
}

/// Whether an estimate uses only samples with an exclusive core (METHOD §2a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// No other program did.
    Alone,
    /// All samples.
    AsFound,
}

/// The scope of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// Fresh repetitions: exact order statistics of round values.
    Rounds,
    /// Blocks of one repetition (`Once`, `Sweep`): says nothing about a second one.
    WithinRun,
    /// Resamples of the rounds of several cases (derived figures).
    Resamples,
}

/// A prediction and what became of it; without `low`, `likely` and `high` if it has no range.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FlatPrediction"))]
pub struct Judged {
    /// The prediction.
    #[serde(flatten, serialize_with = "members::prediction")]
    #[cfg_attr(feature = "schema", schemars(with = "members::Predicted"))]
    pub prediction: Prediction,
    /// What was to be expected beside the neighbour that used the core meanwhile: the verdict is by
    /// this range, the score by the predicted one. Null for a figure of a core alone.
    pub beside: Option<Range>,
    /// The bound as evaluated: median over the rounds.
    pub bound: Option<f64>,
    /// `None` without a range or without a value.
    #[serde(skip)]
    pub verdict: Option<Verdict>,
}

impl Judged {
    pub fn range(&self) -> Option<Range> {
        self.beside.or(self.prediction.range)
    }

    /// The verdict as people read it beside the printed value.
    pub fn shown_verdict(&self, value: Option<f64>) -> Option<&'static str> {
        let verdict = self.verdict?;
        let is_outside = |range: Range| value.is_some_and(|value| !range.holds(value));
        match verdict {
            Verdict::Within if self.range().is_some_and(is_outside) => Some(OVERLAPS),
            verdict => Some(verdict.text()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundPoint {
    pub n: u32,
    pub segment: u32,
    /// Median of the round's samples.
    pub value: f64,
    pub disturbed: bool,
    /// The same in cycles; `None` for what is no time, and without a clock.
    pub cycles: Option<f64>,
    /// Core clock at its samples, in Hz.
    pub core_hz: Option<f64>,
}

/// The distribution of the samples in the rounds used, and the rounds' own summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stats {
    /// `event`, or `batch(k)`: minimum, maximum and percentiles are then per batch.
    #[serde(rename = "of")]
    pub sample_kind: String,
    /// Rounds that count.
    pub rounds: usize,
    /// Of these, disturbed.
    pub disturbed: usize,
    /// Rounds that the value uses.
    pub used: usize,
    /// Whether disturbed rounds had to be used.
    #[serde(skip)]
    pub used_disturbed: bool,
    /// Samples in the rounds used.
    pub samples: u64,
    /// Of these, events that never ended (lost, timed out): longer than all others, without a
    /// value.
    #[serde(skip_serializing_if = "is_none_of_them")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub censored: u64,
    /// Percentiles (`p50` … `max`) that lie among them: at least what stands there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub at_least: Vec<&'static str>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; null for one sample.
    pub stddev: Option<f64>,
    /// Least.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
    /// The quantiles [`LADDER`] that the samples are enough for, as many as there are.
    #[serde(skip)]
    pub ladder: Vec<f64>,
    /// How the samples lie.
    #[serde(skip)]
    pub density: Density,
    /// Samples beyond a modified z of 3.5.
    pub outliers: u64,
    /// Mean of the others.
    pub mean_without_outliers: Option<f64>,
    /// Number of modes, by the dip test.
    #[serde(serialize_with = "count")]
    #[cfg_attr(feature = "schema", schemars(with = "usize"))]
    pub modes: Vec<ModeShare>,
    /// The best round value; null if neither direction is better.
    pub best_round: Option<f64>,
    /// Median of all rounds.
    pub median_all: f64,
    /// Median of the undisturbed rounds.
    pub median_undisturbed: Option<f64>,
}

fn is_none_of_them(count: &u64) -> bool {
    *count == 0
}

fn count<S: serde::Serializer>(modes: &[ModeShare], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(modes.len() as u64)
}

/// The quantiles that a picture of a distribution goes through; the last is of 1,000 samples or
/// more.
pub const LADDER: [f64; 7] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999];

impl Stats {
    /// Whether the samples are single events whose spread is a result: round trips, wake-ups, reads.
    pub fn is_of_events(&self) -> bool {
        self.sample_kind == "event" && self.samples > 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModeShare {
    pub centre: f64,
    /// Share of the samples, 0..1.
    pub share: f64,
}

impl Figure {
    /// An experiment or case without any value.
    pub fn absent(experiment: &str, outcome: Ending, reason: String) -> Self {
        Figure {
            experiment: experiment.to_owned(),
            case: CaseId::new(),
            at: BTreeMap::new(),
            title: None,
            metric: None,
            outcome,
            reason: Some(reason),
            needed: None,
            prior: None,
            derived: None,
            bound: None,
            condition: None,
            as_found: None,
            alone: None,
            shared: None,
            value: None,
            ci: None,
            confidence: None,
            interval: Interval::Rounds,
            ratio: None,
            cycles: None,
            no_cycles: None,
            stats: None,
            rounds: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// The key; `None` for what has no metric.
    pub fn key(&self) -> Option<Key> {
        let metric = self.metric.as_ref()?;
        Some(Key::new(&self.experiment, &self.case, &metric.name))
    }

    /// The key by which earlier versions knew it, where that was another.
    pub fn former_key(&self) -> Option<Key> {
        let name = self.metric.as_ref()?.formerly.as_ref()?;
        Some(Key::new(&self.experiment, &self.case, name))
    }

    /// The key as text, else as much of it as there is.
    pub fn label(&self) -> String {
        match (self.key(), self.case.0.is_empty()) {
            (Some(key), _) => key.to_string(),
            (None, true) => self.experiment.clone(),
            (None, false) => format!("{}:{}", self.experiment, self.case),
        }
    }

    pub fn metric_name(&self) -> &str {
        self.metric.as_ref().map_or("", |metric| metric.name.as_ref())
    }

    /// The metric's unit; that of counts without one.
    pub fn unit(&self) -> Unit {
        self.metric.as_ref().map_or(Unit::Count, |metric| metric.unit)
    }

    /// The unit in which people read its values.
    pub fn shown_unit(&self) -> Unit {
        self.metric.as_ref().map_or(Unit::Count, Metric::shown_unit)
    }

    /// The first half of the experiment's id.
    pub fn family(&self) -> &str {
        self.experiment.split('.').next().unwrap_or_default()
    }

    /// Cycles of a figure of the core, which scales with its clock; `None` of others.
    pub fn core_cycles(&self) -> Option<f64> {
        self.cycles.filter(|_| matches!(self.family(), "clock" | "cpu"))
    }

    /// Rounds that the value uses.
    pub fn used(&self) -> usize {
        self.stats.as_ref().map_or(0, |stats| stats.used)
    }

    /// The figure in the condition that another one of the same key has too: both as found, unless
    /// both are of a core alone and have an interval.
    pub fn comparable_with(&self, other: &Figure) -> &Figure {
        let is_found = |figure: &Figure| figure.condition != Some(Condition::Alone);
        let lacks_interval = self.ci.is_none() || other.ci.is_none();
        match &self.as_found {
            Some(found) if is_found(other) || lacks_interval => found,
            _ => self,
        }
    }

    pub fn half_width(&self) -> Option<f64> {
        self.ci.map(|(low, high)| (high - low) / 2.0)
    }

    /// The range to show first, where it says something.
    pub fn shown_range(&self) -> Option<Range> {
        self.shown_prediction()?.prediction.says(self.unit())
    }

    /// The value over the best guess; `None` where either is not positive.
    pub fn over_estimate(&self) -> Option<f64> {
        let (value, likely) = (self.value?, self.shown_range()?.likely);
        (value > 0.0 && likely > 0.0).then(|| value / likely)
    }

    pub fn prediction(&self, of: PredictionKind) -> Option<&Judged> {
        match of {
            PredictionKind::Prior => self.prior.as_ref(),
            PredictionKind::Derived => self.derived.as_ref(),
        }
    }

    /// The prediction to show first: the prior, unless only the derived one states a range.
    pub fn shown_prediction(&self) -> Option<&Judged> {
        let says = |judged: &&Judged| judged.prediction.says(self.unit()).is_some();
        let both = || self.prior.iter().chain(&self.derived);
        both().find(says).or_else(|| both().next())
    }

    pub fn shown_kind(&self) -> PredictionKind {
        let is_prior = |shown| self.prior.as_ref().is_some_and(|prior| std::ptr::eq(prior, shown));
        match self.shown_prediction() {
            Some(shown) if !is_prior(shown) => PredictionKind::Derived,
            _ => PredictionKind::Prior,
        }
    }
}

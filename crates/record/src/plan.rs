//! What a run will measure, and how a report shows it.

use crate::case::Order;
use crate::key::{CaseId, Value};
use crate::key_figure::KeyFigure;
use crate::metric::Metric;
use crate::unit::Unit;
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most cases of a plan, all series together: a thorough run has some thousands.
const CASES_MAX: usize = 50_000;

/// Longest name of an experiment, a metric, a parameter or a series, in bytes: each of their figures
/// has a copy.
const NAME_BYTES_MAX: usize = 512;

/// Most experiments of a plan: there are some fifty.
const EXPERIMENTS_MAX: usize = 250;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub experiments: Vec<PlannedExperiment>,
    /// Stages: labels of series that have their first looks together, in dependency order.
    pub stages: Vec<Vec<String>>,
    /// Rounds after which intervals are looked at.
    pub looks: Vec<u32>,
    /// Expected measuring time, in seconds.
    pub eta_s: f64,
}

/// An experiment in the plan, with all that a report needs to show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedExperiment {
    /// Written like this: `family.file`.
    pub id: String,
    pub title: String,
    pub manual: String,
    pub metrics: Vec<Metric>,
    /// Names of the parameters that make up a case, in the card's order, with their docs.
    pub params: Vec<(String, String)>,
    /// Units of those parameters that are integers, for rendering.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// How a report shows it.
    pub view: View,
    /// Further views; files of before there were any have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
    /// Its figures in the summary of a run; files of before there were any have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyFigure>,
    /// How it is repeated.
    pub repeat: Repeat,
    /// Whether it may share a pass.
    pub isolation: Isolation,
    /// Experiments whose figures it uses.
    pub after: Vec<String>,
    /// Its series; empty if it is skipped.
    pub series: Vec<PlannedSeries>,
    /// Cases whose figures `derive` may yield.
    pub derived: Vec<CaseId>,
    /// Why it is not measured at all.
    pub skipped: Option<Absence>,
}

impl Plan {
    /// What makes it a plan that no plumb measures: too much of something, or the same twice. A small
    /// record of such a plan would need much memory wherever it is read.
    pub fn excess(&self) -> Option<String> {
        let series = || self.experiments.iter().flat_map(|planned| &planned.series);
        let cases: usize = series().map(|series| series.cases.len()).sum();
        if cases > CASES_MAX || self.experiments.len() > EXPERIMENTS_MAX {
            let experiments = self.experiments.len();
            return Some(format!(
                "{experiments} experiments and {cases} cases, where {EXPERIMENTS_MAX} and {CASES_MAX} are the most"
            ));
        }
        let own = self.experiments.iter().map(|planned| {
            let names = unlike(planned.metrics.iter().map(|metric| &*metric.name));
            names.or_else(|| unlike(planned.params.iter().map(|(name, _)| name.as_str())))
        });
        let lists = own.chain([unlike(self.experiments.iter().map(|planned| planned.id.as_str()))]);
        let of_series = self
            .experiments
            .iter()
            .map(|planned| unlike(planned.series.iter().map(|series| series.name.as_str())));
        lists.chain(of_series).flatten().next().or_else(|| {
            let twice = |series: &PlannedSeries| {
                series.cases.iter().collect::<BTreeSet<_>>().len() < series.cases.len()
            };
            let series = series().find(|series| twice(series))?;
            Some(format!("a case of series `{}` twice", series.name))
        })
    }
}

/// What is wrong with a list of names.
fn unlike<'name>(names: impl Iterator<Item = &'name str>) -> Option<String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.len() > NAME_BYTES_MAX {
            return Some(format!(
                "a name of {} bytes, where {NAME_BYTES_MAX} are the most",
                name.len()
            ));
        }
        if !seen.insert(name) {
            return Some(format!("`{name}` twice"));
        }
    }
    None
}

impl PlannedExperiment {
    /// Every view, the most telling first.
    pub fn all_views(&self) -> impl Iterator<Item = &View> {
        std::iter::once(&self.view).chain(&self.views)
    }
}

/// A series in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSeries {
    /// Name within the experiment.
    pub name: String,
    pub cases: Vec<CaseId>,
    /// Order of the cases.
    pub order: Order,
    pub settings: BTreeMap<String, Value>,
    /// Stated cost of one round, in seconds.
    pub round_cost_s: f64,
}

/// How an experiment is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Repeat {
    /// Fresh rounds until the precision goal, the looks or the budget end it.
    Rounds,
    /// One time; intervals come from its blocks.
    Once {
        /// How long it takes, in seconds.
        duration_s: f64,
    },
    /// One time through a growing parameter; intervals come from blocks.
    Sweep,
}

/// Whether a series may be interleaved with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In passes with the others.
    Shared,
    /// Last in its stage, never interleaved.
    Alone,
}

/// A reason for absence, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Absence {
    /// Why there is no figure.
    pub reason: String,
    /// What would be needed, where something would help.
    pub needed: Option<String>,
}

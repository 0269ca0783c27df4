//! What a run will measure, and how a report shows it.

use crate::case::Order;
use crate::key::{CaseId, Value};
use crate::key_figure::KeyFigure;
use crate::metric::Metric;
use crate::unit::Unit;
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run is going to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Experiments in catalogue order.
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
    /// `family.file`.
    pub id: String,
    /// Title.
    pub title: String,
    /// The manual (Markdown).
    pub manual: String,
    /// Metrics.
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
    /// Cases.
    pub cases: Vec<CaseId>,
    /// Order of the cases.
    pub order: Order,
    /// Settings.
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

//! How a report shows an experiment, as data in the plan.

use crate::key::CaseId;
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a report shows an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum View {
    /// A row per case.
    Table,
    /// A metric over a parameter, a line per rest of the case. Where a symbol of the parameter
    /// resolves to no number, the axis is one of names.
    Line {
        /// Parameter on the horizontal axis.
        over: String,
        /// Metric on the vertical axis.
        metric: String,
        /// Logarithmic horizontal axis.
        log_x: bool,
        /// Logarithmic vertical axis.
        log_y: bool,
        /// Further metrics over the same axis, each in a picture of its own below.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<String>,
        /// Derived metrics in the axis' unit that are drawn as vertical lines.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<String>,
        /// What places a case on the axis instead of the parameter's own number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Placed>,
        /// Cases and pictures.
        #[serde(default, skip_serializing_if = "Cases::is_all")]
        cases: Cases,
    },
    /// A metric over another of the same case, a line per rest of the case.
    Curve {
        /// Parameter that is stepped along a line.
        along: String,
        /// Metric on the horizontal axis.
        x: String,
        /// Metric on the vertical axis.
        y: String,
        /// Logarithmic horizontal axis.
        #[serde(default, skip_serializing_if = "is_false")]
        log_x: bool,
        /// Logarithmic vertical axis.
        #[serde(default, skip_serializing_if = "is_false")]
        log_y: bool,
        /// Cases and pictures.
        #[serde(default, skip_serializing_if = "Cases::is_all")]
        cases: Cases,
    },
    /// Rows by one parameter, columns by another.
    Matrix {
        /// Parameter of the rows.
        rows: String,
        /// Parameter of the columns.
        columns: String,
        /// Metric in the cells.
        metric: String,
        /// Cases and pictures.
        #[serde(default, skip_serializing_if = "Cases::is_all")]
        cases: Cases,
    },
    /// A trace over time.
    Timeline {
        /// `Trace::kind` to show: its second column over its first.
        trace: String,
        /// Further columns over the first, each in a picture of its own below.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<String>,
    },
    /// Stretches of time in lanes, and a table of what came one after another.
    Spans {
        /// `Trace::kind` of the picture: columns `start_ns`, `duration_ns` and a named one, a lane
        /// for each of its names.
        timeline: String,
        /// `Trace::kind` of the table.
        table: String,
        /// Metrics of a stretch's length: what was predicted of each has a lane.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<String>,
    },
    /// A bar per case.
    Bars {
        /// Metric as the bar's length.
        metric: String,
        /// Cases and pictures.
        #[serde(default, skip_serializing_if = "Cases::is_all")]
        cases: Cases,
    },
}

impl View {
    /// The metrics whose values it shows, what it is about first.
    pub fn metrics(&self) -> Vec<&str> {
        let metrics: Vec<&String> = match self {
            View::Line { metric, beside, .. } => std::iter::once(metric).chain(beside).collect(),
            View::Bars { metric, .. } | View::Matrix { metric, .. } => vec![metric],
            View::Curve { x, y, .. } => vec![y, x],
            View::Table | View::Timeline { .. } | View::Spans { .. } => Vec::new(),
        };
        metrics.into_iter().map(String::as_str).collect()
    }
}

/// A number that a case's symbols resolved to, as a place on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placed {
    /// Name in the case's `at` (`thread_count` of `threads=all`), else a metric of the case.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
}

/// Which cases a view shows, and how they are spread over pictures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cases {
    /// Values, as text, that a parameter must have; a case without the parameter counts too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Vec<String>>,
    /// Parameters of whose values each combination has a picture of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<String>,
}

impl Cases {
    /// Whether all cases stand in one picture.
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.each.is_empty()
    }

    pub fn shows(&self, case: &CaseId) -> bool {
        self.only.iter().all(|(name, values)| {
            case.get(name).is_none_or(|value| values.contains(&value.to_string()))
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

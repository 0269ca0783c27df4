//! How a report shows an experiment, as data in the plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a report shows an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum View {
    /// A row per case.
    Table,
    /// A metric over a numeric parameter, a line per rest of the case.
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
    },
    /// A metric over another of the same case, a line per rest of the case.
    Curve {
        /// Parameter that is stepped along a line.
        along: String,
        /// Metric on the horizontal axis.
        x: String,
        /// Metric on the vertical axis.
        y: String,
    },
    /// Rows by one parameter, columns by another.
    Matrix {
        /// Parameter of the rows.
        rows: String,
        /// Parameter of the columns.
        columns: String,
        /// Metric in the cells.
        metric: String,
    },
    /// A trace over time.
    Timeline {
        /// `Trace::kind` to show.
        trace: String,
    },
    /// Stretches of time in lanes, and a table of what came one after another.
    Spans {
        /// `Trace::kind` of the picture: columns `start_ns`, `duration_ns` and a named one, a lane
        /// for each of its names.
        timeline: String,
        /// `Trace::kind` of the table.
        table: String,
    },
    /// A bar per case.
    Bars {
        /// Metric as the bar's length.
        metric: String,
    },
}

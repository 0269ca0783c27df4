//! How a report shows an experiment, as its card says it.

use record::view::View;

/// [`View`] as static data.
#[derive(Clone, Copy, Debug)]
pub enum ViewCard {
    /// A row per case.
    Table,
    /// A metric over a numeric parameter.
    Line {
        /// Parameter on the horizontal axis.
        over: &'static str,
        /// Metric on the vertical axis.
        metric: &'static str,
        /// Logarithmic horizontal axis.
        log_x: bool,
        /// Logarithmic vertical axis.
        log_y: bool,
        /// Further metrics over the same axis, each in a picture of its own below.
        beside: &'static [&'static str],
    },
    /// A metric over another of the same case.
    Curve {
        /// Parameter that is stepped along a line.
        along: &'static str,
        /// Metric on the horizontal axis.
        x: &'static str,
        /// Metric on the vertical axis.
        y: &'static str,
    },
    /// Rows by one parameter, columns by another.
    Matrix {
        /// Parameter of the rows.
        rows: &'static str,
        /// Parameter of the columns.
        columns: &'static str,
        /// Metric in the cells.
        metric: &'static str,
    },
    /// A trace over time.
    Timeline {
        /// Kind of the trace.
        trace: &'static str,
    },
    /// Stretches of time in lanes, and a table of what came one after another.
    Spans {
        /// Kind of the trace in the picture: columns `start_ns`, `duration_ns` and a named one, a
        /// lane for each of its names.
        timeline: &'static str,
        /// Kind of the trace in the table.
        table: &'static str,
    },
    /// A bar per case.
    Bars {
        /// Metric as the length.
        metric: &'static str,
    },
}

impl ViewCard {
    /// The owned form for the plan.
    pub fn view(self) -> View {
        match self {
            ViewCard::Table => View::Table,
            ViewCard::Line {
                over,
                metric,
                log_x,
                log_y,
                beside,
            } => View::Line {
                over: over.to_owned(),
                metric: metric.to_owned(),
                log_x,
                log_y,
                beside: beside.iter().map(|metric| (*metric).to_owned()).collect(),
            },
            ViewCard::Curve { along, x, y } => View::Curve {
                along: along.to_owned(),
                x: x.to_owned(),
                y: y.to_owned(),
            },
            ViewCard::Matrix {
                rows,
                columns,
                metric,
            } => View::Matrix {
                rows: rows.to_owned(),
                columns: columns.to_owned(),
                metric: metric.to_owned(),
            },
            ViewCard::Timeline { trace } => View::Timeline {
                trace: trace.to_owned(),
            },
            ViewCard::Spans { timeline, table } => View::Spans {
                timeline: timeline.to_owned(),
                table: table.to_owned(),
            },
            ViewCard::Bars { metric } => View::Bars {
                metric: metric.to_owned(),
            },
        }
    }
}

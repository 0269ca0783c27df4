//! How a report shows an experiment, as its card says it.

use record::unit::Unit;
use record::view::{Cases, Placed, View};

/// A picture, or one for each value of some parameters: [`View`] as static data, built step by
/// step.
///
/// `ViewCard::line("block", "bandwidth").beside(&["latency"]).log().each(&["op", "pattern"])`
#[derive(Clone, Copy, Debug)]
pub struct ViewCard {
    shape: Shape,
    log_x: bool,
    log_y: bool,
    beside: &'static [&'static str],
    marks: &'static [&'static str],
    position: Option<(&'static str, Unit)>,
    only: &'static [(&'static str, &'static [&'static str])],
    each: &'static [&'static str],
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Line { over: &'static str, metric: &'static str },
    Curve { along: &'static str, x: &'static str, y: &'static str },
    Matrix { rows: &'static str, columns: &'static str, metric: &'static str },
    Timeline { trace: &'static str },
    Spans { timeline: &'static str, table: &'static str },
    Bars { metric: &'static str },
}

impl ViewCard {
    pub const fn line(over: &'static str, metric: &'static str) -> Self {
        Self::shaped(Shape::Line { over, metric })
    }

    /// Metric `y` over metric `x` of the same case; the parameter `along` is stepped along a line.
    pub const fn curve(along: &'static str, x: &'static str, y: &'static str) -> Self {
        Self::shaped(Shape::Curve { along, x, y })
    }

    pub const fn matrix(rows: &'static str, columns: &'static str, metric: &'static str) -> Self {
        Self::shaped(Shape::Matrix { rows, columns, metric })
    }

    /// A trace of this kind over time: its second column over its first.
    pub const fn timeline(trace: &'static str) -> Self {
        Self::shaped(Shape::Timeline { trace })
    }

    /// Stretches of time: the kind of the trace in the picture (columns `start_ns`, `duration_ns`
    /// and a named one, a lane for each of its names), and of that in the table.
    pub const fn spans(timeline: &'static str, table: &'static str) -> Self {
        Self::shaped(Shape::Spans { timeline, table })
    }

    pub const fn bars(metric: &'static str) -> Self {
        Self::shaped(Shape::Bars { metric })
    }

    /// The view with a logarithmic horizontal axis.
    #[must_use]
    pub const fn log_x(mut self) -> Self {
        self.log_x = true;
        self
    }

    /// With a logarithmic vertical axis. Not for bars: their lengths compare from zero.
    #[must_use]
    pub const fn log_y(mut self) -> Self {
        self.log_y = true;
        self
    }

    /// The view with both axes logarithmic.
    #[must_use]
    pub const fn log(self) -> Self {
        self.log_x().log_y()
    }

    /// Further metrics, of a trace further columns, over the same axis, each in a picture of its
    /// own below; of stretches, metrics of their length, whose prediction is drawn.
    #[must_use]
    pub const fn beside(mut self, metrics: &'static [&'static str]) -> Self {
        self.beside = metrics;
        self
    }

    /// Derived metrics in the horizontal axis' unit that are drawn as vertical lines.
    #[must_use]
    pub const fn marks(mut self, metrics: &'static [&'static str]) -> Self {
        self.marks = metrics;
        self
    }

    /// Cases stand at this number, in this unit, that their symbols resolved to, or that this
    /// metric of theirs says.
    #[must_use]
    pub const fn positioned(mut self, name: &'static str, unit: Unit) -> Self {
        self.position = Some((name, unit));
        self
    }

    /// Only cases in which these parameters, where they are there, have one of these values.
    #[must_use]
    pub const fn only(
        mut self,
        values: &'static [(&'static str, &'static [&'static str])],
    ) -> Self {
        self.only = values;
        self
    }

    /// A picture for each combination of these parameters' values.
    #[must_use]
    pub const fn each(mut self, params: &'static [&'static str]) -> Self {
        self.each = params;
        self
    }

    const fn shaped(shape: Shape) -> Self {
        ViewCard {
            shape,
            log_x: false,
            log_y: false,
            beside: &[],
            marks: &[],
            position: None,
            only: &[],
            each: &[],
        }
    }

    pub fn view(&self) -> View {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (log_x, log_y) = (self.log_x, self.log_y);
        let (beside, marks) = (owned(self.beside), owned(self.marks));
        let only = self.only.iter();
        let cases = Cases {
            only: only.map(|(name, values)| ((*name).to_owned(), owned(values))).collect(),
            each: owned(self.each),
        };
        match self.shape {
            Shape::Line { over, metric } => View::Line {
                over: over.to_owned(),
                metric: metric.to_owned(),
                log_x,
                log_y,
                beside,
                marks,
                at: self.position.map(|(name, unit)| Placed { name: name.to_owned(), unit }),
                cases,
            },
            Shape::Curve { along, x, y } => View::Curve {
                along: along.to_owned(),
                x: x.to_owned(),
                y: y.to_owned(),
                log_x,
                log_y,
                cases,
            },
            Shape::Matrix { rows, columns, metric } => View::Matrix {
                rows: rows.to_owned(),
                columns: columns.to_owned(),
                metric: metric.to_owned(),
                cases,
            },
            Shape::Timeline { trace } => View::Timeline { trace: trace.to_owned(), beside },
            Shape::Spans { timeline, table } => {
                View::Spans { timeline: timeline.to_owned(), table: table.to_owned(), beside }
            }
            Shape::Bars { metric } => View::Bars { metric: metric.to_owned(), cases },
        }
    }
}

//! How much a figure must differ to be a finding, and where that is from.

use super::join::Joined;
use crate::analysis::history::History;
use crate::stats::compare::between::{BetweenRuns, between_runs};
use record::metric::Kind;
use record::run::Run;

/// What two runs of an unchanged machine differ by, in 95 of 100: a finding is greater.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Band {
    /// Least |ratio - 1| of a finding.
    pub(crate) share: f64,
    /// Where it is from.
    pub(crate) source: Source,
    /// The between-run variance that it, the test and the interval rest on.
    pub(crate) between: BetweenRuns,
}

/// Where a band is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The starting value of the metric's kind: fewer than three stored runs have the figure.
    Default(Order),
    /// Stored runs of this machine, so many.
    Stored(usize),
    /// Two steps of the clock: the figure is of single events, and as short as that.
    Resolution,
}

/// A metric's kind, in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// [`Kind::Hardware`].
    Hardware,
    /// [`Kind::Os`].
    Os,
    /// [`Kind::Io`].
    Io,
}

impl Source {
    /// In words: `default of hardware figures`, `7 stored runs`, `clock resolution`.
    pub(crate) fn text(self) -> String {
        match self {
            Source::Default(Order::Hardware) => "default of hardware figures".to_owned(),
            Source::Default(Order::Os) => "default of os figures".to_owned(),
            Source::Default(Order::Io) => "default of io figures".to_owned(),
            Source::Stored(runs) => format!("{runs} stored runs"),
            Source::Resolution => "clock resolution".to_owned(),
        }
    }
}

/// The band of a figure: 1.96 deviations of the logarithm of the ratio of two runs, which is
/// sqrt(2) times that between runs; for single events at least two steps of the clock.
pub(crate) fn of(joined: &Joined, base: &Run, new: &Run, history: &History) -> Band {
    let kind = joined.metric.kind;
    let runs = joined.base.key().map_or(&[][..], |key| history.of(&key));
    let between = between_runs(runs, kind.default_between_run_sd());
    let share = (1.96 * (2.0 * between.variance).sqrt()).exp_m1();
    let source = match between.runs {
        0 => Source::Default(match kind {
            Kind::Hardware => Order::Hardware,
            Kind::Os => Order::Os,
            Kind::Io => Order::Io,
        }),
        runs => Source::Stored(runs),
    };
    let of_clock = resolution(joined, base, new);
    match of_clock > share {
        true => Band {
            share: of_clock,
            source: Source::Resolution,
            between,
        },
        false => Band {
            share,
            source,
            between,
        },
    }
}

/// Two steps of the coarser clock over the lesser value, for times of single events; else 0.
fn resolution(joined: &Joined, base: &Run, new: &Run) -> f64 {
    let figures = [joined.base, joined.new];
    let is_event = figures.iter().all(|figure| {
        figure
            .stats
            .as_ref()
            .is_some_and(|stats| stats.of == "event")
    });
    let least = figures.iter().filter_map(|figure| figure.value);
    let least = least.fold(f64::INFINITY, f64::min);
    if !(is_event && joined.metric.unit.is_time() && least > 0.0) {
        return 0.0;
    }
    let step = |run: &Run| run.header.calibration.resolution_ns;
    2.0 * step(base).max(step(new)) / least
}

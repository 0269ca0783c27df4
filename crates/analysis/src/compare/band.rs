//! How much a figure must differ to be a finding, and where that is from.

use super::join::Joined;
use crate::history::History;
use record::key::Key;
use record::metric::Kind;
use record::run::Run;
use stats::compare::between::{BetweenRuns, Scatter, alike, between_runs, scatter};
use stats::compare::variance::Prior;
use std::collections::BTreeMap;

/// Least band, as a share of the kind's default: a variance learnt from a few stored runs may come
/// out as none, once what rounds differ by is taken off, and where a family has few figures nothing
/// steadies it.
const LEAST: f64 = 0.5;

/// What two runs of an unchanged machine differ by, in 95 of 100: a finding is greater. Learnt from
/// stored runs; until there are three it is an assumption.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Least |ratio - 1| of a finding.
    pub share: f64,
    pub source: Source,
    /// The between-run variance that it, the test and the interval rest on.
    pub between: BetweenRuns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The starting value of the metric's kind: fewer than three stored runs have the figure.
    Default(Kind),
    /// Stored runs of this machine, so many.
    Stored(usize),
    /// Two steps of the clock: the figure is of single events, and as short as that.
    Resolution,
}

impl Source {
    /// In words: `default of hardware figures`, `7 stored runs`, `clock resolution`.
    pub fn text(self) -> String {
        match self {
            Source::Default(kind) => format!("default of {} figures", kind.text()),
            Source::Stored(runs) => format!("{runs} stored runs"),
            Source::Resolution => "clock resolution".to_owned(),
        }
    }
}

/// What stored runs say of the figures of one comparison.
pub(super) struct Learnt {
    by_key: BTreeMap<Key, Scatter>,
    alike: BTreeMap<(String, Kind), Prior>,
}

impl Learnt {
    /// From all figures that two runs share.
    pub(super) fn learn(series: &[Vec<Joined>], history: &History) -> Self {
        let mut by_key = BTreeMap::new();
        let mut by_kind: BTreeMap<(String, Kind), Vec<Scatter>> = BTreeMap::new();
        for joined in series.iter().flatten() {
            let Some(key) = joined.base.key() else {
                continue;
            };
            if let Some(scatter) = scatter(&history.values(&key)) {
                by_kind.entry(group(joined)).or_default().push(scatter);
                by_key.insert(key, scatter);
            }
        }
        let alike = by_kind
            .into_iter()
            .filter_map(|(group, scatters)| Some((group, alike(&scatters)?)))
            .collect();
        Self { by_key, alike }
    }

    fn between(&self, joined: &Joined) -> BetweenRuns {
        let default = joined.metric.kind.default_between_run_sd();
        let own = joined.base.key().and_then(|key| self.by_key.get(&key));
        match own {
            Some(own) => between_runs(*own, self.alike.get(&group(joined)).copied(), default),
            None => BetweenRuns::default_of(default),
        }
    }
}

/// Figures that steady each other.
fn group(joined: &Joined) -> (String, Kind) {
    (joined.base.family().to_owned(), joined.metric.kind)
}

/// The band of a figure: the 95 % interval of the logarithm of the ratio of two runs, whose
/// deviation is sqrt(2) times that between runs; for single events at least two steps of the clock.
pub(super) fn band(joined: &Joined, base: &Run, new: &Run, learnt: &Learnt) -> Band {
    let between = learnt.between(joined);
    let default = BetweenRuns::default_of(joined.metric.kind.default_between_run_sd());
    let least = LEAST * default.reach().exp_m1();
    let share = between.reach().exp_m1().max(least);
    let source = match between.runs {
        0 => Source::Default(joined.metric.kind),
        runs => Source::Stored(runs),
    };
    let of_clock = resolution(joined, base, new);
    match of_clock > share {
        true => Band { share: of_clock, source: Source::Resolution, between },
        false => Band { share, source, between },
    }
}

/// Two steps of the coarser clock over the lesser value, for times of single events; else 0.
fn resolution(joined: &Joined, base: &Run, new: &Run) -> f64 {
    let figures = [joined.base, joined.new];
    let is_event = figures
        .iter()
        .all(|figure| figure.stats.as_ref().is_some_and(|stats| stats.sample_kind == "event"));
    let least = figures.iter().filter_map(|figure| figure.value);
    let least = least.fold(f64::INFINITY, f64::min);
    if !(is_event && joined.metric.unit.is_time() && least > 0.0) {
        return 0.0;
    }
    let step = |run: &Run| run.header.calibration.resolution_ns;
    2.0 * step(base).max(step(new)) / least
}

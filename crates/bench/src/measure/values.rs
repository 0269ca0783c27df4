//! What a round has measured of a figure: events, batches or quartets, and what stands beside them.

use super::quartet::{Quartet, Turns};
use super::width::{Reading, Stretch};
use stats::histogram::Histogram as Distribution;

/// Values of one metric of one case, in the metric's unit, for [`super::Bench::record`]. A
/// `Vec<f64>` becomes single events.
pub struct Values<'a> {
    pub(super) form: Form<'a>,
    /// What the probes around each value read.
    pub(super) readings: Vec<Reading>,
    pub(super) is_apart: bool,
}

pub(super) enum Form<'a> {
    Events(Vec<f64>),
    Counted(Vec<f64>, &'a Distribution),
    Censored { values: Vec<f64>, censored: u64, limit: f64 },
    Batches { k: u64, values: Vec<f64> },
    Quartets { k: u64, turns: Turns<Quartet> },
}

impl<'a> Values<'a> {
    fn from_form(form: Form<'a>) -> Self {
        Values { form, readings: Vec::new(), is_apart: false }
    }

    /// Single events. The clock's resolution and the cost of an empty pair stand beside them, for
    /// percentiles that are near. More than 20,000 are thinned beside a histogram of all.
    pub fn events(values: Vec<f64>) -> Self {
        Values::from_form(Form::Events(values))
    }

    /// Events too many to hold: all are counted in `all`, and `excerpt` are the first of them.
    pub fn counted(excerpt: Vec<f64>, all: &'a Distribution) -> Self {
        Values::from_form(Form::Counted(excerpt, all))
    }

    /// Events beside `censored` ones that never ended (drops, time-outs, what was never begun),
    /// which count in the distribution as longer than all that did. `limit` is the value that they
    /// are known to have passed; an event that ended at it or later counts as one of them, so that
    /// none of the values may lie there.
    pub fn censored(values: Vec<f64>, censored: u64, limit: f64) -> Self {
        Values::from_form(Form::Censored { values, censored, limit })
    }

    /// Values that each cover a batch of `k` operations (0: a block of time).
    pub fn batches(k: u64, values: Vec<f64>) -> Self {
        Values::from_form(Form::Batches { k, values })
    }

    /// Values that each cover a block of time.
    pub fn blocks(values: Vec<f64>) -> Self {
        Values::batches(0, values)
    }

    /// The one value of the whole window.
    pub fn block(value: f64) -> Self {
        Values::blocks(vec![value])
    }

    /// A thread's or a team's work between readings of the width probe; `whole` is the value of the
    /// whole window, which stands alone where it was not cut into stretches.
    pub fn stretches(stretches: &[Stretch], whole: f64) -> Self {
        match stretches {
            [] => Values::block(whole),
            _ => Values::blocks(stretches.iter().map(|stretch| stretch.rate).collect())
                .watched(stretches.iter().map(Stretch::reading).collect()),
        }
    }

    /// Quartets in the order `k`, `2 k`, `2 k`, `k`: of each the sum of the two short batches and
    /// of the two long ones, in ns.
    pub fn quartets(k: u64, mut turns: Turns<Quartet>) -> Self {
        let readings = std::mem::take(&mut turns.readings);
        Values::from_form(Form::Quartets { k, turns }).watched(readings)
    }

    /// The values with what the probes around each read ([`super::Watch::end`]).
    #[must_use]
    pub fn watched(self, readings: Vec<Reading>) -> Self {
        Values { readings, ..self }
    }

    /// Yielded on other CPUs than the round's: the core clock of the measuring thread's is not
    /// theirs, and is not taken.
    #[must_use]
    pub fn apart(self) -> Self {
        Values { is_apart: true, ..self }
    }
}

impl From<Vec<f64>> for Values<'_> {
    fn from(values: Vec<f64>) -> Self {
        Values::events(values)
    }
}

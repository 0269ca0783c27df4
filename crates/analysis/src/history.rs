//! What earlier runs of a machine said, for how much it differs from run to run.

use super::figure::{Figure, Interval, RoundPoint};
use record::key::Key;
use std::collections::BTreeMap;

/// Figure by figure the round values of earlier runs of one machine, a list a run, the oldest run
/// first, each with the condition it was measured under. In the metric's unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(pub BTreeMap<Key, Vec<Earlier>>);

#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// Number of the condition: runs under one condition have one number, and only what these
    /// differ by counts as scatter of an unchanged machine.
    pub condition: usize,
    pub rounds: Vec<f64>,
}

impl History {
    /// The runs of a figure by condition, as [`scatter`](stats::compare::between::scatter)
    /// takes them; none where no earlier run has it.
    pub fn values(&self, key: &Key) -> Vec<Vec<&[f64]>> {
        let mut conditions: BTreeMap<usize, Vec<&[f64]>> = BTreeMap::new();
        for earlier in self.0.get(key).into_iter().flatten() {
            let of_condition = conditions.entry(earlier.condition).or_default();
            of_condition.push(&earlier.rounds);
        }
        conditions.into_values().collect()
    }
}

/// The round values on which a figure's value rests, in the order of the rounds; the value itself
/// where it is not of rounds (within a run, derived).
pub fn used_rounds(figure: &Figure) -> Vec<f64> {
    if figure.interval != Interval::Rounds {
        return figure.value.into_iter().collect();
    }
    used(figure).map(|round| round.value).collect()
}

/// The rounds on which a figure's value rests.
pub fn used(figure: &Figure) -> impl Iterator<Item = &RoundPoint> {
    let with_disturbed = figure.stats.as_ref().is_some_and(|stats| stats.used_disturbed);
    figure.rounds.iter().filter(move |round| with_disturbed || !round.disturbed)
}

#[cfg(test)]
mod tests {
    use super::used_rounds;
    use crate::figure::{Figure, RoundPoint};
    use record::event::Ending;
    use record::metric::{Better, Kind, Metric};
    use record::unit::Unit;

    fn figure() -> Figure {
        let mut figure = Figure::absent("os.x", Ending::Measured, String::new());
        figure.metric = Some(Metric::new("time", "x", Unit::Ns, Better::Lower, Kind::Os));
        let point = |n: u32, disturbed: bool| RoundPoint {
            n,
            segment: 0,
            value: f64::from(n),
            disturbed,
            cycles: None,
            core_hz: None,
        };
        figure.rounds = vec![point(1, false), point(2, true), point(3, false)];
        figure
    }

    #[test]
    fn disturbed_rounds_that_the_value_does_not_rest_on_are_left_out() {
        assert_eq!(used_rounds(&figure()), [1.0, 3.0]);
    }
}

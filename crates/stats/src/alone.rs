//! The value of the core alone, from whatever alone samples there are (METHOD §2a).

use super::interval::{Interval, LEAST_VALUES, median_order};
use super::quantile::median;
use super::rounds::{LEAST_ROUNDS, Quantity};
use super::width::is_alone;
use record::event::Samples;

/// Alone samples from which on a round has a value of its own.
pub const LEAST_OF_ROUND: usize = 3;
/// Alone samples that a pooled value needs, and rounds that they come from.
const LEAST_POOLED: usize = 20;
const LEAST_POOLED_ROUNDS: usize = 3;

/// The classified samples of one figure in one round: by visit, each with whether the core was
/// alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbedRound {
    visits: Vec<Vec<(f64, bool)>>,
}

impl ProbedRound {
    /// From the samples of a round, by the probe's level.
    pub fn new<'run>(
        samples: impl IntoIterator<Item = &'run Samples>,
        level: f64,
        quantity: Quantity,
    ) -> Self {
        let visit = |samples: &Samples| {
            let values = quantity(samples);
            let read = values.iter().zip(&samples.width);
            let classified = read.filter(|(value, width)| value.is_finite() && **width > 0.0);
            classified.map(|(value, width)| (*value, is_alone(*width, level))).collect()
        };
        ProbedRound { visits: samples.into_iter().map(visit).collect() }
    }

    /// The alone samples, by stretches: consecutive ones of a visit.
    fn stretches(&self) -> impl Iterator<Item = Vec<f64>> {
        let runs = self.visits.iter().flat_map(|visit| visit.chunk_by(|a, b| a.1 == b.1));
        let alone = runs.filter(|run| run.first().is_some_and(|(_, alone)| *alone));
        alone.map(|run| run.iter().map(|(value, _)| *value).collect())
    }

    fn alone(&self) -> Vec<f64> {
        self.stretches().flatten().collect()
    }

    /// The median of its alone samples; `None` where it has fewer than `least`.
    pub fn value(&self, least: usize) -> Option<f64> {
        let alone = self.alone();
        median(&alone).filter(|_| alone.len() >= least)
    }
}

/// Samples of a core alone, on which a value rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FlatBasis"))]
pub struct Basis {
    /// Rounds that have some.
    pub rounds: usize,
    /// Number of the samples in them.
    pub samples: usize,
    /// Stretches: consecutive ones of one visit.
    pub stretches: usize,
}

impl Basis {
    pub fn new(rounds: &[ProbedRound]) -> Basis {
        let counts: Vec<(usize, usize)> = rounds
            .iter()
            .map(|round| (round.stretches().count(), round.stretches().map(|one| one.len()).sum()))
            .collect();
        Basis {
            rounds: counts.iter().filter(|(stretches, _)| *stretches > 0).count(),
            samples: counts.iter().map(|(_, samples)| samples).sum(),
            stretches: counts.iter().map(|(stretches, _)| stretches).sum(),
        }
    }
}

/// How the value of a core alone is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alone {
    /// From the values of rounds with at least [`LEAST_OF_ROUND`] samples, of which there are enough
    /// for an interval.
    Rounds,
    /// From the samples of all rounds, because too few rounds have a value: their median (rounds
    /// weigh alike where [`LEAST_ROUNDS`] or more have some), and the exact interval over the
    /// medians of stretches, extended to hold the median of every round, from five rounds on.
    Pooled(f64, Option<Interval>),
}

impl Alone {
    /// Alone samples that each round needs to count.
    pub fn least_of_round(self) -> usize {
        match self {
            Alone::Rounds => LEAST_OF_ROUND,
            Alone::Pooled(..) => 1,
        }
    }
}

/// The way to the value of the core alone; `None` where there are too few alone samples, or where
/// the neighbour comes and goes too fast for the probes.
pub fn alone(rounds: &[ProbedRound]) -> Option<Alone> {
    let valued = rounds.iter().filter(|round| round.value(LEAST_OF_ROUND).is_some()).count();
    let basis = Basis::new(rounds);
    let suffices = valued >= LEAST_ROUNDS
        || (basis.samples >= LEAST_POOLED && basis.rounds >= LEAST_POOLED_ROUNDS);
    if !suffices || !probes_see_it(rounds) {
        return None;
    }
    if valued >= LEAST_VALUES {
        return Some(Alone::Rounds);
    }
    let value = pooled(rounds)?;
    let stretches: Vec<f64> =
        rounds.iter().flat_map(|round| round.stretches().filter_map(|one| median(&one))).collect();
    // Stretches of one round share what differs between rounds: simulated intervals of three rounds
    // cover 85 %, of four 91 %.
    if basis.rounds < LEAST_VALUES {
        return Some(Alone::Pooled(value, None));
    }
    let held = rounds.iter().filter_map(|round| round.value(1)).chain([value]);
    let holding = |ends: Interval| {
        held.fold(ends, |ends, one| Interval {
            low: ends.low.min(one),
            high: ends.high.max(one),
            ..ends
        })
    };
    Some(Alone::Pooled(value, median_order(&stretches).map(holding)))
}

/// The median over the alone samples of all rounds, which weigh alike where [`LEAST_ROUNDS`] or more
/// have some; `None` without any.
pub fn pooled(rounds: &[ProbedRound]) -> Option<f64> {
    let is_by_round = Basis::new(rounds).rounds >= LEAST_ROUNDS;
    let weighed = rounds.iter().flat_map(|round| {
        let alone = round.alone();
        let weight = if is_by_round { 1.0 / alone.len() as f64 } else { 1.0 };
        alone.into_iter().map(move |value| (value, weight))
    });
    weighted_median(weighed.collect())
}

/// The value below which half of the weight lies; between two values, their mean.
fn weighted_median(mut weighed: Vec<(f64, f64)>) -> Option<f64> {
    /// Weights are sums of shares: equal to so much.
    const EQUAL: f64 = 1e-9;
    weighed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = weighed.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let at = weighed.iter().position(|(_, weight)| {
        below += weight;
        below >= half * (1.0 - EQUAL)
    })?;
    let next = weighed.get(at + 1).filter(|_| below <= half * (1.0 + EQUAL));
    Some(next.map_or(weighed[at].0, |next| weighed[at].0.midpoint(next.0)))
}

/// Whether at least half of the samples after an alone one are alone too. A neighbour that comes
/// and goes faster is often there between two probes of a sample that reads alone.
fn probes_see_it(rounds: &[ProbedRound]) -> bool {
    let pairs = rounds.iter().flat_map(|round| &round.visits).flat_map(|visit| visit.windows(2));
    let after: Vec<bool> = pairs.filter(|pair| pair[0].1).map(|pair| pair[1].1).collect();
    2 * after.iter().filter(|alone| **alone).count() >= after.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(visits: &[&[(f64, bool)]]) -> ProbedRound {
        ProbedRound { visits: visits.iter().map(|visit| visit.to_vec()).collect() }
    }

    fn quiet(values: &[f64]) -> ProbedRound {
        let visit: Vec<(f64, bool)> = values.iter().map(|value| (*value, true)).collect();
        round(&[&visit])
    }

    #[test]
    fn stretches_end_with_a_shared_sample_and_with_a_visit() {
        let one = round(&[&[(1.0, true), (2.0, true), (9.0, false), (3.0, true)], &[(4.0, true)]]);
        assert_eq!(one.stretches().collect::<Vec<_>>(), [vec![1.0, 2.0], vec![3.0], vec![4.0]]);
        assert_eq!((one.value(4), one.value(5)), (Some(2.5), None));
        let basis = Basis::new(&[one, round(&[&[(9.0, false)]])]);
        assert_eq!(basis, Basis { rounds: 1, samples: 4, stretches: 3 });
    }

    #[test]
    fn what_suffices_for_a_value() {
        let rounds = |count: usize, samples: usize| vec![quiet(&vec![2.0; samples]); count];
        for (count, samples, found) in [
            (6, 3, Some(true)),
            (6, 2, None),
            (10, 2, Some(false)),
            (5, 4, Some(true)),
            (5, 3, None),
            (4, 5, Some(false)),
            (3, 7, Some(false)),
            (2, 50, None),
        ] {
            let got = alone(&rounds(count, samples));
            assert_eq!(got.map(|one| one == Alone::Rounds), found, "{count} rounds of {samples}");
        }
    }

    #[test]
    fn rounds_weigh_alike_where_six_have_samples() {
        let mut rounds = vec![quiet(&[3.0; 18])];
        rounds.extend([1.0, 1.0, 1.0, 4.0, 4.0].map(|value| quiet(&[value])));
        let Some(Alone::Pooled(value, interval)) = alone(&rounds) else { panic!("no value") };
        // One sixth each: half of the weight lies below 3, half from there on.
        assert_eq!(value, 2.0);
        let interval = interval.expect("six stretches");
        assert_eq!((interval.low, interval.high), (1.0, 4.0));
        rounds.pop();
        rounds.push(quiet(&[]));
        let Some(Alone::Pooled(value, interval)) = alone(&rounds) else { panic!("no value") };
        assert_eq!((value, interval.expect("five stretches").confidence), (3.0, 0.9375));
    }

    #[test]
    fn a_neighbour_faster_than_the_probes_leaves_no_value() {
        let every = |count: usize| -> Vec<(f64, bool)> {
            (0..90).map(|at| (1.0, at % count < 2)).collect()
        };
        assert!(alone(&vec![round(&[&every(3)]); 6]).is_some());
        let single: Vec<(f64, bool)> = (0..90).map(|at| (1.0, at % 3 == 0)).collect();
        assert!(alone(&vec![round(&[&single]); 6]).is_none());
    }
}

//! From raw samples to the values of rounds: the unit of replication.
//!
//! A figure whose samples were probed has two values (METHOD §2a): *alone*, from the samples with
//! an exclusive core, and *as found*, from all samples of a round's first visit.

use crate::alone::{Alone, Basis, ProbedRound, alone};
use crate::estimate::{Estimate, RoundValue, estimate};
use crate::quantile;
use crate::width::is_alone;
use record::event::{Histogram, Repeat, Samples};
use record::key::CaseId;
use record::metric::{Better, Over};
use record::order::Gather;
use record::run::Run;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Rounds from which on their values have an interval of 95 %.
pub const LEAST_ROUNDS: usize = 6;

/// What is read of samples: [`Samples::values`] or [`Samples::cycles`].
pub type Quantity = fn(&Samples) -> Cow<'_, [f64]>;

/// Which samples a value rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// The samples with an exclusive core, by the probe's level on it, of all visits.
    Alone(f64),
    /// All of the first visit.
    AsFound,
}

impl Condition {
    pub fn values(self, samples: &Samples, quantity: Quantity) -> Cow<'_, [f64]> {
        match self {
            Condition::AsFound if samples.visit > 0 => Cow::default(),
            Condition::AsFound => quantity(samples),
            Condition::Alone(_) if samples.width.is_empty() => Cow::default(),
            Condition::Alone(level) => {
                let values = quantity(samples);
                let read = values.iter().zip(&samples.width);
                let alone = read.filter(|(_, width)| is_alone(**width, level));
                alone.map(|(value, _)| *value).collect()
            }
        }
    }

    /// The value of a round: the median of its samples that count, or where its events are counted
    /// in histograms, of those (nearest rank): samples beside them are an excerpt. `None` where it
    /// has none, or where the median is among the events that are only known to be long.
    pub fn round_value(self, samples: &[&Samples], histograms: &[&Histogram]) -> Option<f64> {
        match self {
            Condition::AsFound if !histograms.is_empty() => counted_value(histograms),
            _ => self.median(samples, Samples::values),
        }
    }

    /// The median of the samples that count; `None` without any.
    pub fn median(self, samples: &[&Samples], quantity: Quantity) -> Option<f64> {
        let mut finite: Vec<f64> = Vec::new();
        for samples in samples {
            let values = self.values(samples, quantity);
            finite.extend(values.iter().filter(|value| value.is_finite()));
        }
        quantile::median(&finite)
    }
}

/// One figure's value in one round (or one block of a `Once` or `Sweep`), in the condition in which
/// the figure is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Valued {
    /// Round number, or block number where blocks replicate.
    pub round: u32,
    /// Median of the round's samples, in the metric's unit.
    pub value: f64,
    pub disturbed: bool,
}

impl From<&Valued> for RoundValue {
    fn from(valued: &Valued) -> Self {
        RoundValue { value: valued.value, disturbed: valued.disturbed }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    /// Their values, in order, in the condition in which the figure is printed.
    pub values: Vec<Valued>,
    /// The way to the value of the core alone; `None` where the figure is printed as found.
    pub alone: Option<Alone>,
    pub basis: Basis,
    /// Whether samples have readings of the width probe.
    pub is_probed: bool,
}

impl Rounds {
    /// The estimate; `None` without rounds.
    pub fn estimate(&self, better: Better) -> Option<Estimate> {
        let rounds: Vec<RoundValue> = self.values.iter().map(RoundValue::from).collect();
        estimate(&rounds, better).map(|found| found.pooled(self.alone))
    }

    /// Whether more alone samples would give a value of the core alone that is not there, or make
    /// one by rounds of a pooled one.
    pub fn lacks_alone(&self) -> bool {
        self.basis.samples > 0 && self.alone != Some(Alone::Rounds)
    }
}

#[derive(Clone, Copy, Default)]
struct Around {
    is_disturbed: bool,
    /// Whether it was chosen by the state of the core: it is not as found.
    has_waited: bool,
    level: Option<f64>,
}

type OfRound<'run> = (Vec<&'run Samples>, Vec<&'run Histogram>);

pub type Figures = BTreeMap<(CaseId, String), Rounds>;

/// The values of every figure of a series, by (case, metric), in the order of the rounds. Where the
/// experiment is repeated in rounds, a value is the median of a round's samples; otherwise each
/// sample of its one round is a block.
pub fn values(run: &Run, experiment: &str, label: &str) -> Figures {
    let in_rounds =
        run.experiment(experiment).is_none_or(|planned| planned.repeat == Repeat::Rounds);
    let disturbed: BTreeMap<u32, Around> = run
        .rounds_of(label)
        .map(|round| {
            let around = Around {
                is_disturbed: !round.disturbed.is_empty(),
                has_waited: round.waited_s.is_some(),
                level: run.width_level(round.segment),
            };
            (round.n, around)
        })
        .collect();
    let mut figures: BTreeMap<(&CaseId, &str), BTreeMap<u32, OfRound>> = BTreeMap::new();
    for samples in run.samples.iter().filter(|one| one.series == label) {
        let figure = figures.entry((&samples.case, &samples.metric)).or_default();
        figure.entry(samples.round).or_default().0.push(samples);
    }
    for histogram in run.histograms.iter().filter(|one| one.series == label) {
        let of = (&histogram.case, histogram.metric.as_str());
        if let Some(figure) = figures.get_mut(&of)
            && let Some(round) = figure.get_mut(&histogram.round)
        {
            round.1.push(histogram);
        }
    }
    figures
        .into_iter()
        .map(|((case, metric), rounds)| {
            let over =
                run.metric(experiment, metric).map_or(Over::Undisturbed, |metric| metric.over);
            let values = match in_rounds {
                true => of_rounds(&rounds, &disturbed, over),
                false => of_blocks(&rounds, &disturbed, over),
            };
            ((case.clone(), metric.to_owned()), values)
        })
        .gather()
}

fn of_rounds(rounds: &BTreeMap<u32, OfRound>, known: &BTreeMap<u32, Around>, over: Over) -> Rounds {
    let around = |n: u32| known.get(&n).copied().unwrap_or_default();
    let minds = over == Over::Undisturbed;
    let probed = |(n, (samples, _)): (&u32, &OfRound)| {
        let round = |level| ProbedRound::new(samples.iter().copied(), level, Samples::values);
        around(*n).level.map(round)
    };
    let probed: Vec<ProbedRound> = rounds.iter().filter_map(probed).filter(|_| minds).collect();
    let way = alone(&probed);
    let mut all = rounds.values().flat_map(|(samples, _)| samples);
    let is_probed = all.any(|samples| !samples.width.is_empty());
    let valued = |(n, (samples, histograms)): (&u32, &OfRound)| {
        let Around { is_disturbed, has_waited, level } = around(*n);
        let value = match way {
            Some(way) => {
                let round = ProbedRound::new(samples.iter().copied(), level?, Samples::values);
                round.value(way.least_of_round())
            }
            None if has_waited && is_probed => None,
            None => Condition::AsFound.round_value(samples, histograms),
        };
        Some(Valued { round: *n, value: value?, disturbed: is_disturbed && minds })
    };
    let values = rounds.iter().filter_map(valued).collect();
    Rounds { values, alone: way, basis: Basis::new(&probed), is_probed }
}

fn of_blocks(rounds: &BTreeMap<u32, OfRound>, known: &BTreeMap<u32, Around>, over: Over) -> Rounds {
    let blocks = |(n, (samples, _)): (&u32, &OfRound)| {
        let disturbed = known.get(n).is_some_and(|around| around.is_disturbed);
        let values = samples.iter().flat_map(|samples| samples.raw.samples());
        values.map(move |value| (value, disturbed)).collect::<Vec<_>>()
    };
    let all = rounds.iter().flat_map(blocks).zip(1..);
    let valued = all.map(|((value, disturbed), round)| Valued {
        round,
        value,
        disturbed: disturbed && over == Over::Undisturbed,
    });
    Rounds { values: valued.collect(), ..Rounds::default() }
}

/// The median of events that are counted in histograms (nearest rank).
fn counted_value(histograms: &[&Histogram]) -> Option<f64> {
    let scaled = |histogram: &&Histogram| {
        let scale = histogram.scale;
        let bucket = move |(value, count): &(u64, u64)| (*value as f64 * scale, *count);
        histogram.buckets.iter().map(bucket).collect::<Vec<_>>()
    };
    let mut buckets: Vec<(f64, u64)> = histograms.iter().flat_map(scaled).collect();
    buckets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let above: u64 = histograms.iter().map(|histogram| histogram.above).sum();
    let total = above + buckets.iter().map(|(_, count)| count).sum::<u64>();
    quantile::quantile_of_counted(buckets, 0.5, total)
}

#[cfg(test)]
mod tests {
    use super::Condition;
    use record::event::{Histogram, Raw, Samples};
    use record::key::CaseId;

    #[test]
    fn a_histogram_is_the_round_and_its_samples_are_an_excerpt() {
        let raw = Raw::Event { values: vec![1.0, 2.0, 9.0] };
        let samples = Samples::new("s", 1, CaseId::new(), "m", raw);
        let histogram = |buckets: &[(u64, u64)], above| Histogram {
            series: "s".to_owned(),
            round: 1,
            case: CaseId::new(),
            metric: "m".to_owned(),
            scale: 0.5,
            buckets: buckets.to_vec(),
            above,
        };
        let round_value = |samples: &[&Samples], histograms: &[&Histogram]| {
            Condition::AsFound.round_value(samples, histograms)
        };
        assert_eq!(round_value(&[&samples], &[]), Some(2.0));
        let counted = histogram(&[(2, 1), (20, 8)], 1);
        assert_eq!(round_value(&[&samples], &[&counted]), Some(10.0));
        let long = histogram(&[(2, 1)], 2);
        assert_eq!(round_value(&[&samples], &[&long]), None);
        assert_eq!(round_value(&[], &[]), None);
    }
}

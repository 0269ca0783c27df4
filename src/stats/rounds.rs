//! From raw samples to the values of rounds: the unit of replication.

use crate::stats::quantile;
use record::event::{Histogram, Repeat, Samples};
use record::key::CaseId;
use record::run::Run;
use std::collections::BTreeMap;

/// One figure's value in one round (or one block of a `Once` or `Sweep`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Valued {
    /// Round number, or block number where blocks replicate.
    pub round: u32,
    /// Median of the round's samples, in the metric's unit.
    pub value: f64,
    /// Whether the round was disturbed.
    pub disturbed: bool,
}

/// The values of every figure of a series, by (case, metric), in the order of the rounds. Where the
/// experiment is repeated in rounds, a value is the median of a round's samples; otherwise each
/// sample of its one round is a block.
pub fn values(run: &Run, experiment: &str, label: &str) -> BTreeMap<(CaseId, String), Vec<Valued>> {
    let in_rounds = run
        .experiment(experiment)
        .is_none_or(|planned| planned.repeat == Repeat::Rounds);
    let disturbed: BTreeMap<u32, bool> = run
        .rounds_of(label)
        .map(|round| (round.n, !round.disturbed.is_empty()))
        .collect();
    let mut values: BTreeMap<(CaseId, String), Vec<Valued>> = BTreeMap::new();
    let histograms = run.histograms.iter();
    let histograms: Vec<&Histogram> = histograms.filter(|one| one.series == label).collect();
    for samples in run.samples.iter().filter(|samples| samples.series == label) {
        let disturbed = disturbed.get(&samples.round).copied().unwrap_or(false);
        let figure = values
            .entry((samples.case.clone(), samples.metric.clone()))
            .or_default();
        if in_rounds {
            let of_round = |one: &&&Histogram| {
                one.round == samples.round
                    && one.case == samples.case
                    && one.metric == samples.metric
            };
            let histograms: Vec<&Histogram> = histograms.iter().filter(of_round).copied().collect();
            figure.extend(round_value(&[samples], &histograms).map(|value| Valued {
                round: samples.round,
                value,
                disturbed,
            }));
        } else {
            let blocks = samples.raw.samples();
            figure.extend(blocks.into_iter().zip(1..).map(|(value, round)| Valued {
                round,
                value,
                disturbed,
            }));
        }
    }
    values
}

/// The value of a round: the median of its samples, or where its events are counted in histograms,
/// of those (nearest rank): samples beside them are an excerpt. `None` where it has none, and where
/// the median is among the events that are only known to be long.
pub fn round_value(samples: &[&Samples], histograms: &[&Histogram]) -> Option<f64> {
    if histograms.is_empty() {
        let values = samples.iter().flat_map(|samples| samples.raw.samples());
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        return quantile::median(&finite);
    }
    let scaled = |histogram: &&Histogram| {
        let scale = histogram.scale;
        let bucket = move |(value, count): &(u64, u64)| (*value as f64 * scale, *count);
        histogram.buckets.iter().map(bucket).collect::<Vec<_>>()
    };
    let mut buckets: Vec<(f64, u64)> = histograms.iter().flat_map(scaled).collect();
    buckets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let above: u64 = histograms.iter().map(|histogram| histogram.above).sum();
    let total = above + buckets.iter().map(|(_, count)| count).sum::<u64>();
    let mut seen = 0;
    let middle = buckets.into_iter().find(|(_, count)| {
        seen += count;
        seen >= total.div_ceil(2)
    });
    middle.map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::round_value;
    use record::event::{Histogram, Raw, Samples};
    use record::key::CaseId;
    use std::collections::BTreeMap;

    #[test]
    fn a_histogram_is_the_round_and_its_samples_are_an_excerpt() {
        let samples = Samples {
            series: "s".to_owned(),
            round: 1,
            case: CaseId::new(),
            metric: "m".to_owned(),
            raw: Raw::Event {
                values: vec![1.0, 2.0, 9.0],
            },
            core_hz: None,
            quantities: BTreeMap::new(),
            at: BTreeMap::new(),
            notes: Vec::new(),
        };
        let histogram = |buckets: &[(u64, u64)], above| Histogram {
            series: "s".to_owned(),
            round: 1,
            case: CaseId::new(),
            metric: "m".to_owned(),
            scale: 0.5,
            buckets: buckets.to_vec(),
            above,
        };
        assert_eq!(round_value(&[&samples], &[]), Some(2.0));
        let counted = histogram(&[(2, 1), (20, 8)], 1);
        assert_eq!(round_value(&[&samples], &[&counted]), Some(10.0));
        let long = histogram(&[(2, 1)], 2);
        assert_eq!(round_value(&[&samples], &[&long]), None);
        assert_eq!(round_value(&[], &[]), None);
    }
}

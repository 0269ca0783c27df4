//! From raw samples to the values of rounds: the unit of replication.

use crate::stats::quantile;
use record::event::{Repeat, Samples};
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
    for samples in run.samples.iter().filter(|samples| samples.series == label) {
        let disturbed = disturbed.get(&samples.round).copied().unwrap_or(false);
        let figure = values
            .entry((samples.case.clone(), samples.metric.clone()))
            .or_default();
        if in_rounds {
            figure.extend(round_value(samples).map(|value| Valued {
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

/// The value of a round: the median of its samples. `None` where it has none.
pub fn round_value(samples: &Samples) -> Option<f64> {
    quantile::median(&samples.raw.samples())
}

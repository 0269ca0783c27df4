//! What the figures of an experiment say together, with intervals from resampled rounds.

use crate::experiment::{DerivedValue, Experiment, Known, Site};
use crate::stats::estimate::{RoundValue, estimate};
use crate::stats::interval::Interval;
use crate::stats::resample;
use crate::stats::rounds::{Valued, values};
use record::event::{Derived, Repeat};
use record::key::Key;
use record::metric::{Better, Over};
use record::run::Run;
use std::collections::BTreeMap;

/// The rounds of the figures of one series, as the resampler takes them.
struct Table {
    keys: Vec<Key>,
    rounds: resample::Series,
}

/// Estimates of every figure that is there so far, measured and derived.
pub fn estimates<'label>(
    run: &Run,
    labels: impl Iterator<Item = (&'label str, &'label str)>,
) -> Known {
    let mut known = Known::default();
    for (experiment, label) in labels {
        for ((case, metric), rounds) in values(run, experiment, label) {
            let over = run.metric(experiment, &metric).map(|metric| metric.over);
            if let Some(found) = estimate_of(&rounds, over.unwrap_or_default()) {
                known.insert(Key::new(experiment, &case, &metric), found);
            }
        }
    }
    for derived in &run.derived {
        known.insert(
            Key::new(&derived.experiment, &derived.case, &derived.metric),
            derived.value,
        );
    }
    known
}

fn estimate_of(rounds: &[Valued], over: Over) -> Option<f64> {
    let rounds: Vec<RoundValue> = rounds.iter().map(RoundValue::from).collect();
    let estimate = estimate(&rounds, Better::None, 0.0)?;
    Some(match over {
        Over::Greatest => estimate.max,
        Over::Undisturbed | Over::All => estimate.value,
    })
}

/// Calls an experiment's `derive` on the estimates and on resamples of the rounds, its own and the
/// earlier ones'. Values that earlier experiments derived enter the resamples as they are.
///
/// `labels` are (experiment, series) pairs of everything measured so far, the experiment's included.
pub fn derive(
    run: &Run,
    experiment: &dyn Experiment,
    site: &Site,
    labels: &[(String, String)],
    seed: u64,
) -> Vec<Derived> {
    let id = experiment.card().id;
    let tables: Vec<Table> = labels
        .iter()
        .map(|(of, label)| table(run, of, label))
        .filter(|table| !table.keys.is_empty())
        .collect();
    if !tables
        .iter()
        .flat_map(|table| &table.keys)
        .any(|key| key.experiment == id)
    {
        return Vec::new();
    }
    let series: Vec<resample::Series> = tables.iter().map(|table| table.rounds.clone()).collect();
    let earlier: Vec<(Key, f64)> = run
        .derived
        .iter()
        .filter(|derived| derived.experiment != id)
        .map(|derived| {
            (
                Key::new(&derived.experiment, &derived.case, &derived.metric),
                derived.value,
            )
        })
        .collect();
    let mut first: Option<Vec<DerivedValue>> = None;
    let found = resample::derived(&series, seed, |medians| {
        let (mut known, mut own) = (Known::default(), Known::default());
        for (key, value) in &earlier {
            known.insert(key.clone(), *value);
        }
        for (table, medians) in tables.iter().zip(medians) {
            for (key, median) in table.keys.iter().zip(medians) {
                if let Some(value) = median {
                    let of = if key.experiment == id {
                        &mut own
                    } else {
                        &mut known
                    };
                    of.insert(key.clone(), *value);
                }
            }
        }
        let values = experiment.derive(site, &known, &own);
        let keyed = values
            .iter()
            .filter(|value| value.value.is_finite())
            .map(|value| ((value.case.clone(), value.metric), value.value))
            .collect::<BTreeMap<_, _>>();
        // The resampler's first call is on the rounds as they are: facts and notes come from there.
        first.get_or_insert(values);
        keyed
    });
    let first = first.unwrap_or_default();
    let in_rounds = experiment.card().repeat == Repeat::Rounds;
    first
        .into_iter()
        .filter_map(|value| {
            let resampled = found.get(&(value.case.clone(), value.metric))?;
            // Where the blocks of a single repetition agree, they say nothing of where another would find it.
            let of_blocks = resampled.interval;
            let interval = of_blocks.filter(|ends| in_rounds || ends.low < ends.high);
            Some(Derived {
                experiment: id.to_owned(),
                case: value.case,
                metric: value.metric.to_owned(),
                value: value.value,
                ci: with_cell(interval, value.cell),
                presence: resampled.presence,
                confidence: interval.map(|interval| interval.confidence),
                at: value.at,
                notes: value.notes,
            })
        })
        .collect()
}

/// The interval of a position is at least its grid cell; of what is measured one time it is the cell
/// alone, without a confidence.
fn with_cell(resampled: Option<Interval>, cell: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (
        resampled.map(|interval| (interval.low, interval.high)),
        cell,
    ) {
        (Some((low, high)), Some(cell)) => Some((low.min(cell.0), high.max(cell.1))),
        (Some(ends), None) | (None, Some(ends)) => Some(ends),
        (None, None) => None,
    }
}

/// The rounds that the estimates use: the undisturbed ones if there are six, else all.
fn table(run: &Run, experiment: &str, label: &str) -> Table {
    let figures = values(run, experiment, label);
    let in_rounds = run
        .experiment(experiment)
        .is_none_or(|planned| planned.repeat == Repeat::Rounds);
    let rounds: BTreeMap<u32, bool> = figures
        .values()
        .flatten()
        .map(|valued| (valued.round, valued.disturbed))
        .collect();
    let quiet = rounds.values().filter(|disturbed| !**disturbed).count();
    let used: Vec<u32> = rounds
        .iter()
        .filter(|(_, disturbed)| quiet < resample::LEAST_ROUNDS || !**disturbed)
        .map(|(round, _)| *round)
        .collect();
    let mut table = Table {
        keys: Vec::new(),
        rounds: Vec::new(),
    };
    for ((case, metric), valued) in figures {
        let by_round: BTreeMap<u32, f64> = valued
            .iter()
            .map(|valued| (valued.round, valued.value))
            .collect();
        // What one repetition has one value of holds for all of its blocks.
        let only = match (in_rounds, valued.as_slice()) {
            (false, [only]) => Some(only.value),
            _ => None,
        };
        table.keys.push(Key::new(experiment, &case, &metric));
        table.rounds.push(
            used.iter()
                .map(|round| by_round.get(round).copied().or(only))
                .collect(),
        );
    }
    table
}

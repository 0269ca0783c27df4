//! What the figures of an experiment say together, with intervals from resampled rounds.

use bench::experiment::{AnyExperiment, DerivedValue, Known, Site};
use record::event::{Derived, Repeat};
use record::key::Key;
use record::metric::{Better, Over};
use record::order::Gather;
use record::run::Run;
use stats::interval::Interval;
use stats::resample;
use stats::rounds::{Figures, Rounds};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The rounds of the figures of one series, as the resampler takes them.
struct Table {
    keys: Vec<Key>,
    rounds: resample::Series,
}

pub type Measured = (&'static dyn AnyExperiment, Rc<Figures>);

/// Estimates of every figure that is there so far: measured, and derived from these.
pub fn known(run: &Run, site: &Site, measured: &[Measured]) -> Known {
    let mut known = Known::default();
    for (experiment, figures) in measured {
        let id = experiment.card().id;
        for ((case, metric), rounds) in &**figures {
            let over = run.metric(id, metric).map(|metric| metric.over);
            if let Some(found) = estimate_of(rounds, over.unwrap_or_default()) {
                known.insert(Key::new(id, case, metric), found);
            }
        }
    }
    let mut earlier = Vec::new();
    for experiment in experiments(measured) {
        let inputs = Inputs::new(run, experiment, site, measured, &earlier);
        let found = inputs.values(&resample::medians_of_all(&inputs.rounds()));
        let id = experiment.card().id;
        let keyed = found.iter().filter(|value| value.value.is_finite());
        earlier.extend(keyed.map(|value| (Key::new(id, &value.case, value.metric), value.value)));
    }
    for (key, value) in earlier {
        known.insert(key, value);
    }
    known
}

fn experiments(measured: &[Measured]) -> Vec<&'static dyn AnyExperiment> {
    let mut all: Vec<&'static dyn AnyExperiment> = Vec::new();
    for (experiment, _) in measured {
        if all.iter().all(|other| other.card().id != experiment.card().id) {
            all.push(*experiment);
        }
    }
    all
}

fn estimate_of(rounds: &Rounds, over: Over) -> Option<f64> {
    let estimate = rounds.estimate(Better::None)?;
    Some(match over {
        Over::Greatest => estimate.max,
        Over::Undisturbed | Over::All => estimate.value,
    })
}

/// Calls every experiment's `derive` on the estimates and on resamples of the rounds, its own and
/// those that it comes after. Values that earlier experiments derived enter the resamples as they
/// are.
pub fn derive(run: &Run, site: &Site, measured: &[Measured], seed: u64) -> Vec<Derived> {
    let mut all = Vec::new();
    let mut earlier = Vec::new();
    for experiment in experiments(measured) {
        let inputs = Inputs::new(run, experiment, site, measured, &earlier);
        let found = inputs.resampled(seed);
        let id = experiment.card().id;
        let keyed = found.iter();
        let keyed =
            keyed.map(|derived| (Key::new(id, &derived.case, &derived.metric), derived.value));
        earlier.extend(keyed);
        all.extend(found);
    }
    all
}

struct Inputs<'run> {
    experiment: &'static dyn AnyExperiment,
    site: &'run Site,
    tables: Vec<Table>,
    earlier: &'run [(Key, f64)],
}

impl<'run> Inputs<'run> {
    /// From the measured series of an experiment and of those that it comes after, directly or not.
    fn new(
        run: &Run,
        experiment: &'static dyn AnyExperiment,
        site: &'run Site,
        measured: &[Measured],
        earlier: &'run [(Key, f64)],
    ) -> Self {
        let mut ids = vec![experiment.card().id];
        let mut at = 0;
        while let Some(id) = ids.get(at).copied() {
            at += 1;
            let found = measured.iter().find(|(other, _)| other.card().id == id);
            for id in found.map_or(&[][..], |(other, _)| other.card().after) {
                if !ids.contains(id) {
                    ids.push(id);
                }
            }
        }
        let used = measured.iter().filter(|(other, _)| ids.contains(&other.card().id));
        let mut tables: Vec<Table> = used
            .map(|(other, figures)| table(run, other.card().id, figures))
            .filter(|table| !table.keys.is_empty())
            .collect();
        let is_own = |key: &Key| key.experiment == experiment.card().id;
        if !tables.iter().flat_map(|table| &table.keys).any(is_own) {
            tables.clear();
        }
        Inputs { experiment, site, tables, earlier }
    }

    fn rounds(&self) -> Vec<resample::Series> {
        self.tables.iter().map(|table| table.rounds.clone()).collect()
    }

    /// What the experiment derives from these medians of its inputs; nothing without figures of its
    /// own.
    fn values(&self, medians: &resample::Medians) -> Vec<DerivedValue> {
        if self.tables.is_empty() {
            return Vec::new();
        }
        let (mut known, mut own) = (Known::default(), Known::default());
        for (key, value) in self.earlier {
            known.insert(key.clone(), *value);
        }
        for (table, medians) in self.tables.iter().zip(medians) {
            for (key, median) in table.keys.iter().zip(medians) {
                if let Some(value) = median {
                    let values = match key.experiment == self.experiment.card().id {
                        true => &mut own,
                        false => &mut known,
                    };
                    values.insert(key.clone(), *value);
                }
            }
        }
        self.experiment.derive(self.site, &known, &own)
    }

    fn resampled(&self, seed: u64) -> Vec<Derived> {
        let mut first: Option<Vec<DerivedValue>> = None;
        let found = resample::derived(&self.rounds(), seed, |medians| {
            let values = self.values(medians);
            let keyed = values
                .iter()
                .filter(|value| value.value.is_finite())
                .map(|value| ((value.case.clone(), value.metric), value.value))
                .gather::<BTreeMap<_, _>>();
            // The resampler's first call is on the rounds as they are: facts and notes come from
            // there.
            first.get_or_insert(values);
            keyed
        });
        let card = self.experiment.card();
        let in_rounds = card.repeat == Repeat::Rounds;
        let first = first.unwrap_or_default().into_iter();
        first
            .filter_map(|value| {
                let resampled = found.get(&(value.case.clone(), value.metric))?;
                // Where the blocks of a single repetition agree, they say nothing of where another
                // would find it.
                let of_blocks = resampled.interval;
                let interval = of_blocks.filter(|ends| in_rounds || ends.low < ends.high);
                Some(Derived {
                    experiment: card.id.to_owned(),
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
}

/// The interval of a position is at least its grid cell; of what is measured one time it is the
/// cell alone, without a confidence.
fn with_cell(resampled: Option<Interval>, cell: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (resampled.map(|interval| (interval.low, interval.high)), cell) {
        (Some((low, high)), Some(cell)) => Some((low.min(cell.0), high.max(cell.1))),
        (Some(ends), None) | (None, Some(ends)) => Some(ends),
        (None, None) => None,
    }
}

/// The rounds that the estimates use: the undisturbed ones if there are six, else all.
fn table(run: &Run, experiment: &str, figures: &Figures) -> Table {
    let in_rounds =
        run.experiment(experiment).is_none_or(|planned| planned.repeat == Repeat::Rounds);
    let all = figures.values().flat_map(|figure| &figure.values);
    let rounds: BTreeMap<u32, bool> = all.map(|valued| (valued.round, valued.disturbed)).gather();
    let quiet = rounds.values().filter(|disturbed| !**disturbed).count();
    let used: Vec<u32> = rounds
        .iter()
        .filter(|(_, disturbed)| quiet < resample::LEAST_ROUNDS || !**disturbed)
        .map(|(round, _)| *round)
        .collect();
    let mut table = Table { keys: Vec::new(), rounds: Vec::new() };
    for ((case, metric), figure) in figures {
        let by_round: BTreeMap<u32, f64> =
            figure.values.iter().map(|valued| (valued.round, valued.value)).gather();
        // What one repetition has one value of holds for all of its blocks.
        let only = match (in_rounds, figure.values.as_slice()) {
            (false, [only]) => Some(only.value),
            _ => None,
        };
        table.keys.push(Key::new(experiment, case, metric));
        table.rounds.push(used.iter().map(|round| by_round.get(round).copied().or(only)).collect());
    }
    table
}

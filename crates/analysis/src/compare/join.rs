//! Figures of two runs by their keys, and what has no partner.

use super::Measured;
use crate::figure::Figure;
use crate::index::series_label;
use record::event::Ending;
use record::key::{CaseId, FAR, Key, LOOPBACK};
use record::metric::Metric;
use record::run::Run;
use record::unit::Unit;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug)]
pub struct Joined<'a> {
    pub base: &'a Figure,
    pub new: &'a Figure,
    pub metric: &'a Metric,
    /// Its place among the base run's figures.
    pub index: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Incomparable<'a> {
    pub figure: &'a Figure,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The new run did not plan it.
    OnlyBase,
    /// The base run did not plan it.
    OnlyNew,
    /// The base run has it, the new one skipped it or failed, for this reason.
    AbsentInNew(String),
    /// The new run has it, the base run skipped it or failed, for this reason.
    AbsentInBase(String),
    /// In either run there is another unit.
    Units(&'static str, &'static str),
}

impl Why {
    /// Whether the base run has what the new one lacks, or has in another unit.
    pub fn is_missing_in_new(&self) -> bool {
        match self {
            Why::OnlyBase | Why::AbsentInNew(_) | Why::Units(..) => true,
            Why::OnlyNew | Why::AbsentInBase(_) => false,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Why::OnlyBase => "only in the base run".to_owned(),
            Why::OnlyNew => "only in the new run".to_owned(),
            Why::AbsentInNew(reason) => format!("not in the new run: {reason}"),
            Why::AbsentInBase(reason) => format!("not in the base run: {reason}"),
            Why::Units(base, new) => format!("in {base} and in {new}"),
        }
    }
}

/// The figures of two runs.
#[derive(Debug, Default)]
pub struct Joins<'a> {
    /// Those in both, by series; derived figures of an experiment are one.
    pub series: Vec<Vec<Joined<'a>>>,
    pub incomparable: Vec<Incomparable<'a>>,
}

/// Joins by experiment, case and metric; figures of a published machine by what a report states.
pub fn join<'a>(base: &'a Measured, new: &'a Measured) -> Joins<'a> {
    let is_published = [base, new].iter().any(|one| one.run.header.is_published());
    let keys = if is_published { stated_keys } else { keys };
    let partners = by_key(&new.figures, keys);
    let own = by_key(&base.figures, keys);
    let series_of = series(base.run);
    let mut by_series: BTreeMap<usize, Vec<Joined>> = BTreeMap::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut joins = Joins::default();
    for (at, figure) in base.figures.iter().enumerate() {
        let Some((key, metric)) = valued(figure) else {
            continue;
        };
        match of_figure(&partners, keys(figure)) {
            Some(partner) if usable(partner).is_some() => {
                let (figure, partner) =
                    (figure.comparable_with(partner), partner.comparable_with(figure));
                if let Some((base_unit, new_unit)) = units(figure, partner) {
                    joins.incomparable.push(Incomparable {
                        figure,
                        why: Why::Units(base_unit.text(), new_unit.text()),
                    });
                    continue;
                }
                let label = match series_of.get(&(key.experiment.as_str(), &figure.case)) {
                    Some(label) if !metric.derived => label.clone(),
                    _ => format!("{} derived", key.experiment),
                };
                let next = numbers.len();
                let number = *numbers.entry(label).or_insert(next);
                by_series.entry(number).or_default().push(Joined {
                    base: figure,
                    new: partner,
                    metric,
                    index: at,
                });
            }
            _ => joins.incomparable.push(Incomparable {
                figure,
                why: reason(new, &key).map_or(Why::OnlyBase, Why::AbsentInNew),
            }),
        }
    }
    for figure in &new.figures {
        let Some((key, _)) = valued(figure) else {
            continue;
        };
        if of_figure(&own, keys(figure)).is_none_or(|own| usable(own).is_none()) {
            joins.incomparable.push(Incomparable {
                figure,
                why: reason(base, &key).map_or(Why::OnlyNew, Why::AbsentInBase),
            });
        }
    }
    joins.series = by_series.into_values().collect();
    joins
}

/// The present key of a figure, and its former key, if it was renamed.
type Keys = [Option<Key>; 2];

fn keys(figure: &Figure) -> Keys {
    [figure.key(), figure.former_key()]
}

/// The same keys, reduced to what a report states.
fn stated_keys(figure: &Figure) -> Keys {
    keys(figure).map(|key| key.map(stated))
}

/// A key reduced to what a report states: each far end on another host is called `peer`.
pub(super) fn stated(mut key: Key) -> Key {
    let mut params = key.case.0.iter_mut();
    if let Some((_, far)) =
        params.find(|(name, value)| name == FAR && value.text() != Some(LOOPBACK))
    {
        *far = "peer".into();
    }
    key
}

/// Figures by their present keys, and by former keys that no other figure has. The first of several
/// figures with one key counts.
fn by_key(figures: &[Figure], keys: fn(&Figure) -> Keys) -> HashMap<Key, &Figure> {
    let mut all = HashMap::new();
    for nth in 0..2 {
        for figure in figures {
            if let Some(key) = &keys(figure)[nth] {
                all.entry(key.clone()).or_insert(figure);
            }
        }
    }
    all
}

/// The figure of another run with the present or the former key.
fn of_figure<'a>(others: &HashMap<Key, &'a Figure>, keys: Keys) -> Option<&'a Figure> {
    keys.iter().flatten().find_map(|key| others.get(key)).copied()
}

/// The value of a figure that holds: one that failed (beyond a bound, a check) has none to compare.
pub(super) fn usable(figure: &Figure) -> Option<f64> {
    figure.value.filter(|value| value.is_finite() && figure.outcome == Ending::Measured)
}

fn valued(figure: &Figure) -> Option<(Key, &Metric)> {
    usable(figure)?;
    Some((figure.key()?, figure.metric.as_ref()?))
}

fn units(base: &Figure, new: &Figure) -> Option<(Unit, Unit)> {
    let (base, new) = (base.metric.as_ref()?.unit, new.metric.as_ref()?.unit);
    (base != new).then_some((base, new))
}

/// Why a run has no value of a key; `None` where it did not plan it.
fn reason(run: &Measured, key: &Key) -> Option<String> {
    let of_experiment = || run.figures.iter().filter(|figure| figure.experiment == key.experiment);
    let figure = of_experiment()
        .find(|figure| figure.key().as_ref() == Some(key))
        .or_else(|| {
            of_experiment().find(|figure| figure.metric.is_none() && figure.case == key.case)
        })
        .or_else(|| {
            of_experiment().find(|figure| figure.metric.is_none() && figure.case.0.is_empty())
        })?;
    let ending = match figure.outcome {
        Ending::Failed => "failed",
        Ending::Skipped => "skipped",
        Ending::Measured => return Some("no value".to_owned()),
    };
    Some(match &figure.reason {
        Some(reason) if !reason.is_empty() => format!("{ending}: {reason}"),
        _ => ending.to_owned(),
    })
}

/// The labels of the planned series, by experiment and case.
fn series(run: &Run) -> HashMap<(&str, &CaseId), String> {
    let mut labels = HashMap::new();
    for planned in run.plan.iter().flat_map(|plan| &plan.experiments) {
        for series in &planned.series {
            for case in &series.cases {
                labels.insert((planned.id.as_str(), case), series_label(&planned.id, series));
            }
        }
    }
    labels
}

/// The label of the series of a figure, as its rounds are recorded.
pub(super) fn label_of(run: &Run, figure: &Figure) -> Option<String> {
    let planned = run.experiment(&figure.experiment)?;
    planned
        .series
        .iter()
        .find(|series| series.cases.contains(&figure.case))
        .map(|series| series_label(&planned.id, series))
}

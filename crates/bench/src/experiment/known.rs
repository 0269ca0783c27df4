//! Figures that are known, and what follows from them.

use record::key::{CaseId, Key, Value};
use std::collections::BTreeMap;

/// Figures of earlier stages, or nothing in planning.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub(super) values: BTreeMap<Key, f64>,
}

impl Known {
    /// Adds a figure in its metric's unit.
    pub fn insert(&mut self, key: Key, value: f64) {
        self.values.insert(key, value);
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A figure by its parts.
    pub fn get(&self, experiment: &str, case: &CaseId, metric: &str) -> Option<f64> {
        self.values.get(&Key::new(experiment, case, metric)).copied()
    }

    pub fn figures<'known>(
        &'known self,
        experiment: &'known str,
        metric: &'known str,
    ) -> impl Iterator<Item = (&'known CaseId, f64)> {
        self.values
            .iter()
            .filter(move |(key, _)| key.experiment == experiment && key.metric == metric)
            .map(|(key, value)| (&key.case, *value))
    }
}

/// A value that `derive` found.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedValue {
    /// Case: one of `derivable`.
    pub case: CaseId,
    pub metric: &'static str,
    /// Value in the metric's unit.
    pub value: f64,
    /// For a position: the grid cell that it was found in. Its interval is never narrower, however
    /// well the resamples agree.
    pub cell: Option<(f64, f64)>,
    /// What was found with it; taken from the estimates, not from the resamples.
    pub at: BTreeMap<String, Value>,
    pub notes: Vec<String>,
}

impl DerivedValue {
    pub fn new(case: CaseId, metric: &'static str, value: f64) -> Self {
        DerivedValue { case, metric, value, cell: None, at: BTreeMap::new(), notes: Vec::new() }
    }
}

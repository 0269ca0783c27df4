//! Cases and series as the session hands them to a worker.

use crate::key::{CaseId, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One point of an experiment's parameter space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Symbolic identity, the same on every host.
    pub id: CaseId,
    /// What the symbols resolved to on this host (bytes, counts, CPUs); never part of the key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Value>,
}

impl Case {
    /// A case whose symbols need no resolution.
    pub fn new(id: CaseId) -> Self {
        Case { id, at: BTreeMap::new() }
    }

    /// An integer from the identity, else from what was resolved.
    pub fn int(&self, name: &str) -> Option<u64> {
        self.id.int(name).or_else(|| self.at.get(name).and_then(Value::int))
    }

    /// A symbol from the identity.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.id.text(name)
    }
}

/// The order in which one round visits the cases of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As listed in odd rounds, backwards in even ones: ladders.
    Ladder,
    /// Shuffled anew each round.
    Shuffled,
    /// Always as listed.
    Fixed,
}

/// Cases that share one apparatus; the unit of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    pub experiment: String,
    /// Name within the experiment, unique there; empty if it has only one.
    pub name: String,
    /// Order of the cases inside a round.
    pub order: Order,
    pub cases: Vec<Case>,
    /// Settings of the experiment that are not part of any case's identity, one value each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
}

impl<'series> IntoIterator for &'series Series {
    type Item = &'series Case;
    type IntoIter = std::slice::Iter<'series, Case>;

    fn into_iter(self) -> Self::IntoIter {
        self.cases.iter()
    }
}

impl Series {
    /// Cases of an experiment, without a name and settings.
    pub fn new(experiment: &str, order: Order, cases: Vec<Case>) -> Series {
        let (experiment, settings) = (experiment.to_owned(), BTreeMap::new());
        Series { experiment, name: String::new(), order, cases, settings }
    }

    /// `experiment` or `experiment/name`: unique in a run.
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            self.experiment.clone()
        } else {
            format!("{}/{}", self.experiment, self.name)
        }
    }

    pub fn setting(&self, name: &str) -> Option<u64> {
        self.settings.get(name).and_then(Value::int)
    }
}

//! What an author expects of a key figure, stated before the run.

use crate::unit::Unit;
use serde::{Deserialize, Serialize};

/// An author's estimate of a key figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Title of the key figure, as the summary has it: `null call`.
    pub figure: String,
    /// The estimate, in base units.
    pub value: f64,
    pub unit: Unit,
    /// Why; empty if the author gave no reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

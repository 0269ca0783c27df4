//! Which core this is: model number, checked against features and caches.

use serde::{Deserialize, Serialize};

use super::Core;

/// Which core this is, and how sure that is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Microarchitecture {
    /// The design that features, caches and model number support best. On a hybrid machine the
    /// performance core.
    pub core: Core,
    /// Product family (`Granite Rapids`, `Milan`), where the evidence names one.
    pub platform: Option<String>,
    /// What the model number alone says; `None` where it says nothing.
    pub by_model: Option<Core>,
    /// What led to `core`, one fact each.
    pub evidence: Vec<String>,
    /// How model number and features contradict each other: a masked model number.
    pub contradiction: Option<String>,
}

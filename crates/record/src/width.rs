//! The width probe's level for an exclusive core.

use serde::{Deserialize, Serialize};

/// The width probe's reading on an exclusive core (METHOD §2a).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Width {
    /// Operations per cycle of a core that is alone; null if that is unknown.
    pub level: Option<f64>,
    /// Whether the level is only what the core's design is known to do, because no reading has shown
    /// the core alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub from_design: bool,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<Unusable>,
    /// Operations per cycle in the highest mode of the readings, whether it is a level or not.
    pub additions_per_cycle: Option<f64>,
    /// Readings that were taken.
    pub readings: u64,
    /// Readings at the level.
    pub at_level: u64,
    /// Distance of the quartiles of these, relative to the level.
    pub spread: f64,
    /// Share of the readings that were alone.
    pub alone: f64,
}

/// Why a core has no level of the width probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unusable {
    /// The clock's steps are too long for readings of 2 µs.
    ClockTooCoarse,
    /// The highest readings have no sharp edge: the core was never exclusive during calibration.
    NeverAlone,
    /// Their edge is not at a whole number of operations per cycle: an emulated or unknown core.
    NotWhole,
    /// Their edge is at another whole number than the core's design is known to have.
    OtherThanDesign,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What *alone* looks like, learnt from rounds after the calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learnt {
    /// Part of the run, from 0.
    pub segment: u32,
    /// In place of the calibration's.
    pub width: Width,
}

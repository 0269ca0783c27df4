//! Figures of other tools beside plumb's: the events of `plumb crosscheck`.

use crate::event::Ending;
use crate::key::CaseId;
use crate::plan::Absence;
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The preset of a record that holds a crosscheck and no run of its own.
pub const CROSSCHECK: &str = "crosscheck";
/// In commands, for directories that exist only while they are run: the rival's working directory …
pub const DIR: &str = "DIR";
/// … the one for files that are measured, on the file system of `--dir` …
pub const FILES: &str = "FILES";
/// … and the one in memory.
pub const MEMORY: &str = "MEMORY";

/// When and how a crosscheck was made: one that is added to a run has another day and environment
/// than that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Began {
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Version of plumb.
    pub plumb: String,
    /// `quick`, `standard` or `thorough`.
    pub preset: String,
    /// Turns of each pairing.
    pub pairs: u32,
    /// The environment: kernel, mitigations, governor, load … by name.
    pub environment: BTreeMap<String, String>,
}

/// Another tool, and whether it is here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rival {
    /// Its name, as `plumb crosscheck` takes it.
    pub name: String,
    /// One line: what it is.
    pub about: String,
    /// The Debian package that has it; null where there is none.
    pub package: Option<String>,
    /// The version that it reported; null if it is absent or reports none.
    pub version: Option<String>,
    /// Why it is not run, and what would help; null where it is.
    pub absent: Option<Absence>,
}

/// What of plumb's stands beside what of a rival's: one command of each, run in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pairing {
    /// The rival's name.
    pub rival: String,
    /// Unique among the rival's.
    pub name: String,
    /// plumb's command, as it can be typed.
    pub ours: Vec<String>,
    /// The rival's command, as it can be typed in its own directory, which is [`DIR`] in it;
    /// [`FILES`] and [`MEMORY`] are directories too.
    pub theirs: Vec<String>,
    /// Files in that directory that the rival reads: name and text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Commands to run there once before the first turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Vec<String>>,
    /// The rival's far end, which runs during all turns; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Vec<String>>,
    /// What is compared; at least one.
    pub rows: Vec<Row>,
    /// Neither side is a timing, so that one turn says it all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

/// One figure of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Unique in the pairing; empty where the pairing has no other.
    pub name: String,
    /// plumb's experiment.
    pub experiment: String,
    /// Parameters of its case that distinguish it from the others of the same command.
    pub case: CaseId,
    /// Its metric.
    pub metric: String,
    /// What is taken of its samples: `value`, `mean`, `best` …
    pub statistic: String,
    /// Unit of both values.
    pub unit: Unit,
    /// What the ratio, plumb's value over the rival's, should be.
    pub goal: Goal,
    /// The difference in method, if known.
    pub difference: String,
}

/// The goal of a ratio (METHOD §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least 1.00: a rate.
    AtLeast,
    /// At least 0.95: a rate with a different method.
    AtLeastNearly,
    /// At most 1.00: a time.
    AtMost,
    /// Within 5 % of 1.00.
    Agree,
    /// None: the measurements differ, and the difference explains how.
    Explained,
}

/// One turn: plumb and the rival, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The rival's name.
    pub rival: String,
    /// The pairing's name.
    pub pairing: String,
    /// Number, from 1.
    pub n: u32,
    /// Whether plumb went first.
    pub ours_first: bool,
    /// plumb's values, in the order of the rows.
    pub ours: Vec<f64>,
    /// The rival's.
    pub theirs: Vec<f64>,
    /// What else had the CPUs of plumb's side while it ran; null where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_load: Option<Load>,
    /// Those of the rival's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs_load: Option<Load>,
}

/// What happened on a side's CPUs while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Its length times the number of its CPUs.
    pub cpu_s: f64,
    /// What the hypervisor took of that; null if the kernel does not report it.
    pub steal_s: Option<f64>,
    /// Least CPU time that other processes and the kernel's own threads used; null if a far end's
    /// share cannot be separated.
    pub others_s: Option<f64>,
}

/// How a pairing ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairingEnd {
    /// The rival's name.
    pub rival: String,
    /// The pairing's name.
    pub pairing: String,
    /// `measured`; `skipped` or `failed` with a reason, whatever pairs it has then.
    pub outcome: Ending,
    /// Why, in one line.
    pub reason: Option<String>,
    /// What would help a skipped one.
    pub needed: Option<String>,
}

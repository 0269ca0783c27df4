//! The record of a sweep: JSON Lines, one [`Event`] a line, each with its checksum as in a run's
//! record. Verdicts are not in it: the model computes them from it.

use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the fleet record. A reader refuses records with a higher one.
pub const FLEET_FORMAT: u32 = 1;

/// A line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line: what was asked for.
    Header(Header),
    /// A node that joined.
    Node(Node),
    /// A figure of one node.
    Figure(Figure),
    /// A figure between two nodes.
    Pair(Pair),
    /// What is missing, and why.
    Absent(Absent),
    /// A phase began or ended.
    Phase(Phase),
    /// The last line.
    End(End),
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Header {
    /// [`FLEET_FORMAT`] of the writer.
    pub format: u32,
    /// Name of the sweep.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// Version of plumb at rank 0.
    pub plumb: String,
    /// Number of nodes that were expected.
    pub size: u32,
    /// Preset of the single-node phase.
    pub preset: String,
    /// Selectors of the single-node phase; empty selects the preset's experiments.
    pub selectors: Vec<String>,
    /// Selectors of the pair phase.
    pub pair_selectors: Vec<String>,
    /// Number of matchings; all pairs are `size` - 1 (or `size` for an odd size).
    pub steps: u32,
    /// What is measured beside matchings.
    #[serde(default, skip_serializing_if = "Loads::is_none")]
    pub loads: Loads,
    /// Seed of the matchings and of the order.
    pub seed: u64,
    /// What started the nodes: `slurm`, `kubernetes`, `mpi`, `ssh` or `options`.
    pub starter: String,
    /// Whether the figures are drawn and not measured: a rehearsal of the sweep itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub simulated: bool,
}

impl Header {
    /// What was asked for, by name, for a reader.
    pub fn asked(&self) -> [(&'static str, String); 6] {
        let selected = |selectors: &[String]| match selectors.is_empty() {
            true => "all of the preset".to_owned(),
            false => selectors.join(" "),
        };
        let Loads { bisection, incast, outcast } = self.loads;
        [
            ("experiments", selected(&self.selectors)),
            ("pair experiments", selected(&self.pair_selectors)),
            ("steps", self.steps.to_string()),
            ("bisection steps", bisection.to_string()),
            ("incast steps", incast.to_string()),
            ("outcast steps", outcast.to_string()),
        ]
    }
}

/// Steps that load what several pairs share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loads {
    /// Matchings across a cut of the fleet.
    pub bisection: u32,
    /// Gatherings of several senders with one receiver.
    pub incast: u32,
    /// Gatherings of several receivers with one sender; absent in older records.
    #[serde(default)]
    pub outcast: u32,
}

impl Loads {
    fn is_none(&self) -> bool {
        *self == Loads::default()
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A node that joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Node {
    /// 0 to size - 1.
    pub rank: u32,
    /// Host name, as the engine calls it where it says so.
    pub name: String,
    /// Version of plumb there.
    pub plumb: String,
    /// What makes hardware identical: CPU model, microcode, memory, NIC, disk, kernel, by name.
    pub stratum: BTreeMap<String, String>,
    /// What the site says of the node: `rack`, `instance_type`, `zone`, `switch`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Address at which other nodes reach it.
    pub address: String,
    /// Its own record, on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// Its wall clock minus that of rank 0, in seconds.
    pub clock_offset_s: f64,
    /// Smallest round trip to rank 0 on the control channel, in seconds.
    pub round_trip_s: f64,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// In the figure's unit.
    pub value: f64,
    /// Its interval, in the same unit; absent where there were too few rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<(f64, f64)>,
    /// Rounds used.
    pub rounds: u32,
    /// Standard deviation of the logarithms of the round values: the node's own scatter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter: Option<f64>,
}

/// A figure of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// The node.
    pub rank: u32,
    /// What it is of.
    #[serde(flatten)]
    pub key: Key,
    /// Unit of all quantities of the figure.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class of the metric.
    pub kind: Kind,
    /// The value.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Range that was predicted before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<(f64, f64)>,
    /// 0 in the phase `alone`; in the phase `suspects` the number of the repetition, from 1.
    pub again: u32,
}

/// Why a pair was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A step of a matching, beside the other pairs of the step.
    Matching,
    /// The same pair with nothing else running: the ratio is contention.
    Isolated,
    /// A suspect with one of its best partners, with hardly anything else running.
    Suspect,
    /// A matching across a cut.
    Bisection,
    /// Several senders, one receiver.
    Incast,
    /// One sender, several receivers: its far end sends to its near ends.
    Outcast,
}

impl Purpose {
    /// Whether several pairs have one far end.
    pub fn is_gathering(self) -> bool {
        matches!(self, Purpose::Incast | Purpose::Outcast)
    }

    /// Whether it loads what pairs share.
    pub fn is_load(self) -> bool {
        self.is_gathering() || self == Purpose::Bisection
    }
}

/// A figure between two nodes. The near end sends; what it measures is of the path from `from` to
/// `to`, except for round trips, and for rates whose case has the direction `down`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pair {
    /// Number of the step, over all phases.
    pub step: u32,
    /// Why it was measured.
    pub purpose: Purpose,
    /// The near end.
    pub from: u32,
    /// The far end.
    pub to: u32,
    /// What it is of.
    #[serde(flatten)]
    pub key: Key,
    /// Unit of all quantities of the figure.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// The value.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Range that was predicted before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<(f64, f64)>,
}

/// A phase of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nodes join rank 0.
    Meet,
    /// Each node by itself, all at the same time.
    Alone,
    /// Matchings of nodes.
    Pairs,
    /// Nodes and links that stand out, again.
    Suspects,
    /// Results reach rank 0.
    Gather,
}

/// What is missing, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absent {
    /// The node.
    pub rank: u32,
    /// The other end, for a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// When.
    pub phase: Stage,
    /// The step, for a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The experiment; absent where all of the node's part of the phase is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Reason, for a reader.
    pub why: String,
    /// Whether the node is lost: it takes no part in what follows.
    pub lost: bool,
}

impl Absent {
    /// All of a node's part of a phase; the node is not lost.
    pub fn new(rank: u32, phase: Stage, why: impl Into<String>) -> Absent {
        let (to, step, experiment, why) = (None, None, None, why.into());
        Absent { rank, to, phase, step, experiment, why, lost: false }
    }
}

/// A phase began or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which.
    pub phase: Stage,
    /// Whether it ended.
    pub ended: bool,
    /// Time since the sweep began, in seconds.
    pub at_s: f64,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct End {
    /// Time that the sweep took, in seconds.
    pub wall_s: f64,
    /// Whether a signal or a deadline ended it before its plan did.
    pub interrupted: bool,
}

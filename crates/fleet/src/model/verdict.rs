//! What the model says: strata, suspects, verdicts with their evidence.

use record::key::Key;
use record::metric::{Better, Kind};
use record::unit::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

/// Nodes of identical hardware, which are each other's peers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stratum {
    /// What makes them identical, by name.
    pub facts: BTreeMap<String, String>,
    /// Names of the facts in which the strata of this sweep differ; empty for the only one.
    pub differs: Vec<String>,
    /// Its nodes in ascending order.
    pub ranks: Vec<u32>,
}

/// Which end of a pair a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No pair: measured alone.
    Alone,
    /// The near end of pairs.
    Send,
    /// The far end of pairs.
    Receive,
    /// Either end: round trips.
    Both,
}

/// Where a figure stands among those of its peers in the first measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The node.
    pub rank: u32,
    /// Index of the figure in [`Judgement::subjects`].
    pub subject: usize,
    /// How many times worse than the centre of its peers: 2 is half the rate or twice the latency,
    /// below 1 is better.
    pub factor: f64,
    /// Distance from the centre in robust standard deviations, positive where worse; absent below
    /// five peers.
    pub z: Option<f64>,
    /// Number of peers.
    pub peers: usize,
}

/// What is compared over nodes: a figure of nodes, or what pairs say of one of their ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Subject {
    /// The figure.
    pub key: Key,
    /// Which end of pairs, for a node.
    pub role: Role,
    /// Whether the scatter of its rounds is worse, not its level.
    pub is_scatter: bool,
    /// Unit of the evidence's values.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class of the figure.
    pub kind: Kind,
}

impl Subject {
    /// Whether nodes measure it by themselves.
    pub fn is_alone(&self) -> bool {
        self.role == Role::Alone
    }
}

/// What is accused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// A node, by rank.
    Node(u32),
    /// The path from a near to a far end, by their ranks; for round trips both ways.
    Link(u32, u32),
}

/// Of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// A node's level is worse than that of its peers, confirmed.
    Slower,
    /// A node's rounds scatter more than those of its peers, or several of its paths are worse than
    /// their ends explain, confirmed.
    Unstable,
    /// A path is worse than its ends explain, confirmed.
    DegradedLink,
    /// It stood out and was not confirmed: it could not be measured again, or the second measurement
    /// leaves it open. A node or link that was measured again and found well is no suspect.
    Suspect,
}

/// Why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Distance from the centre of the peers in standard errors: of all repetitions together; of the
    /// first measurement where there is no other.
    pub z: f64,
    /// Probability that chance gives this distance, one-sided; over the share of its look.
    pub p: f64,
    /// The false discovery rate at which it is found: among all nodes and figures, or all links.
    pub q: f64,
    /// What was measured first, in the figure's unit: the node's value, or the median over its
    /// pairs; for a link the value of the pair. For [`Subject::is_scatter`] the standard deviation
    /// of the logarithms.
    pub value: f64,
    /// The median of the peers in the same unit; for a link what its ends let expect.
    pub peers_median: f64,
    /// Number of peers; for a link the number of pairs.
    pub peers: usize,
    /// How often it was measured again.
    pub repetitions: u32,
    /// The other ends it was measured again with, for pairs.
    pub partners: Vec<u32>,
    /// The range that was predicted, in the same unit.
    pub predicted: Option<(f64, f64)>,
}

/// A node or link that is worse than its peers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Of what.
    pub charge: Charge,
    /// Which node or link.
    pub at: At,
    /// The figure.
    #[serde(flatten)]
    pub subject: Subject,
    /// How many times worse than its peers: above 1. From the second measurement where there is one.
    pub factor: f64,
    /// 95 % interval of `factor`.
    pub interval: (f64, f64),
    /// Why.
    pub evidence: Evidence,
}

/// A figure that is worse than predicted in a stratum: as a whole, or in some nodes of one that is
/// too small to compare.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Below {
    /// Index of the stratum in [`Judgement::strata`].
    pub stratum: usize,
    /// The figure.
    pub key: Key,
    /// Unit of `value` and `predicted`.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// The nodes whose whole interval is worse than predicted.
    pub ranks: Vec<u32>,
    /// Number of nodes of the stratum with the figure.
    pub nodes: usize,
    /// Whether the whole stratum is meant: its median and the interval of that are worse.
    pub is_whole: bool,
    /// The median of the stratum, or of `ranks` where it is not meant as a whole.
    pub value: f64,
    /// The range that was predicted: of several nodes the median of both ends.
    pub predicted: (f64, f64),
    /// How many times worse than the end of the range: above 1.
    pub factor: f64,
}

/// How slow a node must be to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Detectable {
    /// Index of the figure in [`Judgement::subjects`].
    pub subject: usize,
    /// Class of the figure.
    pub kind: Kind,
    /// A node this many times worse than its peers is found in 95 % of such sweeps.
    pub factor: f64,
}

/// How bad a link must be to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectableLink {
    /// Index of the figure in [`Judgement::subjects`].
    pub subject: usize,
    /// A link that is this many times worse than its ends explain is found in 99 % of such sweeps.
    pub factor: f64,
}

/// A node whose single-node figures phase 4 measures again: a suspect, or a healthy peer beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAgain {
    /// The node.
    pub rank: u32,
    /// Figures whose experiments are measured again, as each number of [`Suspects::again`].
    pub keys: Vec<Key>,
}

/// A pair that phase 4 measures again, with hardly anything else running, as [`Purpose::Suspect`].
///
/// [`Purpose::Suspect`]: crate::sweep::Purpose::Suspect
#[derive(Clone, Debug, PartialEq)]
pub struct LinkAgain {
    /// The near end.
    pub from: u32,
    /// The far end.
    pub to: u32,
    /// The figures because of which.
    pub keys: Vec<Key>,
    /// In which turns of its look, from 0.
    pub turns: Vec<u32>,
}

/// What phase 4 measures for its next look; nothing after the last. Nodes do not disturb each other
/// and run at the same time; pairs run in turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suspects {
    /// Numbers of the first and the last repetition of nodes.
    pub again: (u32, u32),
    /// Nodes by themselves.
    pub nodes: Vec<NodeAgain>,
    /// Suspect nodes with their three best partners, and suspect links with both ends' partners,
    /// worst first.
    pub pairs: Vec<LinkAgain>,
}

impl Suspects {
    /// Partners that a suspect end is measured with.
    pub const PARTNERS: usize = 3;
    /// Healthy peers that are measured beside the suspects of an experiment.
    pub const PEERS: usize = 12;
    /// Most turns of pairs for one look: they run one after another.
    pub const TURNS_MOST: u32 = 120;
    /// Nodes of a sweep for each pair of a turn: 24 of 25 nodes rest, so that pairs hardly load
    /// what they share.
    const NODES_A_PAIR: u32 = 50;

    /// Most pairs of a turn, in a sweep of so many nodes.
    pub fn beside(size: u32) -> u32 {
        (size / Suspects::NODES_A_PAIR).max(1)
    }
}

/// All that the model says of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Nodes of identical hardware, the largest stratum first.
    pub strata: Vec<Stratum>,
    /// What is compared over nodes.
    pub subjects: Vec<Subject>,
    /// Every node in every subject: the heat map.
    pub standings: Vec<Standing>,
    /// What is accused, worst charge and least q first.
    pub verdicts: Vec<Verdict>,
    /// What stood out and was measured again and found well.
    pub cleared: Vec<(At, Key)>,
    /// Strata and nodes that are worse than predicted.
    pub below: Vec<Below>,
    /// What each figure of nodes can show.
    pub detectable: Vec<Detectable>,
    /// What each figure of pairs can show.
    pub detectable_links: Vec<DetectableLink>,
    /// What could not be compared, and why, for a reader.
    pub untested: Vec<(Key, String)>,
}

//! What nodes of a sweep say to each other, over the agent's sealed channel. Orders are data: each
//! chooses among fixed commands, and nothing that arrives is executed.
//!
//! A node connects to rank 0 first, and then to its parent in the tree, if rank 0 names one. Reports
//! go up, orders go down; a node in between passes on what is for others. Every report has a number
//! and is repeated until rank 0 has written it; every order has a number and is executed once. So a
//! connection that breaks loses nothing.

use crate::sweep::Figure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Longest frame that a node takes from another one, in bytes: the figures of some hundred nodes.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// Most bytes of reports that are put into one frame; a longer report has a frame of its own.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// What a node says first, at rank 0 and at its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// 0 to size - 1.
    pub rank: u32,
    /// Number of nodes, as this one knows it.
    pub size: u32,
    /// Drawn by the process when it starts: two processes with one rank differ.
    pub instance: u64,
    pub plumb: String,
    /// Name, as the engine calls it, or the host name.
    pub name: String,
    /// Identity of the machine: nodes with the same one measure in turns.
    pub machine: String,
    /// Address at which others reach it.
    pub address: IpAddr,
    /// Port for children in the tree.
    pub port: u16,
    /// What makes hardware identical, by name.
    pub stratum: BTreeMap<String, String>,
    /// What the site says of the node, by name.
    pub labels: BTreeMap<String, String>,
    /// Whether its figures are drawn and not measured.
    pub simulated: bool,
}

/// What goes up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up {
    /// The first message of a connection.
    Hello(Box<Hello>),
    /// Answer to [`Down::Ping`]: its wall clock, in seconds since 1970.
    Pong { wall_s: f64 },
    /// A node is connected to another one than rank 0.
    Attached {
        rank: u32,
        /// Its parent.
        to: u32,
    },
    /// The connection of a child has ended.
    Detached {
        /// The child.
        rank: u32,
        /// Its parent until now.
        from: u32,
    },
    /// Reports, each of one node.
    Reports(Vec<Numbered>),
}

/// What goes down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Down {
    /// It takes no part.
    Refused {
        /// Why, and what to do.
        why: String,
    },
    /// Too many connect at once: it tries again after this time.
    Later { after_s: f64 },
    /// Asks for a [`Up::Pong`].
    Ping,
    /// It takes part, over this connection.
    Welcome {
        sweep: String,
        /// Drawn by the process of rank 0 when it starts.
        generation: u64,
    },
    /// It takes part, over a connection to its parent.
    Move {
        /// Rank of the parent.
        to: u32,
        /// Where it listens.
        at: SocketAddr,
        sweep: String,
        /// As in [`Down::Welcome`].
        generation: u64,
    },
    /// Messages for nodes.
    Orders(Vec<Addressed>),
}

/// A report with its place among those of its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    pub from: u32,
    /// From 1, without a gap.
    pub number: u64,
    pub report: Report,
}

/// A message for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Addressed {
    pub to: u32,
    pub message: Message,
}

/// What rank 0 says to a node that takes part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Reports up to this number are in the record.
    Written { number: u64 },
    /// Something to do, in place of what the node does now.
    Order {
        /// From 1, each higher than those before.
        id: u64,
        order: Order,
    },
}

/// What a node is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Measure this node by itself.
    Alone {
        preset: String,
        /// Selectors; empty selects the preset's experiments.
        selectors: Vec<String>,
        /// 0, or the number of the repetition.
        again: u32,
        /// It is given up after this time, in seconds.
        within_s: f64,
    },
    /// Be the far end of a pair, or of several at the same time.
    Listen {
        step: u32,
        nears: u32,
        /// It is given up after this time, in seconds.
        within_s: f64,
    },
    /// Be the near end of a pair.
    Reach {
        step: u32,
        /// Rank of the far end.
        far: u32,
        /// Where its agent listens.
        at: SocketAddr,
        /// Key of the agent, for this pair only.
        key: OneTime,
        /// What it shares in the lock of a machine with the other near ends of its far end: they
        /// measure at the same time also where they are on one machine.
        token: Option<String>,
        preset: String,
        selectors: Vec<String>,
        /// Whether the far end sends where rates are measured.
        pulls: bool,
        /// It is given up after this time, in seconds.
        within_s: f64,
    },
    /// End what runs: the far end of a pair that is over.
    Rest,
    /// Report that all that was measured is reported.
    Gather,
    /// The sweep is over.
    Leave {
        /// Why, where it is over before its end.
        why: Option<String>,
    },
}

/// A key for one pair; it is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTime(pub String);

impl fmt::Debug for OneTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("OneTime(…)")
    }
}

/// What a node reports of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// All figures of a node by itself.
    Alone {
        order: u64,
        figures: Vec<Figure>,
        /// Experiments without any figure, and why.
        absent: Vec<(String, String)>,
        /// Where the node's own record is.
        record: String,
    },
    /// The far end of a pair listens.
    Listening {
        order: u64,
        /// Where, and with which key, for each near end.
        doors: Vec<(SocketAddr, OneTime)>,
    },
    /// All figures of a pair, as those of its near end.
    Pair { order: u64, figures: Vec<Figure> },
    /// Everything is reported.
    Gathered { order: u64 },
    /// An order could not be executed.
    Failed { order: u64, why: String },
    /// The node ends.
    Leaves { why: String },
}

/// Divides reports among frames. Errors: none; a report above the size has a frame of its own.
pub fn batches(reports: Vec<Numbered>) -> Vec<Up> {
    let mut frames: Vec<Vec<Numbered>> = Vec::new();
    let mut bytes = BATCH_BYTES_MAX;
    for report in reports {
        let length = report.report.about_bytes();
        match frames.last_mut().filter(|_| bytes + length <= BATCH_BYTES_MAX) {
            Some(frame) => {
                bytes += length;
                frame.push(report);
            }
            None => {
                bytes = length;
                frames.push(vec![report]);
            }
        }
    }
    frames.into_iter().map(Up::Reports).collect()
}

/// Bytes that a figure takes at most in a frame, about.
const FIGURE_BYTES: usize = 512;

impl Report {
    fn about_bytes(&self) -> usize {
        let figures = match self {
            Report::Alone { figures, .. } | Report::Pair { figures, .. } => figures.len(),
            _ => 0,
        };
        FIGURE_BYTES * (figures + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES_MAX, Numbered, OneTime, Report, Up, batches};

    #[test]
    fn reports_go_in_frames_of_a_limited_size() {
        let one = |number| Numbered { from: 1, number, report: Report::Gathered { order: 1 } };
        let many = 3 * BATCH_BYTES_MAX / 512;
        let frames = batches((1..=many as u64).map(one).collect());
        assert_eq!(frames.len(), 3);
        let counted: usize = frames
            .iter()
            .map(|frame| match frame {
                Up::Reports(reports) => reports.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(counted, many);
        assert!(batches(Vec::new()).is_empty());
    }

    #[test]
    fn a_key_is_never_shown() {
        assert!(!format!("{:?}", OneTime("ab".repeat(32))).contains("abab"));
    }
}

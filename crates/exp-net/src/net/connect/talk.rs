//! What both ends say to each other by the line of a case.

use serde::{Deserialize, Serialize};

/// What the far end says by the connection that paces the near end.
pub(super) const ABOUT_TO_ACCEPT: u8 = b'p';
pub(super) const ACCEPTED: u8 = b'a';

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) backlog: u32,
    /// The processors' counters are too far apart: both ends read CLOCK_MONOTONIC.
    pub(super) monotonic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listening {
    /// The port of the case's own listening socket.
    pub(super) port: u16,
}

/// A sequence has so many connections at most: what came of it fits a message.
pub(super) const SEQUENCE_MAX: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Wish {
    Sequence(u64),
    /// Accept this many queued connections as quickly as possible.
    Take(u64),
    /// Accept this many, some of which have not arrived yet.
    Drain(u64),
    End,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) accepted: Vec<u64>,
    pub(super) close_ns: Vec<f64>,
    pub(super) fin_ns: Vec<f64>,
    /// CPU time of the acceptor over the connections that were closed, and how many these are.
    pub(super) cpu: CpuTime,
}

/// CPU time of a thread over some connections: those that end with close(2). Of the others the
/// thread looks all the time whether the FIN was acknowledged, which no server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CpuTime {
    pub(super) ns: u64,
    pub(super) connections: u64,
}

impl CpuTime {
    pub(super) fn add(&mut self, more: CpuTime) {
        self.ns = self.ns.saturating_add(more.ns);
        self.connections = self.connections.saturating_add(more.connections);
    }

    /// Of each connection, in ns; none where there is none.
    pub(super) fn each_ns(self) -> Option<f64> {
        (self.connections > 0).then(|| self.ns as f64 / self.connections as f64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Took {
    /// From the first call to the last one's end, in ns.
    pub(super) ns: f64,
    /// CPU time of the acceptor within it, in ns.
    pub(super) cpu_ns: f64,
    /// Whether all of them said their token.
    pub(super) all_right: bool,
}

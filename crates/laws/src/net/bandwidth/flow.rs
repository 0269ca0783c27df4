//! Bytes on their way: what a case says of them, and what it comes to.

use crate::net::{Ends, Protocol, Transport, Waking};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};

symbols! {
    /// The sending end.
    pub enum Direction {
        /// This end.
        Up = "up",
        /// The far end.
        Down = "down",
    }
}
symbols! {
    /// What is sent.
    pub enum Transfer {
        /// As much as goes, until it has settled and for a while after.
        Steady = "steady",
        /// R1's 16 MiB, acknowledged, again and again.
        Fixed16M = "fixed_16M",
        /// R2's 1 MiB, likewise.
        Fixed1M = "fixed_1M",
        /// R3's: one message, which comes back whole, again and again.
        ThereAndBack = "there_and_back",
        /// R0's: one message, read in one call once it has arrived completely.
        AlreadyThere = "already_there",
    }
}
symbols! {
    /// Streams.
    pub enum Streams {
        /// One for each CPU of the end that has fewer.
        All = "all";
        /// So many.
        Number(1, 1024, Count)
    }
}
case! {
    /// Bytes on their way.
    pub struct Bytes {
        /// transport protocol
        protocol: Protocol,
        /// bytes per send call
        message: u64 = Domain::bytes(1, 4 << 20),
        /// where both ends run: same_cpu, other_cpu (two processes of this host), two_hosts
        ends: Ends = Ends::TWO,
        /// number of streams, each with one thread per end; all: one per CPU
        streams: Streams,
        /// the sending end: up (near end), down (far end)
        direction: Direction,
        /// kind of transfer: continuous (steady), 16 MiB or 1 MiB with an acknowledgement, a
        /// message that comes back, or a message that is read once it has arrived
        transfer: Transfer,
    }
}

impl Transfer {
    pub fn fixed_bytes(self) -> Option<u64> {
        match self {
            Transfer::Fixed16M => Some(16 << 20),
            Transfer::Fixed1M => Some(1 << 20),
            Transfer::Steady | Transfer::ThereAndBack | Transfer::AlreadyThere => None,
        }
    }
}

impl Streams {
    pub fn count_at(self, site: &Site) -> u64 {
        let near = site.cpus.len();
        let far = site.peer.as_ref().map_or(near, |peer| peer.cpus.len());
        match self {
            Streams::All => near.min(far).max(1) as u64,
            Streams::Number(number) => number,
        }
    }
}

/// A case with what it came to.
#[derive(Clone, Debug)]
pub struct Flow {
    pub bytes: Bytes,
    pub streams: u64,
    /// Time from one datagram to the next; 0: as fast as it goes.
    pub interval_ns: u64,
}

impl Flow {
    pub(super) fn transport(&self) -> Transport {
        self.bytes.protocol.transport()
    }

    pub(super) fn is_udp(&self) -> bool {
        self.bytes.protocol == Protocol::Udp
    }

    pub(super) fn is_same_cpu(&self) -> bool {
        self.bytes.ends == Ends::SameCpu
    }

    pub(super) fn is_up(&self) -> bool {
        self.bytes.direction == Direction::Up
    }

    pub(super) fn waking(&self, is_here: bool) -> Waking {
        match (is_here, self.is_same_cpu()) {
            (true, true) => Waking::Same,
            (true, false) => Waking::Other,
            (false, _) => Waking::Interrupt,
        }
    }
}

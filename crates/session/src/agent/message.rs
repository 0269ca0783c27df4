//! What a session and an agent say to each other, in JSON, once they know each other: orders and
//! events of a node, and what surrounds them.

use bench::link::{FromWorker, ToWorker};
use host::Host;
use record::event::Calibration;
use record::plain::steers;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Longest text of the other end that is shown, in characters.
const SHOWN_MAX: usize = 300;

/// From a session to its agent. Its end is the end of the connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// First: the client, and the expected duration.
    Open(Box<Open>),
    /// To a worker of the agent, for the round of this number. `Serve` begins a round with a fresh
    /// worker; one of an earlier round is ended. CPUs, clocks, directory and address of that order
    /// are the agent's own: what stands there is not looked at. `Drain` follows; no other order is
    /// taken.
    Order { round: u64, order: Box<ToWorker> },
    /// The session lives. It says so between rounds, never while one is timed.
    Alive {
        /// Its next word comes within so many seconds.
        within_s: f64,
    },
    /// The round is given up: its worker is ended.
    Stop { round: u64 },
    /// First and last: what the wall clock there shows.
    Clock,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// A number of its own: its next connection takes the place of the one that it lost.
    pub session: u64,
    /// Its version of plumb: both ends of an experiment are one file.
    pub plumb: String,
    pub format: u32,
    /// Its host, as other clients see it meanwhile.
    pub host_name: String,
    /// How long it expects to take, in seconds.
    pub expected_s: f64,
    pub windows: u32,
    /// Length of each, in ns.
    pub window_ns: u64,
    /// The near end's address, where it knows which the agent reaches it by.
    pub near_address: Option<IpAddr>,
    /// CPUs that its earlier rounds used, the first first; none for the agent's choice.
    pub cpus: Option<Vec<usize>>,
    /// What its agents share with it on the machine that they may be on together; none if it takes
    /// no place among the plumbs of a machine.
    pub token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    Welcome(Box<Facts>),
    /// The wall clock, in seconds since 1970.
    Clock {
        /// See [`super::clock`] for details.
        wall_s: f64,
    },
    /// This session is not served, and why, with the way out.
    Refused {
        reason: String,
    },
    Event {
        round: u64,
        event: Box<FromWorker>,
    },
    /// A round has ended without its worker's having said so: it was refused, or its worker died.
    Ended {
        round: u64,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    pub plumb: String,
    pub host: Host,
    pub environment: BTreeMap<String, String>,
    /// CPUs of its ends of rounds, the preferred one first.
    pub cpus: Vec<usize>,
    pub calibration: Calibration,
    /// The address of its data connections.
    pub address: IpAddr,
    /// Its interface on the way back, by its own routes.
    pub interface: Option<String>,
}

/// A text of the other end as it may be shown: of one line, bounded, without what steers a
/// terminal.
pub fn printable(text: &str) -> String {
    let mut shown: String =
        text.chars().map(|c| if steers(c) { ' ' } else { c }).take(SHOWN_MAX).collect();
    if shown.len() < text.len() && shown.chars().count() == SHOWN_MAX {
        shown.push('…');
    }
    shown
}

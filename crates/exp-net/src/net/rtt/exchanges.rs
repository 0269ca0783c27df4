//! Which exchanges with which messages between which ends.

use crate::net::ends::PREAMBLE_BYTES;
use crate::net::place;
use bench::experiment::{Preset, Site, Skip};
use laws::net::Ends;
use laws::net::rtt::{Arrivals, By, Exchange, Protocol, Receiver};

/// The largest datagram of IPv4: what R3 sent.
const DATAGRAM_BYTES_MAX: u64 = 65_507;
/// A thread that holds both ends must find room for a whole message in a socket: Linux' UNIX
/// sockets have 208 KiB, TCP's more.
const ONE_THREAD_BYTES_MAX: u64 = 65_536;
/// A fresh connection's message begins with its preamble.
const FRESH_BYTES_MIN: u64 = 64;
const _: () = assert!(FRESH_BYTES_MIN as usize >= PREAMBLE_BYTES + 9);

/// Values of every parameter; every combination of them is a case.
struct Row {
    protocol: &'static [Protocol],
    message: &'static [u64],
    ends: &'static [Ends],
    connections: &'static [u64],
    receiver: Receiver,
    arrivals: Arrivals,
    exchange: By,
}

/// What most rows have.
const PLAIN: Row = Row {
    protocol: &[Protocol::Tcp],
    message: &[64],
    ends: &[Ends::OtherCpu],
    connections: &[1],
    receiver: Receiver::Blocking,
    arrivals: Arrivals::Saturated,
    exchange: By::Echo,
};
/// All sizes of the catalogue: the smallest, ping's and R0's, R1's and R2's, R3's, a page.
const SIZES: &[u64] = &[1, 56, 64, 1024, 4096, DATAGRAM_BYTES_MAX];

const QUICK: &[Row] = &[
    Row { message: &[56], ends: &[Ends::OneThread], ..PLAIN },
    Row { ends: &[Ends::SameCpu, Ends::OtherCpu], ..PLAIN },
    Row { protocol: &[Protocol::Udp], ..PLAIN },
];

const STANDARD: &[Row] = &[
    Row { message: &[56], ends: &[Ends::OneThread], ..PLAIN },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ends: &[Ends::SameCpu], ..PLAIN },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ..PLAIN },
    Row {
        protocol: &[Protocol::Udp],
        message: &[64, DATAGRAM_BYTES_MAX],
        ends: &[Ends::SameCpu],
        ..PLAIN
    },
    Row { protocol: &[Protocol::Udp], ..PLAIN },
    Row { protocol: &[Protocol::Unix], ends: &[Ends::SameCpu, Ends::OtherCpu], ..PLAIN },
    Row { receiver: Receiver::Polling, ..PLAIN },
    Row { arrivals: Arrivals::Sparse, ..PLAIN },
    Row { connections: &[4], ..PLAIN },
    Row { exchange: By::ConnectEcho, ends: &[Ends::SameCpu, Ends::OtherCpu], ..PLAIN },
];

const THOROUGH: &[Row] = &[
    Row {
        protocol: Protocol::ALL,
        message: SIZES,
        ends: &[Ends::OneThread, Ends::SameCpu, Ends::OtherCpu],
        ..PLAIN
    },
    Row { protocol: Protocol::ALL, message: SIZES, receiver: Receiver::Polling, ..PLAIN },
    Row {
        protocol: Protocol::ALL,
        ends: &[Ends::SameCpu, Ends::OtherCpu],
        arrivals: Arrivals::Sparse,
        ..PLAIN
    },
    Row {
        protocol: &[Protocol::Tcp, Protocol::Udp],
        receiver: Receiver::Polling,
        arrivals: Arrivals::Sparse,
        ..PLAIN
    },
    Row {
        protocol: &[Protocol::Tcp, Protocol::Udp],
        message: &[1, 64, 1024, DATAGRAM_BYTES_MAX],
        ends: &[Ends::SameCpu, Ends::OtherCpu],
        connections: &[2, 4],
        ..PLAIN
    },
    Row {
        protocol: &[Protocol::Tcp, Protocol::Unix],
        ends: &[Ends::SameCpu, Ends::OtherCpu],
        exchange: By::ConnectEcho,
        ..PLAIN
    },
];

pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Exchange> {
    let rows = match preset {
        Preset::Rehearsal | Preset::Quick => QUICK,
        Preset::Standard => STANDARD,
        Preset::Thorough => THOROUGH,
    };
    let is_remote = site.peer.is_some();
    let mut cases = Vec::new();
    for row in rows {
        let Row { receiver, arrivals, exchange, .. } = *row;
        let ends = if is_remote { &[Ends::TwoHosts] } else { row.ends };
        let goes = |protocol: &&Protocol| !(is_remote && **protocol == Protocol::Unix);
        for &protocol in row.protocol.iter().filter(goes) {
            for &message in row.message {
                for &ends in ends {
                    cases.extend(row.connections.iter().map(|&connections| Exchange {
                        protocol,
                        message,
                        ends,
                        connections,
                        receiver,
                        arrivals,
                        exchange,
                    }));
                }
            }
        }
    }
    cases
}

pub(super) fn absent(site: &Site, case: &Exchange) -> Option<Skip> {
    if let Some(skip) = place::absent(site, case.ends) {
        return Some(skip);
    }
    let one_thread = case.ends == Ends::OneThread;
    let (polls, is_fresh) = (case.polls(), case.is_fresh());
    let refused = [
        (
            site.peer.is_some() && case.protocol == Protocol::Unix,
            "UNIX sockets only work within a host",
        ),
        (
            case.protocol == Protocol::Udp && case.message > DATAGRAM_BYTES_MAX,
            "a datagram has at most 65507 bytes",
        ),
        (
            one_thread && case.message > ONE_THREAD_BYTES_MAX,
            "one thread with both ends would deadlock on a message larger than the socket buffer",
        ),
        (one_thread && case.connections > 1, "one thread runs the ends of one connection only"),
        (one_thread && polls, "one thread never waits, because the message is already there"),
        (
            one_thread && is_fresh,
            "one thread cannot wait in connect and accept at once; net.connect times both parts",
        ),
        (case.ends == Ends::SameCpu && polls, "a polling end takes the CPU from the other end"),
        (
            polls && case.connections > pairs(site, case.ends),
            "a polling end takes the CPU from the threads of other connections",
        ),
        (is_fresh && case.protocol == Protocol::Udp, "UDP has no connections"),
        (is_fresh && polls, "a server that accepts connections blocks"),
        (is_fresh && case.connections > 1, "fresh connections are made one at a time"),
        (
            is_fresh && case.message < FRESH_BYTES_MIN,
            "the message of a fresh connection starts with a token and needs at least 64 bytes",
        ),
    ];
    refused.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| Skip::because(why))
}

/// How many connections can have CPUs of their own at both ends.
fn pairs(site: &Site, ends: Ends) -> u64 {
    let here = site.cpus.len() as u64;
    match (ends, &site.peer) {
        (Ends::OtherCpu, _) => here / 2,
        (_, Some(peer)) => here.min(peer.cpus.len() as u64),
        _ => here,
    }
}

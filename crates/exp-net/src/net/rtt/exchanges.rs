//! Which exchanges with which messages between which ends.

use super::CARD;
use crate::net::ends::PREAMBLE_BYTES;
use crate::net::place::{self, ONE_THREAD, OTHER_CPU, SAME_CPU, TWO_HOSTS};
use bench::experiment::{FAR, Offer, Params, Preset, Site, Skip};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeSet;

/// The largest datagram of IPv4: what R3 sent.
const DATAGRAM_BYTES_MAX: u64 = 65_507;
/// A thread that holds both ends must find room for a whole message in a socket: Linux' UNIX sockets
/// have 208 KiB, TCP's more.
const ONE_THREAD_BYTES_MAX: u64 = 65_536;
/// A fresh connection's message begins with its preamble.
pub(super) const FRESH_BYTES_MIN: u64 = 64;
const _: () = assert!(FRESH_BYTES_MIN as usize >= PREAMBLE_BYTES + 9);

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UNIX stream sockets.
    Unix,
}

/// A case in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape<'case> {
    /// What carries the messages.
    pub(super) protocol: Protocol,
    /// Bytes of a message.
    pub(super) message: u64,
    /// Where both ends run.
    pub(super) ends: &'case str,
    /// Connections, with a thread each at both ends.
    pub(super) connections: u64,
    /// Both ends ask again and again instead of waiting.
    pub(super) polls: bool,
    /// A pause before each exchange.
    pub(super) sparse: bool,
    /// Each exchange on a connection of its own.
    pub(super) fresh: bool,
    /// The scheduler places the threads.
    pub(super) is_free: bool,
}

impl Shape<'_> {
    /// Of a case.
    pub(super) fn of(case: &Case) -> Option<Shape<'_>> {
        let int = |name: &str| case.id.get(name).and_then(Value::int);
        Some(Shape {
            protocol: match case.text("protocol")? {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                "unix" => Protocol::Unix,
                _ => return None,
            },
            message: int("message")?,
            ends: case.text("ends")?,
            connections: int("connections")?,
            polls: case.text("receiver")? == "polling",
            sparse: case.text("arrivals")? == "sparse",
            fresh: case.text("exchange")? == "connect_echo",
            is_free: place::is_free(case),
        })
    }
}

/// Values of every parameter, in the card's order; every combination of them is a case.
struct Row {
    protocol: &'static [&'static str],
    message: &'static [u64],
    ends: &'static [&'static str],
    connections: &'static [u64],
    receiver: &'static str,
    arrivals: &'static str,
    exchange: &'static str,
}

/// What most rows have.
const PLAIN: Row = Row {
    protocol: &["tcp"],
    message: &[64],
    ends: &[OTHER_CPU],
    connections: &[1],
    receiver: "blocking",
    arrivals: "saturated",
    exchange: "echo",
};
/// All sizes of the catalogue: the smallest, ping's and R0's, R1's and R2's, R3's, a page.
const SIZES: &[u64] = &[1, 56, 64, 1024, 4096, DATAGRAM_BYTES_MAX];
const PROTOCOLS: &[&str] = &["tcp", "udp", "unix"];

const QUICK: &[Row] = &[
    Row { message: &[56], ends: &[ONE_THREAD], ..PLAIN },
    Row { ends: &[SAME_CPU, OTHER_CPU], ..PLAIN },
    Row { protocol: &["udp"], ..PLAIN },
];

const STANDARD: &[Row] = &[
    Row { message: &[56], ends: &[ONE_THREAD], ..PLAIN },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ends: &[SAME_CPU], ..PLAIN },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ..PLAIN },
    Row { protocol: &["udp"], message: &[64, DATAGRAM_BYTES_MAX], ends: &[SAME_CPU], ..PLAIN },
    Row { protocol: &["udp"], ..PLAIN },
    Row { protocol: &["unix"], ends: &[SAME_CPU, OTHER_CPU], ..PLAIN },
    Row { receiver: "polling", ..PLAIN },
    Row { arrivals: "sparse", ..PLAIN },
    Row { connections: &[4], ..PLAIN },
    Row { exchange: "connect_echo", ends: &[SAME_CPU, OTHER_CPU], ..PLAIN },
];

const THOROUGH: &[Row] = &[
    Row { protocol: PROTOCOLS, message: SIZES, ends: &[ONE_THREAD, SAME_CPU, OTHER_CPU], ..PLAIN },
    Row { protocol: PROTOCOLS, message: SIZES, receiver: "polling", ..PLAIN },
    Row { protocol: PROTOCOLS, ends: &[SAME_CPU, OTHER_CPU], arrivals: "sparse", ..PLAIN },
    Row { protocol: &["tcp", "udp"], receiver: "polling", arrivals: "sparse", ..PLAIN },
    Row {
        protocol: &["tcp", "udp"],
        message: &[1, 64, 1024, DATAGRAM_BYTES_MAX],
        ends: &[SAME_CPU, OTHER_CPU],
        connections: &[2, 4],
        ..PLAIN
    },
    Row {
        protocol: &["tcp", "unix"],
        ends: &[SAME_CPU, OTHER_CPU],
        exchange: "connect_echo",
        ..PLAIN
    },
];

/// The preset's cases; what the user chose of a parameter takes the place of the preset's values of it.
///
/// # Errors
/// None of them can be measured here: the first one's reason.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let mut offer = Offer::default();
    let mut cases = Vec::new();
    let mut seen = BTreeSet::new();
    for id in wanted(site, params) {
        if !seen.insert(id.clone()) {
            continue;
        }
        let case = Case::new(id);
        let allowed = Shape::of(&case)
            .ok_or_else(|| Skip::because("no such case"))
            .and_then(|shape| allowed(site, &shape));
        match allowed {
            Ok(()) => cases.push(case),
            Err(skip) => offer.skipped.push((case.id, skip)),
        }
    }
    if cases.is_empty() {
        let first = offer.skipped.into_iter().next();
        return Err(first.map_or_else(|| Skip::because("no case is asked for"), |(_, skip)| skip));
    }
    let pause = params.ints("pause").first().copied();
    for case in &mut cases {
        if let Some(pause_ns) = pause.filter(|_| case.text("arrivals") == Some("sparse")) {
            case.at.insert("pause_ns".to_owned(), Value::Int(pause_ns));
        }
    }
    offer.series.push(Series {
        experiment: CARD.id.to_owned(),
        name: String::new(),
        order: Order::Shuffled,
        cases,
        settings: pause.into_iter().map(|pause| ("pause".to_owned(), Value::Int(pause))).collect(),
    });
    Ok(offer)
}

/// Every case wanted, some of them more than once. What has no meaning between two hosts is not named for
/// a peer, unless the user does.
fn wanted(site: &Site, params: &Params) -> Vec<CaseId> {
    let rows = match params.preset {
        Preset::Rehearsal | Preset::Quick => QUICK,
        Preset::Standard => STANDARD,
        Preset::Thorough => THOROUGH,
    };
    let is_remote = site.peer.is_some();
    let mut wanted = Vec::new();
    for row in rows {
        let ends: &[&str] = match is_remote {
            true => &[TWO_HOSTS],
            false => row.ends,
        };
        let protocols: Vec<&str> = row
            .protocol
            .iter()
            .copied()
            .filter(|protocol| !(is_remote && *protocol == "unix"))
            .collect();
        let axes = [
            ("protocol", texts(&protocols)),
            ("message", ints(row.message)),
            ("ends", texts(ends)),
            ("connections", ints(row.connections)),
            ("receiver", texts(&[row.receiver])),
            ("arrivals", texts(&[row.arrivals])),
            ("exchange", texts(&[row.exchange])),
        ];
        let mut ids = vec![CaseId::new().with(FAR, site.far())];
        for (name, values) in axes {
            let values = params.chosen(name).unwrap_or(&values);
            ids = ids
                .iter()
                .flat_map(|id| values.iter().map(|value| id.clone().with(name, value.clone())))
                .collect();
        }
        wanted.extend(ids);
    }
    wanted
}

fn texts(values: &[&str]) -> Vec<Value> {
    values.iter().map(|value| Value::from(*value)).collect()
}

fn ints(values: &[u64]) -> Vec<Value> {
    values.iter().map(|value| Value::Int(*value)).collect()
}

/// Whether a case has a meaning and a place here.
fn allowed(site: &Site, shape: &Shape<'_>) -> Result<(), Skip> {
    let Shape { protocol, message, ends, connections, .. } = *shape;
    if place::cpus(site, ends).is_none() {
        let skip = Skip::because(format!(
            "both ends cannot run `{ends}` with the far end `{}`, only {}",
            site.far(),
            place::present(site).join(", ")
        ));
        return Err(match ends {
            OTHER_CPU if site.peer.is_none() => {
                skip.needs("a second CPU, allowed and named by --cpu")
            }
            TWO_HOSTS => skip.needs("another host: --peer URL"),
            _ => skip,
        });
    }
    let one_thread = ends == ONE_THREAD;
    let why = match () {
        () if site.peer.is_some() && protocol == Protocol::Unix => {
            "UNIX sockets do not leave a host"
        }
        () if protocol == Protocol::Udp && message > DATAGRAM_BYTES_MAX => {
            "a datagram has at most 65507 bytes"
        }
        () if one_thread && message > ONE_THREAD_BYTES_MAX => {
            "a thread that holds both ends waits for itself when a message does not fit a socket"
        }
        () if one_thread && connections > 1 => "one thread holds one connection's ends",
        () if one_thread && shape.polls => {
            "one thread never has to wait: a message is there at once"
        }
        () if one_thread && shape.fresh => {
            "one thread cannot wait to connect and to accept; net.connect times both parts"
        }
        () if ends == SAME_CPU && shape.polls => "who polls keeps the CPU from the other end",
        () if shape.polls && connections > pairs(site, ends) => {
            "who polls keeps the CPU from the other connections' threads"
        }
        () if shape.fresh && protocol == Protocol::Udp => "UDP has no connections",
        () if shape.fresh && shape.polls => "who accepts connections waits for them",
        () if shape.fresh && connections > 1 => "connections are made one after another",
        () if shape.fresh && message < FRESH_BYTES_MIN => {
            "a fresh connection's message begins with its token, and has 64 bytes at least"
        }
        () => return Ok(()),
    };
    Err(Skip::because(why))
}

/// How many connections can have CPUs of their own at both ends.
fn pairs(site: &Site, ends: &str) -> u64 {
    let here = site.cpus.len() as u64;
    match (ends, &site.peer) {
        (OTHER_CPU, _) => here / 2,
        (_, Some(peer)) => here.min(peer.cpus.len() as u64),
        _ => here,
    }
}

/// CPUs of the threads of one end, a thread for each connection: pairs of CPUs one after another where
/// both ends are on this host, an end's CPUs in turn where they are on two.
pub(super) fn spread(cpus: &[usize], ends: &str, is_near: bool, connections: u64) -> Vec<usize> {
    let of = |at: usize| cpus.get(at % cpus.len().max(1)).copied().unwrap_or(0);
    (0..usize::try_from(connections).unwrap_or(1))
        .map(|number| match ends {
            OTHER_CPU => {
                let whole_pairs = (cpus.len() / 2).max(1);
                of(2 * (number % whole_pairs) + usize::from(!is_near))
            }
            _ => of(number),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn each_connection_has_a_pair_of_cpus_as_far_as_there_are_some() {
        let here = [4, 7, 9, 2, 5];
        assert_eq!(spread(&here, "other_cpu", true, 3), [4, 9, 4]);
        assert_eq!(spread(&here, "other_cpu", false, 3), [7, 2, 7]);
        assert_eq!(spread(&here, "same_cpu", true, 2), [4, 7]);
        assert_eq!(spread(&here, "same_cpu", false, 2), [4, 7]);
        assert_eq!(spread(&here[..2], "other_cpu", false, 4), [7; 4]);
        assert_eq!(spread(&here[..1], "two_hosts", false, 2), [4; 2]);
    }
}

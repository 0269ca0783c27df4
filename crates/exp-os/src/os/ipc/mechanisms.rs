//! Which mechanisms at which distances with which messages.

use super::CARD;
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use bench::pair;
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The mechanisms.
pub(super) const VIAS: [&str; 7] = [
    "pipe",
    "unix_stream",
    "unix_datagram",
    "socketpair",
    "eventfd",
    "mqueue",
    "shm_futex",
];

/// Bytes of a message of an event counter: its number.
pub(super) const COUNTER_BYTES: u64 = 8;
/// A round trip of a longer message is a stream in parts, because it does not fit into a pipe, and
/// bandwidth tells of that.
pub(super) const ROUND_TRIP_BYTES_MAX: u64 = 64 << 10;
/// What Linux sets unless told otherwise: the largest message of a queue, and the send buffer of a
/// socket.
const QUEUE_BYTES_USUAL: u64 = 8192;
const BUFFER_BYTES_USUAL: u64 = 212_992;
/// Bytes of the send buffer that a datagram leaves to the kernel (`unix_dgram_sendmsg`).
const BUFFER_OWN_BYTES: u64 = 32;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A distance as the presets name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// One CPU.
    Same,
    /// Another CPU: under the same last-level cache, else the nearest.
    Near,
    /// One CPU and another near it.
    Both,
    /// Every class of distance that the machine has.
    Every,
}

/// A mechanism at distances, with the bytes of its messages.
type Row = (&'static str, At, &'static [u64]);

const QUICK: &[Row] = &[
    ("pipe", At::Same, &[1, 64 * KIB]),
    ("pipe", At::Near, &[1]),
    ("unix_stream", At::Same, &[1]),
    ("shm_futex", At::Same, &[1]),
];

const STANDARD: &[Row] = &[
    ("pipe", At::Both, &[1, 64, KIB, 4 * KIB, 64 * KIB, MIB]),
    ("pipe", At::Every, &[1]),
    ("unix_stream", At::Both, &[1, 4 * KIB, 64 * KIB, MIB]),
    ("unix_datagram", At::Both, &[1, 64 * KIB]),
    ("socketpair", At::Same, &[1, 64 * KIB]),
    ("eventfd", At::Both, &[COUNTER_BYTES]),
    ("mqueue", At::Both, &[1]),
    ("shm_futex", At::Both, &[1, 64 * KIB, MIB]),
];

/// Powers of four up to 4 MiB.
const EVERY_SIZE: &[u64] = &[
    1,
    4,
    16,
    64,
    256,
    KIB,
    4 * KIB,
    16 * KIB,
    64 * KIB,
    256 * KIB,
    MIB,
    4 * MIB,
];

const THOROUGH: &[Row] = &[
    ("pipe", At::Every, EVERY_SIZE),
    ("unix_stream", At::Every, EVERY_SIZE),
    ("unix_datagram", At::Every, EVERY_SIZE),
    ("socketpair", At::Every, EVERY_SIZE),
    ("eventfd", At::Every, &[COUNTER_BYTES]),
    ("mqueue", At::Every, EVERY_SIZE),
    ("shm_futex", At::Every, EVERY_SIZE),
];

/// The preset's cases; what the user chose of a parameter takes the place of the preset's values of
/// it.
///
/// # Errors
/// None of them can be measured here: the first one's reason.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let mut offer = Offer::default();
    let mut series: BTreeMap<usize, Series> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (via, pair, size) in wanted(site, params) {
        let id = CaseId::new()
            .with("via", via)
            .with("pair", pair.as_str())
            .with("size", size);
        if !seen.insert(id.clone()) {
            continue;
        }
        let able = pair::of(site, &pair).and_then(|_| fits(site, via, size));
        if let Err(skip) = able {
            offer.skipped.push((id, skip));
            continue;
        }
        let place = VIAS.iter().position(|have| *have == via);
        series
            .entry(place.unwrap_or(VIAS.len()))
            .or_insert_with(|| Series {
                experiment: CARD.id.to_owned(),
                name: via.to_owned(),
                order: Order::Shuffled,
                cases: Vec::new(),
                settings: BTreeMap::new(),
            })
            .cases
            .push(Case::new(id));
    }
    offer.series = series.into_values().collect();
    match (offer.series.is_empty(), offer.skipped.first()) {
        (true, Some((_, skip))) => Err(skip.clone()),
        (true, None) => Err(Skip::because("no case is asked for")),
        _ => Ok(offer),
    }
}

/// Mechanism, distance and bytes of every case wanted, some of them more than once.
fn wanted<'a>(site: &Site, params: &'a Params) -> Vec<(&'a str, String, u64)> {
    let rows = match params.preset {
        Preset::Rehearsal | Preset::Quick => QUICK,
        Preset::Standard => STANDARD,
        Preset::Thorough => THOROUGH,
    };
    let texts = |name: &str| params.chosen(name).map(|_| params.texts(name));
    let (vias, pairs) = (texts("via"), texts("pair"));
    let sizes = params.chosen("size").map(|_| params.ints("size"));
    let mut wanted = Vec::new();
    for &(via, at, bytes) in rows {
        for &via in vias.as_deref().unwrap_or(&[via]) {
            let pairs = pairs.as_ref().map_or_else(
                || distances(site, at),
                |pairs| pairs.iter().map(|&pair| pair.to_owned()).collect(),
            );
            for pair in pairs {
                let bytes = match via {
                    "eventfd" => &[COUNTER_BYTES],
                    _ => sizes.as_deref().unwrap_or(bytes),
                };
                wanted.extend(bytes.iter().map(|bytes| (via, pair.clone(), *bytes)));
            }
        }
    }
    wanted
}

/// The distance classes of a row. Without a second CPU the near one is named all the same, so that
/// its absence has a reason.
fn distances(site: &Site, at: At) -> Vec<String> {
    let present: Vec<&str> = pair::present(site).iter().map(|pair| pair.symbol).collect();
    let others = || present.iter().copied().filter(|symbol| *symbol != "same");
    let near = others().find(|symbol| *symbol == "llc");
    let near = near.or_else(|| others().next()).unwrap_or("llc");
    let symbols = match at {
        At::Same => vec!["same"],
        At::Near => vec![near],
        At::Both => vec!["same", near],
        At::Every if present.len() > 1 => present,
        At::Every => vec!["same", near],
    };
    symbols.into_iter().map(str::to_owned).collect()
}

/// Whether the mechanism takes messages of this size here. What the machine does not tell is taken
/// to be what Linux sets.
fn fits(site: &Site, via: &str, size: u64) -> Result<(), Skip> {
    let told = |told: Option<u64>, usual: u64| match told {
        Some(limit) => (limit, ""),
        None => (usual, " (Linux' default: the machine does not tell)"),
    };
    match via {
        "unix_datagram" => {
            let (buffer, from) = told(site.host.net.send_buffer_default_bytes, BUFFER_BYTES_USUAL);
            if size + BUFFER_OWN_BYTES > buffer {
                return Err(Skip::because(format!(
                    "a datagram of {size} B does not fit into a socket's send buffer of {buffer} B{from}"
                ))
                .needs(format!("sysctl net.core.wmem_default={}", 2 * size)));
            }
        }
        "mqueue" => {
            let (most, from) = told(site.host.limits.message_bytes, QUEUE_BYTES_USUAL);
            if size > most {
                return Err(Skip::because(format!(
                    "a queue takes messages of at most {most} B{from}"
                ))
                .needs(format!("sysctl fs.mqueue.msgsize_max={size}")));
            }
        }
        _ => {}
    }
    Ok(())
}

/// What of a case cannot be told, and why.
pub(super) fn untold(via: &str, size: u64, metric: &str) -> Option<&'static str> {
    match metric {
        "bandwidth" if via == "eventfd" => Some("none: a counter carries a number, no payload"),
        "round_trip" if size > ROUND_TRIP_BYTES_MAX => Some(
            "not measured: over 64 KiB a message goes in parts, and its round trip is bandwidth",
        ),
        _ => None,
    }
}

/// Mechanism and bytes of a case.
pub(super) fn shape(case: &Case) -> Option<(&str, u64)> {
    Some((case.text("via")?, case.id.get("size").and_then(Value::int)?))
}

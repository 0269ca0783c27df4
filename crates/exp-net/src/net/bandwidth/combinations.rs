//! Which transfers of which messages, by how many streams, where and in which direction.

use super::CARD;
use super::both::RUN_AT;
use super::shape::{
    ALREADY_THERE, DATAGRAM_BYTES_MAX, FIXED_1M, FIXED_16M, STEADY, THERE_AND_BACK,
};
use crate::net::place::{OTHER_CPU, SAME_CPU, TWO_HOSTS};
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::{BTreeMap, BTreeSet};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The symbol for as many streams as there are CPUs.
pub(super) const ALL: &str = "all";
/// More is asked for only by hand.
const STREAMS_LISTED_MAX: u64 = 512;

/// Where the ends of a row run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// On two CPUs (on one where there is no other), or two hosts.
    Apart,
    /// On one CPU; of two hosts there is no such thing.
    Same,
    /// Both.
    Both,
}

/// How many streams a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    One,
    /// One for each CPU.
    All,
    /// 2, 4, 8 … and one for each CPU.
    Doubling,
    /// One and two, as R3.
    OneAndTwo,
}

/// Protocol, bytes of the messages, ends, streams, directions, transfer.
type Row = (&'static str, &'static [u64], At, Streams, &'static [&'static str], &'static str);

const UP: &[&str] = &["up"];
const DOWN: &[&str] = &["down"];
const BOTH_WAYS: &[&str] = &["up", "down"];

/// R1 writes and reads 4 KiB; R2 sends 1 MiB as one message.
const R1_MESSAGE: &[u64] = &[4 * KIB];
const R2_MESSAGE: &[u64] = &[MIB];

const QUICK: &[Row] = &[
    ("tcp", &[128 * KIB], At::Apart, Streams::One, UP, STEADY),
    ("tcp", R1_MESSAGE, At::Apart, Streams::One, UP, FIXED_16M),
    ("udp", &[KIB], At::Apart, Streams::One, UP, STEADY),
];

const STANDARD: &[Row] = &[
    ("tcp", &[1, KIB, 16 * KIB, 128 * KIB, 4 * MIB], At::Apart, Streams::One, UP, STEADY),
    ("tcp", &[128 * KIB], At::Apart, Streams::One, DOWN, STEADY),
    ("tcp", &[128 * KIB], At::Same, Streams::One, UP, STEADY),
    ("tcp", &[128 * KIB], At::Apart, Streams::All, UP, STEADY),
    ("udp", &[KIB, DATAGRAM_BYTES_MAX], At::Apart, Streams::One, UP, STEADY),
    ("udp", &[KIB], At::Apart, Streams::One, DOWN, STEADY),
    ("tcp", R1_MESSAGE, At::Apart, Streams::One, UP, FIXED_16M),
    ("tcp", R2_MESSAGE, At::Apart, Streams::One, UP, FIXED_1M),
    ("tcp", &[64 * KIB], At::Apart, Streams::One, UP, THERE_AND_BACK),
    ("tcp", &[32 * KIB], At::Apart, Streams::One, DOWN, ALREADY_THERE),
];

/// Powers of four up to 4 MiB, with what iperf3 sends.
const TCP_SIZES: &[u64] =
    &[1, 4, 16, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB, 4 * MIB];
/// With what fits into one frame of Ethernet, and the largest.
const UDP_SIZES: &[u64] = &[1, 16, 64, 256, KIB, 1472, 4 * KIB, 16 * KIB, DATAGRAM_BYTES_MAX];

const THOROUGH: &[Row] = &[
    ("tcp", TCP_SIZES, At::Both, Streams::One, BOTH_WAYS, STEADY),
    ("tcp", &[KIB, 128 * KIB], At::Apart, Streams::Doubling, BOTH_WAYS, STEADY),
    ("udp", UDP_SIZES, At::Both, Streams::One, BOTH_WAYS, STEADY),
    ("udp", &[KIB], At::Apart, Streams::Doubling, UP, STEADY),
    ("tcp", R1_MESSAGE, At::Both, Streams::One, BOTH_WAYS, FIXED_16M),
    ("tcp", R2_MESSAGE, At::Both, Streams::One, BOTH_WAYS, FIXED_1M),
    ("tcp", &[KIB, 32 * KIB, 64 * KIB], At::Apart, Streams::OneAndTwo, UP, THERE_AND_BACK),
    (
        "udp",
        &[KIB, 32 * KIB, DATAGRAM_BYTES_MAX],
        At::Apart,
        Streams::OneAndTwo,
        UP,
        THERE_AND_BACK,
    ),
    ("tcp", &[KIB, 4 * KIB, 16 * KIB, 32 * KIB], At::Both, Streams::One, DOWN, ALREADY_THERE),
];

/// The preset's cases; what the user chose of a parameter takes the place of the preset's values of it.
///
/// # Errors
/// None of them can be measured here: the first one's reason.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let mut offer = Offer::default();
    let mut cases = Vec::new();
    let mut seen = BTreeSet::new();
    let interval = params.ints("interval").first().copied().unwrap_or(0);
    let time = params.ints("time").first().copied();
    for id in wanted(site, params) {
        if !seen.insert(id.clone()) {
            continue;
        }
        match not_here(site, &id) {
            Some(skip) => offer.skipped.push((id, skip)),
            None => {
                let mut case = Case::new(id);
                if interval > 0 && case.text("protocol") == Some("udp") {
                    let interval = Value::Int(interval);
                    case.at.insert("interval_ns".to_owned(), interval);
                }
                if let Some(time) = time {
                    case.at.insert(RUN_AT.to_owned(), Value::Int(time));
                }
                cases.push(case);
            }
        }
    }
    if cases.is_empty() {
        let first = offer.skipped.into_iter().next().map(|(_, skip)| skip);
        return Err(first.unwrap_or_else(|| Skip::because("no such transfer is asked for")));
    }
    offer.series.push(Series {
        experiment: CARD.id.to_owned(),
        name: String::new(),
        order: Order::Shuffled,
        cases,
        settings: BTreeMap::from([("interval".to_owned(), Value::Int(interval))]),
    });
    Ok(offer)
}

/// Every case wanted, some of them more than once.
fn wanted(site: &Site, params: &Params) -> Vec<CaseId> {
    let rows = match params.preset {
        Preset::Rehearsal | Preset::Quick => QUICK,
        Preset::Standard => STANDARD,
        Preset::Thorough => THOROUGH,
    };
    let texts = |name: &str| params.chosen(name).map(|_| params.texts(name));
    let protocols = texts("protocol");
    let (ends, directions, transfers) = (texts("ends"), texts("direction"), texts("transfer"));
    let sizes = params.chosen("message").map(|_| params.ints("message"));
    let mut wanted = Vec::new();
    for &(protocol, messages, at, streams, ways, transfer) in rows {
        for &transfer in transfers.as_deref().unwrap_or(&[transfer]) {
            for &protocol in protocols.as_deref().unwrap_or(&[protocol]) {
                let ways = match transfer {
                    // There and back begins here, and what lies there is read here.
                    THERE_AND_BACK => UP,
                    ALREADY_THERE => DOWN,
                    _ => directions.as_deref().unwrap_or(ways),
                };
                if protocol == "udp" && !matches!(transfer, STEADY | THERE_AND_BACK) {
                    continue;
                }
                let messages = match (transfer, &sizes) {
                    (_, Some(sizes)) => sizes,
                    (FIXED_16M, _) => R1_MESSAGE,
                    (FIXED_1M, _) => R2_MESSAGE,
                    _ => messages,
                };
                let ends = places(site, at, ends.as_deref());
                let streams = match transfer {
                    STEADY | THERE_AND_BACK => numbers(site, streams, params),
                    _ => vec![Value::Int(1)],
                };
                for &message in messages {
                    for &ends in &ends {
                        for streams in &streams {
                            wanted.extend(ways.iter().map(|way| {
                                CaseId::new()
                                    .with("far", site.far())
                                    .with("protocol", protocol)
                                    .with("message", message)
                                    .with("ends", ends)
                                    .with("streams", streams.clone())
                                    .with("direction", *way)
                                    .with("transfer", transfer)
                            }));
                        }
                    }
                }
            }
        }
    }
    wanted
}

/// The places of a row's ends. Of two hosts there is only one, and on loopback without a second CPU the
/// same one is named where another is wanted.
fn places<'a>(site: &Site, at: At, chosen: Option<&[&'a str]>) -> Vec<&'a str> {
    if site.peer.is_some() {
        return match (at, chosen) {
            (_, Some(chosen)) if !chosen.contains(&TWO_HOSTS) => Vec::new(),
            (At::Same, None) => Vec::new(),
            _ => vec![TWO_HOSTS],
        };
    }
    if let Some(chosen) = chosen {
        let here = |ends: &&str| *ends != TWO_HOSTS;
        return chosen.iter().copied().filter(here).collect();
    }
    match (at, site.cpus.len()) {
        (_, 0 | 1) | (At::Same, _) => vec![SAME_CPU],
        (At::Apart, _) => vec![OTHER_CPU],
        (At::Both, _) => vec![SAME_CPU, OTHER_CPU],
    }
}

/// CPUs that both ends have for streams.
pub(super) fn streams_all(site: &Site) -> u64 {
    let near = site.cpus.len();
    let far = site.peer.as_ref().map_or(near, |peer| peer.cpus.len());
    near.min(far).max(1) as u64
}

/// The numbers of streams of a row.
fn numbers(site: &Site, streams: Streams, params: &Params) -> Vec<Value> {
    if let Some(chosen) = params.chosen("streams") {
        return chosen.to_vec();
    }
    let all = streams_all(site);
    let listed = |numbers: &mut dyn Iterator<Item = u64>| -> Vec<Value> {
        let below = numbers.filter(|number| *number < all).map(Value::Int);
        let mut values: Vec<Value> = below.collect();
        if all > 1 {
            values.push(Value::from(ALL));
        }
        values
    };
    match streams {
        Streams::One => vec![Value::Int(1)],
        Streams::OneAndTwo => vec![Value::Int(1), Value::Int(2)],
        Streams::All => listed(&mut std::iter::empty()),
        Streams::Doubling => listed(
            &mut std::iter::successors(Some(2), |number| Some(2 * number))
                .take_while(|number| *number < STREAMS_LISTED_MAX),
        ),
    }
}

/// Why a case cannot be measured here.
fn not_here(site: &Site, id: &CaseId) -> Option<Skip> {
    let message = id.int("message").unwrap_or(0);
    if id.text("protocol") == Some("udp") && message > DATAGRAM_BYTES_MAX {
        return Some(
            Skip::because(format!(
                "a datagram carries {DATAGRAM_BYTES_MAX} B at most, not {message}"
            ))
            .needs("protocol=tcp, or a smaller message"),
        );
    }
    if id.text("ends") == Some(OTHER_CPU) && site.cpus.len() < 2 {
        return Some(
            Skip::because("the ends need two CPUs, and there is one")
                .needs("a second CPU, allowed and named by --cpu"),
        );
    }
    None
}

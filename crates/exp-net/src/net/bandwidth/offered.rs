//! The cases: transfers, message sizes, streams, placements and directions.

use super::Bandwidth;
use super::ends::{RUN_AT, is_burst};
use crate::net::{DATAGRAM_BYTES_MAX, place, tell};
use Count::{All, Doubling, One, OneAndTwo};
use bench::experiment::contract::one_series;
use bench::prelude::*;
use laws::net::Ends;
use laws::net::Protocol::{self, Tcp, Udp};
use laws::net::bandwidth::Transfer::{self, AlreadyThere, Fixed1M, Fixed16M, Steady, ThereAndBack};
use laws::net::bandwidth::{Bytes, Direction, Streams};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// More is asked for only by hand.
const STREAMS_LISTED_MAX: u64 = 512;

/// Where the ends of a row run: on two CPUs (on one where there is no other) or two hosts; on one
/// CPU, which two hosts do not share; or both.
const APART: &[Ends] = &[Ends::OtherCpu];
const SAME: &[Ends] = &[Ends::SameCpu];
const BOTH: &[Ends] = &[Ends::SameCpu, Ends::OtherCpu];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    One,
    All,
    /// 2, 4, 8 … and one for each CPU.
    Doubling,
    OneAndTwo,
}

/// Protocol, bytes of the messages, ends, streams, directions, transfer.
type Row = (Protocol, &'static [u64], &'static [Ends], Count, &'static [Direction], Transfer);

const UP: &[Direction] = &[Direction::Up];
const DOWN: &[Direction] = &[Direction::Down];
const BOTH_WAYS: &[Direction] = Direction::ALL;

/// R1 writes and reads 4 KiB; R2 sends 1 MiB as one message.
const R1_MESSAGE: &[u64] = &[4 * KIB];
const R2_MESSAGE: &[u64] = &[MIB];

const QUICK: &[Row] = &[
    (Tcp, &[128 * KIB], APART, One, UP, Steady),
    (Tcp, R1_MESSAGE, APART, One, UP, Fixed16M),
    (Udp, &[KIB], APART, One, UP, Steady),
];

const STANDARD: &[Row] = &[
    (Tcp, &[1, KIB, 16 * KIB, 128 * KIB, 4 * MIB], APART, One, UP, Steady),
    (Tcp, &[128 * KIB], APART, One, DOWN, Steady),
    (Tcp, &[128 * KIB], SAME, One, UP, Steady),
    (Tcp, &[128 * KIB], APART, All, UP, Steady),
    (Udp, &[KIB, DATAGRAM_BYTES_MAX], APART, One, UP, Steady),
    (Udp, &[KIB], APART, One, DOWN, Steady),
    (Tcp, R1_MESSAGE, APART, One, UP, Fixed16M),
    (Tcp, R2_MESSAGE, APART, One, UP, Fixed1M),
    (Tcp, &[64 * KIB], APART, One, UP, ThereAndBack),
    (Tcp, &[32 * KIB], APART, One, DOWN, AlreadyThere),
];

/// Powers of four up to 4 MiB, with what iperf3 sends.
const TCP_SIZES: &[u64] =
    &[1, 4, 16, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB, 4 * MIB];
/// With what fits into one frame of Ethernet, and the largest.
const UDP_SIZES: &[u64] = &[1, 16, 64, 256, KIB, 1472, 4 * KIB, 16 * KIB, DATAGRAM_BYTES_MAX];

const THOROUGH: &[Row] = &[
    (Tcp, TCP_SIZES, BOTH, One, BOTH_WAYS, Steady),
    (Tcp, &[KIB, 128 * KIB], APART, Doubling, BOTH_WAYS, Steady),
    (Udp, UDP_SIZES, BOTH, One, BOTH_WAYS, Steady),
    (Udp, &[KIB], APART, Doubling, UP, Steady),
    (Tcp, R1_MESSAGE, BOTH, One, BOTH_WAYS, Fixed16M),
    (Tcp, R2_MESSAGE, BOTH, One, BOTH_WAYS, Fixed1M),
    (Tcp, &[KIB, 32 * KIB, 64 * KIB], APART, OneAndTwo, UP, ThereAndBack),
    (Udp, &[KIB, 32 * KIB, DATAGRAM_BYTES_MAX], APART, OneAndTwo, UP, ThereAndBack),
    (Tcp, &[KIB, 4 * KIB, 16 * KIB, 32 * KIB], BOTH, One, DOWN, AlreadyThere),
];

pub(super) fn cases(site: &Site, preset: Preset) -> Vec<Bytes> {
    let rows = match preset {
        Preset::Rehearsal | Preset::Quick => QUICK,
        Preset::Standard => STANDARD,
        Preset::Thorough => THOROUGH,
    };
    let mut cases = Vec::new();
    for &(protocol, messages, ends, count, directions, transfer) in rows {
        for &message in messages {
            for &ends in places(site, ends) {
                for streams in numbers(site, count) {
                    cases.extend(directions.iter().map(|&direction| Bytes {
                        protocol,
                        message,
                        ends,
                        streams,
                        direction,
                        transfer,
                    }));
                }
            }
        }
    }
    cases
}

/// A case with what its transfer implies; none of datagrams that have no end.
pub(super) fn complete(case: Bytes) -> Option<Bytes> {
    let is_udp = case.protocol == Udp;
    let one = Streams::Number(1);
    Some(match case.transfer {
        Steady => case,
        // There and back begins here, and what lies there is read here.
        ThereAndBack => Bytes { direction: Direction::Up, ..case },
        _ if is_udp => return None,
        AlreadyThere => Bytes { direction: Direction::Down, streams: one, ..case },
        Fixed16M | Fixed1M => Bytes { streams: one, ..case },
    })
}

/// The cases in a series; transfers of fixed size are in their reports' messages unless the user
/// chose others.
pub(super) fn offer(site: &Site, cases: Vec<Bytes>, params: &Params) -> Result<Offer, Skip> {
    let mut all: Vec<Bytes> = Vec::new();
    for mut case in cases {
        match (case.transfer, params.chosen("message")) {
            (Fixed16M, None) => case.message = R1_MESSAGE[0],
            (Fixed1M, None) => case.message = R2_MESSAGE[0],
            _ => {}
        }
        if !all.contains(&case) {
            all.push(case);
        }
    }
    let mut offer = one_series::<Bandwidth>(site, all, params);
    let is_udp = |case: &Case| case.id.text("protocol") == Some("udp");
    tell(&mut offer, "interval", "interval_ns", |case, ns| ns > 0 && is_udp(case));
    tell(&mut offer, "time", RUN_AT, |_, _| true);
    for case in offer.series.iter_mut().flat_map(|series| &mut series.cases) {
        let stream = Bytes::from_id(&case.id).filter(|of| of.transfer == Steady);
        let window = stream.map(|of| if is_burst(&of, case) { "burst" } else { "rate" });
        case.at.put_known("window", window);
    }
    offer.or_reason()
}

/// The places of a row's ends. Of two hosts there is only one, and on loopback without a second CPU
/// the same one is named where another is wanted.
fn places(site: &Site, ends: &'static [Ends]) -> &'static [Ends] {
    match (&site.peer, site.cpus.len()) {
        (Some(_), _) if ends == SAME => &[],
        (Some(_), _) => &[Ends::TwoHosts],
        (None, 0 | 1) => SAME,
        (None, _) => ends,
    }
}

fn numbers(site: &Site, count: Count) -> Vec<Streams> {
    let all = Streams::All.count_at(site);
    let of_all = (all > 1).then_some(Streams::All);
    match count {
        One => vec![Streams::Number(1)],
        OneAndTwo => vec![Streams::Number(1), Streams::Number(2)],
        All => of_all.into_iter().collect(),
        Doubling => std::iter::successors(Some(2), |number| Some(2 * number))
            .take_while(|number| *number < STREAMS_LISTED_MAX.min(all))
            .map(Streams::Number)
            .chain(of_all)
            .collect(),
    }
}

pub(super) fn absent(site: &Site, case: &Bytes) -> Option<Skip> {
    if case.protocol == Udp && case.message > DATAGRAM_BYTES_MAX {
        let most =
            format!("a datagram carries at most {DATAGRAM_BYTES_MAX} B, not {} B", case.message);
        return Some(Skip::because(most).needs("protocol=tcp, or a smaller message"));
    }
    place::absent(site, case.ends)
}

//! Laws of the network family: what lies between two ends, and what each end does for a packet.
//!
//! A way is loopback, or the interfaces at both ends as their hosts describe them. Of a way come
//! the nominal rate, the payload that this rate leaves, and the time from one end's driver to the
//! other's socket; no figure measured over loopback is used. Usual figures: a card and its bus take
//! 1 to 2 µs at each end, a switch 1 to 10 µs and one more store of the frame, cards that coalesce
//! up to 250 µs, an adapter on USB half a millisecond, a radio 1 to 10 ms there and back; virtual
//! cards ask the hypervisor at both ends. They are written from memory of such figures and of
//! drivers' defaults, and scored against the published reports ([`super::published`]).

pub mod bandwidth;
pub mod connect;
mod ends;
pub mod loaded;
pub mod ping;
pub mod request;
pub mod rtt;
mod stack;
mod way;

pub use ends::{Ends, Protocol};
pub use stack::{Waking, far_stack_cost, sleeps, stack_cost};
pub use way::{Kind, Transport, Way};

use super::{Law, around, ceiling, end_by_end, range, scaled, sum};
use record::event::{Bound, Condition, Range};

/// One way through a card and its bus at both ends, and interrupt and protocols where it arrives,
/// in ns.
const CARDS: Range = range(2_500.0, 7_000.0, 25_000.0);
/// A switch beside the store of the frame, in ns; a cable alone has none, a house has several.
const SWITCH: Range = range(0.0, 4_000.0, 40_000.0);
/// Frames are stored so many times more than they are sent.
const STORES: Range = range(0.0, 1.0, 3.0);
/// Cards with unknown interrupt coalescing, in ns.
const UNTOLD_COALESCING: Range = range(0.0, 40_000.0, 250_000.0);
/// An adapter on USB, which is asked every 125 µs and passes frames on in bundles, in ns.
const USB: Range = range(30_000.0, 180_000.0, 900_000.0);
/// Between namespaces: a software interrupt of the sender's own call, or a queue to another CPU,
/// and bridges on the way.
const VIRTUAL: Range = range(150.0, 2_000.0, 60_000.0);
/// Paravirtual cards: an exit to the hypervisor, a thread of its, an interrupt of the other guest.
const PARAVIRTUAL: Range = range(6_000.0, 30_000.0, 300_000.0);
/// A radio: wait for the medium, preamble, acknowledgement, and often a beacon's or power saving's
/// wait.
const RADIO: Range = range(200_000.0, 900_000.0, 12_000_000.0);
/// Nothing is known of what lies between.
const UNKNOWN: Range = range(3_000.0, 100_000.0, 50_000_000.0);
/// Beyond a gateway the other end may be in the next room or on another continent, in ns each way.
const GATEWAY_HIGH_NS: f64 = 7.5e7;

/// What one core moves at most through its stack with all offloads, in B/s.
const CORE_RATE: Range = range(8e8, 3.2e9, 1.2e10);
/// Between namespaces and guests bytes are copied, whatever rate their links claim, in B/s.
pub(crate) const COPIED_RATE: Range = range(8e7, 1.5e9, 2e10);
/// For a link that reports no rate: from 1 Mbit/s to what memory copies, in B/s.
const UNKNOWN_RATE: Range = range(1.2e5, 1e8, 2e10);

/// The nominal rate of the slowest link that is known of the way, in B/s; `None` for paths that
/// copy memory, whatever their drivers claim (veth reports 10 Gbit/s).
pub fn link_rate(way: &Way<'_>) -> Option<f64> {
    way.bits_per_second().map(|bits| bits / 8.0)
}

/// The payload that a way carries with every packet as large as its MTU allows, in B/s, however
/// many streams that takes: `rate x (MTU - heads) / (MTU + frame)`.
pub fn goodput(way: &Way<'_>, transport: Transport) -> Law {
    let Some(rate) = link_rate(way) else {
        let (of, what) = match way.kind() {
            Kind::Loopback => (COPIED_RATE, "loopback: memory copies, no link"),
            Kind::Virtual if !way.has_gateway => (COPIED_RATE, "a virtual link copies the bytes"),
            _ => (UNKNOWN_RATE, "the link reports no rate; set it with --set host.net.rate"),
        };
        return Law::hardware(of, way.name()).and(what);
    };
    let full = way.full_frames(transport);
    let counted = full.counted_bytes(way.is_shaped());
    let (of, what) = rate_share(way);
    let bytes = rate * full.payload as f64 / counted as f64;
    // Beyond what one core moves, several cores are needed, and may not be there.
    let low = (bytes * of.low).min(CORE_RATE.low.max(bytes * of.low * 0.1));
    let range = range(low, bytes * of.likely, bytes * of.high);
    let payload = format!("{} of {counted} B per frame are {transport} payload", full.payload);
    Law::hardware(range, way.name()).and(payload).and(what)
}

/// What one core moves through its stack, in B/s: a stream is on one core at each end.
pub fn core_rate() -> Law {
    Law::software(CORE_RATE, "a core moves 0.8 to 12 GB/s, by offloads and MTU")
}

/// What a wire's nominal rate allows at most, in B/s of payload; none of ways that copy memory.
pub fn link_bound(way: &Way<'_>, transport: Transport) -> Option<Bound> {
    let rate = link_rate(way)?;
    let full = way.full_frames(transport);
    let share = full.payload as f64 / full.counted_bytes(way.is_shaped()) as f64;
    let rule = format!("{} carries {:.1} MB/s of payload", way.name(), rate * share / 1e6);
    Some(ceiling(rate * share, 0.01, rule))
}

fn least(a: Range, b: Range) -> Range {
    end_by_end(a, b, f64::min)
}

fn rate_share(way: &Way<'_>) -> (Range, &'static str) {
    let usb = way.is_on_usb();
    match way.kind() {
        _ if way.is_shaped() => (range(0.97, 1.0, 1.01), "the whole rate of the shaper"),
        _ if way.has_gateway => (range(0.01, 0.9, 1.002), "beyond the gateway may be slower"),
        Kind::Wireless => (range(0.08, 0.5, 0.8), "a radio gives 8 to 80 % of its rate"),
        // Acknowledgements use part of the rate.
        _ if way.is_half_duplex() => (range(0.5, 0.88, 0.97), "half duplex: both ways share it"),
        // Slower than its plug: 480 Mbit/s before USB 3, 12 before 2.
        _ if usb => (range(0.3, 0.92, 1.002), "a USB adapter, which may be slower"),
        _ if way.far.is_none() && !way.is_given() => {
            (range(0.08, 0.95, 1.002), "an unknown far end may be slower")
        }
        Kind::Wired => (range(0.7, 0.995, 1.002), "the whole rate, unless a hop is slower"),
        _ => (range(0.1, 0.95, 1.01), "the rate that --set gives"),
    }
}

/// There with so many bytes and back with so many, in ns, from driver to socket twice. A round trip
/// set by the user (host.net.rtt) replaces everything but the bytes of larger messages.
pub fn round_trip(way: &Way<'_>, transport: Transport, there: u64, back: u64) -> Law {
    if let Some(ns) = way.given_rtt_ns.filter(|_| way.kind() != Kind::Loopback) {
        let more = [there, back].map(|bytes| serialization(way, transport, bytes));
        let all = more.into_iter().flatten().fold(around(ns, 0.3), sum);
        let us = ns / 1e3;
        let law = Law::hardware(all, format!("a round trip takes {us:.1} µs (--set host.net.rtt)"));
        return law.fixed(1.0);
    }
    let there = passage(way, transport, there, Toward::Far);
    let back = passage(way, transport, back, Toward::Near);
    // One way's luck is the other's: ends add.
    there.with(&back).reshaped(|there| end_by_end(there, back.range, |a, b| a + b))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toward {
    Near,
    Far,
}

fn passage(way: &Way<'_>, transport: Transport, bytes: u64, toward: Toward) -> Law {
    let name = way.name();
    let law = match way.kind() {
        Kind::Loopback => return Law::hardware(range(0.0, 0.0, 0.0), "loopback: no link"),
        Kind::Virtual => Law::hardware(VIRTUAL, format!("{name}, queues in memory")),
        Kind::Paravirtual => {
            let law = Law::hardware(PARAVIRTUAL, format!("{name}, with hypervisors at the ends"));
            law.counting(Condition::Hypervisor)
        }
        Kind::Wireless => Law::hardware(sum(CARDS, RADIO), name).and("a wait for the medium"),
        Kind::Unknown => Law::hardware(UNKNOWN, format!("unknown: {name}")),
        Kind::Wired => {
            let stores = way.bits_per_second().map_or(SWITCH, |bits| {
                let first = way.frames(transport, bytes).first_bytes as f64 * 8e9 / bits;
                sum(SWITCH, scaled(STORES, first))
            });
            let cards = format!("{name}, with network cards and 0 to 3 switches");
            Law::hardware(sum(CARDS, stores), cards) + held_back(way, toward)
        }
    };
    let on_wire = serialization(way, transport, bytes).map(|on_wire| {
        let frames = way.frames(transport, bytes).count;
        Law::hardware(on_wire, format!("{bytes} B on the wire in {frames} frames")).fixed(1.0)
    });
    (law.unsourced() + on_wire).when(way.has_gateway, |law| {
        law.reaching(GATEWAY_HIGH_NS).and("beyond a gateway, at an unknown distance")
    })
}

/// A message's frames one after the other at the link's rate, in ns. A shaper holds nothing back of
/// what its bucket has room for.
fn serialization(way: &Way<'_>, transport: Transport, bytes: u64) -> Option<Range> {
    let bits = way.bits_per_second()?;
    let frames = way.frames(transport, bytes);
    let ns = frames.counted_bytes(way.is_shaped()) as f64 * 8e9 / bits;
    let (share, _) = rate_share(way);
    if way.is_shaped() {
        return Some(range(0.0, 0.4 * ns, ns / share.low));
    }
    Some(range(ns / share.high, ns / share.likely, ns / share.low.max(0.1)))
}

/// How long the receiver's card holds its interrupt back for a lone packet, in ns.
fn held_back(way: &Way<'_>, toward: Toward) -> Law {
    let (end, whose) = match toward {
        Toward::Near => (way.near, "this end's"),
        Toward::Far => (way.far, "the far end's"),
    };
    if end.is_some_and(|end| end.bus.as_deref() == Some("usb")) {
        return Law::hardware(USB, format!("{whose} USB adapter is polled"));
    }
    let Some(told) = end.and_then(|end| end.coalescing) else {
        let why = format!("{whose} card does not report its interrupt coalescing");
        return Law::hardware(UNTOLD_COALESCING, why);
    };
    let us = f64::from(told.receive_us) * 1e3;
    // Small numbers name modes with some drivers (igb, e1000e: 1 and 3 adapt).
    let is_mode = told.adaptive_receive || (1..=3).contains(&told.receive_us);
    let held = match (told.receive_frames, is_mode) {
        (1, _) => range(0.0, 0.0, us),
        (_, true) => range(0.0, 0.3 * us, us.max(100_000.0)),
        (_, false) => range(0.0, us, 1.1 * us + 1_000.0),
    };
    let adapted = if told.adaptive_receive { ", adaptive" } else { "" };
    let time = told.receive_us;
    Law::hardware(held, format!("{whose} card delays interrupts {time} µs (coalescing{adapted})"))
}

#[cfg(test)]
mod tests;

//! Laws of streams: the work of each end per message, the slower end, and the capacity of the path.
//!
//! On loopback the sender copies a byte in and the receiver copies it out. The sender's call
//! carries the packet to the receiver's socket, in unsegmented packets of 64 KiB. Between hosts the
//! way's payload (`super::goodput`) limits, or one core's rate for each stream, or the calls for
//! small messages; nothing that was measured over loopback is used.

mod flow;
mod shares;
mod window;

pub use flow::{Bytes, Direction, Flow, Streams, Transfer};
pub use shares::share;

use super::way::Frames;
use super::{
    Kind, Protocol, Transport, Way, core_rate, goodput, least, link_rate, sleeps, stack, stack_cost,
};
use crate::memory::measured::copied;
use crate::memory::transfer::{self, Op, Stores, Threads};
use crate::memory::{self, Level, described_levels};
use crate::{Facts, Law, cpu, end_by_end, inverse, range};
use bench::experiment::{Known, Site};
use record::event::{Bound, Range};
use std::time::Duration;

/// Bytes of an unsegmented packet.
const SEGMENT_BYTES: f64 = 65536.0;
/// Bytes a cycle that the kernel copies between a process and socket buffers of megabytes.
const COPY: Range = range(2.0, 5.0, 13.0);
/// What a thread copies in a second, in B/s.
fn copy_rate(facts: Facts) -> Law {
    if let Some((memory, cached)) = facts.known.and_then(measured_copies) {
        let likely = (memory * cached).sqrt();
        let high = (1.6 * cached).max(2.5 * memory);
        let of = range(0.55 * memory.min(cached), likely, high);
        let [memory, cached] = [memory, cached].map(|rate| rate / 1e9);
        let because = format!(
            "one thread copies {memory:.1} GB/s in main memory and {cached:.1} GB/s in the \
             last-level cache (measured by memory.bandwidth, half of its bytes)"
        );
        return Law::hardware(of, because);
    }
    let because = format!("copies {:.1} to {:.0} B per cycle", COPY.low, COPY.high);
    Law::hardware(COPY, because).by(cpu::best_core_clock(facts).range)
}

/// The rates at which one thread copies in main memory and in the last cache, in B/s: half of the
/// program bytes that memory.bandwidth measured. One of both stands for the other where that is not
/// known.
pub fn measured_copies(known: &Known) -> Option<(f64, f64)> {
    let of_level = |level| Some(1e9 * copied(known, level)?);
    // The first cache holds no socket buffer.
    let cached = [Level::L4, Level::L3, Level::L2].into_iter().find_map(of_level);
    let memory = of_level(Level::Memory).or(cached)?;
    Some((memory, cached.unwrap_or(memory)))
}

/// Whether earlier figures say more than descriptions.
pub fn adds(facts: Facts) -> bool {
    let copies = || facts.known.is_some_and(|known| measured_copies(known).is_some());
    stack::knows_call(facts) || (facts.site.peer.is_none() && copies())
}

/// A usual round trip to the far end, for what a case costs.
pub fn round_trip(site: &Site) -> Duration {
    let way = Way::for_site(site);
    if way.kind() == Kind::Loopback {
        return Duration::ZERO;
    }
    let trip = super::round_trip(&way, Transport::Tcp, 64, 64);
    Duration::from_nanos(trip.range.likely as u64)
}

/// What each end does for a message, in ns.
struct Work {
    sender: Law,
    receiver: Law,
    copies: Law,
    /// Both ends' work for a message's bytes: copies and segments.
    bulk: Law,
}

fn work(facts: Facts, flow: &Flow) -> Work {
    let message = flow.bytes.message as f64;
    let segments = message / SEGMENT_BYTES;
    let copies = copy_rate(facts).inverse(1e9 * message);
    let (out, part_out, inward, part_in, calls_in) = services(flow);
    let of_segments = |sums: &[&str]| stack::counted(facts, sums, segments);
    let call = stack::call(facts);
    let Range { low, likely, high } = calls_in;
    let each = |calls: Law, message, part| {
        calls + stack::work(facts, &[message]) + of_segments(&[part]) + copies.clone()
    };
    Work {
        bulk: copies.clone().times(2.0) + of_segments(&[part_out, part_in]),
        sender: each(call.clone(), out, part_out),
        receiver: each(call.ends(low.max(1e-6), likely.max(1e-6), high), inward, part_in),
        copies,
    }
}

/// Sums of `net.rows` for a sender's message and segment and for its receiver's, and the receiver's
/// calls per message.
fn services(flow: &Flow) -> (&str, &str, &str, &str, Range) {
    match flow.bytes.protocol {
        Protocol::Tcp => {
            // Small messages come many to a call, unless the receiver asks for no more.
            let least = (flow.bytes.message as f64 / (2.0 * SEGMENT_BYTES)).min(1.0);
            let (into, calls) = match flow.bytes.transfer {
                Transfer::Steady => {
                    ("TCP_IN", range(0.5 * least, least.sqrt() * 0.5 + 0.5 * least, 1.0))
                }
                _ => ("tcp_in_alone", range(1.0, 1.0, 2.0)),
            };
            ("TCP_OUT", "tcp_out_bytes", into, "tcp_in_bytes", calls)
        }
        Protocol::Udp => ("UDP_OUT", "udp_bytes", "UDP_IN", "udp_bytes", range(1.0, 1.0, 1.0)),
    }
}

/// The slower of two ends that work at the same time.
fn slower(a: Law, b: &Law) -> Law {
    a.with(b).reshaped(|a| end_by_end(a, b.range, f64::max))
}

/// Bytes a second that a receiver gets, all streams together.
pub fn bandwidth(facts: Facts, flow: &Flow) -> Law {
    if flow.bytes.transfer == Transfer::Steady {
        return steady(facts, flow);
    }
    let time = transfer_time(facts, flow);
    match flow.bytes.transfer.fixed_bytes() {
        Some(bytes) => time.inverse(1e9 * bytes as f64),
        None => {
            let (times, how) = parallel(facts.site, flow);
            time.inverse(2e9 * flow.bytes.message as f64).by(times).and(how)
        }
    }
}

fn steady(facts: Facts, flow: &Flow) -> Law {
    let Work { sender, receiver, .. } = work(facts, flow);
    let bytes = 1e9 * flow.bytes.message as f64;
    let way = Way::for_site(facts.site);
    let rate = if way.kind() == Kind::Loopback {
        let time = match flow.is_same_cpu() {
            true => (sender + receiver)
                .by(range(0.75, 1.1, 1.7))
                .and("one CPU does the work of both ends"),
            // They contend for the buffers' lines and wait for each other now and then.
            false => {
                slower(sender, &receiver).by(range(0.75, 1.15, 2.0)).and("the slower end limits")
            }
        };
        let (times, how) = parallel(facts.site, flow);
        let rate = time.inverse(bytes).by(times).and(how).and("loopback: memory copies, no link");
        match (flow.is_udp(), flow.is_same_cpu()) {
            (false, _) => rate,
            (true, false) => rate.widened(1.8, 1.1, "the sender may be faster than the receiver"),
            (true, true) => rate.widened(10.0, 1.2, "the sender's slices overflow the buffer"),
        }
    } else {
        between_hosts(facts.site, &way, flow, slower(sender, &receiver))
    };
    if flow.is_udp() && flow.interval_ns > 0 {
        let paced = flow.streams as f64 * bytes / flow.interval_ns as f64;
        let all = least(rate.range, range(0.8 * paced, paced, 1.01 * paced));
        return rate.with_range(all).and("at most one message per interval");
    }
    rate
}

/// `work` is that of the slower end for a message.
fn between_hosts(site: &Site, way: &Way<'_>, flow: &Flow, work: Law) -> Law {
    let streams = flow.streams as f64;
    let link = carried(way, flow);
    let whole = link.range.likely;
    // Cards and drivers beside the sockets, and another processor at the other end.
    let calls = work.ends(0.5, 1.6, 4.0).inverse(1e9 * flow.bytes.message as f64).times(streams);
    let core = core_rate();
    let one = core.range;
    let cores = range(one.low, one.likely * streams.min(2.0), one.high * streams);
    let all = least(least(link.range, cores), calls.range);
    let mut rate = link.with(&core).with(&calls).with_range(all);
    if let Some(window) = window::rate(site, way, flow) {
        let all = least(rate.range, window.range);
        rate = rate.with_range(all).with(&window);
    }
    let (below, above, why) = match way.kind() {
        Kind::Wired => (3.0, 1.02, "datagrams that the receiver does not read in time are lost"),
        _ => (10.0, 1.1, "datagrams beyond the capacity of the path or the receiver are lost"),
    };
    let rate = rate.when(flow.is_udp(), |rate| rate.widened(below, above, why));
    // The more of its rate the link gives, the more of the time is the wire's.
    let share = link_rate(way).map_or(0.0, |_| rate.range.likely / whole);
    rate.fixed(share.min(1.0))
}

/// What the way carries of such messages, in B/s of payload.
fn carried(way: &Way<'_>, flow: &Flow) -> Law {
    let link = goodput(way, flow.transport());
    if !flow.is_udp() || link_rate(way).is_none() {
        return link;
    }
    // A datagram has heads of its own, however short it is.
    let share = |of: Frames| of.payload as f64 / of.counted_bytes(way.is_shaped()) as f64;
    let ratio = share(way.frames(flow.transport(), flow.bytes.message))
        / share(way.full_frames(flow.transport()));
    link.times(ratio).and(format!("each datagram of {} B has its own headers", flow.bytes.message))
}

/// How many streams' worth go at the same time, and how a sentence says it.
fn parallel(site: &Site, flow: &Flow) -> (Range, String) {
    if flow.streams <= 1 {
        return (range(1.0, 1.0, 1.0), String::new());
    }
    let near = site.cpus.len().max(1);
    let cpus = match (&site.peer, flow.is_same_cpu()) {
        (Some(peer), _) => near.min(peer.cpus.len().max(1)),
        (None, true) => near,
        (None, false) => (near / 2).max(1),
    };
    let at_once = (flow.streams as f64).min(cpus as f64);
    (
        // Memory and the kernel's locks are shared; a CPU that had to wait has more to do.
        range(0.35 * at_once, 0.8 * at_once, 1.5 * at_once),
        format!("{} streams, {at_once:.0} at a time", flow.streams),
    )
}

/// One transfer of fixed size, or one message there and back, in ns.
pub fn transfer_time(facts: Facts, flow: &Flow) -> Law {
    let way = Way::for_site(facts.site);
    let is_here = way.kind() == Kind::Loopback;
    let stack = stack_cost(facts, flow.transport(), flow.waking(is_here));
    if let Some(bytes) = flow.bytes.transfer.fixed_bytes() {
        let of = Bytes { transfer: Transfer::Steady, ..flow.bytes.clone() };
        // The bytes' own time is the stream's.
        let stream = steady(facts, &Flow { bytes: of, ..*flow }).inverse(1e9 * bytes as f64);
        let trip = super::round_trip(&way, flow.transport(), 0, 1);
        let all = stream + trip + stack.times(2.0);
        let why = format!("each transfer of {bytes} B is started and acknowledged");
        return all.widened(1.0, if is_here { 1.4 } else { 4.0 }, why);
    }
    let one_way = stack + work(facts, flow).bulk;
    // Threads that share a CPU wait for each other's turns.
    let cpus = facts.site.cpus.len().max(1) as f64;
    let threads = flow.streams as f64 * if is_here { 2.0 } else { 1.0 };
    let turns = if threads > cpus { 2.0 * threads / cpus } else { 1.0 };
    let both = one_way.reshaped(|ns| range(1.3 * ns.low, 2.4 * ns.likely, 2.6 * ns.high * turns));
    let message = flow.bytes.message;
    let trip = || super::round_trip(&way, flow.transport(), message, message);
    both.and("one message each way, and each wakes its receiver") + (!is_here).then(trip)
}

/// Bytes a second in the best block or transfer.
pub fn peak(facts: Facts, flow: &Flow) -> Law {
    let of = bandwidth(facts, flow);
    let (likely, high, why) = match flow.bytes.transfer {
        Transfer::Steady if flow.is_same_cpu() => (1.6, 4.0, "at best only the receiver runs"),
        Transfer::Steady => (1.2, 1.9, "the best block of a window, bursts included"),
        _ => (1.3, 2.2, "the best transfer"),
    };
    of.ends(1.0, likely, high).and(why)
}

/// Bytes a second that one receive call copies.
pub fn copies(facts: Facts, flow: &Flow) -> Law {
    let Work { receiver, copies, .. } = work(facts, flow);
    let time = range(copies.range.low, receiver.range.likely, 2.0 * receiver.range.high);
    receiver.with_range(time).inverse(1e9 * flow.bytes.message as f64).and("one call and one copy")
}

/// CPU time of an end for a message that it had, in ns.
pub fn message_cpu(facts: Facts, flow: &Flow, is_sender: bool) -> Law {
    let is_remote = facts.site.peer.is_some();
    let Work { sender, receiver, bulk, .. } = work(facts, flow);
    let own = match (flow.bytes.transfer, is_sender) {
        // One send and one receive for two messages; the end that wakes the other pays for the
        // wake-up.
        (Transfer::ThereAndBack, _) => {
            (stack_cost(facts, flow.transport(), flow.waking(!is_remote)) + bulk).times(0.5)
        }
        (_, true) => sender,
        (_, false) => receiver,
    };
    // Waiting is sleeping, but each sleep and waking is work; softirqs land on either end.
    let (low, likely, high) = match flow.bytes.transfer {
        Transfer::Steady => (0.5, 1.1, 2.5),
        _ => (0.45, 1.4, 3.5),
    };
    let mut each = own.by(range(low, likely, high)).and("plus sleeps and softirqs");
    if is_remote {
        each = each.widened(2.5, 3.0, "");
        if !is_sender {
            each = each + sleeps(facts, flow.transport(), flow.bytes.message);
        }
    }
    // It spins.
    let spins = flow.interval_ns > 0 && is_sender;
    each.when(spins, |each| each.reaching(1.2 * flow.interval_ns as f64))
}

/// CPU time of an end for a byte that was delivered, in ns.
pub fn byte_cpu(facts: Facts, flow: &Flow, is_sender: bool) -> Law {
    let each = message_cpu(facts, flow, is_sender).times(1.0 / flow.bytes.message as f64);
    let is_lossy = flow.is_same_cpu() || facts.site.peer.is_some();
    let above = if is_lossy { 10.0 } else { 2.0 };
    each.when(flow.is_udp() && is_sender, |each| each.widened(1.0, above, "losses cost CPU time"))
}

/// What a way's nominal rate allows; a shaper lets bursts pass.
pub fn bound(site: &Site, flow: &Flow) -> Option<Bound> {
    super::link_bound(&Way::for_site(site), flow.transport())
}

/// Number of threads whose copies limit a transfer over loopback, and the reason.
fn at_once(site: &Site, flow: &Flow) -> (f64, &'static str) {
    let (streams, cpus) = (flow.streams as f64, site.cpus.len().max(1) as f64);
    match flow.is_same_cpu() {
        true => (0.5 * streams.min(cpus), "one CPU copies in and out"),
        false => (streams.min((cpus / 2.0).floor().max(1.0)), "copies in and out in parallel"),
    }
}

/// What steady transfers are compared with, in B/s, and what it is; `None` if the reference is
/// unknown.
pub fn measure_of(site: &Site, known: &Known, flow: &Flow) -> Option<(f64, String)> {
    let way = Way::for_site(site);
    if way.kind() != Kind::Loopback {
        let bound = super::link_bound(&way, flow.transport())?;
        return Some((bound.constant, format!("relative to the link: {}", bound.rule)));
    }
    let (_, best) = measured_copies(known)?;
    let (at_once, how) = at_once(site, flow);
    let many = if at_once > 1.0 { ", as many threads as fit" } else { "" };
    let why = format!(
        "relative to copying, {how}: one thread copies {:.1} GB/s in the last-level cache \
         (measured by memory.bandwidth, half of its bytes){many}; loopback: no link",
        best / 1e9
    );
    Some((best * at_once, why))
}

/// What the comparison should give.
pub fn efficiency(site: &Site, flow: &Flow) -> Option<Law> {
    let way = Way::for_site(site);
    if way.kind() == Kind::Loopback {
        let (facts, (at_once, how)) = (Facts::prior(site), at_once(site, flow));
        let mut caches = described_levels(site).into_iter().map(|(level, _)| level);
        let last = caches.rfind(|level| *level != Level::L1).unwrap_or(Level::Memory);
        let of = transfer::Transfer::widest(Op::Copy, Stores::Regular, last, Threads::Number(1));
        let copies = memory::bandwidth::bandwidth(facts, &of).ok()?.times(0.5 * at_once);
        let share = bandwidth(facts, flow).by(inverse(1.0, copies.range));
        return Some(share.and(format!("relative to a program's copies, {how}")).with(&copies));
    }
    link_rate(&way)?;
    let law = Law::from_range(range(1e-4, 0.95, 1.02), way.name());
    Some(law.and("lower if calls, a core or the path limit"))
}

#[cfg(test)]
mod tests;

//! Laws of streams: what each end does for a message, who of both is slower, and what the way carries.
//!
//! On loopback a byte is copied in by the sender and out by the receiver, and the sender's call carries the
//! packet to the receiver's socket, in segments of 64 KiB that nobody cuts. Between hosts the way's payload
//! (`super::goodput`) limits, or one core's rate for each stream, or the calls for small messages; nothing
//! that was measured over loopback is used. Cycles are starting values for Linux 6.x, from `perf` of streams
//! that are usual (iperf3 prints 2 to 8 GB/s on loopback, and one to three million datagrams a second at the
//! most); they were looked at on one virtual machine.

mod shares;
mod window;

pub use shares::share;

use super::{Kind, Transport, Waking, Way, core_rate, goodput, link_rate};
use crate::os::{self, measured_call};
use crate::{Facts, Law, cpu, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::event::{Bound, Range};
use std::time::Duration;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// As much as goes.
    Steady,
    /// So many bytes, acknowledged.
    Fixed(u64),
    /// A message that comes back.
    ThereAndBack,
    /// A message that is read where it is.
    AlreadyThere,
}

/// Bytes on their way.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Streams or datagrams.
    pub transport: Transport,
    /// Bytes of a message.
    pub message: u64,
    /// Both ends on one CPU.
    pub is_same_cpu: bool,
    /// Streams.
    pub streams: u64,
    /// This end sends.
    pub is_up: bool,
    /// What is sent.
    pub transfer: Transfer,
    /// Time from one datagram to the next; 0: as fast as it goes.
    pub interval_ns: u64,
}

/// Bytes of a segment that nobody cuts.
const SEGMENT_BYTES: f64 = 65536.0;
/// Bytes a cycle that the kernel copies between a process and socket buffers of megabytes.
const COPY: Range = range(2.0, 5.0, 13.0);
/// Cycles of a sender for a message that joins others in a segment, and for each segment: pages, protocols,
/// the receiver's side in a softirq, its waking, acknowledgements.
const TCP_MESSAGE: Range = range(900.0, 3_800.0, 11_000.0);
const TCP_SEGMENT: Range = range(4_000.0, 12_000.0, 36_000.0);
/// Cycles of a receiver for a message that comes with others, and for each segment.
const TCP_MESSAGE_IN: Range = range(150.0, 2_600.0, 9_500.0);
const TCP_SEGMENT_IN: Range = range(2_500.0, 9_000.0, 28_000.0);
/// The same of datagrams, each by itself.
const UDP_MESSAGE: Range = range(1_500.0, 4_600.0, 11_500.0);
const UDP_MESSAGE_IN: Range = range(500.0, 2_600.0, 9_000.0);
const UDP_SEGMENT: Range = range(1_500.0, 6_000.0, 22_000.0);

/// What a thread copies in a second, in B/s, and whether that was measured.
pub fn copy_rate(site: &Site, known: Option<&Known>) -> (Range, String) {
    if let Some((memory, cached)) = known.and_then(measured_copies) {
        let likely = (memory * cached).sqrt();
        let high = (1.6 * cached).max(2.5 * memory);
        return (
            range(0.55 * memory.min(cached), likely, high),
            format!(
                "one thread copies {:.1} GB/s in main memory and {:.1} in the last cache that it measured                  (memory.bandwidth, half of its program bytes)",
                memory / 1e9,
                cached / 1e9
            ),
        );
    }
    let clock = cpu::best_core_clock(Facts { site, known });
    let (clock, from) = (clock.range, clock.because());
    (
        product(COPY, clock),
        format!("{:.1} to {:.0} B a cycle of copying, {from}", COPY.low, COPY.high),
    )
}

/// The rates at which one thread copies in main memory and in the last cache, in B/s: half of the program
/// bytes that memory.bandwidth measured. One of both stands for the other where that is not known.
pub fn measured_copies(known: &Known) -> Option<(f64, f64)> {
    let of_level = |level: &str| {
        let of = known.of("memory.bandwidth", "bandwidth");
        let rates = of.filter(|(case, rate)| {
            case.text("op") == Some("copy")
                && case.text("stores") != Some("nontemporal")
                && case.text("level") == Some(level)
                && case.int("threads") == Some(1)
                && *rate > 0.0
        });
        rates.map(|(_, rate)| rate / 2.0).max_by(f64::total_cmp)
    };
    // The first cache holds no socket buffer.
    let cached = ["L4", "L3", "L2"].into_iter().find_map(of_level);
    let memory = of_level("DRAM").or(cached)?;
    Some((memory, cached.unwrap_or(memory)))
}

/// Whether earlier figures say more than descriptions.
pub fn adds(site: &Site, known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
        || (site.peer.is_none() && measured_copies(known).is_some())
}

/// A usual round trip to the far end, for what a case costs.
pub fn round_trip(site: &Site) -> Duration {
    let way = Way::of(site);
    if way.kind() == Kind::Loopback {
        return Duration::ZERO;
    }
    let trip = super::round_trip(&way, Transport::Tcp, 64, 64);
    Duration::from_nanos(trip.range.likely as u64)
}

/// What each end does for a message, in ns.
struct Work {
    sender: Range,
    receiver: Range,
    copies: Range,
    /// Both ends' work for a message's bytes: copies and segments.
    bulk: Range,
    because: String,
}

fn work(site: &Site, known: Option<&Known>, flow: &Flow) -> Work {
    let clock = cpu::best_core_clock(Facts { site, known }).range;
    let ns = |cycles: Range| {
        let time = product(cycles, inverse(1e9, clock));
        match cpu::is_guest(site) {
            true => range(time.low, time.likely, 1.3 * time.high),
            false => time,
        }
    };
    let call = os::call(Facts { site, known }, 0.06);
    let (call, call_from) = (call.range, call.because());
    let message = flow.message as f64;
    let segments = message / SEGMENT_BYTES;
    let (copy, copy_from) = copy_rate(site, known);
    let copies = inverse(1e9 * message, copy);
    let (out, part_out, inward, part_in, calls_in) = services(flow);
    let calls_in = range(
        calls_in.low.max(1e-6) * call.low,
        calls_in.likely.max(1e-6) * call.likely,
        calls_in.high * call.high,
    );
    let sender = sum(sum(call, ns(out)), sum(ns(scaled(part_out, segments)), copies));
    let receiver = sum(sum(calls_in, ns(inward)), sum(ns(scaled(part_in, segments)), copies));
    let because = format!(
        "base hardware: {copy_from}; software: {call_from}; {} of the sender's {:.0} to {:.0} cycles a message \
         and {:.0} to {:.0} for 64 KiB, of the receiver's {:.0} to {:.0}",
        flow.transport, out.low, out.high, part_out.low, part_out.high, inward.low, inward.high
    );
    Work {
        bulk: sum(scaled(copies, 2.0), ns(scaled(sum(part_out, part_in), segments))),
        sender,
        receiver,
        copies,
        because,
    }
}

/// Cycles of a sender for a message and for each segment of it, the same of its receiver, and the receiver's
/// calls for a message.
fn services(flow: &Flow) -> (Range, Range, Range, Range, Range) {
    match flow.transport {
        Transport::Tcp => {
            // Small messages come many to a call, unless the receiver asks for no more.
            let least = (flow.message as f64 / (2.0 * SEGMENT_BYTES)).min(1.0);
            let calls = match flow.transfer {
                Transfer::Steady => range(0.5 * least, least.sqrt() * 0.5 + 0.5 * least, 1.0),
                _ => range(1.0, 1.0, 2.0),
            };
            let into = match flow.transfer {
                Transfer::Steady => TCP_MESSAGE_IN,
                _ => scaled(TCP_MESSAGE_IN, 1.5),
            };
            (TCP_MESSAGE, TCP_SEGMENT, into, TCP_SEGMENT_IN, calls)
        }
        _ => (UDP_MESSAGE, UDP_SEGMENT, UDP_MESSAGE_IN, UDP_SEGMENT, range(1.0, 1.0, 1.0)),
    }
}

/// The slower of two ends that work at the same time.
fn slower(a: Range, b: Range) -> Range {
    range(a.low.max(b.low), a.likely.max(b.likely), a.high.max(b.high))
}

fn least(a: Range, b: Range) -> Range {
    range(a.low.min(b.low), a.likely.min(b.likely), a.high.min(b.high))
}

/// Bytes a second that a receiver gets, all streams together.
pub fn bandwidth(site: &Site, known: Option<&Known>, flow: &Flow) -> Law {
    match flow.transfer {
        Transfer::Steady => steady(site, known, flow),
        Transfer::Fixed(bytes) => of_time(transfer_time(site, known, flow), bytes as f64),
        Transfer::ThereAndBack | Transfer::AlreadyThere => {
            let time = transfer_time(site, known, flow);
            let each = of_time(time, 2.0 * flow.message as f64);
            let (times, how) = parallel(site, flow);
            Law::of(product(each.range, times), format!("{}{how}", each.because()))
        }
    }
}

fn of_time(time: Law, bytes: f64) -> Law {
    Law::of(inverse(1e9 * bytes, time.range), time.because())
}

fn steady(site: &Site, known: Option<&Known>, flow: &Flow) -> Law {
    let work = work(site, known, flow);
    let bytes = 1e9 * flow.message as f64;
    let way = Way::of(site).toward(flow.is_up);
    let is_udp = flow.transport == Transport::Udp;
    let mut rate = if way.kind() == Kind::Loopback {
        let (time, how) = match flow.is_same_cpu {
            true => {
                let both = sum(work.sender, work.receiver);
                let time = product(both, range(0.75, 1.1, 1.7));
                (time, "one CPU does both ends' work")
            }
            false => {
                let slower = slower(work.sender, work.receiver);
                // They contend for the buffers' lines and wait for each other now and then.
                let time = product(slower, range(0.75, 1.15, 2.0));
                (time, "the slower end decides")
            }
        };
        let (times, streams) = parallel(site, flow);
        let rate = Law::of(
            product(inverse(bytes, time), times),
            format!("loopback: memory copies, no link; {how}{streams}: {}", work.because),
        );
        match (is_udp, flow.is_same_cpu) {
            (false, _) => rate,
            (true, false) => rate.widened(1.8, 1.1, "a sender may outrun its receiver (÷ 1.8)"),
            (true, true) => {
                rate.widened(10.0, 1.2, "the sender fills and overfills the buffer in its turns")
            }
        }
    } else {
        between_hosts(site, &way, flow, &work)
    };
    if is_udp && flow.interval_ns > 0 {
        let paced = flow.streams as f64 * bytes / flow.interval_ns as f64;
        rate.range = least(rate.range, range(0.8 * paced, paced, 1.01 * paced));
        rate = rate.and("no more than the interval sends");
    }
    rate
}

fn between_hosts(site: &Site, way: &Way<'_>, flow: &Flow, work: &Work) -> Law {
    let streams = flow.streams as f64;
    let bytes = 1e9 * flow.message as f64;
    let is_udp = flow.transport == Transport::Udp;
    let link = carried(way, flow);
    let slower = slower(work.sender, work.receiver);
    // Cards and drivers beside the sockets, and another processor at the other end.
    let time = range(0.5 * slower.low, 1.6 * slower.likely, 4.0 * slower.high);
    let calls = scaled(inverse(bytes, time), streams);
    let core = core_rate();
    let cores =
        range(core.range.low, core.range.likely * streams.min(2.0), core.range.high * streams);
    let mut rate = Law::of(
        least(least(link.range, cores), calls),
        format!("{}; {}; {}", link.because(), core.because(), work.because),
    );
    if let Some(window) = window::rate(site, way, flow) {
        rate = Law::of(least(rate.range, window.range), rate.because()).and(&window.because());
    }
    match (is_udp, way.kind()) {
        (false, _) => rate,
        (true, Kind::Wired) => {
            rate.widened(3.0, 1.02, "what the receiver does not take is lost (÷ 3)")
        }
        (true, _) => {
            rate.widened(10.0, 1.1, "what the way or the receiver does not take is lost (÷ 10)")
        }
    }
}

/// What the way carries of such messages, in B/s of payload.
fn carried(way: &Way<'_>, flow: &Flow) -> Law {
    let mut link = goodput(way, flow.transport);
    if flow.transport == Transport::Udp
        && let Some(rate) = link_rate(way)
    {
        // A datagram has heads of its own, however short it is.
        let full = way.full_frames(flow.transport);
        let frames = way.frames(flow.transport, flow.message);
        let of = |payload: u64, counted: u64| payload as f64 / counted as f64;
        let ratio = of(frames.payload, frames.counted_bytes(way.is_shaped()))
            / of(full.payload, full.counted_bytes(way.is_shaped()));
        link.range = scaled(link.range, ratio);
        link = link.and(format!(
            "of datagrams of {} B {:.1} MB/s is payload",
            flow.message,
            rate * of(frames.payload, frames.counted_bytes(way.is_shaped())) / 1e6
        ));
    }
    link
}

/// How many streams' worth go at the same time, and how a sentence says it.
fn parallel(site: &Site, flow: &Flow) -> (Range, String) {
    if flow.streams <= 1 {
        return (range(1.0, 1.0, 1.0), String::new());
    }
    let near = site.cpus.len().max(1);
    let cpus = match (&site.peer, flow.is_same_cpu) {
        (Some(peer), _) => near.min(peer.cpus.len().max(1)),
        (None, true) => near,
        (None, false) => (near / 2).max(1),
    };
    let at_once = (flow.streams as f64).min(cpus as f64);
    (
        // Memory and the kernel's locks are shared; a CPU that had to wait has more to do.
        range(0.35 * at_once, 0.8 * at_once, 1.5 * at_once),
        format!(", {} streams, {at_once:.0} at a time", flow.streams),
    )
}

/// One transfer of fixed size, or one message there and back, in ns.
pub fn transfer_time(site: &Site, known: Option<&Known>, flow: &Flow) -> Law {
    let way = Way::of(site);
    let is_here = way.kind() == Kind::Loopback;
    let waking = match (is_here, flow.is_same_cpu) {
        (true, true) => Waking::Same,
        (true, false) => Waking::Other,
        (false, _) => Waking::Interrupt,
    };
    let stack = super::stack_cost(site, known, flow.transport, waking);
    if let Transfer::Fixed(bytes) = flow.transfer {
        let as_stream = Flow { transfer: Transfer::Steady, ..*flow };
        let stream = steady(site, known, &as_stream);
        let bytes_ns = inverse(1e9 * bytes as f64, stream.range);
        // The bytes' own time is the stream's.
        let trip = super::round_trip(&way, flow.transport, 0, 1);
        let signs = sum(trip.range, scaled(stack.range, 2.0));
        let all = sum(bytes_ns, signs);
        let most = if is_here { 1.4 } else { 4.0 };
        return Law::of(
            range(all.low, all.likely, most * all.high),
            format!(
                "{bytes} B at the stream's rate, begun and acknowledged each time ({:.1} µs): {}",
                signs.likely / 1e3,
                stream.because()
            ),
        );
    }
    let work = work(site, known, flow);
    let one_way = sum(stack.range, work.bulk);
    let mut both = range(1.3 * one_way.low, 2.4 * one_way.likely, 2.6 * one_way.high);
    // Threads that share a CPU wait for each other's turns.
    let cpus = site.cpus.len().max(1) as f64;
    let threads = flow.streams as f64 * if is_here { 2.0 } else { 1.0 };
    if threads > cpus {
        both.high *= 2.0 * threads / cpus;
    }
    let trip = super::round_trip(&way, flow.transport, flow.message, flow.message);
    Law::of(
        match is_here {
            true => both,
            false => sum(both, trip.range),
        },
        format!(
            "each way one message out and in, and its receiver woken: {}; {}; {}",
            work.because,
            stack.because(),
            trip.because()
        ),
    )
}

/// Bytes a second in the best block or transfer.
pub fn peak(site: &Site, known: Option<&Known>, flow: &Flow) -> Law {
    let of = bandwidth(site, known, flow);
    let (likely, high, why) = match flow.transfer {
        Transfer::Steady if flow.is_same_cpu => {
            (1.6, 4.0, "a block in which the receiver alone reads what lay in its buffer")
        }
        Transfer::Steady => (1.2, 1.9, "the best block of a window, bursts included"),
        _ => (1.3, 2.2, "the best transfer"),
    };
    Law::of(range(of.range.low, likely * of.range.likely, high * of.range.high), of.because())
        .and(why)
}

/// Bytes a second that one receive call copies.
pub fn copies(site: &Site, known: Option<&Known>, flow: &Flow) -> Law {
    let work = work(site, known, flow);
    let whole = work.receiver;
    let time = range(work.copies.low, whole.likely, 2.0 * whole.high);
    Law::of(
        inverse(1e9 * flow.message as f64, time),
        format!("one call, and one copy of {} B: {}", flow.message, work.because),
    )
}

/// CPU time of an end for a message that it had, in ns.
pub fn message_cpu(site: &Site, known: Option<&Known>, flow: &Flow, is_sender: bool) -> Law {
    let work = work(site, known, flow);
    let own = match (flow.transfer, is_sender) {
        (Transfer::ThereAndBack, _) => {
            // One out and one in for two messages; who wakes the other pays for it.
            let waking = match (site.peer.is_some(), flow.is_same_cpu) {
                (true, _) => Waking::Interrupt,
                (false, true) => Waking::Same,
                (false, false) => Waking::Other,
            };
            let pair = super::stack_cost(site, known, flow.transport, waking);
            scaled(sum(pair.range, work.bulk), 0.5)
        }
        (_, true) => work.sender,
        (_, false) => work.receiver,
    };
    // Waiting is sleeping, but each sleep and waking is work; softirqs land on either end.
    let (low, likely, high) = match flow.transfer {
        Transfer::Steady => (0.5, 1.1, 2.5),
        _ => (0.45, 1.4, 3.5),
    };
    let mut range = product(own, range(low, likely, high));
    if site.peer.is_some() {
        range.low *= 0.4;
        range.high *= 3.0;
        if !is_sender {
            let between = super::sleeps(site, known, flow.transport, flow.message);
            range = sum(range, between);
        }
    }
    if flow.interval_ns > 0 && is_sender {
        // It spins.
        range.high = range.high.max(1.2 * flow.interval_ns as f64);
    }
    let who = if is_sender { "sender" } else { "receiver" };
    Law::of(range, format!("the {who}'s work for a message, and its sleeps: {}", work.because))
}

/// CPU time of an end for a byte that was delivered, in ns.
pub fn byte_cpu(site: &Site, known: Option<&Known>, flow: &Flow, is_sender: bool) -> Law {
    let mut each = message_cpu(site, known, flow, is_sender);
    each.range = scaled(each.range, 1.0 / flow.message as f64);
    match (flow.transport, is_sender) {
        (Transport::Udp, true) if flow.is_same_cpu || site.peer.is_some() => {
            each.widened(1.0, 10.0, "for those that are lost as well (x 10)")
        }
        (Transport::Udp, true) => each.widened(1.0, 2.0, "for those that are lost as well (x 2)"),
        _ => each,
    }
}

/// What a way's nominal rate allows; a shaper lets bursts pass.
pub fn bound(site: &Site, flow: &Flow) -> Option<Bound> {
    super::link_bound(&Way::of(site), flow.transport)
}

/// What steady transfers are compared with, in B/s, and what it is; none where nothing is known of it.
pub fn measure_of(site: &Site, known: &Known, flow: &Flow) -> Option<(f64, String)> {
    let way = Way::of(site).toward(flow.is_up);
    if way.kind() != Kind::Loopback {
        let bound = super::link_bound(&way, flow.transport)?;
        return Some((bound.constant, format!("over the link: {}", bound.rule)));
    }
    let (_, best) = measured_copies(known)?;
    let cpus = site.cpus.len().max(1) as f64;
    let (at_once, how) = match flow.is_same_cpu {
        true => (0.5 * (flow.streams as f64).min(cpus), "in and out by one CPU"),
        false => (
            (flow.streams as f64).min((cpus / 2.0).floor().max(1.0)),
            "in and out at the same time",
        ),
    };
    Some((
        best * at_once,
        format!(
            "over copying, {how}: one thread copies {:.1} GB/s in the last cache (memory.bandwidth, half of its program bytes){}; \
             loopback: no link",
            best / 1e9,
            if at_once > 1.0 { ", as many threads as fit" } else { "" }
        ),
    ))
}

/// What the comparison should give.
pub fn efficiency(site: &Site, flow: &Flow) -> Option<Law> {
    let way = Way::of(site).toward(flow.is_up);
    if way.kind() == Kind::Loopback {
        // Calls and segments beside the copies; small messages are nearly all calls.
        let copied = flow.message as f64 / (flow.message as f64 + 12_000.0);
        return Some(Law::new(
            0.1 * copied,
            0.4 * copied,
            1.5 * copied,
            "loopback: copies, and for each message calls and protocols beside them",
        ));
    }
    link_rate(&way)?;
    Some(Law::new(
        1e-4,
        0.95,
        1.02,
        format!("base hardware: {}; less where calls, a core or the way are slower", way.name()),
    ))
}

#[cfg(test)]
mod tests;

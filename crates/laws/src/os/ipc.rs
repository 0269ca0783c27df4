//! Laws of messages between processes: calls, services (`os.rows`), copies, and wake-ups.

use super::call;
use super::switch::{self, Parties, Via::Pipe as PIPE};
use super::work::guest_wake;
use crate::cpu::clocked;
use crate::memory::measured::kernel_copy;
use crate::rows::Section;
use crate::{Facts, Law, inverse, range};
use bench::experiment::{Domain, Known, Site};
use bench::pair::Class;
use bench::{case, symbols};
use record::event::Range;

symbols! {
    /// A mechanism.
    pub enum Via {
        Pipe = "pipe",
        UnixStream = "unix_stream",
        UnixDatagram = "unix_datagram",
        /// A UNIX stream socket made in pairs.
        Socketpair = "socketpair",
        Eventfd = "eventfd",
        Mqueue = "mqueue",
        /// A ring in shared memory with futexes.
        ShmFutex = "shm_futex",
    }
}
case! {
    /// A way for messages.
    pub struct Way {
        /// the mechanism: `pipe` (two, one each way), `unix_stream` and `unix_datagram` (sockets
        /// connected by name), `socketpair` (UNIX stream sockets made in pairs), `eventfd` (a counter
        /// each way, no payload), `mqueue` (POSIX message queues), `shm_futex` (rings in shared
        /// memory, futexes)
        via: Via,
        /// where the two parties run: on the same CPU, SMT siblings, under one last-level cache, in
        /// one socket, in different sockets (remote), or on CPUs of unknown distance (other)
        pair: Class,
        /// bytes of a message; of an eventfd always 8
        size: u64 = Domain::bytes(1, 64 << 20),
    }
}

impl Via {
    /// Messages that may lie on the way, of one byte and of 4 KiB.
    fn queued(self) -> [f64; 2] {
        match self {
            Via::Pipe | Via::ShmFutex => [65536.0, 16.0],
            Via::UnixStream | Via::Socketpair => [270.0, 40.0],
            Via::UnixDatagram => [11.0, 11.0],
            Via::Eventfd => [1.0, 1.0],
            Via::Mqueue => [10.0, 10.0],
        }
    }
}

/// Bytes that may lie on the way of a pipe or ring; other mechanisms are taken alike.
const BUFFER_BYTES: f64 = 65536.0;

/// Bytes that a socket's messages on the way may have by default (net.core.wmem_default).
const SEND_BYTES: f64 = 212_992.0;
/// Copies of a message that the caches hold at a time: both parties' buffers, both ways.
const COPIES_AT_A_TIME: f64 = 4.0;
/// A first-level cache for data holds so many bytes, or somewhat more.
const NEAR_BYTES: f64 = 48.0 * 1024.0;

/// No core's own cache holds so many bytes.
const FAR_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// Bytes a cycle of a copy between two processes' buffers that stay cached, on one CPU: from a
/// short `rep movsb` without its fast form to full vectors out of the first-level cache.
const COPY_NEAR: Range = range(4.0, 13.0, 36.0);
/// The same where the buffers fit the second cache and not the first.
const COPY_BEYOND: Range = range(3.0, 8.0, 25.0);
/// The same where one side's lines come out of another core's cache.
const COPY_FAR: Range = range(1.5, 5.0, 16.0);

/// A CPU that sleeps lightly woken until the process on it runs, in ns.
const WAKE: Range = range(700.0, 2000.0, 7000.0);
/// The same where the hypervisor must take the sleeping CPU up again.
const WAKE_GUEST: Range = range(1500.0, 9000.0, 50_000.0);

/// What one hand-over between two processes at that distance by a pipe takes beyond its calls, as
/// `os.switch` measured it, in ns: on one CPU the switch, on two the hand-over less the same calls
/// by one party.
pub fn measured_switch(known: &Known, pair: Class) -> Option<f64> {
    let of = |metric| switch::measured(known, (PIPE, Parties::Processes), Some(pair), metric);
    let ns = match pair {
        Class::Same => of("switch")?,
        _ => of("handover")? - of("one_party")?,
    };
    (ns > 0.0).then_some(ns)
}

/// A message there and one of the same size back, in ns.
pub fn round_trip(facts: Facts, way: &Way) -> Law {
    (message(facts, way, 2.0) + handover(facts, way.pair)).counted(2.0)
}

/// Bytes a second one way.
pub fn bandwidth(facts: Facts, way: &Way) -> Law {
    // Without a waiting receiver a ring in shared memory calls seldom.
    let work = message(facts, way, if way.via == Via::ShmFutex { 0.1 } else { 2.0 });
    let handover = handover(facts, way.pair);
    let switches = switches(facts.site, way);
    let (fewest, most) = (switches.low, switches.high);
    let message = if way.pair == Class::Same {
        work + handover
            .by(switches)
            .and(format!("{fewest:.2} to {most:.2} context switches per message"))
    } else {
        // Each party has its half, and they overlap, but contend for the buffer's lines; and as the
        // buffer fills and empties, the one that is faster waits for the other and must be woken.
        let (alone, woken) = (work.range, handover.range);
        let waiting = alone.likely + fewest * woken.likely;
        // Where several messages may lie there, neither may ever wait.
        let likely = match fewest < 2.0 {
            true => (0.5 * alone.likely * waiting).sqrt(),
            false => waiting,
        };
        let overlapped =
            range(0.45 * alone.low, likely, 3.0 * alone.high + 2.0 * fewest * woken.high);
        let twice = 2.0 * fewest;
        (work + handover).with_range(overlapped).and(format!(
            "the parties overlap and contend, with {fewest:.4} to {twice:.4} wake-ups per message"
        ))
    };
    message.inverse(1e9 * way.size as f64)
}

/// Switches for each message where both parties share a CPU: from two for each buffer that fills up
/// to two for each message, where the receiver preempts the sender at once. Since Linux 6.6 (EEVDF)
/// one that is woken seldom takes the CPU from its waker.
fn switches(site: &Site, way: &Way) -> Range {
    let bytes = way.size as f64;
    let pages = bytes / 4096.0;
    let [small, page] = way.via.queued();
    let queued = match way.via {
        // Whole messages lie there, however long, as long as the sender's memory suffices.
        Via::Mqueue => small,
        Via::UnixDatagram => small.min((SEND_BYTES / bytes).max(1.0)),
        _ if pages < 1.0 => small.min(BUFFER_BYTES / bytes).max(page),
        _ => page / pages,
    };
    let fewest = 2.0 / queued;
    // A message longer than the buffer switches as often as it fills, or twice that.
    let most = if queued >= 1.0 { 2.0 } else { 2.0 * fewest };
    let seldom = site.host.kernel.numbers().is_some_and(|numbers| numbers >= (6, 6));
    let likely = match seldom {
        true => (1.15 * fewest).min(most),
        false => (fewest * most).sqrt(),
    };
    range(fewest, likely, most)
}

/// A message sent and received by so many calls, without a hand-over, in ns.
fn message(facts: Facts, way: &Way, calls: f64) -> Law {
    let count = |name: &str| match name {
        "calls" => calls,
        // The first page is the message's.
        _ => (way.size as f64 / 4096.0).ceil() - 1.0,
    };
    let time = |name: &str| match name {
        "copies" => copies(facts, way),
        _ => call(facts, 0.06),
    };
    Section { facts, name: "os.ipc", count: &count, time: &time }.law(&[way.via.text()])
}

/// Two copies of a message, in ns.
fn copies(facts: Facts, way: &Way) -> Law {
    let (bytes, near) = (2.0 * way.size as f64, COPIES_AT_A_TIME * way.size as f64);
    let is_same = way.pair == Class::Same;
    let (rate, whence) = match is_same {
        true if near > NEAR_BYTES => (COPY_BEYOND, ""),
        true => (COPY_NEAR, ""),
        false => (COPY_FAR, " from another core's cache"),
    };
    // What another core wrote comes from what both share.
    let held = if is_same { near } else { near.max(FAR_BYTES) };
    kernel_copy(facts, bytes, held).unwrap_or_else(|| {
        let copied = format!("copies {} to {} B per cycle{whence}", rate.low, rate.high);
        clocked(facts, Law::hardware(inverse(bytes, rate), copied))
    })
}

/// What a hand-over takes beyond the calls, in ns.
fn handover(facts: Facts, pair: Class) -> Law {
    match facts.known.and_then(|known| measured_switch(known, pair)) {
        Some(ns) => {
            let why = format!("a hand-over beyond its calls, {ns:.0} ns (measured by os.switch)");
            Law::measured(ns, 0.25, why)
        }
        None if pair == Class::Same => {
            let way = |_: &str| call(facts, 0.06);
            Section { facts, name: "os.ipc", count: &|_| 0.0, time: &way }.law(&["switch"])
        }
        None => waking(facts.site),
    }
}

/// An idle CPU woken, in ns.
fn waking(site: &Site) -> Law {
    let unknown = range(WAKE.low, 1.5 * WAKE.likely, WAKE_GUEST.high);
    let halt = "an idle CPU woken, by the hypervisor if it has halted";
    match site.host.kernel.virtualisation.is_guest {
        Some(true) => guest_wake(site, Law::from_range(WAKE_GUEST, halt)),
        Some(false) => Law::from_range(WAKE, "an idle CPU woken from a shallow idle state"),
        None => Law::from_range(unknown, "an idle CPU woken, perhaps in a virtual machine"),
    }
}

#[cfg(test)]
mod tests;

//! Laws of connections: the kernels' three segments, sockets made and freed, and who must be woken.
//!
//! Cycles are starting values for Linux 6.x. R0 (2012, 3.5 GHz): 33,284 cycles from connect to accept in one
//! thread, 26,997 for a close; R1 (1.7 GHz, macOS): 38 µs and 10.7 µs; R2 (2.7 GHz, macOS): 45 µs with
//! socket(2), 6 µs. Newer kernels and cores take a third to a half of these. The upper ends of close hold R0's
//! loop. What two ends on two CPUs pay beyond one warm loop are sleeps between connections, on one CPU the
//! turn of the end that was woken, and between hosts the driver that takes the segment.

use super::{Kind, Transport, Waking, Way, far_stack_cost, round_trip, stack_cost};
use crate::os::{self, measured_call};
use crate::{Facts, Law, cpu, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::case::Case;
use record::event::Range;
use record::key::CaseId;

/// socket(2): an inode, a file, a socket, in cycles beyond entry and exit.
const SOCKET: Range = range(1_200.0, 3_500.0, 11_000.0);
/// connect(2) beyond its segments: the way looked up, a port searched, two tables.
const CONNECT: Range = range(1_500.0, 4_500.0, 16_000.0);
/// A connection that the kernel makes of a SYN and an acknowledgement, put into the queue.
const CHILD: Range = range(2_000.0, 6_000.0, 18_000.0);
/// accept(2) of one that waits: a file and an inode.
const ACCEPT: Range = range(1_500.0, 4_000.0, 9_500.0);
/// close(2): the descriptor, a FIN through the stack as far as the driver …
const CLOSE: Range = range(1_800.0, 5_000.0, 20_000.0);
/// … over loopback through the other end's as well, within the same call …
const CLOSE_FAR: Range = range(800.0, 3_500.0, 16_000.0);
/// … to a card its queue, the mapping for the device and the bell, or an exit to the hypervisor …
const TRANSMIT: Range = range(600.0, 2_500.0, 12_000.0);
const TRANSMIT_PARAVIRTUAL: Range = range(500.0, 4_000.0, 40_000.0);
/// … on USB a request to its controller, by radio the driver's queues, keys and locks …
const TRANSMIT_USB: Range = range(2_000.0, 9_000.0, 36_000.0);
const TRANSMIT_RADIO: Range = range(3_000.0, 12_000.0, 50_000.0);
const TRANSMIT_UNKNOWN: Range = range(600.0, 4_000.0, 50_000.0);
/// … and by the end that closes second the connection's own end: both sockets freed, TIME_WAIT entered.
const CLOSE_SECOND: Range = range(1_500.0, 4_500.0, 14_000.0);
/// Cycles around a connection that are not its figures': tokens, answers, limits, states asked for.
const AROUND: Range = range(9_000.0, 28_000.0, 110_000.0);
/// Ends on two CPUs or hosts sleep between two steps of a connection: caches were lost or used by others, the
/// clock may have fallen. A warm loop in one thread pays nothing of it.
const AFTER_SLEEP: Range = range(1.0, 1.6, 3.5);
/// Who is woken on the same CPU may run at once, within the call that woke it, until it waits again.
const TURN: Range = range(0.0, 0.25, 2.5);
/// Ends on two CPUs wake each other so often in a connection.
const WAKES: f64 = 4.0;
/// A SYN is sent again after a second (RFC 6298, TCP_TIMEOUT_INIT), on a tick of the kernel's clock.
const AGAIN_NS: Range = range(0.99e9, 1.01e9, 1.1e9);
/// Where SYNs are lost once, they may be lost again: after 3 s (1 s in steps since Linux 6.5).
const AGAIN_TWICE_NS: f64 = 3.3e9;

/// Whether earlier figures say more than the hosts' descriptions.
pub fn adds(known: &Known, site: &Site) -> bool {
    measured_call(known, "getpid").is_some() || measured_trip(known, site).is_some()
}

/// A figure of a case, in its metric's unit.
///
/// # Errors
/// Why there is none of this case.
pub fn figure(
    site: &Site,
    known: Option<&Known>,
    case: &Case,
    metric: &str,
) -> Result<Law, &'static str> {
    let law = Fresh { site, known, ends: case.text("ends").unwrap_or_default() };
    let client_first = case.text("closer") != Some("server");
    match (case.text("listener"), metric) {
        (_, "connect_late") => Ok(law.late(case.text("listener") == Some("full"))),
        (Some("ready" | "full"), "connect") => Ok(law.connect()),
        (Some("refusing"), "connect") => Ok(law.refused()),
        (Some("full" | "refusing"), _) => {
            Err("nobody accepts here, or not before the queue is full: only connect is measured")
        }
        (_, "socket_connect") => Ok(law.socket_connect()),
        (_, "accepted") if law.is_remote() => Err(
            "two hosts have two clocks: the server's accept returns between half a round trip and a whole \
             one after connect began; R0 itself took connect against another host",
        ),
        (_, "accepted") => Ok(law.accepted()),
        (_, "client_close" | "server_close") => {
            let is_first = client_first == (metric == "client_close");
            let close = law.close(is_first);
            // Who closes first wakes the other, which waits for it.
            Ok(if is_first { law.asking(close) } else { close })
        }
        (_, "client_fin") => Ok(law.fin(client_first)),
        (_, "server_fin") => Ok(law.fin(!client_first)),
        (_, "accept_rate") => {
            let accept = law.accept_next();
            Ok(Law::of(inverse(1e9, accept.range), accept.because()))
        }
        (_, "accept_cpu") => Ok(law.accept_next()),
        (_, "cpu_near") => Ok(law.cpu(true)),
        (_, "cpu_far") if law.ends == "one_thread" => {
            Err("one thread is both ends: cpu_near is of both")
        }
        (_, "cpu_far") => Ok(law.cpu(false)),
        _ => Err("no such figure"),
    }
}

/// The least round trip that net.rtt measured of a small TCP message: over loopback in one thread (nobody
/// is woken, as nobody is for a handshake), to a peer between the hosts.
fn measured_trip(known: &Known, site: &Site) -> Option<f64> {
    let ends = match &site.peer {
        Some(_) => "two_hosts",
        None => "one_thread",
    };
    let wanted = [
        ("far", site.far()),
        ("protocol", "tcp"),
        ("ends", ends),
        ("receiver", "blocking"),
        ("arrivals", "saturated"),
        ("exchange", "echo"),
    ];
    let fits = |case: &CaseId| {
        wanted
            .iter()
            .all(|(name, value)| case.text(name) == Some(*value))
            && case.int("connections") == Some(1)
            // Up to 64 B a message takes what one byte takes.
            && case.int("message").is_some_and(|bytes| bytes <= 64)
    };
    let trips = known.of("net.rtt", "round_trip");
    trips.filter(|(case, _)| fits(case)).map(|(_, ns)| ns).filter(|ns| *ns > 0.0).reduce(f64::min)
}

struct Fresh<'a> {
    site: &'a Site,
    known: Option<&'a Known>,
    ends: &'a str,
}

impl Fresh<'_> {
    fn is_remote(&self) -> bool {
        self.site.peer.is_some()
    }

    /// One system call and so many cycles in the kernel, in ns.
    fn call(&self, cycles: Range, what: &str) -> Law {
        let all = self.warm_call(cycles, what);
        match self.cold() {
            AFTER_SLEEP => Law::of(product(all.range, AFTER_SLEEP), all.because())
                .and("after a sleep up to 3.5 times that"),
            _ => all,
        }
    }

    /// The same in a warm loop.
    fn warm_call(&self, cycles: Range, what: &str) -> Law {
        let call = os::call(Facts { site: self.site, known: self.known }, 0.06);
        let (entry, from) = (call.range, format!("a system call ({})", call.because()));
        Law::of(
            sum(entry, self.warm(cycles)),
            format!("software: {from}; {what}, {:.0} to {:.0} cycles", cycles.low, cycles.high),
        )
    }

    /// How much longer than in a warm loop.
    fn cold(&self) -> Range {
        match self.ends {
            "other_cpu" | "two_hosts" => AFTER_SLEEP,
            _ => range(1.0, 1.0, 1.0),
        }
    }

    /// So many cycles, as cold as these ends are, in ns.
    fn work(&self, cycles: Range) -> Range {
        product(self.warm(cycles), self.cold())
    }

    /// So many cycles in a warm loop, in ns.
    fn warm(&self, cycles: Range) -> Range {
        let clock = cpu::best_core_clock(Facts { site: self.site, known: self.known }).range;
        let mut ns = product(cycles, inverse(1e9, clock));
        if cpu::is_guest(self.site) {
            ns.high *= 1.3;
        }
        if self.site.host.kernel.container.runtime.as_deref() == Some("gvisor") {
            ns.high *= 20.0;
        }
        ns
    }

    /// A SYN there and its answer back, by the kernels alone.
    fn handshake(&self) -> Law {
        let measured = self.known.and_then(|known| measured_trip(known, self.site));
        match (measured, self.is_remote()) {
            (Some(ns), true) => Law::new(
                0.4 * ns,
                0.85 * ns,
                1.3 * ns,
                format!(
                    "one round trip of {:.1} µs (measured by net.rtt), less the far end's process",
                    ns / 1e3
                ),
            ),
            (Some(ns), false) => Law::of(
                product(range(0.5 * ns, 1.0 * ns, 2.0 * ns), self.cold()),
                format!("one round trip of {:.1} µs in one thread (measured by net.rtt)", ns / 1e3),
            ),
            (None, true) => {
                let way = Way::of(self.site);
                let trip = round_trip(&way, Transport::Tcp, 0, 0);
                let mut near = stack_cost(self.site, self.known, Transport::Tcp, Waking::Nobody);
                let woken =
                    super::stack::woken_by_kernel(self.site, self.known, &way, Waking::Interrupt);
                if let Some(woken) = woken {
                    near = Law::of(
                        sum(near.range, woken.range),
                        format!("{}; {}", near.because(), woken.because()),
                    );
                }
                let far = far_stack_cost(self.site, Transport::Tcp, Waking::Nobody);
                let mut both = sum(near.range, scaled(far.range, 0.5));
                // Nobody waits at the far end, but the CPU that takes the interrupt may sleep.
                let there = super::stack::far_site(self.site);
                let slept =
                    there.and_then(|there| super::stack::woken(&there, None, Waking::Interrupt));
                if let Some(slept) = slept {
                    both = sum(both, range(0.0, 0.3 * slept.range.likely, slept.range.high));
                }
                Law::of(
                    sum(trip.range, both),
                    format!(
                        "one round trip: {}; the near end is woken: {}",
                        trip.because(),
                        near.because()
                    ),
                )
            }
            (None, false) => {
                let stack = stack_cost(self.site, self.known, Transport::Tcp, Waking::Nobody);
                Law::of(
                    product(scaled(stack.range, 1.5), self.cold()),
                    format!(
                        "loopback: three segments through the stack within the call, nobody is woken: {}",
                        stack.because()
                    ),
                )
            }
        }
    }

    fn connect(&self) -> Law {
        self.asking(self.connect_alone())
    }

    /// Without the waking of anybody.
    fn connect_alone(&self) -> Law {
        let trip = self.handshake();
        let own = self.call(CONNECT, "the way and a port looked for");
        // To a peer the far kernel's part overlaps with nothing, but is small beside the way.
        let child = self.work(CHILD);
        Law::of(
            sum(sum(trip.range, own.range), child),
            format!("connect = one round trip + its call: {}; {}", trip.because(), own.because()),
        )
    }

    /// What it takes to ask another CPU, on which the other end sleeps, to wake up.
    fn asked(&self) -> Option<Range> {
        match self.ends {
            "other_cpu" => super::stack::asked(self.site, self.known),
            _ => None,
        }
    }

    /// A call with that, or on one CPU with the turn of who was woken.
    fn asking(&self, call: Law) -> Law {
        if self.ends == "same_cpu"
            && let Some(woken) = self.woken()
        {
            let there = sum(woken.range, self.accept().range);
            let turn = range(
                TURN.low,
                TURN.likely * there.likely,
                TURN.high * there.likely.max(0.5 * there.high),
            );
            return Law::of(sum(call.range, turn), call.because())
                .and("who is woken on the same CPU may have its turn first");
        }
        let Some(asked) = self.asked() else {
            return call;
        };
        Law::of(
            sum(call.range, asked),
            format!(
                "{}; another CPU asked to wake up, {:.1} to {:.1} µs",
                call.because(),
                asked.low / 1e3,
                asked.high / 1e3
            ),
        )
    }

    /// A reset comes back: no connection is made.
    fn refused(&self) -> Law {
        let trip = self.handshake();
        let own = self.call(CONNECT, "the way and a port looked for");
        let low = if self.is_remote() { 0.8 } else { 0.4 };
        Law::of(
            sum(range(low * trip.range.low, 0.8 * trip.range.likely, trip.range.high), own.range),
            format!(
                "one round trip, whose answer is a reset: {}; {}",
                trip.because(),
                own.because()
            ),
        )
    }

    fn socket_connect(&self) -> Law {
        let connect = self.connect();
        let socket = self.call(SOCKET, "an inode, a file and a socket made");
        Law::of(
            sum(connect.range, socket.range),
            format!("{}; socket(2): {}", connect.because(), socket.because()),
        )
    }

    /// One of many that wait.
    fn accept_next(&self) -> Law {
        self.warm_call(ACCEPT, "a file and an inode for one that waits")
    }

    fn accept(&self) -> Law {
        self.call(ACCEPT, "a file and an inode for one that waits")
    }

    /// Who waits is woken: by the segment that comes, on whichever CPU.
    fn woken(&self) -> Option<Law> {
        let waking = match self.ends {
            "one_thread" => return None,
            "same_cpu" => Waking::Same,
            "other_cpu" => Waking::Other,
            _ => Waking::Interrupt,
        };
        super::stack::woken(self.site, self.known, waking)
    }

    fn accepted(&self) -> Law {
        let connect = self.connect_alone();
        let accept = self.accept();
        let mut all = Law::of(
            sum(connect.range, accept.range),
            format!("{}; accept(2): {}", connect.because(), accept.because()),
        );
        if let Some(woken) = self.woken() {
            all = Law::of(
                // On another CPU the acceptor is woken before connect(2) returns.
                sum(all.range, woken.range),
                format!("{}; the acceptor is woken: {}", all.because(), woken.because()),
            );
            if self.ends == "other_cpu" {
                all.range.low = (0.5 * connect.range.low).min(all.range.low);
            }
        }
        all
    }

    /// Cycles of giving a segment to what leads to the peer, and what that is.
    fn transmit(&self) -> (Range, &'static str) {
        let way = Way::of(self.site);
        match way.kind() {
            // The far end's stack runs within the call, as over loopback.
            Kind::Loopback | Kind::Virtual => (CLOSE_FAR, "through both ends' stack"),
            Kind::Wireless => (TRANSMIT_RADIO, "by a radio's driver"),
            Kind::Wired if way.near.is_some_and(|end| end.bus.as_deref() == Some("usb")) => {
                (TRANSMIT_USB, "by an adapter on USB")
            }
            Kind::Wired => (TRANSMIT, "by a card's driver"),
            Kind::Paravirtual => (TRANSMIT_PARAVIRTUAL, "by a virtual card"),
            Kind::Unknown => (TRANSMIT_UNKNOWN, "by an unknown device"),
        }
    }

    fn close(&self, is_first: bool) -> Law {
        let (mut cycles, mut what) = match self.is_remote() {
            true => {
                let (sent, how) = self.transmit();
                (sum(CLOSE, sent), format!("a FIN sent {how}, nothing waited for"))
            }
            false => {
                (sum(CLOSE, CLOSE_FAR), "a FIN through both ends' stack within the call".to_owned())
            }
        };
        if !is_first {
            cycles = sum(cycles, CLOSE_SECOND);
            what.push_str(", the connection freed");
        }
        self.call(cycles, &what)
    }

    /// A FIN until it is acknowledged: that of who closes first comes with the other's own FIN.
    fn fin(&self, is_first: bool) -> Law {
        let mut all = self.close(is_first);
        if self.is_remote() {
            let trip = self.handshake();
            all = Law::of(
                sum(all.range, trip.range),
                format!("{}; {}", all.because(), trip.because()),
            );
        }
        if !is_first {
            return all.and("the kernel acknowledges the second FIN at once");
        }
        all.range = sum(all.range, self.close(false).range);
        all = all.and("the first FIN is acknowledged by the other end's own");
        if let Some(woken) = self.woken() {
            all = Law::of(
                sum(all.range, woken.range),
                format!("{}; the other end is woken: {}", all.because(), woken.because()),
            );
        }
        // The acknowledgement may come before the other end's FIN does.
        all.range.low *= 0.5;
        all.widened(1.0, 2.0, "an end that is late lets the kernel wait up to 40 ms")
    }

    /// CPU time of a whole connection at one end.
    fn cpu(&self, is_near: bool) -> Law {
        let mut parts = vec![self.close(false), self.call(AROUND, "token, answer, limits")];
        // Each end wakes the other several times: by token, answer, pace and FIN.
        parts.extend(self.asked().map(|asked| Law::of(scaled(asked, WAKES), String::new())));
        let (own, what) = match is_near {
            true => {
                (self.call(sum(SOCKET, CONNECT), "a socket made, the way looked for"), "client")
            }
            false => (self.accept(), "server"),
        };
        parts.push(own);
        if self.ends == "one_thread" {
            parts.extend([self.accept(), self.close(true)]);
        }
        if !self.is_remote() && is_near {
            // Over loopback the client's call does the work of both kernels.
            parts.push(self.handshake());
            parts.push(Law::of(self.work(CHILD), String::new()));
        }
        let ns = parts.iter().map(|part| part.range).reduce(sum).unwrap_or(AROUND);
        Law::of(
            ns,
            format!(
                "software: all calls of the {what}, with the segments that it sends itself: {}",
                parts[0].because()
            ),
        )
        .widened(1.6, 1.8, "softirqs count for whom they meet")
    }

    fn late(&self, is_made: bool) -> Law {
        let trip = self.handshake();
        let mut late = Law::of(
            sum(AGAIN_NS, trip.range),
            format!(
                "software: a SYN that was dropped is sent again after 1 s (RFC 6298); then {}",
                trip.because()
            ),
        );
        if !is_made {
            late.range.high += AGAIN_TWICE_NS;
            late = late.and("it may be lost twice");
        }
        if Way::of(self.site).kind() == Kind::Wireless {
            late.range.high += 1e9;
        }
        late
    }
}

#[cfg(test)]
mod tests;

//! Laws of connections: the kernels' three segments, sockets created and freed, and wake-ups.
//!
//! What two ends on two CPUs pay beyond one warm loop are sleeps between connections, on one CPU the
//! turn of the end that was woken, and between hosts the driver that takes the segment.

use super::rtt::{self, Arrivals, TRIP};
use super::stack;
use super::{Ends, Kind, Transport, Waking, Way, far_stack_cost, round_trip, stack_cost};
use crate::{Facts, Law, range};
use bench::{case, symbols};
use record::event::Range;

symbols! {
    /// How the server treats connections.
    pub enum Listener {
        /// An acceptor that waits for each.
        Ready = "ready",
        /// No accept until the accept queue is full and SYNs are dropped.
        Full = "full",
        /// No socket listens at the port.
        Refusing = "refusing",
    }
}
symbols! {
    /// The end that closes first.
    pub enum Closer {
        /// The end that connected.
        Client = "client",
        /// The end that accepted.
        Server = "server",
    }
}
case! {
    /// Connections.
    pub struct Connections {
        /// where both ends run: one_thread (one thread with both sockets), same_cpu, other_cpu (two
        /// processes), two_hosts
        ends: Ends,
        /// state of the server: ready (an acceptor waits), full (no accept until the queue is
        /// full), refusing (the port is closed)
        listener: Listener,
        /// the end that closes first and enters TIME_WAIT
        closer: Option<Closer>,
    }
}

/// Ends on two CPUs or hosts sleep between two steps of a connection: caches were lost or used by
/// others, the clock may have fallen. A warm loop in one thread does not pay it.
const AFTER_SLEEP: Range = range(1.0, 1.6, 3.5);
/// A thread woken on the same CPU may run at once, within the call that woke it, until it waits
/// again.
const TURN: Range = range(0.0, 0.25, 2.5);
/// Ends on two CPUs wake each other so often in a connection.
const WAKES: f64 = 4.0;
/// A SYN is sent again after a second (RFC 6298, TCP_TIMEOUT_INIT), on a tick of the kernel's
/// clock.
const AGAIN_NS: Range = range(0.99e9, 1.01e9, 1.1e9);
/// Where SYNs are lost once, they may be lost again: after 3 s (1 s in steps since Linux 6.5).
const AGAIN_TWICE_NS: f64 = 3.3e9;

/// Whether earlier figures say more than the hosts' descriptions.
pub fn adds(facts: Facts) -> bool {
    stack::knows_call(facts) || measured_trip(facts).is_some()
}

/// A figure of a case, in its metric's unit. Errors: why this case has none.
pub fn figure(facts: Facts, case: &Connections, metric: &str) -> Result<Law, &'static str> {
    let law = Parts { facts, ends: case.ends };
    let client_first = case.closer != Some(Closer::Server);
    match (case.listener, metric) {
        (listener, "connect_late") => Ok(law.late(listener == Listener::Full)),
        (Listener::Ready | Listener::Full, "connect") => Ok(law.connect()),
        (Listener::Refusing, "connect") => Ok(law.refused()),
        (Listener::Full | Listener::Refusing, _) => {
            Err("only connect is measured: the server accepts none, or late")
        }
        (_, "socket_connect") => Ok(law.socket_connect()),
        (_, "accepted") if law.is_remote() => {
            Err("two hosts have two clocks; accept returns between half and one round trip after \
                 connect began (R0 also reports connect between hosts)")
        }
        (_, "accepted") => Ok(law.accepted()),
        (_, "client_close" | "server_close") => {
            let is_first = client_first == (metric == "client_close");
            let close = law.close(is_first);
            // The end that closes first wakes the waiting other end.
            Ok(if is_first { law.asking(close) } else { close })
        }
        (_, "client_fin") => Ok(law.fin(client_first)),
        (_, "server_fin") => Ok(law.fin(!client_first)),
        (_, "accept_rate") => Ok(law.accept_next().inverse(1e9)),
        (_, "accept_cpu") => Ok(law.accept_next()),
        (_, "cpu_near") => Ok(law.cpu(true)),
        (_, "cpu_far") if law.ends == Ends::OneThread => Err("cpu_near covers both ends"),
        (_, "cpu_far") => Ok(law.cpu(false)),
        _ => Err("no such figure"),
    }
}

/// The least round trip that net.rtt measured of a small TCP message: over loopback in one thread
/// (without a wake-up, like a handshake), to a peer between the hosts.
fn measured_trip(facts: Facts) -> Option<f64> {
    let ends = match &facts.site.peer {
        Some(_) => Ends::TwoHosts,
        None => Ends::OneThread,
    };
    let (tcp, saturated) = (rtt::Protocol::Tcp, Arrivals::Saturated);
    let trips = rtt::measured(facts.known?, facts.site.far(), tcp, saturated, TRIP);
    // Up to 64 B a message takes what one byte takes.
    let fits = |(of, ns): &(rtt::Exchange, f64)| of.ends == ends && of.message <= 64 && *ns > 0.0;
    trips.filter(fits).map(|(_, ns)| ns).reduce(f64::min)
}

/// The parts of a connection between such ends.
struct Parts<'run> {
    facts: Facts<'run>,
    ends: Ends,
}

impl Parts<'_> {
    fn is_remote(&self) -> bool {
        self.facts.site.peer.is_some()
    }

    fn cold(&self, law: Law) -> Law {
        let sleeps = matches!(self.ends, Ends::OtherCpu | Ends::TwoHosts);
        law.when(sleeps, |law| law.by(AFTER_SLEEP).and("up to 3.5 times that after a sleep"))
    }

    /// One system call and sums of `net.rows` in the kernel, in ns.
    fn call(&self, sums: &[&str]) -> Law {
        self.cold(self.warm_call(sums))
    }

    /// The same in a warm loop.
    fn warm_call(&self, sums: &[&str]) -> Law {
        stack::call(self.facts) + self.warm(sums)
    }

    /// The sums alone in a warm loop, in ns.
    fn warm(&self, sums: &[&str]) -> Law {
        stack::in_sandbox(self.facts.site, stack::work(self.facts, sums))
    }

    /// A SYN there and its answer back, by the kernels alone.
    fn handshake(&self) -> Law {
        let (facts, site) = (self.facts, self.facts.site);
        match (measured_trip(facts), self.is_remote()) {
            (Some(ns), true) => Law::new(0.4 * ns, 0.85 * ns, 1.3 * ns, rtt::measured_in(ns))
                .and("less the process at the far end"),
            (Some(ns), false) => self.cold(Law::new(0.5 * ns, ns, 2.0 * ns, rtt::measured_in(ns))),
            (None, true) => {
                let way = Way::for_site(site);
                let both = stack_cost(facts, Transport::Tcp, Waking::Nobody)
                    + stack::woken_by_kernel(facts, &way, Waking::Interrupt)
                    + far_stack_cost(site, Transport::Tcp, Waking::Nobody).times(0.5);
                // No thread waits at the far end, but the CPU that takes the interrupt may sleep.
                let there = stack::far_site(site);
                let slept =
                    there.and_then(|there| stack::woken(Facts::prior(&there), Waking::Interrupt));
                let slept = slept.map(|slept| slept.ends(0.0, 0.3, 1.0));
                round_trip(&way, Transport::Tcp, 0, 0) + (both + slept)
            }
            (None, false) => {
                let stack = stack_cost(facts, Transport::Tcp, Waking::Nobody);
                self.cold(stack.times(1.5)).and("three segments within the call, no wake-up")
            }
        }
    }

    fn connect(&self) -> Law {
        self.asking(self.connect_alone())
    }

    /// Without the waking of anybody.
    fn connect_alone(&self) -> Law {
        // To a peer the far kernel's part overlaps with nothing, but is small beside the way.
        self.handshake() + self.looked_up() + self.cold(self.warm(&["CHILD"]))
    }

    /// What it takes to ask another CPU, on which the other end sleeps, to wake up.
    fn asked(&self) -> Option<Law> {
        stack::asked(self.facts).filter(|_| self.ends == Ends::OtherCpu)
    }

    /// A call with that, or on one CPU with the turn of the woken end.
    fn asking(&self, call: Law) -> Law {
        if self.ends == Ends::SameCpu
            && let Some(woken) = self.woken()
        {
            let there = (woken + self.accept()).range;
            let turn = range(
                TURN.low,
                TURN.likely * there.likely,
                TURN.high * there.likely.max(0.5 * there.high),
            );
            let why = "the woken end may run first on the same CPU";
            return call + Law::software(turn, why);
        }
        call + self.asked()
    }

    /// A reset comes back: no connection is made.
    fn refused(&self) -> Law {
        let low = if self.is_remote() { 0.8 } else { 0.4 };
        self.handshake().ends(low, 0.8, 1.0).and("the answer is a reset") + self.looked_up()
    }

    fn looked_up(&self) -> Law {
        self.call(&["CONNECT"])
    }

    fn socket_connect(&self) -> Law {
        self.connect() + self.call(&["SOCKET"])
    }

    fn accept_next(&self) -> Law {
        self.warm_call(&["ACCEPT"])
    }

    fn accept(&self) -> Law {
        self.cold(self.accept_next())
    }

    /// The waiting end is woken: by the segment that comes, on whichever CPU.
    fn woken(&self) -> Option<Law> {
        stack::woken(self.facts, self.ends.waking())
    }

    fn accepted(&self) -> Law {
        let connect = self.connect_alone();
        let connected_low = connect.range.low;
        let all = connect + self.accept();
        let Some(woken) = self.woken() else {
            return all;
        };
        // On another CPU the acceptor is woken before connect(2) returns.
        (all + woken).when(self.ends == Ends::OtherCpu, |all| {
            all.reshaped(|of| Range { low: (0.5 * connected_low).min(of.low), ..of })
        })
    }

    /// Giving a segment to what leads to the peer.
    fn transmit(&self) -> &'static str {
        let way = Way::for_site(self.facts.site);
        match way.kind() {
            Kind::Loopback | Kind::Virtual => "FIN_STACK",
            Kind::Wireless => "FIN_RADIO",
            Kind::Wired if way.near.is_some_and(|end| end.bus.as_deref() == Some("usb")) => {
                "FIN_USB"
            }
            Kind::Wired => "FIN_CARD",
            Kind::Paravirtual => "FIN_GUEST",
            Kind::Unknown => "FIN_UNKNOWN",
        }
    }

    fn close(&self, is_first: bool) -> Law {
        match is_first {
            true => self.call(&["CLOSE", self.transmit()]),
            false => self.call(&["CLOSE", self.transmit(), "SECOND"]),
        }
    }

    /// A FIN until it is acknowledged: for the end that closes first, with the other end's FIN.
    fn fin(&self, is_first: bool) -> Law {
        let all = self.close(is_first) + self.is_remote().then(|| self.handshake());
        if !is_first {
            return all.and("the kernel acknowledges the second FIN at once");
        }
        let other = self.close(false).and("the other end's FIN acknowledges the first FIN");
        // The acknowledgement may come before the other end's FIN does.
        let late = "if an end is late, the kernel delays the acknowledgement by up to 40 ms";
        (all + other + self.woken()).widened(2.0, 2.0, late)
    }

    /// CPU time of a whole connection at one end.
    fn cpu(&self, is_near: bool) -> Law {
        // Each end wakes the other several times: by token, answer, pace and FIN.
        let all = self.close(false)
            + self.call(&["AROUND"])
            + self.asked().map(|asked| asked.times(WAKES));
        let mut all = match is_near {
            true => all + self.call(&["SOCKET", "CONNECT"]),
            false => all + self.accept(),
        };
        if self.ends == Ends::OneThread {
            all = all + self.accept() + self.close(true);
        }
        if !self.is_remote() && is_near {
            // Over loopback the client's call does the work of both kernels.
            all = all + self.handshake() + self.cold(self.warm(&["CHILD"]));
        }
        all.widened(1.6, 1.8, "softirq time counts for the process it interrupts")
    }

    fn late(&self, is_made: bool) -> Law {
        let why = "a dropped SYN is sent again after 1 s (RFC 6298)";
        let later = |ns: f64| move |of: Range| Range { high: of.high + ns, ..of };
        (Law::software(AGAIN_NS, why) + self.handshake())
            .when(!is_made, |late| {
                late.reshaped(later(AGAIN_TWICE_NS)).and("the SYN may be lost twice")
            })
            .when(Way::for_site(self.facts.site).kind() == Kind::Wireless, |late| {
                late.reshaped(later(1e9))
            })
    }
}

#[cfg(test)]
mod tests;

//! Laws of round trips: what each end does, the way between them, and who waits for whom.
//!
//! Copies and services of UNIX sockets are those of [`crate::os::ipc`]. What making a connection
//! takes on loopback, 9,000 to 50,000 cycles, starts from R0 (33,284 cycles from connect to accept in one
//! thread) and R2; newer kernels do it in half.

use super::stack::{SLEEP, asked, other_pair, woken};
use super::{
    Kind, Transport, Waking, Way, far_stack_cost, round_trip as way_round_trip, sleeps, stack_cost,
};
use crate::os::{self, ipc};
use crate::{Facts, Law, around, cpu, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use record::event::Range;

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UNIX stream sockets.
    Unix,
}

/// Where both ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// One thread is both.
    OneThread,
    /// Two processes on one CPU.
    SameCpu,
    /// Two processes on two CPUs of a host.
    OtherCpu,
    /// Two hosts.
    TwoHosts,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who asks.
    Near,
    /// Who answers.
    Far,
}

/// An exchange of a message and its echo.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// What carries it.
    pub protocol: Protocol,
    /// Bytes of the message.
    pub bytes: u64,
    /// Where both ends run.
    pub ends: Ends,
    /// Connections at once, and how many of them share a CPU at the near end.
    pub connections: f64,
    /// See `connections`.
    pub on_a_cpu: f64,
    /// Both ends ask again and again.
    pub polls: bool,
    /// The pause before it, in ns, where there is one.
    pub pause_ns: Option<f64>,
    /// On a connection of its own.
    pub fresh: bool,
}

/// Bytes a cycle of a copy between a process's buffer and a socket's, both ways out of caches, the last
/// level's for large messages.
const COPY: Range = range(2.0, 8.0, 30.0);
/// Copies of a message at one end: in and out.
const COPIES: f64 = 2.0;
/// Cycles of a UNIX stream socket's message, sending and receiving (as os.ipc's law has them).
const UNIX_MESSAGE: Range = range(600.0, 1_400.0, 3_200.0);
/// Cycles of socket, connect and accept, beyond a switch.
const TCP_CONNECTION: Range = range(9_000.0, 24_000.0, 60_000.0);
const UNIX_CONNECTION: Range = range(2_500.0, 8_000.0, 25_000.0);
/// From a message in a socket to a poller on another CPU that sees it: half a question, lines of another
/// core's cache for the socket's state, in ns.
const SEEN: Range = range(50.0, 400.0, 2_500.0);
/// A pause's own call, its timer's interrupt and what runs cold after it, in ns of CPU time.
const PAUSE_CPU: Range = range(800.0, 4_000.0, 30_000.0);
/// CPU time of an exchange beside others over that of one alone.
const IN_COMPANY: Range = range(0.25, 0.7, 1.2);
/// What runs after a pause runs cold.
const COLD: f64 = 4.0;
/// Softirqs of a card's packets may meet an end's CPU or another.
const SOFTIRQS: Range = range(0.35, 1.0, 4.0);

/// Whether earlier figures say more than the machine's description.
pub fn adds(known: &Known) -> bool {
    ipc::adds(known)
}

/// A message there and back, in ns.
pub fn round_trip(site: &Site, known: Option<&Known>, of: Exchange) -> Law {
    let one = match of.ends {
        Ends::TwoHosts => between_hosts(site, known, of),
        _ => on_one_host(site, known, of),
    };
    shared(one, of)
}

/// CPU time of one end per exchange, in ns.
pub fn cpu(site: &Site, known: Option<&Known>, of: Exchange, end: End) -> Law {
    let whole = round_trip(site, known, of);
    if of.ends == Ends::OneThread {
        return whole.and("one thread does all of it and never waits");
    }
    if of.polls {
        let pause = of.pause_ns.unwrap_or(0.0);
        return Law::of(sum(whole.range, around(pause, 0.02)), whole.because())
            .and("who polls takes all of its CPU's time, pauses too");
    }
    let alone = Exchange { connections: 1.0, on_a_cpu: 1.0, ..of };
    let mut own = match (of.ends, end) {
        (Ends::TwoHosts, End::Far) => {
            let stack = far_stack_cost(site, transport(of.protocol), Waking::Nobody);
            at_an_end(site, None, of, stack)
        }
        (Ends::SameCpu, _) => {
            let saturated = Exchange { pause_ns: None, ..alone };
            let trip = round_trip(site, known, saturated);
            Law::of(product(trip.range, half(of.fresh, end)), trip.because()).and(
                "both ends share one CPU, which never waits: about half of the round trip each",
            )
        }
        _ => {
            let stack = stack(site, known, of.protocol, Waking::Nobody);
            at_an_end(site, known, of, stack)
        }
    };
    match of.ends {
        Ends::TwoHosts => {
            own.range = product(own.range, SOFTIRQS);
            own = own.and("softirqs may meet this end's CPU or another");
            let way = Way::of(site);
            let between = sleeps(site, known, transport(of.protocol), of.bytes);
            own.range = sum(own.range, between);
            if let Some(asked) = asked(site, known).filter(|_| way.kind() == Kind::Virtual) {
                let times = if of.fresh { 2.0 } else { 1.0 };
                own.range = sum(own.range, range(0.0, times * asked.likely, times * asked.high));
                own = own.and("between namespaces an end asks the other's CPU to wake up");
            }
        }
        Ends::OtherCpu => {
            if let Some(asked) = asked(site, known) {
                let times = if of.fresh { 2.0 } else { 1.0 };
                own.range = sum(own.range, scaled(asked, times));
                own = own.and("asks the other end's CPU to wake up");
            }
            own.range.low *= 0.6;
        }
        Ends::SameCpu | Ends::OneThread => {}
    }
    if of.connections > 1.0 {
        own.range = product(own.range, IN_COMPANY);
        own = own.and("with several on their way an end sleeps less often");
    }
    if of.pause_ns.is_some() {
        own.range = product(own.range, range(1.0, 1.7, COLD));
        own = own.and("after a pause all is cold");
        if end == End::Near {
            own.range = sum(own.range, PAUSE_CPU);
            own = own.and("the pause's own call and timer");
        }
    }
    own
}

/// An end's part of a round trip on one CPU: whoever makes the connections does more.
fn half(fresh: bool, end: End) -> Range {
    match (fresh, end) {
        (false, _) => range(0.35, 0.5, 0.7),
        (true, End::Near) => range(0.4, 0.65, 1.3),
        (true, End::Far) => range(0.2, 0.4, 0.7),
    }
}

/// One end's share: its stack, going to sleep and being taken up, its copies, and half a connection's
/// making.
fn at_an_end(site: &Site, known: Option<&Known>, of: Exchange, stack: Law) -> Law {
    let mut all = Law::of(
        sum(sum(stack.range, cycles(site, known, SLEEP)), copies(site, known, of)),
        stack.because(),
    );
    if of.fresh {
        let (made, how) = connection(site, known, of);
        all.range = sum(all.range, product(made, range(0.2, 0.6, 1.2)));
        all = all.and(&how);
    }
    all
}

fn on_one_host(site: &Site, known: Option<&Known>, of: Exchange) -> Law {
    let waking = match of.ends {
        Ends::OneThread => Waking::Nobody,
        _ if of.polls => Waking::Nobody,
        Ends::SameCpu => Waking::Same,
        _ => Waking::Other,
    };
    // UNIX sockets that wait are os.ipc's.
    let is_ipc = of.protocol == Protocol::Unix && waking != Waking::Nobody;
    let mut all = if is_ipc {
        let way = ipc::Way { via: ipc::Via::UnixStream, pair: pair(site, of.ends), size: of.bytes };
        ipc::round_trip(Facts { site, known }, &way)
    } else {
        let one = stack(site, known, of.protocol, waking);
        let copied = copies(site, known, of);
        Law::of(
            // One end's luck is the other's: ends add.
            scaled(sum(one.range, copied), 2.0),
            format!(
                "loopback: memory copies, no link; each way {}; {COPIES} copies of {} B",
                one.because(),
                of.bytes
            ),
        )
    };
    if of.polls {
        all.range = sum(all.range, scaled(SEEN, 2.0));
        all = all.and("a poller on another CPU sees it after 50 to 2,500 ns");
    }
    if of.pause_ns.is_some() {
        let deep =
            woken(site, None, Waking::Sparse).filter(|_| !of.polls && of.ends == Ends::OtherCpu);
        all = match deep {
            Some(deep) => {
                let more = range(0.0, 0.3 * deep.range.likely, deep.range.high);
                all.range = sum(all.range, more);
                all.widened(1.0, 2.0, "after a pause CPUs sleep deeper and all is cold")
            }
            None => all.widened(1.0, COLD, "after a pause all is cold"),
        };
    }
    if of.fresh {
        let (made, how) = connection(site, known, of);
        all.range = sum(all.range, made);
        all = all.and(&how).widened(1.0, 1.5, "the far end ends the connection before first");
    }
    all
}

fn between_hosts(site: &Site, known: Option<&Known>, of: Exchange) -> Law {
    let way = Way::of(site);
    let transport = transport(of.protocol);
    let waking = match (of.polls, of.pause_ns) {
        (true, _) => Waking::Nobody,
        (false, Some(_)) => Waking::Sparse,
        (false, None) => Waking::Interrupt,
    };
    let near = stack_cost(site, known, transport, waking);
    let far = far_stack_cost(site, transport, waking);
    let trip = way_round_trip(&way, transport, of.bytes, of.bytes);
    let copied = scaled(copies(site, known, of), 2.0);
    let ends = sum(near.range, far.range);
    let mut all = Law::of(
        sum(sum(ends, copied), trip.range),
        format!(
            "{}; near end: {}; far end: {}; {COPIES} copies of {} B at each",
            trip.because(),
            near.because(),
            far.because(),
            of.bytes
        ),
    );
    if of.fresh {
        let (made, how) = connection(site, known, of);
        let first = way_round_trip(&way, transport, 0, 0);
        all.range = sum(sum(all.range, made), sum(first.range, ends));
        all = all.and(format!("{how}, and one round trip more"));
    }
    all
}

/// Connections that share a CPU wait for one another, unless all mostly wait.
fn shared(one: Law, of: Exchange) -> Law {
    if of.connections <= 1.0 {
        return one;
    }
    let others = of.on_a_cpu - 1.0;
    let busy = if of.pause_ns.is_some() { 0.05 } else { 0.55 };
    let grown = range(0.8, 1.0 + busy * others, 1.4 * of.on_a_cpu);
    Law::of(product(one.range, grown), one.because())
        .and(format!("{} connections at once, {} on a CPU", of.connections, of.on_a_cpu))
}

/// One send and one receive with the protocol's work and the waking.
fn stack(site: &Site, known: Option<&Known>, protocol: Protocol, waking: Waking) -> Law {
    if protocol != Protocol::Unix {
        return stack_cost(site, known, transport(protocol), waking);
    }
    let call = os::call(Facts { site, known }, 0.06);
    let (calls, from) = (call.range, call.because());
    let mut all = Law::of(
        sum(scaled(calls, 2.0), cycles(site, known, UNIX_MESSAGE)),
        format!("software: 2 system calls of {from}; a socket buffer made, queued and freed"),
    );
    if let Some(woken) = woken(site, known, waking) {
        all.range = sum(all.range, woken.range);
        all = all.and(&woken.because());
    }
    all
}

fn connection(site: &Site, known: Option<&Known>, of: Exchange) -> (Range, String) {
    let (made, what) = match of.protocol {
        Protocol::Unix => (UNIX_CONNECTION, "a UNIX connection"),
        _ => (TCP_CONNECTION, "a TCP connection"),
    };
    let how = format!("{what} made and accepted, {:.0} to {:.0} cycles", made.low, made.high);
    (cycles(site, known, made), how)
}

/// A message's copies at one end, in ns.
fn copies(site: &Site, known: Option<&Known>, of: Exchange) -> Range {
    cycles(site, known, inverse(COPIES * of.bytes as f64, COPY))
}

/// Cycles in ns.
fn cycles(site: &Site, known: Option<&Known>, cycles: Range) -> Range {
    let clock = cpu::best_core_clock(Facts { site, known }).range;
    let mut time = product(cycles, inverse(1e9, clock));
    if cpu::is_guest(site) {
        time.high *= 1.3;
    }
    time
}

/// The distance of both ends' CPUs as os.ipc names it.
fn pair(site: &Site, ends: Ends) -> Class {
    match ends {
        Ends::OtherCpu => other_pair(site),
        _ => Class::Same,
    }
}

fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Udp => Transport::Udp,
        Protocol::Tcp | Protocol::Unix => Transport::Tcp,
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Ends, Exchange, Protocol, cpu, round_trip};
    use bench::experiment::Known;
    use bench::experiment::fixtures::joined::{GIGABIT, RADIO, joined};
    use bench::experiment::fixtures::{recorded, sites};
    use record::key::{CaseId, Key};

    const PLAIN: Exchange = Exchange {
        protocol: Protocol::Tcp,
        bytes: 64,
        ends: Ends::OtherCpu,
        connections: 1.0,
        on_a_cpu: 1.0,
        polls: false,
        pause_ns: None,
        fresh: false,
    };

    fn likely(of: Exchange) -> f64 {
        round_trip(&recorded("epyc-7763-2s"), None, of).range.likely
    }

    #[test]
    fn a_cpu_that_never_waits_spends_the_round_trip_at_its_two_ends() {
        for site in sites() {
            let of = Exchange { ends: Ends::SameCpu, ..PLAIN };
            let trip = round_trip(&site, None, of).range;
            let [near, far] = [End::Near, End::Far].map(|end| cpu(&site, None, of, end).range);
            assert!((near.likely + far.likely - trip.likely).abs() < 1.0);
            assert!(near.high < trip.high && near.low > 0.3 * trip.low);
        }
    }

    #[test]
    fn what_adds_work_adds_time() {
        let one_thread = Exchange { ends: Ends::OneThread, ..PLAIN };
        let polls = Exchange { polls: true, ..PLAIN };
        let fresh = Exchange { fresh: true, ..PLAIN };
        let large = Exchange { bytes: 65_507, ..PLAIN };
        let shared = Exchange { connections: 4.0, on_a_cpu: 4.0, ..PLAIN };
        let unix = Exchange { protocol: Protocol::Unix, ..one_thread };
        let plain = likely(PLAIN);
        for (less, more) in [
            (likely(unix), likely(one_thread)),
            (likely(one_thread), likely(polls)),
            (likely(polls), plain),
            (plain, likely(fresh)),
            (plain, likely(large)),
            (plain, likely(shared)),
        ] {
            assert!(less < more, "{less} {more}");
        }
    }

    #[test]
    fn every_part_has_an_interval_everywhere() {
        let mut all = sites();
        all.push(joined(GIGABIT, GIGABIT));
        all.push(joined(RADIO, GIGABIT));
        for site in all {
            let ends = match site.peer {
                Some(_) => vec![Ends::TwoHosts],
                None => vec![Ends::OneThread, Ends::SameCpu, Ends::OtherCpu],
            };
            for ends in ends {
                for (polls, pause_ns, fresh) in [
                    (false, None, false),
                    (true, None, false),
                    (false, Some(1e6), false),
                    (true, Some(1e6), false),
                    (false, None, true),
                ] {
                    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Unix] {
                        let of = Exchange { protocol, ends, polls, pause_ns, fresh, ..PLAIN };
                        for estimate in [
                            round_trip(&site, None, of),
                            cpu(&site, None, of, End::Near),
                            cpu(&site, None, of, End::Far),
                        ] {
                            let range = estimate.range;
                            assert!(
                                0.0 < range.low
                                    && range.low <= range.likely
                                    && range.likely <= range.high
                                    && range.high.is_finite(),
                                "{of:?}: {range:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// R0 and R1 over their links (132.9 µs over 1 Gbit/s between like machines).
    #[test]
    fn the_reports_round_trips_over_a_wire_are_inside() {
        let of = Exchange { ends: Ends::TwoHosts, bytes: 56, ..PLAIN };
        let range = round_trip(&joined(GIGABIT, GIGABIT), None, of).range;
        assert!(range.low < 132_900.0 && 132_900.0 < range.high, "{range:?}");
    }

    #[test]
    fn loopback_s_figures_say_nothing_of_a_peer() {
        let site = joined(GIGABIT, GIGABIT);
        let mut known = Known::default();
        let case = CaseId::new().with("far", "loopback").with("protocol", "tcp");
        known.insert(Key::new("net.rtt", &case, "round_trip"), 4_000.0);
        let of = Exchange { ends: Ends::TwoHosts, ..PLAIN };
        assert_eq!(round_trip(&site, Some(&known), of), round_trip(&site, None, of));
    }
}

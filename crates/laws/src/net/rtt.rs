//! Laws of round trips: the work of each end, the path between them, and the waits.
//!
//! Copies and services of UNIX sockets are those of [`crate::os::ipc`]. What making a connection
//! takes on loopback, 9,000 to 50,000 cycles, starts from R0 (33,284 cycles from connect to accept
//! in one thread) and R2; newer kernels do it in half.

use super::stack::{asked, other_pair, woken, work};
use super::{Ends, Kind, Transport, Waking, Way, far_stack_cost, sleeps, stack_cost};
use crate::cpu::usual_in_kernel;
use crate::memory::measured::kernel_copy;
use crate::os::{ipc, measured_call, measured_read};
use crate::{Facts, Law, around, inverse, range, scaled};
use bench::experiment::{Domain, FAR, Fields, Known};
use bench::pair::Class;
use bench::{case, symbols};
use record::event::Range;
use record::key::CaseId;

symbols! {
    /// What carries a message.
    pub enum Protocol { Tcp = "tcp", Udp = "udp", Unix = "unix" }
}
symbols! {
    /// How both ends wait.
    pub enum Receiver {
        /// In the kernel.
        Blocking = "blocking",
        /// They ask again and again.
        Polling = "polling",
    }
}
symbols! {
    /// How messages follow each other.
    pub enum Arrivals {
        /// Each as soon as the one before is back.
        Saturated = "saturated",
        /// After a pause.
        Sparse = "sparse",
    }
}
symbols! {
    /// What a message goes by.
    pub enum By {
        /// A connection that stays.
        Echo = "echo",
        /// A connection of its own.
        ConnectEcho = "connect_echo",
    }
}
case! {
    /// An exchange of a message and its echo.
    pub struct Exchange {
        /// transport
        protocol: Protocol,
        /// bytes of a message
        message: u64 = Domain::bytes(1, 1 << 20),
        /// where both ends run: one_thread (one thread with both sockets), same_cpu, other_cpu (two
        /// processes), two_hosts
        ends: Ends,
        /// concurrent connections, with one thread per end each; threads share CPUs if there are
        /// more threads than CPUs
        connections: u64 = Domain::count(1, 64),
        /// whether both ends block in the kernel or poll
        receiver: Receiver,
        /// whether the next message is sent at once or after a pause
        arrivals: Arrivals,
        /// whether the connection is reused or each exchange makes a new one
        exchange: By,
    }
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that sends first.
    Near,
    /// The end that answers.
    Far,
}

/// Bytes a cycle of a copy between a process's buffer and a socket's, both ways out of caches, the
/// last level's for large messages.
const COPY: Range = range(2.0, 8.0, 30.0);
/// Copies of a message at one end: in and out.
const COPIES: f64 = 2.0;
/// From a message in a socket to a poller on another CPU that sees it: half a question, lines of
/// another core's cache for the socket's state, in ns.
const SEEN: Range = range(50.0, 400.0, 2_500.0);
/// A pause's own call, its timer's interrupt and what runs cold after it, in ns of CPU time.
const PAUSE_CPU: Range = range(800.0, 4_000.0, 30_000.0);
/// CPU time of an exchange beside others over that of one alone.
const IN_COMPANY: Range = range(0.25, 0.7, 1.2);
/// What runs after a pause runs cold.
const COLD: f64 = 4.0;
/// Softirqs of a card's packets may meet an end's CPU or another.
const SOFTIRQS: Range = range(0.35, 1.0, 4.0);
/// An end that shares its host with the other one may find work without a sleep.
const SLEEPS_LESS: f64 = 1.0 / 0.6;

impl From<super::Protocol> for Protocol {
    fn from(protocol: super::Protocol) -> Protocol {
        match protocol {
            super::Protocol::Tcp => Protocol::Tcp,
            super::Protocol::Udp => Protocol::Udp,
        }
    }
}

impl Exchange {
    /// Both ends ask again and again.
    pub fn polls(&self) -> bool {
        self.receiver == Receiver::Polling
    }

    /// There is a pause before it.
    pub fn is_sparse(&self) -> bool {
        self.arrivals == Arrivals::Sparse
    }

    /// It makes a connection of its own.
    pub fn is_fresh(&self) -> bool {
        self.exchange == By::ConnectEcho
    }

    fn transport(&self) -> Transport {
        match self.protocol {
            Protocol::Udp => Transport::Udp,
            Protocol::Tcp | Protocol::Unix => Transport::Tcp,
        }
    }
}

/// Whether earlier figures say more than the machine's description.
pub fn adds(known: &Known) -> bool {
    measured_call(known, "getpid").is_some()
        || measured_read(known, "clock_gettime_syscall").is_some()
}

/// What net.rtt measured with a far end, in ns: by one connection that stays.
fn plain(
    known: &Known,
    far: &str,
    protocol: Protocol,
    arrivals: Arrivals,
    metric: &'static str,
) -> impl Iterator<Item = (Exchange, f64)> {
    let of = move |(id, ns): (&CaseId, f64)| {
        let case = <Exchange as Fields>::from_id(id)?;
        let is_plain = !case.is_fresh() && case.arrivals == arrivals && case.connections == 1;
        let fits = is_plain && case.protocol == protocol && id.text(FAR) == Some(far);
        fits.then_some((case, ns))
    };
    known.figures("net.rtt", metric).filter_map(of)
}

/// The same by ends that block.
pub(super) fn measured(
    known: &Known,
    far: &str,
    protocol: Protocol,
    arrivals: Arrivals,
    metric: &'static str,
) -> impl Iterator<Item = (Exchange, f64)> {
    plain(known, far, protocol, arrivals, metric).filter(|(case, _)| !case.polls())
}

/// The metric of a round trip.
pub(super) const TRIP: &str = "round_trip";

/// What one end does for a message there and one back where neither end sleeps, in ns: half of the
/// least round trip over loopback that net.rtt measured between a poller and another, or within one
/// thread.
pub(super) fn measured_end(facts: Facts, protocol: Protocol, bytes: u64) -> Option<Law> {
    let trips = plain(facts.known?, facts.site.far(), protocol, Arrivals::Saturated, TRIP).filter(
        |(case, ns)| {
            let is_awake = case.polls() || case.ends == Ends::OneThread;
            is_awake && case.message.max(bytes) <= 2 * case.message.min(bytes) && *ns > 0.0
        },
    );
    let ns = trips.map(|(_, ns)| ns).reduce(f64::min)?;
    let us = ns / 1e3;
    let why = format!("a round trip without a sleep takes {us:.1} µs (measured by net.rtt)");
    Some(Law::measured(0.5 * ns, 0.3, why))
}

/// What a law says of a round trip that net.rtt measured.
pub(super) fn measured_in(ns: f64) -> String {
    format!("a round trip takes {:.1} µs (measured by net.rtt)", ns / 1e3)
}

/// A message there and back, in ns.
pub fn round_trip(facts: Facts, of: &Exchange) -> Law {
    let one = match of.ends {
        Ends::TwoHosts => between_hosts(facts, of),
        _ => on_one_host(facts, of),
    };
    if of.connections <= 1 {
        return one;
    }
    // Connections that share a CPU wait for one another, unless all mostly wait.
    let cpus = of.ends.spread(&facts.site.cpus, true, of.connections);
    let on_a_cpu = cpus.iter().filter(|cpu| Some(*cpu) == cpus.first()).count() as f64;
    let busy = if of.is_sparse() { 0.05 } else { 0.55 };
    one.by(range(0.8, 1.0 + busy * (on_a_cpu - 1.0), 1.4 * on_a_cpu))
        .and(format!("{} connections at a time, {on_a_cpu} per CPU", of.connections))
}

/// CPU time of one end per exchange, in ns; `pause_ns` is that before a sparse one.
pub fn cpu(facts: Facts, of: &Exchange, end: End, pause_ns: f64) -> Law {
    if of.ends == Ends::OneThread {
        return round_trip(facts, of).and("one thread does all the work and never waits");
    }
    if of.polls() {
        let pause = if of.is_sparse() { pause_ns } else { 0.0 };
        let why = "a polling end uses its CPU all the time, including pauses";
        return round_trip(facts, of) + Law::software(around(pause, 0.02), why);
    }
    let mut own = match (of.ends, end) {
        (Ends::TwoHosts, End::Far) => {
            let stack = far_stack_cost(facts.site, of.transport(), Waking::Nobody);
            at_an_end(facts.as_prior(), of, stack)
        }
        (Ends::SameCpu, _) => {
            let alone = Exchange { connections: 1, arrivals: Arrivals::Saturated, ..of.clone() };
            round_trip(facts, &alone)
                .by(half(of.is_fresh(), end))
                .and("both ends share one CPU that never idles: about half of the round trip each")
        }
        _ => at_an_end(facts, of, stack(facts, of.protocol, Waking::Nobody)),
    };
    let times = if of.is_fresh() { 2.0 } else { 1.0 };
    match of.ends {
        Ends::TwoHosts => {
            own = own.by(SOFTIRQS).and("softirqs may run on this end's CPU or on another")
                + sleeps(facts, of.transport(), of.message);
            let is_virtual = Way::for_site(facts.site).kind() == Kind::Virtual;
            let asked = asked(facts).filter(|_| is_virtual);
            own = own + asked.map(|asked| asked.ends(0.0, 1.0, 1.0).times(times));
        }
        Ends::OtherCpu => {
            let asked = asked(facts).map(|asked| asked.times(times));
            own = (own + asked).widened(SLEEPS_LESS, 1.0, "");
        }
        Ends::SameCpu | Ends::OneThread => {}
    }
    if of.connections > 1 {
        own = own.by(IN_COMPANY).and("with several messages in flight an end sleeps less often");
    }
    if of.is_sparse() {
        own = own.by(range(1.0, 1.7, COLD)).and("after a pause the caches are cold");
        if end == End::Near {
            own = own + Law::software(PAUSE_CPU, "the call and the timer of the pause");
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

/// One end's share: its stack, going to sleep and being taken up, its copies, and half a
/// connection's making.
fn at_an_end(facts: Facts, of: &Exchange, stack: Law) -> Law {
    let fresh = of.is_fresh().then(|| connection(facts, of).by(range(0.2, 0.6, 1.2)));
    stack + work(facts, &["SLEEP"]) + copies(facts, of) + fresh
}

fn on_one_host(facts: Facts, of: &Exchange) -> Law {
    let waking = if of.polls() { Waking::Nobody } else { of.ends.waking() };
    // UNIX sockets that wait are os.ipc's.
    let is_ipc = of.protocol == Protocol::Unix && waking != Waking::Nobody;
    let mut all = if is_ipc {
        // The distance of both ends' CPUs as os.ipc names it.
        let is_other = of.ends == Ends::OtherCpu;
        let pair = if is_other { other_pair(facts.site) } else { Class::Same };
        let way = ipc::Way { via: ipc::Via::UnixStream, pair, size: of.message };
        ipc::round_trip(facts, &way)
    } else {
        // One end's luck is the other's: ends add.
        (stack(facts, of.protocol, waking) + copies(facts, of))
            .times(2.0)
            .and("once per direction, no link")
    };
    if of.polls() {
        all = all
            + Law::hardware(scaled(SEEN, 2.0), "a poller sees the message after 50 to 2,500 ns");
    }
    if of.is_sparse() {
        let is_woken = !of.polls() && of.ends == Ends::OtherCpu;
        all = match woken(facts.as_prior(), Waking::Sparse).filter(|_| is_woken) {
            Some(deep) => {
                let more = range(0.0, 0.3 * deep.range.likely, deep.range.high);
                let why = "after a pause CPUs sleep more deeply and caches are cold";
                (all + Law::software(more, "")).widened(1.0, 2.0, why)
            }
            None => all.widened(1.0, COLD, "after a pause the caches are cold"),
        };
    }
    if of.is_fresh() {
        let why = "the far end first closes the previous connection";
        all = (all + connection(facts, of)).widened(1.0, 1.5, why);
    }
    all
}

fn between_hosts(facts: Facts, of: &Exchange) -> Law {
    let way = Way::for_site(facts.site);
    let transport = of.transport();
    let waking = match (of.polls(), of.is_sparse()) {
        (true, _) => Waking::Nobody,
        (false, true) => Waking::Sparse,
        (false, false) => Waking::Interrupt,
    };
    let ends = stack_cost(facts, transport, waking)
        + far_stack_cost(facts.site, transport, waking).and("the same at the far end");
    let trip = super::round_trip(&way, transport, of.message, of.message);
    let all = trip + ends.clone() + copies(facts, of).times(2.0);
    if !of.is_fresh() {
        return all;
    }
    let first = super::round_trip(&way, transport, 0, 0);
    (all + connection(facts, of) + first + ends).and("one more round trip to connect")
}

/// One send and one receive with the protocol's work and the waking.
fn stack(facts: Facts, protocol: Protocol, waking: Waking) -> Law {
    let transport = match protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        Protocol::Unix => return work(facts, &["unix"]) + woken(facts, waking),
    };
    stack_cost(facts, transport, waking)
}

fn connection(facts: Facts, of: &Exchange) -> Law {
    let is_unix = of.protocol == Protocol::Unix;
    work(facts, &[if is_unix { "UNIX_OPENED" } else { "TCP_OPENED" }])
}

/// A message's copies at one end, in ns.
fn copies(facts: Facts, of: &Exchange) -> Law {
    let bytes = COPIES * of.message as f64;
    let what = format!("{COPIES} copies of {} B", of.message);
    if let Some(copies) = kernel_copy(facts, bytes, 2.0 * bytes) {
        return copies.and(what);
    }
    usual_in_kernel(facts, Law::software(inverse(bytes, COPY), what))
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        Arrivals, By, End, Ends, Exchange, Protocol, Receiver, TRIP, cpu, measured, round_trip,
    };
    use crate::Facts;
    use bench::experiment::fixtures::joined::{GIGABIT, RADIO, joined};
    use bench::experiment::fixtures::{recorded, sites};
    use bench::experiment::{CaseId, FAR, Fields, Known};
    use record::key::Key;

    const PLAIN: Exchange = Exchange {
        protocol: Protocol::Tcp,
        message: 64,
        ends: Ends::OtherCpu,
        connections: 1,
        receiver: Receiver::Blocking,
        arrivals: Arrivals::Saturated,
        exchange: By::Echo,
    };

    pub fn trip_key(far: &str, message: u64, ends: Ends) -> Key {
        let mut case = CaseId::new().with(FAR, far);
        case.0.extend(Exchange { message, ends, ..PLAIN }.id().0.iter().cloned());
        Key::new("net.rtt", &case, "round_trip")
    }

    fn likely(of: Exchange) -> f64 {
        round_trip(Facts::prior(&recorded("epyc-7763-2s")), &of).range.likely
    }

    #[test]
    fn a_cpu_that_never_waits_spends_the_round_trip_at_its_two_ends() {
        for site in sites() {
            let facts = Facts::prior(&site);
            let of = Exchange { ends: Ends::SameCpu, ..PLAIN };
            let trip = round_trip(facts, &of).range;
            let [near, far] = [End::Near, End::Far].map(|end| cpu(facts, &of, end, 0.0).range);
            assert!((near.likely + far.likely - trip.likely).abs() < 1.0);
            assert!(near.high < trip.high && near.low > 0.3 * trip.low);
        }
    }

    #[test]
    fn what_adds_work_adds_time() {
        let one_thread = Exchange { ends: Ends::OneThread, ..PLAIN };
        let polls = Exchange { receiver: Receiver::Polling, ..PLAIN };
        let mut shared = recorded("epyc-7763-2s");
        shared.cpus.truncate(2);
        let shared = round_trip(Facts::prior(&shared), &Exchange { connections: 4, ..PLAIN });
        let plain = likely(PLAIN);
        for (less, more) in [
            (
                likely(Exchange { protocol: Protocol::Unix, ..one_thread.clone() }),
                likely(one_thread.clone()),
            ),
            (likely(one_thread), likely(polls.clone())),
            (likely(polls), plain),
            (plain, likely(Exchange { exchange: By::ConnectEcho, ..PLAIN })),
            (plain, likely(Exchange { message: 65_507, ..PLAIN })),
            (plain, shared.range.likely),
        ] {
            assert!(less < more, "{less} {more}");
        }
    }

    /// R0 and R1 over their links (132.9 µs over 1 Gbit/s between like machines).
    #[test]
    fn the_reports_round_trips_over_a_wire_are_inside() {
        let of = Exchange { ends: Ends::TwoHosts, message: 56, ..PLAIN };
        let wire = joined(GIGABIT, GIGABIT);
        let range = round_trip(Facts::prior(&wire), &of).range;
        assert!(range.low < 132_900.0 && 132_900.0 < range.high, "{range:?}");
        let radio = joined(RADIO, GIGABIT);
        assert!(round_trip(Facts::prior(&radio), &of).range.likely > 5.0 * range.likely);
    }

    #[test]
    fn loopback_s_figures_say_nothing_of_a_peer() {
        let site = joined(GIGABIT, GIGABIT);
        let mut known = Known::default();
        known.insert(trip_key("loopback", 64, Ends::OtherCpu), 4_000.0);
        let of = Exchange { ends: Ends::TwoHosts, ..PLAIN };
        let with = round_trip(Facts { site: &site, known: Some(&known) }, &of);
        assert_eq!(with, round_trip(Facts::prior(&site), &of));
        let found = |far| measured(&known, far, Protocol::Tcp, Arrivals::Saturated, TRIP).count();
        assert_eq!((found("loopback"), found("peer")), (1, 0));
    }
}

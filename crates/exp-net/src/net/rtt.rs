//! How long does a message take to another process and back?
//!
//! ## Question
//!
//! How long is a message round trip between two processes over TCP, UDP and UNIX sockets, by
//! message size, placement of both ends, number of connections, way of waiting, and arrival rate;
//! and how much CPU time does it take at each end?
//!
//! ## Method
//!
//! The near end sends a message and waits until the same message is back; the far end sends back
//! what it receives. Both use plain send and receive calls, one each for a message that fits a
//! packet, on connected sockets; TCP_NODELAY is set at both ends and read back. The near end's
//! counter is read once per exchange: the end of one exchange is the start of the next. The time is
//! not halved. About 32 exchanges (or 3 ms) come before the timed ones. Every message carries its
//! number and changing data; a wrong number, length or last byte in the reply fails the case.
//!
//! - Every exchange is an event: `round_trip` has a distribution.
//! - A UDP message that does not come back within 50 times the slowest exchange of the warm-up (at
//!   least 20 ms, at most 1 s) is lost. It counts in the distribution as longer than that
//!   (`timeouts`), and the window is extended by the waiting time. The far end's counts show which
//!   messages were lost on the way there (`lost_there`) and back (`lost_back`); replies that came
//!   too late are `late`.
//! - `cpu_near` and `cpu_far`: CPU time of each end's threads per exchange, user and kernel
//!   together, from the scheduler's sum. They exclude the kernel's interrupt work on another CPU.
//!   The CPUs at which packets arrived (SO_INCOMING_CPU of each connection) are in
//!   `near_softirq_cpu` and `far_softirq_cpu`; the softirq time of each end's CPUs is in the
//!   quantities `near_softirq_ns` and `far_softirq_ns`, in the kernel's steps of 10 ms, if the
//!   kernel reports it; the number of softirqs that received packets is in `near_net_rx` and
//!   `far_net_rx`.
//! - `connect_echo` is what R2 calls round trip: socket, connect, message and echo, on a new
//!   connection each time. Its message begins with the one-time token of 28 bytes that admits it.
//!   The near end then resets the connection, outside the timed part, so that no port stays in
//!   TIME_WAIT. The timed part contains nothing else of this end: the socket has no time-outs, and
//!   the far end prepares the next token beforehand, so it only compares. The CPU time of both ends
//!   covers everything, including the end of the connection and the making of tokens.
//! - Over TCP and UNIX sockets an exchange may take 5 s plus the time of its bytes at 10 Mbit/s, so
//!   an exchange with a lost and retransmitted SYN or segment is a value like any other; beyond
//!   that the case fails.
//!
//! ## Prediction
//!
//! Loopback is no network: memory copies, no link. There a round trip is four system calls, the
//! protocol work twice each way, and, unless one thread runs both ends or the ends poll, the
//! wake-up of each end. Calls and switches come from os.syscall and os.switch if those ran; UNIX
//! sockets follow os.ipc. To a peer it is the path (rate, MTU and coalescing of both interfaces)
//! and each end's stack, never the loopback figures. A fresh connection adds one round trip and the
//! cost of creating it.
//!
//! ## Reading the result
//!
//! `one_thread` is calls and protocols alone; `same_cpu` adds a context switch each way,
//! `other_cpu` the wake-up of a CPU each way, and polling removes that again. The difference
//! between TCP, UDP and UNIX is the protocol. If several `connections` share CPUs, each one's round
//! trip grows; the total rate (their number divided by the round trip) shows the gain. On one CPU
//! `cpu_near` and `cpu_far` add up to the round trip; on two the rest is waiting. Percentiles far
//! above the median are interrupts, ticks and the scheduler.
//!
//! ## Pitfalls
//!
//! Placement: unpinned ends give either of two figures (wake affinity). A halved round trip hides
//! that the two directions differ; sockperf reports halves. Nagle's algorithm with delayed
//! acknowledgements adds 40 ms. Counting only replies hides lost messages. If receivers poll on a
//! busy machine, the far end waits for a CPU. On loopback the receiver's protocol work runs in the
//! sender's call and counts in the sender's CPU time; from a network card it runs in softirqs,
//! perhaps on a CPU of neither end. `sparse` includes the call for the pause in `cpu_near`. If both
//! ends share a CPU, the echo of a fresh connection waits until the far end has closed the previous
//! one.
//!
//! ## Sources
//!
//! Reports [R0] (4.05 µs of 56 B in one thread, 132.9 µs over 1 Gbit/s), [R1] (64 B), [R2] (64 B,
//! connect and echo), [R3] (1, 1024 and 65507 B, threads one to one); [sockperf] `ping-pong`,
//! [qperf] `tcp_lat`, `udp_lat`; [rfc] 896, 1122 4.2.3.2; [man] tcp(7), udp(7), socket(7).

mod counts;
mod echo;
mod fresh;

use super::{DATAGRAM_BYTES_MAX, foretold, tell};
use crate::net::place::{self, Usage};
use crate::net::wire::timed::{Plan, Prober, probe_all};
use crate::net::wire::{Acceptor, Dialer, PATIENCE, PREAMBLE_BYTES};
use bench::experiment::FAR_PARAM;
use bench::experiment::contract::one_series;
use bench::measure::FarEnd;
use bench::prelude::*;
use echo::{Ask, FarCounts, alone, connect};
use laws::net::Ends::{self, OneThread, OtherCpu, SameCpu};
use laws::net::rtt::Protocol::{self, Tcp, Udp, Unix};
use laws::net::rtt::Receiver::{self, Polling};
use laws::net::rtt::{self as law, Arrivals, By, End, Exchange};

bench::experiment!(Rtt);

/// A window lasts so many times a case's time: exchanges are counted one by one.
const WINDOWS: f64 = 2.0;
const PAUSES: u64 = 60;
const PAUSES_OF_REHEARSAL: u64 = 3;
/// The pause before a sparse exchange, by default.
const PAUSE_NS: u64 = 1_000_000;
/// For the cost of a round: a case's line, connections and core clock; two workers' start and end.
const CASE_OVERHEAD: Duration = Duration::from_millis(4);
const WORKERS_OVERHEAD: Duration = Duration::from_millis(85);

/// One connection at a time, or messages of one size, as most tools have them.
const PLAIN: [(&str, &[&str]); 3] =
    [("receiver", &["blocking"]), ("arrivals", &["saturated"]), ("exchange", &["echo"])];

static CARD: Card = Card {
    id: "net.rtt",
    title: "Message round trips",
    metrics: metrics! {
        "round_trip" => Ns Lower Os: "a message and its reply, not halved";
        "cpu_near" => NsPerOp Lower Os: "CPU time of the near end's threads per exchange";
        "cpu_far" => NsPerOp Lower Os: "CPU time of the far end's threads per exchange";
    },
    params: params![
        &[FAR_PARAM],
        Exchange::PARAMS,
        settings! {
            "pause": Domain::ns(1_000, 100_000_000), ["1ms"; 3] =>
                "pause before each sparse exchange";
        },
    ],
    after: &["clock.rate", "clock.read", "os.syscall", "os.switch", "os.ipc"],
    views: &[
        ViewCard::line("message", "round_trip")
            .only(&[("connections", &["1"]), PLAIN[0], PLAIN[1], PLAIN[2]])
            .log()
            .each(&["far", "ends"]),
        ViewCard::line("connections", "round_trip")
            .only(&[("message", &["64"]), PLAIN[0], PLAIN[1], PLAIN[2]])
            .log_y()
            .each(&["far", "ends"]),
        ViewCard::bars("round_trip").each(&["far", "message"]),
    ],
    keys: &[KeyFigure::new(
        "TCP round trip",
        "",
        "round_trip",
        "protocol=tcp,message=64,ends=other_cpu|two_hosts,connections=1,\
         receiver=blocking,arrivals=saturated,exchange=echo",
    )],
    ..Card::PLAIN
};

impl Experiment for Rtt {
    type Case = Exchange;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("rtt.rs");
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> = Some(serve);
    const PORTS: fn(&Site, &Exchange) -> u64 = |_, case| case.connections;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let of_case = |case: &Case| {
            let is_sparse = case.text("arrivals") == Some(Arrivals::Sparse.text());
            let window_ns = window_ns(site.case_ns, is_sparse.then(|| pause_ns(series)), false);
            Duration::from_nanos(window_ns as u64) + CASE_OVERHEAD
        };
        series.cases.iter().map(of_case).sum::<Duration>() + WORKERS_OVERHEAD
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Exchange> {
        let rows = match preset {
            Preset::Rehearsal | Preset::Quick => QUICK,
            Preset::Standard => STANDARD,
            Preset::Thorough => THOROUGH,
        };
        let is_remote = site.peer.is_some();
        let mut cases = Vec::new();
        for row in rows {
            let Row { receiver, arrivals, exchange, .. } = *row;
            let ends = if is_remote { &[Ends::TwoHosts] } else { row.ends };
            let goes = |protocol: &&Protocol| !(is_remote && **protocol == Unix);
            for &protocol in row.protocol.iter().filter(goes) {
                for &message in row.message {
                    for &ends in ends {
                        cases.extend(row.connections.iter().map(|&connections| Exchange {
                            protocol,
                            message,
                            ends,
                            connections,
                            receiver,
                            arrivals,
                            exchange,
                        }));
                    }
                }
            }
        }
        cases
    }

    fn absent(site: &Site, case: &Exchange, _: &Params) -> Option<Skip> {
        if let Some(skip) = place::absent(site, case.ends) {
            return Some(skip);
        }
        let one_thread = case.ends == OneThread;
        let (polls, is_fresh) = (case.polls(), case.is_fresh());
        let refused = [
            (site.peer.is_some() && case.protocol == Unix, "UNIX sockets only work within a host"),
            (
                case.protocol == Udp && case.message > DATAGRAM_BYTES_MAX,
                "a datagram has at most 65507 bytes",
            ),
            (
                one_thread && case.message > ONE_THREAD_BYTES_MAX,
                "one thread with both ends would deadlock on a message larger than the socket \
                 buffer",
            ),
            (one_thread && case.connections > 1, "one thread runs the ends of one connection only"),
            (one_thread && polls, "one thread never waits, because the message is already there"),
            (
                one_thread && is_fresh,
                "one thread cannot wait in connect and accept at once; net.connect times both \
                 parts",
            ),
            (case.ends == SameCpu && polls, "a polling end takes the CPU from the other end"),
            (
                polls && case.connections > pairs(site, case.ends),
                "a polling end takes the CPU from the threads of other connections",
            ),
            (is_fresh && case.protocol == Udp, "UDP has no connections"),
            (is_fresh && polls, "a server that accepts connections blocks"),
            (is_fresh && case.connections > 1, "fresh connections are made one at a time"),
            (
                is_fresh && case.message < FRESH_BYTES_MIN,
                "the message of a fresh connection starts with a token and needs at least 64 bytes",
            ),
        ];
        refused.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| Skip::because(why))
    }

    fn series(site: &Site, cases: Vec<Exchange>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = one_series::<Rtt>(site, cases, params);
        tell(&mut offer, "pause", "pause_ns", |case, _| case.text("arrivals") == Some("sparse"));
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        Ok(place::place_all(site, series, |case: &Exchange| case.ends))
    }

    fn law(facts: Facts, case: &Exchange, at: &Case, metric: &Metric) -> Option<Prediction> {
        let pause_ns = at.int("pause_ns").unwrap_or(PAUSE_NS) as f64;
        let law = match &*metric.name {
            "round_trip" => Ok(law::round_trip(facts, case)),
            "cpu_near" => Ok(law::cpu(facts, case, End::Near, pause_ns)),
            _ if case.ends == OneThread => {
                Err("one thread runs both ends, so cpu_near covers both")
            }
            _ => Ok(law::cpu(facts, case, End::Far, pause_ns)),
        };
        foretold(facts, || facts.known.is_some_and(law::adds), law)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dialer = Dialer::new(bench)?;
        let pause_ns = pause_ns(series);
        bench.each_of::<Exchange>(series, |bench, case, of| {
            exchanges(bench, case, &of, &mut dialer, pause_ns)
        });
        Ok(())
    }
}

fn serve(_: &Series, far: &mut FarEnd) -> Result<()> {
    Acceptor::open(far)?.serve(far, |acceptor, far, call| {
        let of: Exchange = call.decode()?;
        match of.is_fresh() {
            true => fresh::serve(acceptor, far, call, &of),
            false => echo::serve(acceptor, far, call, &of),
        }
    })
}

fn pause_ns(series: &Series) -> u64 {
    series.setting("pause").unwrap_or(PAUSE_NS)
}

fn window_ns(case_ns: u64, pause_ns: Option<u64>, is_rehearsal: bool) -> f64 {
    let pauses = if is_rehearsal { PAUSES_OF_REHEARSAL } else { PAUSES };
    let paused_ns = pause_ns.map_or(0, |pause| pause.saturating_mul(pauses));
    (WINDOWS * case_ns as f64).max(paused_ns as f64)
}

/// One case: its exchanges, and both ends' counts.
fn exchanges(
    bench: &mut Bench,
    case: &Case,
    of: &Exchange,
    dialer: &mut Dialer,
    pause_ns: u64,
) -> Result<()> {
    place::near_cpus(bench, case)?;
    let pause = of.is_sparse().then_some(pause_ns);
    let order = bench.order();
    let clock = order.clock();
    let plan = Plan {
        window_ns: window_ns(order.case_ns, pause, order.rehearsal),
        pause_ns: pause.map(|pause| pause as f64),
        least: None,
    };
    let cpus = of.ends.spread(&order.cpus, true, of.connections);
    bench.declare(Declared::Cpus(&cpus));
    let is_free = place::is_free(case);
    let (ran, used, told) = if of.ends == OneThread {
        let usage = Usage::begin(&cpus);
        let ran = probe_all(&mut [alone(of, clock)?], (&cpus, is_free), &plan)?;
        (ran, usage.end(), None)
    } else {
        let ask = Ask { window_ns: plan.window_ns as u64 };
        let mut line = dialer.call(case, &ask)?;
        let (ran, used) = if of.is_fresh() {
            let name: Option<String> = line.hear(PATIENCE)?;
            let _: String = line.hear(PATIENCE)?;
            let usage = Usage::begin(&cpus);
            (vec![fresh::run(dialer, name.as_deref(), of, &plan, clock)?], usage.end())
        } else {
            let mut probers = connect(dialer, &mut line, of, clock)?;
            let _: String = line.hear(PATIENCE)?;
            let usage = Usage::begin(&cpus);
            let ran = probe_all(&mut probers, (&cpus, is_free), &plan);
            probers.iter().for_each(Prober::finish);
            (ran?, usage.end())
        };
        line.tell(&"enough")?;
        let told: FarCounts = line.hear(PATIENCE).context("waiting for the far end's counts")?;
        (ran, used, Some(told))
    };
    counts::write(bench, case, of, &ran, &used, told.as_ref())
}

/// A thread that holds both ends must find room for a whole message in a socket: Linux' UNIX
/// sockets have 208 KiB, TCP's more.
const ONE_THREAD_BYTES_MAX: u64 = 65_536;
/// A fresh connection's message begins with its preamble.
const FRESH_BYTES_MIN: u64 = 64;
const _: () = assert!(FRESH_BYTES_MIN as usize >= PREAMBLE_BYTES + 9);

/// Values of every parameter; every combination of them is a case.
struct Row {
    protocol: &'static [Protocol],
    message: &'static [u64],
    ends: &'static [Ends],
    connections: &'static [u64],
    receiver: Receiver,
    arrivals: Arrivals,
    exchange: By,
}

const USUAL: Row = Row {
    protocol: &[Tcp],
    message: &[64],
    ends: &[OtherCpu],
    connections: &[1],
    receiver: Receiver::Blocking,
    arrivals: Arrivals::Saturated,
    exchange: By::Echo,
};
/// All sizes of the catalogue: the smallest, ping's and R0's, R1's and R2's, R3's, a page.
const SIZES: &[u64] = &[1, 56, 64, 1024, 4096, DATAGRAM_BYTES_MAX];

const QUICK: &[Row] = &[
    Row { message: &[56], ends: &[OneThread], ..USUAL },
    Row { ends: &[SameCpu, OtherCpu], ..USUAL },
    Row { protocol: &[Udp], ..USUAL },
];

const STANDARD: &[Row] = &[
    Row { message: &[56], ends: &[OneThread], ..USUAL },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ends: &[SameCpu], ..USUAL },
    Row { message: &[1, 64, DATAGRAM_BYTES_MAX], ..USUAL },
    Row { protocol: &[Udp], message: &[64, DATAGRAM_BYTES_MAX], ends: &[SameCpu], ..USUAL },
    Row { protocol: &[Udp], ..USUAL },
    Row { protocol: &[Unix], ends: &[SameCpu, OtherCpu], ..USUAL },
    Row { receiver: Polling, ..USUAL },
    Row { arrivals: Arrivals::Sparse, ..USUAL },
    Row { connections: &[4], ..USUAL },
    Row { exchange: By::ConnectEcho, ends: &[SameCpu, OtherCpu], ..USUAL },
];

const THOROUGH: &[Row] = &[
    Row { protocol: Protocol::ALL, message: SIZES, ends: &[OneThread, SameCpu, OtherCpu], ..USUAL },
    Row { protocol: Protocol::ALL, message: SIZES, receiver: Polling, ..USUAL },
    Row {
        protocol: Protocol::ALL,
        ends: &[SameCpu, OtherCpu],
        arrivals: Arrivals::Sparse,
        ..USUAL
    },
    Row { protocol: &[Tcp, Udp], receiver: Polling, arrivals: Arrivals::Sparse, ..USUAL },
    Row {
        protocol: &[Tcp, Udp],
        message: &[1, 64, 1024, DATAGRAM_BYTES_MAX],
        ends: &[SameCpu, OtherCpu],
        connections: &[2, 4],
        ..USUAL
    },
    Row { protocol: &[Tcp, Unix], ends: &[SameCpu, OtherCpu], exchange: By::ConnectEcho, ..USUAL },
];

/// How many connections can have CPUs of their own at both ends.
fn pairs(site: &Site, ends: Ends) -> u64 {
    let here = site.cpus.len() as u64;
    match (ends, &site.peer) {
        (OtherCpu, _) => here / 2,
        (_, Some(peer)) => here.min(peer.cpus.len() as u64),
        _ => here,
    }
}

#[cfg(test)]
mod tests;

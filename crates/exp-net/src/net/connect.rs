//! What does a TCP connection cost, to set up and to tear down?
//!
//! ## Question
//!
//! How long does it take to connect, to accept and to close, as each end sees it; when does the
//! other end know; how many connections a second does one acceptor take; and what CPU time does a
//! connection cost?
//!
//! ## Method
//!
//! Connections are made one after the other, each from a fresh socket, each to an acceptor that
//! waits in accept(2) (`listener=ready`). The near end is the client. Before each connection the
//! far end says, by a connection of its own, that it is about to accept, and afterwards that it has
//! accepted, for which the client waits at once: on one CPU that is the acceptor's turn.
//!
//! - `connect`: connect(2) alone (R1). `socket_connect`: socket(2) and connect(2) (R2), without
//!   what stands between them here (limits of time, and the source address).
//! - `accepted`: from the begin of the client's connect(2) to the return of the server's accept(2)
//!   (R0). Its two times are of two processes: both read the processor's counter, whose offset
//!   between the CPUs is bounded first (or CLOCK_MONOTONIC where it is too large). Two hosts have
//!   two clocks: there it is not offered; the server's accept returns between half a round trip and
//!   a whole one after the begin, and R0 itself took the client's connect(2) against another host.
//! - Then the client says its token, the server answers with one byte, and the connection is
//!   closed: by the client first, or by the server (`closer`). The second end waits for the first
//!   one's FIN in read(2), and closes at once. `client_close` (R1, R2) and `server_close` (R0) are
//!   what close(2) took at either end, of every second connection.
//! - `client_fin`, `server_fin`: of the others, from the call that sends the FIN until the other
//!   end has acknowledged it: the state in TCP_INFO leaves FIN_WAIT1 (who closed first) or LAST_ACK
//!   (who closed second). The FIN is sent by shutdown(2), which sends what close(2) sends, because
//!   a closed descriptor cannot be asked; between two looks the CPU is offered to others
//!   (sched_yield).
//! - `accept_rate`: the near end makes up to 64 connections that wait (at most the backlog), then
//!   the acceptor takes them in a loop of accept(2) alone: connections over that time, four times a
//!   round; `accept_cpu` is the acceptor's CPU time of each. Tokens are asked for afterwards, and
//!   the near end resets these connections. `cpu_near` and `cpu_far` are the CPU time of either
//!   end's thread over a whole connection, token, answer and pace included, of every second
//!   connection: those that are closed. Of the others each end looks all the time for the
//!   acknowledgement, which no client or server does.
//!
//! The first `warm_up` connections of a case in a round are dropped, as R0 did; fewer where ports,
//! the table of connections in TIME_WAIT or time allow fewer, which a note then says. A case ends
//! with its number of connections or with its time.
//!
//! **Ports.** Who closes first keeps the connection in TIME_WAIT for 60 s. Over loopback clients
//! come from addresses of 127.64.0.0/10 that rotate (IP_BIND_ADDRESS_NO_PORT: the address is bound,
//! the port chosen by connect(2)), each for at most a sixteenth of its port range and at most 64
//! connections, so that no range is used up, whatever it is; all rounds of a preset together use at
//! most half of the table for connections in TIME_WAIT. To a host on the network they come from one
//! address: all cases and rounds of a preset together use at most half of
//! net.ipv4.ip_local_port_range, as if none of its ports came free again in time (tcp_tw_reuse,
//! which gives them back after a second, is recorded and not counted on), and before each case the
//! ports that this and other experiments still hold there are counted. EADDRNOTAVAIL voids the
//! round and says the way out.
//!
//! `listener=full`: a queue of 8 (or so many) is filled while nobody accepts, and three more
//! connections are begun, whose SYNs are dropped; then the far end accepts. `connect` is of those
//! that had room, `connect_late` of those that came when the SYN was sent again.
//! `listener=refusing`: the port is bound and nobody listens; `connect` is the time until
//! connect(2) says so.
//!
//! ## Prediction
//!
//! connect = one round trip + the socket's work, as R1 and R2 reason: the SYN and its answer are
//! the kernels', nobody is woken at the far end. Over loopback this is a round trip in one thread
//! (net.rtt), else system calls (os.syscall) and the protocol's cycles; where the acceptor sleeps
//! on another CPU, who connects also asks that CPU to wake up. To a peer net.rtt against it, else
//! what lies between (link, coalescing). `accepted` adds the waking of the acceptor. close is a
//! system call that sends one segment: R1's estimate (getuid, 0.17 µs) had left the segment out and
//! was 60 times too small. A FIN's acknowledgement comes with the other end's own FIN: waking, its
//! close, and the way there and back. A SYN is sent again after 1 s (RFC 6298).
//!
//! ## Reading the result
//!
//! `connect` over loopback is CPU time: three segments go through the stack within the call, on the
//! client's CPU wherever the acceptor runs. Beyond `one_thread` it has the waking of the acceptor
//! in it: on one CPU little, on another an interrupt to that CPU, which in a virtual machine is the
//! hypervisor's and may take longer than all else; so has the close of who closes first. Against a
//! peer `connect` is the round trip, which nothing makes shorter but connecting less often;
//! `client_close` stays what it is over loopback or becomes less, because close(2) does not wait.
//! `client_fin` over `client_close` is what the other end needs to notice. `accept_rate` bounds
//! what one acceptor takes; a server does more for each: 1e9 over `cpu_far` is nearer to what one
//! core serves. `late_share` (beside `connect`) other than 0 means lost SYNs or a full queue: each
//! costs a second, which a mean would hide as a few milliseconds.
//!
//! ## Pitfalls
//!
//! A receiver that does not close holds the acknowledgement of a FIN back for 40 ms (delayed
//! acknowledgement): so a FIN here is timed against an end that waits for it. Where the second end
//! is slow to be woken, some `client_fin` may show that mode. A client that says nothing before it
//! closes may close before it was accepted: then close(2) and accept(2) run beside one another.
//! Tools that connect in a loop from one address meet EADDRNOTAVAIL after 28,232 connections a
//! minute, and before that a longer search for a free port, which counts as connect. With SYN
//! cookies (tcp_syncookies, a queue that overflows) a connection may be there at one end only.
//! Firewalls that drop make a closed port look like a dead host: the case then fails after 5 s. On
//! one CPU the acceptor runs when the client waits. Over loopback figures are of memory and system
//! calls: no link.
//!
//! ## Sources
//!
//! R0 (connection overhead: non-blocking connect to accept, 10,000 times without the first hundred;
//! the server's close), R1 (connect and close at the client; Table XIV's estimate is 172.53 ns), R2
//! (socket and connect; close). RFC 9293 (states), RFC 6298 (1 s), RFC 1122 4.2.3.2 (delayed
//! acknowledgements); Linux `net/ipv4/tcp_input.c`, `inet_hashtables.c` (the search for a port),
//! `inet_timewait_sock.c`; ip(7), tcp(7), listen(2); lmbench `lat_connect`; netperf `TCP_CRR`,
//! `TCP_CC`.

mod connections;
mod ending;
mod far;
mod near;
mod opening;
mod rounds;
mod sources;
mod talk;

use crate::net::ends::{Dial, Door};
use crate::net::place;
use anyhow::Result;
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Domain, FAR_PARAM, Hazards, Known, Offer, Params, Preset, Site, Skip, ViewCard, unknown,
};
use bench::link::RoundOrder;
use bench::measure::{Bench, FarEnd, WrongResult};
use bench::{metrics, params, settings};
use host::ports;
use laws::net::Ends;
use laws::net::connect::{self as law, Connections, Listener};
use opening::Unanswered;
use record::case::{Case, Series};
use record::event::Prediction;
use record::key_figure::KeyFigure;
use record::metric::Metric;
use record::unit::Unit;
use rounds::Round;
use sources::{Sources, is_no_port};
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Connect = Connect;

/// `net.connect`.
pub struct Connect;

/// The backlog where none is set: what servers ask for, and what every kernel grants.
const BACKLOG: u64 = 128;
/// Time of a connection as it is planned for, over loopback; those of a warm-up are as many.
const CONNECTION: Duration = Duration::from_micros(120);
/// Start and end of the second worker, and a case's lines and queues.
const WORKER: Duration = Duration::from_millis(20);
const CASE: Duration = Duration::from_millis(12);
/// A dropped SYN is sent again after a second.
const FULL: Duration = Duration::from_millis(1150);

static CARD: Card = Card {
    id: "net.connect",
    title: "Setting up and closing connections",
    metrics: metrics! {
        "connect" => Ns Lower Os: "connect(2) alone, when the first SYN was answered";
        "socket_connect" => Ns Lower Os: "socket(2) and connect(2)";
        "accepted" => Ns Lower Os: "from the start of the client's connect(2) to the return of the \
                                    server's accept(2)";
        "client_close" => Ns Lower Os: "close(2) at the client";
        "server_close" => Ns Lower Os: "close(2) at the server";
        "client_fin" => Ns Lower Os: "from sending the client's FIN to its acknowledgement";
        "server_fin" => Ns Lower Os: "from sending the server's FIN to its acknowledgement";
        "accept_rate" => OpPerS Higher Os: "rate at which one acceptor accepts queued connections";
        "accept_cpu" => NsPerOp Lower Os: "CPU time of the acceptor per queued connection";
        "cpu_near" => NsPerOp Lower Os:
            "CPU time of the client per connection, including its close";
        "cpu_far" => NsPerOp Lower Os:
            "CPU time of the server per connection, including its close";
        "connect_late" => Ns Lower Os: "connect(2) whose SYN was dropped and sent again";
    },
    params: params![
        &[FAR_PARAM],
        Connections::PARAMS,
        &[PLACEMENT_PARAM],
        settings! {
            "connections": Domain::Either(&["auto"], 1, 1_000_000, Unit::Count), ["auto"; 3] =>
                "most connections of a case per round; auto: 200, 500 or 2000 by preset, fewer if \
                 ports or time are short";
            "warm_up": Domain::count(0, 100_000), ["100"; 3] =>
                "connections per case that only warm up and are not counted";
            "backlog": Domain::count(2, 65_535), ["128"; 3] =>
                "length of the accept queue; at most the far end's net.core.somaxconn";
        },
    ],
    after: &["clock.rate", "clock.read", "os.syscall", "os.switch", "net.rtt"],
    views: &[ViewCard::bars("connect").each(&["far"])],
    keys: &[KeyFigure::new(
        "TCP connect",
        "",
        "connect",
        "ends=other_cpu|two_hosts,listener=ready,closer=client",
    )],
    ..Card::PLAIN
};

impl Experiment for Connect {
    type Case = Connections;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("connect.rs");
    const MAY_LACK: &'static [&'static str] = &["connect_late"];
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> =
        Some(|_, far| Door::open(far)?.serve(far, far::serve));
    /// On one CPU each end waits for the other's turn.
    const HAZARDS: fn(&RoundOrder) -> Hazards = |order| {
        let is_shared = |case: &Case| case.text("ends") == Some(Ends::SameCpu.text());
        Hazards { run_delay: !order.series.cases.iter().any(is_shared), ..Hazards::NONE }
    };
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let of = |case: &Case| {
            if case.text("listener") == Some(Listener::Full.text()) {
                return FULL;
            }
            let count = case.int("connections").unwrap_or(0) + case.int("warm_up").unwrap_or(0);
            let quick = CONNECTION * u32::try_from(count).unwrap_or(u32::MAX);
            // The warm-up has a quarter more.
            let window = Duration::from_nanos(case.int("window_ns").unwrap_or(0)) * 5 / 4;
            // To a peer as long as it may take.
            CASE + if site.peer.is_some() { window } else { quick.min(window) }
        };
        WORKER + series.cases.iter().map(of).sum::<Duration>()
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Connections> {
        connections::cases(site, preset)
    }

    /// Only where an acceptor waits does it matter who closes.
    fn complete(case: Connections) -> Option<Connections> {
        match (case.listener, case.closer) {
            (Listener::Ready, None) => None,
            (Listener::Ready, Some(_)) => Some(case),
            _ => Some(Connections { closer: None, ..case }),
        }
    }

    fn absent(site: &Site, case: &Connections, _: &Params) -> Option<Skip> {
        if case.ends == Ends::OneThread && case.listener != Listener::Ready {
            let why = "one thread cannot connect without an acceptor";
            return Some(Skip::because(why).needs("another value of net.connect.ends"));
        }
        place::absent(site, case.ends)
    }

    fn series(site: &Site, cases: Vec<Connections>, params: &Params) -> Result<Offer, Skip> {
        connections::offer(site, cases, params)
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        place::place_all(site, &mut series, |case: &Connections| case.ends);
        Ok(series)
    }

    fn law(facts: Facts, case: &Connections, _: &Case, metric: &Metric) -> Option<Prediction> {
        match law::figure(facts, case, &metric.name) {
            Ok(law) if facts.known.is_none() || law::adds(facts) => Some(law.prediction()),
            Ok(_) => None,
            Err(why) => facts.known.is_none().then(|| unknown(format!("unknown: {why}"))),
        }
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let dial = Dial::new(bench)?;
        // As they are now, in this network namespace.
        let ports = ports::here();
        let sources = Sources::new(dial.address().ip(), &ports, bench.order().seed);
        let mut round = Round { dial, sources, ports };
        let mut no_port = None;
        let mut nobody: Option<String> = None;
        bench.each_of::<Connections>(series, |bench, case, of| {
            if let Some(reason) = &nobody {
                return Err(WrongResult(reason.clone()).into());
            }
            let Err(error) = rounds::measure(bench, case, &of, &mut round) else {
                return Ok(());
            };
            let has_no_port = is_no_port(&error);
            // The next case would wait for the same nobody.
            let is_gone = of.listener == Listener::Ready && nobody_answers(&error);
            if !has_no_port && !is_gone {
                return Err(error);
            }
            let reason = format!("{error:#}");
            nobody = Some(reason.clone());
            if has_no_port {
                no_port.get_or_insert(error);
            }
            Err(WrongResult(reason).into())
        });
        // What else was measured in a round without ports was measured beside a search for them.
        match no_port {
            Some(error) => Err(sources::void(error)),
            None => Ok(()),
        }
    }
}

/// Whether an error is that no connection could be opened at all.
fn nobody_answers(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind;
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        cause.is::<Unanswered>()
            || matches!(
                io,
                Some(
                    ErrorKind::TimedOut
                        | ErrorKind::ConnectionRefused
                        | ErrorKind::HostUnreachable
                        | ErrorKind::NetworkUnreachable
                )
            )
    })
}

#[cfg(test)]
mod tests;

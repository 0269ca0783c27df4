//! What does a TCP connection cost, to set up and to close?
//!
//! ## Question
//!
//! How long do connect, accept and close take, as each end sees them? When does the other end
//! notice? How many connections per second does one acceptor accept, and how much CPU time does a
//! connection cost?
//!
//! ## Method
//!
//! Connections are made one after the other, each from a fresh socket, each to an acceptor that
//! waits in accept(2) (`listener=ready`). The near end is the client. Before each connection the
//! far end reports, over a separate connection, that it is about to accept, and afterwards that it
//! has accepted. The client waits for that at once, which on one CPU gives the acceptor its turn.
//!
//! - `connect`: connect(2) alone (R1). `socket_connect`: socket(2) and connect(2) (R2), without the
//!   calls between them here (time-outs, and the source address).
//! - `accepted`: from the start of the client's connect(2) to the return of the server's accept(2)
//!   (R0). The two times come from two processes. Both read the processor's counter, after its
//!   offset between the CPUs is bounded (or CLOCK_MONOTONIC if the offset is too large). Two hosts
//!   have two clocks, so the figure is not offered there: accept returns between half a round trip
//!   and one round trip after the start, and R0 also reports the client's connect(2) against
//!   another host.
//! - Then the client sends its token, the server replies with one byte, and the connection is
//!   closed: by the client first, or by the server (`closer`). The second end waits in read(2) for
//!   the first one's FIN and closes at once. `client_close` (R1, R2) and `server_close` (R0) are
//!   the times of close(2) at either end, for every second connection.
//! - `client_fin`, `server_fin`: for the others, from the call that sends the FIN until the other
//!   end has acknowledged it: the state in TCP_INFO leaves FIN_WAIT1 (first to close) or LAST_ACK
//!   (second to close). shutdown(2) sends the FIN, the same segment as close(2), because the state
//!   of a closed descriptor cannot be read. Between two reads the thread yields the CPU
//!   (sched_yield).
//! - `accept_rate`: the near end makes up to 64 connections that wait (at most the backlog), then
//!   the acceptor accepts them in a loop of accept(2) alone: connections divided by that time, four
//!   times a round; `accept_cpu` is the acceptor's CPU time per connection. Tokens are checked
//!   afterwards, and the near end resets these connections. `cpu_near` and `cpu_far` are the CPU
//!   time of each end's thread per whole connection, including token, reply and pacing, for every
//!   second connection, the ones closed with close(2). For the others each end polls for the
//!   acknowledgement, which no client or server does.
//!
//! The first `warm_up` connections of a case in a round are dropped, as in R0; fewer if ports, the
//! TIME_WAIT table or time allow fewer, with a note. A case ends with its number of connections or
//! with its time.
//!
//! **Ports.** The end that closes first keeps the connection in TIME_WAIT for 60 s. On loopback
//! clients use rotating addresses of 127.64.0.0/10 (IP_BIND_ADDRESS_NO_PORT: the address is bound,
//! and connect(2) chooses the port), each for at most a sixteenth of its port range and at most 64
//! connections. Listeners and the connections between the two workers have one address: if all that
//! these hold within a minute are more than half of the range, nothing is measured. All rounds of a
//! preset together use at
//! most half of the TIME_WAIT table. To a host on the network connections come from one address:
//! all cases and rounds of a preset together use at most half of net.ipv4.ip_local_port_range, as
//! if none of its ports became free again in time (tcp_tw_reuse, which frees them after a second,
//! is recorded but not relied on). Before each case plumb counts the ports that this and other
//! experiments still hold. EADDRNOTAVAIL voids the round, with a way out in the message.
//!
//! `listener=full`: a queue of 8 (or another length) is filled without an acceptor, and three more
//! connections are begun, whose SYNs are dropped; then the far end accepts. `connect` covers those
//! that had room, `connect_late` those that completed after the SYN was sent again.
//! `listener=refusing`: the port is bound without listening; `connect` is the time until connect(2)
//! reports that.
//!
//! ## Prediction
//!
//! connect = one round trip + the socket's work, as R1 and R2 reason: the kernels handle the SYN
//! and its answer without a wake-up at the far end. On loopback this is a round trip in one thread
//! (net.rtt), else system calls (os.syscall) and the protocol's cycles; if the acceptor sleeps on
//! another CPU, connect also wakes that CPU. To a peer it is net.rtt's figure for that peer, else
//! the path between (link, coalescing). `accepted` adds the wake-up of the acceptor. close is a
//! system call that sends one segment: R1's estimate (getuid, 0.17 µs) left out the segment and was
//! 60 times too small. A FIN's acknowledgement comes with the other end's FIN: a wake-up, its
//! close, and a round trip. A SYN is sent again after 1 s (RFC 6298).
//!
//! ## Reading the result
//!
//! `connect` on loopback is CPU time: three segments go through the stack within the call, on the
//! client's CPU wherever the acceptor runs. Compared with `one_thread` it includes the wake-up of
//! the acceptor: little on one CPU; on another CPU an interrupt to that CPU, which in a virtual
//! machine goes through the hypervisor and may take longer than everything else. The same holds for
//! the close of the end that closes first. To a peer `connect` is the round trip, and only fewer
//! connections save it. `client_close` stays as on loopback or becomes shorter, because close(2)
//! does not wait. `client_fin` less `client_close` is the time until the other end notices.
//! `accept_rate` bounds one acceptor; a server does more per connection, so 1e9 divided by
//! `cpu_far` is closer to the connections that one core serves. A `late_share` (recorded with
//! `connect`) other than 0 means lost SYNs or a full queue: each costs a second, which a mean would
//! hide as a few milliseconds.
//!
//! ## Pitfalls
//!
//! A receiver that does not close delays the acknowledgement of a FIN by 40 ms (delayed
//! acknowledgement), so here a FIN is timed against an end that waits for it. If the second end
//! wakes slowly, some `client_fin` may show that mode. A client that sends nothing before it closes
//! may close before the server accepts: then close(2) and accept(2) run in parallel. Tools that
//! connect in a loop from one address meet EADDRNOTAVAIL after 28,232 connections a minute, and
//! before that a longer search for a free port, which counts as connect. With SYN cookies
//! (tcp_syncookies, a queue that overflows) a connection may exist at one end only. A firewall that
//! drops packets makes a closed port look like a dead host: the case then fails after 5 s. On one
//! CPU the acceptor runs while the client waits. Loopback figures describe memory and system calls:
//! no link.
//!
//! ## Sources
//!
//! [R0] (connection overhead: non-blocking connect to accept, 10,000 times without the first
//! hundred; the server's close), [R1] (connect and close at the client; Table XIV's estimate is
//! 172.53 ns), [R2] (socket and connect; close); [rfc] 9293 (states), 6298 (1 s), 1122 4.2.3.2
//! (delayed acknowledgements); [linux] net/ipv4/tcp_input.c, inet_hashtables.c (the search for a
//! port), inet_timewait_sock.c; [man] ip(7), tcp(7), listen(2); [lmbench] `lat_connect`; [netperf]
//! `TCP_CRR`, `TCP_CC`.

mod far;
mod near;
mod opening;
mod rounds;
mod sources;

use crate::net::wire::{Acceptor, Dialer};
use crate::net::{foretold, place};
use bench::experiment::FAR_PARAM;
use bench::experiment::contract::one_series;
use bench::measure::FarEnd;
use bench::prelude::*;
use host::ports::{self, Ports};
use laws::net::Ends;
use laws::net::connect::{self as law, Closer, Connections, Listener};
use opening::Unanswered;
use rounds::Round;
use sources::{Sources, is_no_port, most_in_round};
use std::io;

bench::experiment!(Connect);

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
        "connect_late" => Ns Lower Os: "connect(2) after a dropped SYN that was sent again";
    },
    params: params![
        &[FAR_PARAM],
        Connections::PARAMS,
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
        Some(|_, far| Acceptor::open(far)?.serve(far, far::serve));
    /// The far end's listener, and the pace's connection; [`sources`] spreads the others.
    const PORTS: fn(&Site, &Connections) -> u64 = |_, _| 2;
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
        let present = Ends::present(site);
        let farthest = &present[present.len() - 1..];
        let is_whole = preset == Preset::Thorough;
        let closers = if is_whole { Closer::ALL } else { &[Closer::Client] };
        let ready = if preset == Preset::Quick { farthest } else { &present };
        let mut cases = Vec::new();
        for &ends in ready {
            let of =
                |&closer| Connections { ends, listener: Listener::Ready, closer: Some(closer) };
            cases.extend(closers.iter().map(of));
        }
        if is_whole {
            let ends = farthest[0];
            let of = |listener| Connections { ends, listener, closer: None };
            cases.extend([Listener::Full, Listener::Refusing].map(of));
        }
        cases
    }

    /// The closing end only matters if an acceptor waits.
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
        let mut offer = one_series::<Connect>(site, cases, params);
        for series in &mut offer.series {
            // As the runs before this one have it.
            series.settings.entry("connections".to_owned()).or_insert_with(|| "auto".into());
            let count = series.cases.len() as u64;
            for case in &mut series.cases {
                for (name, bound) in bounds(site, params, case, count)? {
                    case.at.put_known(name, bound);
                }
            }
        }
        offer.or_reason()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        Ok(place::place_all(site, series, |case: &Connections| case.ends))
    }

    fn law(facts: Facts, case: &Connections, _: &Case, metric: &Metric) -> Option<Prediction> {
        foretold(facts, || law::adds(facts), law::figure(facts, case, &metric.name))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let dialer = Dialer::new(bench)?;
        // As they are now, in this network namespace.
        let ports = ports::here();
        let sources = Sources::new(dialer.address.ip(), &ports, bench.order().seed);
        let mut round = Round { dialer, sources, ports };
        let (mut no_port, mut nobody): (_, Option<String>) = (None, None);
        bench.each_of::<Connections>(series, |bench, case, of| {
            if let Some(reason) = &nobody {
                return Err(WrongResult(reason.clone()).into());
            }
            let Err(error) = rounds::measure(bench, case, &of, &mut round) else {
                return Ok(());
            };
            let has_no_port = is_no_port(&error);
            // The next case would wait for the same missing server.
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
        no_port.map_or(Ok(()), |error| Err(sources::void(error)))
    }
}

/// Whether an error is that no connection could be opened at all.
fn nobody_answers(error: &anyhow::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let kinds = [ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut];
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        cause.is::<Unanswered>() || io.is_some_and(|error| kinds.contains(&error.kind()))
    })
}

/// Fewer connections of a case in a round make no figure.
const CONNECTIONS_MIN: u64 = 6;
/// Connections of a case in a round, those of the warm-up not among them, and the time that they may
/// take, in times of a case: cases over loopback need about half of that, and cases to a peer get
/// fewer connections.
fn most(preset: Preset) -> (u64, u64) {
    match preset {
        Preset::Rehearsal => (CONNECTIONS_MIN, 50),
        Preset::Quick => (200, 2),
        Preset::Standard => (500, 6),
        Preset::Thorough => (2000, 20),
    }
}

/// A warm-up takes at most this part of what a case may make.
const WARM_UP_PART: u64 = 3;
/// In a rehearsal it is as short as everything.
const WARM_UP_REHEARSAL: u64 = 2;
/// Linux's default `somaxconn` before version 5.4.
const QUEUE_DEFAULT: u64 = 128;
/// Connections that a full queue has: few, because each takes a system call.
const FULL_BACKLOG: u64 = 8;

/// What bounds the connections of a case, one of so many, as far as it is known.
fn bounds(
    site: &Site,
    params: &Params,
    case: &Case,
    cases: u64,
) -> Result<[(&'static str, Option<u64>); 10], Skip> {
    let ports = &site.host.net.ports;
    let is_remote = site.peer.is_some();
    let rounds = params.preset.looks().last().copied().unwrap_or(1);
    let in_round = most_in_round(ports, is_remote, rounds);
    let each = in_round / cases.max(1);
    let (auto, windows) = most(params.preset);
    let told = |name: &str| params.ints(name).first().copied();
    let asked = told("connections").unwrap_or(auto);
    let warm_up_asked = match told("warm_up") {
        Some(count) if params.preset != Preset::Rehearsal => count,
        _ => WARM_UP_REHEARSAL,
    };
    let warm_up = warm_up_asked.min(each / WARM_UP_PART);
    let connections = asked.min(each - warm_up);
    if connections < CONNECTIONS_MIN.min(asked) {
        return Err(few(ports, is_remote, rounds, cases));
    }
    let queue_max = site.peer.as_ref().map_or(&site.host, |peer| &peer.host).net.ports.queue_max;
    let backlog = match case.text("listener") == Some(Listener::Full.text()) {
        true => FULL_BACKLOG,
        false => told("backlog").unwrap_or(BACKLOG),
    };
    Ok([
        ("connections", Some(connections)),
        ("warm_up", Some(warm_up)),
        ("connections_asked", Some(asked)),
        ("warm_up_asked", Some(warm_up_asked)),
        ("most_in_round", Some(in_round)),
        ("window_ns", Some(site.case_ns * windows)),
        ("ports", Some(ports.usable())),
        ("backlog", Some(backlog.min(queue_max.unwrap_or(QUEUE_DEFAULT)))),
        ("somaxconn", queue_max),
        ("tw_reuse", ports.time_wait_reuse),
    ])
}

fn few(ports: &Ports, is_remote: bool, rounds: u32, cases: u64) -> Skip {
    let (what, way_out) = match is_remote {
        true => (
            format!("{} ports to connect from", ports.usable()),
            "sysctl -w net.ipv4.ip_local_port_range='1024 65535', or fewer cases",
        ),
        false => (
            "the table of connections in TIME_WAIT".to_owned(),
            "sysctl -w net.ipv4.tcp_max_tw_buckets=65536, or fewer cases",
        ),
    };
    Skip::because(format!(
        "half of {what} is too little for {cases} cases in {rounds} rounds: closed connections \
         stay in TIME_WAIT for 60 s"
    ))
    .needs(way_out)
}

#[cfg(test)]
mod tests;

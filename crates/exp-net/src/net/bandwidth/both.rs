//! A case from its call to its counts, at both ends.

use super::counts;
use super::receive::{quiet, receive};
use super::send::send;
use super::shape::{Ask, Direction, Enough, Protocol, RUN_MAX, Received, STEADY, Shape, Transfer};
use super::socket::Socket;
use super::transfers::{
    Served, already_there, fixed, serve_fixed, serve_there_and_back, there_and_back,
};
use crate::net::ends::{Call, Dial, Door, Line, PATIENCE};
use crate::net::place::{TWO_HOSTS, near_cpus, pin_far};
use crate::net::turns::Turns;
use anyhow::{Context, Error, Result, ensure};
use bench::measure::{Bench, FarEnd};
use record::case::Case;
use record::key::Value;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// A rate of a window as long as this may be that of a device, a token bucket or congestion control.
const SETTLED_NS: u64 = 500_000_000;
/// Windows in case times: that of a rate (half a second and more by every preset's), and those of bursts and
/// transfers, which between hosts have to pass a shaper's bucket.
const RUN_CASES_RATE: u64 = 42;
const RUN_CASES: u64 = 5;
const RUN_CASES_HALVES: u64 = 2;
const RUN_CASES_HOSTS: u64 = 10;
/// Bytes of a message whose TCP streams on loopback have the window of a rate.
const RATE_MESSAGE: u64 = 128 << 10;
/// A far end that failed says why in this time.
const WORDS_WITHIN: Duration = Duration::from_millis(500);

/// What it says begins so ([`Line::hear`]).
const FAR_WORDS: &str = "the far end";

/// What of a case holds the setting `time`, in ns.
pub(super) const RUN_AT: &str = "run_ns";

/// The far end cannot be called any more; no further case of the round can be measured.
#[derive(Debug, thiserror::Error)]
#[error("the far end cannot be called")]
pub(super) struct Unreachable;

/// How long a case streams at least, in ns: as the user says, else by the preset's case time.
pub(super) fn run_ns(case: &Case, case_ns: u64) -> u64 {
    asked_ns(case).unwrap_or(match case.text("ends") {
        _ if case.text("transfer") == Some(STEADY) && is_rate(case) => RUN_CASES_RATE * case_ns,
        Some(TWO_HOSTS) => RUN_CASES_HOSTS * case_ns,
        _ => RUN_CASES * case_ns / RUN_CASES_HALVES,
    })
}

fn asked_ns(case: &Case) -> Option<u64> {
    case.at.get(RUN_AT).and_then(Value::int)
}

/// Whether what a stream brings is called a rate: its window is long enough for what stands behind it, a
/// device between hosts and congestion control on loopback. That of any other is a burst.
pub(super) fn is_rate(case: &Case) -> bool {
    match asked_ns(case) {
        Some(asked_ns) => asked_ns >= SETTLED_NS,
        None if case.text("ends") == Some(TWO_HOSTS) => true,
        None => case.text("protocol") == Some("tcp") && case.int("message") == Some(RATE_MESSAGE),
    }
}

/// Measures a case against the far end and records it.
///
/// # Errors
/// Why there is no figure.
pub(super) fn measure(
    bench: &mut Bench,
    dial: &mut Dial,
    case: &Case,
    interval_ns: u64,
) -> Result<()> {
    let shape = Shape::of(case)?;
    near_cpus(bench, case)?;
    let cpus = shape.cpus(&bench.order().cpus, true);
    bench.use_cpus(&cpus);
    let ask = Ask { run_ns: run_ns(case, bench.order().case_ns), interval_ns };
    let mut line = dial.call(case, &ask).context(Unreachable)?;
    let turns = Turns::begin();
    let measured = with_line(bench, dial, case, &shape, &ask, &cpus, &mut line);
    if shape.shares_cpus(bench.order().cpus.len()) {
        bench.planned_switches(turns.taken());
    }
    measured.map_err(|error| explained(error, &mut line))
}

fn with_line(
    bench: &mut Bench,
    dial: &mut Dial,
    case: &Case,
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
    line: &mut Line,
) -> Result<()> {
    let sockets = connect(dial, shape, line)?;
    match shape.transfer {
        Transfer::Steady if shape.direction == Direction::Up => {
            let sent = send(&sockets, shape, ask, cpus, line)?;
            let received =
                line.hear::<Received>(PATIENCE).context("waiting for what the receiver got")?;
            counts::steady(bench, case, shape, &sent, &received)
        }
        Transfer::Steady => {
            let (received, sent) = receive(&sockets, shape, ask, cpus, line)?;
            counts::steady(bench, case, shape, &sent, &received)
        }
        Transfer::Fixed(bytes) => {
            let timed = fixed(&sockets[0], shape, ask, bytes, cpus)?;
            let served = line.hear::<Served>(PATIENCE)?;
            counts::transfers(bench, case, shape, bytes, &timed, &served)
        }
        Transfer::ThereAndBack => {
            let timed = there_and_back(&sockets, shape, ask, cpus)?;
            line.tell(&Enough)?;
            let served = line.hear::<Served>(PATIENCE)?;
            let bytes = 2 * shape.message as u64;
            counts::transfers(bench, case, shape, bytes, &timed, &served)
        }
        Transfer::AlreadyThere => {
            let times = already_there(&sockets[0], shape, ask, bench.clock())?;
            line.hear::<Served>(PATIENCE)?;
            counts::copies(bench, case, shape, &times)
        }
    }
}

/// The near end's sockets, each connected to one of the far end's.
fn connect(dial: &mut Dial, shape: &Shape, line: &mut Line) -> Result<Vec<Socket>> {
    match shape.protocol {
        Protocol::Tcp => (0..shape.streams).map(|_| Socket::stream(dial.connect()?)).collect(),
        Protocol::Udp => {
            let ports: Vec<u16> = line.hear(PATIENCE).context("waiting for the far end's ports")?;
            ensure!(
                ports.len() == shape.streams,
                "the far end has {} ports for {} streams",
                ports.len(),
                shape.streams
            );
            let quiet = quiet(line);
            let ports = ports.into_iter();
            ports.map(|port| Socket::datagrams(dial.meet(port)?, quiet)).collect()
        }
    }
}

/// An error, with what the far end says to it.
fn explained(error: Error, line: &mut Line) -> Error {
    if !line.speaks(WORDS_WITHIN).unwrap_or(false) {
        return error;
    }
    let theirs = line.hear::<serde_json::Value>(WORDS_WITHIN).err();
    match theirs.map(|theirs| format!("{theirs:#}")) {
        Some(theirs) if theirs.starts_with(FAR_WORDS) => error.context(theirs),
        _ => error,
    }
}

/// Serves a case at the far end.
///
/// # Errors
/// Why the near end gets no counts.
pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let shape = Shape::of(&call.case)?;
    let mut ask: Ask = serde_json::from_value(call.ask.clone()).context("what is asked for")?;
    ask.run_ns = ask.run_ns.min(RUN_MAX.as_nanos() as u64);
    pin_far(far, &call.case)?;
    let cpus = shape.cpus(&far.order().cpus, false);
    far.use_cpus(&cpus);
    let line = &mut call.line;
    let sockets = admit(door, far, &shape, line)?;
    let turns = Turns::begin();
    match shape.transfer {
        Transfer::Steady if shape.direction == Direction::Up => {
            let (received, _) = receive(&sockets, &shape, &ask, &cpus, line)?;
            line.tell(&received)?;
        }
        Transfer::Steady => {
            send(&sockets, &shape, &ask, &cpus, line)?;
        }
        Transfer::Fixed(bytes) => {
            let served = serve_fixed(&sockets[0], &shape, bytes, &cpus)?;
            line.tell(&served)?;
        }
        Transfer::ThereAndBack => {
            let served = serve_there_and_back(&sockets, &shape, &cpus, line)?;
            line.tell(&served)?;
        }
        Transfer::AlreadyThere => {
            let served = serve_fixed(&sockets[0], &shape, shape.message as u64, &cpus)?;
            line.tell(&served)?;
        }
    }
    if shape.shares_cpus(far.order().cpus.len()) {
        far.planned_switches(turns.taken());
    }
    Ok(())
}

/// The far end's sockets, each connected to one of the near end's.
fn admit(door: &mut Door, far: &mut FarEnd, shape: &Shape, line: &mut Line) -> Result<Vec<Socket>> {
    let until = Instant::now() + PATIENCE;
    match shape.protocol {
        Protocol::Tcp => {
            let streams = door.admit_all(shape.streams, until)?;
            streams.into_iter().map(Socket::stream).collect()
        }
        Protocol::Udp => {
            let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let address = far.order().far_address.unwrap_or(loopback);
            let bind = |_| UdpSocket::bind((address, 0)).context("a socket for datagrams");
            let sockets: Vec<UdpSocket> = (0..shape.streams).map(bind).collect::<Result<_>>()?;
            let port = |socket: &UdpSocket| Ok(socket.local_addr()?.port());
            let ports: Vec<u16> = sockets.iter().map(port).collect::<Result<_>>()?;
            line.tell(&ports)?;
            let quiet = quiet(line);
            let meet = |socket: UdpSocket| {
                door.meet(&socket, until)?;
                Socket::datagrams(socket, quiet)
            };
            sockets.into_iter().map(meet).collect()
        }
    }
}

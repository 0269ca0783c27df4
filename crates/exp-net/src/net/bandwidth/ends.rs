//! A case from its call to its counts, at both ends.

use super::counts::Counts;
use super::receive::{quiet, receive};
use super::reports;
use super::send::send;
use super::shape::{Ask, RUN_MAX, Shape};
use super::socket::limited;
use crate::net::ends::{Call, Dial, Door, Line, PATIENCE};
use crate::net::place::{near_cpus, pin_far};
use crate::net::usage::Turns;
use anyhow::{Context, Result};
use bench::measure::{Bench, Declared, FarEnd};
use laws::net::bandwidth::{Bytes, Direction, Transfer};
use laws::net::{Ends, Protocol};
use record::case::Case;
use record::key::Value;
use std::time::Duration;

/// A rate of a window as long as this may be that of a device, a token bucket or congestion
/// control.
const SETTLED_NS: u64 = 500_000_000;
/// Windows in case times: that of a rate (half a second and more by every preset's), and those of
/// bursts and transfers, which between hosts have to pass a shaper's bucket.
const RUN_CASES_RATE: u64 = 42;
const RUN_CASES: u64 = 5;
const RUN_CASES_HALVES: u64 = 2;
const RUN_CASES_HOSTS: u64 = 10;
/// Bytes of a message whose TCP streams on loopback have the window of a rate.
const RATE_MESSAGE: u64 = 128 << 10;
/// A far end that failed says why in this time.
const WORDS_WITHIN: Duration = Duration::from_millis(500);

/// What of a case holds the setting `time`, in ns.
pub(super) const RUN_AT: &str = "run_ns";

/// The far end cannot be called any more; no further case of the round can be measured.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to the far end")]
pub(super) struct Unreachable;

/// How long a case streams at least, in ns: as the user says, else by the preset's case time.
pub(super) fn run_ns(of: &Bytes, at: &Case, case_ns: u64) -> u64 {
    asked_ns(at).unwrap_or(match (of.transfer, of.ends) {
        (Transfer::Steady, _) if is_rate(of, at) => RUN_CASES_RATE * case_ns,
        (_, Ends::TwoHosts) => RUN_CASES_HOSTS * case_ns,
        _ => RUN_CASES * case_ns / RUN_CASES_HALVES,
    })
}

fn asked_ns(at: &Case) -> Option<u64> {
    at.at.get(RUN_AT).and_then(Value::int)
}

/// Whether what a stream brings is called a rate: its window is long enough for what stands behind
/// it, a device between hosts and congestion control on loopback. That of any other is a burst.
pub(super) fn is_rate(of: &Bytes, at: &Case) -> bool {
    match asked_ns(at) {
        Some(asked_ns) => asked_ns >= SETTLED_NS,
        None if of.ends == Ends::TwoHosts => true,
        None => of.protocol == Protocol::Tcp && of.message == RATE_MESSAGE,
    }
}

pub(super) fn measure(
    bench: &mut Bench,
    dial: &mut Dial,
    case: &Case,
    of: Bytes,
    interval_ns: u64,
) -> Result<()> {
    let shape = Shape::new(of, case)?;
    near_cpus(bench, case)?;
    let cpus = shape.cpus(&bench.order().cpus, true);
    bench.declare(Declared::Cpus(&cpus));
    let run_ns = run_ns(&shape.of, case, bench.order().case_ns);
    let ask = Ask { run_ns, interval_ns };
    let mut line = dial.call(case, &ask).context(Unreachable)?;
    let turns = Turns::begin();
    let measured = with_line(bench, dial, case, &shape, &ask, &cpus, &mut line);
    if shape.shares_cpus(bench.order().cpus.len()) {
        bench.declare(Declared::Switches(turns.taken()));
    }
    measured.map_err(|error| line.explained(error, WORDS_WITHIN))
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
    let sockets = dial.sockets(line, shape.of.protocol, shape.streams)?;
    let sockets = limited(sockets, quiet(line))?;
    let counts = match (shape.of.transfer, shape.of.direction) {
        (Transfer::Steady, Direction::Up) => {
            let sent = send(&sockets, shape, ask, cpus, line)?;
            let received = line.hear(PATIENCE).context("waiting for the receiver's counts")?;
            Counts { sent, received }
        }
        (Transfer::Steady, Direction::Down) => receive(&sockets, shape, ask, cpus, line)?,
        _ => return reports::measure(bench, case, shape, ask, (cpus, &sockets), line),
    };
    counts.record(bench, case, shape)
}

pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let shape = Shape::new(call.decode()?, &call.case)?;
    let mut ask: Ask = call.ask()?;
    ask.run_ns = ask.run_ns.min(RUN_MAX.as_nanos() as u64);
    pin_far(far, &call.case, shape.of.ends)?;
    let cpus = shape.cpus(&far.order().cpus, false);
    far.use_cpus(&cpus);
    let line = &mut call.line;
    let sockets = door.sockets(far, line, shape.of.protocol, shape.streams)?;
    let sockets = limited(sockets, quiet(line))?;
    let turns = Turns::begin();
    match (shape.of.transfer, shape.of.direction) {
        (Transfer::Steady, Direction::Up) => {
            let counts = receive(&sockets, &shape, &ask, &cpus, line)?;
            line.tell(&counts.received)?;
        }
        (Transfer::Steady, Direction::Down) => {
            send(&sockets, &shape, &ask, &cpus, line)?;
        }
        _ => reports::serve(&sockets, &shape, &cpus, line)?,
    }
    if shape.shares_cpus(far.order().cpus.len()) {
        far.planned_switches(turns.taken());
    }
    Ok(())
}

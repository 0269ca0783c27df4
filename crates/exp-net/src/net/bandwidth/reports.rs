//! Methods that only replay the reports' own: transfers of fixed size (R1, R2), messages that come
//! back (R3), and reads of what is there already (R0). Nothing else uses what is here.

use super::ends::{processor, remarks};
use super::shape::{Ask, Enough, RUN_MAX, STALL, Shape};
use crate::net::place::{self, Usage, Used};
use crate::net::wire::timed::{
    LOST_MOST_NS, Plan, Prober, Ran, echo, pattern, probe_all, stream_limit_ns,
};
use crate::net::wire::{Line, PATIENCE, Socket};
use bench::prelude::*;
use laws::net::bandwidth::{Direction, Transfer};
use metal::backlog::unread_bytes;
use metal::socket::Wait;
use serde::{Deserialize, Serialize};
use stats::trend;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Instant;

/// A transfer of fixed size takes no longer, or its case fails.
const TRANSFER_MAX: Duration = Duration::from_secs(15);
/// Reads before those that count, which let the receive buffer grow.
const READS_BEFORE: u32 = 16;
/// What is not there whole after this time does not fit, where it is waited for.
const FITS_WITHIN: Duration = Duration::from_millis(500);
/// The same of the reads before.
const TRIED_FOR: Duration = Duration::from_millis(2);
/// Times that are kept of a window.
const TIMES_MAX: usize = 50_000;
/// A datagram that is not back after this time is lost, in ns.
const LOST_AFTER_NS: f64 = 1e8;
/// A window of transfers of fixed size has three, as long as that takes no longer than one may.
const LEAST: (u64, Duration) = (3, Duration::from_secs(TRANSFER_MAX.as_secs() / 3));
/// A far end that sends messages back looks so long after its window whether it is to go on.
const LOOK: Duration = Duration::from_millis(100);

/// One stream's exchanges: times of those that came back, in ns, the number of all, the window that
/// they took, and how many were lost.
struct Exchanges {
    times: Vec<f64>,
    count: u64,
    window_ns: f64,
    lost: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) count: u64,
    pub(super) used: Used,
}

pub(super) fn measure(
    bench: &mut Bench,
    case: &Case,
    shape: &Shape,
    ask: &Ask,
    (cpus, sockets): (&[usize], Vec<Socket>),
    line: &mut Line,
) -> Result<()> {
    let clock = bench.order().clock();
    let stream = sockets.first().context("no stream")?;
    let (streams, near) = match shape.bytes.transfer {
        Transfer::AlreadyThere => {
            let times = already_there(stream, shape, ask, clock)?;
            line.hear::<Served>(PATIENCE)?;
            return copies(bench, case, shape, &times);
        }
        Transfer::ThereAndBack => {
            let ran = there_and_back(sockets, shape, ask, (cpus, clock))?;
            line.tell(&Enough)?;
            let process_ns = ran.iter().map(|ran| ran.cpu_ns).sum();
            let count = ran.iter().map(|ran| ran.timed).sum();
            let exchanges = |ran: Ran| Exchanges {
                times: ran.ticks.iter().map(|ticks| clock.ns(*ticks)).collect(),
                count: ran.ticks.len() as u64,
                window_ns: clock.ns(ran.window),
                lost: ran.lost,
            };
            let used = Used { process_ns, ..Used::default() };
            (ran.into_iter().map(exchanges).collect(), Served { count, used })
        }
        _ => {
            let usage = Usage::begin(cpus);
            let all = transferred(stream, shape, ask)?;
            let near = Served { count: all.count, used: usage.end() };
            (vec![all], near)
        }
    };
    let far = line.hear::<Served>(PATIENCE)?;
    transfers(bench, case, shape, &streams, [near, far])
}

pub(super) fn serve(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
    line: &mut Line,
) -> Result<()> {
    let served = match shape.bytes.transfer {
        Transfer::ThereAndBack => sent_back(sockets, shape, ask, cpus, line)?,
        _ => {
            let usage = Usage::begin(cpus);
            let count = answered(sockets.first().context("no stream")?, shape)?;
            Served { count, used: usage.end() }
        }
    };
    line.tell(&served)
}

/// Messages that come back whole, on every stream at once, at the near end.
fn there_and_back(
    sockets: Vec<Socket>,
    shape: &Shape,
    ask: &Ask,
    (cpus, clock): (&[usize], Clock),
) -> Result<Vec<Ran>> {
    let prober = |socket: Socket| {
        let message = shape.bytes.message;
        let limit_ns = if socket.is_stream { stream_limit_ns(message) } else { LOST_MOST_NS };
        let is_stream = socket.is_stream;
        let mut prober = Prober::new(socket, None, message, Wait::Block, (clock, limit_ns))?;
        if !is_stream {
            prober.lose_after(LOST_AFTER_NS);
        }
        Ok(prober)
    };
    let mut probers: Vec<Prober> = sockets.into_iter().map(prober).collect::<Result<_>>()?;
    let plan = Plan { window_ns: ask.run_ns as f64, ..Plan::default() };
    let ran = probe_all(&mut probers, (cpus, shape.is_free), &plan);
    probers.iter().for_each(Prober::finish);
    ran
}

/// The far end of [`there_and_back`]: until the near end says that it has enough.
fn sent_back(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
    line: &mut Line,
) -> Result<Served> {
    let until = Instant::now() + RUN_MAX + PATIENCE;
    let goes_on = || {
        ensure!(Instant::now() < until, "the near end did not stop");
        Ok(line.is_quiet())
    };
    let look_after = LOOK + 2 * Duration::from_nanos(ask.run_ns);
    let work = |socket: &Socket| echo(socket, shape.message, Wait::Block, look_after, goes_on);
    let echoed = place::at_once(sockets, place::places(cpus, shape.is_free), Ok, work)?;
    line.hear::<Enough>(PATIENCE)?;
    let process_ns = echoed.iter().map(|one| one.cpu_ns).sum();
    Ok(Served {
        count: echoed.iter().map(|one| one.messages).sum(),
        used: Used { process_ns, ..Used::default() },
    })
}

/// Bytes of a transfer of fixed size that go there and back: it is acknowledged by one byte, or
/// wished for by one.
fn sides(shape: &Shape) -> [u64; 2] {
    match shape.bytes.direction {
        Direction::Up => [shape.whole_bytes(), 1],
        Direction::Down => [1, shape.whole_bytes()],
    }
}

/// Transfers by a stream, at the near end: at least so many as [`LEAST`] says.
fn transferred(stream: &Socket, shape: &Shape, ask: &Ask) -> Result<Exchanges> {
    let mut buffer = pattern(shape.message);
    let [there, back] = sides(shape);
    let run = Duration::from_nanos(ask.run_ns);
    let (mut times, mut count) = (Vec::with_capacity(1024), 0);
    let began = Instant::now();
    let mut start = began;
    loop {
        let until = start + TRANSFER_MAX;
        give(stream, &buffer, there, until)?;
        take(stream, &mut buffer, back, until)?;
        let end = Instant::now();
        count += 1;
        if times.len() < TIMES_MAX {
            times.push((end - start).as_nanos() as f64);
        }
        let passed = end - began;
        if passed >= run && (count >= LEAST.0 || passed >= LEAST.1) {
            stream.options().shutdown(Shutdown::Write).context("ending a stream")?;
            let window_ns = passed.as_nanos() as f64;
            return Ok(Exchanges { times, count, window_ns, lost: 0 });
        }
        start = end;
    }
}

/// The far end of [`transferred`]: until the near end ends the stream; how many there were.
fn answered(stream: &Socket, shape: &Shape) -> Result<u64> {
    let mut buffer = pattern(shape.message);
    let [there, back] = sides(shape);
    let mut count = 0;
    loop {
        // The first bytes show whether there is one more.
        let first = moved(stream.receive(&mut buffer, Wait::Block))? as u64;
        if first == 0 {
            return Ok(count);
        }
        let until = Instant::now() + TRANSFER_MAX;
        take(stream, &mut buffer, there.saturating_sub(first), until)?;
        give(stream, &buffer, back, until)?;
        count += 1;
    }
}

/// Times of single calls that read a message which is there whole, in ns, at the near end: the far
/// end sends one for each sign.
fn already_there(stream: &Socket, shape: &Shape, ask: &Ask, clock: Clock) -> Result<Vec<f64>> {
    let mut buffer = pattern(shape.message);
    let whole = shape.message as u64;
    for _ in 0..READS_BEFORE {
        let until = Instant::now() + TRANSFER_MAX;
        give(stream, &buffer, 1, until)?;
        let _ = lies_there(stream, shape.message, TRIED_FOR)?;
        take(stream, &mut buffer, whole, until)?;
    }
    let (began, run) = (Instant::now(), Duration::from_nanos(ask.run_ns));
    let mut times = Vec::new();
    while times.len() < TIMES_MAX && (began.elapsed() < run || times.is_empty()) {
        give(stream, &buffer, 1, Instant::now() + STALL)?;
        ensure!(
            lies_there(stream, shape.message, FITS_WITHIN)?,
            "of {} B only {} B reached the receive buffer in time",
            shape.message,
            unread_bytes(stream.as_fd())?
        );
        let start = clock.start();
        let bytes = stream.receive(&mut buffer, Wait::Block);
        let end = clock.end();
        let bytes = moved(bytes)?;
        ensure!(
            bytes == shape.message,
            "one call read only {bytes} B of {} available",
            shape.message
        );
        times.push(clock.between_ns(start, end));
    }
    stream.options().shutdown(Shutdown::Write).context("ending a stream")?;
    Ok(times)
}

/// Waits awake until so many bytes wait to be read; whether they do in time.
fn lies_there(stream: &Socket, bytes: usize, patience: Duration) -> Result<bool> {
    let until = Instant::now() + patience;
    loop {
        if unread_bytes(stream.as_fd())? >= bytes {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        // The sender may need this CPU.
        std::thread::yield_now();
    }
}

/// Writes so many bytes, a message a call.
fn give(stream: &Socket, message: &[u8], bytes: u64, until: Instant) -> Result<()> {
    whole(message.len(), bytes, until, |most| moved(stream.send(&message[..most])))
}

/// Reads so many bytes, a message a call at most.
fn take(stream: &Socket, message: &mut [u8], bytes: u64, until: Instant) -> Result<()> {
    whole(message.len(), bytes, until, |most| {
        moved(stream.receive(&mut message[..most], Wait::Block))
    })
}

fn whole(
    piece: usize,
    bytes: u64,
    until: Instant,
    mut call: impl FnMut(usize) -> Result<usize>,
) -> Result<()> {
    let mut left = bytes;
    while left > 0 {
        let moved = call(usize::try_from(left).unwrap_or(usize::MAX).min(piece))?;
        ensure!(moved > 0, "the other end ended the stream in the middle of a transfer");
        left -= moved as u64;
        ensure!(
            left == 0 || Instant::now() < until,
            "{left} of {bytes} B were still missing after {} s",
            TRANSFER_MAX.as_secs()
        );
    }
    Ok(())
}

/// Bytes of a call that waits no longer than its socket's time-out.
fn moved(call: std::io::Result<Option<usize>>) -> Result<usize> {
    let moved = call.context("the stream broke")?;
    let stalled = || format!("the other end sent and read nothing for {} s", STALL.as_secs());
    moved.with_context(stalled)
}

fn transfers(
    bench: &mut Bench,
    case: &Case,
    shape: &Shape,
    streams: &[Exchanges],
    ends: [Served; 2],
) -> Result<()> {
    let bytes = match shape.bytes.transfer {
        Transfer::ThereAndBack => 2 * shape.bytes.message,
        _ => shape.whole_bytes(),
    };
    let whole_ns = streams.iter().map(|of| of.window_ns).fold(0.0, f64::max);
    let all: u64 = streams.iter().map(|of| of.count).sum();
    let not_back: u64 = streams.iter().map(|of| of.lost).sum();
    let (mut kept, mut cold) = (Vec::new(), 0);
    let mut rate = 0.0;
    for Exchanges { times, count, window_ns, .. } in streams {
        // A window that has to grow first belongs to the connection's start, not to the figure.
        let warm_up = trend::warm_up(times);
        let discard = if warm_up.settled { warm_up.discard } else { 0 };
        let cold_ns: f64 = times[..discard].iter().sum();
        rate += (count - discard as u64) as f64 * bytes as f64 * 1e9 / (window_ns - cold_ns);
        kept.extend_from_slice(&times[discard..]);
        cold += discard;
    }
    let best_ns = kept.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(best_ns.is_finite(), "no transfer completed");
    if not_back > 0 {
        // One that did not come back took at least so long: left out it would make a bad way look
        // good.
        let asked = kept.len() as u64 + not_back;
        kept.retain(|ns| *ns < LOST_AFTER_NS);
        let lost = asked - kept.len() as u64;
        bench.record(case, "transfer_time", Values::censored(kept, lost, LOST_AFTER_NS))?;
    } else {
        bench.record(case, "transfer_time", kept)?;
    }
    // The best transfers of all streams do not happen at the same time, so one stream's counts.
    let best = bytes as f64 * 1e9 / best_ns;
    bench.record(case, "peak", Values::batches(1, vec![best]))?;
    let samples = bench.record(case, "bandwidth", Values::block(rate))?;
    let quantities = [
        ("transfers", all as f64),
        ("discarded_transfers", cold as f64),
        ("transfer_bytes", bytes as f64),
        ("lost_messages", not_back as f64),
        ("window_ns", whole_ns),
    ];
    samples.set_quantities(quantities);
    remarks(&mut samples.notes, shape);
    for (end, Served { count, used }) in ["near", "far"].into_iter().zip(ends) {
        let total = (count * bytes) as f64;
        processor(bench, case, &used, end, total, total / shape.message as f64)?;
    }
    Ok(())
}

fn copies(bench: &mut Bench, case: &Case, shape: &Shape, times: &[f64]) -> Result<()> {
    let bytes = shape.message as f64;
    let calibration = &bench.order().calibration;
    let (resolution_ns, pair_ns) = (calibration.resolution_ns, calibration.pair_cost_ns);
    let all_ns: f64 = times.iter().sum();
    let middle = stats::quantile::median(times).context("no read completed")?;
    let samples =
        bench.record(case, "copy_rate", Values::batches(1, vec![bytes * 1e9 / middle]))?;
    samples.set_quantities([
        ("reads", times.len() as f64),
        ("median_ns", middle),
        ("mean_ns", all_ns / times.len() as f64),
        ("resolution_ns", resolution_ns),
        ("pair_ns", pair_ns),
    ]);
    let note =
        "copy rate: one call copies data that the kernel has already received, without a transfer";
    samples.notes.push(note.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests;

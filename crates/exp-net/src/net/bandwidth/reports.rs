//! Methods that only replay the reports' own: transfers of fixed size (R1, R2), messages that come
//! back (R3), and reads of what is there already (R0). Nothing else uses what is here.

use super::ends::{processor, remarks};
use super::shape::{Ask, Enough, NUMBER_BYTES, RUN_MAX, STALL, Shape, filled, is_timeout};
use crate::net::ends::{Line, PATIENCE, Socket};
use crate::net::place::{Usage, Used};
use bench::measure::{Gate, beside};
use bench::prelude::*;
use laws::net::Protocol;
use laws::net::bandwidth::{Direction, Transfer};
use metal::backlog::{is_refusal, unread_bytes};
use serde::{Deserialize, Serialize};
use stats::trend;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// A datagram that is not back after this time is lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// The waits of so many lost ones at most prolong a window.
const LOST_MAX: u32 = 10;
/// A window has one exchange at least, however long its first is waited for; of fixed size three,
/// as long as that takes no longer than one may.
const ONE: (u64, Duration) = (1, STALL);
const THREE: (u64, Duration) = (3, Duration::from_secs(TRANSFER_MAX.as_secs() / 3));

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
    count: u64,
    used: Used,
}

pub(super) fn measure(
    bench: &mut Bench,
    case: &Case,
    shape: &Shape,
    ask: &Ask,
    (cpus, sockets): (&[usize], &[Socket]),
    line: &mut Line,
) -> Result<()> {
    let found = match shape.bytes.transfer {
        Transfer::AlreadyThere => {
            let times = already_there(&sockets[0], shape, ask, bench.order().clock())?;
            line.hear::<Served>(PATIENCE)?;
            return copies(bench, case, shape, &times);
        }
        Transfer::ThereAndBack => {
            let found = there_and_back(sockets, shape, ask, cpus)?;
            line.tell(&Enough)?;
            found
        }
        _ => {
            let usage = Usage::begin(cpus);
            let all = transferred(stream(&sockets[0])?, shape, ask, THREE)?;
            (vec![all], usage.end())
        }
    };
    let served = line.hear::<Served>(PATIENCE)?;
    transfers(bench, case, shape, &found, &served)
}

pub(super) fn serve(
    sockets: &[Socket],
    shape: &Shape,
    cpus: &[usize],
    line: &mut Line,
) -> Result<()> {
    let served = match shape.bytes.transfer {
        Transfer::ThereAndBack => serve_there_and_back(sockets, shape, cpus, line)?,
        _ => {
            let usage = Usage::begin(cpus);
            let count = answered(stream(&sockets[0])?, shape)?;
            Served { count, used: usage.end() }
        }
    };
    line.tell(&served)
}

fn stream(socket: &Socket) -> Result<&TcpStream> {
    match socket {
        Socket::Stream(stream) => Ok(stream),
        Socket::Datagram(_) => bail!("expected a stream, got datagrams"),
    }
}

/// Bytes that go there and back in an exchange. What has a size is acknowledged by one byte, or
/// wished for by one.
fn sides(shape: &Shape) -> [u64; 2] {
    match (shape.bytes.transfer, shape.bytes.direction) {
        (Transfer::ThereAndBack, _) => [shape.bytes.message; 2],
        (_, Direction::Up) => [shape.whole_bytes(), 1],
        (_, Direction::Down) => [1, shape.whole_bytes()],
    }
}

/// Exchanges by a stream, at the near end.
fn transferred(
    stream: &TcpStream,
    shape: &Shape,
    ask: &Ask,
    least: (u64, Duration),
) -> Result<Exchanges> {
    let mut buffer = filled(shape.message);
    let [there, back] = sides(shape);
    let all = exchanges(Duration::from_nanos(ask.run_ns), least, |_| {
        let until = Instant::now() + TRANSFER_MAX;
        give(stream, &buffer, there, until)?;
        take(stream, &mut buffer, back, until)?;
        Ok(true)
    })?;
    stream.shutdown(Shutdown::Write).context("ending a stream")?;
    Ok(all)
}

/// The far end of [`transferred`]: until the near end ends the stream; how many exchanges.
fn answered(mut stream: &TcpStream, shape: &Shape) -> Result<u64> {
    let mut buffer = filled(shape.message);
    let [there, back] = sides(shape);
    let mut count = 0;
    loop {
        // The first bytes show whether there is one more.
        let first = match stream.read(&mut buffer) {
            Ok(0) => return Ok(count),
            Ok(first) => first as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(stalled(error)),
        };
        let until = Instant::now() + TRANSFER_MAX;
        take(stream, &mut buffer, there.saturating_sub(first), until)?;
        give(stream, &buffer, back, until)?;
        count += 1;
    }
}

/// Messages that come back whole, on every stream at once, at the near end.
fn there_and_back(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
) -> Result<(Vec<Exchanges>, Used)> {
    let run = Duration::from_nanos(ask.run_ns);
    let work = |(socket, mut buffer): (&Socket, Vec<u8>)| match socket {
        Socket::Stream(stream) => transferred(stream, shape, ask, ONE),
        Socket::Datagram(socket) => {
            socket.set_read_timeout(Some(LOST_AFTER))?;
            exchanges(run, ONE, |number| echoed(socket, &mut buffer, number))
        }
    };
    let conduct = |gate: &Gate| {
        gate.gather();
        let usage = Usage::begin(cpus);
        gate.open();
        usage
    };
    let prepare = |socket| Ok((socket, filled(shape.message + 1)));
    let (usage, all) = beside(shape.members(cpus, sockets), prepare, work, conduct)?;
    Ok((all.into_iter().collect::<Result<_>>()?, usage.end()))
}

/// The far end of [`there_and_back`]: until the near end says that it has enough.
fn serve_there_and_back(
    sockets: &[Socket],
    shape: &Shape,
    cpus: &[usize],
    line: &mut Line,
) -> Result<Served> {
    let stop = AtomicBool::new(false);
    let work = |(socket, mut buffer): (&Socket, Vec<u8>)| match socket {
        Socket::Stream(stream) => answered(stream, shape),
        Socket::Datagram(socket) => return_datagrams(socket, &mut buffer, &stop),
    };
    let conduct = |gate: &Gate| {
        gate.gather();
        let usage = Usage::begin(cpus);
        gate.open();
        let heard = line.hear::<Enough>(RUN_MAX + PATIENCE);
        stop.store(true, Ordering::Release);
        if heard.is_err() {
            sockets.iter().for_each(Socket::cut);
        }
        (usage, heard)
    };
    let prepare = |socket| Ok((socket, filled(shape.message + 1)));
    let ((usage, heard), counts) = beside(shape.members(cpus, sockets), prepare, work, conduct)?;
    let count = counts.into_iter().sum::<Result<u64>>()?;
    heard?;
    Ok(Served { count, used: usage.end() })
}

/// Times of single calls that read a message which is there whole, in ns, at the near end: the far
/// end sends one for each sign.
fn already_there(socket: &Socket, shape: &Shape, ask: &Ask, clock: Clock) -> Result<Vec<f64>> {
    let stream = stream(socket)?;
    let mut buffer = filled(shape.message);
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
        let mut reader = stream;
        let start = clock.start();
        let bytes = reader.read(&mut buffer)?;
        let end = clock.end();
        ensure!(
            bytes == shape.message,
            "one call read only {bytes} B of {} available",
            shape.message
        );
        times.push(clock.between_ns(start, end));
    }
    stream.shutdown(Shutdown::Write).context("ending a stream")?;
    Ok(times)
}

/// Waits awake until so many bytes wait to be read; whether they do in time.
fn lies_there(stream: &TcpStream, bytes: usize, patience: Duration) -> Result<bool> {
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

/// Exchanges for a time; `exchange` gets the number of each and returns whether it came back. What
/// was waited for those that did not is added to the time: else a window would end with its first
/// loss, and the share of what is lost would be that of such windows.
fn exchanges(
    run: Duration,
    (least, patience): (u64, Duration),
    mut exchange: impl FnMut(u64) -> Result<bool>,
) -> Result<Exchanges> {
    let mut times = Vec::with_capacity(1024);
    let (mut count, mut lost) = (0, 0);
    let began = Instant::now();
    let mut start = began;
    let mut waited = Duration::ZERO;
    loop {
        let back = exchange(count + lost)?;
        let end = Instant::now();
        if back {
            count += 1;
            if times.len() < TIMES_MAX {
                times.push((end - start).as_nanos() as f64);
            }
        } else {
            lost += 1;
            waited += end - start;
        }
        let run = run + waited.min(LOST_MAX * LOST_AFTER);
        if end - began >= run && (count >= least || end - began >= patience) {
            ensure!(count > 0, "no datagram came back in {} s", patience.as_secs());
            return Ok(Exchanges {
                times,
                count,
                window_ns: (end - began).as_nanos() as f64,
                lost,
            });
        }
        start = end;
    }
}

/// One datagram there and back; whether it came back.
fn echoed(socket: &UdpSocket, buffer: &mut [u8], number: u64) -> Result<bool> {
    let message = buffer.len() - 1;
    let number = number.to_le_bytes();
    if let Some(place) = buffer[..message].first_chunk_mut::<NUMBER_BYTES>() {
        *place = number;
    }
    match socket.send(&buffer[..message]) {
        Ok(_) => {}
        Err(error) if is_refusal(&error) => return Ok(false),
        Err(error) => return Err(error).context("sending a datagram"),
    }
    let until = Instant::now() + LOST_AFTER;
    while Instant::now() < until {
        match socket.recv(buffer) {
            // Others are late answers to earlier ones.
            Ok(bytes)
                if bytes == message
                    && buffer[..message]
                        .first_chunk::<NUMBER_BYTES>()
                        .is_none_or(|came| *came == number) =>
            {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(false),
            Err(error) => return Err(error).context("waiting for a datagram"),
        }
    }
    Ok(false)
}

/// Sends each datagram back until the near end has enough; how many.
fn return_datagrams(socket: &UdpSocket, buffer: &mut [u8], stop: &AtomicBool) -> Result<u64> {
    let message = buffer.len() - 1;
    let mut count = 0;
    let mut heard = Instant::now();
    while !stop.load(Ordering::Acquire) {
        match socket.recv(buffer) {
            Ok(bytes) if bytes == message => {
                heard = Instant::now();
                count += 1;
                let refused = ErrorKind::ConnectionRefused;
                match socket.send(&buffer[..message]) {
                    Err(error) if !is_refusal(&error) && error.kind() != refused => {
                        return Err(error).context("sending a datagram back");
                    }
                    _ => {}
                }
            }
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {}
                _ if is_timeout(&error) => {
                    ensure!(heard.elapsed() < STALL, "no datagram for {} s", STALL.as_secs())
                }
                _ => return Err(error).context("waiting for a datagram"),
            },
        }
    }
    Ok(count)
}

/// Writes so many bytes, a message a call.
fn give(mut stream: &TcpStream, message: &[u8], bytes: u64, until: Instant) -> Result<()> {
    moved(message.len(), bytes, until, |most| stream.write(&message[..most]))
}

/// Reads so many bytes, a message a call at most.
fn take(mut stream: &TcpStream, message: &mut [u8], bytes: u64, until: Instant) -> Result<()> {
    moved(message.len(), bytes, until, |most| stream.read(&mut message[..most]))
}

fn moved(
    piece: usize,
    bytes: u64,
    until: Instant,
    mut call: impl FnMut(usize) -> std::io::Result<usize>,
) -> Result<()> {
    let mut left = bytes;
    while left > 0 {
        match call(usize::try_from(left).unwrap_or(usize::MAX).min(piece)) {
            Ok(0) => bail!("the other end ended the stream in the middle of a transfer"),
            Ok(moved) => left -= moved as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(stalled(error)),
        }
        ensure!(
            left == 0 || Instant::now() < until,
            "{left} of {bytes} B were still missing after {} s",
            TRANSFER_MAX.as_secs()
        );
    }
    Ok(())
}

fn stalled(error: std::io::Error) -> anyhow::Error {
    match is_timeout(&error) {
        true => anyhow::anyhow!("the other end sent and read nothing for {} s", STALL.as_secs()),
        false => anyhow::Error::from(error).context("the stream broke"),
    }
}

fn transfers(
    bench: &mut Bench,
    case: &Case,
    shape: &Shape,
    (streams, used): &(Vec<Exchanges>, Used),
    served: &Served,
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
    if shape.bytes.protocol == Protocol::Udp {
        // One that did not come back took at least so long: left out it would make a bad way look
        // good.
        let limit_ns = LOST_AFTER.as_nanos() as f64;
        let asked = kept.len() as u64 + not_back;
        kept.retain(|ns| *ns < limit_ns);
        let lost = asked - kept.len() as u64;
        bench.record(case, "transfer_time", Values::censored(kept, lost, limit_ns))?;
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
    let total = (all * bytes) as f64;
    let messages = total / shape.message as f64;
    processor(bench, case, used, "near", total, messages)?;
    processor(bench, case, &served.used, "far", total, messages)
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

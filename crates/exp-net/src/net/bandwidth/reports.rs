//! Methods that only replay the reports' own: transfers of fixed size (R1, R2), messages that come
//! back (R3), and reads of what is there already (R0).

use super::crew::{Closing, Gate, enlist};
use super::shape::{Ask, Enough, NUMBER_BYTES, RUN_MAX, STALL, Shape, TRANSFER_MAX};
use super::socket::{filled, is_timeout};
use crate::net::ends::{Line, PATIENCE, Socket};
use crate::net::usage::{Usage, Used};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::Clock;
use laws::net::bandwidth::Direction;
use metal::backlog::{is_refusal, unread_bytes};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One byte: the acknowledgement of a transfer, or the wish for one.
const SIGN: [u8; 1] = [1];
/// Reads before those that count, which let the receive buffer grow.
const READS_BEFORE: u32 = 16;
/// What is not there whole after this time does not fit, where it is waited for.
const FITS_WITHIN: Duration = Duration::from_millis(500);
/// The same of the reads before.
const TRIED_FOR: Duration = Duration::from_millis(2);
/// Times that are kept of a window.
const TIMES_MAX: usize = 50_000;
/// A datagram that is not back after this time is lost.
pub(super) const LOST_AFTER: Duration = Duration::from_millis(100);
/// The waits of so many lost ones at most prolong a window.
const LOST_MAX: u32 = 10;

/// What the near end saw.
#[derive(Debug, Default)]
pub(super) struct Timed {
    /// Time of each transfer, in ns, by stream.
    pub(super) streams: Vec<Vec<f64>>,
    /// All transfers of each stream, with the window that they took, in ns.
    pub(super) windows: Vec<(u64, f64)>,
    /// Messages that did not come back.
    pub(super) lost: u64,
    /// CPU time of this end.
    pub(super) used: Used,
}

/// What the far end did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) count: u64,
    pub(super) used: Used,
}

/// Transfers of `bytes`, one after the other, at the near end. Up: from the first byte sent until
/// the far end's sign that it has the last. Down: from the wish for it until the last byte is here.
///
/// # Errors
/// The far end is gone, does not take or send anything, or one takes too long.
pub(super) fn fixed(
    socket: &Socket,
    shape: &Shape,
    ask: &Ask,
    bytes: u64,
    cpus: &[usize],
) -> Result<Timed> {
    let Socket::Stream(stream) = socket else { bail!("datagrams do not end") };
    let mut buffer = filled(shape.message);
    let usage = Usage::begin(cpus);
    let (began, run) = (Instant::now(), Duration::from_nanos(ask.run_ns));
    let mut times = Vec::new();
    // Three at least, as long as that takes no longer than one may.
    while began.elapsed() < run || (times.len() < 3 && began.elapsed() < TRANSFER_MAX / 3) {
        let start = Instant::now();
        let until = start + TRANSFER_MAX;
        match shape.of.direction {
            Direction::Up => {
                give(stream, &buffer, bytes, until)?;
                take(stream, &mut buffer[..1], 1, until)?;
            }
            Direction::Down => {
                give(stream, &SIGN, 1, until)?;
                take(stream, &mut buffer, bytes, until)?;
            }
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    let window_ns = began.elapsed().as_nanos() as f64;
    stream.shutdown(Shutdown::Write).context("ending a stream")?;
    Ok(Timed {
        windows: vec![(times.len() as u64, window_ns)],
        streams: vec![times],
        lost: 0,
        used: usage.end(),
    })
}

/// The far end of [`fixed`]: until the near end ends the stream.
pub(super) fn serve_fixed(
    socket: &Socket,
    shape: &Shape,
    bytes: u64,
    cpus: &[usize],
) -> Result<Served> {
    let Socket::Stream(stream) = socket else { bail!("datagrams do not end") };
    let mut buffer = filled(shape.message);
    let usage = Usage::begin(cpus);
    let mut count = 0;
    loop {
        // The first bytes tell whether there is one more.
        let mut reader: &TcpStream = stream;
        let first = match reader.read(&mut buffer[..]) {
            Ok(0) => break,
            Ok(first) => first as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(stalled(error)),
        };
        let until = Instant::now() + TRANSFER_MAX;
        match shape.of.direction {
            Direction::Up => {
                take(stream, &mut buffer, bytes - first.min(bytes), until)?;
                give(stream, &SIGN, 1, until)?;
            }
            Direction::Down => give(stream, &buffer, bytes, until)?,
        }
        count += 1;
    }
    Ok(Served { count, used: usage.end() })
}

/// Messages that come back whole, on every stream at once, at the near end.
pub(super) fn there_and_back(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
) -> Result<Timed> {
    let gate = Gate::default();
    let run = Duration::from_nanos(ask.run_ns);
    let (found, used) = thread::scope(|scope| {
        let _closing = Closing(&gate);
        let threads = enlist(
            scope,
            &gate,
            (cpus, shape.is_free),
            |_| filled(shape.message + 1),
            |stream, mut buffer| match &sockets[stream] {
                Socket::Stream(socket) => exchanges(run, |_| {
                    let (until, bytes) = (Instant::now() + TRANSFER_MAX, shape.message as u64);
                    give(socket, &buffer[..shape.message], bytes, until)?;
                    take(socket, &mut buffer[..shape.message], bytes, until)?;
                    Ok(true)
                })
                .and_then(|found| {
                    socket.shutdown(Shutdown::Write)?;
                    Ok(found)
                }),
                Socket::Datagram(socket) => {
                    socket.set_read_timeout(Some(LOST_AFTER))?;
                    exchanges(run, |number| echoed(socket, &mut buffer, number))
                }
            },
        )?;
        let usage = Usage::begin(cpus);
        gate.open(true);
        Ok::<_, anyhow::Error>((threads.join()?, usage.end()))
    })?;
    let mut timed = Timed { used, ..Timed::default() };
    for (times, all, window_ns, lost) in found {
        timed.streams.push(times);
        timed.windows.push((all, window_ns));
        timed.lost += lost;
    }
    Ok(timed)
}

/// The far end of [`there_and_back`]: until the near end says that it has enough.
///
/// # Errors
/// A stream broke, or its near end stalls.
pub(super) fn serve_there_and_back(
    sockets: &[Socket],
    shape: &Shape,
    cpus: &[usize],
    line: &mut Line,
) -> Result<Served> {
    let (gate, stop) = (Gate::default(), AtomicBool::new(false));
    let (counts, used) = thread::scope(|scope| {
        let _closing = Closing(&gate);
        let stop = &stop;
        let threads = enlist(
            scope,
            &gate,
            (cpus, shape.is_free),
            |_| filled(shape.message + 1),
            |stream, mut buffer| match &sockets[stream] {
                Socket::Stream(socket) => return_stream(socket, &mut buffer[..shape.message]),
                Socket::Datagram(socket) => return_datagrams(socket, &mut buffer, stop),
            },
        )?;
        let usage = Usage::begin(cpus);
        gate.open(true);
        let heard = line.hear::<Enough>(RUN_MAX + PATIENCE);
        stop.store(true, Ordering::Release);
        if heard.is_err() {
            sockets.iter().for_each(Socket::cut);
        }
        let counts = threads.join()?;
        heard?;
        Ok::<_, anyhow::Error>((counts, usage.end()))
    })?;
    Ok(Served { count: counts.iter().sum(), used })
}

/// Times of single calls that read a message which is there whole, in ns, at the near end: the far
/// end sends one for each sign.
///
/// # Errors
/// The message does not fit into the receive buffer, or the far end is gone.
pub(super) fn already_there(
    socket: &Socket,
    shape: &Shape,
    ask: &Ask,
    clock: Clock,
) -> Result<Vec<f64>> {
    let Socket::Stream(stream) = socket else { bail!("datagrams are no stream") };
    let mut buffer = filled(shape.message);
    let whole = shape.message as u64;
    for _ in 0..READS_BEFORE {
        let until = Instant::now() + TRANSFER_MAX;
        give(stream, &SIGN, 1, until)?;
        let _ = lies_there(stream, shape.message, TRIED_FOR)?;
        take(stream, &mut buffer, whole, until)?;
    }
    let (began, run) = (Instant::now(), Duration::from_nanos(ask.run_ns));
    let mut times = Vec::new();
    while times.len() < TIMES_MAX && (began.elapsed() < run || times.is_empty()) {
        give(stream, &SIGN, 1, Instant::now() + STALL)?;
        ensure!(
            lies_there(stream, shape.message, FITS_WITHIN)?,
            "of {} B only {} came into the receive buffer before they were read",
            shape.message,
            unread_bytes(stream.as_fd())?
        );
        let mut reader = stream;
        let start = clock.start();
        let bytes = reader.read(&mut buffer)?;
        let end = clock.end();
        ensure!(
            bytes == shape.message,
            "one call read {bytes} B of {} that were there",
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
        thread::yield_now();
    }
}

/// Times of one stream's exchanges, how many there were, the window, and how many were lost.
type Exchanges = (Vec<f64>, u64, f64, u64);

/// Exchanges for a time; `exchange` is told the number of each and tells whether it came back. What
/// was waited for those that did not is added to the time: else a window would end with its first
/// loss, and the share of what is lost would be that of such windows.
fn exchanges(run: Duration, mut exchange: impl FnMut(u64) -> Result<bool>) -> Result<Exchanges> {
    let mut times = Vec::with_capacity(1024);
    let (mut all, mut lost) = (0, 0);
    let began = Instant::now();
    let mut start = began;
    let mut waited = Duration::ZERO;
    loop {
        let back = exchange(all + lost)?;
        let end = Instant::now();
        if back {
            all += 1;
            if times.len() < TIMES_MAX {
                times.push((end - start).as_nanos() as f64);
            }
        } else {
            lost += 1;
            waited += end - start;
        }
        let run = run + waited.min(LOST_MAX * LOST_AFTER);
        if end - began >= run && (all > 0 || end - began >= STALL) {
            ensure!(all > 0, "no datagram came back in {} s", STALL.as_secs());
            return Ok((times, all, (end - began).as_nanos() as f64, lost));
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

/// Sends every whole message of a stream back; how many.
fn return_stream(mut socket: &TcpStream, message: &mut [u8]) -> Result<u64> {
    let mut count = 0;
    loop {
        match socket.read(message) {
            Ok(0) => return Ok(count),
            Ok(first) => {
                let until = Instant::now() + TRANSFER_MAX;
                let rest = &mut message[first..];
                let left = rest.len() as u64;
                take(socket, rest, left, until)?;
                give(socket, message, message.len() as u64, until)?;
                count += 1;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(stalled(error)),
        }
    }
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
                match socket.send(&buffer[..message]) {
                    Err(error)
                        if !is_refusal(&error) && error.kind() != ErrorKind::ConnectionRefused =>
                    {
                        return Err(error).context("sending a datagram back");
                    }
                    _ => {}
                }
            }
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) if is_timeout(&error) => {
                let (silent, most) = (heard.elapsed(), STALL);
                ensure!(silent < most, "no datagram came for {} s", most.as_secs());
            }
            Err(error) => return Err(error).context("waiting for a datagram"),
        }
    }
    Ok(count)
}

/// Writes so many bytes, a message a call.
fn give(mut stream: &TcpStream, message: &[u8], bytes: u64, until: Instant) -> Result<()> {
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(message.len());
        match stream.write(&message[..most]) {
            Ok(written) => left -= written as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(stalled(error)),
        }
        in_time(left, bytes, until)?;
    }
    Ok(())
}

/// Reads so many bytes, a message a call at most.
fn take(mut stream: &TcpStream, message: &mut [u8], bytes: u64, until: Instant) -> Result<()> {
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(message.len());
        match stream.read(&mut message[..most]) {
            Ok(0) => bail!("the other end ended the stream in the middle of a transfer"),
            Ok(read) => left -= read as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(stalled(error)),
        }
        in_time(left, bytes, until)?;
    }
    Ok(())
}

fn in_time(left: u64, bytes: u64, until: Instant) -> Result<()> {
    ensure!(
        left == 0 || Instant::now() < until,
        "{left} of {bytes} B were not through after {} s",
        TRANSFER_MAX.as_secs()
    );
    Ok(())
}

fn stalled(error: std::io::Error) -> anyhow::Error {
    match is_timeout(&error) {
        true => anyhow::anyhow!("the other end sent and took nothing for {} s", STALL.as_secs()),
        false => anyhow::Error::from(error).context("the stream broke"),
    }
}

#[cfg(test)]
mod tests {
    use super::{exchanges, lies_there};
    use crate::net::ends::tests::streams;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn a_message_lies_there_when_all_of_it_does() {
        let (mut sender, receiver) = streams();
        sender.write_all(&[1; 100]).expect("sends");
        let lies = |bytes, ms| lies_there(&receiver, bytes, Duration::from_millis(ms));
        assert!(lies(100, 5000).expect("asks"));
        assert!(!lies(101, 1).expect("asks"));
    }

    #[test]
    fn a_window_goes_on_after_what_was_lost_in_it() {
        // The second is lost, and its wait is longer than the window.
        let run = Duration::from_millis(5);
        let (times, all, window_ns, lost) = exchanges(run, |number| {
            if number == 1 {
                std::thread::sleep(2 * run);
            }
            Ok(number != 1)
        })
        .expect("most come back");
        assert!(window_ns >= 15e6 && lost == 1, "{window_ns} {lost}");
        assert!(all > 1 && !times.is_empty(), "{all}");
    }

    #[test]
    fn exchanges_that_do_not_come_back_are_counted_and_not_timed() {
        let every_third = |number: u64| Ok(number % 3 != 2);
        let (times, all, window_ns, lost) =
            exchanges(Duration::from_micros(200), every_third).expect("some come back");
        assert_eq!(times.len() as u64, all);
        assert!(window_ns >= 200_000.0 && lost.abs_diff(all / 2) <= 1, "{all} {lost}");
    }
}

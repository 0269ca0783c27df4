//! The receiving end of streams: what counts.

use super::ends::Counts;
use super::shape::{
    Ask, Begun, Enough, NUMBER_BYTES, Numbers, RUN_MAX, Received, STALL, Sent, Shape, buffer_bytes,
    softirq_cpus,
};
use crate::net::place::Usage;
use crate::net::wire::timed::{pattern, pull};
use crate::net::wire::{Line, PATIENCE, Socket};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::{Gate, beside};
use metal::backlog;
use metal::socket::Wait;
use stats::steady::{BLOCKS, Log, Steady, steady};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No block is shorter.
const BLOCK_MIN: Duration = Duration::from_micros(50);
/// A block is so many round trips long at least: acknowledgements come in bursts.
const BLOCK_ROUND_TRIPS: u32 = 2;
/// What does not settle is streamed so many times longer than asked for, and so many round trips
/// beside.
const PATIENCE_RUNS: u32 = 4;
const PATIENCE_ROUND_TRIPS: u32 = 200;
/// Points of a log in a block.
const POINTS: u32 = 4;
/// A log has room for so many before it grows.
const ROOM: usize = 4096;
/// A datagram with a higher number is not ours: no sender comes so far.
const NUMBER_MAX: u64 = 1 << 40;
/// Datagrams that are under way when the sender stops come in this time.
const QUIET_MIN: Duration = Duration::from_millis(4);
const QUIET_ROUND_TRIPS: u32 = 3;
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// A drain waits so many times as long as the longest silence between two datagrams before it: a
/// queue on the way hands them out as slowly as it did then.
const QUIET_GAPS: u32 = 8;
const QUIET_MAX: Duration = Duration::from_secs(2);

/// What all threads of a receiving end see.
struct Watch {
    began: Instant,
    /// Time from one point of a log to the next.
    step: Duration,
    /// The sender has stopped: what comes is what was under way.
    draining: AtomicBool,
    /// How many datagrams each stream was sent, once that is known.
    sent: Vec<AtomicU64>,
    /// Nothing counts any more.
    cancelled: AtomicBool,
    logs: Vec<Mutex<Log>>,
}

/// How long a receiver of datagrams waits for one more.
pub(super) fn quiet(line: &Line) -> Duration {
    let round_trip = line.least_round_trip().unwrap_or_default();
    QUIET_MIN.max(QUIET_ROUND_TRIPS * round_trip)
}

/// Receives until the rate has settled and the requested time is over, stops the sender, and counts
/// what was still in flight.
pub(super) fn receive(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
    line: &mut Line,
) -> Result<Counts> {
    let plan = Plan::for_request(ask, line.least_round_trip().unwrap_or_default());
    let watch = Watch::new(sockets.len(), plan.block / POINTS);
    let prepare = |(stream, socket): (usize, &Socket)| {
        // Now: once the gate is open the sender may be ahead of this thread.
        let dropped = match socket.is_stream {
            true => 0,
            false => backlog::dropped(socket.as_fd()).context("SO_MEMINFO")?,
        };
        Ok((stream, pattern(shape.read_bytes()), dropped))
    };
    let work = |(number, mut buffer, dropped): (usize, Vec<u8>, u32)| match &sockets[number] {
        socket if socket.is_stream => stream(socket, &mut buffer, &watch.logs[number], &watch),
        socket => catch(socket, &mut buffer, dropped, number, &watch),
    };
    let mut broke = false;
    let conduct = |gate: &Gate| {
        gate.gather();
        let usage = Usage::begin(cpus);
        gate.open();
        let conducted = conduct(&plan, &watch, gate, line);
        if conducted.is_err() {
            // A stream that broke by itself is the reason why the rest is as it is.
            broke = gate.ended() > 0;
            watch.cancelled.store(true, Ordering::Release);
            sockets.iter().for_each(Socket::cut);
        }
        (usage, conducted)
    };
    let members = shape.members(cpus, sockets).into_iter().enumerate();
    let members = members.map(|(stream, (place, socket))| (place, (stream, socket))).collect();
    let ((usage, conducted), streams) = beside(members, prepare, work, conduct)?;
    let used = usage.end();
    let streams: Result<Vec<Received>> = streams.into_iter().collect();
    let (steady, sent) = match conducted {
        Err(error) => return Err(streams.err().filter(|_| broke).unwrap_or(error)),
        Ok(conducted) => conducted,
    };
    let mut received = Received {
        steady,
        used,
        buffer_bytes: buffer_bytes(sockets, socket2::Socket::recv_buffer_size),
        softirq_cpus: softirq_cpus(sockets),
        ..Received::default()
    };
    for stream in streams? {
        received.bytes += stream.bytes;
        received.calls += stream.calls;
        if let Some(more) = &stream.datagrams {
            received.datagrams.get_or_insert_default().add(more);
        }
    }
    Ok(Counts { sent, received })
}

/// Starts the sender and stops it; returns the steady part and the sender's counts.
fn conduct(plan: &Plan, watch: &Watch, gate: &Gate, line: &mut Line) -> Result<(Steady, Sent)> {
    line.tell(&Begun)?;
    let steady = plan.follow(watch, gate)?;
    line.tell(&Enough)?;
    let sent = line.hear::<Sent>(PATIENCE).context("waiting for the sender's counts")?;
    for (known, sent) in watch.sent.iter().zip(&sent.streams) {
        known.store(*sent, Ordering::Relaxed);
    }
    watch.draining.store(true, Ordering::Release);
    Ok((steady, sent))
}

struct Plan {
    block: Duration,
    run: Duration,
    most: Duration,
}

impl Plan {
    fn for_request(ask: &Ask, round_trip: Duration) -> Plan {
        let asked = Duration::from_nanos(ask.run_ns).min(RUN_MAX);
        let blocks = BLOCKS as u32;
        let block = (asked / blocks).max(BLOCK_MIN).max(BLOCK_ROUND_TRIPS * round_trip);
        let run = asked.max(block * blocks / 2).min(RUN_MAX);
        Plan {
            block,
            run,
            most: (PATIENCE_RUNS * run + PATIENCE_ROUND_TRIPS * round_trip).min(RUN_MAX),
        }
    }

    /// Waits until the streams are steady and were so for half of the run, or as long as there is
    /// patience.
    fn follow(&self, watch: &Watch, gate: &Gate) -> Result<Steady> {
        let half_ns = self.run.as_nanos() as f64 / 2.0;
        let is_enough = |steady: &Steady| steady.settled && steady.window_ns >= half_ns;
        let mut sleep = self.run;
        loop {
            std::thread::sleep(sleep);
            let now_ns = watch.began.elapsed().as_nanos() as u64;
            ensure!(gate.ended() == 0, "a stream ended too early");
            let logs: Vec<Log> = watch
                .logs
                .iter()
                .map(|log| log.lock().unwrap_or_else(PoisonError::into_inner).clone())
                .collect();
            // As many blocks of a longer window, longer.
            let block_ns = (self.block.as_nanos() as f64).max(now_ns as f64 / (2 * BLOCKS) as f64);
            // A window without data does not count: a thread that shares a CPU may wait for long.
            let found = steady(&logs, now_ns, block_ns).filter(|steady| steady.rate() > 0.0);
            let is_over = Duration::from_nanos(now_ns) >= self.most;
            match found {
                Some(steady) if is_over || is_enough(&steady) => return Ok(steady),
                // One that has to share its CPU may begin late.
                None if now_ns > self.most.max(STALL).as_nanos() as u64 => bail!(
                    "a stream delivered no data, or too little for a rate, in {:.1} s",
                    now_ns as f64 / 1e9
                ),
                _ => {}
            }
            sleep = self.run / 2;
        }
    }
}

impl Watch {
    fn new(streams: usize, step: Duration) -> Watch {
        Watch {
            began: Instant::now(),
            step,
            draining: AtomicBool::new(false),
            sent: (0..streams).map(|_| AtomicU64::new(u64::MAX)).collect(),
            cancelled: AtomicBool::new(false),
            logs: (0..streams).map(|_| Mutex::new(Log::with_room(ROOM))).collect(),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// How a call waits that has room for so many bytes, of a stream that has brought `before` by
    /// now. For whole messages where these come between two points of the log: fewer calls, by
    /// which a stream of 128 KiB brings up to a fifth more
    /// (docs/notes/2026-11-23-crosscheck-net.md).
    fn wait_for(&self, room: usize, before: u64, now: Duration) -> Wait {
        let is_quick = u128::from(before) * self.step.as_nanos() >= room as u128 * now.as_nanos();
        if is_quick { Wait::Whole } else { Wait::Block }
    }

    fn is_over(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

fn stream(socket: &Socket, buffer: &mut [u8], log: &Mutex<Log>, watch: &Watch) -> Result<Received> {
    let mut stream = Received::default();
    let (room, mut next) = (buffer.len(), Duration::ZERO);
    let received = |bytes| {
        stream.bytes = bytes;
        stream.calls += 1;
        let now = watch.now();
        if now >= next {
            next = now + watch.step;
            write_down(log, now, bytes);
            ensure!(!watch.is_over(), "given up");
            ensure!(now < 2 * RUN_MAX, "the sender does not stop");
        }
        Ok(watch.wait_for(room, bytes, now))
    };
    let silent = || bail!("no data arrived for {} s", STALL.as_secs());
    pull(socket, buffer, received, silent)?;
    Ok(stream)
}

/// Receives datagrams until none is under way any more: all that were sent have come or were
/// dropped here, or there is a silence longer than any before. `dropped_before`: what the socket's
/// count of dropped ones was before the first was sent.
fn catch(
    socket: &Socket,
    buffer: &mut [u8],
    dropped_before: u32,
    number: usize,
    watch: &Watch,
) -> Result<Received> {
    let message = buffer.len() - 1;
    let log = &watch.logs[number];
    let dropped = || -> Result<u64> {
        let dropped = backlog::dropped(socket.as_fd()).context("SO_MEMINFO")?;
        Ok(u64::from(dropped.wrapping_sub(dropped_before)))
    };
    let mut longest = Duration::ZERO;
    let mut stream = Received::default();
    let mut numbers = Numbers::new();
    let (mut next, mut heard) = (Duration::ZERO, watch.now());
    let mut drain_until = None;
    loop {
        let Some(bytes) = socket.receive(buffer, Wait::Block).context("receiving datagrams")?
        else {
            ensure!(!watch.is_over(), "given up");
            let silent = watch.now() - heard;
            if watch.draining.load(Ordering::Acquire) {
                let sent = watch.sent[number].load(Ordering::Relaxed);
                let is_all = numbers.counts.unique + dropped()? >= sent;
                if is_all || silent >= (QUIET_GAPS * longest).clamp(QUIET_MIN, QUIET_MAX) {
                    break;
                }
                continue;
            }
            ensure!(silent < STALL, "no datagram arrived for {} s", STALL.as_secs());
            continue;
        };
        stream.calls += 1;
        if is_new(&buffer[..bytes], message, &mut numbers) {
            stream.bytes += bytes as u64;
        }
        let now = watch.now();
        // The first wait is for the sender to begin.
        if stream.calls > 1 {
            longest = longest.max(now - heard);
        }
        heard = now;
        if heard >= next {
            next = heard + watch.step;
            write_down(log, heard, stream.bytes);
            ensure!(!watch.is_over(), "given up");
        }
        if watch.draining.load(Ordering::Acquire) {
            let until = *drain_until.get_or_insert(heard + DRAIN_MAX);
            ensure!(heard < until, "datagrams still arrive although the sender has stopped");
        }
    }
    numbers.counts.dropped = dropped()?;
    stream.datagrams = Some(numbers.counts);
    Ok(stream)
}

/// Whether a datagram is one of the sender's, for the first time.
fn is_new(datagram: &[u8], message: usize, numbers: &mut Numbers) -> bool {
    if datagram.len() != message {
        numbers.counts.strange += 1;
        return false;
    }
    let Some(number) = datagram.first_chunk::<NUMBER_BYTES>() else {
        // Too short for a number, it cannot be distinguished from another.
        numbers.counts.unique += 1;
        return true;
    };
    let number = u64::from_le_bytes(*number);
    if number > NUMBER_MAX {
        numbers.counts.strange += 1;
        return false;
    }
    numbers.count(number)
}

fn write_down(log: &Mutex<Log>, now: Duration, bytes: u64) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.push(now.as_nanos() as u64, bytes);
}

#[cfg(test)]
mod tests;

//! The sending end of streams.

use super::shape::{
    Ask, Begun, Connections, Enough, NUMBER_BYTES, RUN_MAX, STALL, Sent, Shape, buffer_bytes,
    softirq_cpus,
};
use crate::net::place::Usage;
use crate::net::wire::timed::{pattern, push};
use crate::net::wire::{Line, PATIENCE, Socket};
use anyhow::{Context, Result, bail};
use bench::measure::{Finally, Gate, beside};
use metal::clock;
use metal::tcp::{self, Info};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a sender's end looks whether its own threads are still there.
const LOOK: Duration = Duration::from_millis(100);

/// The kernel's facts about a connection, with the time of its own clock, in ns.
type TcpFacts = (Info, u64);

fn tcp_facts(socket: &Socket) -> Result<TcpFacts> {
    let tick_ns = || clock::syscall_clock_gettime(clock::Clock::MONOTONIC_COARSE);
    Ok((tcp::info(socket.as_fd())?, tick_ns()))
}

/// What a stream sent, and of a connection the kernel's facts before and after.
type Stream = (Sent, Option<[TcpFacts; 2]>);

/// Sends until the other end has enough, and reports what was sent.
pub(super) fn send(
    sockets: &[Socket],
    shape: &Shape,
    ask: &Ask,
    cpus: &[usize],
    line: &mut Line,
) -> Result<Sent> {
    let stop = AtomicBool::new(false);
    let interval = Duration::from_nanos(ask.interval_ns);
    let work = |(socket, mut buffer): (&Socket, Vec<u8>)| match socket.is_stream {
        true => stream(socket, &buffer, &stop),
        false => throw(socket, &mut buffer, interval, &stop),
    };
    let conduct = |gate: &Gate| {
        let _stopping = Finally(|| stop.store(true, Ordering::Release));
        gate.gather();
        line.hear::<Begun>(PATIENCE).context("waiting for the receiver to begin")?;
        let usage = Usage::begin(cpus);
        gate.open();
        Ok::<_, anyhow::Error>((usage, enough(line, gate)))
    };
    let prepare = |socket| Ok((socket, pattern(shape.message)));
    let (conducted, streams) = beside(shape.members(cpus, sockets), prepare, work, conduct)?;
    let (usage, heard) = conducted?;
    let used = usage.end();
    let streams: Vec<Stream> = match (streams.into_iter().collect::<Result<_>>(), heard) {
        (Ok(streams), Ok(())) => streams,
        (Ok(_), Err(theirs)) => return Err(theirs),
        (Err(ours), Ok(())) => return Err(ours),
        // A stream that broke, and what the receiver has to say to it.
        (Err(ours), Err(theirs)) => return Err(ours.context(format!("{theirs:#}"))),
    };
    let sent = Sent { used, ..total(&streams, sockets) };
    line.tell(&sent)?;
    Ok(sent)
}

/// Waits until the receiver has enough, as long as the senders are at it.
fn enough(line: &mut Line, gate: &Gate) -> Result<()> {
    let until = Instant::now() + RUN_MAX + STALL;
    while !line.speaks(LOOK)? {
        if gate.ended() > 0 {
            // A moment for the receiver's own words.
            break;
        }
        if Instant::now() > until {
            bail!("the receiver did not report that it has enough data");
        }
    }
    line.hear::<Enough>(STALL).map(|_| ())
}

fn stream(socket: &Socket, buffer: &[u8], stop: &AtomicBool) -> Result<Stream> {
    let mut sent = Sent::default();
    let before = tcp_facts(socket)?;
    let began = Instant::now();
    let taken = |bytes| {
        sent.bytes = bytes;
        sent.messages += 1;
    };
    let silent = || bail!("the receiver read no data for {} s", STALL.as_secs());
    push(socket, buffer, stop, taken, silent)?;
    sent.elapsed_ns = began.elapsed().as_nanos() as u64;
    let after = tcp_facts(socket)?;
    socket.options().shutdown(Shutdown::Write).context("ending a stream")?;
    Ok((sent, Some([before, after])))
}

/// Datagrams with numbers, as fast as they go or at an interval.
fn throw(
    socket: &Socket,
    buffer: &mut [u8],
    interval: Duration,
    stop: &AtomicBool,
) -> Result<Stream> {
    let mut sent = Sent::default();
    let began = Instant::now();
    let mut due = began;
    while !stop.load(Ordering::Relaxed) {
        if !interval.is_zero() {
            if Instant::now() < due {
                std::hint::spin_loop();
                continue;
            }
            due += interval;
        }
        if let Some(number) = buffer.first_chunk_mut::<NUMBER_BYTES>() {
            *number = sent.messages.to_le_bytes();
        }
        match socket.send(buffer).context("sending a datagram")? {
            Some(bytes) => {
                sent.bytes += bytes as u64;
                sent.messages += 1;
            }
            // No room, or the answer to one before: this one was not sent.
            None => sent.refused += 1,
        }
    }
    sent.elapsed_ns = began.elapsed().as_nanos() as u64;
    Ok((sent, None))
}

fn total(streams: &[Stream], sockets: &[Socket]) -> Sent {
    let mut all = Sent {
        buffer_bytes: buffer_bytes(sockets, socket2::Socket::send_buffer_size),
        softirq_cpus: softirq_cpus(sockets),
        ..Sent::default()
    };
    for (sent, info) in streams {
        all.bytes += sent.bytes;
        all.messages += sent.messages;
        all.refused += sent.refused;
        all.streams.push(sent.messages);
        all.elapsed_ns = all.elapsed_ns.max(sent.elapsed_ns);
        if let Some([before, after]) = info {
            add(all.connections.get_or_insert_default(), before, after);
        }
    }
    if let (Some(connections), [stream, ..]) = (&mut all.connections, sockets)
        && let Ok(name) = stream.options().tcp_congestion()
    {
        let name = String::from_utf8_lossy(&name);
        name.trim_end_matches('\0').clone_into(&mut connections.congestion);
    }
    all
}

/// Adds what happened to a connection between two looks.
fn add(all: &mut Connections, (before, before_ns): &TcpFacts, (after, after_ns): &TcpFacts) {
    if let (Some(before), Some(after)) = (before.limits, after.limits) {
        all.busy_us += after.busy_us.saturating_sub(before.busy_us);
        all.ticked_us += (after_ns - before_ns) / 1000;
        all.receive_window_us += after.receive_window_us - before.receive_window_us;
        all.send_buffer_us += after.send_buffer_us - before.send_buffer_us;
    }
    all.retransmits += u64::from(after.retransmits.wrapping_sub(before.retransmits));
    if let (Some(before), Some(after)) = (before.sent_segments, after.sent_segments) {
        all.segments += u64::from(after.wrapping_sub(before));
    }
    all.segment_bytes = all.segment_bytes.max(after.segment_bytes.into());
    all.delivery_rate += after.delivery_rate.unwrap_or(0);
    all.window_segments += u64::from(after.window_segments);
    let rtt_us = u64::from(after.min_rtt_us.unwrap_or(after.rtt_us));
    all.least_rtt_us = match all.least_rtt_us {
        0 => rtt_us,
        least => least.min(rtt_us),
    };
}

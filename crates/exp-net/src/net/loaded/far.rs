//! The far end: answers round trips in one thread, beside the traffic's.

use super::traffic::{Counted, Window, during};
use crate::net::ends::{Call, Door, Line, NO_PORTS, PATIENCE, Socket};
use crate::net::place::{only, pin_far, placed};
use crate::net::usage::Turns;
use anyhow::{Context, Result, ensure};
use bench::measure::{FarEnd, Finally, beside};
use laws::net::Protocol;
use laws::net::loaded::{Beside, Direction};
use record::case::Case;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// More streams each way are not served.
const STREAMS_MAX: usize = 256;
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// A case that is over is looked for this often.
const LOOK: Duration = Duration::from_millis(100);

/// A stream that brings nothing for so long after its window is silent.
const FIRST_PIECE_TIME: Duration = Duration::from_secs(2);

/// Streams of the traffic up and down.
pub(super) fn streams(of: &Beside) -> [usize; 2] {
    let count = usize::try_from(of.streams).unwrap_or(usize::MAX);
    match of.direction {
        Direction::Up => [count, 0],
        Direction::Down => [0, count],
        Direction::Both => [count; 2],
    }
}

/// What the near end says in a case, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    Go,
    Window,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Told {
    Ready,
    Counted(Counted),
}

pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let of: Beside = call.decode()?;
    let mut cpus = pin_far(far, &call.case, of.ends)?;
    let cpu = only(&cpus);
    let traffic_cpu = cpu.map(|cpu| traffic_cpu(far, &call.case, cpu));
    cpus.extend(traffic_cpu);
    far.use_cpus(&cpus);
    let [count_up, count_down] = streams(&of);
    ensure!(
        count_up.max(count_down) <= STREAMS_MAX && (1..=MESSAGE_BYTES_MAX).contains(&of.message),
        "{of:?} exceeds the far end's limits"
    );
    let datagrams = match of.protocol {
        Protocol::Tcp => {
            call.line.tell(&NO_PORTS)?;
            Vec::new()
        }
        Protocol::Udp => door.sockets(far, &mut call.line, Protocol::Udp, 1)?,
    };
    // In the order in which the near end makes them: that of the round trips, those up, those down.
    let own = 1 - datagrams.len();
    let mut all = door.admit_all(own + count_up + count_down, Instant::now() + PATIENCE)?;
    let down = all.split_off(own + count_up);
    let up = all.split_off(own);
    let own = all.into_iter().map(Socket::Stream);
    let prober = datagrams.into_iter().chain(own).next().context("no socket for round trips")?;
    let (bytes, is_over) = (usize::try_from(of.message)?, AtomicBool::new(false));
    // Nothing waits with a time-out, which would cost a timer at each wait: the end is an end of
    // the socket's.
    let socket = SockRef::from(&prober);
    socket.set_read_timeout(None)?;
    let answer = |()| {
        answer(&prober, bytes, &is_over);
        Ok(())
    };
    let (served, answered) = beside(vec![(cpu, ())], Ok, answer, |gate| {
        let _ending = Finally(|| {
            is_over.store(true, Ordering::Relaxed);
            // One that is gone already needs no end.
            let _ = socket.shutdown(Shutdown::Both);
        });
        gate.open();
        call.line.tell(&Told::Ready)?;
        call.line.heed(Said::Go)?;
        let turns = Turns::begin();
        during(down, up, traffic_cpu, |traffic| {
            call.line.heed(Said::Window)?;
            let window = Window::begin(traffic, &cpus, far.clock());
            call.line.heed(Said::Stop)?;
            let late = Instant::now() + FIRST_PIECE_TIME;
            while count_up > 0 && window.is_empty(traffic) && Instant::now() < late {
                thread::sleep(Duration::from_millis(1));
            }
            call.line.tell(&Told::Counted(window.end(traffic, prober.softirq_cpu())))
        })?;
        if traffic_cpu.is_none() || cpu == traffic_cpu {
            far.planned_switches(turns.taken());
        }
        until_gone(&call.line)
    })?;
    served?;
    answered.into_iter().collect()
}

/// Sends back what comes, until the socket ends.
fn answer(prober: &Socket, bytes: usize, is_over: &AtomicBool) {
    let mut message = vec![0; bytes + 1];
    match prober {
        Socket::Stream(stream) => {
            let (mut stream, message) = (stream, &mut message[..bytes]);
            while stream.read_exact(message).is_ok() && stream.write_all(message).is_ok() {}
        }
        Socket::Datagram(socket) => {
            while !is_over.load(Ordering::Relaxed) {
                // The kernel's reports of lost replies do not end the loop.
                if let Ok(got) = socket.recv(&mut message)
                    && got == bytes
                {
                    let _ = socket.send(&message[..got]);
                }
            }
        }
    }
}

/// The near end goes on with round trips until the queues are empty, and leaves.
fn until_gone(line: &Line) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while line.is_open() && Instant::now() < until {
        line.speaks(LOOK)?;
    }
    Ok(())
}

/// The CPU of the traffic's threads: on another host a second one of its own, if it has one.
fn traffic_cpu(far: &FarEnd, case: &Case, cpu: usize) -> usize {
    match far.order().far_address {
        None => placed(case, "far_traffic_cpu").unwrap_or(cpu),
        Some(_) => far.order().cpus.get(1).copied().unwrap_or(cpu),
    }
}

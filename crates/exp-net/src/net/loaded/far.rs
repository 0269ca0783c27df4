//! The far end, which answers round trips in one thread, and the traffic beside them: streams that
//! send as fast as they may, and streams that take in what comes, each in a thread. Both ends make
//! them alike.

use crate::net::ends::{Call, Door, Line, NO_PORTS, PATIENCE, Socket, pattern};
use crate::net::place::{Turns, Usage, Used, only, pin_far, placed};
use bench::measure::{FarEnd, Finally, beside};
use bench::prelude::*;
use laws::net::Protocol;
use laws::net::loaded::{Beside, Direction};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

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
pub(super) enum FarAnswer {
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
        call.line.tell(&FarAnswer::Ready)?;
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
            call.line.tell(&FarAnswer::Counted(window.end(traffic, prober.softirq_cpu())))
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

/// Bytes of one call.
const PIECE_BYTES: usize = 128 << 10;
/// A call that moves nothing for so long looks whether there is an end.
const CALL_TIME: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Traffic {
    pub(super) streams: Vec<TcpStream>,
    /// Bytes that arrived at this end, and that its kernel took.
    received: AtomicU64,
    sent: AtomicU64,
    is_over: AtomicBool,
    /// The other end may go from now on.
    is_leaving: AtomicBool,
    /// Streams that broke down by themselves.
    broken: AtomicU64,
}

/// Sends by `out` and takes in by `inward`, on a CPU or where the scheduler places the threads, for
/// as long as `meanwhile` takes.
pub(super) fn during<R>(
    out: Vec<TcpStream>,
    inward: Vec<TcpStream>,
    cpu: Option<usize>,
    meanwhile: impl FnOnce(&Traffic) -> Result<R>,
) -> Result<R> {
    let senders = out.len();
    let streams: Vec<TcpStream> = out.into_iter().chain(inward).collect();
    for stream in &streams {
        stream.set_write_timeout(Some(CALL_TIME))?;
        stream.set_read_timeout(Some(CALL_TIME))?;
        // Data left in its buffers at the end is unused, and must not go on beside the next
        // measurement.
        SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    }
    let traffic = Traffic { streams, ..Traffic::default() };
    let members = (0..traffic.streams.len()).map(|at| (cpu, at)).collect();
    let work = |at| {
        traffic.stream(at, at < senders);
        Ok(())
    };
    let (found, threads) = beside(members, Ok, work, |gate| {
        let _ending = Finally(|| traffic.end());
        gate.open();
        meanwhile(&traffic)
    })?;
    threads.into_iter().collect::<Result<()>>()?;
    found
}

impl Traffic {
    /// One stream, until the end.
    fn stream(&self, at: usize, is_out: bool) {
        let moved = match is_out {
            true => self.send(&self.streams[at]),
            false => self.take(&self.streams[at]),
        };
        let is_expected =
            self.is_over.load(Ordering::Relaxed) || self.is_leaving.load(Ordering::Relaxed);
        if moved.is_err() && !is_expected {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        let piece = pattern(PIECE_BYTES);
        self.go_on(&self.sent, || stream.write(&piece))
    }

    fn take(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        self.go_on(&self.received, || match stream.read(&mut piece) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            moved => moved,
        })
    }

    fn go_on(
        &self,
        count: &AtomicU64,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<()> {
        use ErrorKind::{Interrupted, TimedOut, WouldBlock};
        while !self.is_over.load(Ordering::Relaxed) {
            match call() {
                Ok(bytes) => {
                    count.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // One that is gone already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn so_far(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) ns: f64,
    pub(super) used: Used,
    pub(super) broken: u64,
    /// The CPU on which the kernel last handled a round trip's message.
    pub(super) softirq_cpu: Option<usize>,
}

/// The window in which an end counts.
pub(super) struct Window {
    usage: Usage,
    clock: Clock,
    received: u64,
    sent: u64,
    began: u64,
}

impl Window {
    pub(super) fn begin(traffic: &Traffic, cpus: &[usize], clock: Clock) -> Window {
        Window {
            usage: Usage::begin(cpus),
            clock,
            received: so_far(&traffic.received),
            sent: so_far(&traffic.sent),
            began: clock.start(),
        }
    }

    pub(super) fn ns(&self) -> f64 {
        self.clock.between_ns(self.began, self.clock.end())
    }

    /// Whether not a single piece came in. Such a window says nothing of a rate: it goes on until
    /// one does.
    pub(super) fn is_empty(&self, traffic: &Traffic) -> bool {
        so_far(&traffic.received) == self.received
    }

    /// Ends it; from then on a stream that the other end leaves has not broken down.
    pub(super) fn end(self, traffic: &Traffic, softirq_cpu: Option<usize>) -> Counted {
        let ns = self.ns();
        let counted = Counted {
            received: so_far(&traffic.received) - self.received,
            sent: so_far(&traffic.sent) - self.sent,
            ns,
            used: self.usage.end(),
            broken: so_far(&traffic.broken),
            softirq_cpu,
        };
        traffic.is_leaving.store(true, Ordering::Relaxed);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, during, so_far};
    use crate::net::ends::tests::streams;
    use std::time::{Duration, Instant};

    #[test]
    fn bytes_arrive_until_an_end_goes_and_nothing_waits_for_it() {
        let cpu = metal::place::allowed().expect("CPUs").first().copied();
        let (near, far) = streams();
        let until = Instant::now() + Duration::from_secs(20);
        let wait = |is_so: &dyn Fn() -> bool| {
            while !is_so() && Instant::now() < until {
                std::thread::yield_now();
            }
        };
        let ended = during(vec![near], Vec::new(), cpu, |sender| {
            during(Vec::new(), vec![far], cpu, |taker| {
                wait(&|| so_far(&taker.received) >= 1 << 20);
                // What a call has sent may be there before its sender has counted it: one call's
                // bytes.
                let received = so_far(&taker.received);
                let sent = so_far(&sender.sent) + PIECE_BYTES as u64;
                assert!((1 << 20..=sent).contains(&received), "{received} of {sent}");
                assert_eq!((so_far(&sender.broken), so_far(&taker.broken)), (0, 0));
                Ok(())
            })?;
            // The other end breaks, and says so.
            wait(&|| so_far(&sender.broken) > 0);
            assert_eq!(so_far(&sender.broken), 1);
            Ok(())
        });
        ended.expect("all end");
        // A stream without a reader is ended in the middle of a call.
        let (near, _silent) = streams();
        during(vec![near], Vec::new(), cpu, |_| Ok(())).expect("ends");
        assert!(Instant::now() < until + Duration::from_secs(20));
    }
}

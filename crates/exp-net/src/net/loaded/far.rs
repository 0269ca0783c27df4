//! The far end, which answers round trips in one thread, and the traffic beside them: streams that
//! send as fast as they may, and streams that take in what comes, each in a thread. Both ends make
//! them alike.

use crate::net::place::{Turns, Usage, Used, only, pin_far, placed};
use crate::net::wire::timed::{Socket, echo, pattern, pull, push};
use crate::net::wire::{Acceptor, Call, Line, NO_PORTS, PATIENCE};
use bench::measure::{FarEnd, Finally, beside};
use bench::prelude::*;
use laws::net::Protocol;
use laws::net::loaded::{Beside, Direction};
use metal::socket::Wait;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// More streams each way are not served.
const STREAMS_MAX: usize = 256;
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// A case whose socket is not ended after this time is looked at.
const CASE_TIME: Duration = Duration::from_secs(10);
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

pub(super) fn serve(acceptor: &mut Acceptor, far: &mut FarEnd, call: &mut Call) -> Result<()> {
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
        Protocol::Udp => acceptor.sockets(far, &mut call.line, Protocol::Udp, 1)?,
    };
    // In the order in which the near end makes them: that of the round trips, those up, those down.
    let own = 1 - datagrams.len();
    let all = acceptor.admit_all(own + count_up + count_down, Instant::now() + PATIENCE)?;
    let mut all: Vec<Socket> = all.into_iter().map(Socket::from).collect();
    let down = all.split_off(own + count_up);
    let up = all.split_off(own);
    let prober = datagrams.into_iter().chain(all).next().context("no socket for round trips")?;
    let (bytes, is_over) = (usize::try_from(of.message)?, AtomicBool::new(false));
    let answer = |()| {
        let goes_on = || Ok(!is_over.load(Ordering::Relaxed));
        echo(&prober, bytes, Wait::Block, CASE_TIME, goes_on)
    };
    let (served, answered) = beside(vec![(cpu, ())], Ok, answer, |gate| {
        let _ending = Finally(|| {
            is_over.store(true, Ordering::Relaxed);
            prober.cut();
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
    // A near end that is gone has its own reason.
    drop(answered);
    Ok(())
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

const PIECE_BYTES: usize = 128 << 10;
/// A call that moves nothing for so long looks whether there is an end.
const CALL_TIME: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Traffic {
    pub(super) streams: Vec<Socket>,
    /// Bytes of each that its kernel took, or that arrived: those of the first `senders` go out.
    moved: Vec<AtomicU64>,
    senders: usize,
    is_over: AtomicBool,
    /// The other end may go from now on.
    is_leaving: AtomicBool,
    /// Streams that broke down by themselves.
    broken: AtomicU64,
}

/// Sends by `out` and takes in by `inward`, on a CPU or where the scheduler places the threads, for
/// as long as `meanwhile` takes.
pub(super) fn during<R>(
    out: Vec<Socket>,
    inward: Vec<Socket>,
    cpu: Option<usize>,
    meanwhile: impl FnOnce(&Traffic) -> Result<R>,
) -> Result<R> {
    let senders = out.len();
    let streams: Vec<Socket> = out.into_iter().chain(inward).collect();
    for stream in &streams {
        stream.options().set_write_timeout(Some(CALL_TIME))?;
        stream.options().set_read_timeout(Some(CALL_TIME))?;
        // Data left in its buffers at the end is unused, and must not go on beside the next
        // measurement.
        stream.options().set_linger(Some(Duration::ZERO))?;
    }
    let moved = streams.iter().map(|_| AtomicU64::new(0)).collect();
    let traffic = Traffic { streams, moved, senders, ..Traffic::default() };
    let members = (0..traffic.streams.len()).map(|at| (cpu, at)).collect();
    let work = |at| {
        traffic.stream(at);
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
    /// One stream, until the end. One that ends before it broke down by itself.
    fn stream(&self, at: usize) {
        let (stream, moved) = (&self.streams[at], &self.moved[at]);
        // A call that moves nothing for a time looks whether there is an end.
        let _ = if at < self.senders {
            let sent = |bytes| moved.store(bytes, Ordering::Relaxed);
            push(stream, &pattern(PIECE_BYTES), &self.is_over, sent, || Ok(()))
        } else {
            let is_going = || {
                ensure!(!self.is_over.load(Ordering::Relaxed), "the case is over");
                Ok(())
            };
            let received = |bytes| {
                moved.store(bytes, Ordering::Relaxed);
                is_going().map(|()| Wait::Block)
            };
            pull(stream, &mut vec![0; PIECE_BYTES], received, is_going)
        };
        let is_expected =
            self.is_over.load(Ordering::Relaxed) || self.is_leaving.load(Ordering::Relaxed);
        self.broken.fetch_add(u64::from(!is_expected), Ordering::Relaxed);
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.streams.iter().for_each(Socket::cut);
    }

    /// Bytes that its kernel took so far.
    fn sent(&self) -> u64 {
        self.moved[..self.senders].iter().map(so_far).sum()
    }

    /// Bytes that arrived so far.
    fn received(&self) -> u64 {
        self.moved[self.senders..].iter().map(so_far).sum()
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
            received: traffic.received(),
            sent: traffic.sent(),
            began: clock.start(),
        }
    }

    pub(super) fn ns(&self) -> f64 {
        self.clock.between_ns(self.began, self.clock.end())
    }

    /// Whether not a single piece came in. Such a window says nothing of a rate: it goes on until
    /// one does.
    pub(super) fn is_empty(&self, traffic: &Traffic) -> bool {
        traffic.received() == self.received
    }

    /// Ends it; from then on a stream that the other end leaves has not broken down.
    pub(super) fn end(self, traffic: &Traffic, softirq_cpu: Option<usize>) -> Counted {
        let ns = self.ns();
        let counted = Counted {
            received: traffic.received() - self.received,
            sent: traffic.sent() - self.sent,
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
    use crate::net::wire::tests::streams;
    use crate::net::wire::timed::Socket;
    use std::time::{Duration, Instant};

    fn sockets() -> (Socket, Socket) {
        let (near, far) = streams();
        (near.into(), far.into())
    }

    #[test]
    fn bytes_arrive_until_an_end_goes_and_nothing_waits_for_it() {
        let cpu = metal::place::allowed().expect("CPUs").first().copied();
        let (near, far) = sockets();
        let until = Instant::now() + Duration::from_secs(20);
        let wait = |is_so: &dyn Fn() -> bool| {
            while !is_so() && Instant::now() < until {
                std::thread::yield_now();
            }
        };
        let ended = during(vec![near], Vec::new(), cpu, |sender| {
            during(Vec::new(), vec![far], cpu, |taker| {
                wait(&|| taker.received() >= 1 << 20);
                // What a call has sent may be there before its sender has counted it: one call's
                // bytes.
                let received = taker.received();
                let sent = sender.sent() + PIECE_BYTES as u64;
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
        let (near, _silent) = sockets();
        during(vec![near], Vec::new(), cpu, |_| Ok(())).expect("ends");
        assert!(Instant::now() < until + Duration::from_secs(20));
    }
}

//! The traffic: streams that send as fast as they may, and streams that take in what comes, each in
//! a thread. Both ends make them alike.

use crate::net::ends::pattern;
use crate::net::usage::{Usage, Used};
use anyhow::Result;
use bench::measure::{Clock, Finally, beside};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

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

//! The traffic: streams that send as fast as they may, and streams that take in what comes, each in
//! a thread. Both ends make them alike.

use crate::net::usage::{Usage, Used};
use anyhow::{Context, Result};
use bench::measure::Clock;
use metal::place;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of one call.
const PIECE_BYTES: usize = 128 << 10;
/// A call that moves nothing for so long looks whether there is an end.
const CALL_TIME: Duration = Duration::from_millis(500);

/// Streams of one end, until they are dropped.
pub(super) struct Traffic {
    shared: Arc<Shared>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    received: AtomicU64,
    sent: AtomicU64,
    is_over: AtomicBool,
    /// The other end may go from now on.
    is_leaving: AtomicBool,
    /// Streams that broke down by themselves.
    broken: AtomicU64,
}

impl Traffic {
    /// Sends by `out` and takes in by `inward`, on a CPU or where the scheduler places the threads.
    ///
    /// # Errors
    /// A thread cannot be made, or a socket's times cannot be set.
    pub(super) fn start(
        out: Vec<TcpStream>,
        inward: Vec<TcpStream>,
        cpu: Option<usize>,
    ) -> Result<Traffic> {
        let mut all = Traffic { shared: Arc::default(), streams: Vec::new(), threads: Vec::new() };
        let sends = out.into_iter().map(|stream| (stream, true));
        let takes = inward.into_iter().map(|stream| (stream, false));
        for (stream, is_out) in sends.chain(takes) {
            stream.set_write_timeout(Some(CALL_TIME))?;
            stream.set_read_timeout(Some(CALL_TIME))?;
            // What is still in its buffers when it ends is nobody's, and must not go on beside what
            // is measured next.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            all.streams.push(stream.try_clone()?);
            let shared = Arc::clone(&all.shared);
            let work = move || {
                let is_placed = cpu.is_none_or(|cpu| place::pin(cpu).is_ok());
                let moved = match is_out {
                    true => send(stream, &shared),
                    false => take(stream, &shared),
                };
                let is_expected = shared.is_over.load(Ordering::Relaxed)
                    || shared.is_leaving.load(Ordering::Relaxed);
                if !is_placed || (moved.is_err() && !is_expected) {
                    shared.broken.fetch_add(1, Ordering::Relaxed);
                }
            };
            let thread = thread::Builder::new().name("traffic".to_owned());
            all.threads.push(thread.spawn(work).context("a thread for traffic")?);
        }
        Ok(all)
    }

    /// Bytes that arrived at this end so far.
    pub(super) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Bytes that this end's kernel took so far.
    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Streams that broke down.
    pub(super) fn broken(&self) -> u64 {
        self.shared.broken.load(Ordering::Relaxed)
    }

    /// The sockets, for what the kernel knows of them.
    pub(super) fn streams(&self) -> &[TcpStream] {
        &self.streams
    }
}

/// What an end counted in its window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Bytes that arrived.
    pub(super) received: u64,
    /// Bytes that its kernel took.
    pub(super) sent: u64,
    /// Length of the window, in ns.
    pub(super) ns: f64,
    /// CPU time of the process.
    pub(super) used: Used,
    /// Streams that broke down.
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
    /// Begins it.
    pub(super) fn begin(traffic: &Traffic, cpus: &[usize], clock: Clock) -> Window {
        Window {
            usage: Usage::begin(cpus),
            clock,
            received: traffic.received(),
            sent: traffic.sent(),
            began: clock.start(),
        }
    }

    /// Its length so far, in ns.
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
            broken: traffic.broken(),
            softirq_cpu,
        };
        traffic.shared.is_leaving.store(true, Ordering::Relaxed);
        counted
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // One that is gone already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn send(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|at| (at % 251) as u8 + 1).collect();
    while !shared.is_over.load(Ordering::Relaxed) {
        match stream.write(&piece) {
            Ok(bytes) => {
                shared.sent.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if is_again(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn take(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while !shared.is_over.load(Ordering::Relaxed) {
        match stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                shared.received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if is_again(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_again(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, Traffic};
    use crate::net::ends::tests::streams;
    use std::time::{Duration, Instant};

    #[test]
    fn bytes_arrive_until_an_end_goes_and_nothing_waits_for_it() {
        let cpu = metal::place::allowed().expect("CPUs")[0];
        let (near, far) = streams();
        let sender = Traffic::start(vec![near], Vec::new(), Some(cpu)).expect("starts");
        let taker = Traffic::start(Vec::new(), vec![far], Some(cpu)).expect("starts");
        let until = Instant::now() + Duration::from_secs(20);
        while taker.received() < 1 << 20 && Instant::now() < until {
            std::thread::yield_now();
        }
        // What a call has sent may be there before its sender has counted it: one call's bytes.
        let received = taker.received();
        let sent = sender.sent() + PIECE_BYTES as u64;
        assert!((1 << 20..=sent).contains(&received), "{received} of {sent}");
        assert_eq!((sender.broken(), taker.broken()), (0, 0));
        drop(taker);
        // The other end breaks, and says so.
        while sender.broken() == 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(sender.broken(), 1);
        drop(sender);
        // One that nobody takes from is ended in the middle of a call.
        let (near, _silent) = streams();
        let blocked = Traffic::start(vec![near], Vec::new(), Some(cpu)).expect("starts");
        drop(blocked);
        assert!(Instant::now() < until + Duration::from_secs(20));
    }
}

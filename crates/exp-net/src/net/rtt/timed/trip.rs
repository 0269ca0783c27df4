//! The near end's loop: a message out, the same message back, one clock read a turn.

use crate::net::ends::{pattern, send_whole};
use crate::net::place::{at_once, places, thread_cpu_ns as cpu_ns};
use bench::prelude::*;
use laws::net::rtt::Protocol;
use metal::deadline::Deadline;
use metal::socket::{Wait, incoming_cpu, receive, send};
use metal::{clock, sleep};
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

/// Exchanges before the timed ones: slow start, lazily made state of both kernels, cold caches.
const WARM_UP: u64 = 32;
/// Fewer where each takes long.
const WARM_UP_NS: f64 = 3e6;
/// A polling end reads the clock after so many polls.
const TURNS_PER_LOOK: u32 = 256;
/// A datagram counts as lost after so many times the slowest of the warm-up …
const LOST_AFTER: f64 = 50.0;
/// … within these limits, in ns.
const LOST_LEAST_NS: f64 = 2e7;
const LOST_MOST_NS: f64 = 1e9;
/// What goes by a stream is sent again until it comes (a SYN after 1 s and 3 s): no exchange is
/// waited for longer than this, and its bytes both ways at 10 Mbit/s, in ns.
const STREAM_MOST_NS: f64 = 5e9;
const NS_PER_BYTE: f64 = 2.0 * 800.0;
/// How often a thread that waits for a datagram wakes to check its time-out; a time-out of the
/// socket's own would cost a timer at each wait.
const LOOK: Duration = Duration::from_millis(20);
/// So many lost datagrams in a row are a way that is closed.
const LOST_IN_A_ROW: u32 = 3;
/// For lost messages a loop may go on for so many windows more, and twice a time-out.
const EXTRA_WINDOWS: f64 = 3.0;
/// Room in the log for exchanges as short as this, in ns.
const SHORTEST_NS: f64 = 500.0;

/// How long an exchange may take at most, in ns.
pub(in crate::net::rtt) fn limit_ns(protocol: Protocol, bytes: u64) -> f64 {
    match protocol {
        Protocol::Udp => LOST_MOST_NS,
        Protocol::Tcp | Protocol::Unix => STREAM_MOST_NS + NS_PER_BYTE * bytes as f64,
    }
}

/// How long exchanges are made, in ns.
#[derive(Clone, Copy, Debug)]
pub(in crate::net::rtt) struct Plan {
    pub(in crate::net::rtt) window_ns: f64,
    /// Before each exchange, where they are sparse.
    pub(in crate::net::rtt) pause_ns: Option<f64>,
    pub(in crate::net::rtt) clock: Clock,
}

#[derive(Clone, Debug, Default)]
pub(in crate::net::rtt) struct Ran {
    /// Length of every exchange that came back, in ticks.
    pub(in crate::net::rtt) ticks: Vec<u64>,
    /// Messages sent, those of the warm-up included.
    pub(in crate::net::rtt) sent: u64,
    /// Timed exchanges that did not come back in time.
    pub(in crate::net::rtt) lost: u64,
    /// Of how long, in ns.
    pub(in crate::net::rtt) lost_after_ns: f64,
    /// Messages, those of the warm-up included, that did not come back in time.
    pub(in crate::net::rtt) unanswered: u64,
    pub(in crate::net::rtt) late: u64,
    /// CPU time of the thread over the timed exchanges, in ns.
    pub(in crate::net::rtt) cpu_ns: u64,
    pub(in crate::net::rtt) timed: u64,
    /// The CPU on which packets arrived.
    pub(in crate::net::rtt) softirq_cpu: Option<usize>,
}

/// One connection at the near end; with its far end where one thread holds both.
pub(in crate::net::rtt) struct Trip {
    socket: OwnedFd,
    other: Option<OwnedFd>,
    datagrams: bool,
    wait: Wait,
    clock: Clock,
    message: Vec<u8>,
    back: Vec<u8>,
    number: u64,
    /// No exchange may take longer, in ns.
    limit_ns: f64,
    /// After so many ticks without an answer it is not waited for.
    patience_ticks: u64,
    late: u64,
    unanswered: u64,
}

/// What came of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Back,
    TooLate,
}

impl Trip {
    /// `other`: the far end, where the same thread holds it.
    pub(in crate::net::rtt) fn new(
        socket: OwnedFd,
        other: Option<OwnedFd>,
        protocol: Protocol,
        bytes: u64,
        polls: bool,
        clock: Clock,
    ) -> Result<Trip> {
        let bytes = usize::try_from(bytes)?;
        let mut trip = Trip {
            socket,
            other,
            datagrams: protocol == Protocol::Udp,
            wait: if polls { Wait::Never } else { Wait::Block },
            clock,
            back: vec![1; bytes.max(PROBE_BYTES)],
            message: pattern(bytes),
            number: 0,
            limit_ns: limit_ns(protocol, bytes as u64),
            patience_ticks: 0,
            late: 0,
            unanswered: 0,
        };
        trip.wait_at_most(trip.limit_ns)?;
        Ok(trip)
    }

    /// How long an answer is waited for. (Sending waits only where the far end takes nothing.)
    fn wait_at_most(&mut self, ns: f64) -> Result<()> {
        self.patience_ticks = self.clock.ticks(ns);
        let time = Some(Duration::from_nanos(self.limit_ns as u64));
        for socket in [Some(&self.socket), self.other.as_ref()].into_iter().flatten() {
            SockRef::from(socket).set_write_timeout(time).context("setting a socket time-out")?;
        }
        Ok(())
    }

    /// Has the waiting thread woken now and then, from where on an answer of a stream would be
    /// late.
    fn deadline(&self, window_ns: f64) -> Result<Option<Deadline>> {
        if self.wait == Wait::Never {
            return Ok(None);
        }
        let after = match self.datagrams {
            true => LOOK,
            false => Duration::from_nanos((window_ns + LOST_MOST_NS) as u64),
        };
        Deadline::after(after).map(Some).context("a deadline")
    }

    /// The warm-up: room for the timed exchanges, and the slowest of those before, in ns; of
    /// datagrams some may be lost.
    fn warm(&mut self, plan: Plan) -> Result<(Ran, f64)> {
        let room = (plan.window_ns / SHORTEST_NS) as usize + 64;
        // Touched, so that no page is missing in the loop.
        let mut ran = Ran { ticks: vec![1; room], ..Ran::default() };
        ran.ticks.clear();
        let _deadline = self.deadline(WARM_UP_NS)?;
        let began = self.clock.start();
        let mut last = began;
        let mut slowest: u64 = 0;
        let mut lost = 0;
        for turn in 0..WARM_UP {
            let came = self.exchange(last)?;
            let now = self.clock.end();
            match came {
                Came::Back => {
                    lost = 0;
                    // The first one finds everything cold.
                    if turn > 0 {
                        slowest = slowest.max(now.saturating_sub(last));
                    }
                }
                Came::TooLate => lost += 1,
            }
            ensure!(lost < LOST_IN_A_ROW, "no message came back: {lost} were lost in a row");
            last = now;
            let longest_ns = WARM_UP_NS.min(plan.window_ns);
            if turn > 0 && lost == 0 && self.clock.between_ns(began, now) > longest_ns {
                break;
            }
        }
        Ok((ran, self.clock.ns(slowest)))
    }

    fn run(&mut self, plan: Plan, mut ran: Ran, slowest_ns: f64) -> Result<Ran> {
        let deadline = self.deadline(plan.window_ns)?;
        if self.datagrams {
            let ns = (LOST_AFTER * slowest_ns).clamp(LOST_LEAST_NS, LOST_MOST_NS);
            self.wait_at_most(ns)?;
            ran.lost_after_ns = ns;
        }
        let warm = self.number;
        let before_ns = cpu_ns();
        match plan.pause_ns {
            None => self.timed::<false>(plan, 0.0, &mut ran)?,
            Some(pause_ns) => self.timed::<true>(plan, pause_ns, &mut ran)?,
        }
        ran.cpu_ns = cpu_ns() - before_ns;
        drop(deadline);
        ran.sent = self.number;
        ran.timed = self.number - warm;
        ran.late = self.late;
        ran.unanswered = self.unanswered;
        ran.softirq_cpu = incoming_cpu(self.socket.as_fd()).unwrap_or(None);
        ensure!(
            !ran.ticks.is_empty(),
            "none of {} messages came back within {:.0} ms",
            ran.lost,
            ran.lost_after_ns / 1e6
        );
        Ok(ran)
    }

    /// One exchange after another, or each after a pause: a blocking end sleeps in it, a polling
    /// end keeps its CPU awake. What waits for a lost one is not part of the window.
    fn timed<const IS_SPARSE: bool>(
        &mut self,
        plan: Plan,
        pause_ns: f64,
        ran: &mut Ran,
    ) -> Result<()> {
        let room = ran.ticks.capacity();
        let pause = self.clock.ticks(pause_ns);
        let mut last = self.clock.start();
        let mut until = last + self.clock.ticks(plan.window_ns);
        let last_end =
            until + self.clock.ticks(EXTRA_WINDOWS * plan.window_ns) + 2 * self.patience_ticks;
        while last < until && ran.ticks.len() < room {
            let mut start = last;
            if IS_SPARSE {
                self.pause(last + pause, pause_ns)?;
                start = self.clock.start();
            }
            let came = self.exchange(start)?;
            last = self.clock.end();
            match came {
                Came::Back => ran.ticks.push(last.saturating_sub(start)),
                Came::TooLate => {
                    ran.lost += 1;
                    until = last_end.min(until + (last - start));
                }
            }
        }
        Ok(())
    }

    fn pause(&self, until: u64, pause_ns: f64) -> Result<()> {
        if self.wait == Wait::Never {
            while self.clock.start() < until {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        let at_ns = clock::monotonic_ns() + pause_ns as u64;
        loop {
            match sleep::until(clock::Clock::MONOTONIC, at_ns) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                slept => return slept.context("pausing"),
            }
        }
    }

    /// A message out and back, checked for its number; `start` is when it began.
    #[inline]
    fn exchange(&mut self, start: u64) -> Result<Came> {
        self.number += 1;
        stamp(&mut self.message, self.number);
        let mut patience = Patience::new(self.clock, start + self.patience_ticks);
        let datagrams = self.datagrams;
        // What an earlier datagram met on its way comes with the next.
        let is_none = |error| match error {
            ErrorKind::ConnectionRefused => datagrams,
            error => error == ErrorKind::Interrupted,
        };
        send_whole(&self.socket, &self.message, is_none).context("sending")?;
        if self.other.is_some() {
            self.turn_round(&mut patience)?;
        }
        if self.datagrams {
            let came = self.answer(&mut patience)?;
            self.unanswered += u64::from(came == Came::TooLate);
            return Ok(came);
        }
        let into = &mut self.back[..self.message.len()];
        fill(&self.socket, into, self.wait, &mut patience).context("receiving")?;
        ensure!(is_same(&self.message, into), "the reply differs from the message");
        Ok(Came::Back)
    }

    fn turn_round(&mut self, patience: &mut Patience) -> Result<()> {
        let Some(other) = &self.other else {
            return Ok(());
        };
        let length = self.message.len();
        let into = &mut self.back[..length];
        fill(other, into, Wait::Block, patience).context("receiving at the other socket")?;
        let is_none = |error| error == ErrorKind::Interrupted;
        send_whole(other, &self.back[..length], is_none).context("sending back")
    }

    /// The datagram that has this exchange's number; others came too late.
    #[inline]
    fn answer(&mut self, patience: &mut Patience) -> Result<Came> {
        let length = self.message.len();
        loop {
            let is_over = match receive(self.socket.as_fd(), &mut self.back, self.wait) {
                Ok(bytes) if bytes == length && is_same(&self.message, &self.back[..length]) => {
                    return Ok(Came::Back);
                }
                Ok(_) => {
                    self.late += 1;
                    // More of them must not keep the loop from its time-out.
                    patience.is_over_now()
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => patience.is_over(),
                Err(error) if error.kind() == ErrorKind::Interrupted => patience.is_over_now(),
                // The port is closed, according to the answer to an earlier one: this one waits no
                // longer.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => true,
                Err(error) => return Err(error).context("receiving"),
            };
            if is_over {
                return Ok(Came::TooLate);
            }
        }
    }

    /// Reports the end to the far end.
    pub(in crate::net::rtt) fn finish(&self) {
        // The line reports it as well.
        let _ = match self.datagrams {
            true => send(self.socket.as_fd(), &[]).map(drop),
            false => SockRef::from(&self.socket).shutdown(std::net::Shutdown::Write),
        };
    }
}

/// The smallest buffer for datagrams: a longer one than was sent is seen to be longer.
const PROBE_BYTES: usize = 64;

/// When an answer is given up.
struct Patience {
    clock: Clock,
    until: u64,
    turns: u32,
}

impl Patience {
    fn new(clock: Clock, until: u64) -> Patience {
        Patience { clock, until, turns: 0 }
    }

    /// For a polling end: asks the clock once in a while.
    fn is_over(&mut self) -> bool {
        self.turns += 1;
        self.turns.is_multiple_of(TURNS_PER_LOOK) && self.is_over_now()
    }

    fn is_over_now(&self) -> bool {
        self.clock.start() > self.until
    }
}

/// Receives as many bytes of a stream as fit `into`.
#[inline]
fn fill(socket: &OwnedFd, into: &mut [u8], wait: Wait, patience: &mut Patience) -> io::Result<()> {
    let mut have = 0;
    while have < into.len() {
        let is_over = match receive(socket.as_fd(), &mut into[have..], wait) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                have += bytes;
                false
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => patience.is_over(),
            Err(error) if error.kind() == ErrorKind::Interrupted => patience.is_over_now(),
            Err(error) => return Err(error),
        };
        if is_over {
            return Err(io::Error::new(ErrorKind::TimedOut, "a message did not arrive in time"));
        }
    }
    Ok(())
}

/// Writes a number into a message: its first eight bytes, as far as it has them, and its last one.
#[inline]
pub(in crate::net::rtt) fn stamp(message: &mut [u8], number: u64) {
    match message.first_chunk_mut::<8>() {
        Some(first) => *first = number.to_le_bytes(),
        None => message.fill(number as u8),
    }
    if let Some(last) = message.last_mut() {
        *last = number as u8;
    }
}

/// Whether a message came back with the number that it was sent with.
#[inline]
pub(in crate::net::rtt) fn is_same(sent: &[u8], back: &[u8]) -> bool {
    let first = |bytes: &[u8]| bytes.first_chunk::<8>().copied();
    sent.len() == back.len() && sent.last() == back.last() && first(sent) == first(back)
}

/// Runs every connection in a thread on its CPU, or where the scheduler places it, all at once.
pub(in crate::net::rtt) fn all(
    trips: &mut [Trip],
    (cpus, is_free): (&[usize], bool),
    plan: Plan,
) -> Result<Vec<Ran>> {
    at_once(
        trips,
        places(cpus, is_free),
        |trip| Ok((trip.warm(plan)?, trip)),
        |((ran, slowest_ns), trip)| trip.run(plan, ran, slowest_ns),
    )
}

#[cfg(test)]
mod tests;

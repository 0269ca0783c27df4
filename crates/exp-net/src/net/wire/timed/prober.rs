//! The near end's loop: a message out, the same message back, one clock read a turn.

use super::{Messages, Socket, completed, is_same, stamp};
use crate::net::place::{at_once, places, thread_cpu_ns as cpu_ns};
use bench::prelude::*;
use metal::deadline::Deadline;
use metal::socket::Wait;
use metal::{clock, sleep};
use std::net::Shutdown;

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
pub const LOST_MOST_NS: f64 = 1e9;
/// What goes by a stream is sent again until it comes (a SYN after 1 s and 3 s): no exchange is
/// waited for longer than this, and its bytes both ways at 10 Mbit/s, in ns.
const STREAM_MOST_NS: f64 = 5e9;
const NS_PER_BYTE: f64 = 2.0 * 800.0;
/// So many lost datagrams in a row are a way that is closed.
const LOST_IN_A_ROW: u32 = 3;
/// For lost messages a loop may go on for so many windows more, and twice a time-out.
const EXTRA_WINDOWS: f64 = 3.0;
/// Room in the log for exchanges as short as this, in ns.
const SHORTEST_NS: f64 = 500.0;

/// How long an exchange of so many bytes by a stream may take at most, in ns.
pub fn stream_limit_ns(bytes: u64) -> f64 {
    STREAM_MOST_NS + NS_PER_BYTE * bytes as f64
}

/// How long exchanges are made, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    pub window_ns: f64,
    /// Before each exchange, where they are sparse.
    pub pause_ns: Option<f64>,
    /// An end that wants at least so many goes on for them, up to so many ns; its window ends at
    /// its time, however many are lost. Of others the waits for lost ones are not part of it.
    pub least: Option<(usize, f64)>,
}

#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Length of every exchange that came back, in ticks.
    pub ticks: Vec<u64>,
    /// From the first one's begin to the last one's end, in ticks.
    pub window: u64,
    /// Messages sent, those of the warm-up included.
    pub sent: u64,
    /// Timed exchanges that did not come back in time.
    pub lost: u64,
    /// Of how long, in ns; 0 of a stream.
    pub lost_after_ns: f64,
    /// Messages, those of the warm-up included, that did not come back in time.
    pub unanswered: u64,
    pub late: u64,
    /// CPU time of the thread over the timed exchanges, in ns.
    pub cpu_ns: u64,
    pub timed: u64,
    /// The CPU on which packets arrived.
    pub softirq_cpu: Option<usize>,
}

impl Ran {
    /// Room for the exchanges of a plan. Where each thread has its own window no page of it is
    /// missing in the loop.
    fn with_room(plan: &Plan) -> Ran {
        let room = (plan.window_ns / SHORTEST_NS) as usize + 64;
        let mut ticks = match plan.least {
            None => vec![1; room],
            Some(_) => Vec::with_capacity(room),
        };
        ticks.clear();
        Ran { ticks, ..Ran::default() }
    }
}

/// One connection at the near end; with its far end where one thread holds both.
pub struct Prober {
    pub socket: Socket,
    other: Option<Socket>,
    messages: Messages,
    wait: Wait,
    clock: Clock,
    number: u64,
    /// After so many ns, and ticks, without an answer it is not waited for.
    patience_ns: f64,
    patience_ticks: u64,
    /// Whether that is no matter of the warm-up.
    is_patience_fixed: bool,
    late: u64,
    unanswered: u64,
}

/// What came of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Back,
    TooLate,
}

impl Prober {
    /// `other`: the far end, where the same thread holds it. No exchange takes longer than
    /// `limit_ns`.
    pub fn new(
        socket: Socket,
        other: Option<Socket>,
        bytes: u64,
        wait: Wait,
        (clock, limit_ns): (Clock, f64),
    ) -> Result<Prober> {
        // Sending waits only where the far end takes nothing. A time-out of the socket's own for
        // receiving would cost a timer at each wait.
        let time = Duration::from_nanos(limit_ns as u64);
        for socket in [Some(&socket), other.as_ref()].into_iter().flatten() {
            socket.options().set_read_timeout(None)?;
            socket.options().set_write_timeout(Some(time)).context("setting a time-out")?;
        }
        let messages = Messages::one_by_one(usize::try_from(bytes)?, socket.is_stream);
        let mut prober = Prober {
            socket,
            other,
            messages,
            wait,
            clock,
            number: 0,
            patience_ns: 0.0,
            patience_ticks: 0,
            is_patience_fixed: false,
            late: 0,
            unanswered: 0,
        };
        prober.wait_at_most(limit_ns);
        Ok(prober)
    }

    /// Datagrams are lost after so many ns, whatever the warm-up takes.
    pub fn lose_after(&mut self, ns: f64) {
        self.wait_at_most(ns);
        self.is_patience_fixed = true;
    }

    /// How long an answer is waited for.
    fn wait_at_most(&mut self, ns: f64) {
        self.patience_ns = ns;
        self.patience_ticks = self.clock.ticks(ns);
    }

    /// Has the waiting thread woken now and then, from where on an answer would be late.
    fn deadline(&self, window_ns: f64) -> Result<Option<Deadline>> {
        if self.wait == Wait::Never {
            return Ok(None);
        }
        let after_ns = match self.socket.is_stream {
            true => window_ns + LOST_MOST_NS,
            false => self.patience_ns,
        };
        Deadline::after(Duration::from_nanos(after_ns as u64)).map(Some).context("a deadline")
    }

    /// After its warm-up, with room for what it is to make.
    fn prepared(&mut self, plan: &Plan) -> Result<(&mut Prober, Ran)> {
        let ran = Ran::with_room(plan);
        self.warm(plan)?;
        Ok((self, ran))
    }

    /// The warm-up; of datagrams some may be lost, and from then on they are after many times the
    /// slowest.
    fn warm(&mut self, plan: &Plan) -> Result<()> {
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
        if !self.socket.is_stream && !self.is_patience_fixed {
            let ns = LOST_AFTER * self.clock.ns(slowest);
            self.wait_at_most(ns.clamp(LOST_LEAST_NS, LOST_MOST_NS));
        }
        Ok(())
    }

    /// Exchanges for as long as the plan says.
    pub fn exchanges(&mut self, plan: &Plan) -> Result<Ran> {
        self.run(plan, Ran::with_room(plan))
    }

    fn run(&mut self, plan: &Plan, mut ran: Ran) -> Result<Ran> {
        let deadline = self.deadline(plan.window_ns)?;
        if !self.socket.is_stream {
            ran.lost_after_ns = self.patience_ns;
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
        ran.softirq_cpu = self.socket.softirq_cpu();
        Ok(ran)
    }

    /// One exchange after another, or each after a pause: a blocking end sleeps in it, a polling
    /// end keeps its CPU awake.
    fn timed<const IS_SPARSE: bool>(
        &mut self,
        plan: &Plan,
        pause_ns: f64,
        ran: &mut Ran,
    ) -> Result<()> {
        let room = ran.ticks.capacity();
        let pause = self.clock.ticks(pause_ns);
        let begin = self.clock.start();
        let mut last = begin;
        let mut until = begin + self.clock.ticks(plan.window_ns);
        let (least, last_end) = match plan.least {
            Some((least, longest_ns)) => (least, begin + self.clock.ticks(longest_ns)),
            None => {
                let extra = self.clock.ticks(EXTRA_WINDOWS * plan.window_ns);
                (0, until + extra + 2 * self.patience_ticks)
            }
        };
        while (last < until || (ran.count() < least && last < last_end)) && ran.ticks.len() < room {
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
                    if plan.least.is_none() {
                        until = last_end.min(until + (last - start));
                    }
                }
            }
        }
        ran.window = last.saturating_sub(begin);
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
        while completed(sleep::until(clock::Clock::MONOTONIC, at_ns)).context("pausing")?.is_none()
        {
        }
        Ok(())
    }

    /// A message out and back, checked for its number; `start` is when it began.
    #[inline]
    fn exchange(&mut self, start: u64) -> Result<Came> {
        let Prober { socket, messages, wait, late, .. } = self;
        let is_stream = socket.is_stream;
        self.number += 1;
        stamp(messages.next(), self.number);
        let mut patience = Patience::new(self.clock, start + self.patience_ticks, *wait);
        let mut again = || Ok(!patience.is_over());
        let mut is_back = |sent: &[u8], back: &[u8]| {
            let is_back = is_same(sent, back);
            ensure!(is_back || !is_stream, "the reply differs from the message");
            *late += u64::from(!is_back);
            Ok(is_back)
        };
        let came = match &self.other {
            None => messages.exchange(socket, *wait, is_back, again)?,
            Some(other) => {
                messages.send(socket, &mut again)?
                    && messages.turn_round(other, &mut again)?
                    && messages.until_back(socket, *wait, &mut is_back, &mut again)?
            }
        };
        if came {
            return Ok(Came::Back);
        }
        ensure!(!is_stream, "no reply within {:.1} s", self.patience_ns / 1e9);
        self.unanswered += 1;
        Ok(Came::TooLate)
    }

    /// Reports the end to the far end. The line reports it as well.
    pub fn finish(&self) {
        let _ = match self.socket.is_stream {
            true => self.socket.options().shutdown(Shutdown::Write),
            false => self.socket.send(&[]).map(drop),
        };
    }
}

impl Ran {
    fn count(&self) -> usize {
        self.ticks.len() + self.lost as usize
    }
}

/// When an answer is given up.
struct Patience {
    clock: Clock,
    until: u64,
    turns_per_look: u32,
    turns: u32,
}

impl Patience {
    fn new(clock: Clock, until: u64, wait: Wait) -> Patience {
        let turns_per_look = if wait == Wait::Never { TURNS_PER_LOOK } else { 1 };
        Patience { clock, until, turns_per_look, turns: 0 }
    }

    /// A polling end asks the clock once in a while.
    fn is_over(&mut self) -> bool {
        self.turns += 1;
        self.turns.is_multiple_of(self.turns_per_look) && self.clock.start() > self.until
    }
}

/// Runs every connection in a thread on its CPU, or where the scheduler places it, all at once.
pub fn probe_all(
    probers: &mut [Prober],
    (cpus, is_free): (&[usize], bool),
    plan: &Plan,
) -> Result<Vec<Ran>> {
    let prepare = |prober| Prober::prepared(prober, plan);
    let work = |(prober, ran): (&mut Prober, Ran)| {
        let ran = prober.run(plan, ran)?;
        ensure!(
            !ran.ticks.is_empty(),
            "none of {} messages came back within {:.0} ms",
            ran.lost,
            ran.lost_after_ns / 1e6
        );
        Ok(ran)
    };
    at_once(probers, places(cpus, is_free), prepare, work)
}

#[cfg(test)]
mod tests;

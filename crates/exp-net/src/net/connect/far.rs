//! The far end: it accepts, closes, and reports the times; and what both ends say to each other by
//! the line of a case.

use super::opening::{Closes, Ending, Meter, ended};
use crate::net::place::{self, thread_cpu_ns};
use crate::net::wire::{Acceptor, Call, address, bound, completed};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::{Clock, FarEnd};
use laws::net::connect::{Closer, Connections, Listener};
use metal::wait::which_readable;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Nothing of a connection is waited for longer.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// A queue has room for a few more than were asked for.
const SPARE: u64 = 16;
/// Connections that have not sent a token yet: for one more the oldest is dropped, for the near end
/// says its own at once.
const SILENT_MAX: usize = 64;
/// How often to check that the near end is still there while no connection arrives.
const LOOK: Duration = Duration::from_millis(500);
/// The near end may be busy for so long before it says the next wish; where its process is gone,
/// that is heard at once.
const IDLE: Duration = Duration::from_secs(15);

pub(super) fn serve(acceptor: &mut Acceptor, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let of: Connections = call.decode()?;
    place::pin_far(far, &call.case, of.ends)?;
    let ask: Ask = call.ask()?;
    let socket = bound(address(far))?;
    let port = socket.local_addr()?.as_socket().context("an address")?.port();
    if of.listener == Listener::Refusing {
        call.line.tell(&port)?;
        // The port is held, so that no other program's port is tried.
        return match call.line.hear(IDLE)? {
            Wish::End => Ok(()),
            other => bail!("unexpected request {other:?} for a closed port"),
        };
    }
    let backlog = i32::try_from(ask.backlog).unwrap_or(i32::MAX);
    socket.listen(backlog).context("listening")?;
    socket.set_read_timeout(Some(LOOK))?;
    call.line.tell(&port)?;
    let clock = match ask.monotonic {
        true => Clock::Monotonic,
        false => far.clock(),
    };
    let mut server = Server { listener: socket.into(), acceptor, clock, closer: of.closer };
    let mut pace = match of.listener {
        Listener::Ready => {
            let (pace, _) = server.acceptor.admit(Instant::now() + LIMIT)?;
            limited(&pace)?;
            Some(pace)
        }
        _ => None,
    };
    loop {
        match call.line.hear(IDLE)? {
            Wish::Sequence(count) => {
                let pace = pace.as_mut().context("the pace connection is missing")?;
                // What comes by the line is the near end's, and held against what this case can
                // need.
                ensure!(
                    count <= SEQUENCE_MAX,
                    "{count} connections in a sequence; at most {SEQUENCE_MAX} are allowed"
                );
                let served = server.sequence(count, call, pace)?;
                far.planned_switches(8 * count);
                call.line.tell(&served)?;
            }
            Wish::Take(count) => {
                within(count, ask.backlog)?;
                let took = server.take(count, call)?;
                call.line.tell(&took)?;
            }
            Wish::Drain(count) => {
                within(count, ask.backlog)?;
                let until = Instant::now() + LIMIT;
                let mut held = Vec::new();
                let mut silent = Silent::default();
                while (held.len() as u64) < count {
                    let next = server.next(call, &mut silent, until, || Ok(()));
                    let next = next.with_context(|| {
                        format!("{} of {count} connections arrived", held.len())
                    })?;
                    held.push(next.0);
                }
                call.line.tell(&count)?;
            }
            Wish::End => return Ok(()),
        }
    }
}

/// A queue cannot hold more than it was made for.
fn within(count: u64, backlog: u32) -> Result<()> {
    let most = u64::from(backlog) + SPARE;
    ensure!(count <= most, "{count} queued connections do not fit a queue of {backlog}");
    Ok(())
}

/// Connections that have not sent a token yet, and the ticks when accept(2) returned.
type Silent = VecDeque<(TcpStream, u64)>;

struct Server<'acceptor> {
    listener: TcpListener,
    acceptor: &'acceptor mut Acceptor,
    clock: Clock,
    closer: Option<Closer>,
}

impl Server<'_> {
    /// The next that connects, and the ticks when accept(2) returned. The call waits in the kernel,
    /// as a server's does.
    fn accept(&self, call: &Call, until: Instant) -> Result<(TcpStream, u64)> {
        loop {
            let accepted = self.listener.accept();
            let at = self.clock.end();
            if let Some((stream, _)) = completed(accepted).context("accepting")? {
                limited(&stream)?;
                return Ok((stream, at));
            }
            ensure!(call.line.is_open(), "the near end is gone");
            ensure!(Instant::now() < until, "no connection arrived in time");
        }
    }

    /// The next that says its token, and the ticks when accept(2) returned. A silent connection
    /// waits beside the others and blocks none; a connection with a wrong token is dropped.
    fn next(
        &mut self,
        call: &Call,
        silent: &mut Silent,
        until: Instant,
        mut accepted: impl FnMut() -> Result<()>,
    ) -> Result<(TcpStream, u64)> {
        let mut knocks = silent.is_empty();
        loop {
            if knocks {
                let one = self.accept(call, until)?;
                if silent.len() == SILENT_MAX {
                    silent.pop_front();
                }
                silent.push_back(one);
                accepted()?;
            }
            let left = until.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "no connection with a valid token arrived in time");
            let fds: Vec<_> = silent
                .iter()
                .map(|(stream, _)| stream.as_fd())
                .chain([self.listener.as_fd()])
                .collect();
            let speaks = completed(which_readable(&fds, LOOK.min(left)));
            let Some(speaks) = speaks.context("waiting for a token")? else { continue };
            knocks = speaks.last() == Some(&true);
            if !speaks.contains(&true) {
                ensure!(call.line.is_open(), "the near end is gone");
            }
            // The last first, so that the places of the others stay.
            for at in (0..silent.len()).rev().filter(|at| speaks[*at]) {
                let Some((mut stream, ticks)) = silent.remove(at) else {
                    continue;
                };
                // A token is 28 bytes in one segment: a shorter message is a stranger's.
                if self.acceptor.check(&mut stream, Instant::now()).is_ok() {
                    return Ok((stream, ticks));
                }
            }
        }
    }

    /// Connections one after the other; before each `pace` says that it is about to accept.
    fn sequence(&mut self, count: u64, call: &Call, pace: &mut TcpStream) -> Result<Served> {
        let mut accepted = Vec::with_capacity(count as usize);
        let mut closes = Closes::default();
        let mut meter = Meter::begin();
        for number in 0..count {
            pace.write_all(&[ABOUT_TO_ACCEPT]).context("pacing the near end")?;
            let until = Instant::now() + LIMIT;
            // The near end hears it by a connection that is known to be its own: a stranger hears
            // nothing.
            let tell = || pace.write_all(&[ACCEPTED]).context("pacing the near end");
            let (mut stream, at) = self.next(call, &mut Silent::default(), until, tell)?;
            accepted.push(at);
            stream.write_all(b"h").context("answering")?;
            match self.closer {
                Some(Closer::Client) | None => ended(&mut stream)?,
                // It has read the answer: nothing but the FIN is on its way then.
                Some(Closer::Server) => stream.read_exact(&mut [0]).context("hearing")?,
            }
            closes.end(stream, Ending::from_number(number), self.clock, LIMIT)?;
            meter.ended(number);
        }
        closes.cpu_ns = meter.cpu_ns;
        Ok(Served { accepted, closes })
    }

    /// Accepts the queued connections as quickly as possible, and checks their tokens afterwards.
    fn take(&mut self, count: u64, call: &Call) -> Result<Took> {
        let until = Instant::now() + LIMIT;
        let mut streams = Vec::with_capacity(count as usize);
        let (took, ()) = timed(self.clock, || {
            while (streams.len() as u64) < count {
                if let Some((stream, _)) = completed(self.listener.accept()).context("accepting")? {
                    streams.push(stream);
                    continue;
                }
                ensure!(call.line.is_open(), "the near end is gone");
                ensure!(Instant::now() < until, "fewer connections are queued than announced");
            }
            Ok(())
        })?;
        let mut all_right = true;
        for stream in &mut streams {
            all_right &= self.acceptor.check(stream, until).is_ok();
        }
        Ok(Took { all_right, ..took })
    }
}

/// What something takes of time and of the calling thread's CPU.
pub(super) fn timed<T>(clock: Clock, body: impl FnOnce() -> Result<T>) -> Result<(Took, T)> {
    let cpu_before = thread_cpu_ns();
    let start = clock.start();
    let value = body()?;
    let end = clock.end();
    let took = Took {
        ns: clock.between_ns(start, end),
        cpu_ns: thread_cpu_ns().saturating_sub(cpu_before) as f64,
        all_right: true,
    };
    Ok((took, value))
}

/// What an accepted connection has: small messages go at once, and nothing waits for ever.
pub(super) fn limited(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    Ok(())
}

/// What the far end says by the connection that paces the near end.
pub(super) const ABOUT_TO_ACCEPT: u8 = b'p';
pub(super) const ACCEPTED: u8 = b'a';

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) backlog: u32,
    /// The processors' counters are too far apart: both ends read CLOCK_MONOTONIC.
    pub(super) monotonic: bool,
}

/// Most connections of a sequence: their results fit into one message.
pub(super) const SEQUENCE_MAX: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Wish {
    Sequence(u64),
    /// Accept this many queued connections as quickly as possible.
    Take(u64),
    /// Accept this many, some of which have not arrived yet.
    Drain(u64),
    End,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) accepted: Vec<u64>,
    pub(super) closes: Closes,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Took {
    /// From the first call to the last one's end, in ns.
    pub(super) ns: f64,
    /// CPU time of the server within it, in ns.
    pub(super) cpu_ns: f64,
    /// Whether all of them sent their token.
    pub(super) all_right: bool,
}

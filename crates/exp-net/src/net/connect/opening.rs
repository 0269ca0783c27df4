//! How a connection is opened and closed, and how long its calls took: close(2), and the time until
//! the other end acknowledged the FIN.

use super::sources::{Sources, explained};
use crate::net::place::thread_cpu_ns;
use bench::prelude::*;
use metal::connection::{State, state};
use metal::{raw, tcp};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Opener<'round> {
    pub(super) clock: Clock,
    address: SocketAddr,
    to: SockAddr,
    sources: &'round mut Sources,
    /// Nothing of a connection is waited for longer.
    pub(super) limit: Duration,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) stream: TcpStream,
    /// Ticks when connect(2) began.
    pub(super) began: u64,
    pub(super) socket_ns: f64,
    pub(super) connect_ns: f64,
    /// The SYN had to be sent again.
    pub(super) is_late: bool,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) socket: Socket,
    began: u64,
}

impl<'round> Opener<'round> {
    pub(super) fn new(
        clock: Clock,
        address: SocketAddr,
        sources: &'round mut Sources,
        limit: Duration,
    ) -> Opener<'round> {
        Opener { clock, address, to: address.into(), sources, limit }
    }

    /// Opens a connection. Between the two timed calls it gets its source address and its limits.
    /// Errors: [`super::sources::NoPort`], [`Unanswered`], or what the calls report.
    pub(super) fn open(&mut self) -> Result<Opened> {
        let (socket, socket_ns) = self.socket()?;
        let (began, end, result) = self.dial(&socket);
        if let Err(error) = result {
            return Err(self.failed(&socket, error));
        }
        let info = tcp::info(socket.as_fd()).context("reading TCP_INFO of a connection")?;
        Ok(Opened {
            stream: socket.into(),
            began,
            socket_ns,
            connect_ns: self.clock.between_ns(began, end),
            is_late: info.retransmits > 0,
        })
    }

    /// Time until connect(2) reports a closed port, in ns.
    pub(super) fn refused(&mut self) -> Result<f64> {
        let (socket, _) = self.socket()?;
        let (began, end, result) = self.dial(&socket);
        match result {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                Ok(self.clock.between_ns(began, end))
            }
            Err(error) => Err(self.failed(&socket, error)),
            Ok(()) => bail!("{} accepts connections although it should refuse them", self.address),
        }
    }

    pub(super) fn begin(&mut self) -> Result<Pending> {
        let (socket, _) = self.socket()?;
        socket.set_nonblocking(true)?;
        let (began, _, result) = self.dial(&socket);
        match result {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => {
                Err(self.failed(&socket, error))
            }
            _ => Ok(Pending { socket, began }),
        }
    }

    /// Whether a pending one is there by now, and after how many ns.
    pub(super) fn arrived(&self, pending: &Pending) -> Result<Option<f64>> {
        match state(pending.socket.as_fd())? {
            State::SynSent => Ok(None),
            State::Closed => {
                let error = pending.socket.take_error()?;
                let error = error.unwrap_or_else(|| ErrorKind::ConnectionAborted.into());
                Err(self.failed(&pending.socket, error))
            }
            _ => Ok(Some(self.clock.between_ns(pending.began, self.clock.end()))),
        }
    }

    /// A fresh socket with its source and its limits, and what socket(2) alone took.
    fn socket(&mut self) -> Result<(Socket, f64)> {
        let domain = Domain::for_address(self.address);
        let start = self.clock.start();
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP));
        let end = self.clock.end();
        let socket = socket.context("creating a socket")?;
        // For connect(2) too: an unanswered SYN would otherwise be retransmitted for two minutes.
        socket.set_write_timeout(Some(self.limit))?;
        socket.set_read_timeout(Some(self.limit))?;
        socket.set_tcp_nodelay(true)?;
        self.sources.bind(&socket)?;
        Ok((socket, self.clock.between_ns(start, end)))
    }

    fn dial(&self, socket: &Socket) -> (u64, u64, std::io::Result<()>) {
        let began = self.clock.start();
        let result = socket.connect(&self.to);
        (began, self.clock.end(), result)
    }

    fn failed(&self, socket: &Socket, error: std::io::Error) -> anyhow::Error {
        let Opener { address, limit, .. } = self;
        let again = tcp::info(socket.as_fd()).map_or(0, |info| info.retransmits);
        // The kernel reports the time-out of a blocking connect(2) as if it went on.
        let is_over = error.raw_os_error() == Some(EINPROGRESS)
            || matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        match error.kind() {
            _ if is_over => Unanswered(format!(
                "{address} did not answer within {limit:?} ({} SYNs sent): the host is gone, a \
                 firewall drops packets, or the accept queue is full",
                again + 1
            ))
            .into(),
            ErrorKind::ConnectionRefused => Unanswered(format!(
                "{address} refused the connection: the server no longer listens"
            ))
            .into(),
            _ => explained(error, &format!(" towards {address}"))
                .context(format!("connecting to {address}")),
        }
    }
}

/// No server answers: other cases of the round would wait in the same way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unanswered(pub(super) String);

/// linux/errno.h: the same on both architectures.
const EINPROGRESS: i32 = 115;

/// Waits until a pending one is there, looking all the time; `None` after `patience`.
pub(super) fn wait(
    opener: &Opener<'_>,
    pending: &Pending,
    patience: Duration,
) -> Result<Option<f64>> {
    let until = Instant::now() + patience;
    loop {
        let arrived = opener.arrived(pending)?;
        if arrived.is_some() || Instant::now() > until {
            return Ok(arrived);
        }
    }
}

/// Has a connection end with a reset: it leaves nothing in TIME_WAIT, and its port is free at once.
pub(super) fn reset(socket: &Socket) -> Result<()> {
    socket.set_linger(Some(Duration::ZERO)).context("setting SO_LINGER")
}

/// Looks at the state between two looks at the time.
const LOOKS: u32 = 64;

/// Which of an end's two figures a connection yields: they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Close,
    /// From the call that sends the FIN until it is acknowledged.
    Acknowledged,
}

impl Ending {
    pub(super) fn from_number(number: u64) -> Ending {
        match number.is_multiple_of(2) {
            true => Ending::Close,
            false => Ending::Acknowledged,
        }
    }
}

/// Sums the calling thread's CPU time from one connection's end to the next one's, of those that end
/// with close(2). Of the others the thread looks all the time whether the FIN was acknowledged, which
/// no server does.
pub(super) struct Meter {
    pub(super) cpu_ns: u64,
    last_ns: u64,
}

impl Meter {
    pub(super) fn begin() -> Meter {
        Meter { cpu_ns: 0, last_ns: thread_cpu_ns() }
    }

    pub(super) fn ended(&mut self, number: u64) {
        let now_ns = thread_cpu_ns();
        if Ending::from_number(number) == Ending::Close {
            self.cpu_ns += now_ns.saturating_sub(self.last_ns);
        }
        self.last_ns = now_ns;
    }
}

/// Times of one end's closes, and CPU time of its thread over the connections that it closed, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Closes {
    pub(super) close_ns: Vec<f64>,
    pub(super) fin_ns: Vec<f64>,
    pub(super) cpu_ns: u64,
}

impl Closes {
    pub(super) fn extend(&mut self, more: Closes) {
        self.close_ns.extend(more.close_ns);
        self.fin_ns.extend(more.fin_ns);
        self.cpu_ns = self.cpu_ns.saturating_add(more.cpu_ns);
    }

    pub(super) fn end(
        &mut self,
        stream: TcpStream,
        ending: Ending,
        clock: Clock,
        limit: Duration,
    ) -> Result<()> {
        match ending {
            Ending::Close => self.close_ns.push(close(stream, clock)?),
            Ending::Acknowledged => {
                let start = clock.start();
                finish(&stream)?;
                let end = acknowledged(&stream, clock, limit)?;
                self.fin_ns.push(clock.between_ns(start, end));
            }
        }
        Ok(())
    }
}

pub(super) fn close(stream: TcpStream, clock: Clock) -> Result<f64> {
    let fd = OwnedFd::from(stream);
    let start = clock.start();
    let closed = raw::close(fd);
    let end = clock.end();
    closed.context("closing a connection")?;
    Ok(clock.between_ns(start, end))
}

/// Sends the FIN that close(2) sends, and keeps the descriptor, by which alone the state can be
/// asked for.
pub(super) fn finish(stream: &TcpStream) -> Result<()> {
    stream.shutdown(Shutdown::Write).context("shutting down one direction")
}

/// Ticks when the FIN that was sent was first seen acknowledged. Another thread of the same CPU may
/// run meanwhile: it may be the one that acknowledges.
pub(super) fn acknowledged(stream: &TcpStream, clock: Clock, limit: Duration) -> Result<u64> {
    let until = Instant::now() + limit;
    let mut looks = 0_u32;
    loop {
        let now = state(stream.as_fd()).context("reading the state of a connection")?;
        if !now.awaits_acknowledgement() {
            return Ok(clock.end());
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) && Instant::now() > until {
            bail!("no acknowledgement of a FIN within {limit:?}: the other end is gone");
        }
        raw::sched_yield().context("sched_yield")?;
    }
}

/// Waits for the other end's FIN.
pub(super) fn ended(stream: &mut TcpStream) -> Result<()> {
    let got = stream.read(&mut [0]).context("waiting for the other end to close")?;
    ensure!(got == 0, "the other end sent data instead of closing");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Closes, Ending, acknowledged, ended, finish};
    use crate::net::wire::tests::streams;
    use bench::measure::Clock;
    use std::time::{Duration, Instant};

    #[test]
    fn both_figures_of_both_ends_are_taken() {
        let limit = Duration::from_secs(5);
        let (mut first, mut second) = (Closes::default(), Closes::default());
        for number in 0..4 {
            let (near, mut far) = streams();
            let ending = Ending::from_number(number);
            match ending {
                Ending::Close => first.end(near, ending, Clock::Monotonic, limit).unwrap(),
                Ending::Acknowledged => finish(&near).unwrap(),
            }
            ended(&mut far).unwrap();
            second.end(far, ending, Clock::Monotonic, limit).unwrap();
        }
        assert_eq!((first.close_ns.len(), first.fin_ns.len()), (2, 0));
        assert_eq!((second.close_ns.len(), second.fin_ns.len()), (2, 2));
        let mut all = first.close_ns.iter().chain(&second.fin_ns);
        assert!(all.all(|ns| *ns > 0.0));
    }

    #[test]
    fn a_fin_that_the_other_end_does_not_answer_is_acknowledged_all_the_same() {
        let (near, _far) = streams();
        let began = Instant::now();
        finish(&near).unwrap();
        // Neither end closes: the kernel holds the acknowledgement back (40 ms), and sends it then.
        acknowledged(&near, Clock::Monotonic, Duration::from_secs(5)).unwrap();
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_does_not_close_is_told() {
        use std::io::Write;
        let (mut near, mut far) = streams();
        near.write_all(b"x").unwrap();
        assert!(ended(&mut far).is_err());
        far.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert!(ended(&mut far).is_err());
    }
}

//! How a connection is opened, and what its calls took.

use super::sources::{Sources, told};
use anyhow::{Context, Result, bail};
use bench::measure::Clock;
use metal::connection::{State, state};
use metal::tcp;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

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
            _ => told(error, &format!(" towards {address}"))
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

//! How the two ends of an experiment find each other and talk, on one host or on two.
//!
//! The far end has a door ([`Door`]): one listening TCP socket, whose address and secret the
//! session carries to the near end. Whatever comes in first says a preamble: its purpose, a number,
//! and a code over both that requires the secret; each number is let in once. All others are
//! strangers: they are dropped, and end nothing.
//!
//! For each case the near end ([`Dial`]) opens a line ([`Line`]): small messages, each with a
//! deadline. What is measured goes through data connections of the experiment's own. All samples
//! are recorded by the near end: the far end reports its counts over the line.

mod line;
mod preamble;
mod socket;
#[cfg(test)]
pub mod tests;
mod timed;

pub use line::{Line, Refused};
pub use preamble::{PREAMBLE_BYTES, Purpose};
pub use socket::{Dial, Limit, NO_PORTS, Socket, is_again, pattern};
pub use timed::send_whole;

use bench::measure::FarEnd;
use bench::prelude::*;
use line::Asked;
use metal::wait::{readable, which_readable};
use preamble::Gate;
use serde::de::DeserializeOwned;
use socket2::{Domain, Protocol, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

/// Nothing on a line, and no connection, is waited for longer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that came in may take to say its preamble.
const PREAMBLE_TIME: Duration = Duration::from_secs(2);
/// Those without a preamble yet. For one more the oldest is dropped: strangers may be many, and the
/// right one says its preamble at once.
const PENDING_MAX: usize = 64;
/// Connections that wait for the kernel to be asked for: many strangers at once leave room.
const BACKLOG: i32 = 4096;
/// How often a waiting far end checks that the near end is still there.
const LOOK: Duration = Duration::from_millis(100);
/// A first datagram is said again after this time: the way may lose some.
const DATAGRAM_AGAIN: Duration = Duration::from_millis(200);

pub struct Door {
    /// For callers that time `accept` themselves and [`Door::check`] the connection.
    pub listener: TcpListener,
    gate: Gate,
    pending: VecDeque<Pending>,
    /// Lines and data connections that came while the others were asked for.
    lines: VecDeque<(TcpStream, u32)>,
    data: VecDeque<(TcpStream, u32)>,
    /// The number of the line that is served, and another descriptor for it: to see its end.
    line: u32,
    served: Option<TcpStream>,
}

/// One that came in and did not say all of its preamble yet.
struct Pending {
    stream: TcpStream,
    said: [u8; PREAMBLE_BYTES],
    have: usize,
    until: Instant,
}

pub struct Call {
    pub case: Case,
    ask: serde_json::Value,
    pub line: Line,
}

impl Call {
    pub fn decode<C: Fields>(&self) -> Result<C> {
        C::decode(&self.case)
    }

    pub fn ask<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_value(self.ask.clone()).context("reading the near end's request")
    }
}

/// The address of the far end's sockets: where the order says, else loopback.
pub fn address(far: &FarEnd) -> IpAddr {
    far.order().far_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

impl Door {
    /// Listens where the order says (default: loopback) and reports the address to the session.
    pub fn open(far: &mut FarEnd) -> Result<Door> {
        let address = address(far);
        let listener = listen(address)
            .with_context(|| format!("cannot listen for data connections on {address}"))?;
        let token = far.publish(vec![listener.local_addr()?.to_string()])?;
        Ok(Door {
            listener,
            gate: Gate::from_token(&token)?,
            pending: VecDeque::new(),
            lines: VecDeque::new(),
            data: VecDeque::new(),
            line: 0,
            served: None,
        })
    }

    /// Serves every call until the session drains. An error in `serve` is reported to the near end,
    /// where that case fails, and the next call is awaited.
    pub fn serve(
        &mut self,
        far: &mut FarEnd,
        mut serve: impl FnMut(&mut Door, &mut FarEnd, &mut Call) -> Result<()>,
    ) -> Result<()> {
        while let Some(mut call) = self.next_call(far)? {
            if let Err(error) = serve(self, far, &mut call) {
                // A near end that is gone has its own reason.
                let _ = call.line.refuse(&format!("{error:#}"));
            }
            self.served = None;
        }
        Ok(())
    }

    /// Waits for a line; `None` once the session drains.
    pub fn next_call(&mut self, far: &mut FarEnd) -> Result<Option<Call>> {
        self.served = None;
        loop {
            if let Some((stream, number)) = self.lines.pop_front() {
                self.line = number;
                self.served = stream.try_clone().ok();
                let line = Line::new(stream, self.gate.codes(number), false);
                if let Some(call) = call(far, line)? {
                    return Ok(Some(call));
                }
                continue;
            }
            let fds = [far.session(), self.listener.as_fd()];
            let session_spoke = self.look(&fds, self.next_timeout(PATIENCE))?;
            if session_spoke {
                far.drained()?;
                return Ok(None);
            }
            self.take_in();
        }
    }

    pub fn admit(&mut self, deadline: Instant) -> Result<(TcpStream, u32)> {
        loop {
            while let Some((stream, number)) = self.data.pop_front() {
                // One of an earlier line came too late.
                if number > self.line {
                    return Ok((stream, number));
                }
            }
            let left = self.wait_at_most(deadline)?;
            ensure!(!left.is_zero(), "no data connection arrived in time");
            let fds = [self.listener.as_fd()];
            let timeout = self.next_timeout(left);
            self.look(&fds, timeout)?;
            self.take_in();
        }
    }

    /// Reads the preamble of a data connection that was accepted by hand, and lets its number in.
    pub fn check(&mut self, stream: &mut (impl Read + AsFd), deadline: Instant) -> Result<u32> {
        let mut said = [0; PREAMBLE_BYTES];
        line::read_by(stream, &mut said, deadline).context("a stranger: no preamble")?;
        Ok(self.gate.admit(&said, Purpose::Data)?)
    }

    /// The number of a data connection whose preamble was read by hand, or of a first datagram;
    /// each is let in once.
    pub fn check_said(&mut self, said: &[u8], purpose: Purpose) -> Result<u32> {
        let preamble = said
            .first_chunk::<PREAMBLE_BYTES>()
            .context("a stranger: the message is too short for a preamble")?;
        Ok(self.gate.admit(preamble, purpose)?)
    }

    /// Makes ready for the data connection that will come next, after the one of this number, so
    /// that [`Door::check_said`] takes less of what is timed.
    pub fn expect_after(&mut self, number: u32) {
        self.gate.expect(Purpose::Data, number.saturating_add(1));
    }

    /// Waits for the first datagram of a near end that [`Dial::meet`]s this socket, connects the
    /// socket to it and answers: from then on the kernel drops all other senders' datagrams, and
    /// earlier ones are gone.
    pub fn meet(&mut self, socket: &UdpSocket, deadline: Instant) -> Result<SocketAddr> {
        let mut datagram = [0; 2 * PREAMBLE_BYTES];
        loop {
            let left = self.wait_at_most(deadline)?;
            ensure!(!left.is_zero(), "no first datagram arrived in time");
            if !readable(socket.as_fd(), left)? {
                continue;
            }
            let Ok((bytes, from)) = socket.recv_from(&mut datagram) else {
                continue;
            };
            let Ok(number) = self.check_said(&datagram[..bytes], Purpose::Datagram) else {
                continue;
            };
            socket.connect(from).context("connecting to the near end")?;
            empty(socket)?;
            let answer = self.gate.preamble(Purpose::Answer, number);
            socket.send(&answer).context("replying to a first datagram")?;
            return Ok(from);
        }
    }

    /// Waits until one of `fds` (the last is the listener) or a pending one has something; whether
    /// another than the listener has.
    fn look(&self, fds: &[std::os::fd::BorrowedFd<'_>], timeout: Duration) -> Result<bool> {
        let pending = self.pending.iter().map(|pending| pending.stream.as_fd());
        let all: Vec<_> = fds.iter().copied().chain(pending).collect();
        match which_readable(&all, timeout) {
            Ok(readable) => Ok(readable[..fds.len() - 1].contains(&true)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error).context("waiting for connections"),
        }
    }

    /// How long to wait before the near end is looked for again; nothing once the deadline is over.
    fn wait_at_most(&self, deadline: Instant) -> Result<Duration> {
        let is_gone = |line: &TcpStream| line::is_ended(line);
        ensure!(!self.served.as_ref().is_some_and(is_gone), "the near end is gone");
        Ok(LOOK.min(deadline.saturating_duration_since(Instant::now())))
    }

    /// When the next pending one has had its time, or `most`.
    fn next_timeout(&self, most: Duration) -> Duration {
        let now = Instant::now();
        let first = self.pending.iter().map(|pending| pending.until).min();
        first.map_or(most, |until| most.min(until.saturating_duration_since(now)))
    }

    /// Accepts waiting connections and reads what the pending ones sent. Nothing that a stranger
    /// does is an error.
    fn take_in(&mut self) {
        for _ in 0..BACKLOG {
            // Interrupted, none left, gone before it was accepted, or too many files: the others go
            // on.
            let Ok((stream, _)) = self.listener.accept() else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                let until = Instant::now() + PREAMBLE_TIME;
                self.sort(Pending { stream, said: [0; PREAMBLE_BYTES], have: 0, until });
            }
        }
        std::mem::take(&mut self.pending).into_iter().for_each(|pending| self.sort(pending));
    }

    /// Lets one in that said its preamble, keeps one that said a part of it, or drops it.
    fn sort(&mut self, mut pending: Pending) {
        match pending.read() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if pending.until > Instant::now() {
                    if self.pending.len() == PENDING_MAX {
                        self.pending.pop_front();
                    }
                    self.pending.push_back(pending);
                }
                return;
            }
            Err(_) => return,
            Ok(()) => {}
        }
        let Pending { stream, said, .. } = pending;
        let ready = |stream: TcpStream| {
            stream.set_nonblocking(false).ok()?;
            stream.set_nodelay(true).ok()?;
            stream.nodelay().ok()?.then_some(stream)
        };
        if let Ok(number) = self.gate.admit(&said, Purpose::Line) {
            self.lines.extend(ready(stream).map(|stream| (stream, number)));
        } else if let Ok(number) = self.gate.admit(&said, Purpose::Data) {
            self.data.extend(ready(stream).map(|stream| (stream, number)));
        }
    }
}

impl Pending {
    /// Reads the rest of a preamble. Errors: it is not there yet (`WouldBlock`), or the
    /// other end has gone.
    fn read(&mut self) -> io::Result<()> {
        while self.have < PREAMBLE_BYTES {
            match self.stream.read(&mut self.said[self.have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => self.have += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The call of a line; none where its near end is gone before it said what it wants.
fn call(far: &FarEnd, mut line: Line) -> Result<Option<Call>> {
    let Ok(Asked { case: id, ask }) = line.hear(PATIENCE) else {
        return Ok(None);
    };
    let mut cases = far.order().series.cases.iter();
    let case = cases
        .find(|case| case.id.to_string() == id)
        .with_context(|| format!("the near end asks for {id}, which is not in the order"))?;
    Ok(Some(Call { case: case.clone(), ask, line }))
}

/// A listening socket whose `accept` does not wait.
fn listen(address: IpAddr) -> Result<TcpListener> {
    let socket = bound(address)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A socket of an address, at a free port.
pub fn bound(address: IpAddr) -> Result<socket2::Socket> {
    let address = SocketAddr::new(address, 0);
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP));
    let socket = socket.context("creating a socket")?;
    socket.bind(&address.into()).with_context(|| format!("binding to {address}"))?;
    Ok(socket)
}

fn empty(socket: &UdpSocket) -> io::Result<()> {
    let mut datagram = [0; 1];
    while readable(socket.as_fd(), Duration::ZERO)? {
        // The network's reports about earlier datagrams appear as errors here.
        let _ = socket.recv(&mut datagram);
    }
    Ok(())
}

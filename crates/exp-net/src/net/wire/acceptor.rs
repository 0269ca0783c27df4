//! The far end's side: who is let in, and the sockets of a case.

use super::line::{self, Asked, Line};
use super::preamble::{Gate, PREAMBLE_BYTES, Purpose};
use super::{
    BACKLOG, LOOK, NO_PORTS, PATIENCE, Socket, address, completed, empty, listen, readable_in,
    unix_address,
};
use bench::link::waiting::Waiting;
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::rtt::Protocol;
use metal::wait::which_readable;
use record::order::InOrder;
use serde::de::DeserializeOwned;
use socket2::{Domain, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// How long one that came in may take to say its preamble.
pub(super) const PREAMBLE_TIME: Duration = Duration::from_secs(2);
/// Those without a preamble yet. For one more the oldest is dropped: strangers may be many, and the
/// right one says its preamble at once.
const PENDING_MAX: usize = 64;

pub struct Acceptor {
    /// For callers that time `accept` themselves and [`Acceptor::check`] the connection.
    pub listener: TcpListener,
    gate: Gate,
    pending: Waiting<Pending>,
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
}

pub struct Call {
    pub case: Case,
    pub(super) ask: serde_json::Value,
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

impl Acceptor {
    /// Listens where the order says (default: loopback) and reports the address to the session.
    pub fn open(far: &mut FarEnd) -> Result<Acceptor> {
        let address = address(far);
        let listener = listen(address)
            .with_context(|| format!("cannot listen for data connections on {address}"))?;
        let token = far.publish(vec![listener.local_addr()?.to_string()])?;
        Ok(Acceptor {
            listener,
            gate: Gate::from_token(&token)?,
            pending: Waiting::new(PENDING_MAX),
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
        mut serve: impl FnMut(&mut Acceptor, &mut FarEnd, &mut Call) -> Result<()>,
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
    /// that [`Acceptor::check_said`] takes less of what is timed.
    pub fn expect_after(&mut self, number: u32) {
        self.gate.expect(Purpose::Data, number.saturating_add(1));
    }

    /// Waits for the first datagram of a near end that [`Dialer::meet`]s this socket, connects the
    /// socket to it and answers: from then on the kernel drops all other senders' datagrams, and
    /// earlier ones are gone.
    pub fn meet(&mut self, socket: &UdpSocket, deadline: Instant) -> Result<SocketAddr> {
        let mut datagram = [0; 2 * PREAMBLE_BYTES];
        loop {
            let left = self.wait_at_most(deadline)?;
            ensure!(!left.is_zero(), "no first datagram arrived in time");
            if !readable_in(socket.as_fd(), left)? {
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
    fn look(&self, fds: &[BorrowedFd<'_>], timeout: Duration) -> Result<bool> {
        let pending = self.pending.iter().map(|pending| pending.stream.as_fd());
        let all: Vec<_> = fds.iter().copied().chain(pending).collect();
        let readable =
            completed(which_readable(&all, timeout)).context("waiting for connections")?;
        Ok(readable.is_some_and(|readable| readable[..fds.len() - 1].contains(&true)))
    }

    /// How long to wait before the near end is looked for again; nothing once the deadline is over.
    fn wait_at_most(&self, deadline: Instant) -> Result<Duration> {
        let is_gone = |line: &TcpStream| line::is_ended(line);
        ensure!(!self.served.as_ref().is_some_and(is_gone), "the near end is gone");
        Ok(LOOK.min(deadline.saturating_duration_since(Instant::now())))
    }

    /// When the next pending one has had its time, or `most`.
    fn next_timeout(&self, most: Duration) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        self.pending.deadline().map_or(most, |until| most.min(left(until)))
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
                self.sort(until, Pending { stream, said: [0; PREAMBLE_BYTES], have: 0 });
            }
        }
        for (until, pending) in self.pending.take() {
            self.sort(until, pending);
        }
    }

    /// Lets one in that said its preamble, keeps one that said a part of it, or drops it.
    fn sort(&mut self, until: Instant, mut pending: Pending) {
        match pending.read() {
            Ok(true) => {}
            Ok(false) => return drop(self.pending.keep(until, pending)),
            Err(_) => return,
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
    /// Reads what is there of a preamble; whether it is whole. Errors: the other end has gone.
    fn read(&mut self) -> io::Result<bool> {
        while self.have < PREAMBLE_BYTES {
            match completed(self.stream.read(&mut self.said[self.have..]))? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(more) => self.have += more,
                None => return Ok(false),
            }
        }
        Ok(true)
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

impl Acceptor {
    /// So many sockets, each connected to one of the near end's ([`super::Dialer::sockets`]), in
    /// its order.
    pub fn sockets(
        &mut self,
        far: &FarEnd,
        line: &mut Line,
        protocol: impl Into<Protocol>,
        count: usize,
    ) -> Result<Vec<Socket>> {
        let until = || Instant::now() + PATIENCE;
        match protocol.into() {
            Protocol::Tcp => {
                line.tell(&NO_PORTS)?;
                let streams = self.admit_all(count, until())?;
                Ok(streams.into_iter().map(Socket::from).collect())
            }
            Protocol::Udp => {
                let address = address(far);
                let bind = |_| UdpSocket::bind((address, 0));
                let sockets: io::Result<Vec<UdpSocket>> = (0..count).map(bind).collect();
                let sockets =
                    sockets.with_context(|| format!("a socket for datagrams on {address}"))?;
                let ports: io::Result<Vec<u16>> =
                    sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect();
                line.tell(&ports?)?;
                for socket in &sockets {
                    self.meet(socket, until())?;
                }
                Ok(sockets.into_iter().map(Socket::from).collect())
            }
            Protocol::Unix => {
                let (listener, name) = self.listen_unix()?;
                line.tell(&name)?;
                (0..count).map(|_| Ok(self.accept_unix(&listener, line)?.into())).collect()
            }
        }
    }

    /// A listening UNIX socket and its name; its accept waits no longer than it is looked.
    pub fn listen_unix(&self) -> Result<(socket2::Socket, String)> {
        let name = format!("plumb-rtt-{}", self.listener.local_addr()?.port());
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let bound = socket.bind(&unix_address(&name)?).and_then(|()| socket.listen(BACKLOG));
        bound.with_context(|| format!("listening as {name}"))?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok((socket, name))
    }

    /// The next one that says its preamble; others are dropped.
    fn accept_unix(&mut self, listener: &socket2::Socket, line: &Line) -> Result<socket2::Socket> {
        /// For one that says nothing.
        const SILENT_TIME: Duration = Duration::from_millis(500);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some((mut socket, _)) = completed(listener.accept()).context("accepting")?
                && self.check(&mut socket, Instant::now() + SILENT_TIME).is_ok()
            {
                return Ok(socket);
            }
            ensure!(line.is_open(), "the near end is gone");
        }
        bail!("no data connection arrived in time")
    }

    /// So many data connections of the present line, in the order in which the near end made them,
    /// whatever order they came in: one whose preamble was lost on the way comes after those that
    /// were made later.
    pub fn admit_all(&mut self, count: usize, deadline: Instant) -> Result<Vec<TcpStream>> {
        let mut numbered = Vec::new();
        for _ in 0..count {
            numbered.push(self.admit(deadline)?);
        }
        numbered.order_by_key(|(_, number)| *number);
        Ok(numbered.into_iter().map(|(stream, _)| stream).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dial, plain_order, with_far};
    use super::super::{Acceptor, PATIENCE};
    use anyhow::Result;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    #[test]
    fn connections_are_dealt_out_in_the_order_in_which_they_were_made() {
        let order = plain_order();
        let serve = |far: &mut bench::measure::FarEnd| {
            Acceptor::open(far)?.serve(far, |acceptor, _, call| {
                for mut stream in acceptor.admit_all(3, Instant::now() + PATIENCE)? {
                    let mut said = [0];
                    stream.read_exact(&mut said)?;
                    call.line.tell(&said[0])?;
                }
                Ok(())
            })
        };
        let (served, told) = with_far(&order, serve, |far| -> Result<Vec<u8>> {
            let mut dialer = dial(&order, &far);
            let case = order.series.cases[0].clone();
            let mut line = dialer.call(&case, &0)?;
            let preambles: Vec<Vec<u8>> = (0..3).map(|_| dialer.preamble()).collect();
            let mut open = Vec::new();
            // The first one's preamble comes last, as after a loss on the way.
            for at in [2, 1, 0] {
                let mut stream = TcpStream::connect(dialer.address)?;
                stream.write_all(&preambles[at])?;
                stream.write_all(&[at as u8])?;
                open.push(stream);
            }
            (0..3).map(|_| line.hear(PATIENCE)).collect()
        });
        served.expect("drains");
        assert_eq!(told.expect("is told"), [0, 1, 2]);
    }
}

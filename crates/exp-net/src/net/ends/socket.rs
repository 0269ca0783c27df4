//! How the near end reaches the far end, and the data sockets of one line, as both ends make them.

use super::line::Asked;
use super::preamble::{Gate, PREAMBLE_BYTES, Purpose};
use super::{DATAGRAM_AGAIN, Door, Line, PATIENCE, address, empty};
use bench::measure::FarEnd;
use bench::prelude::*;
use laws::net::Protocol;
use metal::deadline::Deadline;
use metal::socket::incoming_cpu;
use metal::wait::readable;
use record::order::InOrder;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// What the far end says first where the near end connects to its door.
pub const NO_PORTS: [u16; 0] = [];

/// A connected socket that an experiment's messages go through.
#[derive(Debug)]
pub enum Socket {
    Stream(TcpStream),
    Datagram(UdpSocket),
}

impl Socket {
    /// The CPU on which the kernel last handled what came to it.
    pub fn softirq_cpu(&self) -> Option<usize> {
        incoming_cpu(self.as_fd()).unwrap_or(None)
    }

    /// Ends both directions of a stream at once: a thread that waits in it returns.
    pub fn cut(&self) {
        if let Socket::Stream(stream) = self {
            // One that is gone already is cut.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Stream(stream) => stream.as_fd(),
            Socket::Datagram(socket) => socket.as_fd(),
        }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        match socket {
            Socket::Stream(stream) => stream.into(),
            Socket::Datagram(socket) => socket.into(),
        }
    }
}

impl Door {
    /// So many sockets, each connected to one of the near end's ([`Dial::sockets`]), in its order.
    pub fn sockets(
        &mut self,
        far: &FarEnd,
        line: &mut Line,
        protocol: Protocol,
        count: usize,
    ) -> Result<Vec<Socket>> {
        let until = || Instant::now() + PATIENCE;
        if protocol == Protocol::Tcp {
            line.tell(&NO_PORTS)?;
            let streams = self.admit_all(count, until())?;
            return Ok(streams.into_iter().map(Socket::Stream).collect());
        }
        let address = address(far);
        let bind = |_| UdpSocket::bind((address, 0));
        let sockets: io::Result<Vec<UdpSocket>> = (0..count).map(bind).collect();
        let sockets = sockets.with_context(|| format!("a socket for datagrams on {address}"))?;
        let ports: io::Result<Vec<u16>> =
            sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect();
        line.tell(&ports?)?;
        for socket in &sockets {
            self.meet(socket, until())?;
        }
        Ok(sockets.into_iter().map(Socket::Datagram).collect())
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

/// A call was interrupted, or there is nothing for it now.
pub fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A message of changing data without zeros.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 + 1).collect()
}

/// The near end's way to the far end. One for a round: its numbers are let in once.
pub struct Dial {
    pub address: SocketAddr,
    pub(super) gate: Gate,
    pub(super) next: u32,
}

impl Dial {
    /// The far end of a round.
    pub fn new(bench: &Bench) -> Result<Dial> {
        let far = bench.order().far.as_ref().context("the order names no far end")?;
        let address = far.addrs.first().context("the far end reported no address")?;
        Ok(Dial {
            address: address.parse().context("parsing the far end's address")?,
            gate: Gate::from_token(&far.token)?,
            next: 0,
        })
    }

    pub fn call(&mut self, case: &Case, ask: &impl Serialize) -> Result<Line> {
        let stream = self.open(Purpose::Line)?;
        let mut line = Line::new(stream, self.gate.codes(self.next), true);
        line.tell(&Asked {
            case: case.id.to_string(),
            ask: serde_json::to_value(ask).context("encoding a request")?,
        })?;
        Ok(line)
    }

    /// So many sockets to a far end that makes as many by [`Door::sockets`].
    pub fn sockets(
        &mut self,
        line: &mut Line,
        protocol: Protocol,
        count: usize,
    ) -> Result<Vec<Socket>> {
        // Not before the far end serves this line: it may still be busy with one that was given up.
        let ports: Vec<u16> = line.hear(PATIENCE).context("waiting for the far end's ports")?;
        if protocol == Protocol::Tcp {
            return (0..count).map(|_| Ok(Socket::Stream(self.connect()?))).collect();
        }
        ensure!(
            ports.len() == count,
            "the far end reported {} ports instead of {count}",
            ports.len()
        );
        ports.into_iter().map(|port| Ok(Socket::Datagram(self.meet(port)?))).collect()
    }

    /// A data connection that has said its preamble, with TCP_NODELAY.
    pub fn connect(&mut self) -> Result<TcpStream> {
        self.open(Purpose::Data)
    }

    /// The preamble of a data connection made by hand. Each can be said once.
    pub fn preamble(&mut self) -> Vec<u8> {
        self.fresh(Purpose::Data).to_vec()
    }

    /// The preamble of a first datagram.
    #[cfg(test)]
    pub fn datagram_preamble(&mut self) -> Vec<u8> {
        self.fresh(Purpose::Datagram).to_vec()
    }

    /// A UDP socket connected to a port of the far end that is in [`Door::meet`]: each knows the
    /// other, and the kernel drops all other senders' datagrams. Late answers of the far end may
    /// still come: of [`PREAMBLE_BYTES`], and no message of the experiment.
    pub fn meet(&mut self, port: u16) -> Result<UdpSocket> {
        let to = SocketAddr::new(self.address.ip(), port);
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).context("a socket for datagrams")?;
        socket.connect(to).context("connecting to the far end")?;
        let until = Instant::now() + PATIENCE;
        let mut answer = [0; 2 * PREAMBLE_BYTES];
        let mut said = Vec::new();
        while Instant::now() < until {
            let preamble = self.fresh(Purpose::Datagram);
            said.push(self.next);
            // An earlier refusal (the port was not open yet) is reported here and is not an error.
            let _ = socket.send(&preamble);
            let again = Instant::now() + DATAGRAM_AGAIN;
            while readable(socket.as_fd(), again.saturating_duration_since(Instant::now()))? {
                let Ok(bytes) = socket.recv(&mut answer) else {
                    continue;
                };
                let answered = answer[..bytes]
                    .first_chunk::<PREAMBLE_BYTES>()
                    .and_then(|told| self.gate.admit(told, Purpose::Answer).ok());
                if answered.is_some_and(|number| said.contains(&number)) {
                    empty(&socket)?;
                    return Ok(socket);
                }
            }
        }
        bail!("no datagram came back from port {port} of {} within {PATIENCE:?}", to.ip())
    }

    fn open(&mut self, purpose: Purpose) -> Result<TcpStream> {
        let preamble = self.fresh(purpose);
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)
            .with_context(|| unreached(self.address))?;
        stream.set_nodelay(true)?;
        ensure!(stream.nodelay()?, "cannot set TCP_NODELAY");
        stream.write_all(&preamble).context("sending the preamble to the far end")?;
        Ok(stream)
    }

    fn fresh(&mut self, purpose: Purpose) -> [u8; PREAMBLE_BYTES] {
        self.next += 1;
        self.gate.preamble(purpose, self.next)
    }
}

/// The agent answers, over a connection of its own; its data connections may need another address.
fn unreached(address: SocketAddr) -> String {
    let way_out = match address.ip().is_loopback() {
        true => "",
        false => {
            "; if this host reaches the peer at another address, set it with `plumb agent --data \
             ADDRESS`"
        }
    };
    format!("cannot reach the far end at {address}{way_out}")
}

/// Interrupts waits that last longer than they may, and costs nothing where they do not: a time-out
/// of the socket's own would be a timer at each wait.
pub struct Limit {
    deadline: Deadline,
    clock: Clock,
    ns: f64,
    /// The share after which it is renewed.
    renewed_after_ns: f64,
    armed: u64,
}

impl Limit {
    /// Of so many ns from now on; [`Limit::renew`] renews it when `share` of them have passed.
    pub fn new(clock: Clock, ns: f64, share: f64) -> Result<Limit> {
        let deadline = Deadline::after(Duration::from_nanos(ns as u64)).context("a deadline")?;
        Ok(Limit { deadline, clock, ns, renewed_after_ns: ns * share, armed: clock.start() })
    }

    /// Before each wait: the limit is its own, but for the share that may have passed. One that is
    /// interrupted too early waits on, for the interruption comes again.
    pub fn renew(&mut self) -> Result<()> {
        let now = self.clock.end();
        if self.clock.between_ns(self.armed, now) > self.renewed_after_ns {
            self.armed = now;
            let time = Duration::from_nanos(self.ns as u64);
            self.deadline.put_off(time).context("a deadline")?;
        }
        Ok(())
    }

    /// What an interrupted call is to do: go on, or give up.
    pub fn go_on(&self) -> Result<()> {
        let passed_ns = self.clock.between_ns(self.armed, self.clock.end());
        ensure!(passed_ns < self.ns, "an exchange did not complete within {:.1} s", self.ns / 1e9);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dial, plain_order, with_far};
    use super::super::{Door, PATIENCE};
    use anyhow::Result;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    #[test]
    fn connections_are_dealt_out_in_the_order_in_which_they_were_made() {
        let order = plain_order();
        let serve = |far: &mut bench::measure::FarEnd| {
            Door::open(far)?.serve(far, |door, _, call| {
                for mut stream in door.admit_all(3, Instant::now() + PATIENCE)? {
                    let mut said = [0];
                    stream.read_exact(&mut said)?;
                    call.line.tell(&said[0])?;
                }
                Ok(())
            })
        };
        let (served, told) = with_far(&order, serve, |far| -> Result<Vec<u8>> {
            let mut dial = dial(&order, &far);
            let case = order.series.cases[0].clone();
            let mut line = dial.call(&case, &0)?;
            let preambles: Vec<Vec<u8>> = (0..3).map(|_| dial.preamble()).collect();
            let mut open = Vec::new();
            // The first one's preamble comes last, as after a loss on the way.
            for at in [2, 1, 0] {
                let mut stream = TcpStream::connect(dial.address)?;
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

//! The near end's side: how it reaches the far end.

use super::line::{Asked, Line};
use super::preamble::{Admission, PREAMBLE_BYTES, Purpose};
use super::{PATIENCE, Socket, empty, readable_in, unix_address};
use bench::prelude::*;
use laws::net::rtt::Protocol;
use serde::Serialize;
use socket2::{Domain, Type};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

/// A first datagram is said again after this time: the way may lose some.
const DATAGRAM_AGAIN: Duration = Duration::from_millis(200);

/// The near end's way to the far end. One for a round: its numbers are let in once.
pub struct Dialer {
    pub address: SocketAddr,
    pub(super) admission: Admission,
    pub(super) next: u32,
}

impl Dialer {
    /// The far end of a round.
    pub fn new(bench: &Bench) -> Result<Dialer> {
        let far = bench.order().far.as_ref().context("the order names no far end")?;
        let address = far.addrs.first().context("the far end reported no address")?;
        Ok(Dialer {
            address: address.parse().context("parsing the far end's address")?,
            admission: Admission::from_token(&far.token)?,
            next: 0,
        })
    }

    pub fn call(&mut self, case: &Case, ask: &impl Serialize) -> Result<Line> {
        let stream = self.open(Purpose::Line)?;
        let mut line = Line::new(stream, self.admission.codes(self.next), true);
        line.tell(&Asked {
            case: case.id.to_string(),
            ask: serde_json::to_value(ask).context("encoding a request")?,
        })?;
        Ok(line)
    }

    /// So many sockets to a far end that makes as many by [`super::Acceptor::sockets`].
    pub fn sockets(
        &mut self,
        line: &mut Line,
        protocol: impl Into<Protocol>,
        count: usize,
    ) -> Result<Vec<Socket>> {
        // Not before the far end serves this line: it may still be busy with one that was given up.
        const WAITING: &str = "waiting for the far end's sockets";
        let protocol = protocol.into();
        if protocol == Protocol::Unix {
            let name: String = line.hear(PATIENCE).context(WAITING)?;
            return (0..count).map(|_| Ok(self.connect_unix(&name)?.into())).collect();
        }
        let ports: Vec<u16> = line.hear(PATIENCE).context(WAITING)?;
        if protocol == Protocol::Tcp {
            return (0..count).map(|_| Ok(self.connect()?.into())).collect();
        }
        ensure!(
            ports.len() == count,
            "the far end reported {} ports instead of {count}",
            ports.len()
        );
        ports.into_iter().map(|port| Ok(self.meet(port)?.into())).collect()
    }

    fn connect_unix(&mut self, name: &str) -> Result<socket2::Socket> {
        let mut socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let connected = socket.connect(&unix_address(name)?);
        connected.with_context(|| format!("connecting to {name}"))?;
        socket.write_all(&self.preamble())?;
        Ok(socket)
    }

    /// A data connection that has said its preamble, with TCP_NODELAY.
    pub fn connect(&mut self) -> Result<TcpStream> {
        self.open(Purpose::Data)
    }

    /// The preamble of a data connection made by hand. Each can be said once.
    pub fn preamble(&mut self) -> Vec<u8> {
        self.fresh(Purpose::Data).to_vec()
    }

    #[cfg(test)]
    pub fn datagram_preamble(&mut self) -> Vec<u8> {
        self.fresh(Purpose::Datagram).to_vec()
    }

    /// A UDP socket connected to a port of the far end that is in [`Acceptor::meet`]: each knows the
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
            while readable_in(socket.as_fd(), again.saturating_duration_since(Instant::now()))? {
                let Ok(bytes) = socket.recv(&mut answer) else {
                    continue;
                };
                let answered = answer[..bytes]
                    .first_chunk::<PREAMBLE_BYTES>()
                    .and_then(|told| self.admission.admit(told, Purpose::Answer).ok());
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
        self.admission.preamble(purpose, self.next)
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

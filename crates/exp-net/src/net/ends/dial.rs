//! The near end's way to the far end.

use super::line::Asked;
use super::preamble::{Gate, PREAMBLE_BYTES, Purpose, Secret};
use super::{DATAGRAM_AGAIN, Line, PATIENCE, empty};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::Bench;
use metal::wait::readable;
use record::case::Case;
use serde::Serialize;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

/// The near end's way to the far end. One for a round: its numbers are let in once.
pub struct Dial {
    address: SocketAddr,
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
            gate: Gate::new(Secret::of(&far.token)?),
            next: 0,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
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

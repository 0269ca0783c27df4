//! What connects the two ends of an experiment, on one host or on two.
//!
//! The far end has an [`Acceptor`]: one listening TCP socket, whose address and secret the session
//! carries to the near end. Whatever comes in first says a preamble: its purpose, a number, and a
//! code over both that requires the secret; each number is let in once. All others are dropped,
//! and end nothing.
//!
//! For each case the near end ([`Dialer`]) opens a line ([`Line`]): small messages, each with a
//! deadline. What is measured goes through data connections ([`Socket`]) and by the loops of
//! [`timed`]: numbered messages that one echo server sends back, and streams. All samples are
//! recorded by the near end: the far end reports its counts over the line.

mod acceptor;
mod dialer;
mod line;
mod preamble;
#[cfg(test)]
pub mod tests;
pub mod timed;

pub use acceptor::{Acceptor, Call};
pub use dialer::Dialer;
pub use line::{Line, Refused};
pub use preamble::{PREAMBLE_BYTES, Purpose};
pub use timed::{Socket, completed};

use bench::measure::FarEnd;
use bench::prelude::*;
use metal::wait::readable;
use socket2::{Domain, Protocol, SockAddr, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Nothing on a line, and no connection, is waited for longer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How often a waiting far end checks that the near end is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Connections that wait for the kernel to be asked for: many at once leave room.
const BACKLOG: i32 = 4096;
/// What the far end says first where the near end connects to its acceptor.
pub const NO_PORTS: [u16; 0] = [];

/// The address of the far end's sockets: where the order says, else loopback.
pub fn address(far: &FarEnd) -> IpAddr {
    far.order().far_address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A UNIX address by its name, which is the host's as a port is.
pub fn unix_address(name: &str) -> Result<SockAddr> {
    Ok(SockAddr::unix(format!("\0{name}"))?)
}

/// Whether there is something to read, or an end, in time; interrupted waits are over.
fn readable_in(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(completed(readable(fd, timeout))?.unwrap_or(false))
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

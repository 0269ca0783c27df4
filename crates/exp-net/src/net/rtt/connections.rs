//! The near end's sockets.

use super::echo::unix_address;
use super::trip::{Plan, Trip};
use crate::net::ends::{Dial, Line, PATIENCE};
use anyhow::{Context, Result, ensure};
use laws::net::Protocol as Carrier;
use laws::net::rtt::{Exchange, Protocol};
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

/// A connection both of whose ends this thread holds.
pub(super) fn alone(of: &Exchange, plan: Plan) -> Result<Trip> {
    let (near, far) = own_pair(of.protocol).context("two sockets of one thread")?;
    let trip = Trip::new(near, of.protocol, of.message, false, plan.clock)?;
    trip.holding(far)
}

/// Two connected sockets on loopback, which accept only each other.
fn own_pair(protocol: Protocol) -> Result<(OwnedFd, OwnedFd)> {
    match protocol {
        Protocol::Unix => {
            let (near, far) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
            Ok((near.into(), far.into()))
        }
        Protocol::Udp => {
            let bind = || UdpSocket::bind(("127.0.0.1", 0));
            let (near, far) = (bind()?, bind()?);
            near.connect(far.local_addr()?)?;
            far.connect(near.local_addr()?)?;
            Ok((near.into(), far.into()))
        }
        Protocol::Tcp => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            let address = near.local_addr()?;
            // Whoever else came first is dropped.
            let far = loop {
                let (far, from) = listener.accept()?;
                if from == address {
                    break far;
                }
            };
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            ensure!(near.nodelay()? && far.nodelay()?, "cannot set TCP_NODELAY");
            Ok((near.into(), far.into()))
        }
    }
}

/// All connections of a case, open at both ends.
pub(super) fn connect(
    dial: &mut Dial,
    line: &mut Line,
    of: &Exchange,
    plan: Plan,
) -> Result<Vec<Trip>> {
    let count = usize::try_from(of.connections)?;
    let sockets: Vec<OwnedFd> = match carrier(of.protocol) {
        Some(protocol) => {
            let sockets = dial.sockets(line, protocol, count)?;
            sockets.into_iter().map(OwnedFd::from).collect()
        }
        None => {
            let name: String = line.hear(PATIENCE)?;
            let connect = |_| {
                let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket
                    .connect(&unix_address(&name)?)
                    .with_context(|| format!("connecting to {name}"))?;
                socket.write_all(&dial.preamble())?;
                Ok(socket.into())
            };
            (0..count).map(connect).collect::<Result<_>>()?
        }
    };
    let trip = |socket| Trip::new(socket, of.protocol, of.message, of.polls(), plan.clock);
    sockets.into_iter().map(trip).collect()
}

/// What of both ends' sockets carries a protocol's messages; none of UNIX sockets.
pub(super) fn carrier(protocol: Protocol) -> Option<Carrier> {
    match protocol {
        Protocol::Tcp => Some(Carrier::Tcp),
        Protocol::Udp => Some(Carrier::Udp),
        Protocol::Unix => None,
    }
}

//! The near end's sockets.

use super::echo::{Open, unix_address};
use super::exchanges::{Protocol, Shape};
use super::trip::{Plan, Trip};
use crate::net::ends::Dial;
use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

/// A connection both of whose ends this thread holds.
///
/// # Errors
/// The kernel gives no such sockets.
pub(super) fn alone(shape: &Shape<'_>, plan: Plan) -> Result<Trip> {
    let (near, far) = own_pair(shape.protocol).context("two sockets of one thread")?;
    let trip = Trip::new(near, shape.protocol, shape.message, false, plan.clock)?;
    trip.holding(far)
}

/// Two connected sockets on loopback, who let in nobody but each other.
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
            ensure!(near.nodelay()? && far.nodelay()?, "TCP_NODELAY was not to be had");
            Ok((near.into(), far.into()))
        }
    }
}

/// All connections of a case, open at both ends.
///
/// # Errors
/// The far end cannot be reached, or TCP_NODELAY is not to be had.
pub(super) fn connect(
    dial: &mut Dial,
    open: &Open,
    shape: &Shape<'_>,
    plan: Plan,
) -> Result<Vec<Trip>> {
    let mut sockets: Vec<OwnedFd> = Vec::new();
    match open {
        Open::Door => {
            for _ in 0..shape.connections {
                let stream = dial.connect()?;
                ensure!(stream.nodelay()?, "TCP_NODELAY was not to be had");
                sockets.push(stream.into());
            }
        }
        Open::Ports(ports) => {
            for port in ports {
                sockets.push(dial.meet(*port)?.into());
            }
        }
        Open::Name(name) => {
            for _ in 0..shape.connections {
                let mut socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket
                    .connect(&unix_address(name)?)
                    .with_context(|| format!("connecting to {name}"))?;
                socket.write_all(&dial.preamble())?;
                sockets.push(socket.into());
            }
        }
    }
    let trip = |socket| Trip::new(socket, shape.protocol, shape.message, shape.polls, plan.clock);
    sockets.into_iter().map(trip).collect()
}

//! Sockets that stay open: the near end's, and the far end, where what comes is sent back.

use super::trip::{Plan, Trip, limit_ns};
use crate::net::ends::{Call, Dial, Door, Line, PATIENCE, is_again, send_whole};
use crate::net::place::{self, Usage, Used, thread_cpu_ns as cpu_ns};
use anyhow::{Context, Result, ensure};
use bench::measure::FarEnd;
use laws::net::Protocol as Carrier;
use laws::net::rtt::{Exchange, Protocol};
use metal::deadline::Deadline;
use metal::socket::{Wait, incoming_cpu, receive};
use record::order::Gather;
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    /// How long it means to take, in ns.
    pub(super) window_ns: u64,
}

impl Ask {
    /// The same, within what any preset or setting has.
    pub(super) fn window(self) -> Duration {
        Duration::from_nanos(self.window_ns).min(WINDOW_MAX)
    }
}

/// A case takes no longer: sixty of the longest pauses, and more.
const WINDOW_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FarCounts {
    /// Messages that came, all connections together.
    pub(super) messages: u64,
    /// CPU time of its threads from their first message to their last, in ns.
    pub(super) cpu_ns: u64,
    pub(super) used: Used,
    /// Its CPU, where it is pinned to one.
    pub(super) cpu: Option<usize>,
    /// The CPUs on which packets for its connections arrived.
    pub(super) softirq_cpus: BTreeSet<usize>,
}

/// Until then, and as long as the near end means to take, it is not looked for.
const LOOK: Duration = Duration::from_millis(100);
/// And one that polls, in questions.
const TURNS_PER_LOOK: u32 = 1 << 14;
/// A case may take so much longer than the near end meant to.
const GRACE: Duration = Duration::from_secs(5);
/// Connections that may wait for a UNIX socket's accept.
const BACKLOG: i32 = 128;

pub(super) fn serve(
    door: &mut Door,
    far: &mut FarEnd,
    call: &mut Call,
    of: &Exchange,
) -> Result<()> {
    let pinned = place::pin_far(far, &call.case, of.ends)?;
    let ask: Ask = call.ask()?;
    let cpus = of.ends.spread(&far.order().cpus, false, of.connections);
    far.use_cpus(&cpus);
    let sockets = sockets(door, far, call, of)?;
    let window = ask.window();
    let limit = Duration::from_nanos(limit_ns(of.protocol, of.message) as u64);
    let until = Instant::now() + PATIENCE + GRACE + limit + window;
    let usage = Usage::begin(&cpus);
    call.line.tell(&"ready")?;
    // Later than the near end means to take, look whether it is still there.
    let times = (LOOK + 2 * window, until);
    let line = &call.line;
    let places = place::places(&cpus, place::is_free(&call.case));
    let echoed = place::at_once(&sockets, places, Ok, |socket| echo(socket, of, line, times))?;
    let mut told =
        FarCounts { used: usage.end(), cpu: place::only(&pinned), ..FarCounts::default() };
    for one in echoed {
        told.messages += one.messages;
        told.cpu_ns += one.cpu_ns;
        told.softirq_cpus.extend(one.softirq_cpus);
    }
    // Every message is a switch to this end and one from it.
    far.planned_switches(2 * told.messages);
    call.line.tell(&told)
}

fn sockets(door: &mut Door, far: &FarEnd, call: &mut Call, of: &Exchange) -> Result<Vec<OwnedFd>> {
    let count = usize::try_from(of.connections)?;
    if let Some(protocol) = carrier(of.protocol) {
        let sockets = door.sockets(far, &mut call.line, protocol, count)?;
        return Ok(sockets.into_iter().map(OwnedFd::from).collect());
    }
    let (listener, name) = listen_unix(door)?;
    call.line.tell(&name)?;
    (0..count).map(|_| Ok(accept_unix(door, &listener, &call.line)?.into())).collect()
}

/// A listening UNIX socket and its name, which is the host's as the door's port is.
pub(super) fn listen_unix(door: &Door) -> Result<(Socket, String)> {
    let port = door.listener.local_addr()?.port();
    let name = format!("plumb-rtt-{port}");
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket
        .bind(&unix_address(&name)?)
        .and_then(|()| socket.listen(BACKLOG))
        .with_context(|| format!("listening as {name}"))?;
    // Accepting waits no longer.
    socket.set_read_timeout(Some(LOOK))?;
    Ok((socket, name))
}

pub(super) fn unix_address(name: &str) -> Result<SockAddr> {
    Ok(SockAddr::unix(format!("\0{name}"))?)
}

/// The next one that says its preamble; others are dropped.
fn accept_unix(door: &mut Door, listener: &Socket, line: &Line) -> Result<Socket> {
    /// For one that says nothing.
    const PREAMBLE_TIME: Duration = Duration::from_millis(500);
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match listener.accept() {
            Ok((mut socket, _)) => {
                let soon = Instant::now() + PREAMBLE_TIME;
                if door.check(&mut socket, soon).is_ok() {
                    return Ok(socket);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("accepting"),
        }
        ensure!(line.is_open(), "the near end is gone");
    }
    anyhow::bail!("no data connection arrived in time")
}

/// Sends back what comes, as it comes: of a stream what there is, of datagrams each. An end of the
/// stream and an empty datagram are the near end's end.
fn echo(
    socket: &OwnedFd,
    of: &Exchange,
    line: &Line,
    (look_after, until): (Duration, Instant),
) -> Result<FarCounts> {
    let datagrams = of.protocol == Protocol::Udp;
    let message = usize::try_from(of.message)?;
    let mut buffer = vec![1; message.max(64)];
    let polls = of.polls();
    let wait = if polls { Wait::Never } else { Wait::Block };
    // A near end that takes nothing back is gone.
    SockRef::from(socket).set_write_timeout(Some(GRACE))?;
    // A time-out of the socket's own would cost a timer at each wait.
    let deadline = match polls {
        true => None,
        false => Some(Deadline::after(look_after).context("a deadline")?),
    };
    let (mut messages, mut have, mut turns) = (0, 0, 0_u32);
    let mut first_ns = None;
    let is_none = |error| matches!(error, ErrorKind::Interrupted | ErrorKind::ConnectionRefused);
    loop {
        // Of a stream no more than the rest of the message, so that none goes back in parts that
        // began with another's.
        let into = match datagrams {
            true => &mut buffer[..],
            false => &mut buffer[have..message],
        };
        match receive(socket.as_fd(), into, wait) {
            Ok(0) => break,
            Ok(bytes) => {
                first_ns.get_or_insert_with(cpu_ns);
                have = if datagrams { bytes } else { have + bytes };
                if datagrams || have == message {
                    send_whole(socket, &buffer[..have], is_none).context("sending back")?;
                    messages += 1;
                    have = 0;
                }
                continue;
            }
            Err(error) if is_again(&error) || error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error).context("receiving"),
        }
        turns = turns.wrapping_add(1);
        if !polls || turns.is_multiple_of(TURNS_PER_LOOK) {
            // The near end has enough, or is gone.
            if !line.is_quiet() {
                break;
            }
            ensure!(Instant::now() < until, "the near end did not stop");
        }
    }
    drop(deadline);
    let cpu_ns = first_ns.map_or(0, |first| cpu_ns() - first);
    let softirq_cpus = incoming_cpu(socket.as_fd()).unwrap_or(None).into_iter().gather();
    Ok(FarCounts { messages, cpu_ns, softirq_cpus, ..FarCounts::default() })
}

/// A connection both of whose ends this thread holds.
pub(super) fn alone(of: &Exchange, plan: Plan) -> Result<Trip> {
    let (near, far) = own_pair(of.protocol).context("two sockets of one thread")?;
    Trip::new(near, Some(far), of.protocol, of.message, false, plan.clock)
}

/// Two connected sockets on loopback, which accept only each other.
pub(super) fn own_pair(protocol: Protocol) -> Result<(OwnedFd, OwnedFd)> {
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
    let trip = |socket| Trip::new(socket, None, of.protocol, of.message, of.polls(), plan.clock);
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

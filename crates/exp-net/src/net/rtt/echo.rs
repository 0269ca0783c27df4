//! The far end: what comes is sent back.

use super::exchanges::{Protocol, Shape, spread};
use super::trip::{cpu_ns, limit_ns};
use crate::net::ends::{Call, Door, Line, PATIENCE};
use crate::net::place;
use crate::net::usage::{Usage, Used};
use anyhow::{Context, Result, ensure};
use bench::measure::FarEnd;
use metal::deadline::Deadline;
use metal::socket::{Wait, incoming_cpu, receive, send};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// What the near end wants beside what the case says.
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

/// Where to connect to, and that the far end is ready to echo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Open {
    /// To the door.
    Door,
    /// To these ports.
    Ports(Vec<u16>),
    /// To a UNIX socket of this abstract name.
    Name(String),
}

/// What the far end saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    /// Messages that came, all connections together.
    pub(super) messages: u64,
    /// CPU time of its threads from their first message to their last, in ns.
    pub(super) cpu_ns: u64,
    /// What the kernel did beside.
    pub(super) used: Used,
    /// Its CPU, where it is pinned to one.
    pub(super) cpu: Option<usize>,
    /// The CPUs on which packets for its connections arrived.
    pub(super) softirq_cpus: BTreeSet<usize>,
    /// TCP_NODELAY, read back from all connections; true where there is none to set.
    pub(super) nodelay: bool,
}

/// What one connection's thread saw.
struct Echoed {
    messages: u64,
    cpu_ns: u64,
    softirq_cpu: Option<usize>,
}

/// Until then, and as long as the near end means to take, it is not looked for.
const LOOK: Duration = Duration::from_millis(100);
/// And one that polls, in questions.
const TURNS_PER_LOOK: u32 = 1 << 14;
/// A case may take so much longer than the near end meant to.
const GRACE: Duration = Duration::from_secs(5);
/// Connections that may wait for a UNIX socket's accept.
const BACKLOG: i32 = 128;

/// Serves a case of messages on connections that stay.
pub(super) fn serve(
    door: &mut Door,
    far: &mut FarEnd,
    call: &mut Call,
    shape: &Shape<'_>,
) -> Result<()> {
    let pinned = place::pin_far(far, &call.case)?;
    let ask: Ask = serde_json::from_value(call.ask.clone()).context("what the near end wants")?;
    let cpus = spread(&far.order().cpus, shape.ends, false, shape.connections);
    far.use_cpus(&cpus);
    let sockets = sockets(door, far, call, shape)?;
    let nodelay = shape.protocol != Protocol::Tcp
        || sockets.iter().all(|socket| SockRef::from(socket).tcp_nodelay().unwrap_or(false));
    let window = ask.window();
    let limit = Duration::from_nanos(limit_ns(shape.protocol, shape.message) as u64);
    let until = Instant::now() + PATIENCE + GRACE + limit + window;
    let usage = Usage::begin(&cpus);
    call.line.tell(&"ready")?;
    // Later than the near end means to take, look whether it is still there.
    let look_after = LOOK + 2 * window;
    let times = (look_after, until);
    let echoed = all(&sockets, &cpus, shape, &call.line, times)?;
    let told = Told {
        messages: echoed.iter().map(|one| one.messages).sum(),
        cpu_ns: echoed.iter().map(|one| one.cpu_ns).sum(),
        used: usage.end(),
        cpu: place::only(&pinned),
        softirq_cpus: echoed.iter().filter_map(|one| one.softirq_cpu).collect(),
        nodelay,
    };
    // Every message is a switch to this end and one from it.
    far.planned_switches(2 * told.messages);
    call.line.tell(&told)
}

/// Tells the near end where to connect and waits until it has: a socket for each connection.
fn sockets(
    door: &mut Door,
    far: &FarEnd,
    call: &mut Call,
    shape: &Shape<'_>,
) -> Result<Vec<OwnedFd>> {
    let until = || Instant::now() + PATIENCE;
    let count = 0..shape.connections;
    match shape.protocol {
        Protocol::Tcp => {
            call.line.tell(&Open::Door)?;
            let mut streams = Vec::new();
            for _ in count {
                streams.push(door.admit(until())?);
            }
            // In the order in which the near end made them, so that threads meet their own.
            streams.sort_by_key(|(_, number)| *number);
            Ok(streams.into_iter().map(|(stream, _)| stream.into()).collect())
        }
        Protocol::Udp => {
            let address = far.order().far_address;
            let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let bind = || UdpSocket::bind(SocketAddr::new(address, 0));
            let bound: Vec<UdpSocket> = count
                .map(|_| bind())
                .collect::<Result<_, _>>()
                .with_context(|| format!("a socket for datagrams on {address}"))?;
            let port = |socket: &UdpSocket| Ok(socket.local_addr()?.port());
            let ports: Vec<u16> = bound.iter().map(port).collect::<Result<_>>()?;
            call.line.tell(&Open::Ports(ports))?;
            for socket in &bound {
                door.meet(socket, until())?;
            }
            Ok(bound.into_iter().map(OwnedFd::from).collect())
        }
        Protocol::Unix => {
            let (listener, name) = listen_unix(door)?;
            call.line.tell(&Open::Name(name))?;
            count.map(|_| Ok(accept_unix(door, &listener, &call.line)?.into())).collect()
        }
    }
}

/// A listening UNIX socket and its name, which is the host's as the door's port is.
pub(super) fn listen_unix(door: &Door) -> Result<(Socket, String)> {
    let port = door.listener().local_addr()?.port();
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

/// The address of an abstract name.
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
    anyhow::bail!("no data connection came in time")
}

/// Echoes every connection in a thread on its CPU, the first in the calling one, until the near end has
/// enough.
fn all(
    sockets: &[OwnedFd],
    cpus: &[usize],
    shape: &Shape<'_>,
    line: &Line,
    times: (Duration, Instant),
) -> Result<Vec<Echoed>> {
    let (first, others) = sockets.split_first().context("no connection")?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter()
            .zip(cpus.iter().skip(1))
            .map(|(socket, cpu)| {
                scope.spawn(move || {
                    place::settle(shape.is_free, *cpu)?;
                    echo(socket, shape, line, times)
                })
            })
            .collect();
        let mut echoed = vec![echo(first, shape, line, times)];
        echoed.extend(threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|_| Err(anyhow::anyhow!("a connection's thread panicked")))
        }));
        echoed.into_iter().collect()
    })
}

/// Sends back what comes, as it comes: of a stream what there is, of datagrams each. An end of the stream
/// and an empty datagram are the near end's end.
fn echo(
    socket: &OwnedFd,
    shape: &Shape<'_>,
    line: &Line,
    (look_after, until): (Duration, Instant),
) -> Result<Echoed> {
    let datagrams = shape.protocol == Protocol::Udp;
    let message = usize::try_from(shape.message)?;
    let mut buffer = vec![1; message.max(64)];
    let wait = match shape.polls {
        true => Wait::Never,
        false => Wait::Block,
    };
    // A near end that takes nothing back is gone.
    SockRef::from(socket).set_write_timeout(Some(GRACE))?;
    // A time-out of the socket's own would cost a timer at each wait.
    let deadline = match shape.polls {
        true => None,
        false => Some(Deadline::after(look_after).context("a deadline")?),
    };
    let (mut messages, mut have, mut turns) = (0, 0, 0_u32);
    let mut first_ns = None;
    loop {
        // Of a stream no more than the rest of the message, so that none goes back in parts that began
        // with another's.
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
                    send_whole(socket, &buffer[..have])?;
                    messages += 1;
                    have = 0;
                }
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error).context("receiving"),
        }
        turns = turns.wrapping_add(1);
        if !shape.polls || turns.is_multiple_of(TURNS_PER_LOOK) {
            // The near end has enough, or is gone.
            if !line.is_quiet() {
                break;
            }
            ensure!(Instant::now() < until, "the near end did not come to an end");
        }
    }
    drop(deadline);
    Ok(Echoed {
        messages,
        cpu_ns: first_ns.map_or(0, |first| cpu_ns() - first),
        softirq_cpu: incoming_cpu(socket.as_fd()).unwrap_or(None),
    })
}

fn send_whole(socket: &OwnedFd, mut rest: &[u8]) -> Result<()> {
    while !rest.is_empty() {
        match send(socket.as_fd(), rest) {
            Ok(bytes) => rest = &rest[bytes..],
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error).context("sending back"),
        }
    }
    Ok(())
}

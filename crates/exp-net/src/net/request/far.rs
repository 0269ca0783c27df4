//! The far end: a server of one thread that sleeps until something is there, and answers each request by
//! itself.

use super::message::number;
use crate::net::ends::{Call, Door, PATIENCE};
use crate::net::place::pin_far;
use crate::net::usage::{Usage, Used};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::FarEnd;
use metal::readiness::Readiness;
use metal::socket::incoming_cpu;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Bytes that are taken in at a time, or a message if that is longer.
const INBOX_BYTES: usize = 64 << 10;
/// A near end that takes no reply for so long is gone.
const REPLY_TIME: Duration = Duration::from_secs(5);
/// No case has more connections.
const CONNECTIONS_MAX: usize = 1024;
/// No message is longer.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What the near end wants of a case.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    /// UDP, else TCP.
    pub(super) by_datagrams: bool,
    /// Bytes of a request and of its reply.
    pub(super) bytes: usize,
    /// Connections.
    pub(super) connections: usize,
}

/// A stop of the server's, to try what a measurement makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stall {
    /// Before the reply to the so many-th request, from 0.
    pub(super) before: u64,
    /// Its length.
    pub(super) ns: u64,
}

/// What the near end says in a case.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Counting begins.
    Begin(Option<Stall>),
    /// Counting ends: how much was it?
    End,
}

/// What the far end says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// Ports of its sockets for datagrams; none of TCP.
    Ports(Vec<u16>),
    /// All connections are there.
    Ready,
    /// It counts from here on.
    Begun,
    /// What it counted.
    Counted {
        /// Requests that it answered.
        served: u64,
        /// What it took.
        used: Used,
        /// The CPU on which the kernel last handled a request of the first connection.
        softirq_cpu: Option<usize>,
    },
}

/// One of the server's sockets.
enum Served {
    Stream { stream: TcpStream, inbox: Vec<u8>, have: usize },
    Datagram { socket: UdpSocket, inbox: Vec<u8> },
}

/// Counts since the last [`Said::Begin`].
struct Count {
    usage: Usage,
    served: u64,
    stall: Option<Stall>,
}

/// Serves one case.
///
/// # Errors
/// A connection did not come, what came was no request, or the near end is silent.
pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let cpus = pin_far(far, &call.case)?;
    let ask: Ask = serde_json::from_value(call.ask.clone()).context("what a case wants")?;
    ensure!(
        (1..=CONNECTIONS_MAX).contains(&ask.connections)
            && (1..=MESSAGE_BYTES_MAX).contains(&ask.bytes),
        "{ask:?} is more than is served"
    );
    let mut all = match ask.by_datagrams {
        false => streams(door, ask)?,
        true => datagrams(door, far, call, ask)?,
    };
    call.line.tell(&Told::Ready)?;
    run(&mut all, call, ask, &cpus)
}

fn streams(door: &mut Door, ask: Ask) -> Result<Vec<Served>> {
    let one = |_| {
        let (stream, _) = door.admit(Instant::now() + PATIENCE)?;
        stream.set_write_timeout(Some(REPLY_TIME))?;
        stream.set_nonblocking(false)?;
        Ok(Served::Stream { stream, inbox: vec![0; INBOX_BYTES.max(ask.bytes)], have: 0 })
    };
    (0..ask.connections).map(one).collect()
}

fn datagrams(door: &mut Door, far: &FarEnd, call: &mut Call, ask: Ask) -> Result<Vec<Served>> {
    let address = far.order().far_address;
    let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let open = |_| UdpSocket::bind((address, 0)).context("a socket for datagrams");
    let sockets: Vec<UdpSocket> = (0..ask.connections).map(open).collect::<Result<_>>()?;
    let ports: std::io::Result<Vec<u16>> =
        sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect();
    call.line.tell(&Told::Ports(ports?))?;
    let met = |socket: UdpSocket| {
        door.meet(&socket, Instant::now() + PATIENCE)?;
        socket.set_write_timeout(Some(REPLY_TIME))?;
        Ok(Served::Datagram { socket, inbox: vec![0; ask.bytes + 1] })
    };
    sockets.into_iter().map(met).collect()
}

impl Served {
    fn duplicate(&self) -> Result<std::os::fd::OwnedFd> {
        let fd = match self {
            Served::Stream { stream, .. } => stream.as_fd(),
            Served::Datagram { socket, .. } => socket.as_fd(),
        };
        Ok(fd.try_clone_to_owned()?)
    }
}

/// Until the line ends.
fn run(all: &mut [Served], call: &mut Call, ask: Ask, cpus: &[usize]) -> Result<()> {
    let line = call.line.fd().try_clone_to_owned()?;
    let sockets: Vec<_> = all.iter().map(Served::duplicate).collect::<Result<_>>()?;
    let fds = sockets.iter().chain([&line]).map(AsFd::as_fd);
    let mut ready = Readiness::new(fds.collect::<Vec<BorrowedFd<'_>>>());
    let of_line = all.len();
    let mut count = Count { usage: Usage::begin(cpus), served: 0, stall: None };
    loop {
        if !ready.wait(PATIENCE)? {
            bail!("the near end says nothing for {} s", PATIENCE.as_secs());
        }
        for (place, one) in all.iter_mut().enumerate() {
            if ready.is_ready(place) && !one.answer(ask.bytes, &mut count)? {
                ready.forget(place);
            }
        }
        if !ready.is_ready(of_line) {
            continue;
        }
        if !call.line.is_open() {
            return Ok(());
        }
        match call.line.hear(PATIENCE)? {
            Said::Begin(stall) => {
                count = Count { usage: Usage::begin(cpus), served: 0, stall };
                call.line.tell(&Told::Begun)?;
            }
            Said::End => {
                let used = std::mem::replace(&mut count.usage, Usage::begin(cpus)).end();
                let served = count.served;
                let first = sockets.first().map(AsFd::as_fd);
                call.line.tell(&Told::Counted {
                    served,
                    used,
                    softirq_cpu: first.and_then(|fd| incoming_cpu(fd).unwrap_or(None)),
                })?;
            }
        }
    }
}

impl Served {
    /// Takes in what is there and answers each request; `false` where no more will come.
    fn answer(&mut self, bytes: usize, count: &mut Count) -> Result<bool> {
        match self {
            Served::Stream { stream, inbox, have } => {
                match stream.read(&mut inbox[*have..]) {
                    Ok(0) => return Ok(false),
                    Ok(more) => *have += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
                    // The near end has left a case of its own accord: it knows why.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                    Err(error) => return Err(error).context("receiving a request"),
                }
                let mut at = 0;
                while *have - at >= bytes {
                    let request = &inbox[at..at + bytes];
                    number(request).context("what came is no request")?;
                    count.one_more();
                    stream.write_all(request).context("sending a reply")?;
                    at += bytes;
                }
                inbox.copy_within(at..*have, 0);
                *have -= at;
            }
            Served::Datagram { socket, inbox } => {
                // The kernel tells here of replies that nobody took.
                let Ok(got) = socket.recv(inbox) else {
                    return Ok(true);
                };
                // A repeated introduction is no request.
                if got == bytes && number(&inbox[..got]).is_some() {
                    count.one_more();
                    let _ = socket.send(&inbox[..got]);
                }
            }
        }
        Ok(true)
    }
}

impl Count {
    fn one_more(&mut self) {
        if let Some(stall) = self.stall.filter(|stall| stall.before == self.served) {
            std::thread::sleep(Duration::from_nanos(stall.ns));
        }
        self.served += 1;
    }
}

//! The far end: a server of one thread that sleeps until something is there, and answers each
//! request by itself.

use super::connection::number;
use crate::net::ends::{Call, Door, PATIENCE, Socket};
use crate::net::place::pin_far;
use crate::net::usage::{Usage, Used};
use anyhow::{Context, Result, bail, ensure};
use bench::measure::FarEnd;
use laws::net::request::Requests;
use metal::readiness::Readiness;
use metal::socket::incoming_cpu;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Bytes that are taken in at a time, or a message if that is longer.
const INBOX_BYTES: usize = 64 << 10;
/// A near end that takes no reply for so long is gone.
const REPLY_TIME: Duration = Duration::from_secs(5);
/// No case has more connections.
const CONNECTIONS_MAX: u64 = 1024;
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// A stall of the server, to test how a measurement handles it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stall {
    /// Before the reply to the so many-th request, from 0.
    pub(super) before: u64,
    pub(super) ns: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Begin(Option<Stall>),
    End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Told {
    Ready,
    Begun,
    Counted {
        served: u64,
        used: Used,
        /// The CPU on which the kernel last handled a request of the first connection.
        softirq_cpu: Option<usize>,
    },
}

/// One of the server's sockets, and the bytes of an incomplete request.
struct Served {
    socket: Socket,
    inbox: Vec<u8>,
    have: usize,
}

/// Counts since the last [`Said::Begin`].
struct Count {
    usage: Usage,
    served: u64,
    stall: Option<Stall>,
}

pub(super) fn serve(door: &mut Door, far: &mut FarEnd, call: &mut Call) -> Result<()> {
    let of: Requests = call.decode()?;
    let cpus = pin_far(far, &call.case, of.ends)?;
    ensure!(
        (1..=CONNECTIONS_MAX).contains(&of.connections)
            && (1..=MESSAGE_BYTES_MAX).contains(&of.message),
        "{of:?} exceeds the far end's limits"
    );
    let (count, bytes) = (usize::try_from(of.connections)?, usize::try_from(of.message)?);
    let sockets = door.sockets(far, &mut call.line, of.protocol, count)?;
    let mut all = Vec::new();
    for socket in sockets {
        SockRef::from(&socket).set_write_timeout(Some(REPLY_TIME))?;
        let room = match &socket {
            Socket::Stream(_) => INBOX_BYTES.max(bytes),
            Socket::Datagram(_) => bytes + 1,
        };
        all.push(Served { socket, inbox: vec![0; room], have: 0 });
    }
    call.line.tell(&Told::Ready)?;
    run(&mut all, call, bytes, &cpus)
}

/// Until the line ends.
fn run(all: &mut [Served], call: &mut Call, bytes: usize, cpus: &[usize]) -> Result<()> {
    let line = call.line.fd().try_clone_to_owned()?;
    let sockets: Vec<OwnedFd> = all
        .iter()
        .map(|served| Ok(served.socket.as_fd().try_clone_to_owned()?))
        .collect::<Result<_>>()?;
    let fds = sockets.iter().chain([&line]).map(AsFd::as_fd);
    let mut ready = Readiness::new(fds.collect::<Vec<BorrowedFd<'_>>>());
    let of_line = all.len();
    let mut count = Count { usage: Usage::begin(cpus), served: 0, stall: None };
    loop {
        if !ready.wait(PATIENCE)? {
            bail!("the near end sent nothing for {} s", PATIENCE.as_secs());
        }
        for (place, one) in all.iter_mut().enumerate() {
            if ready.is_ready(place) && !one.answer(bytes, &mut count)? {
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
        let Served { socket, inbox, have } = self;
        match socket {
            Socket::Stream(stream) => {
                match stream.read(&mut inbox[*have..]) {
                    Ok(0) => return Ok(false),
                    Ok(more) => *have += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
                    // The near end has left a case by itself and knows why.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                    Err(error) => return Err(error).context("receiving a request"),
                }
                let mut at = 0;
                while *have - at >= bytes {
                    let request = &inbox[at..at + bytes];
                    number(request).context("received data is not a request")?;
                    count.one_more();
                    stream.write_all(request).context("sending a reply")?;
                    at += bytes;
                }
                inbox.copy_within(at..*have, 0);
                *have -= at;
            }
            Socket::Datagram(socket) => {
                // The kernel reports unread replies here.
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

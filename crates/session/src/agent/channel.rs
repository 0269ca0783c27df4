//! A connection between a session and an agent: messages in frames, sealed over TCP, with a
//! deadline on each.

use super::frame::{Decoder, TooLong, encode};
use super::handshake::{
    HELLO_BYTES, Initiator, Refusal, Role, Secured, hello, not_plumb, take_hello,
};
use super::key::Key;
use super::message::printable;
use super::seal::{Seal, Unsealed};
use crate::child::wait;
use anyhow::{Context, Result, bail};
use metal::wait::Want;
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest frame of a session that was let in, in bytes: an order of many cases.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Longest frame of an agent before it has let a session in: its facts about its host.
pub const FACTS_BYTES_MAX: usize = 4 << 20;
/// And after that, in bytes: what a far end says of a round.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longest frame of an agent's worker, in bytes: with what is said around it it is an answer.
pub const WORKER_BYTES_MAX: usize = ANSWER_BYTES_MAX - (4 << 10);
/// Longest frame of one that has the key and was not let in yet.
pub const FIRST_FRAME_BYTES_MAX: usize = 64 << 10;
/// A frame once begun is whole in this time, at both ends.
pub const FRAME_TIME: Duration = Duration::from_secs(10);
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Bytes taken at once. What a connection holds beyond its limits.
const READ_BYTES: usize = 16 << 10;
/// A pipe that has room has it for so many bytes (PIPE_BUF): more would wait.
const PIPE_BYTES: usize = 4096;
/// The kernel asks a silent host whether it is alive after this time, and again …
const ALIVE_AFTER: Duration = Duration::from_secs(10);
const ALIVE_AGAIN: Duration = Duration::from_secs(3);
/// … so many times; and gives up what is not acknowledged in this time.
const ALIVE_TIMES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Why a connection is of no more use.
#[derive(Debug, Error)]
pub enum Lost {
    /// The other end is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// A frame did not come whole, or could not be sent, in its time.
    #[error("a message was incomplete after {} s", FRAME_TIME.as_secs())]
    Slow,
    /// A frame over the limit.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// Not from the other end.
    #[error(transparent)]
    Unsealed(#[from] Unsealed),
    /// A frame that is no message of the expected kind.
    #[error("cannot parse a message ({0}): install the same version of plumb at both ends")]
    Malformed(String),
    /// What the kernel reports.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Lost {
    /// Of a frame that could not be read; the reason may repeat what stands in it.
    pub(super) fn malformed(why: &impl ToString) -> Lost {
        Lost::Malformed(printable(&why.to_string()))
    }
}

/// What carries the bytes.
#[derive(Debug)]
enum Carrier {
    /// It does not block.
    Tcp(TcpStream),
    /// Read and written only when there are bytes or room.
    Pipes { reader: File, writer: File },
}

/// A connection whose ends know each other.
pub struct Channel {
    carrier: Carrier,
    seal: Option<Box<Seal>>,
    frames: Decoder,
    /// Since when a frame is not whole.
    begun: Option<Instant>,
}

impl Channel {
    /// The session's end of a TCP connection: the handshake with an agent that has the same key.
    /// Errors: [`Refusal`], [`Lost`], [`crate::child::Interrupted`], or its time is over.
    pub fn over_tcp(stream: TcpStream, key: &Key, stop: &AtomicBool) -> Result<Channel> {
        prepare(&stream)?;
        let deadline = Instant::now() + HANDSHAKE_TIME;
        let mut out = Vec::new();
        let mut initiator =
            Initiator::new(key, &mut out).context("no random bytes for a handshake")?;
        let mut carrier = Carrier::Tcp(stream);
        loop {
            carrier.write_all(&out, deadline, stop)?;
            out.clear();
            let mut bytes = [0; READ_BYTES];
            let read = match carrier.read_by(&mut bytes, deadline, stop) {
                Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {
                    return Err(error.context(
                        "the agent closed the connection during the handshake: it has a different \
                         key, it is not an agent, or too many clients connected at once; its own \
                         output gives the reason",
                    ));
                }
                read => read?.context("the agent did not answer the handshake in time")?,
            };
            if let Some(secured) = initiator.feed(&bytes[..read], &mut out)? {
                carrier.write_all(&out, deadline, stop)?;
                return Ok(Channel::secured(carrier, secured, FACTS_BYTES_MAX)?);
            }
        }
    }

    /// The agent's end of a TCP connection after its handshake, for frames of at most `limit`
    /// bytes. Errors: what arrived after the handshake was not sealed by the session.
    pub fn accepted(stream: TcpStream, secured: Secured, limit: usize) -> Result<Channel, Lost> {
        Channel::secured(Carrier::Tcp(stream), secured, limit)
    }

    fn secured(carrier: Carrier, secured: Secured, limit: usize) -> Result<Channel, Lost> {
        let mut channel = Channel {
            carrier,
            seal: Some(Box::new(secured.seal)),
            frames: Decoder::new(limit),
            begun: None,
        };
        channel.take_in(&secured.rest)?;
        Ok(channel)
    }

    /// Either end of a pair of pipes (or other files that can be waited for) which others
    /// authenticate and encrypt, by its role: says hello and hears one, for up to `patience`.
    /// Errors: [`Refusal`], [`Lost`], [`crate::child::Interrupted`], or its time is over.
    pub fn over_pipes(
        reader: OwnedFd,
        writer: OwnedFd,
        role: Role,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<Channel> {
        let mut carrier = Carrier::Pipes { reader: reader.into(), writer: writer.into() };
        let deadline = Instant::now() + patience;
        let (other, limit) = match role {
            Role::Session => (Role::Agent, FACTS_BYTES_MAX),
            Role::Agent => (Role::Session, FIRST_FRAME_BYTES_MAX),
        };
        match carrier.write_all(&hello(role), deadline, stop) {
            // One that has ended may have said why.
            Err(error) if matches!(error.downcast_ref(), Some(Lost::Closed)) => {}
            said => said?,
        }
        let mut heard = Vec::new();
        loop {
            match take_hello(&mut heard, other) {
                Ok(true) => return Ok(Channel::plain(carrier, limit)),
                Err(refusal @ Refusal::OtherVersion(_)) => bail!(refusal),
                Err(_) if heard.len() == HELLO_BYTES => bail!(carrier.said_else(heard)),
                // What is no hello is shown as far as it goes.
                Ok(false) | Err(_) => {}
            }
            let mut bytes = [0; HELLO_BYTES];
            let wanted = HELLO_BYTES - heard.len();
            match carrier.read_by(&mut bytes[..wanted], deadline, stop) {
                Ok(Some(read)) => heard.extend_from_slice(&bytes[..read]),
                Ok(None) => bail!("the other end did not say hello in time"),
                Err(error) if heard.is_empty() => return Err(error),
                Err(_) => return Err(not_plumb(&heard).into()),
            }
        }
    }

    /// The pipes of an own child, which says no hello, for frames of at most `limit` bytes.
    pub fn to_child(reader: OwnedFd, writer: OwnedFd, limit: usize) -> Channel {
        let carrier = Carrier::Pipes { reader: reader.into(), writer: writer.into() };
        Channel::plain(carrier, limit)
    }

    fn plain(carrier: Carrier, limit: usize) -> Channel {
        Channel { carrier, seal: None, frames: Decoder::new(limit), begun: None }
    }

    /// From now on frames that arrive may have so many bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.frames.set_limit(limit);
    }

    /// Sends a message, in [`FRAME_TIME`]. Errors: [`Lost`] or [`crate::child::Interrupted`].
    pub fn send(&mut self, message: &impl Serialize, stop: &AtomicBool) -> Result<()> {
        self.send_within(message, FRAME_TIME, stop)
    }

    /// Sends a message, in a time of its own. Errors: as [`Channel::send`].
    pub fn send_within(
        &mut self,
        message: &impl Serialize,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        let body = serde_json::to_vec(message).context("cannot serialise a message")?;
        let framed = encode(&body, FRAME_BYTES_MAX).map_err(Lost::from)?;
        let bytes = match &mut self.seal {
            Some(seal) => {
                let mut sealed = Vec::with_capacity(framed.len());
                seal.seal(&framed, &mut sealed);
                sealed
            }
            None => framed,
        };
        self.carrier.write_all(&bytes, Instant::now() + patience, stop)
    }

    /// Waits for the next message; `None` where none has come whole by the deadline, however much
    /// else arrives: it is looked for once at least. Errors: [`Lost`] or [`crate::child::Interrupted`].
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<Option<T>> {
        let body = self.receive_frame(deadline, stop)?;
        Ok(body.as_deref().map(parsed).transpose()?)
    }

    /// As [`Channel::receive`], a message as it stands in its frame. Errors: as there.
    pub(super) fn receive_frame(
        &mut self,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>> {
        let mut is_over = false;
        loop {
            let body = self.frame()?;
            if body.is_some() || is_over {
                return Ok(body);
            }
            let until = self.slow_at().map_or(deadline, |slow| slow.min(deadline));
            if self.carrier.wait(Direction::In, until, stop)? {
                self.read_some()?;
            }
            is_over = Instant::now() >= deadline;
        }
    }

    /// A message that has arrived whole. Errors: [`Lost`], also one that has begun to arrive and is
    /// not whole in its time.
    pub fn taken<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Lost> {
        self.frame()?.as_deref().map(parsed).transpose()
    }

    fn frame(&mut self) -> Result<Option<Vec<u8>>, Lost> {
        let body = self.frames.whole()?;
        if body.is_some() {
            self.begun = self.is_partial().then(Instant::now);
        } else if self.slow_at().is_some_and(|slow| Instant::now() >= slow) {
            return Err(Lost::Slow);
        }
        Ok(body)
    }

    /// Takes in what has arrived, if anything has. Call [`Channel::taken`] until that gives `None`
    /// before the next call. Errors: [`Lost`].
    pub fn read_some(&mut self) -> Result<(), Lost> {
        // A pipe blocks.
        if !metal::wait::readable(self.fd(), Duration::ZERO)? {
            return Ok(());
        }
        let mut bytes = [0; READ_BYTES];
        match self.carrier.read(&mut bytes)? {
            Some(read) => self.take_in(&bytes[..read]),
            None => Ok(()),
        }
    }

    /// When the frame that has begun to arrive must be whole.
    pub fn slow_at(&self) -> Option<Instant> {
        self.begun.map(|begun| begun + FRAME_TIME)
    }

    /// What to wait for, to read.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Tcp(stream) => stream.as_fd(),
            Carrier::Pipes { reader, .. } => reader.as_fd(),
        }
    }

    pub fn local_address(&self) -> Option<IpAddr> {
        match &self.carrier {
            Carrier::Tcp(stream) => Some(stream.local_addr().ok()?.ip().to_canonical()),
            Carrier::Pipes { .. } => None,
        }
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        match &mut self.seal {
            Some(seal) => {
                let mut text = Vec::new();
                seal.open(bytes, &mut text)?;
                self.frames.push(&text);
            }
            None => self.frames.push(bytes),
        }
        if self.begun.is_none() && self.is_partial() {
            self.begun = Some(Instant::now());
        }
        Ok(())
    }

    fn is_partial(&self) -> bool {
        self.frames.is_partial() || self.seal.as_ref().is_some_and(|seal| seal.is_partial())
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Lost> {
    serde_json::from_slice(body).map_err(|error| Lost::malformed(&error))
}

/// A connection as a session's is: at once, without blocking, and given up once the other host is
/// dead. Errors: those of setsockopt(2).
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let socket = SockRef::from(stream);
    let alive = TcpKeepalive::new()
        .with_time(ALIVE_AFTER)
        .with_interval(ALIVE_AGAIN)
        .with_retries(ALIVE_TIMES);
    socket.set_tcp_keepalive(&alive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

impl Carrier {
    /// Whether there are bytes, or room for some, before the deadline.
    fn wait(&self, direction: Direction, deadline: Instant, stop: &AtomicBool) -> Result<bool> {
        let (reader, writer) = match self {
            Carrier::Tcp(stream) => (stream.as_fd(), stream.as_fd()),
            Carrier::Pipes { reader, writer } => (reader.as_fd(), writer.as_fd()),
        };
        let want = match direction {
            Direction::In => Want::Readable(reader),
            Direction::Out => Want::Writable(writer),
        };
        Ok(wait("the other end", &[want], Some(deadline), stop)?[0])
    }

    /// One read; `None` where nothing was there.
    fn read(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, Lost> {
        let read = match self {
            Carrier::Tcp(stream) => stream.read(bytes),
            Carrier::Pipes { reader, .. } => reader.read(bytes),
        };
        match read {
            Ok(0) => Err(Lost::Closed),
            Ok(read) => Ok(Some(read)),
            Err(error) => passing(error).map(|()| None),
        }
    }

    /// One read that waits; `None` after the deadline.
    fn read_by(
        &mut self,
        bytes: &mut [u8],
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<Option<usize>> {
        while self.wait(Direction::In, deadline, stop)? {
            if let Some(read) = self.read(bytes)? {
                return Ok(Some(read));
            }
        }
        Ok(None)
    }

    fn write_all(&mut self, bytes: &[u8], deadline: Instant, stop: &AtomicBool) -> Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            if !self.wait(Direction::Out, deadline, stop)? {
                bail!(Lost::Slow);
            }
            let written = match self {
                Carrier::Tcp(stream) => stream.write(left),
                Carrier::Pipes { writer, .. } => writer.write(&left[..left.len().min(PIPE_BYTES)]),
            };
            match written {
                Ok(written) => left = &left[written..],
                Err(error) => passing(error)?,
            }
        }
        Ok(())
    }

    /// The refusal of one that said something else, with what more of it is there by now.
    fn said_else(&mut self, mut heard: Vec<u8>) -> Refusal {
        let now = AtomicBool::new(false);
        let mut bytes = [0; 256];
        if let Ok(Some(read)) = self.read_by(&mut bytes, Instant::now(), &now) {
            heard.extend_from_slice(&bytes[..read]);
        }
        not_plumb(&heard)
    }
}

/// Whether an error says only that nothing could be done at once.
fn passing(error: io::Error) -> Result<(), Lost> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, WouldBlock};
    match error.kind() {
        Interrupted | WouldBlock => Ok(()),
        BrokenPipe | ConnectionReset => Err(Lost::Closed),
        _ => Err(Lost::Io(error)),
    }
}

#[cfg(test)]
mod tests;

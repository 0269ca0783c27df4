//! A channel between two ends: messages in frames over pipes or TCP, sealed over TCP, with a
//! deadline on each.

use super::wait;
use crate::agent::handshake::{Greeting, Refusal};
use crate::agent::message::printable;
use crate::agent::seal::{Seal, Unsealed};
use anyhow::{Context, Result, bail, ensure};
use bench::link::frame::{Decoder, FRAME_BYTES_MAX, TooLong, encode};
use metal::wait::Want;
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{SockRef, TcpKeepalive};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thiserror::Error;

/// A frame is sent in this time, and one that has begun to arrive from another host is whole in it.
pub const FRAME_TIME: Duration = Duration::from_secs(10);
/// Bytes taken at once: what a pipe holds.
const READ_BYTES: usize = 64 << 10;
/// A pipe that has room has it for so many bytes (PIPE_BUF): more would wait.
const PIPE_BYTES: usize = 4096;
/// The kernel asks a silent host whether it is alive after this time, and again …
const ALIVE_AFTER: Duration = Duration::from_secs(10);
const ALIVE_AGAIN: Duration = Duration::from_secs(3);
/// … so many times; and gives up what is not acknowledged in this time.
const ALIVE_TIMES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Why a channel is of no more use.
#[derive(Debug, Error)]
pub enum Lost {
    #[error("the other end closed the connection")]
    Closed,
    /// A frame did not come whole, or could not be sent, in its time.
    #[error("a message was incomplete after its time")]
    Slow,
    /// The other end has another key, another version, or is not plumb.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A frame over the limit.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error(transparent)]
    Unsealed(#[from] Unsealed),
    /// A frame that is no message of the expected kind.
    #[error("cannot parse a message ({0}): install the same version of plumb at both ends")]
    Malformed(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Lost {
    /// Of a frame that could not be parsed; the reason may repeat what stands in it.
    pub fn malformed(why: &impl ToString) -> Lost {
        Lost::Malformed(printable(&why.to_string()))
    }
}

pub struct Channel {
    reader: File,
    writer: File,
    /// What is left of the greeting, by which two hosts come to know each other.
    greeting: Option<Greeting>,
    /// The name of the other end's key, where a list gives one.
    pub key_name: String,
    seal: Option<Seal>,
    frames: Decoder,
    /// Since when a frame is not whole.
    begun: Option<Instant>,
    /// A frame that has begun to arrive is whole in this time.
    pub frame_time: Duration,
}

impl Channel {
    /// Over pipes or another pair of files that can be waited for, for frames that arrive of at most
    /// `limit` bytes.
    pub fn new(reader: OwnedFd, writer: OwnedFd, limit: usize) -> Channel {
        Channel {
            reader: reader.into(),
            writer: writer.into(),
            greeting: None,
            key_name: String::new(),
            seal: None,
            frames: Decoder::new(limit),
            begun: None,
            frame_time: FRAME_TIME,
        }
    }

    /// Over TCP: sends at once, does not block, and is given up once the other host is dead. Errors:
    /// those of setsockopt(2) and dup(2).
    pub fn tcp(stream: TcpStream, limit: usize) -> io::Result<Channel> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let socket = SockRef::from(&stream);
        let alive = TcpKeepalive::new()
            .with_time(ALIVE_AFTER)
            .with_interval(ALIVE_AGAIN)
            .with_retries(ALIVE_TIMES);
        socket.set_tcp_keepalive(&alive)?;
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        Ok(Channel::new(stream.try_clone()?.into(), stream.into(), limit))
    }

    pub fn greeting(mut self, mut greeting: Greeting) -> Channel {
        // A new pipe or connection has room for it. One that is closed is found when it is read:
        // its end may have said why.
        let _ = self.writer.write(&greeting.first());
        self.greeting = Some(greeting);
        self
    }

    /// Waits for the greeting's end, for up to `patience`. Errors: [`Lost`],
    /// [`super::Interrupted`], or the time is over.
    pub fn greet(&mut self, patience: Duration, stop: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + patience;
        while self.greeting.is_some() {
            let wants = [Want::Readable(self.reader.as_fd())];
            let has_more = wait("the other end", &wants, Some(deadline), stop)?[0];
            ensure!(has_more, "the other end did not answer with its hello in time");
            self.read_some()?;
        }
        Ok(())
    }

    /// From now on frames that arrive may have so many bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.frames.set_limit(limit);
    }

    /// Sends a message, in [`FRAME_TIME`]. Errors: [`Lost`] or [`super::Interrupted`].
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
            Some(seal) => seal.sealed(&framed),
            None => framed,
        };
        self.write_all(&bytes, Instant::now() + patience, stop)
    }

    fn write_all(&mut self, bytes: &[u8], deadline: Instant, stop: &AtomicBool) -> Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let wants = [Want::Writable(self.writer.as_fd())];
            if !wait("the other end", &wants, Some(deadline), stop)?[0] {
                bail!(Lost::Slow);
            }
            match self.writer.write(&left[..left.len().min(PIPE_BYTES)]) {
                Ok(written) => left = &left[written..],
                Err(error) => passing(error)?,
            }
        }
        Ok(())
    }

    /// Waits for the next message; `None` where none has come whole by the deadline, however much
    /// else arrives: it is looked for once at least. Errors: [`Lost`] or [`super::Interrupted`].
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<Option<T>> {
        let body = self.receive_frame(deadline, stop)?;
        Ok(body.as_deref().map(parsed).transpose()?)
    }

    /// As [`Channel::receive`], a message as it stands in its frame. Errors: as there.
    pub fn receive_frame(
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
            let wants = [Want::Readable(self.reader.as_fd())];
            if wait("the other end", &wants, Some(until), stop)?[0] {
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
        match self.reader.read(&mut bytes) {
            Ok(0) => Err(match self.greeting.as_ref().and_then(Greeting::unknown) {
                Some(refusal) => refusal.into(),
                None => Lost::Closed,
            }),
            Ok(read) => self.take_in(&bytes[..read]),
            Err(error) => passing(error),
        }
    }

    /// When the frame that has begun to arrive must be whole.
    pub fn slow_at(&self) -> Option<Instant> {
        self.begun.map(|begun| begun + self.frame_time)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        if let Some(greeting) = &mut self.greeting {
            let mut answer = Vec::new();
            let greeted = greeting.feed(bytes, &mut answer);
            // It fits the buffer of a new connection.
            if !matches!(self.writer.write(&answer), Ok(written) if written == answer.len()) {
                return Err(Lost::Closed);
            }
            let Some(greeted) = greeted? else { return Ok(()) };
            self.greeting = None;
            self.key_name = greeted.key_name;
            self.seal = greeted.seal;
            return self.take_in(&greeted.rest);
        }
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
        self.frames.held_bytes() > 0 || self.seal.as_ref().is_some_and(Seal::is_partial)
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Lost> {
    serde_json::from_slice(body).map_err(|error| Lost::malformed(&error))
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

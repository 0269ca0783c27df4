//! The mechanisms: what two parties send each other messages by.

use anyhow::{Context, Result};
use laws::os::ipc::Via;
use metal::memory::{StreamReader, StreamWriter, shared_stream};
use metal::raw::{self, MessageQueue};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};

/// Messages that a queue holds: the kernel's default for `fs.mqueue.msg_max`.
const QUEUE_MESSAGES: usize = 10;

/// One party's end. What makes system calls makes them as programs do, in a function that returns:
/// in line their cost follows the loop's address on some processors
/// (docs/notes/2026-11-22-crosscheck-os.md).
pub(in crate::os::ipc) trait Party {
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives a whole message of the buffer's length; waits until it is there.
    fn receive(&mut self, message: &mut [u8]) -> io::Result<()>;
}

/// Both ends of two ways (where a message comes out, where it goes in), there and back.
fn ends<R, W, P>(way: impl Fn() -> Result<(R, W)>, end: impl Fn(R, W) -> P) -> Result<[P; 2]> {
    let (there, back) = (way()?, way()?);
    Ok([end(back.0, there.1), end(there.0, back.1)])
}

#[derive(Debug)]
pub(in crate::os::ipc) struct Descriptors {
    input: OwnedFd,
    output: OwnedFd,
    /// Messages are kept apart: one comes whole or not at all.
    apart: bool,
}

impl Descriptors {
    /// Both ends of a mechanism that is made of file descriptors.
    pub(in crate::os::ipc) fn pair(via: Via) -> Result<[Descriptors; 2]> {
        let end = |input, output| Descriptors { input, output, apart: via == Via::Eventfd };
        let both = match via {
            Via::Pipe => ends(|| Ok(io::pipe().map(|(out, into)| (out.into(), into.into()))?), end),
            Via::Eventfd => ends(
                || {
                    let event = raw::eventfd()?;
                    Ok((event.try_clone()?, event))
                },
                end,
            ),
            Via::UnixStream => stream_by_name(),
            Via::UnixDatagram => datagrams_by_name(),
            Via::Socketpair => {
                UnixStream::pair().map_err(Into::into).and_then(|both| both_ways(both, false))
            }
            Via::Mqueue | Via::ShmFutex => Err(io::Error::from(io::ErrorKind::NotFound).into()),
        };
        both.with_context(|| format!("making the {}", via.text()))
    }
}

impl Party for Descriptors {
    #[inline(never)]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        loop {
            let sent = raw::write(self.output.as_fd(), message)?;
            if sent == message.len() {
                return Ok(());
            }
            if self.apart || sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            message = &message[sent..];
        }
    }

    #[inline(never)]
    fn receive(&mut self, mut message: &mut [u8]) -> io::Result<()> {
        loop {
            let received = raw::read(self.input.as_fd(), message)?;
            if received == message.len() {
                return Ok(());
            }
            if self.apart || received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            message = &mut message[received..];
        }
    }
}

/// Connected sockets; each serves both directions.
fn both_ways<S: Into<OwnedFd>>((first, second): (S, S), apart: bool) -> Result<[Descriptors; 2]> {
    let [first, second]: [OwnedFd; 2] = [first.into(), second.into()];
    let (there, back) = (first.try_clone()?, second.try_clone()?);
    Ok([
        Descriptors { input: first, output: there, apart },
        Descriptors { input: second, output: back, apart },
    ])
}

/// A listener with a name, to which the one side connects.
fn stream_by_name() -> Result<[Descriptors; 2]> {
    let name = address()?;
    let listener = UnixListener::bind_addr(&name)?;
    let first = UnixStream::connect_addr(&name)?;
    let (second, _) = listener.accept()?;
    both_ways((first, second), false)
}

/// Two sockets with names, each connected to the other's.
fn datagrams_by_name() -> Result<[Descriptors; 2]> {
    let names = [address()?, address()?];
    let first = UnixDatagram::bind_addr(&names[0])?;
    let second = UnixDatagram::bind_addr(&names[1])?;
    first.connect_addr(&names[1])?;
    second.connect_addr(&names[0])?;
    both_ways((first, second), true)
}

/// An unused name outside the file systems (Linux' abstract names).
fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(unique())
}

fn unique() -> String {
    format!("plumb-{}-{:016x}", std::process::id(), fastrand::u64(..))
}

#[derive(Debug)]
pub(in crate::os::ipc) struct Queues {
    input: MessageQueue,
    output: MessageQueue,
}

impl Queues {
    /// Both ends, for messages of at most `bytes`.
    pub(in crate::os::ipc) fn pair(bytes: usize) -> Result<[Queues; 2]> {
        let queue = || {
            let name = CString::new(unique()).expect("no zero byte in the name");
            let queue = MessageQueue::new(&name, QUEUE_MESSAGES, bytes).with_context(|| {
                format!(
                    "a queue of {QUEUE_MESSAGES} messages of {bytes} B: fs.mqueue.msgsize_max, \
                     fs.mqueue.msg_max and `ulimit -q` limit it"
                )
            })?;
            Ok((queue.try_clone()?, queue))
        };
        ends(queue, |input, output| Queues { input, output })
    }
}

impl Party for Queues {
    #[inline(never)]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.output.send(message)
    }

    #[inline(never)]
    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self.input.receive(message)? {
            received if received == message.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Rings in shared memory, one each way.
#[derive(Debug)]
pub(in crate::os::ipc) struct Rings {
    input: StreamReader,
    output: StreamWriter,
}

impl Rings {
    /// Both ends of rings of `capacity` bytes.
    pub(in crate::os::ipc) fn pair(capacity: usize) -> Result<[Rings; 2]> {
        let stream = || Ok(shared_stream(capacity).map(|(into, out)| (out, into))?);
        ends(stream, |input, output| Rings { input, output })
    }
}

impl Party for Rings {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.output.write_all(message)
    }

    #[inline]
    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(message)
    }
}

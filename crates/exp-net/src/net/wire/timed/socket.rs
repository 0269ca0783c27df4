//! One call on a socket, and what it means that it gave nothing.

use metal::readiness::is_full;
use metal::socket::{Wait, incoming_cpu, receive, send};
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a call gave; none if it was interrupted, or there is nothing or no room for now. Who waits
/// looks then whether the wait is over. No other place of these experiments knows these errors.
#[inline]
pub fn completed<T>(call: io::Result<T>) -> io::Result<Option<T>> {
    match call {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Interrupted || is_full(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A connected socket that an experiment's messages go through.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// It carries a stream of bytes; else datagrams.
    pub is_stream: bool,
}

impl Socket {
    /// Sends by one call; how many bytes were taken.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.answered(send(self.as_fd(), bytes))
    }

    /// Receives by one call; how many bytes: 0 at the end of a stream.
    #[inline]
    pub fn receive(&self, into: &mut [u8], wait: Wait) -> io::Result<Option<usize>> {
        self.answered(receive(self.as_fd(), into, wait))
    }

    /// What an earlier datagram met on its way is reported by a later call, which then did nothing.
    #[inline]
    fn answered(&self, call: io::Result<usize>) -> io::Result<Option<usize>> {
        match completed(call) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && !self.is_stream => {
                Ok(None)
            }
            other => other,
        }
    }

    pub fn options(&self) -> SockRef<'_> {
        SockRef::from(self)
    }

    /// The CPU on which the kernel last handled what came to it.
    pub fn softirq_cpu(&self) -> Option<usize> {
        incoming_cpu(self.as_fd()).unwrap_or(None)
    }

    /// Ends both directions at once: a thread that waits in it returns. One that is gone already
    /// is cut.
    pub fn cut(&self) {
        let _ = self.options().shutdown(Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Socket {
        Socket { fd: stream.into(), is_stream: true }
    }
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Socket {
        Socket { fd: socket.into(), is_stream: false }
    }
}

/// A stream, whatever its domain.
impl From<socket2::Socket> for Socket {
    fn from(stream: socket2::Socket) -> Socket {
        Socket { fd: stream.into(), is_stream: true }
    }
}

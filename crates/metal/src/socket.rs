//! Sockets beyond what the standard library has: calls that cost one system call and nothing else,
//! and the CPU on which packets arrive.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::answer::{number, option};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until there is something, or the socket's own time-out (`SO_RCVTIMEO`) is over: an error of
    /// kind `WouldBlock`.
    Block,
    /// Until there is as much as was asked for, or the stream's end or that time-out comes first.
    Whole,
    /// Never: an error of kind `WouldBlock` where there is nothing.
    Never,
}

impl Wait {
    fn flags(self) -> libc::c_int {
        match self {
            Wait::Block => 0,
            Wait::Whole => libc::MSG_WAITALL,
            Wait::Never => libc::MSG_DONTWAIT,
        }
    }
}

/// Sends bytes by one call; how many were taken. No signal comes of a connection that is gone.
/// Errors: what send(2) reports.
#[inline]
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of `bytes`.
    let sent = unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    Ok(number(sent)? as usize)
}

/// Receives bytes by one call; how many: 0 at the end of a stream, and for an empty datagram.
/// Errors: what recv(2) reports.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8], wait: Wait) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of `into`.
    let received = unsafe {
        libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), wait.flags())
    };
    Ok(number(received)? as usize)
}

/// The CPU on which the kernel last handled a packet for this socket (`SO_INCOMING_CPU`); `None`
/// before the first, and for sockets that have no packets. Errors: what getsockopt(2) reports.
pub fn incoming_cpu(socket: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    let mut cpu = [0_i32];
    option(socket, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, &mut cpu)?;
    Ok(usize::try_from(cpu[0]).ok())
}

#[cfg(test)]
mod tests {
    use super::{Wait, incoming_cpu, receive, send};
    use std::io::ErrorKind;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Two sockets that know each other.
    fn pair() -> (UdpSocket, UdpSocket) {
        let bind = || UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        let (one, other) = (bind(), bind());
        one.connect(other.local_addr().expect("an address")).expect("connects");
        other.connect(one.local_addr().expect("an address")).expect("connects");
        (one, other)
    }

    #[test]
    fn bytes_go_and_come_and_nothing_is_waited_for() {
        let (one, other) = pair();
        let mut into = [0; 16];
        let nothing = receive(other.as_fd(), &mut into, Wait::Never).expect_err("nothing is there");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        assert_eq!(send(one.as_fd(), b"hello").expect("sends"), 5);
        assert_eq!(receive(other.as_fd(), &mut into, Wait::Block).expect("receives"), 5);
        assert_eq!(&into[..5], b"hello");
        assert_eq!(send(one.as_fd(), b"").expect("sends"), 0);
        assert_eq!(receive(other.as_fd(), &mut into, Wait::Block).expect("receives"), 0);
        // No process gets a signal for a lost connection.
        let (here, gone) = UnixStream::pair().expect("sockets");
        drop(gone);
        let told = send(here.as_fd(), b"x").expect_err("is gone");
        assert_eq!(told.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_packet_has_a_cpu_and_a_pipe_has_none() {
        let (one, other) = pair();
        send(one.as_fd(), b"x").expect("sends");
        receive(other.as_fd(), &mut [0; 4], Wait::Block).expect("receives");
        let cpu = incoming_cpu(other.as_fd()).expect("tells");
        let most = std::fs::read_to_string("/sys/devices/system/cpu/possible").expect("CPUs");
        let last = most.trim().rsplit(['-', ',']).next().expect("a number");
        let last: usize = last.parse().expect("a number");
        assert!(cpu.is_some_and(|cpu| cpu <= last), "{cpu:?} of {last}");
        incoming_cpu(std::io::stdin().as_fd()).expect_err("no socket");
    }
}

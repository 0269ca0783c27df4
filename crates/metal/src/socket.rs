//! Sockets beyond what the standard library has: calls that cost one system call and nothing else,
//! the CPU on which packets arrive, busy polling, datagrams that a full socket dropped.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether a call waits.
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
    counted(sent)
}

/// Receives bytes by one call; how many: 0 at the end of a stream, and for an empty datagram.
/// Errors: what recv(2) reports.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8], wait: Wait) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of `into`.
    let received = unsafe {
        libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), wait.flags())
    };
    counted(received)
}

fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The CPU on which the kernel last handled a packet for this socket (`SO_INCOMING_CPU`); `None`
/// before the first, and for sockets that have no packets. Errors: what getsockopt(2) reports.
pub fn incoming_cpu(socket: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    option(socket, libc::SO_INCOMING_CPU).map(|cpu| usize::try_from(cpu).ok())
}

/// Has a blocking receive poll the device for so many microseconds before it sleeps
/// (`SO_BUSY_POLL`). More than the system's default needs CAP_NET_ADMIN; devices that cannot be
/// polled ignore it, loopback among them. Errors: what setsockopt(2) reports.
pub fn set_busy_poll(socket: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    let us = libc::c_int::try_from(us).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SO_BUSY_POLL, us)
}

/// For how many microseconds a blocking receive polls the device. Errors: what getsockopt(2)
/// reports.
pub fn busy_poll_us(socket: BorrowedFd<'_>) -> io::Result<u32> {
    option(socket, libc::SO_BUSY_POLL).map(|us| u32::try_from(us).unwrap_or(0))
}

/// Has the kernel tell with each datagram how many before it this socket had no room for
/// (`SO_RXQ_OVFL`); [`receive_counted`] reads it. Errors: what setsockopt(2) reports.
pub fn count_dropped(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_RXQ_OVFL, 1)
}

/// Receives one datagram: its bytes, and how many the socket had dropped before it, all since it
/// was made; `None` where there were none. Errors: what recvmsg(2) reports.
pub fn receive_counted(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
    wait: Wait,
) -> io::Result<(usize, Option<u32>)> {
    /// Room for one control message of 4 bytes and more, aligned as its head must be.
    const CONTROL_WORDS: usize = 8;
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero msghdr is a valid one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<[u64; CONTROL_WORDS]>();
    // SAFETY: `message` names one buffer and one control area, both ours and alive, with their
    // lengths.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, wait.flags()) };
    let bytes = counted(received)?;
    let mut dropped = None;
    // SAFETY: the kernel has set the length of what it wrote into the control area, which is alive.
    let mut head = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !head.is_null() {
        // SAFETY: a head that CMSG_FIRSTHDR or CMSG_NXTHDR gave lies whole in the control area.
        let (level, kind) = unsafe { ((*head).cmsg_level, (*head).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SO_RXQ_OVFL {
            // SAFETY: this control message carries four bytes, wherever they are aligned.
            dropped = Some(unsafe { libc::CMSG_DATA(head).cast::<u32>().read_unaligned() });
        }
        // SAFETY: as above.
        head = unsafe { libc::CMSG_NXTHDR(&raw const message, head) };
    }
    Ok((bytes, dropped))
}

fn option(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `length` are ours, and the length is that of the value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_option(socket: BorrowedFd<'_>, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Wait, busy_poll_us, count_dropped, incoming_cpu, receive, receive_counted, send,
        set_busy_poll,
    };
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
        // Nobody gets a signal for a connection that is gone.
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

    #[test]
    fn datagrams_that_a_full_socket_dropped_are_counted() {
        let (one, other) = pair();
        count_dropped(other.as_fd()).expect("counts");
        let large = vec![7; 60_000];
        let sent = 40;
        for _ in 0..sent {
            send(one.as_fd(), &large).expect("sends");
        }
        let mut into = vec![0; 60_000];
        let mut received = 0;
        while receive(other.as_fd(), &mut into, Wait::Never).is_ok() {
            received += 1;
        }
        assert!((1..sent).contains(&received), "{received}");
        // Told with the next one that has room.
        send(one.as_fd(), b"last").expect("sends");
        let (bytes, dropped) =
            receive_counted(other.as_fd(), &mut into, Wait::Block).expect("receives");
        assert_eq!((bytes, dropped), (4, Some(sent - received)));
    }

    #[test]
    fn busy_polling_is_told_as_it_was_set() {
        let (one, _) = pair();
        match set_busy_poll(one.as_fd(), 50) {
            Ok(()) => assert_eq!(busy_poll_us(one.as_fd()).expect("tells"), 50),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        }
    }
}

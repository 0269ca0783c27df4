//! What waits in a socket's queues, and what did not get into them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

use crate::answer::{done, option, set_option};

/// Words of `SO_MEMINFO` (linux/sock_diag.h), and which of them counts what was dropped.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Bytes that have come and were not read (SIOCINQ; of a datagram socket, those of the next
/// datagram). Errors: those of ioctl(2): the descriptor is no socket.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes one int, to a variable of ours.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    usize::try_from(bytes).map_err(io::Error::other)
}

/// Datagrams that came to a socket and were dropped there since it was made, because its buffer was
/// full: the count that `SO_RXQ_OVFL` sends along with a later datagram, without waiting for one
/// (Linux 4.12). Errors: those of getsockopt(2).
pub fn dropped(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut words = [0_u32; MEMINFO_WORDS];
    let told = option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
    told.get(MEMINFO_DROPS).copied().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Has a datagram socket report with ENOBUFS when the host's own queue to the device drops what it
/// sends, where else the kernel keeps that to itself (`IP_RECVERR`, `IPV6_RECVERR`; udp_send_skb).
/// Errors: those of setsockopt(2).
pub fn tell_refusals(socket: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    let (level, name) = match is_v6 {
        false => (libc::IPPROTO_IP, libc::IP_RECVERR),
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    set_option(socket, level, name, &1)
}

#[cfg(test)]
mod tests {
    use super::{dropped, tell_refusals, unread_bytes};
    use crate::scratch::connection;
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_not_read_waits_at_the_receiver() {
        let (mut near, far) = connection();
        assert_eq!(unread_bytes(far.as_fd()).unwrap(), 0);
        near.write_all(&[1; 5000]).unwrap();
        // Loopback: what a call has sent has come.
        assert_eq!(unread_bytes(far.as_fd()).unwrap(), 5000);
        let no_bytes = std::fs::File::open("/dev/null").unwrap();
        assert!(unread_bytes(no_bytes.as_fd()).is_err());
    }

    #[test]
    fn a_full_buffer_drops_and_counts_each() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        tell_refusals(near.as_fd(), false).unwrap();
        assert_eq!(dropped(far.as_fd()).unwrap(), 0);
        let sent: u32 = 5000;
        for _ in 0..sent {
            near.send(&[1; 1000]).unwrap();
        }
        far.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1000];
        let mut read = 0;
        while far.recv(&mut buffer).is_ok() {
            read += 1;
        }
        let dropped = dropped(far.as_fd()).unwrap();
        assert!(dropped > 0 && read > 0);
        assert_eq!(read + dropped, sent);
    }
}

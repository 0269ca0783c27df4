//! What the kernel knows of a TCP connection.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `TCP_INFO` (linux/tcp.h), as far as it is used. Kernels differ in how much of it they give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Smoothed round trip, in µs: from a segment to its acknowledgement, which an answer brings along, so
    /// that the peer's work is in it where it answers soon.
    pub rtt_us: u32,
    /// Shortest round trip that was seen lately, in µs (Linux 4.6).
    pub min_rtt_us: Option<u32>,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Bytes of payload that came in (Linux 4.1).
    pub received_bytes: Option<u64>,
    /// Largest segment that is sent, in bytes of payload.
    pub segment_bytes: u32,
}

/// Where the fields are: eight bytes of flags, then words, of which four are twice as long.
const SEND_MSS_AT: usize = 16;
const RTT_AT: usize = 68;
const RETRANSMITS_AT: usize = 100;
const RECEIVED_AT: usize = 128;
const MIN_RTT_AT: usize = 148;
/// More than any kernel gives.
const MOST: usize = 512;

/// Asks for a connection's facts.
///
/// # Errors
/// Those of getsockopt(2): the descriptor is no TCP socket.
pub fn info(socket: BorrowedFd<'_>) -> io::Result<Info> {
    let mut told = [0_u8; MOST];
    let mut length = MOST as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a buffer of ours, and how many into `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            told.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&told[..(length as usize).min(MOST)]))
}

fn parse(told: &[u8]) -> Info {
    let word = |at: usize| Some(u32::from_ne_bytes(told.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(told.get(at..at + 8)?.try_into().ok()?));
    Info {
        rtt_us: word(RTT_AT).unwrap_or(0),
        // `u32::MAX` is the kernel's word for none.
        min_rtt_us: word(MIN_RTT_AT).filter(|us| *us != u32::MAX),
        retransmits: word(RETRANSMITS_AT).unwrap_or(0),
        received_bytes: long(RECEIVED_AT),
        segment_bytes: word(SEND_MSS_AT).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Info, info, parse};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_tells_its_round_trip_and_what_came_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut buffer = [0_u8; 1000];
        for _ in 0..20 {
            near.write_all(&buffer[..10]).unwrap();
            far.read_exact(&mut buffer[..10]).unwrap();
            far.write_all(&buffer).unwrap();
            near.read_exact(&mut buffer).unwrap();
        }
        let told = info(near.as_fd()).unwrap();
        assert_eq!(told.received_bytes, Some(20_000));
        // Loopback: below a tenth of a second even on a busy machine, and measured at all.
        assert!(told.rtt_us > 0 && told.rtt_us < 100_000, "{told:?}");
        assert!(
            told.min_rtt_us.is_some_and(|least| least <= told.rtt_us),
            "{told:?}"
        );
        assert!(told.segment_bytes > 500, "{told:?}");
        let no_socket = std::fs::File::open("/proc/self/status").unwrap();
        assert!(info(no_socket.as_fd()).is_err());
    }

    #[test]
    fn an_old_kernel_tells_less() {
        let mut told = vec![0_u8; 104];
        told[68..72].copy_from_slice(&321_u32.to_ne_bytes());
        told[100..104].copy_from_slice(&2_u32.to_ne_bytes());
        let expected = Info {
            rtt_us: 321,
            retransmits: 2,
            ..Info::default()
        };
        assert_eq!(parse(&told), expected);
    }
}

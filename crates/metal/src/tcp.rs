//! What the kernel knows of a TCP connection.

use std::io;
use std::os::fd::BorrowedFd;

use crate::answer::option;

/// `TCP_INFO` (linux/tcp.h), as far as it is used. Kernels differ in how much of it they give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Smoothed round trip, in µs: from a segment to its acknowledgement, which an answer brings
    /// along, so that the peer's work is in it where it answers soon.
    pub rtt_us: u32,
    /// Shortest round trip that was seen lately, in µs (Linux 4.6).
    pub min_rtt_us: Option<u32>,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Bytes of payload that came in (Linux 4.1).
    pub received_bytes: Option<u64>,
    /// Largest segment that is sent, in bytes of payload.
    pub segment_bytes: u32,
    pub window_segments: u32,
    /// Bytes of payload that were acknowledged (Linux 4.1).
    pub acknowledged_bytes: Option<u64>,
    /// Segments of payload that went out, those sent again among them (Linux 4.6).
    pub sent_segments: Option<u32>,
    /// The recent delivery rate, in B/s, from windows with enough to send or, without any, from
    /// others (Linux 4.9).
    pub delivery_rate: Option<u64>,
    /// How a sender's time was spent (Linux 4.9).
    pub limits: Option<Limits>,
}

/// Times since a connection was made, in µs. The kernel counts them in its ticks, of 1 to 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// There was something to send, or to be acknowledged.
    pub busy_us: u64,
    /// Of it, the receiver's window was full.
    pub receive_window_us: u64,
    /// Of it, the send buffer was too small for what the window would have taken.
    pub send_buffer_us: u64,
}

/// Where the fields are: eight bytes of flags, then words; some are twice as long.
const SEND_MSS_AT: usize = 16;
const RTT_AT: usize = 68;
const WINDOW_AT: usize = 80;
const RETRANSMITS_AT: usize = 100;
const ACKNOWLEDGED_AT: usize = 120;
const RECEIVED_AT: usize = 128;
const MIN_RTT_AT: usize = 148;
const SENT_SEGMENTS_AT: usize = 156;
const DELIVERY_RATE_AT: usize = 160;
const BUSY_AT: usize = 168;
const RECEIVE_WINDOW_AT: usize = 176;
const SEND_BUFFER_AT: usize = 184;
/// More than any kernel gives.
const MOST: usize = 512;

/// Asks for a connection's facts. Errors: those of getsockopt(2): the descriptor is no TCP socket.
pub fn info(socket: BorrowedFd<'_>) -> io::Result<Info> {
    let mut told = [0_u8; MOST];
    option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut told).map(parse)
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
        window_segments: word(WINDOW_AT).unwrap_or(0),
        acknowledged_bytes: long(ACKNOWLEDGED_AT),
        sent_segments: word(SENT_SEGMENTS_AT),
        delivery_rate: long(DELIVERY_RATE_AT),
        limits: limits(long),
    }
}

fn limits(long: impl Fn(usize) -> Option<u64>) -> Option<Limits> {
    Some(Limits {
        busy_us: long(BUSY_AT)?,
        receive_window_us: long(RECEIVE_WINDOW_AT)?,
        send_buffer_us: long(SEND_BUFFER_AT)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Info, Limits, info, parse};
    use crate::scratch::connection;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_connection_tells_its_round_trip_and_what_came_in() {
        let (mut near, mut far) = connection();
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
        assert!(told.min_rtt_us.is_some_and(|least| least <= told.rtt_us), "{told:?}");
        assert!(told.segment_bytes > 500, "{told:?}");
        // The last of it may be under way still.
        let acknowledged = info(far.as_fd()).unwrap().acknowledged_bytes.unwrap();
        assert!((19_000..=20_001).contains(&acknowledged), "{acknowledged}");
        let sent = info(far.as_fd()).unwrap().sent_segments;
        assert!(sent.is_some_and(|count| count >= 20), "{sent:?}");
        assert!(told.limits.is_some() && told.delivery_rate.is_some(), "{told:?}");
        assert!(told.window_segments > 0, "{told:?}");
        let no_socket = std::fs::File::open("/proc/self/status").unwrap();
        assert!(info(no_socket.as_fd()).is_err());
    }

    #[test]
    fn one_whose_receiver_does_not_read_is_limited_by_its_window() {
        let (mut near, far) = connection();
        let wait = std::time::Duration::from_millis(20);
        near.set_write_timeout(Some(wait)).unwrap();
        let buffer = vec![1_u8; 1 << 20];
        // Until everything is full.
        for _ in 0..64 {
            if near.write_all(&buffer).is_err() {
                break;
            }
        }
        let limits = info(near.as_fd()).unwrap().limits.unwrap();
        assert!(limits.receive_window_us > 0, "{limits:?}");
        assert!(limits.busy_us >= limits.receive_window_us, "{limits:?}");
        assert_eq!(info(far.as_fd()).unwrap().limits.map(|of| of.busy_us), Some(0));
    }

    #[test]
    fn the_fields_are_where_the_kernel_puts_them() {
        let mut told = vec![0_u8; 248];
        let mut put = |at: usize, value: u64| {
            told[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        };
        put(120, 7 << 33);
        put(160, 5 << 33);
        put(168, 90_000);
        put(176, 60_000);
        put(184, 30_000);
        told[80..84].copy_from_slice(&44_u32.to_ne_bytes());
        told[156..160].copy_from_slice(&55_u32.to_ne_bytes());
        let info = parse(&told);
        assert_eq!(info.window_segments, 44);
        assert_eq!(info.acknowledged_bytes, Some(7 << 33));
        assert_eq!(info.sent_segments, Some(55));
        assert_eq!(info.delivery_rate, Some(5 << 33));
        let limits = Limits { busy_us: 90_000, receive_window_us: 60_000, send_buffer_us: 30_000 };
        assert_eq!(info.limits, Some(limits));
        // One that ends within them reports none.
        assert_eq!(parse(&told[..184]).limits, None);
    }

    #[test]
    fn an_old_kernel_tells_less() {
        let mut told = vec![0_u8; 104];
        told[68..72].copy_from_slice(&321_u32.to_ne_bytes());
        told[100..104].copy_from_slice(&2_u32.to_ne_bytes());
        let expected = Info { rtt_us: 321, retransmits: 2, ..Info::default() };
        assert_eq!(parse(&told), expected);
    }
}

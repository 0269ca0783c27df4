//! What a data socket must have, so that there is a limit on every wait.

use super::shape::STALL;
use crate::net::ends::Socket;
use anyhow::{Context, Result, ensure};
use metal::backlog;
use socket2::SockRef;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Sockets on which nothing waits longer than [`STALL`]. Nothing unacknowledged of a stream lives
/// longer; for datagrams the host reports refusals, and reading waits for `quiet`.
pub(super) fn limited(sockets: Vec<Socket>, quiet: Duration) -> Result<Vec<Socket>> {
    for socket in &sockets {
        SockRef::from(socket).set_write_timeout(Some(STALL))?;
        match socket {
            Socket::Stream(stream) => {
                ensure!(stream.nodelay()?, "cannot set TCP_NODELAY");
                stream.set_read_timeout(Some(STALL))?;
                let stream = SockRef::from(stream);
                stream.set_tcp_user_timeout(Some(STALL)).context("setting TCP_USER_TIMEOUT")?;
            }
            Socket::Datagram(socket) => {
                socket.set_read_timeout(Some(quiet))?;
                backlog::tell_refusals(socket).context("setting IP_RECVERR")?;
            }
        }
    }
    Ok(sockets)
}

/// Bytes of the largest send buffer, as the kernel counts them.
pub(super) fn send_buffer_bytes(sockets: &[Socket]) -> u64 {
    let size = |socket| SockRef::from(socket).send_buffer_size().ok();
    sockets.iter().filter_map(size).max().unwrap_or(0) as u64
}

/// Bytes of the largest receive buffer, likewise.
pub(super) fn receive_buffer_bytes(sockets: &[Socket]) -> u64 {
    let size = |socket| SockRef::from(socket).recv_buffer_size().ok();
    sockets.iter().filter_map(size).max().unwrap_or(0) as u64
}

/// The CPUs on which the kernel last handled what came to the sockets, each once.
pub(super) fn softirq_cpus(sockets: &[Socket]) -> Vec<usize> {
    let cpus: BTreeSet<usize> = sockets.iter().filter_map(Socket::softirq_cpu).collect();
    cpus.into_iter().collect()
}

/// Memory of so many bytes, each page touched, without zeros and with no two pages alike.
pub(super) fn filled(bytes: usize) -> Vec<u8> {
    let mut value = 0x9e37_79b9_7f4a_7c15_u64;
    let mut buffer = vec![0; bytes];
    for part in buffer.chunks_mut(8) {
        value =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        part.copy_from_slice(&(value | 0x0101_0101_0101_0101).to_ne_bytes()[..part.len()]);
    }
    buffer
}

/// Whether a call waited as long as it may.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn no_byte_is_zero_and_no_page_like_another() {
        for bytes in [1, 7, 8, 4096 * 3 + 5] {
            let buffer = filled(bytes);
            assert_eq!(buffer.len(), bytes);
            assert!(buffer.iter().all(|byte| *byte != 0));
        }
        let pages = filled(3 * 4096);
        let mut pages = pages.chunks(4096);
        let first = pages.next();
        assert!(pages.all(|page| Some(page) != first));
    }
}

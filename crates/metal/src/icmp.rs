//! ICMP echoes over an own socket: a datagram socket where the kernel grants one
//! (`net.ipv4.ping_group_range`, which holds for IPv6 too), else a raw one.
//!
//! An answer is taken for an echo's only where type, identifier, sequence number and the whole
//! payload are those that were sent. The kernel stamps what came in when its network stack took it
//! up (`SO_TIMESTAMPNS`), so that the path from there to the waiting thread is separable.

use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::answer::{invalid, number};
use crate::clock::{Clock, vdso_clock_gettime};

mod packet;
mod socket;

pub use packet::{HEAD_BYTES, PAYLOAD_MIN_BYTES};

/// What the kernel grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A datagram socket: the kernel writes the identifier and sees that only its answers come.
    Datagram,
    /// A raw socket: the identifier is chosen at random, and a filter keeps others' answers out.
    Raw,
}

/// An answer's times, in ns of `CLOCK_REALTIME`, and how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the kernel took it up.
    pub stamped_ns: u64,
    /// Hops that it might still have made (TTL, hop limit).
    pub hops_left: Option<u8>,
}

/// A socket for echoes to one address.
#[derive(Debug)]
pub struct Echo {
    socket: OwnedFd,
    access: Access,
    is_v6: bool,
    identifier: u16,
    request: Vec<u8>,
    sequence: u16,
    /// Answers that were not the awaited echo's: late ones, doubles, others'.
    strays: u64,
    inbox: Vec<u8>,
}

/// A packet that came, still unread.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    bytes: usize,
    ancillary: socket::Ancillary,
}

impl Echo {
    /// Opens a socket for echoes with `payload_bytes` of payload. Nothing is sent yet. Errors:
    /// `PermissionDenied` where neither kind of socket is granted; a payload below
    /// [`PAYLOAD_MIN_BYTES`] or longer than IP carries; an address without a route or a family that
    /// this host lacks.
    pub fn open(to: IpAddr, payload_bytes: usize) -> io::Result<Echo> {
        let is_v6 = to.is_ipv6();
        // IPv4 counts its own head of 20 bytes in, IPv6 does not.
        let most = usize::from(u16::MAX) - HEAD_BYTES - if is_v6 { 0 } else { 20 };
        if !(PAYLOAD_MIN_BYTES..=most).contains(&payload_bytes) {
            let reason = format!("echoes carry {PAYLOAD_MIN_BYTES} to {most} bytes of payload");
            return Err(invalid(reason));
        }
        let granted = socket::open(is_v6, Access::Datagram).map(|made| (made, Access::Datagram));
        let (socket, access) = match granted {
            Err(error) if is_refusal(&error) => (socket::open(is_v6, Access::Raw)?, Access::Raw),
            other => other?,
        };
        Echo::with(socket, access, to, payload_bytes)
    }

    /// As [`Echo::open`], with one kind of socket only. Errors: as there.
    pub fn open_as(access: Access, to: IpAddr, payload_bytes: usize) -> io::Result<Echo> {
        Echo::with(socket::open(to.is_ipv6(), access)?, access, to, payload_bytes)
    }

    fn with(socket: OwnedFd, access: Access, to: IpAddr, payload_bytes: usize) -> io::Result<Echo> {
        let is_v6 = to.is_ipv6();
        socket::prepare(&socket, is_v6, access)?;
        socket::connect(&socket, to)?;
        let tag = tag(&socket);
        let identifier = match access {
            Access::Datagram => socket::own_identifier(&socket)?,
            Access::Raw => {
                let chosen = (tag >> 48) as u16;
                socket::hear_only(&socket, is_v6, chosen)?;
                chosen
            }
        };
        let request = packet::request(is_v6, identifier, tag, payload_bytes);
        Ok(Echo {
            inbox: vec![0; request.len() + packet::IP_HEAD_MAX_BYTES],
            socket,
            access,
            is_v6,
            identifier,
            request,
            sequence: 0,
            strays: 0,
        })
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// Answers so far that were not the awaited echo's.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Makes the next echo the one of this number: before its time begins, because the check sum
    /// takes some.
    pub fn number(&mut self, sequence: u16) {
        self.sequence = sequence;
        packet::number(&mut self.request, sequence, self.is_v6);
    }

    /// Sends the echo. Errors: those of send(2).
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        // SAFETY: the kernel reads the request, which is ours.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), self.request.as_ptr().cast(), self.request.len(), 0)
        };
        match number(sent)? as usize {
            bytes if bytes == self.request.len() => Ok(()),
            bytes => Err(io::Error::other(format!(
                "{bytes} of {} bytes of an echo were sent",
                self.request.len()
            ))),
        }
    }

    /// Waits for a packet, for as long as nothing interrupts the wait
    /// ([`crate::deadline::Deadline`]). [`Echo::answer`] says whether it is the answer, later.
    /// Errors: `Interrupted` where a signal came first; what routers and the peer answered instead
    /// of an echo (`EHOSTUNREACH`, `ECONNREFUSED`, `EMSGSIZE`), and those of recvmsg(2).
    #[inline]
    pub fn receive(&mut self) -> io::Result<Packet> {
        let (bytes, told) = socket::receive(&self.socket, &mut self.inbox)?;
        Ok(Packet { bytes, ancillary: told })
    }

    /// What the packet that came last says, if it is the answer to the echo that was numbered last;
    /// else it is counted among the [`Echo::strays`]. Errors: the kernel gave it no time stamp.
    pub fn answer(&mut self, packet: Packet) -> io::Result<Option<Answer>> {
        let all = &self.inbox[..packet.bytes.min(self.inbox.len())];
        let echo = match (self.access, self.is_v6) {
            // A raw socket of IPv4 gives the packet with its head.
            (Access::Raw, false) => packet::without_ip_head(all),
            _ => Some(all),
        };
        let is_own = echo.is_some_and(|echo| {
            let (identifier, sequence) = (self.identifier, self.sequence);
            packet::answers(echo, &self.request, identifier, sequence, self.is_v6)
        });
        if !is_own {
            self.strays += 1;
            return Ok(None);
        }
        let stamped_ns = packet.ancillary.stamped_ns.ok_or_else(|| {
            io::Error::other("the kernel gave no time stamp with what it received")
        })?;
        Ok(Some(Answer { stamped_ns, hops_left: packet.ancillary.hops_left }))
    }
}

/// Whether this process may have the kind of socket at all; nothing is sent.
pub fn is_granted(access: Access, is_v6: bool) -> bool {
    socket::open(is_v6, access).is_ok()
}

/// The kind of socket for echoes that the kernel grants this process; `None`: neither. Errors: the
/// kernel has no ICMP sockets of IPv4, or no descriptor is free.
pub fn granted() -> io::Result<Option<Access>> {
    for access in [Access::Datagram, Access::Raw] {
        match socket::open(false, access) {
            Ok(_) => return Ok(Some(access)),
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EPROTONOSUPPORT))
}

/// A number that no other sender of echoes has: random bytes, or else the time.
fn tag(socket: &OwnedFd) -> u64 {
    let mut bytes = [0_u8; size_of::<u64>()];
    match getrandom(&mut bytes, GetRandomFlags::NONBLOCK) {
        Ok(given) if given == bytes.len() => u64::from_ne_bytes(bytes),
        _ => vdso_clock_gettime(Clock::REALTIME).rotate_left(32) ^ socket.as_raw_fd() as u64,
    }
}

#[cfg(test)]
mod tests;

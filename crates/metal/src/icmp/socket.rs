//! The sockets of echoes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::getsockname;

use super::Access;
use crate::answer::{number, set_option, socket};
use crate::clock::nanoseconds;

/// linux/icmp.h: a mask of types that a raw socket does not give.
const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;
const REPLY_V4: u32 = 0;
/// linux/icmpv6.h: eight words whose set bits are types that a raw socket does not give.
const ICMPV6_FILTER: libc::c_int = 1;
const REPLY_V6: usize = 129;
/// Room for the time stamp, the hop limit and what else the kernel adds, in words of eight bytes.
const CONTROL_WORDS: usize = 32;

/// The kernel's facts about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ancillary {
    pub(super) stamped_ns: Option<u64>,
    pub(super) hops_left: Option<u8>,
}

pub(super) fn open(is_v6: bool, access: Access) -> io::Result<OwnedFd> {
    let (family, protocol) = match is_v6 {
        true => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
        false => (libc::AF_INET, libc::IPPROTO_ICMP),
    };
    let kind = match access {
        Access::Datagram => libc::SOCK_DGRAM,
        Access::Raw => libc::SOCK_RAW,
    };
    socket(family, kind, protocol)
}

/// Asks for time stamps, hop limits and errors; a raw socket for echo replies alone.
pub(super) fn prepare(socket: &OwnedFd, is_v6: bool, access: Access) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    let (level, hops, errors) = match is_v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVERR),
        false => (libc::IPPROTO_IP, libc::IP_RECVTTL, libc::IP_RECVERR),
    };
    set(socket, level, hops, &1_i32)?;
    // What routers answer (no such host, too long) then fails the wait instead of being dropped.
    set(socket, level, errors, &1_i32)?;
    match (access, is_v6) {
        (Access::Datagram, _) => Ok(()),
        (Access::Raw, false) => {
            let all_but_replies = !(1_u32 << REPLY_V4);
            set(socket, SOL_RAW, ICMP_FILTER, &all_but_replies)
        }
        (Access::Raw, true) => {
            let mut all_but_replies = [u32::MAX; 8];
            all_but_replies[REPLY_V6 / 32] &= !(1 << (REPLY_V6 % 32));
            set(socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &all_but_replies)
        }
    }
}

/// Has a raw socket give only packets of this identifier, so that others' answers do not wake it: a
/// program of five steps, as ping(8) has it.
pub(super) fn hear_only(socket: &OwnedFd, is_v6: bool, identifier: u16) -> io::Result<()> {
    const LENGTH_OF_IP_HEAD: u16 = 0xb1;
    const HALF_WORD_AFTER_IT: u16 = 0x48;
    const HALF_WORD: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let skip_head = step(LENGTH_OF_IP_HEAD, 0, 0, 0);
    let load = match is_v6 {
        // IPv6 gives what follows its head.
        true => step(HALF_WORD, 0, 0, 4),
        false => step(HALF_WORD_AFTER_IT, 0, 0, 4),
    };
    let mut steps = [
        skip_head,
        load,
        step(JUMP_IF_EQUAL, 0, 1, u32::from(identifier)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let program =
        libc::sock_fprog { len: steps.len() as libc::c_ushort, filter: steps.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set<T: Copy>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    set_option(socket.as_fd(), level, option, value)
}

/// Only this address is sent to and heard from.
pub(super) fn connect(socket: &OwnedFd, to: IpAddr) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &SocketAddr::new(to, 0))?)
}

/// The identifier that the kernel gave a datagram socket: its port.
pub(super) fn own_identifier(socket: &OwnedFd) -> io::Result<u16> {
    Ok(SocketAddr::try_from(getsockname(socket)?)?.port())
}

/// One packet, cut to the buffer, and the kernel's facts about it.
#[inline]
pub(super) fn receive(socket: &OwnedFd, inbox: &mut [u8]) -> io::Result<(usize, Ancillary)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut room = libc::iovec { iov_base: inbox.as_mut_ptr().cast(), iov_len: inbox.len() };
    // SAFETY: all-zero values are valid ones.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut room;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the kernel writes into the inbox and the control words, no more than the lengths say.
    let bytes = number(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) })?;
    Ok((bytes as usize, ancillary(&message)))
}

fn ancillary(message: &libc::msghdr) -> Ancillary {
    let mut told = Ancillary::default();
    // SAFETY: the kernel filled the control words and set their length.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: the macros give headers that lie whole in the control words.
        let (header, data) = unsafe { (&*at, libc::CMSG_DATA(at)) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: the kernel's message of this type is a timespec, of any alignment.
                let time: libc::timespec = unsafe { std::ptr::read_unaligned(data.cast()) };
                told.stamped_ns = Some(nanoseconds(time));
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                // SAFETY: the kernel's message of these types is an int, of any alignment.
                let hops: libc::c_int = unsafe { std::ptr::read_unaligned(data.cast()) };
                told.hops_left = u8::try_from(hops).ok();
            }
            _ => {}
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    told
}

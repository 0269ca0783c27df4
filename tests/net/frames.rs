//! What a relay must know of a frame to tell which is the answer to which. (ping and each of plumb's
//! protocols is held against it: a frame that is read wrongly fails these tests.)

use crate::relay::{Passed, Way};

/// The part of an Ethernet frame's IPv4 packet that tells conversations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Ports in the frame's own direction.
    Tcp {
        ports: (u16, u16),
        flags: u8,
        payload_bytes: usize,
    },
    Udp {
        ports: (u16, u16),
        payload_bytes: usize,
    },
    /// An echo or the answer to one.
    Icmp {
        answer: bool,
        id: u16,
        number: u16,
    },
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// `None`: no such packet (ARP, IPv6, a later part of a packet …).
pub fn parse(frame: &[u8]) -> Option<Frame> {
    let word = |bytes: &[u8], at: usize| {
        let two = bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([two[0], two[1]]))
    };
    if word(frame, 12)? != 0x0800 {
        return None;
    }
    let packet = &frame[14..];
    let header = usize::from(packet.first()? & 15) * 4;
    let is_first = word(packet, 6)? & 0x1fff == 0;
    if !is_first {
        return None;
    }
    // Short frames are filled up: the packet says how much of it counts.
    let inner = packet.get(header..usize::from(word(packet, 2)?))?;
    let ports = || Some((word(inner, 0)?, word(inner, 2)?));
    match packet.get(9)? {
        6 => {
            let header = usize::from(inner.get(12)? >> 4) * 4;
            Some(Frame::Tcp {
                ports: ports()?,
                flags: *inner.get(13)?,
                payload_bytes: inner.len().checked_sub(header)?,
            })
        }
        17 => Some(Frame::Udp {
            ports: ports()?,
            payload_bytes: usize::from(word(inner, 4)?).checked_sub(8)?,
        }),
        1 => {
            let answer = match inner.first()? {
                0 => true,
                8 => false,
                _ => return None,
            };
            Some(Frame::Icmp { answer, id: word(inner, 4)?, number: word(inner, 6)? })
        }
        _ => None,
    }
}

/// What a round trip is made of.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A segment with so much payload and the next one like it back.
    Tcp(usize),
    /// Datagrams likewise.
    Udp(usize),
    Icmp,
    /// The first two segments of a connection.
    Connect,
}

/// A message and its answer: when each was read from one end's interface and written to the
/// other's.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    pub up_read_ns: f64,
    pub up_written_ns: f64,
    pub down_read_ns: f64,
    pub down_written_ns: f64,
}

impl Echo {
    /// From the near interface and back to it.
    pub fn round_trip_ns(&self) -> f64 {
        self.down_written_ns - self.up_read_ns
    }
}

/// The round trips of a kind that began at the near end, in order. A message without an answer is
/// none.
pub fn echoes(passed: &[Passed], kind: Kind) -> Vec<Echo> {
    let mut found = Vec::new();
    let mut open: Vec<(Frame, &Passed)> = Vec::new();
    for one in passed {
        let Some(asked) = question(one, kind) else { continue };
        if one.way == Way::Up {
            // One that is sent before the last one's answer has come takes its place; echoes of ICMP
            // have numbers.
            open.retain(|(frame, _)| *frame != asked);
            open.push((asked, one));
        } else if let Some(at) = open.iter().position(|(frame, _)| *frame == asked) {
            let (_, up) = open.swap_remove(at);
            found.push(Echo {
                up_read_ns: up.read_ns,
                up_written_ns: up.written_ns,
                down_read_ns: one.read_ns,
                down_written_ns: one.written_ns,
            });
        }
    }
    found
}

/// The frame that went up of which this is the question or the answer; `None`: it is neither.
fn question(passed: &Passed, kind: Kind) -> Option<Frame> {
    let is_up = passed.way == Way::Up;
    let turned = |(from, to): (u16, u16)| if is_up { (from, to) } else { (to, from) };
    match (kind, passed.frame) {
        (Kind::Tcp(bytes), Frame::Tcp { ports, payload_bytes, .. }) if payload_bytes == bytes => {
            let ports = turned(ports);
            Some(Frame::Tcp { ports, flags: ACK, payload_bytes })
        }
        (Kind::Udp(bytes), Frame::Udp { ports, payload_bytes }) if payload_bytes == bytes => {
            let ports = turned(ports);
            Some(Frame::Udp { ports, payload_bytes })
        }
        (Kind::Icmp, Frame::Icmp { answer, id, number }) if answer != is_up => {
            Some(Frame::Icmp { answer: false, id, number })
        }
        (Kind::Connect, Frame::Tcp { ports, flags, .. }) => {
            let wanted = if is_up { SYN } else { SYN | ACK };
            let ports = turned(ports);
            (flags & (SYN | ACK) == wanted).then_some(Frame::Tcp {
                ports,
                flags: SYN,
                payload_bytes: 0,
            })
        }
        _ => None,
    }
}

//! What bounds the connections that a host may open and take: ports, queues, and how long a closed
//! one keeps its port.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::cpulist::parse_list;
use super::text::numbers;
use super::{Outside, Root};

/// Bounds of connections; `None` if the kernel does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// `net.ipv4.ip_local_port_range`: the first and the last that connect(2) takes by itself.
    pub range: Option<(u16, u16)>,
    /// How many of them `net.ipv4.ip_local_reserved_ports` leaves out.
    #[serde(default)]
    pub reserved: u64,
    /// `net.ipv4.tcp_tw_reuse`: a port in TIME_WAIT may be taken again after a second (1: always,
    /// 2: over loopback).
    pub time_wait_reuse: Option<u64>,
    /// `net.ipv4.tcp_max_tw_buckets`: more connections in TIME_WAIT are not kept.
    pub time_wait_max: Option<u64>,
    /// `net.core.somaxconn`: the most that listen(2) lets wait to be accepted.
    pub queue_max: Option<u64>,
}

impl Ports {
    /// Ports that connect(2) may take for one source address and one destination; Linux' default if
    /// unknown.
    pub fn usable(&self) -> u64 {
        let (first, last) = self.range.unwrap_or(DEFAULT);
        let all = (u64::from(last) + 1).saturating_sub(u64::from(first));
        all.saturating_sub(self.reserved)
    }
}

/// The range of Linux.
const DEFAULT: (u16, u16) = (32_768, 60_999);

impl fmt::Display for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.range.unwrap_or(DEFAULT);
        let (reserved, usable) = (self.reserved, self.usable());
        write!(out, "net.ipv4.ip_local_port_range ({first} to {last}, ")?;
        write!(out, "{reserved} reserved: {usable} ports)")
    }
}

/// Those of this host, in the network namespace of the calling thread.
pub fn here() -> Ports {
    read(&Root::live(Outside::live()))
}

pub(super) fn read(root: &Root) -> Ports {
    const DIR: &str = "proc/sys/net/ipv4";
    let range = root.line(&format!("{DIR}/ip_local_port_range"));
    let range = range.and_then(|line| {
        let mut ends = numbers(&line);
        Some((ends.next()?, ends.next()?))
    });
    let reserved = root.line(&format!("{DIR}/ip_local_reserved_ports"));
    let within = |port: &usize| {
        range.is_none_or(|(first, last)| (usize::from(first)..=usize::from(last)).contains(port))
    };
    Ports {
        range,
        // The kernel writes them as it writes lists of CPUs.
        reserved: reserved.map_or(0, |line| {
            let reserved = parse_list(&line, 1 << u16::BITS);
            reserved.iter().filter(|port| within(port)).count() as u64
        }),
        time_wait_reuse: root.number(&format!("{DIR}/tcp_tw_reuse")),
        time_wait_max: root.number(&format!("{DIR}/tcp_max_tw_buckets")),
        queue_max: root.number("proc/sys/net/core/somaxconn"),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::Root;

    #[test]
    fn ports_are_those_of_the_range_that_nobody_reserved() {
        let told = |text: &str| read(&Root::tree(text));
        assert_eq!(told("").usable(), 28_232);
        let few = told(
            "== proc/sys/net/ipv4/ip_local_port_range\n40000\t40009\n\
             == proc/sys/net/ipv4/ip_local_reserved_ports\n39990-40001,40005\n\
             == proc/sys/net/ipv4/tcp_tw_reuse\n2\n== proc/sys/net/core/somaxconn\n128\n",
        );
        assert_eq!((few.range, few.reserved), (Some((40_000, 40_009)), 3));
        assert_eq!(few.usable(), 7);
        assert_eq!((few.time_wait_reuse, few.queue_max), (Some(2), Some(128)));
        // A range turned round is refused by the kernel, but a record may hold anything.
        assert_eq!(told("== proc/sys/net/ipv4/ip_local_port_range\n9 8\n").usable(), 0);
    }
}

//! Whether programs of this host reach each other at its loopback addresses. The kernel is asked by
//! sockets, because /sys may show another network namespace.

use super::Echoes;
use crate::Root;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

/// What keeps programs of a host from reaching each other at 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopbackFault {
    Down,
    /// The loopback interface lacks the address, or its local route.
    NoAddress,
    /// No port of `net.ipv4.ip_local_port_range` is free.
    NoPort,
    /// The process gets no sockets of IPv4: a sandbox, or a kernel without it.
    NoSocket,
}

/// Whether a socket at 127.0.0.1 can be reached from this process's network namespace.
pub fn live() -> Result<(), LoopbackFault> {
    if is_down() {
        return Err(LoopbackFault::Down);
    }
    reached(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()).map_err(|error| {
        match error.kind() {
            ErrorKind::AddrNotAvailable | ErrorKind::NetworkUnreachable => LoopbackFault::NoAddress,
            ErrorKind::AddrInUse => LoopbackFault::NoPort,
            _ => LoopbackFault::NoSocket,
        }
    })
}

/// Whether a socket at `::1` can be reached from this process's network namespace; a lack of ports
/// does not keep echoes from it.
pub fn has_v6() -> bool {
    let reached = reached(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into());
    !is_down() && reached.map_or_else(|error| error.kind() == ErrorKind::AddrInUse, |()| true)
}

/// Packets from a host to itself go through this interface, whatever device has the address. When
/// it goes down, sockets still find addresses and routes, and packets are dropped.
fn is_down() -> bool {
    metal::ethtool::is_up("lo").is_ok_and(|is_up| !is_up)
}

/// Binds a port of TCP, and has the way to it looked up. A connected socket for datagrams sends
/// nothing, and leaves no port in TIME_WAIT.
fn reached(address: IpAddr, any: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let near = UdpSocket::bind((any, 0))?;
    near.connect(listener.local_addr()?)?;
    // Without a local route a default route leads out of the host.
    let is_local = near.local_addr()?.ip().is_loopback();
    is_local.then_some(()).ok_or_else(|| ErrorKind::NetworkUnreachable.into())
}

/// A recorded machine's: its fact (`works` or a fault), else the flags of its interface. `None`:
/// unknown.
pub fn recorded(root: &Root, fact: Option<&str>) -> Option<Result<(), LoopbackFault>> {
    const IFF_UP: u32 = 1;
    match fact {
        Some("works") => Some(Ok(())),
        Some(text) => serde_json::from_value(text.into()).ok().map(Err),
        None => {
            let flags = root.line("sys/class/net/lo/flags")?;
            let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
            Some((flags & IFF_UP != 0).then_some(()).ok_or(LoopbackFault::Down))
        }
    }
}

impl Echoes {
    /// What the kernel grants this process; none if it does not say.
    pub(crate) fn live() -> Option<Echoes> {
        Some(match metal::icmp::granted().ok()? {
            Some(metal::icmp::Access::Datagram) => Echoes::Datagram,
            Some(metal::icmp::Access::Raw) => Echoes::Raw,
            None => Echoes::Refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LoopbackFault::{Down, NoPort};
    use super::recorded;
    use crate::Root;

    #[test]
    fn a_recorded_loopback_is_what_its_fact_or_its_flags_say() {
        let of = |flags: &str, fact| {
            recorded(&Root::tree(&format!("== sys/class/net/lo/flags\n{flags}\n")), fact)
        };
        assert_eq!((of("0x9", None), of("0x8", None)), (Some(Ok(())), Some(Err(Down))));
        assert_eq!(of("0x9", Some("no_port")), Some(Err(NoPort)));
        assert_eq!(of("0x8", Some("works")), Some(Ok(())));
        assert_eq!((of("", None), of("0x9", Some("maybe"))), (None, None));
    }
}

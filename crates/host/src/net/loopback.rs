//! Whether programs of this host reach each other at its loopback addresses. The kernel is asked by
//! sockets, because /sys may show another network namespace.

use crate::Root;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

/// What keeps programs of a host from reaching each other at 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopbackFault {
    /// The loopback interface is down.
    Down,
    /// No interface has the address, or its local route is gone.
    NoAddress,
    /// The route to the address leaves the host.
    NoRoute,
    /// No port of `net.ipv4.ip_local_port_range` is free.
    NoPort,
    /// The process gets no sockets of IPv4: a sandbox, or a kernel without it.
    NoSocket,
}

/// Whether a socket at 127.0.0.1 can be reached from this process's network namespace.
pub fn live() -> Result<(), LoopbackFault> {
    // Where it was up before, sockets still find addresses and routes, and packets are dropped.
    if is_down() {
        return Err(LoopbackFault::Down);
    }
    reached(Ipv4Addr::LOCALHOST.into()).map_err(|error| match error.kind() {
        ErrorKind::AddrNotAvailable => LoopbackFault::NoAddress,
        ErrorKind::AddrInUse => LoopbackFault::NoPort,
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => LoopbackFault::NoRoute,
        _ => LoopbackFault::NoSocket,
    })
}

/// All packets from a host to itself go through this interface, whatever device has the address.
fn is_down() -> bool {
    metal::ethtool::is_up("lo").is_ok_and(|is_up| !is_up)
}

/// Whether a socket at `::1` can be reached from this process's network namespace.
pub fn has_v6() -> bool {
    !is_down() && reached(Ipv6Addr::LOCALHOST.into()).is_ok()
}

/// Binds a port of TCP, and has the way to it looked up. A connected socket for datagrams sends
/// nothing, and leaves no port in TIME_WAIT.
fn reached(address: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let any = match address {
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let near = UdpSocket::bind(any)?;
    near.connect(listener.local_addr()?)?;
    match near.local_addr()?.ip().is_loopback() {
        true => Ok(()),
        // A default route leads to it, out of the host.
        false => Err(ErrorKind::NetworkUnreachable.into()),
    }
}

/// A recorded machine's: what its facts say, else the flags of its interface and its local
/// addresses. `None`: unknown.
pub fn recorded(root: &Root, fact: Option<&str>) -> Option<Result<(), LoopbackFault>> {
    if let Some(text) = fact {
        let fault = serde_json::from_value(text.into()).ok().map(Err);
        return fault.or((text == "works").then_some(Ok(())));
    }
    const IFF_UP: u32 = 1;
    let flags = root.line("sys/class/net/lo/flags").unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16);
    if flags.is_ok_and(|flags| flags & IFF_UP == 0) {
        return Some(Err(LoopbackFault::Down));
    }
    let addresses = root.read("proc/net/fib_trie")?;
    let has_own = addresses.split_ascii_whitespace().any(|word| word == "127.0.0.1");
    Some(has_own.then_some(()).ok_or(LoopbackFault::NoAddress))
}

/// Whether a recorded machine lists `::1`.
pub fn lists_v6(root: &Root) -> bool {
    // `address index prefix scope flags name`, all in hexadecimal (net/ipv6/addrconf.c).
    let addresses = root.read("proc/net/if_inet6").unwrap_or_default();
    let own = format!("{:032x} ", u128::from(Ipv6Addr::LOCALHOST));
    addresses.lines().any(|line| line.starts_with(&own))
}

#[cfg(test)]
mod tests {
    use super::LoopbackFault::{Down, NoAddress, NoPort};
    use super::{lists_v6, recorded};
    use crate::Root;

    #[test]
    fn a_recorded_loopback_lacks_what_its_files_or_facts_say() {
        let of = |tree: &str, fact| recorded(&Root::tree(tree), fact);
        let up = "== sys/class/net/lo/flags\n0x9\n== proc/net/fib_trie\nLocal:\n   |-- 127.0.0.1\n";
        assert_eq!(of(up, None), Some(Ok(())));
        assert_eq!(of(&up.replace("0x9", "0x8"), None), Some(Err(Down)));
        assert_eq!(of(&up.replace("127.0.0.1", "127.0.0.10"), None), Some(Err(NoAddress)));
        assert_eq!(of(up, Some("no_port")), Some(Err(NoPort)));
        assert_eq!(of("", Some("works")), Some(Ok(())));
        assert_eq!((of("", None), of("", Some("maybe"))), (None, None));
    }

    #[test]
    fn loopback_has_its_second_address_where_it_is_listed() {
        let has = |tree: &str| lists_v6(&Root::tree(tree));
        let listed = "== proc/net/if_inet6\n\
             00000000000000000000000000000001 01 80 10 80       lo\n";
        assert!(has(listed) && !has(""));
        let another = "== proc/net/if_inet6\n\
             fe800000000000000000000000000001 02 40 20 80     eth0\n";
        assert!(!has(another));
    }
}

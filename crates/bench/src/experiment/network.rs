//! What a site's network lacks for experiments that connect.

use super::{Site, Skip};
use host::Host;
use host::net::LoopbackFault::{Down, NoAddress, NoPort, NoRoute, NoSocket};
use host::ports::WIDEN;

/// Of the ports of a host a run uses one in so many: the others belong to other programs and
/// experiments.
const PART: u64 = 2;

impl Site {
    /// The reason why two processes of this host cannot reach each other at 127.0.0.1.
    pub fn lacks_loopback(&self) -> Option<Skip> {
        lacks_loopback(&self.host)
    }

    /// The reason why this host, or the far end, has too few ports for `count` connections and
    /// listening sockets, none of which has left TIME_WAIT when the last is made.
    pub fn lacks_ports(&self, count: u64) -> Option<Skip> {
        let peer = self.peer.as_ref().map(|peer| &peer.host);
        let mut all = std::iter::once(&self.host).chain(peer).map(|host| &host.net.ports);
        let ports = all.find(|ports| count > ports.usable() / PART)?;
        let whose = if ports == &self.host.net.ports { "" } else { " of the far end" };
        let why = format!(
            "half of the {} ports of {ports}{whose} are fewer than the {count} that its connections \
             hold within a minute (TIME_WAIT)",
            ports.usable()
        );
        Some(Skip::because(why).needs(format!("{WIDEN}, or fewer cases")))
    }
}

/// The reason why two processes of a host cannot reach each other at 127.0.0.1.
pub fn lacks_loopback(host: &Host) -> Option<Skip> {
    // With the interface the kernel makes its address and the local routes.
    const AGAIN: &str = "`ip link set lo down; ip link set lo up`";
    let ports = &host.net.ports;
    let (why, needed) = match host.net.loopback_fault? {
        Down => ("the loopback interface is down".to_owned(), "`ip link set lo up`"),
        NoAddress => {
            ("the loopback interface lacks 127.0.0.1 or its local route".to_owned(), AGAIN)
        }
        NoRoute => ("the route to 127.0.0.1 leaves this host".to_owned(), AGAIN),
        NoPort => (format!("no port of {ports} is free"), WIDEN),
        NoSocket => (
            "this process gets no sockets of IPv4".to_owned(),
            "a kernel with IPv4, and a sandbox (seccomp, RestrictAddressFamilies) that allows \
             AF_INET",
        ),
    };
    Some(Skip::because(why).needs(needed))
}

#[cfg(test)]
mod tests {
    use crate::experiment::fixtures::bare_site;
    use host::net::LoopbackFault::{Down, NoPort};
    use host::ports::Ports;

    #[test]
    fn what_a_network_lacks_is_named_with_the_way_out() {
        let mut site = bare_site();
        assert_eq!((site.lacks_loopback(), site.lacks_ports(14_116)), (None, None));
        assert!(site.lacks_ports(14_117).is_some());
        site.host.net.loopback_fault = Some(Down);
        let skip = site.lacks_loopback().expect("a reason");
        assert_eq!(skip.needed.as_deref(), Some("`ip link set lo up`"));
        let range = Some((40_000, 40_007));
        site.host.net.ports = Ports { range, reserved: 2, ..Ports::default() };
        site.host.net.loopback_fault = Some(NoPort);
        for skip in [site.lacks_loopback(), site.lacks_ports(4)] {
            let skip = skip.expect("a reason");
            assert!(skip.reason.contains("40000 to 40007, 2 of them"), "{skip:?}");
            assert!(
                skip.needed.is_some_and(|way| way.contains("ip_local_port_range='1024 65535'"))
            );
        }
        assert_eq!(site.lacks_ports(3), None);
    }
}

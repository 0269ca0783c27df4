//! What a site's network lacks for experiments that connect.

use super::{Site, Skip};
use host::Host;
use host::net::LoopbackFault::{Down, NoAddress, NoPort, NoSocket};

const WIDEN: &str = "`sysctl -w net.ipv4.ip_local_port_range='1024 65535'`";
/// A run uses one in so many of a host's ports: the others belong to other programs.
const PART: u64 = 2;

impl Site {
    /// The reason why this host, or the far end, has too few ports for `count` connections and
    /// listening sockets, none of which has left TIME_WAIT when the last is made.
    pub fn lacks_ports(&self, count: u64) -> Option<Skip> {
        let peer = self.peer.as_ref().map(|peer| &peer.host);
        let mut all = std::iter::once(&self.host).chain(peer).map(|host| &host.net.ports);
        let ports = all.find(|ports| count > ports.usable() / PART)?;
        let why = format!(
            "half of {ports} is less than the {count} ports that its connections hold within a \
             minute (TIME_WAIT)"
        );
        Some(Skip::because(why).needs(format!("{WIDEN}, or fewer cases")))
    }
}

/// The reason why two processes of a host cannot reach each other at 127.0.0.1.
pub fn lacks_loopback(host: &Host) -> Option<Skip> {
    let ports = &host.net.ports;
    Some(match host.net.loopback_fault? {
        Down => Skip::because("the loopback interface is down").needs("`ip link set lo up`"),
        // With the interface the kernel makes its address and the local routes.
        NoAddress => Skip::because("the loopback interface lacks 127.0.0.1 or its local route")
            .needs("`ip link set lo down; ip link set lo up`"),
        NoPort => Skip::because(format!("no port of {ports} is free")).needs(WIDEN),
        NoSocket => Skip::because("this process gets no sockets of IPv4")
            .needs("a kernel with IPv4 and a sandbox that allows AF_INET"),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn half_of_the_ports_that_are_not_reserved_may_be_held() {
        let mut site = crate::experiment::fixtures::bare_site();
        assert_eq!(site.lacks_ports(14_116), None);
        assert!(site.lacks_ports(14_117).is_some());
        site.host.net.ports.range = Some((40_000, 40_007));
        site.host.net.ports.reserved = 2;
        assert_eq!(site.lacks_ports(3), None);
        let skip = site.lacks_ports(4).expect("a reason");
        assert!(skip.reason.contains("6 ports"), "{skip:?}");
    }
}

//! Network interfaces and socket settings.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::block::{PcieLink, pcie_link};
use super::{Outside, Root};

mod ethtool;
pub(super) mod loopback;

use super::plausible::is_plausible;
use super::ports::{self, Ports};
use super::text::numbers;
pub(super) use ethtool::{live_links, recorded_links};
pub use loopback::LoopbackFault;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Net {
    pub interfaces: Vec<Interface>,
    pub congestion_control: Option<String>,
    /// `net.core.wmem_default`: the send buffer of a socket that asks for none.
    pub send_buffer_default_bytes: Option<u64>,
    /// `net.core.busy_read`: microseconds a blocking read polls the device; 0 = off.
    pub busy_read_us: Option<u64>,
    /// `net.ipv4.tcp_timestamps` is on: twelve bytes of each segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_timestamps: Option<bool>,
    /// How this process may send ICMP echoes; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echoes: Option<Echoes>,
    /// The loopback device has `::1`.
    #[serde(default)]
    pub has_loopback_v6: bool,
    /// Why programs of this host do not reach each other at 127.0.0.1; none if they do, or if that
    /// is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopback_fault: Option<LoopbackFault>,
    /// Echoes that come to this host are left unanswered, of IPv4 (`net.ipv4.icmp_echo_ignore_all`)
    /// and of IPv6 (`net.ipv6.icmp.echo_ignore_all`).
    #[serde(default)]
    pub ignores_echoes: [bool; 2],
    /// What bounds the connections of this host.
    #[serde(default)]
    pub ports: Ports,
    /// `net.core.default_qdisc`: how a device queues unless set (`fq_codel`, `pfifo_fast`).
    pub default_queueing: Option<String>,
    /// Largest receive buffer that TCP grows to by itself (`net.ipv4.tcp_rmem`): no more is on its
    /// way.
    pub tcp_receive_buffer_max_bytes: Option<u64>,
    /// Largest send buffer that TCP grows to by itself (`net.ipv4.tcp_wmem`), likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_send_buffer_max_bytes: Option<u64>,
    /// Where packets go. Not written anywhere: it reveals other networks.
    #[serde(skip)]
    pub routes: Vec<Route>,
}

/// What of ICMP the kernel grants a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Echoes {
    /// Datagram sockets: one of its groups is in `net.ipv4.ping_group_range`.
    Datagram,
    Raw,
    Refused,
}

/// A way that packets take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub interface: String,
    /// First address of the destinations.
    pub network: IpAddr,
    /// How many of its bits all destinations share; 0 for the default route.
    pub prefix_bits: u32,
    /// Whether another machine takes them further.
    pub has_gateway: bool,
    /// Of routes that are as narrow, the one with the smallest is taken.
    pub metric: u32,
}

impl Net {
    /// The interface that leads to an address, and whether through a gateway. `None`: no route.
    pub fn way_to(&self, address: IpAddr) -> Option<(&Interface, bool)> {
        // Addresses of the machine itself have a table of their own, which is not read: loopback's
        // are known.
        if address.is_loopback() {
            return Some((self.interfaces.iter().find(|interface| interface.loopback)?, false));
        }
        let leads = self.routes.iter().filter(|route| route.leads_to(address));
        let best =
            leads.max_by_key(|route| (route.prefix_bits, std::cmp::Reverse(route.metric)))?;
        Some((self.named(&best.interface)?, best.has_gateway))
    }

    pub fn named(&self, name: &str) -> Option<&Interface> {
        let mut all = self.interfaces.iter();
        all.find(|interface| interface.name == name)
    }
}

impl Route {
    fn leads_to(&self, address: IpAddr) -> bool {
        let shared = |ours: u128, theirs: u128, width: u32| {
            let rest = width - self.prefix_bits.min(width);
            rest == 128 || (ours ^ theirs) >> rest == 0
        };
        match (self.network, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                shared(u32::from(ours).into(), u32::from(theirs).into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => shared(ours.into(), theirs.into(), 128),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Written like this: `eth0`.
    pub name: String,
    pub mtu_bytes: Option<u64>,
    /// Packets that the device's queue holds, where it is one that counts packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u64>,
    /// Link rate in bits per second; `None` when the driver does not know (a virtual link).
    pub speed_bits_per_second: Option<u64>,
    /// Written like this: `full` or `half`.
    pub duplex: Option<String>,
    pub driver: Option<String>,
    /// Written like this: `up`, `down`, `unknown`.
    pub operstate: Option<String>,
    /// Is the loopback device.
    pub loopback: bool,
    /// No device behind it (bridge, veth, loopback) .
    pub is_virtual: bool,
    /// Is a wireless device.
    pub wireless: bool,
    /// Memory node of the device.
    pub node: Option<usize>,
    /// PCIe link of the device.
    pub pcie: Option<PcieLink>,
    /// What the device sits on: `pci`, `usb`, `virtio`, `xen`, `vmbus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// How long the card delays interrupts, if its driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Coalescing>,
    /// What of the stack's work is done for many packets at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<Offloads>,
}

/// Interrupts held back, as `ethtool -c` shows them: one comes when so much time has passed or so
/// many frames have gathered, whichever is first; 0 is no limit of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Microseconds after a frame came in.
    pub receive_us: u32,
    pub receive_frames: u32,
    /// The driver changes those of receiving with the traffic.
    pub adaptive_receive: bool,
}

/// What the device or the kernel does for many packets at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// The device cuts TCP segments (`tcp-segmentation-offload`).
    pub tso: bool,
    /// The kernel cuts them just before the device (`generic-segmentation-offload`).
    pub gso: bool,
    /// The kernel joins what came in (`generic-receive-offload`).
    pub gro: bool,
    /// The device joins what came in (`large-receive-offload`).
    pub lro: bool,
}

pub(super) fn read(root: &Root, outside: &Outside) -> Net {
    Net {
        interfaces: interfaces(root, outside),
        congestion_control: root.line("proc/sys/net/ipv4/tcp_congestion_control"),
        send_buffer_default_bytes: root.number("proc/sys/net/core/wmem_default"),
        busy_read_us: root.number("proc/sys/net/core/busy_read"),
        default_queueing: root.line("proc/sys/net/core/default_qdisc"),
        tcp_receive_buffer_max_bytes: largest(root, "proc/sys/net/ipv4/tcp_rmem"),
        tcp_send_buffer_max_bytes: largest(root, "proc/sys/net/ipv4/tcp_wmem"),
        tcp_timestamps: root.flag("proc/sys/net/ipv4/tcp_timestamps"),
        echoes: echoes(root, outside),
        has_loopback_v6: outside.has_loopback_v6.unwrap_or_else(|| has_loopback_v6(root)),
        loopback_fault: outside.loopback.and_then(Result::err),
        ignores_echoes: [
            "proc/sys/net/ipv4/icmp_echo_ignore_all",
            "proc/sys/net/ipv6/icmp/echo_ignore_all",
        ]
        .map(|path| root.flag(path) == Some(true)),
        ports: ports::read(root),
        routes: routes(root),
    }
}

/// The third of `least default most`.
fn largest(root: &Root, path: &str) -> Option<u64> {
    root.words(path).get(2)?.parse().ok()
}

/// The facts from `/sys` and from the drivers. `/sys` may be of another network namespace than this
/// process (it is of the one that mounted it), the drivers' answers are not: where there are any,
/// only interfaces that answered are this process's.
fn interfaces(root: &Root, outside: &Outside) -> Vec<Interface> {
    const DIR: &str = "sys/class/net";
    let told = &outside.links;
    // `bonding_masters` is a file among the interfaces: only interfaces have an MTU.
    let mut names: Vec<String> = root.list(DIR);
    names.retain(|name| root.exists(&format!("{DIR}/{name}/mtu")));
    if !told.is_empty() {
        names.retain(|name| told.contains_key(name));
        let more: Vec<String> = told.keys().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(more);
    }
    let with_told = |name: String| {
        let mut found = interface(root, &format!("{DIR}/{name}"), name);
        if let Some(told) = told.get(&found.name) {
            found.add_link(told);
        }
        found
    };
    names.into_iter().map(with_told).collect()
}

/// The kernel's answer; of a recorded process its own rights decide, not its user: a container's
/// root may lack them.
fn echoes(root: &Root, outside: &Outside) -> Option<Echoes> {
    if outside.echoes.is_some() {
        return outside.echoes;
    }
    let (low, high) = ping_groups(root).unwrap_or((1, 0));
    let mut groups = outside.groups.iter();
    if groups.any(|group| (low..=high).contains(group)) {
        return Some(Echoes::Datagram);
    }
    let may = outside.has_net_raw.or_else(|| outside.euid.map(|user| user == 0))?;
    Some(if may { Echoes::Raw } else { Echoes::Refused })
}

fn has_loopback_v6(root: &Root) -> bool {
    // `address index prefix scope flags name`, all in hexadecimal (net/ipv6/addrconf.c).
    let addresses = root.read("proc/net/if_inet6").unwrap_or_default();
    let own = format!("{:032x} ", u128::from(Ipv6Addr::LOCALHOST));
    addresses.lines().any(|line| line.starts_with(&own))
}

fn ping_groups(root: &Root) -> Option<(u64, u64)> {
    let text = root.line("proc/sys/net/ipv4/ping_group_range")?;
    let mut ends = numbers(&text);
    Some((ends.next()?, ends.next()?))
}

/// Both tables; routes that reject what they match lead nowhere.
fn routes(root: &Root) -> Vec<Route> {
    let v4 = root.read("proc/net/route").unwrap_or_default();
    let v6 = root.read("proc/net/ipv6_route").unwrap_or_default();
    let v4 = v4.lines().filter_map(route_v4);
    v4.chain(v6.lines().filter_map(route_v6)).collect()
}

const ROUTE_UP: u32 = 0x1;
const ROUTE_GATEWAY: u32 = 0x2;
const ROUTE_REJECT: u32 = 0x200;

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`: addresses as the memory of a word,
/// in hexadecimal (net/ipv4/fib_trie.c).
fn route_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [interface, destination, _, flags, _, _, metric, mask, ..] = fields.as_slice() else {
        return None;
    };
    let word = |text: &str| Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes());
    let flags = u32::from_str_radix(flags, 16).ok()?;
    (flags & (ROUTE_UP | ROUTE_REJECT) == ROUTE_UP).then_some(Route {
        interface: (*interface).to_owned(),
        network: IpAddr::V4(Ipv4Addr::from(word(destination)?)),
        prefix_bits: u32::from_be_bytes(word(mask)?).count_ones(),
        has_gateway: flags & ROUTE_GATEWAY != 0,
        metric: metric.parse().ok()?,
    })
}

/// `destination prefix source prefix next-hop metric references uses flags interface`, all in
/// hexadecimal (net/ipv6/route.c).
fn route_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [destination, prefix, _, _, _, metric, _, _, flags, interface] = fields.as_slice() else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    (flags & (ROUTE_UP | ROUTE_REJECT) == ROUTE_UP).then_some(Route {
        interface: (*interface).to_owned(),
        network: IpAddr::V6(Ipv6Addr::from(u128::from_str_radix(destination, 16).ok()?)),
        prefix_bits: u32::from_str_radix(prefix, 16).ok()?,
        has_gateway: flags & ROUTE_GATEWAY != 0,
        metric: u32::from_str_radix(metric, 16).ok()?,
    })
}

fn interface(root: &Root, dir: &str, name: String) -> Interface {
    // The kernel prints -1 (or 4294967295 before 4.x) where the driver does not know the rate, and
    // refuses the read while the link is down.
    let speed_mbit = root.number::<i64>(&format!("{dir}/speed"));
    let speed_mbit = speed_mbit.filter(|&rate| is_plausible("net.rate", 1e6 * rate as f64));
    const ARPHRD_LOOPBACK: u32 = 772;
    Interface {
        mtu_bytes: root.number(&format!("{dir}/mtu")),
        queue_packets: root.number(&format!("{dir}/tx_queue_len")),
        speed_bits_per_second: speed_mbit.map(|rate| rate.unsigned_abs().saturating_mul(1_000_000)),
        duplex: root.line(&format!("{dir}/duplex")).filter(|text| text != "unknown"),
        driver: root.link_name(&format!("{dir}/device/driver")),
        operstate: root.line(&format!("{dir}/operstate")),
        loopback: root.number(&format!("{dir}/type")) == Some(ARPHRD_LOOPBACK),
        is_virtual: !root.exists(&format!("{dir}/device")),
        wireless: root.exists(&format!("{dir}/wireless"))
            || root.exists(&format!("{dir}/phy80211")),
        node: root.number(&format!("{dir}/device/numa_node")),
        pcie: pcie_link(root, &format!("{dir}/device")),
        bus: root.link_name(&format!("{dir}/device/subsystem")),
        coalescing: None,
        offloads: None,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::{Coalescing, Echoes, Offloads, read};
    use crate::{Outside, Root};

    /// A machine with a wired and a wireless interface; the tables as kernels of a machine with the
    /// least significant byte first write them.
    const MACHINE: &str = "== sys/class/net/lo/mtu\n65536\n== sys/class/net/lo/type\n772\n\
        == sys/class/net/eth0/mtu\n9000\n== sys/class/net/eth0/speed\n1000\n\
        == sys/class/net/eth0/device/driver -> ../e1000e\n\
        == sys/class/net/wlan0/mtu\n1500\n== sys/class/net/wlan0/wireless/status\n0\n\
        == proc/net/route\n\
        Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        wlan0\t00000000\t0100000A\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
        eth0\t00000000\t0102000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
        eth0\t000000C0\t00000000\t0001\t0\t0\t100\t000000FF\t0\t0\t0\n\
        wlan0\t0005A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n\
        eth0\t0006A8C0\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
        == proc/net/ipv6_route\n\
        fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 wlan0\n";

    #[test]
    fn the_narrowest_route_leads_to_a_server() {
        let net = read(&Root::tree(MACHINE), &Outside::default());
        let way = |address: &str| {
            let way = net.way_to(address.parse().expect("an address"));
            way.map(|(interface, gateway)| (interface.name.as_str(), gateway))
        };
        assert_eq!(way("192.1.2.3"), Some(("eth0", false)));
        assert_eq!(way("192.168.5.7"), Some(("wlan0", false)));
        // Two default routes: the one with the smaller metric. A route that rejects leads nowhere.
        assert_eq!(way("8.8.8.8"), Some(("eth0", true)));
        assert_eq!(way("192.168.6.7"), Some(("eth0", false)));
        assert_eq!(way("127.0.0.1"), Some(("lo", false)));
        assert_eq!(way("fe80::1"), Some(("wlan0", false)));
        assert_eq!(way("2001:db8::1"), None);
        let told = serde_json::to_string(&net).expect("writes");
        assert!(!told.contains("192") && !told.contains("route"), "{told}");
    }

    fn host_of(tree: &str) -> super::Net {
        let root = Root::tree(tree);
        read(&root, &Outside::recorded(&root))
    }

    #[test]
    fn drivers_answers_are_heard_before_files() {
        let net = host_of(
            "== sys/class/net/eth0/mtu\n1500\n== sys/class/net/eth0/speed\n-1\n\
             == sys/class/net/eth0/device/driver -> ../igb\n\
             == sys/class/net/other/mtu\n1400\n\
             == ethtool.txt\n\
             eth0 driver=igb mtu=9000 speed=2500 duplex=full rx_usecs=30 rx_frames=4 adaptive_rx=on \
             tx_usecs=50 tx_frames=16 tso=on gso=on gro=off lro=off place=0000:01:00.0\n\
             v0 driver=veth mtu=1500 speed=10000 duplex=full gro=off\n\
             u0 driver=asix mtu=1500 place=usb-0000:00:14.0-3\n\
             broken line of nothing\n",
        );
        let names: Vec<&str> = net.interfaces.iter().map(|one| one.name.as_str()).collect();
        // `other` is of another namespace; `v0` and `u0` are not in /sys.
        assert_eq!(names, ["eth0", "broken", "u0", "v0"]);
        let eth0 = &net.interfaces[0];
        assert_eq!(eth0.mtu_bytes, Some(9000));
        assert_eq!(eth0.speed_bits_per_second, Some(2_500_000_000));
        let expected = Coalescing { receive_us: 30, receive_frames: 4, adaptive_receive: true };
        assert_eq!(eth0.coalescing, Some(expected));
        let expected = Offloads { tso: true, gso: true, gro: false, lro: false };
        assert_eq!(eth0.offloads, Some(expected));
        assert!(!eth0.is_virtual);
        let (usb, veth) = (&net.interfaces[2], &net.interfaces[3]);
        assert_eq!(usb.bus.as_deref(), Some("usb"));
        assert!(veth.is_virtual && veth.coalescing.is_none() && !usb.is_virtual);
        assert_eq!(veth.driver.as_deref(), Some("veth"));
    }

    #[test]
    fn who_may_send_echoes_is_told_by_groups_and_rights() {
        let echoes = |range: &str, facts: &str| {
            host_of(&format!(
                "== proc/sys/net/ipv4/ping_group_range\n{range}\n== facts.txt\n{facts}\n"
            ))
            .echoes
        };
        assert_eq!(echoes("0\t2147483647", "groups=1000"), Some(Echoes::Datagram));
        assert_eq!(echoes("100 200", "groups=1000 150\neuid=1000"), Some(Echoes::Datagram));
        assert_eq!(echoes("1 0", "groups=0 1\neuid=0"), Some(Echoes::Raw));
        assert_eq!(echoes("1 0", "groups=0\neuid=0\nnet_raw=false"), Some(Echoes::Refused));
        assert_eq!(echoes("1 0", "euid=1000\nnet_raw=true"), Some(Echoes::Raw));
        assert_eq!(echoes("1 0", "euid=1000"), Some(Echoes::Refused));
        assert_eq!(echoes("1 0", ""), None);
    }

    #[test]
    fn loopback_has_its_second_address_where_it_is_listed() {
        let listed = "== proc/net/if_inet6\n\
             00000000000000000000000000000001 01 80 10 80       lo\n";
        assert!(host_of(listed).has_loopback_v6);
        assert!(!host_of("").has_loopback_v6);
        let another = "== proc/net/if_inet6\n\
             fe800000000000000000000000000001 02 40 20 80     eth0\n";
        assert!(!host_of(another).has_loopback_v6);
    }
}

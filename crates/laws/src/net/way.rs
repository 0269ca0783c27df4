//! What lies between two ends.

use bench::experiment::Site;
use host::net::Interface;
use std::fmt;
use std::net::IpAddr;

/// Bytes of a frame beside its packet: destination, source and type.
const FRAME_HEAD_BYTES: u64 = 14;
/// What it takes on the wire beside that: preamble, check sum and the gap to the next.
const FRAME_REST_BYTES: u64 = 24;
/// The least that an Ethernet packet is padded to.
const PACKET_MIN_BYTES: u64 = 46;
/// MTU of a path that reports none.
const USUAL_MTU_BYTES: u64 = 1500;

/// What leads to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The same host: memory copies, no link.
    Loopback,
    /// veth, bridges, tunnels: no card.
    Virtual,
    /// A card that a hypervisor imitates, at one end at least.
    Paravirtual,
    /// A network card, at both ends as far as they are known.
    Wired,
    /// A radio, at one end at least.
    Wireless,
    /// No route or interface is known.
    Unknown,
}

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    /// Datagrams; those longer than a packet are cut by IP.
    Udp,
    Icmp,
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(["TCP", "UDP", "ICMP"][*self as usize])
    }
}

/// How a message lies in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    pub count: u64,
    /// The message's own bytes.
    pub payload: u64,
    /// All bytes on the wire, preambles, check sums and gaps included.
    pub wire_bytes: u64,
    pub first_bytes: u64,
    /// Bytes as a shaper counts them: without preamble, check sum, padding and gap.
    pub shaped_bytes: u64,
}

impl Frames {
    /// Bytes as the wire counts them, or as a shaper does.
    pub fn counted_bytes(self, is_shaped: bool) -> u64 {
        if is_shaped { self.shaped_bytes } else { self.wire_bytes }
    }
}

/// A way between two ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way<'facts> {
    /// To another host, by whatever.
    pub is_remote: bool,
    pub near: Option<&'facts Interface>,
    pub far: Option<&'facts Interface>,
    /// Whether another machine takes packets further.
    pub has_gateway: bool,
    pub is_v6: bool,
    /// TCP segments carry timestamps, according to this end's settings (the default).
    pub has_timestamps: bool,
    /// A round trip that the user gave, in ns.
    pub given_rtt_ns: Option<f64>,
    /// A rate that the user gave, in bit/s.
    pub given_bits: Option<f64>,
    pub shaped_bits: Option<f64>,
    /// An MTU that the user gave.
    pub given_mtu_bytes: Option<u64>,
}

impl<'facts> Way<'facts> {
    pub fn for_site(site: &'facts Site) -> Way<'facts> {
        let net = &site.host.net;
        let has_timestamps = net.tcp_timestamps.unwrap_or(true);
        let Some(peer) = &site.peer else {
            let near = net.interfaces.iter().find(|interface| interface.loopback);
            return Way { near, has_timestamps, ..Way::default() };
        };
        let given = |name| site.host.given.value(name);
        let (near, has_gateway) = net.way_to(peer.address).unzip();
        let has_gateway = has_gateway.unwrap_or(false);
        let far = peer.interface.as_ref().and_then(|name| peer.host.net.named(name));
        Way {
            is_remote: true,
            near,
            far,
            has_gateway,
            is_v6: matches!(peer.address, IpAddr::V6(_)),
            has_timestamps: has_timestamps && peer.host.net.tcp_timestamps.unwrap_or(true),
            given_rtt_ns: given("net.rtt"),
            given_bits: given("net.rate"),
            shaped_bits: given("net.shaped_rate"),
            given_mtu_bytes: given("net.mtu").map(|bytes| bytes as u64),
        }
    }

    /// What kind of way it is: the slower kind of its two ends.
    pub fn kind(&self) -> Kind {
        if !self.is_remote {
            return Kind::Loopback;
        }
        let kinds = [self.near.map(kind_of), self.far.map(kind_of)];
        let any = |kind| kinds.contains(&Some(kind));
        match kinds {
            [None, None] => Kind::Unknown,
            _ if any(Kind::Wireless) => Kind::Wireless,
            _ if any(Kind::Paravirtual) => Kind::Paravirtual,
            // A namespace's own pair may lead on to a card: only both ends together, or the absence
            // of a gateway, show that.
            [Some(Kind::Virtual), Some(Kind::Virtual)] => Kind::Virtual,
            [Some(Kind::Virtual), None] | [None, Some(Kind::Virtual)] if !self.has_gateway => {
                Kind::Virtual
            }
            _ if any(Kind::Wired) => Kind::Wired,
            _ if any(Kind::Virtual) => Kind::Unknown,
            // The peer's own address led over this host's loopback device: two namespaces could
            // not.
            _ => Kind::Virtual,
        }
    }

    fn ends(&self) -> impl Iterator<Item = &'facts Interface> {
        [self.near, self.far].into_iter().flatten()
    }

    /// The nominal rate in bit/s: what the user gave, else that of the slower end's card. None
    /// where no card is on the way, whatever drivers claim.
    pub fn bits_per_second(&self) -> Option<f64> {
        if !self.is_remote {
            return None;
        }
        if let Some(bits) = self.shaped_bits.or(self.given_bits) {
            return Some(bits);
        }
        self.ends()
            .filter(|end| matches!(kind_of(end), Kind::Wired | Kind::Wireless))
            .filter_map(|end| end.speed_bits_per_second)
            .min()
            .map(|bits| bits as f64)
    }

    /// The rate is a shaper's, which counts frames without preamble, check sum and gap.
    pub fn is_shaped(&self) -> bool {
        self.is_remote && self.shaped_bits.is_some()
    }

    /// The user gave the rate.
    pub fn is_given(&self) -> bool {
        self.shaped_bits.or(self.given_bits).is_some()
    }

    /// The largest packet, in bytes: the smaller of both ends', or what was given.
    pub fn mtu_bytes(&self) -> u64 {
        let told = self.ends().filter_map(|end| end.mtu_bytes).min();
        let mtu = self.given_mtu_bytes.or(told).unwrap_or(USUAL_MTU_BYTES);
        // IP allows no less; a device that claims less is not understood.
        mtu.max(if self.is_v6 { 1280 } else { 576 })
    }

    /// Either end says that both directions share the medium; radios always do.
    pub fn is_half_duplex(&self) -> bool {
        self.ends().any(|end| end.wireless || end.duplex.as_deref() == Some("half"))
    }

    /// Either end's card sits on USB.
    pub fn is_on_usb(&self) -> bool {
        self.ends().any(|end| end.bus.as_deref() == Some("usb"))
    }

    /// As a sentence names it: `100 Mbit/s by eth0, MTU 1500`.
    pub fn name(&self) -> String {
        let kind = match self.kind() {
            Kind::Loopback => return "loopback".to_owned(),
            Kind::Virtual => "a virtual link",
            Kind::Paravirtual => "a virtual machine's link",
            Kind::Wired => "a wire",
            Kind::Wireless => "a radio link",
            Kind::Unknown => "a path through unknown devices",
        };
        let rate = match self.bits_per_second() {
            Some(bits) if self.is_shaped() => {
                format!(" shaped to {:.0} Mbit/s (host.net.shaped_rate)", bits / 1e6)
            }
            Some(bits) if self.is_given() => {
                format!(" of {:.0} Mbit/s (host.net.rate)", bits / 1e6)
            }
            Some(bits) => format!(" of {:.0} Mbit/s", bits / 1e6),
            None => String::new(),
        };
        let by = match (self.near, self.far) {
            (Some(near), Some(far)) => format!(" ({} to {})", near.name, far.name),
            (Some(near), None) => format!(" ({}, the other end unknown)", near.name),
            (None, Some(far)) => format!(" (to {}, this end unknown)", far.name),
            (None, None) => String::new(),
        };
        let is_half = self.is_half_duplex() && self.kind() != Kind::Wireless;
        let duplex = if is_half { ", half duplex" } else { "" };
        format!("{kind}{rate}{by}, MTU {}{duplex}", self.mtu_bytes())
    }

    fn ip_bytes(&self) -> u64 {
        if self.is_v6 { 40 } else { 20 }
    }

    /// Bytes of a packet beside its payload.
    pub fn head_bytes(&self, transport: Transport) -> u64 {
        self.ip_bytes()
            + match transport {
                Transport::Tcp if self.has_timestamps => 32,
                Transport::Tcp => 20,
                Transport::Udp | Transport::Icmp => 8,
            }
    }

    /// One frame that is as full as the MTU allows.
    pub fn full_frames(&self, transport: Transport) -> Frames {
        self.frames(transport, self.mtu_bytes() - self.head_bytes(transport))
    }

    /// How a message of so many bytes lies in frames: TCP cuts segments. IP cuts datagrams into
    /// fragments of multiples of eight bytes, and only the first has the transport's header.
    pub fn frames(&self, transport: Transport, payload: u64) -> Frames {
        let (ip, mtu) = (self.ip_bytes(), self.mtu_bytes());
        // Bytes of each packet beside IP's head: what is cut, by how much, and what cutting adds.
        let (whole, most, each) = match transport {
            Transport::Tcp => {
                let head = self.head_bytes(transport) - ip;
                (payload, mtu - ip - head, head)
            }
            Transport::Udp | Transport::Icmp => {
                let whole = payload + 8;
                let fragment_head = if self.is_v6 { 8 } else { 0 };
                match whole <= mtu - ip {
                    true => (whole, whole.max(1), 0),
                    false => (whole, (mtu - ip - fragment_head) / 8 * 8, fragment_head),
                }
            }
        };
        let count = whole.div_ceil(most).max(1);
        let last = whole - (count - 1) * most;
        let packet = |bytes: u64| ip + each + bytes;
        let on_wire =
            |bytes: u64| bytes.max(PACKET_MIN_BYTES) + FRAME_HEAD_BYTES + FRAME_REST_BYTES;
        let (full, rest) = (packet(most), packet(last));
        Frames {
            count,
            payload,
            wire_bytes: (count - 1) * on_wire(full) + on_wire(rest),
            first_bytes: on_wire(if count > 1 { full } else { rest }),
            shaped_bytes: (count - 1) * (full + FRAME_HEAD_BYTES) + rest + FRAME_HEAD_BYTES,
        }
    }
}

/// Drivers of cards that hypervisors imitate.
const PARAVIRTUAL_DRIVERS: [&str; 7] =
    ["virtio_net", "vmxnet3", "hv_netvsc", "xen-netfront", "vif", "ena", "gve"];
/// Devices without hardware that have cards below them and report those cards' rate.
const STACKED_DRIVERS: [&str; 5] = ["bonding", "team", "802.1Q VLAN Support", "macvlan", "ipvlan"];

fn kind_of(interface: &Interface) -> Kind {
    let driver = interface.driver.as_deref().unwrap_or_default();
    let bus = interface.bus.as_deref().unwrap_or_default();
    let is_paravirtual =
        PARAVIRTUAL_DRIVERS.contains(&driver) || ["virtio", "xen", "vmbus"].contains(&bus);
    match () {
        () if interface.loopback => Kind::Loopback,
        () if interface.wireless => Kind::Wireless,
        () if is_paravirtual => Kind::Paravirtual,
        () if STACKED_DRIVERS.contains(&driver) => Kind::Wired,
        () if interface.is_virtual => Kind::Virtual,
        () => Kind::Wired,
    }
}

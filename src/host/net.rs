//! Network interfaces and socket settings.

use serde::{Deserialize, Serialize};

use super::Root;
use super::block::{PcieLink, pcie_link};

/// Network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Net {
    /// Interfaces, by name.
    pub interfaces: Vec<Interface>,
    /// Default TCP congestion control.
    pub congestion_control: Option<String>,
    /// `net.core.rmem_max`.
    pub receive_buffer_max_bytes: Option<u64>,
    /// `net.core.wmem_max`.
    pub send_buffer_max_bytes: Option<u64>,
    /// `net.core.wmem_default`: the send buffer of a socket that asks for none.
    pub send_buffer_default_bytes: Option<u64>,
    /// `net.core.busy_read`: microseconds a blocking read polls the device; 0 = off.
    pub busy_read_us: Option<u64>,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interface {
    /// `eth0`.
    pub name: String,
    /// Maximum transmission unit.
    pub mtu_bytes: Option<u64>,
    /// Link rate in bits per second; `None` when the driver does not know (a virtual link).
    pub speed_bits_per_second: Option<u64>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// `up`, `down`, `unknown`.
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
}

pub(super) fn read(root: &Root) -> Net {
    const DIR: &str = "sys/class/net";
    let names = root.list(DIR).into_iter();
    Net {
        // `bonding_masters` is a file among the interfaces: only interfaces have an MTU.
        interfaces: names
            .filter(|name| root.exists(&format!("{DIR}/{name}/mtu")))
            .map(|name| interface(root, &format!("{DIR}/{name}"), name))
            .collect(),
        congestion_control: root.line("proc/sys/net/ipv4/tcp_congestion_control"),
        receive_buffer_max_bytes: root.number("proc/sys/net/core/rmem_max"),
        send_buffer_max_bytes: root.number("proc/sys/net/core/wmem_max"),
        send_buffer_default_bytes: root.number("proc/sys/net/core/wmem_default"),
        busy_read_us: root.number("proc/sys/net/core/busy_read"),
    }
}

fn interface(root: &Root, dir: &str, name: String) -> Interface {
    // The kernel prints -1 (or 4294967295 before 4.x) where the driver does not know the rate, and
    // refuses the read while the link is down.
    let speed_mbit = root.number::<i64>(&format!("{dir}/speed"));
    let speed_mbit = speed_mbit.filter(|&rate| rate > 0 && rate < i64::from(u32::MAX));
    const ARPHRD_LOOPBACK: u32 = 772;
    Interface {
        mtu_bytes: root.number(&format!("{dir}/mtu")),
        speed_bits_per_second: speed_mbit.map(|rate| rate.unsigned_abs() * 1_000_000),
        duplex: root
            .line(&format!("{dir}/duplex"))
            .filter(|text| text != "unknown"),
        driver: root.link_name(&format!("{dir}/device/driver")),
        operstate: root.line(&format!("{dir}/operstate")),
        loopback: root.number(&format!("{dir}/type")) == Some(ARPHRD_LOOPBACK),
        is_virtual: !root.exists(&format!("{dir}/device")),
        wireless: root.exists(&format!("{dir}/wireless"))
            || root.exists(&format!("{dir}/phy80211")),
        node: root.number(&format!("{dir}/device/numa_node")),
        pcie: pcie_link(root, &format!("{dir}/device")),
        name,
    }
}

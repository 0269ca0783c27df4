//! Network interfaces and socket settings.

use serde::{Deserialize, Serialize};

use super::Root;
use super::block::{PcieLink, pcie_link};

/// Network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Net {
    /// Interfaces, by name.
    pub interfaces: Vec<Interface>,
    /// Default TCP congestion control.
    pub congestion_control: Option<String>,
    /// `net.core.rmem_max`.
    pub receive_buffer_max_bytes: Option<u64>,
    /// `net.core.wmem_max`.
    pub send_buffer_max_bytes: Option<u64>,
    /// `net.core.busy_read`: microseconds a blocking read polls the device; 0 = off.
    pub busy_read_us: Option<u64>,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
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

pub(super) fn read(_: &Root) -> Net { Net::default() }

//! Kernel, distribution, hypervisor, container, and the settings that disturb or protect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Outside, Root, parse_cpus};

/// The system's software.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `6.1.0-18-amd64`.
    pub release: Option<String>,
    /// Build string.
    pub version: Option<String>,
    /// Boot command line.
    pub command_line: Option<String>,
    /// `PRETTY_NAME` of os-release.
    pub distribution: Option<String>,
    /// Timer interrupts per second, from the coarse clock's resolution.
    pub hz: Option<u32>,
    /// `none`, `voluntary`, `full`, `lazy`, `rt` or `dynamic` (dynamic preemption, mode not readable).
    pub preemption: Option<String>,
    /// Vulnerability -> what the kernel does about it.
    pub mitigations: BTreeMap<String, String>,
    /// Clock sources.
    pub clock_source: ClockSource,
    /// Hypervisor.
    pub virtualisation: Virtualisation,
    /// Container around this process.
    pub container: Container,
    /// CPUs taken from the scheduler's balancing (`isolcpus`).
    pub isolated: Vec<usize>,
    /// CPUs without a tick while one task runs.
    pub nohz_full: Vec<usize>,
    /// NMI watchdog is on.
    pub nmi_watchdog: Option<bool>,
    /// Watchdog (soft lockup) is on.
    pub watchdog: Option<bool>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// perf_event_open can open a hardware counter here (told by [`Outside`], not by a file).
    pub has_perf: Option<bool>,
    /// Seccomp of this process: 0 none, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// Speculative store bypass state of this process (`vulnerable`, `thread force mitigated`, …).
    pub store_bypass: Option<String>,
    /// Active security modules.
    pub security_modules: Vec<String>,
    /// Timer slack of this process.
    pub timer_slack_ns: Option<u64>,
    /// Real-time throttling: `sched_rt_runtime_us`; -1 is off.
    pub rt_runtime_us: Option<i64>,
    /// Scheduler groups tasks by session.
    pub autogroup: Option<bool>,
    /// Effective user id of this process.
    pub euid: Option<u32>,
    /// Time since boot.
    pub uptime_s: Option<f64>,
    /// 1, 5 and 15 minute load.
    pub load: Option<[f64; 3]>,
    /// Pressure stall information.
    pub pressure: Pressure,
}

/// Clock sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockSource {
    /// In use.
    pub current: Option<String>,
    /// Usable.
    pub available: Vec<String>,
}

/// Hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// `Some(true)` in a virtual machine.
    pub is_guest: Option<bool>,
    /// Hypervisor (`KVM`, `VMware`, `Hyper-V`, `Xen`).
    pub hypervisor: Option<String>,
    /// Machine maker as DMI names it.
    pub system_vendor: Option<String>,
    /// Machine model as DMI names it.
    pub product: Option<String>,
}

/// Container around this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// Runtime as far as marks tell (`docker`, `podman`, `lxc`, `kubernetes`, `gvisor`).
    pub runtime: Option<String>,
    /// The marks that were found.
    pub evidence: Vec<String>,
}

/// Pressure stall information, shares of time in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some: Option<PressureLine>,
    /// Some task waited for memory.
    pub memory_some: Option<PressureLine>,
    /// All tasks waited for memory.
    pub memory_full: Option<PressureLine>,
    /// Some task waited for I/O.
    pub io_some: Option<PressureLine>,
    /// All tasks waited for I/O.
    pub io_full: Option<PressureLine>,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PressureLine {
    /// Percent of the last 10 s.
    pub avg10_percent: f64,
    /// Percent of the last 60 s.
    pub avg60_percent: f64,
    /// Microseconds since boot.
    pub total_us: u64,
}

pub(super) fn read(_: &Root, _: &Outside) -> Kernel { Kernel::default() }

//! Kernel, distribution, hypervisor, container, and the settings that disturb or protect.

use record::order::Gather;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scheduler::{self, Scheduler};
use super::{Outside, Root, around, parse_cpus, text, tracepoints};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Written like this: `6.1.0-18-amd64`.
    pub release: Option<String>,
    pub version: Option<String>,
    pub command_line: Option<String>,
    /// The `PRETTY_NAME` of os-release.
    pub distribution: Option<String>,
    /// Timer interrupts per second, from the coarse clock's resolution.
    pub hz: Option<u32>,
    /// `none`, `voluntary`, `full`, `lazy`, `rt` or `dynamic` (dynamic preemption, mode not
    /// readable).
    pub preemption: Option<String>,
    pub mitigations: BTreeMap<String, String>,
    pub clock_source: ClockSource,
    pub virtualisation: Virtualisation,
    pub container: Container,
    /// CPUs taken from the scheduler's balancing (`isolcpus`).
    pub isolated: Vec<usize>,
    /// CPUs without a tick while one task runs.
    pub nohz_full: Vec<usize>,
    pub nmi_watchdog: Option<bool>,
    /// The setting of `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// perf_event_open can open a hardware counter here (from [`Outside`], not from a file).
    pub has_perf: Option<bool>,
    /// io_uring makes a ring here (from [`Outside`], not from a file).
    pub has_rings: Option<bool>,
    /// Seccomp of this process: 0 none, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// Speculative store bypass state of this process (`vulnerable`, `thread force mitigated`, …).
    pub store_bypass: Option<String>,
    pub security_modules: Vec<String>,
    pub timer_slack_ns: Option<u64>,
    /// Real-time throttling: `sched_rt_runtime_us`; -1 is off.
    pub rt_runtime_us: Option<i64>,
    /// Scheduler groups tasks by session.
    pub autogroup: Option<bool>,
    pub scheduler: Scheduler,
    /// Effective user id of this process.
    pub euid: Option<u32>,
    pub uptime_s: Option<f64>,
    /// 1, 5 and 15 minute load.
    pub load: Option<[f64; 3]>,
    pub pressure: Pressure,
    /// Tracers that it has; `None` where no tracefs can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockSource {
    pub current: Option<String>,
    pub available: Vec<String>,
}

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// Runtime, as far as marks show (`docker`, `podman`, `lxc`, `kubernetes`, `gvisor`).
    pub runtime: Option<String>,
    pub evidence: Vec<String>,
}

/// Pressure stall information, shares of time in percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some: Option<PressureLine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PressureLine {
    /// Percent of the last 10 s.
    pub avg10_percent: f64,
    /// In microseconds since boot.
    pub total_us: u64,
}

impl Kernel {
    /// Major and minor version of the release.
    pub fn numbers(&self) -> Option<(u64, u64)> {
        let (major, minor, _) = scheduler::numbers(self.release.as_deref()?)?;
        Some((major, minor))
    }
}

/// The layers below this system, as far as its files show.
pub fn virtualisation(root: &Root) -> Virtualisation {
    around::virtualisation(root, &root.outside())
}

pub(super) fn read(root: &Root, outside: &Outside) -> Kernel {
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";
    let sysctl = |name: &str| root.line(&format!("proc/sys/kernel/{name}"));
    let flag = |name: &str| root.flag(&format!("proc/sys/kernel/{name}"));
    let command_line = root.line("proc/cmdline");
    let version = root.line("proc/sys/kernel/version").or_else(|| version_of(root));
    let status = root.read("proc/self/status").unwrap_or_default();
    let modules = root.line("sys/kernel/security/lsm").unwrap_or_default();
    let uptime = root.words("proc/uptime");
    let tracers = tracepoints::mounted(root).map(|place| format!("{place}/available_tracers"));
    Kernel {
        release: sysctl("osrelease").or_else(|| release_of(root)),
        preemption: preemption(root, version.as_deref(), command_line.as_deref()),
        version,
        distribution: distribution(root),
        hz: outside.coarse_clock_ns.and_then(hz_of),
        mitigations: mitigations(root),
        clock_source: ClockSource {
            current: root.line(&format!("{CLOCK}/current_clocksource")),
            available: root.words(&format!("{CLOCK}/available_clocksource")),
        },
        virtualisation: around::virtualisation(root, outside),
        container: around::container(root),
        isolated: root.cpus("sys/devices/system/cpu/isolated").unwrap_or_default(),
        nohz_full: nohz_full(root, command_line.as_deref()),
        command_line,
        nmi_watchdog: flag("nmi_watchdog"),
        perf_event_paranoid: root.number("proc/sys/kernel/perf_event_paranoid"),
        has_perf: outside.has_perf,
        has_rings: outside.has_rings,
        seccomp: text::number(&status, "Seccomp:"),
        store_bypass: text::after(&status, "Speculation_Store_Bypass:").map(str::to_string),
        security_modules: modules
            .split(',')
            .map(str::to_string)
            .filter(|m| !m.is_empty())
            .collect(),
        timer_slack_ns: root.number("proc/self/timerslack_ns"),
        rt_runtime_us: root.number("proc/sys/kernel/sched_rt_runtime_us"),
        autogroup: flag("sched_autogroup_enabled"),
        scheduler: scheduler::read(root, outside),
        euid: outside.euid,
        uptime_s: uptime.first().and_then(|word| finite(word)),
        load: load(root),
        pressure: Pressure { cpu_some: pressure_line(root, "cpu") },
        tracers: tracers.and_then(|path| root.read(&path)).map(|names| text::words(&names)),
    }
}

/// `Linux version 6.1.0 (…) #1 SMP …`: the third word.
fn release_of(root: &Root) -> Option<String> {
    root.line("proc/version")?.split_whitespace().nth(2).map(str::to_string)
}

/// The part from `#` on.
fn version_of(root: &Root) -> Option<String> {
    let text = root.line("proc/version")?;
    text.find('#').map(|at| text[at..].to_string())
}

/// One tick is the coarse clock's resolution: 4 ms at 250 Hz, 3.33 ms at 300 Hz.
fn hz_of(coarse_ns: u64) -> Option<u32> {
    u32::try_from((1_000_000_000 + coarse_ns / 2).checked_div(coarse_ns)?).ok()
}

/// debugfs states the mode of a dynamic kernel (to root); else build string and command line.
fn preemption(root: &Root, version: Option<&str>, command_line: Option<&str>) -> Option<String> {
    let stated = root.words("sys/kernel/debug/sched/preempt");
    let mut modes = stated.iter().filter_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
    if let Some(mode) = modes.next() {
        return Some(mode.to_string());
    }
    let words = || version.unwrap_or_default().split_whitespace();
    let has = |wanted: &str| words().any(|word| word == wanted);
    if has("PREEMPT_RT") {
        return Some("rt".to_string());
    }
    if has("PREEMPT_DYNAMIC") {
        let chosen = command_line.unwrap_or_default().split_whitespace();
        let mode = chosen.filter_map(|word| word.strip_prefix("preempt=")).next_back();
        return Some(mode.unwrap_or("dynamic").to_string());
    }
    if has("PREEMPT") {
        return Some("full".to_string());
    }
    // Neither word: built with CONFIG_PREEMPT_NONE or CONFIG_PREEMPT_VOLUNTARY, which look alike.
    version.map(|_| "none or voluntary".to_string())
}

fn distribution(root: &Root) -> Option<String> {
    let text = root.read("etc/os-release").or_else(|| root.read("usr/lib/os-release"))?;
    let value = text::after(&text, "PRETTY_NAME=")?;
    Some(value.trim_matches(|quote| quote == '"' || quote == '\'').to_string())
}

fn mitigations(root: &Root) -> BTreeMap<String, String> {
    const DIR: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = root.list(DIR).into_iter();
    names.filter_map(|name| Some((name.clone(), root.line(&format!("{DIR}/{name}"))?))).gather()
}

/// The file says `(null)` if the kernel supports it and it was not requested.
fn nohz_full(root: &Root, command_line: Option<&str>) -> Vec<usize> {
    let listed = root.cpus("sys/devices/system/cpu/nohz_full");
    listed.unwrap_or_else(|| {
        let words = command_line.unwrap_or_default().split_whitespace();
        let value = words.filter_map(|word| word.strip_prefix("nohz_full=")).next_back();
        value.map(parse_cpus).unwrap_or_default()
    })
}

fn finite(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value: &f64| value.is_finite())
}

fn load(root: &Root) -> Option<[f64; 3]> {
    let words = root.words("proc/loadavg");
    let [one, five, fifteen] = words.first_chunk()?;
    Some([finite(one)?, finite(five)?, finite(fifteen)?])
}

/// `some avg10=0.16 avg60=0.45 avg300=0.85 total=7287400` (Documentation/accounting/psi.rst).
pub(super) fn pressure_line(root: &Root, resource: &str) -> Option<PressureLine> {
    let text = root.read(&format!("proc/pressure/{resource}"))?;
    let line = text.lines().find(|line| line.split(' ').next() == Some("some"))?;
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
    Some(PressureLine {
        avg10_percent: finite(field("avg10=")?)?,
        total_us: field("total=")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_numbers() {
        for (release, numbers) in [
            ("6.1.0-18-amd64", Some((6, 1))),
            ("4.19.0+", Some((4, 19))),
            ("5.1-rc2", Some((5, 1))),
            ("linux", None),
        ] {
            let kernel = Kernel { release: Some(release.to_owned()), ..Kernel::default() };
            assert_eq!(kernel.numbers(), numbers, "{release}");
        }
        assert_eq!(Kernel::default().numbers(), None);
    }

    #[test]
    fn ticks_are_hertz() {
        let ticks = [4_000_000, 3_333_333, 1_000_000, 9_999_999, 0];
        let hertz = [Some(250), Some(300), Some(1000), Some(100), None];
        assert_eq!(ticks.map(hz_of), hertz);
    }

    #[test]
    fn preemption_modes() {
        let check = |debug: &str, version: &str, line: &str, mode: &str| {
            let root = Root::tree("").with("sys/kernel/debug/sched/preempt", debug);
            assert_eq!(preemption(&root, Some(version), Some(line)).as_deref(), Some(mode));
        };
        check("none voluntary (full) lazy\n", "#1 SMP PREEMPT_DYNAMIC", "", "full");
        check("", "#1 SMP PREEMPT_DYNAMIC x", "quiet preempt=none", "none");
        check("", "#1 SMP PREEMPT_DYNAMIC x", "quiet", "dynamic");
        check("", "#1 SMP PREEMPT_RT x", "", "rt");
        check("", "#1 SMP x", "", "none or voluntary");
    }

    #[test]
    fn nohz_full_falls_back_to_the_command_line() {
        let root = Root::tree("== sys/devices/system/cpu/nohz_full\n  (null)\n");
        assert!(nohz_full(&root, Some("nohz_full=2-3")).is_empty());
        assert_eq!(nohz_full(&Root::tree(""), Some("a nohz_full=2-3")), [2, 3]);
    }
}

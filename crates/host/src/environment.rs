//! The environment as named texts: what stands beside every figure, and what `doctor` judges.

use super::Host;
use super::cpu::NO_IDLE_DRIVER;
use record::order::Gather;
use std::collections::BTreeMap;

/// The environment (METHOD §4), by name; facts that the machine does not report are absent.
pub fn tags(host: &Host) -> BTreeMap<String, String> {
    let kernel = &host.kernel;
    let memory = &host.memory;
    let first = host.cpu.cpus.iter().find(|cpu| cpu.online);
    let frequency = first.map(|cpu| &cpu.frequency);
    let bytes = |value: Option<u64>| value.map(|value| value.to_string());
    let yes = |value: Option<bool>| value.map(|value| if value { "on" } else { "off" }.to_owned());
    let tags: Vec<(&str, Option<String>)> = vec![
        ("kernel", kernel.release.clone()),
        ("distribution", kernel.distribution.clone()),
        ("command_line", kernel.command_line.clone()),
        ("hz", kernel.hz.map(|hz| hz.to_string())),
        ("preemption", kernel.preemption.clone()),
        ("clock_source", kernel.clock_source.current.clone()),
        ("hypervisor", hypervisor(host)),
        ("container", kernel.container.runtime.clone()),
        ("microcode", host.cpu.microcode.clone()),
        ("governor", frequency.and_then(|frequency| frequency.governor.clone())),
        ("frequency_driver", frequency.and_then(|frequency| frequency.driver.clone())),
        ("turbo", yes(host.cpu.turbo.enabled)),
        ("smt", yes(host.cpu.smt_active)),
        ("idle_driver", host.cpu.idle_driver.clone().filter(|name| name != NO_IDLE_DRIVER)),
        ("thp", memory.thp.enabled.clone()),
        ("thp_defrag", memory.thp.defrag.clone()),
        ("ksm", yes(memory.ksm.running)),
        ("numa_balancing", yes(memory.numa_balancing)),
        ("swap_total_bytes", bytes(memory.swap_total_bytes)),
        ("swap_used_bytes", bytes(memory.swap_used_bytes)),
        ("memory_available_bytes", bytes(memory.available_bytes)),
        ("cgroup", host.limits.cgroup.clone()),
        ("cgroup_memory_limit_bytes", bytes(host.limits.memory_bytes)),
        (
            "cgroup_cpu_quota",
            host.limits
                .cpu_quota
                .map(|quota| format!("{} µs per {} µs", quota.quota_us, quota.period_us)),
        ),
        ("cgroup_memory_high_bytes", bytes(host.limits.memory_high_bytes)),
        ("cgroup_swap_limit_bytes", bytes(host.limits.swap_bytes)),
        ("load_1m", kernel.load.map(|load| format!("{:.2}", load[0]))),
        (
            "cpu_pressure_avg10_percent",
            kernel.pressure.cpu_some.map(|line| format!("{:.2}", line.avg10_percent)),
        ),
        ("nmi_watchdog", yes(kernel.nmi_watchdog)),
        ("seccomp", kernel.seccomp.map(|mode| mode.to_string())),
        ("perf_event_paranoid", kernel.perf_event_paranoid.map(|level| level.to_string())),
        ("euid", kernel.euid.map(|euid| euid.to_string())),
    ];
    let known = tags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.chain(of_parts(host)).gather()
}

/// What there is one of for each vulnerability or memory node.
fn of_parts(host: &Host) -> Vec<(String, String)> {
    let mitigations = host.kernel.mitigations.iter();
    let mitigations =
        mitigations.map(|(name, state)| (format!("mitigation.{name}"), state.clone()));
    let nodes = host.numa.nodes.iter().filter_map(|node| {
        Some((format!("node{}_free_bytes", node.id), node.free_bytes?.to_string()))
    });
    mitigations.chain(nodes).collect()
}

fn hypervisor(host: &Host) -> Option<String> {
    let guest = &host.kernel.virtualisation;
    match guest.is_guest {
        Some(true) => Some(guest.hypervisor.clone().unwrap_or_else(|| "unknown".to_owned())),
        Some(false) => Some("none".to_owned()),
        None => None,
    }
}

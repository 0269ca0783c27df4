//! `plumb doctor`: what would disturb a measurement here, and what to do about it.

mod core;
mod limits;

use crate::cmd::{Failure, output, time};
use exp_os::noise::attribution::{Rung, ladder};
use host::counters::Snapshot;
use host::{Host, Root, choose_cpu, format_cpus};
use record::event::Width;
use record::quantity::render_bytes;
use report::terminal::wrapped;
use session::setup::root;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Shows what would disturb a measurement here and what to do about it; exit code 1 if something
/// does.
#[derive(clap::Args)]
pub struct Args {
    /// How long to watch for steal, busy CPUs and a shared core
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = time)]
    watch: Duration,
    /// Judge a recorded machine instead of this one
    #[arg(long, value_name = "DIR", hide = true)]
    host_tree: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Fine(String),
    Disturbs(String),
    /// It belongs to the machine: it disturbs, and nothing can be done from here.
    Inherent(String),
    /// Nothing on this machine reports it.
    Unknown,
}

/// A check: what it is about, how it judges, and what to do where it disturbs.
struct Check {
    name: &'static str,
    judge: fn(&Host, &Watched) -> Said,
    effect: &'static str,
    remedy: &'static str,
}

#[derive(Debug, Default)]
struct Watched {
    time: Duration,
    delta: Snapshot,
    /// How far the attribution of noise gets; empty if not tried.
    ladder: Vec<Rung>,
    /// What the width probe read on the CPU that would measure, in turns; empty if not tried.
    widths: Vec<Width>,
    /// The kernel's file systems that are not there.
    unmounted: Vec<&'static str>,
}

use Said::{Disturbs, Fine, Inherent, Unknown};

/// What it means that /proc or /sys is missing.
pub const UNMOUNTED: &str = "plumb cannot read the machine's description and counters there, and starts its workers through /proc";

const CHECKS: &[Check] = &[
    Check {
        name: "/proc and /sys",
        judge: |_, watched| match watched.unmounted.as_slice() {
            _ if watched.time.is_zero() => Unknown,
            [] => Fine("mounted".to_owned()),
            missing => Disturbs(format!("not mounted: {}", missing.join(", "))),
        },
        effect: UNMOUNTED,
        remedy: "mount -t proc proc /proc; mount -t sysfs sysfs /sys (in a container: start it with both)",
    },
    Check {
        name: "governor",
        judge: governor,
        effect: "the clock follows the load: first samples run slower than later ones",
        remedy: "cpupower frequency-set -g performance",
    },
    Check {
        name: "turbo",
        judge: |host, _| match host.cpu.turbo.enabled {
            Some(true) => Disturbs("allowed".to_owned()),
            Some(false) => Fine("switched off".to_owned()),
            None => Unknown,
        },
        effect: "the clock depends on heat and on what other cores do",
        remedy: "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
    },
    Check {
        name: "transparent huge pages",
        judge: |host, _| match host.memory.thp.enabled.as_deref() {
            Some("madvise") => Fine("on request (madvise)".to_owned()),
            Some("always") => Disturbs("always".to_owned()),
            Some("never") => Disturbs("never".to_owned()),
            _ => Unknown,
        },
        effect: "always: khugepaged changes pages under a running experiment; never: no huge-page figures",
        remedy: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    },
    Check {
        name: "NUMA balancing",
        judge: |host, _| match (host.memory.numa_balancing, host.numa.nodes.len()) {
            (_, 0 | 1) => Fine("one node".to_owned()),
            (Some(true), _) => Disturbs("on".to_owned()),
            (Some(false), _) => Fine("off".to_owned()),
            (None, _) => Unknown,
        },
        effect: "the kernel unmaps pages to see which node uses them, and migrates them",
        remedy: "sysctl kernel.numa_balancing=0",
    },
    Check {
        name: "steal",
        judge: steal,
        effect: "the hypervisor gives this machine's time to other guests: long tails, shifted means",
        remedy: "ask for a dedicated host or CPUs, or measure at a quieter hour",
    },
    Check {
        name: "CPU quota",
        judge: |host, watched| limits::quota(host, watched.delta.throttled_periods),
        effect: "the group stops for the rest of a period once its quota is used",
        remedy: "start plumb in a group without cpu.max (v2) or cpu.cfs_quota_us (v1), or ask for whole CPUs",
    },
    Check {
        name: "I/O limits",
        judge: |host, _| limits::io(host),
        effect: "reads and writes wait in the kernel above the limit: fs.* figures show the limit, not the disk",
        remedy: "start plumb in a group without io.max (v2) or blkio.throttle.* (v1), or read the figures as those of the limit",
    },
    Check {
        name: "files",
        judge: limits::files,
        effect: "fs.* and memory.fault cases that need a disk with counters are skipped, or cannot tell a cache from a disk",
        remedy: "name a directory on a file system of a block device with --dir",
    },
    Check {
        name: "memory limit",
        judge: |host, _| limits::memory(host),
        effect: "footprints end at the limit, and the kernel drops cached file pages to stay below it",
        remedy: "start plumb in a group with a higher memory.max and memory.high (v2) or memory.limit_in_bytes (v1)",
    },
    Check {
        name: "shared core",
        judge: |_, watched| core::shared(&watched.widths),
        effect: "a hyperthread of another tenant takes part of the core: the figures as found are slower",
        remedy: "ask for a dedicated core or host, try another CPU with --cpu, or read the figures of the core alone",
    },
    Check {
        name: "busy CPUs",
        judge: busy,
        effect: "other programs take caches, memory bandwidth and clock budget, or the CPU itself",
        remedy: "stop these programs, or measure on idle CPUs with --cpu",
    },
    Check {
        name: "hypervisor",
        judge: |host, _| {
            let guest = &host.kernel.virtualisation;
            match guest.is_guest {
                Some(true) => Inherent(
                    guest.hypervisor.clone().unwrap_or_else(|| "a virtual machine".to_owned()),
                ),
                Some(false) => Fine("bare metal".to_owned()),
                None => Unknown,
            }
        },
        effect: "nested paging, exits to the hypervisor, invisible neighbours; topology and caches may be wrong",
        remedy: "the figures hold for this instance; measure on bare metal for those of the processor",
    },
    Check {
        name: "container",
        judge: |host, _| match &host.kernel.container.runtime {
            None => Fine("none".to_owned()),
            Some(runtime) => Inherent(runtime.clone()),
        },
        effect: "limits, files and networks are the container's; a sandbox (gVisor) answers system calls itself",
        remedy: "the figures hold for this container; measure on its host for those of the machine",
    },
    Check {
        name: "clock source",
        judge: clock_source,
        effect: "reading the time costs a system call or a trap",
        remedy: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if available_clocksource lists it",
    },
    Check {
        name: "counter",
        judge: |host, _| match (host.cpu.constant_counter, host.cpu.nonstop_counter) {
            (Some(true), Some(true)) => Fine("constant, does not stop".to_owned()),
            (None, _) | (_, None) => Unknown,
            _ => Inherent("its rate changes or it stops".to_owned()),
        },
        effect: "short times cannot be read from the counter; clock_gettime is used instead",
        remedy: "none: this is a property of the processor",
    },
    Check {
        name: "swap",
        judge: |host, _| match (host.memory.swap_total_bytes, host.memory.swap_used_bytes) {
            (Some(0), _) => Fine("none".to_owned()),
            (Some(_), Some(0)) => Fine("unused".to_owned()),
            (Some(_), Some(used)) => Disturbs(format!("{} in use", render_bytes(used as f64))),
            _ => Unknown,
        },
        effect: "pages may come back from a device in the middle of a round",
        remedy: "free memory, then swapoff -a && swapon -a",
    },
    Check {
        name: "same-page merging",
        judge: |host, _| match host.memory.ksm.running {
            Some(true) => Disturbs("running".to_owned()),
            Some(false) => Fine("off".to_owned()),
            None => Unknown,
        },
        effect: "ksmd scans memory and merges equal pages",
        remedy: "echo 0 > /sys/kernel/mm/ksm/run",
    },
    Check {
        name: "SMT",
        judge: |host, _| match host.cpu.smt_active {
            Some(true) => Disturbs("active".to_owned()),
            Some(false) if host.kernel.virtualisation.is_guest == Some(true) => Inherent(
                "not shown to this virtual machine; its CPUs may be hardware threads".to_owned(),
            ),
            Some(false) => Fine("off".to_owned()),
            None => Unknown,
        },
        effect: "a program on the sibling CPU shares the core's ports and caches",
        remedy: "keep sibling CPUs idle, or echo off > /sys/devices/system/cpu/smt/control",
    },
    Check {
        name: "cycle counter",
        judge: |host, _| match host.kernel.has_perf {
            Some(true) => Fine("perf_event_open counts cycles".to_owned()),
            Some(false) => Inherent("none: the core clock comes from timed chains".to_owned()),
            None => Unknown,
        },
        effect: "cycles are computed from the core clock around each window, not counted",
        remedy: "sysctl kernel.perf_event_paranoid=1, or give the virtual machine a PMU",
    },
    Check {
        name: "stated values",
        judge: |host, _| match host.doubts.as_slice() {
            [] => Fine("plausible".to_owned()),
            doubts => Inherent(doubts.join("; ")),
        },
        effect: "plumb predicts without these values, in wider ranges",
        remedy: "state the right ones: --set host.cpu.max_hz=4.2GHz",
    },
    Check {
        name: "what used the CPU",
        judge: |_, watched| attribution(&watched.ladder),
        effect: "noise is attributed by counters, not by the time of each event",
        remedy: "run as root, or grant CAP_PERFMON and make tracefs readable",
    },
];

pub fn run(args: Args) -> Result<(), Failure> {
    let root = root(args.host_tree.as_deref())?;
    let host = Host::read(&root);
    let watched = match args.host_tree {
        Some(_) => Watched::default(),
        None => watch(&host, &root, args.watch),
    };
    let mut text = String::new();
    let mut disturbing = 0;
    for check in CHECKS {
        match (check.judge)(&host, &watched) {
            Fine(state) => text.push_str(&line("ok", check.name, &state)),
            Unknown => text.push_str(&line("?", check.name, "not available on this machine")),
            Inherent(state) => {
                text.push_str(&line("note", check.name, &state));
                text.push_str(&details(&[check.effect, check.remedy]));
            }
            Disturbs(state) => {
                disturbing += 1;
                text.push_str(&line("WARN", check.name, &state));
                text.push_str(&details(&[check.effect, &format!("do: {}", check.remedy)]));
            }
        }
    }
    text.push_str(&match disturbing {
        0 => "\nnothing that you can change would disturb a measurement\n".to_owned(),
        1 => "\n1 thing would disturb a measurement\n".to_owned(),
        n => format!("\n{n} things would disturb a measurement\n"),
    });
    output::print(&text)?;
    if disturbing > 0 { Err(Failure::Finding) } else { Ok(()) }
}

fn line(mark: &str, name: &str, state: &str) -> String {
    format!("{mark:>4}  {name:<22}  {state}\n")
}

/// What stands below a line, at its state's column.
fn details(texts: &[&str]) -> String {
    let lines = texts.iter().flat_map(|text| wrapped(text, output::look().width, &" ".repeat(30)));
    lines.map(|line| line + "\n").collect()
}

fn watch(host: &Host, root: &Root, time: Duration) -> Watched {
    let cpus = host.cpu.usable();
    let (before, began) = (Snapshot::read(root, &cpus), Instant::now());
    std::thread::sleep(time);
    let after = Snapshot::read(root, &cpus);
    let delta = after.delta(&before).without_still();
    Watched {
        time: began.elapsed(),
        delta,
        ladder: ladder(),
        widths: choose_cpu(host, &after).map_or_else(Vec::new, |cpu| {
            core::widths(cpu, host.cpu.core_of(cpu).additions(), time)
        }),
        unmounted: root.unmounted(),
    }
}

/// How far the ladder can be climbed, and what stands above.
fn attribution(ladder: &[Rung]) -> Said {
    let reached = ladder.iter().rfind(|rung| rung.why_not.is_none());
    let above = ladder.iter().rev().find_map(|rung| rung.why_not.as_deref());
    match (reached, above) {
        _ if ladder.is_empty() => Unknown,
        (Some(rung), None) => Fine(format!("attributed by {}", rung.level.text())),
        (Some(rung), Some(why)) => Inherent(format!("attributed by {}; {why}", rung.level.text())),
        (None, _) => Inherent("not attributed: no counter is readable".to_owned()),
    }
}

fn governor(host: &Host, _: &Watched) -> Said {
    let governors: Vec<&str> = host
        .cpu
        .cpus
        .iter()
        .filter(|cpu| cpu.online && cpu.allowed)
        .filter_map(|cpu| cpu.frequency.governor.as_deref())
        .collect();
    match governors.iter().find(|governor| **governor != "performance") {
        Some(other) => Disturbs((*other).to_owned()),
        None if governors.is_empty() => Unknown,
        None => Fine("performance".to_owned()),
    }
}

/// Share of the watched time above which steal is reported (METHOD §4).
const STEAL_SHARE: f64 = 0.005;
/// Share of the watched time above which a CPU counts as busy.
const BUSY_SHARE: f64 = 0.1;

fn steal(_: &Host, watched: &Watched) -> Said {
    let time_ns = watched.time.as_nanos() as f64 * watched.delta.cpus.len() as f64;
    match watched.delta.steal_ns() {
        Some(stolen) if time_ns > 0.0 => {
            let share = stolen as f64 / time_ns;
            let text = format!("{:.1} % while watched", share * 100.0);
            if share > STEAL_SHARE { Disturbs(text) } else { Fine(text) }
        }
        _ => Unknown,
    }
}

fn busy(_: &Host, watched: &Watched) -> Said {
    let time_ns = watched.time.as_nanos() as f64;
    if time_ns == 0.0 || watched.delta.cpus.is_empty() {
        return Unknown;
    }
    let cpus = watched.delta.cpus.iter();
    let known: Vec<(usize, u64)> = cpus.filter_map(|(id, cpu)| Some((*id, cpu.busy_ns?))).collect();
    let busy = known.iter().filter(|(_, busy)| *busy as f64 > BUSY_SHARE * time_ns);
    let busy: Vec<usize> = busy.map(|(id, _)| *id).collect();
    match known.len() {
        0 => Unknown,
        count if busy.is_empty() => Fine(format!("none of {count}")),
        count => Disturbs(format!("CPU {} of {count}", format_cpus(&busy))),
    }
}

fn clock_source(host: &Host, _: &Watched) -> Said {
    match host.kernel.clock_source.current.as_deref() {
        None => Unknown,
        Some(
            source @ ("tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page"),
        ) => Fine(source.to_owned()),
        Some(source) => Disturbs(source.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, Said, Watched};
    use host::counters::{CpuCounters, Snapshot};
    use host::{Host, Root};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn check(name: &str, tree: &str) -> Said {
        let host = Host::read(&Root::tree(tree));
        let judge = CHECKS.iter().find(|check| check.name == name).unwrap().judge;
        judge(&host, &Watched::default())
    }

    #[test]
    fn each_disturbance_is_seen_and_its_absence_too() {
        let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let pages = "sys/kernel/mm/transparent_hugepage/enabled";
        let disturbs = |text: &str| Said::Disturbs(text.into());
        let fine = |text: &str| Said::Fine(text.into());
        for (name, file, text, said) in [
            ("governor", governor, "powersave", disturbs("powersave")),
            ("governor", governor, "performance", fine("performance")),
            ("governor", clock, "tsc", Said::Unknown),
            ("transparent huge pages", pages, "[always] madvise never", disturbs("always")),
            ("clock source", clock, "hpet", disturbs("hpet")),
            ("clock source", clock, "tsc", fine("tsc")),
            ("swap", "proc/meminfo", "SwapTotal: 8 kB\nSwapFree: 4 kB", disturbs("4 KiB in use")),
            ("swap", "proc/meminfo", "SwapTotal: 0 kB\nSwapFree: 0 kB", fine("none")),
            ("same-page merging", "sys/kernel/mm/ksm/run", "1", disturbs("running")),
            ("stated values", "proc/meminfo", "MemTotal: 9999999 kB", fine("plausible")),
        ] {
            let cpu = "== sys/devices/system/cpu/online\n0\n== facts.txt\nallowed=0";
            let tree = format!("{cpu}\n== {file}\n{text}\n");
            assert_eq!(check(name, &tree), said, "{name}: {tree}");
        }
    }

    #[test]
    fn steal_and_busy_cpus_are_shares_of_the_watched_time() {
        let cpu = |steal_ms: u64, busy_ms: u64| CpuCounters {
            steal_ns: Some(steal_ms * 1_000_000),
            busy_ns: Some(busy_ms * 1_000_000),
            ..CpuCounters::default()
        };
        let watched = Watched {
            time: Duration::from_secs(1),
            delta: Snapshot {
                cpus: BTreeMap::from([(0, cpu(0, 10)), (1, cpu(30, 400))]),
                ..Snapshot::default()
            },
            ..Watched::default()
        };
        let host = Host::read(&Root::tree(""));
        let still = |counted_ns: u64| {
            let cpu = CpuCounters { counted_ns: Some(counted_ns), ..cpu(0, 0) };
            let delta = Snapshot { cpus: BTreeMap::from([(0, cpu)]), ..Snapshot::default() };
            let watched =
                Watched { delta: delta.without_still(), time: watched.time, ..Watched::default() };
            [super::steal(&host, &watched), super::busy(&host, &watched)]
        };
        assert_eq!(still(0), [Said::Unknown, Said::Unknown]);
        let fine = |text: &str| Said::Fine(text.into());
        assert_eq!(still(1_000_000_000), [fine("0.0 % while watched"), fine("none of 1")]);
        assert_eq!(super::steal(&host, &watched), Said::Disturbs("1.5 % while watched".into()));
        assert_eq!(super::busy(&host, &watched), Said::Disturbs("CPU 1 of 2".into()));
    }
}

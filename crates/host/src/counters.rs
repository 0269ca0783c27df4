//! Counters of what disturbs a measurement, read before and after every round.

use record::order::Gather;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::interrupts::{self, Source};
use super::kernel::pressure_line;
use super::{Root, cgroup, kernel_answers, text};

/// Counters at one moment. All counts since boot (or since the group or thread began).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Per CPU; only the CPUs that were asked for.
    pub cpus: BTreeMap<usize, CpuCounters>,
    /// Time this process's control group was throttled.
    pub throttled_ns: Option<u64>,
    pub throttled_periods: Option<u64>,
    /// Time the calling thread waited for a CPU while runnable.
    pub run_delay_ns: Option<u64>,
    /// Migrations of the calling thread between CPUs.
    pub migrations: Option<u64>,
    /// Time some task waited for a CPU.
    pub cpu_pressure_us: Option<u64>,
    /// Time some task waited for memory.
    pub memory_pressure_us: Option<u64>,
    /// Time some task waited for I/O.
    pub io_pressure_us: Option<u64>,
    /// One-minute load. In a delta: the later one.
    pub load: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCounters {
    /// Time the hypervisor ran something else.
    pub steal_ns: Option<u64>,
    /// Time it was neither idle nor waiting for I/O, steal included.
    pub busy_ns: Option<u64>,
    /// All its time, idle too: it grows as long as the kernel counts.
    #[serde(skip)]
    pub counted_ns: Option<u64>,
    /// Device interrupts (numbered lines of `/proc/interrupts`).
    pub device_interrupts: Option<u64>,
    pub timer_interrupts: Option<u64>,
    /// All other interrupts (rescheduling, function calls, TLB shootdowns, …).
    pub other_interrupts: Option<u64>,
    /// Times its core or its package began to throttle for heat (x86, not shown to guests).
    pub thermal_events: Option<u64>,
}

/// The differences of counts between two values of a kind, and its other fields.
macro_rules! delta {
    ($kind:ident, $now:expr, $then:expr, [$($count:ident),*], $($field:ident: $value:expr),*) => {
        $kind {
            $($count: $now.$count.zip($then.$count).and_then(|(now, then)| now.checked_sub(then)),)*
            $($field: $value,)*
        }
    };
}

impl CpuCounters {
    /// Interrupts other than the timer's; `None` when unknown.
    pub fn unsolicited(&self) -> Option<u64> {
        total([self.device_interrupts, self.other_interrupts].into_iter())
    }
}

impl Snapshot {
    /// Reads the counters of `cpus` and of the calling thread. Costs a few file reads: call it
    /// outside the timed window.
    pub fn read(root: &Root, cpus: &[usize]) -> Snapshot {
        let (throttled_ns, throttled_periods) = throttling(root);
        let pressure = |resource| pressure_line(root, resource).map(|line| line.total_us);
        let word = |path: &str, at: usize| root.words(path).into_iter().nth(at);
        Snapshot {
            cpus: per_cpu(root, cpus),
            throttled_ns,
            throttled_periods,
            run_delay_ns: word("proc/thread-self/schedstat", 1).and_then(|ns| ns.parse().ok()),
            migrations: migrations(root),
            cpu_pressure_us: pressure("cpu"),
            memory_pressure_us: pressure("memory"),
            io_pressure_us: pressure("io"),
            load: word("proc/loadavg", 0)
                .and_then(|load| load.parse().ok())
                .filter(|_| kernel_answers::counts_tasks(root)),
        }
    }

    /// What happened since `earlier`. A counter that is missing on one side, or that ran backwards
    /// (a CPU went offline in between), is `None`: no figure instead of a wrong one.
    pub fn delta(&self, earlier: &Snapshot) -> Snapshot {
        let cpus = self.cpus.iter().filter_map(|(&id, now)| {
            let then = earlier.cpus.get(&id)?;
            let delta = delta!(
                CpuCounters,
                now,
                then,
                [
                    steal_ns,
                    busy_ns,
                    counted_ns,
                    device_interrupts,
                    timer_interrupts,
                    other_interrupts,
                    thermal_events
                ],
            );
            Some((id, delta))
        });
        delta!(Snapshot, self, earlier, [throttled_ns, throttled_periods, run_delay_ns, migrations,
            cpu_pressure_us, memory_pressure_us, io_pressure_us],
            cpus: cpus.gather(), load: self.load)
    }

    /// Steal of all CPUs in the snapshot together; `None` if none reports it.
    pub fn steal_ns(&self) -> Option<u64> {
        total(self.cpus.values().map(|cpu| cpu.steal_ns))
    }

    /// It without the times of CPUs whose counters stood still, for deltas over many ticks.
    #[must_use]
    pub fn without_still(mut self) -> Snapshot {
        for cpu in self.cpus.values_mut().filter(|cpu| cpu.counted_ns == Some(0)) {
            *cpu = CpuCounters { steal_ns: None, busy_ns: None, ..*cpu };
        }
        self
    }

    /// Thermal throttling events of all CPUs in the snapshot together; `None` if some CPU does not
    /// report it. An event of a package is counted by each of its CPUs.
    pub fn thermal_events(&self) -> Option<u64> {
        (!self.cpus.is_empty()).then_some(())?;
        total(self.cpus.values().map(|cpu| cpu.thermal_events))
    }

    /// All interrupts of all CPUs in the snapshot together; `None` if some CPU does not report it.
    pub fn interrupts(&self) -> Option<u64> {
        total(
            self.cpus
                .values()
                .map(|cpu| total([cpu.unsolicited(), cpu.timer_interrupts].into_iter())),
        )
    }
}

fn per_cpu(root: &Root, cpus: &[usize]) -> BTreeMap<usize, CpuCounters> {
    let mut found: BTreeMap<usize, CpuCounters> =
        cpus.iter().map(|&cpu| (cpu, CpuCounters::default())).gather();
    read_times(&kernel_answers::stat(root), &mut found);
    read_interrupts(&root.read("proc/interrupts").unwrap_or_default(), &mut found);
    for (cpu, counters) in &mut found {
        counters.thermal_events = thermal_events(root, *cpu);
    }
    found
}

/// The kernel counts per CPU how often its core and how often its package was throttled; a package
/// may lack its own.
fn thermal_events(root: &Root, cpu: usize) -> Option<u64> {
    let count = |of: &str| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{of}_throttle_count");
        root.number::<u64>(&path)
    };
    let (core, package) = (count("core"), count("package"));
    core.or(package)?;
    core.unwrap_or(0).checked_add(package.unwrap_or(0))
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`, in ticks of USER_HZ,
/// which is 100 on every architecture that plumb supports, whatever the kernel's HZ.
fn read_times(stat: &str, found: &mut BTreeMap<usize, CpuCounters>) {
    const TICK_NS: u64 = 10_000_000;
    for line in stat.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        // The line of all CPUs has a space after `cpu`: its first word is a count, not a number.
        if rest.starts_with(' ') {
            continue;
        }
        let mut words = rest.split_whitespace();
        let id = words.next().and_then(|word| word.parse::<usize>().ok());
        let Some(counters) = id.and_then(|id| found.get_mut(&id)) else { continue };
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let counted = total(ticks.iter().take(8).map(|ticks| Some(*ticks)));
        // A sandbox without counters (gVisor) has zeros, which no CPU that ever ran has.
        counters.counted_ns =
            counted.filter(|ticks| *ticks > 0).and_then(|t| t.checked_mul(TICK_NS));
        if counters.counted_ns.is_none() {
            continue;
        }
        counters.steal_ns = ticks.get(7).and_then(|ticks| ticks.checked_mul(TICK_NS));
        // Fields 8 and 9 (guest time) are contained in 0 and 1.
        counters.busy_ns = ticks.get(..8).and_then(|ticks| {
            total([0, 1, 2, 5, 6, 7].iter().map(|at| Some(ticks[*at])))?.checked_mul(TICK_NS)
        });
    }
}

/// The sum of counts, if there are all; no kernel counts further than a word.
fn total(mut counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.try_fold(0_u64, |all, count| Some(all.saturating_add(count?)))
}

/// Counts of `/proc/interrupts` by kind of interrupt.
fn read_interrupts(text: &str, found: &mut BTreeMap<usize, CpuCounters>) {
    let (online, rows) = interrupts::rows(text);
    for id in online {
        if let Some(counters) = found.get_mut(&id) {
            counters.device_interrupts = Some(0);
            counters.timer_interrupts = Some(0);
            counters.other_interrupts = Some(0);
        }
    }
    for row in rows {
        for (id, count) in row.counts {
            let Some(counters) = found.get_mut(&id) else { continue };
            let total = match row.source {
                Source::Device => &mut counters.device_interrupts,
                Source::Timer => &mut counters.timer_interrupts,
                Source::Other => &mut counters.other_interrupts,
            };
            *total = total.and_then(|sum| sum.checked_add(count));
        }
    }
}

/// Version 1 counts nanoseconds, version 2 microseconds. Each group counts its own throttling only,
/// so the hierarchy's counts are added.
fn throttling(root: &Root) -> (Option<u64>, Option<u64>) {
    let (mut time_ns, mut periods) = (None::<u64>, None::<u64>);
    for path in cgroup::groups(root).iter().filter_map(|group| group.throttling_file(root)) {
        let text = root.read(&path).unwrap_or_default();
        let field = |name: &str| text::number::<u64>(&text, name);
        let us = field("throttled_usec ").and_then(|us| us.checked_mul(1000));
        if let Some(ns) = us.or_else(|| field("throttled_time ")) {
            time_ns = Some(time_ns.unwrap_or(0).saturating_add(ns));
        }
        if let Some(count) = field("nr_throttled ") {
            periods = Some(periods.unwrap_or(0).saturating_add(count));
        }
    }
    (time_ns, periods)
}

/// Written like this: `se.nr_migrations : 3`
fn migrations(root: &Root) -> Option<u64> {
    text::beside(&root.read("proc/thread-self/sched")?, "se.nr_migrations")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "== proc/stat\ncpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 0 2 3 4 5 6 7 0 0\ncpu1030 1 0 2 3 4 5 6 8 0 0\n\
        == proc/interrupts\n           CPU0       CPU1030\n 24:   1   2  IO-APIC 5-edge x\n\
        LOC:  10  20  Local timer interrupts\nRES: 3 4 Rescheduling interrupts\nERR:  0\n\
        == proc/thread-self/schedstat\n5 600 7\n== proc/thread-self/sched\nse.nr_migrations   :   3\n\
        == proc/pressure/cpu\nsome avg10=0.16 avg60=0.45 avg300=0.85 total=7287400\n";

    #[test]
    fn counters_are_read_for_the_cpus_asked_for() {
        let root = Root::tree(TREE);
        let snapshot = Snapshot::read(&root, &[1030, 5]);
        let cpu = snapshot.cpus[&1030];
        assert_eq!(cpu.steal_ns, Some(80_000_000));
        assert_eq!(cpu.device_interrupts, Some(2));
        assert_eq!(cpu.timer_interrupts, Some(20));
        assert_eq!(cpu.unsolicited(), Some(6));
        assert_eq!(snapshot.cpus[&5], CpuCounters::default());
        assert_eq!(snapshot.steal_ns(), None);
        assert_eq!((snapshot.run_delay_ns, snapshot.migrations), (Some(600), Some(3)));
        assert_eq!(snapshot.cpu_pressure_us, Some(7_287_400));
    }

    #[test]
    fn a_delta_has_no_wrong_figure() {
        let earlier = Snapshot::read(&Root::tree(TREE), &[0]);
        let later = TREE
            .replace("cpu0 1 0 2 3 4 5 6 7", "cpu0 1 0 2 3 4 5 6 9")
            .replace("5 600 7", "5 500 7");
        let delta = Snapshot::read(&Root::tree(&later), &[0]).delta(&earlier);
        assert_eq!(delta.cpus[&0].steal_ns, Some(20_000_000));
        assert_eq!(delta.cpus[&0].device_interrupts, Some(0));
        assert_eq!(delta.run_delay_ns, None);
        assert_eq!(delta.migrations, Some(0));
    }

    #[test]
    fn thermal_events_of_core_and_package_are_counted_where_they_are_shown() {
        let dir = "sys/devices/system/cpu/cpu0/thermal_throttle";
        let tree = |core: u64, package: u64| {
            Root::tree("")
                .with(&format!("{dir}/core_throttle_count"), &format!("{core}\n"))
                .with(&format!("{dir}/package_throttle_count"), &format!("{package}\n"))
        };
        let before = Snapshot::read(&tree(3, 10), &[0]);
        let delta = Snapshot::read(&tree(4, 12), &[0]).delta(&before);
        assert_eq!(delta.thermal_events(), Some(3));
        // One CPU of two does not report it; it was not requested.
        let half = Snapshot::read(&tree(3, 10), &[0, 1]);
        assert_eq!(half.thermal_events(), None);
        assert_eq!(Snapshot::read(&tree(3, 10), &[]).thermal_events(), None);
    }

    #[test]
    fn arm_timers_are_timers() {
        let text = "  CPU0\n 13:  77  GICv3  27 Level  arch_timer\n 40: 5 GICv3-mITS 1 Edge nvme0q0\nIPI0: 2 Rescheduling\n";
        let snapshot = Snapshot::read(&Root::tree("").with("proc/interrupts", text), &[0]);
        let cpu = snapshot.cpus[&0];
        assert_eq!(
            (cpu.timer_interrupts, cpu.device_interrupts, cpu.other_interrupts),
            (Some(77), Some(5), Some(2))
        );
    }

    #[test]
    fn throttling_of_both_versions() {
        let v2 = "== proc/self/cgroup\n0::/a\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n\
            == cg/a/cpu.stat\nnr_throttled 3\nthrottled_usec 40\n== cg/cpu.stat\nusage_usec 1\n";
        let snapshot = Snapshot::read(&Root::tree(v2), &[]);
        assert_eq!((snapshot.throttled_ns, snapshot.throttled_periods), (Some(40_000), Some(3)));
        let v1 = "== proc/self/cgroup\n1:cpu,cpuacct:/\n== proc/self/mountinfo\n\
            1 2 0:1 / /cg rw - cgroup c rw,cpu,cpuacct\n== cg/cpu.stat\nnr_throttled 1\nthrottled_time 900\n";
        assert_eq!(Snapshot::read(&Root::tree(v1), &[]).throttled_ns, Some(900));
    }
}

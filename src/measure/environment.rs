//! What happened to the worker around a round, read before and after it (METHOD §4).
//!
//! Counters that this kernel or container hides are absent, never zero.

use metal::process::{self, Usage};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Length of a `/proc/stat` tick: USER_HZ is 100 on x86-64 and aarch64.
const USER_TICK_NS: f64 = 1e7;

/// Counters at one moment, by the name that their change has in the record. `load_1m` is a level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    counters: BTreeMap<&'static str, f64>,
    load_1m: Option<f64>,
}

impl Snapshot {
    /// Reads the counters of the process, of the calling thread and of `cpus` (their sum).
    pub(crate) fn read(cpus: &[usize]) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.usage(&process::rusage_self());
        let texts = [
            ("run_delay_ns", "/proc/thread-self/schedstat"),
            ("migrations", "/proc/thread-self/sched"),
            ("steal_ns", "/proc/stat"),
            ("interrupts", "/proc/interrupts"),
            ("psi_cpu_some_ns", "/proc/pressure/cpu"),
            ("psi_memory_some_ns", "/proc/pressure/memory"),
            ("psi_io_some_ns", "/proc/pressure/io"),
        ];
        for (name, path) in texts {
            let value = fs::read_to_string(path).ok().and_then(|text| match name {
                "run_delay_ns" => run_delay_ns(&text),
                "migrations" => migrations(&text),
                "steal_ns" => steal_ns(&text, cpus),
                "interrupts" => interrupts(&text, cpus),
                _ => pressure_some_ns(&text),
            });
            if let Some(value) = value {
                snapshot.counters.insert(name, value);
            }
        }
        if let Some(value) = throttled_ns(&cgroup_dirs()) {
            snapshot.counters.insert("throttled_ns", value);
        }
        snapshot.load_1m = fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        snapshot
    }

    fn usage(&mut self, usage: &Usage) {
        self.counters.extend([
            ("voluntary_switches", usage.nvcsw as f64),
            ("involuntary_switches", usage.nivcsw as f64),
            ("major_faults", usage.majflt as f64),
            ("minor_faults", usage.minflt as f64),
            ("user_ns", usage.utime_ns as f64),
            ("system_ns", usage.stime_ns as f64),
        ]);
    }

    /// What changed since `earlier`, and the load now, by name with the unit last.
    pub(crate) fn since(&self, earlier: &Snapshot) -> BTreeMap<String, f64> {
        let mut changes: BTreeMap<String, f64> = self
            .counters
            .iter()
            .filter_map(|(name, now)| {
                let before = earlier.counters.get(name)?;
                Some(((*name).to_owned(), now - before))
            })
            .collect();
        if let Some(load) = self.load_1m {
            changes.insert("load_1m".to_owned(), load);
        }
        changes
    }
}

/// Second field of schedstat: time spent runnable but waiting.
fn run_delay_ns(text: &str) -> Option<f64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// `se.nr_migrations` (or `nr_migrations`) of /proc/…/sched.
fn migrations(text: &str) -> Option<f64> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim().ends_with("nr_migrations"))
        .and_then(|(_, value)| value.trim().parse().ok())
}

/// Steal of the CPUs, summed; absent unless every one has a line. Eighth figure of `cpuN`.
fn steal_ns(text: &str, cpus: &[usize]) -> Option<f64> {
    cpus.iter()
        .map(|cpu| {
            let name = format!("cpu{cpu}");
            text.lines()
                .find(|line| line.split_whitespace().next() == Some(&name))?
                .split_whitespace()
                .nth(8)?
                .parse::<f64>()
                .ok()
        })
        .sum::<Option<f64>>()
        .map(|ticks| ticks * USER_TICK_NS)
}

/// All interrupts that the CPUs took; absent unless every CPU has a column. The columns are the
/// online CPUs.
fn interrupts(text: &str, cpus: &[usize]) -> Option<f64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let columns = cpus
        .iter()
        .map(|cpu| {
            let name = format!("CPU{cpu}");
            names.iter().position(|have| *have == name)
        })
        .collect::<Option<Vec<usize>>>()?;
    let mut sum = 0.0;
    for line in lines {
        let counts: Vec<&str> = line.split_whitespace().skip(1).take(names.len()).collect();
        // Lines with one count for the whole machine (ERR, MIS) are no CPU's.
        if counts.len() < names.len() || counts.iter().any(|count| count.parse::<u64>().is_err()) {
            continue;
        }
        for column in &columns {
            sum += counts[*column].parse::<f64>().ok()?;
        }
    }
    Some(sum)
}

/// Total of the `some` line, given in µs.
fn pressure_some_ns(text: &str) -> Option<f64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total = some
        .split_whitespace()
        .find_map(|field| field.strip_prefix("total="))?;
    total.parse::<f64>().ok().map(|total_us| total_us * 1e3)
}

/// Throttling of this process's control groups: any group between it and the root may have the
/// quota, so their times are added.
fn throttled_ns(dirs: &[PathBuf]) -> Option<f64> {
    dirs.iter()
        .filter_map(|dir| fs::read_to_string(dir.join("cpu.stat")).ok())
        .filter_map(|text| throttled_in(&text))
        .reduce(|sum, group| sum + group)
}

/// `throttled_usec` (version 2) or `throttled_time` in ns (version 1).
fn throttled_in(text: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value: f64 = value.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(value * 1e3),
            "throttled_time" => Some(value),
            _ => None,
        }
    })
}

/// Directories of the control group that limits this process's CPU time, and of its ancestors.
fn cgroup_dirs() -> Vec<PathBuf> {
    let (Ok(groups), Ok(mounts)) = (
        fs::read_to_string("/proc/self/cgroup"),
        fs::read_to_string("/proc/self/mountinfo"),
    ) else {
        return Vec::new();
    };
    group_dirs(&groups, &mounts)
}

fn group_dirs(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let Some((version_1, group)) = cpu_group(groups) else {
        return Vec::new();
    };
    let Some((root, mount)) = cpu_mount(mounts, version_1) else {
        return Vec::new();
    };
    // Inside a container the mount's root is the container's own group.
    let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    let below = below.strip_prefix("/").unwrap_or(below);
    below
        .ancestors()
        .map(|ancestor| Path::new(mount).join(ancestor))
        .collect()
}

/// Whether version 1 rules the CPU here, and the path of the group.
fn cpu_group(groups: &str) -> Option<(bool, &str)> {
    let fields = || groups.lines().map(|line| line.splitn(3, ':'));
    let version_1 = fields().find_map(|mut fields| {
        let controllers = fields.nth(1)?;
        let has_cpu = controllers.split(',').any(|name| name == "cpu");
        has_cpu.then(|| fields.next()).flatten()
    });
    if let Some(path) = version_1 {
        return Some((true, path));
    }
    fields().find_map(|mut fields| {
        let unified = fields.next()? == "0" && fields.next()?.is_empty();
        unified
            .then(|| fields.next().map(|path| (false, path)))
            .flatten()
    })
}

/// Root within the hierarchy, and mount point, of the hierarchy that rules the CPU.
fn cpu_mount(mounts: &str, version_1: bool) -> Option<(&str, &str)> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1)?;
        let fits = if version_1 {
            kind == "cgroup" && options.split(',').any(|name| name == "cpu")
        } else {
            kind == "cgroup2"
        };
        let mut left = left.split(' ').skip(3);
        fits.then(|| Some((left.next()?, left.next()?))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Snapshot, group_dirs, interrupts, migrations, pressure_some_ns, run_delay_ns, steal_ns,
        throttled_in,
    };
    use std::path::PathBuf;

    const STAT: &str = "cpu  52719 2422 9975 186207 947 0 106 35 0 0\n\
        cpu0 25510 907 4655 94977 119 0 14 17 0 0\n\
        cpu1 27209 1515 5319 91230 828 0 91 18 0 0\n\
        cpu11 1 1 1 1 1 1 1 500 0 0\nintr 7 8\n";

    const INTERRUPTS: &str = "           CPU0       CPU2       \n\
        24:          1         10   IO-APIC   5-edge      ACPI:Ged\n\
        LOC:       200        300   Local timer interrupts\n\
        ERR:          7\n";

    #[test]
    fn texts_of_the_kernel() {
        assert_eq!(steal_ns(STAT, &[0, 1]), Some(35e7));
        assert_eq!(steal_ns(STAT, &[1]), Some(18e7));
        assert_eq!(steal_ns(STAT, &[0, 2]), None);
        assert_eq!(interrupts(INTERRUPTS, &[2]), Some(310.0));
        assert_eq!(interrupts(INTERRUPTS, &[0, 2]), Some(511.0));
        assert_eq!(interrupts(INTERRUPTS, &[1]), None);
        assert_eq!(run_delay_ns("83227 3752469 2\n"), Some(3_752_469.0));
        assert_eq!(
            migrations("se.exec_start : 12.5\nse.nr_migrations        :      3\n"),
            Some(3.0)
        );
        assert_eq!(migrations("cat (1, #threads: 1)\n"), None);
        let pressure = "some avg10=10.31 avg60=18.39 avg300=15.83 total=94923918\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(pressure_some_ns(pressure), Some(94_923_918e3));
    }

    #[test]
    fn both_versions_of_throttling() {
        let version_2 = "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n";
        assert_eq!(throttled_in(version_2), Some(1.5e6));
        let version_1 = "nr_periods 0\nnr_throttled 0\nthrottled_time 77\n";
        assert_eq!(throttled_in(version_1), Some(77.0));
        assert_eq!(throttled_in("usage_usec 5\n"), None);
    }

    #[test]
    fn groups_of_both_versions_with_their_ancestors() {
        let dirs = |groups, mounts| group_dirs(groups, mounts);
        let unified = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            dirs("0::/user.slice/run.scope\n", unified),
            [
                "/sys/fs/cgroup/user.slice/run.scope",
                "/sys/fs/cgroup/user.slice",
                "/sys/fs/cgroup/"
            ]
            .map(PathBuf::from)
        );
        let split = "32 31 0:29 /box /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "2:cpuset:/box\n1:cpu,cpuacct:/box/inner\n0::/\n";
        assert_eq!(
            dirs(groups, split),
            ["/sys/fs/cgroup/cpu/inner", "/sys/fs/cgroup/cpu/"].map(PathBuf::from)
        );
        assert!(dirs("", unified).is_empty());
        assert!(dirs("0::/\n", "").is_empty());
    }

    #[test]
    fn absent_counters_are_absent_in_the_change_too() {
        let mut earlier = Snapshot::default();
        let mut later = Snapshot::default();
        earlier.counters.insert("interrupts", 5.0);
        later.counters.insert("interrupts", 9.0);
        later.counters.insert("steal_ns", 9.0);
        later.load_1m = Some(0.5);
        let change = later.since(&earlier);
        assert_eq!(change.get("interrupts"), Some(&4.0));
        assert_eq!(change.get("steal_ns"), None);
        assert_eq!(change.get("load_1m"), Some(&0.5));
    }

    #[test]
    fn faults_of_this_process_are_seen() {
        let before = Snapshot::read(&[]);
        let mut touched = vec![0_u8; 4 << 20];
        touched.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&touched);
        let change = Snapshot::read(&[]).since(&before);
        assert!(change["minor_faults"] >= 1.0, "{change:?}");
        assert!(change["voluntary_switches"] >= 0.0);
    }
}

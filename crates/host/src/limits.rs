//! What this process may use.

use serde::{Deserialize, Serialize};

use super::cgroup::{self, Group, GroupPlace};
use super::{Cpu, Outside, Root, text};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Control group versions in use: `v1`, `v2` or `hybrid`.
    pub cgroup: Option<String>,
    /// Tightest memory limit over the hierarchy; `None` if it does not exist.
    pub memory_bytes: Option<u64>,
    /// Memory in use by the group that has the tightest limit.
    pub memory_used_bytes: Option<u64>,
    /// The least room (limit − usage) over the hierarchy.
    pub memory_left_bytes: Option<u64>,
    /// The least memory above which a group is slowed down and has to give pages back
    /// (`memory.high`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_high_bytes: Option<u64>,
    /// The least swap that a group may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// Where the group with the least room counts what it has in memory: its `memory.stat`, under
    /// the root.
    pub memory_stat_file: Option<String>,
    /// Where a group with a memory limit can be made; `None` with the reason in
    /// `memory_place_refused`.
    pub memory_place: Option<GroupPlace>,
    /// Why no such group can be made.
    pub memory_place_refused: Option<String>,
    /// Tightest CPU quota over the hierarchy; `None` if it does not exist.
    pub cpu_quota: Option<CpuQuota>,
    /// Limits of input and output, by group and device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<IoLimit>,
    /// CPUs of the cpuset, as the kernel lists them.
    pub cpuset: Option<Vec<usize>>,
    pub open_files: Option<Rlimit>,
    /// Highest real-time priority without the right to any (RLIMIT_RTPRIO).
    pub realtime_priority: Option<Rlimit>,
    /// Largest message of a POSIX queue: `fs.mqueue.msgsize_max`.
    pub message_bytes: Option<u64>,
    /// CPUs this process can keep busy: min(allowed online CPUs, quota).
    pub effective_cpus: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// CPU time per period.
    pub quota_us: u64,
    pub period_us: u64,
}

/// What a control group may read from and write to a device in a second; `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// Directory of the group, under the root.
    pub group: String,
    /// `major:minor` of the disk.
    pub device: String,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub writes: Option<u64>,
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    pub soft: Option<u64>,
    /// It is `soft`'s ceiling.
    pub hard: Option<u64>,
}

pub(super) fn read(root: &Root, outside: &Outside, cpu: &Cpu) -> Limits {
    let groups = cgroup::groups(root);
    let memory = groups
        .iter()
        .filter_map(|group| Some((group.memory_limit(root)?, group.memory_used(root))))
        .min_by_key(|(limit, _)| *limit);
    let room = |group: &&Group| {
        let limit = group.memory_limit(root)?;
        Some(limit.saturating_sub(group.memory_used(root).unwrap_or(0)))
    };
    let tightest = groups.iter().filter(|group| room(group).is_some()).min_by_key(room);
    let least = |of: fn(&Group, &Root) -> Option<u64>| {
        groups.iter().filter_map(|group| of(group, root)).min()
    };
    let place = cgroup::memory_place(root);
    let quotas = groups.iter().filter_map(|group| group.quota(root));
    let cpu_quota = quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()));
    let limits = root.read("proc/self/limits").unwrap_or_default();
    Limits {
        cgroup: version(&groups),
        memory_bytes: memory.map(|(limit, _)| limit),
        memory_used_bytes: memory.and_then(|(_, used)| used),
        memory_left_bytes: tightest.as_ref().and_then(room),
        memory_high_bytes: least(Group::memory_high),
        swap_bytes: least(Group::swap_limit),
        memory_stat_file: tightest.map(|group| format!("{}/memory.stat", group.dir)),
        memory_place_refused: place.as_ref().err().map(ToString::to_string),
        memory_place: place.ok(),
        cpu_quota,
        io: cgroup::io_limits(&groups, root),
        cpuset: groups.iter().find_map(|group| group.cpuset(root)),
        open_files: rlimit(&limits, "Max open files"),
        realtime_priority: rlimit(&limits, "Max realtime priority"),
        message_bytes: root.number("proc/sys/fs/mqueue/msgsize_max"),
        effective_cpus: effective_cpus(outside, cpu, cpu_quota),
    }
}

impl CpuQuota {
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

fn version(groups: &[Group]) -> Option<String> {
    let has = |version: u32| groups.iter().any(|group| group.version == version);
    let name = match (has(1), has(2)) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => return None,
    };
    Some(name.to_string())
}

fn effective_cpus(outside: &Outside, cpu: &Cpu, quota: Option<CpuQuota>) -> Option<f64> {
    let usable = cpu.cpus.iter().filter(|one| one.online && one.allowed).count();
    let usable = if usable > 0 { usable } else { outside.allowed.len() };
    let usable = (usable > 0).then_some(usable as f64)?;
    Some(quota.map_or(usable, |quota| quota.cpus().min(usable)))
}

/// `Max open files            1024                 524288               files`
pub(super) fn rlimit(limits: &str, name: &str) -> Option<Rlimit> {
    let mut words = text::after(limits, name)?.split_whitespace();
    let mut bound = || match words.next()? {
        "unlimited" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    };
    Some(Rlimit { soft: bound()?, hard: bound()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    #[test]
    fn every_ancestor_binds() {
        // The inner group has the tighter limit, the outer one less room and the tighter quota.
        let root = Root::tree(
            "== proc/self/cgroup\n0::/a/b\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n\
             == cg/a/b/memory.max\n4000\n== cg/a/b/memory.current\n1000\n== cg/a/b/cpu.max\n300000 100000\n\
             == cg/a/memory.max\n8000\n== cg/a/memory.current\n7900\n== cg/a/cpu.max\n50000 100000\n\
             == facts.txt\nallowed=0-7\n",
        );
        let limits = Host::read(&root).limits;
        assert_eq!((limits.memory_bytes, limits.memory_used_bytes), (Some(4000), Some(1000)));
        assert_eq!(limits.memory_left_bytes, Some(100));
        assert_eq!(limits.effective_cpus, Some(0.5));
    }

    #[test]
    fn the_tightest_of_what_slows_down_and_of_swap_holds() {
        let second = Root::tree(
            "== proc/self/cgroup\n0::/a/b\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n\
             == cg/a/b/memory.max\nmax\n== cg/a/b/memory.high\n9000\n== cg/a/b/memory.swap.max\n0\n\
             == cg/a/memory.high\n7000\n== cg/a/memory.swap.max\nmax\n",
        );
        // A soft limit does not count; one file limits memory and swap together.
        let first = Root::tree(
            "== proc/self/cgroup\n4:memory:/a\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup c rw,memory\n\
             == cg/a/memory.limit_in_bytes\n4000\n== cg/a/memory.memsw.limit_in_bytes\n5000\n\
             == cg/a/memory.soft_limit_in_bytes\n100\n\
             == cg/memory.limit_in_bytes\n9223372036854771712\n\
             == cg/memory.memsw.limit_in_bytes\n9223372036854771712\n",
        );
        let told = |root: &Root| {
            let limits = Host::read(root).limits;
            (limits.memory_bytes, limits.memory_high_bytes, limits.swap_bytes)
        };
        assert_eq!(told(&second), (None, Some(7000), Some(0)));
        assert_eq!(told(&first), (Some(4000), None, Some(1000)));
    }

    #[test]
    fn input_and_output_is_limited_by_ancestors_in_version_2_and_by_the_own_group_in_version_1() {
        let limit = |group: &str, device: &str, rates: [Option<u64>; 4]| IoLimit {
            group: group.to_owned(),
            device: device.to_owned(),
            read_bytes: rates[0],
            write_bytes: rates[1],
            reads: rates[2],
            writes: rates[3],
        };
        let second = Root::tree(
            "== proc/self/cgroup\n0::/a/b\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n\
             == cg/a/b/io.max\n8:0 rbps=max wbps=max riops=max wiops=120\n\
             == cg/a/io.max\n8:0 rbps=2097152 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=max riops=max wiops=max\n",
        );
        let first = Root::tree(
            "== proc/self/cgroup\n7:blkio:/a/b\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup c rw,blkio\n\
             == cg/a/b/blkio.throttle.read_bps_device\n254:0 1000\n\
             == cg/a/b/blkio.throttle.write_iops_device\n254:0 7\n\
             == cg/a/blkio.throttle.read_bps_device\n254:0 5\n",
        );
        let found = |root: &Root| Host::read(root).limits.io;
        assert_eq!(
            found(&second),
            [
                limit("cg/a/b", "8:0", [None, None, None, Some(120)]),
                limit("cg/a", "8:0", [Some(2_097_152), None, None, None]),
            ]
        );
        assert_eq!(found(&first), [limit("cg/a/b", "254:0", [Some(1000), None, None, Some(7)])]);
        assert_eq!(found(&Root::tree("")), []);
    }

    #[test]
    fn resource_limits() {
        let text = "Max open files            1024    524288   files\nMax locked memory   8   unlimited  bytes\n";
        assert_eq!(
            rlimit(text, "Max open files"),
            Some(Rlimit { soft: Some(1024), hard: Some(524_288) })
        );
        assert_eq!(rlimit(text, "Max locked memory"), Some(Rlimit { soft: Some(8), hard: None }));
        assert_eq!(rlimit(text, "Max cpu time"), None);
    }
}

//! Control groups, versions 1 and 2: where this process's groups are mounted and what they allow.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::limits::{CpuQuota, IoLimit};
use super::mountinfo::{self, Mounted};
use super::plausible::is_plausible;
use super::{Root, text};

/// Where a group with a memory limit of its own can be made for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlace {
    /// It is 1 or 2.
    pub version: u32,
    /// Directory in which the group is made, under the root, without a leading slash.
    pub parent: String,
    /// Directory of the group that this process is in, to which the worker goes back.
    pub home: String,
}

impl GroupPlace {
    /// Name of the file that holds a group's memory limit.
    pub fn limit_file(&self) -> &'static str {
        limit_file(self.version)
    }
}

/// Names of the file with the memory limit in versions 1 and 2.
const MEMORY_LIMIT: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];

pub(super) fn limit_file(version: u32) -> &'static str {
    MEMORY_LIMIT[usize::from(version == 2)]
}

/// Bytes of files that a group has in memory, with the groups below it: of its `memory.stat`.
pub fn cached_bytes(memory_stat: &str) -> Option<u64> {
    // Version 1 counts a group alone as `cache` and all below it as `total_cache`.
    ["total_cache ", "file "].into_iter().find_map(|name| text::number(memory_stat, name))
}

/// Why no group can be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("no hierarchy of control groups with the memory controller is mounted here")]
    NoHierarchy,
    /// From this directory upwards.
    #[error(
        "no group from {0} upwards enables the memory controller for its children \
         (cgroup.subtree_control)"
    )]
    NotHandedOn(String),
    #[error("/{0} may not be written by this user")]
    NotWritable(String),
}

/// Where this process may make a group with a memory limit and move itself into it and back.
///
/// In version 1 that is a child of its own group. In version 2 a group with processes has no
/// children with controllers (the root excepted), so it is a sibling: a child of the nearest group
/// above whose `cgroup.subtree_control` hands `memory` on; the kernel demands that the mover may
/// write the `cgroup.procs` of both groups' common ancestor
/// (Documentation/admin-guide/cgroup-v2.rst, "Delegation Containment"). Errors: why there is no
/// such place.
pub(super) fn memory_place(root: &Root) -> Result<GroupPlace, NoPlace> {
    let groups = groups(root);
    let v1 = groups.iter().find(|group| group.version == 1 && group.controls("memory"));
    let (parent, home) = match v1 {
        Some(group) => (group, group),
        None => {
            let mut second = groups.iter().filter(|group| group.version == 2);
            let home = second.clone().next().ok_or(NoPlace::NoHierarchy)?;
            let parent = second.find(|group| group.hands_on_memory(root));
            (parent.ok_or_else(|| NoPlace::NotHandedOn(home.dir.clone()))?, home)
        }
    };
    let procs = |group: &Group| format!("{}/cgroup.procs", group.dir);
    let mut written = [parent.dir.clone(), procs(parent), procs(home)].into_iter();
    match written.find(|path| !root.may_write(path)) {
        Some(path) => Err(NoPlace::NotWritable(path)),
        None => {
            let (parent, home) = (parent.dir.clone(), home.dir.clone());
            Ok(GroupPlace { version: if v1.is_some() { 1 } else { 2 }, parent, home })
        }
    }
}

/// One group of this process, innermost first within its hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// It is 1 or 2.
    pub(super) version: u32,
    /// Controllers of the hierarchy (version 1); empty for version 2.
    pub(super) controllers: Vec<String>,
    /// Directory under the root, without a leading slash.
    pub(super) dir: String,
}

/// Groups of this process and all their ancestors that are visible here, innermost first.
///
/// `/proc/self/cgroup` names the group relative to the root of the cgroup namespace or of the
/// hierarchy; mountinfo shows which part of the hierarchy is mounted where. In a container without
/// a namespace of its own the mount shows only the container's subtree: the mount's root is cut
/// from the group's path.
pub(super) fn groups(root: &Root) -> Vec<Group> {
    let membership = root.read("proc/self/cgroup").unwrap_or_default();
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<Mounted> = mountinfo::mounts(&mounts).collect();
    let members = membership.lines().filter_map(parse_member);
    members.flat_map(|member| ancestors(&member, &mounts)).collect()
}

/// Limits of input and output that bind this process, innermost group first. In version 1 only the
/// own group binds: there the kernel throttles each group as if it stood alone
/// (Documentation/admin-guide/cgroup-v1/blkio-controller.rst, "Hierarchical Cgroups").
pub(super) fn io_limits(groups: &[Group], root: &Root) -> Vec<IoLimit> {
    let controlled = groups.iter().filter(|group| group.controls("blkio"));
    let (second, first): (Vec<&Group>, Vec<&Group>) =
        controlled.partition(|group| group.version == 2);
    let binding = second.into_iter().chain(first.into_iter().take(1));
    binding.flat_map(|group| group.io_limits(root)).collect()
}

struct Member {
    controllers: Vec<String>,
    path: String,
}

/// Written like this: `4:memory:/user.slice`, `1:name=systemd:/`, `0::/user.slice`.
fn parse_member(line: &str) -> Option<Member> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let names = controllers.split(',').filter(|name| !name.is_empty());
    // A group's name may begin and end with white space; a line break it cannot have.
    Some(Member { controllers: names.map(str::to_string).collect(), path: path.to_string() })
}

fn ancestors(member: &Member, mounts: &[Mounted]) -> Vec<Group> {
    let (version, fs) = if member.controllers.is_empty() { (2, "cgroup2") } else { (1, "cgroup") };
    let has = |mount: &Mounted, name: &String| mount.super_options.split(',').any(|of| of == name);
    let mount = mounts.iter().find(|mount| {
        mount.fs == fs && member.controllers.iter().all(|controller| has(mount, controller))
    });
    let Some(mount) = mount else { return Vec::new() };
    let point = mount.target.trim_start_matches('/');
    let below = match member.path.strip_prefix(mount.root.trim_end_matches('/')) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        // Outside what is mounted (`/../..` of a foreign namespace): only the mount's own group.
        _ => "",
    };
    let below = if below.split('/').any(|name| name == "..") { "" } else { below };
    let mut dir = format!("{point}{}", below.trim_end_matches('/'));
    let mut found = Vec::new();
    loop {
        found.push(Group { version, controllers: member.controllers.clone(), dir: dir.clone() });
        if dir.len() <= point.len() {
            return found;
        }
        dir.truncate(dir.rfind('/').unwrap_or(0));
    }
}

/// Version 1 has no word for "no limit": the kernel then shows the largest page-aligned number.
const NO_LIMIT: u64 = 1 << 62;

impl Group {
    fn controls(&self, name: &str) -> bool {
        self.version == 2 || self.controllers.iter().any(|controller| controller == name)
    }

    /// Path of a controller's file, by its names in versions 1 and 2; `None` where the group has
    /// not that controller, or its version no such file (an empty name).
    fn file(&self, controller: &str, names: [&str; 2]) -> Option<String> {
        let name = names[usize::from(self.version == 2)];
        let has = self.controls(controller) && !name.is_empty();
        has.then(|| format!("{}/{name}", self.dir))
    }

    fn number(&self, root: &Root, controller: &str, names: [&str; 2]) -> Option<u64> {
        root.number(&self.file(controller, names)?)
    }

    /// Memory limit in bytes; `None` if it does not exist.
    pub(super) fn memory_limit(&self, root: &Root) -> Option<u64> {
        self.number(root, "memory", MEMORY_LIMIT).filter(|&limit| limit < NO_LIMIT)
    }

    /// Memory above which the kernel slows the group down and takes pages back (version 2).
    pub(super) fn memory_high(&self, root: &Root) -> Option<u64> {
        self.number(root, "memory", ["", "memory.high"])
    }

    /// Swap that the group may use. Version 1 limits memory and swap together: without swap of its
    /// own a group has the same limit for both.
    pub(super) fn swap_limit(&self, root: &Root) -> Option<u64> {
        let names = ["memory.memsw.limit_in_bytes", "memory.swap.max"];
        let limit = self.number(root, "memory", names)?;
        match self.version {
            2 => Some(limit),
            _ => {
                let both = Some(limit).filter(|limit| *limit < NO_LIMIT)?;
                Some(both.saturating_sub(self.memory_limit(root)?))
            }
        }
    }

    /// Whether children of the group have memory limits (version 2).
    fn hands_on_memory(&self, root: &Root) -> bool {
        let handed_on = root.words(&format!("{}/cgroup.subtree_control", self.dir));
        handed_on.iter().any(|name| name == "memory")
    }

    /// How many processes of the group the OOM killer killed (version 2: of those below it too),
    /// and how often its limit stood in the way. A version 2 root counts neither.
    pub(super) fn memory_kills(&self, root: &Root) -> Option<(u64, u64)> {
        let counts = root.read(&self.file("memory", ["memory.oom_control", "memory.events"])?)?;
        let at_limit = match self.version {
            2 => text::number(&counts, "oom "),
            _ => self.number(root, "memory", ["memory.failcnt", ""]),
        };
        Some((text::number(&counts, "oom_kill ")?, at_limit.unwrap_or(0)))
    }

    /// Memory in use that the kernel cannot drop at once: usage without the inactive file pages.
    pub(super) fn memory_used(&self, root: &Root) -> Option<u64> {
        let names = ["memory.usage_in_bytes", "memory.current"];
        let usage = self.number(root, "memory", names)?;
        let stat = root.read(&format!("{}/memory.stat", self.dir)).unwrap_or_default();
        let inactive = ["total_inactive_file ", "inactive_file "][usize::from(self.version == 2)];
        Some(usage.saturating_sub(text::number(&stat, inactive).unwrap_or(0)))
    }

    /// Processes and threads in the group, and the most that may be; `None` without a limit.
    pub(super) fn processes(&self, root: &Root) -> Option<(u64, u64)> {
        let number = |name: &str| self.number(root, "pids", [name, name]);
        Some((number("pids.current")?, number("pids.max")?))
    }

    /// Limits of input and output of this group alone, by device.
    fn io_limits(&self, root: &Root) -> Vec<IoLimit> {
        /// File of version 1, key of version 2.
        const RATES: [(&str, &str); 4] = [
            ("read_bps_device", "rbps"),
            ("write_bps_device", "wbps"),
            ("read_iops_device", "riops"),
            ("write_iops_device", "wiops"),
        ];
        let mut rates: BTreeMap<String, [Option<u64>; 4]> = BTreeMap::new();
        let mut note = |device: &str, at: Option<usize>, rate: &str| {
            if let (Some(at), Ok(rate)) = (at, rate.parse()) {
                rates.entry(device.to_owned()).or_default()[at] = Some(rate);
            }
        };
        let file = |name: &str| root.read(&format!("{}/{name}", self.dir)).unwrap_or_default();
        if self.version == 2 {
            // `8:16 rbps=2097152 wbps=max riops=max wiops=120`
            for line in file("io.max").lines() {
                let (device, pairs) = line.split_once(' ').unwrap_or_default();
                for (key, rate) in pairs.split(' ').filter_map(|pair| pair.split_once('=')) {
                    note(device, RATES.iter().position(|(_, name)| *name == key), rate);
                }
            }
        } else {
            for (at, (name, _)) in RATES.iter().enumerate() {
                for line in file(&format!("blkio.throttle.{name}")).lines() {
                    let (device, rate) = line.split_once(' ').unwrap_or_default();
                    note(device, Some(at), rate);
                }
            }
        }
        let limit = |(device, [read, write, reads, writes]): (String, [Option<u64>; 4])| IoLimit {
            group: self.dir.clone(),
            device,
            read_bytes: read,
            write_bytes: write,
            reads,
            writes,
        };
        rates.into_iter().map(limit).collect()
    }

    /// CPU quota; `None` if it does not exist.
    pub(super) fn quota(&self, root: &Root) -> Option<CpuQuota> {
        let (quota, period) = if self.version == 2 {
            let text = root.line(&self.file("cpu", ["", "cpu.max"])?)?;
            let (quota, period) = text.split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse().ok()?)
        } else {
            // -1 is no quota and does not parse as unsigned.
            let number = |name: &str| self.number(root, "cpu", [name, ""]);
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        };
        let is_plausible = is_plausible("group.period_us", period as f64)
            && is_plausible("group.quota_us", quota as f64);
        is_plausible.then_some(CpuQuota { quota_us: quota, period_us: period })
    }

    pub(super) fn cpuset(&self, root: &Root) -> Option<Vec<usize>> {
        let names = [["cpuset.effective_cpus", "cpuset.cpus.effective"], ["cpuset.cpus", ""]];
        let lists = names.into_iter().filter_map(|names| root.cpus(&self.file("cpuset", names)?));
        lists.into_iter().find(|cpus| !cpus.is_empty())
    }

    /// The file that counts throttling, if the group has one.
    pub(super) fn throttling_file(&self, root: &Root) -> Option<String> {
        let path = self.file("cpu", ["cpu.stat", "cpu.stat"])?;
        root.read(&path)?.contains("nr_throttled").then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_mount_is_cut_from_the_path() {
        let root = Root::tree(
            "== proc/self/cgroup\n0::/kube/pod1/c1\n== proc/self/mountinfo\n\
             30 20 0:26 /kube/pod1 /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n",
        );
        let dirs: Vec<String> = groups(&root).into_iter().map(|group| group.dir).collect();
        assert_eq!(dirs, ["sys/fs/cgroup/c1", "sys/fs/cgroup"]);
    }

    #[test]
    fn a_path_outside_the_mount_leaves_the_mount_itself() {
        for path in ["/../other", "/elsewhere"] {
            let root = Root::tree(&format!(
                "== proc/self/cgroup\n0::{path}\n== proc/self/mountinfo\n\
                 30 20 0:26 /a /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
            ));
            let dirs: Vec<String> = groups(&root).into_iter().map(|group| group.dir).collect();
            assert_eq!(dirs, ["sys/fs/cgroup"], "{path}");
        }
    }

    #[test]
    fn odd_names_are_names() {
        for name in ["my..job", "..x", "a job ", "a:b:c", "x\\x2dy.service", "größe", "a\tb", "..."]
        {
            let root = Root::tree("== proc/self/mountinfo\n30 20 0:26 / /cg rw - cgroup2 c rw\n")
                .with("proc/self/cgroup", &format!("0::/up/{name}\n"))
                .with(&format!("cg/up/{name}/cpu.max"), "150000 100000\n");
            let quota = groups(&root).iter().find_map(|group| group.quota(&root));
            assert_eq!(quota, Some(CpuQuota { quota_us: 150_000, period_us: 100_000 }), "{name}");
        }
    }

    /// A tree of version 2 with a process in `path`, run by root or as `facts` say; then `files`.
    fn second(path: &str, facts: &str, files: &str) -> Root {
        Root::tree(&format!(
            "== proc/self/cgroup\n0::{path}\n== proc/self/mountinfo\n\
             30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n\
             == facts.txt\n{facts}\n{files}"
        ))
    }

    fn not_writable<T>(path: &str) -> Result<T, NoPlace> {
        Err(NoPlace::NotWritable(path.to_owned()))
    }

    const DELEGATED: &str = "== sys/fs/cgroup/cgroup.subtree_control\ncpu memory pids\n\
        == sys/fs/cgroup/user/app/cgroup.subtree_control\nmemory pids\n\
        == sys/fs/cgroup/user/app/shell/cgroup.subtree_control\n\n";

    fn place(version: u32, parent: &str, home: &str) -> GroupPlace {
        GroupPlace { version, parent: parent.to_owned(), home: home.to_owned() }
    }

    #[test]
    fn a_delegated_group_of_version_2_gets_a_sibling() {
        let writable = "euid=1000\nwritable=sys/fs/cgroup/user/app\n\
            writable=sys/fs/cgroup/user/app/cgroup.procs\n\
            writable=sys/fs/cgroup/user/app/shell/cgroup.procs\n";
        let root = second("/user/app/shell", writable, DELEGATED);
        let expected = place(2, "sys/fs/cgroup/user/app", "sys/fs/cgroup/user/app/shell");
        assert_eq!(expected.limit_file(), "memory.max");
        assert_eq!(memory_place(&root), Ok(expected));
        // The common ancestor's list of processes is not ours: the kernel would refuse the move.
        let less = writable.replace("writable=sys/fs/cgroup/user/app/cgroup.procs\n", "");
        let root = second("/user/app/shell", &less, DELEGATED);
        assert_eq!(memory_place(&root), not_writable("sys/fs/cgroup/user/app/cgroup.procs"));
    }

    /// Recorded from Linux 6.1 in an emulated machine whose root group hands on memory: the process
    /// in a group with a limit, then in one below a group that hands on nothing. No kernel threads.
    #[test]
    fn recorded_groups_of_version_2_have_their_place_and_their_limit() {
        let recorded = [
            (include_str!("testdata/cgroup2-service"), "service"),
            (include_str!("testdata/cgroup2-session"), "slice/session"),
        ];
        for (tree, own) in recorded {
            let home = format!("sys/fs/cgroup/{own}");
            let root = Root::tree(&format!("{tree}== facts.txt\neuid=0\n"));
            assert_eq!(memory_place(&root), Ok(place(2, "sys/fs/cgroup", &home)), "{own}");
            assert_eq!(memory_place(&Root::tree(tree)), not_writable("sys/fs/cgroup"), "{own}");
            let limits: Vec<Option<u64>> =
                groups(&root).iter().map(|group| group.memory_limit(&root)).collect();
            let expected = if own == "service" { Some(256 << 20) } else { None };
            assert_eq!(limits.into_iter().flatten().next(), expected, "{own}");
        }
    }

    /// The tree that systemd (252) makes with its defaults: slices hand on memory and pids, a
    /// service or scope hands on nothing, and of a user's only what is below `user@.service` is the
    /// user's own.
    const SYSTEMD: &str = include_str!("testdata/cgroup2-systemd");

    #[test]
    fn systemd_s_slices_are_where_groups_are_made() {
        const OWN: &str = "user.slice/user-1000.slice/user@1000.service/app.slice";
        let root = "euid=0\n".to_owned();
        // In an ordinary session the scope and all above it are root's.
        let session = "euid=1000\n".to_owned();
        let desktop = format!(
            "euid=1000\nwritable=sys/fs/cgroup/{OWN}\nwritable=sys/fs/cgroup/{OWN}/cgroup.procs\n\
             writable=sys/fs/cgroup/{OWN}/shell.scope/cgroup.procs\n"
        );
        let shell = format!("{OWN}/shell.scope");
        for (path, facts, parent) in [
            ("system.slice/plumb.service", &root, Some("system.slice")),
            ("user.slice/user-0.slice/session-1.scope", &root, Some("user.slice/user-0.slice")),
            ("user.slice/user-1000.slice/session-2.scope", &session, None),
            (&*shell, &desktop, Some(OWN)),
        ] {
            let found = memory_place(&second(&format!("/{path}"), facts, SYSTEMD));
            let below = |path: &str| format!("sys/fs/cgroup/{path}");
            match parent {
                Some(parent) => assert_eq!(found, Ok(place(2, &below(parent), &below(path)))),
                None => assert_eq!(found, not_writable(&below("user.slice/user-1000.slice"))),
            }
        }
    }

    #[test]
    fn root_goes_up_to_the_nearest_group_that_hands_memory_on() {
        // The hierarchy's root may hold processes and groups with limits.
        for (path, home) in [("/system/deep/leaf", "/system/deep/leaf"), ("/", "")] {
            let expected = place(2, "sys/fs/cgroup", &format!("sys/fs/cgroup{home}"));
            assert_eq!(memory_place(&second(path, "euid=0", DELEGATED)), Ok(expected));
        }
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_has_no_place() {
        let root = second("/", "euid=0", "== sys/fs/cgroup/cgroup.subtree_control\n\n");
        let own = NoPlace::NotHandedOn("sys/fs/cgroup".to_owned());
        assert_eq!(memory_place(&root), Err(own));
        assert_eq!(memory_place(&Root::tree("")), Err(NoPlace::NoHierarchy));
    }

    #[test]
    fn version_1_has_a_child_of_the_own_group_also_beside_version_2() {
        let tree = "== proc/self/cgroup\n4:memory:/here\n0::/\n== proc/self/mountinfo\n\
            1 2 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n1 2 0:2 / /cg/unified rw - cgroup2 c rw\n";
        let root = Root::tree(&format!("{tree}== facts.txt\neuid=0\n"));
        let expected = place(1, "cg/memory/here", "cg/memory/here");
        assert_eq!(memory_place(&root), Ok(expected.clone()));
        assert_eq!(expected.limit_file(), "memory.limit_in_bytes");
        assert_eq!(memory_place(&Root::tree(tree)), not_writable("cg/memory/here"));
    }

    #[test]
    fn files_in_memory_are_counted_with_those_of_the_groups_below() {
        let first = "cache 4096\nrss 9\ntotal_cache 8192\ntotal_rss 9\n";
        assert_eq!(cached_bytes(first), Some(8192));
        let second = "anon 5\nfile 12288\nfile_mapped 7\n";
        assert_eq!(cached_bytes(second), Some(12288));
        assert_eq!(cached_bytes("file_mapped 7\n"), None);
    }
}

//! Whether the kernel's OOM killer ended a process, and under which limit: by counters taken before
//! and after, since the log of the kernel is seldom readable.

use super::{Outside, Root, cgroup, text};
use record::quantity::render;
use record::unit::Unit;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kills {
    /// Groups of this process that count, innermost first.
    groups: Vec<GroupKills>,
    machine: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct GroupKills {
    /// Its directory, from the root of the file system.
    directory: String,
    killed: u64,
    /// How often its limit stood in the way.
    at_limit: u64,
    /// Its limit in bytes now.
    limit: Option<u64>,
    limit_file: &'static str,
}

impl Kills {
    pub fn now() -> Kills {
        Kills::read(&Root::live(Outside::default()))
    }

    fn read(root: &Root) -> Kills {
        let groups = cgroup::groups(root);
        let groups = groups.iter().filter_map(|group| {
            let (killed, at_limit) = group.memory_kills(root)?;
            Some(GroupKills {
                directory: format!("/{}", group.dir),
                killed,
                at_limit,
                limit: group.memory_limit(root),
                limit_file: cgroup::limit_file(group.version),
            })
        });
        let counters = root.read("proc/vmstat").unwrap_or_default();
        Kills { groups: groups.collect(), machine: text::number(&counters, "oom_kill ") }
    }

    /// Why a process of this one's groups was killed between `self` and `later`, with the way out;
    /// `None` if the OOM killer killed none.
    pub fn reason(&self, later: &Kills) -> Option<String> {
        let Some(own) = later.groups.first() else {
            // No counter counts for this process alone.
            return (later.machine? > self.machine?).then(|| {
                "killed by the OOM killer: the machine had no memory left, or a control group that \
                 cannot be seen from here; free some, or set smaller sizes"
                    .to_owned()
            });
        };
        let before = |group: &GroupKills| {
            let same = |have: &&GroupKills| have.directory == group.directory;
            self.groups.iter().find(same)
        };
        if own.killed <= before(own)?.killed {
            return None;
        }
        let full = later.groups.iter().find_map(|group| {
            let stood = group.at_limit > before(group)?.at_limit;
            Some((group, group.limit?)).filter(|_| stood)
        });
        Some(match full {
            Some((group, limit)) => format!(
                "killed by the OOM killer: the control group {} is limited to {} ({}); raise that, \
                 run in another group, or set smaller sizes",
                group.directory,
                render(limit as f64, Unit::B),
                group.limit_file
            ),
            None => "killed by the OOM killer: the machine had no memory left; free some, or set \
                     smaller sizes"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Kills;
    use crate::Root;

    /// A process in /a/b of the version 1 hierarchy, where /a has a limit.
    fn version_1(killed: u64, failures: [u64; 2], machine: u64) -> Kills {
        let [inner, outer] = failures;
        Kills::read(&Root::tree(&format!(
            "== proc/self/cgroup\n4:memory:/a/b\n0::/\n\
             == proc/self/mountinfo\n2 2 0:2 / /cg rw - cgroup c rw,memory\n\
             == proc/vmstat\nnr_free_pages 7\noom_kill {machine}\n\
             == cg/a/b/memory.oom_control\noom_kill_disable 0\nunder_oom 0\noom_kill {killed}\n\
             == cg/a/b/memory.failcnt\n{inner}\n\
             == cg/a/b/memory.limit_in_bytes\n9223372036854771712\n\
             == cg/a/memory.oom_control\noom_kill_disable 0\nunder_oom 0\noom_kill 3\n\
             == cg/a/memory.failcnt\n{outer}\n== cg/a/memory.limit_in_bytes\n268435456\n"
        )))
    }

    fn version_2(killed: u64, met: u64) -> Kills {
        Kills::read(&Root::tree(&format!(
            "== proc/self/cgroup\n0::/a\n\
             == proc/self/mountinfo\n2 2 0:2 / /cg rw - cgroup2 c rw\n\
             == cg/a/memory.events\nlow 0\nhigh 0\nmax 90\noom {met}\noom_kill {killed}\n\
             == cg/a/memory.max\n268435456\n"
        )))
    }

    #[test]
    fn the_group_whose_limit_stood_in_the_way_is_named() {
        let before = version_1(1, [0, 5], 10);
        let reason = before.reason(&version_1(2, [0, 9], 11)).expect("killed");
        for words in ["/cg/a is limited", "256 MiB", "memory.limit_in_bytes"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        let reason = version_2(0, 0).reason(&version_2(1, 1)).expect("killed");
        for words in ["/cg/a is limited", "256 MiB", "memory.max"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
    }

    #[test]
    fn another_groups_victim_is_no_reason() {
        assert_eq!(version_1(1, [0, 5], 10).reason(&version_1(1, [0, 9], 11)), None);
        assert_eq!(version_2(4, 7).reason(&version_2(4, 7)), None);
    }

    #[test]
    fn without_a_limit_met_it_was_the_machine() {
        let reason = version_1(1, [0, 5], 10).reason(&version_1(2, [0, 5], 11));
        assert!(!reason.expect("killed").contains("/cg/"));
    }

    #[test]
    fn where_no_group_is_seen_the_machine_counts() {
        let machine =
            |killed: u64| Kills::read(&Root::tree(&format!("== proc/vmstat\noom_kill {killed}\n")));
        assert_eq!(machine(4).reason(&machine(4)), None);
        assert!(machine(4).reason(&machine(5)).is_some());
        let nothing = Kills::read(&Root::tree(""));
        assert_eq!(nothing.reason(&nothing), None);
    }
}

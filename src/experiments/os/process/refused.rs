//! Why the kernel refused a process, and the way out.

use anyhow::{Error, anyhow};
use std::fs;
use std::io;

/// The kernel's limits on the number of processes, as far as they can be read.
#[derive(Debug, Default, PartialEq)]
struct Limits {
    /// RLIMIT_NPROC: processes and threads of the user.
    of_user: Option<u64>,
    /// Each control group with a limit: its directory, processes in it, and the limit.
    of_groups: Vec<(String, u64, u64)>,
}

/// An error of making a process, with its reason and the way out where it was a limit or a sandbox.
pub(super) fn told(error: io::Error) -> Error {
    match error.raw_os_error() {
        // EAGAIN
        Some(11) => {
            let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
            let limits = Limits {
                of_user: of_user(&limits),
                of_groups: groups(&membership, |path| fs::read_to_string(path).ok()),
            };
            anyhow!("no more processes may be made: {}", limits.reason()).context(error)
        }
        // ENOMEM
        Some(12) => anyhow!(
            "the kernel promises no more memory for a child of this size: a smaller \
             os.process.resident, or vm.overcommit_memory=1"
        )
        .context(error),
        // ENOSYS
        Some(38) => {
            anyhow!("the kernel or a sandbox (seccomp) does not offer the call").context(error)
        }
        _ => error.into(),
    }
}

impl Limits {
    /// What bounds the number, the tightest first.
    fn reason(&self) -> String {
        let full = self.of_groups.iter().find(|(_, has, most)| has >= most);
        if let Some((directory, has, most)) = full {
            return format!(
                "the control group {directory} has {has} of the {most} that its pids.max allows; \
                 raise pids.max, or run in another group"
            );
        }
        match self.of_user {
            Some(most) => format!(
                "this user may have {most} processes and threads (RLIMIT_NPROC); end some, or raise \
                 the limit with `ulimit -u`"
            ),
            None => "neither RLIMIT_NPROC (`ulimit -u`) nor a pids.max that is reached was found; \
                     kernel.pid_max and kernel.threads-max bound all users together"
                .to_owned(),
        }
    }
}

/// The soft limit of /proc/self/limits; `None` where it is unlimited.
fn of_user(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The limits of this process's control groups and of those around them, innermost first, as
/// /proc/self/cgroup names the groups and the usual mount points show them.
fn groups(membership: &str, read: impl Fn(&str) -> Option<String>) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mount = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "pids") => "/sys/fs/cgroup/pids",
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            let directory = format!("{mount}{path}");
            let number = |name: &str| read(&format!("{directory}/{name}"))?.trim().parse().ok();
            if let (Some(has), Some(most)) = (number("pids.current"), number("pids.max")) {
                found.push((directory, has, most));
            }
            let Some(end) = path.rfind('/') else { break };
            path = &path[..end];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Limits, groups, of_user, told};
    use std::io;

    #[test]
    fn the_soft_limit_of_the_user_is_read() {
        let text =
            |soft| format!("Max processes             {soft}                96365  processes\n");
        assert_eq!(of_user(&text("17")), Some(17));
        assert_eq!(of_user(&text("unlimited")), None);
        assert_eq!(of_user("Max open files 1 2 files\n"), None);
    }

    #[test]
    fn a_full_group_is_named_before_the_limit_of_the_user() {
        let read = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/pids/a/b/pids.current" => "3\n",
                "/sys/fs/cgroup/pids/a/b/pids.max" => "max\n",
                "/sys/fs/cgroup/pids/a/pids.current" => "20\n",
                "/sys/fs/cgroup/pids/a/pids.max" => "20\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let of_groups = groups("8:pids:/a/b\n4:memory:/a\n0::/\n", read);
        assert_eq!(of_groups, [("/sys/fs/cgroup/pids/a".to_owned(), 20, 20)]);
        let limits = Limits {
            of_user: Some(5),
            of_groups,
        };
        assert!(limits.reason().contains("pids.max"), "{}", limits.reason());
        let unified = groups("0::/a\n", |path| {
            Some(
                if path == "/sys/fs/cgroup/a/pids.max" || path == "/sys/fs/cgroup/a/pids.current" {
                    "7".to_owned()
                } else {
                    return None;
                },
            )
        });
        assert_eq!(unified, [("/sys/fs/cgroup/a".to_owned(), 7, 7)]);
        let room = Limits {
            of_user: Some(5),
            of_groups: vec![("/sys/fs/cgroup/a".to_owned(), 6, 7)],
        };
        assert!(room.reason().contains("`ulimit -u`"), "{}", room.reason());
    }

    #[test]
    fn a_refusal_keeps_the_kernels_word() {
        let chain = |number| format!("{:#}", told(io::Error::from_raw_os_error(number)));
        assert!(
            chain(11).contains("no more processes may be made"),
            "{}",
            chain(11)
        );
        assert!(chain(11).contains("os error 11"), "{}", chain(11));
        assert!(chain(12).contains("overcommit"), "{}", chain(12));
        assert!(chain(38).contains("seccomp"), "{}", chain(38));
        assert_eq!(told(io::Error::other("odd")).to_string(), "odd");
    }
}

//! Why the kernel refused a process or a thread, and the way out.

use anyhow::Error;
use std::io;

use super::limits::rlimit;
use super::{Outside, Root, cgroup};

/// Number of the error where there is no such system call.
const ENOSYS: i32 = 38;

/// What bounds the number of processes and threads, as far as it can be read.
#[derive(Debug, Default, PartialEq)]
struct Limits {
    /// RLIMIT_NPROC, soft: processes and threads of the user.
    of_user: Option<u64>,
    /// Each control group with a limit, innermost first: its directory, what is in it, the limit.
    of_groups: Vec<(String, u64, u64)>,
    /// Threads of the whole system, and kernel.threads-max.
    of_all: Option<(u64, u64)>,
}

/// An error of making a process or a thread, with its reason and the way out where it was a limit
/// or a sandbox; any other error as it is.
///
/// Reads files: for errors alone, never inside a timed window.
pub fn explained(error: impl Into<Error>) -> Error {
    let error = error.into();
    let reason = match refusal(&error) {
        Some(Refusal::Number) => format!(
            "no more processes or threads may be made: {}",
            Limits::read(&Root::live(Outside::default())).reason()
        ),
        Some(Refusal::Memory) => {
            "the kernel does not commit memory for a child or a stack of this size: use less \
                     memory in the process, raise the limit on its address space (`ulimit -v`), or \
                     set vm.overcommit_memory=1"
                .to_owned()
        }
        Some(Refusal::Call) => {
            "the kernel or a sandbox (seccomp) does not offer the call".to_owned()
        }
        None => return error,
    };
    error.context(reason)
}

/// Whether the error says that there may be no more processes, threads, or memory for them.
pub fn is_limit(error: &Error) -> bool {
    matches!(refusal(error), Some(Refusal::Number | Refusal::Memory))
}

/// An error in words, with the limit and the way out where that is one of files.
pub fn text(error: &Error) -> String {
    let text = format!("{error:#}");
    match FILES.iter().find(|(number, _)| text.contains(number)) {
        Some((_, way_out)) if !text.contains(way_out) => format!("{text}: {way_out}"),
        _ => text,
    }
}

/// How errors of the limits on files end (EMFILE, ENFILE, EFBIG), and the way out.
const FILES: [(&str, &str); 3] = [
    ("(os error 24)", "the process may not open more files; raise its limit with `ulimit -n`"),
    ("(os error 23)", "the system may not open more files; raise its limit, sysctl fs.file-max"),
    ("(os error 27)", "the process may not write larger files; raise its limit with `ulimit -f`"),
];

enum Refusal {
    Number,
    Memory,
    /// ENOSYS: the call at all.
    Call,
}

/// By the kind, which an error keeps that was made anew to say more than its number.
fn refusal(error: &Error) -> Option<Refusal> {
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::WouldBlock => Some(Refusal::Number),
        io::ErrorKind::OutOfMemory => Some(Refusal::Memory),
        _ => (error.raw_os_error() == Some(ENOSYS)).then_some(Refusal::Call),
    }
}

impl Limits {
    fn read(root: &Root) -> Limits {
        let own = root.read("proc/self/limits").unwrap_or_default();
        // `0.20 0.18 0.12 1/80 11206`: runnable threads of all threads.
        let load = root.line("proc/loadavg").unwrap_or_default();
        let threads =
            load.split_whitespace().nth(3).and_then(|field| field.split_once('/')?.1.parse().ok());
        Limits {
            of_user: rlimit(&own, "Max processes").and_then(|limit| limit.soft),
            of_groups: cgroup::groups(root)
                .iter()
                .filter_map(|group| {
                    let (has, most) = group.processes(root)?;
                    Some((format!("/{}", group.dir), has, most))
                })
                .collect(),
            of_all: threads.zip(root.number("proc/sys/kernel/threads-max")),
        }
    }

    /// What bounds the number: a group that is full, else all that may have been it, because what
    /// filled a limit may have ended by now.
    fn reason(&self) -> String {
        let full = self.of_groups.iter().find(|(_, has, most)| has >= most);
        if let Some((directory, has, most)) = full {
            return format!(
                "the control group {directory} has {has} of the {most} that its pids.max allows; \
                 raise pids.max, or run in another group"
            );
        }
        let of_user = self.of_user.map(|most| {
            format!(
                "this user may have {most} processes and threads (RLIMIT_NPROC, from which root is \
                 exempt); end some, or raise the limit with `ulimit -u`"
            )
        });
        let of_groups = self.of_groups.iter().map(|(directory, has, most)| {
            format!("the control group {directory} may have {most} (pids.max), and has {has} now")
        });
        let of_all = self.of_all.map(|(has, most)| {
            format!("the system may have {most} threads (kernel.threads-max), and has {has} now")
        });
        let memory = "memory for a stack may be at its limit (`ulimit -v`, memory.max)".to_owned();
        let all: Vec<String> =
            of_user.into_iter().chain(of_groups).chain(of_all).chain([memory]).collect();
        all.join("; or ")
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, explained, is_limit, text};
    use crate::Root;
    use anyhow::Context;
    use std::io;

    /// A process in group /a/b of the version 1 hierarchy, where /a has a limit.
    fn tree(soft: &str, has: u64) -> Root {
        Root::tree(&format!(
            "== proc/self/cgroup\n8:pids:/a/b\n4:memory:/a\n0::/\n\
             == proc/self/mountinfo\n1 2 0:1 / /cg/pids rw - cgroup c rw,pids\n\
             2 2 0:2 / /cg/memory rw - cgroup c rw,memory\n\
             == proc/self/limits\nMax processes             {soft}                96365  processes\n\
             == proc/loadavg\n0.20 0.18 0.12 1/80 11206\n== proc/sys/kernel/threads-max\n9000\n\
             == cg/pids/a/b/pids.current\n3\n== cg/pids/a/b/pids.max\nmax\n\
             == cg/pids/a/pids.current\n{has}\n== cg/pids/a/pids.max\n20\n"
        ))
    }

    #[test]
    fn a_full_group_alone_is_the_reason() {
        let limits = Limits::read(&tree("17", 20));
        let of_groups = vec![("/cg/pids/a".to_owned(), 20, 20)];
        assert_eq!(limits, Limits { of_user: Some(17), of_groups, of_all: Some((80, 9000)) });
        let reason = limits.reason();
        assert!(reason.contains("/cg/pids/a") && reason.contains("20"), "{reason}");
        assert!(!reason.contains("ulimit"), "{reason}");
    }

    #[test]
    fn without_a_full_group_every_limit_is_named() {
        let reason = Limits::read(&tree("17", 19)).reason();
        for words in [
            "this user may have 17 processes",
            "`ulimit -u`",
            "/cg/pids/a may have 20 (pids.max)",
            "9000 threads (kernel.threads-max)",
            "`ulimit -v`",
        ] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        let reason = Limits::read(&tree("unlimited", 19)).reason();
        assert!(!reason.contains("this user"), "{reason}");
        assert!(Limits::read(&Root::tree("")).reason().contains("memory for a stack"));
    }

    #[test]
    fn the_unified_hierarchy_is_read_too() {
        let root = Root::tree(
            "== proc/self/cgroup\n0::/a\n== proc/self/mountinfo\n1 2 0:1 / /cg rw - cgroup2 c rw\n\
             == cg/a/pids.current\n7\n== cg/a/pids.max\n7\n",
        );
        assert_eq!(Limits::read(&root).of_groups, [("/cg/a".to_owned(), 7, 7)]);
    }

    #[test]
    fn too_many_open_files_name_the_limit_once() {
        for (number, way_out) in [(24, "ulimit -n"), (23, "fs.file-max")] {
            let error = anyhow::Error::from(io::Error::from_raw_os_error(number)).context("a pipe");
            let said = text(&error);
            assert!(said.starts_with("a pipe: ") && said.contains(way_out), "{said}");
            assert_eq!(text(&anyhow::anyhow!(said.clone())), said);
        }
    }

    #[test]
    fn a_refusal_keeps_the_kernels_word() {
        let chain = |number| format!("{:#}", explained(io::Error::from_raw_os_error(number)));
        for (number, words) in [
            (11, ["may be made", "os error 11"]),
            (12, ["overcommit", "os error 12"]),
            (38, ["seccomp", "os error 38"]),
        ] {
            let chain = chain(number);
            assert!(words.iter().all(|word| chain.contains(word)), "{chain}");
        }
        assert_eq!(format!("{:#}", explained(io::Error::other("odd"))), "odd");
        assert_eq!(format!("{:#}", explained(anyhow::anyhow!("another"))), "another");
        let wrapped = io::Error::new(io::ErrorKind::WouldBlock, "thread 7 of 10 at once");
        let chain = format!("{:#}", explained(wrapped));
        assert!(chain.contains("may be made") && chain.contains("7 of 10"), "{chain}");
        // What was said of the error before stands.
        let context = Err::<(), _>(io::Error::from_raw_os_error(11)).context("a party");
        let error = context.map_err(explained).expect_err("is an error");
        assert!(is_limit(&error));
        let chain = format!("{error:#}");
        assert!(chain.contains("may be made"), "{chain}");
        assert!(chain.contains("a party"), "{chain}");
    }
}

//! Children that run a closure of their parent's, and end with it.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::{die_with_parent, one_process};
use crate::answer::number;
use crate::signal;

/// Exit status of a child whose body panicked.
const PANICKED: i32 = 101;
/// Exit status of a child whose parent had ended before it ran.
const ORPHANED: i32 = 102;

/// A child process. Dropping one that has not been reaped kills and reaps it, so that none is left
/// behind, whichever way the parent goes on; where the parent is killed, so is the child.
#[derive(Debug)]
pub struct Child {
    /// 0 once it is reaped.
    pid: libc::pid_t,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Killed(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(status) => write!(out, "with status {status}"),
            Ending::Killed(signal) => write!(out, "by signal {signal}"),
        }
    }
}

impl Child {
    /// Makes a child by fork(2) that runs `body` and exits with the status that it returns, without
    /// the parent's exit handlers and buffers. It has the parent's memory as it was, its CPU set
    /// and its priority, takes signals again, and is killed when the calling thread ends.
    ///
    /// The body should make raw system calls and touch memory that is there: in a process with
    /// several threads, locks that others held stay locked in the child. Errors: those of fork(2):
    /// the limits on processes (RLIMIT_NPROC, the cgroup's pids.max) are reached, or memory is
    /// short.
    pub fn fork(body: impl FnOnce() -> i32) -> io::Result<Child> {
        let parent = crate::raw::getpid();
        // SAFETY: the child is this thread alone, on a copy of the memory. It runs `body`, which is
        // safe code, and leaves by `_exit`, so nothing of the parent's is run or dropped twice.
        match number(unsafe { libc::fork() })? {
            0 => {
                let run = || match die_with_parent(parent).and_then(|()| signal::unblock_all()) {
                    Ok(()) => body(),
                    Err(_) => ORPHANED,
                };
                let status = catch_unwind(AssertUnwindSafe(run)).unwrap_or(PANICKED);
                // SAFETY: ends this process.
                unsafe { libc::_exit(status) }
            }
            pid => Ok(Child { pid }),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Waits for its end and reaps it. Errors: those of waitpid(2).
    pub fn wait(mut self) -> io::Result<Ending> {
        let pid = std::mem::take(&mut self.pid);
        reap(pid)
    }

    /// Kills it, and reaps it if it ends within `grace`. One that does not waits in the kernel,
    /// uninterruptible, and is left behind: whoever adopts it once this process has ended reaps it.
    pub fn end_within(mut self, grace: Duration) {
        let pid = std::mem::take(&mut self.pid);
        // SAFETY: plain values; the child is not reaped, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let deadline = Instant::now() + grace;
        // SAFETY: asks for no status.
        while unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) } == 0
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end and demands the exit status 0. Errors: it ended otherwise; those of
    /// waitpid(2).
    pub fn succeed(mut self) -> io::Result<()> {
        let pid = std::mem::take(&mut self.pid);
        succeed(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(pid) = one_process(self.pid.unsigned_abs()) {
            // The child is not reaped, so the number is still its own.
            let _ = kill_process(pid, Signal::KILL);
            let _ = reap(self.pid);
        }
    }
}

/// Reaps a child and demands the exit status 0.
pub(super) fn succeed(pid: libc::pid_t) -> io::Result<()> {
    match reap(pid)? {
        Ending::Exited(0) => Ok(()),
        Ending::Exited(PANICKED) => Err(io::Error::other(format!("the child {pid} panicked"))),
        ending => Err(io::Error::other(format!("the child {pid} ended {ending}"))),
    }
}

pub(crate) fn reap(pid: libc::pid_t) -> io::Result<Ending> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    while let Err(error) = number(unsafe { libc::waitpid(pid, &mut status, 0) }) {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFEXITED(status) {
        Ending::Exited(libc::WEXITSTATUS(status))
    } else {
        Ending::Killed(libc::WTERMSIG(status))
    })
}

#[cfg(test)]
mod tests {
    use super::{Child, Ending};
    use crate::memory::SharedWords;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_child_runs_its_body_and_tells_its_status() {
        let words = SharedWords::new(2).expect("shared memory");
        let child = Child::fork(|| {
            words[1].store(u64::from(crate::raw::getpid()), Ordering::Release);
            7
        })
        .expect("forks");
        let pid = child.pid();
        assert_eq!(child.wait().expect("is reaped"), Ending::Exited(7));
        assert_eq!(words[1].load(Ordering::Acquire), u64::from(pid));
    }

    #[test]
    fn a_body_that_fails_or_panics_is_an_error() {
        Child::fork(|| 0).expect("forks").succeed().expect("status 0");
        let failed = Child::fork(|| 3).expect("forks").succeed();
        assert!(failed.expect_err("status 3").to_string().contains("with status 3"));
        // Not by `panic!`, whose lock another test's thread may hold in the moment of the fork.
        let panicked = Child::fork(|| std::panic::resume_unwind(Box::new(())));
        let error = panicked.expect("forks").succeed().expect_err("panics");
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let child = Child::fork(|| {
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        })
        .expect("forks");
        let pid = child.pid();
        crate::process::kill(pid, 0).expect("it lives");
        drop(child);
        crate::process::kill(pid, 0).expect_err("it is reaped");
    }
}

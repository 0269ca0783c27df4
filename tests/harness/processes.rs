//! Processes of other users, of workers and of what these made.

use super::prelude::*;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A user whom nothing else uses: its processes alone count for its limit.
pub struct Stranger {
    user: u32,
}

impl Stranger {
    /// `None` where this process may not act as another user; only root may, and root alone is
    /// exempt from the limit on processes.
    pub fn new() -> Option<Stranger> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Each test has its own, and each of several runs of the tests too.
        let number = 16 * std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        (metal::process::geteuid() == 0).then_some(Stranger { user: 60_000 + number % 5000 })
    }

    /// Runs the binary as this user, who may have so many processes and threads.
    pub fn plumb(&self, here: &Here, processes: u32, args: &(impl Args + ?Sized)) -> Answer {
        // The binary's own directory may be closed to others.
        let copy = here.path("plumb");
        // By another process: a child that another test makes meanwhile would hold this one's open
        // for writing, and what is written cannot be run.
        let copied = Command::new("cp").arg(PLUMB).arg(&copy).status();
        assert!(copied.unwrap().success());
        [here.path(""), copy.clone()].iter().for_each(|path| mode(path, 0o1777));
        let line = format!("ulimit -u {processes}; exec \"$0\" \"$@\"");
        let mut command = here.other("bash");
        // The other groups go with root: the standard library drops them.
        command.args(["-c", &line]).arg(copy).args(args.words()).uid(self.user).gid(self.user);
        answer(command.output().unwrap())
    }

    /// Waits until none of this user's processes is left, zombies included.
    pub fn has_gone(&self) {
        wait_for("the end of the user's processes", || {
            let left = processes(|pid| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
                let line = status.lines().find(|line| line.starts_with("Uid:"))?;
                Some(line.split_whitespace().nth(1)?.parse() == Ok(self.user))
            });
            left.is_empty().then_some(())
        });
    }
}

/// Waits until nothing is left in the session that a worker began, zombies included: all that it
/// made has ended and is reaped.
pub fn session_is_empty(worker: u32) {
    wait_for("the end of what a worker made", || {
        let left = processes(|pid| {
            // Fields after the name, which may hold anything: state, parent, group, session.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            Some(fields.split(' ').nth(3)?.parse() == Ok(worker))
        });
        left.is_empty().then_some(())
    });
}

fn processes(fits: impl Fn(u32) -> Option<bool>) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| fits(*pid) == Some(true))
        .collect()
}

/// Sends a signal, by the shell's own `kill`.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// The live workers of a session: they carry its process id as their argument. A zombie has none.
pub fn workers(session: u32) -> Vec<u32> {
    let line = format!("plumb\0worker\0{session}\0");
    processes(|pid| Some(fs::read(format!("/proc/{pid}/cmdline")).ok()? == line.as_bytes()))
}

pub fn wait_for_worker(session: u32) -> u32 {
    wait_for("a worker", || workers(session).first().copied())
}

/// Workers die with their session, but not in the same instant.
pub fn no_worker_stays(session: u32) {
    wait_for("the last worker's end", || workers(session).is_empty().then_some(()));
}

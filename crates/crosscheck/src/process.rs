//! A rival's process: started placed as plumb's workers are, waited for no longer than its limit,
//! and ended by its number with all that it started.

use super::Output;
use anyhow::{Context, Result, bail};
use host::place::Place;
use metal::process::{dying_with_parent, has_ended, in_new_session, kill, placed, reap_ended};
use record::order::Gather;
use record::plain::lines;
use session::node::Interrupted;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a process is asked whether it has ended: seldom enough that asking takes nothing away.
const ASKED_EVERY: Duration = Duration::from_millis(40);
/// What has been killed is waited for so long.
const DYING: Duration = Duration::from_secs(2);
/// One that runs may undo what it changed in this time.
const UNDOING: Duration = Duration::from_secs(1);
/// Text that is kept of what a program says, in bytes.
const SAID_MOST: u64 = 8 << 20;
/// A program that says more is ended, in bytes.
const TALK_MOST: u64 = 64 << 20;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
/// In the environment of all that a call starts: its own directory and name, then the place and the
/// number of its plumb.
const MARK: &str = "PLUMB_CROSSCHECK";

#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub program: &'a Path,
    pub args: &'a [String],
    pub environment: &'a [(&'static str, String)],
    /// CPUs that it is pinned to, at the priority of plumb's workers; as this process where it is
    /// empty.
    pub cpus: &'a [usize],
    /// Working directory, where its output is kept too.
    pub dir: &'a Path,
}

/// A process that runs; ended with all that it started when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    mark: OsString,
    /// Standard output and standard error.
    said: [PathBuf; 2],
}

impl Call<'_> {
    /// Starts it. Its output goes to files named after `name`, so that nothing of plumb reads while
    /// it runs.
    pub fn start(&self, name: &str) -> Result<Running> {
        let said = [".out", ".err"].map(|ending| self.dir.join(format!("{name}{ending}")));
        let [out, err] = said.each_ref().map(File::create);
        let told = || format!("{} cannot be started", self.program.display());
        let mut mark = self.dir.join(name).into_os_string();
        mark.push(format!(":{}.{}", Place::here(), std::process::id()));
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env(MARK, &mark)
            // Numbers are read as programs print them without a language.
            .env("LC_ALL", "C")
            // What it makes for itself is removed with the rest.
            .env("TMPDIR", self.dir)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.dir)
            .stdin(Stdio::null())
            .stdout(out.with_context(told)?)
            .stderr(err.with_context(told)?);
        dying_with_parent(in_new_session(&mut command));
        if !self.cpus.is_empty() {
            placed(&mut command, self.cpus.to_vec());
        }
        let child = command.spawn().with_context(told)?;
        Ok(Running { child, mark, said })
    }

    /// Runs it to its end; its exit status and what it said.
    ///
    /// # Errors
    /// It cannot be started; [`Endless`]: it took longer than `limit`, or talked without end, and
    /// was ended; something that it started could not be ended; [`Interrupted`].
    pub fn run(&self, limit: Duration, stop: &AtomicBool) -> Result<(ExitStatus, Output)> {
        let mut running = self.start("call")?;
        let waited = running.wait(limit, stop);
        let left = running.end();
        waited?;
        if let Some(pid) = left.first() {
            bail!("process {pid}, which it started, cannot be ended");
        }
        let status = running.child.wait()?;
        Ok((status, running.output()))
    }
}

/// A program did not end by itself.
#[derive(Debug, thiserror::Error)]
#[error("it {0} and was ended")]
pub(super) struct Endless(String);

impl Running {
    pub fn has_ended(&self) -> bool {
        has_ended(self.child.id()).unwrap_or(true)
    }

    fn wait(&mut self, limit: Duration, stop: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !has_ended(self.child.id())? {
            if stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            if Instant::now() > deadline {
                let limit = humantime::format_duration(limit);
                bail!(Endless(format!("did not end in {limit}")));
            }
            let length = |file: &PathBuf| fs::metadata(file).map_or(0, |facts| facts.len());
            if self.said.iter().any(|file| length(file) > TALK_MOST) {
                bail!(Endless("talked without end".to_owned()));
            }
            std::thread::sleep(ASKED_EVERY);
        }
        Ok(())
    }

    pub fn output(&self) -> Output {
        let [stdout, stderr] = self.said.each_ref().map(|file| text(file));
        Output { stdout, stderr, answer: String::new() }
    }

    /// Ends it and all that came of it, by their numbers: descendants, and those that lost their
    /// parent and are this process's own children since (`adopt_orphans`). One that runs may first
    /// end by itself, and undo what it changed, as after Ctrl-C. Those that cannot be ended.
    pub fn end(&mut self) -> Vec<u32> {
        let own = self.child.id();
        if !self.has_ended() {
            let _ = kill(own, SIGINT);
            let deadline = Instant::now() + UNDOING;
            while !self.has_ended() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = kill(own, SIGKILL);
        }
        let deadline = Instant::now() + DYING;
        loop {
            let mut all = processes();
            let here = std::process::id();
            for orphan in all.iter_mut().filter(|one| one.parent == here) {
                if orphan.pid != own && is_marked(orphan.pid, &self.mark) {
                    orphan.parent = own;
                }
            }
            let alive = family(own, &all);
            for one in &alive {
                // Its number may have become another's since.
                if of_pid(one.pid).is_some_and(|now| now.session == one.session) {
                    let _ = kill(one.pid, SIGKILL);
                }
            }
            for one in alive.iter().filter(|one| one.pid != own) {
                let _ = reap_ended(one.pid);
            }
            if alive.is_empty() || Instant::now() > deadline {
                return alive.iter().map(|one| one.pid).collect();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its own number is free only now that nothing is ended by it any more.
        if self.end().is_empty() {
            let _ = self.child.wait();
        }
        for file in &self.said {
            let _ = fs::remove_file(file);
        }
    }
}

/// Ends what a crosscheck that was killed has left running: what bears the mark of one whose plumb
/// is gone.
pub(super) fn end_strays() {
    let here = Place::here();
    for one in processes() {
        let environment = fs::read(format!("/proc/{}/environ", one.pid)).unwrap_or_default();
        let Some(owner) = owner(&environment, &here) else {
            continue;
        };
        if of_pid(owner).is_none() {
            let _ = kill(one.pid, SIGKILL);
        }
    }
}

/// The process number of the plumb whose crosscheck started a process, from its environment. `None`
/// for another place: its process numbers mean other processes.
fn owner(environment: &[u8], here: &Place) -> Option<u32> {
    let mut all = environment.split(|byte| *byte == 0);
    let mark = all.find_map(|one| one.strip_prefix(format!("{MARK}=").as_bytes()))?;
    let owner = std::str::from_utf8(mark.rsplit(|byte| *byte == b':').next()?).ok()?;
    owner.strip_prefix(&format!("{here}."))?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    session: u32,
    is_dead: bool,
}

/// The process `root`, its descendants, and those of its session, including unreaped dead ones,
/// `root` itself only while it lives.
fn family(root: u32, all: &[Process]) -> Vec<Process> {
    let mut found: BTreeSet<u32> = [root].gather();
    loop {
        let before = found.len();
        let of_it = |one: &&Process| found.contains(&one.parent) || found.contains(&one.session);
        let more: Vec<u32> = all.iter().filter(of_it).map(|one| one.pid).collect();
        found.extend(more);
        if found.len() == before {
            break;
        }
    }
    let lives = |one: &&Process| found.contains(&one.pid) && (one.pid != root || !one.is_dead);
    all.iter().filter(lives).copied().collect()
}

/// All processes; those that cannot be read have just ended.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(of_pid)
        .collect()
}

/// One process; `None` if this number does not exist.
fn of_pid(pid: u32) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process was started, by however many others between, by the call with this mark.
fn is_marked(pid: u32, mark: &OsStr) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marked = [format!("{MARK}=").as_bytes(), mark.as_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|one| one == marked)
}

/// One line of /proc/PID/stat: its second field is in brackets and may hold anything.
fn of_stat(line: &str) -> Option<Process> {
    let pid = line.split(' ').next()?.parse().ok()?;
    let mut rest = line.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    let _group = rest.next()?;
    let session = rest.next()?.parse().ok()?;
    Some(Process { pid, parent, session, is_dead: matches!(state, "Z" | "X") })
}

/// The beginning of a file as text, without what steers a terminal.
pub(super) fn text(file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        let _ = file.take(SAID_MOST).read_to_end(&mut bytes);
    }
    lines(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::{Place, Process, family, of_stat, owner};

    fn process(pid: u32, parent: u32, session: u32) -> Process {
        Process { pid, parent, session, is_dead: false }
    }

    #[test]
    fn a_family_is_what_came_of_one_whatever_its_session() {
        let dead = Process { is_dead: true, ..process(10, 5, 10) };
        let all = [
            process(5, 1, 5),
            process(10, 5, 10),
            process(11, 10, 10),
            // In a session of its own; a grandchild of it.
            process(12, 11, 12),
            process(13, 12, 13),
            // It has lost its parent, and kept the session.
            process(14, 1, 10),
            process(20, 5, 5),
        ];
        let pids =
            |all: &[Process]| -> Vec<u32> { family(10, all).iter().map(|one| one.pid).collect() };
        assert_eq!(pids(&all), [10, 11, 12, 13, 14]);
        let mut after = all;
        after[1] = dead;
        assert_eq!(pids(&after), [11, 12, 13, 14]);
        assert!(family(99, &all).is_empty());
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "42 (a) S 1 (b) R 7 42 9 0 -1 4194560 1 0";
        assert_eq!(of_stat(line), Some(process(42, 7, 9)));
        assert!(of_stat("42 (gone) Z 7 42 9 0").is_some_and(|one| one.is_dead));
        assert_eq!(of_stat("42 (cut"), None);
    }

    #[test]
    fn an_owner_stands_in_the_mark_and_is_of_this_place() {
        let here = Place::here();
        let with = |mark: &str| format!("A=1\0PLUMB_CROSSCHECK={mark}\0B=2").into_bytes();
        let owner = |mark: &str| owner(&with(mark), &here);
        assert_eq!(owner(&format!("/tmp/a:b/fio/call:{here}.77")), Some(77));
        let mut container = here.clone();
        container.processes = "1".to_owned();
        for mark in [
            format!("/tmp/scratch/fio/call:{container}.77"),
            format!("/tmp:{here}."),
            // An older plumb's.
            "/tmp/plumb-crosscheck-scratch-77/fio/call".to_owned(),
        ] {
            assert_eq!(owner(&mark), None, "{mark}");
        }
    }
}

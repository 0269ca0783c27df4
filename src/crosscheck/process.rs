//! A rival's process: started placed as plumb's workers are, waited for no longer than its limit, and ended
//! by its number with all that it started.

use super::Output;
use crate::session::child::Interrupted;
use anyhow::{Context, Result, bail};
use metal::process::{dying_with_parent, in_new_session, kill, placed, reap_ended};
use record::plain::lines;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a process is asked whether it has ended: seldom enough that asking takes nothing away.
const ASKED_EVERY: Duration = Duration::from_millis(40);
/// What has been killed is waited for so long.
const DYING: Duration = Duration::from_secs(2);
/// Text that is kept of what a program says, in bytes.
const SAID_MOST: u64 = 8 << 20;
/// A program that says more is ended, in bytes.
const TALK_MOST: u64 = 64 << 20;
const SIGKILL: i32 = 9;
/// In the environment of all that a call starts: its own directory and name.
const MARK: &str = "PLUMB_CROSSCHECK";

/// A program with all that it is started with.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    /// The program, found.
    pub program: &'a Path,
    /// Arguments.
    pub args: &'a [String],
    /// Added to its environment.
    pub environment: &'a [(&'static str, String)],
    /// CPUs that it is pinned to, at the priority of plumb's workers; as this process where it is empty.
    pub cpus: &'a [usize],
    /// Working directory, where its output is kept too.
    pub dir: &'a Path,
}

/// A process that runs; ended with all that it started when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    mark: String,
    /// Standard output and standard error.
    said: [PathBuf; 2],
}

impl Call<'_> {
    /// Starts it. Its output goes to files named after `name`, so that nothing of plumb reads while it runs.
    pub fn start(&self, name: &str) -> Result<Running> {
        let said = [".out", ".err"].map(|ending| self.dir.join(format!("{name}{ending}")));
        let [out, err] = said.each_ref().map(File::create);
        let told = || format!("{} cannot be started", self.program.display());
        let mark = self.dir.join(name).display().to_string();
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env(MARK, &mark)
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
    /// It cannot be started; it took longer than `limit`, or talked without end: then it was ended;
    /// [`Interrupted`].
    pub fn run(&self, limit: Duration, stop: &AtomicBool) -> Result<(ExitStatus, Output)> {
        let mut running = self.start("call")?;
        let status = running.wait(limit, stop)?;
        let output = running.output();
        drop(running);
        Ok((status, output))
    }
}

impl Running {
    /// Whether it has ended already, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn wait(&mut self, limit: Duration, stop: &AtomicBool) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            if Instant::now() > deadline {
                let limit = humantime::format_duration(limit);
                bail!("it did not end in {limit} and was ended");
            }
            let length = |file: &PathBuf| fs::metadata(file).map_or(0, |facts| facts.len());
            if self.said.iter().any(|file| length(file) > TALK_MOST) {
                bail!("it talked without end and was ended");
            }
            std::thread::sleep(ASKED_EVERY);
        }
    }

    /// What it has said so far.
    pub fn output(&self) -> Output {
        let [stdout, stderr] = self.said.each_ref().map(|file| text(file));
        Output {
            stdout,
            stderr,
            answer: String::new(),
        }
    }
}

impl Drop for Running {
    /// Ends it and all that came of it, by their numbers: descendants, and those that lost their parent and
    /// are this process's own children since (`adopt_orphans`).
    fn drop(&mut self) {
        let deadline = Instant::now() + DYING;
        let own = self.child.id();
        loop {
            let mut all = processes();
            let here = std::process::id();
            for orphan in all.iter_mut().filter(|one| one.parent == here) {
                if orphan.pid != own && is_marked(orphan.pid, &self.mark) {
                    orphan.parent = own;
                }
            }
            let alive: Vec<u32> = family(own, &all);
            for pid in &alive {
                let _ = kill(*pid, SIGKILL);
            }
            let _ = self.child.try_wait();
            for pid in alive.iter().filter(|pid| **pid != own) {
                let _ = reap_ended(*pid);
            }
            if alive.is_empty() || Instant::now() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for file in &self.said {
            let _ = fs::remove_file(file);
        }
    }
}

/// One of the processes that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    session: u32,
    is_dead: bool,
}

/// The process `root`, its descendants, and those of its session, dead ones that nobody reaped included,
/// `root` itself only while it lives.
fn family(root: u32, all: &[Process]) -> Vec<u32> {
    let mut found: BTreeSet<u32> = BTreeSet::from([root]);
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|one| found.contains(&one.parent) || found.contains(&one.session))
            .map(|one| one.pid)
            .filter(|pid| !found.contains(pid))
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    let lives = |pid: &u32| {
        let mut own = all.iter().filter(|one| one.pid == *pid);
        own.any(|one| *pid != root || !one.is_dead)
    };
    found.into_iter().filter(lives).collect()
}

/// All processes; those that cannot be read have just ended.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| of_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Whether a process was started, by however many others between, by the call with this mark.
fn is_marked(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marked = format!("{MARK}={mark}");
    environment
        .split(|byte| *byte == 0)
        .any(|one| one == marked.as_bytes())
}

/// One line of /proc/PID/stat: its second field is in brackets and may hold anything.
fn of_stat(line: &str) -> Option<Process> {
    let pid = line.split(' ').next()?.parse().ok()?;
    let mut rest = line.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    let _group = rest.next()?;
    let session = rest.next()?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
        is_dead: matches!(state, "Z" | "X"),
    })
}

/// The beginning of a file as text, without what steers a terminal.
fn text(file: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(file) {
        let _ = file.take(SAID_MOST).read_to_end(&mut bytes);
    }
    lines(&String::from_utf8_lossy(&bytes))
}

/// An answer that a program left in a file.
pub(super) fn answer(file: &Path) -> String {
    text(file)
}

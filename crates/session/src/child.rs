//! A worker as the session sees it: a child in a session and process group of its own that gets
//! one order.

use crate::FarWorker;
use anyhow::{Context, Error, Result, anyhow, ensure};
use bench::link::frame::{receive, send};
use bench::link::{FromWorker, ToWorker};
use bench::measure::unwritten;
use host::block::line_of;
use host::oom::Kills;
use host::refused;
use metal::wait::{Want, any_unless};
use record::key::CaseId;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A killed child that is not reaped in this time is abandoned: it hangs in the kernel.
const REAP_TIME: Duration = Duration::from_secs(2);
/// In the last part of its time one that is silent is looked at: a slow disk does not hang.
const LAST_CHANCE: Duration = Duration::from_secs(8);
/// A worker without any other sign for so many times its time hangs, whatever its disk does for
/// others; unless that writes what was waiting to be written, which comes to an end.
const PATIENCE: u32 = 5;
/// So much less must wait to be written, in bytes.
const WRITTEN_LEAST: u64 = 1 << 20;
/// Text kept of a dying worker's last words.
const LAST_WORDS_MAX: u64 = 4096;

/// Number of the signal that the OOM killer sends.
const SIGKILL: i32 = 9;

/// Signals whose handlers set the session's flag. The session has one thread, so that they come to
/// the one that waits.
pub const STOPPING: [i32; 3] = {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    [SIGINT, SIGTERM, SIGHUP]
};

/// A signal asked the session to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Waits for `whom` until one of some is ready, or until then: which of them are. Errors:
/// [`Interrupted`]; what poll(2) reports.
pub fn wait(
    whom: &str,
    wants: &[Want<'_>],
    until: Option<Instant>,
    stop: &AtomicBool,
) -> Result<Vec<bool>> {
    let stopped = || stop.load(Ordering::Relaxed);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match any_unless(wants, left, &STOPPING, stopped) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                ensure!(!stopped(), Interrupted);
            }
            ready => return ready.with_context(|| format!("cannot wait for {whom}")),
        }
    }
}

/// How a child ended; none where it has not in this time, or cannot be waited for.
pub fn ended_within(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

/// A worker said nothing by the deadline.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Silent(pub String);

/// The kernel's OOM killer ended the worker.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct OutOfMemory {
    /// Why and under which limit, with the way out.
    reason: String,
    /// Cases that the memory was for; none where the worker did not say.
    pub cases: Vec<CaseId>,
}

/// A worker process. Dropping it kills its whole group.
pub struct Worker {
    child: Child,
    /// Counts of the OOM killer before it was started.
    kills: Kills,
    /// Cases that it takes memory for.
    takes_memory_for: Vec<CaseId>,
    started: Instant,
    /// What it may hang in, once it said so.
    files: Files,
    /// It was killed and not reaped: it waits in the kernel and is left behind.
    is_stuck: bool,
}

/// The files that a worker touches.
#[derive(Default)]
struct Files {
    dir: Option<PathBuf>,
    /// The block device below, by its number.
    device: Option<String>,
    /// How long it may be silent.
    silence: Duration,
    /// The case whose files it touches.
    case: Option<CaseId>,
    /// When it is to be looked at, once they may hang.
    until: Option<Instant>,
    /// When it last said something, read or wrote.
    last_activity: Option<Instant>,
    /// The least that waited to be written since.
    unwritten: Option<u64>,
}

/// What the kernel reports about a silent worker: it differs while that gets on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Moved {
    /// What it read and wrote.
    process_io: String,
    /// What its device has done, for whomever; `None` where it has none.
    device: Option<Vec<String>>,
    /// Bytes that wait to be written, of all file systems.
    unwritten: Option<u64>,
}

/// A worker gave no sign in time after it had said that its files may hang.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Hung {
    /// Where, for how long, and whether it could be ended.
    pub reason: String,
    /// Its case; none where it had not come to one, or makes files.
    pub case: Option<CaseId>,
    /// It cannot be killed: it waits in the kernel for what does not answer.
    pub is_stuck: bool,
}

impl Worker {
    /// Starts a worker: this same binary. Errors: it could not be started.
    pub fn start() -> Result<Self> {
        let kills = Kills::now();
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("plumb")
            .arg("worker")
            .arg(std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = metal::process::in_new_session(&mut command)
            .spawn()
            .map_err(refused::explained)
            .context("cannot start a worker from /proc/self/exe")?;
        Ok(Worker {
            child,
            kills,
            takes_memory_for: Vec::new(),
            started: Instant::now(),
            files: Files::default(),
            is_stuck: false,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// States where its files are, on which block device (`major:minor`), and how long it may be
    /// silent once it said that they may hang.
    pub fn has_files(&mut self, dir: Option<PathBuf>, device: Option<String>, silence: Duration) {
        self.files = Files { dir, device, silence, ..Files::default() };
    }

    /// From now on its files may hang, also before it says so.
    pub fn may_hang(&mut self) {
        self.note_activity();
        self.wait_on();
    }

    /// What the kernel counts now. (Of one that waits for a sync, nothing moves but the device.)
    fn moved(&self) -> Moved {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let device = self.files.device.as_ref();
        Moved {
            process_io: read(&format!("/proc/{}/io", self.child.id())),
            device: device.and_then(|number| completed(&read("/proc/diskstats"), number)),
            unwritten: unwritten(&read("/proc/meminfo")),
        }
    }

    /// Its time is nearly over: unless it still says something, or reads or writes, it hangs.
    fn last_chance(&mut self, stop: &AtomicBool) -> Result<Option<FromWorker>> {
        let before = self.moved();
        let message = self.receive(Instant::now() + LAST_CHANCE, stop)?;
        if message.is_none() && self.is_stopped() {
            return Err(self.late());
        }
        if message.is_none() {
            let now = self.moved();
            let silent = self.files.last_activity.map_or(Duration::ZERO, |at| at.elapsed());
            if now.process_io != before.process_io {
                self.note_activity();
            } else if self.files.gets_on(&before, &now, silent) {
                self.wait_on();
            } else {
                return Err(self.hung(silent).into());
            }
        }
        Ok(message)
    }

    /// Ends one that did not answer. What waits in the kernel after that waits for its files.
    fn late(&mut self) -> Error {
        let was = if self.is_stopped() { " (it was stopped by a signal)" } else { "" };
        self.kill_group();
        self.reap();
        if self.is_stuck && self.files.dir.is_some() {
            return self.hung(self.started.elapsed()).into();
        }
        Silent(format!("the worker did not answer in time{was} and was killed")).into()
    }

    /// Whether a signal stopped it: then it does not wait for its files.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        // After the name, which may hold anything.
        stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, of)| of.starts_with('T')))
    }

    /// It said something, or read, or wrote: its time begins anew, if its files may hang.
    fn note_activity(&mut self) {
        self.files.last_activity = Some(Instant::now());
        self.files.unwritten = None;
        if self.files.until.is_some() {
            self.wait_on();
        }
    }

    fn wait_on(&mut self) {
        let look = self.files.silence.saturating_sub(LAST_CHANCE);
        self.files.until = Some(Instant::now() + look);
    }

    /// Ends it for its silence: what to say of it.
    fn hung(&mut self, silence: Duration) -> Hung {
        self.kill_group();
        self.reap();
        let dir = match &self.files.dir {
            Some(dir) => dir.display().to_string(),
            None => "the file system of its files".to_owned(),
        };
        let place = match &self.files.case {
            Some(case) if !case.0.is_empty() => format!(" in case {case}"),
            _ => String::new(),
        };
        let end = if self.is_stuck {
            format!("cannot be killed (process {} is blocked in the kernel)", self.pid())
        } else {
            "was ended".to_owned()
        };
        Hung {
            reason: format!(
                "{dir} hangs: the worker sent nothing for {:.0} s{place} and {end}; name another \
                 directory with --dir",
                silence.as_secs_f64()
            ),
            case: self.files.case.take(),
            is_stuck: self.is_stuck,
        }
    }

    /// The next message, `None` if none arrives in time: one blocking read with a deadline. Errors:
    /// as [`Worker::next`], but for the deadline.
    fn receive(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<Option<FromWorker>> {
        let stdout = self.child.stdout.as_mut().context("the worker's output is closed")?;
        if !wait("the worker", &[Want::Readable(stdout.as_fd())], Some(deadline), stop)?[0] {
            return Ok(None);
        }
        match receive(stdout) {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) => Err(self.last_words()),
            Err(error) => Err(self.last_words().context(error)),
        }
    }

    /// Its output and its input, for callers that wait for more than a worker: from then on they
    /// are not read and written here. Errors: they were given before.
    pub fn pipes(&mut self) -> Result<(OwnedFd, OwnedFd)> {
        let output = self.child.stdout.take();
        let input = self.child.stdin.take();
        Ok((
            output.context("the worker's output is closed")?.into(),
            input.context("the worker's input is closed")?.into(),
        ))
    }

    /// Ends one that is gone, or is to go: why it ended, with what it said last on its standard
    /// error.
    pub fn last_words(&mut self) -> Error {
        self.kill_group();
        let reaped = self.reap();
        let killed = reaped.and_then(|status| status.signal()) == Some(SIGKILL);
        if killed && let Some(why) = self.kills.reason(&Kills::now()) {
            return Error::new(OutOfMemory {
                reason: format!("the worker was {why}"),
                cases: std::mem::take(&mut self.takes_memory_for),
            });
        }
        let status = match reaped {
            Some(status) => status.to_string(),
            None => "not reaped".to_owned(),
        };
        let mut said = String::new();
        // One that hangs in the kernel holds its end open: reading would hang as well.
        if let Some(stderr) = self.child.stderr.as_mut().filter(|_| reaped.is_some()) {
            // What cannot be read is not worth another error.
            let _ = stderr.take(LAST_WORDS_MAX).read_to_string(&mut said);
        }
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said: Vec<&str> = said.filter(|line| !line.starts_with("note:")).collect();
        if said.is_empty() {
            anyhow!("the worker ended without a result ({status})")
        } else {
            anyhow!("the worker ended without a result ({status}): {}", said.join(" "))
        }
    }

    fn kill_group(&self) {
        // The group may already be gone.
        let _ = metal::process::kill_group(self.child.id());
    }

    /// Waits for its end; one without an exit could not be killed, and is not waited for again.
    fn reap(&mut self) -> Option<ExitStatus> {
        if self.is_stuck {
            return None;
        }
        let status = ended_within(&mut self.child, REAP_TIME);
        self.is_stuck = status.is_none();
        status
    }
}

impl FarWorker for Worker {
    fn order(&mut self, message: &ToWorker) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("the worker's input is closed")?;
        // One that died before it read is reported like one that died later: by its end.
        send(stdin, message).map_err(|_| self.last_words())
    }

    /// Messages about memory to take and files that may hang are kept. Once its files may hang, the
    /// deadline counts from the worker's last sign of life: a message, or, in the last part of its
    /// time, input or output. Errors: also [`Hung`]; a worker that died
    /// has its status and last words, or [`OutOfMemory`].
    fn next(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<FromWorker> {
        loop {
            let until = self.files.until.unwrap_or(deadline);
            let message = match self.receive(until, stop)? {
                Some(message) => message,
                None if self.files.until.is_none() => return Err(self.late()),
                None => match self.last_chance(stop)? {
                    Some(message) => message,
                    None => continue,
                },
            };
            self.note_activity();
            match message {
                FromWorker::TakesMemory(cases) => self.takes_memory_for = cases,
                FromWorker::MayHangIn(case) => {
                    self.files.case = Some(case);
                    self.wait_on();
                }
                other => return Ok(other),
            }
        }
    }
}

impl Files {
    /// Whether a worker that neither said, read nor wrote anything for a time waits for its device,
    /// and that works: for others too, and so not for ever, unless it writes what was waiting.
    fn gets_on(&mut self, before: &Moved, now: &Moved, silent: Duration) -> bool {
        let low = |least: Option<u64>| match (now.unwritten, least.or(before.unwritten)) {
            (Some(now), Some(least)) => now.saturating_add(WRITTEN_LEAST) <= least,
            _ => false,
        };
        let writes = low(self.unwritten);
        if writes || self.unwritten.is_none() {
            self.unwritten = now.unwritten;
        }
        let is_in_time = silent <= self.silence * PATIENCE;
        match &now.device {
            Some(_) => now.device != before.device && (is_in_time || writes),
            // A server: only what waits for it is seen here.
            None => writes,
        }
    }
}

/// Numbers of requests that devices completed, of each kind, in a text as /proc/diskstats is.
/// (Their times also go on while they do not answer.)
fn completed(diskstats: &str, devices: &str) -> Option<Vec<String>> {
    /// Reads, writes, discards and flushes.
    const COUNTS: [usize; 4] = [3, 7, 14, 18];
    let found = devices.split(' ').map(|device| line_of(diskstats, device));
    let found = found.collect::<Option<Vec<_>>>()?;
    let counts = found.iter().flat_map(|words| COUNTS.iter().filter_map(|at| words.get(*at)));
    Some(counts.map(|count| (*count).to_owned()).collect())
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill_group();
        self.reap();
    }
}

#[cfg(test)]
mod tests;

//! A worker as the session sees it: a child that is this same binary, in a process group of its own,
//! and gets one order.

use super::channel::{Channel, Lost};
use super::process::Process;
use super::{Node, Silent};
use anyhow::{Context, Error, Result, anyhow, bail};
use bench::link::frame::FRAME_BYTES_MAX;
use bench::link::{FromWorker, ToWorker};
use bench::measure::unwritten;
use host::block::line_of;
use host::oom::Kills;
use host::refused;
use record::key::CaseId;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A frame of a worker is whole in this time: a long trace on a busy machine.
const FRAME_TIME: Duration = Duration::from_secs(60);
/// In the last part of its time one that is silent is looked at: a slow disk does not hang.
const LAST_CHANCE: Duration = Duration::from_secs(8);
/// A worker without any other sign for so many times its time hangs, whatever its disk does for
/// others; unless that writes what was waiting to be written, which comes to an end.
const PATIENCE: u32 = 5;
/// So much less must wait to be written, in bytes.
const WRITTEN_LEAST: u64 = 1 << 20;

/// Number of the signal that the OOM killer sends.
const SIGKILL: i32 = 9;

/// The kernel's OOM killer ended the worker.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct OutOfMemory {
    /// Why and under which limit, with the way out.
    reason: String,
    /// Cases that the memory was for; none where the worker did not say.
    pub cases: Vec<CaseId>,
}

/// A worker. Dropping it ends its whole group.
pub struct Worker {
    pub channel: Channel,
    /// None in tests, whose workers are threads.
    process: Option<Process>,
    /// Counts of the OOM killer before it had an order.
    kills: Kills,
    takes_memory_for: Vec<CaseId>,
    started: Instant,
    /// What it may hang in, once it said so.
    files: Files,
}

#[derive(Default)]
struct Files {
    dir: Option<PathBuf>,
    /// The block device below, by its number.
    device: Option<String>,
    silence: Duration,
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
        let mut command = Command::new("/proc/self/exe");
        command.arg0("plumb").arg("worker").arg(std::process::id().to_string());
        let mut process = Process::start(&mut command)
            .map_err(refused::explained)
            .context("cannot start a worker from /proc/self/exe")?;
        let mut channel = process.channel(FRAME_BYTES_MAX)?;
        channel.frame_time = FRAME_TIME;
        Ok(Worker { process: Some(process), ..Worker::over(channel) })
    }

    pub fn over(channel: Channel) -> Self {
        Worker {
            channel,
            process: None,
            kills: Kills::now(),
            takes_memory_for: Vec::new(),
            started: Instant::now(),
            files: Files::default(),
        }
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Kills its group: whether it could not be, because it waits in the kernel.
    fn kill(&mut self) -> bool {
        let Some(process) = &mut self.process else { return false };
        process.kill();
        process.is_stuck
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
            process_io: read(&format!("/proc/{}/io", self.pid())),
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
        if self.kill() && self.files.dir.is_some() {
            return self.hung(self.started.elapsed()).into();
        }
        Silent(format!("the worker did not answer in time{was} and was killed")).into()
    }

    /// Whether a signal stopped it: then it does not wait for its files.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
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
        let is_stuck = self.kill();
        let dir = match &self.files.dir {
            Some(dir) => dir.display().to_string(),
            None => "the file system of its files".to_owned(),
        };
        let place = match &self.files.case {
            Some(case) if !case.0.is_empty() => format!(" in case {case}"),
            _ => String::new(),
        };
        let end = if is_stuck {
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
            is_stuck,
        }
    }

    /// The next message, `None` if none arrives in time. Errors: as [`Worker::next`], but for the
    /// deadline.
    fn receive(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<Option<FromWorker>> {
        self.channel.receive(deadline, stop).map_err(|error| self.explained(error))
    }

    /// Why it is of no more use: its last words, where it is gone.
    pub fn explained(&mut self, error: Error) -> Error {
        match error.downcast_ref() {
            Some(Lost::Closed) => self.last_words(),
            Some(_) => self.last_words().context(error),
            None => error,
        }
    }

    /// Ends one that is gone: why it ended, with what it wrote last on its standard error.
    fn last_words(&mut self) -> Error {
        let Some(process) = &mut self.process else { return anyhow!("the worker ended") };
        let (status, written) = process.end();
        let killed = status.and_then(|status| status.signal()) == Some(SIGKILL);
        if killed && let Some(why) = self.kills.reason(&Kills::now()) {
            return Error::new(OutOfMemory {
                reason: format!("the worker was {why}"),
                cases: std::mem::take(&mut self.takes_memory_for),
            });
        }
        let status = status.map_or_else(|| "it did not exit".to_owned(), |it| it.to_string());
        let separator = if written.is_empty() { "" } else { ": " };
        anyhow!("the worker ended without a result ({status}){separator}{written}")
    }
}

impl Node for Worker {
    fn order(&mut self, order: &ToWorker) -> Result<()> {
        // One that died before it read is reported like one that died later: by its end.
        let never = AtomicBool::new(false);
        self.channel.send(order, &never).map_err(|error| self.explained(error))
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
                FromWorker::Failed(chain) => bail!(chain.join(": ")),
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

#[cfg(test)]
mod tests;

//! A measurement of a watch: a `plumb run` of its own, ended when it has used the CPU time that was
//! saved for it.

use anyhow::{Context, Result};
use metal::process::{dying_with_parent, in_new_session, kill, kill_group};
use metal::wait::{Want, any_unless};
use session::child::{STOPPING, ended_within};
use session::machine::TOKEN;
use session::watch::Ended;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the CPU time of a run is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A run that was asked to end removes its files in this time, and is killed after it.
const GRACE: Duration = Duration::from_secs(30);
/// One that has closed its standard error is reaped after this time.
const ASKED_EVERY: Duration = Duration::from_millis(20);
/// Ticks of the CPU times in /proc in a second, on every Linux (`USER_HZ`).
const TICKS: f64 = 100.0;
/// Text that is kept of what a run says, in bytes.
const SAID_MAX: usize = 64 << 10;
const SIGTERM: i32 = 15;

/// Runs plumb with these arguments to its end, or until it has used so much CPU time; how it ended,
/// and the last line that it said. It uses the journal of the store, and shares the token with this
/// watch in the machine's lock. Errors: it cannot be started or waited for.
pub(super) fn run(
    args: &[OsString],
    store: &Path,
    token: Option<&str>,
    cpu_max_s: f64,
    stop: &AtomicBool,
) -> Result<(Ended, String)> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("plumb")
        .args(args)
        .env("PLUMB_STORE", store)
        .envs(token.map(|token| (TOKEN, token)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = dying_with_parent(in_new_session(&mut command)).spawn();
    let mut child = child.context("cannot start a run from /proc/self/exe")?;
    let stderr = child.stderr.take().context("the run has no standard error")?;
    let mut running = Running { child, stderr, said: Vec::new() };
    let ended = running.watched(cpu_max_s, stop)?;
    Ok((ended, running.last_line()))
}

struct Running {
    child: Child,
    stderr: ChildStderr,
    said: Vec<u8>,
}

impl Running {
    /// Waits for its end, or ends it.
    fn watched(&mut self, cpu_max_s: f64, stop: &AtomicBool) -> Result<Ended> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.hear(Duration::ZERO, stop)?;
                return Ok(match status.code() {
                    Some(0) => Ended::Complete,
                    _ => Ended::Failed,
                });
            }
            if stop.load(Ordering::Relaxed) {
                self.end()?;
                return Ok(Ended::Interrupted);
            }
            if cpu_s(self.child.id()).is_some_and(|used| used >= cpu_max_s) {
                self.end()?;
                return Ok(Ended::Stopped);
            }
            self.hear(LOOK, stop)?;
        }
    }

    /// Reads what it says, for as long as it says something new or until it has ended. A signal
    /// ends the wait.
    fn hear(&mut self, time: Duration, stop: &AtomicBool) -> Result<()> {
        let want = [Want::Readable(self.stderr.as_fd())];
        let ready = any_unless(&want, Some(time), &STOPPING, || stop.load(Ordering::Relaxed));
        match ready {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Ok(ready) if ready == [true] => {
                let mut text = [0; 4096];
                let length = self.stderr.read(&mut text)?;
                let room = SAID_MAX.saturating_sub(self.said.len());
                self.said.extend_from_slice(&text[..length.min(room)]);
                if length == 0 {
                    std::thread::sleep(ASKED_EVERY);
                }
                Ok(())
            }
            ready => Ok(ready.map(drop)?),
        }
    }

    /// Asks it to end, and kills it where it does not.
    fn end(&mut self) -> Result<()> {
        let pid = self.child.id();
        // It may have ended meanwhile.
        let _ = kill(pid, SIGTERM);
        if ended_within(&mut self.child, GRACE).is_none() {
            let _ = kill_group(pid);
            self.child.wait()?;
        }
        Ok(())
    }

    fn last_line(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        last.trim_start_matches("plumb: ").to_owned()
    }
}

/// CPU time of a process and of those of its children that it has waited for, in seconds (proc(5),
/// `/proc/pid/stat`, fields 14 to 17).
fn cpu_s(pid: u32) -> Option<f64> {
    cpu_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn cpu_of(stat: &str) -> Option<f64> {
    // The name in brackets may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).take(4).map(|ticks| ticks.parse::<u64>().ok());
    let ticks = times.try_fold(0, |sum, ticks| Some(sum + ticks?))?;
    Some(ticks as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::cpu_of;

    #[test]
    fn cpu_time_is_that_of_a_process_and_its_reaped_children() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 5 0 0 150 50 200 100 20 0 1 0 9 1 1";
        assert_eq!(cpu_of(stat), Some(5.0));
        assert_eq!(cpu_of("7 (a) S 1"), Some(0.0));
        assert_eq!(cpu_of(""), None);
        assert_eq!(cpu_of("7 (a) S 1 7 7 0 -1 4194560 100 5 0 0 x 50 200 100"), None);
    }
}

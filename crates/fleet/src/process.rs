//! Children of a node: this same binary, with an end that its schedule sets. Whatever hangs in one ends
//! with its time.

use anyhow::{Context, Result};
use metal::process::{dying_with_parent, in_new_session, kill, kill_group};
use metal::wait::{Want, any_unless};
use session::agent::message::printable;
use session::node::STOPPING;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A child that is to end may undo what it changed in this time.
const ENDING: Duration = Duration::from_millis(400);
/// Bytes kept of what a child says.
const SAID_MAX: usize = 4096;
const SIGTERM: i32 = 15;

/// A child. It is ended when this is dropped.
pub struct Process {
    child: Child,
    /// Open until it ends.
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
}

impl Process {
    /// Starts a command without input and output. Errors: it cannot be started.
    pub fn start(mut command: Command) -> Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = dying_with_parent(in_new_session(&mut command))
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let stderr = child.stderr.take();
        Ok(Process { child, stderr, said: Vec::new() })
    }

    /// Waits for its end until a time, or until `stop` is set, and ends it then; the last line that it
    /// said, with how it ended.
    pub fn ended_by(mut self, deadline: Instant, stop: &AtomicBool) -> String {
        while self.stderr.is_some() && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
            let wants: Vec<Want> =
                self.stderr.iter().map(|stderr| Want::Readable(stderr.as_fd())).collect();
            let _ = wait(&wants, deadline, stop);
            self.listen();
        }
        let is_late = self.stderr.is_some();
        self.finish();
        let said = self.said();
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let last = printable(last.unwrap_or("it gave no reason"));
        if is_late { format!("its time was over: {last}") } else { last }
    }

    /// All that it said so far, but for the beginning where that is long.
    pub fn said(&mut self) -> String {
        self.listen();
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Takes what it said, without waiting.
    fn listen(&mut self) {
        let mut piece = [0; SAID_MAX];
        while let Some(stderr) = &mut self.stderr
            && metal::wait::readable(stderr.as_fd(), Duration::ZERO).unwrap_or(false)
        {
            match stderr.read(&mut piece) {
                Ok(read @ 1..) => self.said.extend(&piece[..read]),
                _ => self.stderr = None,
            }
        }
        self.said.drain(..self.said.len().saturating_sub(SAID_MAX));
    }

    /// Ends it, first with a request, and takes its last words.
    fn finish(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if self.stderr.is_some() {
            let _ = kill(self.child.id(), SIGTERM);
        }
        let deadline = Instant::now() + ENDING;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = kill_group(self.child.id());
                let _ = self.child.wait();
                return;
            }
            // Its last words must have room.
            self.listen();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Waits until a time or until something is wanted; a signal ends it early.
pub fn wait(wants: &[Want<'_>], until: Instant, stop: &AtomicBool) -> io::Result<()> {
    let patience = until.saturating_duration_since(Instant::now());
    let stopped = || stop.load(Ordering::Relaxed);
    any_unless(wants, Some(patience), &STOPPING, stopped).map(|_| ())
}

/// Waits until a time; `false` where `stop` was set.
pub fn sleep_until(until: Instant, stop: &AtomicBool) -> bool {
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        let _ = wait(&[], until, stop);
    }
    !stop.load(Ordering::Relaxed)
}

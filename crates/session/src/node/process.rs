//! A program of this host whose standard streams are a channel.

use super::channel::Channel;
use anyhow::{Context, Result};
use record::plain::line;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A killed program that is not reaped in this time is abandoned: it hangs in the kernel.
const REAP_TIME: Duration = Duration::from_secs(2);
/// One that closed its streams has this time to end by itself: of one that was killed here the exit
/// status does not give the cause.
const END_TIME: Duration = Duration::from_millis(500);
/// Bytes kept of what a program wrote on its standard error.
const WRITTEN_BYTES_MAX: usize = 4096;

/// A program in a session and process group of its own. Dropping it ends its whole group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    written: Vec<u8>,
    /// It was killed and not reaped: it waits in the kernel and is left behind.
    pub is_stuck: bool,
}

impl Process {
    /// Starts a program. Errors: it could not be started.
    pub fn start(command: &mut Command) -> std::io::Result<Process> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = metal::process::in_new_session(command).spawn()?;
        Ok(Process { child, written: Vec::new(), is_stuck: false })
    }

    /// The channel of its standard output and input, for frames of at most `limit` bytes. Errors: it
    /// was taken before.
    pub fn channel(&mut self, limit: usize) -> Result<Channel> {
        let output = self.child.stdout.take().context("its output is not available")?;
        let input = self.child.stdin.take().context("its input is not available")?;
        Ok(Channel::new(output.into(), input.into(), limit))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes what it has written on its standard error, so that it never waits to write more.
    pub fn listen(&mut self) {
        let mut piece = [0; WRITTEN_BYTES_MAX];
        while let Some(stderr) = &mut self.child.stderr {
            match metal::wait::readable(stderr.as_fd(), Duration::ZERO) {
                Ok(true) => {}
                _ => return,
            }
            match stderr.read(&mut piece) {
                Ok(read @ 1..) => self.written.extend(&piece[..read]),
                _ => self.child.stderr = None,
            }
            // The last words count.
            let over = self.written.len().saturating_sub(WRITTEN_BYTES_MAX);
            self.written.drain(..over);
        }
    }

    /// Kills its group and waits for its end; `None` where it could not be killed, or cannot be
    /// waited for.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        // The group may already be gone.
        let _ = metal::process::kill_group(self.child.id());
        if self.is_stuck {
            return None;
        }
        let status = self.ended_within(REAP_TIME);
        self.is_stuck = status.is_none();
        status
    }

    /// Its end, after a moment for it: its exit status, `None` if it had to be killed, and what it
    /// wrote last on its standard error, in one line that steers no terminal.
    pub fn end(&mut self) -> (Option<ExitStatus>, String) {
        let status = self.ended_within(END_TIME);
        self.kill();
        self.listen();
        let written = String::from_utf8_lossy(&self.written);
        let lines = written.lines().map(|text| line(text.trim()));
        let lines = lines.filter(|text| !text.is_empty() && !text.starts_with("note:"));
        (status, lines.collect::<Vec<_>>().join(" "))
    }

    fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::Process;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script])).expect("a shell")
    }

    #[test]
    fn the_last_words_steer_no_terminal_and_are_a_line() {
        let (status, written) =
            shell(r"printf 'no\033[2J way\n\nnote: it\nhome\r' >&2; exit 7").end();
        assert_eq!(status.and_then(|status| status.code()), Some(7));
        assert_eq!(written, "no [2J way home");
    }

    #[test]
    fn a_kill_by_this_end_is_not_the_exit_status() {
        let (status, written) = shell("echo moved >&2; exec sleep 100").end();
        assert_eq!((status, written.as_str()), (None, "moved"));
        let (status, _) = shell("kill -TERM $$").end();
        assert_eq!(status.and_then(|status| status.signal()), Some(15));
    }
}

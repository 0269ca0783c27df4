//! A command at a host, with its streams, over the system's ssh.

use anyhow::{Result, bail};
use fleet::hosts::Host;
use session::agent::ssh::{Carrier, NOT_FOUND, NOT_RUNNABLE};
use session::agent::url::Ssh;
use session::child::Interrupted;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a signal and the time are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of what a host prints that are kept.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// A command that runs at a host; it ends with its value.
pub struct Remote {
    carrier: Carrier,
    output: Option<ChildStdout>,
    input: Option<ChildStdin>,
    by_hand: String,
}

/// What a command printed.
pub enum Said {
    /// All, to its end.
    All(String),
    /// It goes on after its time.
    Late,
}

impl Remote {
    /// Starts a command of the shell at a host. `plumb` and `missing` are for the error where it is
    /// not found. Errors: there is no ssh here.
    pub fn start(host: &Host, command: &str, plumb: &str, missing: &'static str) -> Result<Remote> {
        let (user, name) = match host.name.rsplit_once('@') {
            Some((user, name)) => (Some(user.to_owned()), name),
            None => (None, host.name.as_str()),
        };
        let ssh = Ssh { user, host: name.to_owned(), port: None, plumb: plumb.to_owned() };
        let (carrier, output, input) = Carrier::over_ssh(&ssh, command, missing)?;
        let by_hand = format!("ssh {}", host.name);
        Ok(Remote { carrier, output: Some(output), input: Some(input), by_hand })
    }

    /// What a user would type to try the way by hand.
    pub fn by_hand(&self) -> &str {
        &self.by_hand
    }

    /// Its input, for the caller.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Its output, for the caller.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.output.take()
    }

    /// Writes to its input. Errors: it has ended.
    pub fn says(&mut self, text: &str) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(text.as_bytes()),
            None => Ok(()),
        }
    }

    /// Says that nothing more comes: a node ends then.
    pub fn ends_input(&mut self) {
        self.input = None;
    }

    /// Waits for all that it prints. Errors: a signal came, or its output cannot be read.
    pub fn output(&mut self, within: Duration, stop: &AtomicBool) -> Result<Said> {
        let Some(mut output) = self.output.take() else { return Ok(Said::All(String::new())) };
        let end = Instant::now() + within;
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            self.carrier.listen();
            if metal::wait::readable(output.as_fd(), LOOK)? {
                match output.read(&mut piece)? {
                    0 => return Ok(Said::All(String::from_utf8_lossy(&bytes).into_owned())),
                    read if bytes.len() < OUTPUT_BYTES_MAX => bytes.extend(&piece[..read]),
                    _ => {}
                }
            }
            if Instant::now() >= end {
                return Ok(Said::Late);
            }
        }
    }

    /// Whether it has ended; what it says on its standard error is taken meanwhile.
    pub fn is_over(&mut self) -> bool {
        self.carrier.listen();
        self.carrier.is_over()
    }

    /// Ends it.
    pub fn kill(&mut self) {
        self.input = None;
        self.carrier.kill();
    }

    /// Whether a shell there found no such program that it can run.
    pub fn found_nothing(&mut self) -> bool {
        matches!(self.carrier.code(), Some(NOT_RUNNABLE | NOT_FOUND))
    }

    /// Its end, for a user: why, and the way out.
    pub fn last_words(&mut self) -> String {
        self.carrier.last_words()
    }
}

//! A command at a host, over the system's ssh.

use anyhow::{Result, bail};
use fleet::hosts::Host;
use session::agent::ssh::Carrier;
use session::agent::url::Ssh;
use session::child::Interrupted;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a signal and the time are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of what a host prints that are kept.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What to do where a host's plumb is not found.
const NO_PLUMB: &str = "name it with --plumb PATH, or send this one with --copy";

/// Starts a command of the shell at a host, which ends with its value. `plumb` is for the error where
/// it is not found. Errors: there is no ssh here.
pub fn start(host: &Host, command: &str, plumb: &str) -> Result<Carrier> {
    let (user, name) = match host.name.rsplit_once('@') {
        Some((user, name)) => (Some(user.to_owned()), name),
        None => (None, host.name.as_str()),
    };
    let ssh = Ssh { user, host: name.to_owned(), port: None, plumb: plumb.to_owned() };
    Carrier::over_ssh(&ssh, command, NO_PLUMB)
}

/// Waits for all that a command prints; `None` where it goes on after its time. Errors: a signal
/// came, or its output cannot be read.
pub fn said(remote: &mut Carrier, within: Duration, stop: &AtomicBool) -> Result<Option<String>> {
    let mut output = File::from(remote.output()?);
    let end = Instant::now() + within;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if stop.load(Ordering::Relaxed) {
            bail!(Interrupted);
        }
        remote.listen();
        if metal::wait::readable(output.as_fd(), LOOK)? {
            match output.read(&mut piece)? {
                0 => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                read if bytes.len() < OUTPUT_BYTES_MAX => bytes.extend(&piece[..read]),
                _ => {}
            }
        }
        if Instant::now() >= end {
            return Ok(None);
        }
    }
}

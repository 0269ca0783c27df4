//! A node takes orders and answers with events: a worker of this host ([`worker`]), or one that an
//! agent has on another ([`crate::agent::client`]).
//!
//! Orders and events are frames of one [`channel`], over pipes or TCP. Every wait for one has a
//! deadline, and a signal ends it. Behind the channel may be a program of this host ([`process`]):
//! plumb itself, ssh, or a command of the user's. It ends with its node.

pub mod channel;
pub mod process;
pub mod worker;

use anyhow::{Context, Result, ensure};
use bench::link::{FromWorker, ToWorker};
use metal::wait::{Want, any_unless};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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

/// A node sent nothing by the deadline.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Silent(pub String);

/// What takes orders and answers with events.
pub trait Node {
    /// Sends an order. Errors: the node is gone.
    fn order(&mut self, order: &ToWorker) -> Result<()>;

    /// Waits for the next event. Errors: [`Interrupted`], [`Silent`], the node or the way to it is
    /// gone, or what failed there.
    fn next(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<FromWorker>;
}

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

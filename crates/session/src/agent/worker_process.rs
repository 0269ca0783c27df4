//! A worker of an agent. Its messages in both directions never block the agent: it may have been
//! stopped, or be busy, and the agent has one thread.

use super::channel::{Channel, Lost, WORKER_BYTES_MAX};
use crate::child::Worker;
use anyhow::{Error, Result};
use bench::link::ToWorker;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;

/// A worker and the channel to it.
pub struct WorkerProcess {
    pub(super) channel: Channel,
    /// Owns the process: it is ended when this is dropped.
    last_words: Box<dyn FnMut() -> Error>,
}

/// A worker as an agent starts it: this same binary. Errors: it could not be started.
pub fn start_worker() -> Result<WorkerProcess> {
    let mut worker = Worker::start()?;
    let (output, input) = worker.pipes()?;
    Ok(WorkerProcess::new(output, input, move || worker.last_words()))
}

impl WorkerProcess {
    /// One with this output and input; `last_words` says why it ended.
    pub fn new(
        output: OwnedFd,
        input: OwnedFd,
        last_words: impl FnMut() -> Error + 'static,
    ) -> WorkerProcess {
        let channel = Channel::to_child(output, input, WORKER_BYTES_MAX);
        WorkerProcess { channel, last_words: Box::new(last_words) }
    }

    /// Sends an order, in the time of a frame. Errors: it is gone, does not take it in its time, or
    /// a signal came.
    pub(super) fn order(&mut self, message: &ToWorker, stop: &AtomicBool) -> Result<()> {
        self.channel.send(message, stop).map_err(|error| self.explained(error))
    }

    /// Takes in what has come, as [`Channel::read_some`]. Errors: it is gone.
    pub(super) fn read(&mut self) -> Result<()> {
        self.channel.read_some().map_err(|lost| self.explained(lost.into()))
    }

    /// The last words of a worker that is gone, in the place of the error of its channel.
    fn explained(&mut self, error: Error) -> Error {
        match error.downcast_ref() {
            Some(Lost::Closed) => (self.last_words)(),
            _ => error,
        }
    }
}

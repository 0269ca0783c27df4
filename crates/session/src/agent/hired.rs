//! A worker of an agent. Its messages in both directions never block the agent: it may have been
//! stopped, or be busy, and the agent has one thread.

use super::channel::{Channel, Lost, WORKER_BYTES_MAX};
use crate::child::Worker;
use anyhow::{Error, Result};
use bench::link::{FromWorker, ToWorker};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A process that works. It is ended when it is dropped.
pub trait Hired {
    /// Its output and its input, once. Errors: they were given before.
    fn pipes(&mut self) -> Result<(OwnedFd, OwnedFd)>;

    /// Why it ended.
    fn last_words(&mut self) -> Error;
}

impl Hired for Worker {
    fn pipes(&mut self) -> Result<(OwnedFd, OwnedFd)> {
        Worker::pipes(self)
    }

    fn last_words(&mut self) -> Error {
        Worker::last_words(self)
    }
}

/// A worker as an agent starts it: this same binary. Errors: it could not be started.
pub fn start_worker() -> Result<Box<dyn Hired>> {
    Worker::start().map(|worker| Box::new(worker) as Box<dyn Hired>)
}

/// A worker and the way to it.
pub(super) struct Hand {
    channel: Channel,
    hired: Box<dyn Hired>,
}

impl Hand {
    /// Speaks with one that was started. Errors: somebody else does.
    pub(super) fn new(mut hired: Box<dyn Hired>) -> Result<Hand> {
        let (output, input) = hired.pipes()?;
        let channel = Channel::to_child(output, input, WORKER_BYTES_MAX);
        Ok(Hand { channel, hired })
    }

    /// Sends an order, in the time of a frame. Errors: it is gone, does not take it in its time, or
    /// a signal came.
    pub(super) fn order(&mut self, message: &ToWorker, stop: &AtomicBool) -> Result<()> {
        let sent = self.channel.send(message, stop);
        sent.map_err(|error| match error.downcast_ref() {
            Some(Lost::Closed) => self.hired.last_words(),
            _ => error,
        })
    }

    /// What to wait for before the next message.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// When what it has begun to say must be said.
    pub(super) fn slow_at(&self) -> Option<Instant> {
        self.channel.slow_at()
    }

    /// Takes in what has come, once [`Hand::fd`] is readable: [`Hand::next`] then returns all
    /// complete messages. Errors: it is gone.
    pub(super) fn read(&mut self) -> Result<()> {
        self.channel.read_some().map_err(|lost| match lost {
            Lost::Closed => self.hired.last_words(),
            other => other.into(),
        })
    }

    /// A message that has come whole. Errors: it is invalid, or too long.
    pub(super) fn next(&mut self) -> Result<Option<FromWorker>> {
        Ok(self.channel.taken()?)
    }
}

//! What the far end of a two-ended experiment works with.

use super::clock::Clock;
use super::surroundings::Surroundings;
use crate::link::{Done, Endpoint, FromWorker, RoundOrder, ToWorker, frame};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of a token before they are written in hexadecimal.
const TOKEN_BYTES: usize = 16;

/// Where frames of the session come from.
trait Orders: Read + AsFd + Send {}
impl<R: Read + AsFd + Send> Orders for R {}

pub struct FarEnd {
    order: RoundOrder,
    around: Surroundings,
    reader: Box<dyn Orders>,
    writer: Box<dyn Write + Send>,
}

impl FarEnd {
    /// Begins a round at the far end, in the same surroundings as [`super::Bench::new`]. Frames of
    /// the session come from `reader` and go to `writer`. Errors: the CPU cannot be pinned to.
    pub fn new(
        order: RoundOrder,
        reader: impl Read + AsFd + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Result<Self> {
        let around = Surroundings::enter(&order)?;
        Ok(FarEnd { around, reader: Box::new(reader), writer: Box::new(writer), order })
    }

    /// Ends the round: what happened around it.
    pub fn finish(self) -> Done {
        self.around.leave()
    }

    pub fn order(&self) -> &RoundOrder {
        &self.order
    }

    /// Sends the near end the address to connect to; returns the token each data connection must
    /// say first. Errors: the kernel gives no random bytes, or the message to the session fails.
    pub fn publish(&mut self, addrs: Vec<String>) -> Result<String> {
        let token = token()?;
        let endpoint = Endpoint { addrs, token: token.clone() };
        frame::send(&mut self.writer, &FromWorker::Listening(endpoint))
            .context("reporting the address of the far end to the session")?;
        Ok(token)
    }

    /// Waits until the near end is done. Errors: the session is gone, or says something else.
    pub fn drained(&mut self) -> Result<()> {
        let message = frame::receive::<ToWorker>(&mut self.reader)
            .context("waiting for the near end to be done")?;
        match message {
            Some(ToWorker::Drain) => Ok(()),
            Some(_) => bail!("the session sent another order while the far end was serving"),
            None => bail!("the session ended while the far end was serving"),
        }
    }

    /// Becomes readable when the session says something or ends: then [`FarEnd::drained`] does not
    /// wait.
    pub fn session(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Counts CPUs that served beside the first, for what the environment of the round says.
    pub fn use_cpus(&mut self, cpus: &[usize]) {
        self.around.use_cpus(cpus);
    }

    /// The clock of this end, for windows of its own.
    pub fn clock(&self) -> Clock {
        self.around.clock
    }

    /// Switches that serving makes on purpose.
    pub fn planned_switches(&mut self, count: u64) {
        self.around.planned_switches += count;
    }
}

/// A one-time token from the kernel's random bytes, in hexadecimal.
fn token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("reading /dev/urandom for a token")?;
    let mut token = String::with_capacity(2 * TOKEN_BYTES);
    for byte in bytes {
        write!(token, "{byte:02x}").context("writing a token")?;
    }
    Ok(token)
}

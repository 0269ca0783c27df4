//! What a worker says before it is done: signs of life, and what it is about to do.

use crate::link::{FromWorker, frame};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// A sign of life is sent no more often.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Where it goes. After the first message that cannot be sent nothing more is said.
pub struct Heartbeat {
    writer: Box<dyn Write + Send>,
    last: Option<Instant>,
    outcome: io::Result<()>,
}

impl Heartbeat {
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Heartbeat { writer: Box::new(writer), last: None, outcome: Ok(()) }
    }

    pub fn say(&mut self, message: &FromWorker) {
        if self.outcome.is_ok() {
            self.outcome = frame::send(&mut self.writer, message);
        }
    }

    /// Says that it lives, at most once a second: seconds that have passed.
    pub fn alive(&mut self, seconds: f64) {
        if self.last.is_none_or(|last| last.elapsed() >= ALIVE_EVERY) {
            self.say(&FromWorker::Alive(seconds));
            self.last = Some(Instant::now());
        }
    }

    /// Whether all was sent. Errors: why not.
    pub fn finish(self) -> io::Result<()> {
        self.outcome
    }
}

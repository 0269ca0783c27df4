//! One durable write, with a clock before it, between it and its sync, and after that.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use super::{Party, Timed};
use crate::fs::prelude::*;
use laws::fs::sync::Call;
use std::fs::OpenOptions;
use std::io::Write as _;

impl Party {
    pub(super) fn nothing(&self, clock: Clock) -> Result<Timed> {
        let file = self.file()?;
        let start = clock.start();
        let outcome = file.sync_all();
        let end = clock.end();
        outcome.context("fsync")?;
        let whole = clock.between_ns(start, end);
        Ok(Timed { whole, call: Some(whole) })
    }

    pub(super) fn write(&self, clock: Clock, offset: u64) -> Result<Timed> {
        let file = self.file()?;
        let data = &self.buffer.as_slice()[..self.block as usize];
        let start = clock.start();
        let written = file.write_at(data, offset);
        let between = clock.end();
        let outcome = match self.call {
            Call::Fsync => file.sync_all(),
            Call::Fdatasync => file.sync_data(),
            Call::Dsync | Call::DirectDsync => Ok(()),
        };
        let end = clock.end();
        let written = written.context("writing")?;
        ensure!(
            written == data.len(),
            "one write call wrote only {written} of {} bytes",
            data.len()
        );
        outcome.context("syncing")?;
        Ok(match self.call.is_in_write() {
            true => Timed { whole: clock.between_ns(start, between), call: None },
            false => Timed {
                whole: clock.between_ns(start, end),
                call: Some(clock.between_ns(between, end)),
            },
        })
    }

    pub(super) fn create(&self, clock: Clock) -> Result<Timed> {
        let directory = self.directory.as_ref().context("no directory is open")?;
        let data = &self.buffer.as_slice()[..self.block as usize];
        let path = self.created(self.done);
        let start = clock.start();
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = made.with_context(|| format!("making {}", path.display()))?;
        let written = file.write_all(data);
        let between = clock.end();
        let outcome = file.sync_all().and_then(|()| directory.sync_all());
        let end = clock.end();
        written.context("writing")?;
        outcome.context("syncing")?;
        Ok(Timed {
            whole: clock.between_ns(start, end),
            call: Some(clock.between_ns(between, end)),
        })
    }
}

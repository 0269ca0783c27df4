//! One read of a block.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use super::File;
use crate::fs::prelude::*;

impl File {
    /// Fills a block from an offset.
    #[inline]
    pub(in crate::fs::remote) fn read(&mut self, block: &mut [u8], offset: u64) -> Result<()> {
        let read = self.opened.file.read_at(block, offset);
        let read = read.with_context(|| format!("reading at {offset}"))?;
        ensure!(read == block.len(), "a read at {offset} returned {read} bytes");
        Ok(())
    }
}

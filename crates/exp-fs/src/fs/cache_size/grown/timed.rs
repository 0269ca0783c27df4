//! A stretch of a file, read block by block without a clock in between.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use super::BLOCK_BYTES;
use crate::fs::prelude::*;

/// Reads from an offset to another; where it ended.
#[inline]
pub(super) fn stretch(file: &File, block: &mut [u8], from: u64, end: u64) -> Result<u64> {
    let mut offset = from;
    while offset < end {
        file.read_exact_at(block, offset).context("reading")?;
        offset += BLOCK_BYTES;
    }
    Ok(offset)
}

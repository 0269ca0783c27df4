//! One read of a block.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use crate::fs::prelude::*;
use std::fs::File;
use std::io;

#[inline]
pub(super) fn block(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    loop {
        match file.read_at(buffer, offset) {
            Ok(bytes) if bytes == buffer.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! A message sent whole.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

use metal::socket::send;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

/// Sends a whole message; an error that `passes` ends nothing.
#[inline]
pub fn send_whole(
    socket: &impl AsFd,
    mut rest: &[u8],
    passes: impl Fn(ErrorKind) -> bool,
) -> io::Result<()> {
    while !rest.is_empty() {
        match send(socket.as_fd(), rest) {
            Ok(bytes) => rest = &rest[bytes..],
            Err(error) if passes(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

//! How a token goes from party to party, and the loops that hand it on.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

pub(super) mod circle;
pub(super) mod token;

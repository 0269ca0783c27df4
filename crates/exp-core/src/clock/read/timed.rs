//! Two reads of a clock.
//!
//! Timed code: the loops that make the figures. Between two readings of the clock no call, branch
//! or allocation may be added, system calls stay where they are, and each `#[inline]` stays as it
//! is: all of these move figures. After a change compare pairs of runs of both binaries.

/// Two reads back to back.
#[inline(always)]
pub(super) fn between(read: impl Fn() -> u64) -> u64 {
    let start = read();
    read().wrapping_sub(start)
}

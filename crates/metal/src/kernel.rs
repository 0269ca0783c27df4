//! Timed bodies: each runs exactly `n` operations in a loop written in assembly, which no compiler
//! can remove, merge or vectorise, and returns a value by which the work can be checked.
//!
//! All are safe to call with any `n`, and cost a call and a few instructions
//! besides; what is left of that goes away in the difference of n and 2n.

mod call;
mod chain;
mod clock_read;
mod repeat;

pub use call::{ArgumentType, CallKind, Frame, MAX_ARGUMENTS, call, call_sum};
pub use chain::{
    INDEPENDENT_A_TURN, chain_add, chain_multiply, chain_rotate, independent, multiplied, rotated,
};
pub use clock_read::{ClockRead, clock_read};
pub use repeat::{LOOP_UNROLLING, loop_empty, loop_unrolled, loop_volatile};

#[cfg(test)]
pub(crate) use call::loop_of;

//! The loop that reads the counter without pause and keeps what it was not there for.

use core::arch::naked_asm;

use crate::arch::Reading;

/// Reads the counter `turns` times (at least once). A read that lies `threshold` ticks or more
/// after the one before is stored with it at `reading.next`, which moves on; when it has reached
/// `reading.end`, the loop is over. Returns the turns that were not made.
///
/// A turn is a fence, a read, a difference, one compare and the loop's decrement; all stores stand
/// on the other path.
///
/// # Safety
/// `reading` is valid, and `next` to `end` are pairs of words that may be written, at least one.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn gaps_turns(
    turns: u64,
    threshold: u64,
    reading: *mut Reading,
) -> u64 {
    naked_asm!(
        "ldp x9, x10, [x2]",
        "ldr x11, [x2, #16]",
        ".p2align 6",
        "2:",
        "isb",
        "mrs x12, cntvct_el0",
        "mov x13, x9",
        "mov x9, x12",
        "sub x12, x12, x13",
        "cmp x12, x1",
        "b.hs 4f",
        "3:",
        "subs x0, x0, #1",
        "b.ne 2b",
        "b 5f",
        "4:",
        "stp x13, x9, [x10], #16",
        "cmp x10, x11",
        "b.ne 3b",
        "sub x0, x0, #1",
        "5:",
        "stp x9, x10, [x2]",
        "ret",
    )
}

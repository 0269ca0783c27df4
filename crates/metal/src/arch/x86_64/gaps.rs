//! The loop that reads the counter without pause and keeps what it was not there for.

use core::arch::naked_asm;

use crate::arch::Reading;

/// Reads the counter `turns` times (at least once). A read that lies `threshold` ticks or more
/// after the one before is stored with it at `reading.next`, which moves on; when it has reached
/// `reading.end`, the loop is over. Returns the turns that were not made.
///
/// A turn is a fence, a read, its two halves joined, a difference, one compare and the loop's
/// decrement; all stores stand on the other path.
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
        // The read takes rdx.
        "mov r8, rdx",
        "mov r9, qword ptr [r8]",
        "mov r10, qword ptr [r8 + 8]",
        "mov r11, qword ptr [r8 + 16]",
        ".p2align 6",
        "2:",
        "lfence",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov rcx, r9",
        "mov r9, rax",
        "sub rax, rcx",
        "cmp rax, rsi",
        "jae 4f",
        "3:",
        "dec rdi",
        "jnz 2b",
        "jmp 5f",
        "4:",
        "mov qword ptr [r10], rcx",
        "mov qword ptr [r10 + 8], r9",
        "add r10, 16",
        "cmp r10, r11",
        "jne 3b",
        "dec rdi",
        "5:",
        "mov qword ptr [r8], r9",
        "mov qword ptr [r8 + 8], r10",
        "mov rax, rdi",
        "ret",
    )
}

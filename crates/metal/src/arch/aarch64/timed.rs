//! Chains, loops, ring walks and clock reads. Loop heads stand on 64-byte boundaries; `n` that is
//! no multiple of the unrolling ends in a loop of single steps, so `n` is always exact.

use core::arch::naked_asm;

use crate::arch::Loop;
use crate::kernel::ClockRead;

/// A chain of `n` dependent steps on x1, 2^`$shift` a turn; x2 is the operand.
macro_rules! chain {
    (
        $(#[$doc:meta])* $name:ident, $shift:literal, $before:literal, $step:literal
        $(, $after:literal)?
    ) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name(n: u64, value: u64, operand: u64) -> u64 {
            naked_asm!(
                $before,
                "lsr x3, x0, #{shift}",
                "cbz x3, 3f",
                ".p2align 6",
                "2:",
                ".rept {turn}",
                $step,
                ".endr",
                "subs x3, x3, #1",
                "b.ne 2b",
                "3:",
                "ands x0, x0, #({turn} - 1)",
                "b.eq 5f",
                "4:",
                $step,
                "subs x0, x0, #1",
                "b.ne 4b",
                "5:",
                "mov x0, x1",
                $($after,)?
                "ret",
                shift = const $shift,
                turn = const 1 << $shift,
            )
        }
    };
}

chain!(
    /// value = value * operand, modulo 2^64.
    chain_multiply, 5, "", "mul x1, x1, x2"
);
chain!(
    /// value = value rotated right by 7; no operand.
    chain_rotate, 5, "", "ror x1, x1, #7"
);
chain!(
    /// value = value + operand.
    chain_add, 5, "", "add x1, x1, x2"
);
chain!(
    /// value = the pointer at value; no operand. 256 a turn: see x86-64.
    chase_pointer, 8, "", "ldr x1, [x1]"
);
chain!(
    /// value = word 1 + value of the words at operand.
    chase_index, 8, "add x2, x2, #8", "ldr x1, [x2, x1, lsl #3]"
);
chain!(
    /// The same, through a word of the stack after each load.
    chase_stored, 8, "add x2, x2, #8\nsub sp, sp, #16",
    "ldr x1, [x2, x1, lsl #3]\nstr x1, [sp]\nldr x1, [sp]", "add sp, sp, #16"
);

/// `n` turns of 16 additions into each of eight registers, which wait for nothing, and a count and
/// a branch.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn independent(n: u64) {
    naked_asm!(
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        ".rept 16",
        "add x1, x9, x9",
        "add x2, x9, x9",
        "add x3, x9, x9",
        "add x4, x9, x9",
        "add x5, x9, x9",
        "add x6, x9, x9",
        "add x7, x9, x9",
        "add x8, x9, x9",
        ".endr",
        "subs x0, x0, #1",
        "b.ne 2b",
        "3:",
        "ret",
    )
}

/// Counts a register to `n`: an addition, a comparison and a branch a turn. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_empty(n: u64) -> u64 {
    naked_asm!(
        "mov x1, #0",
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        "add x1, x1, #1",
        "cmp x1, x0",
        "b.ne 2b",
        "3:",
        "mov x0, x1",
        "ret",
    )
}

/// Counts a word of the stack to `n`, as unoptimised code does. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_volatile(n: u64) -> u64 {
    naked_asm!(
        "sub sp, sp, #16",
        "str xzr, [sp, #8]",
        "mov x1, #0",
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        "ldr x1, [sp, #8]",
        "add x1, x1, #1",
        "str x1, [sp, #8]",
        "ldr x1, [sp, #8]",
        "cmp x1, x0",
        "b.ne 2b",
        "3:",
        "mov x0, x1",
        "add sp, sp, #16",
        "ret",
    )
}

/// Counts a register to `n` by 16s, then by ones: the loop control that is
/// left of 16 empty bodies when they are unrolled. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_unrolled(n: u64) -> u64 {
    naked_asm!(
        "mov x1, #0",
        "ands x2, x0, #-16",
        "b.eq 3f",
        ".p2align 6",
        "2:",
        "add x1, x1, #16",
        "cmp x1, x2",
        "b.ne 2b",
        "3:",
        "cmp x1, x0",
        "b.eq 5f",
        "4:",
        "add x1, x1, #1",
        "cmp x1, x0",
        "b.ne 4b",
        "5:",
        "mov x0, x1",
        "ret",
    )
}

/// `n` reads of a clock into x1, eight a turn. Returns the last reading, 0 when `n` is 0.
macro_rules! clock_reads {
    ($name:ident, $step:expr) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(n: u64) -> u64 {
            naked_asm!(
                "mov x1, #0",
                "lsr x2, x0, #3",
                "cbz x2, 3f",
                ".p2align 6",
                "2:",
                ".rept 8",
                $step,
                ".endr",
                "subs x2, x2, #1",
                "b.ne 2b",
                "3:",
                "ands x0, x0, #7",
                "b.eq 5f",
                "4:",
                $step,
                "subs x0, x0, #1",
                "b.ne 4b",
                "5:",
                "mov x0, x1",
                "ret",
            )
        }
    };
}

crate::arch::clock_reads_table! {
    Cntvct reads_cntvct "mrs x1, cntvct_el0";
    CntvctIsb reads_cntvct_isb "isb\nmrs x1, cntvct_el0";
    FencedPair reads_fenced_pair "isb\nmrs x1, cntvct_el0\nisb\nisb\nmrs x1, cntvct_el0\nisb";
}

//! Chains, loops, ring walks and clock reads. Loop heads stand on 64-byte boundaries; `n` that is
//! no multiple of the unrolling ends in a loop of single steps, so `n` is always exact.

use core::arch::naked_asm;

use crate::arch::Loop;
use crate::kernel::ClockRead;

/// A chain of `n` dependent steps on rax, 2^`$shift` a turn; rdx is the operand.
macro_rules! chain {
    ($(#[$doc:meta])* $name:ident, $shift:literal, $step:literal) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name(n: u64, value: u64, operand: u64) -> u64 {
            naked_asm!(
                "mov rax, rsi",
                "mov rcx, rdi",
                "shr rcx, {shift}",
                "jz 3f",
                ".p2align 6",
                "2:",
                ".rept {turn}",
                $step,
                ".endr",
                "dec rcx",
                "jnz 2b",
                "3:",
                "and edi, {turn} - 1",
                "jz 5f",
                "4:",
                $step,
                "dec edi",
                "jnz 4b",
                "5:",
                "ret",
                shift = const $shift,
                turn = const 1 << $shift,
            )
        }
    };
}

chain!(
    /// value = value * operand, modulo 2^64.
    chain_multiply, 5, "imul rax, rdx"
);
chain!(
    /// value = value rotated right by 7; no operand.
    chain_rotate, 5, "ror rax, 7"
);
chain!(
    /// value = value + operand; two registers, because newer cores eliminate
    /// the addition of a small constant at rename.
    chain_add, 5, "add rax, rdx"
);
chain!(
    /// value = the pointer at value; no operand. 256 a turn: Zen 4 keeps by a
    /// load's address which lines of a region follow, and fetches them ahead.
    /// Of few loads it learns pages whose lines come in random order, and a
    /// load takes a fifth less than memory's time; of as many it hardly does.
    chase_pointer, 8, "mov rax, qword ptr [rax]"
);
chain!(
    /// value = word 1 + value of the words at operand. As many a turn.
    chase_index, 8, "mov rax, qword ptr [rdx + 8 * rax + 8]"
);
chain!(
    /// The same, through a word of the stack after each load.
    chase_stored, 8,
    "mov rax, qword ptr [rdx + 8 * rax + 8]\nmov qword ptr [rsp - 8], rax\nmov rax, qword ptr [rsp - 8]"
);

/// `n` turns of 128 tests of a register, which wait for nothing, and one fused count and branch.
/// Additions in eight chains are no measure: Zen 5 starts six operations a cycle, and 5.3 of those
/// (docs/notes/2026-11-25-zen5.md).
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn independent(n: u64) {
    naked_asm!(
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        ".rept 128",
        "test rax, rax",
        ".endr",
        "dec rdi",
        "jnz 2b",
        "3:",
        "ret",
    )
}

/// Counts a register to `n`: one addition and one fused compare and branch a
/// turn. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_empty(n: u64) -> u64 {
    naked_asm!(
        "xor eax, eax",
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        "add rax, 1",
        "cmp rax, rdi",
        "jne 2b",
        "3:",
        "ret",
    )
}

/// Counts a word of the stack to `n`, as unoptimised code does. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_volatile(n: u64) -> u64 {
    naked_asm!(
        "mov qword ptr [rsp - 8], 0",
        "xor eax, eax",
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        "add qword ptr [rsp - 8], 1",
        "mov rax, qword ptr [rsp - 8]",
        "cmp rax, rdi",
        "jne 2b",
        "3:",
        "ret",
    )
}

/// Counts a register to `n` by 16s, then by ones: the loop control that is
/// left of 16 empty bodies when they are unrolled. Returns the counter.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn loop_unrolled(n: u64) -> u64 {
    naked_asm!(
        "xor eax, eax",
        "mov rcx, rdi",
        "and rcx, -16",
        "jz 3f",
        ".p2align 6",
        "2:",
        "add rax, 16",
        "cmp rax, rcx",
        "jne 2b",
        "3:",
        "cmp rax, rdi",
        "je 5f",
        "4:",
        "add rax, 1",
        "cmp rax, rdi",
        "jne 4b",
        "5:",
        "ret",
    )
}

/// `n` reads of a clock, eight a turn. Each read leaves its value in edx:eax
/// and may clobber rbx and rcx. Returns the last reading, 0 when `n` is 0.
macro_rules! clock_reads {
    ($name:ident, $step:expr) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(n: u64) -> u64 {
            naked_asm!(
                "push rbx",
                "mov r8, rdi",
                "xor eax, eax",
                "xor edx, edx",
                "shr r8, 3",
                "jz 3f",
                ".p2align 6",
                "2:",
                ".rept 8",
                $step,
                ".endr",
                "dec r8",
                "jnz 2b",
                "3:",
                "and edi, 7",
                "jz 5f",
                "4:",
                $step,
                "dec edi",
                "jnz 4b",
                "5:",
                "shl rdx, 32",
                "or rax, rdx",
                "pop rbx",
                "ret",
            )
        }
    };
}

// The pair of Intel's white paper on cycle counting (324264): the second cpuid keeps later
// instructions out, and its results must not replace the reading.
crate::arch::clock_reads_table! {
    Rdtsc reads_rdtsc "rdtsc";
    LfenceRdtsc reads_lfence_rdtsc "lfence\nrdtsc";
    Rdtscp reads_rdtscp "rdtscp";
    FencedPair reads_fenced_pair "lfence\nrdtsc\nlfence\nrdtscp\nlfence";
    CpuidPair reads_cpuid_pair concat!(
        "xor eax, eax\ncpuid\nrdtsc\n",
        "rdtscp\nmov r9d, eax\nmov r10d, edx\n",
        "xor eax, eax\ncpuid\nmov eax, r9d\nmov edx, r10d"
    );
}

//! One kernel for each body of the table in `instruction/rows.rs`.
//!
//! rbp counts, rsi holds the page of operands. Chains of integers run through rax (operand rdx,
//! count 7 in cl), independent ones through r8 to r15; vector chains through register 0,
//! independent ones through 0 to 11, with operands 12 and 13. At the head of each loop the carry
//! flag is clear, so that conditional moves and branches on it are never taken.

use crate::instruction::{Body, Instruction};

/// What stands before the loops, by kind of operands. Offsets are those of `instruction::place`.
macro_rules! before {
    (integer) => {
        "mov rax, [rsi+8]\nmov rdx, [rsi+16]\nmov ecx, 7\nmov rbx, rax\n\
         .irp r, r8, r9, r10, r11, r12, r13, r14, r15\nmov \\r, rax\n.endr"
    };
    (pointer) => {
        "mov rax, rsi\nmov rdx, [rsi+16]\n\
         .irp r, r8, r9, r10, r11, r12, r13, r14, r15\nxor \\r, \\r\n.endr"
    };
    // All of memory, rax, rdx and r8 are equal: each exchange succeeds and changes nothing.
    (equal) => {
        "mov rax, [rsi+8]\nmov rdx, rax\nmov [rsi+64], rax\n\
         .irp r, r8, r9, r10, r11, r12, r13, r14, r15\nmov \\r, rax\n.endr"
    };
    // Quotient and remainder of rdx:rax over rcx are rax and rdx again, so that the same division
    // of full width follows itself: rax = (2^32+1) s, rcx = 3 (2^32-1) + 1, rdx = 3 s.
    (divide64) => {
        "mov rax, 0x9e3779b19e3779b1\nmov rdx, 0x1daa66d13\nmov rcx, 0x2fffffffe\n\
         mov r8, rax\nmov r9, rdx\n\
         .irp r, r10, r11, r12, r13, r14, r15\nxor \\r, \\r\n.endr"
    };
    // The same in 32 bits: eax = (2^16+1) s, ecx = 3 (2^16-1) + 1, edx = 3 s.
    (divide32) => {
        "mov eax, 0x9e379e37\nmov edx, 0x1daa5\nmov ecx, 0x2fffe\n\
         mov r8d, eax\nmov r9d, edx\n\
         .irp r, r10, r11, r12, r13, r14, r15\nxor \\r, \\r\n.endr"
    };
    (f32x4) => { before!(@vectors "movups xmm", "192", "256", "320") };
    (f32x8) => { before!(@vectors "vmovups ymm", "192", "256", "320") };
    (f32x16) => { before!(@vectors "vmovups zmm", "192", "256", "320") };
    (f64x2) => { before!(@vectors "movups xmm", "384", "448", "512") };
    (f64x4) => { before!(@vectors "vmovups ymm", "384", "448", "512") };
    (f64x8) => { before!(@vectors "vmovups zmm", "384", "448", "512") };
    // The largest number below 1 is its own square root, rounded.
    (root) => { before!(@vectors "movups xmm", "448", "448", "512") };
    (indices) => {
        "vmovdqu ymm0, [rsi+576]\n.irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\nvpxor xmm\\r, xmm\\r, xmm\\r\n.endr"
    };
    (@vectors $move:literal, $value:literal, $factor:literal, $addend:literal) => {
        concat!(
            ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n", $move, "\\r, [rsi+", $value, "]\n.endr\n",
            $move, "12, [rsi+", $factor, "]\n", $move, "13, [rsi+", $addend, "]"
        )
    };
}

/// What stands after the loops: the result to rax.
macro_rules! after {
    (f32x4) => { "movq rax, xmm0" };
    (f64x2) => { "movq rax, xmm0" };
    (root) => { "movq rax, xmm0" };
    (f32x8) => { after!(@upper) };
    (f32x16) => { after!(@upper) };
    (f64x4) => { after!(@upper) };
    (f64x8) => { after!(@upper) };
    (indices) => { after!(@upper) };
    (@upper) => { "vmovq rax, xmm0\nvzeroupper" };
    ($integer:ident) => {
        ".irp r, r8, r9, r10, r11, r12, r13, r14, r15\nadd rax, \\r\n.endr"
    };
}

/// A kernel of `$operations` a unit and `$repeats` units a turn; the rest of n goes by units, then
/// by single operations.
macro_rules! kernel {
    ($before:expr, $unit:expr, $single:expr, $after:expr, $operations:literal, $repeats:literal) => {{
        #[unsafe(naked)]
        unsafe extern "C" fn kernel(n: u64, words: *mut u64) -> u64 {
            core::arch::naked_asm!(
                crate::arch::x86_64::saved!(),
                "mov rbp, rdi",
                $before,
                concat!("sub rbp, ", $operations, " * ", $repeats),
                "jb 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $repeats),
                $unit,
                ".endr",
                concat!("sub rbp, ", $operations, " * ", $repeats),
                "jae 2b",
                "3:",
                concat!("add rbp, ", $operations, " * ", $repeats, " - ", $operations),
                "jnc 5f",
                "clc",
                "4:",
                $unit,
                concat!("sub rbp, ", $operations),
                "jae 4b",
                "5:",
                concat!("add rbp, ", $operations),
                "test rbp, rbp",
                "jz 7f",
                "6:",
                $single,
                "dec rbp",
                "jnz 6b",
                "7:",
                $after,
                crate::arch::x86_64::restored!(),
                "ret",
                // What calls call.
                ".p2align 4",
                "8:",
                "ret",
            )
        }
        kernel
    }};
}

/// A body by the shape of its text.
macro_rules! body {
    (none) => { None };
    // One operation, again and again.
    (one $kind:ident $text:literal) => {
        body!(@of $kind $text, "", 1, $text, $text, 1, 32)
    };
    // Two operations that alternate between registers.
    (two $kind:ident $text:literal, $single:literal) => {
        body!(@of $kind $text, "", 2, $text, $single, 2, 16)
    };
    // Independent operations on each of the integer registers.
    (each $kind:ident $text:literal) => {
        body!(@of $kind $text, "r8, r9, r10, r11, r12, r13, r14, r15", 1,
            concat!(".irp r, r8, r9, r10, r11, r12, r13, r14, r15\n", $text, "\n.endr"),
            concat!(".irp r, r8\n", $text, "\n.endr"), 8, 32)
    };
    // The same, with the register's number, for addresses of its own.
    (numbered $kind:ident $text:literal) => {
        body!(@of $kind $text, "8, 9, 10, 11, 12, 13, 14, 15", 1,
            concat!(".irp r, 8, 9, 10, 11, 12, 13, 14, 15\n", $text, "\n.endr"),
            concat!(".irp r, 8\n", $text, "\n.endr"), 8, 32)
    };
    // What depends on nothing.
    (many $kind:ident $text:literal) => {
        body!(@of $kind $text, "", 1, $text, $text, 1, 128)
    };
    // Independent operations on each of the vector registers.
    (vectors $kind:ident $text:literal) => {
        body!(@of $kind $text, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11", 1,
            concat!(".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n", $text, "\n.endr"),
            concat!(".irp r, 0\n", $text, "\n.endr"), 12, 8)
    };
    // The same without 0 and 1, which hold indices and mask.
    (gathers $text:literal) => {
        body!(@of indices $text, "2, 3, 4, 5, 6, 7, 8, 9, 10, 11", 1,
            concat!(".irp r, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n", $text, "\n.endr"),
            concat!(".irp r, 2\n", $text, "\n.endr"), 10, 4)
    };
    (@of $kind:ident $text:literal, $registers:literal, $operations:literal, $unit:expr, $single:expr,
     $in_unit:literal, $repeats:literal) => {
        Some(Body {
            text: $text,
            registers: $registers,
            operations: $operations,
            kernel: kernel!(before!($kind), $unit, $single, after!($kind), $in_unit, $repeats),
        })
    };
}

macro_rules! instructions {
    ($($name:ident $feature:literal { $($latency:tt)* } { $($throughput:tt)* })*) => {
        /// The instructions of x86-64.
        pub(crate) static INSTRUCTIONS: &[Instruction] = &[$(Instruction {
            name: stringify!($name),
            feature: $feature,
            latency: body!($($latency)*),
            throughput: body!($($throughput)*),
        },)*];
    };
}

mod rows;

pub(crate) use rows::INSTRUCTIONS;

macro_rules! features {
    ($($name:literal $detected:tt),*) => {
        /// Whether the processor and the system have a feature of `/proc/cpuinfo`'s name.
        pub(crate) fn has_feature(name: &str) -> bool {
            match name {
                "" => true,
                $($name => is_x86_feature_detected!($detected),)*
                _ => false,
            }
        }
    };
}

features! {
    "popcnt" "popcnt", "abm" "lzcnt", "bmi1" "bmi1", "bmi2" "bmi2", "ssse3" "ssse3",
    "sse4_1" "sse4.1", "sse4_2" "sse4.2", "aes" "aes", "pclmulqdq" "pclmulqdq", "avx" "avx",
    "avx2" "avx2", "fma" "fma", "avx512f" "avx512f"
}

/// One branch of [`branches`]: the lowest bit decides, and is counted on both ways.
macro_rules! branch {
    () => {
        "shr rdx, 1\njb 9f\n9: adc rax, 0"
    };
}

/// The text of one branch of [`branches`].
pub(crate) const BRANCH_TEXT: &str = branch!();

/// For each of `count` words 64 branches, each taken where its bit is set; both ways lead to the
/// next one, so that only the guess differs. Returns the bits that were set.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn branches(count: u64, words: *const u64) -> u64 {
    core::arch::naked_asm!(
        "xor eax, eax",
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        "mov rdx, [rsi]",
        ".rept 64",
        branch!(),
        ".endr",
        "add rsi, 8",
        "dec rdi",
        "jnz 2b",
        "3:",
        "ret",
    )
}

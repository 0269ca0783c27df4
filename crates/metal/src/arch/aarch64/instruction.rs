//! One kernel for each body of the table in `instruction/rows.rs`.
//!
//! x5 counts, x1 holds the page of operands, x6 its atomic word. Chains of integers run through x2
//! (operand x3, count 7 in x4), independent ones through x8 to x15; vector chains through v0,
//! independent ones through v0 to v7 and v16 to v23, with operands v28 and v29. At the head of each
//! loop the carry flag is set (no borrow), so that conditions on a clear one never hold.

use crate::instruction::{Body, Instruction};

/// What stands before the loops, by kind of operands. Offsets are those of `instruction::place`.
macro_rules! before {
    (integer) => {
        "ldr x2, [x1, #8]\nldr x3, [x1, #16]\nmov x4, #7\nadd x6, x1, #64\nmov x7, x2\n\
         .irp r, 8, 9, 10, 11, 12, 13, 14, 15\nmov x\\r, x2\n.endr"
    };
    (pointer) => {
        "mov x2, x1\nldr x3, [x1, #16]\nadd x6, x1, #64\n\
         .irp r, 8, 9, 10, 11, 12, 13, 14, 15\nmov x\\r, #0\n.endr"
    };
    // Memory, x2, x3 and x8 to x15 are equal: each exchange succeeds and changes nothing.
    (equal) => {
        "ldr x2, [x1, #8]\nmov x3, x2\nadd x6, x1, #64\nstr x2, [x6]\n\
         .irp r, 8, 9, 10, 11, 12, 13, 14, 15\nmov x\\r, x2\n.endr"
    };
    // A square over its root is the root again: a quotient of half the width follows itself.
    (divide) => {
        "mov w2, #0x79b1\nmovk w2, #0x9e37, lsl #16\nmul x3, x2, x2\n\
         .irp r, 8, 9, 10, 11, 12, 13, 14, 15\nmov x\\r, x2\n.endr"
    };
    (divide32) => {
        "mov w2, #0x9e37\nmul w3, w2, w2\n\
         .irp r, 8, 9, 10, 11, 12, 13, 14, 15\nmov w\\r, w2\n.endr"
    };
    (f32x4) => { before!(@vectors "192", "256", "320") };
    (f64x2) => { before!(@vectors "384", "448", "512") };
    // The largest number below 1 is its own square root, rounded.
    (root) => { before!(@vectors "448", "448", "512") };
    (@vectors $value:literal, $factor:literal, $addend:literal) => {
        concat!(
            ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23\n",
            "ldr q\\r, [x1, #", $value, "]\n.endr\n",
            "ldr q28, [x1, #", $factor, "]\nldr q29, [x1, #", $addend, "]"
        )
    };
}

/// What stands after the loops: the result to x0.
macro_rules! after {
    (f32x4) => {
        "fmov x0, d0"
    };
    (f64x2) => {
        "fmov x0, d0"
    };
    (root) => {
        "fmov x0, d0"
    };
    ($integer:ident) => {
        "mov x0, x2\n.irp r, 8, 9, 10, 11, 12, 13, 14, 15\nadd x0, x0, x\\r\n.endr"
    };
}

/// Lets the assembler know an instruction of an extension; whether it may run is asked elsewhere.
macro_rules! extension {
    ("") => {
        ""
    };
    ("crc32") => {
        ".arch_extension crc"
    };
    ("atomics") => {
        ".arch_extension lse"
    };
    ("aes") => {
        ".arch_extension aes"
    };
    ("pmull") => {
        ".arch_extension aes"
    };
}

/// A kernel of `$operations` a unit and `$repeats` units a turn; the rest of n goes by units, then
/// by single operations.
macro_rules! kernel {
    ($feature:tt, $before:expr, $unit:expr, $single:expr, $after:expr, $operations:literal, $repeats:literal) => {{
        #[unsafe(naked)]
        unsafe extern "C" fn kernel(n: u64, words: *mut u64) -> u64 {
            core::arch::naked_asm!(
                extension!($feature),
                // Calls need the link register.
                "mov x17, x30",
                "mov x5, x0",
                $before,
                concat!("subs x5, x5, #(", $operations, " * ", $repeats, ")"),
                "b.lo 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $repeats),
                $unit,
                ".endr",
                concat!("subs x5, x5, #(", $operations, " * ", $repeats, ")"),
                "b.hs 2b",
                "3:",
                concat!("adds x5, x5, #(", $operations, " * ", $repeats, " - ", $operations, ")"),
                // As many as a unit are left where the counter is not negative.
                "tbnz x5, #63, 5f",
                "cmp x5, x5",
                "4:",
                $unit,
                concat!("subs x5, x5, #", $operations),
                "b.hs 4b",
                "5:",
                concat!("add x5, x5, #", $operations),
                "cbz x5, 7f",
                "cmp x5, x5",
                "6:",
                $single,
                "subs x5, x5, #1",
                "b.ne 6b",
                "7:",
                $after,
                "mov x30, x17",
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
    ($feature:tt none) => { None };
    // One operation, again and again.
    ($feature:tt one $kind:ident $text:literal) => {
        body!(@of $feature $kind $text, "", 1, $text, $text, 1, 32)
    };
    // What depends on nothing.
    ($feature:tt many $kind:ident $text:literal) => {
        body!(@of $feature $kind $text, "", 1, $text, $text, 1, 128)
    };
    // Two operations that alternate between registers.
    ($feature:tt two $kind:ident $text:literal, $single:literal) => {
        body!(@of $feature $kind $text, "", 2, $text, $single, 2, 16)
    };
    // Independent operations on each of the integer registers.
    ($feature:tt each $kind:ident $text:literal) => {
        body!(@of $feature $kind $text, "8, 9, 10, 11, 12, 13, 14, 15", 1,
            concat!(".irp r, 8, 9, 10, 11, 12, 13, 14, 15\n", $text, "\n.endr"),
            concat!(".irp r, 8\n", $text, "\n.endr"), 8, 32)
    };
    // Independent operations on each of the vector registers: by number, or by name and lanes.
    ($feature:tt vectors $kind:ident $text:literal) => {
        body!(@vectors $feature $kind $text,
            "0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
            "0")
    };
    ($feature:tt singles $kind:ident $text:literal) => {
        body!(@vectors $feature $kind $text,
            "v0.4s, v1.4s, v2.4s, v3.4s, v4.4s, v5.4s, v6.4s, v7.4s, v16.4s, v17.4s, v18.4s, v19.4s, v20.4s, v21.4s, v22.4s, v23.4s",
            "v0.4s")
    };
    ($feature:tt doubles $kind:ident $text:literal) => {
        body!(@vectors $feature $kind $text,
            "v0.2d, v1.2d, v2.2d, v3.2d, v4.2d, v5.2d, v6.2d, v7.2d, v16.2d, v17.2d, v18.2d, v19.2d, v20.2d, v21.2d, v22.2d, v23.2d",
            "v0.2d")
    };
    ($feature:tt bytes $kind:ident $text:literal) => {
        body!(@vectors $feature $kind $text,
            "v0.16b, v1.16b, v2.16b, v3.16b, v4.16b, v5.16b, v6.16b, v7.16b, v16.16b, v17.16b, v18.16b, v19.16b, v20.16b, v21.16b, v22.16b, v23.16b",
            "v0.16b")
    };
    ($feature:tt quads $kind:ident $text:literal) => {
        body!(@vectors $feature $kind $text,
            "v0.1q, v1.1q, v2.1q, v3.1q, v4.1q, v5.1q, v6.1q, v7.1q, v16.1q, v17.1q, v18.1q, v19.1q, v20.1q, v21.1q, v22.1q, v23.1q",
            "v0.1q")
    };
    (@vectors $feature:tt $kind:ident $text:literal, $registers:literal, $first:literal) => {
        body!(@of $feature $kind $text, $registers, 1,
            concat!(".irp r, ", $registers, "\n", $text, "\n.endr"),
            concat!(".irp r, ", $first, "\n", $text, "\n.endr"), 16, 8)
    };
    (@of $feature:tt $kind:ident $text:literal, $registers:literal, $operations:literal, $unit:expr,
     $single:expr, $in_unit:literal, $repeats:literal) => {
        Some(Body {
            text: $text,
            registers: $registers,
            operations: $operations,
            kernel: kernel!($feature, before!($kind), $unit, $single, after!($kind), $in_unit, $repeats),
        })
    };
}

macro_rules! instructions {
    ($($name:ident $feature:tt { $($latency:tt)* } { $($throughput:tt)* })*) => {
        /// The instructions of aarch64.
        pub(crate) static INSTRUCTIONS: &[Instruction] = &[$(Instruction {
            name: stringify!($name),
            feature: $feature,
            latency: body!($feature $($latency)*),
            throughput: body!($feature $($throughput)*),
        },)*];
    };
}

mod rows;

pub(crate) use rows::INSTRUCTIONS;

/// Whether the processor and the system have a feature of `/proc/cpuinfo`'s name.
pub(crate) fn has_feature(name: &str) -> bool {
    match name {
        "" => true,
        "crc32" => std::arch::is_aarch64_feature_detected!("crc"),
        "atomics" => std::arch::is_aarch64_feature_detected!("lse"),
        "aes" | "pmull" => std::arch::is_aarch64_feature_detected!("aes"),
        _ => false,
    }
}

/// One branch of [`branches`]: the lowest bit decides, and is counted on both ways.
macro_rules! branch {
    () => {
        "and x4, x3, #1\nlsr x3, x3, #1\ncbnz x4, 9f\n9: add x2, x2, x4"
    };
}

/// The text of one branch of [`branches`].
pub(crate) const BRANCH_TEXT: &str = branch!();

/// For each of `count` words 64 branches, each taken where its bit is set; both ways lead to the
/// next one, so that only the guess differs. Returns the bits that were set.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn branches(count: u64, words: *const u64) -> u64 {
    core::arch::naked_asm!(
        "mov x2, #0",
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        "ldr x3, [x1], #8",
        ".rept 64",
        branch!(),
        ".endr",
        "subs x0, x0, #1",
        "b.ne 2b",
        "3:",
        "mov x0, x2",
        "ret",
    )
}

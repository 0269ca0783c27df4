//! Arithmetic at full rate: a turn is a row of independent instructions on
//! registers, as often as makes 192 (22 or 77 of a mix), a subtraction and a
//! branch.
//!
//! Each kernel takes the number of turns, two operands (at 0 and 64 bytes: what
//! is multiplied by, what is added) and its accumulators, 64 bytes apart, which
//! it loads before the loop and stores after it.

use core::arch::naked_asm;

use crate::arch::kernels_table as table;
use crate::peak::{Body, Code, Kernel, MIX_CHAINS, Op, Type, Width};

/// The instruction for one accumulator, given the names of its register, of
/// the multiplier's and of the addend's.
macro_rules! step {
    (add $op:literal, $acc:expr, $m:expr, $c:expr) => {
        concat!($op, " ", $acc, ", ", $acc, ", ", $c)
    };
    (mul $op:literal, $acc:expr, $m:expr, $c:expr) => {
        concat!($op, " ", $acc, ", ", $acc, ", ", $m)
    };
    (fmla $op:literal, $acc:expr, $m:expr, $c:expr) => {
        concat!($op, " ", $acc, ", ", $m, ", ", $c)
    };
    (fmadd $op:literal, $acc:expr, $m:expr, $c:expr) => {
        concat!($op, " ", $acc, ", ", $m, ", ", $c, ", ", $acc)
    };
}

/// Accumulators in vector registers. `$load` names them in loads and stores (`q0`), `$kind` and
/// `$lanes` in the step (`v0.4s`, `d0`). The low halves of v8 to v15 are the caller's.
macro_rules! vector {
    ($name:ident, $form:ident $op:literal, $load:literal, $kind:literal $lanes:literal, $rounds:literal, $($acc:literal)*) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(turns: u64, operands: *const u8, accumulators: *mut u8) {
            naked_asm!(
                "stp d8, d9, [sp, #-64]!",
                "stp d10, d11, [sp, #16]",
                "stp d12, d13, [sp, #32]",
                "stp d14, d15, [sp, #48]",
                concat!("ldr ", $load, "30, [x1]"),
                concat!("ldr ", $load, "31, [x1, #64]"),
                "mov x3, x2",
                $(concat!("ldr ", $load, $acc, ", [x3], #64"),)*
                "cbz x0, 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $rounds),
                $(step!(
                    $form $op,
                    concat!($kind, $acc, $lanes),
                    concat!($kind, "30", $lanes),
                    concat!($kind, "31", $lanes)
                ),)*
                ".endr",
                "subs x0, x0, #1",
                "b.ne 2b",
                "3:",
                $(concat!("str ", $load, $acc, ", [x2], #64"),)*
                "ldp d14, d15, [sp, #48]",
                "ldp d12, d13, [sp, #32]",
                "ldp d10, d11, [sp, #16]",
                "ldp d8, d9, [sp], #64",
                "ret",
            )
        }
    };
    // 24 chains: six units of four cycles, more than any core has so far.
    ($name:ident, $form:ident $op:literal, $load:literal, $kind:literal $lanes:literal) => {
        vector!($name, $form $op, $load, $kind $lanes, 8,
            "0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18"
            "19" "20" "21" "22" "23");
    };
}

/// 12 chains in general registers, named by `$kind` (`w`, `x`).
macro_rules! general {
    ($name:ident, $op:literal, $operand:literal, $kind:literal, $($acc:literal)*) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(turns: u64, operands: *const u8, accumulators: *mut u8) {
            naked_asm!(
                concat!("ldr ", $kind, "1, [x1, #", $operand, "]"),
                "mov x3, x2",
                $(concat!("ldr ", $kind, $acc, ", [x3], #64"),)*
                "cbz x0, 3f",
                ".p2align 6",
                "2:",
                ".rept 16",
                $(concat!($op, " ", $kind, $acc, ", ", $kind, $acc, ", ", $kind, "1"),)*
                ".endr",
                "subs x0, x0, #1",
                "b.ne 2b",
                "3:",
                $(concat!("str ", $kind, $acc, ", [x2], #64"),)*
                "ret",
            )
        }
    };
    ($name:ident, $op:literal, $operand:literal, $kind:literal) => {
        general!($name, $op, $operand, $kind,
            "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15");
    };
}

/// Of 11 chains 6 add and 5 multiply, `$rounds` steps each in a turn; the multiplier is in register
/// 16 of `$kind`, the addend in 17. The low halves of v8 to v15 are the caller's.
macro_rules! mix {
    ($name:ident, $rounds:literal, $kind:literal, $add_op:literal, $mul_op:literal, $($add:literal)*, $($mul:literal)*) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(turns: u64, operands: *const u8, accumulators: *mut u8) {
            naked_asm!(
                concat!("ldr ", $kind, "16, [x1]"),
                concat!("ldr ", $kind, "17, [x1, #64]"),
                "mov x3, x2",
                $(concat!("ldr ", $kind, $add, ", [x3], #64"),)*
                $(concat!("ldr ", $kind, $mul, ", [x3], #64"),)*
                "cbz x0, 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $rounds),
                $(concat!($add_op, " ", $kind, $add, ", ", $kind, $add, ", ", $kind, "17"),)*
                $(concat!($mul_op, " ", $kind, $mul, ", ", $kind, $mul, ", ", $kind, "16"),)*
                ".endr",
                "subs x0, x0, #1",
                "b.ne 2b",
                "3:",
                $(concat!("str ", $kind, $add, ", [x2], #64"),)*
                $(concat!("str ", $kind, $mul, ", [x2], #64"),)*
                "ret",
            )
        }
    };
}

table! { code:
    Scalar Mix I64 mix!(2, "x", "add", "mul", "4" "5" "6" "7" "8" "9", "10" "11" "12" "13" "14");
    Scalar Mix F64 mix!(7, "d", "fadd", "fmul", "0" "1" "2" "3" "4" "5", "18" "19" "20" "21" "22");
    Scalar Add I32 general!("add", 64, "w");
    Scalar Add I64 general!("add", 64, "x");
    Scalar Mul I32 general!("mul", 0, "w");
    Scalar Mul I64 general!("mul", 0, "x");
    Scalar Add F32 vector!(add "fadd", "s", "s" "");
    Scalar Add F64 vector!(add "fadd", "d", "d" "");
    Scalar Mul F32 vector!(mul "fmul", "s", "s" "");
    Scalar Mul F64 vector!(mul "fmul", "d", "d" "");
    Scalar Fma F32 vector!(fmadd "fmadd", "s", "s" "");
    Scalar Fma F64 vector!(fmadd "fmadd", "d", "d" "");
    Neon Add F32 vector!(add "fadd", "q", "v" ".4s");
    Neon Add F64 vector!(add "fadd", "q", "v" ".2d");
    Neon Mul F32 vector!(mul "fmul", "q", "v" ".4s");
    Neon Mul F64 vector!(mul "fmul", "q", "v" ".2d");
    Neon Fma F32 vector!(fmla "fmla", "q", "v" ".4s");
    Neon Fma F64 vector!(fmla "fmla", "q", "v" ".2d");
    Neon Add I32 vector!(add "add", "q", "v" ".4s");
    Neon Add I64 vector!(add "add", "q", "v" ".2d");
    Neon Mul I32 vector!(mul "mul", "q", "v" ".4s");
}

// Chains of one accumulator: the time of a step is a latency, which gives the core's clock at this
// width.
table! { chain:
    Neon Fma F64 vector!(fmla "fmla", "q", "v" ".2d", 32, "0");
    Neon Add I64 vector!(add "add", "q", "v" ".2d", 32, "0");
}

/// The chain at the vector width: fused f64, additions of i64; none of other kinds.
pub(crate) fn peak_chain(kernel: Kernel) -> Option<Body> {
    Some(Body { run: chain(kernel)?, chains: 1, rounds: 32, ..peak_body(kernel)? })
}

/// The body of a kernel; none where this architecture has no such instruction.
/// Every 64-bit Arm of Linux has all of these.
pub(crate) fn peak_body(kernel: Kernel) -> Option<Body> {
    let run = code(kernel)?;
    let (chains, rounds) = match (kernel.width, kernel.element) {
        (_, Type::I64) if kernel.op == Op::Mix => (MIX_CHAINS.0, 2),
        _ if kernel.op == Op::Mix => (MIX_CHAINS.0, 7),
        (Width::Scalar, Type::I32 | Type::I64) => (12, 16),
        _ => (24, 8),
    };
    let lanes = match kernel.width {
        Width::Scalar => 1,
        _ => 16 / kernel.element.bytes(),
    };
    Some(Body { run, lanes, chains, rounds })
}

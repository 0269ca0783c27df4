//! Arithmetic at full rate: a turn is a row of independent instructions on
//! registers, as often as makes about 192 (22 or 77 of a mix), a decrement and
//! a branch.
//!
//! Each kernel takes the number of turns, two operands (at 0 and 64 bytes: what
//! is multiplied by, what is added) and its accumulators, 64 bytes apart, which
//! it loads before the loop and stores after it.

use core::arch::naked_asm;

use crate::arch::kernels_table as table;
use crate::arch::x86_64::{restored, saved};
use crate::peak::{Body, Code, Kernel, MIX_CHAINS, Op, Type, Width};

/// The instruction for one accumulator: `2` overwrites its first operand, `3`
/// names the destination apart (VEX and EVEX).
macro_rules! step {
    (add2 $op:literal $acc:literal $m:literal $c:literal) => {
        concat!($op, " ", $acc, ", ", $c)
    };
    (mul2 $op:literal $acc:literal $m:literal $c:literal) => {
        concat!($op, " ", $acc, ", ", $m)
    };
    (add3 $op:literal $acc:literal $m:literal $c:literal) => {
        concat!($op, " ", $acc, ", ", $acc, ", ", $c)
    };
    (mul3 $op:literal $acc:literal $m:literal $c:literal) => {
        concat!($op, " ", $acc, ", ", $acc, ", ", $m)
    };
    (fma3 $op:literal $acc:literal $m:literal $c:literal) => {
        concat!($op, " ", $acc, ", ", $m, ", ", $c)
    };
}

/// The rows of a turn: one instruction on its accumulators and, in a mix, another on others.
macro_rules! vector {
    ($name:ident, $form:ident $op:literal, $move:literal, $end:literal, $rounds:literal, $m:literal, $c:literal,
     $($acc:literal)* $(; $form2:ident $op2:literal $($acc2:literal)*)?) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(turns: u64, operands: *const u8, accumulators: *mut u8) {
            naked_asm!(
                concat!($move, " ", $m, ", [rsi]"),
                concat!($move, " ", $c, ", [rsi + 64]"),
                "mov rsi, rdx",
                $(concat!($move, " ", $acc, ", [rsi]"), "add rsi, 64",)*
                $($(concat!($move, " ", $acc2, ", [rsi]"), "add rsi, 64",)*)?
                "test rdi, rdi",
                "jz 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $rounds),
                $(step!($form $op $acc $m $c),)*
                $($(step!($form2 $op2 $acc2 $m $c),)*)?
                ".endr",
                "dec rdi",
                "jnz 2b",
                "3:",
                $(concat!($move, " [rdx], ", $acc), "add rdx, 64",)*
                $($(concat!($move, " [rdx], ", $acc2), "add rdx, 64",)*)?
                $end,
                "ret",
            )
        }
    };
}

/// 14 chains: of 16 registers two hold the operands.
macro_rules! xmm {
    ($name:ident, $form:ident $op:literal, $move:literal) => {
        vector!($name, $form $op, $move, "", 14, "xmm14", "xmm15",
            "xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10" "xmm11"
            "xmm12" "xmm13");
    };
}

macro_rules! ymm {
    ($name:ident, $form:ident $op:literal) => {
        vector!($name, $form $op, "vmovups", "vzeroupper", 14, "ymm14", "ymm15",
            "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11"
            "ymm12" "ymm13");
    };
}

/// 24 chains: of 32 registers, enough for any latency times units so far.
macro_rules! zmm {
    ($name:ident, $form:ident $op:literal) => {
        vector!($name, $form $op, "vmovups", "vzeroupper", 8, "zmm30", "zmm31",
            "zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11"
            "zmm12" "zmm13" "zmm14" "zmm15" "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22"
            "zmm23");
    };
}

/// Chains in general registers, `$rounds` steps each in a turn. The operands are registers, because
/// newer cores do additions of small constants at rename. A mix multiplies its second row.
macro_rules! general {
    ($name:ident, $op:literal, $operand:literal, $c:literal, $rounds:literal,
     $($acc:literal)* $(; $op2:literal $($acc2:literal)*)?) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(turns: u64, operands: *const u8, accumulators: *mut u8) {
            naked_asm!(
                saved!(),
                concat!("mov rcx, [rsi + ", $operand, "]"),
                // Where both stand goes to the red zone: all registers are in use.
                "mov [rsp - 8], rdx",
                "mov [rsp - 16], rsi",
                "mov rsi, rdx",
                $(concat!("mov ", $acc, ", [rsi]"), "add rsi, 64",)*
                $(
                    $(concat!("mov ", $acc2, ", [rsi]"), "add rsi, 64",)*
                    "mov rsi, [rsp - 16]",
                    "mov rsi, [rsi]",
                )?
                "test rdi, rdi",
                "jz 3f",
                ".p2align 6",
                "2:",
                concat!(".rept ", $rounds),
                $(concat!($op, " ", $acc, ", ", $c),)*
                $($(concat!($op2, " ", $acc2, ", rsi"),)*)?
                ".endr",
                "dec rdi",
                "jnz 2b",
                "3:",
                "mov rsi, [rsp - 8]",
                $(concat!("mov [rsi], ", $acc), "add rsi, 64",)*
                $($(concat!("mov [rsi], ", $acc2), "add rsi, 64",)*)?
                restored!(),
                "ret",
            )
        }
    };
    // 12 chains.
    ($name:ident, 32 $op:literal, $operand:literal) => {
        general!($name, $op, $operand, "ecx", 16, "eax" "edx" "r8d" "r9d" "r10d" "r11d" "ebx" "ebp"
            "r12d" "r13d" "r14d" "r15d");
    };
    ($name:ident, 64 $op:literal, $operand:literal) => {
        general!($name, $op, $operand, "rcx", 16, "rax" "rdx" "r8" "r9" "r10" "r11" "rbx" "rbp"
            "r12" "r13" "r14" "r15");
    };
}

// Of the 11 chains of a mix 6 add and 5 multiply.
table! { code:
    Scalar Mix I64 general!("add", 64, "rcx", 2, "rax" "rdx" "r8" "r9" "r10" "r11"; "imul" "rbx" "rbp" "r12" "r13" "r14");
    Scalar Mix F64 vector!(add2 "addsd", "movsd", "", 7, "xmm14", "xmm15",
        "xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5"; mul2 "mulsd" "xmm6" "xmm7" "xmm8" "xmm9" "xmm10");
    Scalar Add I32 general!(32 "add", 64);
    Scalar Add I64 general!(64 "add", 64);
    Scalar Mul I32 general!(32 "imul", 0);
    Scalar Mul I64 general!(64 "imul", 0);
    Scalar Add F32 xmm!(add2 "addss", "movss");
    Scalar Add F64 xmm!(add2 "addsd", "movsd");
    Scalar Mul F32 xmm!(mul2 "mulss", "movss");
    Scalar Mul F64 xmm!(mul2 "mulsd", "movsd");
    Scalar Fma F32 xmm!(fma3 "vfmadd231ss", "vmovss");
    Scalar Fma F64 xmm!(fma3 "vfmadd231sd", "vmovsd");
    Sse2 Add F32 xmm!(add2 "addps", "movups");
    Sse2 Add F64 xmm!(add2 "addpd", "movups");
    Sse2 Mul F32 xmm!(mul2 "mulps", "movups");
    Sse2 Mul F64 xmm!(mul2 "mulpd", "movups");
    Sse2 Add I32 xmm!(add2 "paddd", "movups");
    Sse2 Add I64 xmm!(add2 "paddq", "movups");
    Sse2 Mul I32 xmm!(mul2 "pmulld", "movups");
    Avx2 Add F32 ymm!(add3 "vaddps");
    Avx2 Add F64 ymm!(add3 "vaddpd");
    Avx2 Mul F32 ymm!(mul3 "vmulps");
    Avx2 Mul F64 ymm!(mul3 "vmulpd");
    Avx2 Fma F32 ymm!(fma3 "vfmadd231ps");
    Avx2 Fma F64 ymm!(fma3 "vfmadd231pd");
    Avx2 Add I32 ymm!(add3 "vpaddd");
    Avx2 Add I64 ymm!(add3 "vpaddq");
    Avx2 Mul I32 ymm!(mul3 "vpmulld");
    Avx512 Add F32 zmm!(add3 "vaddps");
    Avx512 Add F64 zmm!(add3 "vaddpd");
    Avx512 Mul F32 zmm!(mul3 "vmulps");
    Avx512 Mul F64 zmm!(mul3 "vmulpd");
    Avx512 Fma F32 zmm!(fma3 "vfmadd231ps");
    Avx512 Fma F64 zmm!(fma3 "vfmadd231pd");
    Avx512 Add I32 zmm!(add3 "vpaddd");
    Avx512 Add I64 zmm!(add3 "vpaddq");
    Avx512 Mul I32 zmm!(mul3 "vpmulld");
    Avx512 Mul I64 zmm!(mul3 "vpmullq");
}

// Chains of one accumulator: the time of a step is a latency, which gives the core's clock at this
// width. Fused ones take the same time in every unit; additions have a short cut from unit to unit
// on some cores, and multiplications of 64 bytes take 3 cycles in one unit of Redwood Cove and 4 in
// the other.
table! { chain:
    Sse2 Mul F64 vector!(mul2 "mulpd", "movups", "", 32, "xmm14", "xmm15", "xmm0");
    Sse2 Add I64 vector!(add2 "paddq", "movups", "", 32, "xmm14", "xmm15", "xmm0");
    Avx2 Fma F64 vector!(fma3 "vfmadd231pd", "vmovups", "vzeroupper", 32, "ymm14", "ymm15", "ymm0");
    Avx2 Add I64 vector!(add3 "vpaddq", "vmovups", "vzeroupper", 32, "ymm14", "ymm15", "ymm0");
    Avx512 Fma F64 vector!(fma3 "vfmadd231pd", "vmovups", "vzeroupper", 32, "zmm30", "zmm31", "zmm0");
    Avx512 Add I64 vector!(add3 "vpaddq", "vmovups", "vzeroupper", 32, "zmm30", "zmm31", "zmm0");
}

/// The chain at a vector width: fused f64 (SSE2, which has none: multiplied), additions of i64;
/// none of other kinds.
pub(crate) fn peak_chain(kernel: Kernel) -> Option<Body> {
    Some(Body { run: chain(kernel)?, chains: 1, rounds: 32, ..peak_body(kernel)? })
}

/// The body of a kernel; none where this architecture has no such instruction
/// or this processor (or its kernel, which keeps the registers) lacks it.
pub(crate) fn peak_body(kernel: Kernel) -> Option<Body> {
    written(kernel).filter(|_| has(kernel))
}

/// A kernel's code, whether or not this processor can run it.
pub(super) fn written(kernel: Kernel) -> Option<Body> {
    let Kernel { op, element, width } = kernel;
    let run = code(kernel)?;
    let bytes = match width {
        Width::Scalar => element.bytes(),
        Width::Sse2 | Width::Neon => 16,
        Width::Avx2 => 32,
        Width::Avx512 => 64,
    };
    let (chains, rounds) = match (width, element) {
        (_, Type::I64) if op == Op::Mix => (MIX_CHAINS.0, 2),
        _ if op == Op::Mix => (MIX_CHAINS.0, 7),
        (Width::Avx512, _) => (24, 8),
        (Width::Scalar, Type::I32 | Type::I64) => (12, 16),
        _ => (14, 14),
    };
    Some(Body { run, lanes: bytes / element.bytes(), chains, rounds })
}

/// Whether this processor runs the kernel's instructions; the standard
/// library's answer includes that the kernel keeps the registers.
fn has(kernel: Kernel) -> bool {
    let fma = kernel.op != Op::Fma || std::is_x86_feature_detected!("fma");
    fma && match (kernel.width, kernel.op, kernel.element) {
        (Width::Scalar, ..) => true,
        (Width::Sse2, Op::Mul, Type::I32) => std::is_x86_feature_detected!("sse4.1"),
        (Width::Sse2, ..) => true,
        (Width::Avx2, ..) => std::is_x86_feature_detected!("avx2"),
        (Width::Avx512, Op::Mul, Type::I64) => {
            std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512dq")
        }
        (Width::Avx512, ..) => std::is_x86_feature_detected!("avx512f"),
        (Width::Neon, ..) => false,
    }
}

//! Bandwidth: loops that do nothing but move an array's words.
//!
//! Each takes three pointers (what is written or else read, and the two sources), the units of an
//! array, how often to pass over it, and 64 bytes of the constant. A unit is a line, or with R0's
//! stride the 512 bytes in which one word is touched. A turn moves several units; a second loop
//! moves one at a time what is left of them. All pointers advance alike, without an index register:
//! stores with one keep Haswell to Skylake from using their third address unit. Non-temporal stores
//! are in order when a loop returns.

use crate::stream::{Access, Ahead, Code, Kernel, Op, Stores, Width};

/// Moves the pointers of so many arrays.
macro_rules! all {
    (1 $what:literal $by:expr) => {
        concat!($what, " rdi, ", $by)
    };
    (2 $what:literal $by:expr) => {
        concat!($what, " rdi, ", $by, "\n", $what, " rsi, ", $by)
    };
    (3 $what:literal $by:expr) => {
        concat!($what, " rdi, ", $by, "\n", $what, " rsi, ", $by, "\n", $what, " rdx, ", $by)
    };
}

/// Units of 2^`$shift` bytes over so many arrays. `$step` is done for all `\unit` of `$units` and
/// `\word` of `$words`, which make a turn of `$turn` bytes, and `$ahead` once for each `\unit`;
/// `$alone` is done for all `\word` of `$single`, which make a unit.
macro_rules! passes {
    ($name:ident, $arrays:tt, $shift:literal $unit:literal, $turn:literal: $units:literal $words:literal, $single:literal,
     begin [$($begin:expr),*], ahead [$($ahead:expr),*], step [$($step:expr),*], alone [$($alone:expr),*], end [$($end:expr),*]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(
            a: *mut u8,
            b: *const u8,
            c: *const u8,
            units: usize,
            passes: usize,
            constant: *const u8,
        ) -> u64 {
            core::arch::naked_asm!(
                $($begin,)*
                concat!("shl rcx, ", $shift),
                "mov r10, rcx",
                "mov r9, rcx",
                concat!("and r9, -", $turn),
                "add r9, rdi",
                "add rcx, rdi",
                "5:",
                "cmp rdi, r9",
                "je 3f",
                ".p2align 6",
                "2:",
                concat!(".irp unit, ", $units),
                $($ahead,)*
                concat!(".irp word, ", $words),
                $($step,)*
                ".endr",
                ".endr",
                all!($arrays "add" $turn),
                "cmp rdi, r9",
                "jne 2b",
                "3:",
                "cmp rdi, rcx",
                "je 4f",
                "6:",
                ".irp unit, 0",
                concat!(".irp word, ", $single),
                $($alone,)*
                ".endr",
                ".endr",
                all!($arrays "add" $unit),
                "cmp rdi, rcx",
                "jne 6b",
                "4:",
                all!($arrays "sub" "r10"),
                "dec r8",
                "jnz 5b",
                $($end,)*
                "ret",
            )
        }
    };
}

mod scalar;
mod vector;

/// A kernel's loop; none where this architecture has none or this processor
/// (or its operating system, which keeps the registers) lacks its instructions.
/// `ahead`: the one that prefetches, where there is one.
pub(crate) fn stream_code(kernel: Kernel, ahead: Ahead) -> Option<Code> {
    let has = match kernel.width {
        Width::Word4 | Width::Word8 | Width::Sse2 => true,
        Width::Avx2 => {
            std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")
        }
        Width::Avx512 => std::is_x86_feature_detected!("avx512f"),
        Width::Neon => false,
    };
    written(kernel, ahead == Ahead::Yes).filter(|_| has)
}

/// Whether a kernel has a loop of its own that prefetches.
pub(crate) fn stream_has_ahead(kernel: Kernel) -> bool {
    kernel.width.is_vector() && (kernel.op, kernel.stores) != (Op::Write, Stores::NonTemporal)
}

/// A kernel's code, whether or not this processor can run it.
pub(super) fn written(kernel: Kernel, ahead: bool) -> Option<Code> {
    let Kernel { op, stores, access, width } = kernel;
    match (width, access, stores) {
        (Width::Word4 | Width::Word8, ..) => scalar::code(kernel),
        (Width::Sse2, Access::Every, Stores::Regular) => vector::sse2(op, ahead),
        (Width::Sse2, Access::Every, Stores::NonTemporal) => vector::sse2_past(op, ahead),
        (Width::Avx2, Access::Every, Stores::Regular) => vector::avx2(op, ahead),
        (Width::Avx2, Access::Every, Stores::NonTemporal) => vector::avx2_past(op, ahead),
        (Width::Avx512, Access::Every, Stores::Regular) => vector::avx512(op, ahead),
        (Width::Avx512, Access::Every, Stores::NonTemporal) => vector::avx512_past(op, ahead),
        _ => None,
    }
}

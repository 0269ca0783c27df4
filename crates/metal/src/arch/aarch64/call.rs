//! Calls of a procedure, eight a turn. What is executed for each call is what a
//! C compiler emits under the AAPCS64 for `sum += f(1, 2, 3 …)`: immediates to
//! registers, the ninth argument of a kind onwards on the stack.
//!
//! Callees return the sum of their arguments (1 if they have none), which proves that every
//! argument arrived. A callee with its arguments in registers adds them there; a *spilled* one
//! makes a frame, stores its arguments in it and reads them back, as unoptimised code does.
//!
//! Loops return the sum of what the callees returned; for floating types the bit patterns are
//! summed, because a floating addition's latency would exceed the cost of the call.

use crate::arch::callee_end;
use core::arch::naked_asm;

/// The structure that is passed by value: three words, too big for registers.
static STRUCTURE: [u64; 3] = [1, 2, 3];

/// Bytes of stack arguments, kept a multiple of 16 as the convention demands.
const fn stack_bytes(arguments: usize) -> usize {
    arguments.saturating_sub(8).next_multiple_of(2) * 8
}

/// Assembles `$text` where the call has at least `$count` arguments.
macro_rules! with {
    ($count:literal, $text:expr) => {
        concat!(".if {arguments} >= ", $count, "\n", $text, "\n.endif\n")
    };
}

/// Saves what the loop uses, repeats the call `n` times, returns the sum.
/// x19: sum of integers; x20: calls left; x21: free for `$before`.
macro_rules! call_turns {
    ($before:expr, $call:expr, $after:expr $(, $($operands:tt)*)?) => {
        naked_asm!(
            "stp x29, x30, [sp, #-48]!",
            "mov x29, sp",
            "stp x19, x20, [sp, #16]",
            "str x21, [sp, #32]",
            "mov x19, #0",
            $before,
            "subs x20, x0, #8",
            "b.lo 3f",
            ".p2align 6",
            "2:",
            ".rept 8",
            $call,
            ".endr",
            "subs x20, x20, #8",
            "b.hs 2b",
            "3:",
            "adds x20, x20, #8",
            "b.eq 5f",
            "4:",
            $call,
            "subs x20, x20, #1",
            "b.ne 4b",
            "5:",
            $after,
            "ldr x21, [sp, #32]",
            "ldp x19, x20, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            "ret",
            $($($operands)*)?
        )
    };
}

/// The callee and the loop for one type. `$r`: the letter of its registers;
/// `$add`: its addition; `$sum` adds a result to the loop's sum.
macro_rules! typed_call {
    ($caller:ident, $callee:ident, $r:literal, $add:literal, $size:literal,
     $set:literal, $value:literal, $scratch:literal, $zero:literal, $sum:literal, $after:literal) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $callee<const ARGUMENTS: usize, const SPILLED: bool>() {
            naked_asm!(
                ".if {arguments} == 0",
                ".if {spilled}\nsub sp, sp, #64\n.endif",
                typed_call!(@set $set, 0, $value, 1),
                ".elseif {spilled}",
                "sub sp, sp, #64",
                typed_call!(@stored $r, $size, 1 0, 2 1, 3 2, 4 3, 5 4, 6 5, 7 6, 8 7),
                concat!("ldr ", $r, "0, [sp]"),
                typed_call!(@loaded $r, $add, $scratch, $size, 0,
                    2 1, 3 2, 4 3, 5 4, 6 5, 7 6, 8 7),
                typed_call!(@loaded $r, $add, $scratch, 8, 64, 9 0, 10 1, 11 2, 12 3),
                ".else",
                typed_call!(@added $r, $add, 2 1, 3 2, 4 3, 5 4, 6 5, 7 6, 8 7),
                typed_call!(@loaded $r, $add, $scratch, 8, 0, 9 0, 10 1, 11 2, 12 3),
                ".endif",
                ".if {spilled}\nadd sp, sp, #64\n.endif",
                callee_end!("ret"),
                arguments = const ARGUMENTS,
                spilled = const SPILLED as usize,
            )
        }

        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $caller<const ARGUMENTS: usize, const SPILLED: bool>(
            n: u64,
        ) -> u64 {
            call_turns!(
                $zero,
                concat!(
                    ".if {stack} > 0\nsub sp, sp, #{stack}\n.endif\n",
                    typed_call!(@stacked $r, $set, $value, $scratch, 9 0, 10 1, 11 2, 12 3),
                    typed_call!(@passed $set, $value, 1 0, 2 1, 3 2, 4 3, 5 4, 6 5, 7 6, 8 7),
                    "bl {callee}\n",
                    ".if {stack} > 0\nadd sp, sp, #{stack}\n.endif\n",
                    $sum, "\n",
                ),
                $after,
                arguments = const ARGUMENTS,
                stack = const stack_bytes(ARGUMENTS),
                callee = sym $callee::<ARGUMENTS, SPILLED>,
            )
        }
    };
    (@set $set:literal, $register:literal, $value:literal, $number:literal) => {
        concat!($set, $register, ", #", $number, $value)
    };
    (@stored $r:literal, $size:literal, $($count:literal $index:literal),*) => {
        concat!($(with!($count, concat!("str ", $r, $index, ", [sp, #", $size, " * ", $index, "]"))),*)
    };
    (@loaded $r:literal, $add:literal, $scratch:literal, $size:literal, $from:literal,
     $($count:literal $index:literal),*) => {
        concat!($(with!($count, concat!(
            "ldr ", $r, $scratch, ", [sp, #", $from, " + ", $size, " * ", $index, "]\n",
            $add, " ", $r, "0, ", $r, "0, ", $r, $scratch
        ))),*)
    };
    (@added $r:literal, $add:literal, $($count:literal $index:literal),*) => {
        concat!($(with!($count, concat!($add, " ", $r, "0, ", $r, "0, ", $r, $index))),*)
    };
    (@passed $set:literal, $value:literal, $($count:literal $index:literal),*) => {
        concat!($(with!($count, concat!($set, $index, ", #", $count, $value))),*)
    };
    (@stacked $r:literal, $set:literal, $value:literal, $scratch:literal,
     $($count:literal $index:literal),*) => {
        concat!($(with!($count, concat!(
            $set, $scratch, ", #", $count, $value, "\n",
            "str ", $r, $scratch, ", [sp, #8 * ", $index, "]"
        ))),*)
    };
}

typed_call! {
    calls_i32, callee_i32, "w", "add", 4, "mov w", "", 9, "", "add x19, x19, x0", "mov x0, x19"
}
typed_call! {
    calls_i64, callee_i64, "x", "add", 8, "mov w", "", 9, "", "add x19, x19, x0", "mov x0, x19"
}
// v24 to v31 are the caller's; the callees here leave v24 alone.
typed_call! {
    calls_f32, callee_f32, "s", "fadd", 4, "fmov s", ".0", 16,
    "movi d24, #0", "add d24, d24, d0", "fmov x0, d24"
}
typed_call! {
    calls_f64, callee_f64, "d", "fadd", 8, "fmov d", ".0", 16,
    "movi d24, #0", "add d24, d24, d0", "fmov x0, d24"
}

/// One i64 argument in a register, through a register that holds the address.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_indirect(n: u64) -> u64 {
    call_turns!(
        "adrp x21, {callee}\nadd x21, x21, :lo12:{callee}",
        "mov w0, #1\nblr x21\nadd x19, x19, x0\n",
        "mov x0, x19",
        callee = sym callee_i64::<1, false>,
    )
}

/// What a procedure linkage table jumps through: the address, in data, as the
/// dynamic linker leaves it after binding.
static LINKAGE_SLOT: unsafe extern "C" fn() = callee_i64::<1, false>;

/// An entry of a procedure linkage table.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn linkage_stub() {
    naked_asm!(
        "adrp x16, {slot}",
        "ldr x17, [x16, :lo12:{slot}]",
        "add x16, x16, :lo12:{slot}",
        callee_end!("br x17"),
        slot = sym LINKAGE_SLOT,
    )
}

/// One i64 argument in a register, through `linkage_stub`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_linkage(n: u64) -> u64 {
    call_turns!(
        "",
        "mov w0, #1\nbl {stub}\nadd x19, x19, x0\n",
        "mov x0, x19",
        stub = sym linkage_stub,
    )
}

/// Adds the three words of a structure at the address in x0.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn callee_structure() {
    naked_asm!(
        "ldp x8, x9, [x0]",
        "ldr x10, [x0, #16]",
        "add x0, x8, x9",
        "add x0, x0, x10",
        callee_end!("ret"),
    )
}

/// A structure of 24 bytes by value: copied to the caller's stack for each
/// call, whose address is passed.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_structure(n: u64) -> u64 {
    call_turns!(
        "adrp x21, {structure}\nadd x21, x21, :lo12:{structure}",
        concat!(
            "sub sp, sp, #32\n",
            "ldp x8, x9, [x21]\n",
            "ldr x10, [x21, #16]\n",
            "stp x8, x9, [sp]\n",
            "str x10, [sp, #16]\n",
            "mov x0, sp\n",
            "bl {callee}\n",
            "add sp, sp, #32\n",
            "add x19, x19, x0\n",
        ),
        "mov x0, x19",
        structure = sym STRUCTURE,
        callee = sym callee_structure,
    )
}

//! Calls of a procedure, eight a turn. What is executed for each call is what a C compiler emits
//! under the System V convention for `sum += f(1, 2, 3 …)`: integers as immediates, floating
//! constants from memory, the seventh integer and the ninth floating argument onwards on the stack.
//!
//! Callees return the sum of their arguments (1 if they have none), which proves that every
//! argument arrived. A callee with its arguments in registers adds them there; a *spilled* one sets
//! up a frame, stores its arguments in it and reads them back, as unoptimised code does.
//!
//! Loops return the sum of what the callees returned; for floating types the
//! bit patterns are summed (`paddq`, one cycle), because a floating addition's
//! latency would exceed the cost of the call.

use crate::arch::callee_end;
use core::arch::naked_asm;

/// The arguments; aligned to a line so that all of one call share one or two.
#[repr(align(64))]
pub(super) struct Constants<T>([T; 12]);

pub(super) static F32_CONSTANTS: Constants<f32> =
    Constants([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
pub(super) static F64_CONSTANTS: Constants<f64> =
    Constants([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);

/// The structure that is passed by value: three words, too big for registers.
pub(super) static STRUCTURE: [u64; 3] = [1, 2, 3];

/// Bytes of stack arguments, kept a multiple of 16 as the convention demands.
const fn stack_bytes(arguments: usize, in_registers: usize) -> usize {
    arguments.saturating_sub(in_registers).next_multiple_of(2) * 8
}

/// Assembles `$text` where the call has at least `$count` arguments.
macro_rules! with {
    ($count:literal, $text:expr) => {
        concat!(".if {arguments} >= ", $count, "\n", $text, "\n.endif\n")
    };
}

/// Adds the arguments from so many on that are on the stack, at these offsets.
macro_rules! stacked {
    ($add:expr, $($count:literal $offset:literal),*) => {
        concat!($(with!($count, concat!($add, $offset, "]"))),*)
    };
}

/// Saves what the loop uses, repeats the call `n` times, returns the sum.
/// rbx: sum of integers; r12: calls left; r13: free for `$before`.
macro_rules! call_turns {
    ($before:expr, $call:expr, $after:expr $(, $($operands:tt)*)?) => {
        naked_asm!(
            "push rbx",
            "push r12",
            "push r13",
            "xor ebx, ebx",
            $before,
            "mov r12, rdi",
            "sub r12, 8",
            "jb 3f",
            ".p2align 6",
            "2:",
            ".rept 8",
            $call,
            ".endr",
            "sub r12, 8",
            "jae 2b",
            "3:",
            "add r12, 8",
            "jz 5f",
            "4:",
            $call,
            "dec r12",
            "jnz 4b",
            "5:",
            $after,
            "pop r13",
            "pop r12",
            "pop rbx",
            "ret",
            $($($operands)*)?
        )
    };
}

macro_rules! integer_call {
    ($caller:ident, $callee:ident, $a:literal, [$($count:literal $register:literal $slot:literal),*]) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $callee<const ARGUMENTS: usize, const SPILLED: bool>() {
            naked_asm!(
                ".if {arguments} == 0",
                ".if {spilled}\npush rbp\nmov rbp, rsp\n.endif",
                "mov eax, 1",
                ".elseif {spilled}",
                "push rbp",
                "mov rbp, rsp",
                $(with!($count, concat!("mov ", $slot, ", ", $register)),)*
                concat!("mov ", $a, ", ", integer_call!(@first $($slot)*)),
                integer_call!(@rest $a, $($count $slot),*),
                stacked!(concat!("add ", $a, ", [rbp + "), 7 16, 8 24, 9 32, 10 40, 11 48, 12 56),
                ".else",
                concat!("mov ", $a, ", ", integer_call!(@first $($register)*)),
                integer_call!(@rest $a, $($count $register),*),
                stacked!(concat!("add ", $a, ", [rsp + "), 7 8, 8 16, 9 24, 10 32, 11 40, 12 48),
                ".endif",
                ".if {spilled}\npop rbp\n.endif",
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
                "",
                concat!(
                    ".if {stack} > 0\n",
                    ".if {arguments} & 1\nsub rsp, 8\n.endif\n",
                    with!(12, "push 12"),
                    with!(11, "push 11"),
                    with!(10, "push 10"),
                    with!(9, "push 9"),
                    with!(8, "push 8"),
                    "push 7\n",
                    ".endif\n",
                    with!(6, "mov r9d, 6"),
                    with!(5, "mov r8d, 5"),
                    with!(4, "mov ecx, 4"),
                    with!(3, "mov edx, 3"),
                    with!(2, "mov esi, 2"),
                    with!(1, "mov edi, 1"),
                    "call {callee}\n",
                    ".if {stack} > 0\nadd rsp, {stack}\n.endif\n",
                    "add rbx, rax\n",
                ),
                "mov rax, rbx",
                arguments = const ARGUMENTS,
                stack = const stack_bytes(ARGUMENTS, 6),
                callee = sym $callee::<ARGUMENTS, SPILLED>,
            )
        }
    };
    (@first $first:literal $($rest:literal)*) => { $first };
    (@rest $a:literal, $first:literal $skipped:literal $(, $count:literal $place:literal)*) => {
        concat!($(with!($count, concat!("add ", $a, ", ", $place))),*)
    };
}

integer_call!(calls_i32, callee_i32, "eax", [
    1 "edi" "dword ptr [rbp - 4]", 2 "esi" "dword ptr [rbp - 8]", 3 "edx" "dword ptr [rbp - 12]",
    4 "ecx" "dword ptr [rbp - 16]", 5 "r8d" "dword ptr [rbp - 20]", 6 "r9d" "dword ptr [rbp - 24]"
]);
integer_call!(calls_i64, callee_i64, "rax", [
    1 "rdi" "qword ptr [rbp - 8]", 2 "rsi" "qword ptr [rbp - 16]", 3 "rdx" "qword ptr [rbp - 24]",
    4 "rcx" "qword ptr [rbp - 32]", 5 "r8" "qword ptr [rbp - 40]", 6 "r9" "qword ptr [rbp - 48]"
]);

macro_rules! floating_call {
    ($caller:ident, $callee:ident, $constants:ident, $move:literal, $add:literal, $size:literal,
     $word:literal, [$($count:literal $register:literal $slot:literal),*]) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $callee<const ARGUMENTS: usize, const SPILLED: bool>() {
            naked_asm!(
                ".if {spilled}\npush rbp\nmov rbp, rsp\n.endif",
                ".if {arguments} == 0",
                concat!($move, " xmm0, ", $word, " ptr [rip + {constants}]"),
                ".elseif {spilled}",
                $(with!($count, concat!($move, " ", $word, " ptr ", $slot, ", ", $register)),)*
                concat!($move, " xmm0, ", $word, " ptr ", floating_call!(@first $($slot)*)),
                floating_call!(@rest concat!($add, " xmm0, ", $word, " ptr "), $($count $slot),*),
                stacked!(concat!($add, " xmm0, ", $word, " ptr [rbp + "), 9 16, 10 24, 11 32, 12 40),
                ".else",
                floating_call!(@rest concat!($add, " xmm0, "), $($count $register),*),
                stacked!(concat!($add, " xmm0, ", $word, " ptr [rsp + "), 9 8, 10 16, 11 24, 12 32),
                ".endif",
                ".if {spilled}\npop rbp\n.endif",
                callee_end!("ret"),
                arguments = const ARGUMENTS,
                spilled = const SPILLED as usize,
                constants = sym $constants,
            )
        }

        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $caller<const ARGUMENTS: usize, const SPILLED: bool>(
            n: u64,
        ) -> u64 {
            call_turns!(
                "pxor xmm15, xmm15",
                concat!(
                    ".if {stack} > 0\nsub rsp, {stack}\n.endif\n",
                    floating_call!(@stacked $move $size $word, 12 "xmm11" 3, 11 "xmm10" 2, 10 "xmm9" 1, 9 "xmm8" 0),
                    floating_call!(@loaded $move $size $word, 8 "xmm7", 7 "xmm6", 6 "xmm5", 5 "xmm4",
                        4 "xmm3", 3 "xmm2", 2 "xmm1", 1 "xmm0"),
                    "call {callee}\n",
                    ".if {stack} > 0\nadd rsp, {stack}\n.endif\n",
                    "paddq xmm15, xmm0\n",
                ),
                "movq rax, xmm15",
                arguments = const ARGUMENTS,
                stack = const stack_bytes(ARGUMENTS, 8),
                constants = sym $constants,
                callee = sym $callee::<ARGUMENTS, SPILLED>,
            )
        }
    };
    (@first $first:literal $($rest:literal)*) => { $first };
    (@rest $add:expr, $first:literal $skipped:literal $(, $count:literal $place:literal)*) => {
        concat!($(with!($count, concat!($add, $place))),*)
    };
    (@loaded $move:literal $size:literal $word:literal, $($count:literal $register:literal),*) => {
        concat!($(with!($count, concat!(
            $move, " ", $register, ", ", $word, " ptr [rip + {constants} + ", $size, " * (", $count, " - 1)]"
        ))),*)
    };
    (@stacked $move:literal $size:literal $word:literal, $($count:literal $register:literal $slot:literal),*) => {
        concat!($(with!($count, concat!(
            $move, " ", $register, ", ", $word, " ptr [rip + {constants} + ", $size, " * (", $count, " - 1)]\n",
            $move, " ", $word, " ptr [rsp + 8 * ", $slot, "], ", $register
        ))),*)
    };
}

floating_call!(calls_f32, callee_f32, F32_CONSTANTS, "movss", "addss", 4, "dword", [
    1 "xmm0" "[rbp - 4]", 2 "xmm1" "[rbp - 8]", 3 "xmm2" "[rbp - 12]", 4 "xmm3" "[rbp - 16]",
    5 "xmm4" "[rbp - 20]", 6 "xmm5" "[rbp - 24]", 7 "xmm6" "[rbp - 28]", 8 "xmm7" "[rbp - 32]"
]);
floating_call!(calls_f64, callee_f64, F64_CONSTANTS, "movsd", "addsd", 8, "qword", [
    1 "xmm0" "[rbp - 8]", 2 "xmm1" "[rbp - 16]", 3 "xmm2" "[rbp - 24]", 4 "xmm3" "[rbp - 32]",
    5 "xmm4" "[rbp - 40]", 6 "xmm5" "[rbp - 48]", 7 "xmm6" "[rbp - 56]", 8 "xmm7" "[rbp - 64]"
]);

/// One i64 argument in a register, through a register that holds the address.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_indirect(n: u64) -> u64 {
    call_turns!(
        "lea r13, [rip + {callee}]",
        "mov edi, 1\ncall r13\nadd rbx, rax\n",
        "mov rax, rbx",
        callee = sym callee_i64::<1, false>,
    )
}

/// What a procedure linkage table jumps through: the address, in data, as the
/// dynamic linker leaves it after binding.
pub(super) static LINKAGE_SLOT: unsafe extern "C" fn() = callee_i64::<1, false>;

/// An entry of a procedure linkage table.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn linkage_stub() {
    naked_asm!(callee_end!("jmp qword ptr [rip + {slot}]"), slot = sym LINKAGE_SLOT)
}

/// One i64 argument in a register, through `linkage_stub`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_linkage(n: u64) -> u64 {
    call_turns!(
        "",
        "mov edi, 1\ncall {stub}\nadd rbx, rax\n",
        "mov rax, rbx",
        stub = sym linkage_stub,
    )
}

/// Adds the three words of a structure that was copied to the stack.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn callee_structure() {
    naked_asm!(
        "mov rax, qword ptr [rsp + 8]",
        "add rax, qword ptr [rsp + 16]",
        "add rax, qword ptr [rsp + 24]",
        callee_end!("ret"),
    )
}

/// A structure of 24 bytes by value: copied to the stack for each call.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn calls_structure(n: u64) -> u64 {
    call_turns!(
        "lea r13, [rip + {structure}]",
        concat!(
            "sub rsp, 8\n",
            "push qword ptr [r13 + 16]\n",
            "push qword ptr [r13 + 8]\n",
            "push qword ptr [r13]\n",
            "call {callee}\n",
            "add rsp, 32\n",
            "add rbx, rax\n",
        ),
        "mov rax, rbx",
        structure = sym STRUCTURE,
        callee = sym callee_structure,
    )
}

//! Several chains of pointers at once: each turn loads once for every chain, and no load of a turn
//! waits for another of it.
//!
//! Thirteen chains stand in general registers. The next sixteen stand in vector registers and pass
//! through rax for their address, some three cycles more a load; the last three stand on the stack
//! and pay for a store that is forwarded, some five. Beside a load from the second cache or further
//! out that is little.

use core::arch::naked_asm;

use crate::arch::ChainsTurns;

/// Assembles `$text` where there are more than `$chain` chains.
macro_rules! with {
    ($chain:literal, $text:expr) => {
        concat!(".if {chains} > ", $chain, "\n", $text, "\n.endif\n")
    };
}

/// Assembles a text for each chain, by where it stands: `$general` with its register, `$vector`
/// with its register, `$stack` with its place below the stack pointer, and for all its place in the
/// list of the caller's. rsi, which holds that list, is the thirteenth's.
macro_rules! each {
    ($general:ident, $vector:ident, $stack:ident) => {
        concat!(
            with!(0, $general!("rbx", "0")),
            with!(1, $general!("rcx", "8")),
            with!(2, $general!("rdx", "16")),
            with!(3, $general!("rbp", "24")),
            with!(4, $general!("r8", "32")),
            with!(5, $general!("r9", "40")),
            with!(6, $general!("r10", "48")),
            with!(7, $general!("r11", "56")),
            with!(8, $general!("r12", "64")),
            with!(9, $general!("r13", "72")),
            with!(10, $general!("r14", "80")),
            with!(11, $general!("r15", "88")),
            with!(13, $vector!("xmm0", "104")),
            with!(14, $vector!("xmm1", "112")),
            with!(15, $vector!("xmm2", "120")),
            with!(16, $vector!("xmm3", "128")),
            with!(17, $vector!("xmm4", "136")),
            with!(18, $vector!("xmm5", "144")),
            with!(19, $vector!("xmm6", "152")),
            with!(20, $vector!("xmm7", "160")),
            with!(21, $vector!("xmm8", "168")),
            with!(22, $vector!("xmm9", "176")),
            with!(23, $vector!("xmm10", "184")),
            with!(24, $vector!("xmm11", "192")),
            with!(25, $vector!("xmm12", "200")),
            with!(26, $vector!("xmm13", "208")),
            with!(27, $vector!("xmm14", "216")),
            with!(28, $vector!("xmm15", "224")),
            with!(29, $stack!("16", "232")),
            with!(30, $stack!("24", "240")),
            with!(31, $stack!("32", "248")),
            with!(12, $general!("rsi", "96")),
        )
    };
}

macro_rules! begin_general {
    ($register:literal, $place:literal) => {
        concat!("mov ", $register, ", qword ptr [rsi + ", $place, "]")
    };
}
macro_rules! begin_vector {
    ($register:literal, $place:literal) => {
        concat!("movq ", $register, ", qword ptr [rsi + ", $place, "]")
    };
}
macro_rules! begin_stack {
    ($slot:literal, $place:literal) => {
        concat!("mov rax, qword ptr [rsi + ", $place, "]\nmov qword ptr [rsp - ", $slot, "], rax")
    };
}
macro_rules! step_general {
    ($register:literal, $place:literal) => {
        concat!("mov ", $register, ", qword ptr [", $register, "]")
    };
}
macro_rules! step_vector {
    ($register:literal, $place:literal) => {
        concat!("movq rax, ", $register, "\nmovq ", $register, ", qword ptr [rax]")
    };
}
macro_rules! step_stack {
    ($slot:literal, $place:literal) => {
        concat!(
            "mov rax, qword ptr [rsp - ",
            $slot,
            "]\nmov rax, qword ptr [rax]\nmov qword ptr [rsp - ",
            $slot,
            "], rax"
        )
    };
}
macro_rules! end_general {
    ($register:literal, $place:literal) => {
        concat!("mov qword ptr [rdi + ", $place, "], ", $register)
    };
}
macro_rules! end_vector {
    ($register:literal, $place:literal) => {
        concat!("movq qword ptr [rdi + ", $place, "], ", $register)
    };
}
macro_rules! end_stack {
    ($slot:literal, $place:literal) => {
        concat!("mov rax, qword ptr [rsp - ", $slot, "]\nmov qword ptr [rdi + ", $place, "], rax")
    };
}

/// `n` turns of `CHAINS` chains whose addresses stand in `at` before and after.
#[unsafe(naked)]
unsafe extern "C" fn turns<const CHAINS: usize>(n: u64, at: *mut u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov qword ptr [rsp], rsi",
        each!(begin_general, begin_vector, begin_stack),
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        each!(step_general, step_vector, step_stack),
        "dec rdi",
        "jnz 2b",
        "3:",
        "mov rdi, qword ptr [rsp]",
        each!(end_general, end_vector, end_stack),
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        chains = const CHAINS,
    )
}

crate::arch::chains_table!(turns);

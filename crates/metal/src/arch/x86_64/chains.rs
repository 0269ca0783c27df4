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

/// Assembles `$when` for each chain, by where it stands. rsi, which holds the caller's list, is the
/// thirteenth's.
macro_rules! each {
    ($when:ident) => {
        concat!(
            each!(@ $when general 0 "rbx" "0", 1 "rcx" "8", 2 "rdx" "16", 3 "rbp" "24", 4 "r8" "32",
                5 "r9" "40", 6 "r10" "48", 7 "r11" "56", 8 "r12" "64", 9 "r13" "72",
                10 "r14" "80", 11 "r15" "88"),
            each!(@ $when vector 13 "xmm0" "104", 14 "xmm1" "112", 15 "xmm2" "120", 16 "xmm3" "128",
                17 "xmm4" "136", 18 "xmm5" "144", 19 "xmm6" "152", 20 "xmm7" "160",
                21 "xmm8" "168", 22 "xmm9" "176", 23 "xmm10" "184", 24 "xmm11" "192",
                25 "xmm12" "200", 26 "xmm13" "208", 27 "xmm14" "216", 28 "xmm15" "224"),
            each!(@ $when stack 29 "16" "232", 30 "24" "240", 31 "32" "248"),
            each!(@ $when general 12 "rsi" "96")
        )
    };
    (@ $when:ident $where:ident $($chain:literal $register:literal $place:literal),*) => {
        concat!($(with!($chain, text!($when $where $register $place))),*)
    };
}

/// A chain's text by where it stands: in a general register, in a vector register or so many bytes
/// below the stack pointer; and by its place in the caller's list, in bytes.
macro_rules! text {
    (begin general $register:literal $place:literal) => {
        concat!("mov ", $register, ", qword ptr [rsi + ", $place, "]")
    };
    (begin vector $register:literal $place:literal) => {
        concat!("movq ", $register, ", qword ptr [rsi + ", $place, "]")
    };
    (begin stack $slot:literal $place:literal) => {
        concat!("mov rax, qword ptr [rsi + ", $place, "]\nmov qword ptr [rsp - ", $slot, "], rax")
    };
    (step general $register:literal $place:literal) => {
        concat!("mov ", $register, ", qword ptr [", $register, "]")
    };
    (step vector $register:literal $place:literal) => {
        concat!("movq rax, ", $register, "\nmovq ", $register, ", qword ptr [rax]")
    };
    (step stack $slot:literal $place:literal) => {
        concat!(
            "mov rax, qword ptr [rsp - ",
            $slot,
            "]\nmov rax, qword ptr [rax]\n",
            "mov qword ptr [rsp - ",
            $slot,
            "], rax"
        )
    };
    (end general $register:literal $place:literal) => {
        concat!("mov qword ptr [rdi + ", $place, "], ", $register)
    };
    (end vector $register:literal $place:literal) => {
        concat!("movq qword ptr [rdi + ", $place, "], ", $register)
    };
    (end stack $slot:literal $place:literal) => {
        concat!("mov rax, qword ptr [rsp - ", $slot, "]\nmov qword ptr [rdi + ", $place, "], rax")
    };
}

/// `n` turns of `CHAINS` chains whose addresses stand in `at` before and after.
#[unsafe(naked)]
unsafe extern "C" fn turns<const CHAINS: usize>(n: u64, at: *mut u64) {
    naked_asm!(
        crate::arch::x86_64::saved!(),
        "sub rsp, 8",
        "mov qword ptr [rsp], rsi",
        each!(begin),
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        each!(step),
        "dec rdi",
        "jnz 2b",
        "3:",
        "mov rdi, qword ptr [rsp]",
        each!(end),
        "add rsp, 8",
        crate::arch::x86_64::restored!(),
        "ret",
        chains = const CHAINS,
    )
}

crate::arch::chains_table!(turns);

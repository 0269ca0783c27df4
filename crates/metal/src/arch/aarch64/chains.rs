//! Several chains of pointers at once: each turn loads once for every chain, and no load of a turn
//! waits for another of it.
//!
//! Twenty-eight chains stand in general registers. The last four stand in vector registers and pass
//! through x30 for their address, a few cycles more a load.

use core::arch::naked_asm;

use crate::arch::ChainsTurns;

/// Assembles `$text` where there are more than `$chain` chains.
macro_rules! with {
    ($chain:literal, $text:expr) => {
        concat!(".if {chains} > ", $chain, "\n", $text, "\n.endif\n")
    };
}

/// Assembles `$when` for each chain, by where it stands. x1, which holds the caller's list, is the
/// twenty-eighth's; x18 is the platform's.
macro_rules! each {
    ($when:ident) => {
        concat!(
            each!(@ $when general 0 "x2" "0", 1 "x3" "8", 2 "x4" "16", 3 "x5" "24", 4 "x6" "32", 5 "x7" "40",
                6 "x8" "48", 7 "x9" "56", 8 "x10" "64", 9 "x11" "72", 10 "x12" "80",
                11 "x13" "88", 12 "x14" "96", 13 "x15" "104", 14 "x16" "112", 15 "x17" "120",
                16 "x19" "128", 17 "x20" "136", 18 "x21" "144", 19 "x22" "152",
                20 "x23" "160", 21 "x24" "168", 22 "x25" "176", 23 "x26" "184",
                24 "x27" "192", 25 "x28" "200", 26 "x29" "208"),
            each!(@ $when vector 28 "d0" "224", 29 "d1" "232", 30 "d2" "240", 31 "d3" "248"),
            each!(@ $when general 27 "x1" "216")
        )
    };
    (@ $when:ident $where:ident $($chain:literal $register:literal $place:literal),*) => {
        concat!($(with!($chain, text!($when $where $register $place))),*)
    };
}

/// A chain's text by its register and its place in the caller's list, in bytes.
macro_rules! text {
    (begin $where:ident $register:literal $place:literal) => {
        concat!("ldr ", $register, ", [x1, #", $place, "]")
    };
    (step general $register:literal $place:literal) => {
        concat!("ldr ", $register, ", [", $register, "]")
    };
    (step vector $register:literal $place:literal) => {
        concat!("fmov x30, ", $register, "\nldr ", $register, ", [x30]")
    };
    (end $where:ident $register:literal $place:literal) => {
        concat!("str ", $register, ", [x0, #", $place, "]")
    };
}

/// `n` turns of `CHAINS` chains whose addresses stand in `at` before and after.
#[unsafe(naked)]
unsafe extern "C" fn turns<const CHAINS: usize>(n: u64, at: *mut u64) {
    naked_asm!(
        "sub sp, sp, #112",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "str x1, [sp, #96]",
        each!(begin),
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        each!(step),
        "subs x0, x0, #1",
        "b.ne 2b",
        "3:",
        "ldr x0, [sp, #96]",
        each!(end),
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "add sp, sp, #112",
        "ret",
        chains = const CHAINS,
    )
}

crate::arch::chains_table!(turns);

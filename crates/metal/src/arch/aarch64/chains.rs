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

/// Assembles a text for each chain, by where it stands: `$general` or `$vector` with its register
/// and its place in the caller's list. x1, which holds that list, is the twenty-eighth's; x18 is
/// the platform's.
macro_rules! each {
    ($general:ident, $vector:ident) => {
        concat!(
            with!(0, $general!("x2", "0")),
            with!(1, $general!("x3", "8")),
            with!(2, $general!("x4", "16")),
            with!(3, $general!("x5", "24")),
            with!(4, $general!("x6", "32")),
            with!(5, $general!("x7", "40")),
            with!(6, $general!("x8", "48")),
            with!(7, $general!("x9", "56")),
            with!(8, $general!("x10", "64")),
            with!(9, $general!("x11", "72")),
            with!(10, $general!("x12", "80")),
            with!(11, $general!("x13", "88")),
            with!(12, $general!("x14", "96")),
            with!(13, $general!("x15", "104")),
            with!(14, $general!("x16", "112")),
            with!(15, $general!("x17", "120")),
            with!(16, $general!("x19", "128")),
            with!(17, $general!("x20", "136")),
            with!(18, $general!("x21", "144")),
            with!(19, $general!("x22", "152")),
            with!(20, $general!("x23", "160")),
            with!(21, $general!("x24", "168")),
            with!(22, $general!("x25", "176")),
            with!(23, $general!("x26", "184")),
            with!(24, $general!("x27", "192")),
            with!(25, $general!("x28", "200")),
            with!(26, $general!("x29", "208")),
            with!(28, $vector!("d0", "224")),
            with!(29, $vector!("d1", "232")),
            with!(30, $vector!("d2", "240")),
            with!(31, $vector!("d3", "248")),
            with!(27, $general!("x1", "216")),
        )
    };
}

macro_rules! begin {
    ($register:literal, $place:literal) => {
        concat!("ldr ", $register, ", [x1, #", $place, "]")
    };
}
macro_rules! step_general {
    ($register:literal, $place:literal) => {
        concat!("ldr ", $register, ", [", $register, "]")
    };
}
macro_rules! step_vector {
    ($register:literal, $place:literal) => {
        concat!("fmov x30, ", $register, "\nldr ", $register, ", [x30]")
    };
}
macro_rules! end {
    ($register:literal, $place:literal) => {
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
        each!(begin, begin),
        "cbz x0, 3f",
        ".p2align 6",
        "2:",
        each!(step_general, step_vector),
        "subs x0, x0, #1",
        "b.ne 2b",
        "3:",
        "ldr x0, [sp, #96]",
        each!(end, end),
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

//! A cache line that two threads hand to each other.

use core::arch::naked_asm;
use std::arch::is_aarch64_feature_detected;

/// The game of `line_turns` around one way to look: compare with x9, swap for x12, branch to 4 when
/// that was done, fall through when not; x13 and x14 are free.
macro_rules! turns {
    ($(#[$doc:meta])* $name:ident, $($look:literal),*) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(
            word: *mut u64,
            expected: u64,
            turns: u64,
            spins: u64,
        ) -> u64 {
            naked_asm!(
                ".arch_extension lse",
                "mov x9, x1",
                "mov x10, #0",
                "cbz x2, 5f",
                ".p2align 6",
                "2:",
                "mov x11, x3",
                "add x12, x9, #1",
                "3:",
                $($look,)*
                "subs x11, x11, #1",
                "b.ne 3b",
                "b 5f",
                "4:",
                "add x9, x9, #2",
                "add x10, x10, #1",
                "cmp x10, x2",
                "b.ne 2b",
                "5:",
                "mov x0, x10",
                "ret",
            )
        }
    };
}

turns!(
    /// One instruction of the large system extensions. Some implementations execute it at the home
    /// of the line when the line is contended, others always in the core.
    turns_casal,
    "mov x13, x9",
    "casal x13, x12, [x0]",
    "cmp x13, x9",
    "b.eq 4f"
);
turns!(
    /// An exclusive pair, where the processor has nothing else.
    turns_exclusive,
    "ldaxr x13, [x0]",
    "cmp x13, x9",
    "b.ne 6f",
    "stlxr w14, x12, [x0]",
    "cbz w14, 4f",
    "6:",
    "clrex"
);

/// `turns` turns: waits until the word is `expected`, makes it one more, expects two more. Ends
/// early after `spins` failed looks at one turn. Returns the turns made.
///
/// # Safety
/// `word` must be an aligned word that all access atomically, and `spins` not 0.
pub(crate) unsafe fn line_turns(word: *mut u64, expected: u64, turns: u64, spins: u64) -> u64 {
    if is_aarch64_feature_detected!("lse") {
        // SAFETY: the caller's promise; the processor has the instruction.
        unsafe { turns_casal(word, expected, turns, spins) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { turns_exclusive(word, expected, turns, spins) }
    }
}

/// What a look at the line is.
pub(crate) fn line_method() -> &'static str {
    if is_aarch64_feature_detected!("lse") { "casal" } else { "ldaxr and stlxr" }
}

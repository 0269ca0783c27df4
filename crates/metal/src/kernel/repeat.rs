//! Empty loops: what a loop itself costs.

use crate::arch;

/// Bodies that one turn of [`loop_unrolled`] stands for.
pub const LOOP_UNROLLING: u64 = 16;

/// `n` turns of an empty loop whose counter is in a register: an addition, a
/// comparison and a branch. Returns the counter, `n`.
pub fn loop_empty(n: u64) -> u64 {
    // SAFETY: works on registers only.
    unsafe { arch::loop_empty(n) }
}

/// `n` turns of an empty loop whose counter is in memory (on the stack), as `volatile` or a
/// compiler without optimisation has it. Returns the counter, `n`.
pub fn loop_volatile(n: u64) -> u64 {
    // SAFETY: writes only its own stack.
    unsafe { arch::loop_volatile(n) }
}

/// `n` empty bodies, unrolled [`LOOP_UNROLLING`] to a turn, so that one turn's control is shared by
/// 16; the rest of `n` goes by ones. Returns the counter, `n`.
pub fn loop_unrolled(n: u64) -> u64 {
    // SAFETY: works on registers only.
    unsafe { arch::loop_unrolled(n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_n_counts_to_n() {
        for n in [0, 1, 2, 15, 16, 17, 31, 32, 33, 100_003] {
            assert_eq!(loop_empty(n), n);
            assert_eq!(loop_volatile(n), n);
            assert_eq!(loop_unrolled(n), n);
        }
    }
}

//! Chains of dependent steps: the core's own clock. Each step needs the one before, so n steps take
//! n times the step's latency, whatever the width of the core.

use crate::arch;

/// Odd, so that no product of it becomes zero.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd, with bits in both halves, so that no core takes a short path.
const FACTOR: u64 = 0xd134_2543_de82_ef95;
/// Bits of one step of the rotate chain.
const ROTATION: u32 = 7;

/// `n` dependent 64-bit multiplications (3 to 5 cycles each on the cores of
/// the last fifteen years). Returns [`multiplied`]`(n)`.
pub fn chain_multiply(n: u64) -> u64 {
    // SAFETY: works on registers only.
    unsafe { arch::chain_multiply(n, START, FACTOR) }
}

/// `n` dependent 64-bit rotations (1 cycle each; not eliminated at rename).
/// Returns [`rotated`]`(n)`.
pub fn chain_rotate(n: u64) -> u64 {
    // SAFETY: works on registers only.
    unsafe { arch::chain_rotate(n, START, 0) }
}

/// `n` dependent 64-bit additions of a register that holds 1 (1 cycle each). Returns `n`.
pub fn chain_add(n: u64) -> u64 {
    // SAFETY: works on registers only.
    unsafe { arch::chain_add(n, 0, 1) }
}

/// Operations in a turn of [`independent`], without the one that counts the turns.
pub const INDEPENDENT_A_TURN: u64 = 128;

/// `n` turns of [`INDEPENDENT_A_TURN`] integer operations that do not wait for each other: as many
/// a cycle as the core has units for them, on an exclusive core.
pub fn independent(n: u64) {
    // SAFETY: works on registers only.
    unsafe { arch::independent(n) }
}

/// What [`chain_multiply`] of `n` must return: the start times the factor's
/// n-th power, modulo 2^64.
pub fn multiplied(n: u64) -> u64 {
    let (mut product, mut square, mut left) = (START, FACTOR, n);
    while left > 0 {
        if left & 1 == 1 {
            product = product.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    product
}

/// What [`chain_rotate`] of `n` must return.
pub fn rotated(n: u64) -> u64 {
    let bits = (n % 64) * u64::from(ROTATION) % 64;
    START.rotate_right(bits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around the unrolling of 32, and far beyond it.
    const COUNTS: [u64; 9] = [0, 1, 2, 31, 32, 33, 64, 1000, 100_003];

    #[test]
    fn a_chain_of_n_steps_takes_n_steps() {
        for n in COUNTS {
            assert_eq!(chain_add(n), n);
            let (mut product, mut turned) = (START, START);
            for _ in 0..n {
                product = product.wrapping_mul(FACTOR);
                turned = turned.rotate_right(ROTATION);
            }
            assert_eq!(chain_multiply(n), product, "n = {n}");
            assert_eq!(chain_rotate(n), turned, "n = {n}");
            assert_eq!(multiplied(n), product, "n = {n}");
            assert_eq!(rotated(n), turned, "n = {n}");
        }
    }

    #[test]
    fn neighbouring_counts_give_different_answers() {
        for n in 0..70 {
            assert_ne!(multiplied(n), multiplied(n + 1));
            assert_ne!(rotated(n), rotated(n + 1));
        }
    }
}

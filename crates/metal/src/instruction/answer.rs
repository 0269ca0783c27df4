//! What a body must leave after `n` operations.

use super::{Bench, Body, Instruction, OPERAND, START};

type Step<Word> = fn(Word) -> Word;

/// What an instruction of a name leaves after so many operations, where software can say.
type Known = fn(&str, u64) -> Option<u64>;

const INTEGER: [(&str, Step<u64>); 9] = [
    ("add_i64", |value| value.wrapping_add(OPERAND)),
    ("sub_i64", |value| value.wrapping_sub(OPERAND)),
    ("and_i64", |value| value & OPERAND),
    ("mul_i64", |value| value.wrapping_mul(OPERAND)),
    ("rotate_i64", |value| value.rotate_right(7)),
    ("shift_fixed_i64", |value| value << 3),
    ("shift_counted_i64", |value| value << 7),
    ("byte_swap_i64", u64::swap_bytes),
    ("add_shifted_i64", |value| OPERAND.wrapping_add(value.wrapping_mul(4))),
];

/// Start of floating chains, and what they work with.
const VALUE: f64 = 1.732_050_807_568_877_2;
const FACTOR: f64 = 1.0 - f64::EPSILON / 2.0;

const FLOATING: [(&str, Step<f64>); 4] = [
    ("add_f64", |value| value + FACTOR),
    ("mul_f64", |value| value * FACTOR),
    ("div_f64", |value| value / FACTOR),
    ("add_f64x2", |value| value + FACTOR),
];

/// What these leave depends on what memory held.
const FROM_MEMORY: [&str; 4] =
    ["exchange_i64", "fetch_add_i64", "load_store_exclusive_i64", "load_i64"];

/// What the chain of an instruction leaves after `n` operations, where software can say.
pub(super) fn chained(name: &str, n: u64) -> Option<u64> {
    if let Some((_, step)) = FLOATING.iter().find(|(known, _)| *known == name) {
        return Some((0..n).fold(VALUE, |value, _| step(value)).to_bits());
    }
    let (_, step) = INTEGER.iter().find(|(known, _)| *known == name)?;
    // Integer kernels leave the sum of rax and r8 to r15 (x86-64), of x2 and x8 to x15 (aarch64),
    // which start alike.
    let end = (0..n).fold(START, |value, _| step(value));
    Some(end.wrapping_add(START.wrapping_mul(8)))
}

/// What eight independent chains leave: operation i is on chain i of 8 in whole units, and all that
/// are left over are on the first.
pub(super) fn spread(name: &str, n: u64) -> Option<u64> {
    let (_, step) = INTEGER.iter().find(|(known, _)| *known == name)?;
    let (units, left) = (n / 8, n % 8);
    let end = |steps| (0..steps).fold(START, |value, _| step(value));
    let rest = end(units).wrapping_mul(7);
    Some(START.wrapping_add(end(units + left)).wrapping_add(rest))
}

impl Bench {
    /// Whether `n` operations leave what software computes, in the chain and apart. Where software
    /// cannot say: whether a second run leaves the same. Panics: the processor lacks the instruction.
    pub fn is_right(&mut self, instruction: &Instruction, n: u64) -> bool {
        let name = instruction.name;
        let bodies: [(Option<Body>, Known); 2] =
            [(instruction.latency, chained), (instruction.throughput, spread)];
        bodies.iter().all(|(body, answer)| {
            let Some(body) = body else { return true };
            let found = self.run(instruction, body, n);
            match answer(name, n) {
                Some(expected) => found == expected,
                None => FROM_MEMORY.contains(&name) || found == self.run(instruction, body, n),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FLOATING, FROM_MEMORY, INTEGER, chained, spread};
    use crate::instruction::find;

    #[test]
    fn answers_are_of_instructions_and_tell_counts_apart() {
        let floating = FLOATING.iter().map(|(name, _)| *name);
        for name in INTEGER.iter().map(|(name, _)| *name).chain(floating) {
            assert!(find(name).is_some_and(|of| of.latency.is_some()), "{name}");
            assert_ne!(chained(name, 0), chained(name, 1), "{name}");
        }
        assert!(FROM_MEMORY.iter().any(|name| find(name).is_some()));
        assert_eq!((chained("nop", 1), spread("add_f64", 1)), (None, None));
    }
}

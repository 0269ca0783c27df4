//! Arithmetic at full rate: what a turn executes.

use super::super::peak::{peak_body, peak_chain};
use super::{is_memory, turns, words};
use crate::peak::{Body, Kernel, MIX_CHAINS};
use std::collections::HashMap;

const SUBS_X0_X0_1: u32 = 0xf100_0400;

/// A turn is `chains` different words, each `rounds` times and always in the
/// same order, and its control; none touches memory.
fn check(kernel: Kernel, body: Body) {
    let address = body.run as usize;
    let code = words(address);
    let turns = turns(&code);
    assert_eq!(turns.len(), 1, "{kernel:?}");
    let (start, turn) = turns[0];
    assert_eq!((address + 4 * start) % 64, 0, "{kernel:?} is not aligned");
    let (control, steps) = turn.split_last().expect("a turn has words");
    assert_eq!(*control, SUBS_X0_X0_1, "{kernel:?}");
    assert_eq!(steps.len() as u64, body.chains as u64 * body.rounds);
    assert!(!steps.iter().any(|word| is_memory(*word)), "{kernel:?}");
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for (at, word) in steps.iter().enumerate() {
        *counts.entry(*word).or_default() += 1;
        assert_eq!(*word, steps[at % body.chains], "{kernel:?}");
        // All but the registers of the accumulator is one instruction; a mix has two.
        let registers = 0x1f | 0x1f << 5 | 0x1f << 10;
        let is_mul = kernel.in_chain(at % body.chains).op != kernel.in_chain(0).op;
        let first = steps[if is_mul { MIX_CHAINS.1 } else { 0 }];
        assert_eq!(*word & !registers, first & !registers, "{kernel:?}");
    }
    assert_eq!(counts.len(), body.chains, "{kernel:?}");
}

#[test]
fn a_turn_is_independent_chains_of_one_instruction() {
    let (mut kernels, mut chains) = (0, 0);
    for kernel in Kernel::every() {
        if let Some(body) = peak_body(kernel) {
            check(kernel, body);
            kernels += 1;
        }
        if let Some(body) = peak_chain(kernel) {
            assert_eq!((body.chains, body.rounds), (1, 32));
            check(kernel, body);
            chains += 1;
        }
    }
    assert_eq!((kernels, chains), (21, 2));
}

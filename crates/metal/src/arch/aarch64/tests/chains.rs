//! Chains of loads beside each other: what a turn executes.

use super::super::chains::CHAINS;
use super::{SUBS_X0_1, check_loops};

/// It is ldr xt, [xt].
fn load(register: u32) -> u32 {
    0xf940_0000 | register << 5 | register
}

/// General registers in the order of the chains; x18 is the platform's.
fn general() -> impl Iterator<Item = u32> {
    (2..=17).chain(19..=29)
}

#[test]
fn a_turn_loads_once_for_each_chain_and_none_waits_for_another() {
    for (index, body) in CHAINS.iter().enumerate() {
        let count = index + 1;
        let mut turn: Vec<u32> = general().take(count).map(load).collect();
        for vector in 0..count.saturating_sub(28) as u32 {
            // fmov x30, dn; ldr dn, [x30].
            turn.push(0x9e66_001e | vector << 5);
            turn.push(0xfd40_03c0 | vector);
        }
        if count > 27 {
            turn.push(load(1));
        }
        turn.push(SUBS_X0_1);
        check_loops(&format!("{count} chains"), *body as *const (), &turn, None);
    }
}

//! The unbroken reading of the counter.

use super::{address_of, check_convention, decoded, memory_operands, turns};
use crate::arch::x86_64::gaps;
use iced_x86::{FlowControl, Mnemonic};

#[test]
fn a_turn_is_one_read_and_one_compare_and_stores_stand_beside_it() {
    let address = address_of(gaps::gaps_turns as *const ());
    let body = decoded(address);
    check_convention(&body, "gaps");
    let turn = turns(&body)[0];
    assert_eq!(turn[0].ip() % 64, 0, "not aligned");
    let count = |mnemonic| turn.iter().filter(|one| one.mnemonic() == mnemonic).count();
    assert_eq!((count(Mnemonic::Rdtsc), count(Mnemonic::Cmp)), (1, 1));
    assert_eq!(memory_operands(turn), 0, "a turn touches memory");
    // The way off the turn leads to the first store.
    let leaves = turn.iter().find(|one| one.mnemonic() == Mnemonic::Jae).unwrap();
    let away = leaves.near_branch_target();
    let store = body.iter().find(|one| one.ip() == away);
    assert_eq!(store.map(|one| one.mnemonic()), Some(Mnemonic::Mov));
    assert_eq!(store.map(|one| memory_operands(&[*one])), Some(1));
    let leaves = |flow| {
        matches!(flow, FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt)
    };
    // iced counts `syscall` among the calls.
    assert!(body.iter().all(|one| !leaves(one.flow_control())));
}

//! The unbroken reading of the counter.

use super::{address_of, check_loops, decoded, lines, memory_operands, turns};
use crate::arch::x86_64::gaps;
use iced_x86::{FlowControl, Mnemonic};

#[test]
fn a_turn_is_one_read_and_one_compare_and_stores_stand_beside_it() {
    let address = address_of(gaps::gaps_turns as *const ());
    let turn = [
        "lfence",
        "rdtsc",
        "shl rdx,0x20",
        "or rax,rdx",
        "mov rcx,r9",
        "mov r9,rax",
        "sub rax,rcx",
        "cmp rax,rsi",
        "jae",
        "dec rdi",
        "jne",
    ];
    // What a gap adds, from the loop's decrement to the way back to it.
    let gap = [
        "dec rdi",
        "jne",
        "jmp",
        "mov [r10],rcx",
        "mov [r10+8],r9",
        "add r10,0x10",
        "cmp r10,r11",
        "jne",
    ];
    check_loops("gaps", address, &[], &lines(&turn, 1), Some(&lines(&gap, 1)));

    let body = decoded(address);
    let turn = turns(&body)[0];
    let count = |mnemonic| turn.iter().filter(|one| one.mnemonic() == mnemonic).count();
    assert_eq!((count(Mnemonic::Rdtsc), count(Mnemonic::Cmp)), (1, 1));
    assert_eq!(memory_operands(turn), 0, "a turn touches memory");
    // The way off the turn leads to the first store.
    let away = turn[8].near_branch_target();
    let store = body.iter().find(|one| one.ip() == away);
    assert_eq!(store.map(|one| one.mnemonic()), Some(Mnemonic::Mov));
    assert_eq!(store.map(|one| memory_operands(&[*one])), Some(1));
    let leaves = |flow| {
        matches!(flow, FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt)
    };
    // iced counts `syscall` among the calls.
    assert!(body.iter().all(|one| !leaves(one.flow_control())));
}

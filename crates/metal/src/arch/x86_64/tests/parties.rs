//! What two threads, or a thread and the kernel, do with each other.

use super::{address_of, check_convention, decoded, lines, memory_operands, texts, turns};
use crate::arch::x86_64::{fault, line};
use iced_x86::Mnemonic;

#[test]
fn a_look_at_a_line_is_one_locked_compare_and_swap() {
    let address = address_of(line::line_turns as *const ());
    let body = decoded(address);
    check_convention(&body, "line_turns");
    let turns = turns(&body);
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[1][0].ip() % 64, 0, "not aligned");
    // The address of `lea` is none of memory.
    assert_eq!([memory_operands(turns[0]), memory_operands(turns[1])], [1, 1]);
    let swap = turns[0].iter().find(|one| one.mnemonic() == Mnemonic::Cmpxchg).unwrap();
    assert!(swap.has_lock_prefix());
}

#[test]
fn a_fault_is_one_store_and_its_neighbours_are_told_to_the_handler() {
    let body = decoded(address_of(fault::fault_stores as *const ()));
    check_convention(&body, "fault_stores");
    let turns = turns(&body);
    assert_eq!(turns.len(), 1);
    let turn = ["mov [rsi],al", "inc rax", "cmp rax,rdi", "jne"];
    assert_eq!(texts(turns[0], &[]), lines(&turn, 1));
    assert_eq!(memory_operands(turns[0]), 1);
    let told: Vec<u64> = body
        .iter()
        .filter(|one| one.is_ip_rel_memory_operand())
        .map(|one| one.ip_rel_memory_address())
        .collect();
    assert_eq!(told, [turns[0][0].ip(), turns[0][1].ip()]);
}

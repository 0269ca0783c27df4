//! What two threads, or a thread and the kernel, do with each other.

use super::{address_of, check_convention, decoded, lines, memory_operands, texts, turns};
use crate::arch::x86_64::{fault, line};

#[test]
fn a_look_at_a_line_is_one_locked_compare_and_swap() {
    let address = address_of(line::line_turns as *const ());
    let body = decoded(address);
    check_convention(&body, "line_turns");
    let turns = turns(&body);
    assert_eq!(turns.len(), 2);
    let look = ["mov rax,rsi", "lock cmpxchg [rdi],r11", "je", "dec r10", "jne"];
    assert_eq!(texts(turns[0], &[]), lines(&look, 1));
    let mut turn = lines(&["mov r10,rcx", "lea r11,[rsi+1]"], 1);
    turn.extend(lines(&look, 1));
    turn.extend(lines(&["jmp", "add rsi,2", "inc r9", "cmp r9,rdx", "jne"], 1));
    assert_eq!(texts(turns[1], &[]), turn);
    assert_eq!(turns[1][0].ip() % 64, 0, "not aligned");
    // The address of `lea` is none of memory.
    assert_eq!(memory_operands(turns[0]), 1);
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

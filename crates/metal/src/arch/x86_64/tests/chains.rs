//! Chains of loads beside each other: what a turn executes.

use super::super::chains::CHAINS;
use super::{address_of, check_convention, decoded, text, turns};
use iced_x86::{InstructionInfoFactory, OpAccess, Register};

#[test]
fn a_turn_loads_once_for_each_chain_and_none_waits_for_another() {
    for (index, body) in CHAINS.iter().enumerate() {
        let count = index + 1;
        let name = format!("{count} chains");
        let body = decoded(address_of(*body as *const ()));
        check_convention(&body, &name);
        let turns = turns(&body);
        assert_eq!(turns.len(), 1, "{name}");
        assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
        check_independence(turns[0], count, &name);
    }
}

/// Every general register but rax, through which a chain only passes, is written from itself alone,
/// and loads from chains are as many as there are chains.
fn check_independence(turn: &[iced_x86::Instruction], count: usize, name: &str) {
    let mut factory = InstructionInfoFactory::new();
    let mut loads = 0;
    for step in turn {
        let info = factory.info(step);
        let memory = info.used_memory();
        let is_load = |one: &&iced_x86::UsedMemory| {
            one.access() == OpAccess::Read && one.base() != Register::RSP
        };
        loads += memory.iter().filter(is_load).count();
        let written = step.op0_register();
        if written.is_gpr64() && ![Register::RAX, Register::RDI].contains(&written) {
            let base = step.memory_base();
            assert_eq!(base, written, "{name}: {}", text(step, &[]));
        }
    }
    assert_eq!(loads, count, "{name}");
}

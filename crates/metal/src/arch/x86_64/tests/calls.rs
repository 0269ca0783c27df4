//! The calls: a turn is the same call again and again, and nothing touches memory that need not.
//! What the callees compute, the known answers of `kernel::call` say.

use super::{
    ArgumentType, CallKind, Frame, Loop, MAX_ARGUMENTS, address_of, call, check_convention,
    decoded, loop_of, memory_operands, texts, turns,
};
use iced_x86::Instruction;

/// Checks that a turn is eight times the single call of the second loop and starts aligned, and
/// that each calls one aligned callee, if the call is direct. Returns the single call without the
/// loop's control, and the callee.
fn check_calls(name: &str, calls: Loop) -> (Vec<Instruction>, Option<u64>) {
    let body = decoded(address_of(calls as *const ()));
    check_convention(&body, name);
    let turns = turns(&body);
    assert_eq!(turns.len(), 2, "{name}");
    assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
    let [turn, single] = [turns[0], turns[1]].map(|turn| &turn[..turn.len() - 2]);
    let (all, one) = (texts(turn, &[]), texts(single, &[]));
    assert_eq!(all.len(), 8 * one.len(), "{name}");
    assert!(all.chunks(one.len()).all(|call| call == one), "{name}: {all:?}");
    let all = turn.iter().chain(single).filter(|one| one.is_call_near());
    let mut callees: Vec<u64> = all.map(Instruction::near_branch_target).collect();
    assert!([0, 9].contains(&callees.len()), "{name}");
    callees.dedup();
    assert!(callees.len() <= 1, "{name} calls several procedures");
    assert!(callees.iter().all(|callee| callee % 64 == 0), "{name}: {callees:#x?}");
    (single.to_vec(), callees.first().copied())
}

/// Memory operands of a call and of its callee, the return address among them.
fn expected_operands(argument: ArgumentType, arguments: usize, frame: Frame) -> [usize; 2] {
    let is_integer = matches!(argument, ArgumentType::I32 | ArgumentType::I64);
    let in_registers = arguments.min(if is_integer { 6 } else { 8 });
    let on_stack = arguments - in_registers;
    let call = match is_integer {
        true => on_stack + 1,
        // Floating numbers are loaded from memory.
        false => in_registers + 2 * on_stack + 1,
    };
    // Without arguments a floating result is loaded.
    let result = usize::from(arguments == 0 && !is_integer);
    let frame = match frame {
        Frame::Registers => 0,
        // The old frame's pointer, and each argument stored and loaded.
        Frame::Spilled => 2 + 2 * in_registers,
    };
    [call, frame + result + on_stack + 1]
}

#[test]
fn a_direct_call_passes_arguments_in_registers_and_its_callee_loads_no_more_than_its_frame_says() {
    let mut callees = std::collections::HashSet::new();
    for argument in [ArgumentType::I32, ArgumentType::I64, ArgumentType::F32, ArgumentType::F64] {
        for arguments in 0..=MAX_ARGUMENTS {
            for frame in [Frame::Registers, Frame::Spilled] {
                let kind = CallKind::Direct { arguments, argument, frame };
                let name = format!("{kind:?}");
                let (single, callee) = check_calls(&name, loop_of(kind).unwrap());
                let callee = callee.unwrap();
                callees.insert(callee);
                let body = decoded(callee);
                check_convention(&body, &name);
                let found = [memory_operands(&single), memory_operands(&body)];
                assert_eq!(found, expected_operands(argument, arguments, frame), "{name}");
            }
        }
    }
    // Nothing was merged: what is measured as two callees is two.
    assert_eq!(callees.len(), 4 * (MAX_ARGUMENTS + 1) * 2);
}

#[test]
fn the_other_calls_take_the_way_that_they_are_named_after() {
    let (argument, frame) = (ArgumentType::I64, Frame::Registers);
    let plain = CallKind::Direct { arguments: 1, argument, frame };
    let plain = check_calls("direct", loop_of(plain).unwrap()).1.unwrap();
    let names = [(plain, "callee")];

    let (single, callee) = check_calls("indirect", call::calls_indirect);
    assert_eq!(callee, None);
    assert!(texts(&single, &[]).contains(&"call r13".to_owned()));
    let body = decoded(address_of(call::calls_indirect as *const ()));
    assert!(texts(&body, &names).contains(&"lea r13,[callee]".to_owned()));

    let stub = check_calls("linkage", call::calls_linkage).1.unwrap();
    assert_eq!(stub, address_of(call::linkage_stub as *const ()));
    let slot = (&raw const call::LINKAGE_SLOT) as u64;
    assert_eq!(texts(&decoded(stub), &[(slot, "slot")]), ["jmp [slot]"]);
    assert_eq!(call::LINKAGE_SLOT as usize as u64, plain);

    // Three words are copied, a read and a write each, and read by the callee.
    let (single, callee) = check_calls("structure", call::calls_structure);
    let body = decoded(callee.unwrap());
    check_convention(&body, "structure");
    assert_eq!([memory_operands(&single), memory_operands(&body)], [2 * 3 + 1, 3 + 1]);
}

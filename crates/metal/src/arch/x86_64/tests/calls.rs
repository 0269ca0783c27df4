//! The calls: what is executed for each, and what the callees do.

use super::{
    ArgumentType, CallKind, Frame, Loop, MAX_ARGUMENTS, address_of, call, check_convention,
    check_loops, decoded, lines, loop_of, texts,
};

const INTEGERS: [(&str, &str); 6] =
    [("edi", "rdi"), ("esi", "rsi"), ("edx", "rdx"), ("ecx", "rcx"), ("r8d", "r8"), ("r9d", "r9")];

/// How the code for one type is written.
struct Dialect {
    /// Registers for arguments.
    registers: Vec<String>,
    /// The result's register.
    result: &'static str,
    moves: &'static str,
    adds: &'static str,
    /// Bytes of a slot of the callee's frame.
    slot: usize,
}

fn dialect(argument: ArgumentType) -> Dialect {
    let floating = || (0..8).map(|number| format!("xmm{number}")).collect();
    let dialect =
        |registers, result, moves, adds, slot| Dialect { registers, result, moves, adds, slot };
    match argument {
        ArgumentType::I32 => {
            let registers = INTEGERS.iter().map(|names| names.0.to_owned());
            dialect(registers.collect(), "eax", "mov", "add", 4)
        }
        ArgumentType::I64 => {
            let registers = INTEGERS.iter().map(|names| names.1.to_owned());
            dialect(registers.collect(), "rax", "mov", "add", 8)
        }
        ArgumentType::F32 => dialect(floating(), "xmm0", "movss", "addss", 4),
        ArgumentType::F64 => dialect(floating(), "xmm0", "movsd", "addsd", 8),
    }
}

fn is_integer(argument: ArgumentType) -> bool {
    matches!(argument, ArgumentType::I32 | ArgumentType::I64)
}

/// A number as the formatter writes it.
fn number(value: usize) -> String {
    if value < 10 { value.to_string() } else { format!("{value:#x}") }
}

/// What is executed for one call in the loop.
fn one_call(argument: ArgumentType, arguments: usize) -> Vec<String> {
    let dialect = dialect(argument);
    let in_registers = arguments.min(dialect.registers.len());
    let on_stack = arguments - in_registers;
    let stack = on_stack.next_multiple_of(2) * 8;
    let mut code = vec![];
    if is_integer(argument) {
        if on_stack % 2 == 1 {
            code.push("sub rsp,8".to_owned());
        }
        code.extend((7..7 + on_stack).rev().map(|k| format!("push {}", number(k))));
        code.extend((0..in_registers).rev().map(|k| format!("mov {},{}", INTEGERS[k].0, k + 1)));
    } else {
        let from = |k: usize| match k * dialect.slot {
            0 => "[constants]".to_owned(),
            offset => format!("[constants+{offset}]"),
        };
        if on_stack > 0 {
            code.push(format!("sub rsp,{}", number(stack)));
        }
        for k in (0..on_stack).rev() {
            let place = match k * 8 {
                0 => "[rsp]".to_owned(),
                offset => format!("[rsp+{}]", number(offset)),
            };
            code.push(format!("{} xmm{},{}", dialect.moves, 8 + k, from(8 + k)));
            code.push(format!("{} {place},xmm{}", dialect.moves, 8 + k));
        }
        code.extend(
            (0..in_registers).rev().map(|k| format!("{} xmm{k},{}", dialect.moves, from(k))),
        );
    }
    code.push("call callee".to_owned());
    if on_stack > 0 {
        code.push(format!("add rsp,{}", number(stack)));
    }
    code.push(if is_integer(argument) {
        "add rbx,rax".to_owned()
    } else {
        "paddq xmm15,xmm0".to_owned()
    });
    code
}

/// The callee, from its first instruction to its return.
fn callee(argument: ArgumentType, arguments: usize, frame: Frame) -> Vec<String> {
    let Dialect { registers, result, moves, adds, slot } = dialect(argument);
    let in_registers = arguments.min(registers.len());
    let spilled = frame == Frame::Spilled;
    let mut code = vec![];
    if spilled {
        code.extend(lines(&["push rbp", "mov rbp,rsp"], 1));
    }
    let place = |k: usize| format!("[rbp-{}]", number(slot * (k + 1)));
    if arguments == 0 {
        code.push(match is_integer(argument) {
            true => "mov eax,1".to_owned(),
            false => format!("{moves} xmm0,[constants]"),
        });
    } else if spilled {
        code.extend((0..in_registers).map(|k| format!("{moves} {},{}", place(k), registers[k])));
        code.push(format!("{moves} {result},{}", place(0)));
        code.extend((1..in_registers).map(|k| format!("{adds} {result},{}", place(k))));
    } else {
        // A floating result is already where it must be.
        if is_integer(argument) {
            code.push(format!("{moves} {result},{}", registers[0]));
        }
        code.extend((1..in_registers).map(|k| format!("{adds} {result},{}", registers[k])));
    }
    let (base, first) = if spilled { ("rbp", 16) } else { ("rsp", 8) };
    code.extend(
        (0..arguments - in_registers)
            .map(|k| format!("{adds} {result},[{base}+{}]", number(first + 8 * k))),
    );
    if spilled {
        code.push("pop rbp".to_owned());
    }
    code.push("ret".to_owned());
    code
}

fn check_calls(name: &str, calls: Loop, names: &[(u64, &str)], one: &[String]) {
    let one: Vec<&str> = one.iter().map(String::as_str).collect();
    let mut turn = lines(&one, 8);
    turn.extend(lines(&["sub r12,8", "jae"], 1));
    let mut single = lines(&one, 1);
    single.extend(lines(&["dec r12", "jne"], 1));
    let address = address_of(calls as *const ());
    check_loops(name, address, names, &turn, Some(&single));
}

/// Where the callee of a loop is: the target of its first call, the start of a line.
fn callee_of(calls: Loop) -> u64 {
    let body = decoded(address_of(calls as *const ()));
    let call = body.iter().find(|one| one.is_call_near());
    let callee = call.unwrap().near_branch_target();
    assert_eq!(callee % 64, 0, "{callee:#x}");
    callee
}

#[test]
fn every_direct_call_is_its_arguments_the_call_and_a_sum() {
    let mut callees = std::collections::HashSet::new();
    for argument in [ArgumentType::I32, ArgumentType::I64, ArgumentType::F32, ArgumentType::F64] {
        let constants = match argument {
            ArgumentType::F64 => (&raw const call::F64_CONSTANTS) as u64,
            _ => (&raw const call::F32_CONSTANTS) as u64,
        };
        for arguments in 0..=MAX_ARGUMENTS {
            for frame in [Frame::Registers, Frame::Spilled] {
                let kind = CallKind::Direct { arguments, argument, frame };
                let name = format!("{kind:?}");
                let calls = loop_of(kind).unwrap();
                let address = callee_of(calls);
                callees.insert((address, frame));
                let names = [(constants, "constants"), (address, "callee")];
                check_calls(&name, calls, &names, &one_call(argument, arguments));
                let body = decoded(address);
                check_convention(&body, &name);
                assert_eq!(texts(&body, &names), callee(argument, arguments, frame), "{name}");
            }
        }
    }
    // Nothing was merged: what is measured as two callees is two.
    assert_eq!(callees.len(), 4 * (MAX_ARGUMENTS + 1) * 2);
}

#[test]
fn the_other_calls_take_the_way_that_they_are_named_after() {
    let plain = callee_of(
        loop_of(CallKind::Direct {
            arguments: 1,
            argument: ArgumentType::I64,
            frame: Frame::Registers,
        })
        .unwrap(),
    );

    let one = lines(&["mov edi,1", "call r13", "add rbx,rax"], 1);
    check_calls("indirect", call::calls_indirect, &[], &one);
    let body = decoded(address_of(call::calls_indirect as *const ()));
    let names = [(plain, "callee")];
    assert!(texts(&body, &names).contains(&"lea r13,[callee]".to_owned()));

    let stub = callee_of(call::calls_linkage);
    assert_eq!(stub, address_of(call::linkage_stub as *const ()));
    let one = lines(&["mov edi,1", "call stub", "add rbx,rax"], 1);
    check_calls("linkage", call::calls_linkage, &[(stub, "stub")], &one);
    let slot = (&raw const call::LINKAGE_SLOT) as u64;
    assert_eq!(texts(&decoded(stub), &[(slot, "slot")]), ["jmp [slot]"]);
    assert_eq!(call::LINKAGE_SLOT as usize as u64, plain);

    let structure = (&raw const call::STRUCTURE) as u64;
    let callee = callee_of(call::calls_structure);
    let names = [(structure, "structure"), (callee, "callee")];
    let one = lines(
        &[
            "sub rsp,8",
            "push qword ptr [r13+0x10]",
            "push qword ptr [r13+8]",
            "push qword ptr [r13]",
            "call callee",
            "add rsp,0x20",
            "add rbx,rax",
        ],
        1,
    );
    check_calls("structure", call::calls_structure, &names, &one);
    let body = decoded(callee);
    check_convention(&body, "structure");
    assert_eq!(
        texts(&body, &names),
        ["mov rax,[rsp+8]", "add rax,[rsp+0x10]", "add rax,[rsp+0x18]", "ret"]
    );
}

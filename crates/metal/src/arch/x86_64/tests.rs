//! The machine code of every timed body, decoded from memory and compared
//! instruction by instruction with what it is meant to be.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpAccess, Register,
};

use super::{call, timed};
use crate::arch::{Loop, tests::system_call_faces};
use crate::kernel::{ArgumentType, CallKind, ClockRead, Frame, MAX_ARGUMENTS, loop_of};

/// Timed bodies, whatever their signature, are compared by address.
fn address_of(body: *const ()) -> u64 {
    body as u64
}

/// The instructions from `address` to the first return or jump through memory.
fn decoded(address: u64) -> Vec<Instruction> {
    let mut instructions = vec![];
    let mut at = address;
    loop {
        // SAFETY: an instruction has at most 15 bytes, and the code of this
        // program does not end within 16 bytes of any of its functions' starts
        // or middles: the C runtime's closing code follows.
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, 16) };
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        assert!(!instruction.is_invalid(), "no instruction at {at:#x}");
        at = instruction.next_ip();
        instructions.push(instruction);
        let flow = instruction.flow_control();
        if matches!(flow, FlowControl::Return | FlowControl::IndirectBranch) {
            return instructions;
        }
        assert!(instructions.len() < 5000, "{address:#x} has no end");
    }
}

/// The instruction in Intel's syntax, with addresses in the program replaced:
/// those of `names` by name and offset, targets of jumps by nothing.
fn text(instruction: &Instruction, names: &[(u64, &str)]) -> String {
    let named = |address: u64| {
        let (start, name) =
            names.iter().filter(|(start, _)| (*start..start + 96).contains(&address)).max()?;
        Some(match address - start {
            0 => (*name).to_owned(),
            offset => format!("{name}+{offset}"),
        })
    };
    let mnemonic = format!("{:?}", instruction.mnemonic()).to_lowercase();
    if instruction.is_ip_rel_memory_operand() {
        let address = instruction.ip_rel_memory_address();
        let place = named(address).unwrap_or_else(|| "?".to_owned());
        let register = format!("{:?}", instruction.op0_register()).to_lowercase();
        return if instruction.op_count() == 1 {
            format!("{mnemonic} [{place}]")
        } else {
            format!("{mnemonic} {register},[{place}]")
        };
    }
    match instruction.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => mnemonic,
        // iced counts `syscall` among the calls.
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Call => {
            let target = instruction.near_branch_target();
            format!("call {}", named(target).unwrap_or_else(|| "?".to_owned()))
        }
        _ => {
            let mut text = String::new();
            let mut formatter = IntelFormatter::new();
            formatter.options_mut().set_hex_prefix("0x");
            formatter.options_mut().set_hex_suffix("");
            formatter.options_mut().set_uppercase_hex(false);
            formatter.format(instruction, &mut text);
            text
        }
    }
}

fn texts(instructions: &[Instruction], names: &[(u64, &str)]) -> Vec<String> {
    instructions.iter().map(|one| text(one, names)).collect()
}

/// The loops of a body in the order of their ends: the instructions from the
/// target of each backward branch to the branch.
fn turns(body: &[Instruction]) -> Vec<&[Instruction]> {
    let mut turns = vec![];
    for (end, instruction) in body.iter().enumerate() {
        let target = instruction.near_branch_target();
        let branches = instruction.flow_control() == FlowControl::ConditionalBranch;
        if branches && target < instruction.ip() {
            let start = body.iter().position(|one| one.ip() == target);
            turns.push(&body[start.expect("a branch goes to an instruction")..=end]);
        }
    }
    turns
}

fn lines(text: &[&str], times: usize) -> Vec<String> {
    text.iter().map(|line| (*line).to_owned()).cycle().take(text.len() * times).collect()
}

/// What holds for all: the calling convention is kept. No register of the caller is written that
/// was not saved, the stack is a multiple of 16 at each call, and as it was at the return.
fn check_convention(body: &[Instruction], name: &str) {
    let kept =
        [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];
    let mut factory = InstructionInfoFactory::new();
    let mut saved = vec![];
    let mut restored = vec![];
    // The return address is on the stack.
    let mut depth = 8i64;
    for instruction in body {
        let shown = text(instruction, &[]);
        match instruction.mnemonic() {
            Mnemonic::Push if kept.contains(&instruction.op0_register()) => {
                saved.push(instruction.op0_register());
            }
            Mnemonic::Pop => restored.insert(0, instruction.op0_register()),
            _ => {
                for used in factory.info(instruction).used_registers() {
                    let register = used.register().full_register();
                    let writes = matches!(
                        used.access(),
                        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite
                    );
                    if writes && kept.contains(&register) {
                        assert!(saved.contains(&register), "{name}: {shown} without saving");
                    }
                }
            }
        }
        if instruction.flow_control() == FlowControl::Call
            || instruction.flow_control() == FlowControl::IndirectCall
        {
            assert_eq!(depth % 16, 0, "{name}: {shown} on a crooked stack");
            continue;
        }
        match (instruction.mnemonic(), instruction.op0_register()) {
            (Mnemonic::Sub, Register::RSP) => depth += instruction.immediate(1) as i64,
            (Mnemonic::Add, Register::RSP) => depth -= instruction.immediate(1) as i64,
            (Mnemonic::Ret, _) => assert_eq!(depth, 8, "{name}: returns elsewhere"),
            _ => depth -= i64::from(instruction.stack_pointer_increment()),
        }
    }
    assert_eq!(saved, restored, "{name}");
}

/// A body whose first loop must be `turn` and start on a 64-byte boundary, and
/// whose second, if `single` is given, must be that.
fn check_loops(
    name: &str,
    address: u64,
    names: &[(u64, &str)],
    turn: &[String],
    single: Option<&[String]>,
) {
    let body = decoded(address);
    check_convention(&body, name);
    let turns = turns(&body);
    assert_eq!(turns.len(), 1 + usize::from(single.is_some()), "{name}");
    assert_eq!(texts(turns[0], names), turn, "{name}");
    assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
    if let Some(single) = single {
        assert_eq!(texts(turns[1], names), single, "{name}, one by one");
    }
}

fn memory_operands(instructions: &[Instruction]) -> usize {
    let mut factory = InstructionInfoFactory::new();
    instructions.iter().map(|instruction| factory.info(instruction).used_memory().len()).sum()
}

#[test]
fn a_turn_of_a_chain_is_32_dependent_steps_or_256_loads_and_a_branch() {
    let chains: [(&str, *const (), &str, usize); 5] = [
        ("multiply", timed::chain_multiply as _, "imul rax,rdx", 0),
        ("rotate", timed::chain_rotate as _, "ror rax,7", 0),
        ("add", timed::chain_add as _, "add rax,rdx", 0),
        ("pointer", timed::chase_pointer as _, "mov rax,[rax]", 1),
        ("index", timed::chase_index as _, "mov rax,[rdx+rax*8+8]", 1),
    ];
    for (name, body, step, loads) in chains {
        let address = address_of(body);
        let steps = if loads == 0 { 32 } else { 256 };
        let mut turn = lines(&[step], steps);
        turn.extend(lines(&["dec rcx", "jne"], 1));
        let single = lines(&[step, "dec edi", "jne"], 1);
        check_loops(name, address, &[], &turn, Some(&single));
        let body = decoded(address);
        let turn = turns(&body)[0];
        assert_eq!(memory_operands(turn), steps * loads, "{name}");
        check_dependence(&turn[..steps], name);
    }
}

#[test]
fn a_step_through_the_stack_is_a_load_a_store_and_a_load_of_it() {
    let step = ["mov rax,[rdx+rax*8+8]", "mov [rsp-8],rax", "mov rax,[rsp-8]"];
    let mut turn = lines(&step, 256);
    turn.extend(lines(&["dec rcx", "jne"], 1));
    let single = lines(&[&step[..], &["dec edi", "jne"]].concat(), 1);
    check_loops("stored", address_of(timed::chase_stored as _), &[], &turn, Some(&single));
}

#[test]
fn a_turn_of_independent_operations_is_128_tests_and_a_branch() {
    let mut turn = lines(&["test rax,rax"], 128);
    assert_eq!(turn.len() as u64, crate::kernel::INDEPENDENT_A_TURN);
    turn.extend(lines(&["dec rdi", "jne"], 1));
    let body = address_of(timed::independent as *const ());
    check_loops("independent", body, &[], &turn, None);
}

/// Each step reads rax, which the step before wrote.
fn check_dependence(steps: &[Instruction], name: &str) {
    let mut factory = InstructionInfoFactory::new();
    for step in steps {
        let info = factory.info(step);
        let touches = |accesses: &[OpAccess]| {
            info.used_registers()
                .iter()
                .any(|used| used.register() == Register::RAX && accesses.contains(&used.access()))
        };
        assert!(touches(&[OpAccess::Read, OpAccess::ReadWrite]), "{name}");
        assert!(touches(&[OpAccess::Write, OpAccess::ReadWrite]), "{name}");
    }
}

#[test]
fn an_empty_loop_is_its_control_and_nothing_else() {
    let body = timed::loop_empty as *const ();
    let turn = lines(&["add rax,1", "cmp rax,rdi", "jne"], 1);
    check_loops("empty", address_of(body), &[], &turn, None);

    let body = timed::loop_unrolled as *const ();
    let by_16 = lines(&["add rax,0x10", "cmp rax,rcx", "jne"], 1);
    check_loops("unrolled", address_of(body), &[], &by_16, Some(&turn));
    let whole = texts(&decoded(address_of(body)), &[]);
    assert!(whole.contains(&"and rcx,0xfffffffffffffff0".to_owned()), "{whole:?}");

    let body = timed::loop_volatile as *const ();
    let turn = lines(&["add qword ptr [rsp-8],1", "mov rax,[rsp-8]", "cmp rax,rdi", "jne"], 1);
    check_loops("volatile", address_of(body), &[], &turn, None);
}

#[test]
fn a_turn_of_clock_reads_is_eight_reads_with_their_fences() {
    let reads: [(ClockRead, &[&str]); 5] = [
        (ClockRead::Rdtsc, &["rdtsc"]),
        (ClockRead::LfenceRdtsc, &["lfence", "rdtsc"]),
        (ClockRead::Rdtscp, &["rdtscp"]),
        (ClockRead::FencedPair, &["lfence", "rdtsc", "lfence", "rdtscp", "lfence"]),
        (
            ClockRead::CpuidPair,
            &[
                "xor eax,eax",
                "cpuid",
                "rdtsc",
                "rdtscp",
                "mov r9d,eax",
                "mov r10d,edx",
                "xor eax,eax",
                "cpuid",
                "mov eax,r9d",
                "mov edx,r10d",
            ],
        ),
    ];
    for (kind, step) in reads {
        let body = timed::clock_loop(kind).unwrap();
        let mut turn = lines(step, 8);
        turn.extend(lines(&["dec r8", "jne"], 1));
        let mut single = lines(step, 1);
        single.extend(lines(&["dec edi", "jne"], 1));
        let address = address_of(body as *const ());
        check_loops(&format!("{kind:?}"), address, &[], &turn, Some(&single));
    }
    let instructions =
        ClockRead::available().iter().filter(|&&kind| timed::clock_loop(kind).is_some());
    assert_eq!(instructions.count(), reads.len(), "a read is not checked");
}

/// The counter's reads are inlined, and nothing stands between a read and its fences.
#[test]
fn fences_stand_beside_the_reads_of_the_counter() {
    macro_rules! reads {
        ($($name:ident $read:ident -> $result:ty: $($step:literal)*;)*) => {
            [$({
                #[inline(never)]
                fn $name() -> $result {
                    super::$read()
                }
                (stringify!($name), $name as *const (), &[$($step),*][..])
            }),*]
        };
    }
    let expected = reads! {
        start ticks_start -> u64: "lfence" "rdtsc" "lfence";
        end ticks_end -> u64: "rdtscp" "lfence";
        raw ticks_raw -> u64: "rdtsc";
        fenced ticks_fenced -> u64: "lfence" "rdtsc";
        rdtscp ticks_rdtscp -> u64: "rdtscp";
        cpuid ticks_cpuid -> Option<u64>: "cpuid" "rdtsc";
    };
    for (name, function, expected) in expected {
        let body = decoded(address_of(function));
        let found: Vec<(usize, String)> = texts(&body, &[])
            .into_iter()
            .enumerate()
            .filter(|(_, text)| matches!(text.as_str(), "lfence" | "rdtsc" | "rdtscp" | "cpuid"))
            .collect();
        let order: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(order, expected, "{name}");
        let between = found[found.len() - 1].0 - found[0].0 + 1 - found.len();
        // rbx is put back between cpuid and rdtsc.
        assert_eq!(between, usize::from(name == "cpuid"), "{name}");
    }
}

#[test]
fn a_system_call_is_made_in_a_function_that_returns() {
    let body = decoded(address_of(super::system_call as *const ()));
    let expected = [
        "mov rax,rdi",
        "mov rdi,rsi",
        "mov rsi,rdx",
        "mov rdx,rcx",
        "mov r10,r8",
        "mov r8,r9",
        "mov r9,[rsp+8]",
        "syscall",
        "ret",
    ];
    assert_eq!(texts(&body, &[]), lines(&expected, 1));
}

#[test]
fn every_face_of_a_system_call_calls_the_one_function() {
    let one = address_of(super::system_call as *const ());
    for (name, face) in system_call_faces() {
        let body = decoded(address_of(face));
        let instructions = body.iter().filter(|one| one.mnemonic() == Mnemonic::Syscall);
        assert_eq!(instructions.count(), 0, "{name}");
        let calls = body.iter().filter(|call| call.near_branch_target() == one);
        assert_eq!(calls.count(), 1, "{name}");
    }
}

mod calls;
mod chains;
mod gaps;
mod instructions;
mod parties;
mod peak;
mod stream;

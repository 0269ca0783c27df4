//! The bodies of single instructions: the machine code of a turn is the stored text, again and
//! again, and nothing else; chains depend on themselves, independent operations on nothing.

use super::{Instruction, address_of, check_convention, decoded, memory_operands, turns};
use crate::arch::x86_64::instruction::{self, BRANCH_TEXT, INSTRUCTIONS};
use crate::instruction::{BRANCHES_PER_WORD, Body};
use iced_x86::{
    FlowControl, Formatter, InstructionInfoFactory, IntelFormatter, Mnemonic, OpAccess, Register,
};
use std::collections::HashSet;

/// The lines of a unit: the text for each of its registers, directives and labels left out.
fn lines(body: &Body) -> Vec<String> {
    let registers: Vec<&str> = match body.registers {
        "" => vec![""],
        registers => registers.split(", ").collect(),
    };
    // The assembler works out where each register loads from.
    let of = |register: &&str| match register.parse::<u64>() {
        Ok(number) => {
            let place = format!("[rsi+{}]", 8 * number);
            let text = body.text.replace("[rsi+\\r*8]", &place);
            text.replace("\\r", register)
        }
        Err(_) => body.text.replace("\\r", register),
    };
    let text: Vec<String> = registers.iter().map(of).collect();
    written(&text.join("\n"))
}

fn written(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim_start_matches("9:").trim())
        .filter(|line| !line.is_empty() && !line.starts_with('.'))
        .map(plain)
        .collect()
}

/// A line without spaces, sizes of operands, and where a branch goes.
fn plain(line: &str) -> String {
    let line = line.replace("word ptr [rax+rax]", "word ptr[rax+rax]");
    let (mnemonic, operands) = line.split_once(' ').unwrap_or((line.as_str(), ""));
    let operands = match mnemonic {
        "jmp" | "jb" | "jae" | "jne" | "call" => "",
        _ => operands,
    };
    let mut text = format!("{mnemonic} {operands}").to_lowercase();
    for size in ["zmmword", "ymmword", "xmmword", "qword", "dword", "word"] {
        text = text.replace(&format!("{size} ptr"), "");
    }
    text.retain(|letter| letter != ' ');
    text
}

fn disassembled(instructions: &[Instruction]) -> Vec<String> {
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    // What fills the way to the aligned target of a jump is never executed.
    let mut jumped = false;
    instructions
        .iter()
        .filter(|one| {
            jumped = one.mnemonic() == Mnemonic::Jmp || jumped && one.mnemonic() == Mnemonic::Nop;
            !jumped || one.mnemonic() == Mnemonic::Jmp
        })
        .map(|one| {
            let mut text = String::new();
            formatter.format(one, &mut text);
            // The decoder's own name for the product of both low halves.
            match decimal(&plain(&text)).strip_prefix("pclmullqlqdq") {
                Some(operands) => format!("pclmulqdq{operands},0"),
                None => decimal(&plain(&text)),
            }
        })
        .collect()
}

/// Hexadecimal numbers as MASM writes them (`280h`) in decimal.
fn decimal(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('h') {
        let digits = rest[..at]
            .rfind(|letter: char| !letter.is_ascii_hexdigit())
            .map_or(0, |before| before + 1);
        let number = u64::from_str_radix(&rest[digits..at], 16);
        match number {
            Ok(value)
                if digits < at && rest[digits..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                out.push_str(&rest[..digits]);
                out.push_str(&value.to_string());
            }
            _ => out.push_str(&rest[..=at]),
        }
        rest = &rest[at + 1..];
    }
    out + rest
}

fn bodies() -> impl Iterator<Item = (&'static str, bool, Body)> {
    INSTRUCTIONS.iter().flat_map(|one| {
        let named = move |chain, body: Option<Body>| body.map(|body| (one.name, chain, body));
        [named(true, one.latency), named(false, one.throughput)].into_iter().flatten()
    })
}

#[test]
fn a_turn_is_the_stored_text_and_the_loop_s_control() {
    let mut seen = 0;
    for (name, _, body) in bodies() {
        let code = decoded(address_of(body.kernel as *const ()));
        let turns = turns(&code);
        assert_eq!(turns.len(), 3, "{name}: turns, units, single ones");
        assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
        let unit = lines(&body);
        let (turn, control) = turns[0].split_at(turns[0].len() - 2);
        let found = disassembled(turn);
        assert_eq!(found.len() % unit.len(), 0, "{name}: {found:?} of {unit:?}");
        let repeats = found.len() / unit.len();
        assert!((4..=128).contains(&repeats), "{name}: {repeats} units a turn");
        for repeat in found.chunks(unit.len()) {
            assert_eq!(repeat, unit, "{name}");
        }
        // The counter falls by as many operations as the turn has.
        let in_unit = match body.registers {
            "" => body.operations,
            registers => registers.split(", ").count() as u64,
        };
        let falls = |control: &[Instruction], by: u64| {
            assert_eq!(control[0].mnemonic(), Mnemonic::Sub, "{name}");
            assert_eq!(control[0].op0_register(), Register::RBP, "{name}");
            assert_eq!(control[0].immediate(1), by, "{name}");
        };
        falls(control, repeats as u64 * in_unit);
        let (one, control) = turns[1].split_at(turns[1].len() - 2);
        assert_eq!(disassembled(one), unit, "{name}, one unit");
        falls(control, in_unit);
        // Bodies of single operations never come to the third loop, which is there all the same.
        let single = disassembled(&turns[2][..turns[2].len() - 2]);
        assert_eq!(Some(&single[..]), unit.get(..single.len()), "{name}, one operation");
        assert_eq!(single.len() as u64 * in_unit, unit.len() as u64, "{name}");
        seen += 1;
    }
    assert!(seen > 130, "{seen}");
}

/// No body touches memory where its text does not say so.
#[test]
fn memory_is_touched_where_the_text_says_so_only() {
    for (name, _, body) in bodies() {
        let unit = lines(&body);
        let written =
            unit.iter().filter(|line| !line.starts_with("lea") && !line.starts_with("nop"));
        let said: usize = written
            .map(|line| match line.split('[').count() - 1 {
                0 if line.starts_with("pushr") || line.starts_with("popr") => 1,
                0 if line.starts_with("call") => 1,
                // A read and a write of the same place.
                1 if line.starts_with("xchg") || line.starts_with("lock") => 1,
                operands => operands,
            })
            .sum();
        let code = decoded(address_of(body.kernel as *const ()));
        let unit = turns(&code)[1];
        assert_eq!(memory_operands(&unit[..unit.len() - 2]), said, "{name}");
    }
}

#[test]
fn the_calling_convention_is_kept() {
    for (name, _, body) in bodies() {
        // They call and push on purpose, in pairs.
        if !matches!(name, "call_and_return" | "push_and_pop_i64") {
            check_convention(&decoded(address_of(body.kernel as *const ())), name);
        }
    }
}

/// What an instruction of a body reads and writes: registers, and one place for all of memory.
#[derive(Default)]
struct Uses {
    reads: HashSet<Register>,
    writes: HashSet<Register>,
    loads: bool,
    stores: bool,
}

fn uses(one: &Instruction) -> Uses {
    let mut uses = Uses::default();
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(one);
    // A register compared with itself is all ones, whatever it held.
    let idiom = one.mnemonic() == Mnemonic::Vpcmpeqd;
    for used in info.used_registers() {
        let register = used.register().full_register();
        if register == Register::RSP {
            continue;
        }
        let (reads, writes) = touched(used.access());
        if reads && !idiom {
            uses.reads.insert(register);
        }
        if writes {
            uses.writes.insert(register);
        }
    }
    for used in info.used_memory() {
        let (reads, writes) = touched(used.access());
        uses.loads |= reads;
        uses.stores |= writes;
    }
    uses
}

fn touched(access: OpAccess) -> (bool, bool) {
    // What is written under a condition keeps its old value else, which is needed then.
    let reads = !matches!(access, OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess);
    let writes = matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    );
    (reads, writes)
}

/// What depends on `from` after `code`: registers, and whether memory does.
fn reached(from: &HashSet<Register>, code: &[Instruction]) -> (HashSet<Register>, usize) {
    let (mut tainted, mut memory, mut touched) = (from.clone(), false, 0);
    for one in code {
        let uses = uses(one);
        let hit =
            uses.reads.iter().any(|register| tainted.contains(register)) || (uses.loads && memory);
        touched += usize::from(hit);
        for register in &uses.writes {
            if hit {
                tainted.insert(*register);
            } else {
                tainted.remove(register);
            }
        }
        if uses.stores {
            memory = hit;
        }
    }
    (tainted, touched)
}

/// The result of a unit's last instruction is needed by every instruction of the next one that does
/// the work, and its result again by the next.
#[test]
fn each_operation_of_a_chain_needs_the_one_before() {
    let mut chains = 0;
    for (name, chain, body) in bodies() {
        if !chain {
            continue;
        }
        let code = decoded(address_of(body.kernel as *const ()));
        let unit = turns(&code)[1];
        let unit = &unit[..unit.len() - 2];
        let last = uses(&unit[unit.len() - 1]);
        // Of two results the chain runs through one at least.
        let (after, touched) = reached(&last.writes, unit);
        // The mask of a gather is made anew.
        let free = unit.iter().filter(|one| one.mnemonic() == Mnemonic::Vpcmpeqd).count();
        assert_eq!(touched, unit.len() - free, "{name}");
        assert!(after.intersection(&last.writes).count() > 0, "{name}");
        chains += 1;
    }
    assert!(chains > 60, "{chains}");
}

/// Within a unit no operation needs what another computed; fixed registers are written anew first.
#[test]
fn operations_of_a_throughput_body_do_not_need_each_other() {
    for (name, chain, body) in bodies() {
        // Atomic operations and wide products of one place or register are in order by nature.
        if chain || matches!(name, "exchange_i64" | "fetch_add_i64" | "store_and_load_i64") {
            continue;
        }
        let code = decoded(address_of(body.kernel as *const ()));
        let unit = turns(&code)[1];
        let unit: Vec<Instruction> = unit[..unit.len() - 2]
            .iter()
            .filter(|one| one.flow_control() == FlowControl::Next)
            .copied()
            .collect();
        let operations = match body.registers {
            "" => 1,
            registers => registers.split(", ").count(),
        };
        let size = unit.len() / operations;
        for (at, operation) in unit.chunks(size.max(1)).enumerate() {
            let results: HashSet<Register> =
                operation.iter().flat_map(|one| uses(one).writes).collect();
            // With one operation to a unit, the next is the same one again.
            let next = if operations == 1 { &unit[..] } else { &unit[(at + 1) * size..] };
            let (_, touched) = reached(&results, next);
            assert_eq!(touched, 0, "{name}: operation {at} is needed");
        }
    }
}

#[test]
fn a_word_of_branches_is_64_times_the_stored_text() {
    let code = decoded(address_of(instruction::branches as *const ()));
    let turns = turns(&code);
    assert_eq!((turns.len(), turns[0][0].ip() % 64), (1, 0));
    let found = disassembled(turns[0]);
    let branch = written(BRANCH_TEXT);
    assert_eq!(found[0], "movrdx,[rsi]");
    let branches = &found[1..=branch.len() * BRANCHES_PER_WORD as usize];
    assert!(branches.chunks(branch.len()).all(|one| one == branch), "{found:?}");
    assert_eq!(found[branches.len() + 1..], ["addrsi,8", "decrdi", "jne"]);
    // Both ways of a branch lead to the instruction after it.
    for pair in turns[0].windows(2).take(BRANCHES_PER_WORD as usize * branch.len()) {
        if pair[0].mnemonic() == Mnemonic::Jb {
            assert_eq!(pair[0].near_branch_target(), pair[1].ip());
        }
    }
}

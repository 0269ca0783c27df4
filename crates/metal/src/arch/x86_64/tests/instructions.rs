//! The bodies of single instructions: a turn is one unit again and again, and nothing else; chains
//! depend on themselves, independent operations on nothing.

use super::{Instruction, address_of, check_convention, decoded, memory_operands, text, turns};
use crate::arch::x86_64::instruction::{self, INSTRUCTIONS};
use crate::instruction::{BRANCHES_PER_WORD, Body};
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use std::collections::HashSet;

/// What is executed of a unit, without the loop's control: what fills the way to the aligned target
/// of a jump is not.
fn executed(turn: &[Instruction]) -> Vec<String> {
    let mut jumped = false;
    let steps = turn[..turn.len() - 2].iter().filter(|one| {
        jumped = one.mnemonic() == Mnemonic::Jmp || jumped && one.mnemonic() == Mnemonic::Nop;
        !jumped || one.mnemonic() == Mnemonic::Jmp
    });
    steps.map(|one| text(one, &[])).collect()
}

/// How many registers a unit repeats the stored text for.
fn registers(body: &Body) -> usize {
    body.registers.split(", ").count()
}

fn bodies() -> impl Iterator<Item = (&'static str, bool, Body)> {
    INSTRUCTIONS.iter().flat_map(|one| {
        let named = move |chain, body: Option<Body>| body.map(|body| (one.name, chain, body));
        [named(true, one.latency), named(false, one.throughput)].into_iter().flatten()
    })
}

#[test]
fn a_turn_is_one_unit_again_and_again_and_the_loop_s_control() {
    let mut seen = 0;
    for (name, _, body) in bodies() {
        let code = decoded(address_of(body.kernel as *const ()));
        let turns = turns(&code);
        assert_eq!(turns.len(), 3, "{name}: turns, units, single ones");
        assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
        let [turn, unit, single] = [0, 1, 2].map(|at| executed(turns[at]));
        let repeats = turn.len() / unit.len();
        assert!((4..=128).contains(&repeats), "{name}: {repeats} units a turn");
        assert_eq!(turn.len(), repeats * unit.len(), "{name}");
        assert!(turn.chunks(unit.len()).all(|one| one == unit), "{name}: {turn:?}");
        // The counter falls by as many operations as the turn has.
        let in_unit = match body.registers {
            "" => body.operations,
            _ => registers(&body) as u64,
        };
        for (turn, by) in [(turns[0], repeats as u64 * in_unit), (turns[1], in_unit)] {
            let control = &turn[turn.len() - 2];
            assert_eq!(control.mnemonic(), Mnemonic::Sub, "{name}");
            assert_eq!(control.op0_register(), Register::RBP, "{name}");
            assert_eq!(control.immediate(1), by, "{name}");
        }
        // Bodies of single operations never come to the third loop, which is there all the same.
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
        let lines = body.text.lines().map(|line| line.trim_start_matches("9:").trim());
        let touching = lines.filter(|line| !line.starts_with("lea") && !line.starts_with("nop"));
        let of_text: usize = touching
            .map(|line| match line.matches('[').count() {
                0 if line.starts_with("push") || line.starts_with("pop ") => 1,
                0 if line.starts_with("call") => 1,
                // A read and a write of the same place.
                1 if line.starts_with("xchg") || line.starts_with("lock") => 1,
                operands => operands,
            })
            .sum();
        let code = decoded(address_of(body.kernel as *const ()));
        let unit = turns(&code)[1];
        let found = memory_operands(&unit[..unit.len() - 2]);
        assert_eq!(found, registers(&body) * of_text, "{name}");
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
fn a_word_of_branches_is_64_branches_that_lead_to_the_next_instruction() {
    let code = decoded(address_of(instruction::branches as *const ()));
    let turns = turns(&code);
    assert_eq!((turns.len(), turns[0][0].ip() % 64), (1, 0));
    assert_eq!(memory_operands(turns[0]), 1, "the word");
    let is_branch = |one: &Instruction| one.mnemonic() == Mnemonic::Jb;
    let to_next =
        |pair: &&[Instruction]| is_branch(&pair[0]) && pair[0].near_branch_target() == pair[1].ip();
    let branches = turns[0].iter().filter(|one| is_branch(one)).count();
    assert_eq!(branches as u64, BRANCHES_PER_WORD);
    assert_eq!(turns[0].windows(2).filter(to_next).count(), branches);
}

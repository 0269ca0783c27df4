//! Bandwidth: which bytes a turn of each loop loads and stores, and that it does nothing else.

use std::collections::BTreeSet;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::super::stream::written;
use super::{address_of, check_convention, decoded, text, turns};
use crate::arch::tests::{Traffic, turn_units};
use crate::stream::{Code, Kernel, Op, Stores, Width};

/// What the instructions of a loop do, the last two of which compare and branch. Every word is
/// touched once, and nothing but the arrays' pointers addresses memory.
fn found(name: &str, arrays: usize, turn: &[Instruction]) -> Traffic {
    let pointers = &[Register::RDI, Register::RSI, Register::RDX][..arrays];
    let mut traffic = Traffic::default();
    let mut factory = InstructionInfoFactory::new();
    let (steps, control) = turn.split_at(turn.len() - 2 - arrays);
    for step in steps.iter().filter(|step| !is_prefetch(step)) {
        for used in factory.info(step).used_memory() {
            let shown = text(step, &[]);
            let at = pointers.iter().position(|one| *one == used.base());
            let array = at.unwrap_or_else(|| panic!("{name}: {shown} is elsewhere"));
            assert_eq!(used.index(), Register::None, "{name}: {shown}");
            let word = (used.displacement(), used.memory_size().size());
            let (loads, stores) = match used.access() {
                OpAccess::Read => (true, false),
                OpAccess::Write => (false, true),
                OpAccess::ReadWrite => (true, true),
                other => panic!("{name}: {shown} {other:?}"),
            };
            if loads {
                assert!(traffic.loads[array].insert(word), "{name}: {shown} again");
            }
            if stores {
                assert_eq!(array, 0, "{name}: {shown} stores to a source");
                assert!(traffic.stores.insert(word), "{name}: {shown} again");
            }
        }
    }
    for (advance, pointer) in control.iter().zip(pointers) {
        assert_eq!(advance.mnemonic(), Mnemonic::Add, "{name}");
        assert_eq!(advance.op0_register(), *pointer, "{name}");
        let by = advance.immediate(1);
        traffic.advances(by, name);
    }
    assert_eq!(control[arrays].mnemonic(), Mnemonic::Cmp, "{name}");
    traffic
}

fn is_prefetch(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Prefetcht0 | Mnemonic::Prefetcht1 | Mnemonic::Prefetchw
    )
}

/// Instructions for one word besides prefetches: load, arithmetic, store.
fn per_word(kernel: Kernel) -> usize {
    let wide = matches!(kernel.width, Width::Avx2 | Width::Avx512);
    let scalar = matches!(kernel.width, Width::Word4 | Width::Word8);
    // A scalar number goes to a general register to be stored past the caches.
    let moved = usize::from(scalar && kernel.stores == Stores::NonTemporal);
    match kernel.op {
        Op::Read | Op::Write => 1,
        Op::Modify if scalar => 1,
        Op::Modify | Op::Scale => 3 - usize::from(wide) + moved,
        Op::Copy => 2,
        Op::Add => 3 + moved,
        Op::Triad => 4 - usize::from(wide) + moved,
    }
}

fn kernels() -> Vec<(Kernel, bool, Code)> {
    let both = Kernel::every().flat_map(|kernel| [(kernel, false), (kernel, true)]);
    both.filter_map(|(kernel, ahead)| Some((kernel, ahead, written(kernel, ahead)?))).collect()
}

#[test]
fn a_turn_moves_every_word_of_its_lines_once_and_does_nothing_else() {
    let kernels = kernels();
    // Each without and with prefetches: 26 of each scalar width, 12 of each vector's.
    assert_eq!(kernels.len(), 2 * (2 * 26 + 3 * 12));
    for (kernel, ahead, code) in kernels {
        let name = format!("{kernel:?}, ahead {ahead}");
        if !kernel.is_supported() {
            skips::part("processor", format!("{name} is read and does not run"));
        }
        let body = decoded(address_of(code as *const ()));
        check_convention(&body, &name);
        let turns = turns(&body);
        assert_eq!(turns.len(), 3, "{name}: turns, units, passes");
        assert_eq!(turns[0][0].ip() % 64, 0, "{name} is not aligned");
        let (units, _) = turn_units(kernel);
        for (turn, units) in [(turns[0], units), (turns[1], 1)] {
            let traffic = found(&name, kernel.op.arrays(), turn);
            assert_eq!(traffic, Traffic::expected(kernel, units), "{name}");
            let steps = turn.iter().filter(|one| !is_prefetch(one)).count();
            let control = kernel.op.arrays() + 2;
            assert_eq!(steps, traffic.words() * per_word(kernel) + control, "{name}");
        }
    }
}

#[test]
fn stores_are_of_the_kind_that_is_said_and_in_order_at_the_end() {
    for (kernel, _, code) in kernels() {
        let body = decoded(address_of(code as *const ()));
        let turns = turns(&body);
        let mut factory = InstructionInfoFactory::new();
        for step in turns[0].iter().chain(turns[1]) {
            let info = factory.info(step);
            let writes = |used: &iced_x86::UsedMemory| used.access() != OpAccess::Read;
            if is_prefetch(step) || !info.used_memory().iter().any(writes) {
                continue;
            }
            let past = matches!(
                step.mnemonic(),
                Mnemonic::Movnti | Mnemonic::Movntps | Mnemonic::Vmovntps
            );
            assert_eq!(past, kernel.stores == Stores::NonTemporal, "{kernel:?}");
        }
        let fences = body.iter().filter(|one| one.mnemonic() == Mnemonic::Sfence);
        let fences = fences.count();
        assert_eq!(fences, usize::from(kernel.stores == Stores::NonTemporal));
        let wide = matches!(kernel.width, Width::Avx2 | Width::Avx512);
        let clears = body.iter().any(|one| one.mnemonic() == Mnemonic::Vzeroupper);
        assert_eq!(clears, wide, "{kernel:?}");
    }
}

/// A loop that looks ahead asks once for each line of each array that it waits
/// for, and the others ask for none.
#[test]
fn prefetches_are_one_for_each_line_that_is_waited_for() {
    for (kernel, ahead, code) in kernels() {
        let name = format!("{kernel:?}, ahead {ahead}");
        let body = decoded(address_of(code as *const ()));
        let turns = turns(&body);
        let lines =
            if ahead && kernel.width.is_vector() { turn_units(kernel).0 as usize } else { 0 };
        let past = kernel.stores == Stores::NonTemporal;
        let sources = match kernel.op {
            Op::Write | Op::Modify => 0,
            Op::Read | Op::Copy | Op::Scale => lines,
            Op::Add | Op::Triad => 2 * lines,
        };
        let destinations = if kernel.op == Op::Read || past { 0 } else { lines };
        let level = match (kernel.op, past) {
            (Op::Read, _) | (_, true) => (Mnemonic::Prefetcht1, 1024),
            _ => (Mnemonic::Prefetcht0, 512),
        };
        let mut asked = BTreeSet::new();
        let mut counts = [0; 2];
        for one in turns[0].iter().filter(|one| is_prefetch(one)) {
            let to_write = one.mnemonic() == Mnemonic::Prefetchw;
            counts[usize::from(to_write)] += 1;
            let further = one.memory_displacement64();
            assert!(asked.insert((one.memory_base() as u32, further)), "{name}");
            let distance = match (to_write, kernel.op) {
                (true, Op::Modify) => 1024,
                (true, _) => 512,
                (false, _) => level.1,
            };
            assert!(to_write || one.mnemonic() == level.0, "{name}");
            assert_eq!(to_write, destinations > 0 && one.memory_base() == Register::RDI);
            let within = distance..distance + lines as u64 * 64;
            assert!(further % 64 == 0 && within.contains(&further), "{name}");
        }
        assert_eq!(counts, [sources, destinations], "{name}");
        assert!(!turns[1].iter().any(is_prefetch), "{name}");
    }
}

/// What is read stays in registers until it is summed up: each load of a vector
/// goes to a register of its own while there are any, and scalars are added.
#[test]
fn what_is_read_is_kept() {
    for (kernel, _, code) in kernels() {
        if kernel.op != Op::Read {
            continue;
        }
        let body = decoded(address_of(code as *const ()));
        let turn = turns(&body)[0];
        let loads: Vec<_> = turn[..turn.len() - 3].iter().filter(|one| !is_prefetch(one)).collect();
        let into: BTreeSet<_> = loads.iter().map(|one| one.op0_register() as u32).collect();
        let vector = kernel.width.is_vector();
        assert_eq!(into.len(), if vector { 16 } else { 4 }, "{kernel:?}");
        let sums = loads.iter().filter(|one| one.mnemonic() == Mnemonic::Add);
        assert_eq!(sums.count(), if vector { 0 } else { loads.len() });
        // Added up after the loops, 15 to the first, and its lanes.
        let adds =
            body.iter().filter(|one| matches!(one.mnemonic(), Mnemonic::Paddq | Mnemonic::Vpaddq));
        let lanes = (kernel.width.bytes() / 8).trailing_zeros() as usize;
        assert_eq!(adds.count(), if vector { 15 + lanes } else { 0 });
    }
}

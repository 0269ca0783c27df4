//! Bandwidth: which bytes a turn of each loop loads and stores, and that it does nothing else.
//!
//! Words are read by the tables of the Arm ARM, C4.1: loads and stores of one register at an
//! unsigned offset and of pairs, `add` of registers and of a constant, arithmetic of vectors.

use super::super::stream::stream_code;
use super::{turns, words};
use crate::arch::tests::{Traffic, turn_units};
use crate::stream::{Ahead, Code, Kernel, Op, Stores, Width};
use std::collections::BTreeSet;

/// cmp x0, x7 and cmp x0, x8: the end of a turn's units, and that of single ones.
const ENDS: [u32; 2] = [0xeb07_001f, 0xeb08_001f];

/// Arithmetic: mask, word without registers, what it is.
const ARITHMETIC: [(u32, u32, &str); 8] = [
    (0x7fe0_fc00, 0x0b00_0000, "add"),
    (0xffe0_fc00, 0x4ee0_8400, "add"),
    (0xffa0_fc00, 0x1e20_2800, "fadd"),
    (0xffe0_fc00, 0x4e60_d400, "fadd"),
    (0xffa0_fc00, 0x1e20_0800, "fmul"),
    (0xffe0_fc00, 0x6e60_dc00, "fmul"),
    (0xffa0_8000, 0x1f00_0000, "fmadd"),
    (0xffe0_fc00, 0x4e60_cc00, "fmadd"),
];

/// A load or a store.
#[derive(Debug)]
struct Moved {
    is_load: bool,
    is_past: bool,
    is_vector: bool,
    base: u32,
    offset: u64,
    bytes: usize,
    registers: Vec<u32>,
}

/// What a word moves, if it is a load or a store of one register or of a pair.
fn moved(word: u32) -> Option<Moved> {
    let is_vector = word >> 26 & 1 == 1;
    let (base, first, size) = (word >> 5 & 31, word & 31, word >> 30);
    if word >> 27 & 7 == 0b101 {
        // Without a change of the base: past the caches, or not.
        let is_past = match word >> 23 & 7 {
            0b000 => true,
            0b010 => false,
            _ => return None,
        };
        let bytes = if is_vector { 4 << size } else { 4 << (size >> 1) };
        let offset = (word >> 15 & 0x7f) as u64 * bytes as u64;
        assert!(word >> 21 & 1 == 0, "{word:#010x} goes back");
        let is_load = word >> 22 & 1 == 1;
        let registers = vec![first, word >> 10 & 31];
        return Some(Moved { is_load, is_past, is_vector, base, offset, bytes, registers });
    }
    if word >> 24 & 0b11_1011 != 0b11_1001 {
        return None;
    }
    let (bytes, offset) = (1 << size, (word >> 10 & 0xfff) as u64);
    let is_load = match word >> 22 & 3 {
        0 => false,
        1 => true,
        _ => return None,
    };
    let offset = offset * bytes as u64;
    let registers = vec![first];
    Some(Moved { is_load, is_past: false, is_vector, base, offset, bytes, registers })
}

fn arithmetic(word: u32) -> Option<&'static str> {
    let found = ARITHMETIC.iter().find(|(mask, same, _)| word & mask == *same)?;
    Some(found.2)
}

/// Register and bytes of `add xn, xn, #bytes`.
fn advance(word: u32) -> Option<(u32, u64)> {
    let (from, to) = (word >> 5 & 31, word & 31);
    let is_advance = word & 0xff80_0000 == 0x9100_0000 && from == to;
    let shift = if word >> 22 & 1 == 1 { 12 } else { 0 };
    is_advance.then_some((to, u64::from(word >> 10 & 0xfff) << shift))
}

/// The arithmetic of a word, and how many instructions it is: vectors that are read are only kept.
fn sums(kernel: Kernel) -> (usize, &'static str) {
    match kernel.op {
        Op::Read if kernel.width == Width::Neon => (0, ""),
        Op::Write | Op::Copy => (0, ""),
        Op::Read | Op::Modify => (1, "add"),
        Op::Scale => (1, "fmul"),
        Op::Add => (1, "fadd"),
        Op::Triad => (1, "fmadd"),
    }
}

/// What a turn moves, and its arithmetic. Every word is touched once, and nothing but the arrays'
/// pointers addresses memory.
fn found(name: &str, kernel: Kernel, turn: &[u32]) -> (Traffic, Vec<&'static str>) {
    let arrays = kernel.op.arrays();
    let (mut traffic, mut sums) = (Traffic::default(), Vec::new());
    let (steps, control) = turn.split_at(turn.len() - 1 - arrays);
    for &word in steps {
        let Some(moved) = moved(word) else {
            let sum = arithmetic(word);
            sums.push(sum.unwrap_or_else(|| panic!("{name}: {word:#010x} is something else")));
            continue;
        };
        assert!((moved.base as usize) < arrays, "{name}: {moved:?} is elsewhere");
        for at in 0..moved.registers.len() {
            let word = (moved.offset + (at * moved.bytes) as u64, moved.bytes);
            let words = match moved.is_load {
                true => &mut traffic.loads[moved.base as usize],
                false => &mut traffic.stores,
            };
            assert!(words.insert(word), "{name}: {moved:?} again");
        }
        assert!(moved.is_load || moved.base == 0, "{name}: {moved:?} stores to a source");
    }
    for (array, word) in control[..arrays].iter().enumerate() {
        let (register, by) = advance(*word).unwrap_or_else(|| panic!("{name}: {word:#010x}"));
        assert_eq!(register as usize, array, "{name}");
        traffic.advances(by, name);
    }
    assert!(ENDS.contains(&control[arrays]), "{name}");
    (traffic, sums)
}

fn kernels() -> Vec<(Kernel, Code)> {
    let written = |kernel| Some((kernel, stream_code(kernel, Ahead::No)?));
    Kernel::every().filter_map(written).collect()
}

#[test]
fn a_turn_moves_every_word_of_its_lines_once_and_does_nothing_else() {
    let kernels = kernels();
    // Seven operations by every word of two sizes in three orders, and by vectors; five past the
    // caches by each of the three.
    assert_eq!(kernels.len(), 7 * (2 * 3 + 1) + 5 * 3);
    for (kernel, code) in kernels {
        let name = format!("{kernel:?}");
        let body = words(code as usize);
        let turns = turns(&body);
        assert_eq!(turns.len(), 3, "{name}: turns, units, passes");
        assert_eq!((code as usize + 4 * turns[0].0) % 64, 0, "{name} is not aligned");
        let (units, _) = turn_units(kernel);
        for ((_, turn), units) in [(turns[0], units), (turns[1], 1)] {
            let (traffic, sums_found) = found(&name, kernel, turn);
            assert_eq!(traffic, Traffic::expected(kernel, units), "{name}");
            let (each, sum) = sums(kernel);
            assert_eq!(sums_found.len(), traffic.words() * each, "{name}");
            assert!(sums_found.iter().all(|found| *found == sum), "{name}");
        }
    }
}

/// Past the caches is said by each store, and nowhere else. No kernel touches the registers that a
/// caller keeps (AAPCS64: x18 to x30, the low halves of v8 to v15).
#[test]
fn stores_are_of_the_kind_that_is_said_and_a_callers_registers_stay() {
    for (kernel, code) in kernels() {
        for moved in words(code as usize).into_iter().filter_map(moved) {
            let past = !moved.is_load && kernel.stores == Stores::NonTemporal;
            assert_eq!(moved.is_past, past, "{kernel:?}: {moved:?}");
            let kept = if moved.is_vector { 8..16 } else { 18..31 };
            let taken = moved.registers.iter().any(|register| kept.contains(register));
            assert!(!moved.is_load || !taken, "{kernel:?}: {moved:?}");
        }
    }
}

/// What is read stays in registers until it is summed up: each load of a vector goes to a register
/// of its own while there are any, and scalars are added in four chains.
#[test]
fn what_is_read_is_kept() {
    for (kernel, code) in kernels() {
        if kernel.op != Op::Read {
            continue;
        }
        let body = words(code as usize);
        let (start, turn) = turns(&body)[0];
        let loads = turn.iter().filter_map(|word| moved(*word));
        let into: BTreeSet<u32> = loads.flat_map(|moved| moved.registers).collect();
        let is_vector = kernel.width.is_vector();
        assert_eq!(into.len(), if is_vector { 16 } else { 4 }, "{kernel:?}");
        let after = &body[start + turn.len()..];
        let vectors = after.iter().filter(|word| arithmetic(**word) == Some("add"));
        // The chains of scalars, and what the loop of single units adds.
        let single = turns(&body)[1].1.iter().filter(|word| arithmetic(**word) == Some("add"));
        let expected = if is_vector { 15 } else { 3 + single.count() };
        assert_eq!(vectors.count(), expected, "{kernel:?}");
    }
}

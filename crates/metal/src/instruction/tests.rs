//! Known answers: a chain of n operations is n operations, for n around every unrolling.

use super::{BRANCHES_PER_WORD, Bench, Body, Instruction, OPERAND, START, all, find};
use std::collections::BTreeSet;

/// Around units of 8, 10 and 12, and turns of 32, 40, 96 and 128.
const COUNTS: [u64; 16] = [0, 1, 2, 7, 8, 9, 11, 13, 31, 33, 41, 97, 127, 128, 259, 10_001];

/// What one operation does to a word.
type Step = fn(u64) -> u64;

/// Integer kernels leave the sum of rax and r8 to r15 (x86-64), of x2 and x8 to x15 (aarch64),
/// which start alike.
fn chained(n: u64, step: impl Fn(u64) -> u64) -> u64 {
    let end = (0..n).fold(START, |value, _| step(value));
    end.wrapping_add(START.wrapping_mul(8))
}

/// The same for eight independent chains: operation i is on chain i of 8 in whole units, and all
/// that are left over are on the first.
fn spread(n: u64, step: impl Fn(u64) -> u64) -> u64 {
    let (units, left) = (n / 8, n % 8);
    let end = |steps| (0..steps).fold(START, |value, _| step(value));
    let rest = end(units).wrapping_mul(7);
    START.wrapping_add(end(units + left)).wrapping_add(rest)
}

#[test]
fn integer_bodies_do_their_operation_n_times() {
    let steps: [(&str, Step); 9] = [
        ("add_i64", |value| value.wrapping_add(OPERAND)),
        ("sub_i64", |value| value.wrapping_sub(OPERAND)),
        ("and_i64", |value| value & OPERAND),
        ("mul_i64", |value| value.wrapping_mul(OPERAND)),
        ("rotate_i64", |value| value.rotate_right(7)),
        ("shift_fixed_i64", |value| value << 3),
        ("shift_counted_i64", |value| value << 7),
        ("byte_swap_i64", u64::swap_bytes),
        ("add_shifted_i64", |value| OPERAND.wrapping_add(value.wrapping_mul(4))),
    ];
    let mut bench = Bench::new();
    for (name, step) in steps {
        let instruction = find(name).expect("every architecture has it");
        let latency = instruction.latency.expect("it has a chain");
        let throughput = instruction.throughput.expect("it has many chains");
        for n in COUNTS {
            let found = bench.run(instruction, &latency, n);
            assert_eq!(found, chained(n, step), "{name}, {n}");
            let found = bench.run(instruction, &throughput, n);
            assert_eq!(found, spread(n, step), "{name}, {n} apart");
        }
    }
}

#[test]
fn floating_bodies_do_their_operation_n_times() {
    let (value, factor) = (1.732_050_807_568_877_2_f64, 1.0 - f64::EPSILON / 2.0);
    let steps: [(&str, &dyn Fn(f64) -> f64); 4] = [
        ("add_f64", &|value| value + factor),
        ("mul_f64", &|value| value * factor),
        ("div_f64", &|value| value / factor),
        ("add_f64x2", &|value| value + factor),
    ];
    let mut bench = Bench::new();
    for (name, step) in steps {
        let instruction = find(name).expect("every architecture has it");
        let latency = instruction.latency.expect("it has a chain");
        for n in COUNTS {
            let expected = (0..n).fold(value, |value, _| step(value));
            let found = f64::from_bits(bench.run(instruction, &latency, n));
            assert_eq!(found.to_bits(), expected.to_bits(), "{name}, {n}");
        }
    }
}

#[test]
fn operands_of_dividers_stay_what_they_are() {
    let mut bench = Bench::new();
    let root = find("sqrt_f64").expect("every architecture has it");
    let body = root.latency.expect("it has a chain");
    let end = f64::from_bits(bench.run(root, &body, 1001));
    assert_eq!(end.to_bits(), (1.0 - f64::EPSILON / 2.0).to_bits());
    for name in ["div_u32", "div_u64"] {
        let instruction = find(name).expect("every architecture has it");
        for body in [instruction.latency, instruction.throughput] {
            let body = body.expect("it has both");
            let once = bench.run(instruction, &body, 1);
            assert_eq!(bench.run(instruction, &body, 1000), once, "{name}");
            assert_ne!(once, 0, "{name}");
        }
    }
}

#[test]
fn every_exchange_succeeds() {
    let mut bench = Bench::new();
    for instruction in all() {
        if !instruction.is_present() || instruction.name != "compare_exchange_i64" {
            continue;
        }
        for body in [instruction.latency, instruction.throughput] {
            let body = body.expect("it has both");
            let alone = bench.run(instruction, &body, 0);
            assert_eq!(bench.run(instruction, &body, 1000), alone);
        }
    }
}

#[test]
fn every_body_of_this_processor_runs() {
    let mut bench = Bench::new();
    let (mut present, mut names) = (0, BTreeSet::new());
    for instruction in all() {
        assert!(names.insert(instruction.name), "{} twice", instruction.name);
        assert!(instruction.latency.is_some() || instruction.throughput.is_some());
        if !instruction.is_present() {
            skips::part("processor", instruction.name);
        } else {
            present += 1;
            let bodies = [instruction.latency, instruction.throughput];
            for body in bodies.iter().flatten() {
                for n in [0, 1, 5, 130, 1000] {
                    let first = bench.run(instruction, body, n);
                    assert_stays(&mut bench, instruction, body, n, first);
                }
            }
        }
    }
    assert!(present >= 30, "{present}");
}

/// A body gives the same answer again, but for those whose answer is what memory held.
fn assert_stays(bench: &mut Bench, instruction: &Instruction, body: &Body, n: u64, first: u64) {
    let keeps = !matches!(
        instruction.name,
        "exchange_i64" | "fetch_add_i64" | "load_store_exclusive_i64" | "load_i64"
    );
    if keeps {
        assert_eq!(bench.run(instruction, body, n), first, "{}, {n}", body.text);
    }
}

#[test]
fn branches_count_the_bits_that_are_set() {
    for words in [&[][..], &[0], &[u64::MAX], &[5, 0xaaaa_aaaa_aaaa_aaaa, START]] {
        let set: u32 = words.iter().map(|word| word.count_ones()).sum();
        assert_eq!(Bench::branches(words), u64::from(set));
    }
    assert_eq!(BRANCHES_PER_WORD, u64::from(u64::BITS));
}

#[test]
fn a_text_is_shown_in_one_line_with_its_registers() {
    let add = find("add_i64").expect("every architecture has it");
    let chain = add.latency.expect("it has a chain");
    assert_eq!(chain.shown(), chain.text);
    let apart = add.throughput.expect("it has many chains").shown();
    let lines = find("store_and_load_i64").expect("every architecture has it");
    let lines = lines.latency.expect("it has a chain").shown();
    assert!(!lines.contains('\n') && lines.contains("; "), "{lines}");
    assert!(apart.contains("\\r") && apart.ends_with("15)"), "{apart}");
}

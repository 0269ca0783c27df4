//! Known answers: a chain of n operations is n operations, for n around every unrolling.

use super::{BRANCHES_PER_WORD, Bench, START, all, find};
use std::collections::BTreeSet;

/// Around units of 8, 10 and 12, and turns of 32, 40, 96 and 128.
const COUNTS: [u64; 16] = [0, 1, 2, 7, 8, 9, 11, 13, 31, 33, 41, 97, 127, 128, 259, 10_001];

#[test]
fn bodies_do_their_operation_n_times() {
    let mut bench = Bench::new();
    for instruction in all().iter().filter(|of| of.is_present()) {
        for n in COUNTS {
            assert!(bench.is_right(instruction, n), "{}, {n}", instruction.name);
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
fn names_are_distinct_and_most_processors_have_many() {
    let (mut present, mut names) = (0, BTreeSet::new());
    for instruction in all() {
        assert!(names.insert(instruction.name), "{} twice", instruction.name);
        assert!(instruction.latency.is_some() || instruction.throughput.is_some());
        if !instruction.is_present() {
            skips::part("processor", instruction.name);
        } else {
            present += 1;
        }
    }
    assert!(present >= 30, "{present}");
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

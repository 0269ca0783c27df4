//! Arithmetic at full rate: what a turn executes.

use super::super::peak::{peak_chain, written};
use super::{address_of, check_convention, decoded, memory_operands, text, turns};
use crate::peak::{Body, Kernel, Op, Peak, Type, Width};
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, Register};
use std::collections::HashMap;

/// The register that holds what every step uses, by its operation.
fn register_size(kernel: Kernel) -> usize {
    match (kernel.width, kernel.element) {
        (Width::Scalar, Type::I32) => 4,
        (Width::Scalar, Type::I64) => 8,
        (Width::Avx2, _) => 32,
        (Width::Avx512, _) => 64,
        _ => 16,
    }
}

/// A turn is `chains` x `rounds` times the instruction (of a mix, that of the chain) on registers of
/// the width, each chain only on its own accumulator, and a decrement and a branch.
#[test]
fn a_turn_is_independent_chains_of_one_instruction() {
    let mut kernels = 0;
    for kernel in Kernel::every() {
        let Some(body) = written(kernel) else { continue };
        check(kernel, body);
        let bytes = register_size(kernel) as u64;
        let scalar = kernel.width == Width::Scalar;
        assert_eq!(body.lanes, if scalar { 1 } else { bytes / kernel.element.bytes() });
        kernels += 1;
        if !Peak::is_supported(kernel) {
            skips::part("processor", format!("{kernel:?} is read and does not run"));
        }
    }
    assert_eq!(kernels, 38);
}

/// As many operations as R3 says of its programs.
#[test]
fn a_turn_of_a_mix_is_22_operations_on_integers_and_77_on_floating_point_numbers() {
    for (element, operations) in [(Type::I64, 22), (Type::F64, 77)] {
        let kernel = Kernel { op: Op::Mix, element, width: Width::Scalar };
        let peak = Peak::new(kernel, 1).expect("every x86-64 has it");
        assert_eq!((peak.operations(), peak.instructions()), (operations, operations));
    }
}

#[test]
fn a_turn_of_a_clock_chain_is_32_dependent_steps() {
    let mut chains = 0;
    for width in [Width::Sse2, Width::Avx2, Width::Avx512] {
        for (op, element) in [(Op::Mul, Type::F64), (Op::Fma, Type::F64), (Op::Add, Type::I64)] {
            let kernel = Kernel { op, element, width };
            // A processor that lacks the width has no chain of it to run.
            if let Some(body) = peak_chain(kernel) {
                assert_eq!((body.chains, body.rounds), (1, 32));
                check(kernel, body);
                chains += 1;
            }
        }
    }
    assert!(chains >= 2, "every x86-64 has SSE2");
}

fn check(kernel: Kernel, body: Body) {
    let Body { run, chains, rounds, .. } = body;
    let name = format!("{kernel:?}, {chains} chains");
    let body = decoded(address_of(run as *const ()));
    check_convention(&body, &name);
    let turns = turns(&body);
    assert_eq!(turns.len(), 1, "{name}");
    let turn = turns[0];
    assert_eq!(turn[0].ip() % 64, 0, "{name} is not aligned");
    assert_eq!(memory_operands(turn), 0, "{name}");
    let (steps, control) = turn.split_at(turn.len() - 2);
    let control: Vec<String> = control.iter().map(|one| text(one, &[])).collect();
    assert_eq!(control, ["dec rdi", "jne"], "{name}");
    assert_eq!(steps.len() as u64, chains as u64 * rounds, "{name}");
    let mut per_chain: HashMap<Register, u64> = HashMap::new();
    let mut factory = InstructionInfoFactory::new();
    for (at, step) in steps.iter().enumerate() {
        // One instruction; of a mix one for each operation.
        let alike =
            (0..chains).find(|chain| kernel.in_chain(*chain) == kernel.in_chain(at % chains));
        let alike = alike.expect("its own chain, if no other");
        assert_eq!(step.code(), steps[alike].code(), "{name}");
        let accumulator = step.op0_register();
        assert_eq!(accumulator.size(), register_size(kernel), "{name}");
        // The next step on the same accumulator is as far away as there are chains.
        let again = steps.get(at + chains).map(|next| next.op0_register());
        assert!(again.is_none_or(|next| next == accumulator), "{name}");
        *per_chain.entry(accumulator).or_default() += 1;
        let written = factory.info(step).used_registers().to_vec();
        let written = written.iter().filter(|used| used.access() != OpAccess::Read);
        for used in written {
            let same = used.register().full_register() == accumulator.full_register();
            assert!(same, "{name} writes {:?}", used.register());
        }
        // It reads its accumulator: a chain, not a value computed anew. (Assemblers exchange the
        // sources of an addition where that makes it shorter.)
        let sources = [step.op1_register(), step.op2_register()];
        let overwrites = step.op_count() == 2 || kernel.op == Op::Fma;
        let reads = overwrites || sources.contains(&accumulator);
        assert!(reads, "{name}");
    }
    assert_eq!(per_chain.len(), chains, "{name}");
    assert!(per_chain.values().all(|count| *count == rounds), "{name}");
    let moves = [Mnemonic::Mov, Mnemonic::Movups, Mnemonic::Vmovups];
    assert!(steps.iter().all(|step| !moves.contains(&step.mnemonic())));
}

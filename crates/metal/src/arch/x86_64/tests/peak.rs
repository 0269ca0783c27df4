//! Arithmetic at full rate: what a turn executes.

use super::super::peak::{peak_chain, written};
use super::{address_of, check_convention, decoded, memory_operands, text, turns};
use crate::peak::{Body, Kernel, Op, Peak, Type, Width};
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, Register};
use std::collections::HashMap;

fn mnemonic(kernel: Kernel) -> Option<&'static str> {
    let name = match (kernel.width, kernel.op, kernel.element) {
        (Width::Neon, ..) => return None,
        // Each chain has its own.
        (Width::Scalar, Op::Mix, Type::F64 | Type::I64) => "",
        (Width::Scalar, Op::Add, Type::I32 | Type::I64) => "add",
        (Width::Scalar, Op::Mul, Type::I32 | Type::I64) => "imul",
        (Width::Scalar, Op::Add, Type::F32) => "addss",
        (Width::Scalar, Op::Add, Type::F64) => "addsd",
        (Width::Scalar, Op::Mul, Type::F32) => "mulss",
        (Width::Scalar, Op::Mul, Type::F64) => "mulsd",
        (Width::Scalar, Op::Fma, Type::F32) => "vfmadd231ss",
        (Width::Scalar, Op::Fma, Type::F64) => "vfmadd231sd",
        (Width::Sse2, Op::Add, Type::F32) => "addps",
        (Width::Sse2, Op::Add, Type::F64) => "addpd",
        (Width::Sse2, Op::Mul, Type::F32) => "mulps",
        (Width::Sse2, Op::Mul, Type::F64) => "mulpd",
        (Width::Sse2, Op::Add, Type::I32) => "paddd",
        (Width::Sse2, Op::Add, Type::I64) => "paddq",
        (Width::Sse2, Op::Mul, Type::I32) => "pmulld",
        (Width::Avx2 | Width::Avx512, Op::Add, Type::F32) => "vaddps",
        (Width::Avx2 | Width::Avx512, Op::Add, Type::F64) => "vaddpd",
        (Width::Avx2 | Width::Avx512, Op::Mul, Type::F32) => "vmulps",
        (Width::Avx2 | Width::Avx512, Op::Mul, Type::F64) => "vmulpd",
        (Width::Avx2 | Width::Avx512, Op::Fma, Type::F32) => "vfmadd231ps",
        (Width::Avx2 | Width::Avx512, Op::Fma, Type::F64) => "vfmadd231pd",
        (Width::Avx2 | Width::Avx512, Op::Add, Type::I32) => "vpaddd",
        (Width::Avx2 | Width::Avx512, Op::Add, Type::I64) => "vpaddq",
        (Width::Avx2 | Width::Avx512, Op::Mul, Type::I32) => "vpmulld",
        (Width::Avx512, Op::Mul, Type::I64) => "vpmullq",
        _ => return None,
    };
    Some(name)
}

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
        let code = written(kernel);
        assert_eq!(code.is_some(), mnemonic(kernel).is_some(), "{kernel:?}");
        let Some(body) = code else { continue };
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
        let wanted = mnemonic(kernel.in_chain(at % chains)).expect("it is written");
        assert_eq!(format!("{:?}", step.mnemonic()).to_lowercase(), wanted);
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

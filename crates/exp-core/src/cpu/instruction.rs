//! What do single instructions cost?
//!
//! ## Question
//!
//! How long does an instruction take from its operands to its result (latency), and how soon can
//! the next one that does not need that result follow (reciprocal throughput)?
//!
//! ## Method
//!
//! A body is written once, as text: the assembler builds the loop from it and the record stores it
//! (`body` with each figure; `\r` stands for each of the named registers). Latency is a chain in
//! which each operation needs the result of the previous one, 32 per iteration; throughput has 8
//! (integers) or 12 (vectors) parallel chains, about 100 operations per iteration, so that the
//! loop's branch costs under 1 %. n operations against 2n in ABBA quartets. Tests decode the
//! machine code of each body and compare it with the text, and check that operations are dependent
//! or independent as required.
//!
//! `branch_mispredicted` runs the same 64 branches a word over a table of random bits and over one
//! that alternates; half of the random ones are mispredicted, and both kinds take half of their
//! branches. The figure is the difference per misprediction, in quartets of alternating, random,
//! random, alternating, each after a short run over the same kind of table, so that the predictor
//! has settled. Each round draws a new random table of 2 million bits, which no predictor learns.
//!
//! Divisions have operands whose quotient and remainder are the operands of the next division, of
//! full width. Floating values have full mantissas, stay normal, and hardly change.
//!
//! A name gives operation and type (`add_f32x8` adds vectors of 8 floats) and is the same on all
//! architectures; instructions that an architecture or a processor lacks are skipped with the
//! reason.
//!
//! ## Prediction
//!
//! Published cycles of the core's design (tables with their sources in
//! `crates/laws/src/cpu/instruction`) at the stated core clock, or at the one that clock.rate
//! measured. If clock.loop's empty loop took longer than the design's, others used the core, and the
//! interval of throughputs opens by that. Designs without a table get the interval over all tables.
//! Bound: a dependent instruction takes at least a cycle; moves and values that pass through memory may be renamed
//! away and have no bound.
//!
//! ## Reading the result
//!
//! The cycles correspond to the figures of instruction tables. A latency below one cycle is a
//! renamed operation. Fences, pauses and branches have no result and so no latency; a misprediction
//! has no throughput. `mul_wide_u64` is the latency through the low half of the product, `load_i64`
//! that of an address that was just loaded, `fma` on x86-64 that through a factor, for aarch64
//! vectors through the sum. `gather_i32x8` and `div` bodies include moves that set up their
//! operands.
//!
//! ## Pitfalls
//!
//! Newer cores remove moves, and additions of small constants, at rename: operands are registers
//! with odd values. Loads are from eight words of two lines, because loads of one word share a
//! bank. False dependences on the destination (bit counts of Intel before 2017) are avoided because
//! source and destination are the same register. 512-bit floating code lowers the clock while it
//! runs and for some microseconds after, which the core clock taken around the case misses (6 % on
//! one Granite Rapids): these cases have ns and no `cycles`. A dense row of branches may exceed the
//! predictor's capacity per line: taken branches are 32 bytes apart. Locked operations run on a
//! line that no other CPU touches.
//!
//! ## Sources
//!
//! Each figure in `crates/laws/src/cpu/instruction/` names its own: [instlatx64], and for what its
//! dumps lack [uops], [uarch-bench], [llvm], [gcc], [amd-guides] and plumb's own runs [plumb] (x86);
//! [llvm], which transcribes [arm-guides], [applecpu], [insn-bench] and [cpufp] (Arm). What none of
//! them says is predicted as the range of the designs that are known.

mod mispredict;

use bench::experiment::windows_round_cost;
use bench::prelude::*;
use host::Arch;
use laws::Law;
use laws::cpu::instruction::{Measure, Operation, instruction, instruction_bound};
use laws::cpu::knows_clock;
use metal::instruction::{self as body, Instruction};
use std::hint::black_box;

bench::experiment!(Instructions);

const LATENCY: &str = "latency";
const THROUGHPUT: &str = "reciprocal_throughput";

case! {
    /// An operation.
    pub struct Instructed {
        /// the operation; by default in thorough all that this architecture has
        instruction: Operation,
    }
}

static CARD: Card = Card {
    id: "cpu.instruction",
    title: "Instructions",
    metrics: metrics! {
        LATENCY => Ns Lower Hardware:
            "one operation that needs the result of the previous one; branch_mispredicted: one \
             misprediction";
        THROUGHPUT => Ns Lower Hardware: "one operation in a sequence of independent ones";
    },
    params: Instructed::PARAMS,
    after: &["clock.rate"],
    keys: &[KeyFigure::new(
        "branch mispredicted",
        "",
        "latency",
        "instruction=branch_mispredicted",
    )],
    ..Card::PLAIN
};

impl Experiment for Instructions {
    type Case = Instructed;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("instruction.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let cases = series.cases.iter().filter_map(|case| Instructed::from_id(&case.id));
        windows_round_cost(site, cases.map(|case| case.instruction.row().defined.len()).sum())
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Instructed> {
        let all = Operation::ALL.iter().copied();
        let wanted = all.filter(|operation| operation.is_in(preset, site.host.cpu.arch));
        wanted.map(|instruction| Instructed { instruction }).collect()
    }

    fn absent(site: &Site, case: &Instructed, _: &Params) -> Option<Skip> {
        let cpu = &site.host.cpu;
        let Some(feature) = case.instruction.feature(cpu.arch) else {
            let arch = match cpu.arch {
                Arch::X86_64 => "x86-64",
                Arch::Aarch64 => "aarch64",
            };
            let name = case.instruction.text();
            return Some(Skip::because(format!(
                "{arch} has no instruction for `{name}`, or plumb has no body for it"
            )));
        };
        (!feature.is_empty() && !cpu.has(feature)).then(|| {
            Skip::because(format!("the processor lacks `{feature}`"))
                .needs("a newer processor, or a hypervisor that shows the feature")
        })
    }

    fn law(facts: Facts, case: &Instructed, _: &Case, metric: &Metric) -> Option<Prediction> {
        let operation = case.instruction;
        let (measure, undefined) = match metric.name == LATENCY {
            true => (
                Measure::Latency,
                "no latency: it has no result that another instruction could wait for",
            ),
            false => (Measure::Throughput, "no throughput: mispredictions do not overlap"),
        };
        if !operation.row().defined.contains(&measure) {
            return facts.known.is_none().then(|| unknown(undefined));
        }
        knows_clock(facts).then(|| Prediction {
            bound: instruction_bound(operation, measure),
            ..instruction(facts, operation, measure).map_or_else(unknown, Law::prediction)
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut bodies = body::Bench::new();
        let mut patterns = None;
        bench.each_of::<Instructed>(series, |bench, case, instructed| {
            let name = instructed.instruction.text();
            if instructed.instruction == Operation::BranchMispredicted {
                let seed = bench.order().seed;
                let patterns = patterns.get_or_insert_with(|| mispredict::Patterns::new(seed));
                return patterns
                    .measure(case, LATENCY, bench)
                    .with_context(|| format!("measuring {name}"));
            }
            let instruction =
                body::find(name).with_context(|| format!("{name} is not of this architecture"))?;
            ensure!(
                instruction.is_present(),
                "the processor or the system lacks `{}` for {name}, though /proc/cpuinfo has it",
                instruction.feature
            );
            let is_wide = instructed.instruction.is_wide();
            time(case, instruction, is_wide, &mut bodies, bench)
        });
        Ok(())
    }
}

fn time(
    case: &Case,
    instruction: &Instruction,
    is_wide: bool,
    bodies: &mut body::Bench,
    bench: &mut Bench,
) -> Result<()> {
    let measures = [(LATENCY, &instruction.latency), (THROUGHPUT, &instruction.throughput)];
    for (metric, body) in measures {
        let Some(body) = body else { continue };
        let samples = bench.time(case, metric, |n| {
            black_box(bodies.run(instruction, body, n));
        })?;
        samples.at.put("body", body.shown());
        if is_wide && samples.core_hz.is_some() {
            samples.forget_clock();
            samples.notes.push(
                "no cycles: a core may lower its clock for 64-byte arithmetic and raise it again \
                 before plumb can read it; cpu.peak measures it at that width"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

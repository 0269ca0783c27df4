//! What do single instructions cost?
//!
//! ## Question
//!
//! How long does an instruction take from its operands to its result (latency), and how soon can
//! the next one that does not need that result follow (reciprocal throughput)?
//!
//! ## Method
//!
//! A body is written once, as text: the assembler makes the loop from it and the record stores it
//! (`body` beside each figure, `\r` standing for each of the registers that are named). Latency is
//! a chain in which each operation needs the result of the one before, 32 a turn; throughput has 8
//! (integers) or 12 (vectors) chains side by side, about 100 operations a turn, so that the loop's
//! own branch costs under 1 %. n operations against 2n in ABBA quartets. Tests decode the machine
//! code of each body and hold it against the text, the dependence and the independence.
//!
//! `branch_mispredicted` runs the same 64 branches a word over a table of random bits and over one
//! that alternates; half of the random ones are guessed wrong, and both kinds take half of their
//! branches. The figure is the difference for each wrong guess, in quartets of alternating, random,
//! random, alternating, each after a short run over the same kind of table, so that the predictor
//! has settled. The random table is made anew in each round, of 2 million bits, which no predictor
//! learns.
//!
//! Divisions have operands whose quotient and remainder are the operands of the next division, of
//! full width. Floating values have full mantissas, stay normal, and hardly change.
//!
//! ## Prediction
//!
//! Published cycles of the core's design (tables with their sources in `crates/laws/src/cpu/instruction`)
//! at the stated core clock, or at the one that clock.rate measured. Designs that no table has get
//! the interval over all. Bound: a dependent instruction that the core executes takes a cycle at
//! least; moves and values that pass through memory may be renamed away and have none.
//!
//! ## Parameters
//!
//! - `instruction`: what is done, and to what: `add_f32x8` adds vectors of 8 floats. The names are
//!   the same on all architectures; what an architecture or a processor lacks is skipped with the
//!   reason. `auto` is all that this architecture has.
//!
//! ## Reading the result
//!
//! The cycles beside the ns are the figures of instruction tables. A latency below one cycle is a
//! renamed operation. Fences, pauses and branches have no result and so no latency; a wrong guess
//! has no throughput. `mul_wide_u64` is the way through the low half of the product,
//! `load_i64` an address that was just loaded, `fma` on x86-64 the way through a factor, on aarch64
//! vectors through the sum. `gather_i32x8` and `div` bodies hold moves that set up their operands.
//!
//! ## Pitfalls
//!
//! Newer cores remove moves, and additions of small constants, at rename: operands are registers
//! with odd values. Loads are from eight words of two lines, because loads of one word share a bank.
//! False dependences on the destination (bit counts of Intel before 2017) are
//! avoided because source and destination are the same register. 512-bit floating code lowers the
//! clock while it runs and for some microseconds after, which the core clock taken around
//! the case misses (6 % on one Granite Rapids): these cases have ns and no `cycles`. A dense row of branches may exceed what the predictor
//! keeps per line: branches stand 32 bytes apart where taken. Locked operations run on a line that
//! no other CPU touches.
//!
//! ## Sources
//!
//! A. Fog, "Instruction tables" (agner.org); A. Abel and J. Reineke, "uops.info: Characterizing
//! Latency, Throughput, and Port Usage of Instructions", ASPLOS 2019; InstLatx64; Arm's software
//! optimisation guides. Which figure is from where stands in the tables.

mod mispredict;
mod operations;

use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, bounded, unknown,
    windows_round_cost,
};
use bench::measure::Bench;
use host::Arch;
use laws::Law;
use laws::cpu::instruction::{Measure, chain_bound, instruction, is_wide};
use laws::cpu::{measured_core_hz, taken_branches_bound};
use metal::instruction::{self as body, Instruction};
use operations::{Defined, NAMES, OPERATIONS, Operation};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Kind, Metric};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Instructions = Instructions;

/// `cpu.instruction`.
pub struct Instructions;

const LATENCY: &str = "latency";
const THROUGHPUT: &str = "reciprocal_throughput";
const MISPREDICTED: &str = "branch_mispredicted";

static CARD: Card = Card {
    id: "cpu.instruction",
    title: "Instructions",
    metrics: &[
        Metric::time(
            LATENCY,
            "one operation that needs the result of the one before; branch_mispredicted: one wrong guess",
            Kind::Hardware,
        ),
        Metric::time(
            THROUGHPUT,
            "one operation among others that do not need its result",
            Kind::Hardware,
        ),
    ],
    params: &[Param {
        name: "instruction",
        doc: "the operation; auto: all that this architecture has",
        domain: Domain::Symbols(&NAMES),
        defaults: [
            "add_i64,mul_i64,div_u64,fma_f64x2,load_i64,compare_exchange_i64,fence_full,branch_mispredicted",
            "move_i64,add_i64,add_shifted_i64,mul_i64,mul_wide_u64,div_u32,div_u64,shift_fixed_i64,shift_counted_i64,rotate_i64,popcount_i64,leading_zeros_i64,trailing_zeros_i64,byte_swap_i64,crc32_i64,select_i64,add_f64x2,add_f64x4,mul_f64x4,fma_f32x4,fma_f64x4,fma_f64x8,div_f64,sqrt_f64,add_i32x8,mul_i32x8,permute_i32x8,gather_i32x8,aes_round,to_vector_and_back,load_i64,store_i64,store_and_load_i64,exchange_i64,fetch_add_i64,compare_exchange_i64,fence_full,fence_load,fence_store,spin_hint,branch_taken,branch_not_taken,branch_mispredicted,call_and_return",
            "auto",
        ],
        role: Role::Case,
    }],
    after: &["clock.rate"],
    ..Card::PLAIN
};

impl Experiment for Instructions {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("instruction.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let arch = site.host.cpu.arch;
        let names = match params.chosen("instruction") {
            Some(_) => params.texts("instruction"),
            None => OPERATIONS
                .iter()
                .filter(|operation| operation.feature(arch).is_some())
                .map(|operation| operation.name)
                .collect(),
        };
        let (mut cases, mut skipped) = (Vec::new(), Vec::new());
        for name in names {
            let id = CaseId::new().with("instruction", name);
            match absent(site, name) {
                Some(skip) => skipped.push((id, skip)),
                None => cases.push(Case::new(id)),
            }
        }
        if cases.is_empty() {
            return Err(Skip::because("this processor has none of the instructions asked for"));
        }
        let series = Series {
            experiment: CARD.id.to_owned(),
            name: String::new(),
            order: Order::Shuffled,
            cases,
            settings: BTreeMap::new(),
        };
        Ok(Offer { series: vec![series], skipped })
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let windows =
            series.cases.iter().filter_map(operation).map(|operation| match operation.defined {
                Defined::Both => 2,
                Defined::Latency | Defined::Throughput => 1,
            });
        windows_round_cost(site, windows.sum())
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        let operation = operation(case)?;
        let measure = match (metric.name.as_ref(), operation.defined) {
            (LATENCY, Defined::Throughput) => {
                return known.is_none().then(|| {
                    unknown("no latency is defined: it has no result that another could wait for")
                });
            }
            (LATENCY, _) => Measure::Latency,
            (_, Defined::Latency) => {
                return known.is_none().then(|| {
                    unknown("no throughput is defined: the time lost to one wrong guess ends before the next")
                });
            }
            _ => Measure::Throughput,
        };
        // Without the measured clock, earlier figures say nothing about instructions.
        if let Some(known) = known {
            measured_core_hz(known)?;
        }
        let prediction = instruction(laws::Facts { site, known }, operation.name, measure)
            .map_or_else(unknown, Law::prediction);
        Some(match (operation.name, measure) {
            ("branch_taken", _) => bounded(prediction, taken_branches_bound(1.0, "a taken branch")),
            ("call_and_return", _) => {
                bounded(prediction, taken_branches_bound(2.0, "a call and its return"))
            }
            (name, Measure::Latency) if !renamed_away(name) => {
                bounded(prediction, chain_bound(1.0))
            }
            _ => prediction,
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let mut bodies = body::Bench::new();
        let mut patterns = None;
        bench.each(series, |bench, case| {
            let name = case.text("instruction").unwrap_or_default();
            if name == MISPREDICTED {
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
            time(case, instruction, &mut bodies, bench)
        });
        Ok(())
    }
}

/// Times the bodies of an instruction, one metric each.
fn time(
    case: &Case,
    instruction: &Instruction,
    bodies: &mut body::Bench,
    bench: &mut Bench,
) -> Result<()> {
    let measures = [(LATENCY, &instruction.latency), (THROUGHPUT, &instruction.throughput)];
    for (metric, body) in measures {
        let Some(body) = body else { continue };
        let samples = bench.time(case, metric, |n| {
            black_box(bodies.run(instruction, body, n));
        })?;
        samples.at.insert("body".to_owned(), Value::Text(body.shown()));
        if is_wide(instruction.name) && samples.core_hz.take().is_some() {
            samples.quantities.remove("core_hz");
            samples.notes.push(
                "no cycles: a core may lower its clock for 64-byte arithmetic and raise it again \
                 before it can be read; cpu.peak reads it at that width"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn operation(case: &Case) -> Option<&'static Operation> {
    operations::find(case.text("instruction")?)
}

/// Why an operation is not measured here.
fn absent(site: &Site, name: &str) -> Option<Skip> {
    let cpu = &site.host.cpu;
    let arch = match cpu.arch {
        Arch::X86_64 => "x86-64",
        Arch::Aarch64 => "aarch64",
    };
    match operations::find(name)?.feature(cpu.arch) {
        None => Some(Skip::because(format!(
            "{arch} has no instruction for `{name}`, or plumb has no body for it"
        ))),
        Some("") => None,
        Some(feature) => (!cpu.has(feature)).then(|| {
            Skip::because(format!("the processor lacks `{feature}`"))
                .needs("a newer processor, or a hypervisor that shows the feature")
        }),
    }
}

/// Whether a core may do the operation at rename, in no cycle at all.
fn renamed_away(name: &str) -> bool {
    matches!(name, "move_i64" | "store_and_load_i64" | "push_and_pop_i64")
}

#[cfg(test)]
mod tests;

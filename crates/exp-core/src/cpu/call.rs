//! What does a procedure call cost?
//!
//! ## Question
//!
//! What does calling a procedure cost, how does that grow with the number and type of its
//! arguments, and what do other ways to call add: through a register, through the linkage table of
//! a shared library, with a structure by value?
//!
//! ## Method
//!
//! Caller and callee are written in assembly as a C compiler emits them: integers as immediates,
//! floating constants from memory, the seventh integer and the ninth floating argument onwards on
//! the stack (aarch64: the ninth of either). The callee adds its arguments and returns the sum,
//! which proves that each arrived; eight calls stand in a turn. n calls against 2n in ABBA
//! quartets, so that the loop and its set-up fall out. Each round is a new process, so placement
//! of code and stack varies between rounds.
//!
//! `slope` and `linearity` come from a least-squares line over the direct calls with 1 to 7
//! arguments.
//!
//! ## Prediction
//!
//! The slowest of: a call and return that do nothing (by core design), the instructions over the
//! core's width, its stores and loads over its ports, and with `frame=spilled` the way of the
//! frame pointer through memory. At the stated core clock, or at the one that clock.rate measured.
//! Bound: call and return are two taken branches, of which no core does more than four a cycle.
//!
//! ## Parameters
//!
//! - `call`: `direct`; `indirect` (address in a register), `plt` (a stub that jumps through
//!   memory), both to be compared with direct, i64, registers, 1; `struct` (24 bytes by value).
//! - `type`: `i32`, `i64`, `f32`, `f64`: of all arguments and the result.
//! - `frame`: `registers`, as optimised code; `spilled`: the callee sets up a frame, stores its
//!   arguments and reads them back, as code without optimisation (R0, R1).
//! - `arguments`: 0 to 12. The reports have 0 to 7.
//!
//! ## Reading the result
//!
//! With `frame=registers` the first few arguments are often free: a core of width 6 places them
//! beside the call itself, and the slope is near zero or undecided (a `linearity` far below 1).
//! With `frame=spilled` stores and loads add up to a line. `plt` less `direct` is what a shared
//! library costs a call.
//!
//! ## Pitfalls
//!
//! A call to a procedure that does nothing overlaps with its neighbours: this is throughput, as in
//! the reports. Floating results are summed as bit patterns, because a floating addition would
//! take longer than the call. Steps in the curve at the seventh or ninth argument are the stack.
//!
//! ## Sources
//!
//! R0 (with float and double), R1, R2 "procedure call overhead"; System V ABI, AMD64 supplement;
//! Procedure Call Standard for the Arm 64-bit Architecture. Widths and ports of core designs are
//! written from memory of usual values (A. Fog, uops.info, Arm's guides), not looked up row by row.

use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, DerivedValue, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip,
    ViewCard, bounded, unknown,
};
use bench::measure::Bench;
use host::Arch;
use laws::Law;
use laws::cpu::{self, CallWork, call_line, line, taken_branches_bound};
use metal::kernel::{ArgumentType, CallKind, Frame, call, call_sum};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Call = Call;

/// `cpu.call`.
pub struct Call;

/// The line is over these numbers of arguments: those of the reports but 0, which costs more than 1
/// on some cores (two branches close together), so that with it the slope would depend on how many
/// of the others a preset has.
const LINE_ARGUMENTS: std::ops::RangeInclusive<u64> = 1..=7;

static CARD: Card = Card {
    id: "cpu.call",
    title: "Procedure call by arguments",
    metrics: &[
        Metric::time("call", "one call and its return, arguments set up and used", Kind::Hardware),
        Metric::derived(
            "slope",
            "time that each argument of a direct call adds, from 0 to 7",
            Unit::Ns,
            Better::Lower,
            Kind::Hardware,
        ),
        Metric::derived(
            "linearity",
            "share of the variance that the straight line explains (R²)",
            Unit::Ratio,
            Better::None,
            Kind::Hardware,
        ),
    ],
    params: &[
        Param {
            name: "call",
            doc: "how the procedure is reached; others than direct have one i64 argument, struct three words by value",
            domain: Domain::Symbols(&["direct", "indirect", "plt", "struct"]),
            defaults: [
                "direct,indirect",
                "direct,indirect,plt,struct",
                "direct,indirect,plt,struct",
            ],
            role: Role::Case,
        },
        Param {
            name: "type",
            doc: "type of all arguments of a direct call, and of its result",
            domain: Domain::Symbols(&["i32", "i64", "f32", "f64"]),
            defaults: ["i64", "i32,i64,f32,f64", "i32,i64,f32,f64"],
            role: Role::Case,
        },
        Param {
            name: "frame",
            doc: "what the callee of a direct call does with its arguments",
            domain: Domain::Symbols(&["registers", "spilled"]),
            defaults: ["registers,spilled"; 3],
            role: Role::Case,
        },
        Param {
            name: "arguments",
            doc: "number of arguments of a direct call",
            domain: Domain::Integer { low: 0, high: 12, unit: Unit::Count },
            defaults: ["0,1,4,7", "0,1,2,3,4,5,6,7,8,9,10,11,12", "0,1,2,3,4,5,6,7,8,9,10,11,12"],
            role: Role::Case,
        },
    ],
    after: &["clock.rate"],
    views: &[ViewCard::line("arguments", "call").each(&["frame"])],
    ..Card::PLAIN
};

impl Experiment for Call {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("call.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut cases = Vec::new();
        let arguments = params.ints("arguments");
        for way in params.texts("call") {
            if way != "direct" {
                cases.push(Case::new(case_id(way, "i64", "registers", 1)));
                continue;
            }
            for argument in params.texts("type") {
                for frame in params.texts("frame") {
                    let of = |count: &u64| Case::new(case_id(way, argument, frame, *count));
                    cases.extend(arguments.iter().map(of));
                }
            }
        }
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Shuffled,
                cases,
                settings: BTreeMap::new(),
            }],
            skipped: Vec::new(),
        })
    }

    fn derivable(&self, _site: &Site, series: &[Series]) -> Vec<CaseId> {
        let mut lines: Vec<(CaseId, usize)> = Vec::new();
        for case in series.iter().flat_map(|series| &series.cases) {
            let (Some("direct"), Some(argument), Some(frame), Some(count)) =
                (case.text("call"), case.text("type"), case.text("frame"), case.int("arguments"))
            else {
                continue;
            };
            let line = line_id(argument, frame);
            let on_line = usize::from(LINE_ARGUMENTS.contains(&count));
            match lines.iter_mut().find(|(have, _)| *have == line) {
                Some((_, points)) => *points += on_line,
                None => lines.push((line, on_line)),
            }
        }
        let shown = lines.into_iter().filter(|(_, points)| *points >= 3);
        shown.map(|(line, _)| line).collect()
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        bench::experiment::shared_round_cost(site, series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        // Without the measured clock, earlier figures say nothing about calls.
        if let Some(known) = known {
            cpu::measured_core_hz(known)?;
        }
        let arch = site.host.cpu.arch;
        if metric.derived {
            let works: Option<Vec<CallWork>> = LINE_ARGUMENTS
                .map(|count| {
                    let (argument, frame) = (case.text("type")?, case.text("frame")?);
                    Some(work(kind(&case_id("direct", argument, frame, count))?, arch))
                })
                .collect();
            let Some(works) = works else {
                return Some(unknown("unknown: no such calls"));
            };
            let (slope, linearity) = call_line(site, known, &works);
            return match metric.name.as_ref() {
                "slope" => Some(slope.prediction()),
                // The clock does not bend a line.
                _ => known.is_none().then(|| linearity.map_or_else(unknown, Law::prediction)),
            };
        }
        let Some(kind) = kind(&case.id) else {
            return Some(unknown("unknown: no such call"));
        };
        let prediction = cpu::call(site, known, work(kind, arch)).prediction();
        Some(bounded(prediction, taken_branches_bound(2.0, "a call and its return")))
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each(series, |bench, case| {
            let kind = kind(&case.id).with_context(|| format!("there is no call {}", case.id))?;
            bench.try_time(case, "call", |n| {
                let sum = call(kind, n).context("so many arguments cannot be passed")?;
                ensure!(
                    sum == call_sum(kind, n),
                    "the procedures returned {sum} in all, not what {n} calls return"
                );
                Ok(())
            })?;
            Ok(())
        });
        Ok(())
    }

    fn derive(&self, _site: &Site, _known: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut lines: BTreeMap<CaseId, Vec<(f64, f64)>> = BTreeMap::new();
        for (case, ns) in values.of(CARD.id, "call") {
            let direct = case.text("call") == Some("direct");
            let (Some(argument), Some(frame), Some(count)) =
                (case.text("type"), case.text("frame"), case.int("arguments"))
            else {
                continue;
            };
            if direct && LINE_ARGUMENTS.contains(&count) {
                let points = lines.entry(line_id(argument, frame)).or_default();
                points.push((count as f64, ns));
            }
        }
        let fits = lines.into_iter().filter_map(|(id, points)| {
            let fit = line(&points)?;
            Some([
                DerivedValue::new(id.clone(), "slope", fit.slope),
                DerivedValue::new(id, "linearity", fit.linearity),
            ])
        });
        fits.flatten().collect()
    }
}

fn case_id(way: &str, argument: &str, frame: &str, arguments: u64) -> CaseId {
    CaseId::new()
        .with("call", way)
        .with("type", argument)
        .with("frame", frame)
        .with("arguments", arguments)
}

fn line_id(argument: &str, frame: &str) -> CaseId {
    CaseId::new().with("type", argument).with("frame", frame)
}

/// The call that a case names.
fn kind(id: &CaseId) -> Option<CallKind> {
    let argument = match id.text("type")? {
        "i32" => ArgumentType::I32,
        "i64" => ArgumentType::I64,
        "f32" => ArgumentType::F32,
        "f64" => ArgumentType::F64,
        _ => return None,
    };
    let frame = match id.text("frame")? {
        "registers" => Frame::Registers,
        "spilled" => Frame::Spilled,
        _ => return None,
    };
    match id.text("call")? {
        "direct" => Some(CallKind::Direct {
            arguments: usize::try_from(id.int("arguments")?).ok()?,
            argument,
            frame,
        }),
        "indirect" => Some(CallKind::Indirect),
        "plt" => Some(CallKind::Plt),
        "struct" => Some(CallKind::Struct),
        _ => None,
    }
}

/// What a call executes, counted from the kernels' assembly.
fn work(kind: CallKind, arch: Arch) -> CallWork {
    let one = CallWork { instructions: 3.0, stores: 1.0, loads: 1.0, ..CallWork::default() };
    match kind {
        CallKind::Direct { arguments, argument, frame } => {
            direct_work(arguments, argument, frame, arch)
        }
        CallKind::Indirect => one,
        CallKind::Plt => CallWork { loads: 2.0, jumps: 1.0, ..one },
        CallKind::Struct => CallWork { instructions: 9.0, stores: 4.0, loads: 7.0, ..one },
    }
}

fn direct_work(arguments: usize, argument: ArgumentType, frame: Frame, arch: Arch) -> CallWork {
    let integer = matches!(argument, ArgumentType::I32 | ArgumentType::I64);
    let in_registers = match (integer, arch) {
        (true, Arch::X86_64) => 6,
        _ => 8,
    };
    let in_registers = arguments.min(in_registers) as f64;
    let all = arguments as f64;
    let on_stack = all - in_registers;
    let stack_pointer = if on_stack > 0.0 { 2.0 } else { 0.0 };
    let mut work = CallWork {
        // Set up, put on the stack, summed by the callee, summed by the caller.
        instructions: all + on_stack + all.max(1.0) + 1.0 + stack_pointer,
        stores: 1.0 + on_stack,
        loads: 1.0 + on_stack,
        ..CallWork::default()
    };
    if integer {
        // An immediate is pushed by one instruction.
        work.instructions -= on_stack;
    } else {
        work.loads += all;
    }
    if frame == Frame::Spilled {
        work.instructions += 3.0 + in_registers;
        work.stores += 1.0 + in_registers;
        work.loads += 1.0 + in_registers;
        work.frame = true;
    }
    work
}

#[cfg(test)]
mod tests;

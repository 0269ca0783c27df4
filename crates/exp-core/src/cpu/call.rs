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
//! Caller and callee are in assembly, as a C compiler would emit them: integers as immediates,
//! floating constants from memory, from the seventh integer and the ninth floating argument on the
//! stack (aarch64: from the ninth of either). The callee adds its arguments and returns the sum,
//! which proves that each arrived; an iteration has eight calls. n calls against 2n in ABBA
//! quartets, so that the loop and its set-up cancel. Each round is a new process, so placement of
//! code and stack varies between rounds.
//!
//! `slope` and `linearity` come from a least-squares line over the direct calls with 1 to 7
//! arguments.
//!
//! ## Prediction
//!
//! The slowest of: a call and return that do nothing (by core design), the instructions over the
//! core's width, its stores and loads over its ports, and with `frame=spilled` the latency of the
//! frame pointer through memory. At the stated core clock, or at the one that clock.rate measured.
//! A second store a cycle goes into the same line only, so stores leave at one a cycle to the
//! core's rate. If clock.loop's empty loop took longer than the design's, others used the core, and
//! the interval opens by that; before any figure it opens by `--set host.cpu.tenants=2`. Bound:
//! call and return are two taken branches; no core executes more than four of these a cycle.
//!
//! ## Reading the result
//!
//! With `frame=registers` the first few arguments are often free: a core of width 6 executes them
//! in parallel with the call, and the slope is near zero or has no meaning (a `linearity` far below
//! 1). With `frame=spilled` stores and loads add up to a line. `plt` less `direct` is the cost of
//! calling into a shared library.
//!
//! ## Pitfalls
//!
//! A call to a procedure that does nothing overlaps with its neighbours: this is throughput, as in
//! the reports. Floating results are summed as bit patterns, because a floating addition would
//! take longer than the call. Steps in the curve at the seventh or ninth argument are the stack.
//!
//! ## Sources
//!
//! [R0] (with float and double), [R1], [R2]: "procedure call overhead"; [sysv-abi]; [aapcs64].
//! Widths and ports of core designs: the tables of cpu.instruction. A call and its return:
//! [uarch-bench]; [fog] for what takes part.

use bench::prelude::*;
use host::Arch;
use laws::Law;
use laws::cpu::{self, CallWork, call_line, line, taken_branches_bound};
use metal::kernel::{self, ArgumentType, CallKind, call, call_sum};

bench::experiment!(Call);

/// The line is over these numbers of arguments: those of the reports but 0, which costs more than 1
/// on some cores (two branches close together), so that with it the slope would depend on how many
/// of the others a preset has.
const LINE_ARGUMENTS: std::ops::RangeInclusive<u64> = 1..=7;

symbols! {
    /// How the procedure is reached.
    pub enum Way { Direct = "direct", Indirect = "indirect", Plt = "plt", Struct = "struct" }
}
rows! {
    /// Type of all arguments.
    pub enum Argument: ArgumentType {
        I32 = "i32" => ArgumentType::I32,
        I64 = "i64" => ArgumentType::I64,
        F32 = "f32" => ArgumentType::F32,
        F64 = "f64" => ArgumentType::F64,
    }
}
rows! {
    /// What the callee does with its arguments.
    pub enum Frame: kernel::Frame {
        Registers = "registers" => kernel::Frame::Registers,
        Spilled = "spilled" => kernel::Frame::Spilled,
    }
}
case! {
    /// A call.
    pub struct Called {
        /// how the procedure is reached; others than direct have one i64 argument, struct three
        /// words by value
        way as "call": Way,
        /// type of all arguments of a direct call, and of its result
        argument as "type": Argument,
        /// what the callee of a direct call does with its arguments
        frame: Frame,
        /// number of arguments of a direct call
        arguments: u64 = Domain::count(0, 12),
    }
}
case! {
    /// The line through direct calls of a type and frame.
    struct Line {
        /// type of all arguments
        argument as "type": Argument,
        /// what the callee does with them
        frame: Frame,
    }
}

static CARD: Card = Card {
    id: "cpu.call",
    title: "Procedure call by arguments",
    metrics: metrics! {
        "call" => Ns Lower Hardware: "one call and its return, with arguments passed and used";
        "slope" => derived Ns Lower Hardware:
            "time that each argument of a direct call adds, from 0 to 7";
        "linearity" => derived Ratio None Hardware:
            "share of the variance that the straight line explains (R²)";
    },
    params: Called::PARAMS,
    after: &["clock.rate"],
    views: &[ViewCard::line("arguments", "call").each(&["frame"])],
    keys: &[KeyFigure::new(
        "procedure call",
        "",
        "call",
        "call=direct,type=i64,frame=registers,arguments=1",
    )],
    ..Card::PLAIN
};

impl Experiment for Call {
    type Case = Called;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("call.rs");
    const SHARES: &'static [&'static str] = &["linearity"];

    fn cases(_: &Site, preset: Preset) -> Vec<Called> {
        let (ways, types, counts): (&[Way], &[Argument], Vec<u64>) = match preset {
            Preset::Rehearsal | Preset::Quick => {
                (&[Way::Indirect], &[Argument::I64], vec![0, 1, 4, 7])
            }
            _ => (&Way::ALL[1..], Argument::ALL, (0..=12).collect()),
        };
        let mut cases = Vec::new();
        for &argument in types {
            for &frame in Frame::ALL {
                let of = |&arguments| Called { way: Way::Direct, argument, frame, arguments };
                cases.extend(counts.iter().map(of));
            }
        }
        cases.extend(ways.iter().map(|way| Called { way: *way, ..ONE_ARGUMENT }));
        cases
    }

    fn complete(case: Called) -> Option<Called> {
        Some(match case.way {
            Way::Direct => case,
            way => Called { way, ..ONE_ARGUMENT },
        })
    }

    fn law(facts: Facts, case: &Called, _: &Case, _: &Metric) -> Option<Prediction> {
        cpu::knows_clock(facts).then(|| {
            let law = cpu::call(facts, work(kind(case), facts.site.host.cpu.arch));
            law.bounded(taken_branches_bound(2.0, "a call and its return")).prediction()
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Called>(series, |bench, case, called| {
            let kind = kind(&called);
            bench.time(case, "call", |n| {
                let sum = call(kind, n).context("this number of arguments cannot be passed")?;
                ensure!(
                    sum == call_sum(kind, n),
                    "the procedures returned a sum of {sum}, which is wrong for {n} calls"
                );
                Ok(())
            })?;
            Ok(())
        });
        Ok(())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let mut lines: Vec<(CaseId, usize)> = Vec::new();
        for (line, _) in
            series.iter().flat_map(|series| &series.cases).filter_map(|case| on_line(&case.id))
        {
            match lines.iter_mut().find(|(have, _)| *have == line) {
                Some((_, points)) => *points += 1,
                None => lines.push((line, 1)),
            }
        }
        let shown = lines.into_iter().filter(|(_, points)| *points >= 3);
        shown.map(|(line, _)| line).collect()
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        let Line { argument, frame } = Line::from_id(id)?;
        if !cpu::knows_clock(facts) {
            return None;
        }
        let work = |count| {
            let arch = facts.site.host.cpu.arch;
            direct_work(count as usize, *argument.row(), *frame.row(), arch)
        };
        let works: Vec<CallWork> = LINE_ARGUMENTS.map(work).collect();
        let (slope, linearity) = call_line(facts, &works);
        match metric.name.as_ref() {
            "slope" => Some(slope.prediction()),
            // The clock does not bend a line.
            _ => facts.known.is_none().then(|| linearity.map_or_else(unknown, Law::prediction)),
        }
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let mut lines: BTreeMap<CaseId, Vec<(f64, f64)>> = BTreeMap::new();
        for (case, ns) in values.figures(CARD.id, "call") {
            if let Some((line, arguments)) = on_line(case) {
                lines.entry(line).or_default().push((arguments as f64, ns));
            }
        }
        let fits = lines.into_iter().filter_map(|(id, points)| {
            let fit = line(&points)?;
            Some([
                DerivedValue::new(id.clone(), "slope", fit.slope),
                DerivedValue::new(id, "linearity", fit.linearity.unwrap_or(1.0)),
            ])
        });
        fits.flatten().collect()
    }
}

/// What calls other than direct ones pass.
const ONE_ARGUMENT: Called =
    Called { way: Way::Direct, argument: Argument::I64, frame: Frame::Registers, arguments: 1 };

/// The line that a case is a point of, and its arguments.
fn on_line(id: &CaseId) -> Option<(CaseId, u64)> {
    let Called { way, argument, frame, arguments } = Called::from_id(id)?;
    let is_point = way == Way::Direct && LINE_ARGUMENTS.contains(&arguments);
    is_point.then(|| (Line { argument, frame }.id(), arguments))
}

fn kind(case: &Called) -> CallKind {
    match case.way {
        Way::Direct => CallKind::Direct {
            arguments: case.arguments as usize,
            argument: *case.argument.row(),
            frame: *case.frame.row(),
        },
        Way::Indirect => CallKind::Indirect,
        Way::Plt => CallKind::Plt,
        Way::Struct => CallKind::Struct,
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

fn direct_work(
    arguments: usize,
    argument: ArgumentType,
    frame: kernel::Frame,
    arch: Arch,
) -> CallWork {
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
        work.float_stores = on_stack;
    }
    if frame == kernel::Frame::Spilled {
        work.float_stores += if integer { 0.0 } else { in_registers };
        work.instructions += 3.0 + in_registers;
        work.stores += 1.0 + in_registers;
        work.loads += 1.0 + in_registers;
        work.frame = true;
    }
    work
}

#[cfg(test)]
mod tests;

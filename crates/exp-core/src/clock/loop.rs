//! What does a loop itself cost?
//!
//! ## Question
//!
//! The reports time an operation by repeating it and subtract the cost of the loop. What does an
//! empty iteration cost, with its counter in a register, in memory, and unrolled?
//!
//! ## Method
//!
//! Loops written in assembly, aligned to 64 bytes, that count to n: n iterations against 2n in ABBA
//! quartets. `empty` adds, compares and branches on registers; `volatile` keeps the counter in a
//! word of the stack and loads it again, as a compiler without optimisation does; `unrolled`
//! divides the control of one iteration among 16 bodies. plumb checks the loop's return value.
//!
//! ## Prediction
//!
//! `empty`: one taken branch, 1 cycle on most cores and half a cycle on those that take two
//! branches of a small loop a cycle. `volatile`: forwarding a store to the next load of the same
//! word, and an addition, 4 to 7 cycles, or about 1 on cores that rename memory. Cycles are by core
//! design; the clock is the stated one. Bound: no core takes more than four branches a cycle.
//!
//! ## Reading the result
//!
//! These are throughputs: a loop around a slower operation is hidden by it, so subtracting this
//! figure from a timed loop would subtract too much. plumb never does: it uses differences of n and
//! 2n. `volatile` in cycles shows whether the core renames memory.
//!
//! ## Pitfalls
//!
//! R0 to R2 subtracted such a figure from others. Placement changes loops of this size by up to a
//! factor 2 between builds, hence the alignment.
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "loop overhead". Core designs: [uarch-bench] (Zen 3),
//! [applecpu], [instlatx64] (a counter in memory), each figure named in the tables of
//! cpu.instruction; a turn of a loop is the range of four designs elsewhere.

use bench::prelude::*;
use laws::cpu::{LoopBody, loop_iteration, taken_branches_bound};
use metal::kernel::{LOOP_UNROLLING, loop_empty, loop_unrolled, loop_volatile};

bench::experiment!(Loop);

pub struct Row {
    body: LoopBody,
    /// Bodies to a taken branch, and what an iteration is.
    bodies: u64,
    what: &'static str,
    /// Makes so many iterations, and says how many it counted.
    run: fn(u64) -> u64,
}

rows! {
    /// Where the counter is, and how many bodies a turn has.
    pub enum Kernel: Row {
        Empty = "empty" => Row {
            body: LoopBody::Register,
            bodies: 1,
            what: "an iteration",
            run: loop_empty,
        },
        Volatile = "volatile" => Row {
            body: LoopBody::Memory,
            bodies: 1,
            what: "an iteration",
            run: loop_volatile,
        },
        Unrolled = "unrolled" => Row {
            body: LoopBody::Unrolled(LOOP_UNROLLING),
            bodies: LOOP_UNROLLING,
            what: "one of 16 bodies per iteration",
            run: loop_unrolled,
        },
    }
}

case! {
    /// A loop.
    pub struct Turned {
        /// where the counter is, and how many bodies a turn has: `empty` a register; `volatile`
        /// memory, stored and loaded each turn; `unrolled` a register, and 16 bodies to a turn
        kernel as "loop": Kernel,
    }
}

static CARD: Card = Card {
    id: "clock.loop",
    title: "Cost of an empty loop's iteration",
    metrics: &[Metric::time("iteration", "one iteration of the loop", Kind::Hardware)],
    params: Turned::PARAMS,
    ..Card::PLAIN
};

impl Experiment for Loop {
    type Case = Turned;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("loop.rs");

    fn cases(_: &Site, _: Preset) -> Vec<Turned> {
        let all = Kernel::ALL.iter().copied();
        all.map(|kernel| Turned { kernel }).collect()
    }

    fn law(facts: Facts, case: &Turned, _: &Case, _: &Metric) -> Option<Prediction> {
        let row = case.kernel.row();
        let bound = taken_branches_bound(1.0 / row.bodies as f64, row.what);
        let prior = facts.known.is_none();
        prior.then(|| bounded(loop_iteration(facts.site, row.body).prediction(), bound))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Turned>(series, |bench, case, turned| {
            let run = turned.kernel.row().run;
            bench.time(case, "iteration", |n| {
                let counted = run(n);
                ensure!(counted == n, "the loop counted to {counted} instead of {n}");
                Ok(())
            })?;
            Ok(())
        });
        Ok(())
    }
}

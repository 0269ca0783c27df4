//! ## Question
//! Do `Once` and `Alone`, a trace over time and an interval from blocks reach the report?
//!
//! ## Method
//! Blocks of 10 ms are counted for as long as the setting says; each gives one value of the rate of
//! a rotate chain and one row of the trace.
//!
//! ## Prediction
//! One rotation per core cycle, within what clocks there are: 0.2 to 8 GHz.
//!
//! ## Parameters
//! `duration`: how long it takes.
//!
//! ## Reading the result
//! The interval is within the run: it says nothing about another run.
//!
//! ## Pitfalls
//! Blocks next to each other resemble each other.
//!
//! ## Sources
//! DESIGN §4.3.

use bench::prelude::*;
use record::event::{Isolation, Repeat};
use std::time::Instant;

bench::experiment!(Pulse);

static CARD: Card = Card {
    id: "selftest.pulse",
    title: "Once, alone: a rate over time",
    metrics: metrics! {
        "rate" => OpPerS Higher Hardware: "rotations per second";
    },
    params: settings! {
        "duration": Domain::ns(100_000_000, 60_000_000_000), ["200ms", "500ms", "2s"] =>
            "how long it takes";
    },
    repeat: Repeat::Once { duration_s: 0.5 },
    isolation: Isolation::Alone,
    views: &[ViewCard::timeline("series")],
    ..Card::PLAIN
};

const BLOCK: Duration = Duration::from_millis(10);
const STEP: u64 = 100_000;

impl Experiment for Pulse {
    type Case = ();
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("pulse.rs");
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration =
        |_, series| Duration::from_nanos(series.setting("duration").unwrap_or(0));

    fn cases(_: &Site, _: Preset) -> Vec<()> {
        vec![()]
    }

    fn law(facts: Facts, _: &(), _: &Case, _: &Metric) -> Option<Prediction> {
        let because = "one rotation a cycle, at any clock there is";
        facts.known.is_none().then(|| predicted(2e8, 3e9, 8e9, because))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let case = &series.cases[0];
        let whole = Duration::from_nanos(series.setting("duration").unwrap_or(0));
        let began = Instant::now();
        let (mut rates, mut rows) = (Vec::new(), Vec::new());
        while began.elapsed() < whole {
            let (block, mut rotations) = (Instant::now(), 0);
            while block.elapsed() < BLOCK {
                std::hint::black_box(metal::kernel::chain_rotate(STEP));
                rotations += STEP;
            }
            let rate = rotations as f64 / block.elapsed().as_secs_f64();
            rates.push(rate);
            rows.push(vec![began.elapsed().as_secs_f64(), rate]);
            bench.declare(Declared::Alive);
        }
        bench.record(case, "rate", Values::blocks(rates))?;
        bench.trace(case, "series", &["at_s", "rate_op_per_s"], rows)?;
        Ok(())
    }
}

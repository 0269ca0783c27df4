//! ## Question
//! Does a comparison find a change of a known size?
//!
//! ## Method
//! A chain of rotations is timed. The file that PLUMB_PLANTED names has the number of percent by which the chain is longer.
//!
//! ## Prediction
//! One rotation per core cycle: 0.1 to 5 ns each.
//!
//! ## Parameters
//! None.
//!
//! ## Reading the result
//! A file with 2 in it makes the time 2 % longer.
//!
//! ## Pitfalls
//! The time moves with the core's clock.
//!
//! ## Sources
//! DESIGN §4.3.

use bench::prelude::*;
use std::time::Instant;

bench::experiment!(Planted);

static CARD: Card = Card {
    id: "selftest.planted",
    title: "A body that a file makes longer",
    metrics: metrics! {
        "time" => Ns Lower Hardware: "time of the chain";
    },
    ..Card::PLAIN
};

/// Rotations of the chain that nothing makes longer.
const ROTATIONS: u64 = 200_000;
const SAMPLES: usize = 15;

/// Percent by which the chain is longer; 0 without a file.
fn percent() -> Result<u64> {
    let Some(file) = std::env::var_os("PLUMB_PLANTED") else { return Ok(0) };
    Ok(std::fs::read_to_string(file)?.trim().parse()?)
}

impl Experiment for Planted {
    type Case = ();
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("planted.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, _| Duration::from_millis(10);

    fn cases(_: &Site, _: Preset) -> Vec<()> {
        vec![()]
    }

    fn law(facts: Facts, (): &(), _: &Case, _: &Metric) -> Option<Prediction> {
        let rotations = ROTATIONS as f64;
        let because = "one rotation a cycle, at any clock there is";
        facts
            .known
            .is_none()
            .then(|| predicted(0.1 * rotations, 0.3 * rotations, 5.0 * rotations, because))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let rotations = ROTATIONS + ROTATIONS / 100 * percent()?;
        let times = (0..SAMPLES).map(|_| {
            let began = Instant::now();
            std::hint::black_box(metal::kernel::chain_rotate(rotations));
            began.elapsed().as_nanos() as f64
        });
        bench.record(&series.cases[0], "time", times.collect::<Vec<f64>>())?;
        Ok(())
    }
}

//! How fast do the counter and the core run, and how true is the counter?
//!
//! ## Question
//!
//! The counter ticks at a nominal rate, the core at another that changes with load and heat. What
//! are both, how do they relate, and does the counter keep step with the kernel's clock?
//!
//! ## Method
//!
//! Ten windows, each a block. At both ends of a window the counter and CLOCK_MONOTONIC_RAW are read
//! together: of 25 attempts the one in which two counter reads around the clock read lie closest,
//! so that the ends are known to tens of ns. Within the window chains of about 50 µs run, rotate
//! (1 cycle a step) and multiply in turn, each checked by its result. The core clock of a block is
//! the upper mode of its rotate chains: interrupts only make a chain longer, so the densest third
//! of the values, counted from the fast end, is the undisturbed clock. Multiply over rotate must
//! lie within 1 % of an integer from 3 to 6; else the figure carries a note.
//!
//! ## Prediction
//!
//! Counter: the rate that CPUID, the model's name or cpufreq states. Core: cpufreq's or CPUID's
//! maximum less what load takes; in a virtual machine 1 to 1.6 times the counter. Drift: a kernel
//! holds its counter within 50 ppm.
//!
//! ## Parameters
//!
//! - `window`: length of one block.
//! - `windows`: blocks.
//!
//! ## Reading the result
//!
//! `counter_frequency` against CLOCK_MONOTONIC_RAW is what the kernel believes of the counter: both
//! come from one crystal, so the crystal's own error (typically 20 ppm) does not show. `core_ratio`
//! turns counter ticks into core cycles. `drift` is the time by the counter, at the rate calibrated
//! at the start of the run, over the time by the clock: 1 is no drift; beyond 1 ± 0.00005 the run's
//! times are in doubt. A core clock that changes from block to block is boost, heat or a
//! neighbour.
//!
//! ## Pitfalls
//!
//! R1 and R2 counted ticks and called them cycles, with boost on (SLIPS). Additions of constants
//! are done at rename by newer cores and would show twice the clock: neither chain is one. A
//! hypervisor may scale the counter.
//!
//! ## Sources
//!
//! R4 section 1.2; Intel SDM volume 3, "Time-Stamp Counter"; T. Downs, uarch-bench, issue 91 (adds
//! that are eliminated).

use crate::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, predicted,
    unknown,
};
use crate::measure::Bench;
use crate::predict::Estimate;
use crate::predict::cpu::{core_clock, core_ratio, counter_clock};
use anyhow::{Context, Result, ensure};
use metal::clock::{monotonic_raw_ns, ticks_end, ticks_start};
use metal::kernel::{chain_multiply, chain_rotate, multiplied, rotated};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub(crate) static EXPERIMENT: Rate = Rate;

/// `clock.rate`.
pub(crate) struct Rate;

/// Length of one chain, in ns.
const CHAIN_NS: f64 = 50_000.0;
/// Attempts to read counter and clock together.
const ANCHOR_ATTEMPTS: usize = 25;
/// Counter against clock, as kernels accept it.
const DRIFT: f64 = 50e-6;
/// A rehearsal's window, in ns, and how many.
const REHEARSAL: (u64, u64) = (2_000_000, 6);

static CARD: Card = Card {
    id: "clock.rate",
    title: "Frequencies of the counter and the core",
    metrics: &[
        Metric::new(
            "counter_frequency",
            "ticks of the counter per second of CLOCK_MONOTONIC_RAW",
            Unit::Hz,
            Better::None,
            Kind::Hardware,
        ),
        Metric::new(
            "core_frequency",
            "cycles of the core per second of CLOCK_MONOTONIC_RAW, under load",
            Unit::Hz,
            Better::Higher,
            Kind::Hardware,
        ),
        Metric::new(
            "core_ratio",
            "core cycles per tick of the counter",
            Unit::Ratio,
            Better::None,
            Kind::Hardware,
        ),
        Metric::new(
            "drift",
            "time by the calibrated counter over time by CLOCK_MONOTONIC_RAW",
            Unit::Ratio,
            Better::None,
            Kind::Hardware,
        ),
    ],
    params: &[
        Param {
            name: "window",
            doc: "length of one block",
            domain: Domain::Integer {
                low: 1_000_000,
                high: 60_000_000_000,
                unit: Unit::Ns,
            },
            defaults: ["100ms", "250ms", "250ms"],
            role: Role::Setting,
        },
        Param {
            name: "windows",
            doc: "blocks; at least six for an interval",
            domain: Domain::Integer {
                low: 1,
                high: 10_000,
                unit: Unit::Count,
            },
            defaults: ["10", "10", "40"],
            role: Role::Setting,
        },
    ],
    after: &[],
    repeat: Repeat::Once { duration_s: 2.5 },
    isolation: Isolation::Alone,
    needs: &[],
    view: ViewCard::Table,
};

impl Experiment for Rate {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("rate.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let setting = |name: &str| -> Option<(String, Value)> {
            Some((name.to_owned(), params.get(name).first()?.clone()))
        };
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Fixed,
                cases: vec![Case::new(CaseId::new())],
                settings: ["window", "windows"]
                    .into_iter()
                    .filter_map(setting)
                    .collect(),
            }],
            ..Offer::default()
        })
    }

    fn round_cost(&self, _site: &Site, series: &Series) -> Duration {
        let (window_ns, windows) = windows(series);
        Duration::from_nanos(window_ns.saturating_mul(windows)) + Duration::from_millis(35)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        _case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some() {
            return None;
        }
        let told = |estimate: Result<Estimate, String>| match estimate {
            Ok(estimate) => estimate.prediction(),
            Err(why) => unknown(why),
        };
        Some(match metric.name.as_ref() {
            "counter_frequency" => told(counter_clock(site)),
            "core_frequency" => {
                let (clock, from) = core_clock(site);
                predicted(
                    clock.low,
                    clock.likely,
                    clock.high,
                    format!("base hardware: {from}; software: none"),
                )
            }
            "core_ratio" => told(core_ratio(site)),
            _ => predicted(
                1.0 - DRIFT,
                1.0,
                1.0 + DRIFT,
                "base hardware: counter and clock come from one crystal; software: kernels hold \
                 their idea of the counter within 50 ppm",
            ),
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let case = series.cases.first().context("clock.rate has one case")?;
        let (window_ns, windows) = match bench.order().rehearsal {
            true => REHEARSAL,
            false => windows(series),
        };
        let calibration = bench.calibration().clone();
        let chains = Chains::sized(calibration.core_hz);
        let mut blocks = Vec::new();
        let mut start = Anchor::now();
        for done in 1..=windows {
            let block = chains.block(start, window_ns)?;
            start = block.end;
            blocks.push(block);
            bench.alive((window_ns * done) as f64 / 1e9);
        }
        let values = |of: &dyn Fn(&Block) -> f64| blocks.iter().map(of).collect::<Vec<_>>();
        if calibration.source != "clock_gettime" {
            bench.record_batches(
                case,
                "drift",
                0,
                values(&|block| block.counter_hz / calibration.counter_hz),
            )?;
        }
        bench.record_batches(
            case,
            "counter_frequency",
            0,
            values(&|block| block.counter_hz),
        )?;
        bench.record_batches(
            case,
            "core_ratio",
            0,
            values(&|block| block.cycles_per_tick),
        )?;
        let core = bench.record_batches(
            case,
            "core_frequency",
            0,
            values(&|block| block.cycles_per_tick * block.counter_hz),
        )?;
        let odd = blocks.iter().filter(|block| !block.agrees()).count();
        if odd > 0 {
            core.notes.push(format!(
                "in {odd} of {windows} windows multiply over rotate was no integer from 3 to 6: \
                 the core clock moved within them, or this core's chains are not what they seem"
            ));
        }
        Ok(())
    }
}

/// Length of a window in ns, and how many.
fn windows(series: &Series) -> (u64, u64) {
    (
        series.setting("window").unwrap_or(250_000_000),
        series.setting("windows").unwrap_or(10),
    )
}

/// Counter and clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    /// The attempt in which both were read within the fewest ticks.
    fn now() -> Anchor {
        let mut best = (u64::MAX, Anchor { ticks: 0, ns: 0 });
        for _ in 0..ANCHOR_ATTEMPTS {
            let before = ticks_start();
            let ns = monotonic_raw_ns();
            let apart = ticks_end().wrapping_sub(before);
            if apart < best.0 {
                let ticks = before + apart / 2;
                best = (apart, Anchor { ticks, ns });
            }
        }
        best.1
    }
}

/// What one window showed.
#[derive(Clone, Copy, Debug)]
struct Block {
    end: Anchor,
    counter_hz: f64,
    /// Core cycles per tick, by the rotate chains.
    cycles_per_tick: f64,
    /// Cycles of a multiplication, if a rotation takes one.
    multiply_cycles: f64,
}

impl Block {
    /// Whether the two chains agree about the clock.
    fn agrees(&self) -> bool {
        let whole = self.multiply_cycles.round();
        (3.0..=6.0).contains(&whole) && (self.multiply_cycles / whole - 1.0).abs() <= 0.01
    }
}

/// Chains of about [`CHAIN_NS`], rotate and multiply.
#[derive(Clone, Copy, Debug)]
struct Chains {
    rotations: u64,
    multiplications: u64,
}

impl Chains {
    /// Lengths for a core clock, which need not be exact.
    fn sized(core_hz: f64) -> Chains {
        let cycles = (core_hz * CHAIN_NS / 1e9).clamp(10_000.0, 1_000_000.0);
        Chains {
            rotations: cycles as u64,
            multiplications: cycles as u64 / 4,
        }
    }

    /// Runs chains from `start` until `window_ns` have passed.
    fn block(self, start: Anchor, window_ns: u64) -> Result<Block> {
        let (mut rotate, mut multiply) = (Vec::new(), Vec::new());
        while monotonic_raw_ns() < start.ns + window_ns || rotate.is_empty() {
            let before = ticks_start();
            let turned = chain_rotate(self.rotations);
            let between = ticks_end();
            let product = chain_multiply(self.multiplications);
            let after = ticks_end();
            ensure!(
                turned == rotated(self.rotations) && product == multiplied(self.multiplications),
                "a chain gave a wrong result"
            );
            rotate.push(self.rotations as f64 / between.wrapping_sub(before) as f64);
            multiply.push(self.multiplications as f64 / after.wrapping_sub(between) as f64);
        }
        let end = Anchor::now();
        let cycles_per_tick = upper_mode(rotate);
        Ok(Block {
            end,
            counter_hz: end.ticks.wrapping_sub(start.ticks) as f64 * 1e9
                / (end.ns - start.ns) as f64,
            cycles_per_tick,
            multiply_cycles: cycles_per_tick / upper_mode(multiply),
        })
    }
}

/// Middle of the densest third of the values; of equally dense ones (within a tenth), the upper.
/// `values` is not empty.
fn upper_mode(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let third = values.len().div_ceil(3).max(1);
    let spread = |window: &[f64]| window[window.len() - 1] - window[0];
    let narrowest = values
        .windows(third)
        .map(spread)
        .fold(f64::INFINITY, f64::min);
    let enough = (1.1 * narrowest).max(narrowest + 1e-4 * values[values.len() - 1]);
    values
        .windows(third)
        .rev()
        .find(|window| spread(window) <= enough)
        .map_or(values[values.len() - 1], |window| window[window.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::{Anchor, Block, Chains, EXPERIMENT, upper_mode};
    use crate::experiment::{Experiment, Preset};
    use crate::experiments::tests::{check, sites};
    use std::time::Duration;

    #[test]
    fn it_keeps_the_laws_of_the_catalogue() {
        for site in sites() {
            for (preset, least) in [(Preset::Quick, 1), (Preset::Standard, 2)] {
                let offer = check(&EXPERIMENT, &site, preset);
                assert_eq!(offer.series[0].cases.len(), 1);
                let cost = EXPERIMENT.round_cost(&site, &offer.series[0]);
                assert!(cost >= Duration::from_secs(least) && cost < Duration::from_secs(3));
            }
        }
    }

    #[test]
    fn the_upper_mode_is_the_undisturbed_clock() {
        let mut values = vec![1.30, 1.3001, 1.2999, 1.30, 1.2998, 1.3, 1.3];
        values.extend([1.1, 0.9, 1.25, 0.4]);
        assert!((upper_mode(values) - 1.3).abs() < 1e-3);
        // Two clocks, equally often: the upper one.
        let values = [1.2, 1.2, 1.2, 1.2, 1.4, 1.4, 1.4, 1.4].to_vec();
        assert!((upper_mode(values) - 1.4).abs() < 1e-9);
        // One lucky reading is no mode.
        let values = [1.2, 1.2001, 1.2, 1.1999, 1.2, 1.9].to_vec();
        assert!((upper_mode(values) - 1.2).abs() < 1e-3);
        assert_eq!(upper_mode(vec![5.0]), 5.0);
    }

    #[test]
    fn chains_agree_when_a_multiplication_takes_whole_cycles() {
        let agrees = |multiply_cycles| {
            Block {
                end: Anchor { ticks: 0, ns: 0 },
                counter_hz: 1e9,
                cycles_per_tick: 1.0,
                multiply_cycles,
            }
            .agrees()
        };
        assert!(agrees(3.02) && agrees(4.96) && agrees(6.0));
        assert!(!agrees(3.2) && !agrees(2.0) && !agrees(7.0));
    }

    #[test]
    fn a_block_is_as_long_as_asked_and_its_ends_move_on() {
        let start = Anchor::now();
        let block = Chains::sized(3e9)
            .block(start, 1_000_000)
            .expect("chains are right");
        assert!(block.end.ns - start.ns >= 1_000_000);
        assert!(block.counter_hz > 1e6 && block.cycles_per_tick > 0.0);
    }
}

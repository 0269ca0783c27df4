//! How fast do the counter and the core run, and how accurate is the counter?
//!
//! ## Question
//!
//! The counter ticks at a nominal rate; the core runs at a rate that changes with load and heat.
//! What are the two rates, what is their ratio, and does the counter agree with the kernel's clock?
//!
//! ## Method
//!
//! Ten windows, each a block. At both ends of a window the counter and CLOCK_MONOTONIC_RAW are read
//! together: plumb takes the one of 25 attempts with the shortest time between two counter reads
//! around the clock read, so the ends are known to tens of ns. Within the window plumb repeatedly
//! measures the core clock, as it does around every other figure: 20 chains of about 50 µs,
//! alternating rotate (1 cycle a step) and multiply, upper mode; or a cycle counter if the kernel
//! allows it. The ratio of multiply to rotate must be within 1 % of an integer from 3 to 6. A
//! block's core clock is the median of the measurements in which they agree.
//!
//! ## Prediction
//!
//! Counter: the rate that CPUID, the model's name or cpufreq states, on Arm CNTFRQ_EL0. Core: the
//! maximum from cpufreq or CPUID, less the reduction under load; in a virtual machine from nine
//! tenths of what its processor's family reaches with all cores at work to the family's highest
//! boost, or 1 to 1.6 times the counter where neither is published. Drift: a kernel keeps its
//! counter within 50 ppm.
//!
//! ## Reading the result
//!
//! `counter_frequency` is relative to CLOCK_MONOTONIC_RAW, so it checks the kernel's calibration of
//! the counter: both use the same crystal, whose own error (typically 20 ppm) is invisible.
//! `core_ratio` turns counter ticks into core cycles. `drift` is the time by the counter, at the
//! rate calibrated at the start of the run, over the time by the clock: 1 is no drift; outside 1 ±
//! 0.00005 the run's times are doubtful. A core clock that changes from block to block indicates
//! boost, heat or a neighbour.
//!
//! ## Pitfalls
//!
//! R1 and R2 counted ticks and called them cycles, with boost on. Newer cores execute
//! additions of constants at rename, which would show twice the clock: neither chain uses them. A
//! hypervisor may scale the counter.
//!
//! ## Sources
//!
//! [R4] section 1.2; [intel-sdm] volume 3, "Time-Stamp Counter"; [uarch-bench] issue 91 (adds that
//! are eliminated); clocks with all cores at work and boosts of servers' processors: [gce-cpus],
//! [ec2-clocks], [graviton], [xeon-6520p], [epyc-7003], [epyc-9005], [corefreq].

use bench::measure::Windows;
use bench::prelude::*;
use laws::Law;
use laws::cpu::{core_clock, core_ratio, counter_clock};
use metal::clock::{monotonic_raw_ns, ticks_start};
use record::event::{Isolation, Repeat};
use stats::quantile::median;

bench::experiment!(Rate);

/// Attempts to read counter and clock together.
const ANCHOR_ATTEMPTS: usize = 25;
/// Counter against clock, as kernels accept it.
const DRIFT: f64 = 50e-6;
/// A rehearsal's window, in ns, and how many.
const REHEARSAL: (u64, u64) = (2_000_000, 6);

static CARD: Card = Card {
    id: "clock.rate",
    title: "Frequencies of the counter and the core",
    metrics: metrics! {
        "counter_frequency" => Hz None Hardware:
            "ticks of the counter per second of CLOCK_MONOTONIC_RAW";
        "core_frequency" => Hz Higher Hardware:
            "cycles of the core per second of the run's calibrated clock, under load";
        "core_ratio" => Ratio None Hardware: "core cycles per tick of the counter";
        "drift" => Ratio None Hardware:
            "time by the calibrated counter over time by CLOCK_MONOTONIC_RAW";
    },
    params: settings! {
        "window": Domain::ns(1_000_000, 60_000_000_000), ["100ms", "250ms", "250ms"] =>
            "length of one block";
        "windows": Domain::count(1, 10_000), ["10", "10", "40"] =>
            "blocks; at least six for an interval";
    },
    repeat: Repeat::Once { duration_s: 2.5 },
    isolation: Isolation::Alone,
    keys: &[KeyFigure::new("core clock", "", "core_frequency", "")],
    ..Card::PLAIN
};

impl Experiment for Rate {
    type Case = ();
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("rate.rs");
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, series| {
        let (window_ns, windows) = windows(series);
        Duration::from_nanos(window_ns.saturating_mul(windows)) + Duration::from_millis(35)
    };

    fn cases(_: &Site, _: Preset) -> Vec<()> {
        vec![()]
    }

    fn law(facts: Facts, (): &(), _: &Case, metric: &Metric) -> Option<Prediction> {
        let site = facts.site;
        if facts.known.is_some() {
            return None;
        }
        let law = match metric.name.as_ref() {
            "counter_frequency" => counter_clock(site),
            "core_frequency" => Ok(core_clock(site)),
            "core_ratio" => core_ratio(site),
            _ => Ok(Law::new(
                1.0 - DRIFT,
                1.0,
                1.0 + DRIFT,
                "counter and clock share a crystal, and kernels know the counter's rate within 50 \
                 ppm",
            )),
        };
        Some(law.map_or_else(unknown, Law::prediction))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let case = series.cases.first().context("clock.rate has one case")?;
        let (window_ns, windows) =
            if bench.order().rehearsal { REHEARSAL } else { windows(series) };
        let calibration = bench.order().calibration.clone();
        let looks = if bench.order().rehearsal { Windows::REHEARSAL } else { Windows::FULL };
        let mut core = CoreClock::new(bench.order().clock(), looks);
        let mut blocks = Vec::new();
        let mut start = Anchor::now();
        for _ in 0..windows {
            let block = block(&mut core, start, window_ns);
            start = block.end;
            blocks.push(block);
            bench.declare(Declared::Alive);
        }
        let values = |of: fn(&Block) -> f64| blocks.iter().map(of).collect::<Vec<_>>();
        let counter = values(|block| block.counter_hz);
        // Where the run's clock is not the counter, its calibration says nothing about drift.
        if calibration.source != "clock_gettime" {
            let drift = counter.iter().map(|hz| hz / calibration.counter_hz);
            bench.record(case, "drift", Values::blocks(drift.collect()))?;
        }
        bench.record(case, "counter_frequency", Values::blocks(counter))?;
        let core_of = |of: fn(f64, &Block) -> f64| -> Vec<f64> {
            let known = blocks.iter().filter_map(|block| Some((block.core_hz?, block)));
            known.map(|(core_hz, block)| of(core_hz, block)).collect()
        };
        let ratio = core_of(|core_hz, block| core_hz / block.counter_hz);
        ensure!(
            !ratio.is_empty(),
            "the chains do not agree on a core clock in any window: other programs use this CPU"
        );
        bench.record(case, "core_ratio", Values::blocks(ratio))?;
        let samples =
            bench.record(case, "core_frequency", Values::blocks(core_of(|core_hz, _| core_hz)))?;
        samples.at.put("source", core.source());
        let disagreed = blocks.iter().map(|block| block.disagreed).fold(0.0, f64::max);
        if disagreed > 0.0 {
            samples.notes.push(format!(
                "in up to {:.0} % of a window's readings the ratio of multiply to rotate was not \
                 an integer from 3 to 6: the core clock moved within them",
                100.0 * disagreed
            ));
        }
        Ok(())
    }
}

/// Length of a window in ns, and how many.
fn windows(series: &Series) -> (u64, u64) {
    (series.setting("window").unwrap_or(250_000_000), series.setting("windows").unwrap_or(10))
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
            // Not `ticks_end`, whose instruction not every processor has.
            let apart = ticks_start().wrapping_sub(before);
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
    /// The rate in the looks in which the chains agreed; none where others used the CPU all the time.
    core_hz: Option<f64>,
    /// Share of the looks at the core clock in which the chains disagreed.
    disagreed: f64,
}

/// Looks at the core clock from `start` until `window_ns` have passed.
fn block(core: &mut CoreClock, start: Anchor, window_ns: u64) -> Block {
    let (mut agreed, mut taken) = (Vec::new(), 0_u32);
    while taken == 0 || monotonic_raw_ns() < start.ns + window_ns {
        taken += 1;
        agreed.extend(core.estimate().hz);
    }
    let end = Anchor::now();
    let disagreed = 1.0 - agreed.len() as f64 / f64::from(taken);
    Block {
        end,
        counter_hz: end.ticks.wrapping_sub(start.ticks) as f64 * 1e9 / (end.ns - start.ns) as f64,
        core_hz: median(&agreed),
        disagreed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use session::fixtures::smoke;

    #[test]
    fn a_block_is_as_long_as_asked_and_its_ends_move_on() {
        let mut core = CoreClock::new(Clock::Monotonic, Windows::REHEARSAL);
        let start = Anchor::now();
        let first = block(&mut core, start, 1_000_000);
        assert!(first.end.ns - start.ns >= 1_000_000);
        let second = block(&mut core, first.end, 1);
        assert!(second.end.ns > first.end.ns && second.end.ticks > first.end.ticks);
        assert!(second.counter_hz > 1e6 && second.core_hz.is_none_or(|hz| hz > 1e6));
    }

    #[test]
    fn it_measures() {
        for samples in smoke(&EXPERIMENT) {
            let (windows, metric) = (samples.raw.samples().len() as u64, &samples.metric);
            // A window without a core clock is one whose core others used: any number of them.
            if metric.starts_with("core") {
                assert!((1..=REHEARSAL.1).contains(&windows), "{metric}: {windows}")
            } else {
                assert_eq!(windows, REHEARSAL.1, "{metric}")
            }
        }
    }
}

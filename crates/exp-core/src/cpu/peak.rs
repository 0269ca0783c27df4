//! How many arithmetic operations per second does the processor reach?
//!
//! ## Question
//!
//! What rate of additions, multiplications and fused multiply-adds do one thread and all threads
//! reach, in integers and floating point, one at a time and in the widest vectors; and how much is
//! that of units x lanes x measured core clock?
//!
//! ## Method
//!
//! One instruction in independent chains on registers (12 in general registers, 14 where there are
//! 16 vector registers, 24 where there are 32), about 192 of them a turn, in assembly for each
//! width; no memory, no moves, operands in registers, values that stay normal. The results of a few
//! turns are compared with arithmetic in software in every lane, and every later run with the first.
//! A window in which threads with CPUs of their own had less than 93 % of them (by their CPU time) is
//! measured again, three times in all; what is kept then is told in the notes.
//!
//! Threads are pinned, warmed up by the same kernel, started together, and counted only while all of
//! them work (case time; four times that where threads share CPUs). The steady rate is that of each
//! thread's median step (about 50 µs), added up: what the units do, without what interrupts take now
//! and then. `efficiency` rests on it. The rate of one thread is that too; of several only if they had
//! at least 93 % of their CPUs and worked together in 90 % of the window, else that of the whole window,
//! and a note says so: a quota or steal leaves the median step as it is. `window_rate` stands beside
//! it always; where threads share CPUs it is all there is.
//!
//! Each thread takes its core clock just before and just after, under the kernel: a chain of the same
//! width between runs of it, whose step takes the published cycles of the core's design. Where none are
//! published, the one whole number that puts this clock at 0.6 to 1.05 of the scalar one, or of several
//! the one that makes both equal to 2 %; else there is no clock. So the clock that wide instructions
//! cost is in the efficiency's denominator. A fused operation counts two.
//!
//! ## Prediction
//!
//! Units per cycle by a table of core designs x lanes x operations x core clock (stated, or measured
//! by clock.rate) x cores. 64-byte arithmetic may lower the clock. Siblings share units; threads
//! beyond the CPUs add nothing. Bound: the same product with the round's clocks; only a warning
//! where the row of the table is less than certain, none for a design it does not know.
//!
//! ## Parameters
//!
//! - `op`: `add`, `mul`, `fma` (floating only).
//! - `type`: `f64`, `f32`, `i64`, `i32`.
//! - `width`: `scalar`; `sse2` (16 bytes), `avx2`, `avx512`; `neon`. `auto`: the widest in quick,
//!   with it scalar in standard, all that the processor has in thorough. i64 is multiplied as a
//!   vector by AVX-512DQ only.
//! - `threads`: a number, `all` (one per CPU to measure on) or `twice` (two per CPU). `auto`: 1 for
//!   every kernel, and further counts (2, 4, 16, 64 below the number of CPUs, `all`, `twice`) for the
//!   widest fused or multiplied f64 and added i64; in thorough for all.
//!
//! ## Reading the result
//!
//! `flop_rate` is what data sheets call peak FLOP/s; `rate` is the same for integers. `efficiency` at
//! 0.98 or more: the units are as the table says and were kept busy. Near 0.5 at 64 bytes: one unit
//! of that width instead of two. `all` over `1` well below the number of CPUs: siblings of one core,
//! boost, or, where the note on the whole window stands, a quota, steal or other load. `core_hz_at_width` below the run's core clock: what wide arithmetic costs.
//!
//! ## Pitfalls
//!
//! The clock falls under wide kernels and rises again within microseconds, so a scalar probe after
//! them reads too high a clock and finds 94 % where the units are full. AVX-512 and scalar kernels
//! are series of their own. An addition of a constant may be done at rename; register operands are
//! not. Threads that share a CPU are switched on purpose: their switches do not count as disturbance.
//! Flat topologies of virtual machines hide siblings. On hybrid machines no one number of units holds
//! for all CPUs: no efficiency there. Chains are timed, not programs: real code reaches less.
//!
//! ## Sources
//!
//! R3 CPU 1 (ignored vector units; "more than 100 %" of 10 GFLOP/s); Intel 248966 and 355308 (AVX-512
//! and clock), A. Abel's uops.info, A. Fog; Dolbeau, "Theoretical peak FLOPS per instruction set"
//! (2018).

pub mod load;
pub mod width;

use anyhow::{Context, Result, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Preset, Role, Site, Skip, ViewCard,
    bounded, unknown,
};
use bench::measure::{Bench, Stretch};
use laws::cpu;
use laws::cpu::peak::{
    Arithmetic, CORES_HZ, OPS, TYPES, WIDTHS, peak_bound, peak_efficiency, peak_rate, per_cycle,
    thread_count, thread_cpus,
};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::Value;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: PeakRate = PeakRate;

/// `cpu.peak`.
pub struct PeakRate;

/// A window is so many times longer where threads share CPUs: some turns of the scheduler.
const CROWDED: f64 = 4.0;
/// Warm-up and looks at the clock around a window.
const AROUND: Duration = Duration::from_millis(6);
/// Making, pinning and ending a thread.
const PER_THREAD: Duration = Duration::from_micros(60);
/// Comparing the clock of a CPU with the first one's, once a round.
const PER_CPU: Duration = Duration::from_micros(300);

static CARD: Card = Card {
    id: "cpu.peak",
    title: "Peak arithmetic rates",
    metrics: &[
        Metric::new(
            "flop_rate",
            "floating-point operations of all threads, a fused one counted twice; in the median \
             step if the threads had their CPUs, else in the whole window",
            Unit::FlopPerS,
            Better::Higher,
            Kind::Hardware,
        ),
        Metric::new(
            "rate",
            "integer operations of all threads, each lane counted; over the same time",
            Unit::OpPerS,
            Better::Higher,
            Kind::Hardware,
        ),
        Metric::new(
            "efficiency",
            "rate of the median step over units x lanes x operations x measured core clock x cores",
            Unit::Ratio,
            Better::Higher,
            Kind::Hardware,
        ),
    ],
    params: &[
        Param {
            name: "op",
            doc: "operation; a fused multiply-add is floating and counts two",
            domain: Domain::Symbols(OPS),
            defaults: ["add,fma", "add,mul,fma", "add,mul,fma"],
            role: Role::Case,
        },
        Param {
            name: "type",
            doc: "type of the operands",
            domain: Domain::Symbols(TYPES),
            defaults: ["f64,i64", "f64,f32,i64,i32", "f64,f32,i64,i32"],
            role: Role::Case,
        },
        Param {
            name: "width",
            doc: "register width of the instruction; auto: the widest (quick), and scalar (standard), all that there are (thorough)",
            domain: Domain::Symbols(WIDTHS),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
        Param {
            name: "threads",
            doc: "threads at work: a number, all (one per CPU) or twice (two per CPU); auto: 1, and more for the widest kernels",
            domain: Domain::Either(&["all", "twice"], 1, 8192, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Case,
        },
    ],
    after: &["clock.rate"],
    views: &[
        ViewCard::line("threads", "flop_rate").at("thread_count", Unit::Count).each(&["width"]),
        ViewCard::line("threads", "rate").at("thread_count", Unit::Count).each(&["width"]),
        ViewCard::bars("efficiency").each(&["threads"]),
    ],
    ..Card::PLAIN
};

impl Experiment for PeakRate {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("peak.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for width in WIDTHS.iter().copied() {
            let mut cases = Vec::new();
            for arithmetic in asked(params, width) {
                let here = arithmetic.is_at(site);
                if !here && params.chosen("width").is_none() {
                    continue;
                }
                for threads in threads(site, params, arithmetic) {
                    let case = Case::new(arithmetic.case(&threads));
                    if here {
                        cases.extend(wanted(site, params, arithmetic).then_some(case));
                    } else if arithmetic.op != "fma" || arithmetic.is_floating() {
                        let skip = Skip::because("this processor has no such instruction");
                        offer.skipped.push((case.id, skip));
                    }
                }
            }
            if !cases.is_empty() {
                offer.series.push(Series {
                    experiment: CARD.id.to_owned(),
                    name: width.to_owned(),
                    order: Order::Shuffled,
                    cases,
                    settings: BTreeMap::new(),
                });
            }
        }
        if offer.series.is_empty() {
            return Err(Skip::because("this processor has none of the instructions asked for"));
        }
        Ok(offer)
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let cases = series.cases.iter().map(|case| {
            let threads = thread_count(site, threads_of(case));
            let times = window_times(threads, site.cpus.len());
            Duration::from_nanos(site.case_ns).mul_f64(1.15 * times)
                + AROUND
                + PER_THREAD * u32::try_from(threads).unwrap_or(u32::MAX)
        });
        let most = series
            .cases
            .iter()
            .map(|case| thread_count(site, threads_of(case)).min(site.cpus.len()))
            .max();
        let compared = PER_CPU * u32::try_from(most.unwrap_or(1) - 1).unwrap_or(u32::MAX);
        cases.sum::<Duration>() + compared + Duration::from_millis(30)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let threads = threads_of(case).clone();
            if let Some(arithmetic) = Arithmetic::of(&case.id) {
                load::place(case, site, arithmetic, &threads);
            }
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        // Without the measured clock, earlier figures say nothing about rates.
        if let Some(known) = known {
            cpu::measured_core_hz(known)?;
        }
        let Some(arithmetic) = Arithmetic::of(&case.id) else {
            return Some(unknown("unknown: no such instruction"));
        };
        let threads = thread_count(site, threads_of(case));
        let cpus = thread_cpus(site, threads);
        if metric.name == "efficiency" {
            // The clock is in it already.
            return known.is_none().then(|| match per_cycle(site, arithmetic, &cpus) {
                Some(_) => peak_efficiency(site, arithmetic, threads).prediction(),
                None => unknown(
                    "unknown: the table does not know the units of these cores, or they are of several designs",
                ),
            });
        }
        if metric.name != arithmetic.metric() {
            return known.is_none().then(|| {
                unknown("unknown: floating types have a flop_rate, integers have a rate")
            });
        }
        let prediction = peak_rate(site, known, arithmetic, threads).prediction();
        Some(match peak_bound(site, arithmetic, threads) {
            Some(bound) => bounded(prediction, bound),
            None => prediction,
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let case_ns = bench.order().case_ns as f64;
        bench.each(series, |bench, case| {
            let arithmetic = Arithmetic::of(&case.id)
                .with_context(|| format!("there is no arithmetic {}", case.id))?;
            let threads = case.int("thread_count").unwrap_or(1) as usize;
            let cores = case.int("cores").context("the case was not resolved")?;
            ensure!(cores > 0, "{} has no core", case.id);
            let cpus = case.at.get("cpus").and_then(Value::text).unwrap_or("");
            let times = window_times(threads, host::parse_cpus(cpus).len());
            let load = load::run(bench, case, arithmetic, times * case_ns, true)
                .with_context(|| format!("measuring {}", case.id))?;
            record(bench, case, arithmetic, load)
        });
        Ok(())
    }
}

/// Writes down what a crew reached, and the quantities that its bound rests on.
fn record(bench: &mut Bench, case: &Case, arithmetic: Arithmetic, load: load::Load) -> Result<()> {
    let operations = load::ops_per_cycle(case);
    // What the units do while they have work does not depend on how long they had it.
    let steady = load.steady_rate.unwrap_or(load.rate);
    let (rate, note) = load.rate_together();
    // What a neighbour took of a core shows between the probes, where the threads had their CPUs.
    let stretches = match note {
        None => &load.stretches[..],
        Some(_) => &[],
    };
    if let Some((cores_hz, operations)) = load.cores_hz.zip(operations) {
        let possible = operations * cores_hz;
        let efficiency: Vec<Stretch> = stretches.iter().map(|one| one.over(possible)).collect();
        bench.record_stretches(case, "efficiency", &efficiency, steady / possible)?;
    }
    let samples = bench.record_stretches(case, arithmetic.metric(), stretches, rate)?;
    for (name, value) in [
        (CORES_HZ, load.cores_hz),
        ("core_hz_at_width", load.core_hz),
        ("window_rate", Some(load.rate)),
    ] {
        if let Some(value) = value {
            samples.quantities.insert(name.to_owned(), value);
        }
    }
    samples.notes.extend(load.notes.into_iter().chain(note));
    Ok(())
}

/// The instructions at a width that the parameters ask for.
fn asked(params: &Params, width: &'static str) -> Vec<Arithmetic> {
    let chosen = params.chosen("width");
    if chosen.is_some_and(|widths| !widths.contains(&Value::from(width))) {
        return Vec::new();
    }
    let is_in = |symbol: &str, name: &str| params.texts(name).contains(&symbol);
    let ops = OPS.iter().copied().filter(|op| is_in(op, "op"));
    ops.flat_map(|op| {
        TYPES
            .iter()
            .copied()
            .filter(|element| is_in(element, "type"))
            .map(move |element| Arithmetic { op, element, width })
    })
    .collect()
}

/// Whether the preset wants this width, where it was not chosen.
fn wanted(site: &Site, params: &Params, arithmetic: Arithmetic) -> bool {
    let Arithmetic { op, element, width } = arithmetic;
    let is_widest = Arithmetic::widest(site, op, element) == Some(arithmetic);
    params.chosen("width").is_some()
        || match params.preset {
            Preset::Rehearsal | Preset::Quick => is_widest,
            Preset::Standard => is_widest || width == "scalar",
            Preset::Thorough => true,
        }
}

/// The thread counts of an instruction.
fn threads(site: &Site, params: &Params, arithmetic: Arithmetic) -> Vec<Value> {
    if let Some(chosen) = params.chosen("threads") {
        return chosen.to_vec();
    }
    let cpus = site.cpus.len() as u64;
    let is_chief = Arithmetic::chief(site) == Some(arithmetic);
    let is_integer = Arithmetic::widest(site, "add", "i64") == Some(arithmetic);
    let (some, more, crowd) = match params.preset {
        Preset::Rehearsal | Preset::Quick => (is_chief || is_integer, false, false),
        Preset::Standard => (is_chief || is_integer, is_chief, true),
        Preset::Thorough => (true, true, true),
    };
    let mut counts = vec![Value::from(1)];
    if some {
        let between = [2, 4, 16, 64].into_iter().filter(|count| more && *count < cpus);
        counts.extend(between.map(Value::from));
        // With one CPU, all is 1.
        counts.extend((cpus > 1).then(|| Value::from("all")));
        counts.extend(crowd.then(|| Value::from("twice")));
    }
    counts
}

/// A case's parameter `threads`.
fn threads_of(case: &Case) -> &Value {
    const ONE: &Value = &Value::Int(1);
    case.id.get("threads").unwrap_or(ONE)
}

fn window_times(threads: usize, cpus: usize) -> f64 {
    if threads > cpus { CROWDED } else { 1.0 }
}

#[cfg(test)]
mod tests;

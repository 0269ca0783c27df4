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
//! turns are compared with arithmetic in software in every lane, and every later run with the
//! first. `mix` is a loop of two instructions on scalars: of 11 chains 6 add and 5 multiply, 22
//! operations a turn on i64 and 77 on f64. R3 counts as many in its programs and does not say which
//! they are. If threads with their own CPUs had less than 93 % of them (by their CPU time), the
//! window is repeated, up to three times; the notes say which result is used.
//!
//! Threads are pinned, warmed up by the same kernel, started together, and counted only while all
//! of them work (case time; four times that where threads share CPUs). The steady rate is the sum
//! over threads of the rate in the median step (about 50 µs): the rate of the units without
//! occasional interruptions. `efficiency` uses it. The rate of one thread is the steady rate.
//! Several threads have it only if they had at least 93 % of their CPUs and ran together in 90 % of
//! the window; otherwise their rate is that of the whole window, and a note says so, because a
//! quota or steal does not change the median step. `window_rate` is always recorded; if threads
//! share CPUs it is the only rate.
//!
//! Each thread takes its core clock just before and just after, under the kernel: a chain of the
//! same width between runs of the kernel, whose step takes the published cycles of the core's
//! design. Without published cycles, plumb uses the only whole number that puts this clock at 0.6
//! to 1.05 of the scalar clock, or of several the one that makes both equal to 2 %; otherwise there
//! is no clock. So the efficiency's denominator accounts for the lower clock of wide instructions.
//! A fused operation counts as two.
//!
//! Vectors of i64 are multiplied by AVX-512DQ only.
//!
//! ## Prediction
//!
//! Units per cycle by a table of core designs x lanes x operations x core clock (stated, or
//! measured by clock.rate) x cores. 64-byte arithmetic may lower the clock. Siblings share units;
//! threads beyond the CPUs add nothing. Bound: the same product with the round's clocks; only a
//! warning where the row of the table is less than certain, none for a design it does not know.
//!
//! ## Reading the result
//!
//! `flop_rate` is what data sheets call peak FLOP/s; `rate` is the same for integers. `efficiency`
//! at 0.98 or more: the units are as the table says and were kept busy (of `mix`, as far as the two
//! kinds of operation have units of their own). Near 0.5 at 64 bytes: one unit of that width instead
//! of two. `all` over `1` well below the number of CPUs: siblings of one core, boost, or, where the
//! note on the whole window stands, a quota, steal or other load.
//! `core_hz_at_width` below the run's core clock: the clock reduction of wide arithmetic.
//!
//! ## Pitfalls
//!
//! The clock falls under wide kernels and rises again within microseconds, so a scalar probe after
//! them reads too high a clock and finds 94 % where the units are full. AVX-512 and scalar kernels
//! are separate series. An addition of a constant may be done at rename; register operands are not.
//! Threads that share a CPU are switched on purpose: their switches do not count as disturbance.
//! Flat topologies of virtual machines hide siblings. On hybrid machines the number of units
//! differs by CPU, so there is no efficiency. Chains are timed, not programs: real code reaches
//! less.
//!
//! ## Sources
//!
//! [R3] CPU 1 (ignored vector units; "more than 100 %" of 10 GFLOP/s); [intel-optimization]
//! (AVX-512 and clock); [dolbeau]. Units of core designs: the inverse of the
//! throughputs of cpu.instruction's tables, each with its source; those that add and multiply both:
//! [llvm].

pub mod load;
pub mod width;

use crate::add;
use bench::measure::Stretch;
use bench::prelude::*;
use laws::cpu;
use laws::cpu::peak::{
    Arithmetic, CORES_HZ, Element, Op, Peak, Threads, Width, peak_bound, peak_efficiency,
    peak_rate, per_cycle, thread_cpus,
};

bench::experiment!(PeakRate);

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
    metrics: metrics! {
        "flop_rate" => FlopPerS Higher Hardware:
            "floating-point operations of all threads, a fused one counted twice; in the median \
             step if the threads had their CPUs, otherwise in the whole window";
        "rate" => OpPerS Higher Hardware:
            "integer operations of all threads, each lane counted; over the same time";
        "efficiency" => Ratio Higher Hardware:
            "rate of the median step over units x lanes x operations x measured core clock x \
             cores";
    },
    params: Peak::PARAMS,
    after: &["clock.rate"],
    views: &[
        ViewCard::line("threads", "flop_rate")
            .positioned("thread_count", Unit::Count)
            .each(&["width"]),
        ViewCard::line("threads", "rate").positioned("thread_count", Unit::Count).each(&["width"]),
        ViewCard::bars("efficiency").each(&["threads"]),
    ],
    keys: &[
        KeyFigure::new("FMA f64,", "1 CPU", "flop_rate", "op=fma,type=f64,threads=1"),
        KeyFigure::new("FMA f64,", "all", "flop_rate", "op=fma,type=f64,threads=all"),
    ],
    ..Card::PLAIN
};

impl Experiment for PeakRate {
    type Case = Peak;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("peak.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration = round_cost;

    fn cases(site: &Site, preset: Preset) -> Vec<Peak> {
        let is_wanted = |arithmetic: &Arithmetic| {
            let Arithmetic { op, element, width } = *arithmetic;
            let is_basic =
                matches!(op, Op::Add | Op::Fma) && matches!(element, Element::F64 | Element::I64);
            let is_widest = || Arithmetic::widest(site, op, element) == Some(*arithmetic);
            arithmetic.is_at(site)
                && match preset {
                    Preset::Rehearsal | Preset::Quick => is_basic && is_widest(),
                    Preset::Standard => width == Width::Scalar || is_widest(),
                    Preset::Thorough => true,
                }
        };
        let wanted = Arithmetic::all().filter(is_wanted);
        wanted
            .flat_map(|arithmetic| {
                let all = threads(site, preset, arithmetic).into_iter();
                all.map(move |threads| arithmetic.by(threads))
            })
            .collect()
    }

    fn complete(case: Peak) -> Option<Peak> {
        case.arithmetic().exists().then_some(case)
    }

    fn absent(site: &Site, case: &Peak, _: &Params) -> Option<Skip> {
        let is_here = case.arithmetic().is_at(site);
        (!is_here).then(|| Skip::because("this processor has no such instruction"))
    }

    fn series(site: &Site, cases: Vec<Peak>, params: &Params) -> Result<Offer, Skip> {
        let mut offer = Offer::default();
        for case in cases {
            let absent = Self::absent(site, &case, params);
            add(&mut offer, (&CARD, case.width.text(), Self::ORDER), &case, absent);
        }
        if offer.series.is_empty() {
            return Err(Skip::because("this processor has none of the requested instructions"));
        }
        Ok(offer)
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            if let Some(peak) = Peak::from_id(&case.id) {
                load::place(case, site, peak.arithmetic(), peak.threads);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Peak, _: &Case, metric: &Metric) -> Option<Prediction> {
        if !cpu::knows_clock(facts) {
            return None;
        }
        let (site, arithmetic) = (facts.site, case.arithmetic());
        let threads = case.threads.count(site);
        let why = match (metric.name == arithmetic.metric(), &*metric.name) {
            (true, _) => {
                let law = peak_rate(facts, arithmetic, threads);
                return Some(law.bounded(peak_bound(site, arithmetic, threads)).prediction());
            }
            // The clock is in an efficiency already, and says nothing of the other type's rate.
            _ if facts.known.is_some() => return None,
            (_, "efficiency") => {
                if per_cycle(site, arithmetic, &thread_cpus(site, threads)).is_some() {
                    return Some(peak_efficiency(site, arithmetic, threads).prediction());
                }
                "unknown: the execution units of these cores are not in the table, or the cores \
                 differ in design"
            }
            _ => "unknown: floating types have a flop_rate, integers have a rate",
        };
        Some(unknown(why))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let case_ns = bench.order().case_ns as f64;
        bench.each_of::<Peak>(series, |bench, case, peak| {
            let threads = case.int("thread_count").unwrap_or(1) as usize;
            let cores = case.int("cores").context("the case was not resolved")?;
            ensure!(cores > 0, "{} has no core", case.id);
            let times = window_times(threads, load::cpus_of(case).len());
            let load = load::run(bench, case, peak.arithmetic(), times * case_ns, true)
                .with_context(|| format!("measuring {}", case.id))?;
            record(bench, case, peak.arithmetic(), load)
        });
        Ok(())
    }
}

fn round_cost(site: &Site, series: &Series) -> Duration {
    let threads = |case: &Case| Peak::from_id(&case.id).map_or(1, |peak| peak.threads.count(site));
    let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let counts: Vec<usize> = series.cases.iter().map(threads).collect();
    let cases = counts.iter().map(|threads| {
        let times = window_times(*threads, site.cpus.len());
        Duration::from_nanos(site.case_ns).mul_f64(1.15 * times)
            + AROUND
            + PER_THREAD * whole(*threads)
    });
    let most = counts.iter().map(|threads| *threads.min(&site.cpus.len())).max().unwrap_or(1);
    cases.sum::<Duration>() + PER_CPU * whole(most.saturating_sub(1)) + Duration::from_millis(30)
}

/// Writes down what a team reached, and the quantities that its bound rests on.
fn record(bench: &mut Bench, case: &Case, arithmetic: Arithmetic, load: load::Load) -> Result<()> {
    let operations = load::ops_per_cycle(case);
    let shared = &load.window.shared;
    let steady = shared.members.iter().map(|member| member.steady_rate).sum::<Option<f64>>();
    let steady = steady.filter(|_| !load.is_crowded);
    let together = load.window.steady_rate().filter(|_| !load.is_crowded);
    let note = (steady.is_some() && together.is_none()).then(|| {
        "the rate covers the whole window: not all threads had their CPUs all the time (a quota, \
         steal or other load)"
            .to_owned()
    });
    let rate = together.unwrap_or_else(|| shared.rate());
    // What the units do while they have work does not depend on how long they had it.
    let steady = steady.unwrap_or_else(|| shared.rate());
    // What a neighbour took of a core shows between the probes, where the threads had their CPUs.
    let stretches = if note.is_none() { shared.stretches() } else { Vec::new() };
    if let Some((cores_hz, operations)) = load.cores_hz.zip(operations) {
        let possible = operations * cores_hz;
        let efficiency: Vec<Stretch> = stretches.iter().map(|one| one.over(possible)).collect();
        bench.record(case, "efficiency", Values::stretches(&efficiency, steady / possible))?;
    }
    let samples = bench.record(case, arithmetic.metric(), Values::stretches(&stretches, rate))?;
    samples.set_quantities([
        (CORES_HZ, load.cores_hz),
        ("core_hz_at_width", load.core_hz),
        ("window_rate", Some(shared.rate())),
    ]);
    samples.notes.extend(load.notes.into_iter().chain(note));
    Ok(())
}

/// The thread counts of an instruction.
fn threads(site: &Site, preset: Preset, arithmetic: Arithmetic) -> Vec<Threads> {
    let cpus = site.cpus.len() as u64;
    let is_chief = Arithmetic::chief(site) == Some(arithmetic);
    let is_integer = Arithmetic::widest(site, Op::Add, Element::I64) == Some(arithmetic);
    let is_widest = is_chief || is_integer;
    let is_plain = matches!(arithmetic.element, Element::F64 | Element::I64);
    let is_scalar = arithmetic.width == Width::Scalar && is_plain;
    let (some, more, crowd) = match preset {
        Preset::Rehearsal | Preset::Quick => (is_widest, false, false),
        Preset::Standard => (is_widest || is_scalar, is_chief, is_widest),
        Preset::Thorough => (true, true, true),
    };
    let mut counts = vec![Threads::Number(1)];
    if some {
        let between = [2, 4, 16, 64].into_iter().filter(|count| more && *count < cpus);
        counts.extend(between.map(Threads::Number));
        // With one CPU, all is 1.
        counts.extend((cpus > 1).then_some(Threads::All));
        counts.extend(crowd.then_some(Threads::Twice));
    }
    counts
}

fn window_times(threads: usize, cpus: usize) -> f64 {
    if threads > cpus { CROWDED } else { 1.0 }
}

#[cfg(test)]
mod tests;

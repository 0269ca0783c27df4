//! What does it cost to read a clock, and what is its resolution?
//!
//! ## Question
//!
//! Every timed figure starts and ends with a clock read. What does one read cost, for each method
//! of this machine, and what is the smallest step that it can resolve?
//!
//! ## Method
//!
//! `cost`: n reads in a row against 2n, in ABBA quartets; the difference is n reads without the
//! overhead of a batch. Reads by instruction are unrolled eight times in assembly, so they overlap
//! as far as the processor allows: this is the cost to a program that reads often, not the time
//! from the read to its result. Library reads are one per iteration, and each includes the loop,
//! about a cycle: a visible part of `time`. The system call is made in a function that returns, as
//! programs do. `clock_gettime_vdso`, `clock_gettime_syscall` and `time` run the same code as in
//! os.syscall.
//!
//! `resolution`: two reads back to back, at least a hundred times; the event is the smallest
//! difference that is not zero, in 32 repetitions. Reads by instruction are inlined. For
//! `fenced_pair` and `cpuid_pair` the difference is between start and end. The step of `time` is a
//! second by definition and is not measured.
//!
//! ## Prediction
//!
//! Instructions: cycles by plumb's table of core designs, at the core clock that cpufreq or CPUID
//! states; a virtual machine has a wider clock and traps `cpuid`. vDSO: an ordered counter read and
//! the kernel's arithmetic, if the clock source is one that the vDSO can read. System call: entry
//! and exit by the mitigations in force, and the kernel's own read. A step of Arm's counter is a
//! whole number of ticks at the rate in CNTFRQ_EL0, one of Zen's a whole number of 10 ns.
//!
//! ## Reading the result
//!
//! Do not trust a window shorter than a thousand times `cost` of `fenced_pair`. If
//! `clock_gettime_vdso` costs about as much as `clock_gettime_syscall`, the vDSO falls back to the
//! system call. A `cpuid_pair` of microseconds is a trap to the hypervisor. A `resolution` near the
//! cost means that reading limits the resolution; one far above it is the resolution of the clock
//! itself. On Zen the counter goes on every 10 ns, by as many ticks at once: a window shorter than a
//! microsecond is known to 1 % at best. The single tick that `rdtsc` shows on Zen 4 and 5 is no
//! resolution: a second read within one step is given one tick more.
//!
//! ## Pitfalls
//!
//! Counter ticks are not core cycles. Unordered reads move by tens of cycles relative to the code
//! that they should bracket. The reports call `time` a system call, but the library answers it from
//! memory [R0].
//!
//! ## Sources
//!
//! [R0], [R1] and [R2]: "measurement overhead"; [paoloni] (the order of reads). Cycles:
//! [instlatx64] (rdtsc, lfence), [uarch-bench] (rdtscp on Zen 3), [applecpu] (Arm), each figure named
//! in the tables of cpu.instruction.

mod timed;

use bench::prelude::*;
use host::{Arch, Core};
use laws::cpu::{CounterRead, core, counter_clock, counter_read};
use laws::{Law, os, range};
use metal::clock::{
    Clock, syscall_clock_gettime, ticks_cpuid, ticks_end, ticks_fenced, ticks_raw, ticks_rdtscp,
    ticks_start, vdso_clock_gettime,
};
use metal::kernel::{ClockRead, clock_read};
use record::event::Range;
use std::hint::black_box;
use std::time::Instant;
use timed::between;

bench::experiment!(ReadClock);

/// Repetitions of the search for the smallest step.
const STEP_EVENTS: usize = 32;
const STEP_PAIRS: u64 = 100;
/// The same where each read traps to a hypervisor.
const TRAPPED_STEP_PAIRS: u64 = 4;
/// Pairs of reads in each, at most: a clock that stands still for longer shows no step.
const STEP_PAIRS_MAX: u64 = 200_000;

rows! {
    /// A way to read the time.
    pub enum Way: ClockRead {
        Rdtsc = "rdtsc" => ClockRead::Rdtsc,
        LfenceRdtsc = "lfence_rdtsc" => ClockRead::LfenceRdtsc,
        Rdtscp = "rdtscp" => ClockRead::Rdtscp,
        Cntvct = "cntvct" => ClockRead::Cntvct,
        CntvctIsb = "cntvct_isb" => ClockRead::CntvctIsb,
        FencedPair = "fenced_pair" => ClockRead::FencedPair,
        CpuidPair = "cpuid_pair" => ClockRead::CpuidPair,
        ClockGettimeVdso = "clock_gettime_vdso" => ClockRead::ClockGettimeVdso,
        ClockGettimeSyscall = "clock_gettime_syscall" => ClockRead::ClockGettimeSyscall,
        Time = "time" => ClockRead::Time,
        Instant = "instant" => ClockRead::Instant,
    }
}

case! {
    /// A clock.
    pub struct Read {
        /// way to read the time: `fenced_pair` as plumb times its own windows, `cpuid_pair` the
        /// pipeline flush of R1 at both ends (pairs are two reads, counted as one operation),
        /// `time` of the C library, `instant` of Rust's, the others by their names
        clock: Way,
    }
}

/// What `quick` leaves out: other orders of the same instruction.
const NOT_IN_QUICK: [ClockRead; 4] =
    [ClockRead::LfenceRdtsc, ClockRead::Rdtscp, ClockRead::CntvctIsb, ClockRead::CpuidPair];

static CARD: Card = Card {
    id: "clock.read",
    title: "Cost and resolution of reading a clock",
    metrics: metrics! {
        "cost" => Ns Lower Os: "one read of the clock in a sequence of reads";
        "resolution" => Ns Lower Os: "smallest step between back-to-back reads";
    },
    params: Read::PARAMS,
    views: &[ViewCard::bars("cost")],
    keys: &[KeyFigure::new("clock_gettime (vDSO)", "", "cost", "clock=clock_gettime_vdso")],
    ..Card::PLAIN
};

impl Experiment for ReadClock {
    type Case = Read;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("read.rs");

    fn cases(site: &Site, preset: Preset) -> Vec<Read> {
        let is_wanted = |read: &ClockRead| {
            exists(*read, site.host.cpu.arch)
                && (preset >= Preset::Standard || !NOT_IN_QUICK.contains(read))
        };
        let all = Way::ALL.iter().copied().filter(|way| is_wanted(way.row()));
        all.map(|clock| Read { clock }).collect()
    }

    fn absent(site: &Site, case: &Read, _: &Params) -> Option<Skip> {
        let (name, read, cpu) = (case.clock.text(), *case.clock.row(), &site.host.cpu);
        let lacks_rdtscp = cpu.arch == Arch::X86_64 && !cpu.flags.is_empty() && !cpu.has("rdtscp");
        let why = match exists(read, cpu.arch) {
            false => format!("`{name}` is an instruction of the other architecture"),
            true if lacks_rdtscp && read.needs_rdtscp() => {
                format!("`{name}` needs rdtscp, which this processor does not have")
            }
            true => return None,
        };
        Some(Skip::because(why))
    }

    fn law(facts: Facts, case: &Read, _: &Case, metric: &Metric) -> Option<Prediction> {
        let (site, read) = (facts.site, *case.clock.row());
        if facts.known.is_some() {
            return None;
        }
        let cost = cost(site, read);
        Some(match &*metric.name {
            "cost" => cost.prediction(),
            _ => resolution(site, read, cost),
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        bench.each_of::<Read>(series, |bench, case, read| {
            let (name, read) = (read.clock.text(), *read.clock.row());
            clock_read(read, 1).with_context(|| format!("this processor has no `{name}`"))?;
            bench.time(case, "cost", |n| {
                black_box(clock_read(read, n));
            })?;
            if let Some(steps) = steps(read, bench) {
                bench.record(case, "resolution", steps)?;
            }
            Ok(())
        });
        Ok(())
    }
}

/// Whether an architecture has this way to read the time.
fn exists(read: ClockRead, arch: Arch) -> bool {
    match read {
        ClockRead::Rdtsc | ClockRead::LfenceRdtsc | ClockRead::Rdtscp | ClockRead::CpuidPair => {
            arch == Arch::X86_64
        }
        ClockRead::Cntvct | ClockRead::CntvctIsb => arch == Arch::Aarch64,
        ClockRead::FencedPair
        | ClockRead::ClockGettimeVdso
        | ClockRead::ClockGettimeSyscall
        | ClockRead::Time
        | ClockRead::Instant => true,
    }
}

/// What one read should cost, in ns.
fn cost(site: &Site, read: ClockRead) -> Law {
    match read {
        ClockRead::Rdtsc | ClockRead::Cntvct => counter_read(site, CounterRead::Plain),
        ClockRead::LfenceRdtsc => counter_read(site, CounterRead::Fenced),
        ClockRead::Rdtscp | ClockRead::CntvctIsb => counter_read(site, CounterRead::Ordered),
        ClockRead::FencedPair => counter_read(site, CounterRead::Pair),
        ClockRead::CpuidPair => counter_read(site, CounterRead::CpuidPair),
        ClockRead::ClockGettimeVdso => os::clock_by_library(Facts::prior(site)),
        ClockRead::Instant => {
            os::clock_by_library(Facts::prior(site)).and("Rust's Instant adds only a check")
        }
        ClockRead::ClockGettimeSyscall => os::clock_by_call(Facts::prior(site)),
        ClockRead::Time => os::seconds_by_library(Facts::prior(site)),
    }
}

/// The smallest step should be what passes during a read, unless the clock's grain is coarser.
fn resolution(site: &Site, read: ClockRead, cost: Law) -> Prediction {
    if read == ClockRead::Time {
        return unknown("unknown here: time() steps once a second, longer than a round");
    }
    // A pair's fences and its `cpuid` stand outside of what its two reads show.
    let shown = match read {
        ClockRead::FencedPair => counter_read(site, CounterRead::Window),
        ClockRead::CpuidPair => counter_read(site, CounterRead::Ordered),
        _ => cost,
    };
    let cost = shown.widened(1.1, 1.15, "a step is the time between two reads");
    match (site.host.cpu.arch, core(site)) {
        (Arch::Aarch64, _) => of_ticks(site, read, cost).prediction(),
        (_, core) if (Core::Zen..=Core::Zen5c).contains(&core) => {
            of_zen(site, read, cost).prediction()
        }
        _ => cost.prediction(),
    }
}

/// The counter of Zen is updated at this interval, in ns. Guests of Zen 3, 4 and 5 show it.
const ZEN_STEP_NS: f64 = 10.0;

/// A step of Zen's counter, which is updated by several ticks at once. On Zen 4 and 5 a second read
/// before the next update gives one tick more, where no fence stands between the reads.
fn of_zen(site: &Site, read: ClockRead, step: Law) -> Law {
    let has_next = (Core::Zen4..=Core::Zen5c).contains(&core(site)) && read == ClockRead::Rdtsc;
    if let (true, Ok(counter)) = (has_next, counter_clock(site)) {
        let tick_ns = 1e9 / counter.range.likely;
        return step
            .with_range(range(0.98 * tick_ns, tick_ns, 1.02 * ZEN_STEP_NS))
            .and("a read within the same step of the counter gives one tick more");
    }
    let whole = |ns: f64| (ns / ZEN_STEP_NS).floor().max(1.0) * ZEN_STEP_NS;
    let Range { low, likely, high } = step.range;
    step.with_range(range(0.98 * whole(low), whole(likely), 1.02 * whole(high)))
        .and("Zen's counter goes on in steps of 10 ns")
}

/// A step of Arm's counter: the least number of ticks that is not zero, so one tick where a read is
/// faster than that. Times from the kernel or the library are truncated to whole ns.
fn of_ticks(site: &Site, read: ClockRead, step: Law) -> Law {
    let Ok(counter) = counter_clock(site) else {
        return step.widened(
            1.0,
            4.0,
            "Arm's counter ticks every 1 to 52 ns, and the machine does not report the rate",
        );
    };
    let tick_ns = 1e9 / counter.range.likely;
    let Range { low, likely, high } = step.range;
    // Two reads a fraction of a tick apart fall into one tick or into two: the smallest step is a
    // whole number of ticks, never less than one.
    let whole = |ns: f64| (ns / tick_ns).floor().max(1.0) * tick_ns;
    let told_in_ticks =
        matches!(read, ClockRead::Cntvct | ClockRead::CntvctIsb | ClockRead::FencedPair);
    let (low, likely, high) = if told_in_ticks {
        (0.98 * whole(low), whole(likely), 1.02 * whole(high))
    } else {
        let down = |ns: f64| whole(ns).floor().max(1.0);
        (down(low), down(likely), whole(high).ceil())
    };
    step.with_range(range(low, likely, high))
        .and(format!("a step is whole ticks of {} (CNTFRQ_EL0)", render(tick_ns, Unit::Ns)))
}

/// Smallest steps between back-to-back reads, in ns; `None` if they are not available in ns or do
/// not occur within a round.
fn steps(read: ClockRead, bench: &Bench) -> Option<Vec<f64>> {
    let in_ticks = |steps: Option<Vec<u64>>| {
        // If the run's clock is not the counter, the length of a tick is unknown.
        let counter = bench.order().calibration.source != "clock_gettime";
        steps
            .filter(|_| counter)
            .map(|steps| steps.into_iter().map(|ticks| bench.order().clock().ns(ticks)).collect())
    };
    let in_ns = |steps: Option<Vec<u64>>| -> Option<Vec<f64>> {
        Some(steps?.into_iter().map(|ns| ns as f64).collect())
    };
    match read {
        ClockRead::Rdtsc | ClockRead::Cntvct => {
            in_ticks(smallest_steps(STEP_PAIRS, || between(ticks_raw)))
        }
        ClockRead::LfenceRdtsc | ClockRead::CntvctIsb => {
            in_ticks(smallest_steps(STEP_PAIRS, || between(ticks_fenced)))
        }
        ClockRead::Rdtscp => in_ticks(smallest_steps(STEP_PAIRS, || between(ticks_rdtscp))),
        ClockRead::FencedPair => in_ticks(smallest_steps(STEP_PAIRS, || {
            let start = ticks_start();
            ticks_end().wrapping_sub(start)
        })),
        ClockRead::CpuidPair => in_ticks(smallest_steps(TRAPPED_STEP_PAIRS, || {
            let start = ticks_cpuid().unwrap_or_default();
            ticks_rdtscp().wrapping_sub(start)
        })),
        ClockRead::ClockGettimeVdso => {
            in_ns(smallest_steps(STEP_PAIRS, || between(|| vdso_clock_gettime(Clock::MONOTONIC))))
        }
        ClockRead::ClockGettimeSyscall => in_ns(smallest_steps(STEP_PAIRS, || {
            between(|| syscall_clock_gettime(Clock::MONOTONIC))
        })),
        ClockRead::Instant => in_ns(smallest_steps(STEP_PAIRS, || {
            let start = Instant::now();
            Instant::now().duration_since(start).as_nanos() as u64
        })),
        ClockRead::Time => None,
    }
}

/// The smallest non-zero step of at least `pairs` pairs of reads, several times over; `None` where
/// a search ends without any. Unordered reads may run backwards: those steps do not count.
fn smallest_steps(pairs: u64, mut step: impl FnMut() -> u64) -> Option<Vec<u64>> {
    (0..STEP_EVENTS)
        .map(|_| {
            let mut smallest = u64::MAX;
            let mut done = 0;
            while done < pairs || (smallest == u64::MAX && done < STEP_PAIRS_MAX) {
                let ticks = step();
                if ticks != 0 && ticks < 1 << 63 {
                    smallest = smallest.min(ticks);
                }
                done += 1;
            }
            (smallest != u64::MAX).then_some(smallest)
        })
        .collect()
}

#[cfg(test)]
mod tests;

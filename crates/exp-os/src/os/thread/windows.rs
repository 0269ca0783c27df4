//! Windows over many threads each.

use super::{Beside, Faults, Made, TRIALS, began_early, maker, watch};
use bench::prelude::*;
use metal::clock::{self, monotonic_raw_ns};
use metal::process;
use metal::thread::{Maker, Work};

/// Least slice of the scheduler, in ns: its base of 0.75 ms, which grows with the CPUs.
const SLICE_NS: f64 = 0.75e6;
/// Share of its windows without the process above which a note reports it: the kernel's own work
/// for interrupts, and the CPU time's grain, are below.
const OTHERS_SHARE: f64 = 0.1;
/// Windows of one round over a sequence or a crowd, at most.
const BATCHES_MOST: usize = 1000;

/// Slices of the scheduler that a crowd used up; each ends in a switch: of its own CPU time,
/// because what others take of the CPU lets it make none more.
pub(super) fn slices(used_ns: u64) -> u64 {
    (used_ns as f64 / SLICE_NS).ceil() as u64
}

/// Windows over many threads each: a sequence, or a crowd that lives together.
pub(super) fn measure_batches(
    case: &Case,
    made: Made,
    bytes: usize,
    bench: &mut Bench,
) -> Result<()> {
    let (count, together) = match (made.count, made.alive) {
        (Some(count), None) => (count, false),
        (None, Some(count)) => (count, true),
        _ => bail!("{} is neither a sequence nor a crowd", case.id),
    };
    let (mut maker, _) = maker(case, &made, bytes, bench)?;
    let work = match made.work {
        Some(Beside::Stress) => Work::Stress,
        None => Work::Nothing,
    };
    let window = |maker: &mut Maker| {
        if together { maker.together(count, work) } else { maker.in_sequence(count) }
    };
    let clock = bench.order().clock();
    if together {
        window(&mut maker)?;
    }
    let mut early = 0;
    for _ in 0..TRIALS {
        early += u64::from(began_early(&maker.one(watch(clock))?));
    }
    let mut values = Vec::new();
    let faults = process::rusage_self().minflt;
    let used_ns = clock::syscall_clock_gettime(clock::Clock::PROCESS_CPU);
    let until = monotonic_raw_ns() + bench.order().case_ns;
    while values.is_empty() || (monotonic_raw_ns() < until && values.len() < BATCHES_MOST) {
        let start = clock.start();
        window(&mut maker)?;
        values.push(clock.between_ns(start, clock.end()) / count as f64);
    }
    let used_ns = clock::syscall_clock_gettime(clock::Clock::PROCESS_CPU) - used_ns;
    let threads_timed = values.len() as u64 * count;
    let faults = Faults::since(faults, threads_timed);
    let used_per_thread_ns = used_ns as f64 / threads_timed as f64;
    let threads = threads_timed + u64::from(together) * count;
    let preempted = threads * early / TRIALS as u64;
    let threads_ns: f64 = values.iter().sum::<f64>() * count as f64;
    let slices = if together { slices(used_ns) } else { 0 };
    bench.declare(Declared::Switches(preempted + slices));
    let samples = bench
        .record(case, "create_join", Values::batches(count, values))
        .context("threads in one window")?;
    faults.tell(&made, samples);
    // Maker and thread hand the CPU over by waiting, which lets others in without an involuntary
    // switch: only the CPU time shows them.
    let others = 1.0 - used_per_thread_ns * threads_timed as f64 / threads_ns;
    if others > OTHERS_SHARE && work == Work::Nothing {
        samples.notes.push(format!(
            "other processes used the CPU for {:.0} % of the windows",
            100.0 * others
        ));
    }
    samples.set_quantities([("cpu_time_per_thread_ns", used_per_thread_ns)]);
    Ok(())
}

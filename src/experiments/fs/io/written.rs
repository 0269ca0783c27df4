//! What the threads of a case did, as its figures.

use super::crew::{Did, Task};
use crate::experiments::fs::file::Moved;
use crate::measure::{Bench, Clock, Settled};
use crate::stats::histogram::Histogram as Distribution;
use anyhow::Result;
use record::case::Case;
use record::event::Samples;
use std::collections::BTreeSet;

/// Threads should have worked at the same time for this share of the longest of their stretches.
const OVERLAP: f64 = 0.8;

/// Writes the figures of a case down.
pub(super) fn down(
    bench: &mut Bench,
    case: &Case,
    task: &Task,
    cpus: &[usize],
    did: &[Did],
    moved: &Moved,
    settled: Settled,
) -> Result<()> {
    let clock = task.clock;
    let (listed, all) = latencies(clock, did);
    let samples = match did.len() {
        1 => bench.record_counted(case, "latency", listed, &all)?,
        _ => bench.record_counted_apart(case, "latency", listed, &all)?,
    };
    describe(samples, task, moved, settled);
    samples.notes.extend(notes(task, cpus, did));
    let operations: u64 = did.iter().map(|did| did.ran.operations).sum();
    let rate: f64 = did.iter().map(|did| rate(clock, did)).sum();
    let block = task.work.block as f64;
    let samples = rated(bench, case, "iops", operations, rate, did.len())?;
    let quantities = &mut samples.quantities;
    let mean: f64 = did.iter().map(|did| did.ran.mean_in_flight).sum();
    let most: u32 = did.iter().map(|did| did.ran.most_in_flight).sum();
    quantities.insert("in_flight_mean".to_owned(), mean);
    quantities.insert("in_flight_most".to_owned(), f64::from(most));
    quantities.insert("operations".to_owned(), operations as f64);
    rated(
        bench,
        case,
        "bandwidth",
        operations,
        rate * block,
        did.len(),
    )?;
    let threads_ns: u64 = did.iter().map(|did| did.ran.thread_cpu_ns).sum();
    let workers: Option<u64> = did.iter().map(|did| did.workers_ns).sum();
    let cpu_ns = threads_ns + workers.unwrap_or(0);
    let each = cpu_ns as f64 / operations as f64;
    let samples = rated(bench, case, "cpu", operations, each, did.len())?;
    match workers {
        Some(ns) if task.work.is_ring => {
            samples.quantities.insert("workers_ns".to_owned(), ns as f64);
        }
        None => samples.notes.push(
            "the kernel does not tell what its workers for rings took (/proc/self/task/*/schedstat)"
                .to_owned(),
        ),
        Some(_) => {}
    }
    Ok(())
}

fn rated<'bench>(
    bench: &'bench mut Bench,
    case: &Case,
    metric: &str,
    operations: u64,
    value: f64,
    threads: usize,
) -> Result<&'bench mut Samples> {
    match threads {
        1 => bench.record_batches(case, metric, operations, vec![value]),
        _ => bench.record_apart(case, metric, vec![value]),
    }
}

/// The first latencies of each thread, and the distribution of all, in ns.
fn latencies(clock: Clock, did: &[Did]) -> (Vec<f64>, Distribution) {
    let mut all = Distribution::new();
    let mut listed = Vec::new();
    for did in did {
        let log = &did.log;
        listed.extend(log.first().iter().map(|ticks| clock.ns(*ticks)));
        if log.total() == log.first().len() as u64 {
            // All are known as they were.
            log.first()
                .iter()
                .for_each(|ticks| all.record(clock.ns(*ticks)));
            continue;
        }
        for (ticks, count) in log.counts() {
            (0..count).for_each(|_| all.record(clock.ns(ticks)));
        }
    }
    (listed, all)
}

/// Operations per second of a thread with a full queue; of all that it did where that was never so long.
fn rate(clock: Clock, did: &Did) -> f64 {
    let ran = &did.ran;
    let steady = ran.steady;
    let (operations, ns) = match steady.operations {
        0 => (
            ran.operations,
            clock.between_ns(ran.first_tick, ran.last_tick),
        ),
        operations => (
            operations,
            clock.between_ns(steady.from_tick, steady.until_tick),
        ),
    };
    operations as f64 * 1e9 / ns
}

/// What stands beside the case's first figure.
fn describe(samples: &mut Samples, task: &Task, moved: &Moved, settled: Settled) {
    settled.write(&mut samples.quantities);
    samples.notes.extend(settled.note());
    match task.work.mode {
        // That these do not come from a device, or not at once, is what they are.
        "cached" | "buffered" => {
            if let Some(bytes) = moved.by_device() {
                samples
                    .quantities
                    .insert("device_bytes".to_owned(), bytes as f64);
            }
        }
        _ => moved.describe(samples),
    }
}

fn notes(task: &Task, cpus: &[usize], did: &[Did]) -> Vec<String> {
    let mut notes: Vec<String> = did.iter().flat_map(|did| did.notes.clone()).collect();
    notes.dedup();
    let own: BTreeSet<usize> = cpus.iter().copied().collect();
    if own.len() < cpus.len() {
        notes.push(format!(
            "{} threads took turns on {} CPUs",
            cpus.len(),
            own.len()
        ));
    }
    let stretch = |did: &Did| (did.ran.first_tick, did.ran.last_tick);
    let begin = did.iter().map(|did| stretch(did).0).max().unwrap_or(0);
    let end = did.iter().map(|did| stretch(did).1).min().unwrap_or(0);
    let longest = did.iter().map(|did| stretch(did).1 - stretch(did).0).max();
    let overlap = end.saturating_sub(begin) as f64 / longest.unwrap_or(1).max(1) as f64;
    if overlap < OVERLAP {
        notes.push(format!(
            "the threads worked together for {:.0} % of the time of the slowest only: the rate is the sum \
             of each one's own",
            100.0 * overlap
        ));
    }
    if task.clock == Clock::Monotonic && cpus.len() > 1 {
        notes.push("timed by the kernel's clock".to_owned());
    }
    notes
}

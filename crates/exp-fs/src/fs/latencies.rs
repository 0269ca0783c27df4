//! Latencies that engines logged, in ns, and a clock that several CPUs share.

use anyhow::Result;
use bench::measure::{Bench, Clock};
use metal::io::Latencies;
use stats::histogram::Histogram;

/// Single latencies that a log keeps as they are; all are counted.
pub(super) const LISTED: usize = 20_000;

pub(super) fn in_ns<'log>(
    clock: Clock,
    logs: impl Iterator<Item = &'log Latencies>,
) -> (Vec<f64>, Histogram) {
    let mut all = Histogram::default();
    let mut listed = Vec::new();
    for log in logs {
        listed.extend(log.first().iter().map(|ticks| clock.ns(*ticks)));
        if log.total() == log.first().len() as u64 {
            // All are known as they were.
            log.first().iter().for_each(|ticks| all.record(clock.ns(*ticks)));
            continue;
        }
        for (ticks, count) in log.counts() {
            (0..count).for_each(|_| all.record(clock.ns(ticks)));
        }
    }
    (listed, all)
}

/// A clock that may be compared between CPUs over so many ns.
pub(super) fn common_clock(bench: &mut Bench, cpus: &[usize], window_ns: f64) -> Result<Clock> {
    let mut clock = bench.order().clock();
    for cpu in cpus.iter().filter(|cpu| **cpu != cpus[0]) {
        if !bench.offset(cpus[0], *cpu)?.allows(window_ns) {
            clock = Clock::Monotonic;
        }
    }
    Ok(clock)
}

//! What the threads of a case did, as its figures.

use super::crew::{Did, Task};
use super::watch::Seen;
use crate::fs::latencies::in_ns;
use crate::fs::offered::describe_place;
use crate::fs::window;
use anyhow::{Result, ensure};
use bench::measure::{Bench, Clock, Settled, Values};
use laws::fs::io::Mode;
use record::case::Case;
use record::event::Samples;
use std::collections::BTreeSet;

/// Threads should have worked at the same time for this share of the longest of their stretches.
const OVERLAP: f64 = 0.8;

pub(super) fn down(
    bench: &mut Bench,
    case: &Case,
    task: &Task,
    cpus: &[usize],
    mut did: Vec<Did>,
    seen: &Seen,
    settled: Settled,
) -> Result<()> {
    let windows = did.iter_mut().filter_map(|did| did.window.take()).collect();
    let did = did.as_slice();
    let clock = task.clock;
    let (listed, all) = in_ns(clock, did.iter().map(|did| &did.log));
    let is_alone = did.len() == 1;
    let latencies = Values::counted(listed, &all);
    let latencies = if is_alone { latencies } else { latencies.apart() };
    let samples = bench.record(case, "latency", latencies)?;
    describe_place(samples, case, settled);
    describe(samples, task, seen);
    samples.notes.extend(notes(task, cpus, did));
    let operations: u64 = did.iter().map(|did| did.ran.operations).sum();
    let of_all = |value: f64| match is_alone {
        true => Values::batches(operations, vec![value]),
        false => Values::block(value).apart(),
    };
    let steady = task.is_rate.then(|| window::settled(windows)).transpose()?;
    let rate = match (did, &steady) {
        (_, Some(steady)) => steady.rate(),
        ([alone], None) => rate(clock, alone),
        (_, None) => shared_rate(clock, task.work.is_ring(), did)?,
    };
    let block = task.work.block as f64;
    let [per_second, bytes] = window::names(case);
    let samples = bench.record(case, per_second, of_all(rate))?;
    if let Some(steady) = &steady {
        steady.describe(samples, block);
    }
    let most: u32 = did.iter().map(|did| did.ran.most_in_flight).sum();
    let at_device = at_device(clock, did, seen).filter(|_| task.work.is_direct());
    let quantities = [
        ("in_flight_mean", Some(did.iter().map(|did| did.ran.mean_in_flight).sum())),
        ("in_flight_most", Some(f64::from(most))),
        ("operations", Some(operations as f64)),
        ("device_in_flight", at_device),
    ];
    samples.set_quantities(quantities);
    let asked = task.work.depth * task.work.threads;
    samples.notes.extend(at_device.and_then(|at_device| queue_note(at_device, asked)));
    bench.record(case, bytes, of_all(rate * block))?;
    let threads_ns: u64 = did.iter().map(|did| did.ran.thread_cpu_ns).sum();
    let cpu_ns = threads_ns + seen.workers_ns.unwrap_or(0);
    let each = cpu_ns as f64 / operations as f64;
    let samples = bench.record(case, "cpu", of_all(each))?;
    let of_ring = seen.workers_ns.filter(|_| task.work.is_ring());
    samples.set_quantities([("workers_ns", of_ring.map(|ns| ns as f64))]);
    let untold =
        "the kernel does not report the CPU time of io_uring workers (/proc/self/task/*/schedstat)";
    samples.notes.extend(seen.workers_ns.is_none().then(|| untold.to_owned()));
    Ok(())
}

/// Operations per second of a thread with a full queue; of all that it did where that was never so
/// long.
fn rate(clock: Clock, did: &Did) -> f64 {
    let ran = &did.ran;
    let steady = ran.steady;
    let (operations, ns) = match steady.operations {
        0 => (ran.operations, clock.between_ns(ran.first_tick, ran.last_tick)),
        operations => (operations, clock.between_ns(steady.from_tick, steady.until_tick)),
    };
    operations as f64 * 1e9 / ns
}

/// Operations per second of all threads in the time in which all worked: from the latest begin to
/// the earliest end of a full queue.
fn shared_rate(clock: Clock, is_ring: bool, did: &[Did]) -> Result<f64> {
    let steady = did.iter().map(|did| did.ran.steady);
    let from = steady.clone().map(|steady| steady.from_tick).max();
    let until = steady.map(|steady| steady.until_tick).min();
    let (from, until) = (from.unwrap_or(0), until.unwrap_or(0));
    ensure!(from < until, "the threads of the case never all worked at the same time");
    let done = |did: &Did| done_by(is_ring, did, until) - done_by(is_ring, did, from);
    let operations: f64 = did.iter().map(done).sum();
    Ok(operations * 1e9 / clock.between_ns(from, until))
}

/// Operations that a thread had done by a tick, the part of the one that it was at included. One
/// after another, each took its share of the run by its latency; of so many that not all are
/// listed, and of a ring's, each as much as any other.
fn done_by(is_ring: bool, did: &Did, tick: u64) -> f64 {
    let (ran, listed) = (&did.ran, did.log.first());
    let evenly = |from: u64, until: u64, operations: u64| {
        let share = tick.saturating_sub(from) as f64 / until.saturating_sub(from).max(1) as f64;
        operations as f64 * share.min(1.0)
    };
    if is_ring {
        let steady = ran.steady;
        return evenly(steady.from_tick, steady.until_tick, steady.operations);
    }
    let sum: u64 = listed.iter().sum();
    if listed.len() as u64 != ran.operations || sum == 0 {
        return evenly(ran.first_tick, ran.last_tick, ran.operations);
    }
    // What is between the operations counts with each as much as it took.
    let run = ran.last_tick - ran.first_tick;
    let scale = sum as f64 / run.max(1) as f64;
    let mut left = tick.saturating_sub(ran.first_tick) as f64 * scale;
    let mut done = 0.0;
    for ticks in listed.iter().map(|ticks| *ticks as f64) {
        if left < ticks {
            return done + left / ticks;
        }
        left -= ticks;
        done += 1.0;
    }
    done
}

/// Mean number of requests at the device over the run, including other processes'.
fn at_device(clock: Clock, did: &[Did], seen: &Seen) -> Option<f64> {
    let first = did.iter().map(|did| did.ran.first_tick).min()?;
    let last = did.iter().map(|did| did.ran.last_tick).max()?;
    let ns = clock.between_ns(first, last);
    (ns > 0.0).then_some(seen.waited_ns? / ns)
}

/// A note if fewer requests were at the device than the case asked for.
fn queue_note(at_device: f64, asked: u64) -> Option<String> {
    (asked > 1 && at_device < asked as f64 / 2.0).then(|| {
        format!(
            "of {asked} operations in flight {at_device:.1} were at the device on average; the \
             others waited in the kernel before submission or after completion"
        )
    })
}

fn describe(samples: &mut Samples, task: &Task, seen: &Seen) {
    let moved = &seen.moved;
    match task.work.mode {
        // That these do not come from a device, or not at once, is what they are.
        Mode::Cached | Mode::Buffered => {
            samples.set_quantities([("device_bytes", moved.by_device().map(|bytes| bytes as f64))]);
        }
        _ => moved.describe(samples),
    }
}

fn notes(task: &Task, cpus: &[usize], did: &[Did]) -> Vec<String> {
    let mut notes: Vec<String> = did.iter().flat_map(|did| did.notes.clone()).collect();
    notes.dedup();
    let own: BTreeSet<usize> = cpus.iter().copied().collect();
    if own.len() < cpus.len() {
        notes.push(format!("{} threads shared {} CPUs", cpus.len(), own.len()));
    }
    let runs = || did.iter().map(|did| &did.ran);
    let begin = runs().map(|ran| ran.first_tick).max().unwrap_or(0);
    let end = runs().map(|ran| ran.last_tick).min().unwrap_or(0);
    let longest = runs().map(|ran| ran.last_tick - ran.first_tick).max();
    let overlap = end.saturating_sub(begin) as f64 / longest.unwrap_or(1).max(1) as f64;
    if overlap < OVERLAP {
        notes.push(format!(
            "all threads worked at the same time for only {:.0} % of the slowest thread's time; \
             the rate covers that part",
            100.0 * overlap
        ));
    }
    if task.clock == Clock::Monotonic && cpus.len() > 1 {
        notes.push("timed by the kernel's clock".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::crew::Did;
    use super::super::watch::Seen;
    use super::{at_device, queue_note, shared_rate};
    use crate::fs::file::Account;
    use bench::measure::Clock;
    use metal::io::{Latencies, Ran, Steady};

    fn did(latencies: &[u64], begin: u64) -> Did {
        let mut log = Latencies::new(100);
        latencies.iter().for_each(|ticks| log.add(*ticks));
        let (operations, end) = (latencies.len() as u64, begin + latencies.iter().sum::<u64>());
        Did {
            ran: Ran {
                operations,
                bytes: operations,
                first_tick: begin,
                last_tick: end,
                steady: Steady { from_tick: begin, until_tick: end, operations },
                most_in_flight: 1,
                mean_in_flight: 1.0,
                thread_cpu_ns: 1,
            },
            log,
            window: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_rate_of_several_is_that_of_the_time_in_which_all_worked() {
        // One ends at 40 ns; what the other is slow with afterwards is not both's.
        let both = [did(&[10; 4], 0), did(&[10, 10, 10, 50], 0)];
        let rate = shared_rate(Clock::Monotonic, false, &both).expect("they met");
        assert!((rate - 7.2 / 40.0 * 1e9).abs() < 1.0, "{rate}");
        // Of one that began earlier only what it did from then on counts.
        let both = [did(&[10; 8], 0), did(&[20; 2], 35)];
        let rate = shared_rate(Clock::Monotonic, false, &both).expect("they met");
        assert!((rate - (4.0 + 2.0) / 40.0 * 1e9).abs() < 1.0, "{rate}");
        let apart = [did(&[10; 4], 0), did(&[10; 4], 40)];
        assert!(shared_rate(Clock::Monotonic, false, &apart).is_err());
    }

    #[test]
    fn what_was_at_the_device_is_told_where_it_is_little() {
        let seen = Seen {
            moved: Account::begin(None).end(0),
            workers_ns: Some(0),
            waited_ns: Some(4000.0),
        };
        let mean = at_device(Clock::Monotonic, &[did(&[100; 5], 0)], &seen);
        assert_eq!(mean, Some(8.0));
        assert!(queue_note(8.0, 128).is_some_and(|note| note.contains("8.0")));
        assert_eq!(queue_note(8.0, 16), None);
        assert_eq!(queue_note(0.3, 1), None, "one is there, or on its way");
    }
}

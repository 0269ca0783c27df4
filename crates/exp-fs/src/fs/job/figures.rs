//! What the members of a job did, and what was counted meanwhile, as figures.

use super::{Job, JobRun, MemberRun, Seen};
use crate::fs::offered::in_ns;
use crate::fs::prelude::*;
use crate::fs::window;
use metal::io::Ran;

/// Members should have worked at the same time for this share of the longest of their stretches.
const OVERLAP: f64 = 0.8;

impl JobRun {
    /// Records the figures, `main` first: beside it stands what was counted, and what `describe`
    /// adds.
    pub(in crate::fs) fn record(
        mut self,
        bench: &mut Bench,
        case: &Case,
        job: &Job,
        main: &'static str,
        describe: impl FnOnce(&mut Samples),
    ) -> Result<()> {
        let windows = self.members.iter_mut().filter_map(|did| did.window.take()).collect();
        let steady = job.is_rate.then(|| window::settled(windows)).transpose()?;
        let JobRun { members, seen } = &self;
        let (listed, all) = in_ns(job.clock, members.iter().map(|did| &did.log));
        let (rates, cpu, count) = per_run(job, members, seen)?;
        let (rates, k) = match &steady {
            // A part of several runs is no number of operations.
            Some(steady) => (vec![steady.rate()], if job.pass.is_some() { 0 } else { count }),
            None => (rates, count),
        };
        let scaled = |scale: &dyn Fn(f64) -> f64| rates.iter().map(|rate| scale(*rate)).collect();
        let block = job.work.block as f64;
        let mut figures = vec![
            ("latency", Values::counted(listed, &all)),
            ("iops", Values::batches(k, rates.clone())),
            ("bandwidth", Values::batches(k, scaled(&|rate| rate * block))),
            ("cpu", Values::batches(count, cpu)),
        ];
        if job.pass.is_some() {
            figures.push(("latency_per_block", Values::batches(k, scaled(&|rate| 1e9 / rate))));
        }
        figures.order_by_key(|(metric, _)| *metric != main);
        let mut describe = Some(describe);
        for (metric, values) in figures {
            let values = if members.len() == 1 { values } else { values.apart() };
            let samples = bench.record(case, metric, values)?;
            if let Some(describe) = describe.take() {
                seen.describe(samples);
                samples.notes.extend(notes(job, members));
                describe(samples);
                if job.pass.is_some() {
                    samples.set_quantities(of_passes(job, &members[0]));
                }
            }
            match metric {
                "iops" => {
                    steady.iter().for_each(|steady| steady.describe(samples, block));
                    describe_queue(samples, job, members, seen);
                }
                "cpu" => seen.describe_workers(samples, job.work.is_ring()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Of each run, or of all members together: operations per second and CPU time of an operation, in
/// ns; and the operations of each, 0 where these differ.
fn per_run(job: &Job, members: &[MemberRun], seen: &Seen) -> Result<(Vec<f64>, Vec<f64>, u64)> {
    let workers_ns = seen.workers_ns.unwrap_or(0);
    let cpu = |runs: &[Ran]| {
        let cpu_ns: u64 = runs.iter().map(|ran| ran.thread_cpu_ns).sum();
        let operations: u64 = runs.iter().map(|ran| ran.operations).sum();
        (cpu_ns + workers_ns) as f64 / operations as f64
    };
    match members {
        [alone] => {
            let runs = &alone.runs;
            let first = runs.first().context("nothing was done")?.operations;
            let is_even = runs.iter().all(|ran| ran.operations == first);
            let rates = runs.iter().map(|ran| rate(job.clock, ran)).collect();
            let cpu = runs.iter().map(|ran| cpu(std::slice::from_ref(ran))).collect();
            Ok((rates, cpu, if is_even { first } else { 0 }))
        }
        all => {
            let rate = shared_rate(job.clock, job.work.is_ring(), all)?;
            let runs: Vec<Ran> = all.iter().flat_map(|did| did.runs.clone()).collect();
            Ok((vec![rate], vec![cpu(&runs)], 0))
        }
    }
}

/// Operations per second of a member with a full queue; of all that it did where that was never so
/// long.
fn rate(clock: Clock, ran: &Ran) -> f64 {
    let steady = ran.steady;
    let (operations, ns) = match steady.operations {
        0 => (ran.operations, clock.between_ns(ran.first_tick, ran.last_tick)),
        operations => (operations, clock.between_ns(steady.from_tick, steady.until_tick)),
    };
    operations as f64 * 1e9 / ns
}

/// Operations per second of all threads in the time in which all worked: from the latest begin to
/// the earliest end of a full queue.
fn shared_rate(clock: Clock, is_ring: bool, did: &[MemberRun]) -> Result<f64> {
    let steady = did.iter().map(|did| did.runs[0].steady);
    let from = steady.clone().map(|steady| steady.from_tick).max();
    let until = steady.map(|steady| steady.until_tick).min();
    let (from, until) = (from.unwrap_or(0), until.unwrap_or(0));
    ensure!(from < until, "the threads of the case never all worked at the same time");
    let done = |did: &MemberRun| {
        let by = |tick| done_by(is_ring, &did.runs[0], did.log.first(), tick);
        by(until) - by(from)
    };
    let operations: f64 = did.iter().map(done).sum();
    Ok(operations * 1e9 / clock.between_ns(from, until))
}

/// Operations that a thread had done by a tick, the part of the one that it was at included. One
/// after another, each took its share of the run by its latency; of so many that not all are
/// listed, and of a ring's, each as much as any other.
pub(super) fn done_by(is_ring: bool, ran: &Ran, listed: &[u64], tick: u64) -> f64 {
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
fn at_device(clock: Clock, did: &[MemberRun], seen: &Seen) -> Option<f64> {
    let first = did.iter().map(|did| did.runs[0].first_tick).min()?;
    let last = did.iter().map(|did| did.runs[0].last_tick).max()?;
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

fn of_passes(job: &Job, did: &MemberRun) -> [(&'static str, Option<f64>); 3] {
    [
        ("passes", Some(did.passes as f64)),
        ("span_bytes", Some(job.regions[0].bytes as f64)),
        ("ahead_bytes", Some(did.ahead as f64)),
    ]
}

/// What was in flight, beside the rate of one run.
fn describe_queue(samples: &mut Samples, job: &Job, members: &[MemberRun], seen: &Seen) {
    if job.pass.is_some() {
        return;
    }
    let runs = || members.iter().map(|did| did.runs[0]);
    let at_device = at_device(job.clock, members, seen).filter(|_| job.work.is_direct());
    let most: u32 = runs().map(|ran| ran.most_in_flight).sum();
    let operations: u64 = runs().map(|ran| ran.operations).sum();
    samples.set_quantities([
        ("in_flight_mean", Some(runs().map(|ran| ran.mean_in_flight).sum())),
        ("in_flight_most", Some(f64::from(most))),
        ("operations", Some(operations as f64)),
        ("device_in_flight", at_device),
    ]);
    let asked = job.work.depth * job.work.threads;
    samples.notes.extend(at_device.and_then(|at_device| queue_note(at_device, asked)));
}

impl Seen {
    fn describe(&self, samples: &mut Samples) {
        if self.is_by_device {
            self.moved.describe(samples);
        }
    }

    fn describe_workers(&self, samples: &mut Samples, is_ring: bool) {
        let of_ring = self.workers_ns.filter(|_| is_ring);
        samples.set_quantities([("workers_ns", of_ring.map(|ns| ns as f64))]);
        let uncounted = "the kernel does not report the CPU time of io_uring workers \
                         (/proc/self/task/*/schedstat)";
        samples.notes.extend(self.workers_ns.is_none().then(|| uncounted.to_owned()));
    }
}

fn notes(job: &Job, members: &[MemberRun]) -> Vec<String> {
    let mut notes: Vec<String> = members.iter().flat_map(|did| did.notes.clone()).collect();
    notes.dedup();
    let count = members.len();
    if count == 1 {
        return notes;
    }
    let cpus: BTreeSet<usize> = job.cpus.iter().copied().gather();
    if cpus.len() < count {
        notes.push(format!("{count} threads shared {} CPUs", cpus.len()));
    }
    let runs = || members.iter().map(|did| &did.runs[0]);
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
    if job.clock == Clock::Monotonic {
        notes.push("timed by the kernel's clock".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{at_device, queue_note, shared_rate};
    use crate::fs::job::account::Account;
    use crate::fs::job::{MemberRun, Seen};
    use crate::fs::prelude::*;
    use metal::io::{Latencies, Ran, Steady};

    fn did(latencies: &[u64], begin: u64) -> MemberRun {
        let mut log = Latencies::new(100);
        latencies.iter().for_each(|ticks| log.add(*ticks));
        let (operations, end) = (latencies.len() as u64, begin + latencies.iter().sum::<u64>());
        MemberRun {
            runs: vec![Ran {
                operations,
                bytes: operations,
                first_tick: begin,
                last_tick: end,
                steady: Steady { from_tick: begin, until_tick: end, operations },
                most_in_flight: 1,
                mean_in_flight: 1.0,
                thread_cpu_ns: 1,
            }],
            passes: 1,
            log,
            window: None,
            ahead: 0,
            bytes: operations,
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
            server: None,
            is_by_device: true,
        };
        let mean = at_device(Clock::Monotonic, &[did(&[100; 5], 0)], &seen);
        assert_eq!(mean, Some(8.0));
        assert!(queue_note(8.0, 128).is_some_and(|note| note.contains("8.0")));
        assert_eq!(queue_note(8.0, 16), None);
        assert_eq!(queue_note(0.3, 1), None, "one is there, or on its way");
    }
}

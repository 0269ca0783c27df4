//! A round: the readers set to work, and what they had written down.

use super::Competing;
use super::files::{Files, Prepared};
use super::plan::{self, READS_LEAST};
use super::readers::{Errand, Had, Reader, Shared, jain, read};
use crate::fs::file::{Account, BLOCK_BYTES, Moved, order_seed};
use crate::fs::latencies::common_clock;
use crate::fs::offered::{describe_place, put};
use anyhow::{Context, Result};
use bench::experiment::Fields;
use bench::measure::{Bench, Clock, Declared, Settled, Values, settle};
use laws::fs::Pattern;
use record::case::{Case, Series};
use record::event::Samples;
use record::key::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Window of a rehearsal, in ns.
const REHEARSAL_NS: f64 = 1e6;
/// A CPU that readers used for this share of the window is what they wait for.
const BUSY: f64 = 0.9;

struct Round<'dir> {
    dir: &'dir Path,
    window_ns: f64,
    round: Duration,
    seed: u64,
    files: Files,
    settled: Option<Settled>,
}

pub(super) fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
    let dir = bench.order().directory()?;
    let dir = dir.to_owned();
    let window_ns = match bench.order().rehearsal {
        true => REHEARSAL_NS,
        false => series.setting("window").context("no window is set")? as f64,
    };
    let mut round = Round {
        dir: &dir,
        window_ns,
        round: Duration::from_nanos(window_ns as u64) * series.cases.len() as u32,
        seed: bench.order().seed,
        files: Files::default(),
        settled: None,
    };
    bench
        .each_of::<Competing>(series, |bench, case, competing| round.case(case, &competing, bench));
    Ok(())
}

impl Round<'_> {
    fn case(&mut self, case: &Case, competing: &Competing, bench: &mut Bench) -> Result<()> {
        let size = competing.size;
        let count = competing.competitors as usize + 1;
        let files = self.files.cold(self.dir, size, count)?;
        // Once a round, before its first case.
        let settled = match self.settled {
            Some(settled) => settled,
            None => *self.settled.insert(settle(&files[0].opened.file, self.round)?),
        };
        let cpus = plan::cpus(&bench.order().cpus, count);
        let errand = Errand {
            kind: competing.readers,
            clock: common_clock(bench, &cpus, self.window_ns)?,
            window_ns: self.window_ns,
            is_free: bench.order().is_free(),
        };
        let readers = of_files(files, &cpus, competing, self.seed);
        let number = case.at.get("device_number").and_then(Value::text);
        let account = Account::begin(number);
        let shared = read(&readers, errand)?;
        // Processes have been reaped, and with that the kernel has added their counts to this
        // one's.
        let moved = account.end(shared.readers.iter().map(|had| had.asked).sum());
        bench.declare(Declared::Cpus(&cpus));
        bench.declare(Declared::Switches(switches_among(&shared.readers)));
        let told = Told { settled, moved, notes: files[0].opened.notes.clone() };
        told.write(case, bench, &shared, errand.clock)
    }
}

fn of_files<'file>(
    files: &'file [Prepared],
    cpus: &[usize],
    competing: &Competing,
    seed: u64,
) -> Vec<Reader<'file>> {
    // Other places in each round and case, or a device remembers.
    let mut draw = fastrand::Rng::with_seed(order_seed(seed, &competing.id()));
    let blocks = competing.size / BLOCK_BYTES as u64;
    let placed = files.iter().zip(cpus);
    placed
        .map(|(file, cpu)| Reader {
            file: &file.opened.file,
            seed: file.seed,
            blocks,
            first: draw.u64(..),
            random: competing.pattern == Pattern::Random,
            cpu: *cpu,
        })
        .collect()
}

/// Involuntary switches of readers that have a CPU in common: each other's.
fn switches_among(readers: &[Had]) -> u64 {
    let crowded = |cpu: usize| readers.iter().filter(|had| had.cpu == cpu).count() > 1;
    let of = readers.iter().filter(|had| crowded(had.cpu));
    of.map(|had| had.forced).sum()
}

struct Told {
    settled: Settled,
    moved: Moved,
    notes: Vec<String>,
}

impl Told {
    fn write(self, case: &Case, bench: &mut Bench, shared: &Shared, clock: Clock) -> Result<()> {
        let readers = &shared.readers;
        let sum = |of: fn(&Had) -> u64| readers.iter().map(of).sum::<u64>();
        let units: Vec<f64> = readers.iter().map(|had| had.units).collect();
        let (reads, cpu_reads) = (sum(|had| had.reads), sum(|had| had.cpu_reads));
        let latencies: Vec<f64> = shared.latencies.iter().map(|ticks| clock.ns(*ticks)).collect();
        let samples = bench.record(case, "latency", latencies)?;
        self.describe(case, samples, shared);
        let latency_all = clock.ns(sum(|had| had.ticks)) / reads as f64;
        bench.record(case, "latency_all", Values::batches(reads, vec![latency_all]))?;
        let bytes = units.iter().sum::<f64>() * BLOCK_BYTES as f64;
        let bandwidth = bytes * 1e9 / shared.window_ns;
        bench.record(case, "bandwidth", Values::batches(reads, vec![bandwidth]))?;
        if cpu_reads > 0 {
            let cpu = sum(|had| had.cpu_ns) as f64 / cpu_reads as f64;
            bench.record(case, "cpu", Values::batches(cpu_reads, vec![cpu]))?;
        }
        if let Some(index) = jain(&units).filter(|_| units.len() > 1) {
            bench.record(case, "fairness", Values::batches(reads, vec![index]))?;
        }
        Ok(())
    }

    fn describe(self, case: &Case, samples: &mut Samples, shared: &Shared) {
        let of_reader = |least: bool| {
            let reads = shared.readers.iter().map(|had| had.units);
            match least {
                true => reads.fold(f64::INFINITY, f64::min),
                false => reads.fold(0.0, f64::max),
            }
        };
        let busiest = busiest(shared);
        let quantities = [
            ("window_ns", Some(shared.window_ns)),
            ("reads_least", Some(of_reader(true))),
            ("reads_most", Some(of_reader(false))),
            ("busiest_cpu_share", busiest.map(|(_, share)| share)),
        ];
        put(samples, quantities);
        describe_place(samples, case, self.settled);
        self.moved.describe(samples);
        samples.notes.extend(self.notes);
        if (shared.latencies.len() as u64) < READS_LEAST {
            samples.notes.push(format!(
                "the measured reader had {} reads in {:.1} s: the device is slow, or others have it",
                shared.latencies.len(),
                shared.window_ns / 1e9
            ));
        }
        if let Some((cpu, share)) = busiest.filter(|(_, share)| *share > BUSY) {
            samples.notes.push(format!(
                "readers used {:.0} % of CPU {cpu}: it is full, and not the device",
                share * 100.0
            ));
        }
    }
}

/// The CPU that readers used most, and for which share of the window.
fn busiest(shared: &Shared) -> Option<(usize, f64)> {
    let mut used: BTreeMap<usize, f64> = BTreeMap::new();
    for had in &shared.readers {
        let each = had.cpu_ns as f64 / had.cpu_reads.max(1) as f64;
        *used.entry(had.cpu).or_default() += each * had.units;
    }
    let shares = used.into_iter().map(|(cpu, ns)| (cpu, ns / shared.window_ns));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::{Prepared, busiest, of_files, switches_among};
    use crate::fs::contention::readers::{Had, Shared};
    use crate::fs::contention::{As, Competing};
    use crate::fs::file::Opened;
    use laws::fs::Pattern;
    use std::collections::BTreeSet;

    fn had(cpu: usize, units: f64, cpu_ns: u64, forced: u64) -> Had {
        Had {
            reads: units as u64,
            units,
            ticks: 1,
            cpu_ns,
            cpu_reads: units as u64,
            forced,
            cpu,
            asked: 4096,
        }
    }

    #[test]
    fn only_readers_that_share_a_cpu_disturb_each_other_as_planned() {
        let readers = [had(1, 9.0, 1, 5), had(0, 9.0, 1, 70), had(0, 9.0, 1, 7)];
        assert_eq!(switches_among(&readers), 77);
        assert_eq!(switches_among(&readers[..2]), 0);
    }

    #[test]
    fn readers_of_each_case_and_round_begin_elsewhere() {
        let opened = || Opened {
            file: tempfile::tempfile().expect("a file"),
            bytes: 64 << 20,
            memory_alignment: 512,
            offset_alignment: 512,
            notes: Vec::new(),
        };
        let files = [opened(), opened()].map(|opened| Prepared { opened, seed: 1 });
        let mut begun = BTreeSet::new();
        for competitors in [1_u64, 4] {
            let (readers, pattern) = (As::Processes, Pattern::Sequential);
            let case = Competing { readers, size: 64 << 20, pattern, competitors };
            for seed in [7, 8] {
                let readers = of_files(&files, &[0, 1], &case, seed);
                begun.extend(readers.iter().map(|reader| reader.first));
            }
        }
        assert_eq!(begun.len(), 8);
    }

    #[test]
    fn a_full_cpu_is_found_among_all() {
        let shared = Shared {
            window_ns: 1000.0,
            readers: vec![had(1, 10.0, 200, 0), had(0, 10.0, 500, 0), had(0, 10.0, 450, 0)],
            latencies: Vec::new(),
        };
        let (cpu, share) = busiest(&shared).expect("CPUs");
        assert_eq!(cpu, 0);
        assert!((share - 0.95).abs() < 1e-12, "{share}");
    }
}

//! A round: the readers' files, what it costs, the readers set to work on their CPUs, and what they
//! had written down.

use super::{As, Competing, ID};
use crate::fs::file::{self, BLOCK_BYTES, Made, Mode};
use crate::fs::io::workloads::one;
use crate::fs::job::{
    Below, Job, READS_LEAST, ReaderWindow, Region, Shared, WARM_READS, WINDOW_MOST_NS,
};
use crate::fs::offered::{common_clock, cost, describe_place, in_ns, settled, text_at};
use crate::fs::prelude::*;
use host::format_cpus;
use laws::fs::contention as law;
use laws::fs::io::{Files, Op, Work};

/// For stated costs: a reader made and ended, files looked at before a case, a worker's start and
/// end, in ns.
const PROCESS_NS: f64 = 7e5;
const THREAD_NS: f64 = 1.5e5;
const FILE_NS: f64 = 1e5;
const CASE_NS: f64 = 1e6;
const WORKER_NS: f64 = 35e6;

const REHEARSAL_NS: u64 = 1_000_000;
/// A CPU that readers used for this share of the window is what they wait for.
const BUSY: f64 = 0.9;

/// CPUs of the readers, the measured one's first: it has its own where there are two.
pub(super) fn cpus(allowed: &[usize], readers: usize) -> Vec<usize> {
    let Some((own, others)) = allowed.split_first() else {
        return Vec::new();
    };
    let others = if others.is_empty() { allowed } else { others };
    let competitors = others.iter().cycle().take(readers.saturating_sub(1));
    std::iter::once(own).chain(competitors).copied().collect()
}

/// The readers' CPUs, with each case.
pub(super) fn placed(site: &Site, mut series: Series) -> Series {
    for case in &mut series.cases {
        let cpus = cpus(&site.cpus, case.int("competitors").unwrap_or(0) as usize + 1);
        case.at.put_known("reader_cpu", cpus.first().map(|own| *own as u64));
        let mut shared = cpus.get(1..).unwrap_or_default().to_vec();
        shared.sort_unstable();
        shared.dedup();
        let shared = Some(shared).filter(|shared| !shared.is_empty());
        case.at.put_known("competitor_cpus", shared.map(|shared| format_cpus(&shared)));
    }
    series
}

/// A round: windows that last until a slow disk has answered often enough, at what is likely of its
/// class.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let window_ns = series.setting("window").unwrap_or(0) as f64;
    let files: u64 = sizes(&series.cases).values().sum();
    cost(WORKER_NS + files as f64 * FILE_NS, series, |case| {
        let Some(case) = Competing::from_id(&case.id) else { return 0.0 };
        let read_ns = law::latency(Facts::prior(site), case.readers()).range.likely;
        let reads_ns = (READS_LEAST as f64 * read_ns).min(WINDOW_MOST_NS);
        let making_ns = match case.readers {
            As::Processes => PROCESS_NS,
            As::Threads => THREAD_NS,
        };
        let each_ns = (making_ns + FILE_NS) * (case.competitors + 1) as f64;
        CASE_NS + window_ns.max(reads_ns) + WARM_READS as f64 * read_ns + each_ns
    })
}

pub(super) fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
    let window_ns = match bench.order().rehearsal {
        true => REHEARSAL_NS,
        false => series.setting("window").context("the window setting is missing")?,
    };
    let (dir, settled) = settled(bench, window_ns.saturating_mul(series.cases.len() as u64))?;
    bench.each_of::<Competing>(series, |bench, case, competing| {
        let job = job(bench, case, &competing, &dir, window_ns)?;
        let shared = job.competing(competing.readers)?;
        bench.declare(Declared::Cpus(&job.cpus));
        bench.declare(Declared::Switches(switches_among(&shared.readers)));
        let samples = record(case, bench, &shared, job.clock)?;
        describe(samples, &shared);
        describe_place(samples, case, settled);
        shared.moved.describe(samples);
        samples.notes.extend(shared.notes);
        Ok(())
    });
    Ok(())
}

/// What the readers of a case do: each reads a file of its own, from a place of its own in each
/// round and case, or a device remembers.
fn job<'case>(
    bench: &mut Bench,
    case: &'case Case,
    competing: &Competing,
    dir: &Path,
    window_ns: u64,
) -> Result<Job<'case>> {
    let &Competing { size, pattern, competitors, .. } = competing;
    let threads = competitors + 1;
    let cpus = cpus(&bench.order().cpus, threads as usize);
    let region = |index| {
        let path = dir.join(name(size, index));
        Region { path, start: 0, bytes: size, first: None }
    };
    let work = one(Op::Read, pattern, Mode::Direct, BLOCK_BYTES as u64);
    Ok(Job {
        work: Work { threads, files: Some(Files::Own), ..work },
        regions: (0..threads).map(region).collect(),
        pass: None,
        seed: file::order_seed(bench.order().seed, &case.id),
        clock: common_clock(bench, &cpus, window_ns as f64)?,
        window_ns,
        is_rate: false,
        least: READS_LEAST,
        most: u64::MAX,
        below: Below::Device(text_at(case, "device_number")),
        cpus,
        is_free: bench.order().is_free(),
    })
}

/// Involuntary switches of readers that have a CPU in common: each other's.
fn switches_among(readers: &[ReaderWindow]) -> u64 {
    let crowded = |cpu: usize| readers.iter().filter(|reader| reader.cpu == cpu).count() > 1;
    let of = readers.iter().filter(|reader| crowded(reader.cpu));
    of.map(|reader| reader.forced).sum()
}

/// Records the figures; the samples of the last, for what is to be said.
fn record<'bench>(
    case: &Case,
    bench: &'bench mut Bench,
    shared: &Shared,
    clock: Clock,
) -> Result<&'bench mut Samples> {
    let readers = &shared.readers;
    let sum = |of: fn(&ReaderWindow) -> u64| readers.iter().map(of).sum::<u64>();
    let units: Vec<f64> = readers.iter().map(|reader| reader.units).collect();
    let (reads, cpu_reads) = (sum(|reader| reader.reads), sum(|reader| reader.cpu_reads));
    let bytes = units.iter().sum::<f64>() * BLOCK_BYTES as f64;
    let fairness = jain(&units).filter(|_| units.len() > 1);
    let figures = [
        ("latency_all", reads, Some(clock.ns(sum(|reader| reader.ticks)) / reads as f64)),
        ("bandwidth", reads, Some(bytes * 1e9 / shared.window_ns)),
        ("cpu", cpu_reads, Some(sum(|reader| reader.cpu_ns) as f64 / cpu_reads as f64)),
        ("fairness", reads, fairness),
    ];
    for (metric, count, value) in figures {
        if let Some(value) = value.filter(|_| count > 0) {
            bench.record(case, metric, Values::batches(count, vec![value]))?;
        }
    }
    let (listed, all) = in_ns(clock, std::iter::once(&shared.latencies));
    bench.record(case, "latency", Values::counted(listed, &all))
}

fn describe(samples: &mut Samples, shared: &Shared) {
    let reads = || shared.readers.iter().map(|reader| reader.units);
    let busiest = busiest(shared);
    let quantities = [
        ("window_ns", Some(shared.window_ns)),
        ("reads_least", Some(reads().fold(f64::INFINITY, f64::min))),
        ("reads_most", Some(reads().fold(0.0, f64::max))),
        ("busiest_cpu_share", busiest.map(|(_, share)| share)),
    ];
    samples.set_quantities(quantities);
    let measured = shared.latencies.total();
    if measured < READS_LEAST {
        samples.notes.push(format!(
            "the measured reader completed only {measured} reads in {:.1} s: the device is slow or \
             busy",
            shared.window_ns / 1e9
        ));
    }
    if let Some((cpu, share)) = busiest.filter(|(_, share)| *share > BUSY) {
        samples.notes.push(format!(
            "the readers used {:.0} % of CPU {cpu}: the CPU is saturated, not the device",
            share * 100.0
        ));
    }
}

/// Jain's index of some shares: 1 where all are the same, one over their number where one is all.
fn jain(shares: &[f64]) -> Option<f64> {
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count;
    // As 1 / (1 + v²), which no rounding takes above 1.
    (mean > 0.0).then(|| 1.0 / (1.0 + variance / (mean * mean)))
}

/// The CPU that readers used most, and for which share of the window.
fn busiest(shared: &Shared) -> Option<(usize, f64)> {
    let mut used: BTreeMap<usize, f64> = BTreeMap::new();
    for reader in &shared.readers {
        let each = reader.cpu_ns as f64 / reader.cpu_reads.max(1) as f64;
        *used.entry(reader.cpu).or_default() += each * reader.units;
    }
    let shares = used.into_iter().map(|(cpu, ns)| (cpu, ns / shared.window_ns));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

pub(super) fn sizes(cases: &[Case]) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    for case in cases.iter().filter_map(|case| Competing::from_id(&case.id)) {
        let count = sizes.entry(case.size).or_insert(0);
        *count = (*count).max(case.competitors + 1);
    }
    sizes
}

pub(super) fn bytes(files: &BTreeMap<u64, u64>) -> u64 {
    let all = files.iter().map(|(size, count)| size.saturating_mul(*count));
    all.fold(0, u64::saturating_add)
}

/// Writes all files of a series, on their device when this returns.
pub(super) fn write(series: &Series, dir: &Path) -> Result<Vec<PathBuf>> {
    let way_out = format!("fewer readers with --set {ID}.competitors=NUMBER");
    let files =
        |(size, count)| (0..count).map(move |index| Made { name: name(size, index), bytes: size });
    file::make(dir, sizes(&series.cases).into_iter().flat_map(files).collect(), &way_out)
}

fn name(size: u64, index: u64) -> String {
    format!("contention-{size}-{index}")
}

#[cfg(test)]
mod tests {
    use super::{busiest, jain, switches_among};
    use crate::fs::job::{Account, ReaderWindow, Shared};
    use metal::io::Latencies;

    fn outcome(cpu: usize, units: f64, cpu_ns: u64, forced: u64) -> ReaderWindow {
        ReaderWindow {
            reads: units as u64,
            ticks: 1,
            units,
            asked: units as u64,
            cpu_ns,
            cpu_reads: units as u64,
            forced,
            cpu,
        }
    }

    #[test]
    fn only_readers_that_share_a_cpu_disturb_each_other_as_planned() {
        let readers = [outcome(1, 9.0, 1, 5), outcome(0, 9.0, 1, 70), outcome(0, 9.0, 1, 7)];
        assert_eq!(switches_among(&readers), 77);
        assert_eq!(switches_among(&readers[..2]), 0);
    }

    #[test]
    fn a_full_cpu_is_found_among_all() {
        let shared = Shared {
            window_ns: 1000.0,
            readers: vec![
                outcome(1, 10.0, 200, 0),
                outcome(0, 10.0, 500, 0),
                outcome(0, 10.0, 450, 0),
            ],
            latencies: Latencies::new(0),
            notes: Vec::new(),
            moved: Account::begin(None).end(0),
        };
        let (cpu, share) = busiest(&shared).expect("CPUs");
        assert_eq!(cpu, 0);
        assert!((share - 0.95).abs() < 1e-12, "{share}");
    }

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one_alone() {
        assert_eq!(jain(&[3.0; 7]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        // Jain's own example: (1 + 2 + 3)² / (3 (1 + 4 + 9)).
        assert!((jain(&[1.0, 2.0, 3.0]).expect("shares") - 36.0 / 42.0).abs() < 1e-12);
        assert!(jain(&[0.1; 3]).is_some_and(|index| index <= 1.0));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }
}

//! Files, CPUs and stated costs of the readers.

use super::{As, Competing};
use bench::experiment::contract::Facts;
use bench::experiment::{Fields, Site};
use host::format_cpus;
use laws::fs::contention as law;
use record::case::{Case, Series};
use record::key::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A window lasts until the measured reader has had so many reads and each other one …
pub(super) const READS_LEAST: u64 = 8;
/// … but no longer than this, in ns.
pub(super) const WINDOW_MOST_NS: f64 = 2e9;
/// Reads of each reader before the common start.
pub(super) const WARM_READS: u64 = 2;

/// For stated costs: a reader made and ended, files looked at before a case, a worker's start and
/// end, in ns.
const PROCESS_NS: f64 = 7e5;
const THREAD_NS: f64 = 1.5e5;
const FILE_NS: f64 = 1e5;
const CASE_NS: f64 = 1e6;
const WORKER_NS: f64 = 35e6;

/// Files of cases: size and how many.
pub(super) fn files(cases: &[Case]) -> BTreeMap<u64, u64> {
    let mut files = BTreeMap::new();
    for case in cases.iter().filter_map(|case| Competing::of(&case.id)) {
        let count = files.entry(case.size).or_insert(0);
        *count = (*count).max(case.competitors + 1);
    }
    files
}

pub(super) fn bytes(files: &BTreeMap<u64, u64>) -> u64 {
    let all = files.iter().map(|(size, count)| size.saturating_mul(*count));
    all.fold(0, u64::saturating_add)
}

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
        let readers = case.int("competitors").unwrap_or(0) as usize + 1;
        let cpus = cpus(&site.cpus, readers);
        let Some((own, others)) = cpus.split_first() else {
            continue;
        };
        case.at.insert("reader_cpu".to_owned(), Value::from(*own as u64));
        let mut shared = others.to_vec();
        shared.sort_unstable();
        shared.dedup();
        if !shared.is_empty() {
            case.at.insert("competitor_cpus".to_owned(), Value::Text(format_cpus(&shared)));
        }
    }
    series
}

/// A round: windows that last until a slow disk has answered often enough, at what is likely of its
/// class.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let window_ns = series.setting("window").unwrap_or(0) as f64;
    let files: u64 = files(&series.cases).values().sum();
    let of = |case: Competing| {
        let read_ns = law::latency(Facts::prior(site), case.readers()).range.likely;
        let reads_ns = (READS_LEAST as f64 * read_ns).min(WINDOW_MOST_NS);
        let making_ns = match case.readers {
            As::Processes => PROCESS_NS,
            As::Threads => THREAD_NS,
        };
        let each_ns = (making_ns + FILE_NS) * (case.competitors + 1) as f64;
        CASE_NS + window_ns.max(reads_ns) + WARM_READS as f64 * read_ns + each_ns
    };
    let cases = series.cases.iter().filter_map(|case| Competing::of(&case.id));
    let ns = WORKER_NS + files as f64 * FILE_NS + cases.map(of).sum::<f64>();
    Duration::from_nanos(ns as u64)
}

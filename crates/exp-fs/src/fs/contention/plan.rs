//! Which cases there are: what the reports had, as far as its files may be written here.

use super::ID;
use crate::fs::file::ground;
use bench::device;
use bench::experiment::{Offer, Params, Preset, Site, Skip};
use host::block::Disk;
use host::format_cpus;
use laws::fs::contention as law;
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeMap;
use std::time::Duration;

const PROCESSES: &str = "processes";
/// File systems whose files are nowhere but in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// R0's files and R1's, in bytes.
const SMALL: u64 = 64 << 10;
const LARGE: u64 = 64 << 20;
/// Competitors in standard; with little room four threads' files or five have it.
const STEPS_PROCESSES: [u64; 4] = [0, 1, 4, 9];
const STEPS_THREADS: [u64; 6] = [0, 1, 3, 4, 7, 15];
const STEPS_QUICK: [u64; 2] = [0, 4];

/// A window lasts until the measured reader has had so many reads and each other one …
pub(super) const READS_LEAST: u64 = 8;
/// … but no longer than this, in ns.
pub(super) const WINDOW_MOST_NS: f64 = 2e9;
/// Reads of each reader before the common start.
pub(super) const WARM_READS: u64 = 2;

/// For stated costs: a reader made and ended, files looked at before a case, a worker's start and end, in
/// ns.
const PROCESS_NS: f64 = 7e5;
const THREAD_NS: f64 = 1.5e5;
const FILE_NS: f64 = 1e5;
const CASE_NS: f64 = 1e6;
const WORKER_NS: f64 = 35e6;

/// The most competitors that the reports have of a kind.
pub(super) fn most(case: &Case) -> u64 {
    let steps = standard(case.text("readers").unwrap_or_default());
    steps.iter().copied().max().unwrap_or(0)
}

/// The disk below the directory for files, where it is told.
pub(super) fn disk(site: &Site) -> Option<&Disk> {
    let dir = site.dir.as_ref()?;
    ground(site, &dir.path).disk
}

/// Files of a series: size and how many.
pub(super) fn files(cases: &[Case]) -> BTreeMap<u64, u64> {
    let mut files = BTreeMap::new();
    for case in cases {
        let (Some(size), Some(competitors)) = (case.int("size"), case.int("competitors")) else {
            continue;
        };
        let count = files.entry(size).or_insert(0);
        *count = (*count).max(competitors + 1);
    }
    files
}

fn bytes(files: &BTreeMap<u64, u64>) -> u64 {
    let all = files.iter().map(|(size, count)| size.saturating_mul(*count));
    all.fold(0, u64::saturating_add)
}

/// The cases, those with the smallest files first to have room.
pub(super) fn offer(site: &Site, params: &Params) -> Result<Offer, Skip> {
    let fs = site.dir.as_ref().map(|dir| dir.file_system.as_str());
    if let Some(fs) = fs.filter(|fs| IN_MEMORY.contains(fs)) {
        return Err(Skip::because(format!(
            "the files would be in memory ({fs}), which no direct read goes past"
        ))
        .needs("--dir DIR on a file system of a device, or of another machine"));
    }
    let mut asked = cases(params);
    asked.sort_by_key(|case| (case.int("size"), case.int("competitors")));
    let mut skipped = Vec::new();
    let mut kept: Vec<Case> = Vec::new();
    for case in asked {
        kept.push(case);
        let wanted = bytes(&files(&kept));
        if let Err(skip) = device::affords(site, ID, wanted, "competitors=NUMBER") {
            let case = kept.pop().map(|case| case.id).unwrap_or_default();
            let files = case.int("competitors").unwrap_or(0) + 1;
            let reason = format!("{files} files, each a reader's own: {}", skip.reason);
            skipped.push((case, Skip { reason, ..skip }));
        }
    }
    if kept.is_empty() {
        let first = skipped.into_iter().next();
        return Err(first.map_or_else(|| Skip::because("no case was chosen"), |(_, skip)| skip));
    }
    let window = params.ints("window").first().copied().unwrap_or(0);
    Ok(Offer {
        series: vec![Series {
            experiment: ID.to_owned(),
            name: String::new(),
            order: Order::Shuffled,
            cases: kept,
            settings: BTreeMap::from([("window".to_owned(), Value::from(window))]),
        }],
        skipped,
    })
}

/// What the parameters ask for, none twice.
fn cases(params: &Params) -> Vec<Case> {
    let thorough = params.preset == Preset::Thorough;
    let mut found: Vec<Case> = Vec::new();
    for readers in params.texts("readers") {
        let sizes = match params.chosen("size") {
            Some(_) => params.ints("size"),
            None if thorough => vec![SMALL, LARGE],
            None if readers == PROCESSES => vec![SMALL],
            None => vec![LARGE],
        };
        let steps = match params.chosen("competitors") {
            Some(_) => params.ints("competitors"),
            None => steps(params.preset, readers),
        };
        for size in &sizes {
            // Whole blocks: what a direct read takes.
            let size = size / law::BLOCK_BYTES as u64 * law::BLOCK_BYTES as u64;
            for pattern in params.texts("pattern") {
                for competitors in &steps {
                    let id = CaseId::new()
                        .with("readers", readers)
                        .with("size", size)
                        .with("pattern", pattern)
                        .with("competitors", *competitors);
                    if found.iter().all(|case| case.id != id) {
                        found.push(Case::new(id));
                    }
                }
            }
        }
    }
    found
}

fn steps(preset: Preset, readers: &str) -> Vec<u64> {
    let standard = standard(readers);
    match preset {
        Preset::Rehearsal | Preset::Quick => STEPS_QUICK.to_vec(),
        Preset::Standard => standard.to_vec(),
        Preset::Thorough => (0..=standard[standard.len() - 1]).collect(),
    }
}

fn standard(readers: &str) -> &'static [u64] {
    match readers {
        PROCESSES => &STEPS_PROCESSES,
        _ => &STEPS_THREADS,
    }
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

/// What is known of the place, with each case.
pub(super) fn resolved(site: &Site, mut series: Series) -> Series {
    let ground = site.dir.as_ref().map(|dir| ground(site, &dir.path));
    for case in &mut series.cases {
        let readers = case.int("competitors").unwrap_or(0) as usize + 1;
        let cpus = cpus(&site.cpus, readers);
        let at = &mut case.at;
        let mut put = |name: &str, value: Value| at.insert(name.to_owned(), value);
        if let Some((own, others)) = cpus.split_first() {
            put("reader_cpu", Value::from(*own as u64));
            let mut shared = others.to_vec();
            shared.sort_unstable();
            shared.dedup();
            if !shared.is_empty() {
                put("competitor_cpus", Value::Text(format_cpus(&shared)));
            }
        }
        if let Some(ground) = &ground {
            ground.put(site, at);
        }
    }
    series
}

/// A round: windows that last until a slow disk has answered often enough, at what is likely of its class.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let window_ns = series.setting("window").unwrap_or(0) as f64;
    let disk = disk(site);
    let files: u64 = files(&series.cases).values().sum();
    let of = |case: &Case| {
        let count = case.int("competitors").unwrap_or(0) + 1;
        let readers = law::Readers {
            disk,
            count,
            pattern: case.text("pattern").unwrap_or_default(),
            size: case.int("size").unwrap_or(SMALL),
        };
        let read_ns = law::latency(site, None, readers).range.likely;
        let reads_ns = (READS_LEAST as f64 * read_ns).min(WINDOW_MOST_NS);
        let making_ns = match case.text("readers") {
            Some(PROCESSES) => PROCESS_NS,
            _ => THREAD_NS,
        };
        let each_ns = making_ns + FILE_NS;
        CASE_NS + window_ns.max(reads_ns) + WARM_READS as f64 * read_ns + each_ns * count as f64
    };
    let ns = WORKER_NS + files as f64 * FILE_NS + series.cases.iter().map(of).sum::<f64>();
    Duration::from_nanos(ns as u64)
}

pub(super) fn prepare_cost(site: &Site, series: &Series) -> Duration {
    device::write_cost(site, bytes(&files(&series.cases)))
}

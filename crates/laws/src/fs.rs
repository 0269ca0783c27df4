//! Laws of files, a file per experiment; devices stand in `device.rs`, what file systems do for a
//! change of names in `fs/journal.rs`.

pub mod cache_size;
pub mod contention;
pub mod io;
pub mod journal;
mod limit;
pub mod metadata;
pub mod read;
pub mod remote;
pub mod sync;

use crate::os;
use crate::rows::Section;
use crate::{Facts, Law, end_by_end, product, range};
use bench::device::{disk_of, mount_of};
use bench::experiment::Site;
use bench::symbols;
use host::block::Disk;
use record::event::Range;
use record::key::CaseId;

symbols! {
    /// The order of the places in a file.
    pub enum Pattern { Sequential = "sequential", Random = "random" }
}

symbols! {
    /// A way to read or write a file: past the page cache or through it, and what a write waits for.
    pub enum Mode {
        /// O_DIRECT.
        Direct = "direct",
        /// O_DIRECT and O_SYNC.
        DirectSync = "direct_sync",
        /// Through the page cache, evicted before, with the kernel's readahead.
        Cold = "cold",
        /// The same without readahead.
        ColdNoReadahead = "cold_no_readahead",
        /// From the page cache.
        Cached = "cached",
        /// Into the page cache.
        Buffered = "buffered",
        /// The same, with fdatasync after each write.
        BufferedFdatasync = "buffered_fdatasync",
        /// O_DSYNC.
        Dsync = "dsync",
    }
}

pub const READS: [Mode; 5] =
    [Mode::Direct, Mode::DirectSync, Mode::Cold, Mode::ColdNoReadahead, Mode::Cached];

impl Mode {
    /// Whether it goes past the page cache.
    pub fn is_direct(self) -> bool {
        matches!(self, Mode::Direct | Mode::DirectSync)
    }

    /// Whether the file is evicted from the page cache before it is read through it.
    pub fn is_cold(self) -> bool {
        matches!(self, Mode::Cold | Mode::ColdNoReadahead)
    }

    /// Whether no device is waited for.
    pub fn is_in_memory(self) -> bool {
        matches!(self, Mode::Cached | Mode::Buffered)
    }
}

pub const BLOCK_BYTES: f64 = 4096.0;
const NOTHING: Range = range(0.0, 0.0, 0.0);

/// Figures of an earlier experiment's metric, those above zero.
fn figures<'run>(
    facts: Facts<'run>,
    experiment: &'static str,
    metric: &'static str,
) -> impl Iterator<Item = (&'run CaseId, f64)> {
    let all = facts.known.map(|known| known.figures(experiment, metric));
    all.into_iter().flatten().filter(|(_, value)| *value > 0.0)
}

/// Figures of fs.read in a mode and, where one is named, a pattern, each with the size of its file.
fn read_figures<'run>(
    facts: Facts<'run>,
    pattern: Option<Pattern>,
    mode: &'run str,
    metric: &'static str,
) -> impl Iterator<Item = (u64, f64)> {
    let has = move |case: &CaseId| {
        case.text("mode") == Some(mode)
            && pattern.is_none_or(|pattern| case.text("pattern") == Some(pattern.text()))
    };
    let of = figures(facts, "fs.read", metric).filter(move |(case, _)| has(case));
    of.map(|(case, value)| (case.int("size").unwrap_or(0), value))
}

/// What fs.read measured of its largest file.
fn of_largest(facts: Facts, pattern: Pattern, mode: &str, metric: &'static str) -> Option<f64> {
    let of = read_figures(facts, Some(pattern), mode, metric);
    of.max_by_key(|(size, _)| *size).map(|(_, value)| value)
}

/// What fs.read measured of its largest cold file in a row, with readahead, in bytes per ns.
pub fn measured_stream(facts: Facts) -> Option<f64> {
    let rate = of_largest(facts, Pattern::Sequential, Mode::Cold.text(), "bandwidth");
    rate.map(|rate| rate / 1e9)
}

/// The disk below the directory for files, if known.
pub fn disk(site: &Site) -> Option<&Disk> {
    let mount = mount_of(site, &site.dir.as_ref()?.path)?;
    disk_of(site, mount).map(|(disk, _)| disk)
}

/// The file system of the directory for files; empty where it is not told.
pub fn file_system(site: &Site) -> &str {
    site.dir.as_ref().map_or("", |dir| &dir.file_system)
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Sums of `fs.rows` of so many pages as one, in ns.
fn work(facts: Facts, sums: &[&str], pages: f64) -> Law {
    let count = |name: &str| if name == "more" { pages - 1.0 } else { pages };
    Section { facts, name: "fs", count: &count, time: &|_| way(facts) }.law(sums)
}

/// The way in and out of the kernel: getpid where os.syscall measured it.
fn way(facts: Facts) -> Law {
    os::call(facts, 0.1)
}

/// So many times something that takes so long; either may be nothing.
fn times(count: Range, each: Range) -> Range {
    match count.low > 0.0 && each.low > 0.0 {
        true => product(count, each),
        false => end_by_end(count, each, |count, each| count * each),
    }
}

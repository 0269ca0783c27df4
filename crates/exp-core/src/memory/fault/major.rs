//! Faults that read a file from its device. Nothing counts as one whose page was in memory before,
//! or for which the device gave nothing.

use super::{Faulted, Readahead, Touch};
use bench::device::{device_in_flight, device_read_bytes, own_read_bytes};
use bench::measure::{Settled, settle};
use bench::prelude::*;
use bench::prepared::{self, demand_written_extents};
use metal::fault::{Area, evict, random_readahead, resident_pages};
use metal::memory::base_page_bytes;
use metal::process::rusage_thread;
use record::note::Note;
use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Name of the file in the run's directory.
const NAME: &str = "memory-fault";
/// Single faults of a case, at most and at least.
const FAULTS_MAX: usize = 200;
const FAULTS_MIN: usize = 8;
/// Touches that found their page in memory in spite of all, as a share of all touches, above which
/// the case has failed.
const CACHED_MAX: f64 = 0.1;
/// Bytes that the device gave, over those that were asked for, at least.
const DEVICE_SHARE_MIN: f64 = 0.95;
/// Pages are touched in groups of so many, between which the time is looked at …
const GROUP_PAGES: usize = 256;
/// … for a window that takes longer than this has failed, in ns.
const WINDOW_NS_MAX: f64 = 8e9;
/// A block of the file that single faults have for themselves, at least.
const BLOCK_BYTES_MIN: u64 = 256 << 10;

/// So long a device may take to answer what was read ahead, before what it gave counts as too
/// little.
const ANSWER_MOST: Duration = Duration::from_secs(1);
/// What was read ahead is waited for before the next touch, so long and asked for so often.
const DRAIN_MOST: Duration = Duration::from_millis(50);
const DRAIN_EVERY: Duration = Duration::from_micros(100);

/// Writes the file: unique data, on the device when this returns.
pub(super) fn write(series: &Series, dir: &Path) -> Result<PathBuf> {
    let bytes = file_bytes(series)?;
    let way_out = "a smaller file with --set memory.fault.file=SIZE";
    prepared::write(dir, NAME, bytes, fastrand::u64(..), way_out)
}

fn file_bytes(series: &Series) -> Result<u64> {
    series.setting("file").context("the size of the file is not set")
}

/// The file, and what is known of its device.
pub(super) struct Cold {
    path: PathBuf,
    bytes: u64,
    window: u64,
    seed: u64,
    settled: Settled,
    /// Pieces of the file on its device; `None` if the file system does not report it.
    pieces: Option<usize>,
}

/// What the kernel counted around some touches.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    minor: u64,
    major: u64,
    /// Bytes that this thread had a device read, where that is counted.
    device_bytes: Option<u64>,
}

impl Cold {
    /// The file that was prepared.
    pub(super) fn new(series: &Series, bench: &Bench) -> Result<Cold> {
        let dir = bench.order().directory()?;
        let bytes = file_bytes(series)?;
        let path = dir.join(NAME);
        let found = std::fs::metadata(&path).context("the prepared file is gone")?;
        ensure!(found.len() == bytes, "the prepared file has another size");
        let window = series.setting("window").context("no window is set")?;
        ensure!(
            window.is_multiple_of(base_page_bytes() as u64) && 2 * window <= bytes,
            "the window must be whole pages and at most half of the file: --set memory.fault.file=SIZE"
        );
        let file = File::open(&path).context("the prepared file is gone")?;
        let measured = bench.order().case_ns.saturating_mul(series.cases.len() as u64);
        let settled = settle(&file, Duration::from_nanos(measured))?;
        let pieces = demand_written_extents(&file, bytes)?;
        Ok(Cold { path, bytes, window, seed: bench.order().seed, settled, pieces })
    }

    /// Measures a case, everything evicted before.
    pub(super) fn time(&self, case: &Case, of: &Faulted, bench: &mut Bench) -> Result<()> {
        let file = File::open(&self.path).context("the prepared file is gone")?;
        self.evict(&file)?;
        let number = case.at.get("device_number").and_then(Value::text);
        let device = || number.and_then(device_read_bytes);
        let before = device();
        let own_before = own_read_bytes();
        let least = match of.fault {
            Touch::Window => self.windows(case, of, bench, &file)?,
            _ => self.singles(case, of, bench)?,
        };
        // Everything that this thread had read in the case, the device must have given.
        let own = own_read_bytes().zip(own_before).map(|(now, then)| now - then);
        let read = own.unwrap_or(least);
        // The thread's bytes count when they are asked for, the device's when it has answered.
        let start = Instant::now();
        loop {
            let given = device().zip(before).map(|(now, then)| now - then);
            match device_gave(read, given) {
                Err(_) if start.elapsed() < ANSWER_MOST => std::thread::sleep(DRAIN_EVERY),
                answer => return answer,
            }
        }
    }

    /// What every case of the round has in common, beside its first figure.
    fn describe(&self, case: &Case, samples: &mut record::event::Samples) {
        self.settled.write(&mut samples.quantities);
        samples.notes.extend(self.settled.note());
        match self.pieces {
            Some(pieces) => {
                let count = pieces as f64;
                samples.quantities.put("extents", count);
            }
            None => samples.notes.push(NOT_MAPPED.to_owned()),
        }
        samples.notes.extend(of_device(case));
    }

    /// Has the whole file leave the page cache.
    fn evict(&self, file: &File) -> Result<()> {
        evict(file, 0, 0).context("evicting the file")?;
        let bytes = usize::try_from(self.bytes)?;
        let resident =
            resident_pages(file, 0, bytes).context("reading which pages are in memory")?;
        ensure!(
            resident == 0,
            "cache: {resident} of {} pages of the file stay in memory after eviction (the file system \
             keeps them, or another process has them mapped)",
            bytes / base_page_bytes()
        );
        Ok(())
    }

    /// Waits until the device has answered what was asked of it. A page that is still on its way is
    /// not in memory by mincore, cannot be evicted, and is no major fault: it would look like a
    /// cold one.
    fn drain(case: &Case) {
        let number = case.at.get("device_number").and_then(Value::text);
        let start = Instant::now();
        while number.and_then(device_in_flight).is_some_and(|requests| requests > 0)
            && start.elapsed() < DRAIN_MOST
        {
            std::thread::sleep(DRAIN_EVERY);
        }
    }

    /// The file as a program finds it that has just begun: opened and mapped anew, so that nothing
    /// that the kernel learnt of earlier touches counts. All of it: what is read ahead may lie on
    /// both sides.
    fn mapped(&self, of: &Faulted) -> Result<(File, Area)> {
        let file = File::open(&self.path).context("the prepared file is gone")?;
        let area =
            Area::file(&file, usize::try_from(self.bytes)?, &[0]).context("mapping the file")?;
        if of.readahead == Some(Readahead::Off) {
            area.expect_random().context("MADV_RANDOM")?;
            random_readahead(&file).context("POSIX_FADV_RANDOM")?;
        }
        Ok((file, area))
    }

    /// One page after another, each in a block of its own.
    /// Returns the bytes that a device must have given at least.
    fn singles(&self, case: &Case, of: &Faulted, bench: &mut Bench) -> Result<u64> {
        let page = base_page_bytes() as u64;
        let ahead = case.int("readahead_bytes").unwrap_or(0);
        let alone = (2 * ahead).next_power_of_two().max(BLOCK_BYTES_MIN);
        let block = alone.min(self.bytes / FAULTS_MIN as u64) / page * page;
        let mut blocks: Vec<u64> = (0..self.bytes / block).collect();
        let mut rng = fastrand::Rng::with_seed(self.seed);
        match of.fault == Touch::Random {
            true => rng.shuffle(&mut blocks),
            // Another place to begin in each round, or the device remembers.
            false => {
                let first = rng.usize(..blocks.len());
                blocks.rotate_left(first);
            }
        }
        let clock = bench.order().clock();
        let case_ns = bench.order().case_ns as f64;
        let begin = clock.start();
        let mut seen = Singles { overlapping: block < alone, ..Singles::default() };
        for block_index in blocks.into_iter().take(FAULTS_MAX) {
            // In the middle of the block: what is read around stays inside.
            let at = block_index * block + block / 2 / page * page;
            let (file, area) = self.mapped(of)?;
            Cold::drain(case);
            if resident_pages(&file, at, page as usize)? != 0 {
                // Read ahead of the page before, whose mapping is gone.
                evict(&file, 0, 0)?;
                if resident_pages(&file, at, page as usize)? != 0 {
                    seen.resident += 1;
                    continue;
                }
            }
            let before = Counted::now();
            let start = clock.start();
            black_box(area.read(at as usize, 8, 1));
            let end = clock.end();
            seen.add(before.until_now(), clock.between_ns(start, end));
            let enough = seen.touches() >= FAULTS_MIN;
            if enough && clock.between_ns(begin, clock.end()) > case_ns {
                break;
            }
        }
        let least = seen.latencies.len() as u64 * page;
        seen.record(case, bench, self)?;
        Ok(least)
    }

    /// Windows of the file; every page is touched in order. Returns the bytes that a device must
    /// have given at least.
    fn windows(&self, case: &Case, of: &Faulted, bench: &mut Bench, file: &File) -> Result<u64> {
        let page = base_page_bytes();
        let pages = usize::try_from(self.window)? / page;
        let mut starts: Vec<u64> = (0..self.bytes / self.window).collect();
        fastrand::Rng::with_seed(self.seed ^ 1).shuffle(&mut starts);
        let clock = bench.order().clock();
        let case_ns = bench.order().case_ns as f64;
        let begin = clock.start();
        let mut seen = Windows::default();
        for index in starts {
            let at = index * self.window;
            Cold::drain(case);
            let resident = resident_pages(file, at, usize::try_from(self.window)?)?;
            // What the window before read ahead of its end.
            if resident != 0 {
                evict(file, 0, 0)?;
                let left = resident_pages(file, at, usize::try_from(self.window)?)?;
                ensure!(left == 0, "cache: {left} of {pages} pages of a window stay in memory");
            }
            let (_opened, area) = self.mapped(of)?;
            let before = Counted::now();
            let start = clock.start();
            let mut done = 0;
            while done < pages {
                let group = GROUP_PAGES.min(pages - done);
                black_box(area.read(at as usize + done * page, page, group));
                done += group;
                ensure!(
                    clock.between_ns(start, clock.end()) < WINDOW_NS_MAX,
                    "{done} of {pages} pages of a window took {:.0} s: use a smaller one with \
                     --set memory.fault.window=SIZE",
                    WINDOW_NS_MAX / 1e9
                );
            }
            let ns = clock.between_ns(start, clock.end());
            let counted = before.until_now();
            seen.add(counted, ns, self.window, pages)?;
            bench.declare(Declared::MajorFaults(counted.major));
            if clock.between_ns(begin, clock.end()) > case_ns {
                break;
            }
        }
        let least = seen.lengths.len() as u64 * self.window;
        seen.record(case, bench, self)?;
        Ok(least)
    }
}

/// Demands that the device gave what was read. Errors: it says that it gave less.
fn device_gave(read: u64, given: Option<u64>) -> Result<()> {
    if let Some(given) = given {
        ensure!(
            given as f64 >= DEVICE_SHARE_MIN * read as f64,
            "cache: {} were read, but the device reports {}",
            render(read as f64, Unit::B),
            render(given as f64, Unit::B)
        );
    }
    Ok(())
}

impl Counted {
    fn now() -> Counted {
        let device_bytes = own_read_bytes();
        let usage = rusage_thread();
        Counted { minor: usage.minflt, major: usage.majflt, device_bytes }
    }

    fn until_now(self) -> Counted {
        let usage = rusage_thread();
        let own = own_read_bytes();
        Counted {
            minor: usage.minflt - self.minor,
            major: usage.majflt - self.major,
            device_bytes: own.zip(self.device_bytes).map(|(now, then)| now - then),
        }
    }
}

#[derive(Default)]
struct Singles {
    latencies: Vec<f64>,
    bytes: Vec<f64>,
    /// Not touched, for they were in memory.
    resident: usize,
    /// Touched and not read from the device.
    cached: usize,
    majors: u64,
    last_wrong: Option<Counted>,
    /// What is read ahead of one page reaches the next.
    overlapping: bool,
}

impl Singles {
    fn touches(&self) -> usize {
        self.latencies.len() + self.cached
    }

    fn add(&mut self, counted: Counted, ns: f64) {
        self.majors += counted.major;
        let page = base_page_bytes() as u64;
        let read = counted.device_bytes.is_none_or(|own| own >= page);
        if counted.major == 1 && counted.minor == 0 && read {
            self.latencies.push(ns);
            self.bytes.extend(counted.device_bytes.map(|own| own as f64));
        } else {
            self.cached += 1;
            self.last_wrong = Some(counted);
        }
    }

    fn record(self, case: &Case, bench: &mut Bench, cold: &Cold) -> Result<()> {
        let touches = self.touches();
        bench.declare(Declared::MajorFaults(self.majors));
        let wrong = self.last_wrong.unwrap_or_default();
        let told = format!(
            "{} of {touches} touches were not major faults with bytes from the device (the last: \
             {} major, {} minor, {} bytes)",
            self.cached,
            wrong.major,
            wrong.minor,
            wrong.device_bytes.map_or("unknown".to_owned(), |own| own.to_string())
        );
        ensure!(
            !self.latencies.is_empty() && self.cached as f64 <= CACHED_MAX * touches as f64,
            "cache: {told}; {} pages were in memory before",
            self.resident
        );
        let unknown = self.bytes.is_empty();
        let overlap = self.overlapping.then(|| {
            "the file is small compared with the readahead, so pages were read more than once, \
             possibly from the device's cache: use a larger file with --set \
             memory.fault.file=SIZE"
                .to_owned()
        });
        let samples = bench.record(case, "major_latency", self.latencies)?;
        let quantities = &mut samples.quantities;
        quantities.put("touches", touches as f64);
        quantities.put("cached", self.cached as f64);
        samples.notes.extend(overlap);
        cold.describe(case, samples);
        if self.cached > 0 {
            samples.notes.push(Note::cache(format!("cache: {told}; they are left out")));
        }
        if unknown {
            samples.notes.push(NOT_COUNTED.to_owned());
            return Ok(());
        }
        bench.record(case, "bytes_per_fault", Values::batches(1, self.bytes))?;
        Ok(())
    }
}

/// What must be known of a virtual disk.
fn of_device(case: &Case) -> Option<String> {
    case.at.get("device_kind").map(|_| {
        "the disk is virtual: plumb cannot see whether its medium or its host's memory answered"
            .to_owned()
    })
}

const NOT_COUNTED: &str = "the kernel does not count a thread's reads (/proc/self/io), so only the \
     major faults show that a device was read";

const NOT_MAPPED: &str = "the file system does not report where a file is on its device (FIEMAP)";

#[derive(Default)]
struct Windows {
    lengths: Vec<f64>,
    pages_per_fault: Vec<f64>,
    bytes_per_fault: Vec<f64>,
    bandwidths: Vec<f64>,
    majors: u64,
    minors: u64,
    uncounted: bool,
}

impl Windows {
    fn add(&mut self, counted: Counted, ns: f64, bytes: u64, pages: usize) -> Result<()> {
        let faults = counted.major + counted.minor;
        ensure!(
            counted.major > 0 && faults <= pages as u64,
            "cache: {pages} touches made {} major and {} minor faults",
            counted.major,
            counted.minor
        );
        match counted.device_bytes {
            None => self.uncounted = true,
            Some(own) => {
                ensure!(
                    own as f64 >= DEVICE_SHARE_MIN * bytes as f64,
                    "cache: of a window of {} only {} were read from a device ({} major faults)",
                    render(bytes as f64, Unit::B),
                    render(own as f64, Unit::B),
                    counted.major
                );
                self.bytes_per_fault.push(own as f64 / counted.major as f64);
            }
        }
        self.majors += counted.major;
        self.minors += counted.minor;
        self.lengths.push(ns);
        self.pages_per_fault.push(pages as f64 / faults as f64);
        self.bandwidths.push(bytes as f64 / ns * 1e9);
        Ok(())
    }

    fn record(self, case: &Case, bench: &mut Bench, cold: &Cold) -> Result<()> {
        let pages = cold.window / base_page_bytes() as u64;
        let windows = self.lengths.len() as f64;
        let per_page = self.lengths.iter().map(|ns| ns / pages as f64).collect();
        let samples = bench.record(case, "window", self.lengths)?;
        let quantities = &mut samples.quantities;
        quantities.put("major_faults", self.majors as f64 / windows);
        quantities.put("minor_faults", self.minors as f64 / windows);
        cold.describe(case, samples);
        if self.uncounted {
            samples.notes.push(NOT_COUNTED.to_owned());
        }
        for (metric, values) in [
            ("per_page", per_page),
            ("bandwidth", self.bandwidths),
            ("pages_per_fault", self.pages_per_fault),
            ("bytes_per_fault", self.bytes_per_fault),
        ] {
            if !values.is_empty() {
                bench.record(case, metric, Values::batches(pages, values))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_gave_less_than_was_read_was_not_the_one_that_answered() {
        device_gave(1 << 20, Some(1 << 20)).expect("as much");
        // A device reads whole blocks, and others read as well.
        device_gave(1 << 20, Some(1 << 30)).expect("more");
        device_gave(1 << 20, None).expect("nobody counts");
        let error = device_gave(1 << 20, Some(4096)).expect_err("next to nothing");
        let text = error.to_string();
        assert!(text.contains("cache: 1 MiB") && text.contains("4 KiB"), "{text}");
    }
}

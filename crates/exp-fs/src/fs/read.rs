//! What does it cost to read 4 KiB of a file?
//!
//! ## Question
//!
//! How long does a program wait for a block of a file, one at a time, from the device and from the
//! page cache, sequentially and at random, and how does that depend on the file size? What does the
//! kernel's readahead gain?
//!
//! ## Method
//!
//! Files are written before the first round: incompressible data, no two blocks alike, synced, in
//! written extents of the device (FIEMAP; sparse, unwritten and inline extents are refused), and
//! evicted. Up to 32 MiB each `size` is a separate file. A larger size is the first `size` bytes of
//! one common file, the largest one to read (`file_bytes`), so all of them together need the space
//! of one. A pass over either consists of the same parts of 16 MiB. There are two differences:
//! readahead in the last part may go past `size`, by at most one window, and the device may have
//! cached more of the file. Before each round other processes' unwritten data goes to the device,
//! as in memory.fault (`settle_ns`, `unwritten_bytes`).
//!
//! One thread reads blocks of 4 KiB with pread(2) into eight aligned buffers in
//! turn, with a clock read before and after each. A pass covers the file once, or its next 16 MiB:
//! sequentially, or in a random order of all blocks of the file, none twice, with another order per
//! case. Passes repeat for three case times (the cached file: one), and for at least eight blocks,
//! however long they take. That is a burst. Sequential reads of 256 MiB or more by `direct` and
//! `cold` have a window of 42 case times (half a second or longer), which lasts until the rate has
//! settled, at most four times that. Their `iops` and `bandwidth` come from the part after the
//! change point; the part before it is recorded with its rate. A case's facts say which window it
//! has (`window=rate` with `window_ns`, or `window=burst`). Each round and each mode begins a large
//! file at another offset, so that a mode reads little that another mode of the round has just read.
//!
//! - `direct`: O_DIRECT. plumb queries support and alignment (statx), checks the flag of the open
//!   file (F_GETFL), and requires that a first direct read leaves nothing in the page cache.
//! - `direct_sync`: the same with O_SYNC, as R1 opened its files; for reads only the code path
//!   differs.
//! - `cold`: through the page cache, after evicting the whole file before each pass. If any page is
//!   still cached (cachestat, or mincore if that is missing), the case fails.
//! - `cold_no_readahead`: the same with POSIX_FADV_RANDOM.
//! - `cached`: the whole file is in the page cache, before the passes and after. Of a file above 32
//!   MiB each round uses another part of 32 MiB, and the passes repeat over it. The figure
//!   describes memory only if the last-level caches are smaller (`span_bytes` says how much was
//!   read).
//!
//! Opening, evicting, checking and caching are outside the timed windows. After the passes the last
//! blocks of each are compared with what was written. plumb also compares the requested bytes with
//! what this process caused devices to read (/proc/self/io) and with what the device below counted
//! (/proc/diskstats). The share that no device delivered is `cache_share`, with a note that begins
//! `cache:`.
//!
//! ## Prediction
//!
//! From the device: its class (`queue/rotational`, the driver), its link, and what the user sets
//! (`host.disk.read_latency`, `read`, `read_iops`, `rpm`, `cache`). A hard disk takes R1's sum: a
//! seek, half a rotation, the transfer. Within a file of some MiB the seek is short, and the next
//! sequential block may be in the drive's buffer. With readahead a pass waits for the device once,
//! then for the transfer. A cached block is a system call and a copy. Figures of the same device
//! narrow the intervals: memory.fault's, page by page, with and without readahead, and those of
//! os.syscall and memory.bandwidth for the copy.
//!
//! ## Parameters
//!
//! - `pattern`: sequential or random.
//! - `mode`: see Method.
//! - `size`: file size, or above 32 MiB the part of one file that is read as if it were the whole
//!   file. The directory must have room for all files to write; the smallest are taken first.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//!
//! `latency_per_block` is the time of a pass divided by its blocks, as in the reports. `latency` is
//! the distribution of single reads, `iops` and `bandwidth` are the inverse of the time per block,
//! and `cpu` is the thread's own time (without interrupts on other
//! CPUs). With readahead most reads find their block in memory, so the median says little; the mean
//! and the tail describe the device. `readahead_gain` is the time of a block without readahead
//! divided by the time with it. Only whole passes count, or the partial pass if not even one was
//! completed. `asked_bytes`, `own_bytes` and `device_bytes` are the account, in which unused
//! readahead (`ahead_bytes`) counts as requested. `extents` is the number of extents of the file.
//!
//! ## Pitfalls
//!
//! A drive has a cache and does its own readahead: from the second pass on small files come from
//! there, and R0's files of 128 KiB to 1.5 MiB do so on any drive. The host may serve a virtual
//! disk from memory, and the guest cannot detect it. O_DIRECT is missing on some file systems and
//! faked on others (tmpfs, FUSE, stacked file systems): the case fails, or `cache_share` shows it.
//! If the readahead window is as large as the file (`readahead_bytes`), a cold pass is one request.
//! R1's random reads draw blocks with replacement: a third of a cold file would come from the
//! cache. Each block's time includes two clock reads, which matters only for `cached`.
//!
//! ## Sources
//!
//! [R0] "File Read Time", [R1] tables XV and XVI, [R2] 7.2 (F_NOCACHE, F_RDAHEAD); [fio]
//! (`ioengine=psync`, whose eviction is inside its time, fio#1422); [ioping]; [man] statx(2)
//! STATX_DIOALIGN, cachestat(2), posix_fadvise(2); [linux] mm/readahead.c,
//! Documentation/filesystems/fiemap.rst.

use super::file::{self, BLOCK_BYTES, Kind as GroundKind, Made, Mode, below, only_memory};
use super::job::{BLOCKS_MIN, Below, Job};
use super::offered::{Offered, cost, describe_place, settled, standard_first, text_at};
use super::window;
use crate::fs::prelude::*;
use bench::device::{allowance, write_cost};
use bench::measure::Settled;
use bench::prepared::demand_written_extents;
use laws::device::reading;
use laws::fs::READS;
use laws::fs::read::{self as law, Read as Look};

bench::experiment!(Read);

/// A case that a device answers is measured for so many times the time of a case, a cached one for
/// one.
const WINDOWS: u64 = 3;
/// For stated costs: opening, evicting, looking and comparing around a case; start and end of a
/// worker.
const APPARATUS_NS: f64 = 6e6;
const WORKER_NS: f64 = 35e6;
/// Files of this size and more, read in order, have the window of a rate.
const RATE_BYTES: u64 = 256 << 20;
/// Larger files are the beginning of one: of two passes and more, a window of readahead past its
/// end matters little.
const OWN_BYTES: u64 = 32 << 20;
const THOROUGH_KIB: [u64; 15] =
    [128, 256, 512, 768, 1024, 1280, 1536, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144];

static CARD: Card = Card {
    id: "fs.read",
    title: "Reading a file in 4 KiB blocks",
    metrics: metrics! {
        "latency_per_block" => Ns Lower Io: "time of a pass divided by its 4 KiB blocks";
        "latency" => Ns Lower Io: "one read of 4 KiB";
        "iops", was "burst_iops" => OpPerS Higher Io: "reads per second";
        "bandwidth", was "burst" => BPerS Higher Io: "bytes per second of these reads";
        "cpu" => NsPerOp Lower Io: "CPU time of the reading thread per read, user and system";
        "readahead_gain" => derived Ratio None Io:
            "time of a cold block without readahead, divided by the time with it";
    },
    params: params![Look::PARAMS],
    after: &["os.syscall", "memory.bandwidth", "memory.fault"],
    needs: &[Need::Directory],
    views: &[ViewCard::line("size", "latency_per_block")
        .beside(&["bandwidth"])
        .log()
        .each(&["pattern"])],
    keys: &[KeyFigure::new(
        "random read of 4 KiB",
        "",
        "latency_per_block",
        "pattern=random,mode=direct,size=67108864",
    )],
    ..Card::PLAIN
};

case! {
    /// What two ways to read a file say together.
    struct Gain {
        /// order of the blocks
        pattern: Pattern,
        /// size of the file
        size: u64,
    }
}

impl Experiment for Read {
    type Case = Look;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("read.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let slowest_ns = slowest_ns(site);
        cost(WORKER_NS, series, |case| {
            let least_ns = if is_cached(case) { 0.0 } else { slowest_ns };
            least_ns.max(window_of(case, site.case_ns) as f64) + APPARATUS_NS
        })
    };
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| {
            let sizes: BTreeSet<u64> = series.cases.iter().filter_map(file_bytes_of).gather();
            let made = |bytes| Made { name: name_of(bytes), bytes };
            let files = sizes.into_iter().map(made).collect();
            file::make(dir, files, "smaller ones with --set fs.read.size=SIZE")
        },
        cost: |site, series| write_cost(site, files(&sizes(series)).iter().sum()),
        has: |_| true,
    });

    fn cases(_: &Site, preset: Preset) -> Vec<Look> {
        let (modes, sizes_kib): (&[Mode], &[u64]) = match preset {
            Preset::Rehearsal | Preset::Quick => (&[Mode::Direct, Mode::Cold], &[65536]),
            Preset::Standard => (
                &[Mode::Direct, Mode::Cold, Mode::ColdNoReadahead, Mode::Cached],
                &[1024, 65536, 262144],
            ),
            Preset::Thorough => (&READS, &THOROUGH_KIB),
        };
        let ways = Pattern::ALL.iter().flat_map(|way| modes.iter().map(move |mode| (*way, *mode)));
        ways.flat_map(|(pattern, mode)| {
            sizes_kib.iter().map(move |kib| Look { pattern, mode, size: kib << 10 })
        })
        .collect()
    }

    fn series(site: &Site, cases: Vec<Look>, _: &Params) -> Result<Offer, Skip> {
        let mut by_room = cases.clone();
        by_room.order_by_key(|look| look.size);
        standard_first::<Self>(site, &mut by_room);
        let too_large = unaffordable(site, by_room.iter().map(|look| look.size));
        let mut offered = Offered::default();
        for look in cases {
            let skip = too_large.get(&look.size).cloned().or_else(|| absent(site, look.mode));
            // The window of a rate has a file in order, from the device, that is larger than what
            // drives keep.
            let is_streamed = look.pattern == Pattern::Sequential
                && matches!(look.mode, Mode::Direct | Mode::Cold)
                && look.size >= RATE_BYTES;
            let mut case = Case::new(look.id());
            window::put(&mut case, is_streamed.then_some(window::RATE_CASES * site.case_ns));
            offered.push(case, skip);
        }
        offered.series(&CARD, "", BTreeMap::new())
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let cases = series.iter().flat_map(|series| &series.cases);
        let looks: Vec<Look> = cases.filter_map(|case| Look::from_id(&case.id)).collect();
        let cold = looks.iter().filter(|look| look.mode == Mode::Cold);
        let has =
            |look: &&Look| looks.contains(&Look { mode: Mode::ColdNoReadahead, ..(*look).clone() });
        cold.filter(has).map(gain).collect()
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        let sizes = sizes(&series);
        for case in &mut series.cases {
            if let Some(size) = case.int("size").filter(|size| *size > OWN_BYTES) {
                case.at.insert("file_bytes".to_owned(), file_of(size, &sizes).into());
            }
        }
        Ok(file::ground_facts(site, series))
    }

    fn law(facts: Facts, look: &Look, _: &Case, metric: &Metric) -> Option<Prediction> {
        let ground = below_law(facts.site);
        let per_block = || law::block(facts, ground, look);
        let law = match &*metric.name {
            "latency_per_block" => per_block(),
            "latency" => law::single(facts, ground, look),
            "iops" => per_block().map(|block| block.inverse(1e9)),
            "bandwidth" => per_block().map(|block| block.inverse(1e9 * BLOCK_BYTES as f64)),
            _ if facts.known.is_none() || look.mode == Mode::Cached => {
                law::cpu(facts, ground, look)
            }
            _ => None,
        };
        law.map(|law| on_ground(facts.site, law))
    }

    fn derived_law(facts: Facts, id: &CaseId, _: &Metric) -> Option<Prediction> {
        let Gain { pattern, size } = Gain::from_id(id)?;
        let law = law::readahead_gain(facts, below_law(facts.site), pattern, size)?;
        let of = |mode| {
            let look = Look { pattern, mode, size };
            facts.coefficient(CARD.id, &look.id(), "latency_per_block")
        };
        let fitted = match pattern {
            Pattern::Sequential => of(Mode::ColdNoReadahead) / of(Mode::Cold),
            Pattern::Random => 1.0,
        };
        Some(law.times(fitted).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let case_ns = bench.order().case_ns;
        let windows = series.cases.iter().map(|case| window_of(case, case_ns));
        let (dir, settled) = settled(bench, windows.sum())?;
        bench.each_of::<Look>(series, |bench, case, look| {
            read_file(case, &look, bench, &dir, settled)
        });
        Ok(())
    }

    fn derive(_: &Site, _: &Known, values: &Known) -> Vec<DerivedValue> {
        let gain_of = |(id, with_ns): (&CaseId, f64)| {
            let look = Look::from_id(id).filter(|look| look.mode == Mode::Cold)?;
            let without = Look { mode: Mode::ColdNoReadahead, ..look.clone() }.id();
            let without_ns = values.get(CARD.id, &without, "latency_per_block")?;
            Some(DerivedValue::new(gain(&look), "readahead_gain", without_ns / with_ns))
        };
        values.figures(CARD.id, "latency_per_block").filter_map(gain_of).collect()
    }
}

fn gain(look: &Look) -> CaseId {
    Gain { pattern: look.pattern, size: look.size }.id()
}

fn read_file(
    case: &Case,
    look: &Look,
    bench: &mut Bench,
    dir: &Path,
    settled: Settled,
) -> Result<()> {
    let bytes = file_bytes_of(case).context("no file")?;
    let path = path_of(dir, bytes);
    let opened = file::open(&path, Mode::Cached)?;
    ensure!(opened.bytes == bytes, "the size of the prepared file changed to {}", opened.bytes);
    let extents = demand_written_extents(&opened.file, bytes)?;
    let window_ns = window_of(case, bench.order().case_ns);
    let below = Below::Device(text_at(case, "device_number"));
    let passes = Job::passes(bench, &case.id, look, path, window_ns, below);
    let job = Job { is_rate: window::rate_ns(case).is_some(), ..passes };
    let done = job.alone()?;
    let from_device = done.seen.moved.process.filter(|_| look.mode == Mode::Cached);
    done.record(bench, case, &job, "latency_per_block", |samples| {
        describe_place(samples, case, settled);
        samples.set_quantities([("extents", extents.map(|extents| extents as f64))]);
        let bytes = |bytes: u64| render(bytes as f64, Unit::B);
        let from_device = from_device.filter(|moved| *moved > 0).map(|moved| {
            format!(
                "{} came from a device, although the file was in the page cache before and after",
                bytes(moved)
            )
        });
        let span = job.regions[0].bytes;
        let part = (span < look.size).then(|| {
            format!("each round caches and reads another part of {} of the file", bytes(span))
        });
        let silent = "the file system does not report a file's extents (FIEMAP)";
        let silent = extents.is_none().then(|| silent.to_owned());
        samples.notes.extend(from_device.into_iter().chain(part).chain(silent));
    })
}

fn below_law(site: &Site) -> law::Below<'_> {
    let is_plain = below(site).is_none_or(|ground| ground.kind == GroundKind::Device);
    law::Below { disk: laws::fs::disk(site), is_plain }
}

/// A law with what stands between the file and a device.
fn on_ground(site: &Site, law: Law) -> Prediction {
    match below(site).filter(|ground| ground.kind != GroundKind::Device) {
        Some(ground) => law.and(&ground.because).prediction(),
        None => law.prediction(),
    }
}

/// How long a case is measured; a rate's window may last longer.
fn window_of(case: &Case, case_ns: u64) -> u64 {
    let own_ns = if is_cached(case) { case_ns } else { WINDOWS * case_ns };
    window::rate_ns(case).unwrap_or(own_ns)
}

fn is_cached(case: &Case) -> bool {
    Mode::from_value(case.id.get("mode")) == Some(Mode::Cached)
}

fn sizes(series: &Series) -> BTreeSet<u64> {
    series.cases.iter().filter_map(|case| case.int("size")).gather()
}

/// Bytes of the file that a case of a resolved series reads in.
fn file_bytes_of(case: &Case) -> Option<u64> {
    case.int("file_bytes").or_else(|| case.int("size"))
}

/// Bytes of the file that holds the data of a size, one of `sizes`.
fn file_of(size: u64, sizes: &BTreeSet<u64>) -> u64 {
    match size > OWN_BYTES {
        true => sizes.last().copied().unwrap_or(size).max(size),
        false => size,
    }
}

fn files(sizes: &BTreeSet<u64>) -> BTreeSet<u64> {
    sizes.iter().map(|size| file_of(*size, sizes)).gather()
}

fn name_of(size: u64) -> String {
    format!("fs-read-{size}")
}

fn path_of(dir: &Path, size: u64) -> PathBuf {
    dir.join(name_of(size))
}

/// The sizes whose files may not all be written, the first taken first, and what is wrong with
/// them.
fn unaffordable(site: &Site, sizes: impl Iterator<Item = u64>) -> BTreeMap<u64, Skip> {
    let allowed = allowance(site, CARD.id);
    let mut taken = BTreeSet::new();
    let mut skipped = BTreeMap::new();
    for size in sizes {
        if !size.is_multiple_of(BLOCK_BYTES as u64) {
            skipped.insert(size, Skip::because("the size is not a multiple of 4 KiB"));
            continue;
        }
        let with: BTreeSet<u64> = taken.iter().copied().chain([size]).gather();
        // Without a directory, nothing is written: planning says so.
        if site.dir.is_none() || files(&with).iter().sum::<u64>() <= allowed {
            taken = with;
            continue;
        }
        let [size_told, allowed] = [size, allowed].map(|bytes| render(bytes as f64, Unit::B));
        let reason =
            format!("no room for a file of {size_told}: at most {allowed} may be written here");
        let way_out = "--dir DIR with more free space, or --set fs.read.size=SIZE";
        skipped.insert(size, Skip::because(reason).needs(way_out));
    }
    skipped
}

/// Why a mode is not available if files are in memory.
fn absent(site: &Site, mode: Mode) -> Option<Skip> {
    only_memory(site).filter(|_| mode != Mode::Cached)
}

/// Eight blocks of the device, in ns, where its class is certain.
fn slowest_ns(site: &Site) -> f64 {
    let reading = below(site).map(|ground| reading(site, ground.disk, 1e9));
    let sure = reading.filter(|reading| reading.sure);
    sure.map_or(0.0, |reading| (BLOCKS_MIN * reading.random.range.likely as u64) as f64)
}

#[cfg(test)]
mod tests;

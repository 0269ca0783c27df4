//! What do reads and writes cost, by block size, queue depth, threads and mode?
//!
//! ## Question
//!
//! How long does a read or write of a file take, how many complete per second, and how much CPU
//! time does each take: sequential or random, from 1 B to 1 MiB, one at a time or up to 128 in
//! flight, with one thread or several, past the page cache or through it?
//!
//! ## Method
//!
//! The files are made before the first round: incompressible data, no two blocks alike, synced, in
//! written extents (FIEMAP) and evicted from memory. Files to read are never written, and files to
//! write are only overwritten: a round extends and allocates nothing, except on file systems that
//! write every block to a new place (btrfs, ZFS, f2fs). Each case of a round uses its own random
//! offsets, because otherwise a drive or a host would still cache what the previous case read.
//!
//! `psync` does one operation at a time with pread(2) or pwrite(2). `io_uring` keeps `depth`
//! operations in flight, with registered file and buffers. Completed operations are submitted
//! again, four at a time, the last by the same call that waits for the next completion (Linux 6.1
//! and later process completions only inside that call). The kernel notifies the device at the end
//! of a call, so the device works on the first operation while the rest are prepared. Each
//! operation is timed from its submission until its completion is seen. While operations run, the
//! thread allocates nothing and makes no other system call. A thread runs for one and a half case
//! times, and until it has done 8 operations (a ring: three fills). Its rate covers the time in
//! which the queue was full. `latency` and `cpu` also include the operations that complete while
//! the queue drains, among them the slowest.
//!
//! So short a window measures a burst, because a rate limit lets some operations through at once.
//! The key cases of a device therefore have windows of half a second or longer (42 case times),
//! which last until the rate has settled, at most four times that. These cases are direct
//! sequential reads of 1 MiB, direct random reads of 4 KiB by `psync` and by rings of 32 and 128,
//! and in thorough, if so much may be written, direct sequential writes of 1 MiB. Their `iops` and
//! `bandwidth` are those of the part after the change point; the part before it is recorded with
//! its rate (`discarded_b_per_s`).
//! `latency` and `cpu` cover the whole window. If a limit grants time slices in turn, whole turns
//! count. A case's facts say which window it has: `window=rate` with `window_ns`, or
//! `window=burst`.
//!
//! Several threads run one per CPU; with fewer CPUs than threads they share CPUs, and a note says
//! so. Each thread opens the file itself, and all begin at a common tick. Their rate covers the
//! time in which all worked: from the last begin to the first end.
//!
//! Ways to read (`mode`):
//!
//! - `direct`: O_DIRECT, which plumb queries (statx), checks (F_GETFL) and tries.
//! - `cold`: through the page cache, after eviction (residency checked), each offset once.
//! - `cached`: from the page cache; the part that is read (at most 16 MiB) is brought in before.
//!
//! Ways to write, which are four different figures:
//!
//! - `buffered`: into the page cache, where the pages already are: a copy in memory, plus what the
//!   file system does for a page that becomes dirty. The device gets the data later (here after the
//!   window). At most `written` bytes are written over and over, so this does not measure how long
//!   the device keeps up. If the mount is `sync`, or a program or another machine answers, each
//!   write may be passed on at once, and no more than `written` bytes are written in total.
//! - `buffered_fdatasync`: the same, with fdatasync(2) after each write inside the timed part.
//! - `direct`: O_DIRECT: the device has the data, perhaps in a cache that loses it with the power.
//! - `dsync`: O_DSYNC through the page cache: each write waits until the device has flushed it.
//!
//! Before submission, each 4 KiB of a written block gets a stamp of eight bytes (one store per
//! page: a nanosecond in a microsecond), so that no two blocks are alike; blocks of 1 B repeat.
//! Blocks come in turn from 256 KiB of noise with another seed for each file and round, so a file
//! system or an array cannot compress or deduplicate them. After the window, and before anything
//! else is synced, plumb checks the last blocks: those of `direct` must not be in the page cache,
//! and those of `dsync` and `buffered_fdatasync` must not be dirty. Then everything is synced, and
//! the last blocks must be found in the file; the last blocks read must equal what was prepared.
//! Otherwise the case fails.
//!
//! Bytes are accounted for: the bytes that this process caused the device to read or write
//! (/proc/self/io), and the device's own counter, which includes synced writes before anything else
//! is synced. If a share did not come from a device, `cache_share` and a note report it. The
//! device's counters also give the number of requests at the device: the sum of the request waiting
//! times divided by the duration of the run (`device_in_flight`).
//!
//! A ring is only used with `direct`. Through the page cache an operation completes inside the
//! submission or in a kernel worker, and the depth is then not the device's. O_DIRECT transfers
//! whole sectors, so blocks of 1 B (and 1 KiB on devices with 4 KiB sectors) are skipped there.
//!
//! ## Prediction
//!
//! Reads past the cache: the device's class (see `laws::device`) or values set for the disk
//! (`--set host.disk.read_latency=…`), and the block at the device's rate. If fs.read measured this
//! pattern, its latency, rate and CPU time count, and its sequential rate for longer blocks: fs.read
//! is depth 1, from which the other depths follow. Depth d: d in flight divided by the latency of one (Little's law) until the device saturates, at the
//! limit of its class (of an unknown device with a measured depth 1, the square root of d stands for
//! how many it serves at a time); then latency is d divided by the rate. Cached: a system call, a page
//! lookup, a copy at memory rate. Writes: the same with a flush if the write waits for one.
//!
//! ## Parameters
//!
//! Each preset has its own list of cases; thorough has all. Where little may be written, the cases of
//! standard have room first, then R3's grid (1 B, 1 KiB and 1 MiB by one thread and two, in order and
//! at random, through the page cache). A chosen value replaces the preset's values, and combinations
//! that do not exist are left out (a ring needs `direct`, for reads or writes; `cold` only reads;
//! `dsync` only writes).
//!
//! - `op`: read or write.
//! - `pattern`: sequential or random.
//! - `mode`: see Method.
//! - `block`: bytes of an operation.
//! - `engine`: `psync` or `io_uring`.
//! - `depth`: operations in flight; 1 with psync.
//! - `threads`: threads that do the same at the same time.
//! - `files`: `own`, one file per thread, or `shared`, one part of a common file per thread; only
//!   with several threads.
//! - `size` (setting): size of the file to read. `auto`: 64 MiB in quick, else 256 MiB, less if
//!   less may be written, so that at least the cases of standard have room. Writes go to a file of
//!   half that size, at most 32 MiB; each of several threads has a quarter.
//! - `written` (setting): most bytes that a case writes per round, or 8 operations (a ring: three
//!   fills). `auto`: 1 MiB, up to 8 MiB if more may be written.
//! - `window` (setting): how long a case's threads run per round. A device that adapts to load (or
//!   the host of a virtual disk, which polls under load) reaches more in a longer window. `auto`:
//!   42 case times for the key cases of a device, else one and a half. From half a second on all
//!   modes except `cold` and `buffered` yield rates.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//!
//! `iops` over `depth` rises by Little's law up to the limit of the device; from there on only
//! `latency` rises. `bandwidth` is `iops` times the block. `cpu` is the user and system time of all
//! threads and of the kernel's io_uring workers per operation: the cost of an operation if the CPU
//! and not the device is the limit. (Workers are io-wq threads; before Linux 5.12 they do not
//! belong to the process and are not counted.) The quantities have `in_flight_mean` and
//! `in_flight_most` (the depth reached, as the program sees it), `device_in_flight` (the number of
//! requests at the device, from its counters, including other processes' requests and the parts of
//! split blocks), `operations` and `cache_share`. Compare `buffered` with memory, not with a disk.
//!
//! ## Pitfalls
//!
//! A small file fits into the cache of a device, or of the host of a virtual disk; use `--dir` with
//! a larger `--set fs.io.size=`. A drive's first seconds of writing are faster than its sustained
//! rate (plumb writes little, to avoid wear). Completion interrupts may be handled on another CPU,
//! and `cpu` then excludes them. A hypervisor's polling I/O thread uses a CPU of the host that the
//! guest cannot see. Before each round plumb waits for the page cache's writeback of earlier
//! rounds. R3 reports 2.6 ms and 7 GB/s for reads of the same file, without distinguishing the
//! cache.
//!
//! ## Sources
//!
//! [R3] "disk" (sequential and random reads and writes by block and threads); [fio] (`psync`,
//! `io_uring` with `fixedbufs` and `registerfiles`; slat and clat); [ioping]; [man] io_uring(7),
//! open(2), statx(2); [little].

pub(super) mod workloads;

use super::job::{Below, Job};
use super::offered::{common_clock, cost, describe_place, settled, standard_first, text_at};
use super::{file, window};
use crate::fs::prelude::*;
use laws::fs::io::{self as law, Request, Work};
use workloads::{MIB, Sizes};

bench::experiment!(Io);

const ID: &str = "fs.io";
/// For stated costs: opening, evicting and bringing into memory, for each case and each further
/// thread; start and end of a worker, in ns.
const AROUND_NS: f64 = 8e6;
const THREAD_NS: f64 = 3e6;
const WORKER_NS: f64 = 35e6;

static CARD: Card = Card {
    id: ID,
    title: "Reads and writes by block, depth and threads",
    metrics: metrics! {
        "latency" => Ns Lower Io: "one operation, from its submission to its completion";
        "iops", was "burst_iops" => OpPerS Higher Io:
            "operations per second of all threads, with a full queue";
        "bandwidth", was "burst" => BPerS Higher Io: "bytes per second of these operations";
        "cpu" => NsPerOp Lower Io:
            "CPU time per operation, user and system, including kernel workers";
    },
    params: params![
        Work::PARAMS,
        settings! {
            "size": Domain::Either(&["auto"], MIB, 1 << 42, Unit::B), ["auto"; 3] =>
                "size of the file to read; auto: 64 MiB in quick, else 256 MiB, less if little \
                 may be written";
            "written": Domain::Either(&["auto"], 1 << 12, 1 << 40, Unit::B), ["auto"; 3] =>
                "most bytes that a case writes per round, or 8 operations; auto: 1 to 8 MiB, \
                 depending on how much may be written";
            "window": Domain::Either(&["auto"], 100_000, 60_000_000_000, Unit::Ns), ["auto"; 3] =>
                "how long the threads of a case run per round; figures are rates from half a \
                 second on; auto: half a second for device rates, else one and a half case times";
        },
    ],
    after: &["clock.rate", "clock.read", "fs.read"],
    views: &[
        ViewCard::line("block", "bandwidth")
            .beside(&["latency"])
            .only(&[("engine", &["psync"]), ("threads", &["1"])])
            .log()
            .each(&["op", "pattern"]),
        ViewCard::line("threads", "bandwidth")
            .beside(&["latency"])
            .only(&[("engine", &["psync"])])
            .log()
            .each(&["op", "pattern", "block"]),
        ViewCard::line("depth", "iops")
            .beside(&["latency", "cpu"])
            .only(&[("engine", &["io_uring"])])
            .log()
            .each(&["op", "pattern"]),
    ],
    keys: &[
        KeyFigure::new(
            "sequential read of 1 MiB",
            "",
            "bandwidth",
            "op=read,pattern=sequential,mode=direct,block=1048576,engine=psync,\
             depth=1,threads=1",
        ),
        KeyFigure::new(
            "random 4 KiB, depth 32",
            "",
            "iops",
            "op=read,pattern=random,mode=direct,block=4096,engine=io_uring,depth=32,threads=1",
        ),
    ],
    ..Card::PLAIN
};

impl Experiment for Io {
    type Case = Work;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("io.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        cost(WORKER_NS, series, |case| {
            let Some(work) = Work::from_id(&case.id) else { return 0.0 };
            let operations = (workloads::least(work) * work.threads) as f64;
            let ns = operations * law::stated_ns(site, Request::from_case(&work, case));
            let threads_ns = THREAD_NS * (work.threads - 1) as f64;
            ns.max(window_of(series, case) as f64) + AROUND_NS + threads_ns
        })
    };
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| file::make(dir, files_of(series), "--set fs.io.size=SIZE"),
        cost: |site, series| {
            device::write_cost(site, files_of(series).iter().map(|made| made.bytes).sum())
        },
        has: |_| true,
    });

    fn cases(_: &Site, preset: Preset) -> Vec<Work> {
        match preset {
            Preset::Rehearsal | Preset::Quick => workloads::QUICK.to_vec(),
            Preset::Standard => workloads::STANDARD.to_vec(),
            Preset::Thorough => workloads::everything(),
        }
    }

    fn complete(work: Work) -> Option<Work> {
        workloads::existing(work)
    }

    fn series(site: &Site, mut works: Vec<Work>, params: &Params) -> Result<Offer, Skip> {
        if site.dir.is_none() {
            let why = "no directory for files: the current one is not writable, or is in memory";
            return Err(Skip::because(why).needs("--dir DIR"));
        }
        if works.is_empty() {
            let why = "no such combination exists: io_uring needs mode=direct, psync has depth 1";
            let needed = "--set fs.io.engine=io_uring --set fs.io.mode=direct";
            return Err(Skip::because(why).needs(needed));
        }
        works.order_by_key(|work| !workloads::is_of_r3(work));
        standard_first::<Self>(site, &mut works);
        let written = chosen(params, "written");
        let written = written.unwrap_or_else(|| workloads::written_each(site, params, &works));
        let size = chosen(params, "size");
        let size = size.unwrap_or_else(|| workloads::size_for(site, params, written, &works));
        // As chosen, or one and a half case times.
        let window_ns = chosen(params, "window").unwrap_or(site.case_ns + site.case_ns / 2);
        let settings = [("size", size), ("written", written), ("window", window_ns)];
        let offered = workloads::offered(site, params, Sizes { size, written }, works);
        let settings = settings.map(|(name, value)| (name.to_owned(), Value::from(value)));
        offered.series(&CARD, "", settings.into())
    }

    fn law(facts: Facts, work: &Work, at: &Case, metric: &Metric) -> Option<Prediction> {
        law::predict(facts, Request::from_case(work, at), &metric.name).map(Law::prediction)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let setting =
            |name| series.setting(name).with_context(|| format!("the setting {name} is missing"));
        let (size, written) = (setting("size")?, setting("written")?);
        let windows = series.cases.iter().map(|case| window_of(series, case));
        let (dir, settled) = settled(bench, windows.sum())?;
        let sizes = Sizes { size, written };
        bench.each_of::<Work>(series, |bench, case, work| {
            let job = job(series, bench, (case, work), &dir, sizes)?;
            let done = match work.threads {
                1 => job.alone()?,
                _ => {
                    bench.declare(Declared::Cpus(&job.cpus));
                    job.together()?
                }
            };
            done.record(bench, case, &job, "latency", |samples| {
                describe_place(samples, case, settled);
            })
        });
        Ok(())
    }
}

/// What a case asks for in a round.
fn job<'case>(
    series: &Series,
    bench: &mut Bench,
    (case, work): (&'case Case, Work),
    dir: &Path,
    sizes: Sizes,
) -> Result<Job<'case>> {
    let cpus = cpus_for(work.threads, &bench.order().cpus)?;
    let window_ns = window_of(series, case);
    let sizes = Sizes { written: workloads::written(case, sizes.written), ..sizes };
    Ok(Job {
        work,
        regions: (0..work.threads).map(|at| workloads::region_of(dir, work, at, sizes)).collect(),
        pass: None,
        seed: file::order_seed(bench.order().seed, &case.id),
        clock: common_clock(bench, &cpus, window_ns as f64)?,
        window_ns,
        is_rate: window::rate_ns(case).is_some(),
        least: workloads::least(work),
        most: workloads::most(work, sizes.written, is_written_through(case)),
        below: Below::Device(text_at(case, "device_number")),
        cpus,
        is_free: bench.order().is_free(),
    })
}

/// CPUs for so many threads: one each as far as they go round.
fn cpus_for(threads: u64, cpus: &[usize]) -> Result<Vec<usize>> {
    ensure!(!cpus.is_empty(), "the round has no CPU");
    let count = usize::try_from(threads)?;
    Ok(cpus.iter().copied().cycle().take(count).collect())
}

/// Whether writes into the page cache go on at once: the mount asks for it, or the program or
/// machine that answers may do so.
fn is_written_through(case: &Case) -> bool {
    let stays = matches!(text_at(case, "ground"), Some("device" | "memory"));
    let options = text_at(case, "mount_options").unwrap_or_default();
    let is_sync = |option: &str| option == "sync" || option == "dirsync";
    !stays || options.split(',').any(is_sync)
}

/// The one value of a setting that was chosen.
fn chosen(params: &Params, name: &str) -> Option<u64> {
    params.chosen(name)?.first()?.int()
}

/// How long the threads of a case of a series run; a rate's window may last longer.
fn window_of(series: &Series, case: &Case) -> u64 {
    let of_rate = window::rate_ns(case);
    of_rate.unwrap_or_else(|| series.setting("window").unwrap_or(0))
}

fn files_of(series: &Series) -> Vec<file::Made> {
    let works = series.cases.iter().filter_map(|case| Work::from_id(&case.id));
    workloads::files(works, series.setting("size").unwrap_or(0))
}

#[cfg(test)]
mod tests;

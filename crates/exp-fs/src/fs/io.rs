//! What do reads and writes cost, by block, depth, threads and way?
//!
//! ## Question
//!
//! How long does a read or write of a file take, how many come to a second, and what CPU time does
//! each take: in order or at random, of 1 B to 1 MiB, one after another or up to 128 at a time, by
//! one thread or several, past the page cache or through it?
//!
//! ## Method
//!
//! The files are made before the first round: incompressible data, no two blocks alike, synced, in
//! written extents (FIEMAP) and out of memory. Those that are read are never written, and those
//! that are written are overwritten only: nothing is extended in a round, nor allocated, but by
//! file systems that write every block to a new place (btrfs, ZFS, f2fs). Each case of a round goes
//! to places of its own order: else a drive or a host would have in its cache what the case before
//! has read.
//!
//! `psync` is one operation after another by pread(2) or pwrite(2). `io_uring` keeps `depth` in
//! flight with registered file and blocks: what completed is submitted again, four at a time, the
//! last by the same call that waits for the next completion (Linux 6.1 and later work completions
//! off inside of that call only). The kernel tells the device at the end of a call: so it works on
//! the first while the rest are prepared. Each operation is timed from its submission to the moment
//! at which its completion is seen; nothing is allocated and no other system call is made while
//! they run. A thread runs for one and a half case times, and until it has done 8 operations (a
//! ring: three fills). Its rate is that of the stretch in which the queue was full; `latency` and
//! `cpu` have those operations as well that complete while it empties, the slowest of all among
//! them.
//!
//! A window that short measures a burst: a limit lets some of it through at once. So the key cases
//! of a device have windows of half a second or longer (42 case times), which last until the rate
//! has settled, up to four times that. These cases are direct reads of 1 MiB in order, direct reads
//! of 4 KiB at random by `psync` and by rings of 32 and 128, and in thorough direct writes of 1 MiB
//! in order where they may write as much. They yield `iops` and `bandwidth`, from the part after the change point; the part
//! before it is recorded with its rate (`discarded_b_per_s`). `latency` and `cpu` cover the whole
//! window. Where a limit lets slices through by turns, whole turns count. All other cases yield
//! `burst_iops` and `burst`.
//!
//! Several threads have CPUs of their own (as far as there are any: else they take turns, which a
//! note says), open the file each for itself, and begin at a common tick. Their rate is that of the
//! time in which all worked: from the last begin to the first end.
//!
//! Ways to read (`mode`):
//!
//! - `direct`: O_DIRECT, which is asked for (statx), set (F_GETFL) and tried.
//! - `cold`: through the page cache, evicted before (residency checked), each place once.
//! - `cached`: from the page cache, where the part that is read (16 MiB at most) is brought before.
//!
//! Ways to write, which are four different figures:
//!
//! - `buffered`: into the page cache, where the pages are before: a copy in memory, and what the
//!   file system does for a page that becomes dirty. The device sees it later (here after the
//!   window). At most `written` bytes are written over and over, so that this is no measure of how
//!   long the device keeps up. Where the mount is `sync`, or a program or another machine answers,
//!   each write may go on at once, and no more than `written` bytes are written in all.
//! - `buffered_fdatasync`: the same, and fdatasync(2) after each write, inside the time.
//! - `direct`: O_DIRECT: the device has the data, perhaps in a cache that loses it with the power.
//! - `dsync`: O_DSYNC through the page cache: each write waits until the device has flushed it.
//!
//! Written blocks get a stamp of eight bytes in each 4 KiB before their submission (one store per
//! page: a nanosecond beside a microsecond), so that no two are alike; blocks of 1 B repeat. They
//! come out of 256 KiB of noise in turn, of another seed for each file and round: nothing for a
//! file system or an array that compresses or keeps one copy of the same. After the window, and
//! before anything else is synced, the last blocks of `direct` must be nowhere in the page cache,
//! and those of `dsync` and `buffered_fdatasync` not dirty. Then all is synced, and the last blocks
//! must be found in the file; of what is read the last blocks must be what was prepared. Else the
//! case has failed.
//!
//! Bytes are accounted for: those that this process had the device read or write (/proc/self/io),
//! and the device's own counter, of synced writes before anything else is synced; a share that came
//! from no device is told (`cache_share`, and a note). What was at the device at a time is the
//! device's own account as well: the sum of the times that requests waited for it, over the length
//! of the run (`device_in_flight`).
//!
//! A ring goes with `direct` only: through the page cache an operation is answered inside of the
//! submission, or by a worker of the kernel's, and the depth is then none of the device's. O_DIRECT
//! moves whole sectors: blocks of 1 B (and 1 KiB on devices of 4 KiB) are skipped there.
//!
//! ## Prediction
//!
//! Reads past the cache: the device's class (see `predict/device.rs`) or what was given of the disk
//! (`--set host.disk.read_latency=…`), and the block at its rate; where fs.read measured this
//! pattern, its latency, rate and CPU time, and its stream the rate of longer blocks. Depth d: d in
//! flight over the latency of one (Little's law) until the device is saturated, which its class
//! says; and latency is d over the rate. Cached: a system call, a page looked up, a copy at
//! memory's rate. Writes: the same with a flush where it is waited for.
//!
//! ## Parameters
//!
//! Each preset has its own list of cases (thorough: all). A chosen value takes the place of theirs,
//! and what does not exist then is left out (a ring is `direct` and reads or writes, `cold` is
//! read, `dsync` is written).
//!
//! - `op`: read or write.
//! - `pattern`: sequential or random.
//! - `mode`: see Method.
//! - `block`: bytes of an operation.
//! - `engine`: `psync` or `io_uring`.
//! - `depth`: operations in flight; 1 with psync.
//! - `threads`: threads that do the same at the same time.
//! - `files`: `own`, a file for each thread, or `shared`, a part of one file for each; only where
//!   there are several threads.
//! - `size` (setting): of the file that is read. `auto`: 64 MiB in quick, else 256 MiB, less where
//!   less may be written, so that at least the cases of standard have room. Writes go to a file of half of it, at most 32 MiB; threads have a quarter
//!   each.
//! - `written` (setting): bytes that a case writes in a round at most, or 8 operations (of a ring,
//!   three fills). `auto`: 1 MiB, up to 8 MiB where more may be written.
//! - `window` (setting): how long a case's threads run in a round; a device that adapts to load
//!   (and the host of a virtual disk, which polls while there is some) shows more in a longer one.
//!   `auto`: 42 case times for the key cases of a device, else one and a half. From half a second
//!   on all but `cold` and `buffered` yield rates.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves are
//!   planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another,
//!   which costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//!
//! `iops` over `depth` rises by the law of Little and ends at what the device can: from there on
//! only `latency` rises. `bandwidth` is `iops` times the block. `cpu` is user and system time of
//! all threads with the kernel's workers for rings (io-wq; those of kernels before 5.12 are none of
//! the process's and not counted), for each operation: what an operation costs where the CPU and
//! not the device is the limit. In the quantities: `in_flight_mean`, `in_flight_most` (what was
//! reached of the depth, as the program sees it), `device_in_flight` (what of it was at the device,
//! by the device's counters: of everybody's requests, and of parts where a block is split),
//! `operations`, `cache_share`. `buffered` compares with memory, not with a disk.
//!
//! ## Pitfalls
//!
//! A small file fits into the cache of a device or of the host of a virtual one: `--dir` with
//! `--set fs.io.size=` of more than that. A drive's first seconds of writing are faster than what
//! it sustains (this writes little, so as to wear nothing out). Completion interrupts may be worked
//! off on another CPU, and are not in `cpu` then. A hypervisor's polling I/O thread takes a CPU of
//! the host's that nobody sees here. The page cache's own writing back in other rounds is waited
//! for before each round. R3 prints 2.6 ms and 7 GB/s for reads of the same file: no cache was told
//! apart.
//!
//! ## Sources
//!
//! R3 "disk" (sequential and random reads and writes by block and threads); fio (`psync`,
//! `io_uring` with `fixedbufs` and `registerfiles`; slat and clat); ioping; io_uring(7), open(2),
//! statx(2); J. D. C. Little, "A Proof for the Queuing Formula L = λW" (1961). The intervals'
//! sources stand in `predict/fs/io.rs`.

mod crew;
mod places;
mod watch;
mod workloads;
mod written;

use super::latencies::common_clock;
use super::offered::{cost, less, more, settled, standard_first, told};
use super::{file, window};
use anyhow::{Context, Result};
use bench::device;
use bench::experiment::contract::{Experiment, Facts, Files};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Domain, Fields, Hazards, Offer, Param, Params, Preset, Site, Skip, ViewCard, unknown,
};
use bench::link::RoundOrder;
use bench::measure::{Bench, Declared};
use bench::params;
use crew::Task;
use laws::Law;
use laws::fs::io::{self as law, Request, Work};
use record::case::{Case, Series};
use record::event::Prediction;
use record::key::Value;
use record::key_figure::KeyFigure;
use record::metric::Metric;
use record::unit::Unit;
use std::time::Duration;
use workloads::{MIB, Sizes};

/// The experiment.
pub static EXPERIMENT: Io = Io;

/// `fs.io`.
pub struct Io;

const ID: &str = "fs.io";
/// For stated costs: opening, evicting and bringing into memory, for each case and each further
/// thread; start and end of a worker, in ns.
const AROUND_NS: f64 = 8e6;
const THREAD_NS: f64 = 3e6;
const WORKER_NS: f64 = 35e6;

static CARD: Card = Card {
    id: ID,
    title: "Reads and writes by block, depth and threads",
    metrics: &[
        less("latency", "one operation, from its submission to its completion", Unit::Ns),
        more("iops", "operations of all threads per second, with a full queue", Unit::OpPerS),
        more("bandwidth", "bytes of these", Unit::BPerS),
        more(
            "burst_iops",
            "operations per second of a window that is too short for the name of a rate",
            Unit::OpPerS,
        )
        .formerly("iops"),
        more("burst", "bytes of these", Unit::BPerS).formerly("bandwidth"),
        less(
            "cpu",
            "CPU time of an operation, user and system, kernel's workers included",
            Unit::NsPerOp,
        ),
    ],
    params: params![
        Work::PARAMS,
        &[
            Param::setting(
                "size",
                "size of the file that is read; auto: 64 MiB in quick, else 256 MiB, less where little may \
                 be written",
                Domain::Either(&["auto"], MIB, 1 << 42, Unit::B),
                ["auto"; 3],
            ),
            Param::setting(
                "written",
                "most bytes that a case writes in a round, or 8 operations; auto: 1 to 8 MiB by what may be \
                 written",
                Domain::Either(&["auto"], 1 << 12, 1 << 40, Unit::B),
                ["auto"; 3],
            ),
            Param::setting(
                "window",
                "how long the threads of a case run in a round; from half a second on figures are rates; auto: \
                 half a second for the rates of a device, else one and a half case times",
                Domain::Either(&["auto"], 100_000, 60_000_000_000, Unit::Ns),
                ["auto"; 3],
            ),
            PLACEMENT_PARAM,
        ],
    ],
    after: &["clock.rate", "clock.read", "fs.read"],
    views: &[
        ViewCard::line("block", "burst")
            .beside(&["bandwidth", "latency"])
            .only(&[("engine", &["psync"]), ("threads", &["1"])])
            .log()
            .each(&["op", "pattern"]),
        ViewCard::line("threads", "burst")
            .beside(&["latency"])
            .only(&[("engine", &["psync"])])
            .log()
            .each(&["op", "pattern", "block"]),
        ViewCard::line("depth", "burst_iops")
            .beside(&["iops", "latency", "cpu"])
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
            "random 4 KiB, 32 at once",
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
            let Some(work) = Work::of(&case.id) else { return 0.0 };
            let operations = (workloads::least(work) * work.threads) as f64;
            let ns = operations * law::stated_ns(site, Request::of(&work, case));
            let threads_ns = THREAD_NS * (work.threads - 1) as f64;
            ns.max(window_of(series, case) as f64) + AROUND_NS + threads_ns
        })
    };
    const FILES: Option<Files> = Some(Files {
        make: |series, dir, _| {
            let write = |made: workloads::Made| {
                let seed = file::seed_of(&dir.join(&made.name));
                file::write(dir, &made.name, made.bytes, seed, "--set fs.io.size=SIZE")
            };
            files_of(series).into_iter().map(write).collect()
        },
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
            let why =
                "no directory for files: the current one cannot be written, or lies in memory";
            return Err(Skip::because(why).needs("--dir DIR"));
        }
        if works.is_empty() {
            let why = "nothing that is chosen exists: io_uring is direct, psync has depth 1";
            let needed = "--set fs.io.engine=io_uring --set fs.io.mode=direct";
            return Err(Skip::because(why).needs(needed));
        }
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
        match window::in_law(at, &metric.name) {
            Ok(name) => law::predict(facts, Request::of(work, at), name).map(Law::prediction),
            Err(why) => facts.known.is_none().then(|| unknown(why)),
        }
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let setting = |name| series.setting(name).with_context(|| format!("{name} is not set"));
        let (size, written) = (setting("size")?, setting("written")?);
        let windows = series.cases.iter().map(|case| window_of(series, case));
        let (dir, settled) = settled(bench, windows.sum())?;
        bench.each_of::<Work>(series, |bench, case, work| {
            let cpus = crew::cpus_for(work.threads, &bench.order().cpus)?;
            let window_ns = window_of(series, case) as f64;
            let task = Task {
                dir: &dir,
                work,
                sizes: Sizes { size, written: workloads::written(case, written) },
                seed: file::order_seed(bench.order().seed, &case.id),
                clock: common_clock(bench, &cpus, window_ns)?,
                window_ns,
                is_rate: window::rate_ns(case).is_some(),
                number: told(case, "device_number"),
                is_written_through: is_written_through(case),
                is_free: bench.order().is_free(),
            };
            let (did, seen) = match work.threads {
                1 => task.alone()?,
                _ => {
                    bench.declare(Declared::Cpus(&cpus));
                    task.together(&cpus)?
                }
            };
            written::down(bench, case, &task, &cpus, did, &seen, settled)
        });
        Ok(())
    }
}

/// Whether writes into the page cache go on at once: the mount asks for it, or who answers may do
/// so.
fn is_written_through(case: &Case) -> bool {
    let stays = matches!(told(case, "ground"), Some("device" | "memory"));
    let options = told(case, "mount_options").unwrap_or_default();
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

fn files_of(series: &Series) -> Vec<workloads::Made> {
    let works = series.cases.iter().filter_map(|case| Work::of(&case.id));
    workloads::files(works, series.setting("size").unwrap_or(0))
}

#[cfg(test)]
mod tests;

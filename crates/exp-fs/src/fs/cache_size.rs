//! How much of a file the page cache keeps, and what a block costs above that.
//!
//! ## Question
//! Up to which size is a file that was written or read once read again from memory? What does a
//! block of 4 KiB cost below that size and above it, and is the rate above it the device's?
//!
//! ## Method
//! One file grows, every byte of it written once (incompressible, unique per block, synced, in
//! written extents). At each size it is evicted (verified: nothing of it is in memory), read once
//! in order, so that the cache has what it keeps of a file of this size, and then read again and
//! again in the same order, in blocks of 4 KiB by pread(2). Timed are the passes after the first.
//! Before them it is looked how much of the file is in memory (cachestat(2), else mincore(2)) and
//! by how much the cached bytes have grown (`Cached` of /proc/meminfo, or the group's own count);
//! around them it is counted what the device gave (/proc/self/io, /proc/diskstats). Sizes go
//! upwards; then the two sizes between which the time of a block steps up are bisected. The file
//! ends where the size does, for what lies behind would be read ahead and take memory: going down
//! the bisection cuts it off, and what it cuts off and needs again is written again (at most half
//! the distance of two sizes).
//!
//! *Order.* The reads are in order from the beginning, as in all three reports. It is the order in
//! which a cache that gives up the oldest page first does worst: a file larger than it by one page
//! has left when its turn comes, so that the step is a cliff and its place is sharp. Random reads
//! would fall by the share that is missing, a bend that only a fit finds. What stays in memory
//! above the cliff is nevertheless nearly the whole cache: the residency beside the time shows it.
//! A kernel that keeps part of such a file (MGLRU, refaults that make pages active) shows a step
//! that is less high, and less missed than is away.
//!
//! *Limits.* `limit` as a size: the worker makes a control group of its own with that memory limit
//! (version 1 or 2), writes outside of it (in a small group writing waits for its own dirty pages),
//! enters it once the file is evicted, so that the file's pages are charged there, and removes it
//! at the end (the run's journal does so after a kill). Nothing of the machine's cache is lost, and
//! it takes seconds. `limit=memory`: the machine's memory, or the limit of the groups that plumb
//! was started in. There a size that was just written and is wholly in memory is not read in once
//! more, and of a file that does not fit only a part is read again where it takes long; both are
//! said. Everything else in the page cache is lost on the way, and where there is swap other
//! processes' memory would be pushed out: there half of the memory is filled at most, but for who
//! names `limit=memory`. `thorough` does both, memory only where directory and time allow it.
//! `standard` uses a group; where none can be made (no root, no delegated group) the largest size
//! that time and directory allow, of which then is known that the knee lies above it.
//!
//! ## Prediction
//! Base hardware: the limit; the copy of a block from memory; the device's rate in a row (given,
//! measured by fs.read, or by its class). Software: one system call and the look-up of a page
//! (os.syscall's `pread_cached` where it is known); what the kernel takes of a limit beside the
//! file's pages; above the knee, all of the file from the device. Near the knee both are possible,
//! and the interval spans both.
//!
//! ## Parameters
//! - `limit`: what limits the cache: `memory`, or the limit of a group that is made for it (64
//!   MiB).
//! - `size`: size of the file in hundredths of the limit; `largest`: the largest that time and
//!   directory allow; `bisect1` to `bisect4`: between the sizes around the step, wherever that is
//!   (`file` tells).
//! - `time`: what a sweep may take. Bisections and sizes that do not fit in are not planned; what
//!   takes four times as long ends with the sizes that it has.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves are
//!   planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another,
//!   which costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//! `latency_per_block` and `bandwidth` over the size step where the file no longer fits. `knee` is
//! the middle of the two sizes around the step, its interval the two (that of one repetition: there
//! is no confidence); `knee_over_limit` says how much of a limit files get; `cached` is the largest
//! size that was in memory to 98 % and read from there, and the only one of these where no step was
//! found. `residency` is the share of the file that was in memory before it was read again: above
//! the knee it falls like knee over size, while `missed`, the share that came from the device all
//! the same, jumps to one. `rate_above` is what the device gave above the knee, over its time;
//! `rate_over_read` compares it with fs.read's cold file. R0 found 4 GB of 32, R1 3.5 of 4, R2 4.1
//! of 8.
//!
//! ## Pitfalls
//! A file that is only written is read again from what writing left, which is another state (dirty
//! limits, R2's step is where the file's beginning was evicted by its own end): here every size is
//! read in once. Pages that earlier sizes made active would be kept before new ones: every size
//! begins with nothing of the file in memory. Pages charged to another group do not count for the
//! limit: the file is evicted before the group is entered. Readahead in a small group makes room
//! for itself by what was just read, so the knee comes a few steps early with a large readahead
//! window (`readahead_bytes`). The virtual disk of a guest may come from its host's memory: the
//! device's rate then says nothing of a disk, and no count here can tell. Of a file system in user
//! space (FUSE) the kernel counts no reads: there `missed` and `rate_above` are left out, and the
//! residency alone tells whether a file fits. In version 2 the group is beside plumb's own, not
//! inside: the limits of plumb's own unit (CPUQuota, IOWeight, MemoryMax) do not hold for the
//! worker there. As root that is in a slice of systemd's, of whose rules one is that nobody else
//! makes groups in what it did not delegate; `systemd-run --scope -p Delegate=yes` delegates one.
//! Filling the whole memory (`limit=memory`) takes the cache of everybody else. Intervals are those
//! of one repetition: of passes where there are six, else of stretches all over the file.
//!
//! ## Sources
//! R0, File Cache Size (0.5 to 14 GB by 0.5); R1, Size of File Cache (1 to 4 GB, dd and a read per
//! block); R2, 7.1 (1 to 7 GB, refined by 0.1 GB around the knee). Linux mm/vmscan.c,
//! mm/workingset.c, mm/memcontrol.c; Documentation/admin-guide/cgroup-v1/memory.rst and
//! cgroup-v2.rst; cachestat(2).

mod derive;
mod group;
mod grown;
mod predicted;
mod sizes;
mod sweep;
#[cfg(test)]
mod tests;

use crate::fs::file::{self, below};
use crate::fs::offered::{found, less, more, plain};
use anyhow::Result;
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, DerivedValue, Domain, Field, Fields, Hazards, Known, Need, Offer, Param, Params, Preset,
    Site, Skip, ViewCard,
};
use bench::link::RoundOrder;
use bench::measure::Bench;
use bench::{case, params, symbols};
use record::case::{Case, Order, Series};
use record::event::{Prediction, Repeat};
use record::key::CaseId;
use record::metric::Metric;
use record::unit::Unit;
use std::path::PathBuf;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: CacheSize = CacheSize;

/// `fs.cache_size`.
pub struct CacheSize;

const ID: &str = "fs.cache_size";

symbols! {
    /// What limits the page cache: the machine's memory, or the limit of the groups that plumb
    /// itself is in; or a control group around the worker, made for it, with a limit of so many
    /// bytes.
    pub enum Limit { Memory = "memory"; Group(8 << 20, 1 << 40, B) }
}

symbols! {
    /// Size of the file: the largest that the budget allows, where not even the limit can be
    /// reached; a step of the bisection; or hundredths of the limit.
    pub enum Size {
        Largest = "largest",
        Bisect1 = "bisect1",
        Bisect2 = "bisect2",
        Bisect3 = "bisect3",
        Bisect4 = "bisect4";
        Percent(1, 1000, Count)
    }
}

case! {
    /// A size under a limit.
    pub struct Swept {
        /// what limits the cache: the memory, or a control group with this limit made for it;
        /// chosen by the preset and by whether a group can be made
        limit: Limit,
        /// size of the file in hundredths of the limit, or where the sweep finds it; chosen by the
        /// limit, the directory and the time
        size: Size,
    }
}

case! {
    /// What the sizes under a limit say together: where no size reaches it, of the largest alone.
    struct Found {
        /// what limits the cache
        limit: Limit,
        /// only the largest
        size: Option<Size>,
    }
}

impl Limit {
    fn id(self) -> CaseId {
        Found { limit: self, size: None }.id()
    }

    fn name(self) -> String {
        match self {
            Limit::Group(bytes) => format!("{}MiB", bytes >> 20),
            Limit::Memory => "memory".to_owned(),
        }
    }

    /// Under what these sizes are found what they say together.
    fn found(self, sizes: impl Iterator<Item = Size>) -> CaseId {
        let sizes: Vec<Size> = sizes.collect();
        let is_short = |size: &Size| matches!(size, Size::Largest | Size::Percent(..100));
        let is_largest = sizes.iter().all(is_short) && sizes.contains(&Size::Largest);
        Found { limit: self, size: is_largest.then_some(Size::Largest) }.id()
    }
}

static CARD: Card = Card {
    id: ID,
    title: "Size of the page cache",
    metrics: &[
        less("latency_per_block", "time to read a 4 KiB block again, sequentially", Unit::Ns),
        less("latency_per_byte", "the same time per byte", Unit::NsPerB),
        more("bandwidth", "rate at which the file is read again", Unit::BPerS),
        plain("residency", "share of the file in memory before the second read", Unit::Ratio),
        plain("missed", "share of the second read that came from the device", Unit::Ratio),
        plain("cache_growth", "growth of the page cache when the file was first read", Unit::B),
        plain("file", "size of the file", Unit::B),
        found(more("knee", "file size above which the file no longer stays in memory", Unit::B)),
        found(more("knee_over_limit", "that size divided by the limit", Unit::Ratio)),
        found(more("cached", "largest size whose second read came from memory", Unit::B)),
        found(more("rate_above", "rate at which the device delivers above the knee", Unit::BPerS)),
        found(plain(
            "rate_over_read",
            "that rate divided by fs.read's rate for a cold sequential file",
            Unit::Ratio,
        )),
    ],
    params: params![
        Swept::PARAMS,
        &[
            Param::setting(
                "time",
                "time limit of a sweep",
                Domain::ns(100_000_000, 86_400_000_000_000),
                ["6s", "6s", "240s"],
            ),
            PLACEMENT_PARAM,
        ],
    ],
    after: &["os.syscall", "memory.bandwidth", "fs.read"],
    repeat: Repeat::Sweep,
    needs: &[Need::Directory],
    views: &[ViewCard::line("size", "latency_per_block")
        .at("file", Unit::B)
        .beside(&["residency", "missed"])
        .marks(&["knee"])
        .log_y()],
    ..Card::PLAIN
};

impl Experiment for CacheSize {
    type Case = Swept;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("cache_size.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = sizes::round_cost;
    // Where nobody counts what the device gave, nothing is known of it.
    const MAY_LACK: &'static [&'static str] = &["missed"];
    const GROUP_BELOW: fn(&Site, &Series) -> Option<PathBuf> = |site, series| {
        let is_in_group = series.settings.contains_key("group_below");
        let place = site.host.limits.memory_place.as_ref();
        let place = place.filter(|_| is_in_group)?;
        Some(PathBuf::from("/").join(&place.parent))
    };

    fn cases(site: &Site, preset: Preset) -> Vec<Swept> {
        let limits = sizes::limits(site, preset).into_iter();
        limits
            .flat_map(|limit| sizes::all(preset, limit).map(move |size| Swept { limit, size }))
            .collect()
    }

    fn series(site: &Site, cases: Vec<Swept>, params: &Params) -> Result<Offer, Skip> {
        let is_named = params.chosen("limit").is_some() || params.chosen("size").is_some();
        if params.preset == Preset::Quick && !is_named {
            return Err(Skip::because("a sweep takes about 6 s, too long for quick")
                .needs("--preset standard, or --set fs.cache_size.limit=32MiB"));
        }
        if let Some(ground) = below(site).filter(|ground| ground.kind == file::Kind::Memory) {
            let why = format!("{}: files there never leave memory", ground.because);
            return Err(Skip::because(why).needs("--dir DIR on a file system of a device"));
        }
        let mut offer = Offer::default();
        for cases in cases.chunk_by(|a, b| a.limit == b.limit) {
            let limit = cases[0].limit;
            match sizes::bytes(site, limit) {
                Err(skip) => offer.skipped.push((limit.id(), skip)),
                Ok(bytes) => sizes::offer(site, params, cases, bytes, &mut offer),
            }
        }
        match (offer.series.is_empty(), offer.skipped.first()) {
            (true, Some((_, skip))) => Err(skip.clone()),
            _ => Ok(offer),
        }
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let of = |series: &Series| {
            let cases: Vec<Swept> =
                series.cases.iter().filter_map(|case| Swept::of(&case.id)).collect();
            Some(cases.first()?.limit.found(cases.iter().map(|case| case.size)))
        };
        series.iter().filter_map(of).collect()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        if site.dir.is_none() {
            return Ok(series);
        }
        let mut series = file::ground_facts(site, series);
        let limits = &site.host.limits;
        let is_by_group = limits.memory_left_bytes == site.host.memory_ceiling_bytes();
        if let Some(stat) = limits.memory_stat_file.as_ref().filter(|_| is_by_group) {
            let is_it = |case: &&mut Case| Limit::of(case.id.get("limit")) == Some(Limit::Memory);
            for case in series.cases.iter_mut().filter(is_it) {
                case.at.insert("memory_stat".to_owned(), format!("/{stat}").as_str().into());
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, swept: &Swept, at: &Case, metric: &Metric) -> Option<Prediction> {
        predicted::measured(facts, swept.limit, at, &metric.name)
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        predicted::derived(facts, &Found::of(id)?, &metric.name)
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut sweep = sweep::Sweep::begin(series, bench)?;
        bench.each(series, |bench, case| {
            // A size is measured one time: a second try would find the file grown.
            if let Err(error) = sweep.case(case, bench) {
                bench.give_up([case], &error);
            }
            Ok(())
        });
        sweep.end();
        Ok(())
    }

    fn derive(site: &Site, known: &Known, values: &Known) -> Vec<DerivedValue> {
        derive::derive(site, known, values)
    }
}

//! How much of a file does the page cache keep, and what does a block cost above that size?
//!
//! ## Question
//! Up to which size does a file that was just read stay in memory for the next read? What does a 4
//! KiB block cost below that size and above it, and is the rate above it the rate of the device?
//!
//! ## Method
//! One file grows. Every byte is written once (incompressible, unique per block, synced, in written
//! extents). At each size the file is evicted, and plumb verifies that no page is left in memory.
//! The file is then read once sequentially, so that the cache holds what it keeps of a file of this
//! size, and then again and again in the same order, in blocks of 4 KiB with pread(2). Only the
//! passes after the first are timed. Before them plumb checks how much of the file is in memory
//! (cachestat(2), else mincore(2)) and by how much the page cache has grown (`Cached` in
//! /proc/meminfo, or the control group's own count). Around them it counts the bytes that the
//! device delivers (/proc/self/io, /proc/diskstats). Sizes increase. Then plumb bisects between the
//! two sizes where the time per block steps up. The file ends at the measured size, because
//! readahead would fetch data beyond it and take memory. To go down, the bisection truncates the
//! file, and it writes the truncated part again when it needs it (at most half the distance between
//! two sizes).
//!
//! *Order.* The reads are sequential from the beginning, as in all three reports. This order is the
//! worst case for a cache that evicts the oldest page first: if the file exceeds the cache by one
//! page, every page is evicted before it is read again. The step is therefore steep and its
//! position sharp. Random reads would slow down gradually with the missing share, and only a fit
//! could find such a bend. Above the step nearly the whole cache is still filled, as the residency
//! shows. A kernel that keeps part of such a file (MGLRU, refaults that activate pages) shows a
//! lower step, and fewer misses than pages that are absent.
//!
//! *Limits.* With a size as `limit`, the worker creates a control group with that memory limit
//! (version 1 or 2). It writes outside the group (in a small group writes wait for the group's own
//! dirty pages), enters the group after evicting the file, so that the file's pages are charged
//! there, and removes the group at the end (the run's journal does so after a kill). The machine's
//! page cache stays intact, and the sweep takes seconds. `limit=memory` uses the machine's memory,
//! or the limit of the control group that plumb was started in. There a freshly written size that
//! is entirely in memory is not read in again, and if a pass takes long only part of a file that
//! does not fit is read again; notes report both. The sweep evicts everything else from the page
//! cache. Where swap is enabled it would also push out other processes' memory, so it fills at most
//! half of the memory unless `limit=memory` is set alone. `thorough` measures both limits, memory
//! only if directory and time allow it. `standard` uses a group. If none can be created (no root,
//! no delegated group), it measures the largest size that time and directory allow, and reports
//! that the knee is above it.
//!
//! ## Prediction
//! Base hardware: the limit; copying a block from memory; the device's sequential rate (given,
//! measured by fs.read, or from the device's class). Software: one system call and the page lookup
//! (os.syscall's `pread_cached` if known); the part of a limit that the kernel uses for other data
//! than the file's pages; above the knee, the whole file comes from the device. Near the knee both
//! are possible, and the interval covers both.
//!
//! ## Parameters
//! - `limit`: what limits the cache: `memory`, or the memory limit of a control group that plumb
//!   creates (64 MiB).
//! - `size`: size of the file in percent of the limit; `largest`: the largest that time and
//!   directory allow; `bisect1` to `bisect4`: between the sizes around the step, wherever that is
//!   (see `file`).
//! - `time`: time limit of a sweep. Bisections and sizes that do not fit are not planned. A sweep
//!   that takes four times as long ends with the sizes it has.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//! `latency_per_block` and `bandwidth` over the size show a step where the file no longer fits.
//! `knee` is the middle of the two sizes around the step, and its interval is these two sizes (from
//! one repetition, so there is no confidence level). `knee_over_limit` is the part of a limit that
//! files get; times the available memory it is `machine_estimate`: how much file data the whole
//! machine would cache, without filling it. The kernel keeps reserves of its own (watermarks) that
//! a group does not have, so only `limit=memory` measures it. `cached` is the largest size that was at least 98 % in memory and was read from
//! there; it is the only one of these figures if there was no step. `residency` is the share of the
//! file in memory before it was read again. Above the knee it falls as knee over size, while
//! `missed`, the share that nevertheless came from the device, jumps to one. `rate_above` is the
//! rate at which the device delivers above the knee; `rate_over_read` divides it by fs.read's rate
//! for a cold file. R0 found 4 GB of 32, R1 3.5 of 4, R2 4.1 of 8.
//!
//! ## Pitfalls
//! A file that was only written is read again from the state that writing left, which differs
//! (dirty limits; R2's step is where the end of the file evicted its beginning). Here every size is
//! read in once. The kernel would keep pages that earlier sizes activated longer than new ones, so
//! every size begins with no page of the file in memory. Pages charged to another group do not
//! count against the limit, so the file is evicted before the worker enters the group. In a small
//! group readahead evicts pages that were just read, so with a large readahead window
//! (`readahead_bytes`) the knee comes a few steps early. The virtual disk of a guest may be served
//! from the host's memory. The device's rate is then not the rate of a disk, and no counter in the
//! guest can show it. The kernel counts no reads of a file system in user space (FUSE): `missed`
//! and `rate_above` are left out there, and only the residency shows whether a file fits. In
//! version 2 the group is beside plumb's own group and not inside it, so the limits of plumb's own
//! unit (CPUQuota, IOWeight, MemoryMax) do not apply to the worker. As root the group is in one of
//! systemd's slices, and systemd's rules allow others to create groups only in what it delegated;
//! `systemd-run --scope -p Delegate=yes` delegates one. Filling the whole memory (`limit=memory`)
//! evicts the page cache of all other processes. Intervals come from one repetition: from passes if
//! there are at least six, else from stretches spread over the file.
//!
//! ## Sources
//!
//! [R0], File Cache Size (0.5 to 14 GB by 0.5); [R1], Size of File Cache (1 to 4 GB, dd and a read
//! per block); [R2], 7.1 (1 to 7 GB, refined by 0.1 GB around the knee); [linux] mm/vmscan.c,
//! mm/workingset.c, mm/memcontrol.c, Documentation/admin-guide/cgroup-v1/memory.rst and
//! cgroup-v2.rst; [man] cachestat(2).

mod derive;
mod grown;
mod sizes;
mod sweep;
#[cfg(test)]
mod tests;

use crate::fs::file::{self, below};
use crate::fs::prelude::*;
use record::event::Repeat;

bench::experiment!(CacheSize);

const ID: &str = "fs.cache_size";

symbols! {
    /// What limits the page cache: the machine's memory (or the limit of plumb's own control
    /// groups), or a control group that is made for the worker, with a limit in bytes.
    pub enum Limit { Memory = "memory"; Group(8 << 20, 1 << 40, B) }
}

symbols! {
    /// Size of the file: the largest that the budget allows, if that does not reach the limit; a
    /// step of the bisection; or percent of the limit.
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
        /// what limits the cache: the memory, or a control group that plumb creates with this
        /// limit; default: by preset and by whether a group can be created
        limit: Limit,
        /// size of the file in percent of the limit, or found by the sweep; default: by limit,
        /// directory and time
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

impl Swept {
    /// The file's size in bytes where limit and size say it.
    fn bytes(&self) -> Option<u64> {
        match (self.limit, self.size) {
            (Limit::Group(limit_bytes), Size::Percent(percent)) => {
                Some(sizes::bytes_of(limit_bytes, percent))
            }
            _ => None,
        }
    }
}

impl Limit {
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
    metrics: metrics! {
        "latency_per_block" => Ns Lower Io: "time to read a 4 KiB block again, sequentially";
        "latency_per_byte" => NsPerB Lower Io: "the same time per byte";
        "bandwidth" => BPerS Higher Io: "rate at which the file is read again";
        "residency" => Ratio None Io: "share of the file in memory before the second read";
        "missed" => Ratio None Io: "share of the second read that came from the device";
        "cache_growth" => B None Io: "growth of the page cache when the file was first read";
        "file" => B None Io: "size of the file";
        "knee" => derived B Higher Io: "file size above which the file no longer stays in memory";
        "knee_over_limit" => derived Ratio Higher Io: "that size divided by the limit";
        "machine_estimate" => derived B Higher Io:
            "estimate, not measured: file cache of the whole machine, from a group's knee";
        "cached" => derived B Higher Io: "largest size whose second read came from memory";
        "rate_above" => derived BPerS Higher Io: "rate at which the device delivers above the knee";
        "rate_over_read" => derived Ratio None Io:
            "that rate divided by fs.read's rate for a cold sequential file";
    },
    params: params![
        Swept::PARAMS,
        settings! {
            "time": Domain::ns(100_000_000, 86_400_000_000_000), ["6s", "6s", "240s"] =>
                "time limit of a sweep";
        },
    ],
    after: &["os.syscall", "memory.bandwidth", "fs.read"],
    repeat: Repeat::Sweep,
    needs: &[Need::Directory],
    views: &[ViewCard::line("size", "latency_per_block")
        .positioned("file", Unit::B)
        .beside(&["residency", "missed"])
        .marks(&["knee"])
        .log_y()],
    ..Card::PLAIN
};

impl Experiment for CacheSize {
    type Case = Swept;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("cache_size.rs");
    const SHARES: &'static [&'static str] = &["residency", "missed"];
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ORDER: Order = Order::Fixed;
    const ROUND_COST: fn(&Site, &Series) -> Duration = sizes::round_cost;
    // Missing where the device's reads are not counted.
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
        // Limits that were set stand in turns.
        let mut left = cases;
        while let Some(limit) = left.first().map(|case| case.limit) {
            let (own, others): (Vec<Swept>, Vec<Swept>) =
                left.into_iter().partition(|case| case.limit == limit);
            match sizes::bytes(site, limit) {
                Err(skip) => offer.skipped.push((Found { limit, size: None }.id(), skip)),
                Ok(bytes) => sizes::offer(site, params, &own, bytes, &mut offer),
            }
            left = others;
        }
        offer.or_reason()
    }

    fn derivable(_: &Site, series: &[Series]) -> Vec<CaseId> {
        let of = |series: &Series| {
            let mut cases =
                series.cases.iter().filter_map(|case| Swept::from_id(&case.id)).peekable();
            let limit = cases.peek()?.limit;
            Some(limit.found(cases.map(|case| case.size)))
        };
        series.iter().filter_map(of).collect()
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        let limits = &site.host.limits;
        let is_by_group = limits.memory_left_bytes == site.host.memory_ceiling_bytes();
        let stat = limits.memory_stat_file.as_ref().filter(|_| is_by_group && site.dir.is_some());
        let mut series = file::ground_facts(site, series);
        for case in &mut series.cases {
            if Limit::from_value(case.id.get("limit")) == Some(Limit::Memory) {
                case.at.put_known("memory_stat", stat.map(|stat| format!("/{stat}")));
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, swept: &Swept, at: &Case, metric: &Metric) -> Option<Prediction> {
        derive::measured(facts, swept, at, &metric.name)
    }

    fn derived_law(facts: Facts, id: &CaseId, metric: &Metric) -> Option<Prediction> {
        derive::derived(facts, &Found::from_id(id)?, &metric.name)
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

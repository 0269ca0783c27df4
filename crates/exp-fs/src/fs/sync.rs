//! What does it cost to make data last?
//!
//! ## Question
//!
//! How long does a write take that must outlive a loss of power, how much does the device write for it,
//! and how often is its cache flushed?
//!
//! ## Method
//!
//! One thread writes a block, syncs it, and only then writes the next: queue depth one, as a database's
//! log. Every block is other incompressible data, put into place outside of the timed windows. Timed are
//! the whole (`latency`: from the write to the answer of the sync) and the sync alone (`sync`), each
//! operation by itself, with the percentiles of all. Before the first that counts one is made that does
//! not; before each round others' unwritten data goes to the device (`settle_ns`).
//!
//! - `write=append`: at the end of a file: data, and the journal for the size and the new block.
//! - `write=overwrite`: in a file that was written and synced before and lies in written extents (FIEMAP):
//!   data alone, and for fsync (in newer kernels' ext4 for the others too) the file's times. They change
//!   once in a tick of the kernel's clock (1 to 10 ms), so that a quick device shows two modes: with a
//!   commit of the journal and without.
//! - `write=reserved`: one block after another of what fallocate(2) reserved: the size stays, the extent
//!   changes from unwritten to written, which the journal must say: as dear as append on most.
//! - `write=create`: a new file with one block, fsync of the file, then fsync of the directory, as
//!   programs make a file that is there or not, but never half. `sync` is both.
//! - `write=none`: fsync with nothing changed: on ext4 and xfs the flush of the device and nothing else.
//!
//! - `call=fsync`, `call=fdatasync`: after the write. `call=dsync`: the file is opened with O_DSYNC, so
//!   that the write itself waits; RWF_DSYNC of pwritev2 sets the same flag of the same path and is no case.
//!   `call=direct_dsync`: with O_DIRECT and O_DSYNC; a device with forced unit access (`fua`) needs no
//!   flush for it, where nothing but data changes.
//!
//! Around all operations of a case the device's counters are read (/proc/diskstats): bytes written over
//! bytes made durable (`amplification`), flushes over syncs (`flushes`; they count for whole disks only,
//! since Linux 5.5), and write requests over syncs (`requests`, flushes included). They are the device's,
//! whoever wrote: where it wrote more than this process gave (/proc/self/io) and the kind of file system
//! adds to that, a note says so with these numbers. Afterwards what was written is read back and compared, and the length checked. A case
//! makes as many syncs as its time allows, 8 at least; and at most `most`, so that all rounds together
//! stay within what this experiment may write.
//!
//! ## Prediction
//!
//! Writes and flushes that wait for each other, as many as the kind of file system needs: a journal's
//! commit is a write of its blocks, a flush, and a commit block written through; trees (btrfs) write a log
//! and a super block. Each takes what the device's class takes: a flush is 3 µs to 8 ms on flash over
//! NVMe (with capacitors it is nothing but an answer), 20 µs to 20 ms on other flash, and on a disk that
//! spins a turn and a seek; a device with no volatile cache (`write through`) gets no flush. What the
//! user gave (host.disk.flush_latency, host.disk.write_latency, host.disk.rpm) counts instead, and after
//! fs.read and fs.io what they measured.
//!
//! ## Parameters
//!
//! - `write`: what is made durable; see Method.
//! - `call`: how; see Method.
//! - `block`: bytes of a write.
//! - `window`: time that a case measures; `auto` is the preset's. A window of several of the journal's
//!   commit periods (5 s on ext4 and jbd2, mount option `commit`) shows what its commits of others'
//!   changes do to one's own syncs.
//! - `most`: syncs of a case in a round, at most.
//! - `placement`: where the threads run that wait for the device: `free` (anywhere, its moves
//!   are planned), `interrupt` (on the CPU that takes the device's interrupts) or `other` (on another, which
//!   costs a wake-up across CPUs). Earlier figures without it read as `other`.
//!
//! ## Reading the result
//!
//! `latency` bounds what one writer can commit: `iops` transactions in a second, unless they share a sync.
//! `none` is the device's flush; `overwrite` with fdatasync less that is the data's write; `append` less
//! `overwrite` is the journal. A log in a file that is written beforehand and used again is the quickest,
//! one that was only reserved is not. Compare machines by `append` with fdatasync, the usual log. The
//! trace `syncs` has every operation with its time in the round: what comes every 5 s is a journal's
//! commit or the writing back of others' data, which syncs wait for in ordered mode.
//!
//! A note that begins `power:` says that the device answered sooner than its medium could have had the
//! data: its cache outlives the power (capacitors, a battery), or it does not keep its word. Only pulling
//! the plug can tell which. Of a virtual disk nothing can be told: its host decides what a flush is.
//!
//! ## Pitfalls
//!
//! A sync that answers in microseconds may do nothing: tmpfs, overlayfs mounted volatile, FUSE, a
//! hypervisor with cache=unsafe; a note says what the file system is. fsync of a file drags others' data
//! along (ordered mode), and so the neighbour's writes are in one's own tail. The kernel's threads that a
//! sync needs (the journal's, the block layer's for flushes) have ordinary priority: on a machine whose
//! CPUs are taken a sync waits for their turn, a tick (4 ms at 250 Hz) in place of 100 µs; a note says so,
//! because no counter of the measuring thread shows it. The first sync after a pause
//! wakes the device. Flash slows down when its quick cells are full, which takes more than is written
//! here: this is a burst. A volume in the network counts flushes of this side only. Counters include other
//! processes: a note tells of those that write much, a little goes unseen.
//!
//! ## Sources
//!
//! fsync(2), open(2), sync_file_range(2); Documentation/block/writeback_cache_control.rst,
//! admin-guide/iostats.rst, filesystems/ext4/journal.rst; PostgreSQL's `pg_test_fsync` (open_datasync,
//! fdatasync, fsync of 8 KiB overwrites); fio `--fsync=1`, `--fdatasync=1` and etcd's advice to read its
//! percentiles; Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014 (which calls make a
//! file last). The devices' intervals: `predict/fs/journal.rs`.

mod apparatus;
mod counted;
mod predicted;

use super::file::ground;
use anyhow::{Context, Result};
use bench::device;
use bench::experiment::placement::PLACEMENT_PARAM;
use bench::experiment::{
    Card, Domain, Experiment, Known, Need, Offer, Param, Params, Role, Site, Skip, ViewCard,
};
use bench::measure::{Bench, settle};
use laws::fs::journal::{durable, medium_least, promise};
use record::case::{Case, Order, Series};
use record::event::Prediction;
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Sync = Sync;

/// `fs.sync`.
pub struct Sync;

/// Syncs of a case in a round, at least and at most.
const SYNCS_MIN: u64 = 8;
const SYNCS_MAX: u64 = 2000;
/// Syncs of a case beside those that are timed: the file made, filled, and the first one.
const SYNCS_BESIDE: u64 = 4;
/// What overwrites go round in: so many bytes, but at least and at most so many blocks.
const POOL_BYTES: u64 = 128 << 10;
const POOL_BLOCKS_MIN: u64 = 4;
const POOL_BLOCKS_MAX: u64 = 32;
/// Bytes that a sync takes of what may be written, over its data: as much again for the journal.
const JOURNAL_FACTOR: u64 = 2;
/// A file system's own block, below which nothing is written.
const PAGE_BYTES: u64 = 4096;
/// For stated costs: start and end of a worker, and the settling of others' writes, in ns.
const WORKER_NS: f64 = 4e7;
const DEFAULT_MOST: u64 = 64;

const fn io(name: &'static str, doc: &'static str, unit: Unit, better: Better) -> Metric {
    Metric::new(name, doc, unit, better, Kind::Io)
}

static CARD: Card = Card {
    id: "fs.sync",
    title: "Data that must last",
    metrics: &[
        io("latency", "a write and its sync, until the answer", Unit::Ns, Better::Lower),
        io("sync", "the sync alone", Unit::Ns, Better::Lower),
        io("iops", "durable writes in a second, one after another", Unit::OpPerS, Better::Higher),
        io(
            "amplification",
            "bytes that the device wrote for a byte made durable",
            Unit::Ratio,
            Better::Lower,
        ),
        io("flushes", "flushes of the device for a sync", Unit::Count, Better::None),
        io(
            "requests",
            "write requests to the device for a sync, flushes included",
            Unit::Count,
            Better::None,
        ),
    ],
    params: &[
        Param {
            name: "write",
            doc: "what is made durable",
            domain: Domain::Symbols(&["none", "overwrite", "append", "reserved", "create"]),
            defaults: [
                "append,overwrite",
                "none,overwrite,append,create",
                "none,overwrite,append,reserved,create",
            ],
            role: Role::Case,
        },
        Param {
            name: "call",
            doc: "how: a call after the write, or a file whose writes wait",
            domain: Domain::Symbols(&["fsync", "fdatasync", "dsync", "direct_dsync"]),
            defaults: ["fdatasync", "fsync,fdatasync,dsync", "fsync,fdatasync,dsync,direct_dsync"],
            role: Role::Case,
        },
        Param {
            name: "block",
            doc: "bytes of a write",
            domain: Domain::Integer { low: 1, high: 16 << 20, unit: Unit::B },
            defaults: ["4KiB", "4KiB", "4KiB,64KiB"],
            role: Role::Case,
        },
        Param {
            name: "window",
            doc: "time that a case measures (auto: the preset's)",
            domain: Domain::Either(&["auto"], 100_000, 600_000_000_000, Unit::Ns),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
        Param {
            name: "most",
            doc: "syncs of a case in a round, at most (auto: what all rounds may write)",
            domain: Domain::Either(&["auto"], SYNCS_MIN, 1_000_000, Unit::Count),
            defaults: ["auto"; 3],
            role: Role::Setting,
        },
        PLACEMENT_PARAM,
    ],
    after: &["clock.rate", "os.syscall", "fs.read", "fs.io"],
    needs: &[Need::Directory],
    views: &[ViewCard::bars("latency")],
    ..Card::PLAIN
};

impl Experiment for Sync {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("sync.rs")
    }

    fn series(&self, site: &Site, params: &Params) -> Result<Offer, Skip> {
        let cases = cases(params);
        if cases.is_empty() {
            return Err(Skip::because(
                "of these writes and calls no two go together: `none` and `create` take fsync, and \
                 direct_dsync whole blocks of 512 bytes",
            ));
        }
        let mut settings = Vec::new();
        if let Some(ns) = params.chosen("window").and_then(|values| values[0].int()) {
            settings.push(("window".to_owned(), Value::Int(ns)));
        }
        let afforded = afforded(site, params, cases)?;
        settings.push(("most".to_owned(), Value::Int(afforded.most)));
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Shuffled,
                cases: afforded.cases.into_iter().map(Case::new).collect(),
                settings: settings.into_iter().collect(),
            }],
            skipped: afforded.skipped,
        })
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        let window = series.setting("window").unwrap_or(site.case_ns) as f64;
        let most = series.setting("most").unwrap_or(DEFAULT_MOST) as f64;
        let of = |case: &Case| {
            let one = predicted::likely_ns(site, case);
            let block = block_of(&case.id);
            let pool = match case.text("write") {
                Some("overwrite") => pool_blocks(block) * block,
                _ => 0,
            };
            let filled = device::write_cost(site, pool).as_nanos() as f64;
            let timed = (most * one).min(window.max(SYNCS_MIN as f64 * one));
            timed + SYNCS_BESIDE as f64 * one + filled
        };
        let cases: f64 = series.cases.iter().map(of).sum();
        Duration::from_nanos((WORKER_NS + cases) as u64)
    }

    fn resolve(&self, site: &Site, _known: &Known, mut series: Series) -> Result<Series, Skip> {
        let Some(dir) = &site.dir else {
            return Ok(series);
        };
        let ground = ground(site, &dir.path);
        let mut facts = std::collections::BTreeMap::new();
        ground.put(site, &mut facts);
        if let Some(promise) = promise(&dir.file_system) {
            facts.insert("promise".to_owned(), Value::from(promise));
        }
        if let Some(disk) = ground.disk {
            let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
            // Devices made of others (device mapper, md) count no flushes.
            if let Some(number) = disk.number.as_ref().filter(|_| !disk.is_virtual) {
                put("disk_number", Value::from(number.as_str()));
            }
            if let Some(cache) = &disk.write_cache {
                put("write_cache", Value::from(cache.as_str()));
            }
            if let Some(fua) = disk.fua {
                put("fua", Value::from(if fua { "yes" } else { "no" }));
            }
            let class = durable(site, None, Some(disk)).device;
            if let Some((ns, why)) = medium_least(site, class) {
                put("medium_least_ns", Value::Int(ns as u64));
                put("medium", Value::from(format!("{}: {why}", class.name).as_str()));
            }
        }
        for case in &mut series.cases {
            case.at.extend(facts.clone());
            if let Some(bytes) = predicted::beside_bytes(site, case) {
                case.at.insert(counted::BESIDE.to_owned(), Value::Int(bytes));
            }
        }
        Ok(series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        predicted::of(site, known, case, metric)
    }

    fn may_lack(&self, metric: &Metric) -> bool {
        // Kernels and devices that do not count.
        ["amplification", "flushes", "requests"].contains(&metric.name.as_ref())
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        bench.minds_run_delay();
        let dir = bench.dir().context("no directory for files was given")?;
        let opened = std::fs::File::open(dir).context("opening the directory for files")?;
        let window_ns = series.setting("window").unwrap_or(bench.order().case_ns);
        let measured = window_ns.saturating_mul(series.cases.len() as u64);
        let settled = settle(&opened, Duration::from_nanos(measured))?;
        let plan = apparatus::Plan {
            window_ns,
            most: series.setting("most").unwrap_or(DEFAULT_MOST),
            settled,
        };
        bench.each(series, |bench, case| {
            bench.may_hang_in(case);
            apparatus::time(&plan, case, bench)
        });
        Ok(())
    }
}

/// The writes and calls that go together.
fn cases(params: &Params) -> Vec<CaseId> {
    let mut cases = Vec::new();
    for write in params.texts("write") {
        for call in params.texts("call") {
            let id = CaseId::new().with("write", write).with("call", call);
            match write {
                // A new name is made to last by fsync of its directory, and nothing by fsync alone.
                "none" | "create" if call != "fsync" => {}
                "none" => cases.push(id),
                _ => {
                    let fits = |block: &u64| call != "direct_dsync" || block.is_multiple_of(512);
                    let blocks = params.ints("block").into_iter().filter(fits);
                    cases.extend(blocks.map(|block| id.clone().with("block", block)));
                }
            }
        }
    }
    cases
}

/// What may be written here.
struct Afforded {
    cases: Vec<CaseId>,
    /// Syncs of a case in a round.
    most: u64,
    skipped: Vec<(CaseId, Skip)>,
}

/// Without the largest blocks, as far as all rounds would write too much.
///
/// # Errors
/// Not even the smallest can be afforded.
fn afforded(site: &Site, params: &Params, mut cases: Vec<CaseId>) -> Result<Afforded, Skip> {
    let mut skipped = Vec::new();
    loop {
        let skip = match most(site, params, &cases) {
            Ok(most) => {
                return Ok(Afforded { cases, most, skipped });
            }
            Err(skip) => skip,
        };
        let largest = cases.iter().map(block_of).max().unwrap_or(0);
        let (left, out): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|case| block_of(case) < largest);
        if !left.iter().any(writes) {
            return Err(skip);
        }
        skipped.extend(out.into_iter().map(|case| (case, skip.clone())));
        cases = left;
    }
}

/// Syncs of a case in a round: what all rounds may write, shared out.
///
/// # Errors
/// Not even the least can be afforded.
fn most(site: &Site, params: &Params, cases: &[CaseId]) -> Result<u64, Skip> {
    let chosen = params.chosen("most").and_then(|values| values[0].int());
    if site.dir.is_none() {
        return Ok(chosen.unwrap_or(DEFAULT_MOST));
    }
    let rounds = u64::from(*params.preset.looks().last().unwrap_or(&1));
    let each: u64 = cases.iter().filter(|case| writes(case)).map(block_of).sum();
    let pools: u64 = cases
        .iter()
        .filter(|case| case.text("write") == Some("overwrite"))
        .map(|case| pool_blocks(block_of(case)) * block_of(case))
        .sum();
    let of = |syncs: u64| {
        let each = each.saturating_mul(JOURNAL_FACTOR);
        each.saturating_mul(syncs).saturating_add(pools).saturating_mul(rounds)
    };
    if let Some(chosen) = chosen {
        device::affords(site, CARD.id, of(chosen), "most=COUNT")?;
        return Ok(chosen);
    }
    device::affords(site, CARD.id, of(SYNCS_MIN), "block=4KiB")?;
    let left = device::allowance(site, CARD.id) / rounds - pools;
    let share = left / (each * JOURNAL_FACTOR).max(1);
    Ok(device::coarse(share).clamp(SYNCS_MIN, SYNCS_MAX))
}

/// Whether a case writes anything.
fn writes(case: &CaseId) -> bool {
    case.text("write") != Some("none")
}

/// Bytes that a sync of a case writes at least.
fn block_of(case: &CaseId) -> u64 {
    case.int("block").unwrap_or(PAGE_BYTES).max(PAGE_BYTES)
}

/// Blocks that overwrites go round in.
fn pool_blocks(block: u64) -> u64 {
    (POOL_BYTES / block.max(1)).clamp(POOL_BLOCKS_MIN, POOL_BLOCKS_MAX)
}

#[cfg(test)]
mod tests;

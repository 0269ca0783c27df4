//! What does a durable write cost?
//!
//! ## Question
//!
//! How long does a write take that must survive a power loss, how much does the device write for
//! it, and how often is its cache flushed?
//!
//! ## Method
//!
//! One thread writes a block, syncs it, and only then writes the next: queue depth one, like a
//! database log. Every block has different incompressible data, prepared outside the timed windows.
//! plumb times the whole operation (`latency`: from the write to the return of the sync) and the
//! sync alone (`sync`), each operation by itself, with percentiles. One operation before the first
//! timed one does not count. Before each round other processes' unwritten data goes to the device
//! (`settle_ns`).
//!
//! - `write=append`: at the end of a file: data, and the journal for the size and the new block.
//! - `write=overwrite`: in a file that was written and synced before and has written extents
//!   (FIEMAP): data alone, and for fsync (in ext4 of newer kernels for the others too) the file's
//!   timestamps. These change once per kernel tick (1 to 10 ms), so a fast device shows two modes:
//!   with a journal commit and without.
//! - `write=reserved`: one block after another in space that fallocate(2) reserved: the size stays,
//!   and the extent changes from unwritten to written, which needs the journal. On most file
//!   systems it costs as much as append.
//! - `write=create`: a new file with one block, fsync of the file, then fsync of the directory, as
//!   programs create a file that is either complete or absent. `sync` covers both.
//! - `write=none`: fsync with nothing changed: on ext4 and xfs only the device's flush.
//!
//! - `call=fsync`, `call=fdatasync`: after the write. `call=dsync`: the file is opened with
//!   O_DSYNC, so the write itself waits; RWF_DSYNC of pwritev2 sets the same flag on the same path
//!   and is not a case. `call=direct_dsync`: with O_DIRECT and O_DSYNC; a device with forced unit
//!   access (`fua`) needs no flush for it if only data changes.
//!
//! Before and after all operations of a case plumb reads the device's counters (/proc/diskstats):
//! bytes written per durable byte (`amplification`), flushes per sync (`flushes`; counted for whole
//! disks only, since Linux 5.5), and write requests per sync (`requests`, including flushes). These
//! counters cover all processes. If the device wrote more than this process wrote (/proc/self/io)
//! plus what the kind of file system adds, a note says so with the numbers. Afterwards the written
//! data is read back and compared, and the length is checked. A case makes as many syncs as its
//! time allows, at least 8 and at most `most`, so that all rounds together stay within the bytes
//! that this experiment may write.
//!
//! ## Prediction
//!
//! Writes and flushes that wait for each other, as many as the kind of file system needs: a journal
//! commit is a write of its blocks, a flush, and a commit block written through; trees (btrfs)
//! write a log and a superblock. Each takes the time of the device's class. A flush takes 3 µs to 8
//! ms on NVMe flash (with capacitors the device only acknowledges it), 20 µs to 20 ms on other
//! flash, and a rotation and a seek on a hard disk. A device without a volatile cache (`write
//! through`) gets no flush. Values set by the user (host.disk.flush_latency,
//! host.disk.write_latency, host.disk.rpm) replace these, and so do the figures of fs.read and
//! fs.io once they are measured.
//!
//! ## Parameters
//!
//! - `write`: what is made durable; see Method.
//! - `call`: how; see Method.
//! - `block`: bytes of a write.
//! - `window`: time that a case measures; `auto` is the preset's. A window of several journal
//!   commit periods (5 s on ext4 and jbd2, mount option `commit`) shows how commits of other
//!   processes' changes affect the measured syncs.
//! - `most`: most syncs of a case per round.
//! - The scheduler places the threads that wait for the device on the CPUs of the run, which a
//!   case's `cpus` names; migrations are expected.
//!
//! ## Reading the result
//!
//! `latency` bounds what one writer can commit: `iops` transactions per second, unless they share a
//! sync. `none` is the device's flush; `overwrite` with fdatasync less that is the write of the
//! data; `append` less `overwrite` is the journal. The fastest log is a file that was written
//! beforehand and is reused; a file that is only reserved is slower. Compare machines by `append`
//! with fdatasync, the usual log. The trace `syncs` has every operation with its time in the round:
//! peaks every 5 s are a journal commit or the writeback of other data, which syncs wait for in
//! ordered mode.
//!
//! A note that begins `power:` says that the device answered faster than its medium can store the
//! data: either its cache survives a power loss (capacitors, a battery), or it reports data as
//! durable that is not. Only pulling the plug can decide. A virtual disk cannot be judged at all:
//! the host decides what a flush does.
//!
//! ## Pitfalls
//!
//! A sync that returns within microseconds may do nothing: tmpfs, overlayfs mounted volatile, FUSE,
//! a hypervisor with cache=unsafe; a note names the file system. fsync of a file also writes other
//! processes' data (ordered mode), so a neighbour's writes show in the tail. The kernel threads
//! that a sync needs (the journal's, the block layer's for flushes) have ordinary priority. On a
//! machine with busy CPUs a sync waits for their turn, a tick (4 ms at 250 Hz) instead of 100 µs; a
//! note says so, because no counter of the measuring thread shows it. The first sync after a pause
//! wakes the device. Flash slows down when its fast cells are full, which needs more data than
//! plumb writes: this is a burst. A network volume counts only this side's flushes. Counters
//! include other processes: a note reports those that write much, but small writes go unnoticed.
//!
//! ## Sources
//!
//! [man] fsync(2), open(2), sync_file_range(2); [linux]
//! Documentation/block/writeback_cache_control.rst, admin-guide/iostats.rst,
//! filesystems/ext4/journal.rst; [pg-test-fsync] (open_datasync, fdatasync, fsync of 8 KiB
//! overwrites); [fio] `--fsync=1`, `--fdatasync=1`; [etcd] (to read its percentiles);
//! [all-file-systems] (which calls make a file last).

mod apparatus;

use super::file::{below, ground_facts};
use super::job;
use super::offered::{Offered, cost, promise, rounds, settled};
use crate::fs::prelude::*;
use host::block::Disk;
use laws::fs::journal::{durable, medium_least};
use laws::fs::sync::{self as law, Call, Sync as Synced, Write};

bench::experiment!(Sync);

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

static CARD: Card = Card {
    id: "fs.sync",
    title: "Durable writes and syncs",
    metrics: metrics! {
        "latency" => Ns Lower Io: "a write and its sync, until the sync returns";
        "sync" => Ns Lower Io: "the sync alone";
        "iops" => OpPerS Higher Io: "durable writes per second, one after another";
        "amplification" => Ratio Lower Io: "bytes that the device writes per durable byte";
        "flushes" => Count None Io: "device flushes per sync";
        "requests" => Count None Io: "write requests to the device per sync, including flushes";
    },
    params: params![
        Synced::PARAMS,
        settings! {
            "window": Domain::Either(&["auto"], 100_000, 600_000_000_000, Unit::Ns), ["auto"; 3] =>
                "time that a case measures (auto: from the preset)";
            "most": Domain::Either(&["auto"], SYNCS_MIN, 1_000_000, Unit::Count), ["auto"; 3] =>
                "most syncs of a case per round (auto: from how much all rounds may write)";
        },
    ],
    after: &["clock.rate", "os.syscall", "fs.read", "fs.io"],
    needs: &[Need::Directory],
    views: &[ViewCard::bars("latency")],
    keys: &[KeyFigure::new(
        "4 KiB written and synced",
        "",
        "latency",
        "write=overwrite,call=fdatasync,block=4096",
    )],
    ..Card::PLAIN
};

impl Experiment for Sync {
    type Case = Synced;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("sync.rs");
    const HAZARDS: fn(&RoundOrder) -> Hazards = |_| Hazards::FILES;
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let window = series.setting("window").unwrap_or(site.case_ns) as f64;
        let most = series.setting("most").unwrap_or(DEFAULT_MOST) as f64;
        cost(WORKER_NS, series, |case| {
            let Some(sync) = Synced::from_id(&case.id) else { return 0.0 };
            let one = law::latency(Facts::prior(site), &sync).range.likely;
            let filled = device::write_cost(site, pool_bytes(&sync)).as_nanos() as f64;
            let timed = (most * one).min(window.max(SYNCS_MIN as f64 * one));
            timed + SYNCS_BESIDE as f64 * one + filled
        })
    };
    // Kernels and devices that do not count.
    const MAY_LACK: &'static [&'static str] = &["amplification", "flushes", "requests"];

    fn cases(_: &Site, preset: Preset) -> Vec<Synced> {
        let (writes, calls, blocks): (&[Write], &[Call], &[u64]) = match preset {
            Preset::Rehearsal | Preset::Quick => {
                (&[Write::Append, Write::Overwrite], &[Call::Fdatasync], &[PAGE_BYTES])
            }
            Preset::Standard => (
                &[Write::Nothing, Write::Overwrite, Write::Append, Write::Create],
                &[Call::Fsync, Call::Fdatasync, Call::Dsync],
                &[PAGE_BYTES],
            ),
            Preset::Thorough => (Write::ALL, Call::ALL, &[PAGE_BYTES, 64 << 10]),
        };
        let calls = writes.iter().flat_map(|write| calls.iter().map(move |call| (*write, *call)));
        let of = |(write, call)| {
            blocks.iter().map(move |block| Synced { write, call, block: Some(*block) })
        };
        calls.flat_map(of).collect()
    }

    fn complete(case: Synced) -> Option<Synced> {
        match case.write {
            // A new name is made to last by fsync of its directory, and nothing by fsync alone.
            Write::Nothing | Write::Create if case.call != Call::Fsync => None,
            Write::Nothing => Some(Synced { block: None, ..case }),
            _ => {
                let fits = case.call != Call::DirectDsync || case.bytes().is_multiple_of(512);
                fits.then_some(case)
            }
        }
    }

    fn series(site: &Site, cases: Vec<Synced>, params: &Params) -> Result<Offer, Skip> {
        if cases.is_empty() {
            let why = "these parameters do not combine: write=none and write=create need \
                       call=fsync, call=direct_dsync needs a multiple of 512 B";
            return Err(Skip::because(why));
        }
        let (most, offered) = afforded(site, params, cases)?;
        let mut settings = params.settings(&CARD);
        settings.insert("most".to_owned(), Value::Int(most));
        offered.series(&CARD, "", settings)
    }

    fn resolve(site: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        if site.dir.is_none() {
            return Ok(series);
        }
        let mut series = ground_facts(site, series);
        let mut facts: BTreeMap<String, Value> = promise(site).into_iter().gather();
        let ground = below(site);
        if let Some((ground, disk)) = ground.as_ref().and_then(|at| at.disk.map(|disk| (at, disk)))
        {
            // Devices made of others (device mapper, md) count no flushes.
            let disks = ground.mount.map_or(vec![], |mount| site.host.block.disks_of(mount));
            let number = |disk: &&Disk| disk.number.clone().filter(|_| !disk.is_virtual);
            let numbers = disks.iter().map(number).collect::<Option<Vec<String>>>();
            facts.put_known("disk_number", numbers.map(|numbers| numbers.join(" ")));
            facts.put_known("write_cache", disk.write_cache.as_deref());
            facts.put_known("fua", disk.fua.map(|fua| if fua { "yes" } else { "no" }));
            let class = durable(Facts::prior(site), Some(disk)).class;
            let (ns, medium) = medium_least(site, class).unzip();
            facts.put_known("medium_least_ns", ns.map(|ns| ns as u64));
            facts.put_known("medium", medium.map(|medium| medium.text()));
        }
        for case in &mut series.cases {
            case.at.extend(facts.clone());
            if let Some(sync) = Synced::from_id(&case.id) {
                let bytes = law::beside_most(site, &sync) as u64;
                case.at.insert(job::BESIDE.to_owned(), Value::Int(bytes));
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, sync: &Synced, _: &Case, metric: &Metric) -> Option<Prediction> {
        let name = metric.name.as_ref();
        let is_device = Self::MAY_LACK.contains(&name);
        // These counts follow from the kind of file system, and no earlier figure shows it.
        if facts.known.is_some() && (is_device || !law::is_known(facts)) {
            return None;
        }
        let site = facts.site;
        let disk = laws::fs::disk(site);
        let law: Result<Law, &str> = match name {
            "latency" => Ok(law::latency(facts, sync)),
            "iops" => Ok(law::rate(facts, sync)),
            "sync" if sync.call.is_in_write() => {
                Err("the write itself waits, so there is no sync call")
            }
            "sync" => Ok(law::alone(facts, sync)),
            _ if disk.is_none() => Err("the device is unknown or has no write counters"),
            "amplification" if sync.write == Write::Nothing => Err("the case writes nothing"),
            "amplification" => Ok(law::amplification(site, sync)),
            "flushes" if disk.is_some_and(|disk| disk.is_virtual) => {
                Err("stacked devices (device mapper, md) count no flushes")
            }
            "flushes" => Ok(law::flushes(site, sync)),
            _ => Ok(law::requests(site, sync)),
        };
        Some(law.map_or_else(|why| unknown(format!("unknown: {why}")), Law::prediction))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let window_ns = series.setting("window").unwrap_or(bench.order().case_ns);
        let (_, settled) = settled(bench, window_ns.saturating_mul(series.cases.len() as u64))?;
        let most = series.setting("most").unwrap_or(DEFAULT_MOST);
        let plan = apparatus::Plan { window_ns, most, settled };
        bench.each_of::<Synced>(series, |bench, case, sync| {
            apparatus::time(&plan, case, sync, bench)
        });
        Ok(())
    }
}

/// Syncs of a case in a round, and the cases without the largest blocks, as far as all rounds would
/// write too much.
fn afforded(site: &Site, params: &Params, mut cases: Vec<Synced>) -> Result<(u64, Offered), Skip> {
    let mut offered = Offered::default();
    loop {
        let skip = match most(site, params, &cases) {
            Ok(most) => {
                offered.cases = cases.iter().map(|sync| Case::new(sync.id())).collect();
                return Ok((most, offered));
            }
            Err(skip) => skip,
        };
        let largest = cases.iter().map(written).max().unwrap_or(0);
        let (left, out): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|sync| written(sync) < largest);
        if !left.iter().any(writes) {
            return Err(skip);
        }
        offered.skipped.extend(out.iter().map(|sync| (sync.id(), skip.clone())));
        cases = left;
    }
}

/// Syncs of a case in a round: what all rounds may write, shared out.
fn most(site: &Site, params: &Params, cases: &[Synced]) -> Result<u64, Skip> {
    let chosen = params.chosen("most").and_then(|values| values[0].int());
    if site.dir.is_none() {
        return Ok(chosen.unwrap_or(DEFAULT_MOST));
    }
    let rounds = rounds(params.preset);
    let each: u64 = cases.iter().filter(|sync| writes(sync)).map(written).sum();
    let each = each.saturating_mul(JOURNAL_FACTOR);
    let pools: u64 = cases.iter().map(pool_bytes).sum();
    let of = |syncs: u64| each.saturating_mul(syncs).saturating_add(pools).saturating_mul(rounds);
    if let Some(chosen) = chosen {
        device::affords(site, CARD.id, of(chosen), "most=COUNT")?;
        return Ok(chosen);
    }
    device::affords(site, CARD.id, of(SYNCS_MIN), "block=4KiB")?;
    let left = device::allowance(site, CARD.id) / rounds - pools;
    Ok(device::coarse(left / each.max(1)).clamp(SYNCS_MIN, SYNCS_MAX))
}

fn writes(sync: &Synced) -> bool {
    sync.write != Write::Nothing
}

/// Bytes that a sync of a case writes at least.
fn written(sync: &Synced) -> u64 {
    sync.bytes().max(PAGE_BYTES)
}

/// Blocks that overwrites go round in.
fn pool_blocks(block: u64) -> u64 {
    (POOL_BYTES / block.max(1)).clamp(POOL_BLOCKS_MIN, POOL_BLOCKS_MAX)
}

/// Bytes of them; of other writes none.
fn pool_bytes(sync: &Synced) -> u64 {
    match sync.write {
        Write::Overwrite => pool_blocks(written(sync)) * written(sync),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;

//! Laws of syncs: writes and flushes that wait for each other, as many as the kind of file system
//! needs, each as long as the device takes.
//!
//! How many there are is read from the kernel's sources (fs/ext4/fsync.c, fs/jbd2/commit.c,
//! fs/xfs/xfs_log.c, fs/btrfs/tree-log.c): a journal's commit is its blocks and a commit block, with a
//! flush before it and forced unit access, or another flush, after it.

use super::journal::{
    Durable, Keeper, durable, is_measured, keeper, measured_write, round_trip, times, way,
};
use crate::cpu::time_of;
use crate::device::SPINNING;
use crate::os::measured_call;
use crate::{Law, around, difference, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::block::Disk;
use record::event::Range;

/// What is written before a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing since the last one.
    Nothing,
    /// A block that is in the file already.
    Overwrite,
    /// A block at the end.
    Append,
    /// A block that was reserved, and never written.
    Reserved,
    /// A new file of one block.
    Create,
}

/// How it is made to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// fsync(2) after the write.
    Fsync,
    /// fdatasync(2) after the write.
    Fdatasync,
    /// Opened with O_DSYNC.
    Dsync,
    /// With O_DIRECT and O_DSYNC.
    DirectDsync,
}

/// One durable write.
#[derive(Clone, Copy, Debug)]
pub struct Sync<'site> {
    /// What is written.
    pub write: Write,
    /// How it is made to last.
    pub call: Call,
    /// Bytes of a block.
    pub block: u64,
    /// Name of the file system.
    pub file_system: &'site str,
    /// The disk below it, where there is one.
    pub disk: Option<&'site Disk>,
}

/// Writes and flushes that wait for each other, and bytes beside the data.
struct Waits {
    writes: Range,
    flushes: Range,
    /// Blocks of 4 KiB that are written beside the data.
    beside: Range,
    why: &'static str,
}

/// Cycles of the kernel around one request that is waited for: file system, block layer, interrupt and
/// wake-up.
const AROUND_A_WAIT: Range = range(5e3, 2.2e4, 1e5);
/// Cycles of a buffered write of a block and of a sync that has nothing to do.
const IN_MEMORY: Range = range(8e2, 2.6e3, 1e4);
/// Cycles of making a file and closing it, without any device.
const MADE: Range = range(6e3, 3e4, 2e5);
/// Bytes per ns that are copied into the page cache.
const COPIED: Range = range(1.5, 7.0, 30.0);
/// A block of the page cache and of most file systems.
const PAGE_BYTES: f64 = 4096.0;
/// A direct durable write measured by fs.io against the same one here.
const SAME_SHARE: f64 = 0.5;

/// One durable write, until it is answered, in ns.
pub fn latency(site: &Site, known: Option<&Known>, sync: Sync) -> Law {
    let kind = keeper(sync.file_system);
    let software = software(site, known, sync);
    if kind == Keeper::Memory {
        return software.and("software: the file system lies in memory, and a sync does nothing");
    }
    if let Some(trip) = round_trip(kind, site) {
        let trips = scaled(trip.range, 2.0);
        let reply = range(trip.range.low, trips.likely, 4.0 * trips.high);
        let low = software.range.low;
        let total = sum(software.range, reply);
        return Law::of(
            // A server or daemon may promise what it does not keep: only the write's copy is certain.
            range(low.min(total.low), total.likely, total.high),
            format!("{}; {}", trip.because(), software.because()),
        );
    }
    let measured = known.and_then(|known| measured_write(known, "dsync"));
    if let Some(ns) = measured.filter(|_| {
        sync.write == Write::Overwrite
            && sync.block == PAGE_BYTES as u64
            && sync.call == Call::Dsync
    }) {
        return Law::of(
            around(ns, SAME_SHARE),
            format!(
                "fs.io measured writes of {} with O_DSYNC: {:.0} µs; both shares are in it",
                sync.block,
                ns / 1e3
            ),
        );
    }
    let device = durable(site, known, sync.disk);
    let waits = waits(kind, sync);
    let estimate = Law::of(
        sum(software.range, device_ns(site, known, sync, &device, &waits)),
        format!(
            "{}; software: {}: {:.1} to {:.1} writes and {:.1} to {:.1} flushes in a row; {}",
            device.because,
            waits.why,
            waits.writes.low,
            waits.writes.high,
            waits.flushes.low,
            waits.flushes.high,
            software.because()
        ),
    );
    match kind {
        Keeper::Stacked => estimate.widened(
            20.0,
            2.0,
            "the file system lies on another, of which the mounts tell nothing here",
        ),
        Keeper::Unknown => estimate.widened(2.0, 2.0, "what the file system does is not known"),
        _ => estimate,
    }
}

/// The sync alone, without the write before it, in ns.
pub fn alone(site: &Site, known: Option<&Known>, sync: Sync) -> Law {
    let whole = latency(site, known, sync);
    let copied = software(site, known, sync);
    if keeper(sync.file_system) == Keeper::Memory {
        return Law::of(
            range(0.05 * copied.range.low, 0.25 * copied.range.likely, copied.range.high),
            whole.because(),
        );
    }
    let rest = difference(whole.range, copied.range);
    Law::of(
        range(
            rest.low.max(0.3 * whole.range.low),
            rest.likely.max(0.5 * whole.range.likely),
            whole.range.high,
        ),
        format!("without the write into the page cache; {}", whole.because()),
    )
}

/// Durable writes in a second, one after another.
pub fn rate(site: &Site, known: Option<&Known>, sync: Sync) -> Law {
    let latency = latency(site, known, sync);
    Law::of(inverse(1e9, latency.range), format!("one after another; {}", latency.because()))
}

/// Bytes that the device writes for a byte that was made durable.
pub fn amplification(site: &Site, sync: Sync) -> Law {
    let waits = waits(keeper(sync.file_system), sync);
    let block = sync.block as f64;
    let data = block.max(PAGE_BYTES);
    let of = |blocks: f64| (data + blocks * PAGE_BYTES) / block;
    // A file system may write less than a page of a block that is smaller.
    let low = block.max(512.0) / block;
    let likely = of(waits.beside.likely);
    let is_quiet = is_measured_by_device(site, sync);
    Law::new(
        low.min(likely),
        likely,
        2.0 * of(waits.beside.high),
        format!(
            "software: the data in whole pages, and {} ({:.0} to {:.0} blocks beside it); {is_quiet}",
            waits.why, waits.beside.low, waits.beside.high
        ),
    )
}

/// Bytes that the kind of file system writes beside the data of one sync, at most; where nothing is
/// written, a commit of its own may still come between.
pub fn beside_most(sync: Sync) -> f64 {
    let data = match sync.write {
        Write::Nothing => Write::Append,
        write => write,
    };
    let waits = waits(keeper(sync.file_system), Sync { write: data, ..sync });
    waits.beside.high * PAGE_BYTES
}

/// Flushes of the device for one sync.
pub fn flushes(site: &Site, sync: Sync) -> Law {
    let waits = waits(keeper(sync.file_system), sync);
    match super::journal::no_flush(site, sync.disk) {
        Some(why) => Law::new(0.0, 0.0, 0.2, format!("software: no flush is sent: {why}")),
        None => Law::new(
            waits.flushes.low.min(0.9),
            waits.flushes.likely,
            1.5 * waits.flushes.high + 0.2,
            format!("software: {}; several that wait at once are one", waits.why),
        ),
    }
}

/// Write requests to the device for one sync; a flush is one of them.
pub fn requests(site: &Site, sync: Sync) -> Law {
    let waits = waits(keeper(sync.file_system), sync);
    let flushes = flushes(site, sync).range;
    let likely = waits.writes.likely + flushes.likely;
    Law::new(
        0.8 * waits.writes.low.min(waits.flushes.low),
        likely,
        2.0 * (waits.writes.high + flushes.high),
        format!(
            "software: {}; what lies side by side may be one request, and a flush counts as one",
            waits.why
        ),
    )
}

/// Whether earlier figures narrow the law.
pub fn is_known(known: &Known, sync: Sync) -> bool {
    match keeper(sync.file_system) {
        Keeper::Memory => measured_call(known, "getpid").is_some(),
        Keeper::Daemon | Keeper::Server => false,
        _ => is_measured(known) || measured_write(known, "dsync").is_some(),
    }
}

fn is_measured_by_device(site: &Site, sync: Sync) -> &'static str {
    match sync.disk {
        Some(disk) if bench::device::is_virtual(disk, site) => {
            "as this machine's side of the disk counts"
        }
        _ => "as the device counts, others' writes included",
    }
}

/// What waits for what, by the kind of file system.
fn waits(kind: Keeper, sync: Sync) -> Waits {
    let of = |writes, flushes, beside, why| Waits { writes, flushes, beside, why };
    let none = range(0.0, 0.0, 0.0);
    let may_be = range(0.0, 1.0, 1.0);
    // Nothing of the file's own changes but its times, which only fsync is about.
    let in_place = sync.write == Write::Overwrite && sync.call != Call::Fsync;
    match (kind, sync.write) {
        (Keeper::Tree, Write::Nothing) => {
            of(none, range(0.0, 0.0, 1.0), none, "nothing is changed")
        }
        (_, Write::Nothing) => {
            of(none, may_be, none, "nothing is changed, and the device is flushed")
        }
        (Keeper::Tree, Write::Create) => of(
            range(2.0, 4.0, 9.0),
            range(1.0, 2.0, 4.0),
            range(4.0, 24.0, 90.0),
            "data, a tree of the log and a super block are written, for the directory again",
        ),
        (Keeper::Tree, _) => of(
            range(2.0, 3.0, 6.0),
            range(1.0, 2.0, 3.0),
            range(3.0, 16.0, 60.0),
            "data, a tree of the log and a super block are written anew",
        ),
        (Keeper::Plain, _) => of(
            range(1.0, 2.0, 4.0),
            may_be,
            range(0.0, 2.0, 6.0),
            "data, inode and its blocks are written in place",
        ),
        (_, Write::Overwrite) if in_place => of(
            range(1.0, 1.05, 2.3),
            range(0.5, 1.0, 1.5),
            range(0.0, 0.1, 1.5),
            "data is written in place, and the file's times in some kernels once in a tick",
        ),
        (_, Write::Overwrite) => of(
            range(1.0, 1.1, 3.0),
            range(0.5, 1.0, 2.2),
            range(0.0, 0.3, 6.0),
            "data is written in place, and the journal where the file's times have changed (once in a \
             tick of the kernel's clock)",
        ),
        (Keeper::Unknown | Keeper::Stacked, Write::Create) => of(
            range(1.5, 4.0, 9.0),
            range(0.5, 2.0, 4.0),
            range(0.5, 5.0, 90.0),
            "data is written and what the file system keeps of a new name",
        ),
        (_, Write::Create) => of(
            range(1.5, 3.5, 7.0),
            range(0.9, 2.0, 4.0),
            range(0.5, 4.0, 14.0),
            "data is written and the journal committed, for the directory perhaps again",
        ),
        (Keeper::Unknown | Keeper::Stacked, _) => of(
            range(1.0, 2.0, 6.0),
            range(0.5, 1.0, 3.0),
            range(0.0, 2.0, 60.0),
            "data is written and what the file system keeps of a size",
        ),
        _ => of(
            range(1.0, 2.0, 4.0),
            range(0.9, 1.1, 2.2),
            range(0.1, 1.5, 6.0),
            "data is written and the journal committed, because the size or the extents changed",
        ),
    }
}

fn device_ns(
    site: &Site,
    known: Option<&Known>,
    sync: Sync,
    device: &Durable,
    waits: &Waits,
) -> Range {
    let writes = times(waits.writes, device.write_ns);
    let flushes = match device.flush_ns {
        Some(flush_ns) => times(waits.flushes, flush_ns),
        None => range(0.0, 0.0, 0.0),
    };
    let each = sum(waits.writes, waits.flushes);
    let around_them = time_of(crate::Facts { site, known }, AROUND_A_WAIT, "").range;
    let further = (sync.block as f64 - PAGE_BYTES).max(0.0);
    let rate = device.device.rate;
    let rate = range(0.3 * rate.low, 0.7 * rate.likely, rate.high);
    let transfer = match further > 0.0 && sync.write != Write::Nothing {
        true => inverse(further, rate),
        false => range(0.0, 0.0, 0.0),
    };
    let mut total = sum(sum(writes, flushes), sum(times(each, around_them), transfer));
    // A sector that is written again and again comes by once in a turn.
    if device.device.name == SPINNING.name
        && let Some(flush_ns) = device.flush_ns
        && waits.flushes.low > 0.0
    {
        total.low = total.low.max(flush_ns.low * waits.flushes.low.min(1.0));
    }
    total
}

/// The calls themselves and the copy into the page cache, in ns.
fn software(site: &Site, known: Option<&Known>, sync: Sync) -> Law {
    let way = way(site, known);
    let calls = match (sync.write, sync.call) {
        (Write::Nothing, _) | (_, Call::Dsync | Call::DirectDsync) => 1.0,
        (Write::Create, _) => 5.0,
        _ => 2.0,
    };
    let cycles = match sync.write {
        Write::Nothing => range(50.0, 300.0, 3e3),
        Write::Create => sum(IN_MEMORY, MADE),
        _ => IN_MEMORY,
    };
    let copy = match sync.write == Write::Nothing || sync.call == Call::DirectDsync {
        true => range(0.0, 0.0, 0.0),
        false => inverse(sync.block as f64, COPIED),
    };
    let work = time_of(crate::Facts { site, known }, cycles, "").range;
    let work = product(work, range(0.8, 1.0, 1.5));
    Law::of(
        sum(sum(scaled(way.range, calls), work), copy),
        format!(
            "{calls:.0} system calls ({}) and {:.0} to {:.0} cycles of the kernel's own",
            way.because(),
            cycles.low,
            cycles.high
        ),
    )
}

#[cfg(test)]
mod tests;

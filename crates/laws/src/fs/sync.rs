//! Laws of syncs: writes and flushes that wait for each other, as many as the kind of file system
//! needs, each as long as the device takes.
//!
//! How many there are is read from the kernel's sources (fs/ext4/fsync.c, fs/jbd2/commit.c,
//! fs/xfs/xfs_log.c, fs/btrfs/tree-log.c): a journal's commit is its blocks and a commit block,
//! with a flush before it and forced unit access, or another flush, after it.

use super::journal::{
    Durable, Keeper, durable, is_measured, keeper, measured_write, no_flush, round_trip,
};
use super::{BLOCK_BYTES, NOTHING, disk, file_system, times, way, work};
use crate::device::SPINNING;
use crate::os::measured_call;
use crate::{Facts, Law, difference, inverse, range, sum};
use bench::experiment::{Domain, Site};
use bench::{case, symbols};
use record::event::{Condition, Range};

symbols! {
    /// What is written before a sync.
    pub enum Write {
        /// Nothing since the last one.
        Nothing = "none",
        /// A block that is in the file already.
        Overwrite = "overwrite",
        /// A block at the end.
        Append = "append",
        /// A block that was reserved, and never written.
        Reserved = "reserved",
        /// A new file of one block.
        Create = "create",
    }
}

symbols! {
    /// How it is made to last.
    pub enum Call {
        /// fsync(2) after the write.
        Fsync = "fsync",
        /// fdatasync(2) after the write.
        Fdatasync = "fdatasync",
        /// Opened with O_DSYNC.
        Dsync = "dsync",
        /// With O_DIRECT and O_DSYNC.
        DirectDsync = "direct_dsync",
    }
}

impl Call {
    /// Whether the write itself waits, so that there is no call after it.
    pub fn is_in_write(self) -> bool {
        matches!(self, Call::Dsync | Call::DirectDsync)
    }
}

case! {
    /// One durable write.
    pub struct Sync {
        /// what is made durable
        write: Write,
        /// how: a sync call after the write, or a file with synchronous writes
        call: Call,
        /// bytes of a write
        block: Option<u64> = Domain::bytes(1, 16 << 20),
    }
}

impl Sync {
    pub fn bytes(&self) -> u64 {
        self.block.unwrap_or(BLOCK_BYTES as u64)
    }
}

/// Writes and flushes that wait for each other, and bytes beside the data.
struct Waits {
    writes: Range,
    flushes: Range,
    /// Blocks of 4 KiB that are written beside the data.
    beside: Range,
    why: &'static str,
    has_journal: bool,
}

/// Bytes per ns that are copied into the page cache.
const COPIED: Range = range(1.5, 7.0, 30.0);
/// A direct durable write measured by fs.io against the same one here.
const SAME_SHARE: f64 = 0.5;

/// One durable write, until it is answered, in ns.
pub fn latency(facts: Facts, sync: &Sync) -> Law {
    let site = facts.site;
    let kind = keeper(file_system(site));
    let software = software(facts, sync);
    if kind == Keeper::Memory {
        return software.and("the file system is in memory, and a sync does nothing");
    }
    if let Some(trip) = round_trip(kind, site) {
        let least = software.range.low;
        let mut whole = trip.ends(1.0, 2.0, 8.0) + software;
        // A server or daemon may promise what it does not keep: only the write's copy is certain.
        whole.range.low = whole.range.low.min(least);
        return whole;
    }
    let is_same = sync.write == Write::Overwrite
        && sync.bytes() == BLOCK_BYTES as u64
        && sync.call == Call::Dsync;
    if let Some(ns) = measured_write(facts, "dsync").filter(|_| is_same) {
        return Law::measured(ns, SAME_SHARE, "such writes measured with O_DSYNC by fs.io");
    }
    let waits = waits(site, sync);
    let of_device = device_ns(facts, sync, &durable(facts, disk(site)), &waits);
    let how = format!(
        "{}: {:.1} to {:.1} writes and {:.1} to {:.1} flushes, one after another",
        waits.why, waits.writes.low, waits.writes.high, waits.flushes.low, waits.flushes.high
    );
    let whole = (of_device + software)
        .with(&Law::software(NOTHING, how))
        .counting_if(waits.has_journal, Condition::Journal);
    match kind {
        Keeper::Stacked => whole.widened(20.0, 2.0, "stacked on one that the mounts do not name"),
        Keeper::Unknown => whole.widened(2.0, 2.0, "it is unknown how this file system syncs"),
        _ => whole,
    }
}

/// The sync alone, without the write before it, in ns.
pub fn alone(facts: Facts, sync: &Sync) -> Law {
    let whole = latency(facts, sync);
    if keeper(file_system(facts.site)) == Keeper::Memory {
        return whole.ends(0.05, 0.25, 1.0);
    }
    let rest = difference(whole.range, software(facts, sync).range);
    let of =
        |of: Range| range(rest.low.max(0.3 * of.low), rest.likely.max(0.5 * of.likely), of.high);
    whole.reshaped(of).and("without the write into the page cache")
}

/// Durable writes in a second, one after another.
pub fn rate(facts: Facts, sync: &Sync) -> Law {
    latency(facts, sync).inverse(1e9).and("one by one")
}

/// Bytes that the device writes for a byte that was made durable.
pub fn amplification(site: &Site, sync: &Sync) -> Law {
    let waits = waits(site, sync);
    let block = sync.bytes() as f64;
    let of = |blocks: f64| (block.max(BLOCK_BYTES) + blocks * BLOCK_BYTES) / block;
    // A file system may write less than a page of a block that is smaller.
    let low = block.max(512.0) / block;
    let likely = of(waits.beside.likely);
    let is_guests = disk(site).is_some_and(|disk| bench::device::is_virtual(disk, site));
    let counted = match is_guests {
        true => "counted by the guest's side of the disk",
        false => "counted at the device, including other processes' writes",
    };
    let all = range(low.min(likely), likely, 2.0 * of(waits.beside.high));
    waits.law(all, "data is written in whole pages").and(counted)
}

/// Bytes that the kind of file system writes beside the data of one sync, at most; where nothing is
/// written, a commit of its own may still come between.
pub fn beside_most(site: &Site, sync: &Sync) -> f64 {
    let is_nothing = sync.write == Write::Nothing;
    let write = if is_nothing { Write::Append } else { sync.write };
    waits(site, &Sync { write, ..sync.clone() }).beside.high * BLOCK_BYTES
}

pub fn flushes(site: &Site, sync: &Sync) -> Law {
    let waits = waits(site, sync);
    let Range { low, likely, high } = waits.flushes;
    let of = range(low.min(0.9), likely, 1.5 * high + 0.2);
    match no_flush(site, disk(site)) {
        Some(why) => Law::software(range(0.0, 0.0, 0.2), format!("no flush is sent: {why}")),
        None => waits.law(of, "one flush serves all concurrent waiters"),
    }
}

/// Write requests to the device for one sync; a flush is one of them.
pub fn requests(site: &Site, sync: &Sync) -> Law {
    let waits = waits(site, sync);
    let flushes = flushes(site, sync).range;
    let of = range(
        0.8 * waits.writes.low.min(waits.flushes.low),
        waits.writes.likely + flushes.likely,
        2.0 * (waits.writes.high + flushes.high),
    );
    waits.law(of, "adjacent blocks may merge into one request, and a flush counts as one")
}

impl Waits {
    fn law(&self, of: Range, how: &str) -> Law {
        let law = Law::software(of, self.why).and(how);
        law.counting_if(self.has_journal, Condition::Journal)
    }
}

/// Whether earlier figures narrow the law.
pub fn is_known(facts: Facts) -> bool {
    match keeper(file_system(facts.site)) {
        Keeper::Memory => facts.known.is_some_and(|known| measured_call(known, "getpid").is_some()),
        Keeper::Daemon | Keeper::Server => false,
        _ => is_measured(facts) || measured_write(facts, "dsync").is_some(),
    }
}

/// What waits for what, by the kind of file system.
fn waits(site: &Site, sync: &Sync) -> Waits {
    use Keeper::{Plain, Stacked, Tree, Unknown};
    use Write::{Create, Nothing, Overwrite};
    let kind = keeper(file_system(site));
    // Nothing of the file's own changes but its times, which only fsync is about.
    let in_place = sync.call != Call::Fsync;
    // Writes, flushes and blocks beside the data, each at least, likely and at most.
    let (writes, flushes, beside, why) = match (kind, sync.write) {
        (Tree, Nothing) => (NO, (0.0, 0.0, 1.0), NO, "nothing changed"),
        (_, Nothing) => (NO, MAY_BE, NO, "nothing changed, but the device is flushed"),
        (Tree, Create) => {
            let why = "writes data, a log tree and a superblock, and the same for the directory";
            ((2.0, 4.0, 9.0), (1.0, 2.0, 4.0), (4.0, 24.0, 90.0), why)
        }
        (Tree, _) => {
            let why = "writes data, a log tree and a superblock";
            ((2.0, 3.0, 6.0), (1.0, 2.0, 3.0), (3.0, 16.0, 60.0), why)
        }
        (Plain, _) => {
            let why = "writes data, the inode and its blocks in place";
            ((1.0, 2.0, 4.0), MAY_BE, (0.0, 2.0, 6.0), why)
        }
        (_, Overwrite) if in_place => {
            let why = "writes data in place; some kernels also write the timestamps once per tick";
            ((1.0, 1.05, 2.3), (0.5, 1.0, 1.5), (0.0, 0.1, 1.5), why)
        }
        (_, Overwrite) => {
            let why = "writes data in place, commits the journal if timestamps changed (per tick)";
            ((1.0, 1.1, 3.0), (0.5, 1.0, 2.2), (0.0, 0.3, 6.0), why)
        }
        // What a new name or another size has written.
        (Unknown | Stacked, Create) => {
            let why = "writes data and the metadata of a new name";
            ((1.5, 4.0, 9.0), (0.5, 2.0, 4.0), (0.5, 5.0, 90.0), why)
        }
        (_, Create) => {
            let why = "writes data and commits the journal, perhaps again for the directory";
            ((1.5, 3.5, 7.0), (0.9, 2.0, 4.0), (0.5, 4.0, 14.0), why)
        }
        (Unknown | Stacked, _) => {
            let why = "writes data and the metadata of a new size";
            ((1.0, 2.0, 6.0), (0.5, 1.0, 3.0), (0.0, 2.0, 60.0), why)
        }
        _ => {
            let why = "writes data, commits the journal for the size or the extents that changed";
            ((1.0, 2.0, 4.0), (0.9, 1.1, 2.2), (0.1, 1.5, 6.0), why)
        }
    };
    let has_journal = match (kind, sync.write) {
        (Tree | Plain, _) | (_, Nothing) => false,
        (_, Overwrite) => !in_place,
        (kind, _) => !matches!(kind, Unknown | Stacked),
    };
    let [writes, flushes, beside] =
        [writes, flushes, beside].map(|(low, likely, high)| range(low, likely, high));
    Waits { writes, flushes, beside, why, has_journal }
}

const NO: (f64, f64, f64) = (0.0, 0.0, 0.0);
const MAY_BE: (f64, f64, f64) = (0.0, 1.0, 1.0);

/// What the device takes and the kernel around each wait for it, in ns.
fn device_ns(facts: Facts, sync: &Sync, device: &Durable, waits: &Waits) -> Law {
    let many = |count: Range, each: Law| each.reshaped(|each| times(count, each));
    let mut law = many(waits.writes, device.write.clone())
        + device.flush.clone().map(|flush| many(waits.flushes, flush))
        + many(sum(waits.writes, waits.flushes), work(facts, &["WAIT"], 1.0));
    let further = (sync.bytes() as f64 - BLOCK_BYTES).max(0.0);
    if further > 0.0 && sync.write != Write::Nothing {
        let Range { low, likely, high } = device.class.rate;
        let rate = range(0.3 * low, 0.7 * likely, high);
        law = law + Law::hardware(inverse(further, rate), "");
    }
    // A sector that is written again and again comes by once in a turn.
    if device.class.name == SPINNING.name
        && let Some(flush) = &device.flush
        && waits.flushes.low > 0.0
    {
        law.range.low = law.range.low.max(flush.range.low * waits.flushes.low.min(1.0));
    }
    law
}

/// The calls themselves and the copy into the page cache, in ns.
fn software(facts: Facts, sync: &Sync) -> Law {
    let calls = match (sync.write, sync.call) {
        (Write::Nothing, _) => 1.0,
        (_, call) if call.is_in_write() => 1.0,
        (Write::Create, _) => 5.0,
        _ => 2.0,
    };
    let sums: &[&str] = match sync.write {
        Write::Nothing => &["IDLE"],
        Write::Create => &["BUFFERED", "MADE"],
        _ => &["BUFFERED"],
    };
    let copy = match sync.write == Write::Nothing || sync.call == Call::DirectDsync {
        true => NOTHING,
        false => inverse(sync.bytes() as f64, COPIED),
    };
    way(facts).times(calls)
        + Law::hardware(copy, "")
        + work(facts, sums, 1.0).by(range(0.8, 1.0, 1.5))
}

#[cfg(test)]
mod tests;

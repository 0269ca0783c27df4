//! Laws of names: a system call, the path's way to an entry that is in memory, and what the file system
//! does for a change: an inode found or given back, the directory's block changed, and both promised to
//! the journal, which is written later.
//!
//! The cycles are starting values for Linux 5.x and 6.x, adjusted on one virtual machine (ext4) and else
//! written from memory of usual figures (lmbench's `lat_fs` prints 5 to 30 µs for a file made, fs_mark 30
//! to 100 thousand files a second without syncs), not measured kernel by kernel.

use super::journal::{Keeper, keeper, round_trip, way};
use crate::cpu::{is_guest, time_of};
use crate::os::measured_call;
use crate::{Law, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::event::{Condition, Range};

/// What is done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An empty file made and opened.
    Create,
    /// A file opened.
    Open,
    /// Its attributes asked for.
    Stat,
    /// Another name in the same directory.
    Rename,
    /// An empty file removed.
    Unlink,
    /// A directory made.
    Mkdir,
    /// An empty directory removed.
    Rmdir,
    /// One entry of a directory that is read as a whole.
    Readdir,
}

/// A call in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Named<'site> {
    /// The call.
    pub call: Call,
    /// Entries of the directory.
    pub entries: u64,
    /// Length of a name in bytes.
    pub name_bytes: u64,
    /// Name of the file system.
    pub file_system: &'site str,
    /// Mounted with `discard`: the device is told of blocks that were given back.
    pub discards: bool,
}

/// Cycles of a path of one component walked from an open directory, and a file made of it.
const OPEN: Range = range(600.0, 1500.0, 4500.0);
/// The same with the attributes copied out.
const STAT: Range = range(250.0, 650.0, 1900.0);
/// One entry read: found in the directory's block, sorted by its hash, copied out, walked over.
const ENTRY: Range = range(40.0, 320.0, 1700.0);
/// An inode and an entry of a tree in memory, with its name and its cached attributes, in bytes.
const CACHED_BYTES: f64 = 1400.0;
/// Lines of memory that a name's way touches, of a directory too large for the caches, and their time in ns.
const MISSES: Range = range(2.0, 7.0, 20.0);
const MISS_NS: Range = range(60.0, 110.0, 280.0);
/// A device told of a block that is free again, on a machine whose CPUs are taken, in ns.
const DISCARD_NS_MOST: f64 = 1e7;
/// A record of getdents64 without the name, and what one call returns, in bytes.
const RECORD_BYTES: u64 = 20;
const LISTING_BYTES: u64 = 32 << 10;
/// Calls of a listing beside those that return entries: back to the beginning, and the one that ends it.
const LISTING_CALLS: u64 = 2;

/// One call (one entry of a listing), in ns.
pub fn latency(site: &Site, known: Option<&Known>, named: Named) -> Law {
    let kind = keeper(named.file_system);
    let way = way(site, known);
    if named.call == Call::Readdir {
        return listing(site, known, kind, named, way);
    }
    let (cycles, what) = work(kind, named.call);
    let (mut ns, mut from) = match measured(known, named.call) {
        // The same call of another file.
        Some((ns, call)) => (
            range(0.45 * ns, 0.85 * ns, 2.0 * ns),
            format!("os.syscall's {call} of /dev/null took {ns:.0} ns, two components deep"),
        ),
        None => (
            sum(way.range, time_of(crate::Facts { site, known }, cycles, "").range),
            format!(
                "{}; software: {what}, {:.0} to {:.0} cycles",
                way.because(),
                cycles.low,
                cycles.high
            ),
        ),
    };
    // The index of a large directory is deeper.
    let size = (named.entries.max(10) as f64 / 10.0).log10();
    ns = range(ns.low, ns.likely * (1.0 + 0.03 * size), ns.high * (1.0 + 0.12 * size));
    let caches = site.host.cache.levels.iter().map(|cache| cache.size_bytes);
    let largest = caches.max().map_or(f64::INFINITY, |bytes| bytes as f64);
    if named.entries as f64 * CACHED_BYTES > 0.5 * largest.min(6.4e7) {
        let misses = scaled(MISS_NS, MISSES.likely);
        ns = sum(
            ns,
            range(0.1 * misses.low, misses.likely, misses.high * MISSES.high / MISSES.likely),
        );
        from.push_str(
            "; base hardware: its entries are more than the caches hold, 2 to 20 lines of memory",
        );
    }
    if named.discards && named.call == Call::Rmdir {
        // Within the call where there is no journal, else with its commit.
        ns.high += DISCARD_NS_MOST;
        from.push_str(
            "; mounted with discard: without a journal the device is asked within the call",
        );
    }
    let estimate = Law::of(ns, from);
    served(site, kind, named.call, estimate)
}

/// One entry of a whole listing.
fn listing(site: &Site, known: Option<&Known>, kind: Keeper, named: Named, way: Law) -> Law {
    let record = (RECORD_BYTES + named.name_bytes + 8) / 8 * 8;
    let calls = LISTING_CALLS + (named.entries * record).div_ceil(LISTING_BYTES);
    let calls_each = calls as f64 / named.entries.max(1) as f64;
    // A call that returns entries also begins a file system's walk anew.
    let begun = time_of(crate::Facts { site, known }, range(150.0, 700.0, 4e3), "").range;
    let calls_ns = scaled(sum(way.range, begun), calls_each);
    let entry_ns = time_of(crate::Facts { site, known }, ENTRY, "").range;
    let estimate = Law::of(
        sum(calls_ns, entry_ns),
        format!(
            "{calls} system calls for {} entries ({}); software: 40 to 1700 cycles an entry",
            named.entries,
            way.because()
        ),
    );
    served(site, kind, named.call, estimate)
}

/// What else there is between the call and the names.
fn served(site: &Site, kind: Keeper, call: Call, estimate: Law) -> Law {
    let estimate = match is_guest(site) {
        true => estimate
            .widened(1.0, 1.3, "a guest's tables are nested")
            .counting(Condition::NestedPaging),
        false => estimate,
    };
    let Some(trip) = round_trip(kind, site) else {
        return estimate;
    };
    let changes = !matches!(call, Call::Open | Call::Stat | Call::Readdir);
    let trips = match changes {
        true => range(trip.range.low, 2.0 * trip.range.likely, 8.0 * trip.range.high),
        // What the kernel may remember for some time, or may not.
        false => range(0.0, trip.range.likely, 4.0 * trip.range.high),
    };
    let low = estimate.range.low;
    let total = sum(estimate.range, trips);
    Law::of(
        range(if changes { total.low } else { low }, total.likely, total.high),
        format!("{}; {}", trip.because(), estimate.because()),
    )
}

/// Cycles beyond the way in and out, by the kind of file system.
fn work(kind: Keeper, call: Call) -> (Range, &'static str) {
    let (factor, slow) = match kind {
        Keeper::Memory => (0.35, 0.35),
        Keeper::Tree => (2.0, 3.0),
        Keeper::Stacked => (2.5, 4.0),
        Keeper::Unknown | Keeper::Daemon | Keeper::Server => (1.0, 3.0),
        _ => (1.0, 1.0),
    };
    let of = |low: f64, likely: f64, high: f64| {
        let low = match kind {
            Keeper::Unknown => 0.3 * low,
            _ => low * f64::min(factor, 1.0),
        };
        range(low, likely * factor, high * slow)
    };
    match call {
        Call::Open => (OPEN, "one component walked, a file made, a descriptor taken"),
        Call::Stat => (STAT, "one component walked, attributes copied out"),
        Call::Readdir => (ENTRY, "an entry found and copied out"),
        Call::Create => {
            (of(6e3, 2.2e4, 9e4), "an inode found, an entry added, both promised to the journal")
        }
        Call::Unlink => (
            of(4e3, 1.3e4, 6e4),
            "an entry removed, the inode given back, both promised to the journal",
        ),
        Call::Rename => (
            of(4e3, 1.3e4, 6e4),
            "two entries looked for, one added and one removed, promised to the journal",
        ),
        Call::Mkdir => (
            of(9e3, 3.2e4, 1.4e5),
            "an inode and a block found, an entry added, all promised to the journal",
        ),
        Call::Rmdir => (
            of(5e3, 1.9e4, 9e4),
            "an empty directory checked, its entry, block and inode given back",
        ),
    }
}

/// The like of the call, where os.syscall measured it.
fn measured(known: Option<&Known>, call: Call) -> Option<(f64, &'static str)> {
    let name = match call {
        Call::Open => "open",
        Call::Stat => "stat",
        _ => return None,
    };
    Some((measured_call(known?, name)?, name))
}

/// Whether earlier figures narrow the law.
pub fn is_known(known: &Known, call: Call) -> bool {
    measured(Some(known), call).is_some() || measured_call(known, "getpid").is_some()
}

#[cfg(test)]
mod tests;

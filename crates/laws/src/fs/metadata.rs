//! Laws of names: a system call, the path's way to an entry that is in memory, and what the file
//! system does for a change: an inode found or given back, the directory's block changed, and both
//! promised to the journal, which is written later.
//!
//! The cycles are starting values for Linux 5.x and 6.x, adjusted on one virtual machine (ext4) and
//! else written from memory of usual figures (lmbench's `lat_fs` prints 5 to 30 µs for a file made,
//! fs_mark 30 to 100 thousand files a second without syncs), not measured kernel by kernel.

use super::journal::{Keeper, keeper, round_trip};
use super::{file_system, way};
use crate::cpu::{clocked, is_guest};
use crate::os::learnt::learnt;
use crate::os::{self, measured_call};
use crate::rows::Scale;
use crate::{Facts, Law, range, scaled};
use bench::device::mount_of;
use bench::experiment::{Domain, Site};
use bench::{case, rows};
use record::event::{Condition, Range};

/// What the kernel does for a call beyond the way in and out, in cycles.
pub struct Work {
    cycles: Range,
    what: &'static str,
    pub changes: bool,
    /// The corresponding call of os.syscall.
    like: Option<&'static str>,
}

const fn looks(cycles: Range, what: &'static str, like: Option<&'static str>) -> Work {
    Work { cycles, what, changes: false, like }
}

const fn changes(low: f64, likely: f64, high: f64, what: &'static str) -> Work {
    Work { cycles: range(low, likely, high), what, changes: true, like: None }
}

rows! {
    /// The call: on an empty file, an empty directory, or (`readdir`) per entry of a directory that
    /// is read as a whole.
    pub enum Call: Work {
        Create = "create" => changes(6e3, 2.2e4, 9e4, "add an inode and an entry in the journal"),
        Open = "open" => looks(OPEN, "walk one path component, allocate a file", Some("open")),
        Stat = "stat" => looks(STAT, "walk one path component, copy attributes out", Some("stat")),
        Rename = "rename" => changes(4e3, 1.3e4, 6e4, "move an entry in the journal"),
        Unlink = "unlink" => changes(4e3, 1.3e4, 6e4, "remove an entry and inode in the journal"),
        Mkdir = "mkdir" => changes(9e3, 3.2e4, 1.4e5, "add an inode, block and entry, journaled"),
        Rmdir = "rmdir" => changes(5e3, 1.9e4, 9e4, "check that it is empty, free what it has"),
        Readdir = "readdir" => looks(ENTRY, "find an entry and copy it out", None),
    }
}

case! {
    /// A call in a directory.
    pub struct Named {
        /// the call
        call: Call,
        /// files in the directory
        entries: u64 = Domain::count(1, 10_000_000),
    }
}

/// Cycles to walk a path of one component from an open directory, and to make a file object.
const OPEN: Range = range(600.0, 1500.0, 4500.0);
/// The same with the attributes copied out.
const STAT: Range = range(250.0, 650.0, 1900.0);
/// One entry read: found in the directory's block, sorted by its hash, copied out, walked over.
const ENTRY: Range = range(40.0, 320.0, 1700.0);
/// An inode and an entry of a tree in memory, with its name and its cached attributes, in bytes.
const CACHED_BYTES: f64 = 1400.0;
/// Lines of memory that a name's way touches, of a directory too large for the caches, and their
/// time in ns.
const MISSES: Range = range(2.0, 7.0, 20.0);
const MISS_NS: Range = range(60.0, 110.0, 280.0);
/// A discard of a freed block on a machine with busy CPUs, in ns.
const DISCARD_NS_MOST: f64 = 1e7;
/// A record of getdents64 without the name, and what one call returns, in bytes.
const RECORD_BYTES: u64 = 20;
const LISTING_BYTES: u64 = 32 << 10;
/// Calls of a listing beside those that return entries: back to the beginning, and the one that
/// ends it.
const LISTING_CALLS: u64 = 2;

/// One call (one entry of a listing), in ns, where names have so many bytes.
pub fn latency(facts: Facts, named: &Named, name_bytes: u64) -> Law {
    let site = facts.site;
    let kind = keeper(file_system(site));
    let law = match named.call {
        Call::Readdir => listing(facts, named.entries, name_bytes),
        call => one(facts, kind, call, named.entries),
    };
    let law = law.when(is_guest(site), |law| {
        law.widened(1.0, 1.3, "a guest's page tables are nested").counting(Condition::NestedPaging)
    });
    let Some(trip) = round_trip(kind, site) else { return law };
    // What else there is between the call and the names.
    let least = law.range.low;
    if named.call.row().changes {
        return trip.ends(1.0, 2.0, 8.0) + law;
    }
    // What the kernel may remember for some time, or may not.
    let mut law = trip.ends(0.0, 1.0, 4.0) + law;
    law.range.low = least;
    law
}

fn one(facts: Facts, kind: Keeper, call: Call, entries: u64) -> Law {
    let site = facts.site;
    let mut law = match (measured(facts, call), call.row().like) {
        // The same call of another file.
        (Some(ns), Some(name)) => {
            let told = format!("{name} on /dev/null took {ns:.0} ns (measured by os.syscall)");
            Law::new(0.45 * ns, 0.85 * ns, 2.0 * ns, told)
        }
        _ => way(facts) + of_kind(facts, kind, call.row()),
    };
    // The index of a large directory is deeper.
    let size = (entries.max(10) as f64 / 10.0).log10();
    law = law.ends(1.0, 1.0 + 0.03 * size, 1.0 + 0.12 * size);
    let caches = site.host.cache.levels.iter().map(|cache| cache.size_bytes);
    let largest = caches.max().map_or(f64::INFINITY, |bytes| bytes as f64);
    if entries as f64 * CACHED_BYTES > 0.5 * largest.min(6.4e7) {
        let Range { low, likely, high } = scaled(MISS_NS, MISSES.likely);
        let missed = range(0.1 * low, likely, high * MISSES.high / MISSES.likely);
        let what = "the directory exceeds the caches: 2 to 20 cache lines from memory";
        law = law + Law::hardware(missed, what);
    }
    if call == Call::Rmdir && discards(site) {
        // Within the call where there is no journal, else with its commit.
        law.range.high += DISCARD_NS_MOST;
        law = law
            .and("mounted with discard: without a journal the call itself sends the discard")
            .counting(Condition::Journal);
    }
    law
}

fn listing(facts: Facts, entries: u64, name_bytes: u64) -> Law {
    let record = (RECORD_BYTES + name_bytes + 8) / 8 * 8;
    let calls = LISTING_CALLS + (entries * record).div_ceil(LISTING_BYTES);
    // A call that returns entries also begins a file system's walk anew.
    let begun = work(facts, range(150.0, 700.0, 4e3), &format!("{calls} system calls"));
    let calls = (way(facts) + begun).times(calls as f64 / entries.max(1) as f64);
    calls + work(facts, ENTRY, Call::Readdir.row().what)
}

/// Cycles of a call by the kind of file system.
fn of_kind(facts: Facts, kind: Keeper, row: &Work) -> Law {
    if !row.changes {
        return work(facts, row.cycles, row.what);
    }
    let (factor, slow) = match kind {
        Keeper::Memory => (0.35, 0.35),
        Keeper::Tree => (2.0, 3.0),
        Keeper::Stacked => (2.5, 4.0),
        Keeper::Unknown | Keeper::Daemon | Keeper::Server => (1.0, 3.0),
        _ => (1.0, 1.0),
    };
    let Range { low, likely, high } = row.cycles;
    let low = if kind == Keeper::Unknown { 0.3 * low } else { low * f64::min(factor, 1.0) };
    work(facts, range(low, likely * factor, high * slow), row.what).counting(Condition::Journal)
}

/// Cycles of the kernel, in ns.
fn work(facts: Facts, cycles: Range, what: &str) -> Law {
    let cycles = os::Work::from(cycles).law(facts.site, what).unsourced();
    learnt(facts, Scale::Plain, clocked(facts, cycles))
}

/// The like of the call, where os.syscall measured it.
fn measured(facts: Facts, call: Call) -> Option<f64> {
    measured_call(facts.known?, call.row().like?)
}

/// Whether the file system is mounted with `discard`: the device gets discards for freed blocks.
fn discards(site: &Site) -> bool {
    let mount = site.dir.as_ref().and_then(|dir| mount_of(site, &dir.path));
    mount.is_some_and(|mount| mount.options.split(',').any(|option| option == "discard"))
}

/// Whether earlier figures narrow the law.
pub fn is_known(facts: Facts, call: Call) -> bool {
    let entry = facts.known.is_some_and(|known| measured_call(known, "getpid").is_some());
    entry || measured(facts, call).is_some()
}

#[cfg(test)]
mod tests;

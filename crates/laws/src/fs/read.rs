//! Laws of reading a file block by block: what the device takes (`laws::device`), what the
//! kernel does about it, and what a copy from the page cache takes.
//!
//! The kernel's cycles are starting values for Linux 5.x and 6.x from memory of usual figures (a
//! direct read by pread costs fio 2 to 5 µs of CPU time on bare metal, and twice that with an exit
//! to a hypervisor for each), not measured kernel by kernel.

use super::limit::{self, Limit};
use super::{BLOCK_BYTES, Mode, Pattern, work};
use crate::cpu::is_guest;
use crate::device::{LONG_TAIL, reading};
use crate::memory::measured::measured_copy;
use crate::os::{measured_call, system_call};
use crate::{Facts, Law, around, inverse, product, range, scaled, sum};
use bench::case;
use bench::experiment::Domain;
use host::block::Disk;
use record::event::Range;
use record::key::CaseId;

/// Bytes per ns that the kernel copies from memory, as one CPU usually does …
const COPIED: Range = range(3.0, 10.0, 60.0);
/// … and what of that time is left where caches hold the file, or a part of it.
const FROM_CACHES: Range = range(0.02, 0.3, 1.2);
const FROM_MEMORY: Range = range(0.2, 0.9, 1.6);
/// Windows of readahead are waited for, as a share of a read each.
const WAITED: Range = range(0.02, 0.3, 1.2);
/// If the device's window is unknown.
const READAHEAD_BYTES: f64 = 131_072.0;
/// A longer request is split: the kernel's usual limit (include/linux/blkdev.h).
const REQUEST_BYTES: f64 = 1_310_720.0;
/// A pass over a large file is cut into parts of so many bytes.
const PASS_BYTES: f64 = 16.0 * 1048576.0;
/// So much of a file is in the page cache at a time, and is passed over.
pub const CACHED_BYTES: u64 = 32 << 20;

case! {
    /// A file and how it is read.
    pub struct Read {
        /// blocks in order, or each once in random order
        pattern: Pattern,
        /// past the page cache (direct, with O_SYNC too), through it after eviction (cold, with and
        /// without readahead), or from it (cached)
        mode: Mode = Domain::Symbols(&[
            "direct", "direct_sync", "cold", "cold_no_readahead", "cached",
        ]),
        /// size of the file; above 32 MiB, of the part of the largest file that is read
        size: u64 = Domain::bytes(64 << 10, 1 << 36),
    }
}

impl Read {
    fn is_random(&self) -> bool {
        self.pattern == Pattern::Random
    }

    /// In order with readahead: most reads find their block in memory.
    fn is_ahead(&self) -> bool {
        self.mode == Mode::Cold && !self.is_random()
    }
}

/// What lies below the file.
#[derive(Clone, Copy)]
pub struct Below<'site> {
    pub disk: Option<&'site Disk>,
    /// Whether nothing is between that keeps data of its own, as far as is known.
    pub is_plain: bool,
}

/// A block in the mean of a pass, in ns; `None` where earlier figures add nothing.
pub fn block(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    let free = free_block(facts, below, read)?;
    let limit = limit_of(facts, below, read);
    Some(limit.map_or(free.clone(), |limit| limit.time(free)))
}

fn limit_of(facts: Facts, below: Below, read: &Read) -> Option<Limit> {
    let disk = below.disk.filter(|_| read.mode != Mode::Cached);
    limit::operation_limit(facts.site, disk, true, BLOCK_BYTES, read.mode != Mode::Cold)
}

/// The same without a limit.
fn free_block(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    match read.mode {
        Mode::Cached => cached(facts, read),
        Mode::Cold if read.is_ahead() => ahead_in_order(facts, below, read),
        // At random with readahead: as without, until what is in memory has neighbours. A whole
        // small file in one window, or a window for one block.
        Mode::Cold => {
            let why =
                "readahead may fetch neighbouring blocks, which may be needed later or wasted";
            Some(alone(facts, below, read)?.widened(12.0, 1.6, why))
        }
        _ => alone(facts, below, read),
    }
}

/// The median of single reads, in ns: with readahead in order most find their block in memory.
pub fn single(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    if !read.is_ahead() {
        let (share, why) = match read.mode {
            Mode::Cached => (1.1, "the median is below the mean"),
            _ => (LONG_TAIL, "the median is below the mean because of a long tail"),
        };
        let median = free_block(facts, below, read)?.widened(share, 1.0, why);
        let limit = limit_of(facts, below, read);
        return Some(limit.map_or(median.clone(), |limit| limit.median(median, 1.0)));
    }
    let slowest = block(facts.as_prior(), below, read)?;
    let found = cached(facts, read)?.ends(0.8, 1.3, 3.0).reaching(slowest.range.likely);
    Some(found.with(&slowest).and("readahead has fetched most blocks, or each read waits"))
}

fn ahead_bytes(below: Below) -> f64 {
    let ahead = below.disk.and_then(|disk| disk.read_ahead_bytes);
    ahead.map_or(READAHEAD_BYTES, |bytes| bytes as f64).max(BLOCK_BYTES)
}

/// CPU time of the reading thread for a block, in ns.
pub fn cpu(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    let copy = cached(facts, read);
    if read.mode == Mode::Cached {
        return copy;
    }
    let copy = copy.or_else(|| cached(facts.as_prior(), read))?;
    let (kernel, page) = (kernel(facts), work(facts, &["PAGE_IN"], 1.0));
    let law = match read.mode {
        _ if read.is_ahead() => {
            // A window is a request or several, and its blocks share them.
            let share = BLOCK_BYTES / ahead_bytes(below).min(REQUEST_BYTES);
            copy + page + kernel.ends(0.01, 3.0 * share, 0.6)
        }
        mode if mode.is_direct() => kernel.with(&copy),
        _ => copy + page + kernel,
    };
    // Interrupts may be counted to the thread, or come elsewhere.
    Some(law.widened(1.5, 1.3, "interrupts arrive on this CPU or on another"))
}

/// Time of a cold block without readahead over that with it.
pub fn readahead_gain(facts: Facts, below: Below, pattern: Pattern, size: u64) -> Option<Law> {
    if pattern == Pattern::Random {
        let alone = "a random block is read alone; one readahead window may cover a small file";
        return facts.known.is_none().then(|| Law::software(range(0.5, 1.05, 20.0), alone));
    }
    let of = |mode| block(facts, below, &Read { pattern, mode, size });
    let (with, without) = (of(Mode::Cold)?, of(Mode::ColdNoReadahead)?);
    let ratio = product(without.range, inverse(1.0, with.range));
    // Both are the same device: the worst of one does not meet the best of the other. With
    // readahead a pass waits for the device once at least; wasted readahead reads a few blocks for
    // one.
    let most = 2.0 * (size as f64).min(PASS_BYTES) / BLOCK_BYTES;
    let high = ratio.high.min(most);
    let gain = Law::from_range(range(ratio.low.max(0.3), ratio.likely.min(high), high), "");
    let why = "with readahead a pass waits for the device at least once";
    Some(gain.with(&without).with(&with).and(why))
}

/// A copy from the page cache.
fn cached(facts: Facts, read: &Read) -> Option<Law> {
    let site = facts.site;
    let call = facts.known.and_then(|known| measured_call(known, "pread_cached"));
    let copied = facts.known.and_then(measured_copy);
    if facts.known.is_some() && call.is_none() && copied.is_none() {
        return None;
    }
    let call = match call {
        Some(ns) => {
            let why = format!("one page again and again took {ns:.0} ns (measured by os.syscall)");
            Law::measured(ns, 0.15, why)
        }
        None => system_call(facts, "pread_cached"),
    };
    let (rate, from) = match copied {
        Some(rate) => (around(rate, 0.3), format!("{rate:.1} GB/s (measured by memory.bandwidth)")),
        None => {
            let Range { low, high, .. } = COPIED;
            (COPIED, format!("{low} to {high} GB/s, usual for one CPU"))
        }
    };
    let caches = site.host.cache.last_level_total_bytes();
    let in_caches = caches.is_some_and(|cache| read.size.min(CACHED_BYTES) <= cache / 2);
    let (share, place) = match in_caches {
        true => (FROM_CACHES, "the caches"),
        false => (FROM_MEMORY, "memory"),
    };
    let moved = product(inverse(BLOCK_BYTES, rate), share);
    let law = call
        + Law::hardware(moved, format!("4 KiB from {place} at {from}"))
        + read.is_random().then(|| work(facts, &["NO_ORDER"], 1.0));
    let law = law.when(is_guest(site), |law| law.widened(1.0, 1.3, "shared with other guests"));
    Some(law.widened(1.0, 1.15, "timing each read costs two clock reads"))
}

/// Each block a request of its own.
fn alone(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    if facts.known.is_some() {
        return measured_alone(facts, below, read);
    }
    let device = reading(facts.site, below.disk, read.size as f64);
    let page = (!read.mode.is_direct()).then(|| work(facts, &["PAGE_IN"], 1.0));
    let law = device.block(read.pattern).clone() + kernel(facts) + page;
    Some(unless_plain(facts, below, law, read))
}

/// What memory.fault measured of the same device, page by page.
fn measured_alone(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    if !below.is_plain {
        return None;
    }
    let (ns, how) = match read.pattern {
        Pattern::Random => (measured_fault(facts, "random", "off", "major_latency")?, "at random"),
        Pattern::Sequential => (measured_fault(facts, "window", "off", "per_page")?, "in order"),
    };
    let device = reading(facts.site, below.disk, read.size as f64);
    // A small file may be in the drive's buffer, which a large one is not.
    let Range { low, likely, .. } = device.random.range;
    let small = if device.sure { (low / likely).min(0.55) } else { 0.4 };
    let factor = match read.pattern {
        Pattern::Random => range(small, 0.95, 2.0),
        Pattern::Sequential if read.mode.is_direct() => range(0.35, 0.95, 1.8),
        Pattern::Sequential => range(0.5, 1.0, 1.8),
    };
    let us = ns / 1e3;
    let told = format!("faults without readahead took {us:.1} µs {how} (measured by memory.fault)");
    Some(Law::from_range(scaled(factor, ns), told))
}

/// In order with readahead: the device is waited for once, then its transfer, and the copies.
fn ahead_in_order(facts: Facts, below: Below, read: &Read) -> Option<Law> {
    let device = reading(facts.site, below.disk, read.size as f64);
    let pass = (read.size as f64).min(PASS_BYTES);
    let blocks = pass / BLOCK_BYTES;
    let per_page = measured_fault(facts, "window", "on", "per_page");
    if facts.known.is_some() && (per_page.is_none() || !below.is_plain) {
        return None;
    }
    let copy = cached(facts, read).or_else(|| cached(facts.as_prior(), read))?;
    let copies = copy + work(facts, &["PAGE_IN"], 1.0);
    let first = measured_fault(facts, "random", "off", "major_latency");
    let first = first.map_or(device.random.range, |ns| range(0.3 * ns, ns, 2.0 * ns));
    let once = scaled(first, 1.0 / blocks);
    let ahead = ahead_bytes(below);
    let (transfer, waited) = match per_page {
        // What was measured page by page has its waits in it.
        Some(ns) => {
            let told = format!("with readahead a page took {ns:.0} ns (measured by memory.fault)");
            (Law::from_range(scaled(range(0.5, 1.0, 2.0), ns), told), once)
        }
        None => {
            let windows = scaled(product(device.next.range, WAITED), BLOCK_BYTES / ahead.min(pass));
            (device.rate.inverse(BLOCK_BYTES), sum(once, windows))
        }
    };
    // While the device transfers, copies go on: the slower of both, up to their sum.
    let (of_device, of_copies) = (transfer.range, copies.range);
    let both = range(
        of_device.low.max(of_copies.low),
        of_device.likely.max(of_copies.likely),
        of_device.high + of_copies.high,
    );
    let how = format!("{blocks:.0} blocks share the waits for windows of {ahead:.0} bytes");
    let law = (transfer + copies).with_range(sum(waited, both)).and(how);
    Some(law.when(facts.known.is_none(), |law| unless_plain(facts, below, law, read)))
}

/// Where something is between that keeps data, a block may come from memory.
fn unless_plain(facts: Facts, below: Below, law: Law, read: &Read) -> Law {
    let Some(copy) = cached(facts.as_prior(), read).filter(|_| !below.is_plain) else {
        return law;
    };
    let why = "a cache, a program or another machine may answer the read";
    law.reshaped(|of| range(copy.range.low.min(of.low), of.likely, 2.0 * of.high)).and(why)
}

/// What is not the device's of a read that it answers, in ns.
pub fn kernel(facts: Facts) -> Law {
    let exits = || work(facts, &["GUEST_READ"], 1.0);
    work(facts, &["DEVICE_READ"], 1.0) + is_guest(facts.site).then(exits)
}

/// What memory.fault measured, in ns.
fn measured_fault(facts: Facts, fault: &str, readahead: &str, metric: &str) -> Option<f64> {
    let case = CaseId::new().with("fault", fault).with("readahead", readahead);
    facts.figure("memory.fault", &case, metric)
}

#[cfg(test)]
mod tests;

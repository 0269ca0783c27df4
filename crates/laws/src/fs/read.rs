//! Laws of reading a file block by block: what the device takes (`predict/device.rs`), what the kernel
//! does about it, and what a copy from the page cache takes.
//!
//! The kernel's cycles are starting values for Linux 5.x and 6.x from memory of usual figures (a direct read
//! by pread costs fio 2 to 5 µs of CPU time on bare metal, and twice that where a hypervisor is told of each), not
//! measured kernel by kernel.

use super::limit::{self, Limit};
use crate::cpu::{is_guest, time_of};
use crate::device::reading;
use crate::memory::fault::measured_copy;
use crate::os::{Service, measured_call, system_call};
use crate::{Facts, Law, around, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::block::Disk;
use record::event::Range;
use record::key::CaseId;

/// Bytes of a block.
const BLOCK_BYTES: f64 = 4096.0;
/// Block layer, driver, interrupt and wake-up of a read that a device answers, in cycles.
const DEVICE_READ: Range = range(5e3, 1.5e4, 7e4);
/// What of it a hypervisor adds, in cycles: it is told, and it interrupts.
const GUEST_READ: Range = range(0.0, 1.5e4, 1.8e5);
/// A page taken for the cache, entered in its index, and later given up, in cycles.
const PAGE_IN: Range = range(200.0, 1200.0, 5000.0);
/// What blocks in no order cost beyond those in order: the index and the tables are cold, in cycles.
const NO_ORDER: Range = range(0.0, 250.0, 2500.0);
/// Bytes per ns that the kernel copies from memory, as one CPU usually does …
const COPIED: Range = range(3.0, 10.0, 60.0);
/// … and what of that time is left where caches hold the file, or a part of it.
const FROM_CACHES: Range = range(0.02, 0.3, 1.2);
const FROM_MEMORY: Range = range(0.2, 0.9, 1.6);
/// Windows of readahead are waited for, as a share of a read each.
const WAITED: Range = range(0.02, 0.3, 1.2);
/// Where the device does not tell its window.
const READAHEAD_BYTES: f64 = 131_072.0;
/// A pass over a large file is cut into parts of so many bytes.
const PASS_BYTES: f64 = 16.0 * 1048576.0;
/// So much of a file is in the page cache at a time, and is passed over.
pub const CACHED_BYTES: u64 = 32 << 20;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Past the page cache.
    Direct,
    /// Through it, evicted before, with the kernel's readahead …
    Ahead,
    /// … and without.
    Alone,
    /// From it.
    Cached,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Anywhere in the file, or in order.
    pub random: bool,
    /// The way.
    pub way: Way,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// What lies below the file.
#[derive(Clone, Copy)]
pub struct Below<'site> {
    /// The disk, where one is known.
    pub disk: Option<&'site Disk>,
    /// Whether nothing is between that keeps data of its own, as far as is known.
    pub is_plain: bool,
}

/// A block in the mean of a pass, in ns; `None` where `known` adds nothing.
pub fn block(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    let free = free_block(site, known, below, read)?;
    Some(match limit_of(site, below, read) {
        Some(limit) => limit.time(free),
        None => free,
    })
}

fn limit_of(site: &Site, below: Below, read: Read) -> Option<Limit> {
    let disk = below.disk.filter(|_| read.way != Way::Cached);
    limit::of(site, disk, true, BLOCK_BYTES, read.way != Way::Ahead)
}

/// The same without a limit.
fn free_block(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    match read.way {
        Way::Cached => cached(site, known, read),
        Way::Direct | Way::Alone => alone(site, known, below, read),
        Way::Ahead if read.random => ahead_random(site, known, below, read),
        Way::Ahead => ahead_in_order(site, known, below, read),
    }
}

/// The median of single reads, in ns: with readahead in order most find their block in memory.
pub fn single(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    if read.way != Way::Ahead || read.random {
        let whole = free_block(site, known, below, read)?;
        let median = match read.way {
            Way::Cached => whole.widened(1.1, 1.0, "the median is below the mean"),
            _ => whole.widened(1.6, 1.0, "the median is below the mean, whose tail is long"),
        };
        return Some(match limit_of(site, below, read) {
            Some(limit) => limit.median(median, 1.0),
            None => median,
        });
    }
    let from_cache = cached(site, known, read)?;
    let slowest = block(site, None, below, read)?;
    Some(Law::of(
        range(
            0.8 * from_cache.range.low,
            1.3 * from_cache.range.likely,
            (3.0 * from_cache.range.high).max(slowest.range.likely),
        ),
        format!(
            "most blocks in order were read ahead and are in memory: {}; or each is waited for, where the \
             program is quicker than the device ({})",
            from_cache.because(),
            slowest.because()
        ),
    ))
}

/// CPU time of the reading thread for a block, in ns.
pub fn cpu(site: &Site, known: Option<&Known>, read: Read) -> Option<Law> {
    let copy = cached(site, known, read);
    if read.way == Way::Cached {
        return copy;
    }
    let copy = copy.or_else(|| cached(site, None, read))?;
    let kernel = kernel(site, known);
    let page = time_of(Facts { site, known }, PAGE_IN, "").range;
    let (ns, what) = match (read.way, read.random) {
        (Way::Ahead, false) => {
            // A request for many blocks, shared by them.
            let shared = range(0.01 * kernel.low, 0.1 * kernel.likely, 0.6 * kernel.high);
            (sum(sum(copy.range, page), shared), "a page taken, a copy, a share of a request")
        }
        (Way::Direct, _) => (kernel, "a request of its own, the thread put to sleep and woken"),
        _ => (
            sum(sum(copy.range, page), kernel),
            "a request of its own, the thread put to sleep and woken, a page taken, a copy",
        ),
    };
    let estimate = Law::of(ns, format!("software: {what}; {}", copy.because()));
    // Interrupts may be counted to the thread, or come elsewhere.
    Some(estimate.widened(1.5, 1.3, "interrupts come on this CPU or on another"))
}

/// Time of a cold block without readahead over that with it.
pub fn readahead_gain(
    site: &Site,
    known: Option<&Known>,
    below: Below,
    random: bool,
    bytes: u64,
) -> Option<Law> {
    if random {
        return known.is_none().then(|| {
            Law::new(
                0.5,
                1.05,
                20.0,
                "software: a block in no order is read alone, until enough of its neighbours are in memory; in \
                 a small file one window of readahead may hold all of it",
            )
        });
    }
    let of = |way| block(site, known, below, Read { random, way, bytes });
    let (with, without) = (of(Way::Ahead)?, of(Way::Alone)?);
    let ratio = product(without.range, inverse(1.0, with.range));
    // Both are the same device: the worst of one does not meet the best of the other. With readahead a
    // pass waits for the device once at least; in vain it reads a few blocks for one.
    let most = 2.0 * (bytes as f64).min(PASS_BYTES) / BLOCK_BYTES;
    let high = ratio.high.min(most);
    Some(Law::of(
        range(ratio.low.max(0.3), ratio.likely.min(high), high),
        format!(
            "a pass waits for the device once at least; without: {}; with: {}",
            without.because(),
            with.because()
        ),
    ))
}

/// A copy from the page cache.
fn cached(site: &Site, known: Option<&Known>, read: Read) -> Option<Law> {
    let call = known.and_then(|known| measured_call(known, "pread_cached"));
    let copied = known.and_then(measured_copy);
    if known.is_some() && call.is_none() && copied.is_none() {
        return None;
    }
    let (base, from) = match call {
        Some(ns) => (
            around(ns, 0.15),
            format!("the same page again and again took {ns:.0} ns (measured by os.syscall)"),
        ),
        None => {
            let call = system_call(Facts { site, known }, Service::READ_PAGE);
            (call.range, call.because())
        }
    };
    let (rate, rated) = match copied {
        Some(rate) => (
            around(rate, 0.3),
            format!("{rate:.1} GB/s (copied by one thread, measured by memory.bandwidth)"),
        ),
        None => {
            (COPIED, format!("{} to {} GB/s, as one CPU usually does", COPIED.low, COPIED.high))
        }
    };
    let in_caches = site
        .host
        .cache
        .last_level_total_bytes()
        .is_some_and(|cache| read.bytes.min(CACHED_BYTES) <= cache / 2);
    let share = if in_caches { FROM_CACHES } else { FROM_MEMORY };
    let moved = product(inverse(BLOCK_BYTES, rate), share);
    let mut ns = sum(base, moved);
    if read.random {
        ns = sum(ns, time_of(Facts { site, known }, NO_ORDER, "").range);
    }
    let estimate = Law::of(
        ns,
        format!(
            "software: a system call, a page looked up and copied out: {from}; base hardware: 4 KiB from {} at {rated}",
            if in_caches { "the caches" } else { "memory" }
        ),
    );
    Some(
        match is_guest(site) {
            true => estimate.widened(1.0, 1.3, "shared with other guests"),
            false => estimate,
        }
        .widened(1.0, 1.15, "each read is timed, with two reads of the clock"),
    )
}

/// Each block a request of its own.
fn alone(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    if let Some(known) = known {
        return measured_alone(site, known, below, read);
    }
    let device = reading(site, below.disk, read.bytes as f64);
    let wait = if read.random { device.random_ns } else { device.next_ns };
    let mut ns = sum(wait, kernel(site, known));
    if read.way == Way::Alone {
        ns = sum(ns, time_of(Facts { site, known }, PAGE_IN, "").range);
    }
    let estimate = Law::of(
        ns,
        format!(
            "base hardware: {}: {:.0} µs to {:.1} ms; software: block layer, interrupt and wake-up, 5,000 to \
             70,000 cycles",
            device.because,
            wait.low / 1e3,
            wait.high / 1e6
        ),
    );
    Some(unless_plain(site, below, estimate, read))
}

/// What memory.fault measured of the same device, page by page.
fn measured_alone(site: &Site, known: &Known, below: Below, read: Read) -> Option<Law> {
    if !below.is_plain {
        return None;
    }
    let (ns, metric) = match read.random {
        true => (measured_fault(known, "random", "major_latency")?, "a page anywhere"),
        false => (measured_fault(known, "window", "per_page")?, "page by page in order"),
    };
    let device = reading(site, below.disk, read.bytes as f64);
    // A small file may be in the drive's buffer, which a large one is not.
    let small =
        if device.sure { (device.random_ns.low / device.random_ns.likely).min(0.55) } else { 0.4 };
    let factor = match (read.random, read.way) {
        (true, _) => range(small, 0.95, 2.0),
        (false, Way::Direct) => range(0.35, 0.95, 1.8),
        (false, _) => range(0.5, 1.0, 1.8),
    };
    Some(Law::of(
        scaled(factor, ns),
        format!(
            "the same device answered page faults without readahead in {:.1} µs, {metric} (measured by \
             memory.fault); a system call comes in place of the exception, and the file is another",
            ns / 1e3
        ),
    ))
}

/// In order with readahead: the device is waited for once, then its transfer, and the copies.
fn ahead_in_order(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    let device = reading(site, below.disk, read.bytes as f64);
    let pass = (read.bytes as f64).min(PASS_BYTES);
    let blocks = pass / BLOCK_BYTES;
    let per_page = known.and_then(|known| fault_figure(known, "window", "on", "per_page"));
    if known.is_some() && (per_page.is_none() || !below.is_plain) {
        return None;
    }
    let copy = cached(site, known, read).or_else(|| cached(site, None, read))?;
    let page = time_of(Facts { site, known }, PAGE_IN, "").range;
    let (transfer, from) = match per_page {
        Some(ns) => (
            product(range(0.5, 1.0, 2.0), range(ns, ns, ns)),
            format!(
                "page by page with readahead the same device took {ns:.0} ns a page (measured by memory.fault)"
            ),
        ),
        None => (
            inverse(BLOCK_BYTES, device.rate),
            format!(
                "{}: {:.2} to {:.1} GB/s in a row",
                device.because, device.rate.low, device.rate.high
            ),
        ),
    };
    let first = match known.and_then(|known| measured_fault(known, "random", "major_latency")) {
        Some(ns) => range(0.3 * ns, ns, 2.0 * ns),
        None => device.random_ns,
    };
    let ahead = below.disk.and_then(|disk| disk.read_ahead_bytes);
    let ahead = ahead.map_or(READAHEAD_BYTES, |bytes| bytes as f64).max(BLOCK_BYTES);
    // What was measured page by page has its waits in it.
    let waited = match per_page {
        Some(_) => scaled(first, 1.0 / blocks),
        None => sum(
            scaled(first, 1.0 / blocks),
            scaled(product(device.next_ns, WAITED), BLOCK_BYTES / ahead.min(pass)),
        ),
    };
    // While the device transfers, copies go on: the slower of both, up to their sum.
    let copies = sum(copy.range, page);
    let work = range(
        transfer.low.max(copies.low),
        transfer.likely.max(copies.likely),
        transfer.high + copies.high,
    );
    let estimate = Law::of(
        sum(waited, work),
        format!(
            "base hardware: {from}; software: {blocks:.0} blocks share one wait for the device and those for \
             windows of {ahead:.0} bytes; a page taken and copied out"
        ),
    );
    Some(match known {
        Some(_) => estimate,
        None => unless_plain(site, below, estimate, read),
    })
}

/// At random with readahead: as without, until what is in memory has neighbours.
fn ahead_random(site: &Site, known: Option<&Known>, below: Below, read: Read) -> Option<Law> {
    let single = alone(site, known, below, Read { way: Way::Alone, ..read })?;
    Some(single.widened(
        // A whole small file in one window, or a window for one block.
        12.0,
        1.6,
        "readahead may read neighbours, which are blocks to come or bytes in vain",
    ))
}

/// Where something is between that keeps data, a block may come from memory.
fn unless_plain(site: &Site, below: Below, estimate: Law, read: Read) -> Law {
    if below.is_plain {
        return estimate;
    }
    let Some(copy) = cached(site, None, read) else {
        return estimate;
    };
    Law::of(range(
            copy.range.low.min(estimate.range.low),
            estimate.range.likely,
            2.0 * estimate.range.high,
        ), estimate.because())
    .and("what lies below is no device that answers for itself: a cache, a program or another machine may")
}

/// What is not the device's of a read that it answers, in ns.
pub fn kernel(site: &Site, known: Option<&Known>) -> Range {
    let kernel = time_of(Facts { site, known }, DEVICE_READ, "").range;
    match is_guest(site) {
        true => sum(kernel, time_of(Facts { site, known }, GUEST_READ, "").range),
        false => kernel,
    }
}

fn measured_fault(known: &Known, fault: &str, metric: &str) -> Option<f64> {
    fault_figure(known, fault, "off", metric)
}

/// What memory.fault measured, in ns.
fn fault_figure(known: &Known, fault: &str, readahead: &str, metric: &str) -> Option<f64> {
    let case = CaseId::new().with("fault", fault).with("readahead", readahead);
    known.get("memory.fault", &case, metric).filter(|ns| *ns > 0.0)
}

#[cfg(test)]
mod tests;

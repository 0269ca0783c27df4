//! Laws of the page cache's size: what of a limit files get, and what a block of 4 KiB costs that is in
//! the cache, and one that is not.

use super::{BANDWIDTH, per_second};
use crate::device::reading;
use crate::memory::fault::measured_copy;
use crate::os::{Service, measured_call, system_call};
use crate::{Facts, Law, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::block::Disk;
use record::event::Range;
use record::key::CaseId;
use record::quantity::render;
use record::unit::Unit;

/// Bytes of a block.
pub const BLOCK_BYTES: f64 = 4096.0;
const MIB: f64 = (1_u64 << 20) as f64;

/// A group's own memory beside the file's pages: the process's stacks, buffers and page tables, charges
/// taken in advance (64 pages for each CPU, memcontrol.c's MEMCG_CHARGE_BATCH) …
const OWN_BYTES: Range = range(0.0, 0.7 * MIB, 5.0 * MIB);
/// … and as shares of the limit the index of the file's pages (576 bytes for 64 pages, xarray.h), heads of
/// buffers where the file system has them (104 bytes for a page), and what is reclaimed at once.
const INDEX_SHARE: Range = range(0.0, 0.005, 0.08);
/// What files can get of MemAvailable: the estimate leaves out a part of the cache and the low watermarks
/// (mm/show_mem.c, si_mem_available), reclaim keeps the high ones free; other processes take and give.
const OF_AVAILABLE: Range = range(0.8, 0.985, 1.08);
/// A file that no drive has in a buffer of its own.
const SPAN_BYTES: f64 = 1024.0 * MIB;
/// Bytes per ns that one CPU copies out of memory to a buffer in its cache.
const COPIED: Range = range(3.0, 10.0, 40.0);
/// The same over what it copies from memory to memory.
const COPIED_OVER_MEMORY: Range = range(0.7, 1.5, 4.0);
/// A page of a row over the one page that os.syscall reads again and again: larger folios are looked up
/// once, other lines of the index are met.
const ROW_OVER_ONE: Range = range(0.7, 1.0, 1.8);
/// Buffered reads in a row over what a device gives at best.
const BUFFERED: Range = range(0.5, 0.95, 1.1);
/// The rate over what fs.read measured of a cold file in a row, which is another file.
const OVER_READ: Range = range(0.6, 1.0, 1.6);

/// Bytes of a file that stay in memory when a control group has this limit.
pub fn knee_in_group(limit_bytes: f64) -> Law {
    let taken = sum(OWN_BYTES, scaled(INDEX_SHARE, limit_bytes));
    Law::new(
        (limit_bytes - taken.high).max(0.5 * limit_bytes),
        limit_bytes - taken.likely,
        limit_bytes,
        format!(
            "base hardware: the group's limit of {}; software: less {} to {} for the process, the kernel's \
             index of the pages and charges taken in advance",
            render(limit_bytes, Unit::B),
            render(taken.low.max(0.0), Unit::B),
            render(taken.high, Unit::B)
        ),
    )
}

/// Bytes of a file that stay in memory when nothing but the memory, or the limit of the groups that plumb
/// itself is in, limits them.
pub fn knee_in_memory(site: &Site, limit_bytes: f64) -> Law {
    let host = &site.host;
    let by_group = host
        .limits
        .memory_left_bytes
        .is_some_and(|left| host.memory.available_bytes.is_none_or(|all| left < all));
    if by_group {
        return knee_in_group(limit_bytes).and(
            "that is what is left of the limit of plumb's own group, in which the session is as well",
        );
    }
    let of = scaled(OF_AVAILABLE, limit_bytes);
    let estimate = Law::of(
        of,
        format!(
            "base hardware: memory, of which {} are available (MemAvailable); software: less the \
             watermarks that reclaim keeps free",
            render(limit_bytes, Unit::B)
        ),
    );
    let estimate = match host.memory.dirty_ratio_percent {
        Some(percent) => estimate.and(format!(
            "written pages wait for the device above {percent} % (vm.dirty_ratio), and are in memory \
             like others once they are synced"
        )),
        None => estimate,
    };
    match (host.memory.swap_total_bytes, host.memory.total_bytes) {
        (Some(swap), Some(total)) if swap > 0 && total > 0 => estimate.widened(
            1.0,
            1.0 + 0.3 * (swap as f64 / total as f64).min(1.0),
            "other processes' memory may be swapped out for files",
        ),
        _ => estimate,
    }
}

/// A block in a row that is in the cache, in ns.
pub fn hit(site: &Site, known: Option<&Known>) -> Law {
    let (one, because) = match known.and_then(|known| measured_call(known, "pread_cached")) {
        Some(ns) => (
            scaled(ROW_OVER_ONE, ns),
            format!("software: pread of a cached page took {ns:.0} ns (measured by os.syscall)"),
        ),
        None => {
            let law = system_call(Facts { site, known }, Service::READ_PAGE);
            (product(law.range, ROW_OVER_ONE), law.because())
        }
    };
    let (rate, from) = match known.and_then(measured_copy) {
        Some(rate) => (
            scaled(COPIED_OVER_MEMORY, rate),
            format!("{rate:.1} GB/s are copied by one thread (measured by memory.bandwidth)"),
        ),
        None => (
            COPIED,
            format!("one CPU copies {:.0} to {:.0} GB/s from memory", COPIED.low, COPIED.high),
        ),
    };
    Law::of(sum(one, inverse(BLOCK_BYTES, rate)), format!("{because}; base hardware: {from}"))
}

/// A block in a row that the device gives, in ns.
pub fn miss(site: &Site, known: Option<&Known>, disk: Option<&Disk>) -> Law {
    let (rate, from) = rate(site, known, disk);
    let cached = hit(site, known);
    Law::of(
        sum(cached.range, inverse(BLOCK_BYTES, rate)),
        format!("base hardware: {from}; {}", cached.because()),
    )
}

/// Bytes per ns that buffered reads in a row get from the device, and from what that is.
pub fn rate(site: &Site, known: Option<&Known>, disk: Option<&Disk>) -> (Range, String) {
    if let Some(rate) = known.and_then(measured_read) {
        let from = format!("{:.2} GB/s of a cold file in a row (measured by fs.read)", rate);
        return (scaled(OVER_READ, rate), from);
    }
    let reading = reading(site, disk, SPAN_BYTES);
    let from = format!(
        "{}: {:.2} to {:.2} GB/s in a row",
        reading.because, reading.rate.low, reading.rate.high
    );
    (product(reading.rate, BUFFERED), from)
}

/// What fs.read measured of its largest cold file in a row, with readahead, in bytes per ns.
pub fn measured_read(known: &Known) -> Option<f64> {
    let is_it = |case: &CaseId| {
        case.text("pattern") == Some("sequential") && case.text("mode") == Some("cold")
    };
    per_second(known, "fs.read", BANDWIDTH)
        .filter(|(case, rate)| is_it(case) && *rate > 0.0)
        .max_by_key(|(case, _)| case.int("size").unwrap_or(0))
        .map(|(_, rate)| rate / 1e9)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, hit, knee_in_group, knee_in_memory, measured_read, miss, rate};
    use bench::experiment::Known;
    use bench::experiment::fixtures::bare_site;
    use record::key::{CaseId, Key};

    fn known(size: u64, mode: &str, rate: f64, known: &mut Known) {
        let case =
            CaseId::new().with("pattern", "sequential").with("mode", mode).with("size", size);
        known.insert(Key::new("fs.read", &case, "bandwidth"), rate);
    }

    #[test]
    fn a_limit_is_never_exceeded_and_a_small_one_loses_more() {
        let of = |mib: u64| {
            let limit = (mib << 20) as f64;
            let range = knee_in_group(limit).range;
            assert!(range.low <= range.likely && range.likely < range.high && range.high == limit);
            range.likely / limit
        };
        assert!(of(16) < of(64) && of(64) < of(1024) && of(1024) > 0.98);
    }

    #[test]
    fn a_missed_block_costs_more_than_a_cached_one_everywhere() {
        for guest in [None, Some(false), Some(true)] {
            let mut site = bare_site();
            site.host.kernel.virtualisation.is_guest = guest;
            let (hit, miss) = (hit(&site, None).range, miss(&site, None, None).range);
            assert!(hit.low > 0.0 && hit.low < hit.likely && hit.likely < hit.high);
            assert!(miss.likely > hit.likely && miss.high > hit.high);
            let memory = knee_in_memory(&site, 1e9).range;
            assert!(memory.low < memory.likely && memory.likely < memory.high);
        }
    }

    #[test]
    fn the_largest_cold_file_of_the_run_is_taken() {
        let mut all = Known::default();
        assert_eq!(measured_read(&all), None);
        known(1 << 20, "cold", 0.1e9, &mut all);
        known(1 << 28, "cold", 0.5e9, &mut all);
        known(1 << 29, "direct", 0.9e9, &mut all);
        assert_eq!(measured_read(&all), Some(0.5));
        let site = bare_site();
        let (range, because) = rate(&site, Some(&all), None);
        assert!(range.low < 0.5 && range.high > 0.5 && because.contains("fs.read"));
        // 4 KiB at half a byte per ns.
        let derived = miss(&site, Some(&all), None).range;
        assert!(derived.likely > BLOCK_BYTES / 0.5);
    }
}

//! Laws of the page cache's size: what of a limit files get, and what a block of 4 KiB costs that
//! is in the cache, and one that is not.

use super::{BLOCK_BYTES, disk, measured_stream};
use crate::device::reading;
use crate::memory::measured::measured_copy;
use crate::os::{measured_call, system_call};
use crate::{Facts, Law, inverse, range, scaled, sum};
use bench::experiment::Site;
use record::event::Range;
use record::quantity::render;
use record::unit::Unit;

const MIB: f64 = (1_u64 << 20) as f64;

/// A group's own memory beside the file's pages: the process's stacks, buffers and page tables,
/// charges taken in advance (64 pages for each CPU, memcontrol.c's MEMCG_CHARGE_BATCH) …
const OWN_BYTES: Range = range(0.0, 0.7 * MIB, 5.0 * MIB);
/// … and as shares of the limit the index of the file's pages (576 bytes for 64 pages, xarray.h),
/// heads of buffers where the file system has them (104 bytes for a page), and what is reclaimed at
/// once.
const INDEX_SHARE: Range = range(0.0, 0.005, 0.08);
/// What files can get of MemAvailable: the estimate leaves out a part of the cache and the low
/// watermarks (mm/show_mem.c, si_mem_available), reclaim keeps the high ones free; other processes
/// take and give.
const OF_AVAILABLE: Range = range(0.8, 0.985, 1.08);
/// A file that no drive has in a buffer of its own.
const SPAN_BYTES: f64 = 1024.0 * MIB;
/// Bytes per ns that one CPU copies out of memory to a buffer in its cache.
const COPIED: Range = range(3.0, 10.0, 40.0);
/// The same over what it copies from memory to memory.
const COPIED_OVER_MEMORY: Range = range(0.7, 1.5, 4.0);
/// A page of a row over the one page that os.syscall reads again and again: larger folios are
/// looked up once, other lines of the index are met.
const ROW_OVER_ONE: Range = range(0.7, 1.0, 1.8);
/// Buffered reads in a row over what a device gives at best.
const BUFFERED: Range = range(0.5, 0.95, 1.1);
/// The rate over what fs.read measured of a cold file in a row, which is another file.
const OVER_READ: Range = range(0.6, 1.0, 1.6);

/// Bytes of a file that stay in memory when a control group has this limit.
pub fn knee_in_group(limit_bytes: f64) -> Law {
    let taken = sum(OWN_BYTES, scaled(INDEX_SHARE, limit_bytes));
    let low = (limit_bytes - taken.high).max(0.5 * limit_bytes);
    let limit = render(limit_bytes, Unit::B);
    let why = format!("the group's limit of {limit}, less the process, the index and charges");
    Law::new(low, limit_bytes - taken.likely, limit_bytes, why)
}

/// Bytes of a file that stay in memory when nothing but the memory, or the limit of the groups that
/// plumb itself is in, limits them.
pub fn knee_in_memory(site: &Site, limit_bytes: f64) -> Law {
    let host = &site.host;
    let left = host.limits.memory_left_bytes;
    if left.is_some_and(|left| host.memory.available_bytes.is_none_or(|all| left < all)) {
        return knee_in_group(limit_bytes)
            .and("the limit of plumb's own control group, less what is in use");
    }
    let available = render(limit_bytes, Unit::B);
    let mut law = Law::from_range(
        scaled(OF_AVAILABLE, limit_bytes),
        format!("available memory ({available}, MemAvailable), less the watermarks"),
    );
    if let Some(percent) = host.memory.dirty_ratio_percent {
        law = law.and(format!("writers wait above {percent} % dirty pages (vm.dirty_ratio)"));
    }
    match (host.memory.swap_total_bytes, host.memory.total_bytes) {
        (Some(swap), Some(total)) if swap > 0 && total > 0 => {
            let above = 1.0 + 0.3 * (swap as f64 / total as f64).min(1.0);
            law.widened(1.0, above, "the kernel may swap out other processes to cache files")
        }
        _ => law,
    }
}

/// A block in a row that is in the cache, in ns.
pub fn hit(facts: Facts) -> Law {
    let known = facts.known;
    let one = match known.and_then(|known| measured_call(known, "pread_cached")) {
        Some(ns) => {
            let why = format!("a cached page took {ns:.0} ns (measured by os.syscall)");
            Law::from_range(scaled(ROW_OVER_ONE, ns), why)
        }
        None => system_call(facts, "pread_cached").by(ROW_OVER_ONE),
    };
    let (rate, from) = match known.and_then(measured_copy) {
        Some(rate) => {
            let from = format!("one thread copies {rate:.1} GB/s (measured by memory.bandwidth)");
            (scaled(COPIED_OVER_MEMORY, rate), from)
        }
        None => (COPIED, "one CPU copies from memory".to_owned()),
    };
    one + Law::hardware(inverse(BLOCK_BYTES, rate), from)
}

/// A block in a row that the device gives, in ns.
pub fn miss(facts: Facts) -> Law {
    hit(facts) + rate(facts).inverse(BLOCK_BYTES)
}

/// Bytes per ns that buffered reads in a row get from the device.
pub fn rate(facts: Facts) -> Law {
    match measured_stream(facts) {
        Some(rate) => {
            let told = format!("a cold file sequentially at {rate:.2} GB/s (measured by fs.read)");
            Law::hardware(scaled(OVER_READ, rate), told)
        }
        None => reading(facts.site, disk(facts.site), SPAN_BYTES).rate.by(BUFFERED),
    }
}

/// Whether earlier figures say more of a block's time than the prior does.
pub fn is_known(facts: Facts) -> bool {
    let cached = |known| measured_copy(known).or(measured_call(known, "pread_cached"));
    measured_stream(facts).or(facts.known.and_then(cached)).is_some()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, hit, knee_in_group, knee_in_memory, measured_stream, miss, rate};
    use crate::Facts;
    use bench::experiment::fixtures::{bare_site, known};

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
            let facts = Facts::prior(&site);
            let (hit, miss) = (hit(facts).range, miss(facts).range);
            assert!(hit.low > 0.0 && hit.low < hit.likely && hit.likely < hit.high);
            assert!(miss.likely > hit.likely && miss.high > hit.high);
            let memory = knee_in_memory(&site, 1e9).range;
            assert!(memory.low < memory.likely && memory.likely < memory.high);
        }
    }

    #[test]
    fn the_largest_cold_file_of_the_run_is_taken() {
        let site = bare_site();
        let known = known(&[
            ("fs.read", "pattern=sequential,mode=cold,size=1048576", "bandwidth", 0.1e9),
            ("fs.read", "pattern=sequential,mode=cold,size=268435456", "bandwidth", 0.5e9),
            ("fs.read", "pattern=sequential,mode=direct,size=536870912", "bandwidth", 0.9e9),
        ]);
        let facts = Facts { site: &site, known: Some(&known) };
        assert_eq!(measured_stream(facts), Some(0.5));
        let rate = rate(facts).range;
        assert!(rate.low < 0.5 && rate.high > 0.5);
        // 4 KiB at half a byte per ns.
        assert!(miss(facts).range.likely > BLOCK_BYTES / 0.5);
    }
}

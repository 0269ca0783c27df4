//! Laws of page faults: an exception's way in and out, the kernel's work, the bytes that are cleared
//! or copied; and for a page that is on a device, the device's read.
//!
//! The kernel's cycles are starting values for Linux 5.x and 6.x, adjusted on one virtual machine and
//! else written from memory of usual figures (lmbench's `lat_pagefault` prints 0.1 to 0.3 µs for a
//! page in the cache, will-it-scale's `page_fault1` about 0.5 to 1 µs for an anonymous one), not
//! measured kernel by kernel.
//! Faults that a device answers stand in `fault/device.rs`.

mod device;

pub use device::{Major, major, read_bytes, window, window_bytes_per_fault};

use crate::cpu::{is_guest, time_of};
use crate::os::signal::{EXCEPTION, Operation, signal};
use crate::os::{self, measured_call};
use crate::{Facts, Law, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use record::event::{Condition, Range};
use record::key::CaseId;

/// A page's area found, a page taken, charged, entered in the table and the lists; without the clearing.
const ANONYMOUS: Range = range(450.0, 1200.0, 3200.0);
/// The zero page entered.
const ZERO: Range = range(220.0, 600.0, 1800.0);
/// A page of the cache looked up, its count raised, entered.
const FILE: Range = range(280.0, 850.0, 2600.0);
/// Each further page that fault-around enters.
const AROUND: Range = range(10.0, 35.0, 110.0);
/// As anonymous, and an entry in the index of the shared object.
const SHARED: Range = range(800.0, 2100.0, 6000.0);
/// As anonymous, and the old page given up.
const COPY: Range = range(500.0, 1500.0, 4200.0);
/// A large page found, perhaps made, a table kept for later.
const HUGE: Range = range(2000.0, 8000.0, 60_000.0);
/// An area split and joined by mprotect, beyond its way in and out.
const PROTECT: Range = range(900.0, 2200.0, 6000.0);
/// Base pages that fault-around maps: 64 KiB of 4 KiB pages (`fault_around_bytes`).
const AROUND_BYTES: f64 = 65_536.0;
/// Bytes per ns that the kernel clears of a page that was in a cache a moment ago, and of memory.
const CLEAR_WARM: Range = range(7.0, 25.0, 120.0);
const CLEAR_MEMORY: Range = range(2.5, 9.0, 40.0);
/// The same of a copy.
const COPIED: Range = range(3.0, 13.0, 60.0);
/// The kernel's rate over one thread's measured one. A page that was freed a moment ago is in some cache,
/// of many only in the last; against what a thread writes to its second one that is less, and more where
/// string stores need not read a line first …
const CLEARED_OVER_L2: Range = range(0.2, 0.7, 2.0);
/// … for a huge page: the same against main memory, which part of it may still be spared …
const CLEARED_OVER_MEMORY: Range = range(0.6, 1.4, 4.0);
/// … and one page by itself is copied before any prefetcher has found its pace, or from a cache.
const COPIED_OVER_MEMORY: Range = range(0.25, 0.8, 4.0);

/// A fault that needs no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minor {
    /// First write to a base page of private memory.
    Anonymous,
    /// First read of one: the zero page.
    Zero,
    /// First write to a huge page.
    Huge,
    /// A page of a file that is in the page cache, by itself.
    File,
    /// The same, with the pages around it.
    FileAround,
    /// First write to a page of shared memory.
    Shared,
    /// First write to a page that a child shares.
    Copy,
    /// A write to a protected page, whose handler lifts the protection.
    Protect,
}

/// One fault, in ns.
pub fn minor(site: &Site, known: Option<&Known>, fault: Minor) -> Law {
    let page = base_bytes(site);
    let around_pages = (AROUND_BYTES / page).max(1.0);
    let (cycles, what, bytes_moved) = match fault {
        Minor::Anonymous => {
            (ANONYMOUS, "a page taken and entered", Some(moved(page, clear_warm_rate(known))))
        }
        Minor::Zero => (ZERO, "the zero page entered", None),
        Minor::Huge => (
            HUGE,
            "a huge page found and entered",
            Some(moved(huge_bytes(site), clear_rate(known))),
        ),
        Minor::File => (FILE, "a page looked up in the cache and entered", None),
        Minor::FileAround => (
            sum(FILE, scaled(AROUND, around_pages - 1.0)),
            "a page looked up in the cache and entered with those around it",
            None,
        ),
        Minor::Shared => (
            SHARED,
            "a page taken and entered in the object's index and the table",
            Some(moved(page, clear_warm_rate(known))),
        ),
        Minor::Copy => {
            (COPY, "a page taken, the shared one given up", Some(moved(page, copy_rate(known))))
        }
        Minor::Protect => return protect(site, known),
    };
    let way = way(site, known);
    let work = kernel_ns(site, known, cycles);
    let mut estimate = Law::of(
        sum(way.range, work),
        format!(
            "{}; software: {what}, {:.0} to {:.0} cycles",
            way.because(),
            cycles.low,
            cycles.high
        ),
    );
    if let Some((ns, bytes, from)) = bytes_moved {
        estimate.range = sum(estimate.range, ns);
        estimate = estimate.and(format!(
            "base hardware: {bytes:.0} bytes {} in {:.0} to {:.0} ns ({from})",
            if fault == Minor::Copy { "copied" } else { "cleared" },
            ns.low,
            ns.high
        ));
    }
    if is_guest(site) {
        estimate = estimate
            .widened(
                1.0,
                1.5,
                "a guest's tables are nested, and its host may have to find the memory too",
            )
            .counting(Condition::NestedPaging);
    }
    estimate
}

/// Pages that one fault on a cached file maps: (base pages of 64 KiB).
pub fn pages_around(site: &Site) -> Law {
    let likely = (AROUND_BYTES / base_bytes(site)).max(1.0);
    Law::new(
        1.0,
        likely,
        4.0 * likely,
        "software: Linux maps what is cached of the 64 KiB around a fault (fault_around_bytes), or all \
         of a large folio",
    )
}

/// Clearing a byte of a huge page, in ns.
pub fn zeroing(site: &Site, known: Option<&Known>) -> Law {
    let (rate, from) = clear_rate(known);
    let estimate =
        Law::of(inverse(1.0, rate), format!("base hardware: memory is cleared at {from}"));
    match is_guest(site) {
        true => estimate.widened(1.0, 1.4, "shared with other guests"),
        false => estimate,
    }
}

/// A fault less what it clears, in ns.
pub fn without_zeroing(site: &Site, known: Option<&Known>) -> Law {
    let way = way(site, known);
    Law::of(
        sum(way.range, kernel_ns(site, known, ANONYMOUS)),
        format!("{}; software: a page taken and entered", way.because()),
    )
    .widened(1.3, 1.5, "a small difference of two figures")
}

/// Whether earlier figures narrow a law of minor faults.
pub fn is_known(known: &Known, fault: Minor) -> bool {
    let moved = match fault {
        Minor::Anonymous | Minor::Shared => measured_inner_write(known).is_some(),
        Minor::Huge => measured_write(known).is_some(),
        Minor::Copy => measured_copy(known).is_some(),
        _ => false,
    };
    measured_call(known, "getpid").is_some()
        || moved
        || fault == Minor::Protect && measured_fault(known).is_some()
}

/// The way in and out of an exception.
fn way(site: &Site, known: Option<&Known>) -> Law {
    let call = os::call(Facts { site, known }, 0.05);
    Law::of(
        product(call.range, EXCEPTION),
        format!("an exception's way in and out; {}", call.because()),
    )
}

/// The store is refused, a handler runs, calls mprotect and returns.
fn protect(site: &Site, known: Option<&Known>) -> Law {
    let fault = match known.and_then(measured_fault) {
        Some(ns) => Law::of(
            range(0.85 * ns, ns, 1.3 * ns),
            format!("a refused store and its handler took {ns:.0} ns (measured by os.signal)"),
        ),
        None => signal(Facts { site, known }, Operation::Fault),
    };
    let call = os::call(Facts { site, known }, 0.05).range;
    let work = sum(call, kernel_ns(site, known, PROTECT));
    Law::of(
        sum(fault.range, work),
        format!(
            "{}; software: mprotect in the handler, its way in and out and {:.0} to {:.0} cycles",
            fault.because(),
            PROTECT.low,
            PROTECT.high
        ),
    )
}

fn measured_fault(known: &Known) -> Option<f64> {
    let case = CaseId::new().with("operation", "fault");
    known.get("os.signal", &case, "latency").filter(|ns| *ns > 0.0)
}

fn kernel_ns(site: &Site, known: Option<&Known>, cycles: Range) -> Range {
    time_of(Facts { site, known }, cycles, "").range
}

/// Bytes moved at a rate (bytes per ns, and where that is from): the time, the bytes, and from what.
fn moved(bytes: f64, (rate, from): (Range, String)) -> (Range, f64, String) {
    let ns = product(range(bytes, bytes, bytes), inverse(1.0, rate));
    (ns, bytes, from)
}

/// Bytes per ns at which one CPU clears a page that was in a cache a moment ago: by what it wrote to
/// its second cache, else to what is nearest to that, where it is measured.
fn clear_warm_rate(known: Option<&Known>) -> (Range, String) {
    match known.and_then(measured_inner_write) {
        Some((level, rate)) => (
            scaled(CLEARED_OVER_L2, rate),
            format!(
                "{rate:.1} GB/s (written by one thread at {level}, measured by memory.bandwidth)"
            ),
        ),
        None => as_usual(CLEAR_WARM),
    }
}

/// The same for memory that is in no cache: by what it wrote to main memory.
fn clear_rate(known: Option<&Known>) -> (Range, String) {
    match known.and_then(measured_write) {
        Some(rate) => (
            scaled(CLEARED_OVER_MEMORY, rate),
            format!("{rate:.1} GB/s (written by one thread, measured by memory.bandwidth)"),
        ),
        None => as_usual(CLEAR_MEMORY),
    }
}

/// Bytes per ns at which one CPU copies a page, each byte counted once.
fn copy_rate(known: Option<&Known>) -> (Range, String) {
    match known.and_then(measured_copy) {
        Some(rate) => (
            scaled(COPIED_OVER_MEMORY, rate),
            format!("{rate:.1} GB/s (copied by one thread, measured by memory.bandwidth)"),
        ),
        None => as_usual(COPIED),
    }
}

fn as_usual(rate: Range) -> (Range, String) {
    let from = format!("{} to {} GB/s, as one CPU usually does", rate.low, rate.high);
    (rate, from)
}

/// Bytes per ns that one thread moved by an operation with regular stores at a level: the best of
/// what is known.
fn measured(known: &Known, op: &str, level: &str) -> Option<f64> {
    let is_it = |case: &CaseId| {
        case.text("op") == Some(op)
            && case.text("level") == Some(level)
            && case.text("stores").is_none_or(|stores| stores == "regular")
            && case.int("threads").is_none_or(|threads| threads == 1)
    };
    known
        .of("memory.bandwidth", "bandwidth")
        .filter(|(case, _)| is_it(case))
        .map(|(_, bytes_per_s)| bytes_per_s / 1e9)
        .filter(|rate| *rate > 0.0)
        .reduce(f64::max)
}

/// Writing main memory.
fn measured_write(known: &Known) -> Option<f64> {
    measured(known, "write", "DRAM")
}

/// Writing the second cache, or the nearest level that is known.
fn measured_inner_write(known: &Known) -> Option<(&'static str, f64)> {
    let mut levels = ["L2", "L3", "L1", "DRAM"].into_iter();
    levels.find_map(|level| Some((level, measured(known, "write", level)?)))
}

/// Bytes per ns that one thread copied in main memory, each counted once: of the program's bytes, which
/// count both the read and the written ones, the half.
pub fn measured_copy(known: &Known) -> Option<f64> {
    Some(measured(known, "copy", "DRAM")? / 2.0)
}

fn base_bytes(site: &Site) -> f64 {
    site.host.memory.page_bytes.unwrap_or(4096) as f64
}

fn huge_bytes(site: &Site) -> f64 {
    let told = site.host.memory.thp.page_bytes;
    told.map_or(base_bytes(site) * base_bytes(site) / 8.0, |bytes| bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::{
        Major, Minor, is_known, major, minor, read_bytes, window, without_zeroing, zeroing,
    };
    use crate::Law;
    use bench::experiment::Known;
    use bench::experiment::fixtures::{recorded, sites};
    use host::block::Disk;
    use record::key::{CaseId, Key, Value};

    const MINORS: [Minor; 8] = [
        Minor::Anonymous,
        Minor::Zero,
        Minor::Huge,
        Minor::File,
        Minor::FileAround,
        Minor::Shared,
        Minor::Copy,
        Minor::Protect,
    ];

    fn ordered(estimate: &Law) {
        let range = estimate.range;
        let sane = 0.0 < range.low && range.low <= range.likely && range.likely <= range.high;
        assert!(sane && range.high.is_finite(), "{estimate:?}");
    }

    fn disk(name: &str, rotational: Option<bool>) -> Disk {
        Disk {
            name: name.to_owned(),
            model: None,
            rotational,
            size_bytes: 1 << 40,
            scheduler: None,
            write_cache: None,
            fua: None,
            read_ahead_bytes: Some(128 << 10),
            logical_block_bytes: None,
            physical_block_bytes: None,
            queue_requests: None,
            driver: None,
            is_virtual: false,
            number: None,
            partitions: Vec::new(),
            node: None,
            pcie: None,
            interrupts: Vec::new(),
            counted: None,
        }
    }

    #[test]
    fn every_law_answers_at_every_site_for_every_device() {
        let disks = [
            None,
            Some(disk("nvme0n1", Some(false))),
            Some(disk("sda", Some(true))),
            Some(disk("sdb", Some(false))),
            Some(disk("vda", None)),
        ];
        for site in sites() {
            for fault in MINORS {
                ordered(&minor(&site, None, fault));
            }
            ordered(&zeroing(&site, None));
            ordered(&without_zeroing(&site, None));
            for disk in disks.iter().map(Option::as_ref) {
                for (random, readahead) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    ordered(&major(&site, None, disk, Major { random, readahead }));
                    ordered(&window(&site, None, disk, 16 << 20, readahead));
                    ordered(&read_bytes(&site, disk, readahead));
                }
            }
        }
    }

    #[test]
    fn dearer_faults_are_expected_to_be_dearer() {
        for site in sites() {
            let ns = |fault| minor(&site, None, fault).range.likely;
            assert!(ns(Minor::Zero) < ns(Minor::Anonymous));
            assert!(ns(Minor::File) < ns(Minor::FileAround));
            assert!(ns(Minor::Anonymous) < ns(Minor::Copy));
            assert!(20.0 * ns(Minor::Anonymous) < ns(Minor::Huge));
        }
        let site = recorded("epyc-7763-2s");
        let random = Major { random: true, readahead: false };
        let of = |disk: &Disk| major(&site, None, Some(disk), random).range;
        let (flash, spinning) = (of(&disk("nvme0n1", Some(false))), of(&disk("sda", Some(true))));
        assert!(flash.high < spinning.low, "{flash:?} {spinning:?}");
        // R0's 15 µs is no read of a disk that spins.
        assert!(spinning.low > 15_228.0);
        // A guest's disk says of itself what was typed in: the interval holds both.
        let guest = recorded("vm-granite-rapids");
        let unknown = major(&guest, None, Some(&disk("sda", Some(true))), random).range;
        assert!(unknown.low < flash.likely && spinning.likely < unknown.high);
    }

    #[test]
    fn measured_figures_move_and_narrow_the_laws() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        assert!(MINORS.iter().all(|fault| !is_known(&known, *fault)));
        let written = CaseId::new()
            .with("op", "write")
            .with("stores", "regular")
            .with("level", "DRAM")
            .with("threads", Value::from(1_u64));
        known.insert(Key::new("memory.bandwidth", &written, "bandwidth"), 2e9);
        assert!(is_known(&known, Minor::Huge) && !is_known(&known, Minor::Copy));
        assert!(is_known(&known, Minor::Anonymous) && !is_known(&known, Minor::Zero));
        let slow = minor(&site, Some(&known), Minor::Huge);
        let prior = minor(&site, None, Minor::Huge).range;
        assert!(slow.because().contains("2.0 GB/s (written"), "{}", slow.because());
        assert!(slow.range.likely > 1.5 * prior.likely);
        assert!(slow.range.high / slow.range.low < prior.high / prior.low);
        let refused = CaseId::new().with("operation", "fault");
        known.insert(Key::new("os.signal", &refused, "latency"), 9e3);
        assert!(is_known(&known, Minor::Protect));
        assert!(minor(&site, Some(&known), Minor::Protect).range.likely > 9e3);
    }
    #[test]
    fn pages_are_cleared_at_the_second_caches_rate_and_copied_at_half_the_copys() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        let put = |known: &mut Known, op: &str, level: &str, bytes_per_s: f64| {
            let case = CaseId::new()
                .with("op", op)
                .with("stores", "regular")
                .with("level", level)
                .with("threads", Value::from(1_u64));
            known.insert(Key::new("memory.bandwidth", &case, "bandwidth"), bytes_per_s);
        };
        put(&mut known, "write", "L2", 64e9);
        put(&mut known, "write", "DRAM", 8e9);
        put(&mut known, "copy", "DRAM", 16e9);
        for fault in [Minor::Anonymous, Minor::Shared] {
            let because = minor(&site, Some(&known), fault).because();
            assert!(because.contains("64.0 GB/s (written by one thread at L2"), "{because}");
        }
        let copy = minor(&site, Some(&known), Minor::Copy);
        assert!(copy.because().contains("8.0 GB/s (copied"), "{}", copy.because());
        let huge = minor(&site, Some(&known), Minor::Huge).because();
        assert!(huge.contains("8.0 GB/s (written by one thread, "), "{huge}");
        // A machine that copies a tenth as fast has dearer faults, by what 4 KiB take more.
        put(&mut known, "copy", "DRAM", 1.6e9);
        let slow = minor(&site, Some(&known), Minor::Copy).range;
        let more = 4096.0 / (0.8 * 0.8) - 4096.0 / (0.8 * 8.0);
        assert!((slow.likely - copy.range.likely - more).abs() < 1.0);
    }
}

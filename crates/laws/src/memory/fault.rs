//! Laws of page faults: an exception's way in and out, the kernel's work, the bytes that are
//! cleared or copied; and for a page that is on a device, the device's read.
//! The kernel's cycles are in `memory.rows`; faults that a device answers stand in `fault/device.rs`.

mod device;

pub use device::{Major, major, read_bytes, window, window_bytes_per_fault};

use super::Level;
use super::measured::{measured_copy, moved};
use super::transfer::Op;
use crate::cpu::is_guest;
use crate::os::signal::{EXCEPTION, Operation, signal};
use crate::os::{self, measured_call};
use crate::rows::Section;
use crate::{Facts, Law, inverse, range, scaled};
use bench::experiment::{Known, Site};
use bench::symbols;
use record::event::{Condition, Range};
use record::key::CaseId;

/// Base pages that fault-around maps: 64 KiB of 4 KiB pages (`fault_around_bytes`).
const AROUND_BYTES: f64 = 65_536.0;
/// Bytes per ns that the kernel clears of a page that was in a cache a moment ago, and of memory.
const CLEAR_WARM: Range = range(7.0, 25.0, 120.0);
const CLEAR_MEMORY: Range = range(2.5, 9.0, 40.0);
/// The same of a copy.
const COPIED: Range = range(3.0, 13.0, 60.0);
/// The kernel's rate over one thread's measured one. A page that was freed a moment ago is in some
/// cache, of many only in the last; against what a thread writes to its second one that is less,
/// and more where string stores need not read a line first …
const CLEARED_OVER_L2: Range = range(0.2, 0.7, 2.0);
/// … for a huge page: the same against main memory, which part of it may still be spared …
const CLEARED_OVER_MEMORY: Range = range(0.6, 1.4, 4.0);
/// … and one page by itself is copied before any prefetcher has found its pace, or from a cache.
const COPIED_OVER_MEMORY: Range = range(0.25, 0.8, 4.0);

symbols! {
    /// What is touched for the first time: of memory, or (page, random, window) of a file on a
    /// device.
    pub enum Touch {
        Anonymous = "anonymous", Zero = "zero", Huge = "huge", File = "file",
        FileAround = "file_around", Shared = "shared", Copy = "copy", Protect = "protect",
        Stress = "stress", Page = "page", Random = "random", Window = "window"
    }
}

impl Touch {
    /// Whether a device answers it.
    pub fn is_major(self) -> bool {
        matches!(self, Touch::Page | Touch::Random | Touch::Window)
    }
}

/// One fault that needs no device, in ns.
pub fn minor(facts: Facts, fault: Touch) -> Law {
    let nested = is_guest(facts.site) && fault != Touch::Protect;
    let why = "a guest's page tables are nested, and the host may also have to allocate the memory";
    sum(facts, fault, fault.text())
        .when(nested, |law| law.widened(1.0, 1.5, why).counting(Condition::NestedPaging))
}

/// A sum of `memory.rows`, in ns.
fn sum(facts: Facts, fault: Touch, sum: &str) -> Law {
    let count = |_: &str| (AROUND_BYTES / base_bytes(facts.site)).max(1.0) - 1.0;
    let time = |name: &str| match name {
        "way" => os::call(facts, 0.05).by(EXCEPTION).and("exception entry and exit"),
        "moved" => moved_page(facts, fault),
        "signal" => signalled(facts),
        _ => os::call(facts, 0.05),
    };
    Section { facts, name: "memory.fault", count: &count, time: &time }.law(&[sum])
}

/// The bytes of a page cleared or copied, in ns.
fn moved_page(facts: Facts, fault: Touch) -> Law {
    let (site, known) = (facts.site, facts.known);
    let is_huge = fault == Touch::Huge;
    let bytes = if is_huge { huge_bytes(site) } else { base_bytes(site) };
    let (rate, from) = match fault {
        Touch::Copy => kernel_rate(known.and_then(measured_copy), COPIED_OVER_MEMORY, COPIED),
        Touch::Huge => clear_rate(known),
        // By what one CPU wrote to its second cache, else to what is nearest to that.
        _ => kernel_rate(known.and_then(measured_inner_write), CLEARED_OVER_L2, CLEAR_WARM),
    };
    Law::hardware(inverse(bytes, rate), format!("{bytes:.0} bytes at {from}"))
}

/// Pages that one fault on a cached file maps: (base pages of 64 KiB).
pub fn pages_around(site: &Site) -> Law {
    let likely = (AROUND_BYTES / base_bytes(site)).max(1.0);
    let why = "the cached part of the 64 KiB around a fault (fault_around_bytes), or a large folio";
    Law::software(range(1.0, likely, 4.0 * likely), why)
}

/// Clearing a byte of a huge page, in ns.
pub fn zeroing(facts: Facts) -> Law {
    let (rate, from) = clear_rate(facts.known);
    Law::hardware(inverse(1.0, rate), format!("the kernel clears memory at {from}"))
        .when(is_guest(facts.site), |law| law.widened(1.0, 1.4, "shared with other guests"))
}

/// A fault less what it clears, in ns.
pub fn without_zeroing(facts: Facts) -> Law {
    let law = sum(facts, Touch::Anonymous, "bare");
    law.widened(1.3, 1.5, "a small difference between two figures")
}

/// Whether earlier figures narrow a law of minor faults.
pub fn is_known(known: &Known, fault: Touch) -> bool {
    let moved = match fault {
        Touch::Anonymous | Touch::Shared => measured_inner_write(known).is_some(),
        Touch::Huge => moved(known, Op::Write, Level::Memory).is_some(),
        Touch::Copy => measured_copy(known).is_some(),
        _ => false,
    };
    measured_call(known, "getpid").is_some()
        || moved
        || fault == Touch::Protect && measured_fault(known).is_some()
}

/// What memory.fault measured of one kind, in ns.
pub fn measured(known: &Known, fault: Touch) -> Option<f64> {
    let case = CaseId::new().with("fault", fault.text());
    known.get("memory.fault", &case, "latency").filter(|ns| *ns > 0.0)
}

/// A refused store and its handler, in ns.
fn signalled(facts: Facts) -> Law {
    match facts.known.and_then(measured_fault) {
        Some(ns) => {
            let because = "a faulting store and its handler (measured by os.signal)";
            Law::new(0.85 * ns, ns, 1.3 * ns, because)
        }
        None => signal(facts, Operation::Fault),
    }
}

fn measured_fault(known: &Known) -> Option<f64> {
    let case = CaseId::new().with("operation", "fault");
    known.get("os.signal", &case, "latency").filter(|ns| *ns > 0.0)
}

/// Bytes per ns at which one CPU clears memory that is in no cache: by what it wrote to main memory.
fn clear_rate(known: Option<&Known>) -> (Range, String) {
    let written = known.and_then(|known| moved(known, Op::Write, Level::Memory));
    kernel_rate(written, CLEARED_OVER_MEMORY, CLEAR_MEMORY)
}

/// The kernel's rate by what one thread measured, else as it usually is; and from what.
fn kernel_rate(measured: Option<f64>, over: Range, usual: Range) -> (Range, String) {
    let from = |rate| format!("{rate:.1} GB/s for one thread (measured by memory.bandwidth)");
    match measured {
        Some(rate) => (scaled(over, rate), from(rate)),
        None => (usual, "the usual rate of one CPU".to_owned()),
    }
}

/// Writing the second cache, or the nearest level that is known.
fn measured_inner_write(known: &Known) -> Option<f64> {
    let mut levels = [Level::L2, Level::L3, Level::L1, Level::Memory].into_iter();
    levels.find_map(|level| moved(known, Op::Write, level))
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
    use super::{CLEARED_OVER_L2, CLEARED_OVER_MEMORY, COPIED_OVER_MEMORY};
    use super::{
        Major, Touch, is_known, major, minor, read_bytes, window, without_zeroing, zeroing,
    };
    use crate::{Facts, Law};
    use bench::experiment::Known;
    use bench::experiment::fixtures::{case, recorded, sites};
    use host::block::Disk;
    use record::key::Key;

    fn minors() -> impl Iterator<Item = Touch> {
        let is_minor = |fault: &Touch| !fault.is_major() && *fault != Touch::Stress;
        Touch::ALL.iter().copied().filter(is_minor)
    }

    fn ordered(estimate: &Law) {
        let range = estimate.range;
        let sane = 0.0 < range.low && range.low <= range.likely && range.likely <= range.high;
        assert!(sane && range.high.is_finite(), "{estimate:?}");
    }

    fn disk(name: &str, rotational: Option<bool>) -> Disk {
        let disk = recorded("vm-granite-rapids").host.block.disks.swap_remove(0);
        Disk {
            name: name.to_owned(),
            rotational,
            read_ahead_bytes: Some(128 << 10),
            model: None,
            driver: None,
            is_virtual: false,
            pcie: None,
            counted: None,
            ..disk
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
            let facts = Facts::prior(&site);
            for fault in minors() {
                ordered(&minor(facts, fault));
            }
            ordered(&zeroing(facts));
            ordered(&without_zeroing(facts));
            for disk in disks.iter().map(Option::as_ref) {
                for (random, readahead) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    ordered(&major(facts, disk, Major { random, readahead }));
                    ordered(&window(facts, disk, 16 << 20, readahead));
                    ordered(&read_bytes(&site, disk, readahead));
                }
            }
        }
    }

    #[test]
    fn a_fault_of_flash_is_quicker_than_one_of_a_disk_that_spins() {
        let site = recorded("epyc-7763-2s");
        let random = Major { random: true, readahead: false };
        let of = |disk: &Disk| major(Facts::prior(&site), Some(disk), random).range;
        let (flash, spinning) = (of(&disk("nvme0n1", Some(false))), of(&disk("sda", Some(true))));
        assert!(flash.high < spinning.low, "{flash:?} {spinning:?}");
        // R0's 15 µs is no read of a disk that spins.
        assert!(spinning.low > 15_228.0);
        // A guest's disk says of itself what was typed in: the interval holds both.
        let guest = recorded("vm-granite-rapids");
        let unknown = major(Facts::prior(&guest), Some(&disk("sda", Some(true))), random).range;
        assert!(unknown.low < flash.likely && spinning.likely < unknown.high);
    }

    /// A rate of one thread, as memory.bandwidth would have found it.
    fn put(known: &mut Known, op: &str, level: &str, bytes_per_s: f64) {
        let of = case(&format!("op={op},stores=regular,level={level},threads=1"));
        known.insert(Key::new("memory.bandwidth", &of, "bandwidth"), bytes_per_s);
    }

    #[test]
    fn measured_figures_move_and_narrow_the_laws() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        assert!(minors().all(|fault| !is_known(&known, fault)));
        put(&mut known, "write", "DRAM", 2e9);
        assert!(is_known(&known, Touch::Huge) && !is_known(&known, Touch::Copy));
        assert!(is_known(&known, Touch::Anonymous) && !is_known(&known, Touch::Zero));
        let slow = minor(Facts { site: &site, known: Some(&known) }, Touch::Huge).range;
        let prior = minor(Facts::prior(&site), Touch::Huge).range;
        assert!(slow.likely > 1.5 * prior.likely);
        assert!(slow.high / slow.low < prior.high / prior.low);
        known.insert(Key::new("os.signal", &case("operation=fault"), "latency"), 9e3);
        assert!(is_known(&known, Touch::Protect));
        let facts = Facts { site: &site, known: Some(&known) };
        assert!(minor(facts, Touch::Protect).range.likely > 9e3);
    }

    #[test]
    fn pages_are_cleared_at_the_second_caches_rate_and_copied_at_half_the_copys() {
        let site = recorded("epyc-7763-2s");
        let mut known = Known::default();
        for (op, level, rate) in
            [("write", "L2", 64e9), ("write", "DRAM", 8e9), ("copy", "DRAM", 16e9)]
        {
            put(&mut known, op, level, rate);
        }
        // A machine that moves a tenth as fast has dearer faults, by what its bytes take more.
        for (fault, op, level, bytes, rate) in [
            (Touch::Anonymous, "write", "L2", 4096.0, 64.0 * CLEARED_OVER_L2.likely),
            (Touch::Shared, "write", "L2", 4096.0, 64.0 * CLEARED_OVER_L2.likely),
            (Touch::Huge, "write", "DRAM", 2_097_152.0, 8.0 * CLEARED_OVER_MEMORY.likely),
            (Touch::Copy, "copy", "DRAM", 4096.0, 8.0 * COPIED_OVER_MEMORY.likely),
        ] {
            let likely =
                |known| minor(Facts { site: &site, known: Some(known) }, fault).range.likely;
            let mut slow = known.clone();
            let measured = known
                .figures("memory.bandwidth", "bandwidth")
                .find(|(case, _)| case.text("op") == Some(op) && case.text("level") == Some(level));
            put(&mut slow, op, level, measured.expect("it is put").1 / 10.0);
            let more = likely(&slow) - likely(&known);
            assert!((more - 9.0 * bytes / rate).abs() < 1.0, "{fault:?}: {more}");
        }
    }
}

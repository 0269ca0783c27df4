//! Laws of a fault that a device answers.

use super::{AROUND_BYTES, Touch, base_bytes, minor};
use crate::device::{SPINNING, device};
use crate::{Facts, Law, inverse, product, range, scaled, sum};
use bench::experiment::Site;
use host::block::Disk;
use record::event::Range;

const READAHEAD_BYTES: f64 = 131_072.0;

/// A fault that reads a page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Major {
    /// Anywhere in a large file, or a little behind the last.
    pub random: bool,
    pub readahead: bool,
}

pub fn read_bytes(site: &Site, disk: Option<&Disk>, readahead: bool) -> Law {
    let page = base_bytes(site);
    if !readahead {
        let because = "one page, one large folio or one file-system block";
        return Law::software(range(page, page, 16.0 * page), because);
    }
    let told = disk.and_then(|disk| disk.read_ahead_bytes);
    let likely = told.map_or(READAHEAD_BYTES, |bytes| bytes as f64).max(page);
    let from = if told.is_some() { "the device's read_ahead_kb" } else { "the default" };
    let why = format!("the readahead window around the fault ({from})");
    Law::software(range(page, likely, 2.5 * likely), why)
}

/// Bytes read for a major fault of a window that is touched in order: the first alone finds no page.
/// A later one finds a page that is there or on its way, which is no major fault, and the page that
/// marks a readahead window's end starts the next (mm/filemap.c, filemap_fault).
pub fn window_bytes_per_fault(
    site: &Site,
    disk: Option<&Disk>,
    window: u64,
    readahead: bool,
) -> Law {
    let single = read_bytes(site, disk, readahead);
    if !readahead {
        return single;
    }
    let window = window as f64;
    let with = |of: Range| range(of.low, window + 2.0 * of.likely, window + 1.5 * of.high);
    let why = "pages on their way are no major faults; two windows beyond the touched bytes count";
    single.reshaped(with).and(why)
}

/// One fault, in ns.
pub fn major(facts: Facts, disk: Option<&Disk>, fault: Major) -> Law {
    let (device, why) = device(disk, facts.site);
    let latency = if fault.random { device.random_ns } else { device.next_ns };
    let bytes = read_bytes(facts.site, disk, fault.readahead).range;
    let transfer = product(bytes, inverse(1.0, device.rate));
    // The page asked for may be there before the rest.
    let transfer = range(0.2 * transfer.low, transfer.likely, transfer.high);
    let certainty = match device.sure {
        true => "the interval covers the data sheets of this class, and its caches and queues",
        false => "the device's class is uncertain: as wide as machines with such disks show",
    };
    Law::hardware(latency, why).and(certainty)
        + Law::hardware(transfer, format!("{:.0} bytes", bytes.likely))
        + super::sum(facts, Touch::Page, "device")
}

/// A window of a file touched page by page, in ns.
pub fn window(facts: Facts, disk: Option<&Disk>, bytes: u64, readahead: bool) -> Law {
    let (site, bytes) = (facts.site, bytes as f64);
    let (device, why) = device(disk, site);
    if !readahead {
        let one = major(facts, disk, Major { random: false, readahead: false });
        // The next page of a file passes under a disk's head, or is in the device's buffer.
        let one =
            if device.name == SPINNING.name { one.with_range(range(6e4, 2.5e5, 9e6)) } else { one };
        return one.times(bytes / base_bytes(site)).and("one read after another");
    }
    let transfer = product(range(bytes, bytes, bytes), inverse(1.0, device.rate));
    // Reads overlap with touches, or each window of readahead is waited for.
    let ahead = read_bytes(site, disk, true).range.likely;
    let waits = scaled(device.next_ns, bytes / ahead);
    let waited = range(0.0, 0.3 * waits.likely, 1.2 * waits.likely);
    let read =
        format!("{why}: {bytes:.0} sequential bytes, perhaps with a wait per readahead window");
    Law::hardware(sum(transfer, waited), read)
        + minor(facts, Touch::FileAround).times(bytes / AROUND_BYTES).and("pages mapped")
}

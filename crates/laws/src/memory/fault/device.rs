//! Laws of a fault that a device answers (`predict/device.rs`).

use super::{AROUND_BYTES, Minor, base_bytes, kernel_ns, minor, way};
use crate::device::{SPINNING, device};
use crate::{Law, inverse, product, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::block::Disk;
use record::event::Range;

/// Readahead of a device where it is not told.
const READAHEAD_BYTES: f64 = 131_072.0;

/// A fault that reads a page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Major {
    /// Anywhere in a large file, or a little behind the last.
    pub random: bool,
    /// With the kernel's readahead.
    pub readahead: bool,
}

/// Bytes that the device reads for a fault.
pub fn read_bytes(site: &Site, disk: Option<&Disk>, readahead: bool) -> Law {
    let page = base_bytes(site);
    if !readahead {
        return Law::new(
            page,
            page,
            16.0 * page,
            "software: without readahead one page is read, or one large folio or block of the file system",
        );
    }
    let told = disk.and_then(|disk| disk.read_ahead_bytes);
    let (ahead, from) = match told {
        Some(bytes) => (bytes as f64, "read_ahead_kb of the device"),
        None => (READAHEAD_BYTES, "as usual; the device's is not told"),
    };
    let likely = ahead.max(page);
    Law::new(
        page,
        likely,
        2.5 * likely,
        format!("software: the window of {likely:.0} bytes around the fault is read ({from})"),
    )
}

/// Bytes read for a major fault of a window that is touched in order: most pages are in memory when
/// they are touched, and the more so the quicker the device is.
pub fn window_bytes_per_fault(
    site: &Site,
    disk: Option<&Disk>,
    window: u64,
    readahead: bool,
) -> Law {
    let single = read_bytes(site, disk, readahead);
    match readahead {
        false => single,
        true => {
            let Range { low, likely, high } = single.range;
            let window = window as f64;
            Law::new(low, likely.min(window), window + 1.5 * high, single.because()).and(
                "the rest is read while earlier pages are touched, and is no major fault; what is read \
                 behind the window's end counts",
            )
        }
    }
}

/// One fault, in ns.
pub fn major(site: &Site, known: Option<&Known>, disk: Option<&Disk>, fault: Major) -> Law {
    let (device, why) = device(disk, site);
    let latency = match fault.random {
        true => device.random_ns,
        false => device.next_ns,
    };
    let bytes = read_bytes(site, disk, fault.readahead).range;
    let transfer = product(bytes, inverse(1.0, device.rate));
    // The page asked for may be there before the rest.
    let transfer = range(0.2 * transfer.low, transfer.likely, transfer.high);
    let software = kernel_ns(site, known, range(4e3, 1.5e4, 8e4));
    let way = way(site, known);
    Law::of(sum(sum(latency, transfer), sum(software, way.range)), format!(
            "base hardware: {why}: {:.0} µs to {:.0} µs for a read, {:.0} bytes at {:.2} to {:.1} GB/s; \
             software: block layer, interrupt and wake-up, 4,000 to 80,000 cycles",
            latency.low / 1e3,
            latency.high / 1e3,
            bytes.likely,
            device.rate.low,
            device.rate.high
        ))
    .and(if device.sure {
        "data sheets of the class differ by so much, and so do its caches and queues"
    } else {
        "the interval covers every class, because none is certain"
    })
}

/// A window of a file touched page by page, in ns.
pub fn window(
    site: &Site,
    known: Option<&Known>,
    disk: Option<&Disk>,
    bytes: u64,
    readahead: bool,
) -> Law {
    let bytes = bytes as f64;
    let pages = bytes / base_bytes(site);
    if !readahead {
        let fault = Major { random: false, readahead: false };
        let one = major(site, known, disk, fault);
        let (device, why) = device(disk, site);
        // The next page of a file passes under a disk's head, or is in the device's buffer.
        let in_a_row = match device.name == SPINNING.name {
            true => range(6e4, 2.5e5, 9e6),
            false => one.range,
        };
        return Law::of(
            scaled(in_a_row, pages),
            format!("{pages:.0} reads, one after another; {why}; {}", one.because()),
        );
    }
    let (device, why) = device(disk, site);
    let transfer = product(range(bytes, bytes, bytes), inverse(1.0, device.rate));
    let entered = scaled(minor(site, known, Minor::FileAround).range, bytes / AROUND_BYTES);
    // Reads overlap with touches, or each window of readahead is waited for.
    let ahead = read_bytes(site, disk, true).range.likely;
    let waits = scaled(device.next_ns, bytes / ahead);
    let waited = range(0.0, 0.3 * waits.likely, 1.2 * waits.likely);
    Law::of(
        sum(sum(transfer, waited), entered),
        format!(
            "base hardware: {why}: {bytes:.0} bytes in a row at {:.2} to {:.1} GB/s; software: {:.0} \
             windows of readahead, each perhaps waited for, and their pages entered",
            device.rate.low,
            device.rate.high,
            bytes / ahead
        ),
    )
}

//! What control groups let a process have of a disk (`io.max`, `blkio.throttle.*`).

use crate::{Law, range};
use bench::experiment::Site;
use host::block::Disk;
use record::event::Range;
use record::quantity::render_bytes;

/// Beside its limit a group gets what it saved up while nothing was asked for.
const MARGIN: f64 = 1.1;

/// The kernel lets through at once what a group may have in a slice of this
/// (`block/blk-throttle.c`).
const SLICE_S: f64 = 0.1;

/// The tightest limit of some operations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    per_second: f64,
    what: String,
}

/// The limit of operations of so many bytes on a disk; `None` without one. What joins several
/// operations in one request is not limited by requests.
pub(super) fn operation_limit(
    site: &Site,
    disk: Option<&Disk>,
    is_read: bool,
    bytes: f64,
    is_request: bool,
) -> Option<Limit> {
    let number = disk?.number.as_deref()?;
    let limits = site.host.limits.io.iter();
    let binding = limits.filter(|limit| limit.device == number);
    let each = binding.flat_map(|limit| {
        let (rate, requests) = match is_read {
            true => (limit.read_bytes, limit.reads),
            false => (limit.write_bytes, limit.writes),
        };
        let of = |per_second, most: String| {
            let what = format!("{most}/s on {number}");
            Limit { per_second, what }
        };
        let by_bytes = rate.map(|rate| of(rate as f64 / bytes, render_bytes(rate as f64)));
        let requests = requests.filter(|_| is_request);
        let by_requests = requests.map(|most| of(most as f64, format!("{most} requests")));
        by_bytes.into_iter().chain(by_requests)
    });
    each.min_by(|a, b| a.per_second.total_cmp(&b.per_second))
}

impl Limit {
    /// In operations per second.
    pub(super) fn rate(&self, free: Law) -> Law {
        let (most, of) = (self.per_second, free.range);
        if of.high <= MARGIN * most {
            return free;
        }
        self.binding(free, range(of.low.min(most / MARGIN), of.likely.min(most), MARGIN * most))
    }

    /// Time of one operation, in ns.
    pub(super) fn time(&self, free: Law) -> Law {
        let (least, of) = (1e9 / self.per_second, free.range);
        if of.low >= least / MARGIN {
            return free;
        }
        let time = range(least / MARGIN, of.likely.max(least), of.high.max(MARGIN * least));
        self.binding(free, time)
    }

    /// The median time in ns of operations with so many in flight. A slice lets many through at
    /// once, so most do not wait.
    pub(super) fn median(&self, free: Law, in_flight: f64) -> Law {
        let (each, of) = (1e9 * in_flight / self.per_second, free.range);
        if of.low >= each / MARGIN {
            return free;
        }
        let likely = match self.per_second * SLICE_S > 2.0 * in_flight {
            true => of.likely,
            false => of.likely.max(each),
        };
        self.binding(free, range(of.low, likely, of.high.max(MARGIN * each)))
    }

    fn binding(&self, free: Law, range: Range) -> Law {
        free.with_range(range).and(format!("the control group allows at most {}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::operation_limit;
    use crate::Law;
    use bench::experiment::fixtures::{bare_site, on_disk};
    use host::limits::IoLimit;

    #[test]
    fn the_tightest_limit_of_the_disk_holds() {
        let mut site = bare_site();
        let limit = |device: &str, read_bytes, reads| IoLimit {
            group: "cg/a".to_owned(),
            device: device.to_owned(),
            read_bytes,
            write_bytes: None,
            reads,
            writes: Some(7),
        };
        site.host.limits.io = vec![
            limit("8:0", Some(20_000_000), None),
            limit("8:0", Some(30_000_000), Some(1000)),
            limit("8:16", Some(1), Some(1)),
        ];
        let there = on_disk("sda", false, "write back", "rw");
        let disk = there.host.block.disks.first();
        let rate = |is_read, bytes, is_request| {
            operation_limit(&site, disk, is_read, bytes, is_request).map(|limit| limit.per_second)
        };
        assert_eq!(rate(true, 4000.0, true), Some(1000.0));
        assert_eq!(rate(true, 4000.0, false), Some(5000.0));
        assert_eq!(rate(true, 4e6, true), Some(5.0));
        assert_eq!(rate(false, 4000.0, true), Some(7.0));
        assert_eq!(rate(false, 4000.0, false), None);
        assert_eq!(operation_limit(&site, None, true, 1.0, true), None);
        let held = operation_limit(&site, disk, true, 4000.0, true).expect("a limit");
        let fast = held.rate(Law::new(500.0, 2e4, 1e6, "a disk"));
        assert_eq!((fast.range.low, fast.range.likely, fast.range.high), (500.0, 1000.0, 1100.0));
        assert_eq!(held.what, "1000 requests/s on 8:0");
        let slow = Law::new(5.0, 50.0, 900.0, "a disk");
        assert_eq!(held.rate(slow.clone()).range, slow.range);
        let time = held.time(Law::new(1e4, 1e5, 3e7, "a disk")).range;
        assert!((time.low - 1e6 / 1.1).abs() < 1.0 && time.likely == 1e6 && time.high == 3e7);
        // A hundred in a slice: of one at a time most do not wait, of a thousand nearly all do.
        let median = |in_flight| {
            let free = Law::new(1e4, 1e5, 2e5, "a disk");
            held.median(free, in_flight).range
        };
        assert!(median(1.0).low == 1e4 && median(1.0).likely == 1e5);
        assert!((median(1.0).high - 1.1e6).abs() < 1.0);
        assert!(median(1000.0).low == 1e4 && median(1000.0).likely == 1e9);
    }
}

//! What a disk has done since it is there says what it can do: the kernel's counters of all of its requests
//! (/proc/diskstats), which everybody may read, narrow a class that nobody is sure of.
//!
//! They are no figures of an experiment: who read what, how deep the queue was and what came from a cache
//! below is not known. So they bound, with margins:
//! - the mean time of a read has its waits in the queue and its length in it, which one block alone has
//!   not; but a part of those reads was in order, or came from a memory below;
//! - bytes over the time in which anything was under way are what it moved at least, at whatever depth: one
//!   stream with readahead may get a part of that.

use super::{FLASH, Reading};
use host::block::Counted;
use record::event::Range;

/// Fewer reads since the start of the machine tell of the start alone.
const READS_LEAST: u64 = 10_000;
/// One block alone, at most so many times what a read took in the mean: a third of them may have been all of
/// the time, where the others came from memory.
const MEAN_MARGIN: f64 = 3.0;
/// The least upper end, in ns: reads that a memory below answered say nothing of what flash takes.
const HIGH_LEAST_NS: f64 = FLASH.random_ns.high;
/// Bytes while busy before the rate tells, and what one stream gets of it at least.
const BYTES_LEAST: u64 = 1 << 30;
const STREAM_SHARE: f64 = 0.25;

/// Narrows a reading; returns the sentence that says by what.
pub(super) fn narrow(reading: &mut Reading, since: Counted) -> Option<String> {
    let mut told = Vec::new();
    if since.reads >= READS_LEAST && since.read_ms > 0 {
        let mean_ns = since.read_ms as f64 * 1e6 / since.reads as f64;
        let most_ns = (MEAN_MARGIN * mean_ns).max(HIGH_LEAST_NS);
        reading.random_ns = at_most(reading.random_ns, most_ns);
        reading.next_ns = at_most(reading.next_ns, most_ns);
        told.push(format!(
            "its {} reads took {:.2} ms in the mean, of {:.0} KiB and with their waits",
            since.reads,
            mean_ns / 1e6,
            since.read_bytes as f64 / since.reads as f64 / 1024.0
        ));
    }
    let bytes = since.read_bytes.saturating_add(since.written_bytes);
    if bytes >= BYTES_LEAST && since.busy_ms > 0 {
        let rate = bytes as f64 / (since.busy_ms as f64 * 1e6);
        let Range { low, likely, high } = reading.rate;
        let low = low.max(STREAM_SHARE * rate).min(high);
        reading.rate = Range { low, likely: likely.max(low), high: high.max(rate) };
        told.push(format!("it moved {rate:.2} GB/s while it was busy"));
    }
    (!told.is_empty()).then(|| format!("since its start {} (/proc/diskstats)", told.join(", and ")))
}

/// The range without what lies above.
fn at_most(of: Range, most: f64) -> Range {
    Range { low: of.low.min(most), likely: of.likely.min(most), high: of.high.min(most) }
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, UNKNOWN};
    use super::narrow;
    use host::block::Counted;

    fn unknown() -> Reading {
        Reading {
            random_ns: UNKNOWN.random_ns,
            next_ns: UNKNOWN.next_ns,
            rate: UNKNOWN.rate,
            sure: false,
            because: String::new(),
        }
    }

    /// So many reads of 32 KiB, of so many ns each, and twice as many of them while busy as come alone.
    fn since(reads: u64, mean_ns: u64) -> Counted {
        Counted {
            reads,
            read_bytes: reads << 15,
            read_ms: reads * mean_ns / 1_000_000,
            writes: 0,
            written_bytes: 0,
            write_ms: 0,
            busy_ms: reads * mean_ns / 2_000_000,
            flushes: None,
        }
    }

    #[test]
    fn many_reads_bound_one_and_few_do_not() {
        let mut reading = unknown();
        let told = narrow(&mut reading, since(1_000_000, 1_000_000)).expect("many");
        assert!(told.contains("1000000 reads took 1.00 ms"), "{told}");
        assert_eq!(reading.random_ns.high, 3e6);
        assert_eq!(reading.random_ns.likely, UNKNOWN.random_ns.likely);
        assert_eq!(reading.random_ns.low, UNKNOWN.random_ns.low);
        // 32 KiB in half a millisecond: 0.0655 GB/s, a quarter of which is below the class.
        assert_eq!(reading.rate, UNKNOWN.rate);
        let mut few = unknown();
        assert_eq!(narrow(&mut few, since(900, 1_000_000)), None);
        assert_eq!(few.random_ns, UNKNOWN.random_ns);
    }

    #[test]
    fn a_memory_below_leaves_room_for_flash_and_a_quick_disk_is_no_slow_one() {
        let mut reading = unknown();
        narrow(&mut reading, since(1_000_000, 30_000)).expect("many");
        assert!(reading.random_ns.high >= 3e5, "{:?}", reading.random_ns);
        // 2.18 GB/s while busy.
        assert!((reading.rate.low - 0.546).abs() < 0.01, "{:?}", reading.rate);
        assert!(reading.rate.likely >= reading.rate.low);
        assert_eq!(reading.rate.high, UNKNOWN.rate.high);
    }

    #[test]
    fn a_slow_disk_stays_slow() {
        let mut reading = unknown();
        narrow(&mut reading, since(1_000_000, 30_000_000)).expect("many");
        assert_eq!(reading.random_ns, UNKNOWN.random_ns);
    }
}

//! What a disk has done since it is there says what it can do: the kernel's counters of all
//! requests (/proc/diskstats), readable without privileges, narrow an uncertain class.
//!
//! They are no figures of an experiment: the readers, the queue depth and the share from a cache
//! below are unknown. So they bound, with margins:
//! - the mean time of a read has its waits in the queue and its length in it, which one block alone
//!   has not; but a part of those reads was in order, or came from a memory below;
//! - bytes over the time in which anything was under way are what it moved at least, at whatever
//!   depth: one stream with readahead may get a part of that.

use super::{FLASH, Reading};
use crate::{Law, at_most, range};
use host::block::{Counted, Disk};
use record::event::Range;

/// Fewer reads since boot describe only the boot.
const READS_LEAST: u64 = 10_000;
/// One block alone, at most so many times what a read took in the mean: a third of them may have
/// been all of the time, where the others came from memory.
const MEAN_MARGIN: f64 = 3.0;
/// The least upper end, in ns: reads that a memory below answered say nothing of what flash takes.
const HIGH_LEAST_NS: f64 = FLASH.random_ns.high;
/// The upper end of a flush is at least this, in ns: counted flushes may have had nothing to write.
const FLUSH_LEAST_NS: f64 = 1e5;
/// The mean of waits for a device over their median, which has a long tail.
pub const LONG_TAIL: f64 = 1.6;
/// Least bytes while busy for a rate, and the least share of the rate that one stream gets.
const BYTES_LEAST: u64 = 1 << 30;
const STREAM_SHARE: f64 = 0.25;

pub(super) fn narrowed(reading: Reading, since: Counted) -> Reading {
    let Reading { class, mut random, mut next, mut rate, sure } = reading;
    if since.reads >= READS_LEAST && since.read_ms > 0 {
        let mean_ns = since.read_ms as f64 * 1e6 / since.reads as f64;
        let most_ns = (MEAN_MARGIN * mean_ns).max(HIGH_LEAST_NS);
        let (reads, ms) = (since.reads, mean_ns / 1e6);
        let because =
            format!("its {reads} reads since boot took {ms:.2} ms on average (/proc/diskstats)");
        let limited = |law: Law| law.reshaped(|of| at_most(of, most_ns)).and(&because);
        [random, next] = [random, next].map(limited);
    }
    let bytes = since.read_bytes.saturating_add(since.written_bytes);
    if bytes >= BYTES_LEAST && since.busy_ms > 0 {
        let moved = bytes as f64 / (since.busy_ms as f64 * 1e6);
        let Range { low, likely, high } = rate.range;
        let low = low.max(STREAM_SHARE * moved).min(high);
        let told =
            format!("since boot it transferred {moved:.2} GB/s while busy (/proc/diskstats)");
        rate = rate.with_range(range(low, likely.max(low), high.max(moved))).and(told);
    }
    Reading { class, random, next, rate, sure }
}

/// What the kernel counted of a disk's flushes.
pub struct Flushes {
    mean_ns: f64,
    /// How many there were, their mean time, and the source.
    pub because: String,
}

impl Flushes {
    /// Those of a disk; `None` where the kernel counted too few.
    pub fn on_disk(disk: Option<&Disk>) -> Option<Flushes> {
        let (count, ms) = disk?.counted?.flushes.filter(|(count, _)| *count >= READS_LEAST)?;
        let mean_ns = ms as f64 * 1e6 / count as f64;
        let because = format!(
            "its {count} flushes since boot took {:.2} ms on average (/proc/diskstats)",
            mean_ns / 1e6
        );
        Some(Flushes { mean_ns, because })
    }

    /// A write into the cache, in ns: a flush empties the cache, so its upper limit is a write's.
    pub fn write(&self, of: Range) -> Range {
        at_most(of, (MEAN_MARGIN * self.mean_ns).max(FLUSH_LEAST_NS))
    }

    /// A flush, in ns: the mean has the waits in the queue, and the median is below the mean.
    pub fn flush(&self, of: Range) -> Range {
        let Range { low, likely, high } = self.write(of);
        range(low, likely.min(self.mean_ns / LONG_TAIL).max(low), high)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, UNKNOWN};
    use super::{Flushes, narrowed};
    use crate::{Law, range};
    use bench::experiment::fixtures::recorded;
    use host::block::Counted;
    use record::event::Range;

    /// A disk of unknown class after so many reads of 32 KiB, of so many ns each, half of the time
    /// under way beside another.
    fn after(reads: u64, mean_ns: u64) -> Reading {
        let reading = Reading {
            class: &UNKNOWN,
            random: Law::hardware(UNKNOWN.random_ns, ""),
            next: Law::hardware(UNKNOWN.next_ns, ""),
            rate: Law::hardware(UNKNOWN.rate, ""),
            sure: false,
        };
        narrowed(reading, counted(reads, mean_ns))
    }

    fn counted(reads: u64, mean_ns: u64) -> Counted {
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
        let many = after(1_000_000, 1_000_000);
        let unknown = UNKNOWN.random_ns;
        let random = many.random.range;
        assert_eq!((random.low, random.likely, random.high), (unknown.low, unknown.likely, 3e6));
        // 32 KiB in half a millisecond: 0.0655 GB/s, a quarter of which is below the class.
        assert_eq!(many.rate.range, UNKNOWN.rate);
        assert_eq!(after(900, 1_000_000).random.range, unknown);
        assert_eq!(after(1_000_000, 30_000_000).random.range, unknown, "a slow disk stays slow");
    }

    #[test]
    fn a_memory_below_leaves_room_for_flash() {
        let reading = after(1_000_000, 30_000);
        assert!(reading.random.range.high >= 3e5, "{:?}", reading.random);
        // 2.18 GB/s while busy.
        let rate = reading.rate.range;
        assert!((rate.low - 0.546).abs() < 0.01 && rate.likely >= rate.low, "{rate:?}");
        assert_eq!(rate.high, UNKNOWN.rate.high);
    }

    #[test]
    fn counted_flushes_bound_one() {
        let mut disk = recorded("vm-granite-rapids").host.block.disks.swap_remove(0);
        let mut found = |flushes| {
            disk.counted = Some(Counted { flushes, ..counted(0, 0) });
            let counted = Flushes::on_disk(Some(&disk))?;
            let ends = |of: Range| (of.low, of.likely, of.high);
            let of = range(1e4, 3e5, 1e7);
            Some((ends(counted.write(of)), ends(counted.flush(of))))
        };
        let usual = Some(((1e4, 3e5, 6e5), (1e4, 1.25e5, 6e5)));
        assert_eq!(found(Some((20_000, 4_000))), usual);
        let nothing = Some(((1e4, 1e5, 1e5), (1e4, 1e4, 1e5)));
        assert_eq!(found(Some((20_000, 0))), nothing, "nothing to do");
        assert_eq!((found(Some((20, 4))), found(None)), (None, None));
    }
}

//! What the unbroken reading loop finds in a window: shared by the experiments that ask what used
//! the CPU.
//!
//! Nothing but the loop runs in a window: it makes no system call and touches no memory but the
//! room for gaps, which was touched beforehand. When the room is full, it is emptied into a
//! histogram; the time that this takes is in no segment, so it is neither traced nor lost.

use super::attribution::Held;
use bench::prelude::*;
use metal::gaps::{Gap, Tracer};
use stats::histogram::Histogram;
use stats::quantile::median;
use stats::threshold::{self, Times};

/// Gaps that are kept one by one; more are only in the distribution of lengths.
pub const GAPS_MAX: usize = 100_000;
/// Segments that are kept one by one: an hour of ten thousand gaps a second makes fewer.
const SEGMENTS_MAX: usize = 65_536;
/// Gaps that a tracer holds before it is emptied: 128 KiB, which a second-level cache holds, and
/// seconds of thousands of gaps each.
pub const ROOM: usize = 8192;

/// Number of reads for the threshold, and the time after which fewer are enough, in ns.
const READS: (u64, f64) = (1 << 20, 25e6);
const REHEARSAL_READS: (u64, f64) = (1 << 14, 2e6);
/// Reads of one call, as many as in the middle of a window.
const READS_PER_CALL: u64 = 1024;
/// Calls whose median turn is the loop's resolution.
const CALLS: usize = 32;

/// From which length on a stretch between two reads is an interruption.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub ticks: u64,
    /// The same in ns.
    pub ns: f64,
    /// The loop's own resolution: from one read to the next without a gap, in ns.
    pub read_to_read_ns: f64,
    /// How it was found: a sentence with figures.
    pub because: String,
}

/// What a window held.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// First and last read of each unbroken stretch, in ticks, the first 65,536 of them;
    /// between them nothing was traced.
    pub segments: Vec<(u64, u64)>,
    /// The first gaps, [`GAPS_MAX`] at most, ascending; the loop made a turn between any two.
    pub gaps: Vec<Gap>,
    /// Gaps that are in `lengths` only.
    pub dropped: u64,
    /// Every gap, in ns.
    pub lengths: Histogram,
    pub count: u64,
    pub lost_ticks: u64,
    /// The sum of all segments, in ticks.
    pub traced_ticks: u64,
    pub longest_ticks: u64,
    /// Reads in all, those before a shared window began included.
    pub turns: u64,
    /// Reads that were less than the one before: a counter that does this is useless for tracing.
    pub backward: u64,
}

/// The threshold, found here and now: on the thread and the CPU that are to be traced. It takes
/// some tens of milliseconds; a rehearsal's takes one or two.
///
/// # Errors
/// The processor's counter is not the clock of this run, or there is no memory.
pub fn threshold(clock: Clock, rehearsal: bool) -> Result<Threshold> {
    let Clock::Counter { tick_ns } = clock else {
        bail!(
            "the loop reads the processor's counter, which plumb does not use as a clock here: it \
             disagrees with the kernel's clocks, or the kernel does not trust it"
        );
    };
    let (reads, limit_ns) = if rehearsal { REHEARSAL_READS } else { READS };
    let mut tracer = Tracer::with_room(4 * READS_PER_CALL as usize + 1)
        .context("taking memory for the loop's own times")?;
    let mut times = Times::default();
    tracer.begin();
    let end = tracer.first() + clock.ticks(limit_ns);
    while times.count() < reads && tracer.last() < end {
        tracer.begin();
        // With a threshold of none every time from read to read is kept.
        for _ in 0..4 {
            tracer.run(0, READS_PER_CALL);
        }
        for gap in tracer.gaps() {
            times.add(gap.ticks());
        }
    }
    let found = threshold::find(&times, tick_ns).context("the loop made no turn")?;
    Ok(Threshold {
        ticks: found.ticks,
        ns: clock.ns(found.ticks),
        read_to_read_ns: read_to_read_ns(&mut tracer, clock),
        because: found.because,
    })
}

/// The median of short stretches' mean turn, on counters of coarse steps too.
fn read_to_read_ns(tracer: &mut Tracer, clock: Clock) -> f64 {
    let turns: Vec<f64> = (0..CALLS)
        .map(|_| {
            tracer.begin();
            tracer.run(u64::MAX, READS_PER_CALL);
            clock.ns(tracer.last() - tracer.first()) / READS_PER_CALL as f64
        })
        .collect();
    median(&turns).unwrap_or(f64::NAN)
}

/// Traces for `duration_ns`. Between segments, and only there, the room is emptied.
pub fn window(
    tracer: &mut Tracer,
    threshold: &Threshold,
    clock: Clock,
    duration_ns: f64,
) -> Traced {
    let end = metal::clock::ticks_fenced() + clock.ticks(duration_ns);
    tracer.begin();
    let kept = Kept::from(tracer.first());
    trace(tracer, threshold, clock, end, kept)
}

/// As [`window`], for a window that others share: the tracer has been reading since before the
/// first of `ticks`, so that whoever keeps the thread from its CPU at that moment is seen. What
/// lies before it is cut off. At most `gaps` are kept one by one.
pub fn window_between(
    tracer: &mut Tracer,
    threshold: &Threshold,
    clock: Clock,
    (start_tick, end_tick): (u64, u64),
    gaps: usize,
) -> Traced {
    let kept = Kept { gaps: gaps.min(GAPS_MAX), ..Kept::from(start_tick) };
    trace(tracer, threshold, clock, end_tick, kept)
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    from_tick: u64,
    gaps: usize,
    segments: usize,
}

impl Kept {
    fn from(from_tick: u64) -> Self {
        Kept { from_tick, gaps: GAPS_MAX, segments: SEGMENTS_MAX }
    }
}

/// Goes on with a tracer that was begun, until `end_tick`.
fn trace(
    tracer: &mut Tracer,
    threshold: &Threshold,
    clock: Clock,
    end_tick: u64,
    kept: Kept,
) -> Traced {
    let mut traced = Traced::default();
    loop {
        tracer.until(threshold.ticks, end_tick);
        traced.take(tracer, clock, kept);
        if tracer.last() >= end_tick {
            return traced;
        }
        tracer.begin();
    }
}

impl Traced {
    /// Share of the traced time that gaps took.
    pub fn lost(&self) -> f64 {
        self.lost_ticks as f64 / self.traced_ticks.max(1) as f64
    }

    /// The rate of gaps, per second.
    pub fn rate_hz(&self, clock: Clock) -> f64 {
        self.count as f64 * 1e9 / clock.ns(self.traced_ticks.max(1))
    }

    /// When the gaps that are held one by one began, in ns from the window's begin.
    pub fn starts_ns(&self, clock: Clock) -> Vec<f64> {
        let begin = self.segments.first().map_or(0, |segment| segment.0);
        self.gaps.iter().map(|gap| clock.between_ns(begin, gap.start)).collect()
    }

    /// How long they were, in ns.
    pub fn lengths_ns(&self, clock: Clock) -> Vec<f64> {
        self.gaps.iter().map(|gap| clock.ns(gap.ticks())).collect()
    }

    /// Which part of the window the gaps are that are held one by one.
    pub fn held(&self) -> Held {
        let Some(last) = self.gaps.last().filter(|_| self.dropped > 0) else {
            return Held::ALL;
        };
        let until = |&(from, to): &(u64, u64)| to.min(last.end).saturating_sub(from);
        let ticks: u64 = self.segments.iter().map(until).sum();
        Held {
            gaps: self.gaps.len() as f64 / self.count as f64,
            time: ticks as f64 / self.traced_ticks.max(1) as f64,
        }
    }

    fn take(&mut self, tracer: &Tracer, clock: Clock, kept: Kept) {
        let (first, last) = (tracer.first().max(kept.from_tick), tracer.last());
        if last <= first {
            return;
        }
        if self.segments.len() < kept.segments {
            self.segments.push((first, last));
        }
        self.traced_ticks += last - first;
        self.turns += tracer.turns();
        self.take_gaps(tracer.gaps(), first, clock, kept);
    }

    /// Takes over the gaps of a stretch that begins at `first`. The turn after a gap finds its
    /// memory gone from the caches and may be as long as a gap: the loop has not gone on until a
    /// turn is as short as its others, so a gap that begins where one ended is the same.
    fn take_gaps(&mut self, gaps: &[Gap], first: u64, clock: Clock, kept: Kept) {
        let mut whole: Option<Gap> = None;
        for gap in gaps {
            if gap.end < gap.start {
                self.backward += 1;
                continue;
            }
            if gap.end <= first {
                continue;
            }
            match &mut whole {
                Some(before) if before.end == gap.start => before.end = gap.end,
                _ => {
                    let start = gap.start.max(first);
                    let next = Gap { start, ..*gap };
                    self.take_gap(whole.replace(next), clock, kept);
                }
            }
        }
        self.take_gap(whole, clock, kept);
    }

    fn take_gap(&mut self, gap: Option<Gap>, clock: Clock, kept: Kept) {
        let Some(gap) = gap else {
            return;
        };
        self.count += 1;
        self.lost_ticks += gap.ticks();
        self.longest_ticks = self.longest_ticks.max(gap.ticks());
        self.lengths.record(clock.ns(gap.ticks()));
        if self.gaps.len() < kept.gaps {
            self.gaps.push(gap);
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests;

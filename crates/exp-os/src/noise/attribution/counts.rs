//! Gaps matched to counters by number and by total length.
//!
//! In this order, because a longer gap says more about its cause than its place on the grid: a
//! preemption and the end of a quota happen at a tick, and so begin on the tick's grid too.
//!
//! 1. Throttled: the longest, up to the throttled periods and the throttled time.
//! 2. Thread: the longest of the rest, up to the involuntary switches and the run delay, if the
//!    kernel reports it.
//! 3. Timer: those on the tick's grid, up to the timer's interrupts; where there are more gaps,
//!    those nearest to the median length.
//! 4. Steal: the longest of the rest that fit into the time that the hypervisor says it took.
//! 5. Interrupt: the rest, up to what is left of each line's count, the timer's too (a timer may
//!    run out between two ticks). They cannot be distinguished, so the line with most interrupts
//!    gets the shortest gaps.

use super::{Attributed, By, Cause, Held, OfCpu, RowCount, Throttling};
use record::order::InOrder;

/// A switch beyond the scheduler's time, in ns: twice one with cold caches.
const SWITCH_NS: f64 = 20e3;
/// A throttled stretch seen from outside against the time that the group counted, in ns: the
/// group's clock starts when the scheduler notices, which may be a millisecond of timer slack away.
const THROTTLE_NS: f64 = 1e6;
/// Shorter gaps are no throttling, in ns: what is left of a period when its quota is gone is a part
/// of 100 ms, or of whatever a group has, and of at least 1 ms.
const THROTTLED_LEAST_NS: f64 = 100e3;

/// Gaps on the way to their causes, each named by its place.
pub(super) struct Matching<'a> {
    /// One entry per gap.
    pub found: Vec<Option<Attributed>>,
    pub lengths_ns: &'a [f64],
    pub on_tick: &'a [bool],
    pub of_cpu: &'a OfCpu,
    /// Which part of what was counted the gaps are.
    pub held: Held,
}

/// What a counter says of a cause in a whole window.
struct Counted {
    count: u64,
    total_ns: f64,
    /// A gap may be so much longer than its part of `total_ns`.
    extra_ns: f64,
    /// Gaps of these causes are counted too.
    with: &'static [Cause],
}

impl<'a> Matching<'a> {
    fn is_open(&self, gap: usize) -> bool {
        self.found[gap].is_none()
    }

    /// The part of a line's count that is these gaps' and not given yet. The timer comes as often
    /// whether other gaps are many or few: its part is that of the time.
    fn left(&self, row: &'a RowCount) -> (&'a RowCount, u64) {
        let part = if row.is_timer { self.held.time } else { self.held.gaps };
        let given = self.found.iter().flatten().filter(|found| {
            matches!(found.cause, Cause::Timer | Cause::Interrupt) && found.who == row.name
        });
        let counted = (row.count as f64 * part).round() as u64;
        (row, counted.saturating_sub(given.count() as u64))
    }

    /// The gaps that `may`, longest first; equal ones in the order of time.
    fn longest(&self, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut gaps: Vec<usize> = (0..self.found.len()).filter(|gap| may(*gap)).collect();
        gaps.order_by(|a, b| self.lengths_ns[*b].total_cmp(&self.lengths_ns[*a]));
        gaps
    }

    /// The first of these gaps become `cause`, as far as the counter goes. One that is too long for
    /// what is left is passed over.
    fn take(&mut self, gaps: Vec<usize>, counted: &Counted, (cause, who): (Cause, &str)) {
        let given =
            self.found.iter().zip(self.lengths_ns).filter_map(|(found, ns)| {
                counted.with.contains(&found.as_ref()?.cause).then_some(*ns)
            });
        let (given, given_ns) = given.fold((0, 0.0), |(count, sum), ns| (count + 1, sum + ns));
        let count = (counted.count as f64 * self.held.gaps).round() as u64;
        let mut count = count.saturating_sub(given);
        let mut left_ns = counted.total_ns * self.held.gaps
            - (given_ns - given as f64 * counted.extra_ns).max(0.0);
        for gap in gaps {
            let ns = (self.lengths_ns[gap] - counted.extra_ns).max(0.0);
            if count > 0 && ns <= left_ns && left_ns > 0.0 {
                count -= 1;
                left_ns -= ns;
                self.found[gap] = Some(Attributed::new(cause, who, By::Count));
            }
        }
    }

    /// Each line gets as many of the gaps as it has left, the first line the first ones.
    fn hand_out(&mut self, gaps: Vec<usize>, rows: Vec<(&RowCount, u64)>) {
        let mut gaps = gaps.into_iter();
        for (row, left) in rows {
            let cause = if row.is_timer { Cause::Timer } else { Cause::Interrupt };
            for gap in gaps.by_ref().take(left as usize) {
                self.found[gap] = Some(Attributed::new(cause, &*row.name, By::Count));
            }
        }
    }

    /// Step 1, of the gaps that `may`.
    pub(super) fn throttled(
        &mut self,
        throttling: Option<Throttling>,
        may: impl Fn(usize, Option<Cause>) -> bool,
    ) {
        let Some(Throttling { periods, time_ns }) = throttling else {
            return;
        };
        let gaps = self.longest(|gap| {
            let cause = self.found[gap].as_ref().map(|found| found.cause);
            self.lengths_ns[gap] >= THROTTLED_LEAST_NS && may(gap, cause)
        });
        let counted = Counted {
            count: periods,
            total_ns: time_ns as f64,
            extra_ns: THROTTLE_NS,
            with: &[Cause::Throttled],
        };
        self.take(gaps, &counted, (Cause::Throttled, "quota of the control group"));
    }

    /// Step 2, of the gaps that `may`. A throttled thread is switched out and waits, too.
    pub(super) fn threads(&mut self, may: impl Fn(usize) -> bool) {
        let gaps = self.longest(|gap| self.is_open(gap) && may(gap));
        let counted = Counted {
            count: self.of_cpu.involuntary.unwrap_or(0),
            total_ns: self.of_cpu.run_delay_ns.map_or(f64::INFINITY, |ns| ns as f64),
            extra_ns: SWITCH_NS,
            with: &[Cause::Throttled, Cause::Thread, Cause::Plumb],
        };
        self.take(gaps, &counted, (Cause::Thread, "another thread"));
    }

    pub(super) fn timer(&mut self) {
        let mut open = self.longest(|gap| self.is_open(gap) && self.on_tick[gap]);
        let Some(&median) = open.get(open.len() / 2) else {
            return;
        };
        let far_ns = |gap: &usize| (self.lengths_ns[*gap] - self.lengths_ns[median]).abs();
        open.order_by(|a, b| far_ns(a).total_cmp(&far_ns(b)));
        let rows = self.of_cpu.interrupts.iter().flatten().filter(|row| row.is_timer);
        let rows = rows.map(|row| self.left(row)).collect();
        self.hand_out(open, rows);
    }

    /// Step 4. A gap on the grid is the tick's, unless no tick was counted for it.
    pub(super) fn steal(&mut self) {
        let gaps = self.longest(|gap| self.is_open(gap) && !self.on_tick[gap]);
        let total_ns = self.of_cpu.steal_ns.unwrap_or(0) as f64;
        let counted = Counted { count: u64::MAX, total_ns, extra_ns: 0.0, with: &[] };
        self.take(gaps, &counted, (Cause::Steal, "steal, as the hypervisor counts it, to 10 ms"));
    }

    /// Step 5. What the timer's line counted beyond the tick are timers that ran out in between.
    pub(super) fn interrupts(&mut self) {
        let rows = self.of_cpu.interrupts.iter().flatten();
        let mut rows: Vec<(&RowCount, u64)> = rows.map(|row| self.left(row)).collect();
        rows.order_by_key(|(_, left)| std::cmp::Reverse(*left));
        let mut open = self.longest(|gap| self.is_open(gap));
        open.reverse();
        self.hand_out(open, rows);
    }
}

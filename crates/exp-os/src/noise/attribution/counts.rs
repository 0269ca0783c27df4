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
    lengths_ns: &'a [f64],
    on_tick: &'a [bool],
    of_cpu: &'a OfCpu,
    held: Held,
}

impl<'a> Matching<'a> {
    /// No gap has a cause yet. They are the part `held` of those that were counted.
    pub(super) fn new(
        lengths_ns: &'a [f64],
        on_tick: &'a [bool],
        of_cpu: &'a OfCpu,
        held: Held,
    ) -> Self {
        Matching { found: vec![None; lengths_ns.len()], lengths_ns, on_tick, of_cpu, held }
    }

    fn part(&self, count: u64) -> u64 {
        (count as f64 * self.held.gaps).round() as u64
    }

    /// The part of a line's count that is these gaps'. The timer comes as often whether other gaps
    /// are many or few: its part is that of the time.
    fn counted(&self, row: &RowCount) -> u64 {
        let part = if row.is_timer { self.held.time } else { self.held.gaps };
        (row.count as f64 * part).round() as u64
    }

    /// Gaps without a cause, longest first; equal ones in the order of time.
    fn longest(&self) -> Vec<usize> {
        let open = (0..self.found.len()).filter(|gap| self.found[*gap].is_none());
        let mut open: Vec<usize> = open.collect();
        open.order_by(|a, b| self.lengths_ns[*b].total_cmp(&self.lengths_ns[*a]));
        open
    }

    /// How many gaps have one of these causes, and their total length in ns.
    fn given(&self, causes: &[Cause]) -> (u64, f64) {
        let is_one = |gap: &usize| {
            let cause = self.found[*gap].as_ref().map(|found| found.cause);
            cause.is_some_and(|cause| causes.contains(&cause))
        };
        let (count, ns) = (0..self.found.len())
            .filter(is_one)
            .fold((0, 0.0), |(count, ns), gap| (count + 1, ns + self.lengths_ns[gap]));
        (count, ns)
    }

    /// The longest open gaps become `cause`: at most `count`, together at most `total_ns` with
    /// `extra_ns` beyond it for each. One that is too long for what is left is passed over.
    /// Only those that `may`.
    fn take_longest(
        &mut self,
        may: impl Fn(usize) -> bool,
        (count, total_ns, extra_ns): (u64, f64, f64),
        (cause, who): (Cause, &str),
    ) {
        let (mut count, mut left_ns) = (count, total_ns);
        for gap in self.longest().into_iter().filter(|gap| may(*gap)) {
            if count == 0 {
                return;
            }
            let counted_ns = (self.lengths_ns[gap] - extra_ns).max(0.0);
            if counted_ns > left_ns || left_ns <= 0.0 {
                continue;
            }
            count -= 1;
            left_ns -= counted_ns;
            self.found[gap] = Some(Attributed::new(cause, who, By::Count));
        }
    }

    /// Step 1, of the gaps that `may`.
    pub(super) fn throttled(
        &mut self,
        throttling: Option<Throttling>,
        may: impl Fn(usize) -> bool,
    ) {
        let Some(Throttling { periods, time_ns }) = throttling else {
            return;
        };
        let (count, ns) = self.given(&[Cause::Throttled]);
        let (periods, time_ns) = (self.part(periods), time_ns as f64 * self.held.gaps);
        let left_ns = time_ns - (ns - count as f64 * THROTTLE_NS).max(0.0);
        let cause = (Cause::Throttled, "quota of the control group");
        let bounds = (periods.saturating_sub(count), left_ns, THROTTLE_NS);
        let lengths_ns = self.lengths_ns;
        let is_long = |gap: usize| lengths_ns[gap] >= THROTTLED_LEAST_NS;
        self.take_longest(|gap| is_long(gap) && may(gap), bounds, cause);
    }

    /// Others may have the CPU while a quota keeps the thread off it, and the switch to them looks
    /// like any other: of the gaps that are known to be another thread's, step 1 takes its part.
    pub(super) fn throttled_under_others(&mut self, throttling: Option<Throttling>) {
        let others: Vec<Option<Attributed>> = self
            .found
            .iter_mut()
            .map(|found| found.take_if(|found| found.cause == Cause::Thread))
            .collect();
        self.throttled(throttling, |gap| others[gap].is_some());
        for (found, other) in self.found.iter_mut().zip(others) {
            if found.is_none() {
                *found = other;
            }
        }
    }

    /// Step 2, of the gaps that `may`. A throttled thread is switched out and waits, too.
    pub(super) fn threads(&mut self, may: impl Fn(usize) -> bool) {
        let of_cpu = self.of_cpu;
        let known = of_cpu.threads.iter().filter_map(|thread| thread.involuntary);
        let switches = self.part(known.sum());
        let (count, ns) = self.given(&[Cause::Throttled, Cause::Thread, Cause::Plumb]);
        let delays: Option<u64> = of_cpu.threads.iter().map(|thread| thread.run_delay_ns).sum();
        let left_ns = match delays {
            Some(delay_ns) => {
                delay_ns as f64 * self.held.gaps - (ns - count as f64 * SWITCH_NS).max(0.0)
            }
            None => f64::INFINITY,
        };
        let cause = (Cause::Thread, "another thread");
        let bounds = (switches.saturating_sub(count), left_ns, SWITCH_NS);
        self.take_longest(may, bounds, cause);
    }

    /// Step 3.
    pub(super) fn timer(&mut self) {
        let of_cpu = self.of_cpu;
        let mut open = self.longest();
        open.retain(|gap| self.on_tick[*gap]);
        let Some(&median) = open.get(open.len() / 2) else {
            return;
        };
        let far_ns = |gap: &usize| (self.lengths_ns[*gap] - self.lengths_ns[median]).abs();
        open.order_by(|a, b| far_ns(a).total_cmp(&far_ns(b)));
        let mut open = open.into_iter();
        for row in of_cpu.interrupts.iter().flatten().filter(|row| row.is_timer) {
            let left = usize::try_from(self.left(row)).unwrap_or(usize::MAX);
            for gap in open.by_ref().take(left) {
                self.found[gap] = Some(Attributed::new(Cause::Timer, &*row.name, By::Count));
            }
        }
    }

    /// Step 4. A gap on the grid is the tick's, unless no tick was counted for it.
    pub(super) fn steal(&mut self) {
        let Some(steal_ns) = self.of_cpu.steal_ns.filter(|ns| *ns > 0) else {
            return;
        };
        let steal_ns = steal_ns as f64 * self.held.gaps;
        let mut left_ns = steal_ns - self.given(&[Cause::Steal]).1;
        for gap in self.longest() {
            if self.on_tick[gap] || self.lengths_ns[gap] > left_ns {
                continue;
            }
            left_ns -= self.lengths_ns[gap];
            let who = "steal, as the hypervisor counts it, to 10 ms";
            self.found[gap] = Some(Attributed::new(Cause::Steal, who, By::Count));
        }
    }

    /// Step 5. What the timer's line counted beyond the tick are timers that ran out in between.
    pub(super) fn interrupts(&mut self) {
        let Some(rows) = &self.of_cpu.interrupts else {
            return;
        };
        let mut rows: Vec<(&RowCount, u64)> =
            rows.iter().map(|row| (row, self.left(row))).collect();
        rows.order_by_key(|(_, left)| std::cmp::Reverse(*left));
        let mut open = self.longest();
        for (row, left) in rows {
            let cause = if row.is_timer { Cause::Timer } else { Cause::Interrupt };
            for _ in 0..left {
                let Some(gap) = open.pop() else {
                    return;
                };
                self.found[gap] = Some(Attributed::new(cause, &*row.name, By::Count));
            }
        }
    }

    fn left(&self, row: &RowCount) -> u64 {
        let given = self.found.iter().flatten();
        let given = given.filter(|found| {
            matches!(found.cause, Cause::Timer | Cause::Interrupt) && found.who == row.name
        });
        self.counted(row).saturating_sub(given.count() as u64)
    }
}

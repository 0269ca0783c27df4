//! One window of the loop with the evidence around it.

use super::super::attribution::{Attributed, Evidence, Level, OfCpu, Watch, thread_number};
use super::super::trace::{Threshold, Traced, window};
use super::ticking;
use bench::measure::Clock;
use host::kernel::Virtualisation;
use laws::noise::Cause;
use metal::gaps::{Gap, Tracer};
use record::order::Gather;
use stats::histogram::STEPS_PER_UNIT;
use stats::phase::{Periodic, Tick, periodic, tick_by_length};
use std::collections::BTreeMap;

pub(super) struct Look {
    pub(super) clock: Clock,
    pub(super) cpu: usize,
    pub(super) duration_ns: f64,
    /// The tick by the coarse clock: its kernel's, so no other period is one.
    pub(super) coarse_ns: f64,
}

/// The loop runs so long before a window.
const WARM_UP_NS: f64 = 100e3;
/// Without a tick, a period this close to the clock's is not reported as another one.
const IS_THE_TICK: f64 = 0.02;

impl Look {
    pub(super) fn at(&self, tracer: &mut Tracer, threshold: &Threshold, at_most: Level) -> Seen {
        let watched = [(self.cpu, thread_number().unwrap_or(0))];
        let watch = Watch::begin(at_most, &watched, self.clock);
        // What the watch's begin left to be mapped again is touched here, not in the window.
        window(tracer, threshold, self.clock, WARM_UP_NS);
        let traced = window(tracer, threshold, self.clock, self.duration_ns);
        let evidence = watch.end();
        Seen::new(traced, evidence, self)
    }
}

/// What was seen. Times are in ns from the window's begin; lists are by gap.
pub(super) struct Seen {
    pub(super) clock: Clock,
    pub(super) traced: Traced,
    pub(super) evidence: Evidence,
    pub(super) starts_ns: Vec<f64>,
    pub(super) lengths_ns: Vec<f64>,
    pub(super) cpu: usize,
    pub(super) tick: Option<Tick>,
    /// Where there is none, another's of a usual period: a hypervisor's or another timer's.
    pub(super) foreign: Option<Tick>,
    pub(super) on_tick: Vec<bool>,
    pub(super) attributed: Vec<Attributed>,
    /// Another period among gaps off the tick; members are gaps.
    pub(super) other: Option<Periodic>,
}

impl Seen {
    pub(super) fn new(traced: Traced, evidence: Evidence, look: &Look) -> Seen {
        let clock = look.clock;
        let (starts_ns, lengths_ns) = (traced.starts_ns(clock), traced.lengths_ns(clock));
        let tick_of = |periods_ns: &[f64]| tick_by_length(&starts_ns, &lengths_ns, periods_ns);
        let (tick, foreign) = match tick_of(&[look.coarse_ns]) {
            Some(tick) if evidence.could_be_interrupts(look.cpu, tick.on_grid) => {
                (Some(tick), None)
            }
            // A hypervisor's tick may have the same period.
            Some(theirs) => (None, Some(theirs)),
            None => (None, tick_of(&ticking::foreign_ns(look.coarse_ns))),
        };
        let is_on = |start: &f64| tick.as_ref().is_some_and(|tick| tick.is_on(*start));
        let on_tick: Vec<bool> = starts_ns.iter().map(is_on).collect();
        let other = beside(&starts_ns, &lengths_ns, &on_tick).filter(|other| {
            // A tick that keeps no phase is still no other's.
            let off = |period_ns: f64| (other.period_ns / period_ns - 1.0).abs();
            tick.is_some() || off(look.coarse_ns) > IS_THE_TICK
        });
        let attributed = evidence.attribute(look.cpu, &traced.gaps, &on_tick, traced.held());
        Seen {
            clock,
            cpu: look.cpu,
            starts_ns,
            lengths_ns,
            tick,
            foreign,
            on_tick,
            attributed,
            other,
            traced,
            evidence,
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.clock.ns(self.traced.traced_ticks) * 1e-9
    }

    /// Gaps of at least so many ns a second.
    pub(super) fn rate_of_hz(&self, least_ns: f64) -> f64 {
        let buckets = self.traced.lengths.buckets();
        let least = least_ns * STEPS_PER_UNIT;
        let long = buckets.iter().filter(|(steps, _)| *steps as f64 >= least);
        long.map(|(_, count)| *count).sum::<u64>() as f64 / self.seconds()
    }

    /// Time of gaps by cause as shares of all time, and what of it lies in no event.
    pub(super) fn lost_by_cause(&self) -> (BTreeMap<Cause, f64>, f64) {
        let (gaps, lost) = (&self.traced.gaps, self.traced.lost());
        let shares = self.evidence.shares(self.cpu, gaps, &self.attributed);
        let by_cause = shares.by_cause.into_iter();
        let by_cause = by_cause.map(|(cause, share)| (cause, share * lost));
        (by_cause.gather(), shares.beside * lost)
    }

    /// The name of the unattributed share on such a machine.
    pub(super) fn nobody(&self, machine: &Virtualisation) -> String {
        let gaps = &self.traced.gaps;
        let shares = self.evidence.shares(self.cpu, gaps, &self.attributed);
        shares.nobody(machine)
    }

    pub(super) fn active_ns(&self) -> Vec<f64> {
        self.periods().map(|(_, active_ns, _)| active_ns).collect()
    }

    /// Active periods between two gaps: begin, length, the gap that ended it.
    pub(super) fn periods(&self) -> impl Iterator<Item = (f64, f64, usize)> {
        let gaps = &self.traced.gaps;
        let ends_ns = self.starts_ns.iter().zip(&self.lengths_ns);
        let ends_ns = ends_ns.map(|(start, length)| start + length);
        ends_ns
            .zip(1..gaps.len())
            .filter(|(_, next)| self.is_one_segment(gaps[next - 1], gaps[*next]))
            .map(|(end_ns, next)| (end_ns, self.starts_ns[next] - end_ns, next))
    }

    /// Whether the loop was traced all the time from one gap to the next.
    fn is_one_segment(&self, first: Gap, second: Gap) -> bool {
        let segments = &self.traced.segments;
        let next = segments.partition_point(|(from, _)| *from <= first.start);
        let segment = next.checked_sub(1).map(|at| segments[at]);
        segment.is_some_and(|(_, to)| second.end <= to)
    }

    /// What the kernel counted around the window, for the record.
    pub(super) fn counted(&self) -> Vec<(&'static str, f64)> {
        let throttling = self.evidence.throttling;
        let of_cpu = self.evidence.cpus.get(&self.cpu);
        let of_cpu = |count: fn(&OfCpu) -> Option<u64>| of_cpu.and_then(count);
        let whole_until = self.evidence.whole_until(self.cpu);
        let whole = whole_until.zip(self.traced.segments.first());
        let whole_ns = whole.map(|(until, (first, _))| self.clock.between_ns(*first, until) as u64);
        let backward = Some(self.traced.backward).filter(|backward| *backward > 0);
        let named = [
            ("events_whole_ns", whole_ns),
            ("backward_count", backward),
            ("involuntary_count", Some(self.evidence.involuntary())),
            ("run_delay_ns", of_cpu(|of| of.run_delay_ns)),
            ("steal_ns", of_cpu(|of| of.steal_ns)),
            ("throttled_count", throttling.map(|of| of.periods)),
            ("throttled_ns", throttling.map(|of| of.time_ns)),
        ];
        named.into_iter().filter_map(|(name, count)| Some((name, count? as f64))).collect()
    }

    pub(super) fn tick_gap_ns(&self) -> Option<f64> {
        let on_tick = self.lengths_ns.iter().zip(&self.on_tick);
        let lengths: Vec<f64> =
            on_tick.filter_map(|(length, on_tick)| on_tick.then_some(*length)).collect();
        stats::quantile::median(&lengths)
    }
}

/// Another period among the gaps that are not on the tick.
fn beside(starts_ns: &[f64], lengths_ns: &[f64], on_tick: &[bool]) -> Option<Periodic> {
    let off: Vec<usize> = (0..starts_ns.len()).filter(|gap| !on_tick[*gap]).collect();
    let starts: Vec<f64> = off.iter().map(|gap| starts_ns[*gap]).collect();
    let lengths: Vec<f64> = off.iter().map(|gap| lengths_ns[*gap]).collect();
    let mut found = periodic(&starts, &lengths)?;
    for member in &mut found.members {
        *member = off[*member];
    }
    Some(found)
}

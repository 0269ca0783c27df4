//! One window of the loop with the evidence around it: of one CPU, or of each of several.

use super::super::attribution::{Attributed, Evidence, Level, OfCpu, Shares, Watch, thread_number};
use super::super::trace::{Threshold, Traced, window};
use super::ticking;
use bench::measure::Clock;
use laws::noise::Cause;
use metal::gaps::{Gap, Tracer};
use stats::histogram::STEPS_PER_UNIT;
use stats::phase::{Periodic, Tick, periodic, tick_by_length};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy)]
pub(in crate::noise) struct Look {
    pub(in crate::noise) clock: Clock,
    pub(in crate::noise) cpu: usize,
    pub(in crate::noise) duration_ns: f64,
    /// The tick by the coarse clock: its kernel's, so no other period is one.
    pub(in crate::noise) coarse_ns: f64,
}

/// The loop runs so long before a window.
const WARM_UP_NS: f64 = 100e3;
/// Without a tick, a period this close to the clock's is not reported as another one.
const IS_THE_TICK: f64 = 0.02;

impl Look {
    pub(in crate::noise) fn observe(
        &self,
        tracer: &mut Tracer,
        threshold: &Threshold,
        at_most: Level,
    ) -> Seen {
        let watched = [(self.cpu, thread_number().unwrap_or(0))];
        let watch = Watch::begin(at_most, &watched, self.clock);
        // What the watch's begin left to be mapped again is touched here, not in the window.
        window(tracer, threshold, self.clock, WARM_UP_NS);
        let traced = window(tracer, threshold, self.clock, self.duration_ns);
        let evidence = watch.end();
        Seen::new(traced, evidence.into(), *self).with_other()
    }
}

/// What was seen, and what it comes to: the figures that noise.activity and noise.all have in common
/// are these. Times are in ns from the window's begin; lists are by gap.
pub(in crate::noise) struct Seen {
    pub(in crate::noise) look: Look,
    pub(in crate::noise) traced: Traced,
    pub(in crate::noise) evidence: Arc<Evidence>,
    pub(in crate::noise) starts_ns: Vec<f64>,
    pub(in crate::noise) lengths_ns: Vec<f64>,
    pub(in crate::noise) tick: Option<Tick>,
    /// Where there is none, another's of a usual period: a hypervisor's or another timer's.
    pub(in crate::noise) foreign: Option<Tick>,
    pub(in crate::noise) on_tick: Vec<bool>,
    pub(in crate::noise) attributed: Vec<Attributed>,
    pub(in crate::noise) shares: Shares,
    /// Another period among gaps off the tick, once it is searched for; members are gaps.
    pub(in crate::noise) other: Option<Periodic>,
}

impl Seen {
    pub(in crate::noise) fn new(traced: Traced, evidence: Arc<Evidence>, look: Look) -> Seen {
        let (starts_ns, lengths_ns) = (traced.starts_ns(look.clock), traced.lengths_ns(look.clock));
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
        let gaps = &traced.gaps;
        let attributed = evidence.attribute(look.cpu, gaps, &on_tick, traced.held());
        let shares = evidence.shares(look.cpu, gaps, &attributed);
        Seen {
            look,
            starts_ns,
            lengths_ns,
            tick,
            foreign,
            on_tick,
            attributed,
            shares,
            other: None,
            traced,
            evidence,
        }
    }

    /// The same with another period, which is searched for.
    pub(in crate::noise) fn with_other(mut self) -> Seen {
        let other = beside(&self.starts_ns, &self.lengths_ns, &self.on_tick);
        self.other = other.filter(|other| {
            // A tick that keeps no phase is still no other's.
            self.tick.is_some() || (other.period_ns / self.look.coarse_ns - 1.0).abs() > IS_THE_TICK
        });
        self
    }

    pub(in crate::noise) fn seconds(&self) -> f64 {
        self.look.clock.ns(self.traced.traced_ticks) * 1e-9
    }

    pub(in crate::noise) fn of_cpu(&self) -> Option<&OfCpu> {
        self.evidence.cpus.get(&self.look.cpu)
    }

    /// From when on the kernel's events were lost, in ticks.
    pub(in crate::noise) fn whole_until(&self) -> Option<u64> {
        self.evidence.whole_until(self.look.cpu)
    }

    /// Gaps of at least so many ns a second.
    pub(in crate::noise) fn rate_of_hz(&self, least_ns: f64) -> f64 {
        let buckets = self.traced.lengths.buckets();
        let least = least_ns * STEPS_PER_UNIT;
        let long = buckets.iter().filter(|(steps, _)| *steps as f64 >= least);
        long.map(|(_, count)| *count).sum::<u64>() as f64 / self.seconds()
    }

    /// What each cause that the evidence can name took, as a share of all time.
    pub(in crate::noise) fn by_cause(&self) -> BTreeMap<Cause, f64> {
        let told = |cause: &&Cause| self.evidence.tells(self.look.cpu, **cause);
        Cause::ALL.iter().filter(told).map(|cause| (*cause, self.lost_to(*cause))).collect()
    }

    pub(in crate::noise) fn rate_hz(&self) -> f64 {
        self.traced.rate_hz(self.look.clock)
    }

    pub(in crate::noise) fn longest_ns(&self) -> f64 {
        self.look.clock.ns(self.traced.longest_ticks)
    }

    /// What a cause took, as a share of all time.
    pub(in crate::noise) fn lost_to(&self, cause: Cause) -> f64 {
        self.shares.by_cause.get(&cause).map_or(0.0, |share| share * self.traced.lost())
    }

    /// Active periods between two gaps: begin, length, the gap that ended it.
    pub(in crate::noise) fn periods(&self) -> impl Iterator<Item = (f64, f64, usize)> {
        let gaps = &self.traced.gaps;
        let is_one_segment = |next: &usize| self.is_one_segment(gaps[next - 1], gaps[*next]);
        (1..gaps.len()).filter(is_one_segment).map(|next| {
            let end_ns = self.starts_ns[next - 1] + self.lengths_ns[next - 1];
            (end_ns, self.starts_ns[next] - end_ns, next)
        })
    }

    /// Whether the loop was traced all the time from one gap to the next.
    fn is_one_segment(&self, first: Gap, second: Gap) -> bool {
        let segments = &self.traced.segments;
        let next = segments.partition_point(|(from, _)| *from <= first.start);
        let segment = next.checked_sub(1).map(|at| segments[at]);
        segment.is_some_and(|(_, to)| second.end <= to)
    }

    /// What the kernel counted around the window, for the record.
    pub(in crate::noise) fn counted(&self) -> Vec<(&'static str, Option<f64>)> {
        let of_cpu = |count: fn(&OfCpu) -> Option<u64>| self.of_cpu().and_then(count);
        let throttling = self.evidence.throttling;
        let whole = self.whole_until().zip(self.traced.segments.first());
        let whole_ns =
            whole.map(|(until, (first, _))| self.look.clock.between_ns(*first, until) as u64);
        let backward = Some(self.traced.backward).filter(|backward| *backward > 0);
        [
            ("events_whole_ns", whole_ns),
            ("backward_count", backward),
            ("involuntary_count", Some(self.evidence.involuntary())),
            ("run_delay_ns", of_cpu(|of| of.run_delay_ns)),
            ("steal_ns", of_cpu(|of| of.steal_ns)),
            ("throttled_count", throttling.map(|of| of.periods)),
            ("throttled_ns", throttling.map(|of| of.time_ns)),
        ]
        .map(|(name, count)| (name, count.map(|count| count as f64)))
        .to_vec()
    }

    pub(in crate::noise) fn tick_gap_ns(&self) -> Option<f64> {
        let on_tick = self.lengths_ns.iter().zip(&self.on_tick);
        let lengths: Vec<f64> =
            on_tick.filter_map(|(length, on_tick)| on_tick.then_some(*length)).collect();
        stats::quantile::median(&lengths)
    }
}

/// Another period among the gaps that are not on the tick.
fn beside(starts_ns: &[f64], lengths_ns: &[f64], on_tick: &[bool]) -> Option<Periodic> {
    let off: Vec<usize> = (0..starts_ns.len()).filter(|gap| !on_tick[*gap]).collect();
    let [starts, lengths] =
        [starts_ns, lengths_ns].map(|of| off.iter().map(|gap| of[*gap]).collect::<Vec<f64>>());
    let mut found = periodic(&starts, &lengths)?;
    found.members.iter_mut().for_each(|member| *member = off[*member]);
    Some(found)
}

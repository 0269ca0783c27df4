//! One window of the loop with the evidence around it.

use super::super::attribution::{Attributed, Evidence, Level, OfCpu, Shares, Watch, thread_number};
use super::super::trace::{Threshold, Traced, window};
use super::ticking;
use bench::measure::Clock;
use laws::noise::Cause;
use metal::gaps::{Gap, Tracer};
use stats::histogram::STEPS_PER_UNIT;
use stats::phase::{Periodic, Tick, periodic, tick_by_length};

#[derive(Clone, Copy)]
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
    pub(super) fn observe(
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
        Seen::new(traced, evidence, *self)
    }
}

/// What was seen. Times are in ns from the window's begin; lists are by gap.
pub(super) struct Seen {
    pub(super) look: Look,
    pub(super) traced: Traced,
    pub(super) evidence: Evidence,
    pub(super) starts_ns: Vec<f64>,
    pub(super) lengths_ns: Vec<f64>,
    pub(super) tick: Option<Tick>,
    /// Where there is none, another's of a usual period: a hypervisor's or another timer's.
    pub(super) foreign: Option<Tick>,
    pub(super) on_tick: Vec<bool>,
    pub(super) attributed: Vec<Attributed>,
    pub(super) shares: Shares,
    /// Another period among gaps off the tick; members are gaps.
    pub(super) other: Option<Periodic>,
}

impl Seen {
    pub(super) fn new(traced: Traced, evidence: Evidence, look: Look) -> Seen {
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
        let other = beside(&starts_ns, &lengths_ns, &on_tick).filter(|other| {
            // A tick that keeps no phase is still no other's.
            tick.is_some() || (other.period_ns / look.coarse_ns - 1.0).abs() > IS_THE_TICK
        });
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
            other,
            traced,
            evidence,
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.look.clock.ns(self.traced.traced_ticks) * 1e-9
    }

    pub(super) fn of_cpu(&self) -> Option<&OfCpu> {
        self.evidence.cpus.get(&self.look.cpu)
    }

    /// From when on the kernel's events were lost, in ticks.
    pub(super) fn whole_until(&self) -> Option<u64> {
        self.evidence.whole_until(self.look.cpu)
    }

    /// Gaps of at least so many ns a second.
    pub(super) fn rate_of_hz(&self, least_ns: f64) -> f64 {
        let buckets = self.traced.lengths.buckets();
        let least = least_ns * STEPS_PER_UNIT;
        let long = buckets.iter().filter(|(steps, _)| *steps as f64 >= least);
        long.map(|(_, count)| *count).sum::<u64>() as f64 / self.seconds()
    }

    /// What a cause took, as a share of all time.
    pub(super) fn lost_to(&self, cause: Cause) -> f64 {
        self.shares.by_cause.get(&cause).map_or(0.0, |share| share * self.traced.lost())
    }

    /// Active periods between two gaps: begin, length, the gap that ended it.
    pub(super) fn periods(&self) -> impl Iterator<Item = (f64, f64, usize)> {
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
    pub(super) fn counted(&self) -> Vec<(&'static str, Option<f64>)> {
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
    let [starts, lengths] =
        [starts_ns, lengths_ns].map(|of| off.iter().map(|gap| of[*gap]).collect::<Vec<f64>>());
    let mut found = periodic(&starts, &lengths)?;
    found.members.iter_mut().for_each(|member| *member = off[*member]);
    Some(found)
}

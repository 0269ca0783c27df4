//! What interrupts a program that only runs?
//!
//! ## Question
//!
//! A program never waits, yet it does not run all the time. When is it interrupted, for how long,
//! how much of its time is lost, and what takes it: the timer's tick, interrupts, other threads, a
//! quota, the hypervisor?
//!
//! ## Method
//!
//! One thread, pinned, at nice -20 where allowed, reads the counter without pause: one read and one
//! comparison a turn, no system call inside, all memory touched before. A turn that takes longer
//! than a threshold is a gap. plumb derives the threshold from the distribution of the times
//! between two reads and reports it with the figure.
//!
//! A round has one or two windows of `duration`. In the first only the loop runs: this window gives
//! every length and rate, and the raw list of gaps. Counters are read before and after it. In the
//! second, if requested and permitted, the kernel's events of this CPU are recorded: this window
//! gives the share of time by cause and, with tracepoints, plot and table. Recording changes the
//! gaps; the record shows by how much (`tick_gap_ns`, `tick_gap_traced_ns`). Attribution uses the
//! highest level that permissions allow, and reports the level and the reason for its limit: 0
//! counters (/proc/interrupts, /proc/softirqs, steal, involuntary switches, run delay, throttling),
//! matched to gaps by number, marked "by count" in their names; 1 switches (perf events of the
//! thread itself), matched by time; 2 tracepoints of interrupts, soft interrupts and the scheduler.
//! A cause that the level cannot see has no share. Closing tracepoints takes the kernel 0.4 s a
//! round, so `quick` stays at 0.
//!
//! The kernel says what its tick's period is (clock_getres of CLOCK_MONOTONIC_COARSE). plumb
//! searches for it in the phase of the gaps' starts: near that period, refined by the gaps, it
//! counts how many gaps fall into one narrow arc, and computes how likely random gaps would do so.
//! R is the resultant of all gaps' phases. The timer rows of /proc/interrupts must agree; otherwise
//! a note gives the reason. Another common period is not this kernel's tick and is only noted. Gaps
//! off the tick are searched for another period, which must be significant (p up to 1e-12) and
//! appear in both halves of the window.
//!
//! ## Prediction
//!
//! Noise is measured, not predicted: a machine's description does not say what else runs. It does say
//! the tick's period (clock_getres), and the share that a quota does not grant.
//!
//! ## Reading the result
//!
//! `lost` is the share of time that a computation loses even if it never calls the kernel. `active`
//! near the tick's period means that hardly anything but the tick interrupted. `lost_unattributed`
//! is time without a known cause: in a virtual machine probably the hypervisor, on bare metal the
//! firmware (SMI). `other_period` exists only if another interruption is periodic; its note names
//! it. Of several it is the one that takes most time. `gap_rate` counts from each round's own
//! threshold, `gap_rate_1us` compares rounds and machines. Traces hold the gaps (`gaps`;
//! `gaps_traced` of the second window; all of the first round up to 50,000, of others the first
//! 4,000, of all the distribution of lengths), a timeline of 120 ms, the table, the causes, and the
//! interrupt counters.
//!
//! ## Pitfalls
//!
//! A gap shorter than the threshold is not seen. At level 0 (by count) a cause is a guess among the
//! gaps of one window, never more often than counted. An idle kernel thread's wake-up counts as a
//! thread; a tick with its soft interrupt counts as the longer of the two. A busy loop keeps the
//! CPU from sleeping: an idle machine's noise differs. A CPU in nohz_full has no tick while one
//! task runs: then plumb finds none, and the counts confirm it. Interruptions are the subject of
//! this experiment, so switches in the window do not mark a round as disturbed.
//!
//! ## Sources
//!
//! [R4] A1 (table and figure 1.5); [sysjitter]; [rt-tests] oslat; [rtla]; [mardia] (Rayleigh's
//! test); [chernoff] (the bound on crowding); [man] proc(5), perf_event_open(2).

mod round;
pub(in crate::noise) mod seen;
mod shares;
mod ticking;
mod traces;

use super::attribution::{Level, cost};
use bench::prelude::*;
use laws::noise as law;
use record::order::Gather;
use round::{Settings, measure};

bench::experiment!(Activity);

/// A rehearsal's window, in ns.
const REHEARSAL_NS: u64 = 30_000_000;
/// Beyond the windows and what watches them: the threshold, room for gaps, the core clock.
const AROUND: Duration = Duration::from_millis(30);

symbols! {
    /// A CPU.
    pub enum Where { Quietest = "quietest"; Number(0, 8191, Count) }
}
case! {
    /// A CPU that is watched.
    pub struct Watched {
        /// where: quietest (the first of the CPUs to measure on) or a number
        cpu: Where,
    }
}

static CARD: Card = Card {
    id: "noise.activity",
    title: "Interruptions of a program that only runs",
    metrics: metrics! {
        "read_to_read" => Ns Lower Hardware over All:
            "resolution of the loop: median time between two reads of the counter";
        "threshold" => Ns None Os over All: "shortest time that counts as a gap";
        "gap" => Ns Lower Os over All: "length of a gap, in which the loop did not run";
        "active" => Ns Higher Os over All: "from the end of a gap to the next";
        "gap_rate" => Hz Lower Os over All: "gaps a second";
        "gap_rate_1us" => Hz Lower Os over All:
            "gaps of at least 1 µs per second, independent of the threshold";
        "longest_gap" => Ns Lower Os over Greatest: "longest gap of all rounds";
        "lost" => Ratio Lower Os over All: "share of the time in gaps";
        "lost_timer" => Ratio Lower Os over All: "share taken by the timer's interrupt";
        "lost_interrupt" => Ratio Lower Os over All: "share taken by other interrupts";
        "lost_softirq" => Ratio Lower Os over All: "share taken by soft interrupts";
        "lost_thread" => Ratio Lower Os over All: "share taken by other threads";
        "lost_plumb" => Ratio Lower Os over All: "share taken by plumb's own threads";
        "lost_throttled" => Ratio Lower Os over All: "share taken by a CPU quota";
        "lost_steal" => Ratio Lower Os over All:
            "share taken by the hypervisor (steal, as it reports)";
        "lost_unattributed" => Ratio Lower Os over All: "share without a known cause";
        "tick_period" => Ns None Os over All: "period of the tick, from the phase of the gaps";
        "other_period" => Ns None Os over All:
            "another period among gaps off the tick, if there is one";
        "other_gap" => Ns Lower Os over All: "median gap of that period";
    },
    params: params![
        Watched::PARAMS,
        settings! {
            "duration": Domain::ns(1_000_000, 86_400_000_000_000), ["100ms", "350ms", "9s"] =>
                "length of each of a round's two windows; an interval needs six rounds, at \
                 duration=1h twelve hours in bounded memory";
            "samples": Domain::count(1, 10_000), ["10", "30", "30"] =>
                "active and inactive periods in the table, and at least as many in the plot";
            "attribution": Domain::Symbols(&["auto", "counters", "switches", "tracepoints"]),
                ["counters", "auto", "auto"] =>
                "method for finding causes: auto (the best that permissions allow), or the given \
                 one at most; quick's rounds are too short for more than counters";
        }
    ],
    after: &["clock.rate", "clock.read"],
    views: &[ViewCard::spans("timeline", "periods").beside(&["active"])],
    keys: &[
        KeyFigure::new("CPU time lost", "", "lost", "cpu=quietest"),
        KeyFigure::new("longest interruption", "", "longest_gap", "cpu=quietest"),
    ],
    ..Card::PLAIN
};

impl Experiment for Activity {
    type Case = Watched;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("activity.rs");
    const SHARES: &'static [&'static str] = &[
        "lost",
        "lost_timer",
        "lost_interrupt",
        "lost_softirq",
        "lost_thread",
        "lost_plumb",
        "lost_throttled",
        "lost_steal",
        "lost_unattributed",
    ];
    // No gap, no tick, no other periodic source: that is a finding, no failure. A cause that the
    // level cannot see is unknown, and a threshold may be too high to count gaps of 1 µs.
    const MAY_LACK: &'static [&'static str] = &[
        "gap",
        "active",
        "longest_gap",
        "gap_rate_1us",
        "tick_period",
        "other_period",
        "other_gap",
        "lost_timer",
        "lost_interrupt",
        "lost_softirq",
        "lost_thread",
        "lost_plumb",
        "lost_throttled",
        "lost_steal",
    ];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, series| {
        let cases = u32::try_from(series.cases.len()).unwrap_or(u32::MAX);
        let Settings { duration_ns, at_most, .. } = Settings::from_series(series, false);
        let window = Duration::from_nanos(duration_ns as u64);
        let mut case = AROUND + window + cost(Level::Counters);
        if at_most > Level::Counters {
            case += window + cost(at_most);
        }
        case.saturating_mul(cases)
    };

    fn cases(_: &Site, _: Preset) -> Vec<Watched> {
        vec![Watched { cpu: Where::Quietest }]
    }

    fn absent(site: &Site, case: &Watched, _: &Params) -> Option<Skip> {
        cpu_of(site, case.cpu).err()
    }

    fn series(site: &Site, cases: Vec<Watched>, params: &Params) -> Result<Offer, Skip> {
        let setting = |name: &str| Some((name.to_owned(), params.get(name).first()?.clone()));
        let settings = ["duration", "samples", "attribution"].into_iter().filter_map(setting);
        let settings: BTreeMap<_, _> = settings.gather();
        Ok(Offer::sorted::<Self>(site, cases, params, |_, _| (String::new(), settings.clone())))
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            let cpu = Watched::from_id(&case.id).map_or(Where::Quietest, |watched| watched.cpu);
            let cpu = cpu_of(site, cpu)?;
            case.at.put("cpu", cpu as u64);
            let virtualisation = &site.host.kernel.virtualisation;
            let machine = match (virtualisation.is_guest, &virtualisation.hypervisor) {
                (Some(true), Some(hypervisor)) => hypervisor.as_str(),
                (Some(true), None) => "virtual",
                (Some(false), _) => "bare",
                (None, _) => continue,
            };
            case.at.put("machine", machine);
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Watched, _: &Case, metric: &Metric) -> Option<Prediction> {
        let site = facts.site;
        if facts.known.is_some() {
            return None;
        }
        let law = match metric.name.as_ref() {
            "tick_period" => Some(law::tick_period(site, cpu_of(site, case.cpu).ok())),
            "lost_throttled" => Some(law::throttled(site)),
            "lost" => law::lost(site, 1),
            _ => None,
        };
        Some(law.map_or_else(|| unknown(law::MEASURED), |law| law.prediction()))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let settings = Settings::from_series(series, bench.order().rehearsal);
        bench.each(series, |bench, case| measure(case, settings, bench));
        Ok(())
    }
}

fn cpu_of(site: &Site, cpu: Where) -> Result<usize, Skip> {
    let first = site.cpus.first().copied();
    let Where::Number(asked) = cpu else {
        return first.ok_or_else(|| Skip::because("there is no CPU to measure on"));
    };
    site.cpus.iter().copied().find(|cpu| *cpu as u64 == asked).ok_or_else(|| {
        Skip::because(format!(
            "CPU {asked} is not among those to measure on: {}",
            host::format_cpus(&site.cpus)
        ))
        .needs(format!("--cpu {asked}, if this process may use it"))
    })
}

#[cfg(test)]
mod tests;

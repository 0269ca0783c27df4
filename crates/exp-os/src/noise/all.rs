//! What interrupts programs when all CPUs are busy?
//!
//! ## Question
//!
//! A program that uses all CPUs is as slow as its slowest thread. How much time does each CPU lose
//! when all are busy, in how long pieces, and how long is the longest?
//!
//! ## Method
//!
//! One thread per allowed CPU, pinned, at nice -20 where allowed, runs the loop of noise.activity:
//! it reads the counter without pause, and a turn that takes longer than a threshold is a gap. Each
//! finds its own threshold and touches its room for gaps on its own CPU. All start at the same
//! time, 0.2 ms after the last thread woke up. None stops before all have finished, because an idle
//! CPU changes the others (the speed of its sibling, clocks, kernel work that moves to it).
//!
//! The round's own thread is one of them: during the window the worker has no other runnable
//! thread, and the session sleeps. The scheduler's statistics (`schedstat` of every thread of
//! plumb, before and after) verify this: runs and time, by name.
//!
//! Causes are those of noise.activity's level 0: per-CPU counters around the window, matched to
//! gaps by number.
//!
//! ## Prediction
//!
//! Noise is measured, not predicted: a machine's description does not say what else runs. A quota
//! for fewer CPUs than are busy takes the share that it does not grant.
//!
//! ## Reading the result
//!
//! `lost` of `all` is the mean of the CPUs. The trace `cpus` has a row for each CPU, even if there
//! are too many for cases, with shares by cause where counters show them (a cause without a column
//! is unknown, not 0). The trace `counters` has every line of /proc/interrupts and /proc/softirqs
//! that changed. A barrier at every millisecond costs the longest gap of any CPU in that
//! millisecond: it waits for `longest_gap` of `all`, not for `lost`. `lost_plumb` is the CPU time
//! of plumb's other threads on any CPU, from before to after the window; a note names them.
//!
//! ## Pitfalls
//!
//! A CPU quota below the number of CPUs throttles all of them; a note names this cause. On hybrid
//! or shared cores the loop's turns differ by CPU, and so do the thresholds. The scheduler may move
//! other programs' threads between CPUs: the sum over CPUs is more stable than one CPU's share.
//! CPUs that plumb may not use, or that are offline, are not seen. The kernel's count of steal has
//! steps of 10 ms. plumb stores at most 100,000 gaps of all CPUs individually; beyond that, causes
//! cover the first gaps of each CPU, with their share of the counts.
//!
//! ## Sources
//!
//! [sysjitter]; [rt-tests] oslat; [petrini]; [hoefler] (noise and barriers).

mod party;
mod written;

use bench::prelude::*;
use host::format_cpus;
use laws::noise::{self as law, MEASURED};

bench::experiment!(All);

/// A rehearsal's window, in ns.
const REHEARSAL_NS: u64 = 3_000_000;
/// Beyond the window: thresholds and counters' files, and making a thread.
const AROUND: Duration = Duration::from_millis(45);
const PER_CPU: Duration = Duration::from_micros(300);

symbols! {
    /// All CPUs together, or one of them.
    pub enum Whose { All = "all"; Number(0, 8191, Count) }
}
case! {
    /// Whose figure it is, while all work.
    pub struct AtWork {
        /// all (together), or the number of one among all at work; by default all, and each where
        /// they are few
        cpu: Whose,
    }
}

impl AtWork {
    /// The one CPU, if it is of one.
    fn one(&self) -> Option<usize> {
        match self.cpu {
            Whose::All => None,
            Whose::Number(cpu) => Some(cpu as usize),
        }
    }
}

static CARD: Card = Card {
    id: "noise.all",
    title: "Interruptions of every CPU at once",
    metrics: metrics! {
        "lost" => Ratio Lower Os over All: "share of the CPUs' time in which the loop did not run";
        "gap_rate" => Hz Lower Os over All: "gaps a second of one CPU";
        "gap" => Ns Lower Os over All: "length of a gap";
        "longest_gap" => Ns Lower Os over Greatest: "longest gap of all rounds, of any CPU";
        "lost_plumb" => Ratio Lower Os over All:
            "share of the CPUs' time in which plumb's other threads ran";
    },
    params: params![
        AtWork::PARAMS,
        settings! {
            "duration": Domain::ns(1_000_000, 86_400_000_000_000), ["50ms", "440ms", "10s"] =>
                "length of the window";
        }
    ],
    after: &["clock.rate", "noise.activity"],
    needs: &[Need::TwoCpus],
    views: &[ViewCard::bars("lost"), ViewCard::bars("longest_gap")],
    ..Card::PLAIN
};

impl Experiment for All {
    type Case = AtWork;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("all.rs");
    const SHARES: &'static [&'static str] = &["lost", "lost_plumb"];
    const ORDER: Order = Order::Fixed;
    // No gap at all is a finding; and a kernel may keep no scheduler statistics.
    const MAY_LACK: &'static [&'static str] = &["gap", "longest_gap", "lost_plumb"];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let cpus = u32::try_from(site.cpus.len()).unwrap_or(u32::MAX);
        let window = Duration::from_nanos(series.setting("duration").unwrap_or(REHEARSAL_NS));
        window + AROUND + PER_CPU.saturating_mul(cpus)
    };

    /// All together, and each where they are few.
    fn cases(site: &Site, preset: Preset) -> Vec<AtWork> {
        let each_max = if preset <= Preset::Quick { 4 } else { 16 };
        let mut cases = vec![AtWork { cpu: Whose::All }];
        if site.cpus.len() <= each_max {
            cases.extend(site.cpus.iter().map(|cpu| AtWork { cpu: Whose::Number(*cpu as u64) }));
        }
        cases
    }

    fn absent(site: &Site, case: &AtWork, _: &Params) -> Option<Skip> {
        let asked = case.one().filter(|cpu| !site.cpus.contains(cpu))?;
        let reason = match site.host.cpu.cpu(asked) {
            None => format!("there is no CPU {asked}"),
            Some(cpu) if !cpu.online => format!("CPU {asked} is offline"),
            Some(cpu) if !cpu.allowed => format!("this process may not use CPU {asked}"),
            Some(_) => format!("CPU {asked} is left out of those to measure on"),
        };
        Some(Skip::because(reason).needs(format!("one of CPUs {}", format_cpus(&site.cpus))))
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        let nobody = super::attribution::unattributed(&site.host.kernel.virtualisation);
        for case in &mut series.cases {
            let cpus = match AtWork::from_id(&case.id).and_then(|at_work| at_work.one()) {
                Some(cpu) => cpu.to_string(),
                None => format_cpus(&site.cpus),
            };
            case.at.put("cpus", cpus);
            case.at.put("nobody", nobody.clone());
        }
        Ok(series)
    }

    fn law(facts: Facts, _: &AtWork, _: &Case, metric: &Metric) -> Option<Prediction> {
        if facts.known.is_some() {
            return None;
        }
        let law = law::lost(facts.site, facts.site.cpus.len());
        let law = law.filter(|_| metric.name == "lost");
        Some(law.map_or_else(|| unknown(MEASURED), |law| law.prediction()))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let rehearsal = bench.order().rehearsal;
        let duration_ns = series.setting("duration").unwrap_or(REHEARSAL_NS);
        let duration_ns = if rehearsal { duration_ns.min(REHEARSAL_NS) } else { duration_ns };
        let cpus = bench.order().cpus.clone();
        let party = party::trace_all(&cpus, bench.order().clock(), duration_ns as f64, rehearsal)?;
        bench.declare(Declared::Cpus(&cpus));
        written::write(series, &party, bench);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

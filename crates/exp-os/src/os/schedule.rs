//! For how long does a process keep a CPU that others want, and who comes next?
//!
//! ## Question
//!
//! Some processes that never wait share one CPU. How long are their slices, what does the change
//! from one to the next take, in what order do they come, and is it fair?
//!
//! ## Method
//!
//! N processes are forked, pinned to the measuring CPU as their parent is, with its priority and in
//! its session; the parent sleeps until they have ended. They meet at a futex; the last to come
//! sets the start and the end of the window. Then each reads the counter without pause and keeps
//! the gaps (the loop of noise.activity) in memory that its parent shares. The threshold from which
//! on a stretch between two reads is a gap is found from the reads' own distribution, on the same
//! CPU before.
//!
//! The stretches in which each ran are put on one axis, that of the counter. A run is what one
//! process had with no other of them between; a gap inside it is an interruption, a gap between two
//! runs a switch. The window's first and last runs were begun or ended by it: they are in the
//! shares, not among the slices. A switch to a process that runs for the first time ends in its way
//! out of the futex and is left out as well. The tick's period is the resolution of
//! CLOCK_MONOTONIC_COARSE, its phase is where gaps come with that period; where two trains have it
//! (a guest whose host has the same rate), the one with most switches. A switch that starts within
//! a hundredth of the period (20 µs at least) of it is on the tick.
//!
//! ## Prediction
//!
//! The scheduler gives the CPU away at the first tick after a process has used up what it is
//! allowed. That is, since Linux 6.6 (EEVDF), the base slice: `se.slice` of /proc/self/sched
//! (6.12), else debugfs, else 0.75 ms (0.70 ms since 6.15) times 1 + log2 of the CPUs, at most 8,
//! rounded down. Before (CFS), 6 ms times that factor divided by N, but 0.75 ms times it at least.
//! A time that is close to whole ticks comes out as either number of them. `switch` is a tick and a
//! switch (derived: as os.switch measured it).
//!
//! ## Reading the result
//!
//! `slice` is the median run, interruptions inside it included; `slice_ticks` the same in ticks,
//! which is a little less than a whole number because the switch is no one's. `on_tick` near 1 says
//! that the tick takes the CPU away, not a wake-up or a timer of the scheduler's own. `rotation` 1
//! is round robin (two processes can but take turns, and have no such figure); `fairness` is Jain's
//! index: 1 where all had the same time, 1/N where one had all. `interrupted` is the time lost
//! inside runs; `lost` that and all switches: what no process had. The timeline has a lane for each
//! process, the table R4's columns. Each round's list `processes` has the rank of each in the order
//! of first run after fork, its whole slices, their median, and its share of the time (up to 16
//! processes also as `share_1`, `slice_1_ns` … beside `slice`). `birth_order`, there too, is the
//! share of pairs whose older one ran first: 1 is in the order of their making, 0 the last made
//! first (as R4 saw it).
//!
//! ## Pitfalls
//!
//! Time of others on the CPU cannot be told from a long interruption or switch one by one: it is in
//! `switch`, in `interrupted`, and in `lost`. The kernel's count of switches tells that others
//! came: so many of the longest interruptions are taken as theirs, and disturb the round where they
//! are more than 0.5 % of it. A quota for the control group stops all processes at once, in the
//! middle of slices. Slices are those of one session: where kernel.sched_autogroup_enabled is on,
//! or control groups weigh, processes of different groups share by group. Schedulers loaded through
//! sched_ext do as they like, and no slice is predicted. With HRTICK a timer of the scheduler's own
//! ends slices between ticks.
//!
//! ## Sources
//!
//! R4 part A2 (Memon and Walpitagamage 2016; figures 2.3); Linux `kernel/sched/fair.c`
//! (`update_deadline`, `check_preempt_tick`, `get_update_sysctl_factor`), commit 2ae891b82695;
//! Jain, Chiu and Hawe 1984.

mod grid;
mod line;
mod spin;
mod window;

use crate::noise::trace;
use anyhow::Result;
use bench::experiment::contract::{Experiment, Facts};
use bench::experiment::{
    Card, Domain, Fields, Known, Param, Params, Preset, Site, Skip, ViewCard, unknown,
};
use bench::measure::Bench;
use bench::{case, params};
use host::counters::Snapshot;
use host::{Outside, Root};
use laws::os::schedule as law;
use metal::clock::{Clock, getres_ns};
use metal::gaps::Gap;
use record::case::{Case, Series};
use record::event::Prediction;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use spin::Spin;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Schedule = Schedule;

/// `os.schedule`.
pub struct Schedule;

/// Slices of each process that a window has room for at least, where they are as predicted.
const SLICES_MIN: f64 = 4.0;
/// Gaps a second that a process has room for, ticks and switches apart, and beside that.
const GAPS_PER_S: f64 = 20_000.0;
const GAPS_MIN: usize = 4096;
/// Fork, first run and end of a process, for the cost that is stated.
const PROCESS: Duration = Duration::from_micros(600);
/// The threshold, the core clock and the worker's start and end.
const AROUND: Duration = Duration::from_millis(70);

const fn share(name: &'static str, doc: &'static str, better: Better) -> Metric {
    Metric::new(name, doc, Unit::Ratio, better, Kind::Os)
}

case! {
    /// Processes that want one CPU.
    pub struct Crowd {
        /// processes on the CPU
        processes: u64 = Domain::count(2, 64),
    }
}

static CARD: Card = Card {
    id: "os.schedule",
    title: "Time slices",
    metrics: &[
        Metric::new(
            "slice",
            "one process' time on the CPU until another's, interruptions included",
            Unit::Ns,
            Better::None,
            Kind::Os,
        ),
        share("slice_ticks", "the same in periods of the kernel's tick", Better::None),
        Metric::time(
            "switch",
            "from the last read of one process to the first of the next",
            Kind::Os,
        ),
        share("on_tick", "share of the switches that start with a tick", Better::None),
        share(
            "rotation",
            "share of the switches that go to the process that has waited longest",
            Better::None,
        ),
        share("fairness", "Jain's index of the time that the processes had", Better::Higher),
        share(
            "interrupted",
            "share of the time lost to interruptions inside slices",
            Better::Lower,
        ),
        share(
            "lost",
            "share of the time that no process had: interruptions and switches",
            Better::Lower,
        ),
    ],
    params: params![
        Crowd::PARAMS,
        &[Param::setting(
            "samples",
            "active periods of each process, as R4 counts them: a tick ends one, so the window is so many \
             ticks for each process; where slices of several ticks are predicted, four of them at least",
            Domain::count(4, 10_000),
            ["15", "15", "30"],
        )],
    ],
    after: &["os.switch"],
    views: &[ViewCard::spans(window::TIMELINE, window::SWITCHES)],
    ..Card::PLAIN
};

impl Experiment for Schedule {
    type Case = Crowd;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("schedule.rs");
    /// A process that never ran leaves no order to speak of, which is a finding.
    const MAY_LACK: &'static [&'static str] = &["rotation"];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let crowds = series.cases.iter().filter_map(|case| Crowd::of(&case.id));
        let each = crowds.map(|Crowd { processes }| {
            let window_ns = planned_window_ns(site, samples(series), processes);
            Duration::from_nanos(window_ns as u64) + PROCESS * processes as u32
        });
        AROUND + each.sum::<Duration>()
    };

    fn cases(_: &Site, preset: Preset) -> Vec<Crowd> {
        let counts: &[u64] = match preset {
            Preset::Rehearsal | Preset::Quick => &[2],
            Preset::Standard => &[2, 3, 5],
            Preset::Thorough => &[2, 3, 5, 8, 16],
        };
        counts.iter().map(|&processes| Crowd { processes }).collect()
    }

    fn absent(site: &Site, case: &Crowd, params: &Params) -> Option<Skip> {
        let samples = params.ints("samples").first().copied().unwrap_or(SAMPLES);
        let window_ns = planned_window_ns(site, samples, case.processes);
        let bytes = case.processes * (room(window_ns) * size_of::<Gap>()) as u64;
        let there = site.memory_bytes;
        (bytes > there).then(|| {
            Skip::because(format!(
                "the gaps of all processes take {bytes} B, {there} B may be touched"
            ))
            .needs("fewer processes, or fewer os.schedule.samples")
        })
    }

    fn resolve(site: &Site, _: &Known, mut series: Series) -> Result<Series, Skip> {
        for case in &mut series.cases {
            if let Some(Crowd { processes }) = Crowd::of(&case.id) {
                let least_ns = (least_ns(site, processes).round() as u64).into();
                case.at.insert(LEAST.to_owned(), least_ns);
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, case: &Crowd, _: &Case, metric: &Metric) -> Option<Prediction> {
        let (site, processes) = (facts.site, case.processes);
        let law = match (&*metric.name, facts.known) {
            ("switch", Some(known)) => {
                law::measured_switch(known)?;
                law::switch(facts, processes)
            }
            (_, Some(_)) => return None,
            ("slice", _) => law::slice(site, processes),
            ("slice_ticks", _) => law::slice_ticks(site, processes),
            ("switch", _) => law::switch(facts, processes),
            ("on_tick", _) => law::on_tick(site),
            ("rotation", _) if processes == 2 => {
                return Some(unknown("two processes can but take turns: no figure"));
            }
            ("rotation", _) => law::rotation(),
            ("fairness", _) => law::fairness(site),
            ("interrupted", _) => law::interrupted(site, processes),
            _ => law::lost(site, processes),
        };
        Some(law.prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let tick_ns = getres_ns(Clock::MONOTONIC_COARSE) as f64;
        let threshold = match trace::threshold(bench.order().clock(), bench.order().rehearsal) {
            Ok(threshold) => threshold,
            Err(error) => {
                bench.give_up(&series.cases, &error);
                return Ok(());
            }
        };
        bench.each_of::<Crowd>(&series.cases, |bench, case, Crowd { processes }| {
            let least_ns = case.int(LEAST).unwrap_or(0) as f64;
            let window_ns = window_ns(samples(series), processes, tick_ns, least_ns);
            let cpu = [bench.order().cpu()];
            let before = counters(&cpu);
            let spun = spin::spin(Spin {
                processes: usize::try_from(processes)?,
                threshold: threshold.ticks,
                window: bench.order().clock().ticks(window_ns),
                room: room(window_ns),
            })?;
            let moved = counters(&cpu).delta(&before);
            window::write(bench, case, &spun, &threshold, tick_ns, &moved)
        });
        Ok(())
    }
}

/// Key of `at`: ns that each process is in the window at least.
const LEAST: &str = "least_ns";

/// Active periods of each process, unless the user or a preset says otherwise.
const SAMPLES: u64 = 15;

fn samples(series: &Series) -> u64 {
    series.setting("samples").unwrap_or(SAMPLES)
}

/// ns that each process is in the window at least.
fn least_ns(site: &Site, processes: u64) -> f64 {
    SLICES_MIN * law::slice(site, processes).range.likely
}

/// Length of a case's window, in ns.
fn window_ns(samples: u64, processes: u64, tick_ns: f64, least_ns: f64) -> f64 {
    processes as f64 * (samples as f64 * tick_ns).max(least_ns)
}

fn planned_window_ns(site: &Site, samples: u64, processes: u64) -> f64 {
    let tick_ns = law::tick_ns(site).unwrap_or(law::TICK_USUAL_NS);
    window_ns(samples, processes, tick_ns, least_ns(site, processes))
}

fn room(window_ns: f64) -> usize {
    GAPS_MIN + (window_ns / 1e9 * GAPS_PER_S) as usize
}

fn counters(cpus: &[usize]) -> Snapshot {
    Snapshot::read(&Root::live(Outside::default()), cpus)
}

#[cfg(test)]
mod tests;

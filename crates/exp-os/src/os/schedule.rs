//! How long does a process keep a contended CPU, and which process runs next?
//!
//! ## Question
//!
//! Several processes that never wait share one CPU. How long are their slices, how long does a
//! switch take, in which order do they run, and is the distribution fair?
//!
//! ## Method
//!
//! N processes are forked, pinned to the measuring CPU as their parent is, with its priority and in
//! its session; the parent sleeps until they have ended. They meet at a futex; the last to arrive
//! sets the start and the end of the window. Then each reads the counter without pause and stores
//! its gaps (the loop of noise.activity) in memory shared with the parent. plumb derives the
//! threshold of a gap from the distribution of the reads, measured beforehand on the same CPU.
//!
//! The run times of all processes are merged on the axis of the counter. A run is the time in which
//! one process ran with no other of them in between; a gap inside it is an interruption, a gap
//! between two runs a switch. The window cuts the first and the last run: they count in the shares,
//! not as slices. A switch to a process that runs for the first time includes its exit from the
//! futex and is left out as well. The tick's period is the resolution of CLOCK_MONOTONIC_COARSE,
//! its phase is where gaps come with that period; if two series of gaps have it (a guest whose host
//! has the same rate), the one with most switches. A switch that starts within a hundredth of the
//! period (at least 20 µs) of the tick is on the tick.
//!
//! ## Prediction
//!
//! The scheduler switches at the first tick after a process has used up its slice. Since Linux 6.6
//! (EEVDF) that is the base slice: `se.slice` of /proc/self/sched (6.12), else debugfs, else 0.75
//! ms (0.70 ms since 6.15) times 1 + log2 of the CPUs, at most 8, rounded down. Before (CFS), 6 ms
//! times that factor divided by N, but 0.75 ms times it at least. A time close to whole ticks may
//! be rounded either way. `switch` is a tick and a switch (derived: as os.switch measured it).
//!
//! ## Reading the result
//!
//! `slice` is the median run, interruptions inside it included; `slice_ticks` the same in ticks,
//! which is slightly below a whole number because the switch belongs to no process. `on_tick` near
//! 1 means that the tick causes the switches, not a wake-up or a timer of the scheduler. `rotation`
//! 1 is round robin (two processes can only take turns and have no such figure). `fairness` is
//! Jain's index: 1 if all had the same time, 1/N if one had all. `interrupted` is the time lost
//! inside runs; `lost` also includes all switches: the time in which no process ran. The timeline
//! has a lane for each process, the table R4's columns. Each round's list `processes` has the rank
//! of each in the order of first run after fork, its whole slices, their median, and its share of
//! the time (up to 16 processes also as `share_1`, `slice_1_ns` … beside `slice`). `birth_order`,
//! there too, is the share of pairs in which the older one ran first: 1 is the order of creation, 0
//! the reverse (as in R4).
//!
//! ## Pitfalls
//!
//! A single long interruption or switch may be another program's time on the CPU: it is in
//! `switch`, in `interrupted`, and in `lost`. The kernel's count of switches shows that other
//! programs ran: plumb attributes that number of the longest interruptions to them and marks the
//! round as disturbed if they exceed 0.5 % of its time. A quota for the control group stops all
//! processes at once, in the middle of slices. Slices are those of one session: where
//! kernel.sched_autogroup_enabled is on, or control groups weigh, processes of different groups
//! share by group. Schedulers loaded through sched_ext follow their own rules, so plumb predicts no
//! slice for them. With HRTICK the scheduler's own timer ends slices between ticks.
//!
//! ## Sources
//!
//! [R4] part A2 (figures 2.3); [linux] kernel/sched/fair.c (`update_deadline`,
//! `check_preempt_tick`, `get_update_sysctl_factor`), commit 2ae891b82695; [jain-fairness].

mod grid;
mod line;
mod spin;
mod window;

use crate::noise::trace;
use bench::prelude::*;
use host::counters::Snapshot;
use host::{Outside, Root};
use laws::os::schedule as law;
use metal::clock::{Clock, getres_ns};
use metal::gaps::Gap;
use spin::Spin;

bench::experiment!(Schedule);

/// Slices of each process that a window has room for at least, where they are as predicted.
const SLICES_MIN: f64 = 4.0;
/// Gaps a second that a process has room for, ticks and switches apart, and beside that.
const GAPS_PER_S: f64 = 20_000.0;
const GAPS_MIN: usize = 4096;
/// Fork, first run and end of a process, for the cost that is stated.
const PROCESS: Duration = Duration::from_micros(600);
/// The threshold, the core clock and the worker's start and end.
const AROUND: Duration = Duration::from_millis(70);

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
    metrics: metrics! {
        "slice" => Ns None Os:
            "time that one process runs until another one does, interruptions included";
        "slice_ticks" => Ratio None Os: "the same, in periods of the kernel's tick";
        "switch" => Ns Lower Os: "from the last read of one process to the first of the next";
        "on_tick" => Ratio None Os: "share of the switches at a tick";
        "rotation" => Ratio None Os:
            "share of the switches that go to the process that has waited longest";
        "fairness" => Ratio Higher Os: "Jain's fairness index of the processes' CPU time";
        "interrupted" => Ratio Lower Os: "share of the time lost to interruptions inside slices";
        "lost" => Ratio Lower Os:
            "share of the time in which no process ran: interruptions and switches";
    },
    params: params![
        Crowd::PARAMS,
        settings! {
            "samples": Domain::count(4, 10_000), ["15", "15", "30"] =>
                "active periods per process, as in report R4: a tick ends one, so the window is \
                 this many ticks for each process; at least four slices where slices of several \
                 ticks are predicted";
        },
    ],
    after: &["os.switch"],
    views: &[ViewCard::spans(window::TIMELINE, window::SWITCHES).beside(&["slice"])],
    ..Card::PLAIN
};

impl Experiment for Schedule {
    type Case = Crowd;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("schedule.rs");
    const SHARES: &'static [&'static str] =
        &["on_tick", "rotation", "fairness", "interrupted", "lost"];
    /// A process that never ran leaves no order to speak of, which is a finding.
    const MAY_LACK: &'static [&'static str] = &["rotation"];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |site, series| {
        let crowds = series.cases.iter().filter_map(|case| Crowd::from_id(&case.id));
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
            if let Some(Crowd { processes }) = Crowd::from_id(&case.id) {
                case.at.put(LEAST, least_ns(site, processes).round() as u64);
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
                return Some(unknown("no figure: two processes can only take turns"));
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

//! How late does a sleeper wake?
//!
//! ## Question
//!
//! A program requests a wake-up at a given time. How much later does it run, how much does that
//! vary, and which part is the kernel's deliberate delay (timer slack), the exit from an idle
//! state, the scheduler, or another program on the CPU?
//!
//! ## Method
//!
//! One thread, pinned, sleeps to the points `t0 + k * spacing` of a grid by `clock_nanosleep` with
//! TIMER_ABSTIME, and reads the same clock when it comes back: `latency` is actual less intended,
//! one event for each point. The grid does not wait (open loop): a late wake-up does not move the
//! next point, and a point that has already passed counts at once, with its full lateness. So no
//! delay hides the next one (coordinated omission). `missed` is the share of points that passed
//! before the sleeper had returned from the previous one. The first points, 5 ms of the grid and
//! one at least, are not counted. Both times of each counted point are in the record: the trace
//! `wakeups` with `intended_ns` and `actual_ns`, from t0. The loop makes these two calls and
//! nothing else; its memory is touched before.
//!
//! Load: with `idle` plumb runs nothing else, so the CPU goes idle between the points; with `same`
//! one process of the sleeper's priority spins on the sleeper's CPU; with `others` one such process
//! spins on every other CPU of the run. Spinners compute in registers without a pause instruction,
//! which a hypervisor would take for a lock. Outside the windows they block. Each must make
//! progress within its window, or the case fails.
//!
//! Sleepers have the timer slack of any process: the kernel's 50 µs, unless it was changed.
//! `slack=least` requests 1 ns. Real-time policies have none, so their cases have no such
//! parameter; priorities (nice) do not change it. `policy=fifo` is SCHED_FIFO with priority 80, for
//! the window alone. `idle_states=held_off` keeps 0 µs in /dev/cpu_dma_latency open during the
//! round, as cyclictest does by default: the CPUs then poll instead of going idle.
//!
//! Quick and standard vary `clock`, `policy`, `slack` and `idle_states` one at a time, starting
//! from the first requested value, at the first spacing; thorough runs every combination.
//!
//! ## Prediction
//!
//! Noise is measured, not predicted: a machine's description does not say what else runs. os.timer
//! predicts the lateness of one timer.
//!
//! ## Reading the result
//!
//! The figure is the median; the distribution over all rounds has the 99th percentile and the
//! maximum. Real-time work needs the maximum; it grows with the measuring time. `slack=default`
//! less `slack=least` is the effect of PR_SET_TIMERSLACK. The difference between 100 ms and 1 ms is
//! the deeper idle state and caches that other programs used meanwhile. `same` with `fifo` is the
//! interrupt and the switch alone.
//!
//! ## Pitfalls
//!
//! cyclictest sets /dev/cpu_dma_latency to 0 and, with `-p`, has no slack: its default and this
//! one's differ by 50 µs and more. It also omits points that have passed, so a long delay counts
//! once. Another process may hold /dev/cpu_dma_latency open (tuned's latency profiles): if the file
//! is readable, a note reports it. A wall clock that is set during a window fails the case. Under a
//! CPU quota spinners would throttle the sleeper, so these cases are skipped. Wake-ups of other
//! timers within the slack make single events earlier.
//!
//! ## Sources
//!
//! [man] clock_nanosleep(2), prctl(2) PR_SET_TIMERSLACK; [linux] kernel/time/hrtimer.c,
//! Documentation/admin-guide/pm/cpuidle.rst; [rt-tests] cyclictest; [tene] (coordinated omission).

mod hold;
pub(crate) mod load;
mod plan;

use bench::prelude::*;
use hold::NoIdling;
use laws::noise::MEASURED;
use load::Loads;
use metal::clock::{Clock, vdso_clock_gettime};
use metal::deadline::Deadline;
use metal::place;
use metal::process::rusage_thread;
use metal::sleep::{TimerSlack, Wakeup, along_grid, timer_slack_ns};

bench::experiment!(Wakeups);

/// The way to the first point of a grid, at most.
const BEGIN_NS: u64 = 1_000_000;
/// Points that do not count, as time.
const LEAD_NS: u64 = 5_000_000;
/// A sleeper that is so much behind its grid is lost.
const LOST: Duration = Duration::from_secs(5);
/// How far two clocks may part in a window: this, or NTP's largest slew rate (500 ppm).
const PARTED_NS: f64 = 1e6;
const SLEW: f64 = 1e-3;
/// At least this share of the points that had not passed should have been slept to.
const SLEPT: f64 = 0.9;

symbols! {
    /// What else runs: nothing of plumb's, a process that spins on the sleeper's CPU, or one on
    /// every other.
    pub enum Load { Idle = "idle", Same = "same", Others = "others" }
}
symbols! {
    /// The clock of the grid.
    pub enum GridClock { Monotonic = "monotonic", Realtime = "realtime" }
}
symbols! {
    /// The sleeper's scheduling policy.
    pub enum Policy { Other = "other", Fifo = "fifo" }
}
symbols! {
    /// The slack that a sleeper has: what the process was given, or 1 ns.
    pub enum Slack { Default = "default", Least = "least" }
}
symbols! {
    /// Idle states as the machine has them, or none: no exit latency at all is asked for.
    pub enum IdleStates { Allowed = "allowed", HeldOff = "held_off" }
}
case! {
    /// A sleep in the grid.
    pub struct Sleep {
        /// time between two points of the grid
        spacing: u64 = Domain::ns(50_000, 10_000_000_000),
        /// other load: none, a process that spins on the sleeper's CPU, or one on each other CPU
        load: Load,
        /// clock of the grid, the sleep and the reading
        clock: GridClock,
        /// the sleeper's scheduling policy: SCHED_OTHER, or SCHED_FIFO with priority 80
        policy: Policy,
        /// the sleeper's timer slack: inherited by the process, or 1 ns; fifo has none
        slack: Option<Slack>,
        /// idle states as configured, or disabled with 0 µs in /dev/cpu_dma_latency
        idle_states: IdleStates,
    }
}

impl Sleep {
    /// One of a spacing in ns with nothing else chosen.
    const fn plain(spacing: u64) -> Sleep {
        Sleep {
            spacing,
            load: Load::Idle,
            clock: GridClock::Monotonic,
            policy: Policy::Other,
            slack: Some(Slack::Default),
            idle_states: IdleStates::Allowed,
        }
    }
}

static CARD: Card = Card {
    id: "noise.wakeup",
    title: "Late wake-ups",
    metrics: metrics! {
        "latency" => Ns Lower Os over All:
            "from the scheduled end of a sleep to the sleeper's first reading of the clock";
        "missed" => Ratio Lower Os over All:
            "share of the wake-up times that passed before the sleeper had returned from the \
             previous one";
    },
    params: params![
        Sleep::PARAMS,
        settings! {
            "sleeps": Domain::Either(&["auto"], 1, 1_000_000, Unit::Count), ["auto"; 3] =>
                "wake-up times per case and round; auto: as many as fit the preset's time, at \
                 least 2 (too few for a tail)";
        }
    ],
    after: &["clock.rate", "os.switch"],
    views: &[ViewCard::bars("latency").each(&["spacing"])],
    keys: &[KeyFigure::new(
        "timer wake-up",
        "",
        "latency",
        "spacing=1000000,load=idle,clock=monotonic,policy=other,slack=default,\
             idle_states=allowed",
    )],
    ..Card::PLAIN
};

impl Experiment for Wakeups {
    type Case = Sleep;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("wakeup.rs");
    const SHARES: &'static [&'static str] = &["missed"];
    const ROUND_COST: fn(&Site, &Series) -> Duration = |_, series| plan::round_cost(series);

    fn cases(_: &Site, preset: Preset) -> Vec<Sleep> {
        plan::sleeps(preset)
    }

    fn complete(sleep: Sleep) -> Option<Sleep> {
        Some(match sleep.policy {
            Policy::Fifo => Sleep { slack: None, ..sleep },
            Policy::Other => sleep,
        })
    }

    fn absent(site: &Site, sleep: &Sleep, _: &Params) -> Option<Skip> {
        plan::refused(site, sleep)
    }

    fn series(site: &Site, cases: Vec<Sleep>, params: &Params) -> Result<Offer, Skip> {
        plan::offer(site, cases, params)
    }

    fn resolve(_: &Site, _: &Known, series: Series) -> Result<Series, Skip> {
        // All cases of a series ask for the same rights.
        if let Some(sleep) = series.cases.first().and_then(|case| Sleep::from_id(&case.id)) {
            if sleep.policy == Policy::Fifo {
                hold::may_be_fifo()?;
            }
            if sleep.idle_states == IdleStates::HeldOff {
                hold::may_hold_off()?;
            }
        }
        Ok(series)
    }

    fn law(facts: Facts, _: &Sleep, _: &Case, _: &Metric) -> Option<Prediction> {
        facts.known.is_none().then(|| unknown(MEASURED))
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let is_held_off = |case: &Case| {
            Sleep::from_id(&case.id).is_some_and(|sleep| sleep.idle_states == IdleStates::HeldOff)
        };
        let states = match series.cases.iter().any(is_held_off) {
            true => NoIdling::asked_for()?,
            false => NoIdling::not_asked_for(),
        };
        let mut loads = Loads::default();
        bench.each_of::<Sleep>(series, |bench, case, sleep| {
            measure(case, &sleep, bench, &mut loads, &states)
        });
        Ok(())
    }
}

fn measure(
    case: &Case,
    sleep: &Sleep,
    bench: &mut Bench,
    loads: &mut Loads,
    states: &NoIdling,
) -> Result<()> {
    let rehearsal = bench.order().rehearsal;
    let sleeps = match rehearsal {
        true => plan::REHEARSAL_SLEEPS,
        false => usize::try_from(case.int("sleeps").context("the case was not planned")?)?,
    };
    // Whatever becomes of the sleeper: the next case begins without this one's load.
    let window = loads.beside(&plan::load_cpus(case), rehearsal, || sleep_along(sleep, sleeps))?;
    ensure!(
        place::current_cpu() == bench.order().cpu(),
        "the sleeper woke on another CPU than {}",
        bench.order().cpu()
    );
    if sleep.load == Load::Same {
        // To lose the CPU to the spinner is what such a case is about.
        bench.declare(Declared::Switches(window.involuntary));
    }
    write(case, bench, &window, states)
}

struct Window {
    /// Every point of the grid.
    wakeups: Vec<Wakeup>,
    /// How many of them, the first ones, do not count.
    lead: usize,
    /// Timer slack that applied, in ns.
    slack_ns: u64,
    /// How often the sleeper gave the CPU up, and lost it.
    voluntary: u64,
    involuntary: u64,
}

/// Sleeps along the grid under the case's policy and slack.
fn sleep_along(sleep: &Sleep, sleeps: usize) -> Result<Window> {
    let spacing_ns = sleep.spacing;
    let clock = match sleep.clock {
        GridClock::Realtime => Clock::REALTIME,
        GridClock::Monotonic => Clock::MONOTONIC,
    };
    let lead = usize::try_from((LEAD_NS / spacing_ns).max(1))?;
    let mut wakeups = vec![Wakeup::default(); lead + sleeps];
    let slack = match sleep.slack {
        Some(Slack::Least) => Some(TimerSlack::set(1).context("setting the timer slack")?),
        _ => None,
    };
    let fifo = match sleep.policy {
        Policy::Fifo => Some(hold::fifo()?),
        Policy::Other => None,
    };
    let slack_ns = match &fifo {
        Some(_) => 0,
        None => timer_slack_ns().context("reading the timer slack")?,
    };
    let whole = Duration::from_nanos(spacing_ns.saturating_mul(wakeups.len() as u64));
    let deadline = Deadline::after(whole + LOST).context("a limit for the sleeps")?;
    let before = rusage_thread();
    let before_ns = beyond_ns(clock);
    let first_ns = vdso_clock_gettime(clock) + BEGIN_NS.min(spacing_ns);
    let slept = along_grid(clock, first_ns, spacing_ns, &mut wakeups);
    let apart_ns = (beyond_ns(clock) - before_ns) as f64;
    let after = rusage_thread();
    drop((deadline, fifo, slack));
    if let Err(error) = slept {
        bail!(
            "the sleeps ended with: {error} (the clock went {apart_ns:.0} ns beyond the monotonic one)"
        );
    }
    let allowed_ns = PARTED_NS.max(SLEW * whole.as_nanos() as f64);
    ensure!(
        apart_ns.abs() <= allowed_ns,
        "the wall clock was set by {:.3} ms while the sleeper slept",
        apart_ns / 1e6
    );
    let voluntary = after.nvcsw.saturating_sub(before.nvcsw);
    let involuntary = after.nivcsw.saturating_sub(before.nivcsw);
    Ok(Window { wakeups, lead, slack_ns, voluntary, involuntary })
}

/// How far a clock is beyond the monotonic one.
fn beyond_ns(clock: Clock) -> i128 {
    let monotonic_ns = vdso_clock_gettime(Clock::MONOTONIC);
    i128::from(vdso_clock_gettime(clock)) - i128::from(monotonic_ns)
}

fn write(case: &Case, bench: &mut Bench, window: &Window, states: &NoIdling) -> Result<()> {
    let counted = &window.wakeups[window.lead..];
    // Whether the first of them had passed depends on the point before.
    let missed_ones = missed(&window.wakeups[window.lead - 1..]);
    let from_ns = window.wakeups[0].intended_ns;
    let rows = counted
        .iter()
        .map(|wakeup| {
            let intended_ns = (wakeup.intended_ns - from_ns) as f64;
            vec![intended_ns, intended_ns + wakeup.late_ns() as f64]
        })
        .collect();
    bench.trace(case, "wakeups", &["intended_ns", "actual_ns"], rows)?;
    let late_ns = counted.iter().map(|wakeup| wakeup.late_ns() as f64);
    let samples = bench.record(case, "latency", late_ns.collect::<Vec<_>>())?;
    samples.set_quantities([
        ("timer_slack_ns", window.slack_ns as f64),
        ("voluntary_switches", window.voluntary as f64),
        ("involuntary_switches", window.involuntary as f64),
    ]);
    samples.notes.extend(states.note());
    let due = window.wakeups.len() - missed(&window.wakeups);
    if (window.voluntary as f64) < SLEPT * due as f64 {
        samples.notes.push(format!(
            "of {due} sleeps to a time to come {} gave up the CPU",
            window.voluntary
        ));
    }
    let share = missed_ones as f64 / counted.len() as f64;
    bench.record(case, "missed", Values::batches(counted.len() as u64, vec![share]))?;
    Ok(())
}

/// Points, of all but the first, that had passed before the sleeper was back from the one before.
fn missed(wakeups: &[Wakeup]) -> usize {
    wakeups.windows(2).filter(|two| two[0].actual_ns >= two[1].intended_ns).count()
}

#[cfg(test)]
mod tests;

//! Laws of wake-ups: how late a sleeper comes back from a sleep to a given time.
//!
//! The kernel may put the timer off by the thread's slack; then an interrupt, the exit from the idle
//! state that the governor chose for a gap of this length, and the scheduler. Cycles are starting
//! values for Linux 6.x from memory of usual figures (cyclictest under a real-time policy on idle
//! server cores of 3 GHz: 2 to 5 µs without deep idle states), adjusted to no machine.

use crate::os::schedule;
use crate::{Law, around, cpu, range, scaled, sum};
use bench::experiment::{Known, Site};
use host::cpu::IdleState;
use record::event::{Condition, Range};
use record::key::CaseId;

/// Slack that Linux gives a process that asks for none.
const USUAL_SLACK_NS: f64 = 50_000.0;

/// From this spacing on a halted guest's host may choose its deepest idle states, which tell a guest
/// nothing: their target residencies are 0.6 to 2 ms on servers.
const HOST_SLEEPS_NS: f64 = 5e6;

/// What leaving them takes, in ns: servers state 100 to 170 µs (intel_idle's C6).
const HOST_WAKES: Range = range(0.0, 20_000.0, 150_000.0);
/// What else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing of plumb's.
    Idle,
    /// A process that spins on the sleeper's CPU.
    Same,
    /// One on every other CPU.
    Others,
}

/// The slack that a sleeper has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// What the process was given.
    Default,
    /// 1 ns, or none under a real-time policy.
    Least,
}

/// A sleep in the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// Distance of two points, in ns.
    pub spacing_ns: f64,
    /// What else runs.
    pub load: Load,
    /// Under SCHED_FIFO.
    pub fifo: bool,
    /// Slack, where the policy has one.
    pub slack: Slack,
    /// The kernel was asked for no exit latency at all.
    pub held_off: bool,
}

/// Whether earlier figures add anything to a sleep: the switch on one CPU is known, or the wake-up of
/// another.
pub fn tells(known: &Known) -> bool {
    measured_switch(known, "same").is_some()
}

/// Lateness of a sleep, in ns.
pub fn latency(site: &Site, known: Option<&Known>, sleep: &Sleep) -> Law {
    let slack = slack(site, sleep);
    let path = path(site, known, sleep);
    let from_idle = match (sleep.load, sleep.held_off) {
        (Load::Same, _) => None,
        (_, true) => Some(Law::new(0.0, 50.0, 1_000.0, "no idle state to leave: the CPU polls")),
        _ => Some(idle_exit(site, known, sleep)),
    };
    let total = match from_idle {
        Some(from_idle) => slack + from_idle + path,
        None => slack + path,
    };
    preempting(site, sleep, total)
}

/// By how much the kernel puts the timer off, in ns.
fn slack(site: &Site, sleep: &Sleep) -> Law {
    if sleep.fifo {
        return Law::new(0.0, 0.0, 0.0, "software: a real-time policy has no timer slack");
    }
    let told = site.host.kernel.timer_slack_ns.map(|ns| ns as f64);
    let (slack_ns, from) = match (sleep.slack, told) {
        (Slack::Least, _) => (1.0, "asked for"),
        (Slack::Default, Some(ns)) => (ns, "/proc/self/timerslack_ns"),
        (Slack::Default, None) => (USUAL_SLACK_NS, "the usual one; this kernel does not tell"),
    };
    let estimate = Law::new(
        // Another timer's interrupt in the meantime serves this one too.
        0.9 * slack_ns,
        slack_ns,
        slack_ns,
        format!("software: the timer is put off by its slack of {:.0} µs ({from})", slack_ns / 1e3),
    );
    match (sleep.slack, told) {
        (Slack::Default, None) => estimate.widened(20.0, 1.0, "perhaps none"),
        _ => estimate,
    }
}

/// From the timer's interrupt on a CPU that runs to the clock read after the sleep, in ns.
fn path(site: &Site, known: Option<&Known>, sleep: &Sleep) -> Law {
    // Beside a spinner the CPU is awake and its caches are as the sleeper left them.
    let is_awake = sleep.load == Load::Same;
    let (mut cycles, mut what) = (
        match is_awake {
            true => range(2_500.0, 6_500.0, 14_000.0),
            false => range(1_800.0, 6_500.0, 18_000.0),
        },
        "software: the timer's interrupt, a wake-up, a switch and the way out of the kernel",
    );
    let mut switch = None;
    if let Some(ns) = known.and_then(|known| measured_switch(known, "same")) {
        cycles = match is_awake {
            true => range(1_200.0, 3_500.0, 10_000.0),
            false => range(900.0, 3_500.0, 13_000.0),
        };
        what = "software: the timer's interrupt and the way out of the kernel";
        switch = Some(Law::of(
            scaled(around(ns, 0.5), 1.1),
            format!("a wake-up and a switch took {ns:.0} ns (measured by os.switch)"),
        ));
    }
    let work = cpu::time_of(crate::Facts { site, known }, cycles, "");
    let mut path = Law::of(
        work.range,
        format!("{what}, {:.0} to {:.0} cycles{}", cycles.low, cycles.high, work.because()),
    );
    if let Some(switch) = switch {
        path = Law::of(
            sum(path.range, switch.range),
            format!("{}; {}", path.because(), switch.because()),
        );
    }
    let path = delivered(site, by_thread(site, known, sleep, path));
    match sleep.load {
        Load::Others => path.widened(
            1.2,
            1.6,
            "the spinners share caches, the core clock's budget and perhaps the core",
        ),
        _ => path,
    }
}

/// Adds the way through a thread of the kernel's, by which real-time kernels end ordinary threads' sleeps.
fn by_thread(site: &Site, known: Option<&Known>, sleep: &Sleep, path: Law) -> Law {
    if sleep.fifo || site.host.kernel.preemption.as_deref() != Some("rt") {
        return path;
    }
    let hop = cpu::time_of(crate::Facts { site, known }, range(1_500.0, 7_000.0, 30_000.0), "");
    let range = sum(path.range, hop.range);
    path.at(range).and(
        "a real-time kernel (PREEMPT_RT) ends the sleeps of ordinary threads in a softirq's thread: 1500 \
         to 30000 cycles more",
    )
}

/// Adds the hypervisor's part in an interrupt of the timer.
fn delivered(site: &Site, path: Law) -> Law {
    match site.host.kernel.virtualisation.is_guest {
        Some(true) => {
            let exit = range(500.0, 8_000.0, 45_000.0);
            let range = sum(path.range, exit);
            path.at(range)
                .and("the timer is the hypervisor's, which has to interrupt this CPU: 0.5 to 45 µs")
                .counting(Condition::Hypervisor)
        }
        Some(false) => path,
        None => path.widened(1.0, 4.0, "perhaps a virtual machine"),
    }
}

/// From the timer's interrupt to the first instruction of a CPU that was idle since the last point,
/// in ns.
fn idle_exit(site: &Site, known: Option<&Known>, sleep: &Sleep) -> Law {
    if cpu::is_guest(site) {
        let halted = known.and_then(measured_wake);
        let halt = match halted {
            Some(ns) => Law::new(
                // A guest's wake-up by another CPU is an exit of both; here only one is left.
                0.1 * ns,
                0.7 * ns,
                2.0 * ns + 10_000.0,
                format!(
                    "base hardware: a halt that leaves to the hypervisor; waking another CPU took \
                     {ns:.0} ns (measured by os.switch)"
                ),
            ),
            None => Law::new(
                500.0,
                10_000.0,
                90_000.0,
                "base hardware: a halt that leaves to the hypervisor, which may poll or not: 0.5 to \
                 90 µs",
            ),
        }
        .counting(Condition::Hypervisor);
        if sleep.spacing_ns < HOST_SLEEPS_NS {
            return halt;
        }
        let range = sum(halt.range, HOST_WAKES);
        return halt
            .at(range)
            .and("its host may sleep deeply for so long a gap: up to 150 µs more");
    }
    let states = &site.host.cpu.idle_states;
    let Some((state, shallowest)) = chosen(states, sleep.spacing_ns) else {
        return Law::new(
            100.0,
            1_200.0,
            40_000.0,
            "base hardware: an exit from an idle state that the kernel does not tell",
        );
    };
    let (deep_ns, shallow_ns) = (state.latency_us as f64 * 1e3, shallowest as f64 * 1e3);
    Law::new(
        100.0 + 0.15 * shallow_ns.min(deep_ns),
        300.0 + 0.6 * deep_ns,
        1_500.0 + 1.6 * deep_ns,
        format!(
            "base hardware: an exit from {} ({} µs stated), the deepest state that pays within {} µs",
            state.name,
            state.latency_us,
            sleep.spacing_ns / 1e3
        ),
    )
}

/// The idle state that a governor picks for a gap of this length, the deepest that pays, and the exit
/// latency of the shallowest that halts, in µs. Polling counts as no state.
fn chosen(states: &[IdleState], gap_ns: f64) -> Option<(&IdleState, u64)> {
    let halts = || states.iter().filter(|state| !state.disabled && state.name != "POLL");
    let shallowest = halts().map(|state| state.latency_us).min()?;
    let pays = |state: &&IdleState| state.residency_us as f64 * 1e3 <= gap_ns;
    let deepest = halts()
        .filter(pays)
        .max_by_key(|state| (state.residency_us, state.latency_us))
        .or_else(|| halts().next())?;
    Some((deepest, shallowest))
}

/// For how long a fair scheduler may leave the CPU to the spinner when the sleeper is due: a slice, looked
/// at by ticks. In ns, with what decides.
fn blocked(site: &Site, sleep: &Sleep) -> Option<Law> {
    let beside = sleep.load == Load::Same && !sleep.fifo;
    beside.then(|| schedule::slice(site, 2))
}

/// A fair scheduler as a rule takes the CPU from the spinner at once, because the sleeper has had less;
/// the figure is a median.
fn preempting(site: &Site, sleep: &Sleep, at_once: Law) -> Law {
    let Some(slice) = blocked(site, sleep) else {
        return at_once;
    };
    let told = &site.host.kernel.scheduler;
    let high_ms = slice.range.high / 1e6;
    if told.feature("WAKEUP_PREEMPTION") == Some(false) || told.extension.is_some() {
        let Range { low, likely, high } = at_once.range;
        return Law::of(range(low, likely + 0.5 * slice.range.likely, high + slice.range.high), at_once.because())
        .and(format!(
            "wake-ups need not take the CPU here (WAKEUP_PREEMPTION off, or a scheduler of sched_ext), and \
             the spinner may keep it for {high_ms:.1} ms"
        ));
    }
    at_once.widened(
        1.0,
        1.5,
        &format!(
            "the spinner is preempted at once as a rule, single times only when its slice is used up, at \
             most {high_ms:.1} ms later ({})",
            slice.because()
        ),
    )
}

/// Share of the grid's points that had passed when the sleeper was free for them: one that comes
/// back m spacings late misses m of m + 1.
pub fn missed(site: &Site, latency: &Law, sleep: &Sleep) -> Law {
    let share = |late_ns: f64| {
        let passed = (late_ns / sleep.spacing_ns).floor().max(0.0);
        passed / (passed + 1.0)
    };
    let Range { low, likely, high } = latency.range;
    let longest = high + blocked(site, sleep).map_or(0.0, |slice| slice.range.high);
    // The figure is of the usual round, and a single long delay misses several points.
    let (stray, whose) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (0.02, "the kernel's other work"),
        _ => (0.1, "others of the same hypervisor, perhaps"),
    };
    Law::new(
        share(low),
        share(likely),
        share(longest).max(stray),
        format!(
            "a wake-up that comes {:.0} to {:.0} µs late misses the points within; single ones are \
             later than that (by {whose}), at most {:.0} %",
            low / 1e3,
            longest / 1e3,
            stray * 100.0
        ),
    )
}

/// What os.switch found beyond the calls for two parties at a distance, in ns: threads by futex, else
/// processes by pipe.
fn measured_switch(known: &Known, pair: &str) -> Option<f64> {
    [("futex", "threads"), ("pipe", "processes")]
        .into_iter()
        .find_map(|(via, parties)| {
            let case = CaseId::new().with("via", via).with("parties", parties).with("pair", pair);
            known.get("os.switch", &case, "switch")
        })
        .filter(|ns| *ns > 0.0)
}

/// What it took to wake another CPU, the nearest that os.switch tried, in ns.
fn measured_wake(known: &Known) -> Option<f64> {
    ["llc", "socket", "other", "remote", "smt"]
        .into_iter()
        .find_map(|pair| measured_switch(known, pair))
}

#[cfg(test)]
mod tests;

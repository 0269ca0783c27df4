//! Laws of wake-ups: how late a sleeper comes back from a sleep to a given time.
//!
//! The kernel may put the timer off by the thread's slack; then an interrupt, the exit from the
//! idle state that the governor chose for a gap of this length, and the scheduler. Cycles are
//! starting values for Linux 6.x from memory of usual figures (cyclictest under a real-time policy
//! on idle server cores of 3 GHz: 2 to 5 µs without deep idle states), adjusted to no machine.

use super::is_bare;
use crate::os::Work;
use crate::os::learnt::corrected;
use crate::os::schedule;
use crate::os::switch::{self, Parties, Via};
use crate::os::work::{after_halt, polled};
use crate::{Facts, Law, cpu, range};
use bench::experiment::{Domain, Known, Site};
use bench::pair::Class;
use bench::{case, symbols};
use host::cpu::IdleState;
use record::event::{Condition, Range};

/// Slack that Linux gives a process that asks for none.
const USUAL_SLACK_NS: f64 = 50_000.0;

/// From this spacing on a halted guest's host may choose its deepest idle states, which a guest
/// cannot see: their target residencies are 0.6 to 2 ms on servers.
const HOST_SLEEPS_NS: f64 = 5e6;

/// What leaving them takes, in ns: servers state 100 to 170 µs (intel_idle's C6).
const HOST_WAKES: Range = range(0.0, 20_000.0, 150_000.0);

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
    pub const fn plain(spacing: u64) -> Sleep {
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

/// Whether earlier figures add anything to a sleep: the switch on one CPU is known, or the wake-up
/// of another.
pub fn tells(known: &Known) -> bool {
    measured_switch(known, Class::Same).is_some()
}

/// Lateness of a sleep, in ns.
pub fn latency(facts: Facts, sleep: &Sleep) -> Law {
    let slack = slack(facts.site, sleep);
    let late = match (sleep.load, sleep.idle_states) {
        (Load::Same, _) => slack,
        (_, IdleStates::HeldOff) => {
            let why = "the CPU polls, so there is no idle state to exit";
            slack + Law::hardware(range(0.0, 50.0, 1_000.0), why)
        }
        _ => slack + idle_exit(facts, sleep),
    };
    preempting(facts.site, sleep, late + path(facts, sleep))
}

/// By how much the kernel puts the timer off, in ns.
fn slack(site: &Site, sleep: &Sleep) -> Law {
    if sleep.policy == Policy::Fifo {
        return Law::software(range(0.0, 0.0, 0.0), "a real-time policy has no timer slack");
    }
    let stated = site.host.kernel.timer_slack_ns.map(|ns| ns as f64);
    let is_least = sleep.slack == Some(Slack::Least);
    let (slack_ns, from) = match (is_least, stated) {
        (true, _) => (1.0, "asked for"),
        (false, Some(ns)) => (ns, "/proc/self/timerslack_ns"),
        (false, None) => (USUAL_SLACK_NS, "the usual one"),
    };
    let why = format!("the timer slack of {:.0} µs delays the timer ({from})", slack_ns / 1e3);
    // Another timer's interrupt in the meantime serves this one too.
    Law::software(range(0.9 * slack_ns, slack_ns, slack_ns), why)
        .when(!is_least && stated.is_none(), |law| law.widened(20.0, 1.0, "perhaps none"))
}

/// From the timer's interrupt on a CPU that runs to the clock read after the sleep, in ns.
fn path(facts: Facts, sleep: &Sleep) -> Law {
    // Beside a spinner the CPU is awake and its caches are as the sleeper left them.
    let is_awake = sleep.load == Load::Same;
    let switch = facts.known.and_then(|known| measured_switch(known, Class::Same));
    let (cycles, what) = match (switch, is_awake) {
        (Some(_), true) => (range(1_200.0, 3_500.0, 10_000.0), AROUND),
        (Some(_), false) => (range(900.0, 3_500.0, 13_000.0), AROUND),
        (None, true) => (range(2_500.0, 6_500.0, 14_000.0), ALL),
        (None, false) => (range(1_800.0, 6_500.0, 18_000.0), ALL),
    };
    let switch = switch.map(|ns| {
        let why = format!("a wake-up and a switch took {ns:.0} ns (measured by os.switch)");
        Law::measured(ns, 0.5, why).times(1.1)
    });
    let path = by_thread(facts, sleep, kernel(facts, cycles, what) + switch);
    let shared = "the spinners share caches, the core clock's power and perhaps the core";
    delivered(facts.site, path)
        .when(sleep.load == Load::Others, |path| path.widened(1.2, 1.6, shared))
}

const AROUND: &str = "the timer interrupt and the return from the kernel";
const ALL: &str = "the timer interrupt, a wake-up, a switch and the return from the kernel";

/// Adds the thread by which real-time kernels end ordinary threads' sleeps.
fn by_thread(facts: Facts, sleep: &Sleep, path: Law) -> Law {
    let is_realtime = facts.site.host.kernel.preemption.as_deref() == Some("rt");
    let hop = "on a real-time kernel (PREEMPT_RT) a softirq thread wakes ordinary threads";
    let woken = || kernel(facts, range(1_500.0, 7_000.0, 30_000.0), hop);
    path + (sleep.policy != Policy::Fifo && is_realtime).then(woken)
}

fn kernel(facts: Facts, cycles: Range, what: &str) -> Law {
    let cycles = Work::from(cycles).law(facts.site, what).unsourced();
    corrected(facts, cpu::clocked(facts, cycles))
}

/// Adds the hypervisor's part in an interrupt of the timer.
fn delivered(site: &Site, path: Law) -> Law {
    match site.host.kernel.virtualisation.is_guest {
        Some(true) => {
            // KVM arms Intel's VMX preemption timer, which ends the guest's run by itself. AMD has
            // none: the host's timer interrupts the host, which then interrupts the guest.
            let (ns, exit) = match site.host.cpu.vendor.as_deref() {
                Some("GenuineIntel") => (range(500.0, 3_000.0, 20_000.0), "preemption timer"),
                _ => (range(500.0, 8_000.0, 45_000.0), "timer interrupts this CPU first"),
            };
            let exit = Law::software(ns, format!("the hypervisor's {exit}"));
            path + exit.unsourced().counting(Condition::Hypervisor)
        }
        Some(false) => path,
        None => path.widened(1.0, 4.0, "perhaps a virtual machine"),
    }
}

/// From the timer's interrupt to an idle CPU's first instruction, in ns.
fn idle_exit(facts: Facts, sleep: &Sleep) -> Law {
    let spacing_ns = sleep.spacing as f64;
    if cpu::is_guest(facts.site) {
        let halt = match facts.known.and_then(measured_wake) {
            Some(ns) => {
                let why =
                    format!("a halt exits, and another CPU woke in {ns:.0} ns (by os.switch)");
                // A guest's wake-up by another CPU is an exit of both; here only one is left.
                let ns = ns / polled(facts.site, 0.0);
                Law::hardware(range(0.1 * ns, 0.7 * ns, 2.0 * ns + 10_000.0), why)
            }
            None => {
                let why = "a halt exits to the hypervisor, 0.5 to 90 µs";
                Law::hardware(range(500.0, 10_000.0, 90_000.0), why)
            }
        };
        let deep = || Law::hardware(HOST_WAKES, "in so long a gap the host CPU may sleep deeply");
        return after_halt(facts.site, spacing_ns, halt)
            + (spacing_ns >= HOST_SLEEPS_NS).then(deep);
    }
    let Some((state, shallowest)) = chosen(&facts.site.host.cpu.idle_states, spacing_ns) else {
        return Law::hardware(range(100.0, 1_200.0, 40_000.0), "exit from an unknown idle state");
    };
    let (deep_ns, shallow_ns) = (state.latency_us as f64 * 1e3, shallowest as f64 * 1e3);
    let low = 100.0 + 0.15 * shallow_ns.min(deep_ns);
    let (IdleState { name, latency_us, .. }, us) = (state, spacing_ns / 1e3);
    let why =
        format!("exit from idle state {name} ({latency_us} µs), the deepest that fits {us} µs");
    Law::hardware(range(low, 300.0 + 0.6 * deep_ns, 1_500.0 + 1.6 * deep_ns), why)
}

/// The idle state that a governor picks for a gap of this length, the deepest that pays, and the
/// exit latency of the shallowest that halts, in µs. Polling counts as no state.
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

/// How long a fair scheduler may leave the CPU to the spinner: a slice, in ns.
fn blocked(site: &Site, sleep: &Sleep) -> Option<Law> {
    let beside = sleep.load == Load::Same && sleep.policy != Policy::Fifo;
    beside.then(|| schedule::slice(site, 2))
}

/// A fair scheduler as a rule takes the CPU at once; the figure is a median.
fn preempting(site: &Site, sleep: &Sleep, at_once: Law) -> Law {
    let Some(slice) = blocked(site, sleep) else {
        return at_once;
    };
    let scheduler = &site.host.kernel.scheduler;
    if scheduler.feature("WAKEUP_PREEMPTION") == Some(false) || scheduler.extension.is_some() {
        let Range { likely, high, .. } = slice.range;
        let later = |of: Range| range(of.low, of.likely + 0.5 * likely, of.high + high);
        let why = "the spinner may keep its slice (WAKEUP_PREEMPTION off, or sched_ext)";
        return at_once.reshaped(later).and(why).with(&slice);
    }
    let ms = slice.range.high / 1e6;
    let why = format!("the spinner is preempted at once, or rarely after its slice of {ms:.1} ms");
    at_once.widened(1.0, 1.5, why).with(&slice)
}

/// Share of points that had passed: one m spacings late misses m of m + 1.
pub fn missed(site: &Site, latency: &Law, sleep: &Sleep) -> Law {
    let share = |late_ns: f64| {
        let passed = (late_ns / sleep.spacing as f64).floor().max(0.0);
        passed / (passed + 1.0)
    };
    let Range { low, likely, high } = latency.range;
    let longest = high + blocked(site, sleep).map_or(0.0, |slice| slice.range.high);
    // The figure is of the usual round, and a single long delay misses several points.
    let (stray, whose) = match is_bare(site) {
        true => (0.02, "other kernel work"),
        false => (0.1, "perhaps other guests"),
    };
    let [from, to] = [low, longest].map(|ns| ns / 1e3);
    let why =
        format!("being {from:.0} to {to:.0} µs late misses points; a few are later ({whose})");
    Law::software(range(share(low), share(likely), share(longest).max(stray)), why)
        .counting_if(!is_bare(site), Condition::Hypervisor)
}

/// os.switch's figure at a distance, in ns: threads by futex, else processes by pipe.
fn measured_switch(known: &Known, pair: Class) -> Option<f64> {
    let of = |parties| switch::measured(known, parties, Some(pair), "switch");
    let threads = of((Via::Futex, Parties::Threads));
    threads.or_else(|| of((Via::Pipe, Parties::Processes))).filter(|ns| *ns > 0.0)
}

/// What it took to wake another CPU, the nearest that os.switch tried, in ns.
fn measured_wake(known: &Known) -> Option<f64> {
    [Class::Llc, Class::Socket, Class::Other, Class::Remote, Class::Smt]
        .into_iter()
        .find_map(|pair| measured_switch(known, pair))
}

#[cfg(test)]
mod tests;

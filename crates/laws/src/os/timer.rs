//! Laws of timers: how late the kernel wakes the one that waits.
//!
//! The kernel may put the timer off by the thread's slack; then an interrupt, the exit from the
//! idle state that the governor chose for a gap of this length, and the scheduler.

use super::schedule;
use super::switch::{self, Parties, Via};
use super::work::{after_halt, polled};
use crate::rows::Section;
use crate::{Facts, Law, cpu, range};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use host::cpu::IdleState;
use record::event::{Condition, Range};

/// Slack that Linux gives a process that asks for none.
const USUAL_SLACK_NS: f64 = 50_000.0;

/// From this gap on a halted guest's host may choose its deepest idle states, which a guest
/// cannot see: their target residencies are 0.6 to 2 ms on servers.
const HOST_SLEEPS_NS: f64 = 5e6;

/// What leaving them takes, in ns: servers state 100 to 170 µs (intel_idle's C6).
const HOST_WAKES: Range = range(0.0, 20_000.0, 150_000.0);

/// A wait for a timer.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// How long, in ns.
    pub ns: u64,
    /// Whether a process spins on the waiter's CPU.
    pub is_crowded: bool,
    /// Whether the timer has the process's slack; else 1 ns or none.
    pub has_slack: bool,
}

/// Whether earlier figures say more: the switch on one CPU is known.
pub fn is_known(known: &Known) -> bool {
    measured_switch(known, Class::Same).is_some()
}

/// A timer armed and cancelled, in ns.
pub fn arm(facts: Facts) -> Law {
    work(facts, &["arm"])
}

/// Lateness of a wake-up, in ns.
pub fn lateness(facts: Facts, wait: Wait) -> Law {
    let exit = (!wait.is_crowded).then(|| idle_exit(facts, wait.ns as f64));
    let late = slack(facts.site, wait) + exit + path(facts, wait);
    if wait.is_crowded { preempting(facts.site, late) } else { late }
}

/// By how much the kernel puts the timer off, in ns.
fn slack(site: &Site, wait: Wait) -> Law {
    let stated = site.host.kernel.timer_slack_ns.map(|ns| ns as f64);
    let (slack_ns, from) = match (wait.has_slack, stated) {
        (false, _) => (1.0, "asked for"),
        (true, Some(ns)) => (ns, "/proc/self/timerslack_ns"),
        (true, None) => (USUAL_SLACK_NS, "the usual one"),
    };
    let why = format!("the timer slack of {:.0} µs delays the timer ({from})", slack_ns / 1e3);
    // Another timer's interrupt in the meantime serves this one too.
    Law::software(range(0.9 * slack_ns, slack_ns, slack_ns), why)
        .when(wait.has_slack && stated.is_none(), |law| law.widened(20.0, 1.0, "perhaps none"))
}

/// From the timer's interrupt on a CPU that runs to the clock read after the wait, in ns.
fn path(facts: Facts, wait: Wait) -> Law {
    let switch = facts.known.and_then(|known| measured_switch(known, Class::Same));
    // Beside a spinner the CPU is awake and its caches are as the waiter left them.
    let woken = match (switch, wait.is_crowded) {
        (Some(_), true) => "TICK",
        (Some(_), false) => "IDLE_TICK",
        (None, true) => "WAKE",
        (None, false) => "IDLE_WAKE",
    };
    let switch = switch.map(|ns| {
        let why = format!("a wake-up and a switch took {ns:.0} ns (measured by os.switch)");
        Law::measured(ns, 0.5, why).times(1.1)
    });
    let is_realtime = facts.site.host.kernel.preemption.as_deref() == Some("rt");
    let sums = [woken, "SOFTIRQ"];
    let sums = if is_realtime { &sums[..] } else { &sums[..1] };
    delivered(facts.site, work(facts, sums) + switch)
}

/// Sums of `os.rows`, in ns.
fn work(facts: Facts, sums: &[&str]) -> Law {
    let way = |_: &str| super::entry(facts);
    Section { facts, name: "os.timer", count: &|_| 1.0, time: &way }.law(sums)
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
fn idle_exit(facts: Facts, gap_ns: f64) -> Law {
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
        return after_halt(facts.site, gap_ns, halt) + (gap_ns >= HOST_SLEEPS_NS).then(deep);
    }
    let Some((state, shallowest)) = chosen(&facts.site.host.cpu.idle_states, gap_ns) else {
        return Law::hardware(range(100.0, 1_200.0, 40_000.0), "exit from an unknown idle state");
    };
    let (deep_ns, shallow_ns) = (state.latency_us as f64 * 1e3, shallowest as f64 * 1e3);
    let low = 100.0 + 0.15 * shallow_ns.min(deep_ns);
    let (IdleState { name, latency_us, .. }, us) = (state, gap_ns / 1e3);
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

/// A fair scheduler as a rule takes the CPU from the spinner at once, else after its slice; the
/// figure is a median.
fn preempting(site: &Site, at_once: Law) -> Law {
    let slice = schedule::slice(site, 2);
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

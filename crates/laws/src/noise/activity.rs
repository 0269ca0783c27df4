//! Laws of what a program that only runs loses on one CPU. Noise is measured, not predicted: a
//! description does not say what else runs. What it does say: the timer's tick and its period, what
//! a quota takes, and how long the loop's own turn is.
//!
//! R4 measured 0.9 to 1.9 µs a tick on a Pentium E6300 with Linux 3.13; kernels since pay for the
//! mitigations of the way in, virtual machines for the hypervisor's help.

use super::is_bare;
use crate::cpu::{CounterRead, core_clock, counter_read};
use crate::{Law, end_by_end, inverse, range, scaled};
use bench::experiment::Site;
use host::Arch;
use record::event::{Condition, Range};

/// Why a figure of noise has no prediction.
pub const MEASURED: &str = "noise is measured, not predicted: a machine's description does not say \
                            what else runs";

/// One tick, in ns, on the machine itself: R4's shortest, and one that balances load …
const TICK_BARE_NS: Range = range(800.0, 2_200.0, 9_000.0);
/// … in a virtual machine; a guest whose host was busy had ticks of 38 to 41 µs …
const TICK_GUEST_NS: Range = range(1_200.0, 7_000.0, 60_000.0);
/// … and if that is unknown.
const TICK_UNKNOWN_NS: Range = range(TICK_BARE_NS.low, 3_000.0, TICK_GUEST_NS.high);
/// A tick may be off its rate by what clocks are slewed (adjtimex(2)) and calibrated wrongly.
const SLEWED: f64 = 600e-6;

const UNTOLD_RATE: &str = "unknown tick rate; kernels use 100 to 1000 per second";

fn told_rate(hz: f64) -> String {
    format!("{hz} ticks per second (CLOCK_MONOTONIC_COARSE)")
}

/// Whether the kernel stops the tick of a CPU while one task runs there.
fn is_tickless(site: &Site, cpu: Option<usize>) -> bool {
    cpu.is_some_and(|cpu| site.host.kernel.nohz_full.contains(&cpu))
}

/// Time that one tick takes from the running thread, in ns: the law of all experiments that meet
/// ticks.
pub fn tick_cost(site: &Site) -> Law {
    let (range, why) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (TICK_BARE_NS, "the tick's interrupt and accounting (R4: 0.9 to 1.9 µs)"),
        Some(true) => (TICK_GUEST_NS, "a tick, including exits to the hypervisor"),
        None => (TICK_UNKNOWN_NS, "a tick, perhaps with exits to a hypervisor"),
    };
    Law::from_range(range, why).counting_if(!is_bare(site), Condition::Hypervisor)
}

/// What a turn of the loop has beside the read: a shift, an or, a difference, a compare and a
/// decrement, of which the read's fence hides some, in core cycles.
const TURN_CYCLES: Range = range(0.0, 3.0, 12.0);
/// A turn against the read alone, as clock.read measures it.
const TURN: Range = range(0.9, 1.1, 1.5);

/// Turns of the loop: a fenced read of the counter and a comparison, in ns.
pub fn read_to_read_ns(site: &Site) -> Law {
    let read = match site.host.cpu.arch {
        Arch::X86_64 => CounterRead::Fenced,
        Arch::Aarch64 => CounterRead::Ordered,
    };
    let cycle_ns = inverse(1e9, core_clock(site).range);
    let beside = end_by_end(TURN_CYCLES, cycle_ns, |cycles, ns| cycles * ns);
    let why = "a comparison of 0 to 12 cycles, which may overlap with the fence";
    counter_read(site, read) + Law::hardware(beside, why)
}

/// The same from what clock.read found for the read alone.
pub fn read_to_read_by_read_ns(read_ns: f64) -> Law {
    let why = format!("a comparison beside the fenced read of {read_ns:.1} ns (by clock.read)");
    Law::hardware(scaled(TURN, read_ns), why)
}

pub fn throttled(site: &Site) -> Law {
    let Some(quota) = site.host.limits.cpu_quota.map(|quota| quota.cpus()) else {
        return Law::software(range(0.0, 0.0, 0.0), "no CPU quota");
    };
    if quota >= 1.0 {
        let because = format!("a CPU quota of {quota} CPUs suffices for one thread");
        return Law::software(range(0.0, 0.0, 0.05), because);
    }
    let share = 1.0 - quota;
    let of = range(0.3 * share, share, (1.2 * share).min(1.0));
    Law::software(of, format!("a CPU quota of {quota} CPUs"))
}

/// Share of time lost, where a quota decides it; `None` without one.
pub fn lost(site: &Site) -> Option<Law> {
    let quota = site.host.limits.cpu_quota?.cpus();
    (quota < 1.0).then(|| {
        let law = throttled(site);
        let Range { low, likely, .. } = law.range;
        law.with_range(range(low, likely, 1.0)).and("other interruptions come on top")
    })
}

/// The tick's period in ns, as the gaps show it.
pub fn tick_period_ns(site: &Site, cpu: Option<usize>) -> Law {
    let Some(hz) = site.host.kernel.hz.map(f64::from) else {
        let of = range(1e6 * (1.0 - SLEWED), 4e6, 10e6 * (1.0 + SLEWED));
        return Law::software(of, UNTOLD_RATE);
    };
    let of = scaled(range(1.0 - SLEWED, 1.0, 1.0 + SLEWED), 1e9 / hz);
    Law::software(of, told_rate(hz))
        .and("clock slewing adds up to 0.06 %")
        .when(is_tickless(site, cpu), |law| law.and("on a tickless CPU there should be none"))
}

#[cfg(test)]
mod tests;

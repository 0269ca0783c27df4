//! Laws of what a program that only runs loses on one CPU: the timer's tick, whose rate the kernel
//! states, times what one costs, and little else on a quiet machine.
//!
//! R4 measured 0.9 to 1.9 µs a tick on a Pentium E6300 with Linux 3.13, and about 0.1 % lost;
//! kernels since pay for the mitigations of the way in, virtual machines for the hypervisor's help.
//! The time that others take comes from usual figures of quiet machines (sysjitter, oslat and rtla
//! osnoise). It is wide, because the description of a machine does not say what else runs.

use super::{Cause, is_bare};
use crate::cpu::{CounterRead, core_clock, counter_read};
use crate::{Law, end_by_end, inverse, range, scaled};
use bench::experiment::Site;
use host::Arch;
use record::event::{Condition, Range};

/// One tick, in ns, on the machine itself: R4's shortest, and one that balances load …
const TICK_BARE_NS: Range = range(800.0, 2_200.0, 9_000.0);
/// … in a virtual machine; a guest whose host was busy had ticks of 38 to 41 µs …
const TICK_GUEST_NS: Range = range(1_200.0, 7_000.0, 60_000.0);
/// … and if that is unknown.
const TICK_UNKNOWN_NS: Range = range(TICK_BARE_NS.low, 3_000.0, TICK_GUEST_NS.high);
/// A tick may be off its rate by what clocks are slewed (adjtimex(2)) and calibrated wrongly.
const SLEWED: f64 = 600e-6;

/// The tick's rate in Hz.
fn rate(site: &Site, cpu: Option<usize>) -> Law {
    let hz = site.host.kernel.hz.map(f64::from);
    match hz {
        _ if is_tickless(site, cpu) => {
            let why = "no tick while one task runs (nohz_full), or a residual one per second";
            Law::software(range(0.0, 1.0, hz.unwrap_or(1_000.0)), why)
        }
        Some(hz) => Law::software(range(hz, hz, hz), told_rate(hz)),
        None => Law::software(range(100.0, 250.0, 1_000.0), UNTOLD_RATE),
    }
}

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
/// The threshold is sought from here on, in ns ([`stats::threshold`]) …
const THRESHOLD_LEAST_NS: f64 = 250.0;
/// … and is no less than so many turns.
const TURNS_LEAST: f64 = 2.0;

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

/// The shortest gap that stands out from the loop's own turns, in ns.
pub fn threshold_ns(site: &Site) -> Law {
    let turn = read_to_read_ns(site);
    let high: f64 = if is_bare(site) { 900.0 } else { 1_200.0 };
    let least = |turn: f64| THRESHOLD_LEAST_NS.max(TURNS_LEAST * turn);
    let Range { low, likely, high: longest } = turn.range;
    turn.with_range(range(least(low), 1.4 * least(likely), high.max(least(longest))))
        .and("above the loop's iteration time and its spread, below the shortest interrupt")
}

/// The median gap, in ns: a tick, unless there are more others than ticks.
pub fn gap_ns(site: &Site, cpu: Option<usize>) -> Law {
    let shorter = "unless shorter interruptions by a hypervisor are more frequent";
    let law = tick_cost(site).and("most gaps are ticks");
    let mut law = law.when(!is_bare(site), |law| law.widened(4.0, 1.0, shorter));
    if let Some(quota) = quota(site) {
        // A short slice may see no tick at all: then its end is the one gap of a period.
        law.range.high = law.range.high.max(1.2 * quota.gap_ns);
        law = law.and(&quota.because);
    }
    law.when(is_tickless(site, cpu), |law| {
        law.widened(4.0, 10.0, "on a tickless CPU other interruptions dominate")
    })
}

/// The median time between gaps, in ns: less where some follow others soon.
pub fn active_ns(site: &Site, cpu: Option<usize>) -> Law {
    let gaps = gap_rate_hz(site, cpu);
    if is_tickless(site, cpu) {
        let likely = 1e9 / gaps.range.likely.max(1.0);
        return gaps.with_range(range(1e5, likely, 4e9));
    }
    let mut law = gaps.inverse(1e9);
    // Between gaps at random times the median is ln 2 of the mean; bursts lie closer.
    law.range.low *= std::f64::consts::LN_2;
    if let Some(quota) = quota(site) {
        law.range.likely = law.range.likely.min(quota.run_ns);
        law.range.low = law.range.low.min(0.1 * quota.run_ns);
    }
    law
}

/// Gaps a second of at least the loop's threshold.
pub fn gap_rate_hz(site: &Site, cpu: Option<usize>) -> Law {
    gaps_hz(site, cpu, false)
}

/// Gaps a second of at least 1 µs.
pub fn gap_rate_1us_hz(site: &Site, cpu: Option<usize>) -> Law {
    gaps_hz(site, cpu, true)
}

fn gaps_hz(site: &Site, cpu: Option<usize>, are_long: bool) -> Law {
    let is_bare = is_bare(site);
    // On the machine itself a tick may take less than 1 µs: R4's were 0.9 to 1.9. There and back
    // again takes a hypervisor about 1 µs, so its gaps are long ones.
    let (least, likely, times, more_hz) = match (is_bare, are_long) {
        (true, false) => (0.95, 1.1, 2.0, 40.0),
        (true, true) => (0.5, 1.05, 1.6, 40.0),
        (false, _) => (0.95, 2.0, 20.0, 10_000.0),
    };
    let of = |of: Range| range(least * of.low, likely * of.likely, times * of.high + more_hz);
    let mut law = rate(site, cpu)
        .reshaped(of)
        .and("other interruptions are rare on a quiet machine")
        .when(!is_bare, |law| law.and("but a hypervisor may interrupt often"))
        .counting_if(!is_bare, Condition::Hypervisor);
    if let Some(quota) = quota(site) {
        // Ticks of the time that is left, and the end of each slice.
        law.range.low *= LEAST_OF_QUOTA * quota.cpus;
        law.range.likely = law.range.likely * quota.cpus + 1e9 / quota.period_ns;
        law.range.high += 1e9 / quota.period_ns;
        law = law.and(&quota.because);
    }
    law
}

/// A thread may get less than its group's quota if other threads of the group run too.
const LEAST_OF_QUOTA: f64 = 0.3;

struct Quota {
    cpus: f64,
    period_ns: f64,
    /// What it lets run of a period.
    run_ns: f64,
    /// What it takes of a period.
    gap_ns: f64,
    because: String,
}

fn quota(site: &Site) -> Option<Quota> {
    let quota = site.host.limits.cpu_quota?;
    let (cpus, period_ns) = (quota.cpus(), quota.period_us as f64 * 1e3);
    (cpus < 1.0).then(|| Quota {
        cpus,
        period_ns,
        run_ns: cpus * period_ns,
        gap_ns: (1.0 - cpus) * period_ns,
        because: format!("a CPU quota of {cpus} CPUs in periods of {} ms", period_ns * 1e-6),
    })
}

/// Share of time that the tick takes.
pub fn lost_timer(site: &Site, cpu: Option<usize>) -> Law {
    let (rate, cost) = (rate(site, cpu), tick_cost(site));
    let share = match rate.range.low > 0.0 {
        true => rate.by(cost.range),
        // A product of intervals by their logarithms has no zero.
        false => {
            let Range { likely, high, .. } = rate.range;
            rate.with_range(range(0.0, likely * cost.range.likely, high * cost.range.high))
        }
    };
    let share = share.times(1e-9).with(&cost);
    share.widened(1.0, 1.5, "recording the causes may change the gaps")
}

/// Share of time that is lost in all.
pub fn lost(site: &Site, cpu: Option<usize>) -> Law {
    let timer = lost_timer(site, cpu);
    let Range { low, likely, .. } = timer.range;
    // What others than the tick may take of a machine that is not busy: on the machine itself some
    // hundred interruptions a second of 10 µs.
    let most = if is_bare(site) { 0.003 } else { 0.04 };
    let percent = 100.0 * most;
    let others = format!("other interruptions at most {percent} %, unless the machine is busy");
    let mut law = timer + Law::software(range(0.0, 0.3 * likely, most), others);
    // What others take is never less than nothing.
    law.range.low = low;
    if quota(site).is_none() {
        return law;
    }
    let throttled = throttled(site);
    let (of, unthrottled) = (throttled.range, law.range);
    law.with_range(range(
        of.low,
        of.likely + (1.0 - of.likely) * unthrottled.likely,
        (of.high + unthrottled.high).min(1.0),
    ))
    .with(&throttled)
}

/// Share of time that a cause takes which is not the timer.
pub fn lost_other(site: &Site, cause: Cause) -> Law {
    let is_bare = is_bare(site);
    let (likely, high, because) = match cause {
        Cause::Timer => return lost_timer(site, None),
        Cause::Throttled => return throttled(site),
        Cause::Interrupt => (2e-5, 5e-3, "a quiet CPU has a few interrupts per second, of µs"),
        Cause::Softirq => (3e-5, 5e-3, "deferred interrupt work: little on a quiet CPU"),
        Cause::Thread => (1e-4, 2e-2, "kernel threads a few times per second; others if busy"),
        Cause::Plumb => (0.0, 1e-3, "plumb's session sleeps during a window"),
        Cause::Steal if is_bare => (0.0, 0.0, "no hypervisor, no steal time"),
        Cause::Steal => (0.0, 2e-2, "none if the CPU is dedicated, and in steps of 10 ms"),
        Cause::Unattributed if is_bare => (1e-5, 2e-3, "firmware, and what leaves no evidence"),
        Cause::Unattributed => (1e-3, 4e-2, "a hypervisor takes the CPU without a trace"),
    };
    let is_hypervisors = !is_bare && matches!(cause, Cause::Steal | Cause::Unattributed);
    Law::software(range(0.0, likely, high), because)
        .counting_if(is_hypervisors, Condition::Hypervisor)
}

fn throttled(site: &Site) -> Law {
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

/// The longest gap of a window, in ns.
pub fn longest_gap_ns(site: &Site) -> Law {
    let cost = tick_cost(site);
    let (likely, high): (f64, f64) = if is_bare(site) { (30e3, 1e6) } else { (100e3, 20e6) };
    let low = 1.2 * cost.range.low;
    let law = cost
        .with_range(range(low, likely, high))
        .and("the longest of hundreds of gaps: a kernel thread, or a hypervisor's time slice")
        .counting(Condition::Hypervisor);
    let Some(quota) = quota(site) else {
        return law;
    };
    // A window may end before the quota does; what is overrun is taken from the next period.
    law.with_range(range(low, quota.gap_ns.max(likely), (2.0 * quota.period_ns).max(high)))
        .and(quota.because)
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

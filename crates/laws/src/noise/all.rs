//! Laws of what every CPU loses while all of them run a program that never waits: what one CPU
//! loses alone, and the work that an idle CPU would have done for the others.

use super::{activity, is_bare};
use crate::{Law, range, scaled};
use bench::experiment::Site;
use record::event::{Condition, Range};

/// The one CPU of noise.activity against each of all, at work together: the others' ticks,
/// balancing and interrupts to each other come on top; a shared core or a hypervisor's queue may
/// double it.
const BESIDE: Range = range(0.3, 1.15, 4.0);
/// The same for sums of many events: every CPU has about as many ticks.
const MANY_BESIDE: Range = range(0.6, 1.15, 2.0);
/// What the kernel's threads and daemons take of each CPU when none is idle.
const HOUSEKEEPING: f64 = 0.01;
/// Interrupts between CPUs and wake-ups that find no idle CPU, a second.
const EVENTS_HZ: f64 = 200.0;

/// A hypervisor's own ticks, timers and neighbours interrupt a guest unseen, a second: a few
/// thousand were seen on one whose host was busy.
const UNSEEN_HZ: f64 = 8_000.0;

/// What the host's scheduler gives another thread at a time, in ns: a slice of 2.8 ms where eight
/// CPUs or more run EEVDF, up to a period of 24 ms before Linux 6.6 (kernel/sched/fair.c).
const HOST_SLICE_NS: Range = range(2.8e6, 8.2e6, 2.4e7);

/// Share of time lost, on one CPU (`cpu`) or on all; `alone` is what noise.activity found.
pub fn lost(site: &Site, alone: Option<f64>, cpu: Option<usize>) -> Law {
    if let Some(throttled) = throttled(site) {
        return throttled;
    }
    if let Some(alone) = alone {
        return beside((alone, MANY_BESIDE), HOUSEKEEPING, format!("{:.3} % lost", 100.0 * alone));
    }
    let mut law = activity::lost(site, cpu);
    law.range.high = (2.0 * law.range.high + HOUSEKEEPING).min(1.0);
    law.and("no idle CPU takes over kernel work")
}

/// What a quota that is less than the CPUs takes from all of them at work, if it is.
fn throttled(site: &Site) -> Option<Law> {
    let quota = site.host.limits.cpu_quota?;
    let cpus = site.cpus.len() as f64;
    let share = 1.0 - quota.cpus() / cpus;
    (share > 0.0).then(|| {
        let quota = quota.cpus();
        let why = format!("a CPU quota of {quota} CPUs for {cpus}, uneven over windows");
        Law::software(range(0.0, share, 1.0), why)
    })
}

/// Gaps a second of one CPU.
pub fn gap_rate_hz(site: &Site, alone: Option<f64>, cpu: Option<usize>) -> Law {
    if let Some(alone) = alone {
        return beside((alone, MANY_BESIDE), EVENTS_HZ, format!("{alone:.0} gaps per second"));
    }
    let mut law = activity::gap_rate_hz(site, cpu);
    law.range.high = 2.0 * law.range.high + EVENTS_HZ;
    law = law.and("busy CPUs interrupt each other");
    if is_bare(site) {
        return law;
    }
    law.range.high += UNSEEN_HZ;
    law.and("a hypervisor interrupts without a trace, up to thousands of times per second")
        .counting(Condition::Hypervisor)
}

/// The median gap, in ns.
pub fn gap_ns(site: &Site, alone: Option<f64>, cpu: Option<usize>) -> Law {
    match alone {
        None => activity::gap_ns(site, cpu).widened(1.5, 2.0, "all CPUs busy"),
        Some(alone) => beside((alone, BESIDE), 0.0, format!("a median gap of {alone:.0} ns")),
    }
}

/// The longest gap of `cpus` CPUs in a window, in ns. That of one CPU alone says no more: from run to
/// run it differs by as much as from machine to machine.
pub fn longest_gap_ns(site: &Site, cpus: usize) -> Law {
    let Range { likely, high, .. } = HOST_SLICE_NS;
    let sliced = |of: Range| range(of.low, of.likely.max(likely), of.high.max(high));
    // Lengths of rare gaps fall off about as a power, so the longest of more grows slowly.
    let more = 1.0 + 0.5 * (cpus.max(1) as f64).ln();
    activity::longest_gap_ns(site)
        .widened(1.0, 5.0, "no idle CPU takes over kernel work")
        .when(!is_bare(site), |law| law.reshaped(sliced).and("the host takes a CPU for a slice"))
        .ends(1.0, more, more)
        .and(format!("the longest gap of {cpus} CPUs"))
}

/// Share of the CPUs' time that plumb's own other threads take.
pub fn lost_plumb() -> Law {
    Law::software(range(0.0, 0.0, 1e-3), "plumb's session sleeps")
}

/// What noise.activity measured on one CPU, for each of all at work.
fn beside((alone, times): (f64, Range), more: f64, what: String) -> Law {
    let Range { low, likely, high } = scaled(times, alone);
    let why = format!("{what} on one CPU (measured by noise.activity)");
    Law::software(range(low, likely, high + more), why)
        .and("busy CPUs interrupt each other, and no idle CPU takes over kernel work")
}

#[cfg(test)]
mod tests {
    use super::lost;
    use bench::experiment::fixtures::recorded;
    use host::limits::CpuQuota;

    #[test]
    fn a_quota_for_fewer_cpus_than_work_decides_what_is_lost() {
        let mut site = recorded("vm-granite-rapids");
        site.host.limits.cpu_quota = None;
        let free = lost(&site, Some(0.01), None).range;
        let cpus = site.cpus.len() as u64;
        site.host.limits.cpu_quota =
            Some(CpuQuota { quota_us: cpus * 100_000, period_us: 100_000 });
        assert_eq!(lost(&site, Some(0.01), None).range, free, "enough for all");
        site.host.limits.cpu_quota = Some(CpuQuota { quota_us: cpus * 25_000, period_us: 100_000 });
        assert_eq!(lost(&site, Some(0.01), Some(0)).range.likely, 0.75);
    }
}

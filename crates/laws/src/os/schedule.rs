//! Laws of time slices: for how long the scheduler of ordinary threads lets one run while others
//! want its CPU. It looks at the clock when the tick comes, so a process that may run for 1.4 ms
//! has the CPU until the first tick after that. Where the time is within some per cent of whole
//! ticks, jitter decides between one more or less, and the law names both.
//!
//! Tunables as Linux has them (kernel/sched/fair.c; memory of the source), stated for one CPU and
//! times 1 + log2 of the online CPUs, at most 8, rounded down (SCHED_TUNABLESCALING_LOG):
//!
//! - EEVDF (6.6): a base slice of 0.75 ms, since 6.15 of 0.70 ms (commit 2ae891b82695, whose reason
//!   is that 3 ms took four ticks of 1 ms). `update_deadline` asks for another process once a slice
//!   is over; the same comes again where it has had least (eligible). Until then it is not
//!   preempted.
//! - CFS (2.6.23; before 2.6.36 with other figures): a latency of 6 ms, in which each of up to
//!   eight runs once; of more, a shortest slice of 0.75 ms each (`check_preempt_tick`).
//!
//! R4's slices (Linux 3.13, two cores, a tick of 4 ms) are 12 ms for two processes, 8 and 4 ms for
//! three and 4 ms for five. A latency of 18 ms, which the factor gives to 4 to 7 CPUs, makes 12, 8
//! and 4 ms, as an emulated kernel 6.1 had (docs/notes/2026-11-22-slices.md); that for two CPUs
//! does not. An unknown latency reaches up to the next factor, unless sched_rr_get_interval(2)
//! gives its whole ticks.

use super::switch::{self, Handover, Parties, Via};
use crate::{Facts, Law, cpu, range, scaled};
use bench::experiment::{Known, Site};
use bench::pair::Class;
use host::limits::CpuQuota;
use host::scheduler::{self, Kind};
use record::event::{Condition, Range};

/// The commonest tick, for times that must be stated before one is known.
pub const TICK_USUAL_NS: f64 = 4e6;
/// Ticks that kernels are built with.
const TICKS_NS: [f64; 4] = [1e6, 1e9 / 300.0, 4e6, 1e7];
/// CPUs beyond which the tunables do not grow.
const CPUS_MAX: usize = 8;
/// CFS: processes that share one latency.
const SHARE_LATENCY: f64 = 8.0;
/// CFS on one CPU.
const LATENCY_NS: f64 = 6e6;
const GRANULARITY_NS: f64 = 0.75e6;
/// The same before the tunables were as above, shortest and longest (2.6.23 had 20 and 4 ms).
const OLD_LATENCY_NS: [f64; 2] = [5e6, 20e6];
const OLD_GRANULARITY_NS: [f64; 2] = [0.75e6, 4e6];
const SETTLED_SINCE: (u64, u64, u64) = (2, 6, 36);
/// EEVDF on one CPU, before 6.15 and since.
const BASE_SLICE_NS: [f64; 2] = [0.75e6, 0.70e6];
const SHORTER_SINCE: (u64, u64) = (6, 15);
/// Share of a tick by which one may come early (the switch is no one's) and late.
const EARLY: f64 = 0.015;
const LATE: f64 = 0.004;
/// Share of a slice that a slow switch before it, or another's interruption, takes.
const SHORTER: f64 = 0.03;
/// Slices between two stops by a quota, from which on most are whole.
const SLICES_FREE: f64 = 4.0;
/// What the switch takes from a slice, as a share of a tick.
const SWITCH_SHARE: f64 = 0.002;

/// For how long a process may run before another's turn comes, and why.
struct Allowed {
    ns: Range,
    because: String,
    /// A timer of the scheduler's own ends it instead of the tick.
    is_timed: bool,
}

/// Length of a tick, if the kernel reports it.
pub fn tick_ns(site: &Site) -> Option<f64> {
    site.host.kernel.hz.map(|hz| 1e9 / f64::from(hz.max(1)))
}

/// One process' time on the CPU until another's, in ns.
pub fn slice(site: &Site, processes: u64) -> Law {
    let free = slice_without_quota(site, processes);
    let Some(quota) = quota(site) else {
        return free;
    };
    let (turn_ns, period_ns) = (quota.quota_us as f64 * 1e3, quota.period_us as f64 * 1e3);
    let Range { low, likely, high } = free.range;
    // Of four slices or more between two stops, the usual one is not stopped.
    if turn_ns >= SLICES_FREE * high {
        return free;
    }
    free.with_range(range(0.05 * low, likely, high + period_ns)).and(format!(
        "the CPU quota stops the processes after {:.1} ms of every {:.0} ms",
        turn_ns / 1e6,
        period_ns / 1e6
    ))
}

fn slice_without_quota(site: &Site, processes: u64) -> Law {
    let allowed = allowed(site, processes);
    by_tick(site, &allowed, |tick_ns| slice_at(&allowed, tick_ns))
}

pub fn slice_ticks(site: &Site, processes: u64) -> Law {
    if let Some(tick_ns) = tick_ns(site) {
        return slice(site, processes).times(1.0 / tick_ns);
    }
    let allowed = allowed(site, processes);
    by_tick(site, &allowed, |tick_ns| slice_at(&allowed, tick_ns).times(1.0 / tick_ns))
}

/// A law of the tick's length, or of all that kernels are built with where it is unknown.
fn by_tick(site: &Site, allowed: &Allowed, law: impl Fn(f64) -> Law) -> Law {
    if let Some(tick_ns) = tick_ns(site) {
        return law(tick_ns);
    }
    let each = TICKS_NS.map(|tick_ns| law(tick_ns).range);
    let low = each.iter().fold(f64::INFINITY, |low, of| low.min(of.low));
    let high = each.iter().fold(0.0, |high: f64, of| high.max(of.high));
    let likely = law(TICK_USUAL_NS).range.likely;
    Law::software(range(low, likely, high), &allowed.because)
        .fixed(1.0)
        .and("until the next tick; the tick rate is unknown (100 to 1000 per second)")
}

fn slice_at(allowed: &Allowed, tick_ns: f64) -> Law {
    if allowed.is_timed {
        let Range { low, likely, high } = allowed.ns;
        let ends = range(0.9 * low, likely, (1.1 * high).max(likely + tick_ns));
        let law = Law::software(ends, &allowed.because).fixed(1.0);
        return law.and("the scheduler sets a timer (HRTICK)");
    }
    let [least, likely, most] = ticks(allowed.ns, tick_ns);
    let ends = range(
        least * tick_ns * (1.0 - SHORTER),
        likely * tick_ns * (1.0 - SWITCH_SHARE),
        most * tick_ns * (1.0 + EARLY),
    );
    Law::software(ends, &allowed.because).fixed(1.0).and(format!(
        "until the next tick of {:.3} ms, {least:.0} to {most:.0} ticks, less the context switch",
        tick_ns / 1e6
    ))
}

/// Whole ticks after which a process has run for what it is allowed: at least, likely, at most.
fn ticks(allowed_ns: Range, tick_ns: f64) -> [f64; 3] {
    let after = |ns: f64, share: f64| (ns / (tick_ns * share)).ceil().max(1.0);
    let likely = after(allowed_ns.likely, 1.0 - SWITCH_SHARE);
    [
        after(allowed_ns.low, 1.0 + LATE).min(likely),
        likely,
        after(allowed_ns.high, 1.0 - EARLY).max(likely),
    ]
}

fn allowed(site: &Site, processes: u64) -> Allowed {
    let kernel = &site.host.kernel;
    let told = &kernel.scheduler;
    if let Some(name) = &told.extension {
        return Allowed {
            ns: range(0.1e6, 5e6, 50e6),
            because: format!("a sched_ext scheduler ({name}) chooses its own slices"),
            is_timed: false,
        };
    }
    let kind = match (told.own_slice_ns.or(told.base_slice_ns), told.latency_ns) {
        (Some(_), _) => Some(Kind::Eevdf),
        (None, Some(_)) => Some(Kind::Cfs),
        (None, None) => kernel.release.as_deref().and_then(Kind::from_release),
    };
    let is_timed = told.feature("HRTICK") == Some(true);
    let (ns, because) = match kind {
        Some(Kind::Eevdf) => base_slice(site),
        Some(Kind::Cfs) => share_of_latency(site, processes),
        Some(Kind::Older) => (
            range(5e6, 1e8, 2e8),
            "slices depend on priority (before 2.6.23), 100 ms at the default".to_owned(),
        ),
        None => (
            range(0.7e6, 3e6, 24e6),
            "0.7 to 24 ms, because the kernel version is unknown".to_owned(),
        ),
    };
    Allowed { ns, because, is_timed }
}

/// Factor of the tunables, and from what; a doubtful one is a range.
fn factor(site: &Site) -> (Range, String) {
    let online = site.host.cpu.cpus.iter().filter(|cpu| cpu.online).count();
    match online {
        0 => (range(1.0, 4.0, 4.0), "an unknown number of CPUs".to_owned()),
        online => {
            let of = 1.0 + f64::from(online.min(CPUS_MAX).ilog2());
            let cpus = if online == 1 { "CPU" } else { "CPUs" };
            (range(of, of, of), format!("{online} online {cpus}"))
        }
    }
}

fn base_slice(site: &Site) -> (Range, String) {
    let kernel = &site.host.kernel;
    let exactly = |ns: u64, from: &str| {
        let ns = ns as f64;
        let because = format!("EEVDF's slice of {:.3} ms ({from})", ns / 1e6);
        (range(ns, ns, ns), because)
    };
    if let Some(ns) = kernel.scheduler.own_slice_ns {
        return exactly(ns, "se.slice of /proc/self/sched");
    }
    if let Some(ns) = kernel.scheduler.base_slice_ns {
        return exactly(ns, "base_slice_ns of debugfs");
    }
    let is_new = kernel.numbers().is_some_and(|of| of >= SHORTER_SINCE);
    let [old, new] = BASE_SLICE_NS;
    let (one, about) = match is_new {
        true => (range(new, new, new), "0.70 ms (since 6.15)"),
        // Stable series may have taken the change over.
        false => (range(new, old, old), "0.75 ms (before 6.15)"),
    };
    let (factor, from) = factor(site);
    (
        range(one.low * factor.low, one.likely * factor.likely, one.high * factor.high),
        format!(
            "EEVDF's slice, {about} x {:.0} ({from}), not reported by the kernel",
            factor.likely
        ),
    )
}

/// CFS: the share of one in the latency.
fn share_of_latency(site: &Site, processes: u64) -> (Range, String) {
    let told = &site.host.kernel.scheduler;
    let count = processes.max(1) as f64;
    let share = |latency_ns: f64, least_ns: f64| match count <= SHARE_LATENCY {
        true => latency_ns / count,
        false => least_ns,
    };
    if let Some(latency_ns) = told.latency_ns {
        let latency_ns = latency_ns as f64;
        let least_ns = told.min_granularity_ns.map_or(latency_ns / SHARE_LATENCY, |ns| ns as f64);
        // More processes than shortest slices in a latency stretch it.
        let ns = (latency_ns / count).max(least_ns);
        let because = format!(
            "CFS latency of {:.3} ms divided by {processes}, at least {:.3} ms (reported by the \
             kernel)",
            latency_ns / 1e6,
            least_ns / 1e6
        );
        return (range(ns, ns, ns), because);
    }
    let (factor, from) = factor(site);
    let numbers = site.host.kernel.release.as_deref().and_then(scheduler::numbers);
    if numbers.is_some_and(|numbers| numbers < SETTLED_SINCE) {
        let low = share(OLD_LATENCY_NS[0], OLD_GRANULARITY_NS[0]);
        let high = share(OLD_LATENCY_NS[1], OLD_GRANULARITY_NS[1]);
        let likely = share(LATENCY_NS, GRANULARITY_NS);
        let because = format!(
            "CFS before 2.6.36: 5 to 20 ms, times at least {:.0} ({from}), divided by {processes}",
            factor.low
        );
        // The factor was not limited before 2.6.33.
        let most = 1.0 + (site.host.cpu.cpus.len().max(1) as f64).log2();
        let ns = range(low * factor.low, likely * factor.likely, high * most.max(factor.high));
        return (ns, because);
    }
    let untold = range(
        LATENCY_NS * factor.low,
        LATENCY_NS * factor.likely,
        LATENCY_NS * (factor.high + 1.0),
    );
    let latency = by_whole_ticks(site, untold);
    let known = match latency == untold {
        true => "perhaps tuned up to the next factor",
        false => "from whole ticks of sched_rr_get_interval",
    };
    let one = |latency_ns: f64| share(latency_ns, latency_ns * GRANULARITY_NS / LATENCY_NS);
    (
        range(one(latency.low), one(latency.likely), one(latency.high)),
        format!(
            "CFS latency of 6 ms x {:.0} ({from}) divided by {processes}, or 0.75 ms x {:.0} each \
             with more than eight, {known}",
            factor.likely, factor.likely
        ),
    )
}

/// An unreported latency, narrowed by the whole ticks that sched_rr_get_interval(2) reports to a
/// process alone on its CPU. If others wanted the CPU too it reported less, which says nothing.
fn by_whole_ticks(site: &Site, latency: Range) -> Range {
    let told = site.host.kernel.scheduler.told_slice_ns;
    let Some((told_ns, tick_ns)) = told.map(|ns| ns as f64).zip(tick_ns(site)) else {
        return latency;
    };
    // The kernel's division loses a nanosecond, so a whole number of ticks is reported as one less.
    let end_ns = told_ns + 1.001 * tick_ns;
    if end_ns <= latency.low {
        return latency;
    }
    if told_ns > latency.high {
        // Tuned beyond what is usual.
        return range(told_ns, told_ns + 0.5 * tick_ns, end_ns);
    }
    let (low, high) = (latency.low.max(told_ns), latency.high.min(end_ns));
    // The next factor's where the likely one is ruled out.
    let steps = (low / LATENCY_NS).ceil() * LATENCY_NS;
    let likely = match latency.likely >= low {
        true => latency.likely,
        false => steps.min(high),
    };
    range(low, likely.min(high), high)
}

/// What os.switch measured of a switch between processes on one CPU: by yields, which is nearest,
/// else by pipes.
pub fn measured_switch(known: &Known) -> Option<(f64, &'static str)> {
    let yields = switch::measured(known, (Via::Yield, Parties::Processes), None, "switch");
    let same = Some(Class::Same);
    let pipes = || switch::measured(known, (Via::Pipe, Parties::Processes), same, "switch");
    let measured = yields.map(|ns| (ns, "yields")).or_else(|| Some((pipes()?, "pipes")));
    measured.filter(|(ns, _)| *ns > 0.0)
}

/// One tick, in ns, on the machine itself: R4 measured 0.9 to 1.9 µs on a Pentium E6300 with Linux
/// 3.13, and one that balances load takes longer. Kernels since pay for the mitigations of the way
/// in …
const TICK_BARE_NS: Range = range(800.0, 2_200.0, 9_000.0);
/// … in a virtual machine for the hypervisor's help, and a guest whose host was busy had ticks of 38
/// to 41 µs …
const TICK_GUEST_NS: Range = range(1_200.0, 7_000.0, 60_000.0);
/// … and if that is unknown.
const TICK_UNKNOWN_NS: Range = range(TICK_BARE_NS.low, 3_000.0, TICK_GUEST_NS.high);

/// Time that one tick takes from the running thread, in ns.
fn tick_cost(site: &Site) -> Law {
    let is_guest = site.host.kernel.virtualisation.is_guest;
    let (range, why) = match is_guest {
        Some(false) => (TICK_BARE_NS, "the tick's interrupt and accounting (R4: 0.9 to 1.9 µs)"),
        Some(true) => (TICK_GUEST_NS, "a tick, including exits to the hypervisor"),
        None => (TICK_UNKNOWN_NS, "a tick, perhaps with exits to a hypervisor"),
    };
    Law::from_range(range, why).counting_if(is_guest != Some(false), Condition::Hypervisor)
}

/// From the last read of one process to the first of the next, in ns.
pub fn switch(facts: Facts, processes: u64) -> Law {
    let switch = match facts.known.and_then(measured_switch) {
        Some((ns, by)) => Law::measured(
            ns,
            1.0,
            format!(
                "a context switch between processes took {ns:.0} ns (measured by os.switch with \
                 {by})"
            ),
        ),
        None => {
            let of = Handover { size: Some(processes), ..Handover::plain(Via::Yield) };
            switch::switch(facts, &of)
        }
    };
    tick_cost(facts.site) + switch
}

/// Share of switches on a tick.
pub fn on_tick(site: &Site) -> Law {
    let low = if cpu::is_guest(site) { 0.75 } else { 0.9 };
    match site.host.kernel.scheduler.feature("HRTICK") {
        Some(true) => Law::software(
            range(0.0, 0.1, 0.6),
            "HRTICK is on: a timer of the scheduler ends slices",
        ),
        _ => Law::software(
            range(low, 1.0, 1.0),
            "only the tick preempts processes that never wait, except when other tasks interrupt",
        ),
    }
}

/// Share of switches to the one that has waited longest, of more than two.
pub fn rotation() -> Law {
    Law::software(
        range(0.4, 0.9, 1.0),
        "the scheduler picks the process with the least CPU time, and with equal slices that is the \
         one that has waited longest",
    )
}

pub fn fairness(site: &Site) -> Law {
    let because = "equal priorities get equal time, within one slice at the ends of the window";
    if quota(site).is_some() {
        let few = "the CPU quota leaves room for few slices, which may be uneven";
        return Law::software(range(0.5, 0.97, 1.0), few);
    }
    match site.host.kernel.scheduler.extension.is_some() {
        true => Law::software(range(0.5, 0.97, 1.0), because),
        false => Law::software(range(0.93, 0.995, 1.0), because),
    }
}

/// Share of the time lost inside slices.
pub fn interrupted(site: &Site, processes: u64) -> Law {
    let tick_ns = tick_ns(site).unwrap_or(TICK_USUAL_NS);
    let ticks = (slice(site, processes).range.likely / tick_ns).round().max(1.0);
    let cost = tick_cost(site);
    let Range { likely, high, .. } = scaled(cost.range, 1.0 / tick_ns);
    let others = if cpu::is_guest(site) { 0.05 } else { 0.01 };
    // Those ticks at whose end the same process goes on.
    cost.with_range(range(0.0, likely * (ticks - 1.0) / ticks + 1e-4, high + others))
        .and(format!("the ticks within a slice of {ticks:.0} ticks, and other interrupts"))
}

/// The control group's quota, where it is less than the CPU that the processes want.
fn quota(site: &Site) -> Option<&CpuQuota> {
    let quota = site.host.limits.cpu_quota.as_ref();
    quota.filter(|quota| quota.cpus() < 1.0)
}

/// Share of the time that no process had.
pub fn lost(site: &Site, processes: u64) -> Law {
    let slice = slice(site, processes).range;
    let (switch, inside) = (switch(Facts::prior(site), processes), interrupted(site, processes));
    let Range { low, likely, high } = switch.range;
    let own = range(
        0.5 * low / slice.high,
        (likely / slice.likely + inside.range.likely).min(1.0),
        (high / slice.low + inside.range.high).min(1.0),
    );
    let law = switch.and("once per slice").with(&inside).with_range(own);
    let Some(allowed) = quota(site).map(CpuQuota::cpus) else {
        return law;
    };
    // A window that is short against the quota's periods may lie in one or the other.
    law.with_range(range(own.low, own.likely.max(1.0 - allowed), 1.0 - 0.3 * allowed)).and(format!(
        "the control group's CPU quota is {allowed:.2} CPUs, and the processes want one"
    ))
}

#[cfg(test)]
mod tests;

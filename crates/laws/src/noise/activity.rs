//! Laws of what a program that only runs loses on one CPU: the timer's tick, whose rate the kernel
//! states, times what one costs, and little else on a quiet machine.
//!
//! The tick's cost is that of an interrupt's way in and out and of the scheduler's accounting. R4
//! measured 0.9 to 1.9 µs on a Pentium E6300 with Linux 3.13, and about 0.1 % lost; kernels since pay
//! for the mitigations of the way in. In a virtual machine the timer is programmed and delivered with the
//! hypervisor's help, where the processor does not do it by itself. What others take is written from
//! usual figures of quiet machines (sysjitter, oslat and rtla osnoise on default kernels), wide because
//! nothing in the description of a machine says who else runs.

use crate::cpu::{CounterRead, core_clock, counter_read};
use crate::{Law, inverse, product, range, scaled, sum};
use bench::experiment::Site;
use host::Arch;
use record::event::{Condition, Range};

/// One tick, in ns, on the machine itself: R4's shortest, and one that balances load on a large machine …
const TICK_BARE_NS: Range = range(800.0, 2_200.0, 9_000.0);
/// … in a virtual machine, where the way to the hypervisor and back is in it; a guest on KVM whose host
/// was busy had ticks of 38 to 41 µs …
const TICK_GUEST_NS: Range = range(1_200.0, 7_000.0, 60_000.0);
/// … and where nobody tells which it is.
const TICK_UNKNOWN_NS: Range = range(TICK_BARE_NS.low, 3_000.0, TICK_GUEST_NS.high);
/// A tick may be off its rate by what clocks are slewed (adjtimex(2)) and calibrated wrongly.
const SLEWED: f64 = 600e-6;

/// The tick's rate in Hz, and from what.
fn rate(site: &Site, cpu: Option<usize>) -> Law {
    let kernel = &site.host.kernel;
    match kernel.hz.map(f64::from) {
        _ if is_tickless(site, cpu) => Law::new(
            0.0,
            1.0,
            kernel.hz.map_or(1_000.0, f64::from),
            "software overhead: no tick while one task runs (nohz_full), one a second at most where the \
             kernel keeps its rest",
        ),
        Some(hz) => Law::new(
            hz,
            hz,
            hz,
            format!(
                "software overhead: {hz} ticks a second (clock_getres of CLOCK_MONOTONIC_COARSE)"
            ),
        ),
        None => Law::new(
            100.0,
            250.0,
            1_000.0,
            "software overhead: 100 to 1000 ticks a second, the kernels' usual rates (it does not tell)",
        ),
    }
}

/// Whether the kernel stops the tick of a CPU while one task runs there.
fn is_tickless(site: &Site, cpu: Option<usize>) -> bool {
    cpu.is_some_and(|cpu| site.host.kernel.nohz_full.contains(&cpu))
}

/// What one tick takes from who is running, in ns: the law of all experiments that meet ticks.
pub fn tick_cost(site: &Site) -> Law {
    let (range, where_) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (TICK_BARE_NS, "on the machine itself (R4: 0.9 to 1.9 µs)"),
        Some(true) => {
            (TICK_GUEST_NS, "in a virtual machine, the hypervisor's exits for the timer added")
        }
        None => (TICK_UNKNOWN_NS, "with a hypervisor's exits or without (nobody tells)"),
    };
    Law::of(range, format!(
            "base hardware: an interrupt; software: the scheduler's accounting; a tick takes {:.1} to \
             {:.0} µs {where_}",
            range.low / 1e3,
            range.high / 1e3
        ))
    .counting_if(site.host.kernel.virtualisation.is_guest != Some(false), Condition::Hypervisor)
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
    let read = counter_read(site, read);
    let cycle_ns = inverse(1e9, core_clock(site).range);
    Law::of(
        sum(read.range, product_from_zero(TURN_CYCLES, cycle_ns)),
        format!(
            "{}; the comparison beside it 0 to 12 cycles, which its fence may hide",
            read.because()
        ),
    )
}

/// The same from what clock.read found for the read alone.
pub fn read_to_read_by_read_ns(read_ns: f64) -> Law {
    Law::of(
        scaled(TURN, read_ns),
        format!(
            "base hardware: the fenced read alone takes {read_ns:.1} ns (clock.read); software: a \
             comparison beside it"
        ),
    )
}

/// The interval of `a x b` where `a` may be zero.
fn product_from_zero(a: Range, b: Range) -> Range {
    range(a.low * b.low, a.likely * b.likely, a.high * b.high)
}

/// The shortest gap that is told from the loop's own turns, in ns.
pub fn threshold_ns(site: &Site) -> Law {
    let turn = read_to_read_ns(site);
    let high = match site.host.kernel.virtualisation.is_guest {
        Some(false) => 900.0,
        _ => 1_200.0,
    };
    let least = |turn: f64| THRESHOLD_LEAST_NS.max(TURNS_LEAST * turn);
    Law::of(
        range(
            least(turn.range.low),
            1.4 * least(turn.range.likely),
            least(turn.range.high).max(high),
        ),
        format!(
            "above the loop's own turns and their spread, below the shortest interrupt: sought from \
             {THRESHOLD_LEAST_NS} ns and {TURNS_LEAST} turns on; {}",
            turn.because()
        ),
    )
}

/// The median gap, in ns: a tick, unless there are more others than ticks.
pub fn gap_ns(site: &Site, cpu: Option<usize>) -> Law {
    let told = tick_cost(site).and("most gaps are the tick's");
    let mut told = match site.host.kernel.virtualisation.is_guest {
        Some(false) => told,
        _ => told.widened(
            4.0,
            1.0,
            "unless the hypervisor's own, shorter interruptions are more (0.3 us and up)",
        ),
    };
    if let Some(quota) = quota(site) {
        // A short slice may see no tick at all: then its end is the one gap of a period.
        told.range.high = told.range.high.max(1.2 * quota.gap_ns);
        told = told.and(&quota.because);
    }
    match is_tickless(site, cpu) {
        true => told.widened(4.0, 10.0, "on a tickless CPU others decide"),
        false => told,
    }
}

/// The median time between gaps, in ns: what the gaps of a second leave of it, less where some follow
/// others soon.
pub fn active_ns(site: &Site, cpu: Option<usize>) -> Law {
    let gaps = gap_rate_hz(site, cpu);
    if is_tickless(site, cpu) {
        return Law::of(range(1e5, 1e9 / gaps.range.likely.max(1.0), 4e9), gaps.because());
    }
    // Between gaps at random times the median is ln 2 of the mean; bursts lie closer.
    let Range { low, likely, high } = inverse(1e9, gaps.range);
    let mut told = Law::of(range(std::f64::consts::LN_2 * low, likely, high), gaps.because());
    if let Some(quota) = quota(site) {
        told.range.likely = told.range.likely.min(quota.run_ns);
        told.range.low = told.range.low.min(0.1 * quota.run_ns);
    }
    told
}

/// Gaps a second of at least the loop's threshold.
pub fn gap_rate_hz(site: &Site, cpu: Option<usize>) -> Law {
    gaps_hz(site, cpu, Others::All)
}

/// Gaps a second of at least 1 µs.
pub fn gap_rate_1us_hz(site: &Site, cpu: Option<usize>) -> Law {
    gaps_hz(site, cpu, Others::Long)
}

/// Which gaps beside the tick's are counted.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    /// All that the loop sees.
    All,
    /// Those of at least 1 µs.
    Long,
}

fn gaps_hz(site: &Site, cpu: Option<usize>, others: Others) -> Law {
    let ticks = rate(site, cpu);
    let (of, because) = (ticks.range, ticks.because());
    let is_bare = site.host.kernel.virtualisation.is_guest == Some(false);
    let (likely, times, more_hz, why) = match (is_bare, others) {
        (true, Others::All) => (1.1, 2.0, 40.0, "others are few on a quiet machine"),
        (true, Others::Long) => (1.05, 1.6, 40.0, "others are few on a quiet machine"),
        // There and back again takes a hypervisor about 1 µs, so its gaps are long ones.
        (false, Others::All | Others::Long) => (
            2.0,
            20.0,
            10_000.0,
            "others are few on a quiet machine, but a hypervisor's interruptions may be many",
        ),
    };
    // On the machine itself a tick may take less than 1 µs: R4's were 0.9 to 1.9.
    let least = match (is_bare, others) {
        (true, Others::Long) => 0.5,
        _ => 0.95,
    };
    let mut told = Law::of(
        range(least * of.low, likely * of.likely, times * of.high + more_hz),
        format!("{because}; {why}"),
    )
    .counting_if(!is_bare, Condition::Hypervisor);
    if let Some(quota) = quota(site) {
        // Ticks of the time that is left, and the end of each slice.
        told.range.low *= LEAST_OF_QUOTA * quota.cpus;
        told.range.likely = told.range.likely * quota.cpus + 1e9 / quota.period_ns;
        told.range.high += 1e9 / quota.period_ns;
        told = told.and(&quota.because);
    }
    told
}

/// A group may get less than its quota where others of it run too.
const LEAST_OF_QUOTA: f64 = 0.3;

/// A quota that is less than one CPU.
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
        because: format!("a quota of {cpus} CPUs in periods of {} ms", period_ns * 1e-6),
    })
}

/// Share of time that the tick takes.
pub fn lost_timer(site: &Site, cpu: Option<usize>) -> Law {
    let (rate, cost) = (rate(site, cpu), tick_cost(site));
    let share = match rate.range.low > 0.0 {
        true => scaled(product(rate.range, cost.range), 1e-9),
        // A product of intervals by their logarithms has no zero.
        false => range(
            0.0,
            rate.range.likely * cost.range.likely * 1e-9,
            rate.range.high * cost.range.high * 1e-9,
        ),
    };
    let told = Law::of(share, format!("{}; {}", rate.because(), cost.because()));
    told.widened(1.0, 1.5, "recording the causes may change the gaps")
}

/// Share of time that is lost in all.
pub fn lost(site: &Site, cpu: Option<usize>) -> Law {
    let timer = lost_timer(site, cpu);
    let most = others_most(site);
    let mut told = Law::of(
        sum(timer.range, range(0.0, 0.3 * timer.range.likely, most)),
        format!(
            "{}; others at most {} % unless the machine is busy",
            timer.because(),
            100.0 * most
        ),
    );
    // What others take is never less than nothing.
    told.range.low = timer.range.low;
    if quota(site).is_some() {
        let throttled = throttled(site);
        let of = throttled.range;
        told.range = range(
            of.low,
            of.likely + (1.0 - of.likely) * told.range.likely,
            (of.high + told.range.high).min(1.0),
        );
        return told.and(&throttled.because());
    }
    told
}

/// What others than the tick may take of a machine that is not busy: on the machine itself some
/// hundred interruptions a second of 10 µs.
fn others_most(site: &Site) -> f64 {
    match site.host.kernel.virtualisation.is_guest {
        Some(false) => 0.003,
        _ => 0.04,
    }
}

/// Share of time that a cause takes which is not the timer, by its name.
pub fn lost_other(site: &Site, cause: &str) -> Law {
    let guest = site.host.kernel.virtualisation.is_guest;
    let is_bare = guest == Some(false);
    let (likely, high, because) = match cause {
        "interrupt" => (
            2e-5,
            5e-3,
            "devices and other CPUs interrupt a quiet CPU some times a second, for microseconds",
        ),
        "softirq" => (3e-5, 5e-3, "work that interrupts leave: little on a quiet CPU"),
        "thread" => (
            1e-4,
            2e-2,
            "the kernel's threads some times a second; others only where the machine is busy",
        ),
        "plumb" => (0.0, 1e-3, "the session sleeps while a window is open"),
        "throttled" => return throttled(site),
        "steal" if is_bare => (0.0, 0.0, "no hypervisor, nothing stolen"),
        "steal" => (
            0.0,
            2e-2,
            "what a hypervisor says that it took: nothing where a CPU is its own, and in steps of 10 ms",
        ),
        _ if is_bare => (
            1e-5,
            2e-3,
            "firmware, and what the evidence does not reach: little on the machine itself",
        ),
        _ => (
            1e-3,
            4e-2,
            "a hypervisor takes the CPU unseen, and evidence without privilege does not reach all",
        ),
    };
    Law::new(0.0, likely, high, format!("base hardware: none; software overhead: {because}"))
        .counting_if(!is_bare && matches!(cause, "steal" | "unattributed"), Condition::Hypervisor)
}

fn throttled(site: &Site) -> Law {
    match site.host.limits.cpu_quota {
        Some(quota) if quota.cpus() < 1.0 => {
            let cpus = quota.cpus();
            let share = 1.0 - cpus;
            Law::new(
                0.3 * share,
                share,
                (1.2 * share).min(1.0),
                format!("base hardware: none; software overhead: a quota of {cpus} CPUs"),
            )
        }
        Some(quota) => Law::new(
            0.0,
            0.0,
            0.05,
            format!(
                "base hardware: none; software overhead: a quota of {} CPUs is enough for one thread",
                quota.cpus()
            ),
        ),
        None => Law::new(0.0, 0.0, 0.0, "base hardware: none; software overhead: no quota"),
    }
}

/// The longest gap of a window, in ns.
pub fn longest_gap_ns(site: &Site) -> Law {
    let cost = tick_cost(site);
    let (likely, high) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (30e3, 1e6),
        _ => (100e3, 20e6),
    };
    let told = Law::of(range(1.2 * cost.range.low, likely, high), format!(
            "{}; the longest of hundreds is who else came: a kernel thread's run, or a hypervisor's \
             slice",
            cost.because()
        ))
    .counting(Condition::Hypervisor);
    let Some(quota) = quota(site) else {
        return told;
    };
    // A window may end before the quota does; what is overrun is taken from the next period.
    let range = range(told.range.low, quota.gap_ns.max(likely), (2.0 * quota.period_ns).max(high));
    told.at(range).and(quota.because)
}

/// The tick's period in ns, as the gaps show it.
pub fn tick_period_ns(site: &Site, cpu: Option<usize>) -> Law {
    match site.host.kernel.hz.map(f64::from) {
        Some(hz) => {
            let period = 1e9 / hz;
            let told = Law::new(
                period * (1.0 - SLEWED),
                period,
                period * (1.0 + SLEWED),
                format!(
                    "software overhead: {hz} ticks a second (clock_getres of CLOCK_MONOTONIC_COARSE), \
                     base hardware: clocks that may be slewed by 0.05 %"
                ),
            );
            match is_tickless(site, cpu) {
                true => told.and("none is expected on a tickless CPU (nohz_full)"),
                false => told,
            }
        }
        None => Law::new(
            1e6 * (1.0 - SLEWED),
            4e6,
            10e6 * (1.0 + SLEWED),
            "software overhead: one of the kernels' usual rates, 100 to 1000 a second (it does not tell)",
        ),
    }
}

#[cfg(test)]
mod tests;

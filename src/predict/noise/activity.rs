//! Laws of what a program that only runs loses on one CPU: the timer's tick, whose rate the kernel
//! states, times what one costs, and little else on a quiet machine.
//!
//! The tick's cost is that of an interrupt's way in and out and of the scheduler's accounting. R4
//! measured 0.9 to 1.9 µs on a Pentium E6300 with Linux 3.13, and about 0.1 % lost; kernels since pay
//! for the mitigations of the way in. In a virtual machine the timer is programmed and delivered with the
//! hypervisor's help, where the processor does not do it by itself. What others take is written from
//! usual figures of quiet machines (sysjitter, oslat and rtla osnoise on default kernels), wide because
//! nothing in the description of a machine says who else runs.

use crate::experiment::Site;
use crate::host::Arch;
use crate::predict::{Estimate, product, range, scaled};
use record::event::Range;

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
fn rate(site: &Site, cpu: Option<usize>) -> Estimate {
    let kernel = &site.host.kernel;
    match kernel.hz.map(f64::from) {
        _ if is_tickless(site, cpu) => Estimate::new(
            0.0,
            1.0,
            kernel.hz.map_or(1_000.0, f64::from),
            "software overhead: no tick while one task runs (nohz_full), one a second at most where the \
             kernel keeps its rest",
        ),
        Some(hz) => Estimate::new(
            hz,
            hz,
            hz,
            format!(
                "software overhead: {hz} ticks a second (clock_getres of CLOCK_MONOTONIC_COARSE)"
            ),
        ),
        None => Estimate::new(
            100.0,
            250.0,
            1_000.0,
            "software overhead: 100 to 1000 ticks a second, the kernels' usual rates (it does not tell)",
        ),
    }
}

/// Whether the kernel stops the tick of a CPU while one task runs there.
pub(crate) fn is_tickless(site: &Site, cpu: Option<usize>) -> bool {
    cpu.is_some_and(|cpu| site.host.kernel.nohz_full.contains(&cpu))
}

/// What one tick takes from who is running, in ns: the law of all experiments that meet ticks.
pub(crate) fn tick_cost(site: &Site) -> Estimate {
    let (range, where_) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (TICK_BARE_NS, "on the machine itself (R4: 0.9 to 1.9 µs)"),
        Some(true) => (
            TICK_GUEST_NS,
            "in a virtual machine, the hypervisor's exits for the timer added",
        ),
        None => (
            TICK_UNKNOWN_NS,
            "with a hypervisor's exits or without (nobody tells)",
        ),
    };
    Estimate {
        range,
        because: format!(
            "base hardware: an interrupt; software: the scheduler's accounting; a tick takes {:.1} to \
             {:.0} µs {where_}",
            range.low / 1e3,
            range.high / 1e3
        ),
    }
}

/// Turns of the loop: a fenced read of the counter and a comparison, in ns.
pub(crate) fn read_to_read_ns(site: &Site) -> Estimate {
    match site.host.cpu.arch {
        Arch::X86_64 => Estimate::new(
            5.0,
            12.0,
            45.0,
            "base hardware: lfence and rdtsc, 20 to 60 core cycles of makers' designs of fifteen years, \
             at 1.5 to 5 GHz; software: a comparison beside it",
        ),
        Arch::Aarch64 => Estimate::new(
            5.0,
            25.0,
            80.0,
            "base hardware: isb and a read of CNTVCT_EL0, and no less than the counter's own tick; \
             software: a comparison beside it",
        ),
    }
}

/// The shortest gap that is told from the loop's own turns, in ns.
pub(crate) fn threshold_ns(site: &Site) -> Estimate {
    let turn = read_to_read_ns(site);
    Estimate {
        range: range(1.5 * turn.range.low, 150.0, 1_000.0),
        because: format!(
            "above the loop's own turns and their spread, below the shortest interrupt; {}",
            turn.because
        ),
    }
}

/// The median gap, in ns: a tick, unless there are more others than ticks.
pub(crate) fn gap_ns(site: &Site, cpu: Option<usize>) -> Estimate {
    let cost = tick_cost(site);
    let told = cost.and("software overhead: most gaps are the tick's");
    let told = match site.host.kernel.virtualisation.is_guest {
        Some(false) => told,
        _ => told.widened(
            3.0,
            1.0,
            "unless the hypervisor's own, shorter interruptions are more (0.5 us and up)",
        ),
    };
    match is_tickless(site, cpu) {
        true => told.widened(4.0, 10.0, "on a tickless CPU others decide"),
        false => told,
    }
}

/// The median time between gaps, in ns.
pub(crate) fn active_ns(site: &Site, cpu: Option<usize>) -> Estimate {
    let rate = rate(site, cpu);
    if is_tickless(site, cpu) {
        return Estimate {
            range: range(1e5, 1e8, 4e9),
            because: rate.because,
        };
    }
    let low_ns = 1e9 / rate.range.high;
    Estimate {
        range: range(
            match site.host.kernel.virtualisation.is_guest {
                Some(false) => 0.05 * low_ns,
                _ => 0.003 * low_ns,
            },
            0.998 * 1e9 / rate.range.likely,
            1e9 / rate.range.low,
        ),
        because: format!(
            "{}; others between two ticks shorten it, and nobody foretells them",
            rate.because
        ),
    }
}

/// Gaps a second.
pub(crate) fn gap_rate_hz(site: &Site, cpu: Option<usize>) -> Estimate {
    let Estimate { range: of, because } = rate(site, cpu);
    Estimate {
        range: match site.host.kernel.virtualisation.is_guest {
            Some(false) => range(0.95 * of.low, 1.15 * of.likely, 3.0 * of.high + 300.0),
            _ => range(0.95 * of.low, 2.0 * of.likely, 20.0 * of.high + 10_000.0),
        },
        because: format!(
            "{because}; others are few on a quiet machine, but a hypervisor's interruptions may be many"
        ),
    }
}

/// Share of time that the tick takes.
pub(crate) fn lost_timer(site: &Site, cpu: Option<usize>) -> Estimate {
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
    let told = Estimate {
        range: share,
        because: format!("{}; {}", rate.because, cost.because),
    };
    told.widened(1.0, 1.5, "recording the causes makes gaps longer")
}

/// Share of time that is lost in all.
pub(crate) fn lost(site: &Site, cpu: Option<usize>) -> Estimate {
    let timer = lost_timer(site, cpu);
    let of = timer.range;
    let others = others_most(site);
    Estimate {
        range: range(of.low, 1.3 * of.likely, of.high + others),
        because: format!(
            "{}; others at most {} % unless the machine is busy",
            timer.because,
            100.0 * others
        ),
    }
}

/// What others than the tick may take of a machine that is not busy.
fn others_most(site: &Site) -> f64 {
    match site.host.kernel.virtualisation.is_guest {
        Some(false) => 0.005,
        _ => 0.04,
    }
}

/// Share of time that a cause takes which is not the timer, by its name.
pub(crate) fn lost_other(site: &Site, cause: &str) -> Estimate {
    let guest = site.host.kernel.virtualisation.is_guest;
    let is_bare = guest == Some(false);
    let (likely, high, because) = match cause {
        "interrupt" => (
            2e-5,
            5e-3,
            "devices and other CPUs interrupt a quiet CPU some times a second, for microseconds",
        ),
        "softirq" => (
            3e-5,
            5e-3,
            "work that interrupts leave: little on a quiet CPU",
        ),
        "exception" => (0.0, 1e-4, "the loop touches only what is there"),
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
    Estimate::new(
        0.0,
        likely,
        high,
        format!("base hardware: none; software overhead: {because}"),
    )
}

fn throttled(site: &Site) -> Estimate {
    match site.host.limits.cpu_quota {
        Some(quota) if quota.cpus() < 1.0 => {
            let cpus = quota.cpus();
            let share = 1.0 - cpus;
            Estimate::new(
                0.3 * share,
                share,
                (1.2 * share).min(1.0),
                format!("base hardware: none; software overhead: a quota of {cpus} CPUs"),
            )
        }
        Some(quota) => Estimate::new(
            0.0,
            0.0,
            0.05,
            format!(
                "base hardware: none; software overhead: a quota of {} CPUs is enough for one thread",
                quota.cpus()
            ),
        ),
        None => Estimate::new(
            0.0,
            0.0,
            0.0,
            "base hardware: none; software overhead: no quota",
        ),
    }
}

/// The longest gap of a window, in ns.
pub(crate) fn longest_gap_ns(site: &Site) -> Estimate {
    let cost = tick_cost(site);
    let (likely, high) = match site.host.kernel.virtualisation.is_guest {
        Some(false) => (30e3, 4e6),
        _ => (100e3, 20e6),
    };
    Estimate {
        range: range(1.2 * cost.range.low, likely, high),
        because: format!(
            "{}; software overhead: the longest of hundreds is who else came: a kernel thread's run, or \
             a hypervisor's slice",
            cost.because
        ),
    }
}

/// The tick's period in ns, as the gaps show it.
pub(crate) fn tick_period_ns(site: &Site, cpu: Option<usize>) -> Estimate {
    match site.host.kernel.hz.map(f64::from) {
        Some(hz) => {
            let period = 1e9 / hz;
            let told = Estimate::new(
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
        None => Estimate::new(
            1e6 * (1.0 - SLEWED),
            4e6,
            10e6 * (1.0 + SLEWED),
            "software overhead: one of the kernels' usual rates, 100 to 1000 a second (it does not tell)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{gap_ns, lost, lost_other, lost_timer, tick_period_ns};
    use crate::experiments::tests::recorded;
    use crate::predict::tests::bare_site;

    /// R4: ticks of 0.9 to 1.9 µs every 4 ms, about 0.1 % lost, on Linux 3.13 of a machine of its own.
    #[test]
    fn the_reports_machine_is_inside() {
        let mut site = bare_site();
        site.host.kernel.hz = Some(250);
        site.host.kernel.virtualisation.is_guest = Some(false);
        let inside = |range: record::event::Range, value| {
            assert!((range.low..=range.high).contains(&value), "{range:?}");
        };
        for gap in [900.0, 1_900.0] {
            inside(gap_ns(&site, Some(0)).range, gap);
        }
        inside(lost(&site, Some(0)).range, 0.001);
        inside(tick_period_ns(&site, Some(0)).range, 3.9998e6);
    }

    #[test]
    fn a_tickless_cpu_has_its_own_laws() {
        let site = recorded("epyc-7763-2s");
        let cpu = site.host.kernel.nohz_full[0];
        let tickless = lost_timer(&site, Some(cpu));
        let other = lost_timer(&site, Some(0));
        assert!(tickless.range.likely < other.range.likely);
        assert!(tickless.because.contains("nohz_full"));
        assert!(tickless.range.low == 0.0 && other.range.low > 0.0);
    }

    #[test]
    fn a_quota_is_foretold() {
        let mut site = bare_site();
        assert_eq!(lost_other(&site, "throttled").range.high, 0.0);
        site.host.limits.cpu_quota = Some(crate::host::limits::CpuQuota {
            quota_us: 25_000,
            period_us: 100_000,
        });
        let half = lost_other(&site, "throttled").range;
        assert_eq!(half.likely, 0.75);
        assert!(half.high <= 1.0);
    }
}

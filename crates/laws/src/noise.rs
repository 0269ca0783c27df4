//! Noise is measured, not predicted: a machine's description does not say what else runs. What it
//! does say: the timer's tick and its period, and what a quota takes.

use crate::{Law, range, scaled};
use bench::experiment::Site;

/// Why a figure of noise has no prediction.
pub const MEASURED: &str = "noise is measured, not predicted: a machine's description does not say \
                            what else runs";

bench::symbols! {
    /// What takes the CPU from a program that only runs, in the order in which tables show it.
    pub enum Cause {
        /// The timer's interrupt: the scheduler's tick, and timers that ran out.
        Timer = "timer",
        /// Another interrupt: a device's, or one from another CPU.
        Interrupt = "interrupt",
        /// A soft interrupt, after an interrupt or in a thread of its own.
        Softirq = "softirq",
        Thread = "thread",
        Plumb = "plumb",
        /// A quota of CPU time: the thread was ready and did not run.
        Throttled = "throttled",
        /// The hypervisor says that it ran something else.
        Steal = "steal",
        Unattributed = "unattributed",
    }
}

/// A tick may be off its rate by what clocks are slewed (adjtimex(2)) and calibrated wrongly.
const SLEWED: f64 = 600e-6;

/// The tick's period in ns, as the gaps show it.
pub fn tick_period(site: &Site, cpu: Option<usize>) -> Law {
    let kernel = &site.host.kernel;
    let Some(hz) = kernel.hz.map(f64::from) else {
        let any = range(1e6 * (1.0 - SLEWED), 4e6, 10e6 * (1.0 + SLEWED));
        return Law::software(any, "unknown tick rate; kernels use 100 to 1000 per second");
    };
    let is_tickless = cpu.is_some_and(|cpu| kernel.nohz_full.contains(&cpu));
    let period = scaled(range(1.0 - SLEWED, 1.0, 1.0 + SLEWED), 1e9 / hz);
    Law::software(period, format!("{hz} ticks per second (CLOCK_MONOTONIC_COARSE)"))
        .and("clock slewing adds up to 0.06 %")
        .when(is_tickless, |law| law.and("on a tickless CPU there should be none"))
}

/// Share of the time of one thread that never waits which a quota takes.
pub fn throttled(site: &Site) -> Law {
    let Some(quota) = site.host.limits.cpu_quota.map(|quota| quota.cpus()) else {
        return Law::software(range(0.0, 0.0, 0.0), "no CPU quota");
    };
    let share = (1.0 - quota).max(0.0);
    let high = if share > 0.0 { (1.2 * share).min(1.0) } else { 0.05 };
    Law::software(range(0.3 * share, share, high), format!("a CPU quota of {quota} CPUs"))
}

/// Share of the time that as many CPUs lose, where a quota grants fewer; none where it does not.
pub fn lost(site: &Site, cpus: usize) -> Option<Law> {
    let quota = site.host.limits.cpu_quota?.cpus();
    let share = 1.0 - quota / cpus as f64;
    let why = format!("a CPU quota of {quota} CPUs for {cpus}, and other interruptions");
    (share > 0.0).then(|| Law::software(range(0.0, share, 1.0), why))
}

#[cfg(test)]
mod tests {
    use super::{lost, throttled, tick_period};
    use bench::experiment::fixtures::{bare_site, recorded};
    use host::limits::CpuQuota;

    /// R4: a tick every 4 ms.
    #[test]
    fn the_reports_period_is_inside() {
        let mut site = bare_site();
        site.host.kernel.hz = Some(250);
        let period = tick_period(&site, Some(0)).range;
        assert!(period.holds(3.9998e6) && period.high < 1.01 * period.low, "{period:?}");
    }

    #[test]
    fn a_quota_takes_what_it_does_not_grant() {
        let mut site = recorded("vm-granite-rapids");
        let mut shares = |quota_us: Option<u64>| {
            site.host.limits.cpu_quota =
                quota_us.map(|quota_us| CpuQuota { quota_us, period_us: 100_000 });
            let lost = [1, 4].map(|cpus| lost(&site, cpus).map(|law| law.range.likely));
            (throttled(&site).range.likely, lost)
        };
        assert_eq!(shares(None), (0.0, [None, None]));
        assert_eq!(shares(Some(20_000)), (0.8, [Some(0.8), Some(0.95)]));
        assert_eq!(shares(Some(100_000)), (0.0, [None, Some(0.75)]));
    }
}

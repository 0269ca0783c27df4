//! Which rounds were disturbed: decided by counters only, never by the measured value.

/// What changed around one round's timed window, on the CPUs it used.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Deltas {
    /// Length of the window, ns; times the number of CPUs where the counters are summed over
    /// several.
    pub window_ns: f64,
    /// Time the cgroup was throttled, ns.
    pub throttled_ns: f64,
    /// Migrations the case did not plan.
    pub migrations: u64,
    /// Major page faults the case did not plan.
    pub major_faults: u64,
    pub involuntary_switches: u64,
    /// Involuntary context switches that the case plans (two spinners sharing one CPU).
    pub planned_switches: u64,
    /// Time that others had on a CPU that the case fills with processes of its own, ns.
    pub foreign_ns: f64,
    /// Share of the window in which the measuring thread could have run and others did, where the
    /// case minds that.
    pub run_delay_share: f64,
    /// Core clock just before the window, Hz; `None` where it could not be taken.
    pub core_clock_before_hz: Option<f64>,
    /// Core clock just after the window, Hz; `None` where it could not be taken.
    pub core_clock_after_hz: Option<f64>,
}

/// Why a round counts as disturbed, with the observed size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// Share of the window throttled by the cgroup.
    Throttled(f64),
    Migrations(u64),
    MajorFaults(u64),
    /// Involuntary switches beyond those planned, per 10 ms.
    Switches(f64),
    /// Share of the window that others had of a CPU which the case's processes fill.
    Foreign(f64),
    /// Share of the window that the measuring thread waited for a CPU.
    RunDelay(f64),
    /// Core clock after over before, minus one.
    CoreClock(f64),
}

/// Words first, then the size: readers that count reasons go by the words.
impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Throttled(share) => write!(out, "throttled {:.1} %", share * 100.0),
            Reason::Migrations(count) => write!(out, "migrations {count}"),
            Reason::MajorFaults(count) => write!(out, "major faults {count}"),
            Reason::Switches(rate) => write!(out, "involuntary switches {rate:.1} per 10 ms"),
            Reason::Foreign(share) => write!(out, "others on the CPU {:.1} %", share * 100.0),
            Reason::RunDelay(share) => write!(out, "waits for a CPU {:.1} %", share * 100.0),
            Reason::CoreClock(change) => write!(out, "core clock change {:.1} %", change * 100.0),
        }
    }
}

/// Share of the window above which throttling or others disturb. Steal decides nothing: it finds
/// few of the samples that are off, where the width probe finds nearly all.
const STOLEN_SHARE: f64 = 0.005;
/// Involuntary switches beyond the planned ones, per 10 ms, above which they disturb.
const SWITCHES_PER_10_MS: f64 = 2.0;
/// Share of the window above which waiting for a CPU disturbs: a thread that sleeps for a device
/// now and then waits for 0.2 to 2 % on a quiet machine, and for 15 % and more where one other
/// program runs (a woken thread does not preempt the running one before the next tick, whatever its
/// priority).
const RUN_DELAY_SHARE: f64 = 0.05;
/// Relative change of the core clock above which it disturbs.
const CLOCK_CHANGE: f64 = 0.02;

/// All reasons for which the round counts as disturbed; empty for an undisturbed one (METHOD §4).
/// A window without length is disturbed by any throttling or switch.
pub fn judge(deltas: &Deltas) -> Vec<Reason> {
    let mut reasons = vec![];
    let window_ns = deltas.window_ns;
    if deltas.throttled_ns > STOLEN_SHARE * window_ns {
        reasons.push(Reason::Throttled(deltas.throttled_ns / window_ns));
    }
    if deltas.migrations > 0 {
        reasons.push(Reason::Migrations(deltas.migrations));
    }
    if deltas.major_faults > 0 {
        reasons.push(Reason::MajorFaults(deltas.major_faults));
    }
    let unplanned = deltas.involuntary_switches.saturating_sub(deltas.planned_switches) as f64;
    let windows_of_10_ms = window_ns / 1e7;
    if unplanned > SWITCHES_PER_10_MS * windows_of_10_ms {
        reasons.push(Reason::Switches(unplanned / windows_of_10_ms));
    }
    if deltas.foreign_ns > STOLEN_SHARE * window_ns {
        reasons.push(Reason::Foreign(deltas.foreign_ns / window_ns));
    }
    if deltas.run_delay_share > RUN_DELAY_SHARE {
        reasons.push(Reason::RunDelay(deltas.run_delay_share));
    }
    if let (Some(before_hz), Some(after_hz)) =
        (deltas.core_clock_before_hz, deltas.core_clock_after_hz)
        && (after_hz - before_hz).abs() > CLOCK_CHANGE * before_hz.min(after_hz)
    {
        reasons.push(Reason::CoreClock(after_hz / before_hz - 1.0));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Deltas {
        Deltas {
            window_ns: 50e6,
            core_clock_before_hz: Some(3e9),
            core_clock_after_hz: Some(3e9),
            ..Deltas::default()
        }
    }

    fn check(change: impl Fn(&mut Deltas), expect: &[Reason]) {
        let mut deltas = quiet();
        change(&mut deltas);
        assert_eq!(judge(&deltas), expect, "{deltas:?}");
    }

    #[test]
    fn limits_are_exclusive() {
        check(|_| {}, &[]);
        check(|d| d.throttled_ns = 250_000.0, &[]);
        check(|d| d.throttled_ns = 5e6, &[Reason::Throttled(0.1)]);
        check(|d| d.migrations = 1, &[Reason::Migrations(1)]);
        check(|d| d.major_faults = 2, &[Reason::MajorFaults(2)]);
        check(|d| d.core_clock_after_hz = Some(3.06e9), &[]);
        check(|d| d.core_clock_after_hz = None, &[]);
    }

    #[test]
    fn switches_are_a_rate_beyond_the_planned() {
        check(|d| d.involuntary_switches = 10, &[]);
        check(|d| d.involuntary_switches = 11, &[Reason::Switches(2.2)]);
        check(
            |d| {
                d.involuntary_switches = 100;
                d.planned_switches = 90;
            },
            &[],
        );
        check(|d| d.planned_switches = 5, &[]);
        check(|d| d.foreign_ns = 250_000.0, &[]);
        check(|d| d.foreign_ns = 5e6, &[Reason::Foreign(0.1)]);
        check(|d| d.run_delay_share = 0.05, &[]);
        check(|d| d.run_delay_share = 0.3, &[Reason::RunDelay(0.3)]);
    }

    #[test]
    fn clock_change_counts_both_ways() {
        for after_hz in [3.1e9, 2.9e9] {
            let mut deltas = quiet();
            deltas.core_clock_after_hz = Some(after_hz);
            assert!(matches!(judge(&deltas)[..], [Reason::CoreClock(_)]));
        }
    }

    #[test]
    fn several_reasons_are_all_named() {
        check(
            |d| {
                d.throttled_ns = 5e6;
                d.migrations = 3;
            },
            &[Reason::Throttled(0.1), Reason::Migrations(3)],
        );
    }
}

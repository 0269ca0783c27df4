//! What stands around a round and around each case of it: the CPU, the warm-up, the core clock
//! before and after, the environment's counters.

use super::clock::Clock;
use super::core_clock::{CoreClock, Estimate, Windows};
use super::environment::Snapshot;
use super::steal::Account;
use crate::link::{Done, RoundOrder};
use anyhow::{Context, Result};
use metal::kernel::chain_rotate;
use metal::place;
use record::key::CaseId;
use stats::quantile::median;
use std::collections::BTreeSet;
use std::hint::black_box;

/// Reference chains of the warm-up are this long, in ns.
const CHAIN_NS: f64 = 10e3;
/// Chains in a block; the core is warm when two neighbouring blocks agree.
const BLOCK_CHAINS: usize = 100;
/// Relative difference of two blocks' medians within which they agree.
const AGREEMENT: f64 = 0.002;
/// The warm-up gives up after this time.
const WARM_UP_NS_MAX: f64 = 50e6;
/// The same in a rehearsal, whose blocks are ten times as short.
const REHEARSAL_NS_MAX: f64 = 1e6;
/// An estimate of the core clock serves again so long, in ns.
const FRESH_NS: f64 = 1e6;
/// Relative difference of before and after above which a case has no core clock.
const CORE_TOLERANCE: f64 = 0.01;

/// The core clock over a case: its mean, or the reason for its absence.
pub type CoreOverCase = Result<f64, String>;

/// A round's surroundings, from the warm-up on.
pub struct Surroundings {
    pub clock: Clock,
    pub core: CoreClock,
    cpu: usize,
    used: BTreeSet<usize>,
    used_by_case: BTreeSet<usize>,
    /// The last estimate and when it ended, in ticks.
    last: (Estimate, u64),
    last_case: Option<(CaseId, CoreOverCase)>,
    first_hz: Option<f64>,
    before: Snapshot,
    begin: u64,
    warm_up_ns: f64,
    /// Migrations are no disturbance.
    is_free: bool,
    pub planned_switches: u64,
    pub planned_major_faults: u64,
    account: Option<Account>,
    /// What was stolen in the cases in which the thread did not sleep, and their time, in ns.
    stolen: Option<(f64, f64)>,
    /// Whether time that the measuring thread waits for a CPU is a disturbance.
    pub minds_run_delay: bool,
    /// Switches to others on a CPU that the case fills with processes, and the time these had, in
    /// ns.
    foreign: Option<(u64, f64)>,
}

impl Surroundings {
    /// Pins the calling thread to the order's first CPU (a free one to all of them), asks for the
    /// highest priority, warms the core up and reads the counters. Errors: there is no CPU in the
    /// order, or it cannot be pinned to.
    pub fn enter(order: &RoundOrder) -> Result<Self> {
        let cpu = *order.cpus.first().context("the order names no CPU")?;
        let is_free = order.is_free();
        match is_free {
            true => place::set_affinity(&order.cpus).context("running on the CPUs of the run")?,
            false => {
                place::pin(cpu).with_context(|| format!("pinning to CPU {cpu}"))?;
            }
        }
        // A rehearsal's figures mean nothing, so it takes the CPU from no other program.
        if !order.rehearsal {
            place::first();
        }
        let clock = Clock::from_calibration(&order.calibration);
        let windows = if order.rehearsal { Windows::REHEARSAL } else { Windows::FULL };
        let mut core = CoreClock::new(clock, windows);
        let warm_up_ns = warm_up(clock, &core, order.rehearsal);
        let first = core.estimate();
        let first_hz = first.hz;
        let before = Snapshot::read(&order.cpus);
        let begin = clock.start();
        Ok(Surroundings {
            clock,
            core,
            used: BTreeSet::from([cpu]),
            used_by_case: BTreeSet::from([cpu]),
            cpu,
            last: (first, begin),
            last_case: None,
            first_hz,
            before,
            begin,
            warm_up_ns,
            is_free,
            planned_switches: 0,
            planned_major_faults: 0,
            account: None,
            stolen: None,
            minds_run_delay: false,
            foreign: None,
        })
    }

    /// Counts others' turns among processes of the case's own, whose switches are not this
    /// process's.
    pub fn met_others(&mut self, switches: u64, time_ns: f64) {
        let (count, sum_ns) = self.foreign.unwrap_or_default();
        self.foreign = Some((count + switches, sum_ns + time_ns));
    }

    /// Seconds since the round began.
    pub fn seconds(&self) -> f64 {
        self.clock.between_ns(self.begin, self.clock.end()) / 1e9
    }

    /// Counts CPUs that measured beside the first.
    pub fn use_cpus(&mut self, cpus: &[usize]) {
        self.used.extend(cpus);
        self.used_by_case.extend(cpus);
    }

    /// A visit of a case begins, on the first CPU as far as is known.
    pub fn begin_case(&mut self) {
        self.used_by_case = BTreeSet::from([self.cpu]);
        self.account = Account::read();
    }

    pub fn end_case(&mut self) {
        let accounts = Account::read().zip(self.account);
        if let Some((stolen_ns, wall_ns)) = accounts.and_then(|(now, then)| now.since(then)) {
            let (sum_ns, windows_ns) = self.stolen.unwrap_or_default();
            self.stolen = Some((sum_ns + stolen_ns, windows_ns + wall_ns));
        }
    }

    /// Whether the case uses no CPU but the first.
    pub fn is_on_one_cpu(&self) -> bool {
        self.used_by_case.len() == 1
    }

    /// Takes the core clock before a case, unless the last estimate ended under a millisecond ago.
    pub fn before_case(&mut self) {
        self.last_case = None;
        if !self.is_fresh() {
            self.take();
        }
    }

    /// Takes the core clock after a case and compares it with the one before. Figures that are
    /// recorded one after another for the same case share one answer.
    pub fn after_case(&mut self, case: &CaseId) -> CoreOverCase {
        if let Some((last, answer)) = &self.last_case
            && last == case
            && self.is_fresh()
        {
            return answer.clone();
        }
        let before = self.last.0.clone();
        self.take();
        let answer = over_case(&before, &self.last.0);
        self.last_case = Some((case.clone(), answer.clone()));
        answer
    }

    fn is_fresh(&self) -> bool {
        self.clock.between_ns(self.last.1, self.clock.end()) < FRESH_NS
    }

    fn take(&mut self) {
        let estimate = self.core.estimate();
        self.last = (estimate, self.clock.end());
    }

    /// Ends the window and says what happened in it.
    pub fn leave(mut self) -> Done {
        let window_ns = self.clock.between_ns(self.begin, self.clock.end());
        self.used.insert(place::current_cpu());
        // Only CPUs that measured count: steal on an idle one disturbs nothing.
        let used: Vec<usize> = self.used.iter().copied().collect();
        let mut environment = Snapshot::read(&used).since(&self.before);
        self.before_case();
        let run_delay = environment.get("run_delay_ns").copied();
        let migrations = environment.get("migrations").copied();
        for (name, value) in [
            ("core_hz_before", self.first_hz),
            ("core_hz_after", self.last.0.hz),
            ("window_ns", Some(window_ns)),
            ("warm_up_ns", Some(self.warm_up_ns)),
            ("planned_switches", Some(self.planned_switches as f64)),
            ("planned_major_faults", Some(self.planned_major_faults as f64)),
            ("planned_migrations", migrations.filter(|_| self.is_free)),
            ("minded_run_delay_ns", run_delay.filter(|_| self.minds_run_delay)),
            ("foreign_switches", self.foreign.map(|of| of.0 as f64)),
            ("foreign_ns", self.foreign.map(|of| of.1)),
            ("steal_ns", self.stolen.map(|of| of.0)),
            ("steal_window_ns", self.stolen.map(|of| of.1)),
        ] {
            if let Some(value) = value {
                environment.insert(name.to_owned(), value);
            }
        }
        Done { window_ns, cpus: used, environment, failed: Vec::new() }
    }
}

/// The mean of before and after where both exist and agree within 1 %.
fn over_case(before: &Estimate, after: &Estimate) -> CoreOverCase {
    let told = |estimate: &Estimate, when: &str| {
        estimate.hz.ok_or_else(|| {
            let reason = estimate.reason.as_deref().unwrap_or("unknown");
            format!("no core clock {when} the case: {reason}")
        })
    };
    let (before_hz, after_hz) = (told(before, "before")?, told(after, "after")?);
    if (after_hz - before_hz).abs() > CORE_TOLERANCE * before_hz.min(after_hz) {
        return Err(format!(
            "the core clock moved over the case: {:.3} GHz before, {:.3} GHz after",
            before_hz / 1e9,
            after_hz / 1e9
        ));
    }
    Ok(f64::midpoint(before_hz, after_hz))
}

/// Spins until two neighbouring blocks of reference chains take the same time, and says how long
/// that took, in ns.
fn warm_up(clock: Clock, core: &CoreClock, rehearsal: bool) -> f64 {
    let (chains, limit_ns) = if rehearsal {
        (BLOCK_CHAINS / 10, REHEARSAL_NS_MAX)
    } else {
        (BLOCK_CHAINS, WARM_UP_NS_MAX)
    };
    let steps = core.rotations(CHAIN_NS);
    let mut lengths = vec![0.0; chains];
    let mut last: Option<f64> = None;
    let begin = clock.start();
    loop {
        for length in &mut lengths {
            let start = clock.start();
            black_box(chain_rotate(black_box(steps)));
            *length = clock.between_ns(start, clock.end());
        }
        let now = median(&lengths);
        let agree = last
            .zip(now)
            .is_some_and(|(last, now)| (now - last).abs() <= AGREEMENT * last.min(now));
        let spent_ns = clock.between_ns(begin, clock.end());
        if agree || spent_ns >= limit_ns {
            return spent_ns;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::over_case;
    use crate::measure::core_clock::Estimate;

    fn estimate(hz: Option<f64>) -> Estimate {
        Estimate {
            hz,
            rotate_hz: Some(3e9),
            multiply_cycles: None,
            reason: hz.is_none().then(|| "chains disagree".to_owned()),
        }
    }

    #[test]
    fn a_core_clock_that_moved_or_is_unknown_is_null_with_its_reason() {
        let over = |before, after| over_case(&estimate(before), &estimate(after));
        assert_eq!(over(Some(3.00e9), Some(3.02e9)), Ok(3.01e9));
        let moved = over(Some(3.0e9), Some(3.1e9)).expect_err("moved");
        assert!(moved.contains("3.000") && moved.contains("3.100"), "{moved}");
        over(Some(3.1e9), Some(3.0e9)).expect_err("moved down");
        let unknown = over(Some(3.0e9), None).expect_err("unknown");
        assert!(unknown.contains("chains disagree"), "{unknown}");
    }
}

//! Whether a core is alone, asked of the width probe between rounds (METHOD §2a: the core is waited
//! for).

use crate::budget::CoreState;
use bench::experiment::Site;
use bench::measure::Probe;
use metal::place::pin;
use record::event::Calibration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// CPUs that are asked at most. Each look takes a millisecond.
const CPUS_MAX: usize = 8;
/// The longest wait before one round.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The pause between two looks while the session waits.
const PAUSE: Duration = Duration::from_millis(10);

/// What the probe said before a round, and on which CPU that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub state: CoreState,
    /// The CPU of the core that is alone; else the one that measures by default.
    pub cpu: usize,
    /// How long it took to find out.
    pub waited: Duration,
}

/// CPUs on which a round gives the same figure: those of one design and memory node with the first.
fn alike(site: &Site) -> Vec<usize> {
    let Some(&first) = site.cpus.first() else { return Vec::new() };
    let cpu = &site.host.cpu;
    let kind = |id: usize| (cpu.core_of(id), cpu.cpu(id).and_then(|cpu| cpu.node));
    let alike = site.cpus.iter().copied().filter(|id| kind(*id) == kind(first));
    alike.take(CPUS_MAX).collect()
}

/// Asks the probe on each CPU until one is alone; `None` without a probe.
pub fn look(site: &Site, calibration: &Calibration) -> Option<Look> {
    let (probe, level) = Probe::calibrated(calibration)?;
    let began = Instant::now();
    let cpus = alike(site);
    // The probe runs in a new thread, so that the session's thread is not pinned.
    let is_alone = |cpu: usize| {
        let asked = move || pin(cpu).is_ok() && probe.is_alone(level);
        std::thread::spawn(asked).join().unwrap_or(false)
    };
    let alone = cpus.iter().copied().find(|cpu| is_alone(*cpu));
    let state = if alone.is_some() { CoreState::Alone } else { CoreState::Shared };
    let cpu = alone.or(cpus.first().copied())?;
    Some(Look { state, cpu, waited: began.elapsed() })
}

/// Looks until a core is alone. It ends after a second, after a tenth of the time that is left, or
/// when `stop` is set.
pub fn wait(
    site: &Site,
    calibration: &Calibration,
    left: Duration,
    stop: &AtomicBool,
) -> Option<Look> {
    let began = Instant::now();
    loop {
        let found = look(site, calibration)?;
        let waited = began.elapsed();
        let is_over = waited >= WAIT_MAX.min(left / 10) || stop.load(Ordering::Relaxed);
        if found.state == CoreState::Alone || is_over {
            return Some(Look { waited, ..found });
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::{CPUS_MAX, alike, look};
    use crate::fixtures::recorded_sites;
    use bench::experiment::Preset;
    use bench::experiment::fixtures::bare_site;
    use record::event::{Calibration, Width};

    #[test]
    fn a_round_moves_only_to_a_core_of_the_same_design_and_node() {
        for (name, site) in recorded_sites(Preset::Quick) {
            let cpu = &site.host.cpu;
            let first = site.cpus[0];
            let found = alike(&site);
            assert_eq!(found[0], first, "{name}");
            assert!(found.len() <= CPUS_MAX, "{name}: {found:?}");
            assert!(found.iter().all(|id| cpu.core_of(*id) == cpu.core_of(first)), "{name}");
        }
    }

    #[test]
    fn nothing_is_known_without_a_level() {
        let site = bare_site();
        assert_eq!(look(&site, &Calibration::default()), None);
        let unlearnt = Calibration { width: Some(Width::default()), ..Calibration::default() };
        assert_eq!(look(&site, &unlearnt), None);
    }
}

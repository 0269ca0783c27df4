//! The kernel's tick in a window of processes that take turns.

use stats::phase;

/// Share of a tick's period in which events must crowd to give its phase, and how many: so many
/// beside what chance brings there, and so many times its deviation.
const ARC: f64 = 0.005;
const CROWD_MIN: f64 = 5.0;
const CROWD_DEVIATIONS: f64 = 6.0;
/// How far from its place a tick may start: this share of the period, or this where that is less.
const TOLERANCE: f64 = 0.01;
const TOLERANCE_NS_MIN: f64 = 20e3;
/// Least share of the ticks' places at which something starts: a tick shows as an interruption if
/// not as a switch, unless somebody else has the CPU.
const OCCUPIED: f64 = 0.3;

/// The ticks of a window.
///
/// A guest whose host has the same rate sees two trains of that period: its own ticks and the times
/// at which the host's stop the whole machine. Only the switches show which of them takes the CPU
/// from a process, so the train with most switches is the tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    period_ns: f64,
    phase_ns: f64,
    pub(super) of_others: usize,
}

impl Grid {
    /// From starts, ascending, in ns; `None` where nothing comes with that period.
    pub(super) fn from_starts(
        switches_ns: &[f64],
        gaps_ns: &[f64],
        period_ns: f64,
    ) -> Option<Grid> {
        let both = [switches_ns, gaps_ns];
        let found = both.into_iter().filter_map(|starts| phase::tick(starts, &[period_ns]));
        let mut all: Vec<(f64, f64)> = found.map(|tick| (tick.period_ns, tick.phase_ns)).collect();
        // Clocks are slewed: a period that was fitted is nearer than the kernel's own.
        let fitted_ns = all.iter().map(|(period_ns, _)| *period_ns);
        let periods_ns: Vec<f64> = fitted_ns.chain([period_ns]).collect();
        for period_ns in periods_ns {
            let crowds = both.into_iter().filter_map(|starts| crowd(starts, period_ns));
            all.extend(crowds.map(|phase_ns| (period_ns, phase_ns)));
        }
        let grids =
            all.into_iter().map(|(period_ns, phase_ns)| Grid { period_ns, phase_ns, of_others: 0 });
        let all: Vec<Grid> = grids.filter(|grid| grid.occupied(gaps_ns) >= OCCUPIED).collect();
        // The first of equals, which is the best fitted.
        let rank = |grid: &&Grid| (grid.count(switches_ns), grid.count(gaps_ns));
        let best = *all.iter().rev().max_by_key(rank)?;
        let others = all.iter().filter(|grid| !best.is_near(grid.phase_ns, 2.0));
        Some(Grid { of_others: others.map(|grid| grid.count(gaps_ns)).max().unwrap_or(0), ..best })
    }

    pub(super) fn note(&self) -> Option<String> {
        (self.of_others > 0).then(|| {
            format!(
                "in the first round {} gaps had the tick's period but not its phase at the \
                 switches: another timer of the same rate, such as the hypervisor's",
                self.of_others
            )
        })
    }

    /// Whether something that starts then starts with a tick.
    pub(super) fn is_on(&self, start_ns: f64) -> bool {
        self.is_near(start_ns, 1.0)
    }

    fn is_near(&self, start_ns: f64, tolerances: f64) -> bool {
        let off = (start_ns - self.phase_ns).rem_euclid(self.period_ns);
        let tolerance_ns = (TOLERANCE * self.period_ns).max(TOLERANCE_NS_MIN);
        off.min(self.period_ns - off) <= tolerances * tolerance_ns
    }

    fn count(&self, starts_ns: &[f64]) -> usize {
        starts_ns.iter().filter(|at| self.is_on(**at)).count()
    }

    /// Share of the places, from the first start to the last, that have one.
    fn occupied(&self, starts_ns: &[f64]) -> f64 {
        let (Some(first), Some(last)) = (starts_ns.first(), starts_ns.last()) else {
            return 0.0;
        };
        let on = starts_ns.iter().filter(|at| self.is_on(**at));
        let mut cycles: Vec<i64> =
            on.map(|at| ((at - self.phase_ns) / self.period_ns).round() as i64).collect();
        cycles.dedup();
        cycles.len() as f64 / ((last - first) / self.period_ns).round().max(1.0)
    }
}

/// Where in a period starts crowd, in one place only; in windows with holes (a quota, a
/// hypervisor), in which not every tick shows, nothing more is known.
fn crowd(starts_ns: &[f64], period_ns: f64) -> Option<f64> {
    let arc_ns = ARC * period_ns;
    let mut phases: Vec<f64> = starts_ns.iter().map(|at| at.rem_euclid(period_ns)).collect();
    phases.sort_unstable_by(f64::total_cmp);
    // Once around, for a crowd at the seam.
    phases.extend_from_within(..);
    let turn = phases.len() / 2;
    phases[turn..].iter_mut().for_each(|at| *at += period_ns);
    let crowd = |from: usize| {
        let within = phases[from..].partition_point(|at| *at <= phases[from] + arc_ns);
        within.min(turn)
    };
    let most = (0..turn).max_by_key(|from| crowd(*from))?;
    // Events of another period crowd in more places than one.
    let others = (0..turn).filter(|from| {
        let apart = (phases[*from] - phases[most]).rem_euclid(period_ns);
        apart.min(period_ns - apart) > 2.0 * arc_ns
    });
    let next = others.map(crowd).max().unwrap_or(0);
    let by_chance = ARC * turn as f64;
    let needed = CROWD_MIN + by_chance + CROWD_DEVIATIONS * by_chance.sqrt();
    let is_one = crowd(most) as f64 >= needed.max(2.0 * next as f64);
    is_one.then(|| phases[most] + 0.5 * arc_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(all: &[&[f64]]) -> Vec<f64> {
        let mut starts = all.concat();
        starts.sort_unstable_by(f64::total_cmp);
        starts
    }

    /// Numbers between 0 and 1 that are as good as random.
    fn golden(n: u32) -> f64 {
        (f64::from(n) * 0.618_033_988_7).fract()
    }

    /// Starts every so often, so many, moved by some of this spread.
    fn every(period_ns: f64, count: u32, phase_ns: f64, spread_ns: f64) -> Vec<f64> {
        let moved = |n: u32| spread_ns * (golden(n) * 2.0 - 1.0);
        (0..count).map(|n| f64::from(n) * period_ns + phase_ns + moved(n)).collect()
    }

    #[test]
    fn a_window_with_holes_has_its_ticks_all_the_same() {
        // 50 of 120 ms are gone, as a quota takes them; half of the gaps left are no ticks.
        let [switches, others] = [(4e6, 0.0), (3.917e6, 1e6)].map(|(period_ns, phase_ns)| {
            let mut starts = every(period_ns, 30, phase_ns, 0.0);
            starts.retain(|at| !(44e6..96e6).contains(at));
            starts
        });
        let grid =
            Grid::from_starts(&switches, &sorted(&[&switches, &others]), 4e6).expect("ticks");
        assert!(grid.is_on(400e6) && !grid.is_on(402e6) && grid.is_on(4e6 - 3_000.0));
        assert_eq!(grid.of_others, 0);
        // Twenty interruptions to a tick, at any time.
        let many: Vec<f64> = (0..1_500).map(|at| golden(at) * 300e6).collect();
        let ticks = every(4e6, 75, 0.0, 0.0);
        let crowded = sorted(&[&many, &ticks]);
        assert!(crowd(&crowded, 4e6).is_some());
        let grid = Grid::from_starts(&ticks, &crowded, 4e6).expect("ticks");
        assert!(grid.is_on(8e6) && !grid.is_on(9e6));
        assert_eq!(crowd(&many, 4e6), None);
        // At any time.
        let spread = every(6.1e6, 30, 0.0, 0.0);
        assert_eq!(Grid::from_starts(&spread, &spread, 4e6), None);
        assert_eq!(Grid::from_starts(&[], &[], 4e6), None);
    }

    #[test]
    fn of_two_trains_of_one_period_the_switches_choose() {
        // A guest's ticks, which jitter, and its host's, which do not and are more numerous.
        let switches = every(4e6, 30, 1.45e6, 20e3);
        let hosts = every(4e6, 30, 0.98e6, 1e3);
        for hosts in [hosts.clone(), [hosts.clone(), hosts].concat()] {
            let gaps = sorted(&[&switches, &hosts]);
            let grid = Grid::from_starts(&switches, &gaps, 4e6).expect("a tick");
            assert!(switches.iter().all(|at| grid.is_on(*at)), "{grid:?}");
            assert!(grid.of_others >= 30, "{grid:?}");
        }
    }

    #[test]
    fn slices_of_several_ticks_end_on_the_tick() {
        // Every third tick takes the CPU, the others interrupt.
        let ticks = every(4e6, 60, 0.3e6, 5e3);
        let switches: Vec<f64> = ticks.iter().copied().step_by(3).collect();
        let grid = Grid::from_starts(&switches, &ticks, 4e6).expect("a tick");
        assert!(switches.iter().all(|at| grid.is_on(*at)));
    }

    #[test]
    fn switches_that_come_by_another_clock_are_on_no_tick() {
        // A timer of the scheduler's own every 3 ms, ticks of 1 ms that interrupt.
        let ticks = every(1e6, 300, 0.1e6, 2e3);
        let switches = every(2.9e6, 100, 0.5e6, 2e3);
        let gaps = sorted(&[&ticks, &switches]);
        let grid = Grid::from_starts(&switches, &gaps, 1e6).expect("a tick");
        assert!(grid.count(&switches) <= 15, "{grid:?}");
    }

    #[test]
    fn late_by_more_than_a_hundredth_is_not_on_the_tick() {
        let ticks = every(4e6, 60, 0.0, 100e3);
        // So wide a crowd is found; what starts 100 us late may have been woken by the tick.
        if let Some(grid) = Grid::from_starts(&ticks, &ticks, 4e6) {
            assert!(grid.count(&ticks) < 40, "{grid:?}");
        }
        let ticks = every(4e6, 60, 0.0, 5e3);
        let grid = Grid::from_starts(&ticks, &ticks, 4e6).expect("ticks");
        assert!(grid.is_on(8.03e6) && !grid.is_on(8.15e6));
    }
}

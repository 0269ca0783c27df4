//! The width probe (METHOD §2a): 1 to 2 µs of independent operations beside a short chain of
//! rotations. A core that another tenant's hyperthread uses does fewer of them a cycle; the chain
//! gives the cycle.

use super::clock::Clock;
use super::core_clock::CoreClock;
use metal::kernel::{INDEPENDENT_A_TURN, chain_rotate, independent};
use record::event::{Calibration, Unusable, Width};
use stats::width;
use std::hint::black_box;
use std::time::Duration;

/// Length of a row of operations and of a chain, in ns.
const PROBE_NS: f64 = 1e3;
/// They are at least so many of the clock's steps …
const STEPS: f64 = 50.0;
/// … and no longer than this, in ns: the clock is too coarse otherwise.
const PROBE_NS_MAX: f64 = 2e3;
/// Operations per cycle by which a row is sized before anything is known of the core, and rows that
/// are timed to size it better: the fastest was alone.
const UNITS: f64 = 4.0;
const SIZING_ROWS: usize = 64;
/// A turn of a row has one operation more, which counts the turns.
const OPERATIONS_A_TURN: f64 = (INDEPENDENT_A_TURN + 1) as f64;
/// Batches longer than this, in ns, are not classified by the probes around them …
const BATCH_NS_MAX: f64 = 1e6;
/// … nor is a turn that is longer in all.
const TURN_NS_MAX: f64 = 5e6;
const LEAST_STEPS: u64 = 64;
/// How long a look at the state of a core takes, in ns.
const LOOK_NS: f64 = 1e6;
/// Readings between two attempts to learn the level, and at least.
const LESSON: usize = 2000;
const LEAST_READINGS: usize = 6000;
/// Pause between two lessons where the core was not alone: its states last up to a second.
const PAUSE: Duration = Duration::from_millis(15);

/// Takes readings on the calling thread's CPU.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    clock: Clock,
    turns: u64,
    steps: u64,
    /// A step of the clock, as a share of a row.
    step: f64,
    /// What reading the clock adds to a chain, in ns.
    pair_ns: f64,
}

/// A step of the clock as a share of a probe's length.
pub fn clock_step(resolution_ns: f64) -> f64 {
    resolution_ns / PROBE_NS.max(STEPS * resolution_ns)
}

impl Probe {
    /// For a core that does so many operations a cycle, where that is known. `None` where the clock
    /// is too coarse.
    pub fn new(
        clock: Clock,
        core: &CoreClock,
        calibration: &Calibration,
        level: Option<f64>,
    ) -> Option<Self> {
        Probe::of_steps(clock, |ns| core.rotations(ns), calibration, level.unwrap_or(UNITS))
    }

    /// For a core of the calibration's clock whose level is known; `None` without a level, or where
    /// the clock is too coarse.
    pub fn calibrated(calibration: &Calibration) -> Option<(Self, f64)> {
        let level = calibration.width?.level?;
        let steps = |ns: f64| ((ns * calibration.core_hz / 1e9) as u64).max(LEAST_STEPS);
        Some((
            Probe::of_steps(Clock::from_calibration(calibration), steps, calibration, level)?,
            level,
        ))
    }

    fn of_steps(
        clock: Clock,
        steps: impl Fn(f64) -> u64,
        calibration: &Calibration,
        level: f64,
    ) -> Option<Self> {
        let Calibration { resolution_ns, pair_cost_ns: pair_ns, .. } = *calibration;
        let length_ns = PROBE_NS.max(STEPS * resolution_ns);
        (length_ns <= PROBE_NS_MAX).then(|| {
            let step = clock_step(resolution_ns);
            Probe { clock, turns: 0, steps: steps(length_ns), step, pair_ns }.sized(level)
        })
    }

    /// Whether nobody else uses the core of the calling thread's CPU now: nine in ten readings of a
    /// millisecond are of a core that is alone.
    pub fn is_alone(&self, level: f64) -> bool {
        let count = (LOOK_NS / (3.0 * PROBE_NS)) as usize;
        let mut readings = Vec::with_capacity(count);
        self.readings(count, &mut readings);
        let alone = readings.iter().filter(|reading| width::is_alone(**reading, level)).count();
        10 * alone >= 9 * count
    }

    /// Its rows as long as its chains on a core that does so many operations a cycle.
    fn sized(self, units: f64) -> Self {
        let turns = (self.steps as f64 * units / OPERATIONS_A_TURN).ceil() as u64;
        Probe { turns, ..self }
    }

    /// The same for what the fastest of some rows shows.
    fn sized_here(self) -> Self {
        let fastest = |of: fn(&Probe) -> f64| {
            (0..SIZING_ROWS).map(|_| of(&self)).fold(f64::INFINITY, f64::min)
        };
        match reading(fastest(Probe::cycle_ns), fastest(Probe::operation_ns)) {
            Some(units) => self.sized(units.max(1.0)),
            None => self,
        }
    }

    /// Time of a step of the chain, in ns: a cycle.
    #[inline(never)]
    pub fn cycle_ns(&self) -> f64 {
        let steps = black_box(self.steps);
        let start = self.clock.start();
        black_box(chain_rotate(steps));
        self.clock.between_ns(start, self.clock.end()) / self.steps as f64
    }

    /// Time of an operation, in ns. A row of one turn comes first and fetches the code again, which
    /// the case may have evicted from the caches and the TLB. That fetch takes a twentieth of
    /// a row or more: with it inside the timed row, a core that is alone reads as shared.
    #[inline(never)]
    fn operation_ns(&self) -> f64 {
        let mut row_ns = 0.0;
        for turns in black_box([1, self.turns]) {
            let start = self.clock.start();
            independent(turns);
            row_ns = self.clock.between_ns(start, self.clock.end());
        }
        row_ns / (OPERATIONS_A_TURN * self.turns as f64)
    }

    /// Readings into `readings`: operations per cycle, each by the least of three neighbouring
    /// chains.
    fn readings(&self, count: usize, readings: &mut Vec<f64>) {
        let mut cycles = [self.cycle_ns(), self.cycle_ns(), 0.0];
        let mut operation_ns = self.operation_ns();
        for at in 2..count + 2 {
            cycles[at % 3] = self.cycle_ns();
            readings.extend(reading(least(cycles), operation_ns));
            operation_ns = self.operation_ns();
        }
    }
}

fn least(cycles: [f64; 3]) -> f64 {
    cycles.into_iter().fold(f64::INFINITY, f64::min)
}

/// Operations per cycle; none where a clock stepped.
fn reading(cycle_ns: f64, operation_ns: f64) -> Option<f64> {
    let reading = cycle_ns / operation_ns;
    (reading.is_finite() && reading > 0.0).then_some(reading)
}

/// Learns what *alone* looks like on the calling thread's CPU, for `patience` where it is hardly
/// ever alone.
pub fn learn(probe: Option<Probe>, patience: Duration) -> Width {
    let mut found = Width { unusable: Some(Unusable::ClockTooCoarse), ..Width::default() };
    let Some(probe) = probe.map(Probe::sized_here) else { return found };
    let begin = std::time::Instant::now();
    let mut readings = Vec::new();
    probe.readings(LESSON, &mut readings);
    // The first ones came while the code was cold.
    readings.clear();
    loop {
        probe.readings(LESSON, &mut readings);
        let learnt = width::learn(&mut readings, probe.step);
        if learnt.level.is_some() {
            found = learnt;
            if readings.len() >= LEAST_READINGS {
                return found;
            }
            continue;
        }
        // What an earlier lesson found about the mode stays.
        found = Width {
            level: None,
            unusable: learnt.unusable,
            additions_per_cycle: learnt.additions_per_cycle.or(found.additions_per_cycle),
            readings: learnt.readings,
            ..found
        };
        if begin.elapsed() > patience {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// What the probes around a sample read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Operations per cycle at the slowest boundary; 0 where the sample cannot be classified.
    pub width: f64,
    /// Time of a cycle, in ns: the mean of the chains before and after the sample, without what the
    /// clock's reading costs (2 % of a chain). 0 where the clock stood still.
    pub cycle_ns: f64,
}

/// Samples before and after one whose chains its clock is averaged over …
const NEIGHBOURS: usize = 8;
/// … where they differ by no more than this share, or by so many steps of the clock.
const SAME_CLOCK: f64 = 0.005;
const SAME_STEPS: f64 = 1.5;

/// The core clock at each sample, in MHz: a chain is a whole number of the clock's steps, which are up
/// to a hundredth of it, so that its neighbours' are needed for a better one. An interrupted chain
/// has none like it nearby. `step` is that of [`clock_step`]; 0 where there is no clock.
pub fn core_mhz(readings: &[Reading], step: f64) -> Vec<u32> {
    let share = SAME_CLOCK.max(SAME_STEPS * step);
    let clock = |at: usize| {
        let own_ns = readings[at].cycle_ns;
        let near = at.saturating_sub(NEIGHBOURS)..readings.len().min(at + NEIGHBOURS + 1);
        let is_same = |ns: &f64| (ns / own_ns - 1.0).abs() <= share;
        let same = readings[near].iter().map(|one| one.cycle_ns).filter(is_same);
        let (sum, count) = same.fold((0.0, 0.0), |(sum, count), ns| (sum + ns, count + 1.0));
        // A float becomes an integer within its range, and 0 where it is no number.
        (1e3 * count / sum).round() as u32
    };
    (0..readings.len()).map(clock).collect()
}

/// Reads the probe at the batch boundaries of one turn.
pub struct Watch {
    probe: Option<Probe>,
    /// The last reading, which is the first of the next turn.
    last_ns: f64,
    /// The slowest operation of the turn so far, in ns.
    slowest_ns: f64,
    /// Boundaries read in this turn.
    boundaries: u32,
    /// Time of its batches, in ns.
    batches_ns: f64,
    is_long: bool,
    /// The last chains, in turn. The least of these is the cycle of a reading.
    cycles: [f64; 3],
    chains: usize,
}

impl Watch {
    /// Ready for the first turn; without a probe no turn is classified.
    pub fn new(probe: Option<Probe>) -> Self {
        let mut watch = Watch {
            probe,
            last_ns: 0.0,
            slowest_ns: 0.0,
            boundaries: 0,
            batches_ns: 0.0,
            is_long: false,
            cycles: [f64::INFINITY; 3],
            chains: 0,
        };
        if let Some(probe) = probe {
            // Two of each: the code is cold at first.
            probe.cycle_ns();
            probe.operation_ns();
            watch.cycle(probe);
            watch.cycle(probe);
            watch.last_ns = probe.operation_ns();
        }
        watch
    }

    /// Takes the time of a cycle, in ns.
    fn cycle(&mut self, probe: Probe) -> f64 {
        let cycle_ns = probe.cycle_ns();
        self.cycles[self.chains % 3] = cycle_ns;
        self.chains += 1;
        cycle_ns
    }

    /// A turn begins where the last one ended.
    pub fn begin(&mut self) {
        self.slowest_ns = self.last_ns;
        self.boundaries = 0;
        self.batches_ns = 0.0;
        self.is_long = false;
    }

    /// A batch ended that took so long: the probe is read. Returns that time.
    pub fn batch(&mut self, batch_ns: f64) -> f64 {
        if let Some(probe) = &self.probe {
            self.last_ns = probe.operation_ns();
            self.slowest_ns = self.slowest_ns.max(self.last_ns);
        }
        self.boundaries += 1;
        self.batches_ns += batch_ns;
        self.is_long |= batch_ns > BATCH_NS_MAX;
        batch_ns
    }

    /// The turn ended. `None` without a probe.
    pub fn end(&mut self) -> Option<Reading> {
        let probe = self.probe?;
        let before_ns = self.cycles[(self.chains + 2) % 3];
        let cycle_ns = f64::midpoint(before_ns, self.cycle(probe));
        let cycle_ns = (cycle_ns - probe.pair_ns / probe.steps as f64).max(0.0);
        let is_classified = self.boundaries > 0 && !self.is_long && self.batches_ns <= TURN_NS_MAX;
        let width = reading(least(self.cycles), self.slowest_ns).filter(|_| is_classified);
        Some(Reading { width: width.unwrap_or(0.0), cycle_ns })
    }
}

/// A thread's work between two readings of the probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The rate in units per second.
    pub rate: f64,
    /// Operations per cycle by the slower of the readings at its ends.
    pub width: f64,
}

impl Stretch {
    /// Its reading; a rate needs no clock.
    pub fn reading(&self) -> Reading {
        Reading { width: self.width, ..Reading::default() }
    }

    /// The same as a share of a rate.
    pub fn over(self, rate: f64) -> Self {
        Stretch { rate: self.rate / rate, ..self }
    }
}

/// Stretches are at least so long, in ns: probes then take 2 % of the time.
const STRETCH_NS: f64 = 100e3;
/// Stretches of a window at most.
const STRETCHES_MAX: usize = 1024;

/// Cuts a thread's work into stretches with a reading of the probe between two of them.
pub struct Stretches {
    probe: Probe,
    least_ticks: u64,
    /// Where the stretch began: tick and units.
    from: (u64, u64),
    cycles: [f64; 3],
    looks: usize,
    last: f64,
    list: Vec<Stretch>,
}

impl Stretches {
    /// Allocates; the first stretch begins with [`Stretches::begin`].
    pub fn new(probe: Probe) -> Self {
        let mut stretches = Stretches {
            probe,
            least_ticks: probe.clock.ticks(STRETCH_NS),
            from: (0, 0),
            cycles: [f64::INFINITY; 3],
            looks: 0,
            last: 0.0,
            list: Vec::with_capacity(STRETCHES_MAX),
        };
        for _ in 0..3 {
            stretches.look();
        }
        stretches
    }

    fn look(&mut self) {
        self.cycles[self.looks % 3] = self.probe.cycle_ns();
        self.looks += 1;
        self.last = reading(least(self.cycles), self.probe.operation_ns()).unwrap_or(0.0);
    }

    /// The first stretch begins now.
    pub fn begin(&mut self) {
        self.look();
        self.from = (self.probe.clock.start(), 0);
    }

    /// The thread has done so many units by now; a stretch that is long enough ends.
    pub fn progress(&mut self, now: u64, units: u64) {
        let (begun, before) = self.from;
        if now < begun + self.least_ticks || self.list.len() == STRETCHES_MAX {
            return;
        }
        let length_ns = self.probe.clock.ns(now - begun);
        let earlier = self.last;
        self.look();
        let is_classified = length_ns <= BATCH_NS_MAX;
        self.list.push(Stretch {
            rate: (units - before) as f64 * 1e9 / length_ns,
            width: if is_classified { earlier.min(self.last) } else { 0.0 },
        });
        self.from = (self.probe.clock.start(), units);
    }

    pub fn done(self) -> Vec<Stretch> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, core_mhz};

    #[test]
    fn a_clock_is_averaged_over_chains_that_steps_of_the_time_part_and_no_further() {
        let readings = |cycles: &[f64]| -> Vec<Reading> {
            cycles.iter().map(|cycle_ns| Reading { width: 4.0, cycle_ns: *cycle_ns }).collect()
        };
        // Steps of 1 %: a cycle of 0.3 ns reads as 0.299 or 0.302.
        let steps: Vec<f64> = (0..30).map(|at| if at % 3 == 0 { 0.302 } else { 0.299 }).collect();
        let clocks = core_mhz(&readings(&steps), 0.01);
        assert!(clocks.iter().all(|mhz| mhz.abs_diff(3333) <= 5), "{clocks:?}");
        // A clock that moves, and a chain that was interrupted.
        let moving: Vec<f64> = (0..30).map(|at| if at < 15 { 0.4 } else { 0.5 }).collect();
        let clocks = core_mhz(&readings(&[&moving[..], &[0.9]].concat()), 0.01);
        assert_eq!((clocks[14], clocks[15], clocks[30]), (2500, 2000, 1111));
        assert_eq!(core_mhz(&readings(&[0.0, f64::INFINITY]), 0.01), [0, 0]);
    }
}

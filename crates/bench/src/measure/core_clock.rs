//! The core's own clock: cycles are not counter ticks, and the rate moves with load and heat.
//!
//! Dependent chains that newer cores cannot eliminate at rename (METHOD §1): a rotation takes one
//! cycle and a multiplication 3 to 6, so the chains check each other. Where the kernel lets us
//! read a cycle counter that counts a known loop right, its cycles are used instead.

use super::clock::Clock;
use metal::counter::CycleCounter;
use metal::kernel::{chain_multiply, chain_rotate};
use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// How many, rotations and multiplications together.
    pub count: usize,
    /// Length of each, in ns.
    pub window_ns: f64,
}

impl Windows {
    /// METHOD §1: 20 windows of 50 µs, 1 ms in all.
    pub const FULL: Windows = Windows { count: 20, window_ns: 50e3 };
    /// The windows of a rehearsal, which only shows that the way works.
    pub const REHEARSAL: Windows = Windows { count: 8, window_ns: 5e3 };
}

/// What the chains show about the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Cycles per second; `None` with the reason in `reason`.
    pub hz: Option<f64>,
    /// The rotate chain's own rate, in Hz: what is left where the chains disagree.
    pub rotate_hz: Option<f64>,
    /// Cycles per multiplication, where within 1 % of an integer 3 to 6.
    pub multiply_cycles: Option<f64>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// Relative distance from an integer that multiply over rotate may have.
const INTEGER_TOLERANCE: f64 = 0.01;
/// Looks of an estimate, if earlier ones say nothing.
const LOOKS: usize = 3;
const MODE_WIDTH: f64 = 0.005;

/// Takes the core clock of the calling thread again and again.
pub struct CoreClock {
    clock: Clock,
    windows: Windows,
    counter: Option<CycleCounter>,
    /// Guess of the rate in Hz that sizes the windows; follows the last estimate.
    guess_hz: f64,
    rates: Vec<f64>,
    multiply_rates: Vec<f64>,
    counted_rates: Vec<f64>,
}

impl CoreClock {
    /// A core clock for the calling thread. Opens the cycle counter where it is allowed
    /// (`metal` checks it on a known chain) and sizes the windows.
    pub fn new(clock: Clock, windows: Windows) -> Self {
        let mut core = CoreClock {
            clock,
            windows,
            counter: CycleCounter::open(),
            guess_hz: 3e9,
            rates: Vec::with_capacity(LOOKS * windows.count),
            multiply_rates: Vec::with_capacity(LOOKS * windows.count),
            counted_rates: Vec::with_capacity(LOOKS * windows.count),
        };
        // A first look at the rate: the median of a few short chains.
        let mut first = [0.0; 5];
        for rate in &mut first {
            *rate = core.rotate_rate(20_000);
        }
        first.sort_by(f64::total_cmp);
        core.guess_hz = first[2].clamp(1e8, 1e11);
        core
    }

    /// How it was read: `perf` or `chains`.
    pub fn source(&self) -> &'static str {
        if self.counter.is_some() { "perf" } else { "chains" }
    }

    /// The fastest rotation of the last estimate's windows, in Hz: what is left where no two agree.
    pub fn fastest_hz(&self) -> f64 {
        self.rates.iter().copied().fold(self.guess_hz, f64::max)
    }

    /// Steps of the rotate chain that take about `ns`.
    pub fn rotations(&self, ns: f64) -> u64 {
        ((ns * self.guess_hz / 1e9) as u64).max(64)
    }

    /// One estimate: about `count x window_ns`, and up to three times that where the windows do
    /// not agree at first. Allocates nothing.
    pub fn estimate(&mut self) -> Estimate {
        self.rates.clear();
        self.multiply_rates.clear();
        self.counted_rates.clear();
        let mut estimate = self.look();
        for _ in 1..LOOKS {
            if estimate.hz.is_some() {
                break;
            }
            estimate = self.look();
        }
        if let Some(hz) = estimate.rotate_hz {
            self.guess_hz = hz;
        }
        estimate
    }

    /// Adds the windows of one look and judges all so far.
    fn look(&mut self) -> Estimate {
        let rotations = self.rotations(self.windows.window_ns);
        // Cores of the last fifteen years multiply in 3 to 6 cycles; 4 keeps the length.
        let multiplications = (rotations / 4).max(16);
        for window in 0..self.windows.count {
            let rotates = window % 2 == 0;
            let before = self.counter.as_ref().and_then(CycleCounter::read);
            let (steps, start, end) = if rotates {
                timed(self.clock, chain_rotate, rotations)
            } else {
                timed(self.clock, chain_multiply, multiplications)
            };
            let after = self.counter.as_ref().and_then(CycleCounter::read);
            let window_ns = self.clock.between_ns(start, end);
            if window_ns <= 0.0 {
                continue;
            }
            let per_second = |count: u64| count as f64 * 1e9 / window_ns;
            if rotates {
                self.rates.push(per_second(steps));
            } else {
                self.multiply_rates.push(per_second(steps));
            }
            if let Some(cycles) = before.zip(after).and_then(|(from, to)| to.checked_sub(from)) {
                self.counted_rates.push(per_second(cycles));
            }
        }
        let counted = self.counter.is_some().then_some(&mut self.counted_rates[..]);
        judge(&mut self.rates, &mut self.multiply_rates, counted)
    }

    /// Rate of `steps` rotations, in Hz.
    fn rotate_rate(&self, steps: u64) -> f64 {
        let (steps, start, end) = timed(self.clock, chain_rotate, steps);
        steps as f64 * 1e9 / self.clock.between_ns(start, end).max(1.0)
    }
}

/// Times `steps` of a chain: (steps, start, end).
#[inline(never)]
fn timed(clock: Clock, chain: fn(u64) -> u64, steps: u64) -> (u64, u64, u64) {
    let start = clock.start();
    black_box(chain(black_box(steps)));
    let end = clock.end();
    (steps, start, end)
}

/// The estimate from the windows' rates: of rotations, of multiplications (steps per second), and
/// of counted cycles where a counter is read.
fn judge(rotate: &mut [f64], multiply: &mut [f64], counted: Option<&mut [f64]>) -> Estimate {
    let rotate_hz = upper_mode(rotate);
    let ratio = rotate_hz.zip(upper_mode(multiply)).map(|(rotate, multiply)| rotate / multiply);
    let multiply_cycles = ratio.filter(|ratio| {
        let nearest = ratio.round();
        (3.0..=6.0).contains(&nearest) && (ratio / nearest - 1.0).abs() <= INTEGER_TOLERANCE
    });
    let mut estimate = Estimate { hz: None, rotate_hz, multiply_cycles, reason: None };
    if let Some(counted) = counted {
        estimate.hz = upper_mode(counted);
        if estimate.hz.is_none() {
            estimate.reason = Some("no two windows of the cycle counter agree".to_owned());
        }
        return estimate;
    }
    match (ratio, multiply_cycles) {
        (_, Some(_)) => estimate.hz = rotate_hz,
        (Some(ratio), None) => {
            estimate.reason = Some(format!(
                "the ratio of multiply to rotate is {ratio:.3}, not within 1 % of an integer from \
                 3 to 6"
            ));
        }
        (None, None) => {
            estimate.reason = Some("too few windows of the chains agree on a rate".to_owned());
        }
    }
    estimate
}

/// The upper mode: the highest rate about which at least three windows and a quarter of them
/// agree within 0.5 %. Interrupts and steal only ever slow a window, so slower windows do not
/// count against it. Sorts `rates`.
pub(super) fn upper_mode(rates: &mut [f64]) -> Option<f64> {
    rates.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = (rates.len() / 4).max(3);
    (0..rates.len()).find_map(|top| {
        let near = rates[top..]
            .iter()
            .take_while(|rate| **rate >= rates[top] * (1.0 - MODE_WIDTH))
            .count();
        (near >= least).then(|| rates[top + near / 2])
    })
}

#[cfg(test)]
mod tests {
    use super::{CoreClock, Estimate, Windows, judge, upper_mode};
    use crate::measure::clock::Clock;

    #[test]
    fn the_upper_mode_ignores_slowed_windows_and_lone_fast_ones() {
        let mut rates = [3.0e9, 2.1e9, 3.001e9, 1.0e9, 2.999e9, 2.0e9, 2.9985e9, 3.3e9];
        let mode = upper_mode(&mut rates).expect("four agree");
        assert!((2.998e9..=3.001e9).contains(&mode), "{mode}");
        let mut apart = [1.0e9, 1.1e9, 1.2e9, 1.3e9];
        assert_eq!(upper_mode(&mut apart), None);
        assert_eq!(upper_mode(&mut []), None);
    }

    #[test]
    fn the_higher_of_two_modes_is_taken() {
        let mut rates = [2.0e9; 10];
        rates[..4].fill(3.0e9);
        assert_eq!(upper_mode(&mut rates), Some(3.0e9));
    }

    fn chains(multiply_hz: f64) -> Estimate {
        judge(&mut [3e9; 10], &mut [multiply_hz; 10], None)
    }

    #[test]
    fn chains_that_disagree_give_no_figure_but_a_reason() {
        let agreed = chains(1e9);
        assert_eq!(agreed.hz, Some(3e9));
        assert_eq!(agreed.multiply_cycles, Some(3.0));
        assert_eq!(agreed.reason, None);
        for multiply_hz in [3e9 / 3.4, 3e9 / 2.0, 3e9 / 7.0, 3e9 / 3.05] {
            let estimate = chains(multiply_hz);
            assert_eq!(estimate.hz, None);
            assert_eq!(estimate.multiply_cycles, None);
            assert!(estimate.reason.is_some_and(|why| why.contains("integer")));
        }
    }

    #[test]
    fn counted_cycles_stand_for_themselves() {
        let estimate = judge(&mut [3e9; 10], &mut [1.4e9; 10], Some(&mut [3.1e9; 20]));
        assert_eq!(estimate.hz, Some(3.1e9));
        assert_eq!(estimate.multiply_cycles, None);
    }

    #[test]
    fn an_estimate_is_of_a_plausible_order() {
        // Structure only: other work shares this machine. Several attempts, wide limits.
        let mut core = CoreClock::new(Clock::Monotonic, Windows::FULL);
        let rate = (0..5).find_map(|_| core.estimate().rotate_hz);
        if let Some(hz) = rate {
            assert!((1e8..2e10).contains(&hz), "{hz}");
            assert!(core.rotations(1000.0) >= 64);
        }
    }
}

//! The clock that times everything: the processor's counter where it can be trusted, else the
//! kernel's monotonic clock.

use metal::clock;
use record::event::Calibration;

/// Name of the fallback in [`Calibration::source`].
pub const CLOCK_GETTIME: &str = "clock_gettime";

/// A clock that starts and ends windows. Its ticks are of its own rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    Counter {
        /// Length of a tick, in ns.
        tick_ns: f64,
    },
    /// `CLOCK_MONOTONIC`: a tick is one ns. Also for windows that span CPUs whose counters are
    /// too far apart.
    Monotonic,
}

impl Clock {
    pub fn from_calibration(calibration: &Calibration) -> Self {
        if calibration.source == CLOCK_GETTIME {
            Clock::Monotonic
        } else {
            Clock::Counter { tick_ns: 1e9 / calibration.counter_hz }
        }
    }

    /// Ticks at the start of a window: nothing of the window runs before it.
    #[inline(always)]
    pub fn start(self) -> u64 {
        match self {
            Clock::Counter { .. } => clock::ticks_start(),
            Clock::Monotonic => clock::monotonic_ns(),
        }
    }

    /// Ticks at the end of a window: all of the window ran before it.
    #[inline(always)]
    pub fn end(self) -> u64 {
        match self {
            Clock::Counter { .. } => clock::ticks_end(),
            Clock::Monotonic => clock::monotonic_ns(),
        }
    }

    /// Length of some ticks, in ns.
    #[inline]
    pub fn ns(self, ticks: u64) -> f64 {
        match self {
            Clock::Counter { tick_ns } => ticks as f64 * tick_ns,
            Clock::Monotonic => ticks as f64,
        }
    }

    /// Length of a window, in ns; negative where the end reads less than the start.
    #[inline]
    pub fn between_ns(self, start: u64, end: u64) -> f64 {
        if end >= start { self.ns(end - start) } else { -self.ns(start - end) }
    }

    /// Ticks of a length in ns, to the nearest tick.
    pub fn ticks(self, ns: f64) -> u64 {
        match self {
            Clock::Counter { tick_ns } => (ns / tick_ns).round() as u64,
            Clock::Monotonic => ns.round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn ticks_and_lengths_are_each_others_inverse() {
        let clock = Clock::Counter { tick_ns: 0.4 };
        assert_eq!(clock.ticks(1000.0), 2500);
        assert_eq!(clock.ns(2500), 1000.0);
        assert_eq!(clock.between_ns(100, 2600), 1000.0);
        assert_eq!(clock.between_ns(2600, 100), -1000.0);
        assert_eq!(Clock::Monotonic.ticks(12.4), 12);
    }

    #[test]
    fn both_clocks_go_forward() {
        for clock in [Clock::Counter { tick_ns: 0.4 }, Clock::Monotonic] {
            let start = clock.start();
            assert!(clock.end() >= start);
        }
    }
}

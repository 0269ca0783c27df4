//! What a member did over time, in little memory.

use stats::quantile::median;

/// Progress over time: (tick, units so far), thinned by half whenever it is full.
pub(super) struct Log {
    points: Vec<(u64, u64)>,
    /// Every so many points are kept.
    stride: usize,
    skipped: usize,
}

impl Log {
    /// An empty log that never holds more than `room` (at least 4) points, nor allocates again.
    pub(super) fn with_room(room: usize) -> Self {
        Log { points: Vec::with_capacity(room.max(4)), stride: 1, skipped: 0 }
    }

    /// Adds a point, if it is its turn.
    pub(super) fn push(&mut self, tick: u64, units: u64) {
        if !self.points.is_empty() {
            self.skipped += 1;
            if self.skipped < self.stride {
                return;
            }
        }
        self.skipped = 0;
        self.push_last(tick, units);
    }

    /// Adds a point out of turn.
    pub(super) fn push_last(&mut self, tick: u64, units: u64) {
        if self.points.len() == self.points.capacity() {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
        self.points.push((tick, units));
    }

    /// Tick of the first point; the last possible tick by default.
    pub(super) fn first_tick(&self) -> u64 {
        self.points.first().map_or(u64::MAX, |(tick, _)| *tick)
    }

    /// Units between two ticks; linear between points.
    pub(super) fn between(&self, from: u64, to: u64) -> f64 {
        self.units_at(to) - self.units_at(from)
    }

    /// Units per tick in the median step between two ticks.
    pub(super) fn steady(&self, from: u64, to: u64) -> Option<f64> {
        let inside = |two: &&[(u64, u64)]| from <= two[0].0 && two[1].0 <= to;
        let rates: Vec<f64> = (self.points.windows(2).filter(inside))
            .map(|two| (two[1].1 - two[0].1) as f64 / (two[1].0 - two[0].0).max(1) as f64)
            .collect();
        median(&rates)
    }

    fn units_at(&self, tick: u64) -> f64 {
        let above = self.points.partition_point(|(at, _)| *at < tick);
        let units = |index: usize| self.points[index].1 as f64;
        if self.points.is_empty() {
            return 0.0;
        }
        if above == 0 {
            return units(0);
        }
        if above == self.points.len() {
            return units(above - 1);
        }
        let (low, high) = (self.points[above - 1].0, self.points[above].0);
        let share = (tick - low) as f64 / (high - low) as f64;
        units(above - 1) + share * (units(above) - units(above - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::POINTS;
    use super::Log;

    #[test]
    fn a_log_interpolates_and_holds_still_outside() {
        let mut log = Log::with_room(8);
        for (tick, units) in [(100, 0), (200, 10), (300, 30)] {
            log.push(tick, units);
        }
        assert_eq!(log.between(100, 300), 30.0);
        assert_eq!(log.between(150, 250), 15.0);
        assert_eq!(log.between(0, 1000), 30.0);
        assert_eq!(log.between(300, 300), 0.0);
        assert_eq!(Log::with_room(4).between(0, 9), 0.0);
    }

    #[test]
    fn the_median_step_leaves_out_what_took_the_cpu_now_and_then() {
        let mut log = Log::with_room(8);
        for (tick, units) in [(0, 0), (100, 50), (200, 100), (900, 150), (1000, 200)] {
            log.push(tick, units);
        }
        assert_eq!(log.steady(0, 1000), Some(0.5));
        // Only whole steps count, and of those that are there.
        assert_eq!(log.steady(250, 950), None);
        assert_eq!(log.steady(150, 950), Some(50.0 / 700.0));
    }

    #[test]
    fn a_full_log_is_thinned_without_losing_the_line() {
        let mut log = Log::with_room(POINTS);
        for point in 0..100_000_u64 {
            log.push(1000 + 10 * point, 3 * point);
        }
        log.push_last(1000 + 10 * 100_000, 3 * 100_000);
        assert!(log.points.len() <= POINTS && log.points.len() > POINTS / 4);
        assert_eq!(log.points.capacity(), POINTS);
        let mut gaps: Vec<u64> = log.points.windows(2).map(|two| two[1].0 - two[0].0).collect();
        gaps.pop();
        gaps.sort_unstable();
        // Thinned evenly: the early part is no coarser than the late one.
        assert!(gaps[gaps.len() - 1] <= 2 * gaps[0], "{gaps:?}");
        assert!((log.between(1000, 1_001_000) - 300_000.0).abs() < 1e-6);
        assert!((log.between(251_000, 501_000) - 75_000.0).abs() < 1e-6);
    }
}

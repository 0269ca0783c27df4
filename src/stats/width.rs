//! The width probe's readings (METHOD §2a): which of them a core gives that nobody else uses.
//!
//! A reading is additions per cycle: how many of a row of independent ones the core did in the time in
//! which it did one of a row of dependent ones. A core that is alone does as many as it has units, again
//! and again; one whose other hyperthread is at work does fewer, and not always as many.

use super::quantile::{median, quantile};

/// A reading is *alone* from this share of the level on.
pub(crate) const ALONE: f64 = 1.0 / 1.05;
/// Alone samples that a round needs for a value of its own.
pub(crate) const LEAST_ALONE: usize = 20;
/// Relative half width of the mode at the level.
const MODE: f64 = 0.01;
/// Lower end of the shoulder below the mode: as wide as the mode itself.
const SHOULDER: f64 = 0.97;
/// The mode of a core that is alone has at least so many times the readings of its shoulder: on a core
/// that is always shared there is a highest reading too, but no edge below it.
const SHARPNESS: usize = 3;
/// Readings in the mode at least, and their share of all.
const LEAST_READINGS: usize = 100;
const LEAST_SHARE: f64 = 0.005;
/// Relative distance of the level from a whole number of units.
const WHOLE: f64 = 0.02;
/// Units that a core may have.
const UNITS: std::ops::RangeInclusive<f64> = 2.0..=8.0;

/// What the readings of a core say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Learned {
    /// The level of a core that is alone.
    Level(Level),
    /// The highest readings have no sharp edge: the core was never alone, or there is no such core.
    NoEdge,
    /// They have one, but not at a whole number of additions per cycle: its place.
    NotWhole(f64),
}

/// What *alone* looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Additions per cycle.
    pub(crate) level: f64,
    /// Distance of the quartiles of the readings at the level, relative to it.
    pub(crate) spread: f64,
    /// Readings at the level.
    pub(crate) at_level: usize,
    /// Share of all readings that are alone by it.
    pub(crate) alone: f64,
}

/// Whether a reading is of a core that is alone.
pub(crate) fn is_alone(reading: f64, level: f64) -> bool {
    reading >= ALONE * level
}

/// A reading this much above the level is of another level.
const FAST: f64 = 1.03;

/// The readings of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Classified samples.
    pub(crate) samples: u32,
    /// Those in which others used the core.
    pub(crate) shared: u32,
    /// Those that read more than a core that is alone can: the level does not hold any more.
    pub(crate) fast: u32,
}

impl Seen {
    /// Of the samples that could be classified.
    pub(crate) fn of(readings: impl Iterator<Item = f64>, level: f64) -> Self {
        let mut seen = Seen::default();
        for reading in readings.filter(|reading| *reading > 0.0) {
            seen.samples += 1;
            seen.shared += u32::from(!is_alone(reading, level));
            seen.fast += u32::from(reading > FAST * level);
        }
        seen
    }

    /// By the names of a round's environment; nothing where nothing was probed.
    pub(crate) fn named(self) -> impl Iterator<Item = (String, f64)> {
        [
            (PROBED, self.samples),
            (SHARED, self.shared),
            ("probed_fast", self.fast),
        ]
        .into_iter()
        .filter(move |_| self.samples > 0)
        .map(|(name, count)| (name.to_owned(), f64::from(count)))
    }
}

/// Names in a round's environment: samples that were classified, and those in which others used the core.
pub(crate) const PROBED: &str = "probed_samples";
pub(crate) const SHARED: &str = "probed_shared";

/// The level from readings: the highest mode that enough of them share, if it is sharp and at a whole
/// number. Sorts them.
pub(crate) fn learn(readings: &mut [f64]) -> Learned {
    readings.sort_unstable_by(|a, b| b.total_cmp(a));
    let least = (LEAST_SHARE * readings.len() as f64).ceil() as usize;
    let least = least.max(LEAST_READINGS);
    let from = |limit: f64| readings.partition_point(|reading| *reading >= limit);
    let Some(top) = (0..readings.len()).find(|top| {
        let near = from(readings[*top] * (1.0 - MODE)) - top;
        near >= least
    }) else {
        return Learned::NoEdge;
    };
    let Some(first) = median(&readings[top..from(readings[top] * (1.0 - MODE))]) else {
        return Learned::NoEdge;
    };
    let mode = from(first * (1.0 + MODE))..from(first * (1.0 - MODE));
    let shoulder = from(first * SHOULDER) - mode.end;
    if SHARPNESS * shoulder > mode.len() {
        return Learned::NoEdge;
    }
    let at_level = &readings[mode];
    let Some(level) = median(at_level) else {
        return Learned::NoEdge;
    };
    let units = level.round();
    if !UNITS.contains(&units) || (level / units - 1.0).abs() > WHOLE {
        return Learned::NotWhole(level);
    }
    let quartile = |q: f64| quantile(at_level, q).unwrap_or(level);
    Learned::Level(Level {
        level,
        spread: (quartile(0.75) - quartile(0.25)) / level,
        at_level: at_level.len(),
        alone: from(ALONE * level) as f64 / readings.len() as f64,
    })
}

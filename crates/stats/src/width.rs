//! The width probe's readings (METHOD §2a): which of them an exclusive core gives.
//!
//! A reading is operations per cycle: how many of a row of independent ones the core did in the
//! time in which it did one of a row of dependent ones. A core that is alone does as many as it has
//! units, again and again; one whose other hyperthread is at work does fewer, and not always as
//! many.

use super::quantile::{median, quantile};
use record::event::{Unusable, Width};

/// A reading is *alone* from this share of the level on.
pub const ALONE: f64 = 1.0 / 1.05;
/// Relative half width of the mode at the level, and as a multiple of the clock's step: a row's
/// length is one of two whole numbers of steps, and a chain's too.
const MODE: f64 = 0.01;
const MODE_STEPS: f64 = 1.5;
/// Lower end of the shoulder below the mode, in half widths: as wide as the mode itself.
const SHOULDER: f64 = 3.0;
/// The mode of a core that is alone has at least so many times the readings of its shoulder: on a
/// core that is always shared there is a highest reading too, but no edge below it.
const SHARPNESS: usize = 3;
/// Readings in the mode at least, and their share of all.
const LEAST_READINGS: usize = 100;
const LEAST_SHARE: f64 = 0.005;
/// Relative distance of the level from a whole number of units.
const WHOLE: f64 = 0.02;
const UNITS: std::ops::RangeInclusive<f64> = 2.0..=8.0;

pub fn is_alone(reading: f64, level: f64) -> bool {
    reading >= ALONE * level
}

/// A core whose sibling is at work all the time has a sharp level too, at half its units: a level
/// below this share of the units that its design is known to have is no level of a core that is
/// alone.
const OF_UNITS: f64 = 0.75;

/// What was learnt, beside the units that the core's design is known to have: a level of half a core
/// gives way to them, and one of another number to nothing.
pub fn by_design(learnt: Width, units: Option<f64>) -> Width {
    let Some(units) = units else { return learnt };
    let is_shared = match learnt.level {
        Some(level) => level < OF_UNITS * units,
        None => learnt.unusable == Some(Unusable::NeverAlone),
    };
    if is_shared {
        return Width { level: Some(units), from_design: true, unusable: None, ..learnt };
    }
    match learnt.level {
        Some(level) if (level / units - 1.0).abs() > WHOLE => {
            Width { level: None, unusable: Some(Unusable::OtherThanDesign), ..learnt }
        }
        _ => learnt,
    }
}

/// Which later readings may teach a level, of one that is known so far: all where no reading has shown
/// the core alone, else those that are too fast for it. None where readings say nothing.
pub fn teaching(known: Width) -> Option<f64> {
    match (known.level, known.unusable) {
        (Some(level), _) if !known.from_design => Some(TOO_FAST * level),
        (None, Some(Unusable::ClockTooCoarse) | None) => None,
        _ => Some(0.0),
    }
}

/// A reading this much above the level is of another level.
pub const TOO_FAST: f64 = 1.03;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub samples: u32,
    /// How many samples were taken while others used the core.
    pub shared: u32,
    /// How many samples read more than a core that is alone can: the level does not hold any more.
    pub fast: u32,
}

impl Seen {
    /// Counts the samples that could be classified.
    pub fn from_readings(readings: impl Iterator<Item = f64>, level: f64) -> Self {
        let mut seen = Seen::default();
        for reading in readings.filter(|reading| *reading > 0.0) {
            seen.samples += 1;
            seen.shared += u32::from(!is_alone(reading, level));
            seen.fast += u32::from(reading > TOO_FAST * level);
        }
        seen
    }

    /// A part of the classified samples, as a share; none where nothing was probed.
    pub fn share(&self, part: impl Fn(&Seen) -> u32) -> Option<f64> {
        (self.samples > 0).then(|| f64::from(part(self)) / f64::from(self.samples))
    }

    /// The counts by the names of a round's environment; empty where nothing was probed.
    pub fn named(self) -> impl Iterator<Item = (String, f64)> {
        [(PROBED, self.samples), (SHARED, self.shared), (FAST, self.fast)]
            .into_iter()
            .filter(move |_| self.samples > 0)
            .map(|(name, count)| (name.to_owned(), f64::from(count)))
    }
}

/// Name in a round's environment of the samples that were classified.
pub const PROBED: &str = "probed_samples";
/// The name of the count of samples in which others used the core.
pub const SHARED: &str = "probed_shared";
/// The name of the count of samples that read more than a core that is alone can.
pub const FAST: &str = "probed_fast";

/// The level from readings: the highest mode that enough of them share, if it is sharp and at a
/// whole number; else why there is none. `step` is that of the clock, as a share of what is timed.
/// Sorts them.
pub fn learn(readings: &mut [f64], step: f64) -> Width {
    readings.sort_unstable_by(|a, b| b.total_cmp(a));
    let (readings, count) = (&*readings, readings.len() as u64);
    let unknown = Width { readings: count, ..Width::default() };
    let at_level = highest_mode(readings, MODE.max(MODE_STEPS * step)).unwrap_or_default();
    let Some(level) = median(at_level) else {
        return Width { unusable: Some(Unusable::NeverAlone), ..unknown };
    };
    let found = Width { additions_per_cycle: Some(level), ..unknown };
    let units = level.round();
    if !UNITS.contains(&units) || (level / units - 1.0).abs() > WHOLE {
        return Width { unusable: Some(Unusable::NotWhole), ..found };
    }
    let quartile = |q: f64| quantile(at_level, q).unwrap_or(level);
    Width {
        level: Some(level),
        spread: (quartile(0.75) - quartile(0.25)) / level,
        at_level: at_level.len() as u64,
        alone: down_to(readings, ALONE * level) as f64 / count as f64,
        ..found
    }
}

/// The highest mode that enough readings, in descending order, share; `None` where it has no sharp
/// edge below: the core was never alone, or there is no such core.
fn highest_mode(readings: &[f64], half: f64) -> Option<&[f64]> {
    let least = (LEAST_SHARE * readings.len() as f64).ceil() as usize;
    let least = least.max(LEAST_READINGS);
    let end = |top: usize| down_to(readings, readings[top] * (1.0 - half));
    let top = (0..readings.len()).find(|&top| end(top) - top >= least)?;
    let first = median(&readings[top..end(top)])?;
    let from = |limit: f64| down_to(readings, first * limit);
    let mode = from(1.0 + half)..from(1.0 - half);
    let shoulder = from(1.0 - SHOULDER * half) - mode.end;
    (SHARPNESS * shoulder <= mode.len()).then(|| &readings[mode])
}

/// How many of the readings, in descending order, are not below a limit.
fn down_to(readings: &[f64], limit: f64) -> usize {
    readings.partition_point(|reading| *reading >= limit)
}

#[cfg(test)]
mod tests {
    use super::{ALONE, Seen, TOO_FAST, by_design, is_alone, learn, teaching};
    use crate::draw::Draw;
    use record::event::{Unusable, Width};

    /// Readings of a core of so many units that is alone for a share of them: alone ones within 0.3
    /// % with a few slower ones, shared ones anywhere between 38 and 91 % of the level, as they
    /// were measured.
    fn readings(units: f64, alone: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut draw = Draw::new(seed);
        let mut reading = || match draw.chance(alone) {
            true => units * (1.0 - 0.001 * draw.normal().abs()),
            false => units * (0.38 + 0.53 * draw.uniform()),
        };
        (0..count).map(|_| reading()).collect()
    }

    #[test]
    fn the_level_is_found_however_little_the_core_is_alone() {
        for units in [2.0, 3.0, 4.0, 5.0, 6.0] {
            for alone in [1.0, 0.5, 0.2, 0.05, 0.03] {
                let found = learn(&mut readings(units, alone, 20_000, 7), 0.0);
                let level = found.level.expect("a level");
                assert!((level / units - 1.0).abs() < 0.005, "{found:?}");
                assert!((found.alone - alone).abs() < 0.02, "{found:?}");
                assert!(found.spread < 0.005, "{found:?}");
                assert_eq!((found.readings, found.unusable), (20_000, None));
            }
        }
    }

    #[test]
    fn a_core_that_is_never_alone_gives_no_level() {
        for seed in 0..50 {
            for count in [2_000, 20_000] {
                let found = learn(&mut readings(4.0, 0.0, count, seed), 0.0);
                assert_eq!(found.unusable, Some(Unusable::NeverAlone), "{seed}");
                assert_eq!(found.level, None, "{seed}");
            }
        }
        let unusable = Some(Unusable::NeverAlone);
        assert_eq!(learn(&mut [], 0.0), Width { unusable, ..Width::default() });
    }

    #[test]
    fn a_sharp_level_between_whole_numbers_is_of_no_core() {
        for (units, alone) in [(2.5, 0.9), (1.0, 1.0)] {
            let found = learn(&mut readings(units, alone, 5_000, 3), 0.0);
            assert_eq!((found.level, found.unusable), (None, Some(Unusable::NotWhole)));
            let at = found.additions_per_cycle.expect("an edge");
            assert!((at - units).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn the_design_stands_in_for_a_level_that_no_reading_shows_and_against_another_one() {
        let level = |level: f64| Width { level: Some(level), ..Width::default() };
        let design = |units| Width { from_design: true, ..level(units) };
        let none = |why| Width { unusable: Some(why), ..Width::default() };
        for (learnt, units, found) in [
            (level(2.0), None, level(2.0)),
            (level(3.99), Some(4.0), level(3.99)),
            (level(2.0), Some(4.0), design(4.0)),
            (level(4.0), Some(6.0), design(6.0)),
            (none(Unusable::NeverAlone), Some(4.0), design(4.0)),
            (none(Unusable::NeverAlone), None, none(Unusable::NeverAlone)),
            (none(Unusable::NotWhole), Some(4.0), none(Unusable::NotWhole)),
            (level(5.0), Some(6.0), none(Unusable::OtherThanDesign)),
            (level(6.0), Some(4.0), none(Unusable::OtherThanDesign)),
        ] {
            assert_eq!(by_design(learnt, units), found, "{learnt:?} {units:?}");
        }
    }

    #[test]
    fn which_readings_of_rounds_teach_a_level() {
        let level = Width { level: Some(4.0), ..Width::default() };
        let none = |why| Width { unusable: Some(why), ..Width::default() };
        for (known, from) in [
            (level, Some(TOO_FAST * 4.0)),
            (Width { from_design: true, ..level }, Some(0.0)),
            (none(Unusable::NeverAlone), Some(0.0)),
            (none(Unusable::NotWhole), Some(0.0)),
            (none(Unusable::OtherThanDesign), Some(0.0)),
            (none(Unusable::ClockTooCoarse), None),
        ] {
            assert_eq!(teaching(known), from, "{known:?}");
        }
    }

    #[test]
    fn what_cannot_be_classified_is_not_counted_and_never_alone() {
        assert!(is_alone(4.0, 4.0) && is_alone(4.0 * ALONE, 4.0) && !is_alone(3.8, 4.0));
        assert!(!is_alone(0.0, 4.0));
        let seen = Seen::from_readings([4.0, 3.0, 0.0, 4.2].into_iter(), 4.0);
        assert_eq!((seen.samples, seen.shared, seen.fast), (3, 1, 1));
        let names: Vec<(String, f64)> = seen.named().collect();
        assert_eq!(names[1], ("probed_shared".to_owned(), 1.0));
        assert_eq!(Seen::default().named().count(), 0);
    }
}

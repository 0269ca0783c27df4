//! Whether another program or guest uses the core now, by the width probe.

use super::Said::{self, Disturbs, Fine, Unknown};
use bench::link::CalibrateOrder;
use bench::measure::{self, by_design};
use record::event::{Unusable, Width};
use std::time::{Duration, Instant};

/// Windows of each calibration of the shared core, in ns: ten of them settle the counter.
const PROBED_NS: u64 = 2_000_000;

/// Reads the width probe on `cpu` for about `time`, in a thread that is pinned to it.
pub(super) fn widths(cpu: usize, units: Option<f64>, time: Duration) -> Vec<Width> {
    let probing = std::thread::spawn(move || {
        let (mut found, began) = (Vec::new(), Instant::now());
        while began.elapsed() < time {
            let order = CalibrateOrder { cpu, windows: 10, window_ns: PROBED_NS };
            match measure::calibrate(&order) {
                Ok(calibration) => {
                    found.extend(calibration.width.map(|width| by_design(width, units)));
                }
                Err(_) => break,
            }
        }
        found
    });
    probing.join().unwrap_or_default()
}

/// Share of shared readings above which doctor warns.
const SHARED_SHARE: f64 = 0.05;

/// In what share of the readings another program or guest used the core.
pub(super) fn shared(widths: &[Width]) -> Said {
    let usable = widths
        .iter()
        .filter(|width| width.level.is_some() || width.unusable == Some(Unusable::NeverAlone));
    let (alone, all) = usable.fold((0.0, 0.0), |(alone, all), width| {
        let readings = width.readings as f64;
        (alone + width.alone * readings, all + readings)
    });
    if all == 0.0 {
        return Unknown;
    }
    let share = 1.0 - alone / all;
    let text = format!("in {:.0} % of the probe's readings", share * 100.0);
    match share > SHARED_SHARE {
        true => Disturbs(text),
        false => Fine(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Said;
    use record::event::{Unusable, Width};

    #[test]
    fn a_core_is_shared_by_the_share_of_readings() {
        let width = |level: Option<f64>, unusable: Option<Unusable>, alone: f64| Width {
            level,
            unusable,
            from_design: false,
            additions_per_cycle: level,
            readings: 6000,
            at_level: 0,
            spread: 0.0,
            alone,
        };
        let alone = width(Some(4.0), None, 1.0);
        let never = width(None, Some(Unusable::NeverAlone), 0.0);
        let coarse = width(None, Some(Unusable::ClockTooCoarse), 0.0);
        assert!(matches!(super::shared(&[alone]), Said::Fine(_)));
        assert!(matches!(super::shared(&[alone, never]), Said::Disturbs(_)));
        assert_eq!(super::shared(&[coarse]), Said::Unknown);
        assert_eq!(super::shared(&[]), Said::Unknown);
    }
}

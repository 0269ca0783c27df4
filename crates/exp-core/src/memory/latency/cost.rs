//! What a round takes, as stated before it is measured.

use super::WARM_LOADS;
use bench::prelude::*;
use laws::cpu::is_guest;
use laws::memory::{Pattern, Point};

/// What the round's cost is stated from, in ns: touching a byte first (in a guest the hypervisor
/// finds the memory then), linking a slot to a random one, and writing a byte of slots that are
/// linked in order; loading a line in order, a load that misses all caches, and what a case takes
/// around its timed window.
const TOUCH_NS: f64 = 0.4;
const TOUCH_GUEST_NS: f64 = 2.0;
const LINK_NS: f64 = 25.0;
const WRITE_NS: f64 = 0.15;
const SWEEP_NS: f64 = 4.0;
const MISS_NS: f64 = 150.0;
const CASE_NS: f64 = 3e6;
/// Footprints beyond this are taken to miss all caches.
const MISSES_FROM: u64 = 8 << 20;

/// The cost of a round of a series, without what every round takes.
pub(super) fn of_round(site: &Site, series: &Series) -> Duration {
    let warm = series.setting("warm").unwrap_or(0);
    let slot = series.setting("slot").unwrap_or(64);
    let points = series.cases.iter().filter_map(|case| Point::from_id(&case.id));
    let (mut ns, mut largest) = (0.0, 0);
    for point in points {
        ns += site.case_ns as f64 + CASE_NS;
        if point.footprint <= warm {
            ns += point.footprint as f64 / 64.0 * SWEEP_NS;
        }
        let stride = point.stride.unwrap_or(64);
        let slots = (point.footprint / stride) as f64;
        match point.pattern {
            // The ring grows to its largest case only once.
            Pattern::Random if point.footprint > MISSES_FROM => {
                ns += WARM_LOADS as f64 * MISS_NS;
            }
            Pattern::Random => {}
            Pattern::PageRandom => ns += slots * LINK_NS,
            Pattern::Forward | Pattern::Backward | Pattern::FourQuarter => {
                // Of a larger stride still a whole line.
                ns += slots * stride.min(64) as f64 * WRITE_NS;
            }
        }
        largest = largest.max(point.footprint);
    }
    let touch_ns = if is_guest(site) { TOUCH_GUEST_NS } else { TOUCH_NS };
    ns += largest as f64 * touch_ns;
    if series.name.starts_with("random") {
        ns += (largest / slot) as f64 * LINK_NS;
    }
    Duration::from_nanos(ns as u64)
}

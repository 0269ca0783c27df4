//! What prefetchers leave of a load's latency, by the order of a walk.

use super::Pattern;
use crate::{range, scaled};
use host::Core;
use record::event::Range;

/// Share of a random load's extra time that a walk still shows, beside what prefetchers hide.
/// Starting values from one machine of 2024 with ends that hold designs without the prefetcher; the
/// likely values of four quarters, and those of Zen, are from the guests of `data/sheets` [plumb].
pub(super) fn exposed(
    core: Core,
    pattern: Pattern,
    stride: f64,
    in_private: bool,
    line: f64,
) -> Range {
    let is_zen = matches!(core, Core::Zen3 | Core::Zen4 | Core::Zen4c | Core::Zen5 | Core::Zen5c);
    let is_golden = matches!(core, Core::GoldenCove | Core::RaptorCove);
    let is_small =
        matches!(core, Core::CortexA53 | Core::CortexA55 | Core::CortexA57 | Core::CortexA72);
    let shares = match (pattern, in_private) {
        (Pattern::Random, _) => return range(1.0, 1.0, 1.0),
        (Pattern::PageRandom, true) => range(0.9, 1.0, 1.05),
        (Pattern::PageRandom, false) if is_zen => range(0.1, 0.8, 1.05),
        (Pattern::PageRandom, false) => range(0.1, 0.33, 0.85),
        (Pattern::FourQuarter, true) => range(0.02, 0.1, 1.0),
        (Pattern::FourQuarter, false) => range(0.01, 0.02, 0.5),
        (Pattern::Forward | Pattern::Backward, _) if stride >= FAR && (is_zen || is_golden) => {
            range(0.1, 0.95, 1.1)
        }
        // Their first cache's prefetcher follows lines, and longer strides only to main memory.
        (Pattern::Forward | Pattern::Backward, true) if is_small && stride > line => {
            range(0.1, 0.8, 1.1)
        }
        (Pattern::Forward | Pattern::Backward, true) => strided_private(stride),
        (Pattern::Forward | Pattern::Backward, false) => strided_beyond(stride),
    };
    scaled(shares, (stride / line).min(1.0))
}

/// Zen 3 to 5, Golden Cove and Raptor Cove hide no latency of strides from this one on, with few
/// exceptions [plumb].
const FAR: f64 = 192.0;

fn strided_private(stride: f64) -> Range {
    match stride {
        ..96.0 => range(0.0, 0.07, 0.5),
        ..192.0 => range(0.02, 0.15, 0.8),
        ..384.0 => range(0.04, 0.3, 1.0),
        ..768.0 => range(0.2, 0.7, 1.05),
        _ => range(0.5, 0.98, 1.05),
    }
}

fn strided_beyond(stride: f64) -> Range {
    match stride {
        ..96.0 => range(0.008, 0.03, 0.12),
        ..192.0 => range(0.02, 0.07, 0.25),
        ..384.0 => range(0.03, 0.2, 1.05),
        ..768.0 => range(0.04, 0.25, 1.05),
        ..1536.0 => range(0.06, 0.3, 1.05),
        ..3072.0 => range(0.12, 0.35, 1.05),
        _ => range(0.18, 0.5, 1.05),
    }
}

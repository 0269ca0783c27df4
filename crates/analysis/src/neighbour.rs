//! What is to be expected of a figure that was measured beside a neighbour (METHOD §2a). A law states
//! the figure of a core alone; a program on the core's other hardware thread makes it slower by what
//! the timed body needs of the core.

use record::event::Range;
use record::metric::{Better, Kind, Metric};

/// From this share of the time on that others used the core a figure has an expectation.
const LEAST_SHARED: f64 = 0.05;
/// From this share on the likely value is that beside the neighbour: a figure is a median of rounds,
/// and the states of a core last for seconds.
const MOSTLY: f64 = 0.5;

/// What a timed body needs of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// A chain of instructions that wait for each other needs little of the core's width.
    Chain,
    /// Work of the kernel needs a part of it.
    Kernel,
    /// Independent instructions, calls and short loops need all of it.
    Width,
}

/// How many times longer a body takes beside a neighbour, likely and at most: from the medians of
/// shared over alone samples in four runs on one Zen 3 guest (2026-11-29; the figures by class are in
/// docs/notes/2026-11-29-shared-core.md). The empty loop takes 2.1 times as long: two hardware threads
/// share a core.
const FACTORS: [(Body, f64, f64); 3] =
    [(Body::Chain, 1.0, 1.2), (Body::Kernel, 1.28, 1.4), (Body::Width, 1.4, 2.1)];

fn body(metric: &Metric) -> Body {
    match metric.kind {
        Kind::Os | Kind::Io => Body::Kernel,
        Kind::Hardware if metric.name == "latency" => Body::Chain,
        Kind::Hardware => Body::Width,
    }
}

/// The range beside a neighbour that used the core for a share of the time, of a figure whose range
/// on a core alone is `alone`; `None` where hardly any time was shared.
pub fn expectation(alone: Range, metric: &Metric, shared: f64) -> Option<Range> {
    let body = body(metric);
    let (_, likely, most) = *FACTORS.iter().find(|(row, ..)| *row == body)?;
    let likely = if shared > MOSTLY { likely } else { 1.0 };
    match metric.better {
        Better::Lower => {
            Some(Range { low: alone.low, likely: alone.likely * likely, high: alone.high * most })
        }
        Better::Higher => {
            Some(Range { low: alone.low / most, likely: alone.likely / likely, high: alone.high })
        }
        Better::None => None,
    }
    .filter(|_| shared >= LEAST_SHARED)
}

#[cfg(test)]
mod tests {
    use super::expectation;
    use record::event::Range;
    use record::metric::{Better, Kind, Metric};
    use record::unit::Unit;

    #[test]
    fn a_body_is_slower_by_what_it_needs_of_the_core() {
        let alone = Range { low: 100.0, likely: 200.0, high: 300.0 };
        let metric = |name, kind, better| Metric::new(name, "", Unit::Ns, better, kind);
        for (name, kind, better, shared, expected) in [
            ("latency", Kind::Hardware, Better::Lower, 0.72, Some([100.0, 200.0, 360.0])),
            ("call", Kind::Hardware, Better::Lower, 0.72, Some([100.0, 280.0, 630.0])),
            ("call", Kind::Hardware, Better::Lower, 0.3, Some([100.0, 200.0, 630.0])),
            ("latency", Kind::Os, Better::Lower, 0.72, Some([100.0, 256.0, 420.0])),
            ("rate", Kind::Hardware, Better::Higher, 0.3, Some([100.0 / 2.1, 200.0, 300.0])),
            ("call", Kind::Hardware, Better::Lower, 0.02, None),
            ("size", Kind::Hardware, Better::None, 0.72, None),
        ] {
            let found = expectation(alone, &metric(name, kind, better), shared);
            let found = found.map(|range| [range.low, range.likely, range.high]);
            assert_eq!(found, expected, "{name} {shared}");
        }
    }
}

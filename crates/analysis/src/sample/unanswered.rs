//! Events that have no reply.

use super::{run, rung};
use record::event::Histogram;
use record::run::Run;

/// The sample in which every round of a rung has ten events, one in five without a reply.
pub fn unanswered() -> Run {
    let case = rung(65536);
    let mut run = run();
    let of_case = run.samples.iter().filter(|samples| samples.case == case);
    let histograms = of_case.cloned().map(|samples| Histogram {
        series: samples.series,
        round: samples.round,
        case: samples.case,
        metric: samples.metric,
        scale: 1.0,
        buckets: vec![(10, 6), (20, 2)],
        above: 2,
    });
    run.histograms = histograms.collect();
    run
}

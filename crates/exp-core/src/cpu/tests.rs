//! What holds of several experiments of the processor.

use super::{call, core_to_core, instruction, linpack, peak};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::recorded;
use bench::prelude::*;
use session::fixtures::offered;

/// Figures of earlier stages add nothing before the core clock is measured; with it the interval of
/// what runs at that clock is narrower, and others have none of their own.
#[test]
fn a_derived_prediction_needs_the_measured_clock_and_is_narrower() {
    let guest = recorded("vm-granite-rapids");
    let epyc = recorded("epyc-7763-2s");
    let experiments: [(&dyn AnyExperiment, &Site, &str, &str, bool); 7] = [
        (
            &call::EXPERIMENT,
            &guest,
            "call=direct,type=i64,frame=registers,arguments=4",
            "call",
            true,
        ),
        (&instruction::EXPERIMENT, &guest, "instruction=mul_i64", "latency", true),
        (&peak::EXPERIMENT, &guest, "op=fma,type=f64,width=avx512,threads=1", "flop_rate", true),
        (&linpack::EXPERIMENT, &guest, "n=1000,threads=1", "rate", true),
        (&linpack::EXPERIMENT, &guest, "n=1000,threads=1", "residual", false),
        (&core_to_core::EXPERIMENT, &epyc, "pair=llc,home=first", "transfer", true),
        (&core_to_core::EXPERIMENT, &epyc, "pair=remote,home=first", "transfer", false),
    ];
    for (experiment, site, id, metric, follows) in experiments {
        let card = experiment.card();
        let offer = offered(experiment, site, Preset::Standard, &[]);
        let mut cases = offer.series.iter().flat_map(|series| &series.cases);
        let case = cases.find(|case| case.id.to_string() == id);
        let case = case.unwrap_or_else(|| panic!("{} has no case {id}", card.id));
        let metric = card.metrics.iter().find(|one| one.name == metric).expect("a metric");
        let width = |known: Option<&Known>, case: &Case| {
            let range = experiment.unscaled(site, known, case, metric)?.range?;
            Some(range.high / range.low)
        };
        let mut known = Known::default();
        assert_eq!(width(Some(&known), case), None, "{} {id}", card.id);
        known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.5e9);
        let (prior, derived) = (width(None, case).expect("a prior"), width(Some(&known), case));
        assert_eq!(derived.is_some_and(|derived| derived < prior), follows, "{} {id}", card.id);
        assert_eq!(derived.is_some(), follows, "{} {id}", card.id);
    }
}

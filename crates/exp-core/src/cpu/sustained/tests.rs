use super::{EXPERIMENT, blocks, window_ns};
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Preset};
use session::fixtures::{params, smoke};

#[test]
fn quick_skips_with_a_way_out_that_leads_out() {
    let site = recorded("vm-granite-rapids");
    let card = EXPERIMENT.card();
    let skip =
        EXPERIMENT.series(&site, &params(card, Preset::Quick, &[])).expect_err("not in quick");
    assert!(skip.needed.is_some_and(|needed| needed.contains("duration=20s")));
    let offer =
        EXPERIMENT.series(&site, &params(card, Preset::Quick, &[("duration", "20s")])).unwrap();
    assert_eq!(offer.series.len(), 2);
    assert_eq!(blocks(&offer.series[0], false), (1_000_000_000, 20));
    let window = window_ns(1_000_000_000);
    assert!(window * 1.1 + super::AROUND_NS <= 1e9 && window > 0.85e9);
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    assert_eq!(samples.len(), 2);
    for one in &samples {
        assert_eq!(one.raw.samples().len() as u64, super::REHEARSAL.1);
        assert!(one.at.contains_key("changes"));
    }
}

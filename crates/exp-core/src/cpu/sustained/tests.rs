use super::{EXPERIMENT, blocks, window_ns};
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Known, Preset};
use record::key::{CaseId, Key, Value};
use session::fixtures::{check, params, smoke};

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
fn the_measured_peak_gives_the_derived_prediction() {
    let site = recorded("vm-granite-rapids");
    let offer = check(&EXPERIMENT, &site, Preset::Standard);
    let (case, card) = (&offer.series[0].cases[0], EXPERIMENT.card());
    let rate = &card.metrics[0];
    let mut known = Known::default();
    assert!(EXPERIMENT.predict(&site, Some(&known), case, rate).is_none());
    let peak = CaseId::new()
        .with("op", "fma")
        .with("type", "f64")
        .with("width", "avx512")
        .with("threads", Value::from("all"));
    known.insert(Key::new("cpu.peak", &peak, "flop_rate"), 2e11);
    let derived = EXPERIMENT.predict(&site, Some(&known), case, rate).unwrap();
    let range = derived.range.unwrap();
    assert!(range.low < 2e11 && range.high > 2e11 && range.high < 2.2e11);
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

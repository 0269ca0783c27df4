use super::EXPERIMENT;
use bench::experiment::fixtures::{recorded, sites};
use bench::experiment::{Experiment, Fields as _, Known, Preset, Site};
use laws::cpu::peak::{Arithmetic, Threads};
use record::case::Case;
use record::key::{CaseId, Key};
use session::fixtures::{check, params, smoke};
use std::time::Duration;

fn cases(site: &Site, preset: Preset) -> Vec<Case> {
    let offer = check(&EXPERIMENT, site, preset);
    offer.series.into_iter().flat_map(|series| series.cases).collect()
}

#[test]
fn it_keeps_the_laws_of_the_catalogue_and_its_allotment() {
    for site in sites() {
        for (preset, most, seconds) in [
            (Preset::Rehearsal, 6, 0.3),
            (Preset::Quick, 6, 0.3),
            (Preset::Standard, 30, 1.2),
            (Preset::Thorough, 500, 60.0),
        ] {
            let offer = check(&EXPERIMENT, &site, preset);
            let count: usize = offer.series.iter().map(|series| series.cases.len()).sum();
            assert!(count <= most, "{count} cases in {}", preset.name());
            let cost: Duration =
                offer.series.iter().map(|series| EXPERIMENT.round_cost(&site, series)).sum();
            assert!(cost.as_secs_f64() <= seconds, "{cost:?} in {}", preset.name());
        }
    }
}

#[test]
fn the_least_that_the_issue_names_is_there() {
    let site = recorded("vm-granite-rapids");
    let quick = cases(&site, Preset::Quick);
    let chief = Arithmetic::chief(&site).unwrap();
    for threads in [Threads::Number(1), Threads::All] {
        assert!(quick.iter().any(|case| case.id == chief.by(threads).id()));
    }
    let thorough = cases(&site, Preset::Thorough);
    let widths = |width: &str| {
        let of = thorough.iter().filter(|case| case.text("width") == Some(width));
        of.filter(|case| case.int("threads") == Some(1)).count()
    };
    let all = ["scalar", "sse2", "avx2", "avx512"].map(widths);
    assert_eq!(all, [10, 7, 9, 10]);
    assert!(thorough.iter().any(|case| case.id == chief.by(Threads::Twice).id()));
    let arm = cases(&recorded("graviton3"), Preset::Thorough);
    assert!(arm.iter().all(|case| matches!(case.text("width"), Some("neon" | "scalar"))));
}

#[test]
fn what_is_asked_for_is_measured_or_skipped_with_its_reason() {
    let site = recorded("epyc-7763-2s");
    let set = [("width", "avx512,avx2"), ("threads", "3"), ("op", "mul")];
    let offer = EXPERIMENT.series(&site, &params(EXPERIMENT.card(), Preset::Quick, &set)).unwrap();
    let names: Vec<&str> = offer.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["avx2"]);
    assert_eq!(offer.series[0].cases.len(), 1, "f64; i64 has no such instruction");
    assert_eq!(offer.skipped.len(), 3);
    let nothing = [("width", "neon")];
    EXPERIMENT
        .series(&site, &params(EXPERIMENT.card(), Preset::Quick, &nothing))
        .expect_err("no Arm");
}

#[test]
fn the_measured_clock_narrows_the_prediction() {
    let site = recorded("vm-granite-rapids");
    let card = EXPERIMENT.card();
    let case = cases(&site, Preset::Quick)
        .into_iter()
        .find(|case| case.text("op") == Some("fma") && case.int("threads") == Some(1))
        .unwrap();
    let rate = card.metrics.iter().find(|metric| metric.name == "flop_rate").unwrap();
    let prior = EXPERIMENT.predict(&site, None, &case, rate).unwrap();
    assert!(prior.bound.is_some_and(|bound| !bound.warns_only));
    let mut known = Known::default();
    assert!(EXPERIMENT.predict(&site, Some(&known), &case, rate).is_none());
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.6e9);
    let derived = EXPERIMENT.predict(&site, Some(&known), &case, rate).unwrap();
    let width = |range: record::event::Range| range.high / range.low;
    assert!(width(derived.range.unwrap()) < width(prior.range.unwrap()));
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    for one in samples.iter().filter(|one| one.metric != "efficiency") {
        assert!(one.quantities["cores_hz"] > 1e6);
        assert!(one.raw.samples()[0] > 1e6, "{}: {:?}", one.case, one.raw);
    }
}

use super::EXPERIMENT;
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Fields as _, Preset, Site};
use laws::cpu::peak::{Arithmetic, Threads};
use record::case::Case;
use session::fixtures::{check, params, smoke};

fn cases(site: &Site, preset: Preset) -> Vec<Case> {
    let offer = check(&EXPERIMENT, site, preset);
    offer.series.into_iter().flat_map(|series| series.cases).collect()
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
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    for one in samples.iter().filter(|one| one.metric != "efficiency") {
        assert!(one.quantities["cores_hz"] > 1e6);
        assert!(one.raw.samples()[0] > 1e6, "{}: {:?}", one.case, one.raw);
    }
}

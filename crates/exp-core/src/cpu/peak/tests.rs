use super::EXPERIMENT;
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Preset};
use session::fixtures::params;

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

use super::EXPERIMENT;
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment, Fields, Preset};
use laws::cpu::peak::{Op, Peak, Threads};
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

#[test]
fn the_mix_of_scalars_scales_over_threads() {
    let site = recorded("epyc-7763-2s");
    let counts = |preset| -> Vec<Threads> {
        let offer = EXPERIMENT.series(&site, &params(EXPERIMENT.card(), preset, &[])).unwrap();
        let cases = offer.series.iter().flat_map(|series| &series.cases);
        let mixes = cases.filter_map(|case| Peak::of(&case.id)).filter(|peak| peak.op == Op::Mix);
        mixes.map(|peak| peak.threads).collect()
    };
    let of_both = |counts: &[Threads]| [counts, counts].concat();
    let [one, two, four] = [1, 2, 4].map(Threads::Number);
    let (sixteen, many) = (Threads::Number(16), Threads::Number(64));
    assert_eq!(counts(Preset::Quick), []);
    assert_eq!(counts(Preset::Standard), of_both(&[one, Threads::All]), "of f64 and of i64");
    let all = [one, two, four, sixteen, many, Threads::All, Threads::Twice];
    assert_eq!(counts(Preset::Thorough), of_both(&all));
}

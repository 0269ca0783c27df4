use super::EXPERIMENT;
use bench::experiment::fixtures::recorded;
use bench::experiment::{Fields, Preset};
use laws::cpu::peak::{Element, Op, Peak, Threads, Width};
use session::fixtures::{offered, refused};

#[test]
fn what_is_asked_for_is_measured_or_skipped_with_its_reason() {
    let site = recorded("epyc-7763-2s");
    let set = [("width", "avx512,avx2"), ("threads", "3"), ("op", "mul")];
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
    let names: Vec<&str> = offer.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["avx2"]);
    assert_eq!(offer.series[0].cases.len(), 1, "f64; i64 has no such instruction");
    assert_eq!(offer.skipped.len(), 3);
    refused(&EXPERIMENT, &site, Preset::Quick, &[("width", "neon")]);
}

#[test]
fn scalars_scale_over_threads() {
    let site = recorded("epyc-7763-2s");
    let counts = |op: Op, preset| -> Vec<Threads> {
        let offer = offered(&EXPERIMENT, &site, preset, &[]);
        let cases = offer.series.iter().flat_map(|series| &series.cases);
        let own = cases.filter_map(|case| Peak::from_id(&case.id)).filter(|peak| {
            let is_basic = matches!(peak.element, Element::F64 | Element::I64);
            peak.op == op && peak.width == Width::Scalar && is_basic
        });
        own.map(|peak| peak.threads).collect()
    };
    let of_both = |counts: &[Threads]| [counts, counts].concat();
    let [one, two, four] = [1, 2, 4].map(Threads::Number);
    let (sixteen, many) = (Threads::Number(16), Threads::Number(64));
    let all = [one, two, four, sixteen, many, Threads::All, Threads::Twice];
    for op in [Op::Add, Op::Mul, Op::Mix] {
        assert_eq!(counts(op, Preset::Quick), []);
        assert_eq!(counts(op, Preset::Standard), of_both(&[one, Threads::All]), "{op:?}");
        assert_eq!(counts(op, Preset::Thorough), of_both(&all), "{op:?}");
    }
    assert_eq!(counts(Op::Fma, Preset::Standard), [one, Threads::All], "integers have none");
}

use super::*;
use bench::experiment::fixtures::{bare_site, recorded};
use session::fixtures::{offered, smoke};

/// What the card, the table of operations and the bodies say of this architecture is the same.
#[test]
fn every_operation_of_this_architecture_has_the_bodies_that_it_should() {
    let arch = bare_site().host.cpu.arch;
    for &operation in Operation::ALL {
        if operation == Operation::BranchMispredicted {
            continue;
        }
        let name = operation.text();
        let body = body::find(name);
        let Some(feature) = operation.feature(arch) else {
            assert!(body.is_none(), "{name}");
            continue;
        };
        let body = body.unwrap_or_else(|| panic!("{name} has no body"));
        assert_eq!(body.feature, feature, "{name}");
        let defined = operation.row().defined;
        assert_eq!(body.latency.is_some(), defined.contains(&Measure::Latency), "{name}");
        assert_eq!(body.throughput.is_some(), defined.contains(&Measure::Throughput), "{name}");
    }
    for body in body::all() {
        assert!(Operation::from_value(Some(&body.name.into())).is_some(), "{}", body.name);
    }
}

#[test]
fn what_a_processor_lacks_is_skipped_with_the_feature() {
    let offer = |name: &str| offered(&EXPERIMENT, &recorded(name), Preset::Thorough, &[]);
    let of = |names: &str| {
        let set = [("instruction", names)];
        offered(&EXPERIMENT, &recorded("graviton3"), Preset::Standard, &set)
    };
    let why = |offer: &Offer, name: &str| {
        let skipped = offer.skipped.iter();
        let mut of = skipped.filter(|(id, _)| id.text("instruction") == Some(name));
        of.next().map(|(_, skip)| skip.reason.clone())
    };
    let granite = offer("vm-granite-rapids");
    assert!(granite.skipped.is_empty());
    assert!(granite.series[0].cases.len() >= 70);
    let milan = offer("epyc-7763-2s");
    assert!(why(&milan, "fma_f64x8").is_some_and(|reason| reason.contains("avx512f")));
    assert_eq!(why(&milan, "fma_f64x4"), None);
    let graviton = offer("graviton3");
    assert!(graviton.skipped.is_empty());
    assert!(graviton.series[0].cases.len() >= 40);
    assert!(
        why(&of("add_i64,fma_f64x8"), "fma_f64x8").is_some_and(|reason| reason.contains("aarch64"))
    );
    let nothing = of("fma_f64x8");
    assert!(nothing.series.is_empty() && nothing.skipped.len() == 1);
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    assert!(samples.iter().all(|samples| {
        let body = samples.at.get("body").and_then(Value::text);
        body.is_some_and(|text| !text.is_empty() && !text.contains('\n'))
    }));
}

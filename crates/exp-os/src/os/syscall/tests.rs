use super::*;
use bench::experiment::fixtures::recorded;
use bench::experiment::{AnyExperiment as _, Known};
use bench::measure::Watch;
use host::limits::Rlimit;
use record::event::{Raw, Samples};
use record::key::{CaseId, Key};
use session::fixtures::{params, smoke};
use std::path::Path;

#[test]
fn what_a_site_lacks_is_skipped() {
    let skips = |site: &Site| -> Vec<String> {
        let offer = EXPERIMENT.series(site, &params(&CARD, Standard, &[])).expect("measurable");
        offer.skipped.iter().map(|(id, _)| id.to_string()).collect()
    };
    let mut site = recorded("vm-granite-rapids");
    assert!(skips(&site).is_empty());
    site.host.kernel.release = Some("4.19.0-26-amd64".to_owned());
    assert_eq!(skips(&site), ["call=uring_nop"]);
    site.host.kernel.release = Some("6.1".to_owned());
    site.host.limits.open_files = Some(Rlimit { soft: Some(128), hard: Some(4096) });
    assert_eq!(skips(&site), ["call=open", "call=close"]);
    site.host.limits.open_files = None;
    site.host.cpu.arch = Arch::Aarch64;
    assert_eq!(skips(&site), ["call=time_raw"]);
}

#[test]
fn the_derived_prediction_comes_from_what_clock_read_measured() {
    let site = &recorded("vm-granite-rapids");
    let of = |call: &str, known: &Known| {
        let case = Case::new(CaseId::new().with("call", call));
        EXPERIMENT.predict(site, Some(known), &case, &CARD.metrics[0])?.range
    };
    let mut known = Known::default();
    assert!(of("getpid", &known).is_none());
    for (clock, ns) in [("clock_gettime_syscall", 135.0), ("clock_gettime_vdso", 18.0)] {
        let id = CaseId::new().with("clock", clock);
        known.insert(Key::new("clock.read", &id, "cost"), ns);
    }
    known.insert(Key::new("clock.rate", &CaseId::new(), "core_frequency"), 3.6e9);
    let null = of("getpid", &known).expect("derived");
    assert!(null.low > 50.0 && null.high < 135.0, "{null:?}");
    assert_eq!(of("clock_gettime_vdso", &known).map(|same| same.likely), Some(18.0));
    // Not measured: nothing to derive from.
    assert!(of("time_vdso", &known).is_none());
}

#[test]
fn pools_are_opened_and_closed_whole() {
    // Other tests of this process open files too: those of a pool are told apart by what they are
    // of.
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("proc is mounted");
        let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link == Path::new("/dev/null")).count()
    };
    let before = descriptors();
    let mut pools = Pools::new(64).expect("128 files may be open");
    for (short, long) in pools.quartet(&mut Watch::new(None)).expect("and closed") {
        assert!(0.0 < short && short < long, "{short} {long}");
    }
    // Some of the same, but not as many as a pool that was left open.
    assert!(descriptors() < before + 64);
    assert!(Pools::new(0).is_err());
}

#[test]
fn it_measures_and_pools_are_recorded_as_quartets() {
    let samples = smoke(&EXPERIMENT);
    for call in ["open", "close"] {
        let of_call = |samples: &&Samples| samples.case.text("call") == Some(call);
        let samples = samples.iter().find(of_call).expect("measured");
        let Raw::Quartets { k, n, two_n, .. } = &samples.raw else {
            panic!("{call} is {:?}", samples.raw);
        };
        assert_eq!((*k, n.len()), (64, two_n.len()));
        assert!(!n.is_empty() && n.iter().chain(two_n).all(|sum| *sum > 0.0));
    }
}

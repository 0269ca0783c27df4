use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::recorded;
use record::key::Key;
use session::fixtures::{params, smoke};

fn ids(offer: &Offer) -> Vec<String> {
    let cases = offer.series.iter().flat_map(|series| &series.cases);
    cases.map(|case| case.id.to_string()).collect()
}

fn offered(site: &Site, preset: Preset, set: &[(&str, &str)]) -> Offer {
    let offer = EXPERIMENT.series(site, &params(&CARD, preset, set));
    offer.expect("something is always measurable")
}

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let skips = |site: &Site| -> Vec<String> {
        let offer = offered(site, Preset::Thorough, &[]);
        offer.skipped.iter().map(|(id, _)| id.to_string()).collect()
    };
    let mut site = recorded("vm-granite-rapids");
    site.memory_bytes = 2 << 30;
    assert!(skips(&site).is_empty(), "{:?}", skips(&site));
    site.memory_bytes = 512 << 20;
    assert_eq!(skips(&site).len(), Call::ALL.len() + 1);
    assert!(skips(&site).iter().all(|id| id.contains("1073741824")));
    site.memory_bytes = 2 << 30;
    site.host.kernel.release = Some("5.2.1".to_owned());
    assert_eq!(skips(&site).len(), 5);
    assert!(skips(&site).iter().all(|id| id.contains("clone3")));
    site.host.kernel.release = Some("5.3".to_owned());
    site.host.memory.thp.page_bytes = Some(512 << 20);
    assert_eq!(skips(&site).len(), 3);
    site.host.memory.thp.enabled = Some("never".to_owned());
    assert_eq!(skips(&site).len(), 4);
}

#[test]
fn sizes_that_are_given_hold_for_every_call() {
    let site = recorded("vm-granite-rapids");
    let set = [("resident", "2MiB,8MiB"), ("pages", "huge"), ("call", "fork,sh")];
    let offer = offered(&site, Preset::Quick, &set);
    assert_eq!(ids(&offer).len(), 4, "{:?}", ids(&offer));
    let derivable = EXPERIMENT.derivable(&site, &offer.series);
    let derivable: Vec<String> = derivable.iter().map(CaseId::to_string).collect();
    assert_eq!(derivable, ["call=fork,pages=huge", "call=sh,pages=huge"]);
}

#[test]
fn slopes_and_the_ratio_come_from_the_figures() {
    let site = recorded("vm-granite-rapids");
    let (mut known, mut own) = (Known::default(), Known::default());
    for size in [1, 64, 256] {
        let pages = size * MIB / 4096;
        let id =
            CaseId::new().with("call", "fork").with("resident", size * MIB).with("pages", "base");
        own.insert(Key::new(CARD.id, &id, "return"), 60e3 + 25.0 * pages as f64);
        own.insert(Key::new(CARD.id, &id, "reaped"), 140e3 + 70.0 * pages as f64);
    }
    let found = |known: &Known| -> Vec<(String, &str, f64)> {
        let derived = EXPERIMENT.derive(&site, known, &own);
        let told = derived.into_iter();
        told.map(|one| (one.case.to_string(), one.metric, (one.value * 1e6).round() / 1e6))
            .collect()
    };
    let slopes = [
        ("call=fork,pages=base".to_owned(), "return_per_page", 25.0),
        ("call=fork,pages=base".to_owned(), "reaped_per_page", 70.0),
    ];
    assert_eq!(found(&known), slopes);
    let thread = CaseId::new().with("pair", "same").with("stack", "cached");
    known.insert(Key::new("os.thread", &thread, "create_join"), 20e3);
    let ratio = found(&known).pop().expect("the ratio");
    assert_eq!(ratio.1, "process_to_thread");
    assert!((ratio.2 - (140e3 + 70.0 * 256.0) / 20e3).abs() < 1e-5, "{ratio:?}");
}

#[test]
fn the_derived_prediction_comes_from_what_os_syscall_measured() {
    let site = recorded("vm-granite-rapids");
    let case =
        Case::new(CaseId::new().with("call", "vfork").with("resident", MIB).with("pages", "base"));
    let mut known = Known::default();
    let told = |known: &Known| EXPERIMENT.predict(&site, Some(known), &case, &CARD.metrics[2]);
    assert!(told(&known).is_none());
    let mapping = CaseId::new().with("call", "mmap_munmap");
    known.insert(Key::new("os.syscall", &mapping, "latency"), 900.0);
    let because = told(&known).expect("told").because;
    assert!(because.contains("900 ns (measured by os.syscall"), "{because}");
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    let of = |metric: &str| samples.iter().filter(|samples| samples.metric == metric).count();
    assert_eq!((of("return"), of("reaped"), of("in_sequence")), (5, 5, 5));
    assert_eq!(of("first_instruction"), 4);
    let noted = samples.iter().filter(|samples| {
        let exec = samples.case.text("call").is_some_and(|call| call.ends_with("_static"));
        exec && samples.metric == "return"
    });
    for samples in noted {
        assert!(samples.notes.iter().any(|note| note.contains("the program lies in")));
    }
}

#[test]
fn what_a_parent_is_given_leaves_the_law_and_is_told() {
    let site = recorded("vm-granite-rapids");
    for (name, text, value) in [("areas", "170", 170), ("written", "125KiB", 128_000)] {
        let offer = offered(&site, Preset::Quick, &[(name, text)]);
        for series in &offer.series {
            assert_eq!(series.setting(name), Some(value));
            let told = EXPERIMENT.predict(&site, None, &series.cases[0], &CARD.metrics[0]);
            assert!(told.expect("told").range.is_none());
        }
    }
}

#[test]
fn a_steady_sequence_costs_its_time_twice_and_keeps_its_key() {
    let site = recorded("vm-granite-rapids");
    let of = |set: &[(&str, &str)]| {
        let set = [&[("call", "vfork"), ("resident", "1MiB")], set].concat();
        let offer = offered(&site, Preset::Quick, &set);
        let [series] = offer.series.as_slice() else {
            panic!("one size has one series");
        };
        let [case] = series.cases.as_slice() else {
            panic!("one call has one case");
        };
        let at = case.at.get("steady").and_then(record::key::Value::int);
        (case.id.clone(), at, EXPERIMENT.round_cost(&site, series))
    };
    let (id, at, cost) = of(&[]);
    let (steady_id, steady_at, steady_cost) = of(&[("steady", "250ms")]);
    assert_eq!(id, steady_id);
    assert_eq!((at, steady_at), (None, Some(250_000_000)));
    let least_ns: u64 =
        windows(&site, &params(&CARD, Preset::Quick, &[])).iter().map(|(_, ns)| ns).sum();
    let more = Duration::from_nanos(2 * 250_000_000 - least_ns);
    assert_eq!(steady_cost - cost, more);
}

#[test]
fn windows_last_until_what_processes_leave_is_freed() {
    let mut site = recorded("vm-granite-rapids");
    let mut at = |hz| {
        site.host.kernel.hz = hz;
        windows(&site, &params(&CARD, Preset::Quick, &[])).map(|(_, ns)| ns / 1_000_000)
    };
    assert_eq!(at(Some(100)), [100, 120]);
    for hz in [None, Some(0), Some(250), Some(1000)] {
        assert_eq!(at(hz), [40, 48], "{hz:?}");
    }
}

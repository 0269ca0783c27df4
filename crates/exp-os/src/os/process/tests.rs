use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::recorded;
use record::note::NoteKind;
use session::fixtures::{ids, offered, params, skipped, smoke};

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let skips = |site: &Site| skipped(&offered(&EXPERIMENT, site, Preset::Thorough, &[]));
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
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
    assert_eq!(ids(&offer).len(), 4, "{:?}", ids(&offer));
    let derivable = EXPERIMENT.derivable(&site, &offer.series);
    let derivable: Vec<String> = derivable.iter().map(CaseId::to_string).collect();
    assert_eq!(derivable, ["call=fork,pages=huge", "call=sh,pages=huge"]);
}

#[test]
fn what_is_executed_says_where_it_lies() {
    let samples = smoke(&EXPERIMENT);
    let of = |metric: &'static str| samples.iter().filter(move |samples| samples.metric == metric);
    assert_eq!((of("return").count(), of("first_instruction").count()), (5, 4));
    for samples in of("return") {
        let is_executed = samples.case.text("call").is_some_and(|call| call.ends_with("_static"));
        // On a busy machine there may be one about the core clock.
        let of_program = samples.notes.iter().any(|note| note.kind != NoteKind::NoClock);
        assert_eq!(of_program, is_executed, "{}", samples.case);
    }
}

#[test]
fn what_a_parent_is_given_leaves_the_law_and_is_told() {
    let site = recorded("vm-granite-rapids");
    for (name, text, value) in [("areas", "170", 170), ("written", "125KiB", 128_000)] {
        let offer = offered(&EXPERIMENT, &site, Preset::Quick, &[(name, text)]);
        for series in &offer.series {
            assert_eq!(series.setting(name), Some(value));
            let told = EXPERIMENT.unscaled(&site, None, &series.cases[0], &CARD.metrics[0]);
            assert!(told.expect("told").range.is_none());
        }
    }
}

#[test]
fn a_steady_sequence_costs_its_time_twice_and_keeps_its_key() {
    let site = recorded("vm-granite-rapids");
    let of = |set: &[(&str, &str)]| {
        let set = [&[("call", "vfork"), ("resident", "1MiB")], set].concat();
        let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
        let [series] = offer.series.as_slice() else {
            panic!("one size has one series");
        };
        let [case] = series.cases.as_slice() else {
            panic!("one call has one case");
        };
        let at = case.at.get("steady").and_then(Value::int);
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

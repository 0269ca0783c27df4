//! Time slices where a control group's quota stops everything again and again.

use crate::plumb::group::Group;
use crate::plumb::prelude::*;

#[test]
fn a_quota_that_throttles_is_named_and_disturbs() {
    let Some(group) = Group::percent(20, 100_000) else { return skips::test("control-group") };
    let throttled_run = || {
        let here = Here::new();
        ends(0, here.in_group(&group.0, "run os.schedule --preset rehearsal"));
        here.complete()
    };
    // Where others leave the group less than its quota, nothing throttles it.
    let is_told = |events: &Vec<Value>| {
        let samples = of(events, "samples").into_iter();
        let notes: String = samples.map(|samples| samples["notes"].to_string()).collect();
        notes.contains("quota throttled the processes")
    };
    let events = (0..5)
        .map(|_| throttled_run())
        .find(is_told)
        .expect("in one of five runs the quota is used up, and named");
    // A round in which the quota left one process alone has no whole slice, does not count, and is
    // repeated.
    let mut rounds = of(&events, "round");
    rounds.retain(|round| round["reason"].is_null());
    let disturbed = rounds.iter().all(|round| round["disturbed"].to_string().contains("throttled"));
    assert!(!rounds.is_empty() && disturbed, "{rounds:?}");
    // It was foretold.
    let lost = of(&events, "prediction")
        .into_iter()
        .map(ToString::to_string)
        .find(|text| text.contains("\"lost\""))
        .unwrap();
    assert!(lost.contains("0.20 CPUs"), "{lost}");
}

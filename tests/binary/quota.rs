//! Where a control group's quota stops everything again and again, figures say so; and noise on one
//! CPU. (What is attributed to what: the tests of crates/exp-os.)

use crate::plumb::group::Group;
use crate::plumb::prelude::*;

/// The events of a rehearsal under a quota of 20 %, of the first run that fits; `None` where there
/// are no control groups. Where others leave the group less than its quota, nothing throttles it.
fn throttled(
    experiment: &str,
    period_us: u32,
    fits: impl Fn(&[Value]) -> bool,
) -> Option<Vec<Value>> {
    let group = Group::percent(20, period_us)?;
    let run = |_| {
        let here = Here::new();
        ends(0, here.in_group(&group.0, &format!("run {experiment} --preset rehearsal")));
        here.complete()
    };
    let found = (0..5).map(run).find(|events| fits(events));
    Some(found.expect("in one of five runs the quota is used up, and named"))
}

fn notes(events: &[Value]) -> String {
    events_of_kind(events, "samples").iter().map(|samples| samples["notes"].to_string()).collect()
}

/// The text of the predictions of a metric.
fn predicted(events: &[Value], metric: &str) -> String {
    let all = events_of_kind(events, "prediction").into_iter();
    all.filter(|event| event["metric"] == metric).map(ToString::to_string).collect()
}

fn values(events: &[Value], metric: &str) -> Vec<f64> {
    let all = samples_of(events, metric).into_iter();
    all.flat_map(|one| one["values"].as_array().unwrap()).filter_map(Value::as_f64).collect()
}

#[test]
fn time_slices_under_a_quota_are_disturbed() {
    let is_named = |events: &[Value]| notes(events).contains("quota throttled the processes");
    let Some(events) = throttled("os.schedule", 100_000, is_named) else {
        return skips::test("control-group");
    };
    // A round in which the quota left one process alone has no whole slice, does not count, and is
    // repeated.
    let mut rounds = events_of_kind(&events, "round");
    rounds.retain(|round| round["reason"].is_null());
    let disturbed = rounds.iter().all(|round| round["disturbed"].to_string().contains("throttled"));
    assert!(!rounds.is_empty() && disturbed, "{rounds:?}");
    assert!(predicted(&events, "lost").contains("0.20 CPUs"), "{}", predicted(&events, "lost"));
}

#[test]
fn time_that_a_quota_takes_is_lost_to_the_quota() {
    // Four fifths of the time, less what the quota had saved up, in periods of 10 ms, so that a
    // rehearsal meets some.
    let is_lost = |events: &[Value]| values(events, "lost_throttled").iter().any(|one| *one > 0.1);
    let Some(events) = throttled("noise.activity", 10_000, is_lost) else {
        return skips::test("control-group");
    };
    assert!(notes(&events).contains("throttled"), "{}", notes(&events));
    assert!(predicted(&events, "lost_throttled").contains("quota"));
}

#[test]
fn noise_is_measured_where_there_is_one_cpu() {
    let here = Here::new();
    let cpu = *metal::place::allowed().unwrap().last().unwrap();
    let line = format!("exec taskset -c {cpu} $PLUMB run noise.activity --preset rehearsal");
    let answer = here.shell(&line);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = here.complete();
    assert_eq!(samples_of(&events, "lost")[0]["at"]["cpu"], cpu);
    for metric in ["read_to_read", "threshold", "gap_rate", "lost", "lost_timer"] {
        assert!(!values(&events, metric).is_empty(), "{metric}");
    }
    assert!(values(&events, "lost").iter().all(|share| (0.0..=1.0).contains(share)));
}

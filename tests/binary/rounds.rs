//! What a whole run writes down: every kind of experiment, in the order in which it must stand.

use crate::plumb::prelude::*;

fn text<'event>(event: &'event Value, field: &str) -> &'event str {
    event[field].as_str().unwrap_or_default()
}

fn samples<'run>(events: &'run [Value], series: &str, metric: &str) -> Vec<&'run Value> {
    events_of_kind(events, "samples")
        .into_iter()
        .filter(|samples| samples["series"] == series && samples["metric"] == metric)
        .collect()
}

#[test]
fn every_kind_of_experiment_is_recorded() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let events = here.measure(&["selftest", "--preset", "rehearsal", "--dir", &dir, "--seed", "1"]);
    let kinds = ["header", "calibration", "plan"];
    assert!(kinds.iter().zip(&events).all(|(kind, event)| is(event, kind)));
    assert_eq!(end(&events), "complete");
    assert_eq!(events[0]["seed"], 1);
    for series in ["echo", "pulse", "sweep", "file", "fault/none"] {
        assert_eq!(rounds(&events, &format!("selftest.{series}")), (1, 0), "{series}");
    }
    predictions_come_first(&events);

    // Two ends.
    let trips = samples(&events, "selftest.echo", "round_trip");
    assert_eq!(trips[0]["values"].as_array().unwrap().len(), 50);
    let received = samples(&events, "selftest.echo", "received");
    assert_eq!(received[0]["values"], json!([50.0]));
    let round = events_of_kind(&events, "round");
    let round = round.iter().find(|round| round["series"] == "selftest.echo").unwrap();
    let environment = round["environment"].as_object().unwrap();
    assert!(environment.keys().any(|name| name.starts_with("far_")), "{environment:?}");

    // Once: blocks, and rows over time.
    let blocks = samples(&events, "selftest.pulse", "rate");
    assert_eq!((text(blocks[0], "of"), &blocks[0]["k"]), ("batch", &json!(0)));
    let traces = events_of_kind(&events, "trace");
    let rows = traces[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), blocks[0]["values"].as_array().unwrap().len());
    assert_eq!(traces[0]["columns"], json!(["at_s", "rate_op_per_s"]));

    // Sweep: sizes that were resolved, figures that were derived, a case that was skipped.
    let costs = samples(&events, "selftest.sweep", "cost");
    assert_eq!(costs.len(), 5);
    assert!(costs.iter().all(|cost| cost["of"] == "batch"));
    let derived = events_of_kind(&events, "derived");
    assert_eq!((text(derived[0], "metric"), &derived[0]["value"]), ("knee", &json!(4096.0)));
    let resolved = events_of_kind(&events, "prediction");
    let mut resolved = resolved.iter().filter(|event| event["of"] == "derived");
    assert!(resolved.any(|event| event["at"]["step"] == 4096), "`resolve` is told");
    let outcomes = events_of_kind(&events, "outcome");
    let skipped: Vec<&&Value> =
        outcomes.iter().filter(|outcome| outcome["outcome"] == "skipped").collect();
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0]["reason"].is_string());
    assert_eq!(outcomes.len(), 1 + 1 + 1 + 5 + 1 + 1 + 1, "every case has an outcome");

    // Files.
    assert_eq!(samples(&events, "selftest.file", "read").len(), 1);
    here.is_clean("files");
}

/// Each case is predicted before its first sample is written.
fn predictions_come_first(events: &[Value]) {
    let mut measured = 0;
    for (at, samples) in events.iter().enumerate().filter(|(_, event)| is(event, "samples")) {
        let experiment = text(samples, "series").split('/').next().unwrap();
        let prior = |event: &&Value| {
            is(event, "prediction")
                && event["of"] == "prior"
                && event["experiment"] == experiment
                && event["case"] == samples["case"]
                && event["metric"] == samples["metric"]
        };
        assert!(events[..at].iter().any(|event| prior(&event)), "{samples}");
        measured += 1;
    }
    assert_eq!(measured, 11, "samples of all cases and metrics");
    // A derived prediction uses an earlier stage, and stands before its own samples too.
    let derived = events.iter().position(|event| event["of"] == "derived").unwrap();
    let of_series =
        |event: &Value, kind: &str, series: &str| is(event, kind) && event["series"] == series;
    let earlier = events.iter().position(|event| of_series(event, "round", "selftest.pulse"));
    let first = events.iter().position(|event| of_series(event, "samples", "selftest.sweep"));
    assert!(earlier.unwrap() < derived && derived < first.unwrap());
}

fn reasons<'run>(events: &'run [Value], fault: &str) -> Vec<&'run str> {
    events_of_kind(events, "outcome")
        .into_iter()
        .filter(|outcome| outcome["case"]["fault"] == fault && outcome["outcome"] == "failed")
        .map(|outcome| text(outcome, "reason"))
        .collect()
}

#[test]
fn what_always_fails_is_a_failed_case_and_all_of_it_a_failed_run() {
    let here = Here::new();
    let set = "selftest.fault.fault=error,panic,exit";
    let answer = here.ends(3, &["run", "selftest.fault", "--preset", "rehearsal", "--set", set]);
    assert!(answer.err.contains("selftest.fault"), "{answer:?}");
    let events = events(&here.record());
    assert_eq!(end(&events), "complete");
    for (fault, part) in [
        ("error", "asked to fail"),
        ("panic", "internal error at crates/exp-net/src/selftest/fault.rs"),
        ("panic", "asked to panic"),
        ("exit", "exit status: 7"),
    ] {
        assert_eq!(rounds(&events, &format!("selftest.fault/{fault}")), (0, 3), "{fault}");
        let reasons = reasons(&events, fault);
        assert_eq!(reasons.len(), 1, "{fault}");
        assert!(reasons[0].contains(part), "{fault}: {reasons:?}");
    }
    assert!(events_of_kind(&events, "samples").is_empty());
}

#[test]
fn a_case_that_fails_takes_none_of_its_series_with_it() {
    let here = Here::new();
    let set = "selftest.fault.fault=none,case";
    let events = here.measure(&["selftest.fault", "--preset", "quick", "--set", set]);
    assert_eq!(rounds(&events, "selftest.fault/none"), (9, 0));
    assert_eq!(reasons(&events, "case").len(), 1);
    assert!(reasons(&events, "none").is_empty());
    let samples = samples(&events, "selftest.fault/none", "answer");
    assert_eq!(samples.len(), 9);
    assert!(samples.iter().all(|samples| samples["case"]["fault"] == "none"));
    // Alone it is all of its series, so its rounds are void.
    let here = Here::new();
    let args = ["run", "selftest.fault", "--preset", "rehearsal", "--set"];
    here.ends(3, &[&args[..], &["selftest.fault.fault=case"]].concat());
}

#[test]
fn rounds_count_whatever_went_wrong_before() {
    let here = Here::new();
    let set = "selftest.fault.fault=first,error";
    let events = here.measure(&["selftest.fault", "--preset", "quick", "--set", set]);
    // The answer is always the same: the goal is met as soon as the stop rule is asked.
    assert_eq!(rounds(&events, "selftest.fault/first"), (9, 1));
    let first = events_of_kind(&events, "round")
        .into_iter()
        .find(|round| round["series"] == "selftest.fault/first")
        .unwrap();
    assert_eq!((text(first, "status"), &first["n"]), ("void", &json!(1)));
    assert!(text(first, "reason").contains("first round"), "{first}");
    assert_eq!(rounds(&events, "selftest.fault/error"), (0, 3));
    assert_eq!(reasons(&events, "error").len(), 1);
    assert_eq!(samples(&events, "selftest.fault/first", "answer").len(), 9);
}

#[test]
fn rounds_go_on_to_the_last_look_until_the_goal_is_met() {
    let here = Here::new();
    let args = ["selftest.echo", "--preset", "quick", "--precision", "0.01"];
    let events = here.measure(&args);
    assert_eq!(rounds(&events, "selftest.echo"), (9, 0));
    let plan = events_of_kind(&events, "plan");
    assert_eq!(plan[0]["looks"], json!([6, 9]));
}

#[test]
fn a_far_end_that_fails_voids_the_round() {
    let here = Here::new();
    let set = "selftest.echo.end=fails";
    here.ends(3, &["run", "selftest.echo", "--preset", "rehearsal", "--set", set]);
    let events = events(&here.record());
    assert_eq!(rounds(&events, "selftest.echo"), (0, 3));
    assert!(events_of_kind(&events, "samples").is_empty(), "nothing of a void round counts");
    let outcomes = events_of_kind(&events, "outcome");
    let reason = text(outcomes[0], "reason");
    assert!(reason.contains("far end"), "{reason}");
}

#[test]
fn the_seed_sets_the_order() {
    let order = |seed: &str| -> Vec<String> {
        let here = Here::new();
        let args = ["selftest.fault", "selftest.echo", "--preset", "rehearsal", "--seed", seed];
        let set = ["--set", "selftest.fault.fault=none,error,panic,exit,first"];
        let events = here.measure(&[&args[..], &set].concat());
        let rounds = events_of_kind(&events, "round");
        rounds.iter().map(|round| text(round, "series").to_owned()).collect()
    };
    let first = order("1");
    assert_eq!(first.len(), 1 + 1 + 3 * 3 + 2);
    assert_eq!(first, order("1"));
    assert_ne!(first, order("2"));
}

#[test]
fn the_budget_ends_a_run_and_says_so() {
    let here = Here::new();
    let set = ["--set", "selftest.pulse.duration=1s", "--budget", "1s"];
    let args = ["run", "selftest.pulse", "selftest.sweep", "--preset", "rehearsal"];
    let answer = here.ends(0, &[&args[..], &set].concat());
    assert!(answer.err.contains("--budget"), "{answer:?}");
    let events = events(&here.record());
    assert_eq!(end(&events), "budget");
    // A round that began is not cut short; the stage after it has no time left.
    assert_eq!(rounds(&events, "selftest.pulse"), (1, 0));
    assert_eq!(rounds(&events, "selftest.sweep"), (0, 0));
    let over = |outcome: &&Value| text(outcome, "reason").contains("--budget");
    assert_eq!(events_of_kind(&events, "outcome").into_iter().filter(over).count(), 5);
    // A run that measured nothing is no success, also where it is quiet.
    let nothing = here.ends(3, &["run", "selftest.pulse", "-q", "--budget", "1ms"]);
    assert!(nothing.err.contains("; nothing was measured"), "{nothing:?}");
}

#[test]
fn what_must_be_alone_is_measured_although_others_have_no_time_for_another_round() {
    let here = Here::new();
    let args = ["selftest.echo", "selftest.pulse", "--preset", "quick", "--precision", "0.01"];
    let set = ["--set", "selftest.pulse.duration=2500ms", "--budget", "2500ms"];
    let events = here.measure(&[&args[..], &set].concat());
    assert_eq!(end(&events), "budget");
    // Too short for the first looks of all: each has a round.
    assert_eq!(rounds(&events, "selftest.echo"), (1, 0));
    assert_eq!(rounds(&events, "selftest.pulse"), (1, 0));
    let reason = |id: &str| {
        let outcomes = events_of_kind(&events, "outcome");
        let of_id = outcomes.into_iter().find(|outcome| outcome["experiment"] == id);
        text(of_id.unwrap(), "reason").to_owned()
    };
    assert!(reason("selftest.echo").contains("budget"));
    assert_eq!(reason("selftest.pulse"), "measured one time");
}

#[test]
fn what_a_filter_leaves_announces_only_what_it_can_give() {
    let here = Here::new();
    let plan = |selector: &str| here.plumb(&["plan", "--preset", "quick", "-v", selector]).out;
    assert!(plan("memory.latency").contains("level=L1 level_latency"));
    let one = plan("memory.latency:footprint=4KiB");
    assert!(one.contains("footprint=4096 latency") && !one.contains("level="), "{one}");
}

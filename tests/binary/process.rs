//! Processes that are interrupted or killed: what they leave, and what they take along.

use crate::plumb::prelude::*;

/// Longer than any test: these rounds are ended, not waited for.
const ENDLESS: &str = "selftest.pulse.duration=60s";

fn plan_is_written(event: &Value) -> bool {
    is(event, "plan")
}

#[test]
fn a_killed_worker_costs_one_round() {
    let here = Here::new();
    let set = "selftest.pulse.duration=400ms";
    let args = ["run", "selftest.pulse", "--preset", "rehearsal", "--set", set];
    let session = here.command(&args).spawn().unwrap();
    // Once the plan stands, the calibration's worker is gone: the next one measures.
    here.wait_for(plan_is_written);
    signal("KILL", wait_for_worker(session.id()));
    ended_with(0, session);
    let events = here.complete();
    assert_eq!(rounds(&events, "selftest.pulse"), (1, 1));
    let void = events_of_kind(&events, "round")[0];
    assert_eq!(void["status"], "void");
    assert!(void["reason"].as_str().unwrap().contains("signal: 9"), "{void}");
    assert_eq!(events_of_kind(&events, "outcome")[0]["outcome"], "measured");
}

#[test]
fn a_signal_ends_a_run_cleanly() {
    // Tests that run under nohup run plumb under it.
    let kept = metal::signal::is_ignored(1);
    if kept {
        skips::part("signal", "SIGHUP");
    }
    for name in ["INT", "TERM", "HUP"].into_iter().filter(|name| !(kept && *name == "HUP")) {
        let here = Here::new();
        let dir = here.make_dir("files");
        let args = ["run", "selftest", "--preset", "rehearsal", "--dir", &dir, "--set", ENDLESS];
        let session = here.command(&args).spawn().unwrap();
        let pid = session.id();
        // Everything of the first stage but the endless round is measured.
        here.wait_for(|event| is(event, "round") && event["series"] == "selftest.file");
        here.wait_for(|event| is(event, "round") && event["series"] == "selftest.echo");
        here.wait_for(|event| is(event, "round") && event["series"] == "selftest.fault/none");
        wait_for_worker(pid);
        signal(name, pid);
        // As timeout(1) does.
        signal(name, pid);
        let answer = ended_with(4, session);
        let hint = format!("plumb run --resume {}", here.record().display());
        assert!(answer.err.contains(&hint), "{name}: {answer:?}");
        no_worker_stays(pid);
        let events = events(&here.record());
        assert_eq!(end(&events), "interrupted", "{name}");
        assert_eq!(rounds(&events, "selftest.echo"), (1, 0), "{name}");
        assert_eq!(rounds(&events, "selftest.pulse"), (0, 0), "{name}");
        // Every case has its outcome, also those of the stage that was not reached.
        let outcomes = events_of_kind(&events, "outcome");
        let reached = |id: &str| {
            let mut of_id = outcomes.iter().filter(|outcome| outcome["experiment"] == id);
            of_id.all(|outcome| outcome["outcome"] == "measured")
        };
        assert!(reached("selftest.echo") && reached("selftest.file"), "{name}: {outcomes:?}");
        assert!(!reached("selftest.pulse") && !reached("selftest.sweep"), "{name}");
        assert_eq!(outcomes.len(), 1 + 1 + 1 + 5 + 1 + 1 + 1, "{name}");
        assert!(here.entries("files").is_empty(), "{name}: {:?}", here.entries("files"));
        assert!(here.entries("store/journal").is_empty(), "{name}");
    }
}

#[test]
fn a_signal_before_the_first_event_leaves_nothing() {
    let here = Here::new();
    // The standard preset calibrates for half a second at least.
    let args = ["run", "selftest.fault", "--preset", "standard"];
    let session = here.command(&args).spawn().unwrap();
    wait_for_worker(session.id());
    signal("INT", session.id());
    ended_with(4, session);
    assert!(here.records().is_empty(), "{:?}", here.records());
}

#[test]
fn nohup_keeps_a_run_from_the_end_of_its_terminal() {
    let here = Here::new();
    let line = format!("trap '' HUP; exec {} \"$@\"", PLUMB);
    let set = "selftest.pulse.duration=400ms";
    let args = ["run", "selftest.pulse", "--preset", "rehearsal", "--set", set];
    let mut command = here.other("sh");
    let session = command.args(["-c", &line, "sh"]).args(args).spawn().unwrap();
    here.wait_for(plan_is_written);
    signal("HUP", session.id());
    ended_with(0, session);
    here.complete();
}

#[test]
fn a_session_that_is_killed_while_it_calibrates_leaves_a_record_that_goes_on() {
    let here = Here::new();
    let args = ["run", "selftest.fault", "--preset", "standard", "--precision", "100"];
    let mut session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "header"));
    signal("KILL", session.id());
    session.wait().unwrap();
    let record = here.record();
    let before = events(&record);
    assert_eq!(before.len(), 1, "its clocks are not known yet");
    let report = here.ends(0, &["report", "last", "--format", "json"]);
    assert!(report.out.contains("no_plan"), "{report:?}");
    here.ends(0, &["report", "last", "--full"]);
    here.ends(0, &["run", "--resume", "last"]);
    let after = events(&record);
    assert_eq!(after[0], before[0]);
    assert!(is(&after[1], "segment") && is(&after[2], "plan"), "{}", after[1]);
    assert!(rounds(&after, "selftest.fault/none").0 > 0);
    here.ends(0, &["report", "last"]);
}

#[test]
fn a_worker_that_is_killed_while_it_calibrates_is_replaced_once() {
    let here = Here::new();
    let args = ["run", "selftest.fault", "--preset", "standard", "--precision", "100"];
    let session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "header"));
    signal("KILL", wait_for_worker(session.id()));
    ended_with(0, session);
    here.complete();
}

#[test]
fn a_record_that_is_removed_while_it_is_written_ends_the_run() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = ["selftest.pulse", "selftest.file", "--preset", "rehearsal", "--dir", &dir];
    let args = [&["run"], &args[..], &["--set", "selftest.pulse.duration=400ms"]].concat();
    let session = here.command(&args).spawn().unwrap();
    here.wait_for(plan_is_written);
    let record = here.record();
    fs::remove_file(&record).unwrap();
    let answer = ended_with(3, session);
    let name = record.file_name().unwrap().to_str().unwrap();
    let is_why = |line: &str| line.contains(name) && line.contains("removed");
    assert!(answer.err.lines().any(is_why), "{answer:?}");
    assert_eq!(here.entries("files"), [""; 0]);
}

#[test]
fn a_killed_session_leaves_a_readable_record_and_no_stray_child() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = ["selftest.file", "selftest.pulse", "--preset", "rehearsal", "--set", ENDLESS];
    let args = [&["run", "--dir", &dir], &args[..]].concat();
    let mut session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "round") && event["series"] == "selftest.file");
    wait_for_worker(session.id());
    signal("KILL", session.id());
    session.wait().unwrap();
    no_worker_stays(session.id());
    let runs = here.plumb(&["runs"]);
    assert!(runs.out.contains("1 round; killed; resumable"), "{runs:?}");
    events(&here.record());

    // Its directory stays until the next run begins, which removes that one and nothing else.
    let left = here.entries("files");
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with("plumb-"), "{left:?}");
    fs::write(here.path("files/precious"), "").unwrap();
    let next = here.ends(0, &["run", "selftest.fault", "--preset", "rehearsal"]);
    assert!(next.err.contains(left[0].as_str()), "{next:?}");
    assert_eq!(here.entries("files"), ["precious"]);
    assert!(here.entries("store/journal").is_empty());
}

#[test]
fn a_run_under_way_keeps_its_record_and_its_directory_to_itself() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let args = ["selftest.file", "selftest.pulse", "--preset", "rehearsal", "--set", ENDLESS];
    let args = [&["run", "--dir", &dir, "--out", "run.jsonl"], &args[..]].concat();
    let session = here.command(&args).spawn().unwrap();
    wait_for_worker(session.id());
    let other = here.ends(0, &["run", "selftest.fault", "--preset", "rehearsal"]);
    assert!(!other.err.contains("removed"), "{other:?}");
    assert_eq!(here.entries("files").len(), 1);
    here.ends(2, &["run", "--resume", "run.jsonl"]);
    signal("INT", session.id());
    ended_with(4, session);
    assert!(here.entries("files").is_empty());
}

#[test]
fn a_record_that_cannot_grow_ends_the_run_and_stays_readable() {
    let here = Here::new();
    let run = "run selftest.sweep selftest.fault --preset rehearsal --out";
    here.ends(0, &format!("{run} whole.jsonl").split(' ').collect::<Vec<_>>());
    // Room for header, clocks, plan and end, and little more.
    let text = fs::read_to_string(here.path("whole.jsonl")).unwrap();
    let planned: usize = text.split_inclusive('\n').take(3).map(str::len).sum();
    let blocks = planned / 1024 + 6;
    assert!(text.len() > blocks * 1024, "the limit is met");
    let limited = format!("ulimit -f {blocks}; exec {PLUMB} {run} run.jsonl");
    let output = here.other("bash").args(["-c", &limited]).output().unwrap();
    let answer = answer(output);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("ulimit -f") && answer.err.contains("run.jsonl"), "{answer:?}");
    assert!(!events(&here.path("run.jsonl")).iter().any(|event| is(event, "footer")));
    here.ends(0, &["run", "--resume", "run.jsonl"]);
    let events = events(&here.path("run.jsonl"));
    assert_eq!(end(&events), "complete");
    for series in ["selftest.sweep", "selftest.fault/none"] {
        assert_eq!(rounds(&events, series), (1, 0), "{series}");
    }
}

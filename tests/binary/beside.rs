//! Two plumbs on one machine.

use crate::plumb::prelude::*;

/// A run that ends at its first look.
const RUN: [&str; 6] = ["run", "selftest.echo", "--preset", "quick", "--precision", "100"];

/// Starts a run that is ended, and not waited for. It never sleeps: it has the last CPU, so that what
/// is measured beside it has another one.
fn endless(here: &Here, more: &str) -> Child {
    let cpu = *metal::place::allowed().unwrap().last().unwrap();
    let set = "--set selftest.pulse.duration=60s";
    let line = format!("run selftest.pulse --preset quick {set} --cpu {cpu} {more}");
    here.command(&line).spawn().unwrap()
}

/// The rounds of a run, and those that another plumb measured beside.
fn met(events: &[Value]) -> (usize, Vec<&str>) {
    let rounds = events_of_kind(events, "round");
    let others = rounds.iter().flat_map(|round| round["others"].as_array().into_iter().flatten());
    for round in rounds.iter().filter(|round| round["others"].is_array()) {
        let disturbed = round["disturbed"].as_array().unwrap();
        assert!(disturbed.contains(&session::passes::BESIDE.into()), "{round}");
    }
    (rounds.len(), others.map(|other| other.as_str().unwrap()).collect())
}

#[test]
fn each_of_two_runs_names_the_other_and_marks_its_rounds() {
    let here = Here::new();
    let first = endless(&here, "--out first.jsonl");
    wait_for("the first run's plan", || {
        let text = fs::read_to_string(here.path("first.jsonl")).unwrap_or_default();
        text.contains("\"event\":\"plan\"").then_some(())
    });
    let name = format!("plumb run --preset quick selftest.pulse (process {}, since ", first.id());
    let second = here.ends(0, &[&RUN[..], &["--out", "second.jsonl"]].concat());
    assert!(second.err.contains(&name), "{second:?}");
    let found = events(&here.path("second.jsonl"));
    let (rounds, others) = met(&found);
    assert_eq!(others.len(), rounds, "the other one measured beside all");
    assert!(others.iter().all(|other| other.starts_with(&name)), "{others:?}");
    let report = here.ends(0, &["report", "second.jsonl", "--format", "json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["cause"] == "other_plumb").unwrap();
    assert!(finding["text"].as_str().unwrap().contains(&name), "{finding}");
    // A rehearsal measures nothing that counts.
    let rehearsal = here.ends(0, &["run", "selftest.echo", "--preset", "rehearsal"]);
    assert!(!rehearsal.err.contains("another plumb"), "{rehearsal:?}");
    assert_eq!(met(&events(&here.record())).1, [""; 0]);
    signal("INT", first.id());
    ended_with(4, first);
    let after = here.ends(0, &[&RUN[..], &["--out", "after.jsonl"]].concat());
    assert!(!after.err.contains("another plumb"), "{after:?}");
    assert_eq!(met(&events(&here.path("after.jsonl"))).1, [""; 0]);
}

#[test]
fn a_run_waits_for_the_end_of_another() {
    let here = Here::new();
    let first = endless(&here, "--out first.jsonl");
    wait_for("the first run's header", || here.path("first.jsonl").exists().then_some(()));
    let waits = [&RUN[..], &["--wait", "--out", "second.jsonl"]].concat();
    let mut log = here.command(&waits);
    let second = here.start(&mut log);
    wait_for("the second run to wait", || second.said().contains("waiting for").then_some(()));
    assert!(!here.path("second.jsonl").exists(), "it has not begun");
    signal("INT", first.id());
    ended_with(4, first);
    let ended = second.ended_within(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(met(&events(&here.path("second.jsonl"))).1, [""; 0]);
    // One that waits can be interrupted, and leaves nothing.
    let first = endless(&here, "");
    here.wait_for(|event| is(event, "header"));
    let waits = [&RUN[..], &["--wait", "--out", "third.jsonl"]].concat();
    let third = here.start(&mut here.command(&waits));
    wait_for("the third run to wait", || third.said().contains("waiting for").then_some(()));
    third.signal("TERM");
    assert_eq!(third.ended_within(PATIENCE).code, Some(4));
    assert!(!here.path("third.jsonl").exists());
    signal("INT", first.id());
    ended_with(4, first);
}

#[test]
fn a_session_s_own_agent_is_no_other_plumb() {
    let here = Here::new();
    let peer = format!("exec:'{}' agent --data 127.0.0.1", PLUMB);
    let args = [&RUN[..], &["--peer", &peer]].concat();
    let answer = here.ends(0, &args);
    assert!(!answer.err.contains("another plumb"), "{answer:?}");
    let events = events(&here.record());
    let (rounds, others) = met(&events);
    assert!(rounds > 0 && others.is_empty(), "{others:?}");
}

#[test]
fn a_lock_that_cannot_be_shared_is_told_and_forbids_nothing() {
    let here = Here::new();
    std::os::unix::fs::symlink(here.path("elsewhere"), here.path("lock")).unwrap();
    let mut command = here.command(&[&RUN[..], &["--out", "run.jsonl"]].concat());
    let answer = ends(0, command.env("PLUMB_LOCK", here.path("lock")));
    assert!(answer.err.contains(session::machine::UNSEEN), "{answer:?}");
    assert!(!here.path("elsewhere").exists(), "no link is followed");
}

#[test]
fn other_namespaces_see_the_lock() {
    let here = Here::new();
    let run =
        format!("exec {PLUMB} run selftest.fault --preset quick --precision 100 --out inner.jsonl");
    let unshared = |command: &str| {
        let mut unshare = here.other("unshare");
        unshare.args(["--net", "--pid", "--fork", "--mount-proc", "sh", "-c", command]);
        unshare
    };
    if !unshared("true").status().is_ok_and(|status| status.success()) {
        return skips::test("network-namespace");
    }
    let first = endless(&here, "--out first.jsonl");
    wait_for("the first run's header", || here.path("first.jsonl").exists().then_some(()));
    let inner = unshared(&run).output().unwrap();
    assert_eq!(inner.status.code(), Some(0), "{inner:?}");
    let events = events(&here.path("inner.jsonl"));
    let (rounds, others) = met(&events);
    assert!(rounds > 0 && others.len() == rounds);
    let name = format!("(process {} in another PID namespace, since", first.id());
    assert!(others[0].contains(&name), "{others:?}");
    signal("INT", first.id());
    ended_with(4, first);
}

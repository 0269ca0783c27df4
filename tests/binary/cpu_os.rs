//! The families cpu and os where a machine allows little: one CPU, a worker that is killed while it
//! makes threads. Limits on processes are in `limits`.

use crate::plumb::prelude::*;

/// A round that is ended, not waited for: minutes of threads in sequence.
const ENDLESS: &str = "os.thread.count=5000000";

fn outcomes(events: &[Value]) -> Vec<&Value> {
    let outcomes = events_of_kind(events, "outcome");
    assert!(!outcomes.is_empty());
    outcomes
}

fn text<'event>(event: &'event Value, field: &str) -> &'event str {
    event[field].as_str().unwrap_or_default()
}

#[test]
fn on_one_cpu_everything_runs_and_other_pairs_are_skipped_with_a_reason() {
    let here = Here::new();
    let answer = std::thread::scope(|scope| {
        // What a thread may run on is what its children may.
        let pinned = scope.spawn(|| {
            let cpu = metal::place::allowed().unwrap()[0];
            metal::place::pin(cpu).unwrap();
            let set = "os.thread.pair=same,smt,llc,socket,remote,other";
            here.plumb(&["run", "cpu", "os", "--preset", "rehearsal", "--set", set])
        });
        pinned.join().unwrap()
    });
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let events = here.complete();
    let mut others = 0;
    for outcome in outcomes(&events) {
        assert_ne!(outcome["outcome"], "failed", "{outcome}");
        if outcome["outcome"] == "skipped" {
            assert!(!text(outcome, "reason").is_empty(), "{outcome}");
        }
        if outcome["case"]["pair"].as_str().is_some_and(|pair| pair != "same") {
            assert_eq!(outcome["outcome"], "skipped", "{outcome}");
            others += 1;
        }
    }
    assert!(others >= 5, "every other class of os.thread is told about");
    for family in ["cpu.", "os."] {
        let measured = outcomes(&events).into_iter().any(|outcome| {
            outcome["outcome"] == "measured" && text(outcome, "experiment").starts_with(family)
        });
        assert!(measured, "{family}");
    }
}

#[test]
fn a_worker_killed_among_its_threads_costs_its_rounds_and_leaves_nobody() {
    let here = Here::new();
    let line =
        format!("run os.thread:count=5000000 --preset rehearsal --budget 1h --set {ENDLESS}");
    let session = here.command(&line).spawn().unwrap();
    let pid = session.id();
    here.wait_for(|event| is(event, "plan"));
    // A series ends after three voids in a row.
    let mut killed: Vec<u32> = Vec::new();
    for _ in 0..3 {
        let worker = wait_for("a worker among its threads", || {
            workers(pid).into_iter().find(|worker| {
                let tasks = fs::read_dir(format!("/proc/{worker}/task"));
                !killed.contains(worker) && tasks.is_ok_and(|tasks| tasks.count() > 1)
            })
        });
        signal("KILL", worker);
        killed.push(worker);
    }
    ended_with(3, session);
    no_worker_stays(pid);
    killed.into_iter().for_each(session_is_empty);
    let events = here.complete();
    let rounds = events_of_kind(&events, "round");
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert_eq!(round["status"], "void", "{round}");
        assert!(text(round, "reason").contains("signal: 9"), "{round}");
    }
    assert_eq!(outcomes(&events)[0]["outcome"], "failed");
}

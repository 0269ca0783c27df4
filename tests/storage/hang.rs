//! File systems that take a request and do not answer.

use crate::faulty::{Faulty, How, On};
use crate::plumb::{Answer, Here, end, ended, events, is, no_worker_stays, of, rounds, signal};
use serde_json::Value;
use std::time::{Duration, Instant};

/// An experiment with one file, and others that need none.
const RUN: [&str; 6] = [
    "run",
    "selftest.file",
    "selftest.echo",
    "selftest.fault",
    "--preset",
    "rehearsal",
];

/// Runs it with its files there.
fn run(here: &Here, faulty: &Faulty) -> (Answer, Vec<Value>, Duration) {
    let begun = Instant::now();
    let answer = here.plumb(&[&RUN[..], &["--dir", &faulty.text()]].concat());
    let took = begun.elapsed();
    (answer, events(&here.record()), took)
}

/// How the cases of an experiment ended, and why.
fn outcomes<'run>(events: &'run [Value], experiment: &str) -> Vec<(&'run str, &'run str)> {
    let outcomes = of(events, "outcome").into_iter();
    let of_it = outcomes.filter(|outcome| outcome["experiment"] == experiment);
    let text = |value: &'run Value| value.as_str().unwrap_or_default();
    of_it
        .map(|outcome| (text(&outcome["outcome"]), text(&outcome["reason"])))
        .collect()
}

/// What needs no files was measured.
fn others_are_measured(events: &[Value]) {
    for id in ["selftest.echo", "selftest.fault"] {
        let found = outcomes(events, id);
        assert!(found.iter().all(|(how, _)| *how == "measured"), "{found:?}");
        assert!(!found.is_empty());
    }
}

#[test]
fn a_directory_that_does_not_answer_is_refused() {
    let Some(faulty) = Faulty::mount() else {
        return;
    };
    faulty.set(On::Look, 0, How::Hang);
    let here = Here::new();
    let begun = Instant::now();
    let answer = here.plumb(&["plan", "selftest", "--dir", &faulty.text()]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    for words in ["hangs", "in 20 s", "name another directory", "umount"] {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_round_that_hangs_costs_its_time_once_and_the_run_goes_on() {
    let Some(faulty) = Faulty::mount() else {
        return;
    };
    faulty.set(On::Read, 0, How::Hang);
    let here = Here::new();
    let (answer, events, took) = run(&here, &faulty);
    // Every case of one experiment failed.
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert_eq!(end(&events), "complete");
    let failed = outcomes(&events, "selftest.file");
    let [("failed", reason)] = failed[..] else {
        panic!("{failed:?}");
    };
    for words in ["hangs", &faulty.text(), "cannot be ended", "--dir"] {
        assert!(reason.contains(words), "{words}: {reason}");
    }
    assert_eq!(rounds(&events, "selftest.file"), (0, 1));
    others_are_measured(&events);
    assert!(faulty.unanswered() > 0);
    assert!(took < Duration::from_secs(45), "{took:?}");
    // Only reads hang: what was made is removed.
    assert_eq!(faulty.paths(), [""; 0].map(std::path::PathBuf::from));
    assert!(here.entries("store/journal").is_empty());
}

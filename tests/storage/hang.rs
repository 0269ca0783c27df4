//! File systems that take a request and do not answer.

use crate::faulty::{Faulty, How, On};
use crate::plumb::prelude::*;
use crate::runs::{are_measured, has_failed, has_round, hold_when, is_left_clean, outcomes};

/// Experiments that need no files.
const OTHERS: [&str; 2] = ["selftest.echo", "selftest.fault"];

/// Nine files and one case; the preset follows.
const FEW_STATS: [&str; 6] =
    ["fs.metadata", "--set", "fs.metadata.entries=9", "--set", "fs.metadata.call=stat", "--preset"];

fn start(here: &Here, faulty: &Faulty) -> Child {
    let dir = faulty.text();
    let args = ["run", "selftest.file", "--preset", "rehearsal", "--dir", &dir];
    here.command(&[&args[..], &OTHERS].concat()).spawn().unwrap()
}

fn run(here: &Here, faulty: &Faulty) -> (Answer, Vec<Value>) {
    (ended(start(here, faulty)), events(&here.record()))
}

/// The run ended by itself; only the one experiment failed, for the hang.
#[track_caller]
fn costs_its_time_once(faulty: &Faulty, found: &(Answer, Vec<Value>)) {
    let (answer, events) = found;
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert_eq!(end(events), "complete");
    has_failed(events, "selftest.file", &["hangs", &faulty.text(), "--dir"]);
    assert_eq!(rounds(events, "selftest.file"), (0, 1));
    are_measured(events, &OTHERS);
    assert!(faulty.unanswered() > 0);
}

#[test]
fn a_directory_that_does_not_answer_is_refused() {
    let Some(faulty) = Faulty::that(On::Look, 0, How::Hang) else { return };
    let here = Here::new();
    let answer = here.ends(2, &["plan", "selftest", "--dir", &faulty.text()]);
    for words in ["hangs", "in 20 s", "name another directory", "umount"] {
        assert!(answer.err.contains(words), "{words}: {answer:?}");
    }
}

#[test]
fn a_round_that_hangs_costs_its_time_once_and_the_run_goes_on() {
    let Some(faulty) = Faulty::that(On::Read, 0, How::Hang) else { return };
    let here = Here::new();
    let found = run(&here, &faulty);
    costs_its_time_once(&faulty, &found);
    // Only reads hang: what was made is removed.
    is_left_clean(&here, &faulty.paths());
}

/// The kernel waits for the answer to a write whatever signal comes.
#[test]
fn a_preparation_that_hangs_for_good_costs_its_time_once() {
    // The first is the probe's, whether the directory can be written.
    let Some(faulty) = Faulty::that(On::Write, 1, How::Hang) else { return };
    let here = Here::new();
    let found = run(&here, &faulty);
    costs_its_time_once(&faulty, &found);
    has_failed(&found.1, "selftest.file", &["cannot be killed"]);
    // Nor can a file be removed that is being written: the next start does it.
    let told = &found.0.err;
    assert!(told.contains("no answer in 2 s"), "{told}");
    faulty.mend();
    let next = here.plumb(&["run", "selftest.echo", "--preset", "rehearsal"]);
    assert!(next.err.contains("earlier run"), "{next:?}");
    is_left_clean(&here, &faulty.paths());
}

#[test]
fn a_disk_that_is_slow_does_not_hang() {
    // Longer in all than a worker may be silent, and each by itself far shorter.
    let Some(faulty) = Faulty::that(On::Read, 0, How::Slow(Duration::from_secs(4))) else { return };
    let here = Here::new();
    let begun = Instant::now();
    let (answer, events) = run(&here, &faulty);
    let took = begun.elapsed();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    are_measured(&events, &["selftest.file"]);
    assert!(took > Duration::from_secs(25), "{took:?}");
}

/// Of making files the kernel counts nothing as reading or writing.
#[test]
fn a_server_that_makes_files_slowly_does_not_hang() {
    // The first is the run's directory. In all they take longer than a worker may be silent.
    let Some(faulty) = Faulty::that(On::Make, 1, How::Slow(Duration::from_secs(3))) else { return };
    let here = Here::new();
    here.ends(0, &[&["run"], &FEW_STATS[..], &["rehearsal", "--dir", &faulty.text()]].concat());
    are_measured(&events(&here.record()), &["fs.metadata"]);
    assert!(faulty.asked(On::Make) >= 11);
    is_left_clean(&here, &faulty.paths());
}

/// A round is watched from its beginning, and not only from its first case.
#[test]
fn a_round_that_hangs_before_its_first_case_costs_as_much() {
    let Some(faulty) = Faulty::mount() else { return };
    let here = Here::new();
    let dir = faulty.text();
    let args = [&["run", "selftest.echo"], &FEW_STATS[..], &["quick", "--dir", &dir]].concat();
    let session = here.command(&args).spawn().unwrap();
    let pid = session.id();
    hold_when(pid, || has_round(here.records().pop(), "fs.metadata"));
    faulty.set(On::Look, 0, How::Hang);
    signal("CONT", pid);
    ended(session);
    let events = here.complete();
    let (how, reason) = outcomes(&events, "fs.metadata")[0];
    assert_eq!(how, "measured", "{reason}");
    // 20 s and what a round takes as stated; without the watch it were 30 s at least.
    let told = reason.split_once("the worker sent nothing for 2").map(|(_, rest)| rest);
    assert!(told.is_some_and(|rest| rest[1..].starts_with(" s")), "{reason}");
    are_measured(&events, &["selftest.echo"]);
}

#[test]
fn a_signal_ends_the_wait_for_a_directory() {
    let Some(faulty) = Faulty::that(On::Look, 0, How::Hang) else { return };
    let here = Here::new();
    let session = start(&here, &faulty);
    wait_for("a look that hangs", || (faulty.unanswered() > 0).then_some(()));
    signal("INT", session.id());
    let answer = ended_with(4, session);
    assert!(answer.err.contains("before anything"), "{answer:?}");
    assert!(here.records().is_empty());
    assert!(here.entries("store/journal").is_empty());
}

#[test]
fn a_directory_that_cannot_be_removed_is_left_to_the_next_start() {
    // The first is the probe's.
    let Some(faulty) = Faulty::that(On::Remove, 1, How::Hang) else { return };
    let here = Here::new();
    let (answer, events) = run(&here, &faulty);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    are_measured(&events, &["selftest.file"]);
    let cannot_remove = |answer: &Answer, words: &str| {
        let hangs = answer.err.contains("cannot remove") && answer.err.contains("hangs");
        assert!(hangs && answer.err.contains(words), "{words}: {answer:?}");
    };
    cannot_remove(&answer, "the next run tries again");
    let left = faulty.paths();
    assert!(!left.is_empty());
    assert_eq!(here.entries("store/journal").len(), 1);
    assert!(answer.err.contains("no answer in 20 s"), "{answer:?}");
    // It hangs again: that is told, takes less time, and the run goes on.
    let next = ["run", "selftest.echo", "--preset", "rehearsal"];
    let answer = here.ends(0, &next);
    cannot_remove(&answer, "cannot clean up");
    assert!(answer.err.contains("no answer in 2 s"), "{answer:?}");
    faulty.mend();
    let answer = here.ends(0, &next);
    let removed = format!("removed {}", faulty.path().join(&left[0]).display());
    assert!(answer.err.contains(&removed), "{removed}: {answer:?}");
    is_left_clean(&here, &faulty.paths());
}

#[test]
fn a_signal_ends_a_run_that_hangs() {
    let Some(faulty) = Faulty::that(On::Read, 0, How::Hang) else { return };
    let here = Here::new();
    let session = start(&here, &faulty);
    let pid = session.id();
    wait_for("a read that hangs", || (faulty.unanswered() > 0).then_some(()));
    signal("INT", pid);
    ended_with(4, session);
    no_worker_stays(pid);
    assert_eq!(end(&events(&here.record())), "interrupted");
    is_left_clean(&here, &faulty.paths());
}

/// A killed session takes its worker along, as soon as that is answered; the next start removes the
/// rest.
#[test]
fn what_hung_when_its_session_was_killed_is_removed_at_the_next_start() {
    let Some(faulty) = Faulty::that(On::Write, 1, How::Hang) else { return };
    let here = Here::new();
    let mut session = start(&here, &faulty);
    let pid = session.id();
    wait_for("a write that hangs", || (faulty.unanswered() > 0).then_some(()));
    wait_for_worker(pid);
    signal("KILL", pid);
    session.wait().unwrap();
    faulty.mend();
    no_worker_stays(pid);
    assert!(!faulty.paths().is_empty());
    let next = here.ends(0, &["run", "selftest.echo", "--preset", "rehearsal"]);
    assert!(next.err.contains("earlier run"), "{next:?}");
    is_left_clean(&here, &faulty.paths());
}

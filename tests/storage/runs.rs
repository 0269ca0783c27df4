//! What the runs of these tests have in common.

use crate::plumb::prelude::*;

/// How the cases of an experiment ended, and why.
pub fn outcomes<'run>(events: &'run [Value], experiment: &str) -> Vec<(&'run str, &'run str)> {
    let outcomes = events_of_kind(events, "outcome").into_iter();
    let of_it = outcomes.filter(|outcome| outcome["experiment"] == experiment);
    let text = |value: &'run Value| value.as_str().unwrap_or_default();
    of_it.map(|outcome| (text(&outcome["outcome"]), text(&outcome["reason"]))).collect()
}

/// The only case of an experiment has failed, and the reason has these words.
#[track_caller]
pub fn has_failed(events: &[Value], experiment: &str, words: &[&str]) {
    let found = outcomes(events, experiment);
    let [("failed", reason)] = found[..] else { panic!("{experiment}: {found:?}") };
    for words in words {
        assert!(reason.contains(words), "{words}: {reason}");
    }
}

/// Stops a session as soon as something is so: it goes on in small steps, and is looked at while it
/// stands still, so that it gets no further however busy the machine is. `signal("CONT", pid)` lets
/// it go on.
pub fn hold_when(session: u32, mut is_so: impl FnMut() -> bool) {
    wait_for("what the session is held for", || {
        signal("STOP", session);
        if is_so() {
            return Some(());
        }
        signal("CONT", session);
        None
    });
}

pub fn has_round(record: Option<PathBuf>, series: &str) -> bool {
    let events = record.map(|record| whole_events(&record)).unwrap_or_default();
    events.iter().any(|event| is(event, "round") && event["series"] == series)
}

#[track_caller]
pub fn are_measured(events: &[Value], experiments: &[&str]) {
    for id in experiments {
        let found = outcomes(events, id);
        assert!(found.iter().all(|(how, _)| *how == "measured"), "{found:?}");
        assert!(!found.is_empty(), "{id}");
    }
}

/// Nothing of plumb's is left in a file system, which has these files of its, and nothing in the
/// journal.
#[track_caller]
pub fn is_left_clean(here: &Here, left: &[PathBuf]) {
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(here.entries("store/journal"), [""; 0]);
}

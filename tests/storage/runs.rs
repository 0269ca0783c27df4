//! What the runs of these tests have in common.

use crate::plumb::of;
use serde_json::Value;

/// How the cases of an experiment ended, and why.
pub fn outcomes<'run>(events: &'run [Value], experiment: &str) -> Vec<(&'run str, &'run str)> {
    let outcomes = of(events, "outcome").into_iter();
    let of_it = outcomes.filter(|outcome| outcome["experiment"] == experiment);
    let text = |value: &'run Value| value.as_str().unwrap_or_default();
    of_it
        .map(|outcome| (text(&outcome["outcome"]), text(&outcome["reason"])))
        .collect()
}

/// The only case of an experiment has failed, and the reason has these words.
#[track_caller]
pub fn has_failed(events: &[Value], experiment: &str, words: &[&str]) {
    let found = outcomes(events, experiment);
    let [("failed", reason)] = found[..] else {
        panic!("{experiment}: {found:?}");
    };
    for words in words {
        assert!(reason.contains(words), "{words}: {reason}");
    }
}

/// Every case of these experiments was measured.
#[track_caller]
pub fn are_measured(events: &[Value], experiments: &[&str]) {
    for id in experiments {
        let found = outcomes(events, id);
        assert!(found.iter().all(|(how, _)| *how == "measured"), "{found:?}");
        assert!(!found.is_empty(), "{id}");
    }
}

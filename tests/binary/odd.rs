//! Hostile texts of records, files and arguments on a terminal. (Odd and hostile records in each format:
//! crates/report/src/tests/odd.rs.)

use crate::plumb::prelude::*;
use crate::records::{self, HOSTILE};

/// A real run of a few experiments, one round of the least: lines, bars, spans, derived figures, a
/// skip.
fn real() -> Vec<Value> {
    let selected = "cpu.call cpu.core_to_core noise.activity memory.mlp memory.numa os.syscall";
    recorded(&format!("{selected} --preset rehearsal")).lines().map(event).collect()
}

/// A text that a terminal shows and does nothing else with.
#[track_caller]
fn commands_nothing(what: &str, text: &str) {
    let found: Vec<&str> =
        text.lines().filter(|line| line.chars().any(records::commands)).collect();
    assert!(found.is_empty(), "{what} has commands: {found:#?}");
}

#[test]
fn hostile_texts_command_no_terminal() {
    let mut events = records::appended(real(), HOSTILE);
    let here = Here::new();
    for run in ["2026-11-01T10-00-00-one", "2026-11-02T10-00-00-two"] {
        events[0]["run"] = run.into();
        let stored = here.store(&lines(&events));
        fs::copy(stored, here.path(run)).unwrap();
    }
    // A file's name and a selector are as hostile as what stands in a file.
    let name = "\u{1b}]0;planted\u{7}\u{202e}.jsonl";
    fs::write(here.path(name), "no record").unwrap();
    for args in [
        &["runs"][..],
        &["compare", "2026-11-01T10-00-00-one", "2026-11-02T10-00-00-two", "--all"],
        &["trend", "cpu.call"],
        &["report", name],
        &["compare", name, "last"],
        &["trend", name],
        &["plan", name],
    ] {
        let answer = here.plumb(args);
        let what = args.join(" ");
        assert!(answer.out.len() + answer.err.len() > 0, "{what} says nothing");
        commands_nothing(&what, &answer.out);
        commands_nothing(&what, &answer.err);
    }
}

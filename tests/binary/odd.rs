//! Reports of odd runs: whole, right, and safe where they are read next.

use crate::plumb::prelude::*;
use crate::records::{self, FOREIGN, HOSTILE};

/// A real run of a few experiments, one round of the least: lines, bars, spans, derived figures, a
/// skip.
fn real() -> Vec<Value> {
    let selected = "cpu.call cpu.core_to_core noise.activity memory.mlp memory.numa os.syscall";
    recorded(&format!("{selected} --preset rehearsal")).lines().map(event).collect()
}

/// (Each kind of odd run in each format by itself: crates/report/src/tests/odd.rs.)
#[test]
fn an_odd_run_says_what_it_is_in_every_format() {
    let reason = format!("died of signal 11 in {FOREIGN}");
    let events = records::failed_family(real(), "os", &reason);
    let here = Here::new();
    fs::write(here.path("run.jsonl"), lines(&events)).unwrap();
    let report = |format| here.ends(0, &["report", "run.jsonl", "--format", format]);
    for format in ["terminal", "markdown", "html"] {
        let text = report(format).out;
        assert!(text.contains("signal 11"), "{format}: {text}");
        assert!(text.contains("größe-Ωμέγα-主机-מחשב"), "{format}");
    }
    assert!(report("openmetrics").out.ends_with("# EOF\n"));
    // The flat result's figures and the rows of the CSV are as many.
    let result = report("json").json();
    let figures = result["figures"].as_array().unwrap();
    let csv = report("csv").out;
    let rows: Result<Vec<_>, _> = csv::Reader::from_reader(csv.as_bytes()).into_records().collect();
    assert_eq!(rows.expect("whole rows").len(), figures.len());
    assert!(csv.contains("signal 11") && result.to_string().contains("signal 11"));
    let (of_os, others): (Vec<&Value>, Vec<&Value>) =
        figures.iter().partition(|figure| figure["experiment"] == "os.syscall");
    assert!(!of_os.is_empty() && of_os.iter().all(|figure| figure["value"].is_null()));
    assert!(others.iter().any(|figure| figure["value"].is_number()));
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

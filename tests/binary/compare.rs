//! `plumb compare`: what it finds, its exit codes, its formats.

use crate::plumb::prelude::*;
use record::seal::resealed;

const ECHO: &str = "selftest.echo --preset quick";

/// A directory with the record `base.jsonl` of six rounds or more and its changed copy `new.jsonl`.
fn pair(factor: f64) -> Here {
    let here = Here::new();
    let text = recorded(ECHO);
    // The machine may be busy: rounds that differ by little, whatever was measured.
    let events = |factor: f64, change: &dyn Fn(&mut Value)| {
        let events = text.lines().map(|line| {
            let mut event = event(line);
            if event["event"] == "samples" {
                let round = event["round"].as_f64().unwrap();
                settle(&mut event, 100.0 * factor * (1.0 + 0.001 * round));
            }
            if event["event"] == "round" {
                event["disturbed"] = Value::Array(vec![]);
            }
            change(&mut event);
            event
        });
        lines(&events.collect::<Vec<_>>())
    };
    fs::write(here.path("base.jsonl"), events(1.0, &|_| {})).unwrap();
    let new = events(factor, &|event| {
        if event["event"] == "header" {
            event["run"] = "another".into();
            event["environment"]["kernel"] = "7.0.0-<b>new</b>".into();
        }
    });
    fs::write(here.path("new.jsonl"), new).unwrap();
    here
}

/// Makes all samples of an event say the same.
fn settle(event: &mut Value, value: f64) {
    let k = event["k"].as_f64().unwrap_or(1.0);
    for (name, per) in [("values", 1.0), ("n", k), ("two_n", 2.0 * k)] {
        if let Some(Value::Array(values)) = event.get_mut(name) {
            values.iter_mut().for_each(|one| *one = (value * per).into());
        }
    }
}

fn compared(here: &Here, more: &[&str]) -> Answer {
    here.plumb(&[&["compare", "base.jsonl", "new.jsonl"], more].concat())
}

#[test]
fn a_change_is_found_and_ends_with_one() {
    let here = pair(1.5);
    let answer = compared(&here, &[]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    // The answer in its order, and nothing else on the terminal.
    let place = |text: &str| answer.out.find(text).unwrap_or_else(|| panic!("{text}: {answer:?}"));
    let parts = ["VERDICT", "CONFIDENCE", "1.50× ", "CANNOT SEE", "AROUND", "7.0.0-<b>new</b>"];
    assert!(parts.map(place).is_sorted(), "{answer:?}");
    assert!(answer.out.starts_with("B = another against A = "), "{answer:?}");
    assert!(answer.out.lines().count() < 36, "{answer:?}");
    assert!(answer.err.is_empty(), "{answer:?}");
    let all = compared(&here, &["--all"]);
    assert!(all.out.contains("default of") && all.out.contains("1.50× "), "{all:?}");
}

#[test]
fn an_unchanged_run_ends_with_zero_and_what_cannot_be_compared_with_two() {
    let here = pair(1.002);
    let json = compared(&here, &["--format", "json"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    let unchanged = json.json();
    assert_eq!(unchanged["against"][0]["effects"], Value::Array(vec![]));
    let itself = here.ends(0, &["compare", "base.jsonl", "base.jsonl"]);
    assert!(itself.err.contains("compared with itself"), "{itself:?}");
    let rule = ["compare", "base.jsonl", "base.jsonl", "--fail-on", "slower"];
    assert_eq!(here.plumb(&rule).code, Some(2));
    // Nothing in common is an error.
    assert_eq!(compared(&here, &["--only", "memory"]).code, Some(2));
    let none = here.ends(2, &["compare", "nothing.jsonl", "base.jsonl"]);
    assert!(none.err.contains("nothing.jsonl"), "{none:?}");
    // Without a second name it is the last stored run.
    let stored = here.store(&recorded(ECHO));
    let result = here.plumb(&["compare", "base.jsonl", "--format", "json"]).json();
    assert_eq!(result["against"][0]["new"]["run"], stored.file_stem().unwrap().to_str().unwrap());
}

#[test]
fn rules_say_which_findings_fail() {
    let here = pair(1.5);
    for (rules, code) in [
        (&["slower"][..], 1),
        (&["slower:49%"], 1),
        (&["slower:51%"], 0),
        (&["faster"], 0),
        (&["changed:10%@selftest"], 1),
        (&["slower@memory"], 2),
        (&["missing"], 0),
        (&["slower@memory", "slower@selftest.echo"], 1),
        (&["never"], 0),
        (&["slow"], 2),
        (&["slower:5"], 2),
        (&["slower@nothing"], 2),
    ] {
        let args: Vec<&str> = rules.iter().flat_map(|rule| ["--fail-on", *rule]).collect();
        let answer = compared(&here, &args);
        assert_eq!(answer.code, Some(code), "{rules:?}: {answer:?}");
        if code > 0 {
            assert!(answer.err.contains("--fail-on"), "{answer:?}");
        }
    }
    // The band of a default is told where it is wider than the rule.
    let narrow = compared(&here, &["--fail-on", "faster:1%"]);
    assert_eq!(narrow.code, Some(5), "what cannot be seen is undecided: {narrow:?}");
}

#[test]
fn figures_that_vanished_do_not_pass() {
    let here = pair(1.0);
    let mut gone = events(&here.path("new.jsonl"));
    let first = events_of_kind(&gone, "samples")[0]["metric"].clone();
    gone.retain(|event| !is(event, "samples") || event["metric"] != first);
    fs::write(here.path("new.jsonl"), lines(&gone)).unwrap();
    assert_eq!(compared(&here, &["--fail-on", "missing"]).code, Some(1));
    assert_eq!(compared(&here, &["--fail-on", "missing@memory"]).code, Some(0));
    let slower = compared(&here, &["--fail-on", "slower"]);
    assert_eq!(slower.code, Some(0), "{slower:?}");
    assert!(!slower.err.is_empty(), "what is missing is named: {slower:?}");
}

#[test]
fn last_alone_is_compared_with_the_run_before_it() {
    let here = Here::new();
    let text = recorded(ECHO);
    let first = here.store(&text);
    here.ends(2, &["compare", "last"]);
    // A later run of the same machine, and a still later one of another.
    let started = |path: &Path, time: &str, change: &dyn Fn(&mut Value)| {
        let (header, rest) = text.split_once('\n').unwrap();
        let mut header: Value = serde_json::from_str(header).unwrap();
        header["started"] = time.into();
        change(&mut header);
        fs::write(path, resealed(&(lines([&header]) + rest))).unwrap();
    };
    let later = |time: &str, change: &dyn Fn(&mut Value)| {
        let path = here.path(&format!("store/{}.jsonl", &time[..10]));
        started(&path, time, &|header| {
            header["run"] = time.into();
            change(header);
        });
    };
    started(&first, "2001-01-01T00:00:00Z", &|_| {});
    later("2001-01-02T00:00:00Z", &|_| {});
    let result = here.plumb(&["compare", "last", "--format", "json"]).json();
    let named = first.file_stem().unwrap().to_str().unwrap();
    assert_eq!(result["base"]["run"], named);
    assert_eq!(result["against"][0]["new"]["run"], "2001-01-02T00:00:00Z");
    later("2001-01-03T00:00:00Z", &|header| header["identity"] = "another".into());
    assert_eq!(here.plumb(&["compare", "last"]).code, Some(2));
}

#[test]
fn every_format_tells_the_same() {
    let here = pair(1.5);
    let json = compared(&here, &["--format", "json"]);
    assert_eq!(json.code, Some(1));
    let result = json.json();
    let schema = here.ends(0, &["compare", "--schema"]).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&result).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let against = &result["against"][0];
    assert_eq!(result["finding"], true);
    let findings = against["findings"].as_u64().unwrap();
    assert!(findings > 0 && findings <= against["tested"].as_u64().unwrap());
    let csv = compared(&here, &["--format", "csv"]);
    let mut rows = csv::Reader::from_reader(csv.out.as_bytes());
    let outcome = rows.headers().unwrap().iter().position(|name| name == "outcome").unwrap();
    let found = rows.records().filter(|row| &row.as_ref().unwrap()[outcome] == "finding").count();
    assert_eq!(found as u64, findings);
    let markdown = compared(&here, &["--format", "markdown"]).out;
    assert!(markdown.contains("## What changed") && markdown.contains("\\<b\\>new"), "{markdown}");
    let page = compared(&here, &["--format", "html", "-o", "page.html"]);
    assert_eq!((page.code, page.out.as_str()), (Some(1), ""));
    let page = fs::read_to_string(here.path("page.html")).unwrap();
    assert!(!page.contains("<b>new"));
}

//! `plumb fleet report` and `plumb fleet compare`: formats, files, exit codes, bad input.

use crate::plumb::prelude::*;
use fleet::fixture::Fleet;
use std::collections::BTreeSet;

/// A directory with a sweep and a later one, in which all nodes and one node changed.
fn sweeps() -> Here {
    let here = Here::new();
    let base = Fleet::planted();
    let new = Fleet {
        noise: 2,
        id: "2026-11-27T21-00-rank0",
        changed: vec![("os.syscall", 0.9)],
        slow: vec![(7, "memory.bandwidth", 0.71), (9, "memory.bandwidth", 0.8)],
        ..base.clone()
    };
    let same = Fleet { noise: 3, ..base.clone() };
    for (name, fleet) in [("base", base), ("new", new), ("same", same)] {
        fs::write(here.path(&format!("{name}.jsonl")), fleet.record()).unwrap();
    }
    here
}

#[test]
fn every_format_has_the_answer() {
    let here = sweeps();
    for (format, part) in [
        ("terminal", "1 node is slower than its peers; 1 link is degraded; 1 node lost"),
        ("html", "<td class=\"bad\">slower"),
        ("markdown", "**slower**"),
        ("csv", ",slower,"),
        ("json", "\"charge\": \"degraded_link\""),
        ("openmetrics", "plumb_fleet_worse_ratio{node=\"node-07\",charge=\"slower\""),
    ] {
        let out = here.ends(0, &["fleet", "report", "base.jsonl", "--format", format]).out;
        assert!(out.contains(part), "{format}: {out}");
        let written = ["fleet", "report", "base.jsonl", "-f", format, "--out", "out"];
        assert_eq!(here.ends(0, &written).out, "");
        assert!(fs::read_to_string(here.path("out")).unwrap().contains(part), "{format}");
    }
    // Key figures have the names of their cards, and the whole report has more.
    let short = here.ends(0, &["fleet", "report", "base.jsonl"]).out;
    assert!(short.contains("DRAM triad, all") && !short.contains("The evidence"), "{short}");
    assert!(short.lines().count() <= 60, "{}", short.lines().count());
    let whole = here.ends(0, &["fleet", "report", "base.jsonl", "--full"]).out;
    assert!(whole.contains("The evidence") && whole.contains("node-16"), "{whole}");
    for args in [["fleet", "report", "--schema"], ["fleet", "compare", "--schema"]] {
        let schema = here.ends(0, &args).json();
        assert_eq!(schema["type"], "object");
    }
}

#[test]
fn a_comparison_ends_with_what_it_found() {
    let here = sweeps();
    let compared = |code, new: &str, rules: &[&str]| {
        let rules = rules.iter().flat_map(|rule| ["--fail-on", rule]);
        let args: Vec<&str> =
            ["fleet", "compare", "base.jsonl", new].into_iter().chain(rules).collect();
        here.ends(code, &args)
    };
    compared(1, "new.jsonl", &[]);
    let args = ["fleet", "compare", "base.jsonl", "new.jsonl", "-f", "json"];
    let flat = here.ends(1, &args).json();
    let figures = flat["figures"].as_array().unwrap();
    let slower: Vec<&Value> = figures.iter().filter(|one| one["finding"] == "worse").collect();
    assert_eq!(slower.len(), 4, "{slower:?}");
    assert!(slower.iter().all(|one| one["experiment"] == "os.syscall"), "{slower:?}");
    let nodes = figures.iter().flat_map(|one| one["nodes"].as_array().unwrap());
    let apart: BTreeSet<&str> = nodes
        .filter(|node| node["is_apart"] == true)
        .map(|node| node["node"].as_str().unwrap())
        .collect();
    assert_eq!(apart, ["node-09"].into());
    compared(0, "same.jsonl", &[]);
    compared(1, "new.jsonl", &["slower:5%@os"]);
    compared(1, "new.jsonl", &["faster", "apart:10%"]);
    compared(0, "new.jsonl", &["slower@cpu"]);
    compared(0, "new.jsonl", &["never"]);
    let undecided = compared(5, "same.jsonl", &["slower:0.1%"]).err;
    assert!(undecided.contains("cannot show a change of that size"), "{undecided}");
    let void = compared(2, "same.jsonl", &["slower@net.ping"]).err;
    assert!(void.contains("decides nothing"), "{void}");
    let unknown = compared(2, "same.jsonl", &["slow"]).err;
    assert!(unknown.contains("did you mean `slower`"), "{unknown}");
    for format in ["html", "markdown", "csv", "json"] {
        let args = ["fleet", "compare", "base.jsonl", "new.jsonl", "-f", format];
        assert!(here.ends(1, &args).out.contains("node-09"), "{format}");
    }
}

#[test]
fn bad_records_have_a_clear_line_each() {
    let here = sweeps();
    let record = fs::read(here.path("base.jsonl")).unwrap();
    let line = record.iter().position(|byte| *byte == b'\n').unwrap();
    let mut damaged = record.clone();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    let strangers = Fleet { names: [(0, "other-0")].into(), ..Fleet::healthy(1) };
    let newer = String::from_utf8_lossy(&record[..line]).replace("\"format\":1", "\"format\":9");
    let newer = record::seal::resealed(&newer) + "\n";
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"hello\n"),
        ("damaged", &damaged),
        ("torn", &record[..record.len() - 5]),
        ("header", &record[..=line]),
        ("strangers", &strangers.record()),
        ("newer", newer.as_bytes()),
    ] {
        fs::write(here.path(name), bytes).unwrap();
    }
    let report = |code, name: &str| here.ends(code, &["fleet", "report", name]);
    for (name, part) in [
        ("missing", "cannot open missing"),
        ("empty", "it is empty"),
        ("text", "not a fleet record"),
        ("newer", "use a newer plumb"),
    ] {
        let err = report(2, name).err;
        assert!(err.contains(part) && err.lines().count() == 1, "{name}: {err}");
    }
    let shown = report(0, "damaged");
    assert!(shown.err.contains("is damaged; lost:"), "{}", shown.err);
    assert!(shown.out.contains("node-07"), "{}", shown.out);
    let flat = here.ends(0, &["fleet", "report", "damaged", "-f", "json"]).json();
    let lines_before = record[..at].iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(flat["damaged_lines"], json!([lines_before + 1]));
    let torn = report(0, "torn").out;
    assert!(torn.contains("did not end") && torn.contains("node-07"), "{torn}");
    let header = report(0, "header").out;
    assert!(header.contains("0 of 24 nodes") && header.contains("did not join"), "{header}");
    let apart = here.ends(2, &["fleet", "compare", "base.jsonl", "strangers", "-f", "json"]);
    assert_eq!(apart.err.lines().count(), 1, "{apart:?}");
    let apart = apart.json();
    assert_eq!((&apart["nodes"], &apart["only_new"]), (&json!([]), &json!(["other-0"])));
}

//! docs/REPORTS.md: every command measures what its row says.

use crate::plumb::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table: its command's arguments, and its keys as experiment, metric and unit.
struct Row {
    command: Vec<String>,
    keys: Vec<[String; 3]>,
}

fn rows() -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/REPORTS.md");
    let text = fs::read_to_string(page).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| R"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, _, command, keys] = cells[..] else { panic!("{line}") };
        let words = |text: &str| text.trim_matches('`').split(' ').map(str::to_owned).collect();
        let key = |text: &str| -> [String; 3] { Vec::<String>::try_into(words(text)).unwrap() };
        Row { command: words(command), keys: keys.split("; ").map(key).collect() }
    };
    rows.map(row).collect()
}

/// Runs a command of the page in rehearsal, a program on this machine in place of a far end.
fn rehearsed(here: &Here, command: &[String]) -> Vec<Value> {
    let agent = format!("exec:{} agent --data 127.0.0.1", PLUMB);
    let [program, args @ ..] = command else { panic!("{command:?}") };
    assert_eq!(program, "plumb");
    let args: Vec<&str> =
        args.iter().map(|arg| if arg == "ssh://HOST" { &*agent } else { arg }).collect();
    // With one that every machine has, a run is recorded that says why another is skipped.
    let quick = ["clock.loop", "--preset", "rehearsal", "--dir", "files", "--out", "run.jsonl"];
    let answer = here.plumb(&[&args[..], &quick[..]].concat());
    let text = fs::read_to_string(here.path("run.jsonl"));
    let text = text.unwrap_or_else(|_| panic!("{command:?}: {answer:?}"));
    fs::remove_file(here.path("run.jsonl")).unwrap();
    text.lines().map(event).collect()
}

/// Whether a round may lack a metric, though it is predicted: a tick that nothing shows.
fn may_lack(id: &str, metric: &str) -> bool {
    let experiment = catalogue::find(id).unwrap();
    let metrics = experiment.card().metrics.iter();
    metrics.clone().any(|one| one.name == metric && experiment.may_lack(one))
}

/// Planned metrics of a run with their units, and whether they are derived; experiments that this
/// machine has not; measured keys.
fn check(row: &Row, events: &[Value]) {
    let planned = of(events, "plan")[0]["experiments"].as_array().unwrap();
    let mut metrics = BTreeMap::new();
    let mut skipped = BTreeSet::new();
    for experiment in planned {
        let id = experiment["id"].as_str().unwrap();
        for metric in experiment["metrics"].as_array().unwrap() {
            let name = metric["name"].as_str().unwrap();
            let unit = metric["unit"].as_str().unwrap();
            metrics.insert([id, name, unit], metric["derived"] == true);
        }
        if let Some(why) = experiment["skipped"].as_object() {
            assert!(why["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{id}");
            skipped.insert(id);
        }
    }
    let values = [of(events, "samples"), of(events, "derived")].concat();
    let values = values.iter().filter_map(|event| {
        // A series is named after its experiment.
        let of = event["experiment"].as_str().or(event["series"].as_str())?;
        Some([of.split('/').next()?, event["metric"].as_str()?])
    });
    let values: BTreeSet<[&str; 2]> = values.collect();
    for key in &row.keys {
        let [id, metric, unit] = key.each_ref().map(String::as_str);
        let is_derived = metrics.get(&[id, metric, unit]);
        let is_derived = is_derived.unwrap_or_else(|| panic!("{key:?} is not in the plan"));
        // What follows from several cases needs more of them than a rehearsal has, and a busy
        // machine may hide what a round may lack.
        let is_there = values.contains(&[id, metric])
            || *is_derived
            || skipped.contains(id)
            || may_lack(id, metric);
        assert!(is_there, "{:?}: {key:?} is not among {values:?}", row.command);
    }
}

#[test]
fn every_command_of_the_page_measures_the_keys_of_its_row() {
    let rows = rows();
    assert!(rows.len() > 100, "{}", rows.len());
    let here = Here::new();
    here.make_dir("files");
    let mut runs: BTreeMap<&[String], Vec<Value>> = BTreeMap::new();
    for row in &rows {
        let events = runs.entry(&row.command).or_insert_with(|| rehearsed(&here, &row.command));
        check(row, events);
    }
}

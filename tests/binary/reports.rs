//! docs/REPORTS.md: every command plans what its row says. That each printed figure finds its case is
//! tested with the published data (src/published/tests.rs).

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
        let key = |text: &str| -> [String; 3] {
            let words = text.trim_matches('`').split(' ').map(str::to_owned);
            Vec::try_into(words.collect()).unwrap()
        };
        Row { command: words(command.trim_matches('`')), keys: keys.split("; ").map(key).collect() }
    };
    rows.map(row).collect()
}

/// The words of a command, as a shell parts them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (nth, part) in command.split('"').enumerate() {
        let is_quoted = nth % 2 == 1;
        let mut parts = if is_quoted { vec![part] } else { part.split(' ').collect() }.into_iter();
        words.last_mut().unwrap().push_str(parts.next().unwrap());
        words.extend(parts.map(str::to_owned));
    }
    words
}

/// The plan of a command of the page, a program on this machine in place of a far end.
fn planned(here: &Here, command: &[String]) -> Value {
    let agent = format!("lab=exec:{} agent --data 127.0.0.1", PLUMB);
    let [program, run, args @ ..] = command else { panic!("{command:?}") };
    assert_eq!([program.as_str(), run.as_str()], ["plumb", "run"]);
    let args = args.iter().map(|arg| if arg == "ssh://HOST" { &*agent } else { arg });
    let args: Vec<&str> = ["plan", "--json"].into_iter().chain(args).collect();
    let answer = here.ends(0, &args);
    serde_json::from_str(&answer.out).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

#[test]
fn every_command_of_the_page_plans_the_keys_of_its_row() {
    let rows = rows();
    assert!(rows.len() > 100, "{}", rows.len());
    let here = Here::new();
    let mut plans: BTreeMap<&[String], Value> = BTreeMap::new();
    for row in &rows {
        let plan = plans.entry(&row.command).or_insert_with(|| planned(&here, &row.command));
        let mut metrics = BTreeSet::new();
        for experiment in plan["plan"]["experiments"].as_array().unwrap() {
            let id = experiment["id"].as_str().unwrap();
            for metric in experiment["metrics"].as_array().unwrap() {
                metrics.insert([
                    id,
                    metric["name"].as_str().unwrap(),
                    metric["unit"].as_str().unwrap(),
                ]);
            }
        }
        assert!(!metrics.is_empty(), "{:?} plans nothing", row.command);
        for key in &row.keys {
            let key = key.each_ref().map(String::as_str);
            // The nearest case of a figure may be another experiment's.
            let is_elsewhere = metrics.iter().all(|[id, ..]| *id != key[0]);
            let is_planned = is_elsewhere || metrics.contains(&key);
            assert!(is_planned, "{:?}: {key:?} is not in the plan", row.command);
        }
    }
}

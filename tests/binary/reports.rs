//! docs/REPORTS.md: every command plans what its row says, or says why it skips it. That each printed
//! figure finds its case is tested with the published data (src/published/tests.rs).

use crate::plumb::prelude::*;
use std::collections::BTreeMap;

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
    let args = args.iter().map(|arg| match arg.as_str() {
        "ssh://HOST" => &*agent,
        "DIR" => ".",
        arg => arg,
    });
    let args: Vec<&str> = ["plan", "--json"].into_iter().chain(args).collect();
    let answer = here.ends(0, &args);
    serde_json::from_str(&answer.out).unwrap_or_else(|why| panic!("{command:?}: {why}"))
}

/// The metrics of an experiment of a plan, with their units; none where it has no case.
fn metrics<'plan>(plan: &'plan Value, id: &str) -> Vec<[&'plan str; 2]> {
    let is_planned = |one: &&Value| {
        one["id"] == id && one["series"].as_array().is_some_and(|all| !all.is_empty())
    };
    let planned = plan["plan"]["experiments"].as_array().unwrap().iter().filter(is_planned);
    let metrics = planned.flat_map(|one| one["metrics"].as_array().unwrap());
    metrics.map(|one| ["name", "unit"].map(|name| one[name].as_str().unwrap())).collect()
}

/// Each row's keys are of cases that its command plans, or the plan says why it skips the experiment
/// here.
#[test]
fn every_command_of_the_page_plans_the_keys_of_its_row() {
    let rows = rows();
    assert!(rows.len() > 100, "{}", rows.len());
    let here = Here::new();
    let mut plans: BTreeMap<&[String], Value> = BTreeMap::new();
    for row in &rows {
        let plan = plans.entry(&row.command).or_insert_with(|| planned(&here, &row.command));
        for [id, metric, unit] in &row.keys {
            let metrics = metrics(plan, id);
            let skipped = plan["skipped"].as_array().unwrap();
            let mut skipped = skipped.iter().filter(|one| one["experiment"] == **id);
            let has_reason =
                skipped.any(|one| one["reason"].as_str().is_some_and(|why| why.len() > 10));
            let is_planned = metrics.iter().any(|one| one == &[&**metric, &**unit]);
            assert!(
                is_planned || (metrics.is_empty() && has_reason),
                "{:?}: {id} {metric} {unit} is neither planned nor skipped: {metrics:?}",
                row.command
            );
        }
    }
}

/// R4's ratios need several memory nodes: on a machine with one the plan says so, and a run measures
/// nothing, which is no error in what was typed.
#[test]
fn a_table_of_which_nothing_can_be_measured_here_is_skipped_with_its_reason() {
    if Path::new("/sys/devices/system/node/node1").exists() {
        return skips::test("one-node");
    }
    let table = "published/r4-magny-cours:Figure 2, ratios";
    let here = Here::new();
    let plan: Value = serde_json::from_str(&here.ends(0, &["plan", "--json", table]).out).unwrap();
    assert_eq!(plan["skipped"][0]["experiment"], "memory.numa");
    assert_eq!(plan["skipped"][0]["reason"], "one NUMA node");
    let answer = here.ends(3, &["run", table]);
    assert!(answer.err.contains("memory.numa: "), "{answer:?}");
}

//! What is stored: listed, removed, copied, and shown over time.

use crate::plumb::{Here, answer};
use serde_json::Value;
use std::fs;

const REHEARSAL: [&str; 4] = ["run", "selftest.fault", "--preset", "rehearsal"];

/// A store of several runs of one machine, made from one record: `value` of each.
fn store_of(values: &[f64]) -> Here {
    let here = Here::new();
    let made = here.plumb(&REHEARSAL);
    assert_eq!(made.code, Some(0), "{made:?}");
    let record = here.record();
    let text = fs::read_to_string(&record).unwrap();
    fs::remove_file(&record).unwrap();
    for (run, value) in values.iter().enumerate() {
        let name = format!("2026-11-{:02}T10-00-00-lab", run + 1);
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                let mut event: Value = serde_json::from_str(line).unwrap();
                match event["event"].as_str() {
                    Some("header") => {
                        event["run"] = name.clone().into();
                        event["started"] = format!("2026-11-{:02}T10:00:00Z", run + 1).into();
                        let kernel = if run < values.len() / 2 { "6.1" } else { "6.2" };
                        event["environment"]["kernel"] = kernel.into();
                    }
                    Some("samples") => {
                        let values = event["values"].as_array().unwrap().len();
                        event["values"] = vec![*value; values].into();
                    }
                    _ => {}
                }
                event.to_string() + "\n"
            })
            .collect();
        fs::write(here.path("store").join(name + ".jsonl"), lines.concat()).unwrap();
    }
    here
}

fn listed(here: &Here) -> Vec<Value> {
    let answer = here.plumb(&["runs", "--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let all: Vec<Value> = serde_json::from_str(&answer.out).unwrap();
    let stored = all.into_iter();
    stored.filter(|run| run["state"] != "published").collect()
}

#[test]
fn runs_are_listed_the_same_with_an_index_and_without() {
    let here = store_of(&[40.0, 41.0, 42.0]);
    let first = here.plumb(&["runs"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.out.contains("2026-11-02T10:00:00Z  lab"), "{first:?}");
    assert!(
        first.out.contains("1 figures, 0 skipped, 0 failed"),
        "{first:?}"
    );
    assert!(here.path("store/index.sqlite").is_file());
    assert_eq!(here.plumb(&["runs", "list"]).out, first.out);
    fs::write(here.path("store/index.sqlite"), "damaged").unwrap();
    let again = here.plumb(&["runs"]);
    assert_eq!(again.out, first.out);
    assert_eq!(again.err.lines().count(), 1, "{again:?}");
    fs::remove_file(here.path("store/index.sqlite")).unwrap();
    let again = here.plumb(&["runs"]);
    assert_eq!((again.out, again.err.as_str()), (first.out, ""));
    let runs = listed(&here);
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[0]["state"], "complete");
    assert_eq!(runs[0]["figures"]["measured"], 1);
}

#[test]
fn runs_are_deleted_pruned_and_exported() {
    let here = store_of(&[40.0, 41.0, 42.0, 43.0]);
    let exported = here.plumb(&["runs", "export", "2026-11-02", "--to", "two.jsonl"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let report = here.plumb(&["report", "./two.jsonl", "--format", "json"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!(
        here.plumb(&["runs", "export", "--to", "all/"]).code,
        Some(0)
    );
    assert_eq!(here.entries("all").len(), 4);
    // Another file is never written over.
    let refused = here.plumb(&["runs", "export", "2026-11-03", "--to", "two.jsonl"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");

    assert_eq!(here.plumb(&["runs", "delete", "2026-11-02"]).code, Some(0));
    assert_eq!(listed(&here).len(), 3);
    assert_eq!(here.plumb(&["runs", "delete", "./two.jsonl"]).code, Some(2));
    assert_eq!(here.plumb(&["runs", "delete", "2026-11"]).code, Some(2));
    assert_eq!(here.plumb(&["runs", "prune"]).code, Some(2));
    assert_eq!(
        here.plumb(&["runs", "prune", "--keep", "2", "--dry-run"])
            .code,
        Some(0)
    );
    assert_eq!(listed(&here).len(), 3);
    let pruned = here.plumb(&["runs", "prune", "--keep", "1"]);
    assert!(pruned.out.contains("removed 2026-11-01"), "{pruned:?}");
    let left = listed(&here);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["run"], "2026-11-04T10-00-00-lab");
    let young = here.plumb(&["runs", "prune", "--older-than", "1000y"]);
    assert_eq!((young.code, young.out.as_str()), (Some(0), ""));
}

#[test]
fn a_run_that_is_being_written_stays() {
    let here = store_of(&[40.0]);
    let record = fs::File::open(here.record()).unwrap();
    record.lock().unwrap();
    let refused = here.plumb(&["runs", "delete", "last"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert_eq!(here.plumb(&["runs", "prune", "--keep", "0"]).out, "");
    assert_eq!(listed(&here)[0]["state"], "under way");
    drop(record);
    assert_eq!(listed(&here)[0]["state"], "complete");
}

#[test]
fn a_shift_is_found_at_its_run_in_every_format() {
    let values: Vec<f64> = (0..24)
        .map(|run| (if run < 12 { 40.0 } else { 48.0 }) + 0.01 * f64::from((run * 7) % 13))
        .collect();
    let here = store_of(&values);
    let json = here.plumb(&["trend", "selftest.fault", "--format", "json"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    let result: Value = serde_json::from_str(&json.out).unwrap();
    let shifts = &result["trends"][0]["shifts"];
    assert_eq!(shifts.as_array().unwrap().len(), 1, "{shifts}");
    assert_eq!(shifts[0]["run"], "2026-11-13T10-00-00-lab");
    let ratio = shifts[0]["ratio"].as_f64().unwrap();
    assert!((ratio - 1.2).abs() < 0.01, "{ratio}");
    assert_eq!(shifts[0]["environment"][0]["name"], "kernel");
    let csv = here.plumb(&["trend", "selftest.fault", "--format", "csv"]);
    assert_eq!(csv.out.lines().count(), 25);
    for format in ["terminal", "markdown", "html"] {
        let shown = here.plumb(&["trend", "selftest.fault", "--format", format]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.out.contains("2026-11-13T10-00-00-lab"), "{format}");
        assert!(shown.out.contains("6.1 → 6.2"), "{format}");
    }
    let unknown = here.plumb(&["trend", "selftest.folt"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.err.contains("did you mean `selftest.fault`"),
        "{unknown:?}"
    );
    fs::remove_file(here.path("store/index.sqlite")).unwrap();
    let again = here.plumb(&["trend", "selftest.fault", "--format", "json"]);
    assert_eq!(again.out, json.out);
}

/// A store that may be read and not written: by nobody, where this is root.
#[test]
fn a_read_only_store_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let here = store_of(&[40.0, 41.0]);
    let shown = here.plumb(&["runs"]).out;
    let mode = |path: &str, mode| {
        fs::set_permissions(here.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for is_kept in [true, false] {
        if !is_kept {
            fs::remove_file(here.path("store/index.sqlite")).unwrap();
        }
        mode(".", 0o755);
        mode("store", 0o555);
        let mut command = here.other("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args([env!("CARGO_BIN_EXE_plumb"), "runs"]);
        let read = answer(command.output().unwrap());
        mode("store", 0o755);
        // Who is nobody may not even start what lies in another's directory, or this is not root.
        if read.code != Some(0) && read.err.contains("setpriv") {
            return;
        }
        assert_eq!(
            (read.out, read.err.as_str()),
            (shown.clone(), ""),
            "{is_kept}"
        );
    }
}

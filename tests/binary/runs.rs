//! What is stored: listed, removed, copied, and shown over time.

use crate::plumb::prelude::*;
use crate::records;

const REHEARSAL: [&str; 4] = ["run", "selftest.fault", "--preset", "rehearsal"];

/// A store of several runs of one machine, made from one record: `value` of each, a day after each
/// other.
fn store_of(values: &[f64]) -> Here {
    let here = Here::new();
    let text = recorded("selftest.fault --preset rehearsal");
    for (run, value) in values.iter().enumerate() {
        let name = format!("2026-11-{:02}T10-00-00-lab", run + 1);
        let events: Vec<Value> = text
            .lines()
            .map(|line| {
                let mut event = event(line);
                match event["event"].as_str() {
                    Some("header") => {
                        event["run"] = name.as_str().into();
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
                event
            })
            .collect();
        here.store(&lines(&events));
    }
    here
}

/// Changes the events of a stored run.
fn rewrite(here: &Here, run: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let record = here.stored(run);
    let mut events = events(&record);
    change(&mut events);
    fs::write(record, lines(&events)).unwrap();
}

/// The file of a run's figures beside its record.
fn figures_of(here: &Here, run: &str) -> PathBuf {
    here.stored(run).with_extension("figures.json")
}

fn forget_figures(here: &Here) {
    for record in here.records() {
        fs::remove_file(record.with_extension("figures.json")).unwrap();
    }
}

fn listed(here: &Here) -> Vec<Value> {
    let answer = here.ends(0, &["runs", "--json"]);
    let all: Vec<Value> = serde_json::from_value(answer.json()).unwrap();
    let stored = all.into_iter();
    stored.filter(|run| run["state"] != "published").collect()
}

#[test]
fn runs_are_listed_the_same_with_their_figures_kept_and_without() {
    let here = store_of(&[40.0, 41.0, 42.0]);
    let first = here.ends(0, &["runs"]);
    assert!(first.out.contains("2026-11-02T10:00:00Z  lab"), "{first:?}");
    assert!(first.out.contains("1 figure, 0 skipped, 0 failed"), "{first:?}");
    assert_eq!(here.plumb(&["runs", "list"]).out, first.out);
    let kept = figures_of(&here, "2026-11-02T10-00-00-lab");
    let good = fs::read(&kept).unwrap();
    fs::write(&kept, "damaged").unwrap();
    let again = here.plumb(&["runs"]);
    assert_eq!((again.out, again.err.as_str()), (first.out.clone(), ""));
    assert_eq!(fs::read(&kept).unwrap(), good, "it is made again");
    fs::remove_file(&kept).unwrap();
    let again = here.plumb(&["runs"]);
    assert_eq!((again.out, again.err.as_str()), (first.out, ""));
    assert_eq!(fs::read(&kept).unwrap(), good);
    let runs = listed(&here);
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[0]["state"], "complete");
    assert_eq!(runs[0]["figures"]["measured"], 1);
}

#[test]
fn so_many_runs_are_kept_of_each_machine() {
    let here = store_of(&[40.0, 41.0, 42.0, 43.0]);
    let other = listed(&here)[0]["run"].as_str().unwrap().to_owned();
    rewrite(&here, &other, |events| {
        events[0]["identity"] = "another".into();
    });
    let pruned = here.plumb(&["runs", "prune", "--keep", "1"]);
    assert_eq!(pruned.out.lines().count(), 2, "{pruned:?}");
    assert_eq!(listed(&here).len(), 2);
    assert!(here.stored(&other).is_file(), "the other machine's only run");
}

#[test]
fn a_file_beside_the_records_is_no_run() {
    let here = store_of(&[40.0]);
    let run = "2026-11-01T10-00-00-lab";
    let page = here.path("store").join(run).with_extension("html");
    here.ends(0, &["report", "last", "--format", "html", "-o", page.to_str().unwrap()]);
    let kept = figures_of(&here, run);
    assert_eq!(listed(&here).len(), 1);
    let before = fs::read(&page).unwrap();
    for path in [&page, &kept] {
        let path = path.to_str().unwrap();
        for args in [&["runs", "delete", path][..], &["runs", "export", path, "--to", "copy"]] {
            here.ends(2, args);
        }
        here.ends(2, &["trend", "selftest.fault", "--like", path]);
    }
    assert!(here.stored(run).is_file() && kept.is_file());
    assert_eq!(fs::read(&page).unwrap(), before);
    // The record itself may be named by its path.
    let record = here.stored(run);
    here.ends(0, &["runs", "delete", record.to_str().unwrap()]);
    assert!(!record.exists() && !kept.exists() && page.is_file());
}

#[test]
fn a_killed_run_is_in_no_trend() {
    let here = store_of(&[40.0, 41.0, 42.0]);
    rewrite(&here, "2026-11-02T10-00-00-lab", |events| {
        events.pop().filter(|event| event["event"] == "footer").unwrap();
    });
    let shown = here.ends(0, &["trend", "selftest.fault"]);
    assert!(shown.out.contains("1 figure over 2 runs"), "{shown:?}");
    assert!(!shown.out.contains("2026-11-02"), "{shown:?}");
    assert!(shown.err.contains("1 run of"), "{shown:?}");
}

#[test]
fn runs_are_deleted_pruned_and_exported() {
    let here = store_of(&[40.0, 41.0, 42.0, 43.0]);
    here.ends(0, &["runs", "export", "2026-11-02", "--to", "two.jsonl"]);
    here.ends(0, &["report", "./two.jsonl", "--format", "json"]);
    assert_eq!(here.plumb(&["runs", "export", "--to", "all/"]).code, Some(0));
    assert_eq!(here.entries("all").len(), 4);
    // Another file is never written over, and a record's name is no directory's.
    let two = fs::read(here.path("two.jsonl")).unwrap();
    here.ends(2, &["runs", "export", "2026-11-03", "--to", "two.jsonl"]);
    assert_eq!(fs::read(here.path("two.jsonl")).unwrap(), two);
    here.ends(2, &["runs", "export", "--to", "three.jsonl"]);
    assert!(!here.path("three.jsonl").exists());

    assert_eq!(here.plumb(&["runs", "delete", "2026-11-02"]).code, Some(0));
    assert_eq!(listed(&here).len(), 3);
    assert_eq!(here.plumb(&["runs", "delete", "./two.jsonl"]).code, Some(2));
    assert_eq!(here.plumb(&["runs", "delete", "2026-11"]).code, Some(2));
    assert_eq!(here.plumb(&["runs", "prune"]).code, Some(2));
    assert_eq!(here.plumb(&["runs", "prune", "--keep", "2", "--dry-run"]).code, Some(0));
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
fn a_sheet_is_written_instead_of_a_record() {
    let here = Here::new();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/quick.jsonl.gz");
    fs::create_dir_all(here.path("store")).unwrap();
    fs::copy(&record, here.stored("2026-11-25T04-16-05-alice")).unwrap();
    here.ends(0, &["runs", "export", "last", "--sheet", "--to", "machine.sheet"]);
    let text = fs::read_to_string(here.path("machine.sheet")).unwrap();
    assert!(text.starts_with("plumb sheet 2\n"), "{text}");
    assert!(text.lines().filter(|line| line.starts_with("= ")).count() > 10);
    // The name of a run ends in the host's; a sheet's does not.
    here.ends(0, &["runs", "export", "--sheet", "--to", "sheets/"]);
    assert_eq!(here.entries("sheets"), ["2026-11-25T04-16-05.sheet"]);
    // Another file stays, the same one is as good.
    here.ends(0, &["runs", "export", "last", "--sheet", "--to", "machine.sheet"]);
    fs::write(here.path("machine.sheet"), "mine").unwrap();
    here.ends(2, &["runs", "export", "last", "--sheet", "--to", "machine.sheet"]);
    here.ends(3, &["runs", "export", "last", "--sheet", "--to", "/dev/full"]);
    assert_eq!(fs::read_to_string(here.path("machine.sheet")).unwrap(), "mine");
    // A rehearsal has no figures that mean something: refused by name, passed over among all.
    here.ends(0, &REHEARSAL);
    here.ends(2, &["runs", "export", "last", "--sheet", "--to", "rehearsal.sheet"]);
    let all = here.ends(0, &["runs", "export", "--sheet", "--to", "sheets/"]);
    assert_eq!((all.err.lines().count(), here.entries("sheets").len()), (1, 1));
}

#[test]
fn a_run_that_is_being_written_stays() {
    let here = store_of(&[40.0]);
    let record = File::open(here.record()).unwrap();
    record.lock().unwrap();
    here.ends(3, &["runs", "delete", "last"]);
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
    let json = here.ends(0, &["trend", "selftest.fault", "--format", "json"]);
    let result = json.json();
    let shifts = &result["trends"][0]["shifts"];
    assert_eq!(shifts.as_array().unwrap().len(), 1, "{shifts}");
    assert_eq!(shifts[0]["run"], "2026-11-13T10-00-00-lab");
    let ratio = shifts[0]["ratio"].as_f64().unwrap();
    assert!((ratio - 1.2).abs() < 0.01, "{ratio}");
    assert_eq!(shifts[0]["environment"][0]["name"], "kernel");
    let csv = here.plumb(&["trend", "selftest.fault", "--format", "csv"]);
    assert_eq!(csv.out.lines().count(), 25);
    for format in ["terminal", "markdown", "html"] {
        let shown = here.ends(0, &["trend", "selftest.fault", "--format", format]);
        assert!(shown.out.contains("2026-11-13T10-00-00-lab"), "{format}: {}", shown.out);
        // A terminal wraps the cell.
        let has = |part| shown.out.contains(part);
        assert!(["6.1 →", "6.2"].into_iter().all(has), "{format}: {}", shown.out);
    }
    // The figure has no better direction.
    for (rule, code) in
        [("changed:5%", 1), ("changed:30%", 0), ("slower", 0), ("changed@memory", 2)]
    {
        let args = ["trend", "selftest.fault", "--fail-on", rule, "-o", "/dev/null"];
        let judged = here.ends(code, &args);
        let is_reported = judged.err.contains("is changed since 2026-11-13T10:00:00Z");
        assert_eq!(is_reported, code == 1, "{judged:?}");
        assert!(judged.out.is_empty(), "{judged:?}");
    }
    // A figure that is there has other metrics; its experiment has other cases.
    let lacking = here.ends(2, &["trend", "selftest.fault:fault=none", "speed"]);
    assert!(lacking.err.contains("has a metric `speed`"), "{lacking:?}");
    let lacking = here.ends(2, &["report", "last", "selftest.fault:fault=panic"]);
    assert!(lacking.err.contains("fault=panic"), "{lacking:?}");
    let directory = here.ends(2, &["report", "./"]);
    assert!(directory.err.contains("./ is a directory"), "{directory:?}");
    let unknown = here.ends(2, &["trend", "selftest.folt"]);
    assert!(unknown.err.contains("`selftest.fault`"), "{unknown:?}");
    forget_figures(&here);
    let again = here.plumb(&["trend", "selftest.fault", "--format", "json"]);
    assert_eq!(again.out, json.out);
}

/// A store that may be read and not written: by another user than root, whom nothing is forbidden.
#[test]
fn a_read_only_store_is_read() {
    let here = store_of(&[40.0, 41.0]);
    let shown = here.plumb(&["runs"]).out;
    let reader = Stranger::new();
    for is_kept in [true, false] {
        if !is_kept {
            forget_figures(&here);
        }
        mode(here.path("store"), 0o555);
        let read = match &reader {
            Some(stranger) => stranger.plumb(&here, 64, &["runs"]),
            None => here.plumb(&["runs"]),
        };
        mode(here.path("store"), 0o755);
        assert_eq!((read.out, read.err.as_str()), (shown.clone(), ""), "{is_kept}");
        let run = "2026-11-01T10-00-00-lab";
        assert_eq!(figures_of(&here, run).exists(), is_kept);
    }
}

fn store_with_crosscheck() -> Here {
    let here = store_of(&[40.0, 41.0, 42.0]);
    let run = events(&here.stored("2026-11-01T10-00-00-lab"));
    let name = "2026-11-09T10-00-00-lab-crosscheck";
    here.store(&lines(&records::crosscheck_alone(&run, name, "2026-11-09T10:00:00Z")));
    here
}

#[test]
fn a_crosscheck_is_listed_as_what_it_is_and_is_no_run() {
    let here = store_with_crosscheck();
    let shown = here.plumb(&["runs"]);
    let line = shown.out.lines().find(|line| line.contains("-lab-crosscheck "));
    assert!(line.is_some_and(|line| line.contains("crosscheck of 5")), "{shown:?}");
    let all = listed(&here);
    assert_eq!(all[3]["preset"], "crosscheck");
    assert_eq!(all[3]["host"], "lab");
    assert_eq!(all[3]["crosscheck"]["missed"], 1);
    assert!(all[0].get("crosscheck").is_none());
    let name = |run: &str| {
        let report = here.plumb(&["report", run, "--format", "json"]).json();
        report["run"].as_str().unwrap().to_owned()
    };
    assert_eq!(name("last"), "2026-11-03T10-00-00-lab");
    assert_eq!(name("last-crosscheck"), "2026-11-09T10-00-00-lab-crosscheck");
    assert_eq!(name("2026-11-09"), "2026-11-09T10-00-00-lab-crosscheck");
    let trend = here.plumb(&["trend", "selftest.fault", "--format", "json"]).json();
    assert_eq!(trend["runs"].as_array().unwrap().len(), 3);
    let compared = here.plumb(&["compare", "2026-11-01"]);
    assert!(compared.out.contains("2026-11-03"), "{compared:?}");
    for (base, new) in [("2026-11-09", "last"), ("last", "last-crosscheck")] {
        let refused = here.ends(2, &["compare", base, new]);
        assert!(refused.err.contains("is a crosscheck"), "{refused:?}");
    }
    // It takes no run's place.
    let pruned = here.plumb(&["runs", "prune", "--keep", "2"]);
    assert_eq!(pruned.out.lines().count(), 1, "{pruned:?}");
    assert_eq!(listed(&here).len(), 3);
    for record in here.records() {
        if !record.to_str().unwrap().contains("crosscheck") {
            fs::remove_file(record).unwrap();
        }
    }
    here.ends(2, &["report"]);
}

#[test]
fn runs_have_names_and_repeats_and_last_knows_a_newer_record_elsewhere() {
    let here = Here::new();
    let named = [&REHEARSAL[..], &["--name", "before", "--repeat", "2"]].concat();
    let answer = here.ends(0, &named);
    assert!(answer.err.contains("run 2 of 2"), "{answer:?}");
    assert!(answer.err.contains("first rounds, stage 1: "), "a line for each phase: {answer:?}");
    let names: Vec<Value> = listed(&here).into_iter().map(|run| run["run"].clone()).collect();
    assert_eq!(names, ["before", "before-2"]);
    let answer = here.plumb(&["compare", "before", "before-2", "--fail-on", "never"]);
    assert!(answer.out.contains("B = before-2 against A = before"), "{answer:?}");
    assert_eq!(here.plumb(&["trend", "--name", "after"]).code, Some(2));
    let elsewhere = [&REHEARSAL[..], &["--out", "new.jsonl", "-q"]].concat();
    std::thread::sleep(Duration::from_millis(1100));
    here.ends(0, &elsewhere);
    let answer = here.ends(0, &["report", "last"]);
    assert!(answer.err.contains("a newer record"), "{answer:?}");
    let answer = here.plumb(&["run", "--name", "last"]);
    assert!(answer.code == Some(2) && answer.err.contains("not `last`"), "{answer:?}");
}

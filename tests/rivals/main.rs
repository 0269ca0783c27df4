//! A short crosscheck for real: every tool that Debian packages, beside plumb, in one turn each.
//! Its figures mean nothing; that each tool is found, run, read and ended does.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn every_packaged_tool_runs_beside_plumb() {
    // On a disk: below a directory in memory files are not measured.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let record = dir.path().join("crosscheck.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command
        .args(["crosscheck", "--preset", "rehearsal", "--json", "--out"])
        .arg(&record)
        .env("PLUMB_STORE", dir.path().join("store"))
        .env("TMPDIR", dir.path())
        .current_dir(dir.path())
        .stdin(Stdio::null());
    let done = command.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    eprintln!("{told}");
    assert_eq!(done.status.code(), Some(0));
    let flat: Value = serde_json::from_slice(&done.stdout).unwrap();
    let text = fs::read_to_string(&record).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["event"] == kind);
    for rival in of("rival") {
        let is_packaged = rival["package"].is_string();
        assert!(!is_packaged || rival["absent"].is_null(), "{rival}");
        if is_packaged {
            let name = &rival["name"];
            // hpcc would do all its work for an answer.
            assert!(rival["version"].is_string() || name == "hpcc", "{rival}");
            assert!(
                of("pairing").any(|pairing| pairing["rival"] == *name),
                "{name} has no pairing"
            );
        }
    }
    let mut measured = 0;
    for end in of("pairing_end") {
        let reason = end["reason"].as_str().unwrap_or_default();
        match end["outcome"].as_str().unwrap() {
            "measured" => measured += 1,
            "skipped" => assert!(!reason.is_empty(), "{end}"),
            _ => panic!("{end}"),
        }
    }
    for rival in of("rival").filter(|rival| rival["absent"].is_null()) {
        let name = &rival["name"];
        let is_measured = |end: &&Value| end["rival"] == *name && end["outcome"] == "measured";
        let is_measured = of("pairing_end").any(|end| is_measured(&end));
        // Without root some tools refuse all of their pairings.
        let needs_root =
            |end: &Value| end["needed"].as_str().is_some_and(|what| what.starts_with("root"));
        let mut ends = of("pairing_end").filter(|end| end["rival"] == *name);
        if !is_measured && metal::process::geteuid() != 0 && ends.all(needs_root) {
            skips::part("root", format!("{name}: all of its pairings need root"));
            continue;
        }
        assert!(is_measured, "{name}");
    }
    let rivals = flat["crosscheck"].as_array().unwrap().iter();
    let pairings = rivals.filter_map(|rival| rival["pairings"].as_array());
    let told: usize = pairings.map(Vec::len).sum();
    assert!(told >= measured, "the flat result has {told} of {measured}");
    for pair in of("pair") {
        let values = [&pair["ours"], &pair["theirs"]].map(|side| side.as_array().unwrap());
        assert_eq!(values[0].len(), values[1].len(), "{pair}");
        // A rehearsal's differences of tiny batches may be negative; a tool's values are not.
        let mut theirs = values[1].iter();
        assert!(theirs.all(|value| value.as_f64().unwrap() > 0.0), "{pair}");
    }
    nothing_is_left(dir.path());
}

/// No directory of it, and no process that it started.
fn nothing_is_left(dir: &Path) {
    let names =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with("plumb-")).collect();
    assert!(left.is_empty(), "{left:?}");
    let journal = fs::read_dir(dir.join("store/journal")).unwrap();
    assert_eq!(journal.count(), 0, "all directories are removed");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mark = format!("PLUMB_CROSSCHECK={}", dir.display());
        let is_marked = String::from_utf8_lossy(&environment).contains(&mark);
        assert!(!is_marked, "{} is left", entry.path().display());
    }
}

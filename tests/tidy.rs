//! Style as ordinary tests: rooms import by the table, files are listed, sizes hold.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms each room may import (DESIGN §2). `cmd` may import all, nothing imports `cmd`.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("stats", &["record"]),
    ("host", &["metal", "record"]),
    ("link", &["record"]),
    ("store", &["metal", "record"]),
    ("measure", &["metal", "stats", "record", "link", "host"]),
    ("experiment", &["host", "measure", "record", "link"]),
    ("predict", &["experiment", "host", "record"]),
    (
        "experiments",
        &[
            "experiment",
            "measure",
            "predict",
            "host",
            "stats",
            "record",
            "link",
            "metal",
        ],
    ),
    (
        "session",
        &[
            "experiment",
            "experiments",
            "host",
            "measure",
            "stats",
            "record",
            "link",
            "metal",
        ],
    ),
    // The agent checks what it is asked to serve against the catalogue.
    (
        "agent",
        &[
            "session",
            "experiment",
            "experiments",
            "host",
            "link",
            "metal",
            "record",
        ],
    ),
    (
        "published",
        &["experiment", "experiments", "host", "record"],
    ),
    // plumb's side is a run like any other, whose record is read as a report reads it.
    (
        "crosscheck",
        &[
            "analysis",
            "session",
            "experiment",
            "experiments",
            "host",
            "metal",
            "record",
        ],
    ),
    ("analysis", &["record", "stats"]),
    ("report", &["analysis", "record"]),
];

const ROOMS: &[&str] = &[
    "stats",
    "host",
    "link",
    "store",
    "measure",
    "experiment",
    "predict",
    "experiments",
    "session",
    "agent",
    "published",
    "crosscheck",
    "analysis",
    "report",
    "cmd",
    "metal",
    "record",
];

/// Lines that a source file may have.
const LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(below: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![below.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Whether a file is only compiled for tests.
fn is_test_file(file: &Path) -> bool {
    let names: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    names.iter().any(|name| {
        [
            "tests",
            "tests.rs",
            "laws",
            "laws.rs",
            "coverage.rs",
            "sample.rs",
        ]
        .contains(name)
    })
}

/// The part of a file before its tests: what runs.
fn body(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

#[test]
fn rooms_import_by_the_table() {
    let table: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    for file in sources(&root().join("src")) {
        let relative = file.strip_prefix(root().join("src")).unwrap();
        let first = relative.iter().next().unwrap().to_str().unwrap();
        let room = first.trim_end_matches(".rs");
        let Some(allowed) = table.get(room) else {
            assert!(
                ["cmd", "main"].contains(&room),
                "room {room} is missing in the table"
            );
            continue;
        };
        if is_test_file(relative) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in body(&text).lines().enumerate() {
            for other in ROOMS.iter().filter(|other| **other != room) {
                let imports = if ["metal", "record"].contains(other) {
                    line.contains(&format!("{other}::"))
                        && !line.contains(&format!("::{other}::"))
                        && !line.contains(&format!("_{other}::"))
                } else {
                    line.contains(&format!("crate::{other}::"))
                };
                let comment = line.trim_start().starts_with("//");
                if imports && !comment && !allowed.contains(other) {
                    wrong.push(format!(
                        "{}:{}: {room} imports {other}",
                        relative.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows point one way (DESIGN §2):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_experiment_file_is_listed() {
    for family in fs::read_dir(root().join("src/experiments")).unwrap() {
        let family = family.unwrap().path();
        // Beside the families stand laws over all of them, which are tests.
        if !family.is_dir() || is_test_file(&family) {
            continue;
        }
        let list = fs::read_to_string(family.join("mod.rs")).unwrap();
        for file in sources(&family) {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            // Below a family's directory are the parts of one experiment.
            if name == "mod" || file.parent() != Some(family.as_path()) {
                continue;
            }
            let listed = list.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#'));
            assert!(
                listed
                    .map(|word| word.trim_start_matches("r#"))
                    .any(|word| word == name),
                "{} is not in its family's list",
                file.display()
            );
        }
    }
}

#[test]
fn files_are_not_long() {
    let mut long = Vec::new();
    for dir in ["src", "crates", "tests"] {
        for file in sources(&root().join(dir)) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            if lines > LINES_MAX {
                long.push(format!("{}: {lines} lines", file.display()));
            }
        }
    }
    assert!(
        long.is_empty(),
        "over {LINES_MAX} lines:\n{}",
        long.join("\n")
    );
}

#[test]
fn unsafe_is_in_metal_only() {
    for (dir, file) in [("src", "main.rs"), ("crates/record/src", "lib.rs")] {
        let text = fs::read_to_string(root().join(dir).join(file)).unwrap();
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{dir}/{file} forbids unsafe code"
        );
    }
}

#[test]
fn no_room_has_a_name_that_says_nothing() {
    for dir in ["src", "crates"] {
        for file in sources(&root().join(dir)) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            assert!(
                !["util", "utils", "common", "helpers", "misc"].contains(&name),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = [
        "todo!(",
        "unimplemented!(",
        "FIX\u{4d}E",
        "TO\u{44}O",
        "#[ign\u{6f}re",
    ];
    for dir in ["src", "crates"] {
        for file in sources(&root().join(dir)) {
            let text = fs::read_to_string(&file).unwrap();
            for mark in marks {
                assert!(!text.contains(mark), "{} has {mark}", file.display());
            }
        }
    }
}

/// What a test skips is said by `crates/skips` and by nothing else, for kinds that are listed and used.
#[test]
fn what_is_skipped_is_said_in_one_way() {
    let list = fs::read_to_string(root().join("tests/skips.txt")).unwrap();
    let listed: BTreeSet<&str> = list
        .lines()
        .map(|line| line.split_once(": ").expect("a kind and its reason").0)
        .collect();
    assert!(list.lines().is_sorted() && listed.len() == list.lines().count());
    // scripts/test has this one of its own.
    let mut used = BTreeSet::from(["kernel-package".to_owned()]);
    for dir in ["src", "crates", "tests"] {
        for file in sources(&root().join(dir)) {
            let text = fs::read_to_string(&file).unwrap();
            if file.starts_with(root().join("crates/skips")) || file.ends_with("tests/tidy.rs") {
                continue;
            }
            for print in text.split("println!(").skip(1) {
                let says = print.trim_start().trim_start_matches('"');
                assert!(!says.starts_with("skipped"), "{}", file.display());
            }
            for call in ["skips::test(", "skips::part("] {
                for call in text.split(call).skip(1) {
                    let quoted = call.trim_start().strip_prefix('"');
                    let kind = quoted.and_then(|text| text.split('"').next());
                    used.insert(kind.expect("a kind as a literal").to_owned());
                }
            }
        }
    }
    let used: BTreeSet<&str> = used.iter().map(String::as_str).collect();
    assert_eq!(used, listed, "tests/skips.txt lists what is used");
}

//! Style that Cargo and the compiler cannot hold, as ordinary tests: files are listed, sizes hold.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a source file may have.
const LINES_MAX: usize = 500;

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

#[test]
fn every_experiment_file_is_listed() {
    let families: Vec<PathBuf> = ["exp-core", "exp-fs", "exp-net", "exp-os"]
        .iter()
        .flat_map(|of| fs::read_dir(root().join("crates").join(of).join("src")).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(families.len(), 8, "{families:?}");
    for family in families {
        let list = fs::read_to_string(family.join("mod.rs")).unwrap();
        for file in sources(&family) {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            // Below a family's directory are the parts of one experiment.
            if name == "mod" || file.parent() != Some(family.as_path()) {
                continue;
            }
            let listed = list.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '#'));
            assert!(
                listed.map(|word| word.trim_start_matches("r#")).any(|word| word == name),
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
    assert!(long.is_empty(), "over {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn unsafe_is_in_metal_only() {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let roots = crates
        .map(|entry| entry.unwrap().path())
        .filter(|of| !of.ends_with("metal"))
        .map(|of| of.join("src/lib.rs"))
        .chain([root().join("src/main.rs")]);
    for file in roots {
        let text = fs::read_to_string(&file).unwrap();
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert!(forbids, "{} forbids unsafe code", file.display());
    }
}

/// Names of files that say nothing of what is in them.
const SAYS_NOTHING: [&str; 9] =
    ["cases", "common", "figures", "helpers", "misc", "parts", "told", "util", "utils"];

#[test]
fn no_room_has_a_name_that_says_nothing() {
    for dir in ["src", "crates"] {
        for file in sources(&root().join(dir)) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            assert!(!SAYS_NOTHING.contains(&name), "{}", file.display());
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = ["todo!(", "unimplemented!(", "FIX\u{4d}E", "TO\u{44}O", "#[ign\u{6f}re"];
    for dir in ["src", "crates"] {
        for file in sources(&root().join(dir)) {
            let text = fs::read_to_string(&file).unwrap();
            for mark in marks {
                assert!(!text.contains(mark), "{} has {mark}", file.display());
            }
        }
    }
}

/// Phrases that READER.md (Language) replaces. Pages that users read have none of them.
const NOT_PLAIN: [&str; 10] = [
    " is told",
    " are told",
    " was told",
    " nobody ",
    "nobody told",
    " is none",
    " of which ",
    " in vain",
    " of it ",
    " of it.",
];

#[test]
fn pages_for_users_are_in_plain_english() {
    let docs = ["README.md", "docs/DATA.md", "docs/SHARING.md", "docs/REPORTS.md"];
    let guide = fs::read_dir(root().join("docs/guide")).unwrap();
    let guide = guide.map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for page in docs.iter().map(|page| root().join(page)).chain(guide) {
        let text = fs::read_to_string(&page).unwrap().to_lowercase();
        let has = NOT_PLAIN.iter().filter(|phrase| text.contains(**phrase));
        found.extend(has.map(|phrase| format!("{}:{phrase}", page.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// What a test skips is said by `crates/skips` and by nothing else, for kinds that are listed and
/// used.
#[test]
fn what_is_skipped_is_said_in_one_way() {
    let list = fs::read_to_string(root().join("tests/skips.txt")).unwrap();
    let listed: BTreeSet<&str> =
        list.lines().map(|line| line.split_once(": ").expect("a kind and its reason").0).collect();
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

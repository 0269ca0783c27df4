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
        .chain([root().to_owned()])
        .map(|of| of.join("src/lib.rs"))
        .chain([root().join("src/main.rs")]);
    for file in roots {
        let text = fs::read_to_string(&file).unwrap();
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert!(forbids, "{} forbids unsafe code", file.display());
    }
}

/// Loops that a figure times say how they are compiled, and stand in modules called `timed`, whose
/// head says what may not change.
#[test]
fn timed_code_has_a_place() {
    let of_experiments = ["exp-core", "exp-fs", "exp-net", "exp-os"];
    let is_timed = |file: &Path| file.iter().any(|part| part == "timed" || part == "timed.rs");
    let mut modules = 0;
    for file in of_experiments.iter().flat_map(|of| sources(&root().join("crates").join(of))) {
        let text = fs::read_to_string(&file).unwrap();
        let has_mark = text.lines().any(|line| line.trim_start().starts_with("#[inline"));
        assert!(!has_mark || is_timed(&file), "{} times outside of `timed`", file.display());
        if file.ends_with("timed.rs") {
            assert!(text.contains("//! Timed code: "), "{} has no head", file.display());
            modules += 1;
        }
    }
    assert!(modules >= 9, "{modules}");
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

/// Words that a doc comment has at least.
const DOC_WORDS_MIN: usize = 4;

/// Doc comments with too few words, outside items whose docs feed help, schemas or parameters.
fn short_docs(source: &str) -> Vec<String> {
    const FED_BY_MACRO: [&str; 3] = ["case! {", "rows! {", "symbols! {"];
    const FED_BY_DERIVE: [&str; 5] = ["Args", "JsonSchema", "Parser", "Subcommand", "ValueEnum"];
    let mut short = Vec::new();
    let (mut doc, mut closing): (Option<String>, Option<String>) = (None, None);
    let mut is_fed = false;
    for line in source.lines() {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if let Some(more) = text.strip_prefix("///") {
            doc.get_or_insert_default().push_str(more);
            continue;
        }
        let words = doc.take().map(|doc| (doc.split_whitespace().count(), doc));
        is_fed |= text.starts_with("#[") && FED_BY_DERIVE.iter().any(|one| text.contains(one));
        let is_macro = FED_BY_MACRO.iter().any(|one| text.contains(one));
        if closing.is_none() && !text.starts_with("#[") && (is_fed || is_macro) {
            closing = line.ends_with('{').then(|| format!("{indent}}}"));
            is_fed = false;
        } else if closing.as_deref() == Some(line) {
            closing = None;
        } else if let (None, Some((0..DOC_WORDS_MIN, doc))) = (&closing, words) {
            short.push(doc.trim().to_owned());
        }
    }
    short
}

#[test]
fn short_docs_are_found_where_they_feed_nothing() {
    let source = "/// Two words.\nfn one() {}\n/// Two lines\n/// of four.\nfn two() {}\n\
        #[derive(Clone, Args)]\nstruct Args {\n    /// Its help.\n    one: u8,\n}\n\
        case! {\n    struct Case {\n        /// Bytes.\n        size: u64,\n    }\n}\n/// It.\nfn end() {}";
    assert_eq!(short_docs(source), ["Two words.", "It."]);
}

#[test]
fn a_doc_comment_has_four_words() {
    let files = ["crates", "src"].into_iter().flat_map(|dir| sources(&root().join(dir)));
    let short = files.flat_map(|file| {
        let short = short_docs(&fs::read_to_string(&file).unwrap());
        short.into_iter().map(move |doc| format!("{}: {doc}", file.display()))
    });
    let short: Vec<String> = short.collect();
    assert!(
        short.is_empty(),
        "give units, shapes, errors or why, or nothing:\n{}",
        short.join("\n")
    );
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

/// Where string literals and experiments' manuals are in plain English.
const IN_PLAIN_ENGLISH: &[&str] = &[
    "src",
    "crates/analysis",
    "crates/bench",
    "crates/catalogue",
    "crates/crosscheck",
    "crates/exp-core",
    "crates/exp-fs",
    "crates/exp-net",
    "crates/exp-os",
    "crates/fleet",
    "crates/host",
    "crates/laws",
    "crates/metal",
    "crates/record",
    "crates/report",
    "crates/session",
    "crates/stats",
];

/// Phrases that READER.md (Language) replaces.
const NOT_PLAIN: [&str; 15] = [
    "told",
    "tells",
    "nobody",
    "who",
    "whom",
    "of it",
    "of which",
    "is none",
    "are none",
    "in vain",
    "otherwise than",
    "it is that",
    "is had",
    "be had",
    "written from memory",
];

/// The phrases of a text that are not plain. Code (`` `told` ``) and values (`{told}`) are no prose.
fn not_plain(text: &str) -> Vec<&'static str> {
    let mut prose = String::from(" ");
    let mut is_code = false;
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '`' => is_code = !is_code,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if is_code || depth > 0 => {}
            _ if c.is_alphanumeric() || c == '_' => prose.extend(c.to_lowercase()),
            // A phrase ends where a thought does.
            '.' | ',' | ';' | ':' | '(' | ')' => prose.push_str(" . "),
            _ if prose.ends_with(' ') => {}
            _ => prose.push(' '),
        }
    }
    prose.push(' ');
    NOT_PLAIN.into_iter().filter(|phrase| prose.contains(&format!(" {phrase} "))).collect()
}

#[test]
fn phrases_are_found_in_prose_alone() {
    let text = "which Nobody told; it\\\n    is not to be had";
    assert_eq!(not_plain(text), ["told", "nobody", "be had"]);
    assert!(not_plain("half of its time, `told` or {told}, of item, a part of. It").is_empty());
}

/// What users read of a source: its string literals (single words are identifiers), and its manual if it is an experiment's. Tests
/// at its end are left out.
fn user_text(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\n").next().unwrap();
    let lines = |is_comment: bool| {
        let is_one = |line: &&str| line.trim_start().starts_with("//") == is_comment;
        source.lines().filter(is_one).collect::<Vec<_>>().join("\n")
    };
    let code = lines(false).replace(r"\\", "").replace("'\"'", "").replace("\\\"", "'");
    let mut texts: Vec<String> = code
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.contains(' '))
        .map(ToOwned::to_owned)
        .collect();
    if source.contains("//! ## Question") {
        let manual = source.lines().filter_map(|line| line.strip_prefix("//!"));
        texts.push(manual.collect::<Vec<_>>().join("\n"));
    }
    texts
}

#[test]
fn what_users_read_is_in_plain_english() {
    let mut found = Vec::new();
    let mut check = |path: &Path, text: &str| {
        for phrase in not_plain(text) {
            let text: String = text.chars().take(100).collect();
            found.push(format!("{}: `{phrase}`: {text}", path.display()));
        }
    };
    let is_test = |path: &Path| {
        let path = path.to_str().unwrap();
        ["tests.rs", "/tests/", "/fixtures"].iter().any(|part| path.contains(part))
    };
    for dir in IN_PLAIN_ENGLISH {
        for file in sources(&root().join(dir)).into_iter().filter(|file| !is_test(file)) {
            for text in user_text(&fs::read_to_string(&file).unwrap()) {
                check(&file, &text);
            }
        }
    }
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    // EXPERIMENTS.md has the manuals of all families, which are checked where they are written.
    let docs =
        ["docs", "docs/guide"].iter().flat_map(|dir| fs::read_dir(root().join(dir)).unwrap());
    let docs = docs.map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "md") && !path.ends_with("EXPERIMENTS.md")
    };
    for page in pages.into_iter().chain(docs.filter(is_page)) {
        for line in fs::read_to_string(&page).unwrap().split("\n\n") {
            check(&page, line);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a test skips is said by `crates/skips` and by nothing else, for kinds that are listed and
/// used.
#[test]
fn what_is_skipped_is_said_in_one_way() {
    let list = fs::read_to_string(root().join("tests/skips.txt")).unwrap();
    let listed: BTreeSet<&str> =
        list.lines().map(|line| line.split_once(": ").expect("a kind and its reason").0).collect();
    assert!(list.lines().is_sorted() && listed.len() == list.lines().count());
    // scripts/test has these of its own.
    let mut used = BTreeSet::from(["kernel-package", "program"].map(str::to_owned));
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
